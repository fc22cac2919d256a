//! A streamed answer, assembled.

use std::fmt;

use serde_json::{Value, json};

use super::calls::Calls;
use super::decode::{self, FUNCTION_ID, Ids, usage};
use super::merge::merge;
use crate::error::Result;
use crate::message::{AiMessage, Attributes};
use crate::provider::Provider;
use crate::wire::answer::{Answer, Stop, stop_word};
use crate::wire::common::{At, Fields, event};
use crate::wire::event::{Event, Events};
use crate::wire::refused::refused;
use crate::wire::usage::Usage;

/// Assembles the chunks of a streamed response into one answer.
///
/// The chunks become the message that the response would have held without streaming, and that is
/// read as [`answer`](super::answer) reads it. Servers that send parallel calls under one index, or
/// under none, are understood. It ends where a `finish_reason` says so: `""` and `"null"`, which some
/// servers write into each chunk, say nothing, and `[DONE]` alone is no end.
///
/// ```
/// use memory_prompt::wire::{Event, Stop, openai::Stream};
///
/// let mut stream = Stream::new();
/// let mut shown = String::new();
/// for data in [
///     r#"{"choices": [{"index": 0, "delta": {"role": "assistant", "content": ""}}]}"#,
///     r#"{"choices": [{"index": 0, "delta": {"content": "Hel"}}]}"#,
///     r#"{"choices": [{"index": 0, "delta": {"content": "lo."}, "finish_reason": "stop"}]}"#,
///     r#"{"choices": [], "usage": {"prompt_tokens": 3, "completion_tokens": 2}}"#,
///     "[DONE]",
/// ] {
///     for event in stream.push(data)? {
///         match event {
///             Event::Text(piece) => shown += &piece,
///             Event::Done(stop) => assert_eq!(stop, Stop::End),
///             _ => {}
///         }
///     }
/// }
/// let answer = stream.finish()?;
/// assert_eq!((shown.as_str(), &*answer.message.text()), ("Hello.", "Hello."));
/// assert_eq!(answer.usage.output, Some(2));
/// # Ok::<(), memory_prompt::Error>(())
/// ```
#[derive(Default)]
pub struct Stream {
    /// The message so far, as the provider writes it, but for its calls.
    message: Attributes,
    calls: Calls,
    ids: Ids,
    usage: Usage,
    stop_word: Option<String>,
    /// True where `[DONE]` ends an answer, and came.
    done: Option<bool>,
}

impl fmt::Debug for Stream {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Stream")
            .field("fields", &self.message.len())
            .field("calls", &self.calls.len())
            .field("has_ended", &self.has_ended())
            .finish_non_exhaustive()
    }
}

const READ: &str = "read openai stream";

impl Stream {
    /// A stream of which nothing has come yet.
    pub fn new() -> Self {
        Self::default()
    }

    /// The same stream for a server that never says why it stops: `[DONE]` is its end. Snowflake Cortex
    /// is one.
    ///
    /// ```
    /// use memory_prompt::wire::{Stop, openai::Stream};
    ///
    /// let mut stream = Stream::new().ending_in_done();
    /// stream.push(r#"{"choices": [{"delta": {"content": "4"}}]}"#)?;
    /// stream.push("[DONE]")?;
    /// assert_eq!(stream.finish()?.stop, Stop::Unknown);
    /// # Ok::<(), memory_prompt::Error>(())
    /// ```
    #[must_use]
    pub fn ending_in_done(mut self) -> Self {
        self.done = Some(false);
        self
    }

    /// Takes one event's data, and returns what it adds to the answer.
    ///
    /// # Errors
    ///
    /// [`ErrorKind::Refused`](crate::ErrorKind::Refused) where the provider sent an error;
    /// [`ErrorKind::Codec`](crate::ErrorKind::Codec), with the path, where it is not a chunk of one
    /// answer: also where it is of a second choice.
    pub fn push(&mut self, data: &str) -> Result<Vec<Event>> {
        let top = At::top(READ);
        let mut events = Events::default();
        let Some(value) = event(&top, data)? else {
            if !self.has_ended() && self.done.is_some() && data.contains("[DONE]") {
                self.done = Some(true);
                events.done(Stop::of(None, self.calls.len() > 0));
            }
            return Ok(events.told());
        };
        let mut chunk = Fields::of(value, top)?;
        refused(&chunk, &["choices"])?;
        self.ids.name_after(&chunk);
        self.usage.grow(usage(&chunk));
        let at = top.key("choices");
        for (i, choice) in chunk.list("choices")?.into_iter().enumerate() {
            self.choice(Fields::of(choice, at.index(i))?, &mut events)?;
        }
        Ok(events.told())
    }

    /// Returns whether the provider said why it stops.
    pub fn has_ended(&self) -> bool {
        self.stop_word.is_some() || self.done == Some(true)
    }

