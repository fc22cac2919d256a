//! The async twin of [`ChatMemoryStore`](super::ChatMemoryStore).

use std::fmt::Debug;
use std::sync::Arc;
use std::time::SystemTime;

use crate::error::Result;
use crate::memory::{AsyncChatMemory, BoxFuture, MemoryId};

/// Many conversations, each under its id, for async code.
///
/// The contract is that of [`ChatMemoryStore`](super::ChatMemoryStore), and that of
/// [`AsyncChatMemory`] about futures that are dropped.
pub trait AsyncChatMemoryStore: Debug + Send + Sync {
    /// The memory of the conversation under this id. There is nothing to wait for: it asks nobody.
    ///
    /// # Errors
    ///
    /// As [`ChatMemoryStore::memory`](super::ChatMemoryStore::memory).
    fn memory(&self, id: MemoryId) -> Result<Arc<dyn AsyncChatMemory>>;

    /// The next `n` ids after this one, or the first `n`.
    ///
    /// # Errors
    ///
    /// As [`ChatMemoryStore::ids`](super::ChatMemoryStore::ids).
    fn ids<'a>(
        &'a self,
        after: Option<&'a MemoryId>,
        n: usize,
    ) -> BoxFuture<'a, Result<Vec<MemoryId>>>;

    /// Forgets the conversation under this id; returns whether there was one.
    ///
    /// # Errors
    ///
    /// As [`ChatMemoryStore::delete`](super::ChatMemoryStore::delete).
    fn delete<'a>(&'a self, id: &'a MemoryId) -> BoxFuture<'a, Result<bool>>;

    /// Deletes each conversation whose last append is older than this time; returns how many.
    ///
    /// # Errors
    ///
    /// As [`ChatMemoryStore::purge_inactive`](super::ChatMemoryStore::purge_inactive).
    fn purge_inactive(&self, older_than: SystemTime) -> BoxFuture<'_, Result<u64>>;
}

macro_rules! forward {
    ($($pointer:ty),*) => {$(
        // As for the blocking twin: no method may be forgotten.
        #[deny(clippy::missing_trait_methods)]
        impl<S: AsyncChatMemoryStore + ?Sized> AsyncChatMemoryStore for $pointer {
            fn memory(&self, id: MemoryId) -> Result<Arc<dyn AsyncChatMemory>> {
                (**self).memory(id)
            }
            fn ids<'a>(
                &'a self,
                after: Option<&'a MemoryId>,
                n: usize,
            ) -> BoxFuture<'a, Result<Vec<MemoryId>>> {
                (**self).ids(after, n)
            }
            fn delete<'a>(&'a self, id: &'a MemoryId) -> BoxFuture<'a, Result<bool>> {
                (**self).delete(id)
            }
            fn purge_inactive(&self, older_than: SystemTime) -> BoxFuture<'_, Result<u64>> {
                (**self).purge_inactive(older_than)
            }
        }
    )*};
}

forward!(&S, Box<S>, Arc<S>);
