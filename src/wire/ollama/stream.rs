//! A streamed answer, assembled.

use std::fmt;

use serde_json::Value;
use serde_json::map::Entry;

use super::decode::{self, Ids};
use crate::error::Result;
use crate::message::{AiMessage, Attributes, ToolCall};
use crate::provider::Provider;
use crate::wire::answer::{Answer, Stop, stop_word};
use crate::wire::common::{At, Fields, event};
use crate::wire::event::{Event, Events};
use crate::wire::refused::refused;
use crate::wire::usage::Usage;

/// Assembles the lines of a streamed response into one answer.
///
/// The pieces become the message that the response would have held without streaming, and that is
/// read as [`answer`](super::answer) reads it.
///
/// ```
/// use memory_prompt::wire::{Event, Stop, ollama::Stream};
///
/// let mut stream = Stream::new();
/// let mut shown = String::new();
/// for line in [
///     r#"{"message": {"role": "assistant", "content": "Hel"}, "done": false}"#,
///     r#"{"message": {"role": "assistant", "content": "lo."}, "done": false}"#,
///     r#"{"message": {"role": "assistant", "content": ""}, "done": true, "done_reason": "stop",
///         "prompt_eval_count": 5, "eval_count": 2}"#,
/// ] {
///     for event in stream.push(line)? {
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
    message: Attributes,
    calls: Vec<ToolCall>,
    /// Named after the first line: calls are shown before the last one has come.
    ids: Option<Ids>,
    usage: Usage,
    stop_word: Option<String>,
    has_ended: bool,
}

impl fmt::Debug for Stream {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Stream")
            .field("fields", &self.message.len())
            .field("calls", &self.calls.len())
            .field("has_ended", &self.has_ended)
            .finish_non_exhaustive()
    }
}

const READ: &str = "read ollama stream";

impl Stream {
    /// A stream of which nothing has come yet.
    pub fn new() -> Self {
        Self::default()
    }

    /// Takes one line, and returns what it adds to the answer.
    ///
    /// # Errors
    ///
    /// [`ErrorKind::Refused`](crate::ErrorKind::Refused) where the server sent an error;
    /// [`ErrorKind::Codec`](crate::ErrorKind::Codec), with the path, where it is not a piece of an
    /// answer.
    pub fn push(&mut self, line: &str) -> Result<Vec<Event>> {
        let top = At::top(READ);
        let mut events = Events::default();
        let Some(value) = event(&top, line)? else { return Ok(events.told()) };
        self.usage.grow(Usage::ollama(&value));
        let mut line = Fields::of(value, top)?;
        refused(&line, &["done"])?;
        let ids = self.ids.get_or_insert_with(|| Ids::new(line.peek("created_at")));
        // The last line of older servers holds none.
        if let Some(message) = line.take("message") {
            let mut message = Fields::of(message, top.key("message"))?;
            events.reasoning(message.peek("thinking").unwrap_or_default());
            events.text(message.peek("content").unwrap_or_default());
            let at = message.at;
            let at = at.key("tool_calls");
            for (i, call) in message.list("tool_calls")?.into_iter().enumerate() {
                let call = decode::call(call, at.index(i), ids)?;
                events.call(self.calls.len(), &call.id, &call.name);
                events.arguments(self.calls.len(), &call.arguments);
                self.calls.push(call);
            }
            for (key, value) in message.rest() {
                merge(&mut self.message, key, value);
            }
        }
        self.stop_word = stop_word(line.take("done_reason")).or_else(|| self.stop_word.take());
        if line.take("done") == Some(Value::Bool(true)) && !self.has_ended {
            self.has_ended = true;
            events.done(Stop::of(self.stop_word.as_deref(), !self.calls.is_empty()));
        }
        Ok(events.told())
    }

    /// Returns whether the server said that it is done.
    pub fn has_ended(&self) -> bool {
        self.has_ended
    }

    /// The whole answer.
    ///
    /// # Errors
    ///
    /// [`ErrorKind::Unfinished`](crate::ErrorKind::Unfinished) where the stream broke off before the
    /// server said that it was done; [`broken`](Self::broken) gives what can be kept.
    /// [`ErrorKind::Codec`](crate::ErrorKind::Codec) where a piece can't be read.
    pub fn finish(self) -> Result<Answer> {
        let top = At::top(READ);
        if !self.has_ended {
            return Err(top.unfinished("it broke off before the answer was complete"));
        }
        let (usage, word) = (self.usage, self.stop_word.clone());
        Answer::new(Provider::Ollama, self.message()?, usage, word).checked(&top)
    }

    /// Returns what can be kept of a stream that broke off, or was left: all text and the calls,
    /// without the reasoning. Its [`stop`](Answer::stop) is [`Stop::Broken`].
    pub fn broken(self) -> Answer {
        let usage = self.usage;
        let message = self.message().unwrap_or_else(|_| AiMessage::new(""));
        Answer::broken(Provider::Ollama, message, usage)
    }

    fn message(self) -> Result<AiMessage> {
        let top = At::top(READ);
        let message = Fields::of(Value::Object(self.message), top.key("message"))?;
        let message = decode::ai(message, &mut Ids::default())?;
        Ok(self.calls.into_iter().fold(message, AiMessage::with_tool_call))
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
