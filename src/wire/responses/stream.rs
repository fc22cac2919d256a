//! A streamed answer, assembled.

use std::collections::BTreeMap;
use std::fmt;

use super::decode::{end, output_items};
use super::item::Item;
use crate::error::Result;
use crate::message::AiMessage;
use crate::provider::Provider;
use crate::wire::answer::{Answer, Stop};
use crate::wire::common::{At, Fields, event, expected};
use crate::wire::event::{Event, Events};
use crate::wire::refused::refused;
use crate::wire::usage::Usage;

/// Assembles the events of a streamed response into one answer.
///
/// The deltas are for showing: the message is made of the whole items that the provider sends when
/// each is done, since only these hold all of the encrypted reasoning. What was shown of an item is
/// what it says; an item that says something else is an error.
///
/// ```
/// use memory_prompt::wire::{Event, Stop, responses::Stream};
///
/// let mut stream = Stream::new();
/// let mut shown = String::new();
/// for data in [
///     r#"{"type": "response.output_text.delta", "output_index": 0, "content_index": 0, "delta": "Hel"}"#,
///     r#"{"type": "response.output_text.delta", "output_index": 0, "content_index": 0, "delta": "lo."}"#,
///     r#"{"type": "response.output_item.done", "output_index": 0, "item": {"type": "message", "id": "msg_1",
///         "role": "assistant", "content": [{"type": "output_text", "text": "Hello."}]}}"#,
///     r#"{"type": "response.completed", "response": {"status": "completed", "usage": {"output_tokens": 2}}}"#,
/// ] {
///     for event in stream.push(data)? {
///         if let Event::Text(piece) = event {
///             shown += &piece;
///         }
///     }
/// }
/// let answer = stream.finish()?;
/// assert_eq!((shown.as_str(), &*answer.message.text()), ("Hello.", "Hello."));
/// assert_eq!((answer.stop, answer.usage.output), (Stop::End, Some(2)));
/// # Ok::<(), memory_prompt::Error>(())
/// ```
#[derive(Default)]
pub struct Stream {
    items: BTreeMap<u64, Item>,
    calls: usize,
    usage: Usage,
    stop_word: Option<String>,
    has_ended: bool,
}

impl fmt::Debug for Stream {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Stream")
            .field("items", &self.items.len())
            .field("has_ended", &self.has_ended())
            .finish_non_exhaustive()
    }
}

const READ: &str = "read responses stream";

impl Stream {
    /// A stream of which nothing has come yet.
    pub fn new() -> Self {
        Self::default()
    }

    /// Takes one event's data, and returns what it adds to the answer. Events of other kinds are
    /// passed over.
    ///
    /// # Errors
    ///
    /// [`ErrorKind::Refused`](crate::ErrorKind::Refused) where the provider sent an error or failed;
    /// [`ErrorKind::Codec`](crate::ErrorKind::Codec), with the path, where it is not an event, or a
    /// whole item does not say what its pieces said.
    pub fn push(&mut self, data: &str) -> Result<Vec<Event>> {
        let top = At::top(READ);
        let mut events = Events::default();
        let Some(value) = event(&top, data)? else { return Ok(events.told()) };
        let mut event = Fields::of(value, top)?;
        refused(&event, &["type"])?;
        let Some(kind) = event.text("type")? else { return Ok(events.told()) };
        match kind.strip_prefix("response.").unwrap_or(&kind) {
            "output_item.added" => {
                let value = event.take("item").unwrap_or_default();
                let calls = &mut self.calls;
                item(&mut self.items, &mut event)?.announce(value, calls, &mut events);
            }
            "output_text.delta" | "refusal.delta" => {
                let block = number(&mut event, "content_index")?;
                let piece = event.required_text("delta")?;
                let is_refusal = kind.ends_with("refusal.delta");
                open(&mut self.items, &mut event)?.says(block, is_refusal, &piece, &mut events);
            }
            "reasoning_summary_text.delta" | "reasoning_text.delta" => {
                let is_summary = kind.contains("summary");
                let key = if is_summary { "summary_index" } else { "content_index" };
                let block = number(&mut event, key)?;
                let piece = event.required_text("delta")?;
                open(&mut self.items, &mut event)?.thinks(block, &piece, &mut events);
            }
            "function_call_arguments.delta" | "custom_tool_call_input.delta" => {
                let piece = event.required_text("delta")?;
                open(&mut self.items, &mut event)?.calls(&piece, &mut events);
            }
            "output_item.done" => {
                let value = event.required("item")?;
                let calls = &mut self.calls;
                item(&mut self.items, &mut event)?.finish(
                    value,
                    &top.key("item"),
                    calls,
                    &mut events,
                )?;
            }
            "completed" | "incomplete" | "failed" | "cancelled" => {
                let response = event.required("response")?;
                let word = kind.trim_start_matches("response.");
                self.end(Fields::of(response, top.key("response"))?, word, &mut events)?;
            }
            _ => {}
        }
        Ok(events.told())
    }

