//! Assembling an answer from the events of a stream.

use std::collections::BTreeMap;
use std::fmt;

use serde_json::{Value, json};

use super::block::Block;
use crate::error::Result;
use crate::message::{AiMessage, AiPart};
use crate::provider::Provider;
use crate::wire::answer::{Answer, Stop, stop_word};
use crate::wire::common::{At, Fields, event, expected};
use crate::wire::event::{Event, Events};
use crate::wire::refused::refused;
use crate::wire::usage::Usage;

/// An answer that arrives event by event.
///
/// Each event's JSON goes through [`push`](Self::push), and [`finish`](Self::finish) gives the same
/// answer that [`answer`](super::answer) reads from a response in one piece. Events of types that
/// this version does not know carry no content and are skipped, as the API asks of its clients. A
/// `message_start` that some gateway repeats is skipped too.
///
/// ```
/// use memory_prompt::wire::{Event, Stop, anthropic};
///
/// let mut stream = anthropic::Stream::new();
/// let mut shown = String::new();
/// for data in [
///     r#"{"type":"message_start","message":{"role":"assistant","content":[],"usage":{"input_tokens":9}}}"#,
///     r#"{"type":"content_block_start","index":0,"content_block":{"type":"text","text":""}}"#,
///     r#"{"type":"content_block_delta","index":0,"delta":{"type":"text_delta","text":"Sun"}}"#,
///     r#"{"type":"content_block_delta","index":0,"delta":{"type":"text_delta","text":"ny."}}"#,
///     r#"{"type":"content_block_stop","index":0}"#,
///     r#"{"type":"message_delta","delta":{"stop_reason":"end_turn"},"usage":{"output_tokens":4}}"#,
///     r#"{"type":"message_stop"}"#,
/// ] {
///     for event in stream.push(data)? {
///         if let Event::Text(piece) = event {
///             shown += &piece;
///         }
///     }
/// }
/// let answer = stream.finish()?;
/// assert_eq!((shown.as_str(), &*answer.message.text()), ("Sunny.", "Sunny."));
/// assert_eq!((answer.stop, answer.usage.input, answer.usage.output), (Stop::End, Some(9), Some(4)));
/// # Ok::<(), memory_prompt::Error>(())
/// ```
#[derive(Default)]
pub struct Stream {
    blocks: BTreeMap<usize, Block>,
    calls: usize,
    /// The id of the message, where it has begun.
    begun: Option<String>,
    usage: Usage,
    stop_word: Option<String>,
    has_ended: bool,
}

impl fmt::Debug for Stream {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Stream")
            .field("blocks", &self.blocks.len())
            .field("has_begun", &self.begun.is_some())
            .field("has_ended", &self.has_ended)
            .finish_non_exhaustive()
    }
}

const READ: &str = "read anthropic stream";

impl Stream {
    /// A stream of which nothing has arrived.
    pub fn new() -> Self {
        Self::default()
    }

    /// Takes one event: the JSON after `data:` (which may still stand before it). Returns what it
    /// adds to the answer.
    ///
    /// # Errors
    ///
    /// [`ErrorKind::Refused`](crate::ErrorKind::Refused) where the event is an error of the
    /// provider's; [`ErrorKind::Codec`](crate::ErrorKind::Codec) where it can't be read or comes out
    /// of turn. The stream stands as it was before the event.
    pub fn push(&mut self, data: &str) -> Result<Vec<Event>> {
        let at = At::top(READ);
        let mut events = Events::default();
        let Some(event) = event(&at, data)? else { return Ok(events.told()) };
        let mut event = Fields::of(event, at)?;
        refused(&event, &["type"])?;
        let kind = event.required_text("type")?;
        if self.begun.is_none() && matches!(&*kind, "content_block_start" | "content_block_delta") {
            return Err(at.error(format_args!("`{kind}` came before `message_start`")));
        }
        match &*kind {
            "message_start" => self.begin(&mut event)?,
            "content_block_start" => self.open(event, &mut events)?,
            "content_block_delta" => self.add(event, &mut events)?,
            "content_block_stop" => {
                if let Some(block) = self.blocks.get_mut(&index(&mut event)?) {
                    block.close(&mut events);
                }
            }
            "message_delta" => {
                self.usage.grow(event.get("usage").map_or_else(Usage::default, Usage::anthropic));
                let delta = event
                    .take("delta")
                    .and_then(|mut delta| Some(delta.get_mut("stop_reason")?.take()));
                self.stop_word = stop_word(delta).or_else(|| self.stop_word.take());
            }
            "message_stop" if !self.has_ended => {
                self.has_ended = true;
                events.done(Stop::of(self.stop_word.as_deref(), self.calls > 0));
            }
            _ => {}
        }
        Ok(events.told())
    }

