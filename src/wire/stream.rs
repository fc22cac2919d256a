//! [`FormatStream`]: an answer that arrives in pieces, and what all formats share.

use std::fmt;

use serde_json::Value;

use super::answer::{Answer, Stop, weight};
#[cfg(any(feature = "reqwest", feature = "ureq"))]
use super::answer::{is_failure, stopped};
use super::common::{At, Fields};
use super::event::{Event, Events};
use super::metadata::Beside;
use super::refused::{refused, unlisted};
use super::usage::Usage;
#[cfg(any(feature = "reqwest", feature = "ureq"))]
use crate::error::Error;
use crate::error::Result;
use crate::message::AiMessage;
use crate::provider::Provider;

/// Assembles the pieces of a streamed response into an answer, without a runtime.
///
/// Each format has its own, such as [`openai::Stream`](super::openai::Stream). Pass each piece to
/// [`push`](Self::push), which returns what to show; [`finish`](Self::finish) returns the answer
/// that the format's `answer` would read from a response that is not streamed. The stream ends only
/// when its format says so.
#[derive(Default)]
pub struct FormatStream<P> {
    pub(super) pieces: P,
    end: End,
    events: Events,
}

/// How a format assembles an answer.
pub trait Pieces: Default {
    /// The provider that the format is named after.
    const NAMESAKE: Provider;
    /// The operation that errors name.
    const READ: &'static str;
    /// Fields of a piece: if one is there, `message` and `detail` are not errors of the provider.
    const OWN: &'static [&'static str];

    /// Returns a piece with the names of the format.
    fn named(piece: Value, _at: At) -> Result<Value> {
        Ok(piece)
    }

    fn take(&mut self, piece: Fields, end: &mut End, events: &mut Events) -> Result<()>;

    /// Handles the `[DONE]` after the last piece.
    fn done(&mut self, _end: &mut End, _events: &mut Events) {}

    /// Returns the message of a complete answer; errors name this place.
    fn message(self, top: At) -> Result<AiMessage>;

    /// Returns what can be kept of an incomplete answer.
    fn kept(self, top: At) -> AiMessage;

    /// Returns the usage in the sense of [`Usage`], when all of it has arrived.
    fn total(usage: Usage) -> Usage {
        usage
    }
}

/// What the provider has said so far about the end of an answer.
#[derive(Debug, Default)]
pub struct End {
    pub(super) usage: Usage,
    /// The fields outside the message.
    pub(super) beside: Beside,
    word: Option<String>,
    pub(super) is_whole: bool,
    /// The stop that was reported so far, if any.
    told: Option<Stop>,
    /// True if nothing can follow; pieces that follow are ignored.
    is_over: bool,
}

impl End {
    /// Notes a stop word, which may come before the end. Of several, in any order, the most severe
    /// is kept: a reader of `stop` assumes that the answer is complete, so no word may hide another
    /// one that says that it was cut off, or is unsafe.
    pub(super) fn says(&mut self, word: Option<String>) {
        if word.as_deref().map(weight) > self.word.as_deref().map(weight) {
            self.word = word;
        }
    }

    /// The provider said that the answer is complete. More may follow, from a server that says this
    /// too early.
    pub(super) fn says_whole(&mut self) {
        self.is_whole = true;
    }

    /// The same, if nothing can follow.
    pub(super) fn says_over(&mut self) {
        self.is_whole = true;
        self.is_over = true;
    }

    /// Reports the stop, if it is new.
    fn tell(&mut self, events: &mut Events) {
        let stop = self.is_whole.then(|| events.stop(self.word.as_deref()));
        if let Some(stop) = stop.filter(|stop| self.told.replace(*stop) != Some(*stop)) {
            events.done(stop);
        }
    }
}

impl<P: Pieces> FormatStream<P> {
    /// Returns a stream from which nothing has arrived yet.
    pub fn new() -> Self {
        Self::default()
    }

    /// Takes one piece, the JSON that [`Frames`](super::Frames) splits off a body, and returns what
    /// it adds to the answer. (It may still begin with `data:`.) Pieces of unknown kinds are
    /// ignored. Pieces after the end (`[DONE]`, `message_stop`, `done: true`, `response.completed`)
    /// are ignored too, even if they can't be read or are errors: an answer that its provider has
    /// called complete, and billed, must not be lost because of them.
    ///
    /// # Errors
    ///
    /// [`ErrorKind::Refused`](crate::ErrorKind::Refused) if the provider answered with an error or
    /// failed; [`ErrorKind::Codec`](crate::ErrorKind::Codec), with the path, if the piece can't be
    /// read, is out of order, or belongs to a second choice.
    pub fn push(&mut self, data: &str) -> Result<Vec<Event>> {
        let top = At::top(P::READ);
        let Self { pieces, end, events } = self;
        events.take(); // those of a piece that was an error
        let data = data.trim();
        match data.strip_prefix("data:").map_or(data, str::trim_start) {
            "" => {}
            _ if end.is_over && end.is_whole => {}
            "[DONE]" => {
                pieces.done(end, events);
                end.is_over = true;
            }
            data => {
                let piece = unlisted(top.parse(data)?);
                let piece = Fields::of(P::named(piece, top)?, top)?;
                refused(&piece, P::OWN)?;
                // After a `[DONE]` that is not the end, only an error can follow.
                if !end.is_over {
                    pieces.take(piece, end, events)?;
                }
            }
        }
        end.tell(events);
        Ok(events.take())
    }

    /// Returns whether the provider said that the answer is complete.
    pub fn has_ended(&self) -> bool {
        self.end.is_whole
    }

    /// Returns the error of a provider that failed, and said so as the reason to stop.
    #[cfg(any(feature = "reqwest", feature = "ureq"))]
    pub(crate) fn failure(&self) -> Option<Error> {
        let word = self.end.word.as_deref().filter(|word| is_failure(word))?;
        Some(stopped(At::top(P::READ), word, true))
    }

    /// Returns the whole answer. Arguments that were cut off are kept as they came.
    ///
    /// # Errors
    ///
    /// [`ErrorKind::Unfinished`](crate::ErrorKind::Unfinished) if the stream broke off: a partial
    /// answer is never taken for a complete one, and [`broken`](Self::broken) returns what can be
    /// kept of it. Otherwise the same as for the format's `answer`.
    pub fn finish(self) -> Result<Answer> {
        let top = At::top(P::READ);
        let End { usage, word, is_whole, beside, .. } = self.end;
        if !is_whole {
            return Err(top.unfinished("it broke off before the answer was complete"));
        }
        let answer = Answer::new(P::NAMESAKE, self.pieces.message(top)?, P::total(usage), word);
        Ok(answer.checked(top)?.beside(beside))
    }

    /// Returns what can be kept of a stream that broke off or was abandoned: all text, the complete
    /// calls, and signed reasoning. Its [`stop`](Answer::stop) is [`Stop::Broken`].
    ///
    /// Check [`is_empty`](Answer::is_empty) before you store it: if no answer arrived at all, for
    /// example an HTML page, it is empty.
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
    pub fn broken(self) -> Answer {
        let message = self.pieces.kept(At::top(P::READ));
        let End { usage, beside, .. } = self.end;
        Answer::broken(P::NAMESAKE, message, P::total(usage)).beside(beside)
    }
}

impl<P: Pieces> fmt::Debug for FormatStream<P> {
    /// Shows the progress, not the content, which is for the user alone.
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Stream").field("has_ended", &self.has_ended()).finish_non_exhaustive()
    }
}
