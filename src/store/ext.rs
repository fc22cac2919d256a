//! The additional methods of every store.

use super::walk::at_once;
use super::{ChatMemoryStore, Copied};
use crate::error::Result;
use crate::memory::MemoryId;

/// Convenience methods for users of a [`ChatMemoryStore`]. Implemented for every store; do not
/// implement it yourself.
pub trait ChatMemoryStoreExt: ChatMemoryStore {
    /// Copies the conversations whose ids pass the filter to another store: records with their
    /// positions and times, the system message, slots, the incarnation, and the time of the last
    /// activity.
    ///
    /// `progress` is called before each conversation is begun in the other store, after each batch,
    /// and after each conversation. Append ids are not copied, and slots get new versions. What is
    /// appended to a conversation while it is copied may be missed, so copy when nothing writes.
    ///
    /// Turns must have ended or be [parked](crate::turn::Ended::Parked) before. If it is in doubt
    /// whether the last append of a turn was made, its owner repeats it: the other store does not
    /// know its id, and would store the turn a second time.
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
    /// that conversation was there before the copy. If the process dies instead, the other store
    /// may have half of the conversation that `progress` named last: do the same with that one.
    fn copy_to(
        &self,
        other: &(impl ChatMemoryStore + ?Sized),
        filter: impl FnMut(&MemoryId) -> bool,
        progress: impl FnMut(&Copied),
    ) -> Result<Copied> {
        at_once::copy_to(self, other, filter, progress)
    }
}

impl<S: ChatMemoryStore + ?Sized> ChatMemoryStoreExt for S {}
