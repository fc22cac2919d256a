//! [`FormatStream`]: an answer that arrives in pieces, and what the formats share of that.

use std::fmt;

use serde_json::Value;

use super::answer::{Answer, Stop, weight};
use super::common::{At, Fields};
use super::event::{Event, Events};
use super::metadata::Beside;
use super::refused::{refused, unlisted};
use super::usage::Usage;
use crate::error::Result;
use crate::message::AiMessage;
use crate::provider::Provider;

/// An answer that is assembled from the pieces of a streamed response, without a runtime.
///
/// Each format has its own, such as [`openai::Stream`](super::openai::Stream). Each piece goes
/// through [`push`](Self::push), which tells what to show, and [`finish`](Self::finish) gives the
/// answer that the format's `answer` reads from a response in one piece. It ends only where the
/// format says so.
#[derive(Default)]
pub struct FormatStream<P> {
    pub(super) pieces: P,
    end: End,
    events: Events,
}

/// An answer as a format puts it together from its pieces.
pub trait Pieces: Default {
    /// The provider after which the format is called.
    const NAMESAKE: Provider;
    /// The operation that an error names.
    const READ: &'static str;
    /// The fields of a piece beside which `message` and `detail` are no error of the provider's.
    const OWN: &'static [&'static str];

    /// Returns how many pieces, or what they are made into, have come.
    fn len(&self) -> usize;

    /// Returns a piece with the names that the format knows.
    fn named(piece: Value, _at: At) -> Result<Value> {
        Ok(piece)
    }

    /// Takes a piece.
    fn take(&mut self, piece: Fields, end: &mut End, events: &mut Events) -> Result<()>;

    /// Takes the `[DONE]` behind the last piece.
    fn done(&mut self, _end: &mut End, _events: &mut Events) {}

    /// Returns the message of an answer that is whole; what is read of it is read at this place.
    fn message(self, top: At) -> Result<AiMessage>;

    /// Returns what can be kept of one that broke off.
    fn kept(self, top: At) -> AiMessage;

    /// Returns the usage in the sense of [`Usage`], when all of it has come.
    fn total(usage: Usage) -> Usage {
        usage
    }
}

/// The end of an answer, as far as the provider has told of it.
#[derive(Debug, Default)]
pub struct End {
    pub(super) usage: Usage,
    /// What stands beside the message.
    pub(super) beside: Beside,
    word: Option<String>,
    is_whole: bool,
    /// Why the answer stops, as far as that was told.
    told: Option<Stop>,
    /// True if nothing can come behind it: what comes all the same is passed over.
    is_over: bool,
}

impl End {
    /// Takes why the answer stops, which may come before the end does. Of several reasons the
    /// gravest stays, in whichever order they come: who reads `stop` takes the answer for whole, so
    /// no such word may hide one that says that it is cut, or unsafe.
    pub(super) fn says(&mut self, word: Option<String>) {
        if word.as_deref().map(weight) > self.word.as_deref().map(weight) {
            self.word = word;
        }
    }

    /// The provider said that the answer is whole. More of it may come, from a server that says
    /// this too early.
    pub(super) fn says_whole(&mut self) {
        self.is_whole = true;
    }

    /// The same if nothing can come behind it.
    pub(super) fn says_over(&mut self) {
        self.is_whole = true;
        self.is_over = true;
    }

    /// Tells why the answer stops, where that is new.
    fn tell(&mut self, events: &mut Events) {
        let stop = self.is_whole.then(|| events.stop(self.word.as_deref()));
        if let Some(stop) = stop.filter(|stop| self.told.replace(*stop) != Some(*stop)) {
            events.done(stop);
        }
    }
}

impl<P: Pieces> FormatStream<P> {
    /// Returns a stream of which nothing has come yet.
    pub fn new() -> Self {
        Self::default()
    }

    /// Takes one piece, and returns what it adds to the answer: the JSON that
    /// [`Frames`](super::Frames) cuts out of a body. (A `data:` may still stand before it.) Pieces
    /// of kinds that this version does not know are passed over, and so is whatever comes behind
    /// the end (`[DONE]`, `message_stop`, `done: true`, `response.completed`), read or not: an
    /// answer that its provider has called whole, and counted, is not lost to what stands there,
    /// even if that is an error.
    ///
    /// # Errors
    ///
    /// [`ErrorKind::Refused`](crate::ErrorKind::Refused) if the provider answered an error
    /// or failed; [`ErrorKind::Codec`](crate::ErrorKind::Codec), with the path, where it is not a
    /// piece of one answer: where it can't be read, comes out of turn, or is of a second choice.
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
                // Behind a `[DONE]` that is no end, all that can be told is an error.
                if !end.is_over {
                    pieces.take(piece, end, events)?;
                }
            }
        }
        end.tell(events);
        Ok(events.take())
    }

    /// Returns whether the provider said that the answer is whole.
    pub fn has_ended(&self) -> bool {
        self.end.is_whole
    }

    /// Returns the whole answer. Arguments that were cut off are kept as they came.
    ///
    /// # Errors
    ///
    /// [`ErrorKind::Unfinished`](crate::ErrorKind::Unfinished) if the stream broke off: half an
    /// answer is never taken for a whole one, and [`broken`](Self::broken) gives what can be kept
    /// of it. Otherwise those of the format's `answer`.
    pub fn finish(self) -> Result<Answer> {
        let top = At::top(P::READ);
        let End { usage, word, is_whole, beside, .. } = self.end;
        if !is_whole {
            return Err(top.unfinished("it broke off before the answer was complete"));
        }
        let answer = Answer::new(P::NAMESAKE, self.pieces.message(top)?, P::total(usage), word);
        Ok(answer.checked(top)?.beside(beside))
    }

    /// Returns what can be kept of a stream that broke off, or was left: all text, the calls that
    /// are whole, and reasoning that is signed. Its [`stop`](Answer::stop) is [`Stop::Broken`].
    ///
    /// Look at [`is_empty`](Answer::is_empty) before it is stored: where no answer came at all,
    /// such as a page in HTML, this is none.
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
    /// Says how far it has come: what it says is for the user alone.
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Stream")
            .field("pieces", &self.pieces.len())
            .field("has_ended", &self.has_ended())
            .finish_non_exhaustive()
    }
}
