//! Reading back and searching a turn that is not stored yet.

use super::{Call, ToolError};
use crate::memory::ChatMemory;
use crate::recall::tools::{ReadBack, SearchHistory};

macro_rules! runs_calls {
    ($(#[$documentation:meta])* $tool:ident) => {
        impl $tool {
            $(#[$documentation])*
            pub fn run_call(
                &self,
                memory: &(impl ChatMemory + ?Sized),
                call: &Call,
            ) -> Result<String, ToolError> {
                Ok(self.run_with_staged(memory, (&call.staged, call.on), call.arguments())?)
            }

            /// Does the same over an async memory.
            ///
            /// # Errors
            ///
            /// As [`run_call`](Self::run_call).
            #[cfg(feature = "async")]
            pub async fn run_call_async(
                &self,
                memory: &(impl crate::memory::AsyncChatMemory + ?Sized),
                call: &Call,
            ) -> Result<String, ToolError> {
                let staged = (&call.staged, call.on);
                Ok(self.run_with_staged_async(memory, staged, call.arguments()).await?)
            }
        }
    };
}

runs_calls! {
    /// Runs this call and returns its result, for [`Turn::result`](super::Turn::result). It can
    /// also read the turn's own messages, which are not stored yet, at the positions that its
    /// prompts give.
    ///
    /// ```
    /// use memory_prompt::recall::tools::ReadBack;
    /// use memory_prompt::turn::Next;
    /// use memory_prompt::{Clear, DefaultChatMemory, MemoryPrompt, Message, Tool, ToolCall};
    ///
    /// let read_back = ReadBack::new();
    /// let mut prompt = MemoryPrompt::new(DefaultChatMemory::new())
    ///     .clear(Clear::tool_results().keep(1).step(1));
    /// let load = Tool::new("load", "Loads the next page.");
    /// let mut turn = prompt.turn(Message::user("Which page is longer?"))
    ///     .tools([load, read_back.tool()]);
    /// # let mut answers = vec![
    /// #     Message::ai("The first one."),
    /// #     Message::ai_calls([ToolCall::new("3", "read_back", r#"{"message": 2}"#)]),
    /// #     Message::ai_calls([ToolCall::new("2", "load", "{}")]),
    /// #     Message::ai_calls([ToolCall::new("1", "load", "{}")]),
    /// # ];
    /// # let mut model = |_: &memory_prompt::turn::Ask| answers.pop().unwrap();
    /// let done = loop {
    ///     match turn.next(&prompt)? {
    ///         Next::Ask(ask) => turn.answer(model(&ask))?,
    ///         Next::Call(calls) => {
    ///             for call in calls {
    ///                 let result = match call.name() {
    ///                     "read_back" => read_back.run_call(prompt.memory(), &call),
    ///                     _ => Ok("many words ".repeat(50)),
    ///                 };
    ///                 turn.result(call.id(), result)?;
    ///             }
    ///         }
    ///         Next::Done(done) => break done,
    ///     }
    /// };
    /// // Message 2 was cleared by then, and is stored only now.
    /// assert!(done.messages[6].text().starts_with("Message 2, result of \"load\", 550 characters:"));
    /// # Ok::<(), memory_prompt::Error>(())
    /// ```
    ///
    /// # Errors
    ///
    /// A [`ToolError`] if the memory fails.
    ReadBack
}

runs_calls! {
    /// Runs this call and returns its result, for [`Turn::result`](super::Turn::result). It also
    /// searches the turn's own messages, which are not stored yet, and quotes them after the
    /// others.
    ///
    /// ```
    /// use memory_prompt::conversation::{Conversation, Scripted};
    /// use memory_prompt::recall::tools::SearchHistory;
    /// use memory_prompt::{DefaultChatMemory, MemoryPrompt, Tool};
    /// use serde_json::json;
    /// use std::sync::Arc;
    ///
    /// let prompt = MemoryPrompt::new(DefaultChatMemory::new());
    /// let (search, memory) = (SearchHistory::new(), Arc::clone(prompt.memory()));
    /// let model = Scripted::new()
    ///     .calls("weather", json!({}))
    ///     .calls("search_history", json!({"query": "hail"}))
    ///     .says("Hail.");
    /// let conversation = Conversation::new(prompt, model)
    ///     .tool(Tool::new("weather", "Tells the weather.").repeatable(), |_: serde_json::Value| {
    ///         Ok("hail by noon")
    ///     })
    ///     .tool_call(search.tool(), move |call| search.run_call(&memory, call));
    /// let done = conversation.say("How is the weather?")?;
    /// assert!(done.messages[4].text().contains("hail by noon"));
    /// # Ok::<(), memory_prompt::Error>(())
    /// ```
    ///
    /// # Errors
    ///
    /// A [`ToolError`] if the memory fails.
    SearchHistory
}
