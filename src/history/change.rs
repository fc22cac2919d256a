//! Changes of what is current: what they have to see, and what they write.

use super::document::Document;
use super::reading::{OWN, Standing};
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

/// A change as it is appended to the conversation.
pub(super) struct Changed {
    pub(super) append: Append,
    pub(super) document: Document,
    /// The position from which on a page is to be drawn anew.
    pub(super) drawn: u64,
}

/// The number of newest records among which the newest question is looked for first.
pub(super) const FIRST: usize = 8;

impl BranchChange {
    /// Returns what it has to see of the current branch.
    pub(super) fn read(&self) -> Read {
        match self {
            Self::Edit(position, ..) => {
                Read::newest(0).slots(OWN).positions(around(*position)).references()
            }
            Self::Undo => Read::newest(FIRST).slots(OWN).references(),
            Self::Redo | Self::Switch(_) => Read::newest(0),
        }
    }

    /// Makes the change on what was read; `None` if there is nothing to change. A branch that this
    /// makes has the id.
    pub(super) fn make(
        &self,
        seen: &Snapshot,
        at: &Standing,
        id: Incarnation,
    ) -> Result<Option<Changed>> {
        let (known, end) = (&at.known, at.end);
        let mut document = known.document.clone();
        let mut append = Append::default();
        match self {
            Self::Edit(position, edit, within) => {
                let position = place_in(seen, *position, *within)?;
                let line = document.fork(document.current, position, 0, id);
                document.extend(line, end, edit.messages.len() as u64);
                document.make_current(line, position + 1);
                append = (**edit).clone();
            }
            Self::Undo => {
                let question = newest_question(seen);
                document.undo(question.map(|(_, record)| record.position()), id);
            }
            Self::Redo => document.redo(),
            Self::Switch(id) => {
                let line = known.line(*id).ok_or_else(|| {
                    Error::invalid("switch", "there is no such branch in this conversation")
                })?;
                if line != document.current {
                    document.make_current(line, document.spans(line, end).len());
                }
            }
        }
        if document == known.document {
            return Ok(None);
        }
        let n = append.messages.len() as u64;
        let line = document.current;
        let now = document.spans(line, end + n);
        if line >= known.document.lines.len() {
            append = inheriting(append, (seen, at), (line, now.len() - n))?;
        }
        append.expected = Some(end);
        // It may have lost all that was said, and is still the same conversation.
        append.since = Some(Since { incarnation: known.incarnation, newest: None });
        let append = with_document(append, &document, known.version)?;
        Ok(Some(Changed { append, document, drawn: now.common(&at.spans) }))
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

/// Makes the read reach further back, if it is one of records that has not shown the newest
/// question, nor that there is none; returns whether it does.
pub(super) fn reaches_further(read: &mut Read, seen: &Snapshot) -> bool {
    let is_short = read.n > 0 && newest_question(seen).is_none() && !is_complete(seen);
    if is_short {
        read.n = read.n.saturating_mul(4);
    }
    is_short
}

/// Returns the newest question, and the first of those that stand in a row with it.
pub(super) fn newest_question(seen: &Snapshot) -> Option<(Record<'_>, Record<'_>)> {
    let (question, is_whole) = last_question(&seen.records, 0, seen.records.len());
    let first = question.first().filter(|_| is_whole || is_complete(seen));
    let (first, last) = (seen.records.get(*first?)?, seen.records.get(*question.last()?)?);
    Some((last, first))
}

/// Returns whether the branch has nothing older.
fn is_complete(seen: &Snapshot) -> bool {
    seen.oldest_row() <= seen.start
}

/// Returns the messages that were said in the place of this one, with itself.
pub(super) fn variants(at: &Standing, position: u64) -> Vec<Variant> {
    let siblings = at.known.document.siblings(position, at.end);
    let siblings = siblings.filter_map(|(record, line)| {
        let is_current = line == at.known.document.current;
        Some(Variant { position, branch: at.known.id(line)?, record, is_current })
    });
    siblings.collect()
}
