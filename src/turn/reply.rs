//! The answer of a model as a turn takes it: a message and what it cost.

use crate::message::{AiMessage, Message};
use crate::wire::{Answer, Metadata, Stop, Usage};

/// The answer of a model, as a [turn](super::Turn::answer) takes it.
///
/// An answer that was read with [`wire`](crate::wire) converts into a reply. So does a message or a
/// text alone; its usage is then unknown.
#[derive(Clone, Debug, PartialEq)]
#[non_exhaustive]
pub struct Reply {
    /// The message, which must be one of a model.
    pub message: Message,
    /// The number of tokens, as far as it is known.
    pub usage: Usage,
    /// The reason why the answer ended, if it is known.
    pub stop: Option<Stop>,
    /// What else the provider reported with the message.
    pub metadata: Metadata,
}

impl From<Message> for Reply {
    fn from(message: Message) -> Self {
        Self { message, usage: Usage::default(), stop: None, metadata: Metadata::default() }
    }
}

impl From<AiMessage> for Reply {
    fn from(message: AiMessage) -> Self {
        Message::Ai(message).into()
    }
}

impl From<Answer> for Reply {
    fn from(answer: Answer) -> Self {
        let Answer { message, usage, stop, metadata, .. } = answer;
        Self { message: Message::Ai(message), usage, stop: Some(stop), metadata }
    }
}

impl From<&str> for Reply {
    fn from(text: &str) -> Self {
        Message::ai(text).into()
    }
}

impl From<String> for Reply {
    fn from(text: String) -> Self {
        Message::ai(text).into()
    }
}
