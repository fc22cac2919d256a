//! The reads of one build: the newest records, and what a composer wants besides.

use super::MemoryPrompt;
use crate::compose::{Composition, Temporaries};
use crate::composed::Prompt;
use crate::error::Result;
use crate::memory::{Limits, Read};
use crate::record::Snapshot;

impl<M: ?Sized> MemoryPrompt<M> {
    /// Returns the read with which a build begins. A prompt that has been built before asks at once
    /// for the single records that the one before was in need of.
    pub(super) fn first_read(&self, limits: impl FnOnce() -> Limits) -> Read {
        let read = Read::newest(self.composer.first_read());
        if !self.composer.reads_slots() || !limits().has_slots() {
            return read;
        }
        let positions = self.cache.lock().positions.clone();
        read.slots(self.composer.slots()).positions(positions)
    }

    /// Returns the prompt of what was read, with the snapshot where something is recalled for it;
    /// or lets the read ask for what is missing.
    #[inline]
    pub(super) fn composed(
        &self,
        read: &mut Read,
        snapshot: Snapshot,
    ) -> Result<Option<(Prompt, Option<Snapshot>)>> {
        if self.reads_again(read, &snapshot)? {
            return Ok(None);
        }
        let seen = self.for_recall(&snapshot, read.n);
        let temporaries = Temporaries::last(&self.temporaries).with_free(self.kept_free(), 0);
        match self.compose_with(whole(snapshot, read.n), temporaries)? {
            Composition::Ready(prompt) => Ok(Some((prompt, seen))),
            Composition::ReadMore(more) => {
                read.n = more;
                Ok(None)
            }
        }
    }

    /// Returns whether this snapshot lacks single records that the composer wants; the read then
    /// asks for them.
    fn reads_again(&self, read: &mut Read, snapshot: &Snapshot) -> Result<bool> {
        if read.slots.is_empty() {
            return Ok(false);
        }
        let wanted = self.composer.positions(snapshot)?;
        if wanted.iter().all(|position| read.positions.binary_search(position).is_ok()) {
            if wanted.len() < read.positions.len() {
                self.cache.lock().positions.clone_from(&wanted);
            }
            return Ok(false);
        }
        self.cache.lock().positions.clone_from(&wanted);
        read.positions = wanted;
        Ok(true)
    }
}

/// Returns what a memory answered that was asked for `n` records: one that returns fewer has no
/// more, even where it does not list what it lost.
pub(super) fn whole(mut snapshot: Snapshot, n: usize) -> Snapshot {
    if snapshot.rows() < n {
        snapshot.start = snapshot.oldest_row();
    }
    snapshot
}
