//! Requests of Ollama's `/api/chat`.

use serde::ser::{Error, SerializeMap};

use super::body::Body;
use super::{Request, ToolChoice};
use crate::wire::ollama;

pub(super) fn write<M: SerializeMap>(
    request: &Request<'_>,
    mut body: Body<'_, M>,
) -> Result<M::Ok, M::Error> {
    body.optional("model", request.model.as_ref())?;
    body.field("messages", &request.on_terms(ollama::messages(request.prompt)))?;
    // It has no field for a choice. It can't call a tool of which it does not know.
    match request.chosen()? {
        None | Some(ToolChoice::Auto) => body.list("tools", request.definitions())?,
        Some(ToolChoice::None) => {}
        Some(ToolChoice::Required | ToolChoice::Tool(_)) => {
            return Err(M::Error::custom("choice: it can't be made to call a tool"));
        }
    }
    body.inner("options", "num_predict", request.max_tokens)?;
    // It streams where it is not told.
    body.field("stream", &request.stream)?;
    body.end()
}
