//! The async twin of [`ChatMemoryStore`](super::ChatMemoryStore).

use std::fmt::Debug;
use std::sync::Arc;
use std::time::SystemTime;

use super::walk::awaited;
use super::{Copied, Info, unsupported};
use crate::error::Result;
use crate::memory::{AsyncChatMemory, BoxFuture, MemoryId, forward};
use crate::record::{Incarnation, Slot};

/// Many conversations, each under its id, for async code.
///
/// The contract is that of [`ChatMemoryStore`](super::ChatMemoryStore), and that of
/// [`AsyncChatMemory`] about dropped futures.
pub trait AsyncChatMemoryStore: Debug + Send + Sync {
    /// Returns the memory of the conversation under this id. This is not async, since it asks no
    /// server.
    ///
    /// # Errors
    ///
    /// Same as [`ChatMemoryStore::memory`](super::ChatMemoryStore::memory).
    fn memory(&self, id: MemoryId) -> Result<Arc<dyn AsyncChatMemory>>;

    /// Returns the next `n` ids after this one, or the first `n`.
    ///
    /// # Errors
    ///
    /// Same as [`ChatMemoryStore::ids`](super::ChatMemoryStore::ids).
    fn ids<'a>(
        &'a self,
        after: Option<&'a MemoryId>,
        n: usize,
    ) -> BoxFuture<'a, Result<Vec<MemoryId>>>;

    /// Deletes the conversation under this id; returns whether there was one.
    ///
    /// # Errors
    ///
    /// Same as [`ChatMemoryStore::delete`](super::ChatMemoryStore::delete).
    fn delete<'a>(&'a self, id: &'a MemoryId) -> BoxFuture<'a, Result<bool>>;

    /// Deletes each conversation whose last append is older than this time; returns how many.
    ///
    /// # Errors
    ///
    /// Same as [`ChatMemoryStore::purge_inactive`](super::ChatMemoryStore::purge_inactive).
    fn purge_inactive(&self, older_than: SystemTime) -> BoxFuture<'_, Result<u64>>;

    /// Returns the next `n` ids that begin with this text, after this one, or the first `n` of
    /// them.
    ///
    /// # Errors
    ///
    /// Same as [`ChatMemoryStore::ids_with_prefix`](super::ChatMemoryStore::ids_with_prefix).
    fn ids_with_prefix<'a>(
        &'a self,
        prefix: &'a str,
        after: Option<&'a MemoryId>,
        n: usize,
    ) -> BoxFuture<'a, Result<Vec<MemoryId>>> {
        Box::pin(awaited::ids_with_prefix(self, prefix, after, n))
    }

    /// Returns where the conversation under this id begins and ends and when it was last active;
    /// `None` if there is no conversation.
    ///
    /// # Errors
    ///
    /// Same as [`ChatMemoryStore::info`](super::ChatMemoryStore::info).
    fn info<'a>(&'a self, id: &'a MemoryId) -> BoxFuture<'a, Result<Option<Info>>> {
        let _ = id;
        Box::pin(async { Err(unsupported("info")) })
    }

    /// Returns the next `n` slots whose names begin with `names`, of the conversations whose ids
    /// begin with `prefix`: those after the slot of this name of this conversation, or the first
    /// `n`. This reads the slots of many conversations without their records.
    ///
    /// # Errors
    ///
    /// Same as [`ChatMemoryStore::slots_with_prefix`](super::ChatMemoryStore::slots_with_prefix).
    fn slots_with_prefix<'a>(
        &'a self,
        prefix: &'a str,
        names: &'a str,
        after: Option<(&'a MemoryId, &'a str)>,
        n: usize,
    ) -> BoxFuture<'a, Result<Vec<(MemoryId, Slot)>>> {
        Box::pin(awaited::slots_with_prefix(self, prefix, names, after, n))
    }

    /// Deletes the conversations whose ids begin with this text; returns how many there were.
    /// Conversations that begin during the call may stay.
    ///
    /// # Errors
    ///
    /// Same as [`ChatMemoryStore::delete_prefix`](super::ChatMemoryStore::delete_prefix).
    fn delete_prefix<'a>(&'a self, prefix: &'a str) -> BoxFuture<'a, Result<u64>> {
        Box::pin(awaited::delete_prefix(self, prefix))
    }

    /// Begins a conversation under this id whose first record will have the position `start`, in
    /// order to continue one that was kept elsewhere. It gets this incarnation, or a new one.
    ///
    /// # Errors
    ///
    /// Same as [`ChatMemoryStore::restore`](super::ChatMemoryStore::restore).
    fn restore<'a>(
        &'a self,
        id: &'a MemoryId,
        start: u64,
        incarnation: Option<Incarnation>,
    ) -> BoxFuture<'a, Result<()>> {
        let _ = (id, start, incarnation);
        Box::pin(async { Err(unsupported("restore")) })
    }
}

