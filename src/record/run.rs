//! Blocks of write-once slots, and records side by side in one.

use std::sync::{Arc, OnceLock};

use super::Record;
use crate::message::Message;

/// A message with its time of append in milliseconds since 1970.
#[derive(Debug)]
pub(crate) struct Entry {
    pub(crate) at: u64,
    pub(crate) message: Message,
}

/// Where an entry is written once.
pub(crate) type Slot = OnceLock<Entry>;

/// Slots, filled from the front.
pub(crate) type Block = Arc<[Slot]>;

/// Records that stand side by side in one block.
#[derive(Clone, Debug)]
pub(crate) struct Run {
    pub(crate) block: Block,
    /// The position of the first.
    pub(crate) seq: u64,
    /// The slot of the first.
    pub(crate) from: usize,
    pub(crate) len: usize,
}

impl Run {
    #[inline]
    pub(super) fn slots(&self) -> &[Slot] {
        self.block.get(self.from..self.from + self.len).unwrap_or_default()
    }

    /// The `i`th record. A run covers filled slots only, so it is there for every `i` below `len`.
    #[inline]
    pub(super) fn record(&self, i: usize) -> Option<Record<'_>> {
        let entry = self.slots().get(i)?.get()?;
        Some(Record { seq: self.seq + i as u64, entry, run: self })
    }

    /// The newest `n` of it.
    pub(crate) fn newest(&self, n: usize) -> Self {
        let skip = self.len.saturating_sub(n);
        let block = Arc::clone(&self.block);
        Self { block, seq: self.seq + skip as u64, from: self.from + skip, len: self.len - skip }
    }

    pub(crate) fn iter(&self) -> impl DoubleEndedIterator<Item = Record<'_>> + Clone {
        (0..self.len).filter_map(|i| self.record(i))
    }

    /// Parts the run in two before its `i`th record.
    pub(crate) fn split(self, i: usize) -> (Self, Self) {
        let i = i.min(self.len);
        let rest = Self {
            block: Arc::clone(&self.block),
            seq: self.seq + i as u64,
            from: self.from + i,
            len: self.len - i,
        };
        (Self { len: i, ..self }, rest)
    }
}
