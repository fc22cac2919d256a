//! What a backend found for a read, and the media that belong in it.

use std::collections::BTreeSet;

use super::common::Rows;
use super::media::{self, Found};
use crate::memory::Read;
use crate::message::Sha256;
use crate::record::{Incarnation, Referred, Slot, Snapshot};

/// The answer to a read, with references in the places of the media that are kept beside records.
#[derive(Default)]
pub(super) struct Answer {
    /// All but its rows and slots.
    pub(super) snapshot: Snapshot,
    pub(super) newest: Rows,
    pub(super) picked: Rows,
    pub(super) slots: Vec<Slot>,
}

impl Answer {
    fn references(&self) -> impl Iterator<Item = Referred> {
        [&self.newest, &self.picked].into_iter().flat_map(media::references)
    }

    /// Returns the hashes of the media that this read wants in their places.
    pub(super) fn hashes(&self, read: &Read) -> BTreeSet<Sha256> {
        if read.references {
            return BTreeSet::new();
        }
        self.references().map(|it| it.sha256).collect()
    }

    /// Returns the snapshot with these media in their places, or with the list of references.
    pub(super) fn into_snapshot(mut self, read: &Read, found: &Found) -> Snapshot {
        let mut snapshot = std::mem::take(&mut self.snapshot);
        if read.references {
            snapshot = snapshot.with_references(self.references().collect());
        } else {
            media::fill(&mut self.newest, found);
            media::fill(&mut self.picked, found);
        }
        (snapshot.records, snapshot.unreadable) = self.newest.into();
        if read.is_plain() {
            return snapshot;
        }
        let (picked, unreadable) = self.picked.into();
        snapshot.with_picked(picked, unreadable).with_slots(self.slots)
    }
}

/// The media of a read, where their bytes are asked for after the records that refer to them.
pub(super) struct Search<'a> {
    read: &'a Read,
    found: Found,
    /// What was not found behind the answer before.
    lacked: Vec<(Option<Incarnation>, Referred)>,
}

impl<'a> Search<'a> {
    pub(super) fn of(read: &'a Read) -> Self {
        Self { read, found: Found::new(), lacked: Vec::new() }
    }

    /// Returns the hashes of the media that are still to be found for this answer.
    pub(super) fn wanted(&self, answer: &Answer) -> BTreeSet<Sha256> {
        let mut hashes = answer.hashes(self.read);
        hashes.retain(|hash| !self.found.contains_key(hash));
        hashes
    }

    /// Returns the snapshot with what was found, or nothing where the rows are to be read again.
    ///
    /// What lacks was evicted since they were read, with its record. If that is there still the
    /// next time, the bytes never were.
    pub(super) fn end(&mut self, answer: Answer, found: Found) -> Option<Snapshot> {
        self.found.extend(found);
        let wanted = self.wanted(&answer);
        let lack = answer.references().filter(|it| wanted.contains(&it.sha256));
        let lack: Vec<_> = lack.map(|it| (answer.snapshot.incarnation, it)).collect();
        if lack.iter().all(|it| self.lacked.contains(it)) {
            return Some(answer.into_snapshot(self.read, &self.found));
        }
        self.lacked = lack;
        None
    }
}
