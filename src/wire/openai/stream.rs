//! A streamed answer, assembled.

use std::fmt;

use serde_json::Value;
use serde_json::map::Entry;

use super::decode;
use crate::error::Result;
use crate::message::{Attributes, Message};
use crate::wire::common::{At, Fields, event, expected, refused};

/// Assembles the chunks of a streamed response into one message.
///
/// The chunks become the message that the response would have held without streaming, and that is
/// read as [`answer`](super::answer) reads it. Servers that send parallel calls under one index, or
/// under none, are understood.
///
/// ```
/// use memory_prompt::{Message, wire::openai::Stream};
///
/// let mut stream = Stream::new();
/// let mut shown = String::new();
/// for data in [
///     r#"{"choices": [{"index": 0, "delta": {"role": "assistant", "content": ""}}]}"#,
///     r#"{"choices": [{"index": 0, "delta": {"content": "Hel"}}]}"#,
///     r#"{"choices": [{"index": 0, "delta": {"content": "lo."}, "finish_reason": "stop"}]}"#,
///     "[DONE]",
/// ] {
///     shown += &stream.push(data)?;
/// }
/// assert_eq!(shown, "Hello.");
/// assert_eq!(stream.finish()?, Message::ai("Hello."));
/// # Ok::<(), memory_prompt::Error>(())
/// ```
#[derive(Default)]
pub struct Stream {
    /// The message so far, as the provider writes it, but for its calls.
    message: Attributes,
    calls: Vec<Call>,
    ended: bool,
}

#[derive(Default)]
struct Call {
    index: Option<u64>,
    fields: Attributes,
}

impl fmt::Debug for Stream {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Stream")
            .field("fields", &self.message.len())
            .field("calls", &self.calls.len())
            .field("ended", &self.ended)
            .finish()
    }
}

impl Stream {
    /// A stream of which nothing has come yet.
    pub fn new() -> Self {
        Self::default()
    }

    /// Takes one event's data, and returns the text that it adds to the answer; empty where it adds
    /// none.
    ///
    /// # Errors
    ///
    /// [`ErrorKind::Codec`](crate::ErrorKind::Codec), with the path, where it is not a chunk of one
    /// answer: also where the provider sent an error, or a second choice.
    pub fn push(&mut self, data: &str) -> Result<String> {
        let top = At::top("read openai stream");
        let Some(value) = event(&top, data)? else {
            self.ended |= data.contains("[DONE]");
            return Ok(String::new());
        };
        let mut chunk = Fields::of(value, top)?;
        refused(&chunk)?;
        let at = top.key("choices");
        let mut text = String::new();
        for (i, choice) in chunk.list("choices")?.into_iter().enumerate() {
            let mut choice = Fields::of(choice, at.index(i))?;
            if choice.take("index").is_some_and(|index| index.as_u64() != Some(0)) {
                return Err(choice.at.key("index").error("expected one choice, numbered 0"));
            }
            if let Some(delta) = choice.take("delta") {
                let at = choice.at;
                text += &self.delta(Fields::of(delta, at.key("delta"))?)?;
            }
            self.ended |= choice.has("finish_reason");
        }
        Ok(text)
    }

    /// The whole message.
    ///
    /// # Errors
    ///
    /// [`ErrorKind::Codec`](crate::ErrorKind::Codec) where the stream broke off: the provider named
    /// no reason to stop and did not say `[DONE]`. Half an answer is never taken for a whole one.
    pub fn finish(mut self) -> Result<Message> {
        let top = At::top("read openai stream");
        if !self.ended {
            return Err(top.error("it broke off before the answer was complete"));
        }
        if !self.calls.is_empty() {
            let calls = self.calls.into_iter().map(|call| Value::Object(call.fields));
            self.message.insert("tool_calls".to_owned(), calls.collect());
        }
        decode::ai(Fields::of(Value::Object(self.message), top)?).map(Message::Ai)
    }

