//! Requests of Anthropic's Messages.

use serde::Serialize;
use serde::ser::{Error, SerializeMap};

use super::body::Body;
use super::{Choice, Request};
use crate::provider::Definition;
use crate::wire::anthropic;

pub(super) fn write<M: SerializeMap>(
    request: &Request<'_>,
    mut body: Body<'_, M>,
) -> Result<M::Ok, M::Error> {
    body.optional("model", request.model.as_ref())?;
    match request.max_tokens {
        Some(tokens) => body.field("max_tokens", &tokens)?,
        None if body.has_extra("max_tokens") => {}
        None => return Err(M::Error::custom("max_tokens: it is required")),
    }
    let system = anthropic::system(request.prompt);
    let messages = request.on_terms(anthropic::messages(request.prompt));
    // A mark behind the system text covers the tools; without one they are marked themselves.
    let tools_cache = request.cache.filter(|_| system.is_none());
    body.optional("system", system.map(|system| system.cached(request.cache)))?;
    body.field("messages", &messages.cached(request.cache))?;
    if !request.tools.is_empty() {
        let last = request.tools.len() - 1;
        let tools = request.tools.iter().enumerate();
        body.list(
            "tools",
            tools.map(|(i, tool)| Definition::marked(tool, tools_cache.filter(|_| i == last))),
        )?;
    }
    if let Some(choice) = request.chosen().map_err(M::Error::custom)? {
        body.field("tool_choice", &Chosen::of(choice))?;
    }
    if request.stream {
        body.field("stream", &true)?;
    }
    body.end()
}

#[derive(Serialize)]
struct Chosen<'a> {
    r#type: &'static str,
    #[serde(skip_serializing_if = "Option::is_none")]
    name: Option<&'a str>,
}

impl<'a> Chosen<'a> {
    fn of(choice: &'a Choice) -> Self {
        let (r#type, name) = match choice {
            Choice::Auto => ("auto", None),
            Choice::None => ("none", None),
            Choice::Required => ("any", None),
            Choice::Tool(name) => ("tool", Some(name.as_str())),
        };
        Self { r#type, name }
    }
}
