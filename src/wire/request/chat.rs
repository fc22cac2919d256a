//! Requests of OpenAI Chat Completions, and of the servers that speak it.

use serde::Serialize;
use serde::ser::{Error, SerializeMap};

use super::body::Body;
use super::{Choice, Request};
use crate::provider::Provider;
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
        body.list("tools", request.definitions())?;
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