    /// Returns whether the provider said that the response is complete.
    pub fn has_ended(&self) -> bool {
        self.has_ended
    }

    /// The whole answer.
    ///
    /// # Errors
    ///
    /// [`ErrorKind::Unfinished`](crate::ErrorKind::Unfinished) where the stream broke off before the
    /// provider said that the response was complete; [`broken`](Self::broken) gives what can be kept.
    /// Otherwise those of [`answer`](super::answer).
    pub fn finish(self) -> Result<Answer> {
        let top = At::top(READ);
        if !self.has_ended {
            return Err(top.unfinished("it broke off before the answer was complete"));
        }
        let items = self.items.into_values().filter_map(|item| item.into_value(false));
        let message = output_items(items.collect(), &top)?;
        Answer::new(Provider::OpenAiResponses, message, self.usage, self.stop_word).checked(&top)
    }

    /// What can be kept of a stream that broke off, or was left: all text, the calls that are whole,
    /// and reasoning that is encrypted. Its [`stop`](Answer::stop) is [`Stop::Broken`].
    pub fn broken(self) -> Answer {
        let top = At::top(READ);
        let items = self.items.into_values().filter_map(|item| item.into_value(true));
        // One by one: what can't be read is not kept.
        let read = items.filter_map(|item| output_items(vec![item], &top).ok());
        let parts: Vec<_> = read.flat_map(AiMessage::into_parts).collect();
        Answer::broken(Provider::OpenAiResponses, AiMessage::from_parts(parts), self.usage)
    }

    fn end(&mut self, mut response: Fields<'_>, kind: &str, events: &mut Events) -> Result<()> {
        if !response.has("status") {
            response.put("status", kind);
        }
        let (usage, word) = end(&mut response)?;
        self.usage.grow(usage);
        let at = response.at;
        let at = at.key("output");
        // What was done is known; of what was not, this is the first and last word.
        for (i, value) in response.list("output")?.into_iter().enumerate() {
            let item = self.items.entry(i as u64).or_default();
            if !item.is_done() {
                item.finish(value, &at.index(i), &mut self.calls, events)?;
            }
        }
        if !self.has_ended() {
            events.done(Stop::of(word.as_deref(), self.calls > 0));
            (self.has_ended, self.stop_word) = (true, word);
        }
        Ok(())
    }
}

/// The item that a piece belongs to, which can't be done.
fn open<'a>(items: &'a mut BTreeMap<u64, Item>, event: &mut Fields<'_>) -> Result<&'a mut Item> {
    let at = event.at;
    let item = item(items, event)?;
    if item.is_done() { Err(at.error("a piece of an item that is done")) } else { Ok(item) }
}

/// The item that an event is about: the last one, where it does not say.
fn item<'a>(items: &'a mut BTreeMap<u64, Item>, event: &mut Fields<'_>) -> Result<&'a mut Item> {
    let index = match items.last_key_value() {
        Some((last, _)) if !event.has("output_index") => *last,
        _ => number(event, "output_index")?,
    };
    Ok(items.entry(index).or_default())
}

/// An index; 0 where there is none.
fn number(event: &mut Fields<'_>, key: &'static str) -> Result<u64> {
    let Some(index) = event.take(key) else { return Ok(0) };
    index.as_u64().ok_or_else(|| event.at.key(key).error(expected("an index", &index)))
}
