//! The user's message.

use serde_json::Value;

use super::Content;
use super::details::{self, Attributes, Rare};

/// What the user said: a text or parts.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct UserMessage {
    pub(crate) content: Content,
    pub(crate) rare: Rare,
}

impl UserMessage {
    /// A user message with this content: a text, or a list of [`Part`](super::Part)s.
    pub fn new(content: impl Into<Content>) -> Self {
        Self { content: content.into(), rare: None }
    }

    /// The same message under a name, for conversations with several users.
    #[must_use]
    pub fn with_name(mut self, name: impl Into<String>) -> Self {
        details::edit(&mut self.rare).name = Some(name.into());
        self
    }

    /// The same message with one attribute more. Attributes are the application's: no provider is
    /// sent them. (What only one wire format understands is kept under its name, `wire:…`.)
    #[must_use]
    pub fn with_attribute(mut self, key: impl Into<String>, value: impl Into<Value>) -> Self {
        details::edit(&mut self.rare).attributes.insert(key.into(), value.into());
        self
    }

    /// The content.
    pub fn content(&self) -> &Content {
        &self.content
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
