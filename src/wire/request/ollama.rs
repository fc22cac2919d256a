//! Requests of Ollama's `/api/chat`.

use super::ToolChoice;
use super::body::{Body, Written};
use crate::wire::borrowed::BorrowedValue;

pub(super) fn write<'a>(body: &mut Body<'a>, messages: Vec<BorrowedValue<'a>>) -> Written {
    let request = body.request;
    body.field("model", request.model.as_deref())?;
    body.field("messages", messages)?;
    // There is no field for a choice; without tools in the request, the model can't call any.
    if request.chosen()? != Some(&ToolChoice::None) {
        body.list("tools", request.definitions())?;
    }
    body.inner("options", "num_predict", request.max_tokens.map(BorrowedValue::Number))?;
    // Ollama streams by default.
    body.field("stream", request.stream)
}
