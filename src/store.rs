//! Many conversations by id: the [`ChatMemoryStore`] contract, and the backends that keep them.
//!
//! | store | feature | for |
//! |---|---|---|
//! | [`InMemoryStore`] | always available | tests, and one process |
//! | `SqliteStore` | `sqlite` | the embedded default: one file, readable with any SQLite tool |
//! | `RedisStore` | `redis`, with TLS `redis-tls` | several machines that share conversations; TTL; a Redis Cluster |
//! | `PostgresStore` | `postgres`, with TLS `postgres-tls` | applications whose data is already there |
//! | `CassandraStore` | `cassandra` | conversations beyond one machine |
//!
//! Once an append has returned, it survives:
//!
//! - in memory: nothing that ends the process;
//! - SQLite: a power cut; with `Durability::Process` only a crash of the process, but ten to fifty
//!   times faster;
//! - Redis: as much as the server's settings guarantee. With `appendonly yes` and
//!   `appendfsync always` that is a crash of the server, with `everysec` a crash minus the last
//!   second or two. It also survives most losses of a machine if its replica has the append, which
//!   `replicas` waits for;
//! - PostgreSQL: what a commit survives: a crash of the server's machine, and its loss if there is
//!   a synchronous standby;
//! - Cassandra: the loss of any minority of replicas; a power cut of all of them with
//!   `commitlog_sync: batch` or `group`.
//!
//! # What an operator sees
//!
//! A network store has `ping`, which waits for an answer of the server, and `figures`: connections,
//! operations under way, retries. With the feature `tracing`, each operation is a span `store` of
//! the target `memory_prompt::store` with the fields `backend` and `operation`. It contains the
//! events `done`, `failed` (with the `kind` of the error), `dropped`, `retry` (with the `reason`),
//! `reconnect` and `lost race`.
//!
//! **No text is logged**: no message, no slot, no error text; and no id, since ids may identify
//! people. To find a conversation in the log, open a span of your own around your calls. The
//! drivers log by themselves: keep the target `tokio_postgres` at `info`, since at `debug` it logs
//! the values of each statement, messages included, and `scylla` at `debug`, since its spans at
//! `trace` have the id.
//!
//! # A store and its memories
//!
//! A store hands out memories. A prompt takes any of them, and can switch to another one at run
//! time:
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

#![cfg_attr(
    not(all(feature = "cassandra", feature = "postgres", feature = "redis", feature = "sqlite")),
    allow(dead_code, reason = "each backend uses a part of what they share")
)]

#[cfg(feature = "async")]
mod asynchronous;
#[cfg(feature = "cassandra")]
pub mod cassandra;
#[cfg(any(feature = "cassandra", feature = "postgres", feature = "redis", feature = "sqlite"))]
mod common;
mod copy;
mod ext;
#[cfg(any(feature = "cassandra", feature = "postgres", feature = "redis", feature = "sqlite"))]
mod figures;
#[cfg(any(feature = "sqlite", feature = "tokio"))]
pub(crate) mod given_up;
mod in_memory;
mod info;
#[cfg(any(feature = "cassandra", feature = "postgres"))]
mod join;
#[cfg(any(feature = "cassandra", feature = "postgres", feature = "redis", feature = "sqlite"))]
mod media;
#[cfg(any(feature = "cassandra", feature = "postgres", feature = "redis", feature = "sqlite"))]
mod observe;
#[cfg(any(feature = "cassandra", feature = "postgres", feature = "redis", feature = "sqlite"))]
mod payloads;
#[cfg(feature = "postgres")]
pub mod postgres;
#[cfg(any(feature = "cassandra", feature = "postgres", feature = "redis", feature = "sqlite"))]
mod read_rows;
#[cfg(feature = "redis")]
pub mod redis;
#[cfg(any(feature = "cassandra", feature = "postgres", feature = "redis"))]
mod retry;
#[cfg(any(feature = "cassandra", feature = "postgres", feature = "redis", feature = "sqlite"))]
mod setters;
#[cfg(feature = "sqlite")]
pub mod sqlite;
mod walk;

use std::fmt::Debug;
use std::sync::Arc;
use std::time::SystemTime;

#[cfg(feature = "redis")]
pub use self::redis::{RedisMemory, RedisOptions, RedisStore};
#[cfg(feature = "async")]
pub use asynchronous::{AsyncChatMemoryStore, AsyncChatMemoryStoreExt};
#[cfg(feature = "cassandra")]
pub use cassandra::{CassandraMemory, CassandraOptions, CassandraStore};
pub use copy::Copied;
pub use ext::ChatMemoryStoreExt;
#[cfg(any(
    feature = "cassandra",
    feature = "postgres",
    feature = "redis",
    feature = "sqlite"
))]
pub use figures::Figures;
pub use in_memory::{InMemory, InMemoryStore};
pub use info::Info;
#[cfg(feature = "postgres")]
pub use postgres::{PostgresMemory, PostgresOptions, PostgresStore};
#[cfg(feature = "sqlite")]
pub use sqlite::{Durability, SqliteMemory, SqliteOptions, SqliteStore};

