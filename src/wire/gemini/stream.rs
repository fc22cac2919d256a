//! Assembling an answer from the chunks of a stream.

use std::fmt;

use super::decode::{Calls, camel, candidate, content, usage, with_beside};
use crate::error::Result;
use crate::message::{AiMessage, AiPart, Attributes, Part};
use crate::provider::Provider;
use crate::wire::answer::{Answer, Stop, stop_word};
use crate::wire::common::{At, Fields, event};
use crate::wire::event::{Event, Events};
use crate::wire::refused::refused;
use crate::wire::usage::Usage;

/// An answer of `streamGenerateContent?alt=sse` that arrives chunk by chunk.
///
/// Each chunk's JSON goes through [`push`](Self::push), and [`finish`](Self::finish) gives the answer
/// that [`answer`](super::answer) reads from a response in one piece. Texts that follow one another
/// are one text, and thoughts one thought, unless they carry a signature: signed parts go back as
/// they came.
///
/// ```
/// use memory_prompt::wire::{Event, Stop, gemini};
///
/// let mut stream = gemini::Stream::new();
/// let mut shown = String::new();
/// for data in [
///     r#"{"candidates":[{"content":{"role":"model","parts":[{"text":"Sun"}]}}]}"#,
///     r#"{"candidates":[{"content":{"parts":[{"text":"ny."}]},"finishReason":"STOP"}],
///         "usageMetadata":{"promptTokenCount":7,"candidatesTokenCount":2}}"#,
/// ] {
///     for event in stream.push(data)? {
///         if let Event::Text(piece) = event {
///             shown += &piece;
///         }
///     }
/// }
/// let answer = stream.finish()?;
/// assert_eq!((shown.as_str(), &*answer.message.text()), ("Sunny.", "Sunny."));
/// assert_eq!((answer.stop, answer.usage.input), (Stop::End, Some(7)));
/// # Ok::<(), memory_prompt::Error>(())
/// ```
#[derive(Default)]
pub struct Stream {
    parts: Vec<AiPart>,
    beside: Attributes,
    ids: Calls,
    calls: usize,
    usage: Usage,
    stop_word: Option<String>,
}

impl fmt::Debug for Stream {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Stream")
            .field("parts", &self.parts.len())
            .field("has_ended", &self.has_ended())
            .finish_non_exhaustive()
    }
}

const READ: &str = "read gemini stream";

impl Stream {
    /// A stream of which nothing has arrived.
    pub fn new() -> Self {
        Self::default()
    }

    /// Takes one chunk: the JSON after `data:` (which may still stand before it). Returns what it adds
    /// to the answer.
    ///
    /// # Errors
    ///
    /// [`ErrorKind::Refused`](crate::ErrorKind::Refused) where the chunk is an error of the
    /// provider's, or the prompt was blocked; [`ErrorKind::Codec`](crate::ErrorKind::Codec) where it
    /// can't be read.
    pub fn push(&mut self, data: &str) -> Result<Vec<Event>> {
        let top = At::top(READ);
        let mut events = Events::default();
        let Some(chunk) = event(&top, data)? else { return Ok(events.told()) };
        let mut chunk = Fields::of(camel(chunk), top)?;
        refused(&chunk, &["candidates"])?;
        self.ids.name_after(chunk.text("responseId")?);
        self.usage.grow(usage(&mut chunk));
        let Some(first) = candidate(&mut chunk)? else { return Ok(events.told()) };
        let at = top.key("candidates");
        let mut candidate = Fields::of(camel(first), at.index(0))?;
        let word = stop_word(candidate.take("finishReason"));
        if let Some(value) = candidate.take("content") {
            let at = candidate.at;
            let fields = Fields::of(camel(value), at.key("content"))?;
            let (parts, beside) = content(fields, &mut self.ids)?;
            self.beside.extend(beside);
            for part in parts {
                self.show(&part, &mut events);
                self.add(part);
            }
        }
        if let Some(word) = word {
            if !self.has_ended() {
                events.done(Stop::of(Some(&word), self.calls > 0));
            }
            self.stop_word = Some(word);
        }
        Ok(events.told())
    }

    /// Returns whether the provider said why it stops.
    pub fn has_ended(&self) -> bool {
        self.stop_word.is_some()
    }

    /// The whole answer.
    ///
    /// # Errors
    ///
    /// [`ErrorKind::Unfinished`](crate::ErrorKind::Unfinished) where the end has not arrived;
    /// [`broken`](Self::broken) gives what can be kept. Otherwise those of [`answer`](super::answer).
    pub fn finish(self) -> Result<Answer> {
        let top = At::top(READ);
        if !self.has_ended() {
            return Err(top.unfinished("the stream ended before a `finishReason`"));
        }
        let message = with_beside(AiMessage::from_parts(self.parts), self.beside);
        Answer::new(Provider::Gemini, message, self.usage, self.stop_word).checked(&top)
    }

    /// Returns what can be kept of a stream that broke off, or was left: all text, the calls, and
    /// reasoning that is signed. Its [`stop`](Answer::stop) is [`Stop::Broken`].
    pub fn broken(self) -> Answer {
        let message = with_beside(AiMessage::from_parts(self.parts), self.beside);
        Answer::broken(Provider::Gemini, message, self.usage)
    }

    fn show(&mut self, part: &AiPart, events: &mut Events) {
        match part {
            AiPart::Content(part) => events.text(part.as_text().unwrap_or_default()),
            AiPart::Reasoning(thought) => events.reasoning(&thought.text),
            AiPart::ToolCall(call) => {
                events.call(self.calls, &call.id, &call.name);
                events.arguments(self.calls, &call.arguments);
                self.calls += 1;
            }
        }
    }

    fn add(&mut self, part: AiPart) {
        match (self.parts.last_mut(), part) {
            (Some(AiPart::Content(Part::Text(last))), AiPart::Content(Part::Text(next)))
                if last.extra.is_empty() && next.extra.is_empty() =>
            {
                last.text.push_str(&next.text);
            }
            (Some(AiPart::Reasoning(last)), AiPart::Reasoning(next))
                if [&*last, &next]
                    .iter()
                    .all(|part| part.signature.is_none() && part.extra.is_empty()) =>
            {
                last.text.push_str(&next.text);
            }
            (_, part) => self.parts.push(part),
        }
    }
}