    /// The whole answer.
    ///
    /// # Errors
    ///
    /// [`ErrorKind::Unfinished`](crate::ErrorKind::Unfinished) where the stream broke off: half an
    /// answer is never taken for a whole one, and [`broken`](Self::broken) gives what can be kept of
    /// it. Otherwise those of [`answer`](super::answer).
    pub fn finish(mut self) -> Result<Answer> {
        let top = At::top(READ);
        if !self.has_ended() {
            return Err(top.unfinished("it broke off before the answer was complete"));
        }
        self.calls.put_into(&mut self.message);
        let message = Fields::of(Value::Object(self.message), top)?;
        let message = decode::ai(message, &mut self.ids)?;
        Answer::new(Provider::OpenAi, message, self.usage, self.stop_word).checked(&top)
    }

    /// Returns what can be kept of a stream that broke off, or was left: all text, the calls that
    /// are whole, and reasoning that is signed. Its [`stop`](Answer::stop) is [`Stop::Broken`].
    ///
    /// ```
    /// use memory_prompt::wire::{Stop, openai::Stream};
    ///
    /// let mut stream = Stream::new();
    /// stream.push(r#"{"choices": [{"delta": {"content": "Let me see.", "tool_calls": [
    ///     {"index": 0, "id": "a", "function": {"name": "look", "arguments": "{}"}},
    ///     {"index": 1, "id": "b", "function": {"name": "look", "arguments": "{\"x\": "}}]}}]}"#)?;
    /// let answer = stream.broken();
    /// assert_eq!((&*answer.message.text(), answer.stop), ("Let me see.", Stop::Broken));
    /// assert_eq!(answer.message.tool_calls().map(|call| &*call.id).collect::<Vec<_>>(), ["a"]);
    /// # Ok::<(), memory_prompt::Error>(())
    /// ```
    pub fn broken(mut self) -> Answer {
        self.calls.keep_whole();
        self.calls.put_into(&mut self.message);
        let text = self.message.get("content").and_then(Value::as_str).unwrap_or_default();
        let text = AiMessage::new(text);
        let message = Fields::of(Value::Object(self.message), At::top(READ))
            .and_then(|message| decode::ai(message, &mut self.ids));
        Answer::broken(Provider::OpenAi, message.unwrap_or(text), self.usage)
    }

    fn choice(&mut self, mut choice: Fields<'_>, events: &mut Events) -> Result<()> {
        if choice.take("index").is_some_and(|index| index.as_u64() != Some(0)) {
            return Err(choice.at.key("index").error("expected one choice, numbered 0"));
        }
        refused(&choice, &["delta", "message"])?;
        // Moonshot counts here.
        self.usage.grow(usage(&choice));
        // Some servers answer whole where a stream was asked for.
        if let Some(delta) = choice.take("delta").or_else(|| choice.take("message")) {
            let at = choice.at;
            self.delta(Fields::of(delta, at.key("delta"))?, events)?;
        }
        if let Some(word) = stop_word(choice.take("finish_reason"))
            && !self.has_ended()
        {
            events.done(Stop::of(Some(&word), self.calls.len() > 0));
            self.stop_word = Some(word);
        }
        Ok(())
    }

    fn delta(&mut self, mut delta: Fields<'_>, events: &mut Events) -> Result<()> {
        let delta_at = delta.at;
        let at = delta_at;
        let calls = delta.list("tool_calls")?;
        let function = delta.take("function_call");
        for name in ["reasoning_content", "reasoning"] {
            // Servers that write both write the same.
            if let Some(piece) = delta.peek(name).filter(|piece| !piece.is_empty()) {
                events.reasoning(piece);
                break;
            }
        }
        match delta.get("content") {
            Some(Value::String(piece)) => events.text(piece),
            Some(Value::Array(blocks)) => blocks.iter().for_each(|block| shown(block, events)),
            _ => {}
        }
        events.refusal(delta.peek("refusal").unwrap_or_default());
        for (key, value) in delta.rest() {
            merge(&mut self.message, &key, value, &at)?;
        }
        let at = at.key("tool_calls");
        for (i, call) in calls.into_iter().enumerate() {
            self.calls.add(Fields::of(call, at.index(i))?, &mut self.ids, events)?;
        }
        if let Some(function) = function {
            let call = json!({"id": FUNCTION_ID, "function": function});
            let at = delta_at.key("function_call");
            self.calls.add(Fields::of(call, at)?, &mut self.ids, events)?;
        }
        Ok(())
    }
}

/// Returns the text that a block of content shows.
fn shown(block: &Value, events: &mut Events) {
    let text = |key: &str| block.get(key).and_then(Value::as_str).unwrap_or_default();
    match (block, text("type")) {
        (Value::String(piece), _) => events.text(piece),
        (_, "text") => events.text(text("text")),
        (_, "refusal") => events.refusal(text("refusal")),
        (_, "thinking") => match &block["thinking"] {
            Value::Array(list) => {
                list.iter()
                    .filter_map(|one| one.get("text")?.as_str())
                    .for_each(|t| events.reasoning(t));
            }
            _ => events.reasoning(text("thinking")),
        },
        _ => {}
    }
}