use crate::error::{Error, ErrorKind, Result};
use crate::memory::{ChatMemory, MemoryId, forward};
use crate::record::{Incarnation, Slot};
use walk::at_once;

/// Many conversations, each under its id.
///
/// # Contract
///
/// This section is for implementers. Each sentence is a test. One macro of the feature
/// `conformance` runs all of them on your store; those on incarnations are in its group `moving`.
///
/// - **A memory** can be asked for under any id, at no cost: nothing is written before the first
///   append, so asking for a memory creates no conversation. Two memories for one id are one
///   conversation.
/// - **Ids** are opaque: ids that differ in any one byte are different conversations. If the
///   backend can't hold an id, asking for its memory is an error.
/// - **A conversation exists** from its first append on, even if that was only a system message,
///   until it is deleted or purged. After a clear or an eviction it still exists, and its positions
///   continue.
/// - **Ids are listed** in a fixed order that the backend chooses. An id that exists during the
///   whole listing is listed once, even if others come and go.
/// - **Delete** forgets a conversation and its positions. Memories that were handed out for it stay
///   usable: the next append begins a new conversation at 0.
/// - **An incarnation** is one life of a conversation. After a clear, and when a deleted
///   conversation begins again, it is a new one that never existed before.
/// - **Purge** deletes the conversations without an append since a given time, and no others; a
///   conversation that is appended to during the purge stays.
///
/// Four methods are required. The others have defaults; those that can't be built from the four
/// return an error that names the method to implement.
///
/// Every store of this crate also has an inherent method [`memory`](InMemoryStore::memory), which
/// takes any text as an id and returns the store's own kind of memory, also in an `Arc`. The method
/// of this trait is for stores as `dyn`.
pub trait ChatMemoryStore: Debug + Send + Sync {
    /// Returns the memory of the conversation under this id.
    ///
    /// # Errors
    ///
    /// [`ErrorKind::Invalid`] if the store can't hold such an id.
    fn memory(&self, id: MemoryId) -> Result<Arc<dyn ChatMemory>>;

    /// Returns the next `n` ids after this one, or the first `n`.
    ///
    /// `after` need not exist (any more). Fewer than `n` ids are returned only at the end, and
    /// `n = 0` returns none.
    ///
    /// # Errors
    ///
    /// [`ErrorKind::Storage`] if the store failed.
    fn ids(&self, after: Option<&MemoryId>, n: usize) -> Result<Vec<MemoryId>>;

    /// Deletes the conversation under this id; returns whether there was one.
    ///
    /// A turn stores nothing in a conversation that was deleted meanwhile, except the first turn of
    /// a conversation, which begins it. Stop turns first and wait for them, or delete once more.
    ///
    /// # Errors
    ///
    /// [`ErrorKind::Storage`] if the store failed.
    fn delete(&self, id: &MemoryId) -> Result<bool>;

    /// Deletes each conversation that was last active before this time; returns how many.
    ///
    /// Activity is an append, by the clock of the process or server that appends, not by the
    /// [times](crate::memory::Append::with_times) of its messages. An append of only a system
    /// message or slots counts too, even if it changes nothing.
    /// [Closing](crate::memory::Append::closing) an import sets the activity back. Reading,
    /// evicting and clearing do not count, nor does a question that waits for its answer: allow for
    /// the time that a turn, or an approval, may take.
    ///
    /// # Errors
    ///
    /// [`ErrorKind::Storage`] if the store failed. Some conversations may then be deleted and
    /// others not yet, but none is half deleted.
    fn purge_inactive(&self, older_than: SystemTime) -> Result<u64>;

    /// Returns the next `n` ids that begin with this text, after this one, or the first `n` of
    /// them.
    ///
    /// The order is that of [`ids`](Self::ids). The default lists all ids and compares each.
    ///
    /// # Errors
    ///
    /// [`ErrorKind::Storage`] if the store failed.
    fn ids_with_prefix(
        &self,
        prefix: &str,
        after: Option<&MemoryId>,
        n: usize,
    ) -> Result<Vec<MemoryId>> {
        at_once::ids_with_prefix(self, prefix, after, n)
    }

    /// Returns where the conversation under this id begins and ends and when it was last active;
    /// `None` if there is no conversation.
    ///
    /// # Errors
    ///
    /// [`ErrorKind::Storage`] if the store failed, and [`ErrorKind::Unsupported`] if the method is
    /// not implemented.
    fn info(&self, id: &MemoryId) -> Result<Option<Info>> {
        let _ = id;
        Err(unsupported("info"))
    }

