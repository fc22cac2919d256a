//! Copying conversations from one store to another: what both twins have in common.

use std::ops::Range;

use super::Info;
use crate::codec::Codec;
use crate::error::{Error, ErrorKind, Result};
use crate::memory::{Append, Expected, Limits, MemoryId, Read};
use crate::record::{SlotVersion, Snapshot, places};

/// The number of records that are read and written at a time.
const PAGE: u64 = 64;

/// The progress of a copy.
#[derive(Clone, Debug, PartialEq, Eq, Default)]
#[non_exhaustive]
pub struct Copied {
    /// The conversation that is being copied, or was the last one.
    pub id: Option<MemoryId>,
    /// The number of conversations that are copied whole.
    pub conversations: u64,
    /// The number of records that are copied, those of the conversation under way included.
    pub records: u64,
}

/// One conversation on its way.
pub(super) struct Journey {
    id: MemoryId,
    /// The conversation that is copied, but for its records.
    pub(super) head: Snapshot,
    info: Info,
    /// The position of the next record to copy.
    at: u64,
    limits: Limits,
}

impl Journey {
    pub(super) fn new(id: MemoryId, head: Snapshot, info: Info, limits: Limits) -> Self {
        let at = head.start;
        Self { id, head, info, at, limits }
    }

    /// Returns the read of everything but the records.
    pub(super) fn first(slots: Vec<(String, SlotVersion)>) -> Read {
        Read::newest(0).slots(slots.into_iter().map(|(name, _)| name))
    }

    /// Returns the positions of the records to read next, and their number, if any are left.
    pub(super) fn next(&self) -> Option<(Range<u64>, usize)> {
        let past = self.at.saturating_add(PAGE).min(self.head.end);
        (self.at < past).then(|| (self.at..past, places(past - self.at)))
    }

    /// Returns the appends of the records that were read at these positions.
    pub(super) fn page(&mut self, wanted: &Range<u64>, page: &Snapshot) -> Result<Vec<Append>> {
        if page.incarnation != self.head.incarnation {
            return Err(self.stopped("it was deleted and began anew"));
        }
        if let Some(row) = page.unreadable.first() {
            let text = format!("the record at {} can't be read", row.seq);
            return Err(self.stopped(&text).with_source(row.error.to_string()));
        }
        let mut appends: Vec<Append> = Vec::new();
        let mut bytes = 0;
        for record in page.records.iter() {
            let message = record.message().clone();
            let more = match self.limits.batch {
                usize::MAX => 0,
                _ => Codec::Json.encode(&message)?.len(),
            };
            let fits = appends.last().is_some() && bytes + more <= self.limits.batch;
            if !fits {
                appends.push(Append::default().expecting(record.seq()));
                bytes = 0;
            }
            bytes += more;
            if let Some(append) = appends.last_mut() {
                append.messages.push(message);
                append.times.push(record.appended_at());
            }
            if record.seq() >= self.info.end {
                // It came after the look at the conversation.
                self.info.active = self.info.active.max(record.appended_at());
            }
        }
        if page.records.len() != places(wanted.end - wanted.start) {
            return Err(self.stopped("records of it were evicted meanwhile"));
        }
        self.at = wanted.end;
        Ok(appends)
    }

    /// Returns the last append: the system message, the slots, and the time when it was last
    /// active.
    pub(super) fn closing(&self) -> Append {
        let mut closing = Append::closing(self.head.end, self.info.active);
        closing.messages.extend(self.head.system.as_deref().cloned());
        for slot in self.head.slots() {
            closing = closing.set_slot(slot.name(), slot.content(), Expected::Absent);
        }
        closing
    }

    fn stopped(&self, why: &str) -> Error {
        let text = format!("the conversation {:?} can't be copied: {why}", self.id);
        Error::new(ErrorKind::Storage, "copy_to", text)
    }
}
