//! A streamed answer, assembled.

use std::fmt;

use serde_json::Value;
use serde_json::map::Entry;

use super::decode;
use crate::error::Result;
use crate::message::{Attributes, Message};
use crate::wire::common::{At, Fields, event, refused};

/// Assembles the lines of a streamed response into one message.
///
/// The pieces become the message that the response would have held without streaming, and that is
/// read as [`answer`](super::answer) reads it.
///
/// ```
/// use memory_prompt::{Message, wire::ollama::Stream};
///
/// let mut stream = Stream::new();
/// let mut shown = String::new();
/// for line in [
///     r#"{"message": {"role": "assistant", "content": "Hel"}, "done": false}"#,
///     r#"{"message": {"role": "assistant", "content": "lo."}, "done": false}"#,
///     r#"{"message": {"role": "assistant", "content": ""}, "done": true, "done_reason": "stop"}"#,
/// ] {
///     shown += &stream.push(line)?;
/// }
/// assert_eq!(shown, "Hello.");
/// assert_eq!(stream.finish()?, Message::ai("Hello."));
/// # Ok::<(), memory_prompt::Error>(())
/// ```
#[derive(Default)]
pub struct Stream {
    message: Attributes,
    created_at: Option<Value>,
    ended: bool,
}

impl fmt::Debug for Stream {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Stream")
            .field("fields", &self.message.len())
            .field("ended", &self.ended)
            .finish_non_exhaustive()
    }
}

impl Stream {
    /// A stream of which nothing has come yet.
    pub fn new() -> Self {
        Self::default()
    }

    /// Takes one line, and returns the text that it adds to the answer; empty where it adds none.
    ///
    /// # Errors
    ///
    /// [`ErrorKind::Codec`](crate::ErrorKind::Codec), with the path, where it is not a piece of an
    /// answer: also where the server sent an error.
    pub fn push(&mut self, line: &str) -> Result<String> {
        let top = At::top("read ollama stream");
        let Some(value) = event(&top, line)? else { return Ok(String::new()) };
        let mut line = Fields::of(value, top)?;
        refused(&line)?;
        let mut text = String::new();
        // The last line of older servers holds none.
        if let Some(message) = line.take("message") {
            let message = Fields::of(message, top.key("message"))?;
            text.extend(message.peek("content"));
            for (key, value) in message.rest() {
                merge(&mut self.message, key, value);
            }
        }
        if let Some(created_at) = line.take("created_at") {
            self.created_at = Some(created_at);
        }
        self.ended |= line.take("done") == Some(Value::Bool(true));
        Ok(text)
    }

    /// The whole message.
    ///
    /// # Errors
    ///
    /// [`ErrorKind::Codec`](crate::ErrorKind::Codec) where the stream broke off before the server
    /// said that it was done, or where a piece can't be read. Half an answer is never taken for a
    /// whole one.
    pub fn finish(self) -> Result<Message> {
        let top = At::top("read ollama stream");
        if !self.ended {
            return Err(top.error("it broke off before the answer was complete"));
        }
        let mut body = Attributes::new();
        body.insert("message".to_owned(), Value::Object(self.message));
        body.extend(self.created_at.map(|created_at| ("created_at".to_owned(), created_at)));
        decode::body(Fields::of(Value::Object(body), top)?)
    }
}

/// Adds a piece of a field to what has come of it: texts and lists grow, all else is replaced.
fn merge(into: &mut Attributes, key: String, value: Value) {
    let grows = matches!(key.as_str(), "content" | "thinking");
    match into.entry(key) {
        Entry::Vacant(slot) => {
            slot.insert(value);
        }
        Entry::Occupied(mut slot) => match (slot.get_mut(), value) {
            (Value::String(text), Value::String(piece)) if grows => text.push_str(&piece),
            (Value::Array(list), Value::Array(pieces)) => list.extend(pieces),
            (slot, value) => *slot = value,
        },
    }
}
