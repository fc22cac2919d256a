//! A change of branches, and an append to one: what is to be appended to the conversation.

use std::ops::Range;

use super::WithinGroup;
use super::document::{Document, Line, SLOT};
use super::reading::{OWN, SeenBranch, kept_as, system_of};
use super::spans::FAR;
use crate::codec::Codec;
use crate::error::{Error, ErrorKind, Result};
use crate::memory::{Append, Appended, Expected, On, Read, Since, SlotChange, forgotten};
use crate::message::Message;
use crate::pins::{self, Pins, around, head_of};
use crate::record::{Incarnation, Record, Records, Snapshot};
use crate::summary::{self, Summaries};
use crate::window::last_question;

/// A change to a branch, or a switch of the current branch.
pub(super) enum Change<'a> {
    Append(&'a Append),
    Edit(u64, &'a Append, WithinGroup),
    Undo,
    Redo,
    Switch(Incarnation),
}

/// A change in the form in which it is appended to the conversation.
pub(super) struct Writing {
    pub(super) append: Append,
    /// The branches after the change, if it writes their slot.
    pub(super) document: Option<Document>,
    /// The positions on the branch of what is appended. They begin where the branch first differs
    /// from what was shown.
    pub(super) positions: Range<u64>,
    /// The error for a caller who expects something else, unless the append was made before.
    pub(super) refused: Option<Error>,
}

/// The number of newest records that are searched first for the newest question.
pub(super) const FIRST: usize = 8;

impl Change<'_> {
    /// Returns what the change must read of the branch.
    pub(super) fn read(&self) -> Read {
        match self {
            Self::Append(append) => {
                let may_branch = append.branch.is_some_and(|on| on.fork.is_some());
                let own = if may_branch { &OWN[..] } else { &[] };
                Read::newest(0).slots(own.iter().copied()).on(branch_of(append))
            }
            Self::Edit(position, ..) => {
                Read::newest(0).slots(OWN).positions(around(*position)).references()
            }
            Self::Undo => Read::newest(FIRST).slots(OWN).references(),
            Self::Redo | Self::Switch(_) => Read::newest(0),
        }
    }

    /// Makes the change on what was read; `None` if there is nothing to change. A branch that this
    /// makes gets the id.
    pub(super) fn make(
        &self,
        (seen, at): (&Snapshot, &SeenBranch),
        id: Incarnation,
    ) -> Result<Option<Writing>> {
        let mut document = Document::clone(&at.document);
        let (mut append, mut made) = (Append::default(), None);
        match self {
            Self::Append(append) => return Writing::of_append(append, seen, at).map(Some),
            Self::Edit(position, edit, within) => {
                let place = place_in(seen, *position, *within)?;
                let fork = Line { id: Some(id), at: place, ..Line::default() };
                let line = document.fork(at.line, fork);
                made = Some(line);
                document.open(line, at.end);
                document.make_current(line, place + 1);
                append = (*edit).clone();
            }
            Self::Undo => {
                let question = newest_question(seen);
                let question = question.map(|(_, first)| first.position());
                made = document.undo(question, seen.start, id);
            }
            Self::Redo => document.redo(),
            Self::Switch(id) => {
                let line = document.line(Some(*id)).ok_or_else(|| {
                    Error::invalid("switch", "there is no such branch in this conversation")
                })?;
                if line != document.current {
                    document.make_current(line, document.spans(line, at.end).len());
                }
            }
        }
        if document == *at.document {
            return Ok(None);
        }
        append.expected = Some(at.end);
        // It may have lost everything that was said, and is still the same conversation.
        append.since = Some(Since { incarnation: document.incarnation, newest: None });
        let drawn = document.spans(document.current, at.end).common(&at.spans);
        let positions = drawn..drawn + said(&append);
        Writing::new(append, (document, made), positions, (seen, at)).map(Some)
    }
}

