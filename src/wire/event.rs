//! The events of a stream while an answer is being written.

use super::answer::{Stop, is_refusal_text};
use super::metadata::Metadata;
use crate::message::{AiMessage, AiPart, Part, ToolCall};

/// A piece that a stream adds to an answer, to be shown to a user.
///
/// What was shown is what is stored: all [`Text`](Self::Text) and [`Refusal`](Self::Refusal) in a
/// row is the [`text`](crate::message::AiMessage::text) of the message, and the calls are its
/// [`tool_calls`](crate::message::AiMessage::tool_calls), in that order, with equivalent arguments
/// (a call without arguments has no pieces). If a provider's events come out of order, so do these.
#[derive(Clone, Debug, PartialEq, Eq)]
#[non_exhaustive]
pub enum Event {
    /// A piece of the model's text.
    Text(String),
    /// A piece of its reasoning, as far as the provider shows it.
    Reasoning(String),
    /// A piece of its refusal. It is part of the message's text.
    Refusal(String),
    /// A call begins. In OpenAI's format, where a name may arrive in pieces, this event comes with
    /// the first arguments, with the next call, or at the end.
    Call {
        /// Its index among the calls of the answer.
        index: usize,
        /// Its id, which the result refers to.
        id: String,
        /// The name of the tool.
        name: String,
    },
    /// A piece of a call's arguments.
    Arguments {
        /// The index of the call among the calls of the answer.
        index: usize,
        /// The piece. All pieces together are JSON, or the free text of a custom tool.
        piece: String,
    },
    /// The provider said why it stops: the answer is complete. Its usage may follow. More of the
    /// answer may follow too, if a server says this too early: some servers of OpenAI's and
    /// Gemini's formats write a reason into each chunk. If a later reason is more severe, there is
    /// another event with it; the last one is the answer's.
    Done(Stop),
    /// The fields of the answer other than its message, if there are any: its sources, its cost. A
    /// stream returns them in the [`Answer`](super::Answer); a
    /// [`Conversation`](crate::Conversation) sends this event for each answer, after all others.
    Metadata(Box<Metadata>),
}

/// Returns the events of an answer that was not streamed.
pub(crate) fn events_of(message: &AiMessage, stop: Stop) -> Vec<Event> {
    let mut events = Events::default();
    events.text(message.as_text().unwrap_or_default());
    for part in message.parts() {
        match part {
            AiPart::Content(Part::Text(it)) if is_refusal_text(it) => events.refusal(&it.text),
            AiPart::Content(part) => events.text(part.as_text().unwrap_or_default()),
            AiPart::Reasoning(it) => events.reasoning(&it.text),
            AiPart::ToolCall(call) => drop(events.whole_call(call)),
        }
    }
    events.done(stop);
    events.take()
}

/// The events of one piece of a stream; empty pieces have none.
#[derive(Debug, Default)]
pub struct Events {
    told: Vec<Event>,
    /// The number of calls that have begun so far.
    calls: usize,
    /// True if the model has refused.
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

    /// A call begins. Returns its index among the calls of the answer.
    pub(super) fn call(&mut self, id: &str, name: &str) -> usize {
        let index = self.calls;
        self.call_at(index, id, name);
        index
    }

    /// A call begins at an index that the stream has counted itself; such a stream does not use
    /// `call`.
    pub(super) fn call_at(&mut self, index: usize, id: &str, name: &str) {
        self.calls += 1;
        self.told.push(Event::Call { index, id: id.to_owned(), name: name.to_owned() });
    }

    /// A complete call has arrived. Returns its index among the calls of the answer.
    pub(super) fn whole_call(&mut self, call: &ToolCall) -> usize {
        let index = self.call(&call.id, &call.name);
        self.arguments(index, &call.arguments);
        index
    }

    pub(super) fn arguments(&mut self, index: usize, piece: &str) {
        self.piece(piece, |piece| Event::Arguments { index, piece });
    }

    /// Returns why an answer with these events ended, given the provider's word for it.
    pub(super) fn stop(&self, word: Option<&str>) -> Stop {
        Stop::of(word, self.calls > 0, self.refuses)
    }

    pub(super) fn done(&mut self, stop: Stop) {
        self.told.push(Event::Done(stop));
    }

    /// Takes out the new events.
    pub(super) fn take(&mut self) -> Vec<Event> {
        std::mem::take(&mut self.told)
    }

    fn piece(&mut self, piece: &str, event: impl FnOnce(String) -> Event) {
        if !piece.is_empty() {
            self.told.push(event(piece.to_owned()));
        }
    }
}