    /// Returns whether the provider said that the answer is whole.
    pub fn has_ended(&self) -> bool {
        self.has_ended
    }

    /// The whole answer.
    ///
    /// Arguments that are JSON are those that [`answer`](super::answer) would read; arguments that
    /// were cut off are kept as they came.
    ///
    /// # Errors
    ///
    /// [`ErrorKind::Unfinished`](crate::ErrorKind::Unfinished) where the end has not arrived;
    /// [`broken`](Self::broken) gives what can be kept. Otherwise those of [`answer`](super::answer).
    pub fn finish(self) -> Result<Answer> {
        let top = At::top(READ);
        if !self.has_ended {
            return Err(top.unfinished("the stream ended before `message_stop`"));
        }
        let content = top.key("content");
        let mut parts = Vec::with_capacity(self.blocks.len());
        for (index, block) in self.blocks {
            parts.push(block.into_part(content.index(index))?);
        }
        let message = AiMessage::from_parts(parts);
        Answer::new(Provider::Anthropic, message, self.usage.with_caches(), self.stop_word)
            .checked(&top)
    }

    /// Returns what can be kept of a stream that broke off, or was left: all text, the calls that
    /// are whole, and reasoning that is signed. Its [`stop`](Answer::stop) is [`Stop::Broken`].
    pub fn broken(self) -> Answer {
        let top = At::top(READ);
        let answered: Vec<String> = self.blocks.values().filter_map(Block::answers).collect();
        let whole = self.blocks.into_iter().filter(|(_, block)| block.is_whole(&answered));
        let parts: Vec<AiPart> =
            whole.filter_map(|(index, block)| block.into_part(top.index(index)).ok()).collect();
        Answer::broken(Provider::Anthropic, AiMessage::from_parts(parts), self.usage.with_caches())
    }

    fn begin(&mut self, event: &mut Fields<'_>) -> Result<()> {
        let message = event.take("message").unwrap_or_else(|| json!({}));
        if !message.is_object() {
            return Err(event.at.key("message").error(expected("an object", &message)));
        }
        let id = message.get("id").and_then(Value::as_str).unwrap_or_default();
        match &self.begun {
            Some(begun) if begun != id || id.is_empty() => {
                return Err(event.at.error("a second `message_start`"));
            }
            Some(_) => {}
            None => self.begun = Some(id.to_owned()),
        }
        self.usage.grow(Usage::anthropic(&message["usage"]));
        Ok(())
    }

    fn open(&mut self, mut event: Fields<'_>, events: &mut Events) -> Result<()> {
        let at = event.at;
        let index = index(&mut event)?;
        let fields = Fields::of(event.required("content_block")?, at.key("content_block"))?;
        if self.blocks.contains_key(&index) {
            return Err(at.key("index").error(format_args!("block {index} was opened before")));
        }
        let block = Block::open(fields, &mut self.calls, events);
        self.blocks.insert(index, block);
        Ok(())
    }

    fn add(&mut self, mut event: Fields<'_>, events: &mut Events) -> Result<()> {
        let at = event.at;
        let index = index(&mut event)?;
        let Some(block) = self.blocks.get_mut(&index) else {
            return Err(at.key("index").error(format_args!("block {index} was never opened")));
        };
        block.add(Fields::of(event.required("delta")?, at.key("delta"))?, events)
    }
}

fn index(event: &mut Fields<'_>) -> Result<usize> {
    let index = event.required("index")?;
    let number = index.as_u64().and_then(|index| usize::try_from(index).ok());
    number.ok_or_else(|| event.at.key("index").error(expected("an index", &index)))
}
