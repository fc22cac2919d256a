//! Two ready tools with which a model reads what its prompt does not show.
//!
//! [`ReadBack`] reads one message in pieces, for example one that was [cleared](crate::Clear), cut,
//! or is older than the window. [`SearchHistory`] finds messages by words, and quotes them. Neither
//! changes anything, and each answers every call: an unknown position, or arguments that can't be
//! parsed, are answered with a text that says so.
//!
//! Both return what is stored: a [processor](crate::truncate::TruncateProcessor) that cuts or drops
//! messages of a prompt does not see their results. Don't give these tools to a model from which
//! something must be kept.
//!
//! ```
//! use memory_prompt::recall::tools::{ReadBack, SearchHistory};
//! use memory_prompt::{Clear, DefaultChatMemory, MemoryPrompt, Message, ToolCall};
//!
//! let (read_back, search) = (ReadBack::new(), SearchHistory::new());
//! let mut prompt = MemoryPrompt::new(DefaultChatMemory::new())
//!     .clear(Clear::tool_results().keep(1).step(1))
//!     .tools([read_back.tool(), search.tool()]);
//! prompt.add(Message::user("Compare the two files."))?;
//! for (id, word) in [("a", "zebra "), ("b", "gnu ")] {
//!     prompt.add(Message::ai_calls([ToolCall::new(id, "read", "{}")]))?;
//!     prompt.add(Message::tool(id, "read", word.repeat(100)))?;
//! }
//! assert_eq!(prompt.build()?[2].text(), "[Not shown here: 600 characters in message 2.]");
//!
//! // The model calls read_back, and your own loop runs it:
//! let text = read_back.run(prompt.memory(), r#"{"message": 2}"#)?;
//! assert!(text.starts_with("Message 2, result of \"read\", 600 characters:\nzebra zebra"));
//! let text = search.run(prompt.memory(), r#"{"query": "zebra"}"#)?;
//! assert!(text.contains("zebra"));
//! # Ok::<(), memory_prompt::Error>(())
//! ```
//!
//! In a [`Conversation`](crate::Conversation), or with a [`Turn`](crate::Turn), `run_call` also
//! finds messages of the turn that are not stored yet:
//!
//! ```
//! use std::sync::Arc;
//!
//! use memory_prompt::conversation::{Conversation, Scripted};
//! use memory_prompt::recall::tools::ReadBack;
//! use memory_prompt::{DefaultChatMemory, MemoryPrompt};
//! use serde_json::json;
//!
//! let prompt = MemoryPrompt::new(DefaultChatMemory::new());
//! let (read_back, memory) = (ReadBack::new(), Arc::clone(prompt.memory()));
//! let model = Scripted::new().calls("read_back", json!({"message": 0})).says("You said hello.");
//! let conversation = Conversation::new(prompt, model)
//!     .tool_call(read_back.tool(), move |call| read_back.run_call(&memory, call));
//! let done = conversation.say("Hello!")?;
//! assert_eq!(done.messages[2].text(), "Message 0, user, 6 characters:\nHello!");
//! # Ok::<(), memory_prompt::Error>(())
//! ```
//!
//! Both read everything that the memory holds of the conversation, except system messages and the
//! application's own records. To keep something from the model for good, evict it from the memory.

mod read_back;
mod search;

use serde_json::Value;

use crate::error::Result;
#[cfg(feature = "async")]
use crate::memory::AsyncChatMemory;
use crate::memory::ChatMemory;
use crate::record::Records;

pub use read_back::ReadBack;
pub use search::SearchHistory;

/// Adds the methods that run a tool over a memory alone. In a turn, it also sees what is not stored
/// yet.
macro_rules! runs {
    ($(#[$documentation:meta])* $tool:ident) => {
        impl $tool {
            $(#[$documentation])*
            ///
            /// # Errors
            ///
            /// Same as [`ChatMemory::read_with`].
            pub fn run(
                &self,
                memory: &(impl ChatMemory + ?Sized),
                arguments: &str,
            ) -> Result<String> {
                self.run_with_staged(memory, (&Records::default(), None), arguments)
            }

            /// The async version of `run`.
            ///
            /// # Errors
            ///
            /// Same as [`AsyncChatMemory::read_with`].
            #[cfg(feature = "async")]
            pub async fn run_async(
                &self,
                memory: &(impl AsyncChatMemory + ?Sized),
                arguments: &str,
            ) -> Result<String> {
                self.run_with_staged_async(memory, (&Records::default(), None), arguments).await
            }
        }

        impl Default for $tool {
            fn default() -> Self {
                Self::new()
            }
        }
    };
}

runs! {
    /// Returns the answer to a call with these arguments: the text, or why there is none.
    ReadBack
}
runs! {
    /// Returns the answer to a call with these arguments: quotes, or that nothing was found.
    SearchHistory
}

fn read_arguments(arguments: &str) -> Value {
    serde_json::from_str(arguments).unwrap_or_default()
}

/// Returns a number, which some models write as a string or as a float.
fn number(value: &Value) -> Option<u64> {
    let text = value.as_str().map_or_else(|| value.to_string(), str::to_owned);
    text.trim().trim_end_matches(".0").parse().ok()
}
