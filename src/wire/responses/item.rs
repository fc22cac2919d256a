//! An item of a streamed answer.

use std::collections::BTreeMap;

use serde_json::{Value, json};

use super::kinds;
use crate::error::{Error, Result};
use crate::message::{ToolCall, is_object};
use crate::wire::common::{At, texts};
use crate::wire::event::Events;

/// An item so far: the pieces that were shown, and the whole item once it is done.
#[derive(Debug, Default)]
pub(super) struct Item {
    /// The announced item, or the finished one.
    value: Value,
    is_done: bool,
    /// Its texts by block, each with `true` if it is a refusal.
    said: BTreeMap<u64, (bool, String)>,
    thought: String,
    /// The reasoning block that the last piece belonged to.
    thinking: Option<u64>,
    arguments: String,
    /// The index among the calls of the answer, if it is a call.
    call: Option<usize>,
}

impl Item {
    pub(super) fn announce(&mut self, value: Value, events: &mut Events) {
        if !self.is_done {
            self.value = value;
            self.begin(events);
        }
    }

    fn begin(&mut self, events: &mut Events) {
        let (id, name) = (self.text("call_id"), self.text("name"));
        let is_asked = input_key(&self.value).is_some() && !kinds::is_hosted(id);
        if is_asked && self.call.is_none() && !id.is_empty() && !name.is_empty() {
            let call = events.call(id, name);
            events.arguments(call, &self.arguments); // those that came before it was announced
            self.call = Some(call);
        }
    }

    pub(super) fn says(&mut self, block: u64, is_refusal: bool, piece: &str, events: &mut Events) {
        self.said.entry(block).or_insert_with(|| (is_refusal, String::new())).1.push_str(piece);
        say(is_refusal, piece, events);
    }

    pub(super) fn thinks(&mut self, block: u64, piece: &str, events: &mut Events) {
        if self.thinking.is_some_and(|last| last != block) {
            self.thinks_on("\n\n", events);
        }
        self.thinking = Some(block);
        self.thinks_on(piece, events);
    }

    fn thinks_on(&mut self, piece: &str, events: &mut Events) {
        self.thought.push_str(piece);
        events.reasoning(piece);
    }

    pub(super) fn adds_arguments(&mut self, piece: &str, events: &mut Events) {
        self.arguments.push_str(piece);
        if let Some(call) = self.call {
            events.arguments(call, piece);
        }
    }

    /// The item is done: shows what was not shown yet, and checks that the pieces match the whole.
    pub(super) fn finish(&mut self, value: Value, at: At, events: &mut Events) -> Result<()> {
        if self.is_done {
            // Some servers send this twice.
            let is_same =
                blocks(&value).eq(blocks(&self.value)) && input_of(&value) == input_of(&self.value);
            return if is_same { Ok(()) } else { Err(unlike(at)) };
        }
        let shown: String = self.said.values().map(|(_, text)| text.as_str()).collect();
        let whole: String = blocks(&value).map(|(_, text)| text).collect();
        let input = input_of(&value).unwrap_or_default();
        if !whole.starts_with(&shown) || !input.starts_with(&self.arguments) {
            return Err(unlike(at));
        }
        let mut known = shown.len();
        for (is_refusal, text) in blocks(&value) {
            say(is_refusal, text.get(known..).unwrap_or_default(), events);
            known = known.saturating_sub(text.len());
        }
        let thought = ["summary", "content"].into_iter().find_map(|key| {
            let blocks = value.get(key).filter(|_| value["type"] == "reasoning")?.as_array()?;
            let said: Vec<&str> = texts(blocks).collect();
            (!said.is_empty()).then(|| said.join("\n\n"))
        });
        events.reasoning(
            thought.as_deref().and_then(|all| all.strip_prefix(&*self.thought)).unwrap_or_default(),
        );
        let rest = input.get(self.arguments.len()..).unwrap_or_default().to_owned();
        self.value = value;
        self.begin(events);
        self.adds_arguments(&rest, events);
        self.is_done = true;
        // A shell may be the provider's own, which is only known at the end.
        self.shows_own_call(|call| call.name != "shell", events);
        Ok(())
    }

