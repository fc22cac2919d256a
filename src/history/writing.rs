//! An append to one branch: what is to be appended to the conversation, and what came of it.

use std::ops::Range;
use std::sync::Arc;

use parking_lot::Mutex;

use super::document::{Document, Line, SLOT};
use super::reading::{BranchPlace, Known, OWN, Shared, Standing, kept_as, system_of};
use crate::codec::Codec;
use crate::error::{Error, ErrorKind, Result};
use crate::memory::{Append, Appended, Expected, Limits, On, Read, Since, SlotChange, forgotten};
use crate::message::Message;
use crate::pins::{self, Pins};
use crate::record::{Records, SlotVersion, Snapshot};
use crate::summary::{self, Summaries};

/// An append on its way. It is made again where others have appended meanwhile.
#[derive(Default)]
pub(super) struct Writing {
    /// Where the messages go, in positions of the branch.
    start: u64,
    kept: u64,
    /// The outcome of the slot, where the append writes it.
    document: Option<Document>,
    /// The error for who expects something else, unless the append was made before.
    refused: Option<Error>,
    /// The conflict of a slot for which it is made again, and the version of the slot of branches
    /// on which it was made: it stands where no branch was the reason.
    conflict: Option<(Error, Option<SlotVersion>)>,
    tries: u32,
}

/// The next thing to do.
pub(super) enum Came {
    Done(Appended),
    /// The branch is to be read again, and the append made on that.
    Again,
    /// It was appended before, there: the branch is to be read again, for its positions.
    Before(Appended),
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

    /// Makes the append to the conversation.
    pub(super) fn make(
        &mut self,
        append: &Append,
        (seen, at): (&Snapshot, &Standing),
        limits: &Limits,
    ) -> Result<Append> {
        append.check(limits)?;
        let version = at.known.version;
        if let Some((conflict, made_on)) = self.conflict.take()
            && made_on == version
        {
            return Err(conflict);
        }
        (self.document, self.refused) = (None, None);
        let mut place = at.line;
        let mut made = Append { branch: None, since: None, ..append.clone() };
        let asked = Self::read(append).branch;
        let is_gone = asked.is_some_and(|on| at.known.id(place) != Some(on.id));
        if is_gone {
            self.refused = Some(forgotten());
        } else if let Some(expected) = append.expected.filter(|it| *it != at.spans.len()) {
            let actual = at.spans.len();
            let text = format!("the branch ends at {actual}, not at {expected}");
            let error = Error::new(ErrorKind::Conflict { expected, actual }, "append", text);
            self.refused = Some(error);
        }
        if self.refused.is_some() {
            // What was appended before is recognised, whatever is expected of it.
            if append.id.is_none() {
                return self.refused.take().map_or(Ok(made), Err);
            }
            made.expected = Some(NOWHERE);
            return Ok(made);
        }
        if let Some(since) = append.since {
            let newest = since.newest.and_then(|it| at.spans.to_conversation(it));
            let incarnation = at.known.incarnation;
            made.since = Some(Since { incarnation, newest });
        }
        let said = append.messages.iter().filter(|message| !message.is_system()).count() as u64;
        self.start = at.spans.len();
        self.kept = kept(at, place).min(said);
        let n = said - self.kept;
        let mut document = at.known.document.clone();
        if version.is_none() {
            document = Document::unbranched(at.end);
        }
        let mut is_changed = false;
        if let BranchPlace::Fork { id, from, at: fork, keep } = place
            && (said > 0 || append.writes_slots())
        {
            let line = document.fork(from, fork, keep, id);
            made = inheriting(made, (seen, at), (line, fork + keep))?;
            (place, is_changed) = (BranchPlace::Line(line), true);
        }
        if let BranchPlace::Line(line) = place {
            made.slots.iter_mut().for_each(|slot| slot.name = kept_as(&slot.name, line));
            let has_own = version.is_some() || is_changed;
            made = parted(made, self.kept, has_own.then_some(line))?;
            if n > 0 && document.must_change(line) {
                let awaits = document.lines().get(line).is_some_and(Line::awaits);
                document.extend(line, at.end, n);
                if awaits && is_answered(&append.messages) {
                    document.make_current(line, self.start + self.kept + 1);
                }
                is_changed = true;
            }
        }
        if n > 0 || append.expected.is_some() {
            made.expected = Some(at.end);
        }
        if is_changed {
            made = with_document(made, &document, version)?;
            self.document = Some(document);
        }
        Ok(made)
    }

    /// Takes what came of it.
    pub(super) fn came(
        &mut self,
        outcome: Result<Appended>,
        append: &mut Append,
        at: &Standing,
        shared: &Mutex<Shared>,
    ) -> Result<Came> {
        self.tries += 1;
        match outcome {
            Ok(appended) if appended.repeated => {
                append.messages.clear();
                Ok(Came::Before(appended))
            }
            Ok(mut appended) => {
                append.messages.clear();
                let n = self.kept + appended.positions.end - appended.positions.start;
                appended.positions = self.start..self.start + n;
                if let Some(document) = self.document.take() {
                    remember(shared, at, document, appended.version);
                }
                if append.slots.is_empty() {
                    appended.version = None;
                }
                Ok(Came::Done(appended))
            }
            Err(error) => match (error.kind(), self.refused.take()) {
                (ErrorKind::Conflict { .. }, Some(refused)) => Err(refused),
                (ErrorKind::Conflict { .. }, None) if self.tries < TRIES => Ok(Came::Again),
                (ErrorKind::SlotConflict, None) if self.document.is_some() => {
                    self.conflict = Some((error, at.known.version));
                    Ok(Came::Again)
                }
                _ => Err(error),
            },
        }
    }
}

/// Returns how many first messages of an append to this branch are stored already.
fn kept(at: &Standing, place: BranchPlace) -> u64 {
    match place {
        BranchPlace::Fork { keep, .. } => keep,
        BranchPlace::Line(line) => {
            let line = at.known.document.lines().get(line);
            line.filter(|line| line.awaits()).map_or(0, Line::kept)
        }
    }
}

/// Finds the branch on which something was appended before, and its positions there: that of the
/// append if it has all of it, else the first one that has.
pub(super) fn locate(appended: &mut Appended, at: &Standing) {
    let Range { start, end } = appended.positions;
    let (document, nowhere) = (&at.known.document, at.spans.count_before(start));
    appended.positions = nowhere..nowhere;
    let own = if let BranchPlace::Line(line) = at.line { line } else { 0 };
    for number in [own].into_iter().chain(0..document.lines().len()).filter(|_| start < end) {
        let line = document.lines().get(number).filter(|it| it.first() == Some(start));
        let kept = line.map_or(0, Line::kept);
        let spans = document.spans(number, at.end);
        // Behind a question that was answered anew another branch has another answer.
        let is_whole = |found: &u64| spans.to_branch(end - 1) == Some(found + (end - 1 - start));
        if let Some(found) = spans.to_branch(start).filter(is_whole) {
            appended.positions = found - kept..found + end - start;
            appended.branch = at.known.id(BranchPlace::Line(number)).map(On::branch);
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
    if shared.seen.is_some()
        && shared.seen == at.known.id(BranchPlace::Line(at.known.document.current))
    {
        shared.seen = known.id(BranchPlace::Line(known.document.current));
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

/// Returns whether these messages end with an answer.
fn is_answered(messages: &[Message]) -> bool {
    let last = messages.iter().rev().find(|message| !message.is_private());
    last.is_some_and(|message| message.as_ai().is_some() && !message.has_tool_calls())
}
