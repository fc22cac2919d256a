//! A streamed answer, assembled.

use std::collections::BTreeMap;
use std::fmt;

use serde_json::Value;

use super::decode::output_items;
use crate::error::Result;
use crate::message::Message;
use crate::wire::common::{At, Fields, event, expected, refused};
use crate::wire::words::answered_error;

/// Assembles the events of a streamed response into one message.
///
/// The deltas are for showing: the message is made of the whole items that the provider sends when
/// each is done, since only these hold all of the encrypted reasoning.
///
/// ```
/// use memory_prompt::wire::responses::Stream;
///
/// let mut stream = Stream::new();
/// let mut shown = String::new();
/// for data in [
///     r#"{"type": "response.output_text.delta", "output_index": 0, "content_index": 0, "delta": "Hel"}"#,
///     r#"{"type": "response.output_text.delta", "output_index": 0, "content_index": 0, "delta": "lo."}"#,
///     r#"{"type": "response.output_item.done", "output_index": 0, "item": {"type": "message", "id": "msg_1",
///         "role": "assistant", "content": [{"type": "output_text", "text": "Hello."}]}}"#,
///     r#"{"type": "response.completed", "response": {}}"#,
/// ] {
///     shown += &stream.push(data)?;
/// }
/// assert_eq!(shown, "Hello.");
/// assert_eq!(stream.finish()?.text(), "Hello.");
/// # Ok::<(), memory_prompt::Error>(())
/// ```
#[derive(Default)]
pub struct Stream {
    items: BTreeMap<u64, Value>,
    ended: bool,
}

impl fmt::Debug for Stream {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Stream")
            .field("items", &self.items.len())
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
    /// none. Events of other kinds are passed over.
    ///
    /// # Errors
    ///
    /// [`ErrorKind::Codec`](crate::ErrorKind::Codec), with the path, where it is not an event: also
    /// where the provider sent an error.
    pub fn push(&mut self, data: &str) -> Result<String> {
        let top = At::top("read responses stream");
        let Some(value) = event(&top, data)? else {
            self.ended |= data.contains("[DONE]");
            return Ok(String::new());
        };
        let mut event = Fields::of(value, top)?;
        refused(&event)?;
        match event.peek("type") {
            Some("response.output_text.delta" | "response.refusal.delta") => {
                return event.required_text("delta");
            }
            Some("response.output_item.done") => {
                let index = event.required("output_index")?;
                let index = index
                    .as_u64()
                    .ok_or_else(|| top.key("output_index").error(expected("an index", &index)))?;
                self.items.insert(index, event.required("item")?);
            }
            Some("response.completed" | "response.incomplete" | "response.failed") => {
                let mut response = Fields::of(event.required("response")?, top.key("response"))?;
                refused(&response)?;
                let output = response.list("output")?;
                if !output.is_empty() {
                    self.items = (0..).zip(output).collect();
                }
                self.ended = true;
            }
            Some("error") => {
                return Err(top.error(answered_error(&Value::Object(event.whole()))));
            }
            _ => {}
        }
        Ok(String::new())
    }

    /// The whole message.
    ///
    /// # Errors
    ///
    /// [`ErrorKind::Codec`](crate::ErrorKind::Codec) where the stream broke off before the provider
    /// said that the response was complete, or where an item can't be read. Half an answer is never
    /// taken for a whole one.
    pub fn finish(self) -> Result<Message> {
        let top = At::top("read responses stream");
        if !self.ended {
            return Err(top.error("it broke off before the answer was complete"));
        }
        output_items(self.items.into_values().collect(), &top).map(Message::Ai)
    }
}
