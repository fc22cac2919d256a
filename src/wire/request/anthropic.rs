//! Requests of Anthropic's Messages.

use serde_json::Value;

use super::body::{Body, Written};
use super::{Request, ToolChoice};
use crate::provider::{Definition, Format, InUrl, origin};
use crate::wire::anthropic;
use crate::wire::borrowed::{BorrowedValue, Object};
use crate::wire::common::kept;

pub(super) fn write<'a>(body: &mut Body<'a>, messages: Vec<BorrowedValue<'a>>) -> Written {
    let request = body.request;
    let in_url = request.row().in_url;
    if !body.has_extra("anthropic_version") {
        body.field("anthropic_version", in_url.anthropic_version())?;
    }
    body.field("model", request.model.as_deref().filter(|_| in_url == InUrl::Nothing))?;
    if request.max_tokens.is_none() && !body.has_extra("max_tokens") {
        return Err("max_tokens: it is required".to_owned());
    }
    body.field("max_tokens", request.max_tokens.map(BorrowedValue::Number))?;
    let system = anthropic::system(request.prompt);
    // A mark on the system text covers the tools too; without a system text, the tools are marked
    // themselves.
    let tools_cache = request.cache.filter(|_| system.is_none());
    body.field("system", system.map(|system| system.cached(request.cache).value()))?;
    body.field("messages", messages)?;
    let mut tools = request.definitions();
    if let (Some(cache), Some(last), Some(tool)) =
        (tools_cache, tools.last_mut(), request.tools.last())
    {
        let mark = Some(cache.control());
        *last = BorrowedValue::Tool(Definition::of(tool, Format::Anthropic, mark));
    }
    body.list("tools", tools)?;
    if let Some(choice) = request.chosen()? {
        let (kind, name) = match choice {
            ToolChoice::Auto => ("auto", None),
            ToolChoice::None => ("none", None),
            ToolChoice::Required => ("any", None),
            ToolChoice::Tool(name) => ("tool", Some(name)),
        };
        body.field("tool_choice", Object::of([("type", kind.into()), ("name", name.into())]))?;
    }
    match (request.extra.get("container"), container(request)) {
        (None, id) => body.field("container", id)?,
        // Skills, for the container of the running turn.
        (Some(Value::Object(own)), id) if !own.contains_key("id") => {
            body.inner("container", "id", id)?;
        }
        (Some(_), _) => {}
    }
    let stream = request.stream && in_url != InUrl::ModelAndStream;
    body.field("stream", stream.then_some(true))
}

/// Returns the id of the container in which Claude's code runs, within the turn that began it. A
/// later turn does not send it, since it may have expired by then.
fn container<'a>(request: &Request<'a>) -> Option<&'a str> {
    let row = request.row();
    let all: Vec<_> = request.prompt.with_origins().collect();
    // A temporary behind results begins no turn.
    let is_beside = |i: usize| {
        let before = all.iter().take(i).rev().find(|(_, message)| !message.is_user());
        before.is_some_and(|(_, before)| before.is_tool())
    };
    let begins = |i: usize| {
        all.get(i).is_some_and(|(origin, message)| {
            message.begins_turn() && !(origin.is_passing() && is_beside(i))
        })
    };
    let running = (0..all.len()).rev().take_while(|i| !begins(*i));
    running.filter_map(|i| all.get(i)?.1.as_ai()).find_map(|ai| {
        let is_own = origin(ai).is_none_or(|origin| origin == row.name());
        let kept = kept(anthropic::ATTRIBUTE, ai.attributes()).filter(|_| is_own)?;
        kept.get("container")?.get("id")?.as_str()
    })
}
