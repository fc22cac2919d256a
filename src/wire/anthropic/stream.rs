//! Assembles an answer from the events of a stream.

use serde_json::{Value, json};

use super::block::StreamedBlock;
use crate::error::Result;
use crate::message::{AiMessage, AiPart};
use crate::provider::Provider;
use crate::wire::answer::stop_word;
use crate::wire::common::{At, Fields, expected};
use crate::wire::event::Events;
use crate::wire::stream::{End, FormatStream, Pieces};
use crate::wire::usage::Usage;

/// Assembles the events of a streamed response into one answer.
///
/// Pass each event's JSON to [`push`](Self::push); [`finish`](Self::finish) returns the answer that
/// [`answer`](super::answer) would read from a response that is not streamed. Events of types that
/// this version does not know carry no content and are skipped, as the API requires of its clients.
/// A `message_start` may contain complete blocks; one that a gateway repeats is skipped.
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
pub type Stream = FormatStream<Blocks>;

/// The part of an answer that has arrived.
#[derive(Debug, Default)]
pub struct Blocks {
    /// In the order of arrival, with their index.
    blocks: Vec<(usize, StreamedBlock)>,
    /// The id of the message, if it has begun.
    begun: Option<String>,
}

impl Pieces for Blocks {
    const NAMESAKE: Provider = Provider::Anthropic;
    const READ: &'static str = "read anthropic stream";
    const OWN: &'static [&'static str] = &["type"];

    fn take(&mut self, mut event: Fields, end: &mut End, events: &mut Events) -> Result<()> {
        let kind = event.required_text("type")?;
        if self.begun.is_none() && matches!(&*kind, "content_block_start" | "content_block_delta") {
            let what = format_args!("`{kind}` came before `message_start`");
            return Err(event.at.error(what));
        }
        match &*kind {
            "message_start" => {
                let mut message = self.begin(&mut event)?;
                end.usage.tells(message.get("usage").map_or_else(Usage::default, Usage::anthropic));
                end.says(stop_word(message.take("stop_reason")));
                self.begin_with(message.take("content"), message.at.key("content"), events)?;
                end.beside.take(message);
            }
            "content_block_start" => self.open(event, events)?,
            "content_block_delta" => self.add(event, events)?,
            "content_block_stop" => {
                if let Some(place) = self.place(index(&mut event)?)
                    && let Some((_, block)) = self.blocks.get_mut(place)
                {
                    block.close(events);
                }
            }
            "message_delta" => {
                end.usage.tells(event.get("usage").map_or_else(Usage::default, Usage::anthropic));
                if let Some(mut delta) = event.object("delta")? {
                    end.says(stop_word(delta.take("stop_reason")));
                    end.beside.take(delta);
                }
                end.beside.take(event);
            }
            "message_stop" => end.says_over(),
            _ => {}
        }
        Ok(())
    }

    fn message(self, top: At) -> Result<AiMessage> {
        let content = top.key("content");
        let answered = self.answered();
        let kept = self.blocks.into_iter().filter(|(_, block)| !block.is_cut_off(&answered));
        let parts = kept.map(|(i, block)| block.into_part(content.index(i)));
        Ok(AiMessage::from_parts(parts.collect::<Result<Vec<_>>>()?))
    }

    fn kept(self, top: At) -> AiMessage {
        let answered = self.answered();
        let whole = self.blocks.into_iter().filter(|(_, block)| block.is_whole(&answered));
        let parts: Vec<AiPart> =
            whole.filter_map(|(index, block)| block.into_part(top.index(index)).ok()).collect();
        AiMessage::from_parts(parts)
    }

    fn total(usage: Usage) -> Usage {
        usage.with_caches()
    }
}

impl Blocks {
    /// Returns the ids of the provider's own calls that have a result.
    fn answered(&self) -> Vec<String> {
        self.blocks.iter().filter_map(|(_, block)| block.answers()).collect()
    }

    fn place(&self, index: usize) -> Option<usize> {
        self.blocks.iter().rposition(|(known, _)| *known == index)
    }

    /// Begins the message. Returns its fields so far.
    fn begin(&mut self, event: &mut Fields) -> Result<Fields> {
        let message = event.take("message").unwrap_or_else(|| json!({}));
        let message = Fields::of(message, event.at.key("message"))?;
        let id = message.peek("id").unwrap_or_default();
        match &self.begun {
            Some(begun) if begun != id || id.is_empty() => {
                return Err(event.at.error("a second `message_start`"));
            }
            Some(_) => {}
            None => self.begun = Some(id.to_owned()),
        }
        Ok(message)
    }

    /// Takes the complete blocks with which a message begins. If a program of Claude's calls a
    /// tool, no others follow.
    fn begin_with(&mut self, said: Option<Value>, at: At, events: &mut Events) -> Result<()> {
        let blocks = match said.filter(|_| self.blocks.is_empty()) {
            None => return Ok(()), // or repeated
            Some(Value::Array(blocks)) => blocks,
            Some(Value::String(text)) => vec![json!({"type": "text", "text": text})],
            Some(other) => return Err(at.error(expected("an array", &other))),
        };
        for (i, block) in blocks.into_iter().enumerate() {
            let fields = Fields::of(block, at.index(i))?;
            // It is opened again when its text arrives.
            if fields.peek("text") == Some("") {
                continue;
            }
            let mut block = StreamedBlock::begin(fields, events);
            block.close(events);
            self.blocks.push((i, block));
        }
        Ok(())
    }

    fn open(&mut self, mut event: Fields, events: &mut Events) -> Result<()> {
        let index = index(&mut event)?;
        let fields = event.required_object("content_block")?;
        if self.place(index).is_some() {
            let what = format_args!("block {index} was opened before");
            return Err(event.at.key("index").error(what));
        }
        self.blocks.push((index, StreamedBlock::begin(fields, events)));
        Ok(())
    }

    fn add(&mut self, mut event: Fields, events: &mut Events) -> Result<()> {
        let at = event.at.key("index");
        let index = index(&mut event)?;
        let delta = event.required_object("delta")?;
        let place = self.place(index).unwrap_or(self.blocks.len());
        let Some(((_, block), behind)) =
            self.blocks.get_mut(place..).and_then(<[_]>::split_first_mut)
        else {
            return Err(at.error(format_args!("block {index} was never opened")));
        };
        // What is shown is what is stored.
        if block.is_text() && behind.iter().any(|(_, other)| other.is_text()) {
            return Err(at.error(format_args!("block {index} goes on behind another text")));
        }
        block.add(delta, events)
    }
}

fn index(event: &mut Fields) -> Result<usize> {
    let index = event.index("index")?;
    let number = index.and_then(|index| usize::try_from(index).ok());
    number.ok_or_else(|| event.at.key("index").error("missing"))
}
