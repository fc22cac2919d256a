//! Assembles a streamed answer.

use serde_json::{Value, json};

use super::calls::Calls;
use super::decode::{self, FUNCTION_ID, name_after, usage};
use super::merge::{merge, without_unsigned};
use crate::error::Result;
use crate::message::{AiMessage, Attributes};
use crate::provider::Provider;
use crate::wire::answer::stop_word;
use crate::wire::common::{At, Fields, Ids, texts};
use crate::wire::event::Events;
use crate::wire::refused::refused;
use crate::wire::stream::{End, FormatStream, Pieces};
use crate::wire::usage::Usage;

/// Assembles the chunks of a streamed response into one answer.
///
/// The chunks become the message that a response without streaming would have, which is then read
/// like [`answer`](super::answer) reads it. Servers that send parallel calls with the same index,
/// or with none, are supported. The stream ends when a `finish_reason` says so; `""` and `"null"`,
/// which some servers write into each chunk, are ignored. `[DONE]` alone is not an end, but it is
/// one after a final usage: the server has counted a complete answer.
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
pub type Stream = FormatStream<Chunks>;

/// The part of an answer that has arrived.
#[derive(Debug, Default)]
pub struct Chunks {
    /// The message so far, in the provider's form, without its calls.
    message: Attributes,
    calls: Calls,
    ids: Ids,
    /// True if `[DONE]` is the end.
    ends_in_done: bool,
    /// True if the answer continued after a usage, which then does not prove an end.
    counts_along: bool,
    /// True if there were deltas.
    has_deltas: bool,
}

impl Stream {
    /// Returns the stream for a server that never says why it stops: `[DONE]` is its end. Snowflake
    /// Cortex is such a server. A [row](crate::provider::Row::ends_in_done) can say so too.
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
        self.pieces.ends_in_done = true;
        self
    }
}

impl Pieces for Chunks {
    const NAMESAKE: Provider = Provider::OpenAi;
    const READ: &'static str = "read openai stream";
    const OWN: &'static [&'static str] = &["choices"];

    fn take(&mut self, mut chunk: Fields, end: &mut End, events: &mut Events) -> Result<()> {
        name_after(&mut self.ids, &chunk);
        let choice = |choice, at: At| self.choice(Fields::of(choice, at)?, end, events);
        chunk.each("choices", choice)?;
        end.usage.is_now(usage(&chunk));
        end.beside.take(chunk);
        Ok(())
    }

    fn done(&mut self, end: &mut End, events: &mut Events) {
        if self.ends_in_done || (end.usage != Usage::default() && !self.counts_along) {
            self.calls.show(&mut self.ids, events);
            end.says_whole();
        }
    }

    fn message(mut self, top: At) -> Result<AiMessage> {
        self.calls.put_into(&mut self.message);
        let message = Fields::of(Value::Object(self.message), top)?;
        decode::ai(message, &mut self.ids)
    }

    fn kept(mut self, top: At) -> AiMessage {
        self.calls.keep_whole();
        without_unsigned(&mut self.message);
        let text = self.message.get("content").and_then(Value::as_str).unwrap_or_default();
        let text = AiMessage::new(text);
        self.message(top).unwrap_or(text)
    }
}

impl Chunks {
    fn choice(&mut self, mut choice: Fields, end: &mut End, events: &mut Events) -> Result<()> {
        if choice.take("index").is_some_and(|index| index.as_u64() != Some(0)) {
            return Err(choice.at.key("index").error("expected one choice, numbered 0"));
        }
        refused(&choice, &["delta", "message"])?;
        self.counts_along |= end.usage != Usage::default();
        // Moonshot puts the usage here.
        end.usage.is_now(usage(&choice));
        if let Some(delta) = choice.object("delta")? {
            self.delta(delta, events)?;
            let said = ["content", "tool_calls", "reasoning"];
            self.has_deltas |= said.into_iter().any(|key| self.has_said(key));
        }
        // Some servers send a whole answer although a stream was requested. MiniMax repeats the
        // whole answer after the pieces.
        if let Some(mut message) = choice.object("message")? {
            if self.has_deltas {
                message.retain(|key| !self.has_said(key));
            }
            self.delta(message, events)?;
        }
        let word = stop_word(choice.take("finish_reason"));
        if word.is_some() {
            end.says(word);
            end.says_whole();
        }
        if end.is_whole {
            self.calls.show(&mut self.ids, events);
        }
        end.beside.take(choice);
        Ok(())
    }

