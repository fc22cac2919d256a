//! The system message.

use super::Message;
use super::content::tight;
use super::details::{Attributes, Details, detailed};

/// The instructions to the model: text.
#[derive(Clone, Debug, PartialEq, Eq, Hash)]
pub struct SystemMessage {
    pub(crate) text: String,
    pub(crate) details: Details,
}

impl SystemMessage {
    /// Returns a system message with this text.
    pub fn new(text: impl Into<String>) -> Self {
        Self { text: tight(text.into()), details: None }
    }

    /// Returns the same message with a paragraph more; an empty one changes nothing.
    #[must_use]
    pub(crate) fn joined(mut self, paragraph: &str) -> Self {
        if !self.text.is_empty() && !paragraph.is_empty() {
            self.text.push_str("\n\n");
        }
        self.text.push_str(paragraph);
        self
    }

    /// Returns the one before with the text of this one as another paragraph; this one where there
    /// is none before.
    pub(crate) fn behind(self, before: Option<Self>) -> Self {
        match before {
            Some(before) => before.joined(&self.text),
            None => self,
        }
    }

    /// Returns the text.
    pub fn text(&self) -> &str {
        &self.text
    }
}

/// Returns the messages with one system message at their front, which says what all of theirs say.
pub(crate) fn with_one_system(messages: impl IntoIterator<Item = Message>) -> Vec<Message> {
    let mut system: Option<SystemMessage> = None;
    let mut rest: Vec<Message> = Vec::new();
    for message in messages {
        match message {
            Message::System(next) => system = Some(next.behind(system)),
            message => rest.push(message),
        }
    }
    system.map(Message::System).into_iter().chain(rest).collect()
}

detailed!(named SystemMessage, details);
