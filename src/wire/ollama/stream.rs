//! Assembles a streamed answer.

use serde_json::Value;

use super::decode;
use crate::error::Result;
use crate::message::{AiMessage, Attributes, ToolCall};
use crate::provider::Provider;
use crate::wire::answer::stop_word;
use crate::wire::common::{At, Fields, Ids, expected};
use crate::wire::event::Events;
use crate::wire::stream::{End, FormatStream, Pieces};
use crate::wire::usage::Usage;

/// Assembles the lines of a streamed response into one answer.
///
/// The pieces become the message that a response without streaming would have, which is then read
/// like [`answer`](super::answer) reads it.
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
pub type Stream = FormatStream<Lines>;

/// The part of an answer that has arrived.
#[derive(Debug, Default)]
pub struct Lines {
    message: Attributes,
    calls: Vec<ToolCall>,
    /// Named after the first line, since calls are shown before the last line arrives.
    ids: Option<Ids>,
}

impl Pieces for Lines {
    const NAMESAKE: Provider = Provider::Ollama;
    const READ: &'static str = "read ollama stream";
    const OWN: &'static [&'static str] = &["done"];

    fn take(&mut self, mut line: Fields, end: &mut End, events: &mut Events) -> Result<()> {
        end.usage.is_now(Usage::ollama(&line));
        let ids = self.ids.get_or_insert_with(|| decode::ids(line.peek("created_at")));
        // The last line of older servers has none.
        if let Some(mut message) = line.object("message")? {
            for key in GROWING {
                let known = message.get(key).filter(|it| !it.is_null() && !it.is_string());
                if let Some(other) = known {
                    return Err(message.at.key(key).error(expected("a string", other)));
                }
            }
            events.reasoning(message.peek("thinking").unwrap_or_default());
            events.text(message.peek("content").unwrap_or_default());
            message.each("tool_calls", |call, at| {
                let call = decode::call(call, at, ids)?;
                events.whole_call(&call);
                self.calls.push(call);
                Ok(())
            })?;
            for (key, value) in message.rest() {
                merge(&mut self.message, key, value);
            }
        }
        end.says(stop_word(line.take("done_reason")));
        if line.take("done") == Some(Value::Bool(true)) {
            end.says_over();
        }
        end.beside.take(line);
        Ok(())
    }

    fn message(self, top: At) -> Result<AiMessage> {
        let message = Fields::of(Value::Object(self.message), top.key("message"))?;
        let message = decode::ai(message, &mut Ids::default())?;
        Ok(self.calls.into_iter().fold(message, AiMessage::with_tool_call))
    }

    fn kept(self, top: At) -> AiMessage {
        self.message(top).unwrap_or_else(|_| AiMessage::new(""))
    }
}

/// Texts that arrive in pieces.
const GROWING: [&str; 2] = ["content", "thinking"];

/// Adds a piece of a field: texts and lists grow, other values are replaced.
fn merge(into: &mut Attributes, key: String, value: Value) {
    let grows = GROWING.contains(&key.as_str());
    match (into.get_mut(&key), value) {
        (Some(Value::String(text)), Value::String(piece)) if grows => text.push_str(&piece),
        (Some(Value::Array(list)), Value::Array(pieces)) => list.extend(pieces),
        (_, value) => drop(into.insert(key, value)),
    }
}