    /// Shows a call that is not a function call, if the application must answer it. Such a call
    /// arrives whole.
    pub(super) fn shows_own_call(
        &mut self,
        is_asked: impl FnOnce(&ToolCall) -> bool,
        events: &mut Events,
    ) {
        if self.call.is_none()
            && let Some(call) = kinds::call(&self.value).filter(is_asked)
        {
            self.call = Some(events.whole_call(&call));
        }
    }

    pub(super) fn value(&self) -> &Value {
        &self.value
    }

    pub(super) fn is_done(&self) -> bool {
        self.is_done
    }

    /// Returns the finished item, or one made of its pieces, if there are any. If the stream broke
    /// off, a call that may be incomplete is left out.
    pub(super) fn into_value(mut self, is_broken: bool) -> Option<Value> {
        if self.is_done {
            return Some(self.value);
        }
        if !self.said.is_empty() {
            let block = |(is_refusal, text): (bool, String)| {
                if is_refusal {
                    json!({"type": "refusal", "refusal": text})
                } else {
                    json!({"type": "output_text", "text": text})
                }
            };
            let content: Vec<Value> = self.said.into_values().map(block).collect();
            return Some(json!({"type": "message", "role": "assistant", "content": content}));
        }
        let key = input_key(&self.value)?;
        let is_whole = key == "arguments" && is_object(&self.arguments);
        if is_broken && !is_whole {
            return None;
        }
        self.value[key] = self.arguments.into();
        Some(self.value)
    }

    /// Returns the names by which events may refer to it.
    pub(super) fn names(&self) -> impl Iterator<Item = &str> {
        ["id", "call_id"].map(|key| self.text(key)).into_iter().filter(|name| !name.is_empty())
    }

    /// Returns whether this is the same item, by its kind and a name.
    pub(super) fn is_named_like(&self, value: &Value) -> bool {
        let is_alike = |key: &str| !self.text(key).is_empty() && self.value[key] == value[key];
        self.value["type"] == value["type"] && ["id", "call_id"].into_iter().any(is_alike)
    }

    /// Returns whether this is an item of the same kind, as far as both have one.
    pub(super) fn may_be(&self, value: &Value) -> bool {
        let (own, other) = (self.value["type"].as_str(), value["type"].as_str());
        own.is_none() || other.is_none() || own == other
    }

    /// Returns whether this item is done and is another one: of another kind, or of one without
    /// texts under another name.
    pub(super) fn is_unlike(&self, value: &Value) -> bool {
        let says = blocks(value).next().is_some() || input_key(value).is_some();
        let is_named = self.names().next().is_some() && value["id"].is_string();
        self.is_done
            && (self.value["type"] != value["type"]
                || (!says && is_named && !self.is_named_like(value)))
    }

    fn text(&self, key: &str) -> &str {
        self.value.get(key).and_then(Value::as_str).unwrap_or_default()
    }
}

/// Returns the field with the arguments of a call; `None` if it is not a call.
fn input_key(item: &Value) -> Option<&'static str> {
    match item.get("type")?.as_str()? {
        "function_call" => Some("arguments"),
        "custom_tool_call" => Some("input"),
        _ => None,
    }
}

fn input_of(item: &Value) -> Option<&str> {
    item.get(input_key(item)?)?.as_str()
}

fn unlike(at: At) -> Error {
    at.error("it does not say what its pieces said")
}

/// Returns the texts of a message by block, each with `true` if it is a refusal.
fn blocks(message: &Value) -> impl Iterator<Item = (bool, &str)> {
    let is_message = message["type"].as_str().is_none_or(|kind| kind == "message");
    let content = message.get("content").filter(|_| is_message);
    let alone = content.and_then(Value::as_str).map(|text| (false, text));
    let list = content.and_then(Value::as_array).into_iter().flatten();
    alone.into_iter().chain(list.filter_map(|block| match block.get("type")?.as_str()? {
        "output_text" => Some((false, block.get("text")?.as_str()?)),
        "refusal" => Some((true, block.get("refusal")?.as_str()?)),
        _ => None,
    }))
}

fn say(is_refusal: bool, piece: &str, events: &mut Events) {
    if is_refusal { events.refusal(piece) } else { events.text(piece) }
}
