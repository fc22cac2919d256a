//! The events that a stream tells while an answer is being written.

use super::answer::Stop;
use super::metadata::Metadata;
use crate::message::ToolCall;

/// A piece that a stream adds to an answer, for a user to be shown.
///
/// What was shown is what is stored: all [`Text`](Self::Text) and [`Refusal`](Self::Refusal) in a
/// row is the [`text`](crate::message::AiMessage::text) of the message, and the calls are its
/// [`tool_calls`](crate::message::AiMessage::tool_calls), in that order, with arguments that say
/// the same (of a call without any, no piece comes).
#[derive(Clone, Debug, PartialEq, Eq)]
#[non_exhaustive]
pub enum Event {
    /// A piece of what the model says.
    Text(String),
    /// A piece of what it thinks, as far as its provider shows it.
    Reasoning(String),
    /// A piece of why it will not do what it was asked to. It is part of the message's text.
    Refusal(String),
    /// A call begins. In OpenAI's format, where a name may come in pieces, it is told with the
    /// first of its arguments, with the next call, or at the end.
    Call {
        /// Its place among the calls of the answer.
        index: usize,
        /// Its id, by which a result answers it.
        id: String,
        /// The tool.
        name: String,
    },
    /// A piece of a call's arguments.
    Arguments {
        /// The place of the call among the calls of the answer.
        index: usize,
        /// The piece: JSON, when all have come; or the free text of a custom tool.
        piece: String,
    },
    /// The provider said why it stops: the answer is whole. Its usage may come behind, and so may
    /// more of it from a server that says this too early: some of OpenAI's and Gemini's formats
    /// write a reason into each chunk. If it says another one later, that is told too, if it
    /// weighs more: the last one told is the answer's.
    Done(Stop),
    /// What stands beside the answer that has come, if anything does: its sources, its cost. Of a
    /// stream it stands in the [`Answer`](super::Answer); a [`Conversation`](crate::Conversation)
    /// tells it of each answer, behind all else.
    Metadata(Box<Metadata>),
}

/// The events that come of one piece of a stream; empty pieces tell nothing.
#[derive(Debug, Default)]
pub struct Events {
    told: Vec<Event>,
    /// The number of calls that have begun, in this piece and those before it.
    calls: usize,
    /// True if the model has said that it refuses.
    refuses: bool,
}

impl Events {
    pub(super) fn text(&mut self, piece: &str) {
        self.piece(piece, Event::Text);
    }

    pub(super) fn reasoning(&mut self, piece: &str) {
        self.piece(piece, Event::Reasoning);
    }

    pub(super) fn refusal(&mut self, piece: &str) {
        self.refuses |= !piece.is_empty();
        self.piece(piece, Event::Refusal);
    }

    /// A call begins. Returns its place among the calls of the answer.
    pub(super) fn call(&mut self, id: &str, name: &str) -> usize {
        let index = self.calls;
        self.call_at(index, id, name);
        index
    }

    /// A call begins at a place that the stream has counted itself: such a stream uses no `call`.
    pub(super) fn call_at(&mut self, index: usize, id: &str, name: &str) {
        self.calls += 1;
        self.told.push(Event::Call { index, id: id.to_owned(), name: name.to_owned() });
    }

    /// A call came whole. Returns its place among the calls of the answer.
    pub(super) fn whole_call(&mut self, call: &ToolCall) -> usize {
        let index = self.call(&call.id, &call.name);
        self.arguments(index, &call.arguments);
        index
    }

    pub(super) fn arguments(&mut self, index: usize, piece: &str) {
        self.piece(piece, |piece| Event::Arguments { index, piece });
    }

    /// Returns why an answer of these events ended, by this word.
    pub(super) fn stop(&self, word: Option<&str>) -> Stop {
        Stop::of(word, self.calls > 0, self.refuses)
    }

    pub(super) fn done(&mut self, stop: Stop) {
        self.told.push(Event::Done(stop));
    }

    /// Takes out the events that have come since the last time.
    pub(super) fn take(&mut self) -> Vec<Event> {
        std::mem::take(&mut self.told)
    }

    fn piece(&mut self, piece: &str, event: impl FnOnce(String) -> Event) {
        if !piece.is_empty() {
            self.told.push(event(piece.to_owned()));
        }
    }
}
