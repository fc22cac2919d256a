//! ollama-rs' types, of version 0.3.6, and its chat history.
//!
//! ```
//! use memory_prompt_clients::ollama_rs::History;
//! use memory_prompt::{DefaultChatMemory, MemoryPrompt};
//! use ollama_rs::generation::chat::ChatMessage;
//! use ollama_rs::history::ChatHistory;
//!
//! let prompt = MemoryPrompt::new(DefaultChatMemory::new()).system("Be brief.").max_messages(10);
//! let mut history = History::new(prompt);
//!
//! // What `Ollama::send_chat_messages_with_history` and its `Coordinator` do.
//! history.push(ChatMessage::user("hi".to_owned()));
//! assert_eq!(history.messages().len(), 2);
//! history.push(ChatMessage::assistant("Hello.".to_owned()));
//! history.check()?;
//! # Ok::<(), memory_prompt::Error>(())
//! ```
//!
//! # What is lost
//!
//! What [`wire::ollama`](memory_prompt::wire::ollama) loses, and what these types have no field
//! for: the ids of calls, and which call a tool message answers. Calls get ids of their position in
//! the conversation, and results are taken to come in the order of the calls.

use std::borrow::Cow;

use ollama_rs::generation::chat::{ChatMessage, MessageRole};
use ollama_rs::history::ChatHistory;
use serde_json::json;

use memory_prompt::MemoryPrompt;
use memory_prompt::error::{Error, ErrorKind, Result};
use memory_prompt::message::Message;
use memory_prompt::wire::ollama;

/// Returns a view of messages as the messages of a request.
///
/// # Errors
///
/// [`ErrorKind::Unsupported`] where these types have no place for something.
pub fn messages(view: &ollama::Messages<'_>) -> Result<Vec<ChatMessage>> {
    // Without the cause, which quotes what was said.
    let refused = |_| {
        let text = "something has no place in its types";
        Error::new(ErrorKind::Unsupported, "write ollama-rs messages", text)
    };
    let value = serde_json::to_value(view).map_err(refused)?;
    serde_json::from_value(value).map_err(refused)
}

/// Returns the message of a response, to be remembered, with calls named after the response's
/// `created_at`.
///
/// # Errors
///
/// [`ErrorKind::Codec`] where it is none, as for [`ollama::answer`].
pub fn answer(message: &ChatMessage, created_at: &str) -> Result<Message> {
    let body = json!({"message": message, "created_at": created_at});
    ollama::answer(body.to_string()).map(Message::from)
}

/// A prompt as the history that ollama-rs keeps a conversation in.
///
/// What is pushed goes into the prompt's memory, and its messages are the prompt, composed: the
/// window, truncation and everything else apply. Temporaries are part of it until they are cleared.
///
/// The trait has no place for errors. The first one is kept for [`check`](Self::check): a message
/// that could not be stored is lost, and a prompt that could not be composed is empty.
#[derive(Debug)]
pub struct History {
    prompt: MemoryPrompt,
    failed: Option<Error>,
}

impl History {
    /// Returns the history that this prompt composes.
    pub fn new(prompt: MemoryPrompt) -> Self {
        Self { prompt, failed: None }
    }

    /// Returns the prompt, for example to add temporaries.
    pub fn prompt(&mut self) -> &mut MemoryPrompt {
        &mut self.prompt
    }

    /// Checks that all that was pushed is stored, and that the prompt can be composed.
    ///
    /// # Errors
    ///
    /// The first error since the last call, or the one that keeps the prompt from being composed.
    pub fn check(&mut self) -> Result<()> {
        match self.failed.take() {
            Some(error) => Err(error),
            None => self.composed().map(drop),
        }
    }

    fn composed(&self) -> Result<Vec<ChatMessage>> {
        messages(&ollama::messages(&self.prompt.preview()?))
    }

    fn store(&self, message: &ChatMessage) -> Result<()> {
        let message = match message.role {
            MessageRole::Tool => self.result(&message.content)?,
            MessageRole::Assistant => {
                let end = self.prompt.memory().read(None, 0)?.end;
                answer(message, &end.to_string())?
            }
            MessageRole::System | MessageRole::User => {
                let mut read = ollama::history(json!([message]).to_string())?;
                let Some(message) = read.pop() else { return Ok(()) };
                message
            }
        };
        self.prompt.add(message).map(drop)
    }

    /// Returns the result of the first call that waits for one.
    fn result(&self, content: &str) -> Result<Message> {
        let mut n = 16;
        loop {
            let recent = self.prompt.memory().read(None, n)?;
            let after =
                recent.records.messages().rev().take_while(|m| m.as_tool().is_some()).count();
            let asked = recent.records.messages().rev().nth(after).and_then(Message::as_ai);
            if let Some(call) = asked.and_then(|asked| asked.tool_calls().nth(after)) {
                return Ok(Message::tool(call.id.as_str(), call.name.as_str(), content));
            }
            if after < n {
                let text = "a tool message that answers no call";
                return Err(Error::new(ErrorKind::ToolGroup, "push into history", text));
            }
            n *= 2;
        }
    }
}

impl ChatHistory for History {
    fn push(&mut self, message: ChatMessage) {
        if let Err(error) = self.store(&message) {
            self.failed.get_or_insert(error);
        }
    }

    fn messages(&self) -> Cow<'_, [ChatMessage]> {
        // `check` tells what went wrong.
        Cow::Owned(self.composed().unwrap_or_default())
    }
}
