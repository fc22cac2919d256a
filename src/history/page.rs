//! What a page shows of a branch.

use std::fmt;
use std::ops::Range;
use std::sync::Arc;
use std::time::SystemTime;

use serde::{Serialize, Serializer};

use super::reading::SeenBranch;
use crate::error::Result;
use crate::message::Message;
use crate::record::{Incarnation, Snapshot, millis, rfc3339};
use crate::summary::{Summaries, Summary};

/// Some messages of the current branch, for a page. Its JSON is all that a page needs.
///
/// ```
/// use memory_prompt::conversation::{Conversation, Scripted};
/// use memory_prompt::{DefaultChatMemory, MemoryPrompt};
///
/// let prompt = MemoryPrompt::new(DefaultChatMemory::new()).with_branches();
/// let chat = Conversation::new(prompt, Scripted::new().says("In Norway."));
/// chat.say("Where is Oslo?")?;
/// let page = serde_json::to_value(chat.page(None, 10)?)?;
/// let newest = &page["entries"][0];
/// assert_eq!((&newest["position"], &newest["variant"]), (&1.into(), &1.into()));
/// assert_eq!(newest["message"]["content"], "In Norway.");
/// assert!(newest["at"].as_str().unwrap().ends_with('Z')); // a time as RFC 3339 has it
/// # Ok::<(), Box<dyn std::error::Error>>(())
/// ```
#[derive(Clone, Serialize)]
#[non_exhaustive]
pub struct Page {
    /// The messages, newest first.
    pub entries: Vec<Entry>,
    /// The positions of all messages of the branch that the memory holds: if the last entry is at
    /// their start, there is no older page.
    pub positions: Range<u64>,
    /// The branch, for [`BranchView::expecting`](super::BranchView::expecting); `None` if the
    /// memory keeps no branches.
    pub branch: Option<Incarnation>,
    /// The system message of the branch.
    pub system: Option<Arc<Message>>,
    /// The summary in effect, which a prompt [with summary](crate::MemoryPrompt::with_summary)
    /// sends instead of what it covers.
    pub summary: Option<Summary>,
}

/// One message on a page.
#[derive(Clone, Serialize)]
#[non_exhaustive]
pub struct Entry {
    /// Its position on the branch.
    pub position: u64,
    /// The time when it was appended.
    #[serde(serialize_with = "at_or_null")]
    pub at: SystemTime,
    /// The message.
    pub message: Message,
    /// Its number among the variants at its position: 1 is the oldest.
    pub variant: usize,
    /// The number of variants.
    pub variants: usize,
    /// The branches to [switch](super::BranchView::switch) to, one for each variant, oldest first;
    /// empty if there was never another one.
    pub branches: Vec<Incarnation>,
    /// True if a summary covers it.
    pub is_covered: bool,
}

impl fmt::Debug for Page {
    /// Shows what is on it, not what was said.
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Page")
            .field("entries", &self.entries)
            .field("positions", &self.positions)
            .field("branch", &self.branch)
            .field("summary", &self.summary)
            .finish_non_exhaustive()
    }
}

impl fmt::Debug for Entry {
    /// Shows its place, not what was said.
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Entry")
            .field("position", &self.position)
            .field("role", &self.message.role())
            .field("variant", &(self.variant..=self.variants))
            .field("is_covered", &self.is_covered)
            .finish_non_exhaustive()
    }
}

/// Writes a time in the form of RFC 3339, or `null` if it is not known.
fn at_or_null<S: Serializer>(at: &SystemTime, to: S) -> Result<S::Ok, S::Error> {
    Some(millis(*at)).filter(|at| *at > 0).map(rfc3339).serialize(to)
}

pub(super) fn of_page(seen: &Snapshot, at: &SeenBranch) -> Result<Page> {
    let summary = Summaries::of(seen)?.map(|it| it.current);
    let covers = summary.as_ref().map_or(0, |it| it.covers);
    let variants = at.document.variants(at.start..at.end);
    let entries = seen.records.iter().rev().map(|record| {
        let position = record.position();
        let all = variants(position);
        let others = all.iter().filter(|_| all.len() > 1);
        Entry {
            position,
            at: record.appended_at(),
            message: record.message().clone(),
            variant: all.iter().position(|it| it.is_current).unwrap_or(0) + 1,
            variants: all.len().max(1),
            branches: others.map(|it| it.branch).collect(),
            is_covered: position < covers,
        }
    });
    let entries = entries.collect();
    let (positions, branch) = (seen.start..seen.end, seen.incarnation);
    Ok(Page { entries, positions, branch, system: seen.system.clone(), summary })
}
