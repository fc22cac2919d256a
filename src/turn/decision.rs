//! Decisions on calls that wait for approval: each one is a compare-and-set on the slot of the
//! turn.

use super::Turn;
use super::late::Stored;
use super::over::AnyMemory;
use super::state::{CallState, Seen, append_id, calls_among, is_from_tool, slot_of, was_not_run};
use super::unfinished::{Unfinished, Waiting, turns};
use crate::error::{Decided, Error, ErrorKind, Result};
use crate::memory::{Append, Appended, On, Read};
use crate::message::{Message, ToolCall};

#[derive(Clone, Copy)]
pub(crate) enum Decision<'a> {
    Approve,
    Refuse(&'a str),
}

impl Decision<'_> {
    /// Refuses to decide on a call that no longer waits, or while another call of its turn runs.
    fn must_be_open(self, unfinished: &Unfinished, waiting: &Waiting) -> Result<()> {
        let state = &unfinished.state;
        let open = state.open_in(CallState::is_unapproved);
        if !open.into_iter().any(|(_, call)| is_it(call, waiting)) {
            return Err(self.came_second(came_of(&state.messages, waiting)));
        }
        if unfinished.runs() {
            let text = "another call of the turn is being run";
            let since = unfinished.since();
            return Err(Error::new(ErrorKind::Busy { since }, self.operation(), text));
        }
        Ok(())
    }

    pub(super) fn operation(self) -> &'static str {
        match self {
            Self::Approve => "approve",
            Self::Refuse(_) => "refuse",
        }
    }

    /// Returns the error for a decision that came second.
    pub(super) fn came_second(self, how: Decided) -> Error {
        let text = match how {
            Decided::Approved => "the call was approved already, and has no result yet",
            Decided::Ran => "the call was approved already, and has run",
            Decided::Refused => "the call was refused already, or not run",
            Decided::OutcomeUnknown => "the call was approved already, outcome unknown",
            Decided::Gone => "the call no longer waits: its turn is gone",
        };
        Error::new(ErrorKind::Decided(how), self.operation(), text)
    }
}

fn is_it(call: &ToolCall, waiting: &Waiting) -> bool {
    (&call.id, &call.name, &call.arguments) == (&waiting.call, &waiting.tool, &waiting.arguments)
}

/// Returns the outcome of a call, as its turn's messages and the messages stored after them show
/// it.
fn came_of(messages: &[Message], waiting: &Waiting) -> Decided {
    let made = calls_among(messages).into_iter().find(|made| is_it(made.call, waiting));
    match made.map(|made| made.result) {
        None => Decided::Gone,
        Some(None) => Decided::Approved,
        Some(Some((_, result))) if was_not_run(result) => Decided::Refused,
        Some(Some((_, result))) if is_from_tool(result) => Decided::Ran,
        Some(Some(_)) => Decided::OutcomeUnknown,
    }
}

/// Returns an empty append with the id of a part of a turn: it finds that part, and changes
/// nothing.
pub(super) fn find((id, part): (&str, u32), behind_checkpoint: bool, on: Option<On>) -> Append {
    let find = Append::default().with_id(append_id(id, part, behind_checkpoint));
    Append { branch: on, ..find }
}

/// Returns what is stored of this part of a turn. If nothing is stored, the result is marked as
/// repeated if the part was begun: it may have a checkpoint, or was abandoned.
pub(super) async fn find_part(
    memory: &impl AnyMemory,
    part: (&str, u32),
    on: Option<On>,
) -> Result<Appended> {
    let first = memory.put(&mut find(part, false, on)).await?;
    if !first.positions.is_empty() {
        return Ok(first);
    }
    let whole = memory.put(&mut find(part, true, on)).await?;
    Ok(Appended { repeated: first.repeated, ..whole })
}

pub(super) async fn adopt(memory: &impl AnyMemory, unfinished: &Unfinished) -> Result<Turn> {
    let mut turn = unfinished.adopted(memory.bounds());
    take_over(memory, &mut turn).await?;
    Ok(turn)
}

/// Writes the turn to its slot for its new owner. If it began in another life of the conversation,
/// it is moved to the end of this one: an import copies the slots of a conversation, but begins a
/// new life.
async fn take_over(memory: &impl AnyMemory, turn: &mut Turn) -> Result<()> {
    let mut outcome = memory.put(&mut turn.adoption()?).await;
    if outcome.as_ref().is_err_and(|error| error.kind() == ErrorKind::Forgotten) {
        let now = memory.look_up(&Read::newest(0)).await?;
        (turn.state.seen, turn.state.on) = (Some(Seen::of(&now)), None);
        turn.state.replaced = None;
        outcome = memory.put(&mut turn.adoption()?).await;
    }
    turn.saved(&outcome?);
    Ok(())
}

/// Takes over the turn of this call, together with the decision on it.
pub(super) async fn decide(
    memory: &impl AnyMemory,
    waiting: &Waiting,
    decision: Decision<'_>,
) -> Result<Turn> {
    // The turn with the decision, which may have been written although the reply was lost.
    let mut written: Option<Turn> = None;
    let unread = |may_be_written: bool, error: Error| {
        if !may_be_written {
            return error;
        }
        let text = "the decision may be written, and the memory can't be read";
        Error::new(ErrorKind::Unacknowledged, decision.operation(), text).with_source(error)
    };
    for tries in 1.. {
        let snapshot = turns(memory).await.map_err(|error| unread(written.is_some(), error))?;
        let Some(slot) = snapshot.slot(&slot_of(&waiting.turn)) else { break };
        let unfinished = Unfinished::of(slot)?;
        if !unfinished.has(waiting) {
            break; // the turn is no longer in its slot
        }
        let is_own = |it: &mut Turn| it.state.owner == unfinished.state.owner;
        let mut turn = if let Some(mut turn) = written.take_if(is_own) {
            turn.wrote(slot.version()); // and it is written once more
            turn
        } else {
            decision.must_be_open(&unfinished, waiting)?;
            let mut turn = unfinished.adopted(memory.bounds());
            match decision {
                Decision::Approve => turn.approve(&waiting.call)?,
                Decision::Refuse(why) => turn.refuse(&waiting.call, why)?,
            }
            turn
        };
        let Err(error) = take_over(memory, &mut turn).await else { return Ok(turn) };
        match error.kind() {
            ErrorKind::SlotConflict | ErrorKind::Unacknowledged if tries < MOST_TRIES => {
                written = Some(turn);
            }
            _ => return Err(error),
        }
    }
    let unread = |error| unread(written.is_some(), error);
    let mut found =
        memory.put(&mut find((&waiting.turn, waiting.part), true, None)).await.map_err(unread)?;
    if found.positions.is_empty() && waiting.part > 1 {
        found = memory.put(&mut find((&waiting.turn, 1), true, None)).await.map_err(unread)?;
    }
    let mut how = Decided::Gone;
    if !found.positions.is_empty() {
        // Late results too are stored after that position.
        let stored = Stored::since(found.positions.start, found.branch);
        let stored = stored.read_from(memory, true).await.map_err(unread)?;
        if !stored.has_gaps {
            how = came_of(&stored.messages, waiting);
        }
    }
    Err(decision.came_second(how))
}

/// The number of attempts at a decision, while others write to the same turn.
const MOST_TRIES: u32 = 8;
