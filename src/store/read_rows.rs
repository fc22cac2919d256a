//! What a backend found for a read, and the media that belong in it.

use std::collections::BTreeSet;

use super::common::Rows;
use super::media::{Found, fill};
use crate::memory::Read;
use crate::message::Sha256;
use crate::record::{Slot, Snapshot};

/// How often rows are read again because media are lacking.
const TRIES: usize = 8;

/// The answer to a read, with references instead of the media that are kept beside records.
#[derive(Default)]
pub(super) struct ReadRows {
    /// All but its rows and slots.
    pub(super) snapshot: Snapshot,
    pub(super) newest: Rows,
    pub(super) picked: Rows,
    pub(super) slots: Vec<Slot>,
}

impl ReadRows {
    /// Returns the hash of each reference.
    fn references(&self) -> impl Iterator<Item = Sha256> {
        let rows = self.newest.readable().chain(self.picked.readable());
        rows.flat_map(|message| message.references().map(|it| it.sha256))
    }

    /// Returns the hashes of the media that this read wants and that were not found.
    pub(super) fn lacking(&self, read: &Read, found: &Found) -> BTreeSet<Sha256> {
        self.references().filter(|it| !read.references && !found.contains_key(it)).collect()
    }

    /// Returns the snapshot with the media that were found after it, or nothing if the rows must be
    /// read again.
    ///
    /// What is missing was evicted since they were read, with its record; or it never was there,
    /// and after some tries this no longer waits for others to stop evicting.
    pub(super) fn settled(self, read: &Read, found: &Found, tries: &mut usize) -> Option<Snapshot> {
        *tries += 1;
        (*tries > TRIES || self.lacking(read, found).is_empty())
            .then(|| self.into_snapshot(read, found))
    }

    /// Returns the snapshot with these media in their places, unless references are wanted there.
    pub(super) fn into_snapshot(mut self, read: &Read, found: &Found) -> Snapshot {
        if !read.references {
            self.newest.change(|message| fill(message, found));
            self.picked.change(|message| fill(message, found));
        }
        let mut snapshot = self.snapshot;
        (snapshot.records, snapshot.unreadable) = self.newest.into();
        if read.is_plain() {
            return snapshot;
        }
        let (picked, unreadable) = self.picked.into();
        snapshot.with_picked(picked, unreadable).with_slots(self.slots)
    }
}
