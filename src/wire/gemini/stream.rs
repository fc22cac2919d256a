//! Assembles an answer from the chunks of a stream.

use serde_json::Value;

use super::ATTRIBUTE;
use super::decode::{self, Calls, camel_fields, candidate, check_role, usage};
use super::pieces::Arguments;
use crate::error::Result;
use crate::message::{AiMessage, AiPart, Attributes, Part, Reasoning};
use crate::provider::Provider;
use crate::wire::answer::stop_word;
use crate::wire::common::{At, Fields, answered};
use crate::wire::event::Events;
use crate::wire::stream::{End, FormatStream, Pieces};

/// Assembles a streamed response of `streamGenerateContent?alt=sse` into one answer.
///
/// Pass each chunk's JSON to [`push`](Self::push); [`finish`](Self::finish) returns the answer that
/// [`answer`](super::answer) would read from a response that is not streamed. Consecutive texts
/// become one text, and consecutive thoughts one thought, unless they carry a signature: signed
/// parts are sent back unchanged. Arguments that arrive in pieces, if the request asks for
/// `streamFunctionCallArguments`, are shown when they are complete.
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

/// The part of an answer that has arrived.
#[derive(Debug, Default)]
pub struct Chunks {
    parts: Vec<AiPart>,
    beside: Attributes,
    ids: Calls,
    /// The call whose arguments are still arriving.
    open: Option<Open>,
}

#[derive(Debug)]
struct Open {
    /// Its index among the parts.
    part: usize,
    /// Its index among the calls.
    call: usize,
    arguments: Arguments,
}

impl Pieces for Chunks {
    const NAMESAKE: Provider = Provider::Gemini;
    const READ: &'static str = "read gemini stream";
    const OWN: &'static [&'static str] = &["candidates"];

    fn named(chunk: Value, at: At) -> Result<Value> {
        decode::named(chunk, at)
    }

    fn take(&mut self, mut chunk: Fields, end: &mut End, events: &mut Events) -> Result<()> {
        self.ids.name_after(chunk.peek("responseId").map(str::to_owned));
        end.usage.is_now(usage(&chunk));
        let first = candidate(&mut chunk)?;
        let at = chunk.at.key("candidates").index(0);
        end.beside.take(chunk);
        let Some(first) = first else { return Ok(()) };
        let mut candidate = camel_fields(first, at)?;
        let word = stop_word(candidate.take("finishReason"));
        if let Some(value) = candidate.take("content") {
            let mut fields = camel_fields(value, candidate.at.key("content"))?;
            check_role(&mut fields)?;
            let part = |part, at: At| self.part(camel_fields(part, at)?, events);
            fields.each("parts", part)?;
            self.beside.extend(fields.rest());
        }
        if word.is_some() {
            self.close(events);
            end.says(word);
            end.says_whole();
        }
        end.beside.take(candidate);
        Ok(())
    }

    fn message(self, top: At) -> Result<AiMessage> {
        Ok(self.kept(top))
    }

    fn kept(mut self, _: At) -> AiMessage {
        if let Some(half) = self.open {
            self.parts.remove(half.part);
        }
        answered(self.parts, ATTRIBUTE, self.beside)
    }
}

impl Chunks {
    fn part(&mut self, mut part: Fields, events: &mut Events) -> Result<()> {
        if let Some(call) = part.take("functionCall") {
            let call = camel_fields(call, part.at.key("functionCall"))?;
            return self.call(call, part, events);
        }
        if let Some(part) = decode::ai_part(part, &mut self.ids)? {
            Self::show(&part, events);
            self.add(part);
        }
        Ok(())
    }

    /// Takes a call, or a piece of one: only the first piece has the name, and all but the last say
    /// that more follows.
    fn call(&mut self, mut call: Fields, beside: Fields, events: &mut Events) -> Result<()> {
        let at = call.at.key("partialArgs");
        let (pieces, goes_on) = (call.list("partialArgs")?, call.flag("willContinue")?);
        let says_something = !pieces.is_empty() || goes_on || call.has("args");
        if call.has("name") || (self.open.is_none() && says_something) {
            self.close(events);
            let is_whole = pieces.is_empty() && !goes_on;
            let call = decode::call(call, beside, &mut self.ids)?;
            if is_whole {
                events.whole_call(&call);
            } else {
                let (part, arguments) = (self.parts.len(), Arguments::default());
                self.open = Some(Open { part, call: events.call(&call.id, &call.name), arguments });
            }
            self.parts.push(call.into());
        } else if call.has("args") {
            return Err(call.at.key("args").error("the arguments of this call come in pieces"));
        }
        if let Some(open) = &mut self.open {
            for (i, piece) in pieces.into_iter().enumerate() {
                open.arguments.add(camel_fields(piece, at.index(i))?)?;
            }
        }
        if !goes_on {
            self.close(events);
        }
        Ok(())
    }

    /// Shows the arguments of the open call, which are now complete.
    fn close(&mut self, events: &mut Events) {
        let Some(open) = self.open.take() else { return };
        if let Some(AiPart::ToolCall(call)) = self.parts.get_mut(open.part) {
            call.arguments = open.arguments.json();
            events.arguments(open.call, &call.arguments);
        }
    }

    fn show(part: &AiPart, events: &mut Events) {
        match part {
            AiPart::Content(part) => events.text(part.as_text().unwrap_or_default()),
            AiPart::Reasoning(thought) => events.reasoning(&thought.text),
            AiPart::ToolCall(_) => {} // already shown
        }
    }

    fn add(&mut self, part: AiPart) {
        let is_bare = |it: &Reasoning| it.signature.is_none() && it.extra.is_empty();
        match (self.parts.last_mut(), part) {
            (Some(AiPart::Content(Part::Text(last))), AiPart::Content(Part::Text(next)))
                if last.extra.is_empty() && next.extra.is_empty() =>
            {
                last.text.push_str(&next.text);
            }
            (Some(AiPart::Reasoning(last)), AiPart::Reasoning(next))
                if is_bare(last) && is_bare(&next) =>
            {
                last.text.push_str(&next.text);
            }
            (_, part) => self.parts.push(part),
        }
    }
}
