//! The facts that a store knows of a conversation without reading it.

use std::ops::Range;
use std::time::SystemTime;

use crate::record::Incarnation;

/// The positions at which a conversation begins and ends, and the time when it was last active.
#[derive(Clone, Debug, PartialEq, Eq)]
#[non_exhaustive]
pub struct Info {
    /// The position of the oldest record, or `end` if there is none.
    pub start: u64,
    /// The position that the next record will have.
    pub end: u64,
    /// The time of the last append, to the millisecond: what
    /// [`purge_inactive`](crate::ChatMemoryStore::purge_inactive) goes by.
    pub active: SystemTime,
    /// The life of the conversation, where the store knows it.
    pub incarnation: Option<Incarnation>,
}

impl Info {
    /// Returns the facts of a conversation at these positions that was last appended to at this
    /// time.
    ///
    /// For implementers of [`ChatMemoryStore`](crate::ChatMemoryStore).
    pub fn new(positions: Range<u64>, active: SystemTime) -> Self {
        Self { start: positions.start, end: positions.end, active, incarnation: None }
    }

    /// Returns the same with its incarnation.
    #[must_use]
    pub fn with_incarnation(mut self, incarnation: Incarnation) -> Self {
        self.incarnation = Some(incarnation);
        self
    }
}
