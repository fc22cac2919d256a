//! Decisions on calls that wait for approval: each is one compare-and-set on the slot of the turn.

use super::state::{CallState, Event, State, append_id, was_not_run};
use super::unfinished::{Unfinished, Waiting};
use crate::error::{Decided, Error, ErrorKind, Result};
use crate::memory::{Append, Appended, Read};
use crate::message::{Message, ToolCall, ToolMessage};
use crate::record::{Snapshot, places};

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
        let mut open = state.waiting().into_iter().filter(|_| is_alive);
        let place = open.find(|(place, call)| unapproved(*place) && is_it(call, waiting));
        let Some((place, _)) = place else {
            return Err(self.is_decided(came_of(state, waiting)));
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

/// Returns what came of a call of this turn, as far as it says.
fn came_of(state: &State, waiting: &Waiting) -> Decided {
    let is_alive = state.life == waiting.life;
    let mut made = state.calls().into_iter().filter(|made| is_alive && is_it(made.call, waiting));
    made.next().map_or(Decided::Gone, |made| result_of(made.result.map(|(_, result)| result)))
}

fn result_of(result: Option<&ToolMessage>) -> Decided {
    match result {
        None => Decided::Approved,
        Some(result) if was_not_run(result) => Decided::Refused,
        Some(result) if result.is_stand_in() => Decided::OutcomeUnknown,
        Some(_) => Decided::Ran,
    }
}

/// Returns the append by whose id the turn of a call is stored that waits no more; it changes
/// nothing.
pub(super) fn find(waiting: &Waiting) -> Append {
    Append::default().with_id(append_id(&waiting.turn, waiting.part, true))
}

/// Returns the read of what is stored there; `None` if that is nothing.
pub(super) fn read(found: &Appended) -> Option<Read> {
    let at = &found.positions;
    let read = || Read::newest(places(at.end - at.start)).before(at.end);
    (found.repeated && !at.is_empty()).then(read)
}

/// Returns what came of the call, where these are the messages of its turn.
pub(super) fn came_of_stored(waiting: &Waiting, snapshot: &Snapshot) -> Decided {
    let mut messages = snapshot.records.iter().map(|it| it.message());
    if !messages.any(|it| it.tool_calls().any(|call| is_it(call, waiting))) {
        return Decided::Gone;
    }
    let results = messages.filter_map(Message::as_tool);
    let mut own = results.filter(|it| it.call_id() == waiting.call);
    result_of(own.next())
}
