//! An append to one branch: what is to be appended to the conversation, and what came of it.

use std::ops::Range;
use std::sync::Arc;

use parking_lot::Mutex;

use super::document::{Document, SLOT};
use super::reading::{Known, OWN, Shared, Standing, kept_as, system_of};
use crate::codec::Codec;
use crate::error::{Error, ErrorKind, Result};
use crate::memory::{Append, Appended, Expected, Limits, On, Read, Since, SlotChange, forgotten};
use crate::message::Message;
use crate::pins::{self, Pins};
use crate::record::{Records, SlotVersion, Snapshot};
use crate::summary::{self, Summaries};

/// An append to a branch, as it is made to the conversation.
pub(super) struct Writing {
    pub(super) append: Append,
    /// The branches as it leaves them, where it writes their slot.
    document: Option<Document>,
    /// The error for who expects something else, unless the append was made before.
    refused: Option<Error>,
}

/// The most appends of others that an append is made again for.
const TRIES: u32 = 4096;

/// No conversation ends there: who expects it finds out whether an id is known, and no more.
const NOWHERE: u64 = i64::MAX as u64;

impl Writing {
    /// Returns what shows where the append goes.
    pub(super) fn read(append: &Append) -> Read {
        let mut read = Read::newest(0);
        let seen = append.since.and_then(|since| since.incarnation);
        read.branch = append.branch.or_else(|| seen.map(On::branch));
        if append.branch.is_some_and(|on| on.fork.is_some()) {
            read.slots = OWN.map(String::from).into();
        }
        read
    }

    /// Makes the append.
    pub(super) fn new(
        append: &Append,
        (seen, at): (&Snapshot, &Standing),
        limits: &Limits,
    ) -> Result<Self> {
        append.check(limits)?;
        let (version, line) = (at.known.version, at.line);
        let mut made = Append { branch: None, since: None, ..append.clone() };
        if let Some(refused) = refused(append, at) {
            // What was appended before is recognised, whatever is expected of it.
            if append.id.is_none() {
                return Err(refused);
            }
            made.expected = Some(NOWHERE);
            return Ok(Self { append: made, document: None, refused: Some(refused) });
        }
        if let Some(since) = append.since {
            let newest = since.newest.and_then(|it| at.spans.to_conversation(it));
            let incarnation = at.known.incarnation;
            made.since = Some(Since { incarnation, newest });
        }
        let (mut document, said) = (at.known.document.clone(), said(append));
        let own = document.lines.get(line);
        let (awaits, kept) = own.map_or((false, 0), |line| (line.awaits, line.kept()));
        let n = said.saturating_sub(kept);
        let mut is_changed = at.is_new() && (!append.messages.is_empty() || append.writes_slots());
        if is_changed {
            made = inheriting(made, (seen, at), (line, at.spans.len() + kept))?;
        }
        made.slots.iter_mut().for_each(|slot| slot.name = kept_as(&slot.name, line));
        let has_own = version.is_some() || is_changed;
        made = parted(made, kept, has_own.then_some(line))?;
        let is_answer = awaits && is_answered(&append.messages);
        if n > 0 && (is_answer || document.must_change(line)) {
            document.extend(line, at.end, n);
            is_changed = true;
        }
        if is_answer {
            document.make_current(line, at.spans.len() + kept + 1);
        }
        let messages = made.messages.iter().filter(|message| !message.is_system());
        let has_late = document.note_late((at.end..).zip(messages));
        is_changed |= has_late && version.is_some();
        if n > 0 || append.expected.is_some() {
            made.expected = Some(at.end);
        }
        if is_changed {
            made = with_document(made, &document, version)?;
        }
        Ok(Self { append: made, document: is_changed.then_some(document), refused: None })
    }

    /// Takes what came of it; returns what that is on the branch.
    pub(super) fn done(
        self,
        mut appended: Appended,
        append: &Append,
        at: &Standing,
        shared: &Mutex<Shared>,
    ) -> Appended {
        appended.positions = at.spans.len()..at.spans.len() + said(append);
        if let Some(document) = self.document {
            remember(shared, at, document, appended.version);
        }
        if append.slots.is_empty() {
            appended.version = None;
        }
        appended
    }

