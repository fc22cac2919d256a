//! A request that comes twice: its turn is found by its id before a model is asked.

use super::{Done, Ended, Turn};
use crate::error::{Error, Result};
use crate::memory::{Appended, MOST_NAME, Read, check_name};
use crate::record::{Snapshot, places};
use crate::wire::Usage;

impl Turn {
    /// Returns the ids under which a turn of this id may have been stored: the whole, or the whole
    /// behind a checkpoint. They are looked for one by one, while each is known. None where nobody
    /// gave the turn an id, or where it has begun.
    pub(super) fn ids_to_look_for(&self) -> Result<Vec<String>> {
        if !self.may_be_repeated || self.is_over() || self.document.seen.is_some() {
            return Ok(Vec::new());
        }
        self.check_id()?;
        if !self.limits.recognises_ids() {
            return Ok(Vec::new());
        }
        Ok(vec![self.append_id(), self.append_id_behind_checkpoint()])
    }

    /// Refuses an id under which the turn could not be stored, before it has begun.
    pub(super) fn check_id(&self) -> Result<()> {
        let (id, longest) = (&self.document.id, self.append_id_behind_checkpoint());
        let is_good = !id.is_empty() && check_name("turn", "", &longest).is_ok();
        if self.document.seen.is_some() || is_good {
            return Ok(());
        }
        let most = MOST_NAME.saturating_sub(longest.len().saturating_sub(id.len()));
        let text = format!("the id of a turn has 1 to {most} bytes and no control characters");
        Err(Error::invalid("turn", text))
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
}

/// Returns the read of what is stored there; `None` for a checkpoint, which has no messages.
pub(super) fn read_of(stored: &Appended) -> Option<Read> {
    let positions = &stored.positions;
    let read = || Read::newest(places(positions.end - positions.start)).before(positions.end);
    (!positions.is_empty()).then(read)
}
