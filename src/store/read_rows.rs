//! What a backend found for a read, and the media that belong in it.

use std::collections::BTreeSet;

use super::common::Rows;
use super::media::{Found, filled};
use crate::memory::Read;
use crate::message::Sha256;
use crate::record::{Incarnation, Slot, Snapshot};

/// The answer to a read, with references in the places of the media that are kept beside records.
#[derive(Default)]
pub(super) struct ReadRows {
    /// All but its rows and slots.
    pub(super) snapshot: Snapshot,
    pub(super) newest: Rows,
    pub(super) picked: Rows,
    pub(super) slots: Vec<Slot>,
}

impl ReadRows {
    /// Returns the hash of each reference, with the position of its record.
    fn references(&self) -> impl Iterator<Item = (u64, Sha256)> {
        let rows = self.newest.readable().chain(self.picked.readable());
        rows.flat_map(|(at, message)| message.references().map(move |it| (at, it.sha256)))
    }

    /// Returns the hashes of the media that this read wants in their places and that were not
    /// found.
    pub(super) fn lacking(&self, read: &Read, found: &Found) -> BTreeSet<Sha256> {
        let hashes = self.references().map(|(_, hash)| hash);
        hashes.filter(|hash| !read.references && !found.contains_key(hash)).collect()
    }

    /// Returns the snapshot with these media in their places, unless references are wanted there.
    pub(super) fn into_snapshot(mut self, read: &Read, found: &Found) -> Snapshot {
        let has_references = read.references && self.references().next().is_some();
        if !read.references {
            self.newest.change(|message| filled(message, found));
            self.picked.change(|message| filled(message, found));
        }
        let mut snapshot = self.snapshot.with_references(has_references);
        (snapshot.records, snapshot.unreadable) = self.newest.into();
        if read.is_plain() {
            return snapshot;
        }
        let (picked, unreadable) = self.picked.into();
        snapshot.with_picked(picked, unreadable).with_slots(self.slots)
    }
}

/// The media of a read, where their bytes are asked for after the records that refer to them.
pub(super) struct MediaSearch<'a> {
    read: &'a Read,
    found: Found,
    /// What was not found behind the answer before.
    lacked: Vec<(Option<Incarnation>, u64, Sha256)>,
}

impl<'a> MediaSearch<'a> {
    pub(super) fn of(read: &'a Read) -> Self {
        Self { read, found: Found::new(), lacked: Vec::new() }
    }

    /// Returns the hashes of the media that are still to be found for this answer.
    pub(super) fn wanted(&self, answer: &ReadRows) -> BTreeSet<Sha256> {
        answer.lacking(self.read, &self.found)
    }

    /// Returns the snapshot with what was found, or nothing where the rows are to be read again.
    ///
    /// What lacks was evicted since they were read, with its record. If that is there still the
    /// next time, the bytes never were.
    pub(super) fn end(&mut self, answer: ReadRows, found: Found) -> Option<Snapshot> {
        self.found.extend(found);
        let wanted = self.wanted(&answer);
        let lack = answer.references().filter(|(_, hash)| wanted.contains(hash));
        let lack: Vec<_> = lack.map(|(at, hash)| (answer.snapshot.incarnation, at, hash)).collect();
        if lack.iter().all(|it| self.lacked.contains(it)) {
            return Some(answer.into_snapshot(self.read, &self.found));
        }
        self.lacked = lack;
        None
    }
}
