//! Requests of Anthropic's Messages.

use serde::Serialize;
use serde::ser::{Error, SerializeMap};

use super::body::Body;
use super::schema::{Schema, Taken};
use super::{Choice, Request};
use crate::tool::Tool;
use crate::wire::anthropic;
use crate::wire::view::Cache;

pub(super) fn write<M: SerializeMap>(
    request: &Request<'_>,
    mut body: Body<'_, M>,
) -> Result<M::Ok, M::Error> {
    body.optional("model", request.model.as_ref())?;
    match request.max_tokens {
        Some(tokens) => body.field("max_tokens", &tokens)?,
        None if body.has_extra("max_tokens") => {}
        None => return Err(M::Error::custom("max_tokens: anthropic requires it")),
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
            tools.map(|(i, tool)| Definition::of(tool, tools_cache.filter(|_| i == last))),
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
struct Definition<'a> {
    name: &'a str,
    description: &'a str,
    input_schema: Schema<'a>,
    #[serde(skip_serializing_if = "Option::is_none")]
    strict: Option<bool>,
    #[serde(skip_serializing_if = "Option::is_none")]
    cache_control: Option<Cache>,
}

impl<'a> Definition<'a> {
    fn of(tool: &'a Tool, cache: Option<Cache>) -> Self {
        let strict = tool.is_strict();
        Self {
            name: tool.name(),
            description: tool.description(),
            input_schema: Schema::of(tool, if strict { Taken::Closed } else { Taken::Whole }),
            strict: strict.then_some(true),
            cache_control: cache,
        }
    }
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