    /// Returns whether something of a field, or of its equivalent, has arrived.
    fn has_said(&self, key: &str) -> bool {
        let is_told = |key: &str| match self.message.get(key) {
            None | Some(Value::Null) => false,
            Some(Value::String(text)) => !text.is_empty(),
            Some(Value::Array(list)) => !list.is_empty(),
            Some(_) => true,
        };
        match key {
            "tool_calls" | "function_call" => !self.calls.is_empty(),
            "reasoning" | "reasoning_content" => {
                is_told("reasoning") || is_told("reasoning_content")
            }
            // A refusal before the content becomes a block of it.
            "content" | "refusal" => is_told("content") || is_told("refusal"),
            key => is_told(key),
        }
    }

    fn delta(&mut self, mut delta: Fields, events: &mut Events) -> Result<()> {
        let at = delta.at;
        let calls = delta.list("tool_calls")?;
        let function = delta.take("function_call");
        for name in ["reasoning_content", "reasoning"] {
            // Servers that write both write the same.
            if let Some(piece) = delta.peek(name).filter(|piece| !piece.is_empty()) {
                events.reasoning(piece);
                break;
            }
        }
        // Some servers send an object instead of its text.
        if let Some(object @ Value::Object(_)) = delta.get("content") {
            delta.put("content", object.to_string());
        }
        match delta.get("content") {
            Some(Value::Array(blocks)) => {
                self.say_behind_refusal(at)?;
                for block in blocks {
                    shown(block, events);
                }
            }
            Some(text @ Value::String(piece)) if !piece.is_empty() => {
                self.say_behind_refusal(at)?;
                shown(text, events);
            }
            _ => {}
        }
        events.refusal(delta.peek("refusal").unwrap_or_default());
        for (key, value) in delta.rest() {
            merge(&mut self.message, &key, value, at)?;
        }
        for (i, call) in calls.into_iter().enumerate() {
            let at = at.key("tool_calls").index(i);
            self.calls.add(Fields::of(call, at)?, &mut self.ids, events)?;
        }
        if let Some(function) = function {
            let call = json!({"id": FUNCTION_ID, "function": function});
            self.calls.add(Fields::of(call, at.key("function_call"))?, &mut self.ids, events)?;
        }
        Ok(())
    }

    /// Content arrives after a refusal: turns the refusal into a block before the content.
    fn say_behind_refusal(&mut self, at: At) -> Result<()> {
        match self.message.get_mut("refusal").map(Value::take) {
            Some(Value::String(text)) if !text.is_empty() => {
                let block = json!([{"type": "refusal", "refusal": text}]);
                self.message.remove("refusal");
                merge(&mut self.message, "content", block, at)
            }
            _ => Ok(()),
        }
    }
}

/// Shows the text of a block of content.
fn shown(block: &Value, events: &mut Events) {
    let text = |key: &str| block.get(key).and_then(Value::as_str).unwrap_or_default();
    match (block, text("type")) {
        (Value::String(piece), _) => events.text(piece),
        (_, "text") => events.text(text("text")),
        (_, "refusal") => events.refusal(text("refusal")),
        (_, "thinking") => match &block["thinking"] {
            Value::Array(list) => texts(list).for_each(|text| events.reasoning(text)),
            _ => events.reasoning(text("thinking")),
        },
        _ => {}
    }
}
