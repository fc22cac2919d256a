//! The system message.

use serde_json::Value;

use super::content::tight;
use super::details::{self, Attributes, Rare};

/// The instructions to the model: text.
#[derive(Clone, Debug, PartialEq, Eq, Hash)]
pub struct SystemMessage {
    pub(crate) text: String,
    pub(crate) rare: Rare,
}

impl SystemMessage {
    /// Returns a system message with this text.
    pub fn new(text: impl Into<String>) -> Self {
        Self { text: tight(text.into()), rare: None }
    }

    /// Returns the same message under a name.
    #[must_use]
    pub fn with_name(mut self, name: impl Into<String>) -> Self {
        details::edit(&mut self.rare).name = Some(name.into());
        self
    }

    /// Returns the same message with one attribute more.
    #[must_use]
    pub fn with_attribute(mut self, key: impl Into<String>, value: impl Into<Value>) -> Self {
        details::edit(&mut self.rare).attributes.insert(key.into(), value.into());
        self
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

    /// Returns the text.
    pub fn text(&self) -> &str {
        &self.text
    }

    /// Returns the name, where one was given.
    pub fn name(&self) -> Option<&str> {
        details::name(&self.rare)
    }

    /// Returns the attributes; empty unless some were given.
    pub fn attributes(&self) -> &Attributes {
        details::attributes(&self.rare)
    }
}
