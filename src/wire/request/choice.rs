//! [`ToolChoice`]: whether a model may or must call its tools.

use super::Request;
use super::body::Written;
use crate::provider::Format;
use crate::wire::borrowed::{BorrowedValue, Object};

/// Whether a model may or must call the tools that it is given.
#[derive(Clone, Debug, PartialEq, Eq, Hash)]
#[non_exhaustive]
pub enum ToolChoice {
    /// It may call tools or answer: the default of all providers.
    Auto,
    /// It must not call tools.
    None,
    /// It must call at least one tool. If a provider
    /// [can't force calls](crate::provider::Row::forced_calls), this and [`Tool`](Self::Tool) are
    /// errors.
    Required,
    /// It must call the tool with this name.
    Tool(String),
}

impl Request<'_> {
    /// Returns the choice, if there are tools to choose from.
    ///
    /// # Errors
    ///
    /// If it names a tool that is not there. Tools in `extra` are known only to the provider.
    pub(super) fn chosen(&self) -> Written<Option<&ToolChoice>> {
        let has_more = self.extra.contains_key("tools");
        let is_there = |name: &str| self.tools.iter().any(|tool| tool.name() == name);
        match &self.tool_choice {
            Some(ToolChoice::Required) if self.tools.is_empty() && !has_more => {
                Err("choice: a call is required, and there is no tool".to_owned())
            }
            Some(ToolChoice::Tool(name)) if !has_more && !is_there(name) => {
                Err("choice: there is no such tool".to_owned())
            }
            Some(_) if self.tools.is_empty() && !has_more => Ok(None),
            Some(ToolChoice::Required | ToolChoice::Tool(_)) if !self.forces_calls() => {
                Err("choice: it can't be made to call a tool".to_owned())
            }
            choice => Ok(choice.as_ref()),
        }
    }

    /// Returns whether the model can be forced to call a tool. Some can't while they think.
    fn forces_calls(&self) -> bool {
        let (extra, forced_calls) = (self.sent_extra(), self.row().forced_calls);
        let thinks = |how: &str| extra.get("thinking").is_some_and(|it| it["type"] == how);
        match self.format() {
            Format::OpenAi => forced_calls || thinks("disabled"),
            // "Thinking may not be enabled when tool_choice forces tool use."
            Format::Anthropic => forced_calls && !thinks("enabled"),
            _ => forced_calls,
        }
    }
}

impl ToolChoice {
    /// Writes it as OpenAI's formats have it: a word, or for a tool an object of the format's own.
    pub(super) fn written<'a>(&'a self, tool: impl Fn(&'a str) -> Object<'a>) -> BorrowedValue<'a> {
        match self {
            Self::Auto => "auto".into(),
            Self::None => "none".into(),
            Self::Required => "required".into(),
            Self::Tool(name) => tool(name).into(),
        }
    }
}
