//! What a page shows of a branch.

use std::fmt;
use std::ops::Range;
use std::sync::Arc;
use std::time::SystemTime;

use super::reading::{BranchPlace, Standing};
use crate::error::Result;
use crate::message::Message;
use crate::record::{Incarnation, Snapshot};
use crate::summary::{Summaries, Summary};

/// Some messages of the current branch, as a page shows them.
#[derive(Clone, Debug)]
#[non_exhaustive]
pub struct Page {
    /// The messages, newest first.
    pub entries: Vec<Entry>,
    /// The positions of all messages of the branch that the memory holds: where the last entry
    /// stands at their start, there is no older page.
    pub positions: Range<u64>,
    /// The branch: for [`BranchView::expecting`](super::BranchView::expecting), and none of a
    /// memory that keeps no branches.
    pub branch: Option<Incarnation>,
    /// The system message of the branch.
    pub system: Option<Arc<Message>>,
    /// The summary that holds, which a prompt [with summary](crate::MemoryPrompt::with_summary)
    /// sends in place of what it covers.
    pub summary: Option<Summary>,
}

/// One message on a page.
#[derive(Clone)]
#[non_exhaustive]
pub struct Entry {
    /// Its position on the branch.
    pub position: u64,
    /// The time when it was appended.
    pub at: SystemTime,
    /// The message.
    pub message: Message,
    /// Which one of those that were said in its place it is: 1 is the oldest.
    pub variant: usize,
    /// How many there are.
    pub variants: usize,
    /// The branches to [switch](super::BranchView::switch) to, one for each of them, oldest first;
    /// none where it never had another one.
    pub branches: Vec<Incarnation>,
    /// True if a summary covers it.
    pub is_covered: bool,
}

impl fmt::Debug for Entry {
    /// Says where it stands, not what was said.
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Entry")
            .field("position", &self.position)
            .field("role", &self.message.role())
            .field("variant", &(self.variant..=self.variants))
            .field("is_covered", &self.is_covered)
            .finish_non_exhaustive()
    }
}

/// Returns the page of what was read.
pub(super) fn of_page(seen: &Snapshot, at: Option<&Standing>) -> Result<Page> {
    let summary = Summaries::of(seen)?.map(|it| it.current);
    let covers = summary.as_ref().map_or(0, |it| it.covers);
    let mut parted = at.map_or_else(Vec::new, |at| at.known.document.parted(at.end));
    parted.sort_unstable();
    let entries = seen.records.iter().rev().map(|record| {
        let position = record.seq();
        let (mut variant, mut variants, mut branches) = (1, 1, Vec::new());
        if let Some(at) = at.filter(|_| parted.binary_search(&position).is_ok()) {
            let own = at.spans.to_conversation(position);
            let siblings = at.known.document.siblings(position, at.end);
            let place = siblings.iter().position(|it| Some(it.record) == own);
            (variant, variants) = (place.unwrap_or(0) + 1, siblings.len().max(1));
            branches =
                siblings.iter().filter_map(|it| at.known.id(BranchPlace::Line(it.line))).collect();
        }
        Entry {
            position,
            at: record.appended_at(),
            message: record.message().clone(),
            variant,
            variants,
            branches,
            is_covered: position < covers,
        }
    });
    let entries = entries.collect();
    let (positions, branch) = (seen.start..seen.end, seen.incarnation);
    Ok(Page { entries, positions, branch, system: seen.system.clone(), summary })
}
