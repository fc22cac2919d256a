//! Write-once cells, and contiguous records in them.

use std::fmt;
use std::sync::{Arc, OnceLock};

use super::Record;
use crate::message::Message;

/// A message with its time of append in milliseconds since 1970, written once.
pub(crate) struct Cell {
    pub(crate) at: u64,
    pub(crate) message: Message,
}

impl Cell {
    pub(crate) fn bytes(&self) -> usize {
        cell_bytes(&self.message)
    }
}

/// Returns about the bytes that this message takes in a cell.
pub(super) fn cell_bytes(message: &Message) -> usize {
    size_of::<OnceLock<Cell>>().saturating_add(message.heap_bytes())
}

/// Cells in one allocation, filled from the front. A holder of one of their messages keeps all of
/// them in memory, so they take at most [`MAX_BYTES`]; a larger message has an allocation of one
/// cell.
pub(crate) type Cells = Arc<[OnceLock<Cell>]>;

/// The most bytes of cells in one allocation: 64 messages of 450 characters. A view that is kept
/// holds at most this much of evicted records at either end.
pub(crate) const MAX_BYTES: usize = 32 * 1024;

/// Contiguous records in the cells of one allocation.
#[derive(Clone)]
pub(crate) struct Run {
    pub(crate) cells: Cells,
    /// The position of the first record.
    pub(crate) position: u64,
    /// The cell of the first record.
    pub(crate) from: usize,
    pub(crate) len: usize,
    /// The place after its last record among the [records](super::Records) that it was pushed to.
    pub(super) end: usize,
}

impl Run {
    pub(crate) fn new(cells: Cells, position: u64, from: usize, len: usize) -> Self {
        Self { cells, position, from, len, end: 0 }
    }

    #[inline]
    pub(super) fn filled(&self) -> &[OnceLock<Cell>] {
        self.cells.get(self.from..self.from + self.len).unwrap_or_default()
    }

    /// Returns the `i`th record. A run covers only filled cells, so there is one for every `i`
    /// below `len`.
    #[inline]
    pub(super) fn record(&self, i: usize) -> Option<Record<'_>> {
        let cell = self.filled().get(i)?.get()?;
        Some(Record { position: self.position + i as u64, cell, run: self })
    }

    /// Returns `len` of its records, from the `skip`th on.
    #[inline]
    pub(crate) fn part(&self, skip: usize, len: usize) -> Self {
        let cells = Arc::clone(&self.cells);
        Self::new(cells, self.position + skip as u64, self.from + skip, len)
    }

    pub(crate) fn iter(&self) -> impl DoubleEndedIterator<Item = Record<'_>> + Clone {
        (0..self.len).filter_map(|i| self.record(i))
    }

    /// Splits the run in two before its `i`th record.
    pub(crate) fn split(self, i: usize) -> (Self, Self) {
        let i = i.min(self.len);
        let rest = self.part(i, self.len - i);
        (Self { len: i, ..self }, rest)
    }
}

impl fmt::Debug for Run {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{:?}", self.position..self.position + self.len as u64)
    }
}