    fn delta(&mut self, mut delta: Fields<'_>) -> Result<String> {
        let at = delta.at;
        let calls = at.key("tool_calls");
        for (i, call) in delta.list("tool_calls")?.into_iter().enumerate() {
            self.call(Fields::of(call, calls.index(i))?)?;
        }
        let text = delta.peek("content").map(str::to_owned);
        for (key, value) in delta.rest() {
            merge(&mut self.message, &key, value, &at)?;
        }
        Ok(text.unwrap_or_default())
    }

    fn call(&mut self, mut call: Fields<'_>) -> Result<()> {
        let at = call.at;
        let index = match call.take("index") {
            None => None,
            Some(index) => Some(
                index
                    .as_u64()
                    .ok_or_else(|| at.key("index").error(expected("an index", &index)))?,
            ),
        };
        let slot = self.slot(index, call.peek("id").unwrap_or_default());
        for (key, value) in call.rest() {
            merge(&mut slot.fields, &key, value, &at)?;
        }
        Ok(())
    }

    /// The call that a piece belongs to: the one of its index, unless another id says that a new
    /// one begins; without an index, the last one.
    fn slot(&mut self, index: Option<u64>, id: &str) -> &mut Call {
        let same = |call: &Call| index.is_none() || call.index == index;
        let found = self.calls.iter().rposition(same).filter(|&i| {
            let known = self.calls[i].fields.get("id").and_then(Value::as_str).unwrap_or_default();
            id.is_empty() || known.is_empty() || known == id
        });
        let i = found.unwrap_or(self.calls.len());
        if i == self.calls.len() {
            self.calls.push(Call { index, ..Call::default() });
        }
        &mut self.calls[i]
    }
}

/// Texts that come whole, and that some servers repeat in every chunk. All others come in pieces.
const WHOLE: [&str; 4] = ["role", "id", "type", "name"];

/// The field as an error may name it.
fn field(key: &str) -> &'static str {
    const FIELDS: [&str; 12] = [
        "arguments",
        "content",
        "custom",
        "function",
        "id",
        "input",
        "name",
        "reasoning",
        "reasoning_content",
        "refusal",
        "role",
        "type",
    ];
    FIELDS.into_iter().find(|field| *field == key).unwrap_or("(another field)")
}

/// Adds a piece of a field to what has come of it.
fn merge(into: &mut Attributes, key: &str, value: Value, at: &At<'_>) -> Result<()> {
    let mut slot = match into.entry(key) {
        Entry::Vacant(slot) => {
            slot.insert(value);
            return Ok(());
        }
        Entry::Occupied(slot) => slot,
    };
    match (slot.get_mut(), value) {
        (Value::String(text), Value::String(piece)) => {
            if !WHOLE.contains(&key) {
                text.push_str(&piece);
            } else if text.is_empty() {
                *text = piece;
            }
        }
        (Value::Array(list), Value::Array(pieces)) if key == "reasoning_details" => {
            pieces.into_iter().try_for_each(|piece| detail(list, piece, at))?;
        }
        (Value::Array(list), Value::Array(pieces)) => list.extend(pieces),
        (Value::Object(object), Value::Object(pieces)) => {
            let at = at.key(field(key));
            for (key, piece) in pieces.into_iter().filter(|(_, piece)| !piece.is_null()) {
                merge(object, &key, piece, &at)?;
            }
        }
        // Mistral sends blocks while it thinks and bare text afterwards.
        (Value::Array(list), Value::String(piece)) if key == "content" => match list.last_mut() {
            Some(Value::String(text)) => text.push_str(&piece),
            _ => list.push(Value::String(piece)),
        },
        (slot @ Value::String(_), Value::Array(pieces)) if key == "content" => {
            let text = slot.take();
            *slot = std::iter::once(text).chain(pieces).collect();
        }
        (Value::String(_), other) => {
            return Err(at.key(field(key)).error(expected("a string", &other)));
        }
        (slot, value) => *slot = value,
    }
    Ok(())
}

/// Adds a piece of OpenRouter's reasoning: to the block of its index, or as a block of its own.
fn detail(list: &mut Vec<Value>, piece: Value, at: &At<'_>) -> Result<()> {
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
