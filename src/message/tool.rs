//! The result of a tool call.

use serde_json::Value;

use super::Content;
use super::details::{self, Attributes, Details};

/// What a tool returned for one call.
///
/// It names the call that it answers by id, and the tool by name: some providers key results by one
/// and some by the other.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct ToolMessage {
    pub(crate) content: Content,
    pub(crate) answer: Box<Answer>,
}

/// Which call is answered, and how.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) struct Answer {
    pub(crate) call_id: String,
    /// Empty where the history does not know it.
    pub(crate) tool_name: String,
    pub(crate) is_error: bool,
    /// `name` is not used: the tool's name is `tool_name`.
    pub(crate) details: Option<Box<Details>>,
}

impl ToolMessage {
    /// The result of the tool `name` for the call `call_id`.
    pub fn new(
        call_id: impl Into<String>,
        name: impl Into<String>,
        content: impl Into<Content>,
    ) -> Self {
        Self {
            content: content.into(),
            answer: Box::new(Answer {
                call_id: call_id.into(),
                tool_name: name.into(),
                is_error: false,
                details: None,
            }),
        }
    }

    /// The same result, marked as an error (or not).
    #[must_use]
    pub fn with_error(mut self, is_error: bool) -> Self {
        self.answer.is_error = is_error;
        self
    }

    /// The same message with one attribute more. Attributes are the application's: no provider is
    /// sent them. (What only one wire format understands is kept under its name, `wire:…`.)
    #[must_use]
    pub fn with_attribute(mut self, key: impl Into<String>, value: impl Into<Value>) -> Self {
        details::edit(&mut self.answer.details).attributes.insert(key.into(), value.into());
        self
    }

    /// The content.
    pub fn content(&self) -> &Content {
        &self.content
    }

    /// The id of the call that this message answers.
    pub fn call_id(&self) -> &str {
        &self.answer.call_id
    }

    /// The name of the tool; empty where the history did not keep it.
    pub fn tool_name(&self) -> &str {
        &self.answer.tool_name
    }

    /// Whether the tool failed.
    pub fn is_error(&self) -> bool {
        self.answer.is_error
    }

    /// The attributes; empty unless some were given.
    pub fn attributes(&self) -> &Attributes {
        details::attributes(&self.answer.details)
    }
}
