//! Tools that Anthropic runs itself: both the call and its result are blocks of an answer.

use super::origin::origin;
use super::row::{Format, Row};
use crate::message::{AiMessage, AiPart, Attributes, Part, ToolCall};

const FORMAT: &str = "anthropic";

/// Returns the id of the call if a block calls a tool that the provider runs itself.
pub(crate) fn hosted_call(block: &Attributes) -> Option<&str> {
    let is_call = text(block, "type")?.ends_with("_tool_use");
    text(block, "id").filter(|id| is_call && !id.is_empty())
}

/// Returns the id of the call if a block is the result of such a tool.
pub(crate) fn hosted_result(block: &Attributes) -> Option<&str> {
    text(block, "tool_use_id").filter(|id| !id.is_empty())
}

/// Returns the blocks of an answer that are sent to this provider unchanged.
pub(crate) fn hosted_blocks<'a>(
    ai: &'a AiMessage,
    row: &Row,
) -> impl Iterator<Item = &'a Attributes> {
    let is_taken = takes_blocks(ai, row);
    ai.parts().iter().filter(move |_| is_taken).filter_map(block)
}

fn takes_blocks(ai: &AiMessage, row: &Row) -> bool {
    row.format == Format::Anthropic
        && !ai.parts().is_empty()
        && row.private.takes_all()
        && row.takes_from(origin(ai))
}

/// Returns the answer without the hosted calls with these ids and their results; `None` if it has
/// none of them. Calls of the application's tools that they made become calls of the model itself.
pub(crate) fn without_hosted(ai: &AiMessage, ids: &[&str]) -> Option<AiMessage> {
    let is_one = |id: Option<&str>| id.is_some_and(|id| ids.contains(&id));
    let is_left_out = |part: &AiPart| {
        block(part).is_some_and(|it| is_one(hosted_call(it)) || is_one(hosted_result(it)))
    };
    let is_called = |part: &AiPart| matches!(part, AiPart::ToolCall(call) if is_one(caller(call)));
    if !ai.parts().iter().any(|part| is_left_out(part) || is_called(part)) {
        return None;
    }
    let left = ai.parts().iter().filter(|part| !is_left_out(part)).cloned().map(|mut part| {
        if let AiPart::ToolCall(call) = &mut part
            && is_one(caller(call))
            && let Some(kept) = call.extra.get_mut(FORMAT).and_then(|kept| kept.as_object_mut())
        {
            kept.remove("caller");
        }
        part
    });
    Some(ai.with_other_parts(left.collect()))
}

/// Returns the id of the hosted call that made this call, if it is sent to the provider.
pub(crate) fn hosted_caller<'a>(call: &'a ToolCall, ai: &AiMessage, row: &Row) -> Option<&'a str> {
    caller(call).filter(|_| takes_blocks(ai, row))
}

/// Returns the id of the hosted call (a program of the model's) that made this one.
fn caller(call: &ToolCall) -> Option<&str> {
    call.extra.get(FORMAT)?.get("caller")?.get("tool_id")?.as_str()
}

fn block(part: &AiPart) -> Option<&Attributes> {
    match part {
        AiPart::Content(Part::Other(other)) if other.kind() == FORMAT => {
            other.fields().get(FORMAT)?.as_object()
        }
        _ => None,
    }
}

fn text<'a>(block: &'a Attributes, key: &str) -> Option<&'a str> {
    block.get(key)?.as_str()
}
