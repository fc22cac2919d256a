//! Requests of OpenAI Responses.

use serde::Serialize;
use serde::ser::{Error, SerializeMap};

use super::body::Body;
use super::{Choice, Request};
use crate::wire::responses;

pub(super) fn write<M: SerializeMap>(
    request: &Request<'_>,
    mut body: Body<'_, M>,
) -> Result<M::Ok, M::Error> {
    body.optional("model", request.model.as_ref())?;
    body.optional("instructions", responses::instructions(request.prompt))?;
    let input = request.on_terms(responses::input(request.prompt));
    body.field("input", &input.cached(request.cache))?;
    body.optional("max_output_tokens", request.max_tokens)?;
    if !request.tools.is_empty() {
        body.list("tools", request.definitions())?;
    }
    if let Some(choice) = request.chosen().map_err(M::Error::custom)? {
        body.field("tool_choice", &Chosen::of(choice))?;
    }
    if request.stream {
        body.field("stream", &true)?;
    }
    // The conversation is kept here, and each request carries all of it.
    if !body.has_extra("store") {
        body.field("store", &false)?;
    }
    body.end()
}

#[derive(Serialize)]
#[serde(untagged)]
enum Chosen<'a> {
    Word(&'static str),
    Tool { r#type: &'static str, name: &'a str },
}

impl<'a> Chosen<'a> {
    fn of(choice: &'a Choice) -> Self {
        match choice {
            Choice::Auto => Self::Word("auto"),
            Choice::None => Self::Word("none"),
            Choice::Required => Self::Word("required"),
            Choice::Tool(name) => Self::Tool { r#type: "function", name },
        }
    }
}
