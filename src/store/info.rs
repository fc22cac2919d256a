//! What a store knows about a conversation without reading it.

use std::ops::Range;
use std::time::SystemTime;

use crate::record::Incarnation;

/// The positions at which a conversation begins and ends, and the time of its last activity.
#[derive(Clone, Debug, PartialEq, Eq)]
#[non_exhaustive]
pub struct Info {
    /// The position of the oldest record, or `end` if there is none.
    pub start: u64,
    /// The position that the next record will have.
    pub end: u64,
    /// The time of the last append, to the millisecond.
    /// [`purge_inactive`](crate::ChatMemoryStore::purge_inactive) uses it.
    pub active: SystemTime,
    /// The incarnation of the conversation, if the store knows it.
    pub incarnation: Option<Incarnation>,
}

impl Info {
    /// Creates the value from these positions and the time of the last append.
    ///
    /// For implementers of [`ChatMemoryStore`](crate::ChatMemoryStore).
    pub fn new(positions: Range<u64>, active: SystemTime) -> Self {
        Self { start: positions.start, end: positions.end, active, incarnation: None }
    }

    /// Adds the incarnation.
    #[must_use]
    pub fn with_incarnation(mut self, incarnation: Incarnation) -> Self {
        self.incarnation = Some(incarnation);
        self
    }
}
