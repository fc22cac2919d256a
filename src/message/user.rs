//! The user's message.

use serde_json::Value;

use super::attributes::Attributes;
use super::content::Content;
use super::details::{Details, detailed};

/// The attribute that marks a message which steers a turn.
const STEERED: &str = "turn:steered";

/// A message of the user: a text or parts.
#[derive(Clone, Debug, PartialEq, Eq, Hash)]
pub struct UserMessage {
    pub(crate) content: Content,
    pub(crate) details: Details,
}

impl UserMessage {
    /// Returns a user message with this content: a text, or a list of [`Part`](super::Part)s.
    pub fn new(content: impl Into<Content>) -> Self {
        Self { content: content.into(), details: None }
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
        self.details.is_some() && self.attributes().get(STEERED) == Some(&Value::Bool(true))
    }

    /// Returns the content.
    pub fn content(&self) -> &Content {
        &self.content
    }
}

detailed!(named UserMessage, details);
