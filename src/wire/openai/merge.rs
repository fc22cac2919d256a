//! Merges fields of an answer that arrive in pieces.

use serde_json::Value;

use crate::error::Result;
use crate::message::Attributes;
use crate::wire::common::{At, expected};

/// Texts that arrive in pieces. All others arrive whole, and some servers repeat them in every
/// chunk.
const PIECES: [&str; 9] = [
    "arguments",
    "content",
    "data",
    "input",
    "reasoning",
    "reasoning_content",
    "refusal",
    "thinking",
    "transcript",
];

/// Texts that keep their first value: a call has one id and one name.
const FIRST: [&str; 4] = ["role", "id", "type", "name"];

/// Returns the name of a field for errors.
fn field(key: &str) -> &'static str {
    let mut known = PIECES.into_iter().chain(FIRST).chain(["custom", "function"]);
    known.find(|known| *known == key).unwrap_or("(another field)")
}

pub(super) fn merge(into: &mut Attributes, key: &str, value: Value, at: At) -> Result<()> {
    let Some(known) = into.get_mut(key) else {
        into.insert(key.to_owned(), value);
        return Ok(());
    };
    match (known, value) {
        (Value::String(text), Value::String(piece)) => {
            if PIECES.contains(&key) {
                text.push_str(&piece);
            } else if text.is_empty() || !FIRST.contains(&key) {
                *text = piece;
            }
        }
        (Value::Array(list), Value::Array(pieces)) if key == "reasoning_details" => {
            pieces.into_iter().try_for_each(|piece| detail(list, piece, at))?;
        }
        (Value::Array(list), Value::Array(pieces)) if key == THOUGHTS => {
            for piece in pieces {
                thought(list, piece);
            }
        }
        (Value::Array(list), Value::Array(pieces)) if key == "content" || key == "thinking" => {
            for piece in pieces {
                block(list, piece);
            }
        }
        (Value::Array(list), Value::Array(pieces)) => list.extend(pieces),
        (Value::Object(object), Value::Object(pieces)) => {
            let at = at.key(field(key));
            for (key, piece) in pieces.into_iter().filter(|(_, piece)| !piece.is_null()) {
                merge(object, &key, piece, at)?;
            }
        }
        // Mistral sends blocks while it reasons and plain text afterwards.
        (Value::Array(list), Value::String(piece)) if key == "content" => match list.last_mut() {
            Some(Value::String(text)) => text.push_str(&piece),
            _ if piece.is_empty() => {}
            _ => list.push(Value::String(piece)),
        },
        (slot @ Value::String(_), Value::Array(pieces)) if key == "content" => {
            let text = Some(slot.take()).filter(|text| *text != "");
            *slot = text.into_iter().chain(pieces).collect();
        }
        (Value::Array(_), other) if key == "content" => {
            return Err(at.key("content").error(expected("a string or an array", &other)));
        }
        (Value::String(_), other) if PIECES.contains(&key) || FIRST.contains(&key) => {
            return Err(at.key(field(key)).error(expected("a string", &other)));
        }
        (Value::Object(_), other) if ["custom", "function"].contains(&key) => {
            return Err(at.key(field(key)).error(expected("an object", &other)));
        }
        (slot, value) => *slot = value,
    }
    Ok(())
}

/// Adds a block to the list, or to the last block if both are text or both reasoning. Magistral
/// streams one thought as dozens of blocks.
fn block(list: &mut Vec<Value>, mut piece: Value) {
    fn kind(block: &Value) -> Option<&'static str> {
        let block = block.as_object().filter(|block| block.len() == 2)?;
        let kind = block.get("type")?.as_str()?;
        ["text", "thinking"].into_iter().find(|known| *known == kind && block.contains_key(kind))
    }
    let same = kind(&piece).filter(|same| list.last().and_then(kind) == Some(same));
    if let (Some(kind), Some(Value::Object(last))) = (same, list.last_mut()) {
        match (last.get_mut(kind), piece[kind].take()) {
            (Some(Value::String(text)), Value::String(more)) => {
                text.push_str(&more);
                return;
            }
            (Some(Value::Array(list)), Value::Array(more)) => {
                for piece in more {
                    block(list, piece);
                }
                return;
            }
            (_, more) => piece[kind] = more,
        }
    }
    list.push(piece);
}

/// The field in which `LiteLLM` passes on Claude's thoughts.
const THOUGHTS: &str = "thinking_blocks";

/// Adds a piece of a thought to the last one, unless that is signed, which ends it.
fn thought(list: &mut Vec<Value>, mut piece: Value) {
    let is_thought = |block: &Value| block["type"] == "thinking";
    match list.last_mut() {
        Some(block) if is_thought(block) && !is_signed(block) && is_thought(&piece) => {
            if !block["thinking"].is_string() {
                block["thinking"] = Value::String(String::new());
            }
            if let (Value::String(text), Some(more)) =
                (&mut block["thinking"], piece["thinking"].as_str())
            {
                text.push_str(more);
            }
            block["signature"] = piece["signature"].take();
        }
        _ => list.push(piece),
    }
}

fn is_signed(thought: &Value) -> bool {
    thought["signature"].as_str().is_some_and(|signature| !signature.is_empty())
}

/// Removes thoughts whose end did not arrive: Claude takes none without a signature.
pub(super) fn without_unsigned(message: &mut Attributes) {
    if let Some(Value::Array(list)) = message.get_mut(THOUGHTS) {
        list.retain(|block| block["type"] != "thinking" || is_signed(block));
    }
}

/// Adds a piece of OpenRouter's reasoning to the block with its index, or as a new block.
fn detail(list: &mut Vec<Value>, piece: Value, at: At) -> Result<()> {
    let same = |block: &&mut Value| {
        piece.get("index").is_some()
            && block.get("index") == piece.get("index")
            && block.get("type") == piece.get("type")
    };
    match (list.last_mut().filter(same), piece) {
        (Some(Value::Object(block)), Value::Object(piece)) => {
            for (key, value) in piece {
                match (block.get_mut(&key), value) {
                    (Some(Value::String(text)), Value::String(piece))
                        if matches!(key.as_str(), "text" | "summary" | "data" | "signature") =>
                    {
                        text.push_str(&piece);
                    }
                    (Some(old), value) if old.is_null() => *old = value,
                    (Some(_), _) => {}
                    (None, value) => merge(block, &key, value, at)?,
                }
            }
        }
        (_, piece) => list.push(piece),
    }
    Ok(())
}
