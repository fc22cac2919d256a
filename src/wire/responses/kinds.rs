//! Calls that are not function calls but are answered by the application: a shell, a patch, a
//! computer, a search for tools, an approval of a server's call.
//!
//! Each becomes a tool call: its name is the tool's, its arguments are what it asks for, and the
//! item is kept unchanged in `extra`. So windows and repair keep it together with its output, and
//! another provider sees a function call. So does this one if the output has no place for the
//! result, such as a text of a computer.

use serde_json::{Value, json};

use super::{ATTRIBUTE, FORMAT};
use crate::error::Result;
use crate::message::{Attributes, Content, Media, Part, ToolCall, ToolMessage};
use crate::wire::borrowed::{BorrowedValue, Object};
use crate::wire::common::{DataUrl, Fields, keep, kept, kept_object, kept_type};

pub(super) struct CallKind {
    call: &'static str,
    tool: &'static str,
    /// The field with what it asks for; empty if that is the whole item.
    asks: &'static str,
    /// The field of the call with its id.
    id: &'static str,
    output: &'static str,
    /// The field of the output with the result.
    holds: &'static str,
    output_id: &'static str,
}

const KINDS: [CallKind; 6] = [
    kind("local_shell_call", "local_shell", "action", "local_shell_call_output", "output"),
    kind("shell_call", "shell", "action", "shell_call_output", "output"),
    kind("apply_patch_call", "apply_patch", "operation", "apply_patch_call_output", "output"),
    kind("computer_call", "computer", "action", "computer_call_output", "output"),
    kind("tool_search_call", "tool_search", "arguments", "tool_search_output", "tools"),
    CallKind {
        id: "id",
        output_id: "approval_request_id",
        ..kind("mcp_approval_request", "mcp_approval", "", "mcp_approval_response", "approve")
    },
];

const fn kind(
    call: &'static str,
    tool: &'static str,
    asks: &'static str,
    output: &'static str,
    holds: &'static str,
) -> CallKind {
    CallKind { call, tool, asks, id: "call_id", output, holds, output_id: "call_id" }
}

/// Reads an item that is such a call; `None` for others, and for calls that the provider runs by
/// itself.
pub(super) fn call(item: &Value) -> Option<ToolCall> {
    let kind = KINDS.iter().find(|kind| item["type"] == kind.call)?;
    let id = item.get(kind.id)?.as_str().filter(|id| !id.is_empty())?;
    if kind.tool == "tool_search" && item["execution"] != "client" {
        return None;
    }
    let asks = item.get(kind.asks).filter(|asks| asks.is_object()).unwrap_or(item);
    let fields = [("type", Value::from(kind.call)), ("item", item.clone())];
    let fields = fields.map(|(key, value)| (key.to_owned(), value));
    let extra = keep(FORMAT, Attributes::from_iter(fields));
    Some(ToolCall { extra, ..ToolCall::new(id, kind.tool, asks.to_string()) })
}

/// Returns whether this id of a custom call belongs to one of xAI's own searches, which it has
/// answered itself.
pub(super) fn is_hosted(id: &str) -> bool {
    id.starts_with("xs_call")
}

/// Returns the ids of the calls whose outputs are in the same answer, since the provider ran them.
pub(super) fn answered<'a>(output: impl IntoIterator<Item = &'a Value>) -> Vec<String> {
    let id = |item: &Value| {
        let kind = KINDS.iter().find(|kind| item["type"] == kind.output)?;
        Some(item.get(kind.output_id)?.as_str()?.to_owned())
    };
    output.into_iter().filter_map(id).collect()
}

/// Returns the kind of such an output and the call that it answers, if these calls include it.
pub(super) fn asked<'a>(
    item: &Fields,
    mut calls: impl Iterator<Item = &'a ToolCall>,
) -> Option<(&'static CallKind, &'a ToolCall)> {
    let kind = KINDS.iter().find(|kind| item.peek("type") == Some(kind.output))?;
    let id = item.peek(kind.output_id)?;
    let call = calls.find(|call| call.id == id && of(call).is_some())?;
    Some((kind, call))
}

pub(super) fn result(kind: &CallKind, call: &ToolCall, mut fields: Fields) -> Result<ToolMessage> {
    let value = fields.required(kind.holds)?;
    let content = match value {
        Value::String(text) => Content::Text(text),
        value => match screenshot(&value) {
            Some(media) => Content::from(vec![Part::Image(media)]),
            None => Content::Text(value.to_string()),
        },
    };
    let is_error = fields.peek("status") == Some("failed");
    fields.take(kind.output_id);
    fields.take("type");
    let message = ToolMessage::new(&call.id, &call.name, content).with_error(is_error);
    let rest = fields.rest();
    Ok(if rest.is_empty() { message } else { message.with_attribute(ATTRIBUTE, rest) })
}

