//! The additional methods of every store.

use super::copy::{Copied, Transfer};
use super::{ChatMemoryStore, PAGE};
use crate::error::Result;
use crate::memory::{ChatMemory, MemoryId};

/// Convenience methods for users of a [`ChatMemoryStore`]. Implemented for every store; do not
/// implement it yourself.
pub trait ChatMemoryStoreExt: ChatMemoryStore {
    /// Copies the conversations whose ids pass the filter to another store: records with their
    /// positions and times, the system message, slots, the incarnation, and the time of the last
    /// activity.
    ///
    /// `progress` is called after each batch and each conversation. Append ids are not copied, and
    /// slots get new versions. What is appended to a conversation while it is copied may be missed,
    /// so copy when nothing writes.
    ///
    /// ```
    /// use memory_prompt::store::ChatMemoryStoreExt;
    /// use memory_prompt::{ChatMemoryExt, InMemoryStore, Message};
    ///
    /// let (old, new) = (InMemoryStore::new(), InMemoryStore::new());
    /// old.memory("support:u1001:c2002")?.add(Message::user("hi"))?;
    /// old.memory("sales:u1001:c2003")?.add(Message::user("hi"))?;
    ///
    /// let copied = old.copy_to(&new, |id| id.as_str().starts_with("support:"), |_| ())?;
    /// assert_eq!((copied.conversations, copied.records), (1, 1));
    /// assert_eq!(new.memory("support:u1001:c2002")?.all()?.len(), 1);
    /// # Ok::<(), memory_prompt::Error>(())
    /// ```
    ///
    /// # Errors
    ///
    /// Errors of both stores; [`ErrorKind::Exists`](crate::ErrorKind::Exists) if the other store
    /// has a conversation with this id; [`ErrorKind::Unsupported`](crate::ErrorKind::Unsupported)
    /// if one of them lacks what a copy needs; and
    /// [`ErrorKind::Storage`](crate::ErrorKind::Storage) if a record can't be read or was evicted
    /// meanwhile. The error names the conversation at which the copy stopped, and the other store
    /// then has half of it: delete it there, and let the filter continue from it. With `Exists`,
    /// that conversation was there before the copy.
    fn copy_to(
        &self,
        other: &(impl ChatMemoryStore + ?Sized),
        mut filter: impl FnMut(&MemoryId) -> bool,
        mut progress: impl FnMut(&Copied),
    ) -> Result<Copied> {
        let (mut copied, mut after) = (Copied::default(), None);
        loop {
            let ids = self.ids(after.as_ref(), PAGE)?;
            for id in ids.iter().filter(|id| filter(id)) {
                copy(self, other, id, &mut copied, &mut progress)?;
            }
            if ids.len() < PAGE {
                return Ok(copied);
            }
            after = ids.into_iter().last();
        }
    }
}

impl<S: ChatMemoryStore + ?Sized> ChatMemoryStoreExt for S {}

fn copy(
    from: &(impl ChatMemoryStore + ?Sized),
    to: &(impl ChatMemoryStore + ?Sized),
    id: &MemoryId,
    copied: &mut Copied,
    progress: &mut impl FnMut(&Copied),
) -> Result<()> {
    let (source, target) = (from.memory(id.clone())?, to.memory(id.clone())?);
    let slots = if source.limits().has_slots() { source.slots()? } else { Vec::new() };
    let head = source.read_with(&Transfer::first(slots))?;
    // `None` if it was deleted after it was listed.
    let Some(info) = from.info(id)? else { return Ok(()) };
    copied.id = Some(id.clone());
    let mut transfer = Transfer::new(id.clone(), head, info, target.limits());
    transfer.check()?;
    to.restore(id, transfer.head.start, transfer.head.incarnation)?;
    while let Some((wanted, n)) = transfer.next() {
        let page = source.read(Some(wanted.end), n)?;
        for mut append in transfer.page(&wanted, &page)? {
            let positions = target.append_with(&mut append)?.positions;
            copied.records += positions.end - positions.start;
            progress(copied);
        }
    }
    for mut append in transfer.closing()? {
        target.append_with(&mut append)?;
    }
    copied.conversations += 1;
    progress(copied);
    Ok(())
}
