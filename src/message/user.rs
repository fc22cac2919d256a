//! The user's message.

use serde_json::Value;

use super::Content;
use super::details::{self, Attributes, Rare};

/// The attribute that marks a message which steers a turn.
const STEERED: &str = "turn:steered";

/// A message of the user: a text or parts.
#[derive(Clone, Debug, PartialEq, Eq, Hash)]
pub struct UserMessage {
    pub(crate) content: Content,
    pub(crate) rare: Rare,
}

impl UserMessage {
    /// Returns a user message with this content: a text, or a list of [`Part`](super::Part)s.
    pub fn new(content: impl Into<Content>) -> Self {
        Self { content: content.into(), rare: None }
    }

    /// Returns the same message under a name, for conversations with several users.
    #[must_use]
    pub fn with_name(mut self, name: impl Into<String>) -> Self {
        details::edit(&mut self.rare).name = Some(name.into());
        self
    }

    /// Returns the same message with one attribute more. Attributes are the application's: no
    /// provider is sent them. (What only one wire format understands is kept under its name,
    /// `wire:…`.)
    #[must_use]
    pub fn with_attribute(mut self, key: impl Into<String>, value: impl Into<Value>) -> Self {
        details::edit(&mut self.rare).attributes.insert(key.into(), value.into());
        self
    }

    /// Returns the same message, marked as one that steers the answer that is under way: it begins
    /// no turn.
    ///
    /// The mark is the attribute `turn:steered`, so it is stored like any other.
    #[must_use]
    pub fn steered(self) -> Self {
        self.with_attribute(STEERED, true)
    }

    /// Returns whether this message is marked as [steering](Self::steered) a turn that another one
    /// began.
    pub fn is_steered(&self) -> bool {
        self.rare.is_some() && self.attributes().get(STEERED) == Some(&Value::Bool(true))
    }

    /// Returns the content.
    pub fn content(&self) -> &Content {
        &self.content
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