// Not for every `Arc<S>` and `Box<S>`, as for the blocking twin.
forward! {
    AsyncChatMemoryStore for
        [S: AsyncChatMemoryStore + ?Sized] &S,
        ['a] Box<dyn AsyncChatMemoryStore + 'a>,
        ['a] Arc<dyn AsyncChatMemoryStore + 'a>;
    {
        fn memory(&self, id: MemoryId) -> Result<Arc<dyn AsyncChatMemory>>;
        fn ids<'b>(&'b self, after: Option<&'b MemoryId>, n: usize)
            -> BoxFuture<'b, Result<Vec<MemoryId>>>;
        fn delete<'b>(&'b self, id: &'b MemoryId) -> BoxFuture<'b, Result<bool>>;
        fn purge_inactive(&self, older_than: SystemTime) -> BoxFuture<'_, Result<u64>>;
        fn ids_with_prefix<'b>(
            &'b self, prefix: &'b str, after: Option<&'b MemoryId>, n: usize
        ) -> BoxFuture<'b, Result<Vec<MemoryId>>>;
        fn info<'b>(&'b self, id: &'b MemoryId) -> BoxFuture<'b, Result<Option<Info>>>;
        fn slots_with_prefix<'b>(
            &'b self, prefix: &'b str, names: &'b str, after: Option<(&'b MemoryId, &'b str)>,
            n: usize
        ) -> BoxFuture<'b, Result<Vec<(MemoryId, Slot)>>>;
        fn delete_prefix<'b>(&'b self, prefix: &'b str) -> BoxFuture<'b, Result<u64>>;
        fn restore<'b>(
            &'b self, id: &'b MemoryId, start: u64, incarnation: Option<Incarnation>
        ) -> BoxFuture<'b, Result<()>>;
    } {}
}

/// Convenience methods for users of an [`AsyncChatMemoryStore`]: the twin of
/// [`ChatMemoryStoreExt`](super::ChatMemoryStoreExt). Implemented for every async store; do not
/// implement it yourself.
pub trait AsyncChatMemoryStoreExt: AsyncChatMemoryStore {
    /// Copies the conversations whose ids pass the filter to another store.
    ///
    /// See [`ChatMemoryStoreExt::copy_to`](super::ChatMemoryStoreExt::copy_to).
    ///
    /// # Errors
    ///
    /// Same as [`ChatMemoryStoreExt::copy_to`](super::ChatMemoryStoreExt::copy_to).
    fn copy_to(
        &self,
        other: &(impl AsyncChatMemoryStore + ?Sized),
        filter: impl FnMut(&MemoryId) -> bool + Send,
        progress: impl FnMut(&Copied) + Send,
    ) -> impl Future<Output = Result<Copied>> + Send {
        awaited::copy_to(self, other, filter, progress)
    }
}

impl<S: AsyncChatMemoryStore + ?Sized> AsyncChatMemoryStoreExt for S {}
