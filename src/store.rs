//! Many conversations by id: the [`ChatMemoryStore`] contract, and the places to keep them.
//!
//! | store | feature | for | what survives once an append has returned |
//! |---|---|---|---|
//! | [`InMemoryStore`] | always there | tests, and one process | nothing outlives the process |
//! | `SqliteStore` | `sqlite` | the embedded default: one file, readable with any SQLite tool | a power cut; a crash of the process alone, and ten to fifty times faster, with `Durability::Process` |
//! | `RedisStore` | `redis` | several machines that share conversations; TTL; a Redis Cluster | what the server's settings say: a crash of the server with `appendonly yes` and `appendfsync always`, all but the last second or two with `everysec`; the loss of a machine if its replica had it, which `replicas` waits for |
//! | `PostgresStore` | `postgres` | where the application's data already lives | what a commit survives: a crash of the server's machine, and its loss where there is a synchronous standby |
//! | `CassandraStore` | `cassandra` | conversations beyond one machine | the loss of any minority of replicas; a power cut of all of them with `commitlog_sync: batch` or `group` |
//!
//! A store hands out memories; a prompt takes any of them, and another one at run time:
//!
//! ```
//! use memory_prompt::{InMemoryStore, MemoryPrompt, Message};
//!
//! let store = InMemoryStore::new();
//! let mut prompt = MemoryPrompt::new(store.memory("support:u1001:c2002")?);
//! prompt.add(Message::user("hi"))?;
//! prompt.set_memory(store.memory("support:u1002:c2003")?);
//! assert!(prompt.build()?.is_empty());
//! # Ok::<(), memory_prompt::Error>(())
//! ```

#[cfg(feature = "async")]
mod asynchronous;
#[cfg(feature = "cassandra")]
pub mod cassandra;
#[cfg(any(feature = "cassandra", feature = "postgres", feature = "redis", feature = "sqlite"))]
mod common;
mod in_memory;
#[cfg(feature = "postgres")]
pub mod postgres;
#[cfg(feature = "redis")]
pub mod redis;
#[cfg(feature = "sqlite")]
pub mod sqlite;

use std::fmt::Debug;
use std::sync::Arc;
use std::time::SystemTime;

#[cfg(feature = "redis")]
pub use self::redis::{RedisMemory, RedisOptions, RedisStore};
#[cfg(feature = "async")]
pub use asynchronous::AsyncChatMemoryStore;
#[cfg(feature = "cassandra")]
pub use cassandra::{CassandraMemory, CassandraOptions, CassandraStore};
pub use in_memory::{InMemory, InMemoryStore};
#[cfg(feature = "postgres")]
pub use postgres::{PostgresMemory, PostgresOptions, PostgresStore};
#[cfg(feature = "sqlite")]
pub use sqlite::{Durability, SqliteMemory, SqliteOptions, SqliteStore};

use crate::error::Result;
use crate::memory::{ChatMemory, MemoryId};

/// Many conversations, each under its id.
///
/// # Contract
///
/// For those who implement it. Each sentence is a test, and the feature `conformance` runs all of them
/// on your store by one macro.
///
/// - **A memory** is handed out for any id, at no cost: nothing is written before the first append, so
///   asking for a memory creates no conversation. Two memories for one id are one conversation.
/// - **Ids** are opaque: ids that differ in one byte are different conversations, whatever the bytes.
///   An id that the backend can't hold is refused when the memory is asked for.
/// - **A conversation exists** from its first append on, even if that was a system message alone, and
///   until it is deleted or purged. One that was cleared or evicted still exists: its positions go on.
/// - **Ids are listed** in an order of the backend's own that does not change. An id that exists all
///   the while is listed once, whatever else comes and goes.
/// - **Delete** forgets a conversation and its positions. Memories that were handed out for it stay
///   usable: the next append begins a new conversation at 0.
/// - **Purge** deletes the conversations to which nothing was appended since a time, and no other:
///   not one that is appended to meanwhile.
///
/// Every store here has a method [`memory`](InMemoryStore::memory) of its own that takes any text as
/// an id and returns its own kind of memory; the one here is for stores behind `dyn`.
pub trait ChatMemoryStore: Debug + Send + Sync {
    /// The memory of the conversation under this id.
    ///
    /// # Errors
    ///
    /// [`ErrorKind::Invalid`](crate::ErrorKind::Invalid) where the store can't hold such an id.
    fn memory(&self, id: MemoryId) -> Result<Arc<dyn ChatMemory>>;

    /// The next `n` ids after this one, or the first `n`.
    ///
    /// `after` need not exist (any more). Fewer than `n` are returned only at the end, and `n = 0`
    /// returns none.
    ///
    /// # Errors
    ///
    /// [`ErrorKind::Storage`](crate::ErrorKind::Storage) where the store failed.
    fn ids(&self, after: Option<&MemoryId>, n: usize) -> Result<Vec<MemoryId>>;

    /// Forgets the conversation under this id; returns whether there was one.
    ///
    /// # Errors
    ///
    /// [`ErrorKind::Storage`](crate::ErrorKind::Storage) where the store failed.
    fn delete(&self, id: &MemoryId) -> Result<bool>;

    /// Deletes each conversation whose last append is older than this time; returns how many.
    ///
    /// The times of append are those of the clocks of whoever appended. An append of a system message
    /// counts; reading, evicting and clearing do not.
    ///
    /// # Errors
    ///
    /// [`ErrorKind::Storage`](crate::ErrorKind::Storage) where the store failed. Some conversations may
    /// then be deleted and others not yet, but none by half.
    fn purge_inactive(&self, older_than: SystemTime) -> Result<u64>;
}

macro_rules! forward {
    ($($pointer:ty),*) => {$(
        // A method that is added to the trait and forgotten here would lose the inner store's own
        // version of it.
        #[deny(clippy::missing_trait_methods)]
        impl<S: ChatMemoryStore + ?Sized> ChatMemoryStore for $pointer {
            fn memory(&self, id: MemoryId) -> Result<Arc<dyn ChatMemory>> {
                (**self).memory(id)
            }
            fn ids(&self, after: Option<&MemoryId>, n: usize) -> Result<Vec<MemoryId>> {
                (**self).ids(after, n)
            }
            fn delete(&self, id: &MemoryId) -> Result<bool> {
                (**self).delete(id)
            }
            fn purge_inactive(&self, older_than: SystemTime) -> Result<u64> {
                (**self).purge_inactive(older_than)
            }
        }
    )*};
}

forward!(&S, Box<S>, Arc<S>);
