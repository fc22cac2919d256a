//! Decisions on calls that wait for approval: each is one compare-and-set on the slot of the turn.

use super::late::Stored;
use super::state::{CallState, Event, append_id, calls_among, is_true, was_not_run};
use super::unfinished::{Unfinished, Waiting};
use crate::error::{Decided, Error, ErrorKind, Result};
use crate::memory::{Append, Appended};
use crate::message::{Message, ToolCall};

/// The decision of a person on one call.
#[derive(Clone, Copy)]
pub(crate) enum Decision<'a> {
    Approve,
    Refuse(&'a str),
}

impl Decision<'_> {
    /// Returns what happens to the turn, where the call waits.
    pub(super) fn on(self, unfinished: &Unfinished, waiting: &Waiting) -> Result<Event> {
        let state = &unfinished.state;
        let unapproved = |place| state.state(place) == CallState::Unapproved;
        let is_alive = state.life == waiting.life;
        let mut open = state.open().into_iter().filter(|_| is_alive);
        let place = open.find(|(place, call)| unapproved(*place) && is_it(call, waiting));
        let Some((place, _)) = place else {
            let messages = if is_alive { state.messages.as_slice() } else { &[] };
            return Err(self.is_decided(came_of(messages, waiting)));
        };
        if unfinished.runs() {
            let text = "another call of the turn is being run";
            let since = unfinished.since();
            return Err(Error::new(ErrorKind::Busy { since }, self.operation(), text));
        }
        Ok(match self {
            Self::Approve => Event::Approved(place),
            Self::Refuse(why) => Event::Refused(place, why.to_owned()),
        })
    }

    pub(super) fn operation(self) -> &'static str {
        match self {
            Self::Approve => "approve",
            Self::Refuse(_) => "refuse",
        }
    }

    /// The error if somebody else was faster.
    pub(super) fn is_decided(self, how: Decided) -> Error {
        let text = match how {
            Decided::Approved => "the call was approved by somebody else, and has no result yet",
            Decided::Ran => "the call was approved by somebody else, and has run",
            Decided::Refused => "the call was refused by somebody else, or not run",
            Decided::OutcomeUnknown => "the call was approved by somebody else, outcome unknown",
            Decided::Gone => "the call waits no more: its turn is gone",
        };
        Error::new(ErrorKind::Decided(how), self.operation(), text)
    }
}

fn is_it(call: &ToolCall, waiting: &Waiting) -> bool {
    (&call.id, &call.name, &call.arguments) == (&waiting.call, &waiting.tool, &waiting.arguments)
}

/// Returns what came of a call, as far as the messages of its turn and what was stored since say.
fn came_of(messages: &[Message], waiting: &Waiting) -> Decided {
    let made = calls_among(messages).into_iter().find(|made| is_it(made.call, waiting));
    match made.map(|made| made.result) {
        None => Decided::Gone,
        Some(None) => Decided::Approved,
        Some(Some((_, result))) if was_not_run(result) => Decided::Refused,
        Some(Some((_, result))) if is_true(result) => Decided::Ran,
        Some(Some(_)) => Decided::OutcomeUnknown,
    }
}

/// Returns the append under whose id a part of a turn is stored; it changes nothing.
pub(super) fn find(id: &str, part: u32, behind_checkpoint: bool) -> Append {
    Append::default().with_id(append_id(id, part, behind_checkpoint))
}

/// Returns the search of what is stored from there on, late results too; `None` if nothing was.
pub(super) fn search(found: &Appended) -> Option<Stored> {
    let at = &found.positions;
    (found.repeated && !at.is_empty()).then(|| Stored::since(at.start, found.branch))
}

/// Returns what came of the call, where this was found.
pub(super) fn came_of_stored(waiting: &Waiting, stored: &Stored) -> Decided {
    if stored.has_gaps() { Decided::Gone } else { came_of(&stored.messages, waiting) }
}
