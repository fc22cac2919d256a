//! Requests of Ollama's `/api/chat`.

use serde::ser::{Error, SerializeMap};

use super::body::Body;
use super::{Choice, Request};
use crate::wire::ollama;

pub(super) fn write<M: SerializeMap>(
    request: &Request<'_>,
    mut body: Body<'_, M>,
) -> Result<M::Ok, M::Error> {
    body.optional("model", request.model.as_ref())?;
    body.field("messages", &request.on_terms(ollama::messages(request.prompt)))?;
    // It has no field for a choice. It can't call a tool of which it does not know.
    let has_tools = match request.chosen().map_err(M::Error::custom)? {
        None | Some(Choice::Auto) => true,
        Some(Choice::None) => false,
        Some(Choice::Required | Choice::Tool(_)) => {
            return Err(M::Error::custom("choice: it can't be made to call a tool"));
        }
    };
    if has_tools && !request.tools.is_empty() {
        body.list("tools", request.definitions())?;
    }
    if let Some(tokens) = request.max_tokens {
        body.inner("options", "num_predict", &tokens)?;
    }
    // It streams where it is not told.
    body.field("stream", &request.stream)?;
    body.end()
}
