//! A request that comes twice: its turn is found by its id before a model is asked.

use super::{Done, Ended, Turn};
use crate::memory::{Append, Appended, Read};
use crate::record::{Snapshot, places};
use crate::wire::Usage;

impl Turn {
    /// Returns the ids under which a turn of this id may have been stored: the whole, or the whole
    /// behind a note. They are looked for one by one, while each is known. None where nobody gave
    /// the turn an id, or where it has begun.
    pub(super) fn ids_to_look_for(&self) -> Vec<String> {
        if !self.may_be_repeated || self.limits.ids == 0 || self.is_over() || self.seen().is_some()
        {
            return Vec::new();
        }
        let id = self.append_id();
        let behind_note = self.append_id_behind_note();
        vec![id, behind_note]
    }

    /// Takes what is stored under its id. Where that has an answer, and all of it is still there,
    /// the turn is done.
    pub(super) fn found_stored(&mut self, stored: &Appended, snapshot: &Snapshot) {
        let positions = stored.positions.clone();
        let records = snapshot.records.iter().filter(|it| positions.contains(&it.seq()));
        let messages: Vec<_> = records.map(|it| it.message().clone()).collect();
        let is_whole = messages.len() == places(positions.end - positions.start);
        let (recognised, usage) = (stored.recognised, Usage::default());
        let ended = Ended::Adopted;
        let done = Done { positions, messages, ended, recognised, usage, stop: None };
        self.done = Some(done).filter(|done| is_whole && done.answer().is_some());
    }

    /// Notes that nothing is left to be looked for.
    pub(super) fn is_looked_for(&mut self) {
        self.may_be_repeated = false;
    }
}

/// Returns the append that changes nothing: its outcome says what is stored under this id.
pub(super) fn look_for(id: String) -> Append {
    Append::default().with_id(id)
}

/// Returns the read of what is stored there; `None` for a note, which has no messages.
pub(super) fn read_of(stored: &Appended) -> Option<Read> {
    let positions = &stored.positions;
    let read = || Read::newest(places(positions.end - positions.start)).before(positions.end);
    (!positions.is_empty()).then(read)
}
