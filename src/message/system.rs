//! The system message.

use super::attributes::Attributes;
use super::content::tight;
use super::details::{Details, detailed};

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

    /// Returns the same message with one more paragraph; an empty one changes nothing.
    #[must_use]
    pub(crate) fn joined(mut self, paragraph: &str) -> Self {
        if !self.text.is_empty() && !paragraph.is_empty() {
            self.text.push_str("\n\n");
        }
        self.text.push_str(paragraph);
        self
    }

    /// Returns the earlier message with the text of this one as another paragraph; this one if
    /// there is no earlier one.
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

detailed!(named SystemMessage, details);
