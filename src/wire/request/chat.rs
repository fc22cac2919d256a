//! Requests of OpenAI Chat Completions, and of the servers that speak it.

use serde::Serialize;
use serde::ser::{Error, SerializeMap};

use super::body::Body;
use super::schema::{Schema, Taken};
use super::{Choice, Request};
use crate::tool::Tool;
use crate::wire::openai;

/// The points in which servers of one format differ.
#[derive(Clone, Copy)]
pub(super) struct Dialect {
    /// The field of the most tokens of an answer.
    max_tokens: &'static str,
    /// True where a stream tells its usage if it is asked to. Mistral's does in any case, and it
    /// refuses fields that it does not know.
    asks_for_usage: bool,
    /// True where the server takes cache marks.
    takes_marks: bool,
}

pub(super) const OPENAI: Dialect =
    Dialect { max_tokens: "max_completion_tokens", asks_for_usage: true, takes_marks: true };

pub(super) const MISTRAL: Dialect =
    Dialect { max_tokens: "max_tokens", asks_for_usage: false, takes_marks: false };

/// Routers: they hand cache marks on.
pub(super) const ROUTER: Dialect =
    Dialect { max_tokens: "max_tokens", asks_for_usage: true, takes_marks: true };

/// vLLM, llama.cpp and the like.
pub(super) const COMPATIBLE: Dialect =
    Dialect { max_tokens: "max_tokens", asks_for_usage: true, takes_marks: false };

pub(super) fn write<M: SerializeMap>(
    request: &Request<'_>,
    dialect: Dialect,
    mut body: Body<'_, M>,
) -> Result<M::Ok, M::Error> {
    body.optional("model", request.model.as_ref())?;
    let cache = request.cache.filter(|_| dialect.takes_marks);
    body.field("messages", &openai::messages(request.prompt).cached(cache))?;
    body.optional(dialect.max_tokens, request.max_tokens)?;
    if !request.tools.is_empty() {
        body.list("tools", request.tools.iter().map(Definition::of))?;
    }
    if let Some(choice) = request.chosen().map_err(M::Error::custom)? {
        body.field("tool_choice", &Chosen::of(choice))?;
    }
    if request.stream {
        body.field("stream", &true)?;
        if dialect.asks_for_usage {
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
