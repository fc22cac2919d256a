//! The events that a stream tells while an answer is being written.

use super::answer::Stop;

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
    /// write a reason into each chunk. Where it says another one later, that is told too, if it
    /// weighs more: the last one told is the answer's.
    Done(Stop),
}

/// The events that come of one piece of a stream; empty pieces tell nothing.
#[derive(Debug, Default)]
pub struct Events(Vec<Event>);

impl Events {
    pub(super) fn text(&mut self, piece: &str) {
        self.piece(piece, Event::Text);
    }

    pub(super) fn reasoning(&mut self, piece: &str) {
        self.piece(piece, Event::Reasoning);
    }

    pub(super) fn refusal(&mut self, piece: &str) {
        self.piece(piece, Event::Refusal);
    }

    pub(super) fn call(&mut self, index: usize, id: &str, name: &str) {
        self.0.push(Event::Call { index, id: id.to_owned(), name: name.to_owned() });
    }

    pub(super) fn arguments(&mut self, index: usize, piece: &str) {
        self.piece(piece, |piece| Event::Arguments { index, piece });
    }

    pub(super) fn have_calls(&self) -> bool {
        self.0.iter().any(|event| matches!(event, Event::Call { .. }))
    }

    pub(super) fn done(&mut self, stop: Stop) {
        self.0.push(Event::Done(stop));
    }

    pub(super) fn told(self) -> Vec<Event> {
        self.0
    }

    fn piece(&mut self, piece: &str, event: impl FnOnce(String) -> Event) {
        if !piece.is_empty() {
            self.0.push(event(piece.to_owned()));
        }
    }
}
