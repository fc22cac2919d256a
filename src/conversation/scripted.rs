//! A model that answers by a script.

use std::collections::VecDeque;
use std::sync::Arc;

use parking_lot::Mutex;
use serde_json::Value;

use super::model::{Asking, Model, ModelError};
use crate::message::{AiMessage, ToolCall};
use crate::prompt::Prompt;
use crate::turn::Reply;
use crate::wire::Event;

/// A model for tests and first programs: it answers by a script, and records the prompts that it
/// gets. Clones share both.
///
/// ```
/// use memory_prompt::conversation::{Conversation, Scripted};
/// use memory_prompt::{DefaultChatMemory, MemoryPrompt};
///
/// let model = Scripted::new().says("Hello.").fails("overloaded");
/// let prompt = MemoryPrompt::new(DefaultChatMemory::new());
/// let conversation = Conversation::new(prompt, model.clone());
/// assert_eq!(conversation.say("Hi.")?.text(), "Hello.");
/// assert!(conversation.say("How are you?").is_err());
/// assert_eq!(model.asked()[1].len(), 3); // the first turn, and the second question
/// # Ok::<(), memory_prompt::Error>(())
/// ```
#[derive(Clone, Debug, Default)]
pub struct Scripted(Arc<Mutex<Script>>);

#[derive(Debug, Default)]
struct Script {
    steps: VecDeque<Result<Reply, String>>,
    calls: usize,
    asked: Vec<Prompt>,
}

impl Scripted {
    /// Creates a model with an empty script; to ask it more often than the script has answers is an
    /// error.
    pub fn new() -> Self {
        Self::default()
    }

    /// Adds an answer to the script: a text, a message or an answer of `wire`.
    #[must_use]
    pub fn says(self, reply: impl Into<Reply>) -> Self {
        self.then(Ok(reply.into()))
    }

    /// Adds a call of this tool to the script.
    #[must_use]
    pub fn calls(self, tool: impl Into<String>, arguments: impl Into<Value>) -> Self {
        let number = {
            let mut script = self.0.lock();
            script.calls += 1;
            script.calls
        };
        let call = ToolCall::new(format!("call_{number}"), tool, arguments.into().to_string());
        self.says(AiMessage::from_parts([call]))
    }

    /// Adds a failure with this text to the script.
    #[must_use]
    pub fn fails(self, text: impl Into<String>) -> Self {
        self.then(Err(text.into()))
    }

    /// Returns the prompts that it got.
    pub fn asked(&self) -> Vec<Prompt> {
        self.0.lock().asked.clone()
    }

    fn then(self, step: Result<Reply, String>) -> Self {
        self.0.lock().steps.push_back(step);
        self
    }

    fn next(&self, ask: &Asking<'_>) -> Result<Reply, ModelError> {
        let step = {
            let mut script = self.0.lock();
            script.asked.push(ask.prompt().clone());
            script.steps.pop_front()
        };
        let reply = step.ok_or("the script of the model is over")??;
        for piece in reply.message.text().split_inclusive(' ') {
            ask.tell(Event::Text(piece.to_owned()))?;
        }
        Ok(reply)
    }
}

impl Model for Scripted {
    fn ask(&self, ask: &Asking<'_>) -> Result<Reply, ModelError> {
        self.next(ask)
    }
}

#[cfg(feature = "async")]
impl super::AsyncModel for Scripted {
    fn ask(&self, ask: Asking<'static>) -> crate::memory::BoxFuture<'_, Result<Reply, ModelError>> {
        Box::pin(async move { self.next(&ask) })
    }
}
