//! Requests of OpenAI Chat Completions, and of the servers that speak it.

use serde::ser::SerializeMap;

use super::body::Body;
use super::{Request, ToolChoice};
use crate::provider::Provider;
use crate::wire::openai;
use crate::wire::shape::Entry;

pub(super) fn write<M: SerializeMap>(
    request: &Request<'_>,
    mut body: Body<'_, M>,
) -> Result<M::Ok, M::Error> {
    body.optional("model", request.model.as_ref())?;
    let row = request.provider().unwrap_or(Provider::OpenAi).row();
    let cache = request.cache.filter(|_| row.cache_marks);
    body.field("messages", &request.on_terms(openai::messages(request.prompt)).cached(cache))?;
    body.optional(row.max_tokens.as_str(), request.max_tokens)?;
    body.list("tools", request.definitions())?;
    match request.chosen()? {
        Some(ToolChoice::Tool(name)) => {
            let function = [("name", name.into())];
            let own = [("type", "function".into()), ("function", Entry::Fields(&function))];
            body.field("tool_choice", &Entry::Fields(&own))?;
        }
        choice => body.optional("tool_choice", choice.and_then(ToolChoice::word))?,
    }
    let stream = request.stream.then_some(true);
    body.optional("stream", stream)?;
    body.inner("stream_options", "include_usage", stream.filter(|_| row.asks_for_usage))?;
    body.end()
}