impl Writing {
    /// Returns the writing of this append, after which the branches are those of this document. A
    /// branch that it makes inherits slots.
    fn new(
        mut append: Append,
        (document, made): (Document, Option<usize>),
        positions: Range<u64>,
        (seen, at): (&Snapshot, &SeenBranch),
    ) -> Result<Self> {
        if let Some((number, line)) = made.and_then(|made| Some((made, document.lines.get(made)?)))
        {
            append = inheriting(append, (seen, at), (number, line.shares()))?;
        }
        let is_changed = document != *at.document;
        if is_changed {
            let expected = document.stored.map_or(Expected::Absent, Expected::Is);
            append = append.set_slot(SLOT, document.content()?, expected);
        }
        let document = is_changed.then_some(document);
        Ok(Self { append, document, positions, refused: None })
    }

    /// Converts an append to a branch into an append to the conversation.
    fn of_append(append: &Append, seen: &Snapshot, at: &SeenBranch) -> Result<Self> {
        let mut appended = Append { branch: None, since: None, ..append.clone() };
        let (end, said) = (at.spans.len(), said(append));
        let positions = end..end + said;
        let refused = refused(append, at);
        if refused.is_some() {
            // What was appended before is recognised, whatever the append expects.
            appended.expected = Some(FAR);
            return Ok(Self { append: appended, document: None, positions, refused });
        }
        if let Some(since) = append.since {
            let newest = since.newest.and_then(|it| at.spans.to_conversation(it));
            appended.since = Some(Since { incarnation: at.document.incarnation, newest });
        }
        let mut document = Document::clone(&at.document);
        let fork = at.fork.clone().filter(|_| !append.messages.is_empty() || append.writes_slots());
        let made = fork.map(|fork| document.fork(at.line, fork));
        let line = made.unwrap_or(at.line);
        let own = document.lines.get(line);
        let (awaits, kept) = own.map_or((false, 0), |line| (line.awaits, line.kept()));
        let has_branches = document.stored.is_some() || line != at.line;
        appended.slots.iter_mut().for_each(|slot| slot.name = kept_as(&slot.name, line));
        appended = parted(appended, kept, has_branches.then_some(line))?;
        let is_answer = awaits && is_answered(&append.messages);
        if said > kept {
            document.open(line, at.end);
        }
        if is_answer {
            document.make_current(line, end + kept + 1);
        }
        if has_branches {
            document.note_late((at.end..).zip(&appended.messages));
        }
        if said > kept || append.expected.is_some() {
            appended.expected = Some(at.end);
        }
        Self::new(appended, (document, made), positions, (seen, at))
    }
}

/// Returns the point at which a message is replaced.
pub(super) fn place_in(seen: &Snapshot, position: u64, within: WithinGroup) -> Result<u64> {
    if !(seen.start..seen.end).contains(&position) {
        let text = format!("there is no message at position {position}");
        return Err(Error::invalid("edit", text));
    }
    let head = head_of(position, seen);
    if head < position && within == WithinGroup::Fail {
        let text = format!("the message at position {position} is a result of the call at {head}");
        return Err(Error::invalid("edit", text));
    }
    Ok(head)
}

/// Makes the read reach further back, if it reads records and has shown neither the newest question
/// nor that there is none. Returns whether it does. A memory that answers with fewer records has no
/// more, even if it does not list what it lost.
pub(super) fn reaches_further(read: &mut Read, seen: &Snapshot) -> bool {
    let is_short = (1..=seen.rows()).contains(&read.n) && newest_question(seen).is_none();
    if is_short {
        read.n = read.n.saturating_mul(4);
    }
    is_short
}

/// Returns the newest question, and the first user message of the row that it ends.
pub(super) fn newest_question(seen: &Snapshot) -> Option<(Record<'_>, Record<'_>)> {
    let (question, is_whole) = last_question(&seen.records, 0, seen.records.len());
    let first = question.first().filter(|_| is_whole || seen.is_complete());
    let (first, last) = (seen.records.get(*first?)?, seen.records.get(*question.last()?)?);
    Some((last, first))
}

/// Returns the branch that an append asks for.
fn branch_of(append: &Append) -> Option<On> {
    append.branch.or_else(|| append.since?.incarnation.map(On::branch))
}

/// Returns the number of messages that have positions.
fn said(append: &Append) -> u64 {
    append.messages.iter().filter(|message| !message.is_system()).count() as u64
}