    /// Returns whether the reason may be that others have written the slot of branches.
    pub(super) fn may_meet_branches(&self, error: &Error) -> bool {
        error.kind() == ErrorKind::SlotConflict && self.document.is_some()
    }

    /// Returns the error, unless the append is to be made again, on what others have appended.
    pub(super) fn failed(self, error: Error, tries: u32) -> Result<()> {
        match (error.kind(), self.refused) {
            (ErrorKind::Conflict { .. }, Some(refused)) => Err(refused),
            (ErrorKind::Conflict { .. }, None) if tries < TRIES => Ok(()),
            _ => Err(error),
        }
    }
}

/// Returns the number of messages that have positions.
fn said(append: &Append) -> u64 {
    append.messages.iter().filter(|message| !message.is_system()).count() as u64
}

/// Returns the error of an append that expects another branch, or another end of it, than there is.
fn refused(append: &Append, at: &Standing) -> Option<Error> {
    let asked = Writing::read(append).branch;
    if asked.is_some_and(|on| at.known.id(at.line) != Some(on.id)) {
        return Some(forgotten());
    }
    let actual = at.spans.len();
    let expected = append.expected.filter(|it| *it != actual)?;
    let text = format!("the branch ends at {actual}, not at {expected}");
    Some(Error::new(ErrorKind::Conflict { expected, actual }, "append", text))
}

/// Finds the branch on which something was appended before, and its positions there: that of the
/// append if it has all of it, else the first one that has.
pub(super) fn locate(appended: &mut Appended, at: &Standing) {
    let Range { start, end } = appended.positions;
    let (document, nowhere) = (&at.known.document, at.spans.count_before(start));
    appended.positions = nowhere..nowhere;
    for number in [at.line].into_iter().chain(0..document.lines.len()).filter(|_| start < end) {
        let line = document.lines.get(number).filter(|it| it.first() == Some(start));
        let kept = line.map_or(0, |line| line.keep);
        let spans = document.spans(number, at.end);
        // Behind a question that was answered anew another branch has another answer.
        let is_whole = |found: &u64| spans.to_branch(end - 1) == Some(found + (end - 1 - start));
        if let Some(found) = spans.to_branch(start).filter(is_whole) {
            appended.positions = found - kept..found + end - start;
            appended.branch = at.known.id(number).map(On::branch);
            return;
        }
    }
}

/// Returns the append with the slot of branches.
pub(super) fn with_document(
    append: Append,
    document: &Document,
    version: Option<SlotVersion>,
) -> Result<Append> {
    let expected = version.map_or(Expected::Absent, Expected::Is);
    Ok(append.set_slot(SLOT, document.content()?, expected))
}

/// Remembers what was written, and goes on to look at what is current now.
pub(super) fn remember(
    shared: &Mutex<Shared>,
    at: &Standing,
    document: Document,
    version: Option<SlotVersion>,
) {
    let mut shared = shared.lock();
    let known = Known { document, version, incarnation: at.known.incarnation };
    if shared.seen.is_some() && shared.seen == at.known.current() {
        shared.seen = known.current();
    }
    shared.known = Arc::new(known);
}

/// Returns the append with what a branch takes along of the slots of the one that it is made on:
/// the pins and the summary of what both share, and its system message.
pub(super) fn inheriting(
    mut append: Append,
    (seen, standing): (&Snapshot, &Standing),
    (line, at): (usize, u64),
) -> Result<Append> {
    if let Some(system) = &standing.system {
        append = append.set_slot(system_of(line), system.content(), Expected::Any);
    }
    let shared = Snapshot::new(0..at, Records::default()).with_slots(seen.slots().iter().cloned());
    if let Some(content) = Pins::of(&shared)?.content()? {
        append = append.set_slot(kept_as(pins::SLOT, line), content, Expected::Any);
    }
    if let Some(summaries) = Summaries::of(&shared)? {
        let content = summaries.content()?;
        append = append.set_slot(kept_as(summary::SLOT, line), content, Expected::Any);
    }
    Ok(append)
}

/// Leaves out the first messages, which are stored already, and has the system message written as
/// that of this branch alone, where there are several.
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
