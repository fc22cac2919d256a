//! The user's message.

use serde_json::Value;

use super::attributes::Attributes;
use super::content::{Content, Part};
use super::details::{DetailFields, Details, detailed};

/// The attribute that marks a message which steers a turn.
const STEERED: &str = "turn:steered";

/// A message of the user: a text or parts.
#[derive(Clone, Debug, PartialEq, Eq, Hash)]
pub struct UserMessage {
    pub(crate) content: Content,
    pub(crate) details: Details,
}

impl UserMessage {
    /// Returns a user message with this content: a text, or a list of [`Part`]s.
    pub fn new(content: impl Into<Content>) -> Self {
        Self { content: content.into(), details: None }
    }

    /// Returns the same message, marked as one that steers the answer in progress: it begins no
    /// turn.
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

    /// Returns the name, if it says anything.
    pub(crate) fn speaker(&self) -> Option<&str> {
        self.name().filter(|name| !name.is_empty())
    }

    /// Returns the message with its name in front of its text instead, and `true` if that added a
    /// part; `None` if it has no name.
    pub(crate) fn with_name_in_text(&self) -> Option<(Self, bool)> {
        let name = self.speaker()?;
        let mut is_added = false;
        let content = match &self.content {
            Content::Text(text) => Content::Text(format!("{name}: {text}")),
            Content::Parts(parts) => {
                let at = parts.iter().position(|part| part.as_text().is_some());
                let mut parts = parts.to_vec();
                if let Some(Part::Text(part)) = at.and_then(|at| parts.get_mut(at)) {
                    part.text = format!("{name}: {}", part.text);
                } else {
                    is_added = true;
                    parts.insert(0, Part::text(format!("{name}:")));
                }
                Content::from(parts)
            }
        };
        let details = self.details.as_deref().cloned();
        let details = details.and_then(|it| DetailFields { name: None, ..it }.boxed());
        Some((Self { content, details }, is_added))
    }
}

detailed!(named UserMessage, details);
