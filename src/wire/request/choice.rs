//! [`ToolChoice`]: what a model may do about its tools.

use serde::ser::Error;

use super::Request;

/// A choice that the model has, or has not, about the tools that it is given.
#[derive(Clone, Debug, PartialEq, Eq, Hash)]
#[non_exhaustive]
pub enum ToolChoice {
    /// It calls tools or answers, as it likes: what providers do unless told otherwise.
    Auto,
    /// It calls none.
    None,
    /// It calls at least one.
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
    pub(super) fn chosen<E: Error>(&self) -> Result<Option<&ToolChoice>, E> {
        let has_more = self.extra.contains_key("tools");
        let is_there = |name: &str| self.tools.iter().any(|tool| tool.name() == name);
        match &self.tool_choice {
            Some(ToolChoice::Required) if self.tools.is_empty() && !has_more => {
                Err(E::custom("choice: a call is required, and there is no tool"))
            }
            Some(ToolChoice::Tool(name)) if !has_more && !is_there(name) => {
                Err(E::custom("choice: there is no such tool"))
            }
            Some(_) if self.tools.is_empty() && !has_more => Ok(None),
            choice => Ok(choice.as_ref()),
        }
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
