//! The system message.

use serde_json::Value;

use super::content::tight;
use super::details::{self, Attributes, Rare};

/// What the model is told to be: text.
#[derive(Clone, Debug, PartialEq, Eq, Hash)]
pub struct SystemMessage {
    pub(crate) text: String,
    pub(crate) rare: Rare,
}

impl SystemMessage {
    /// A system message with this text.
    pub fn new(text: impl Into<String>) -> Self {
        Self { text: tight(text.into()), rare: None }
    }

    /// The same message under a name.
    #[must_use]
    pub fn with_name(mut self, name: impl Into<String>) -> Self {
        details::edit(&mut self.rare).name = Some(name.into());
        self
    }

    /// The same message with one attribute more.
    #[must_use]
    pub fn with_attribute(mut self, key: impl Into<String>, value: impl Into<Value>) -> Self {
        details::edit(&mut self.rare).attributes.insert(key.into(), value.into());
        self
    }

    /// The same message with a paragraph more; an empty one changes nothing.
    #[must_use]
    pub(crate) fn joined(mut self, paragraph: &str) -> Self {
        if !self.text.is_empty() && !paragraph.is_empty() {
            self.text.push_str("\n\n");
        }
        self.text.push_str(paragraph);
        self
    }

    /// The text.
    pub fn text(&self) -> &str {
        &self.text
    }

    /// The name, where one was given.
    pub fn name(&self) -> Option<&str> {
        details::name(&self.rare)
    }

    /// The attributes; empty unless some were given.
    pub fn attributes(&self) -> &Attributes {
        details::attributes(&self.rare)
    }
}
