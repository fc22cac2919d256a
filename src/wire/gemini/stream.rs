//! Assembling an answer from the chunks of a stream.

use std::fmt;

use super::decode::{Calls, camel, candidate, content, no_content, with_beside};
use crate::error::Result;
use crate::message::{AiMessage, AiPart, Attributes, Message, Part};
use crate::wire::common::{At, Fields, event, refused};

/// An answer of `streamGenerateContent?alt=sse` that arrives chunk by chunk.
///
/// Each chunk's JSON goes through [`push`](Self::push), and [`finish`](Self::finish) gives the message
/// that [`answer`](super::answer) reads from a response in one piece. Texts that follow one another
/// are one text, and thoughts one thought, unless they carry a signature: signed parts go back as
/// they came.
///
/// ```
/// use memory_prompt::{Message, wire::gemini};
///
/// let mut stream = gemini::Stream::new();
/// let mut shown = String::new();
/// for data in [
///     r#"{"candidates":[{"content":{"role":"model","parts":[{"text":"Sun"}]}}]}"#,
///     r#"{"candidates":[{"content":{"parts":[{"text":"ny."}]},"finishReason":"STOP"}]}"#,
/// ] {
///     shown += &stream.push(data)?;
/// }
/// assert_eq!(shown, "Sunny.");
/// assert_eq!(stream.finish()?, Message::ai("Sunny."));
/// # Ok::<(), memory_prompt::Error>(())
/// ```
#[derive(Default)]
pub struct Stream {
    parts: Vec<AiPart>,
    beside: Attributes,
    calls: Calls,
    has_content: bool,
    reason: Option<String>,
}

impl fmt::Debug for Stream {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Stream")
            .field("parts", &self.parts.len())
            .field("has_content", &self.has_content)
            .field("has_ended", &self.reason.is_some())
            .finish_non_exhaustive()
    }
}

impl Stream {
    /// A stream of which nothing has arrived.
    pub fn new() -> Self {
        Self::default()
    }

    /// Takes one chunk: the JSON after `data:` (which may still stand before it). Returns the text
    /// that it adds to the answer, thoughts aside; empty where it adds none.
    ///
    /// # Errors
    ///
    /// [`ErrorKind::Codec`](crate::ErrorKind::Codec) where the chunk can't be read, or is an error of
    /// the provider's, or the prompt was blocked.
    pub fn push(&mut self, data: &str) -> Result<String> {
        let top = At::top("read gemini stream");
        let Some(chunk) = event(&top, data)? else { return Ok(String::new()) };
        let mut chunk = Fields::of(camel(chunk), top)?;
        refused(&chunk)?;
        self.calls.name_after(chunk.text("responseId")?);
        let Some(first) = candidate(&mut chunk)? else { return Ok(String::new()) };
        let at = top.key("candidates");
        let mut candidate = Fields::of(camel(first), at.index(0))?;
        let reason = candidate.text("finishReason")?;
        let mut shown = String::new();
        if let Some(value) = candidate.take("content") {
            let at = candidate.at;
            let fields = Fields::of(camel(value), at.key("content"))?;
            let (parts, beside) = content(fields, &mut self.calls)?;
            self.beside.extend(beside);
            for part in parts {
                shown.push_str(part.as_text().unwrap_or_default());
                self.add(part);
            }
            self.has_content = true;
        }
        self.reason = reason.or_else(|| self.reason.take());
        Ok(shown)
    }

    /// The whole answer.
    ///
    /// # Errors
    ///
    /// [`ErrorKind::Codec`](crate::ErrorKind::Codec) where the end has not arrived, or nothing was
    /// said because the answer was blocked.
    pub fn finish(self) -> Result<Message> {
        let top = At::top("read gemini stream");
        let Some(reason) = self.reason else {
            return Err(top.error("the stream ended before a `finishReason`"));
        };
        if !self.has_content {
            return Err(no_content(&top.key("candidates").index(0), Some(&reason)));
        }
        Ok(with_beside(AiMessage::from_parts(self.parts), self.beside).into())
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
