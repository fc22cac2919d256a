//! A read of more than the newest records.

use std::ops::Range;

use serde::{Deserialize, Serialize};

use super::slots::check_slot;
use crate::error::Result;
use crate::record::{Incarnation, Records, Snapshot, Unreadable};

/// The parts of a conversation to read: the newest records, slots by name, and single records by
/// position, all as of one moment.
///
/// ```
/// use memory_prompt::memory::{Append, Expected, Read};
/// use memory_prompt::{ChatMemory, ChatMemoryExt, DefaultChatMemory, Message};
///
/// let memory = DefaultChatMemory::new();
/// memory.add_all((0..100).map(|i| Message::user(i.to_string())))?;
/// memory.append_with(&mut Append::default().set_slot("pins", "[3]", Expected::Any))?;
///
/// let snapshot = memory.read_with(&Read::newest(10).slots(["pins", "summary"]).positions([3]))?;
/// assert_eq!(snapshot.records.len(), 10);
/// assert_eq!(snapshot.slot("pins").and_then(|slot| slot.text()), Some("[3]"));
/// assert_eq!(snapshot.slot("summary"), None);
/// assert_eq!(snapshot.picked().messages().map(|m| m.text()).collect::<Vec<_>>(), ["3"]);
/// # Ok::<(), memory_prompt::Error>(())
/// ```
#[derive(Clone, Debug, Default, PartialEq, Eq)]
#[non_exhaustive]
pub struct Read {
    /// The position before which the newest records are read; `None` for the end.
    pub before: Option<u64>,
    /// The number of newest records to read.
    pub n: usize,
    /// The names of the slots to read.
    pub slots: Vec<String>,
    /// The positions of the single records to read.
    pub positions: Vec<u64>,
    /// True if media may come as references. A memory that makes its own snapshots over another one
    /// does not ask that one for references.
    pub references: bool,
    /// The branch to read, if the memory shows [one of several](crate::history); the default is the
    /// current one. Other memories ignore it.
    pub(crate) branch: Option<On>,
}

/// The branch on which something is read or appended.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub(crate) struct On {
    /// The life of the conversation that this branch is; `None` for the first one of a conversation
    /// that did not exist yet, or of a memory that has no incarnations.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub(crate) id: Option<Incarnation>,
    /// How to make it if it does not exist yet.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub(crate) fork: Option<Fork>,
}

impl On {
    /// A branch that exists.
    pub(crate) fn branch(id: impl Into<Option<Incarnation>>) -> Self {
        Self { id: id.into(), fork: None }
    }
}

/// A branch to be made.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub(crate) struct Fork {
    /// The branch that it is made on; `None` for the first one of a memory that has no
    /// incarnations.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub(crate) from: Option<Incarnation>,
    /// The number of messages that both share.
    pub(crate) at: u64,
    /// The number of further messages that it is given and that are stored already.
    pub(crate) keep: u64,
}

impl Read {
    /// Reads the system message and the newest `n` records.
    pub fn newest(n: usize) -> Self {
        Self { n, ..Self::default() }
    }

    /// Reads the newest records before this position.
    #[must_use]
    pub fn before(mut self, position: u64) -> Self {
        self.before = Some(position);
        self
    }

    /// Reads the slots of these names too. Slots that do not exist are left out, and a slot that is
    /// named twice is returned once.
    #[must_use]
    pub fn slots(mut self, names: impl IntoIterator<Item = impl Into<String>>) -> Self {
        self.slots.extend(names.into_iter().map(Into::into));
        self
    }

    /// Reads the records at these positions too. Records that do not exist (any more) are left out.
    #[must_use]
    pub fn positions(mut self, positions: impl IntoIterator<Item = u64>) -> Self {
        self.positions.extend(positions);
        self
    }

    /// Lets media that the memory keeps beside its records come as
    /// [references](crate::message::MediaReference), without their bytes: for pages that list
    /// pictures, and for readers that fetch the ones they need afterwards, by
    /// [`positions`](Self::positions). A memory that keeps media within its records returns them
    /// with their bytes.
    #[must_use]
    pub fn references(mut self) -> Self {
        self.references = true;
        self
    }

    /// Reads this branch, if the memory shows one of several.
    pub(crate) fn on(mut self, branch: Option<On>) -> Self {
        self.branch = branch;
        self
    }

    /// Returns the names of the slots, each once.
    pub(crate) fn names(&self) -> impl Iterator<Item = &str> {
        let names = self.slots.iter().enumerate();
        names.filter(|(i, name)| !self.slots[..*i].contains(name)).map(|(_, name)| name.as_str())
    }

    /// Returns whether only the newest records are read.
    ///
    /// For implementers of [`ChatMemory`](crate::ChatMemory).
    pub fn is_plain(&self) -> bool {
        self.slots.is_empty() && self.positions.is_empty()
    }

    /// Refuses an invalid read.
    ///
    /// For implementers of [`ChatMemory`](crate::ChatMemory), as the first step.
    ///
    /// # Errors
    ///
    /// [`ErrorKind::Invalid`](crate::ErrorKind::Invalid) for a name that no slot can have.
    pub fn check(&self) -> Result<()> {
        self.slots.iter().try_for_each(|name| check_slot("read", name))
    }

    /// Returns the single positions within those that a conversation holds, joined to contiguous
    /// ranges: in ascending order, each once.
    ///
    /// For implementers of [`ChatMemory`](crate::ChatMemory).
    pub fn stretches(&self, held: Range<u64>) -> Vec<Range<u64>> {
        let mut positions: Vec<u64> =
            self.positions.iter().copied().filter(|position| held.contains(position)).collect();
        positions.sort_unstable();
        positions.dedup();
        let mut stretches: Vec<Range<u64>> = Vec::new();
        for position in positions {
            match stretches.last_mut() {
                Some(stretch) if stretch.end == position => stretch.end += 1,
                _ => stretches.push(position..position + 1),
            }
        }
        stretches
    }
}

/// Single records, collected range by range.
#[derive(Default)]
pub(super) struct Picked {
    records: Records,
    unreadable: Vec<Unreadable>,
}

impl Picked {
    pub(super) fn add(&mut self, stretch: &Range<u64>, read: Snapshot) {
        self.records.extend(read.records.split(stretch.start).1);
        self.unreadable
            .extend(read.unreadable.into_iter().filter(|row| stretch.contains(&row.position)));
    }

    pub(super) fn added_to(self, snapshot: Snapshot) -> Snapshot {
        snapshot.with_picked(self.records, self.unreadable)
    }
}

/// Adds the single records of a read to its snapshot. The last argument reads the newest `n`
/// records before a position.
macro_rules! with_picked {
    ($read:expr, $snapshot:expr, |$before:ident, $n:ident| $newest:expr) => {{
        let mut picked = $crate::memory::read::Picked::default();
        for stretch in $read.stretches($snapshot.start..$snapshot.end) {
            let $before = Some(stretch.end);
            let $n = $crate::record::places(stretch.end - stretch.start);
            picked.add(&stretch, $newest);
        }
        picked.added_to($snapshot)
    }};
}
pub(super) use with_picked;