/// Returns the error of an append that expects another branch, or another end of it.
fn refused(append: &Append, at: &SeenBranch) -> Option<Error> {
    if branch_of(append).is_some_and(|on| on.id.is_some() && at.id() != on.id) {
        return Some(forgotten(""));
    }
    let actual = at.spans.len();
    let expected = append.expected.filter(|it| *it != actual)?;
    let text = format!("the branch ends at {actual}, not at {expected}");
    Some(Error::new(ErrorKind::Conflict { expected, actual }, "append", text))
}

/// Finds the branch to which something was appended before, and its positions there: the branch of
/// the append if it has all of it, else the first one that has. If the first branch was asked for
/// without its id, it has none here either.
pub(super) fn locate(appended: &mut Appended, asked: Option<On>, at: &SeenBranch) {
    let Range { start, end } = appended.positions;
    let nowhere = at.spans.count_before(start);
    appended.positions = nowhere..nowhere;
    // The question that it regenerated is part of it, on each branch that has it.
    let kept = at.document.lines.iter().find(|it| it.begins_at(start)).map_or(0, |line| line.keep);
    for number in [at.line].into_iter().chain(0..at.document.lines.len()).filter(|_| start < end) {
        let spans = at.document.spans(number, at.end);
        // After a regenerated question another branch has another answer.
        let is_whole = |found: &u64| spans.to_branch(end - 1) == Some(found + (end - 1 - start));
        if let Some(found) = spans.to_branch(start).filter(is_whole) {
            appended.positions = found - kept..found + end - start;
            let has_id = number > 0 || asked.is_none_or(|on| on.id.is_some());
            appended.branch = Some(On::branch(at.document.id(number).filter(|_| has_id)));
            return;
        }
    }
}

/// Returns the append with the slots that a branch takes along from the one that it is made on: the
/// pins and the summary of what both share, and its system message.
fn inheriting(
    mut append: Append,
    (seen, at): (&Snapshot, &SeenBranch),
    (line, shared): (usize, u64),
) -> Result<Append> {
    let slots = seen.slots().iter().cloned();
    let shared = Snapshot::new(0..shared, Records::default()).with_slots(slots);
    let system = at.system.as_ref().map(|system| system.content().to_vec());
    let summaries = Summaries::of(&shared)?.map(Summaries::contents).transpose()?;
    let [summary, earlier] = summaries.map_or([None, None], |both| both.map(Some));
    for (name, content) in [
        (system_of(line), system),
        (kept_as(pins::SLOT, line), Pins::of(&shared)?.content()?),
        (kept_as(summary::SLOT, line), summary),
        (kept_as(summary::EARLIER_SLOT, line), earlier),
    ] {
        append = match content {
            Some(content) => append.set_slot(name, content, Expected::Any),
            // It was set when a branch began there earlier.
            None if line < at.document.lines.len() => append.remove_slot(name, Expected::Any),
            None => append,
        };
    }
    Ok(append)
}

/// Leaves out the first messages, which are stored already. If there are several branches, the
/// system message is written as that of this branch alone.
fn parted(mut append: Append, mut kept: u64, line: Option<usize>) -> Result<Append> {
    let mut times = std::mem::take(&mut append.times).into_iter();
    for message in std::mem::take(&mut append.messages) {
        let time = times.next();
        if let Some(line) = line.filter(|_| message.is_system()) {
            let (name, content) = (system_of(line), Some(Codec::Json.encode(&message)?));
            append.slots.retain(|it| it.name != name);
            append.slots.push(SlotChange { name, content, expected: Expected::Any });
        } else if kept > 0 && !message.is_system() {
            kept -= 1;
        } else {
            append.messages.push(message);
            append.times.extend(time);
        }
    }
    Ok(append)
}

/// Returns whether these messages end with a whole answer.
fn is_answered(messages: &[Message]) -> bool {
    let last = messages.iter().rev().find(|message| !message.is_private());
    let answer = last.and_then(Message::as_ai).filter(|answer| !answer.has_tool_calls());
    answer.is_some_and(|answer| !answer.is_broken())
}
