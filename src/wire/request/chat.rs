//! Requests of OpenAI Chat Completions, and of the servers that speak it.

use serde::Serialize;
use serde::ser::{Error, SerializeMap};

use super::body::Body;
use super::schema::{Schema, Taken};
use super::{Choice, Request};
use crate::provider::Provider;
use crate::tool::Tool;
use crate::wire::openai;

pub(super) fn write<M: SerializeMap>(
    request: &Request<'_>,
    mut body: Body<'_, M>,
) -> Result<M::Ok, M::Error> {
    body.optional("model", request.model.as_ref())?;
    let row = request.provider().unwrap_or(Provider::OpenAi).row();
    let cache = request.cache.filter(|_| row.cache_marks);
    body.field("messages", &request.on_terms(openai::messages(request.prompt)).cached(cache))?;
    body.optional(row.max_tokens.as_str(), request.max_tokens)?;
    if !request.tools.is_empty() {
        body.list("tools", request.tools.iter().map(Definition::of))?;
    }
    if let Some(choice) = request.chosen().map_err(M::Error::custom)? {
        body.field("tool_choice", &Chosen::of(choice))?;
    }
    if request.stream {
        body.field("stream", &true)?;
        if row.asks_for_usage {
            body.inner("stream_options", "include_usage", &true)?;
        }
    }
    body.end()
}

/// A tool's definition, which Ollama takes too.
#[derive(Serialize)]
pub(super) struct Definition<'a> {
    r#type: &'static str,
    function: Function<'a>,
}

#[derive(Serialize)]
struct Function<'a> {
    name: &'a str,
    description: &'a str,
    parameters: Schema<'a>,
    #[serde(skip_serializing_if = "Option::is_none")]
    strict: Option<bool>,
}

impl<'a> Definition<'a> {
    fn of(tool: &'a Tool) -> Self {
        let strict = tool.is_strict();
        let taken = if strict { Taken::AllRequired } else { Taken::Whole };
        Self::new(tool, taken, strict.then_some(true))
    }

    pub(super) fn new(tool: &'a Tool, taken: Taken, strict: Option<bool>) -> Self {
        let function = Function {
            name: tool.name(),
            description: tool.description(),
            parameters: Schema::of(tool, taken),
            strict,
        };
        Self { r#type: "function", function }
    }
}

#[derive(Serialize)]
#[serde(untagged)]
enum Chosen<'a> {
    Word(&'static str),
    Tool { r#type: &'static str, function: Name<'a> },
}

#[derive(Serialize)]
struct Name<'a> {
    name: &'a str,
}

impl<'a> Chosen<'a> {
    fn of(choice: &'a Choice) -> Self {
        match choice {
            Choice::Auto => Self::Word("auto"),
            Choice::None => Self::Word("none"),
            Choice::Required => Self::Word("required"),
            Choice::Tool(name) => Self::Tool { r#type: "function", function: Name { name } },
        }
    }
}
