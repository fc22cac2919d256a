//! The reads of one build: the newest records, and what else a composer needs.

use super::MemoryPrompt;
use crate::compose::{Composition, Temporaries};
use crate::error::Result;
use crate::memory::Read;
use crate::prompt::Prompt;
use crate::record::Snapshot;

impl<M: ?Sized> MemoryPrompt<M> {
    /// Returns the first read of a build. It already includes the single records that the previous
    /// build needed.
    pub(super) fn first_read(&self, has_slots: bool) -> Read {
        let mut read = Read::newest(self.composer.first_read()).references();
        if has_slots {
            read.slots.extend(self.composer.slots().map(String::from));
            read.positions.clone_from(&self.cache.lock().positions);
        }
        read
    }

    /// Composes a prompt from what was read. Returns it with the snapshot, if recall or references
    /// need that; `None` if another read is needed, which `read` then is.
    pub(super) fn composed(
        &self,
        read: &mut Read,
        mut snapshot: Snapshot,
    ) -> Result<Option<(Prompt, Option<Snapshot>)>> {
        if self.reads_again(read, &snapshot)? {
            return Ok(None);
        }
        // A memory that returns fewer records than requested has no more, even if it does not list
        // what it lost.
        if snapshot.rows() < read.n {
            snapshot.start = snapshot.oldest_row();
        }
        let is_needed = self.recall.is_some() || snapshot.has_references();
        let seen = is_needed.then(|| snapshot.clone());
        let temporaries = Temporaries::last(&self.temporaries).with_free(self.kept_free(), 0);
        match self.compose_with(&mut snapshot, temporaries)? {
            Composition::Ready(prompt) => Ok(Some((prompt, seen))),
            Composition::ReadMore(more) => {
                read.n = more;
                Ok(None)
            }
        }
    }

    /// Returns whether this snapshot lacks single records that the composer needs; `read` then asks
    /// for them.
    fn reads_again(&self, read: &mut Read, snapshot: &Snapshot) -> Result<bool> {
        if read.slots.is_empty() {
            return Ok(false);
        }
        let wanted = self.composer.positions(snapshot)?;
        let is_read = |position| read.positions.binary_search(position).is_ok();
        let lacks_some = !wanted.iter().all(is_read);
        if lacks_some || wanted.len() < read.positions.len() {
            self.cache.lock().positions.clone_from(&wanted);
        }
        if lacks_some {
            read.positions = wanted;
        }
        Ok(lacks_some)
    }
}
