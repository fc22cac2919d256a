//! Requests of OpenAI Chat Completions, and of the servers that speak it.

use super::body::{Body, Written};
use crate::wire::borrowed::{BorrowedValue, Object};

pub(super) fn write<'a>(body: &mut Body<'a>, messages: Vec<BorrowedValue<'a>>) -> Written {
    let request = body.request;
    body.field("model", request.model.as_deref())?;
    let row = request.row();
    body.field("messages", messages)?;
    body.field(row.max_tokens.as_str(), request.max_tokens.map(BorrowedValue::Number))?;
    body.list("tools", request.definitions())?;
    let tool = |name: &'a str| {
        let function = Object::of([("name", name.into())]);
        Object::of([("type", "function".into()), ("function", function.into())])
    };
    body.field("tool_choice", request.chosen()?.map(|choice| choice.written(tool)))?;
    let stream = request.stream.then_some(true);
    body.field("stream", stream)?;
    body.inner("stream_options", "include_usage", stream.filter(|_| row.asks_for_usage))
}