    /// Returns the next `n` slots whose names begin with `names`, of the conversations whose ids
    /// begin with `prefix`: those after the slot of this name of this conversation, or the first
    /// `n`. This reads the slots of many conversations without their records.
    ///
    /// The order is that of [`ids`](Self::ids), and within a conversation that of the bytes of the
    /// names. The slot after which the list continues need not exist (any more). Fewer than `n` are
    /// returned only at the end. The default asks each conversation; a memory without slots has
    /// none.
    ///
    /// ```
    /// use memory_prompt::memory::{Append, Expected};
    /// use memory_prompt::{ChatMemory, ChatMemoryStore, InMemoryStore};
    ///
    /// let store = InMemoryStore::new();
    /// for id in ["ann:1", "ann:2", "ben:1"] {
    ///     let draft = Append::default().set_slot("draft:a", "Dear", Expected::Absent);
    ///     store.memory(id)?.append_with(&mut { draft })?;
    /// }
    /// let first = store.slots_with_prefix("ann:", "draft:", None, 1)?;
    /// let (id, draft) = &first[0];
    /// assert_eq!((id.as_str(), draft.text()), ("ann:1", Some("Dear")));
    /// let next = store.slots_with_prefix("ann:", "draft:", Some((id, draft.name())), 10)?;
    /// assert_eq!((next.len(), next[0].0.as_str()), (1, "ann:2"));
    /// # Ok::<(), memory_prompt::Error>(())
    /// ```
    ///
    /// # Errors
    ///
    /// [`ErrorKind::Storage`] if the store failed.
    fn slots_with_prefix(
        &self,
        prefix: &str,
        names: &str,
        after: Option<(&MemoryId, &str)>,
        n: usize,
    ) -> Result<Vec<(MemoryId, Slot)>> {
        at_once::slots_with_prefix(self, prefix, names, after, n)
    }

    /// Deletes the conversations whose ids begin with this text; returns how many there were.
    /// Conversations that begin during the call may stay, and first turns that run may begin them
    /// anew, as after a [`delete`](Self::delete).
    ///
    /// Let the prefix end where a part of the ids ends: `"user:1"` is also a prefix of
    /// `"user:12:chat"`, but `"user:1:"` is not. The default lists the conversations and deletes
    /// them one by one.
    ///
    /// # Errors
    ///
    /// [`ErrorKind::Storage`] if the store failed: some conversations may then be deleted and
    /// others not yet, but none is half deleted. [`ErrorKind::Invalid`] if the prefix is empty,
    /// which would delete everything.
    fn delete_prefix(&self, prefix: &str) -> Result<u64> {
        at_once::delete_prefix(self, prefix)
    }

    /// Begins a conversation under this id whose first record will have the position `start`, in
    /// order to continue one that was kept elsewhere. It gets this incarnation, or a new one.
    ///
    /// The conversation is empty, and its last activity is now.
    ///
    /// # Errors
    ///
    /// [`ErrorKind::Exists`] if there is a conversation under this id, [`ErrorKind::Invalid`] if
    /// the store can't hold such an id or position, [`ErrorKind::Storage`] if it failed, and
    /// [`ErrorKind::Unsupported`] if the method is not implemented.
    fn restore(&self, id: &MemoryId, start: u64, incarnation: Option<Incarnation>) -> Result<()> {
        let _ = (id, start, incarnation);
        Err(unsupported("restore"))
    }
}

/// Refuses the empty prefix, which is more likely an unset variable than the wish to delete
/// everything.
fn check_prefix(prefix: &str) -> Result<()> {
    if prefix.is_empty() {
        let text = "an empty prefix would delete every conversation";
        return Err(Error::invalid("delete_prefix", text));
    }
    Ok(())
}

fn unsupported(method: &'static str) -> Error {
    let text = format!("this store can't: implement `{method}` for that");
    Error::new(ErrorKind::Unsupported, method, text)
}

fn exists(backend: &str, id: &MemoryId) -> Error {
    let text = format!("{backend}: there is a conversation {id:?} already");
    Error::new(ErrorKind::Exists, "restore", text)
}

// Not for every `Arc<S>` and `Box<S>`: the trait's method `memory`, which takes an id, would be
// preferred to the store's own, which takes any text.
forward! {
    ChatMemoryStore for
        [S: ChatMemoryStore + ?Sized] &S,
        ['a] Box<dyn ChatMemoryStore + 'a>,
        ['a] Arc<dyn ChatMemoryStore + 'a>;
    {
        fn memory(&self, id: MemoryId) -> Result<Arc<dyn ChatMemory>>;
        fn ids(&self, after: Option<&MemoryId>, n: usize) -> Result<Vec<MemoryId>>;
        fn delete(&self, id: &MemoryId) -> Result<bool>;
        fn purge_inactive(&self, older_than: SystemTime) -> Result<u64>;
        fn ids_with_prefix(&self, prefix: &str, after: Option<&MemoryId>, n: usize)
            -> Result<Vec<MemoryId>>;
        fn info(&self, id: &MemoryId) -> Result<Option<Info>>;
        fn slots_with_prefix(
            &self, prefix: &str, names: &str, after: Option<(&MemoryId, &str)>, n: usize
        ) -> Result<Vec<(MemoryId, Slot)>>;
        fn delete_prefix(&self, prefix: &str) -> Result<u64>;
        fn restore(&self, id: &MemoryId, start: u64, incarnation: Option<Incarnation>)
            -> Result<()>;
    } {}
}