fn screenshot(output: &Value) -> Option<Media> {
    let fields = output.as_object().filter(|fields| fields.len() == 2)?;
    if fields.get("type")? != SCREENSHOT {
        return None;
    }
    let Some(url) = fields.get("image_url").and_then(Value::as_str) else {
        return Some(Media::file_id(fields.get("file_id")?.as_str()?));
    };
    Some(match DataUrl::parse(url) {
        Some(DataUrl { media_type, data }) => Media::base64(media_type, data),
        None => Media::url(url),
    })
}

/// Returns the kind of a call, if it has one and its item was kept.
pub(super) fn of(call: &ToolCall) -> Option<(&'static CallKind, &Attributes)> {
    let name = kept_type(FORMAT, &call.extra)?;
    let kind = KINDS.iter().find(|kind| kind.call == name)?;
    Some((kind, kept_object(kept(FORMAT, &call.extra), "item")?))
}

/// Returns the item of a call, with the call's current id.
pub(super) fn written<'a>(kind: &CallKind, item: &'a Attributes, id: &'a str) -> Object<'a> {
    let mut object = Object::default();
    for (key, value) in item {
        object.put(key, if key == kind.id { id.into() } else { BorrowedValue::from(value) });
    }
    object
}

/// Returns the output of a call of this kind; `None` if the kind has no place for this result.
pub(super) fn output<'a>(kind: &CallKind, result: &'a ToolMessage) -> Option<Object<'a>> {
    let text = result.content().text();
    let read = || serde_json::from_str::<Value>(&text).ok();
    let holds = match kind.tool {
        "shell" => read()
            .filter(Value::is_array)
            .unwrap_or_else(|| {
                let outcome = json!({"type": "exit", "exit_code": i32::from(result.is_error())});
                json!([{"stdout": text, "stderr": "", "outcome": outcome}])
            })
            .into(),
        "tool_search" => read().filter(Value::is_array)?.into(),
        "mcp_approval" => is_approved(result).into(),
        "computer" => match result.content().parts().iter().find_map(picture) {
            Some(image) => seen(image).into(),
            None => read().filter(|output| output["type"] == SCREENSHOT)?.into(),
        },
        _ => Value::from(&*text).into(),
    };
    let mut object = Object::of([
        ("type", kind.output.into()),
        (kind.output_id, result.call_id().into()),
        (kind.holds, holds),
    ]);
    let kept = kept(ATTRIBUTE, result.attributes());
    if kind.tool == "apply_patch" {
        object.put("status", if result.is_error() { "failed" } else { "completed" });
    }
    if kind.tool == "tool_search" && kept.is_none() {
        object = object.with("execution", "client").with("status", "completed");
    }
    if kind.tool == "mcp_approval" && !is_approved(result) && !is_word(&text, &DENIED) {
        object.put("reason", text);
    }
    Some(object.kept(kept, &[]))
}

/// Returns the parts of a result that its output has no place for.
pub(super) fn unwritten<'a>(
    kind: &CallKind,
    parts: &'a [Part],
) -> impl Iterator<Item = (usize, &'a Part)> {
    let seen = parts.iter().position(|part| picture(part).is_some());
    let seen = seen.filter(|_| kind.tool == "computer");
    let is_written = move |i: usize, part: &Part| match (seen, part.as_text()) {
        (None, text) => text.is_some(),
        (Some(at), None) => i == at,
        (Some(_), Some(text)) => text.is_empty(),
    };
    parts.iter().enumerate().filter(move |(i, part)| !is_written(*i, part))
}

fn picture(part: &Part) -> Option<&Media> {
    if let Part::Image(media) = part { Some(media) } else { None }
}

const DENIED: [&str; 3] = ["", "false", "no"];

fn is_approved(result: &ToolMessage) -> bool {
    let words = ["true", "yes", "approve", "approved"];
    !result.is_error() && is_word(&result.content().text(), &words)
}

fn is_word(text: &str, words: &[&str]) -> bool {
    words.contains(&text.trim().to_ascii_lowercase().as_str())
}

const SCREENSHOT: &str = "computer_screenshot";

fn seen(image: &Media) -> Object<'_> {
    Object::of([
        ("type", SCREENSHOT.into()),
        ("image_url", BorrowedValue::address(image)),
        ("file_id", BorrowedValue::file_id(image)),
    ])
}
