//! Requests of Anthropic's Messages.

use serde::ser::{Error, SerializeMap};

use super::body::Body;
use super::{Request, ToolChoice};
use crate::provider::Definition;
use crate::wire::anthropic;
use crate::wire::shape::Entry;

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
    let tools = request.tools.iter().enumerate();
    let is_last = |i| i + 1 == request.tools.len();
    body.list(
        "tools",
        tools.map(|(i, tool)| Definition::marked(tool, tools_cache.filter(|_| is_last(i)))),
    )?;
    if let Some(choice) = request.chosen()? {
        let (kind, name) = match choice {
            ToolChoice::Auto => ("auto", None),
            ToolChoice::None => ("none", None),
            ToolChoice::Required => ("any", None),
            ToolChoice::Tool(name) => ("tool", Some(name)),
        };
        let own = [("type", kind.into()), ("name", name.into())];
        body.field("tool_choice", &Entry::Fields(&own))?;
    }
    body.optional("stream", request.stream.then_some(true))?;
    body.end()
}
