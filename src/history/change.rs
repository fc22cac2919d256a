//! Changes of what is current: what they have to see, and what they write.

use super::document::Document;
use super::reading::{BranchPlace, OWN, Standing};
use super::writing::{inheriting, with_document};
use super::{Variant, WithinGroup};
use crate::error::{Error, Result};
use crate::memory::{Append, Read, Since};
use crate::pins::{around, head_of};
use crate::record::{Incarnation, Record, Snapshot};
use crate::window::last_question;

/// What is done to the branches of a conversation.
pub(super) enum BranchChange {
    Edit(u64, Box<Append>, WithinGroup),
    Undo,
    Redo,
    Switch(Incarnation),
}

/// A change on its way, which is made on what others have appended meanwhile.
pub(super) struct Changing {
    change: BranchChange,
    /// The number of newest records among which the newest question is looked for.
    n: usize,
    id: Incarnation,
}

/// The next thing to do for a change.
pub(super) enum ToChange {
    /// There is nothing to change.
    Nothing,
    /// More is to be read.
    Further,
    /// This is to be appended to the conversation; from that position on a page is to be drawn
    /// anew.
    Write(Box<Append>, Document, u64),
}

/// The number of newest records among which the newest question is looked for first.
pub(super) const FIRST: usize = 8;

impl Changing {
    pub(super) fn new(change: BranchChange) -> Self {
        Self { change, n: FIRST, id: Incarnation::random() }
    }

    /// Returns what it has to see of the current branch.
    pub(super) fn read(&self) -> Read {
        match self.change {
            BranchChange::Edit(position, ..) => {
                Read::newest(0).slots(OWN).positions(around(position))
            }
            BranchChange::Undo => Read::newest(self.n).slots(OWN),
            BranchChange::Redo | BranchChange::Switch(_) => Read::newest(0),
        }
    }

    /// Makes the change.
    pub(super) fn make(&mut self, seen: &Snapshot, at: &Standing) -> Result<ToChange> {
        let (version, end) = (at.known.version, at.end);
        let mut document = at.known.document.clone();
        if version.is_none() {
            document = Document::unbranched(end);
        }
        let before = document.lines().len();
        let mut append = Append::default();
        match &self.change {
            BranchChange::Edit(position, edit, within) => {
                let position = place_in(seen, *position, *within)?;
                let line = document.fork(document.current, position, 0, self.id);
                document.extend(line, end, edit.messages.len() as u64);
                document.make_current(line, position + 1);
                append = (**edit).clone();
            }
            BranchChange::Undo => {
                let question = newest_question(seen);
                if question.is_none() && !is_complete(seen) {
                    self.n = self.n.saturating_mul(4);
                    return Ok(ToChange::Further);
                }
                if !document.undo(question.map(|(_, record)| record.seq()), self.id) {
                    return Ok(ToChange::Nothing);
                }
            }
            BranchChange::Redo => {
                if !document.redo() {
                    return Ok(ToChange::Nothing);
                }
            }
            BranchChange::Switch(id) => {
                let line = document.find(*id, at.known.incarnation);
                let line = line.ok_or_else(|| {
                    Error::invalid("switch", "there is no such branch in this conversation")
                })?;
                if line == document.current {
                    return Ok(ToChange::Nothing);
                }
                let floor = document.spans(line, end).len();
                document.make_current(line, floor);
            }
        }
        let n = append.messages.len() as u64;
        let now = document.spans(document.current, end + n);
        let drawn = now.common(&at.spans);
        let line = document.current;
        if line >= before {
            append = inheriting(append, (seen, at), (line, now.len() - n))?;
        }
        append.expected = Some(end);
        // It may have lost all that was said, and is still the same conversation.
        append.since = Some(Since { incarnation: at.known.incarnation, newest: None });
        let append = with_document(append, &document, version)?;
        Ok(ToChange::Write(Box::new(append), document, drawn))
    }
}

/// Returns where a message is put in the place of another one.
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

/// Returns the newest question, and the first of those that stand in a row with it.
pub(super) fn newest_question(seen: &Snapshot) -> Option<(Record<'_>, Record<'_>)> {
    let (question, is_whole) = last_question(&seen.records, 0, seen.records.len());
    let first = question.first().filter(|_| is_whole || is_complete(seen));
    let (first, last) = (seen.records.get(*first?)?, seen.records.get(*question.last()?)?);
    Some((last, first))
}

/// Returns whether the branch has nothing older.
pub(super) fn is_complete(seen: &Snapshot) -> bool {
    seen.oldest_row() <= seen.start
}

/// Returns the other messages that were said in the place of this one.
pub(super) fn variants(at: &Standing, position: u64) -> Vec<Variant> {
    let known = &at.known;
    let siblings = known.document.siblings(position, at.end);
    let siblings = siblings.into_iter().filter_map(|it| {
        let branch = known.id(BranchPlace::Line(it.line))?;
        let is_current = it.line == known.document.current;
        Some(Variant { position, branch, record: it.record, is_current })
    });
    siblings.collect()
}
