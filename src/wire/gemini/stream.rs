//! Assembling an answer from the chunks of a stream.

use serde_json::Value;

use super::decode::{Calls, camel, candidate, content, usage, with_beside};
use crate::error::Result;
use crate::message::{AiMessage, AiPart, Attributes, Part};
use crate::provider::Provider;
use crate::wire::answer::stop_word;
use crate::wire::common::Fields;
use crate::wire::event::Events;
use crate::wire::stream::{End, FormatStream, Pieces};

/// An answer of `streamGenerateContent?alt=sse` that arrives chunk by chunk.
///
/// Each chunk's JSON goes through [`push`](Self::push), and [`finish`](Self::finish) gives the
/// answer that [`answer`](super::answer) reads from a response in one piece. Texts that follow one
/// another are one text, and thoughts one thought, unless they carry a signature: signed parts go
/// back as they came.
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
pub type Stream = FormatStream<Chunks>;

/// What has come of an answer.
#[derive(Debug, Default)]
pub struct Chunks {
    parts: Vec<AiPart>,
    beside: Attributes,
    ids: Calls,
    calls: usize,
}

impl Pieces for Chunks {
    const NAMESAKE: Provider = Provider::Gemini;
    const READ: &'static str = "read gemini stream";
    const OWN: &'static [&'static str] = &["candidates"];

    fn len(&self) -> usize {
        self.parts.len()
    }

    fn named(chunk: Value) -> Value {
        camel(chunk)
    }

    fn take(&mut self, mut chunk: Fields<'_>, end: &mut End, events: &mut Events) -> Result<()> {
        self.ids.name_after(chunk.text("responseId")?);
        end.usage.grow(usage(&mut chunk));
        let Some(first) = candidate(&mut chunk)? else { return Ok(()) };
        let at = chunk.at;
        let at = at.key("candidates");
        let mut candidate = Fields::of(camel(first), at.index(0))?;
        let word = stop_word(candidate.take("finishReason"));
        if let Some(value) = candidate.take("content") {
            let at = candidate.at;
            let fields = Fields::of(camel(value), at.key("content"))?;
            let (parts, beside) = content(fields, &mut self.ids)?;
            self.beside.extend(beside);
            for part in parts {
                self.show(&part, events);
                self.add(part);
            }
        }
        if word.is_some() {
            end.comes(word, self.calls > 0, events);
        }
        Ok(())
    }

    fn message(self) -> Result<AiMessage> {
        Ok(self.kept())
    }

    fn kept(self) -> AiMessage {
        with_beside(AiMessage::from_parts(self.parts), self.beside)
    }
}

impl Chunks {
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
