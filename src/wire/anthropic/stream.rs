//! Assembling an answer from the events of a stream.

use std::collections::BTreeMap;
use std::fmt;

use serde_json::Value;

use super::decode::ai_part;
use crate::error::Result;
use crate::message::{AiMessage, AiPart, Attributes, Message};
use crate::wire::common::{At, Fields, event, expected, refused};

/// An answer that arrives event by event.
///
/// Each event's JSON goes through [`push`](Self::push), and [`finish`](Self::finish) gives the same
/// message that [`answer`](super::answer) reads from a response in one piece. Events of types that
/// this version does not know carry no content and are skipped, as the API asks of its clients.
///
/// ```
/// use memory_prompt::{Message, wire::anthropic};
///
/// let mut stream = anthropic::Stream::new();
/// let mut shown = String::new();
/// for data in [
///     r#"{"type":"message_start","message":{"role":"assistant","content":[]}}"#,
///     r#"{"type":"content_block_start","index":0,"content_block":{"type":"text","text":""}}"#,
///     r#"{"type":"content_block_delta","index":0,"delta":{"type":"text_delta","text":"Sun"}}"#,
///     r#"{"type":"content_block_delta","index":0,"delta":{"type":"text_delta","text":"ny."}}"#,
///     r#"{"type":"content_block_stop","index":0}"#,
///     r#"{"type":"message_stop"}"#,
/// ] {
///     shown += &stream.push(data)?;
/// }
/// assert_eq!(shown, "Sunny.");
/// assert_eq!(stream.finish()?, Message::ai("Sunny."));
/// # Ok::<(), memory_prompt::Error>(())
/// ```
#[derive(Default)]
pub struct Stream {
    blocks: BTreeMap<usize, Block>,
    has_begun: bool,
    has_ended: bool,
}

struct Block {
    fields: Attributes,
    /// The pieces of `input`, which may be broken JSON where the model was cut off.
    input: String,
}

impl fmt::Debug for Stream {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Stream")
            .field("blocks", &self.blocks.len())
            .field("has_begun", &self.has_begun)
            .field("has_ended", &self.has_ended)
            .finish()
    }
}

impl Stream {
    /// A stream of which nothing has arrived.
    pub fn new() -> Self {
        Self::default()
    }

    /// Takes one event: the JSON after `data:` (which may still stand before it). Returns the text
    /// that it adds to the answer; empty where it adds none.
    ///
    /// # Errors
    ///
    /// [`ErrorKind::Codec`](crate::ErrorKind::Codec) where the event can't be read, comes out of
    /// turn, or is an error of the provider's. The stream stands as it was before the event.
    pub fn push(&mut self, data: &str) -> Result<String> {
        let at = At::top("read anthropic stream");
        let Some(event) = event(&at, data)? else { return Ok(String::new()) };
        let mut event = Fields::of(event, at)?;
        let kind = event.required_text("type")?;
        refused(&event)?;
        if !self.has_begun && matches!(&*kind, "content_block_start" | "content_block_delta") {
            return Err(at.error(format_args!("`{kind}` came before `message_start`")));
        }
        match &*kind {
            "message_start" if self.has_begun => Err(at.error("a second `message_start`")),
            "message_start" => {
                self.has_begun = true;
                Ok(String::new())
            }
            "content_block_start" => self.open(event),
            "content_block_delta" => self.add(event),
            "message_stop" => {
                self.has_ended = true;
                Ok(String::new())
            }
            // `message_delta` holds usage and the reason to stop, which are the caller's.
            _ => Ok(String::new()),
        }
    }

    /// The whole answer.
    ///
    /// Arguments that are JSON are those that [`answer`](super::answer) would read; arguments that
    /// were cut off are kept as they came.
    ///
    /// # Errors
    ///
    /// [`ErrorKind::Codec`](crate::ErrorKind::Codec) where the end has not arrived, or a block can't
    /// be read.
    pub fn finish(self) -> Result<Message> {
        let top = At::top("read anthropic stream");
        if !self.has_ended {
            return Err(top.error("the stream ended before `message_stop`"));
        }
        let content = top.key("content");
        let mut parts = Vec::with_capacity(self.blocks.len());
        for (index, block) in self.blocks {
            parts.push(block.into_part(content.index(index))?);
        }
        Ok(AiMessage::from_parts(parts).into())
    }

    fn open(&mut self, mut event: Fields<'_>) -> Result<String> {
        let at = event.at;
        let index = index(&mut event)?;
        let fields = Fields::of(event.required("content_block")?, at.key("content_block"))?;
        if self.blocks.contains_key(&index) {
            return Err(at.key("index").error(format_args!("block {index} was opened before")));
        }
        let text = fields.peek("text").unwrap_or_default().to_owned();
        self.blocks.insert(index, Block { fields: fields.whole(), input: String::new() });
        Ok(text)
    }

    fn add(&mut self, mut event: Fields<'_>) -> Result<String> {
        let at = event.at;
        let index = index(&mut event)?;
        let Some(block) = self.blocks.get_mut(&index) else {
            return Err(at.key("index").error(format_args!("block {index} was never opened")));
        };
        let mut delta = Fields::of(event.required("delta")?, at.key("delta"))?;
        match &*delta.required_text("type")? {
            "text_delta" => {
                let text = delta.required_text("text")?;
                block.append("text", &text);
                return Ok(text);
            }
            "input_json_delta" => block.input.push_str(&delta.required_text("partial_json")?),
            "signature_delta" => {
                let signature = delta.required_text("signature")?;
                block.fields.insert("signature".to_owned(), signature.into());
            }
            "citations_delta" => {
                let citation = delta.required("citation")?;
                if let Some(Value::Array(citations)) = block.fields.get_mut("citations") {
                    citations.push(citation);
                } else {
                    block.fields.insert("citations".to_owned(), Value::Array(vec![citation]));
                }
            }
            // `thinking_delta`, `compaction_delta` and what may come: text goes on where it stopped.
            _ => {
                for (key, value) in delta.rest() {
                    match value {
                        Value::String(text) => block.append(&key, &text),
                        value => drop(block.fields.insert(key, value)),
                    }
                }
            }
        }
        Ok(String::new())
    }
}

impl Block {
    fn append(&mut self, key: &str, text: &str) {
        match self.fields.get_mut(key) {
            Some(Value::String(all)) => all.push_str(text),
            _ => drop(self.fields.insert(key.to_owned(), text.into())),
        }
    }

    fn into_part(mut self, at: At<'_>) -> Result<AiPart> {
        let mut cut_off = None;
        if !self.input.trim().is_empty() {
            let input = serde_json::from_str::<Attributes>(&self.input).unwrap_or_else(|_| {
                cut_off = Some(self.input);
                Attributes::new()
            });
            self.fields.insert("input".to_owned(), Value::Object(input));
        }
        let mut part = ai_part(Fields::of(Value::Object(self.fields), at)?)?;
        match (&mut part, cut_off) {
            (AiPart::ToolCall(call), Some(text)) => call.arguments = text,
            // A tool of the provider's own, which stands in no place for broken arguments.
            (_, Some(_)) => return Err(at.key("input").error("not valid JSON")),
            (_, None) => {}
        }
        Ok(part)
    }
}

fn index(event: &mut Fields<'_>) -> Result<usize> {
    let index = event.required("index")?;
    let number = index.as_u64().and_then(|index| usize::try_from(index).ok());
    number.ok_or_else(|| event.at.key("index").error(expected("an index", &index)))
}
