//! [`ToolChoice`]: what a model may do about its tools.

use super::Request;
use super::body::Written;
use crate::provider::Format;

/// A choice that the model has, or has not, about the tools that it is given.
#[derive(Clone, Debug, PartialEq, Eq, Hash)]
#[non_exhaustive]
pub enum ToolChoice {
    /// It calls tools or answers, as it likes: what providers do unless told otherwise.
    Auto,
    /// It calls none.
    None,
    /// It calls at least one. Where a provider [can't be made](crate::provider::Row::forced_calls)
    /// to demand a call, this and [`Tool`](Self::Tool) are errors.
    Required,
    /// It calls the tool of this name.
    Tool(String),
}

impl Request<'_> {
    /// Returns the choice, if there is something to choose from.
    ///
    /// # Errors
    ///
    /// Where it is of a tool that is not there. Tools in `extra` are the provider's, and known to
    /// it alone.
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

    /// Returns whether the model can be made to call a tool. One that can't while it thinks, can
    /// where that is off.
    fn forces_calls(&self) -> bool {
        let thinking = self.extra.get("thinking").filter(|_| self.format() == Format::OpenAi);
        self.row().forced_calls || thinking.is_some_and(|it| it["type"] == "disabled")
    }
}

impl ToolChoice {
    /// The word that OpenAI's formats have for it; for a tool, they have an object.
    pub(super) fn word(&self) -> Option<&'static str> {
        match self {
            Self::Auto => Some("auto"),
            Self::None => Some("none"),
            Self::Required => Some("required"),
            Self::Tool(_) => None,
        }
    }
}
