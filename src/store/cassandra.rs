//! Stores conversations in Apache Cassandra, on as many machines as needed.
//!
//! The driver is ScyllaDB's, [`scylla`] 1.9, which works with both. The tests run on Apache
//! Cassandra 5.0; nothing was tested on ScyllaDB. There too it needs lightweight transactions, for
//! which some versions require a keyspace without tablets: create it beforehand.
//!
//! # The tables
//!
//! | table | a partition | columns |
//! |---|---|---|
//! | `conversation` | a conversation | `id`, `position` (newest first), and the columns of the row at `position` |
//! | `message` | a bucket: 500 messages that are no longer new | `log` and `bucket` (the position divided by 500), `position`, `at`, `payload` |
//! | `layout` | the version of these tables | `name`, `version` |
//!
//! The rows of `conversation`:
//!
//! | `position` | row | columns |
//! |--:|---|---|
//! | 2⁶³ − 1 | the head | `version`, `log`, `incarnation`, `start` and `end` (the positions it holds), `sealed` (messages before it are in buckets), `swept`, `ids`, `ended`, `active` (the last append), `system` |
//! | 0 and more | a message, at its position | `at`, `payload`, `attempt` |
//! | −64 to −1 | the newest 64 ids of appends, each in the place of the one 64 before it | `name`, `start` and `end` (the positions it got), `stamp` (the version of its slots), `attempt` |
//! | below −64 | a slot, by a hash of its name | `name`, `stamp` (its version), `payload` |
//!
//! ```sql
//! -- cqlsh
//! SELECT position, at, blobAsText(payload) FROM memory_prompt.conversation
//! WHERE id = 'support:u1001:c2002' AND position >= 0 AND position < 9223372036854775807 LIMIT 10;
//! ```
//!
//! The newest messages are in the partition of the head, 500 to 1,000 of them once there are that
//! many, and the others in buckets. So no partition grows with its conversation, and the newest 500
//! are one query, which reads neither slots nor ids. An id is the partition key unchanged, except
//! that an empty id, and one that begins with NUL, get a NUL in front.
//!
//! A missing keyspace is created. If many programs start at once, let one of them create it first,
//! since Cassandra does not order concurrent schema changes. The version is checked when a store is
//! opened; a later one is refused, and nothing is written.
//!
//! # Why it is correct
//!
//! Every change of a conversation is one conditional batch in its partition: it replaces the head's
//! random `version` *if that is still the one it saw* (compare-and-set), and adds or removes
//! messages in the same partition. The replicas agree on each such batch (Paxos) and apply it whole
//! or not at all.
//!
//! - *Batches are whole, contiguous and in order*, since each begins at the `end` of the head that
//!   it replaces, and only one batch can replace it. `expected` is compared with the same head.
//! - *Slots and ids* are rows in the same partition, changed by the same batch. An append with
//!   slots or an id reads them together with the head in one query, so its comparisons hold if the
//!   head is still the same.
//! - *A read is of one moment.* It reads the head and the newest messages in one query, and the
//!   others by position. Messages never change and positions have no gaps. So if all positions
//!   between `start` and `end` are there, the result matches the head; if one is missing, the head
//!   has changed, and the read starts again. (If the head has not changed, even after a serial
//!   read, the row is lost, and reported as such.) Slots and single messages are a second
//!   concurrent query, which also returns the head's version: if the two differ, the read starts
//!   again.
//! - *Messages are moved* by first copying them into a bucket, and then changing the head to say so
//!   and removing them from the head's partition. Two writers that do this at once copy the same
//!   rows; if one dies, its copy is of no use but does no harm. A bucket before `start` is never
//!   filled again: who evicts removes it, copies included. They are written with the timestamp 1,
//!   so one that comes late is removed as it arrives.
//! - *A lost answer* does no harm: the same change is sent again. The version that it replaces
//!   never comes back, so the change is made at most once (unless it begins the conversation, and
//!   that is deleted in between). If the version is no longer the latest,
//!   the append's id shows whether it was made, or the `attempt` of the first message of the batch.
//!   Only if those are gone too, or if no server answers, is an append
//!   [`Unacknowledged`](crate::ErrorKind::Unacknowledged): repeat it with the same id, and it is
//!   made once.
//! - *What a crash leaves* is recorded in the head. The buckets from `swept` on may still exist
//!   after an eviction; the next eviction removes them. If a deleted conversation has buckets, its
//!   head stays, marked as `ended`, until they are removed: for every client it no longer exists,
//!   and the next append, delete or [`purge_inactive`](AsyncChatMemoryStore::purge_inactive)
//!   continues the removal.
//!
//! `conversation` is changed only by conditional batches; do the same when you repair something by
//! hand (`IF EXISTS`), since these have their own clock.
//!
//! # Guarantees
//!
//! - With [`Consistency::Quorum`](scylla::statement::Consistency::Quorum) and
//!   [`SerialConsistency::Serial`](scylla::statement::SerialConsistency::Serial), the defaults, an
//!   acknowledged write is on a majority of replicas and survives the loss of any minority, and all
//!   clients can read it at once, wherever they are. With three replicas one may die without
//!   effect; with two dead, reads and changes are errors until one is back. In one data centre,
//!   `LocalQuorum` and `LocalSerial` give the same guarantees.
//! - An acknowledged write is on the disk of each replica that acknowledged it only with
//!   `commitlog_sync: batch` or `group`. With Cassandra's default, `periodic`, it is written within
//!   ten seconds: the crash of one machine loses nothing that others have, but the crash of all at
//!   once may.
//! - A change costs a read and one Paxos round, some four round trips between replicas. Two writers
//!   of one conversation wait for each other: within one process for free, across processes by
//!   retries. Different conversations are independent.
//! - *The time of an append* comes from the coordinating node, both for its messages and for the
//!   activity that `purge_inactive` uses, so a client with a wrong clock does no harm; unless the
//!   append has [times](Append::times) of its own, as an import does. A [time of
//!   activity](Append::closing) in the future is corrected by the next append here, and stays in
//!   the other stores. The clocks of the nodes must be synchronised, which Cassandra needs anyway.
//! - An append is two requests, with or without an id, slots and times. A read is one, or two
//!   concurrent ones if it asks for slots or single messages, and one more for each bucket that it
//!   needs. An id costs reading the newest 64 ids together with the head.
//! - *An append* has at most 8 MiB, in messages, system message and slots together; a larger one is
//!   refused before anything is done. That is what a server with default settings takes as one
//!   request and one change, with room for ids and keys. For more, see
//!   [`CassandraOptions::largest_batch`]. In number, it is some 49,000 messages with an id of 20
//!   bytes, and 111 with the longest id.
//! - If two slot names have the same 63-bit hash, the first one keeps the place, and an append with
//!   the other is an error ([`ErrorKind::Invalid`](crate::ErrorKind::Invalid)). Such names do not
//!   occur by chance, but an attacker who can choose names can find some.
//!
//! - **A change that timed out or was dropped** is made before any change that is acknowledged
//!   later, by any client, or never: it names the version of the head that it replaces, which never
//!   comes back. So a late append, eviction, `clear` or delete removes nothing that came after it.
//!   Until another change is made, it may still be made. The first append of a conversation
//!   replaces no head, so it alone may still be made after a delete, and begins the conversation
//!   again.
//!
//! # What is left of deleted data
//!
//! Deleting, purging, evicting and clearing write tombstones, which hide the data at once. The data
//! themselves stay in the files of the replicas (`SSTables`) until a compaction meets both, which
//! `nodetool compact` forces; in the commit log until its segment is removed; and in snapshots and
//! backups as long as these are kept.
//!
//! # The rights of an account
//!
//! If the keyspace and its tables exist, an account needs `SELECT` and `MODIFY` on the keyspace;
//! with `SELECT` alone it can read, and each change is an error. To create the tables it needs
//! `CREATE` on the keyspace, and to create the keyspace `CREATE` on all keyspaces:
//!
//! ```sql
//! GRANT SELECT ON KEYSPACE memory_prompt TO chat;
//! GRANT MODIFY ON KEYSPACE memory_prompt TO chat;
//! ```
//!
//! # How it behaves at scale
//!
//! A message of 280 random characters is 326 bytes of JSON and takes 300 bytes on a replica's disk,
//! measured after a flush, heads and keys included; natural text compresses better. So, with three
//! replicas:
//!
//! | conversations | messages each | one replica | cluster | partitions of one conversation |
//! |--:|--:|--:|--:|---|
//! | 1 million | 50 | 15 GB | 45 GB | one, of 15 kB |
//! | 100 million | 50 | 1.5 TB | 4.5 TB: five nodes of 1 TB | one, of 15 kB |
//! | 10,000 | 100,000 | 300 GB | 900 GB | some 199 buckets of 150 kB, and one of 150 to 300 kB |
//! | 1 | 1 million | 300 MB | 900 MB | some 1,999 buckets of 150 kB, and one of 150 to 300 kB |
//!
//! Conversations are spread over the ring by their ids, and buckets by theirs; nodes can be added
//! at any time. Reading the last ten of a million messages costs as much as of a hundred (1.03
//! times, in one run). An append of a turn took 4 ms and the last ten 1.3 ms on one node with two
//! busy cores, and each 250th append moved a bucket in 50 to 110 ms.
//!
//! `ids`, `ids_with_prefix`, `delete_prefix` and `purge_inactive` walk the whole ring, head by
//! head, and are meant for maintenance jobs. Ids are in the order of their hashes, so a prefix
//! saves nothing, and its first id takes as long as all of them: 20,000 heads took 2.7 s on one
//! node with two busy cores. Deleted data are tombstones for `gc_grace_seconds` (ten days), which
//! reading the newest messages never meets. A walk does: if it passes more deleted conversations
//! in a row than a third of the server's `tombstone_failure_threshold` (100,000), it fails until
//! these are old enough. Where so many go within ten days, raise that threshold, or set a shorter
//! `gc_grace_seconds` for the table and repair it as often.

mod append;
mod ask;
mod attempts;
mod change;
mod connect;
mod failure;
mod forget;
mod listing;
mod options;
mod queue;
mod read;
mod rows;
mod schema;
mod statements;
mod tidy;

use std::fmt;
use std::sync::Arc;
use std::time::SystemTime;

pub use options::CassandraOptions;
/// The driver, version 1, for sessions of your own.
pub use scylla as driver;
use tokio::sync;

use super::common::{in_runtime, signed, slot_version, unsigned};
use super::payloads::{Encoding, Payloads};
use super::{AsyncChatMemoryStore, Figures, Info, check_prefix, exists};
use crate::error::{Error, Result};
use crate::memory::{
    Append, Appended, AsyncChatMemory, BoxFuture, Limits, MemoryId, Read,
    append_and_read_by_the_larger_forms,
};
use crate::record::{Incarnation, SlotVersion, Snapshot, millis, time_of};
use append::Batch;
use ask::{Client, Consistency, Conversation};
use queue::{Queue, Queues};
use rows::Listed;

/// Many conversations in a keyspace of Apache Cassandra. A clone is a handle to the same session.
///
/// The tables and the guarantees are described in the [module](self).
///
/// ```no_run
/// use memory_prompt::{AsyncChatMemoryExt, CassandraStore, Message};
///
/// # tokio::runtime::Builder::new_current_thread().enable_all().build().unwrap().block_on(async {
/// let store = CassandraStore::open("127.0.0.1:9042").await?;
/// let memory = store.memory("support:u1001:c2002")?;
/// memory.add(Message::user("hi")).await?;
/// assert_eq!(memory.latest(10).await?.len(), 1);
/// # Ok::<(), memory_prompt::Error>(())
/// # })?;
/// # Ok::<(), memory_prompt::Error>(())
/// ```
///
/// In blocking code, with the feature `tokio`:
///
#[cfg_attr(feature = "tokio", doc = "```no_run")]
#[cfg_attr(not(feature = "tokio"), doc = "```ignore")]
/// use memory_prompt::adapt::ToBlocking;
/// use memory_prompt::{CassandraStore, MemoryPrompt, Message};
///
/// let store = ToBlocking::connect(CassandraStore::open("127.0.0.1:9042"))?;
/// let mut prompt = MemoryPrompt::new(store.memory("support:u1001:c2002")?);
/// prompt.add(Message::user("hi"))?;
/// assert_eq!(prompt.build()?.len(), 1);
/// # Ok::<(), memory_prompt::Error>(())
/// ```
#[derive(Clone)]
pub struct CassandraStore {
    shared: Arc<Shared>,
}

/// One conversation of a [`CassandraStore`].
#[derive(Clone)]
pub struct CassandraMemory {
    id: MemoryId,
    key: Arc<str>,
    queue: Queue,
    shared: Arc<Shared>,
}

struct Shared {
    client: Client,
    queues: Queues,
    encoding: Encoding,
    limits: Limits,
    place: String,
}

impl CassandraStore {
    /// Opens the store in the keyspace `memory_prompt` of the cluster at these addresses,
    /// `host:port` separated by commas, with the default [`CassandraOptions`].
    ///
    /// # Errors
    ///
    /// [`ErrorKind::Storage`](crate::ErrorKind::Storage) if no node answers there, or if the
    /// keyspace is of a later version; then nothing was written.
    pub async fn open(addresses: impl AsRef<str>) -> Result<Self> {
        Self::options().open(addresses).await
    }

    /// Returns the default options; change them, then open the store.
    pub fn options() -> CassandraOptions {
        CassandraOptions::new()
    }

    /// Returns the memory of the conversation under this id. Any text of at most 65,534 bytes is an
    /// id.
    ///
    /// # Errors
    ///
    /// [`ErrorKind::Invalid`](crate::ErrorKind::Invalid) if the id is longer.
    pub fn memory(&self, id: impl Into<MemoryId>) -> Result<CassandraMemory> {
        let id = id.into();
        let key = key(&id, "memory")?.into();
        let queue = self.shared.queues.queue(&id);
        Ok(CassandraMemory { id, key, queue, shared: Arc::clone(&self.shared) })
    }

    /// Waits for an answer of one node, which says nothing about how many others there are.
    ///
    /// # Errors
    ///
    /// [`ErrorKind::Storage`](crate::ErrorKind::Storage) if none comes within the
    /// [timeout](CassandraOptions::timeout).
    pub async fn ping(&self) -> Result<()> {
        self.shared.watched("ping", self.shared.client.ping()).await
    }

    /// Returns the counts since the store was opened; its connections are the nodes to which the
    /// driver is connected.
    pub fn figures(&self) -> Figures {
        let client = &self.shared.client;
        Figures { connections: client.connected(), ..client.watch.figures() }
    }

    fn conversation<'a>(&'a self, operation: &'static str, key: &'a str) -> Conversation<'a> {
        Conversation { client: &self.shared.client, operation, key }
    }
}

impl Shared {
    /// Runs an observed operation, and checks that there is a runtime.
    fn watched<'a, T>(
        &'a self,
        operation: &'static str,
        work: impl Future<Output = Result<T>> + Send + 'a,
    ) -> BoxFuture<'a, Result<T>> {
        self.client.watch.operation(operation, async move {
            in_runtime("cassandra", operation)?;
            work.await
        })
    }
}

impl AsyncChatMemoryStore for CassandraStore {
    fn memory(&self, id: MemoryId) -> Result<Arc<dyn AsyncChatMemory>> {
        self.memory(id).map(|memory| Arc::new(memory) as Arc<dyn AsyncChatMemory>)
    }

    fn ids<'a>(
        &'a self,
        after: Option<&'a MemoryId>,
        n: usize,
    ) -> BoxFuture<'a, Result<Vec<MemoryId>>> {
        self.shared.watched("ids", self.list("ids", "", after, n))
    }

    fn delete<'a>(&'a self, id: &'a MemoryId) -> BoxFuture<'a, Result<bool>> {
        self.shared.watched("delete", async move {
            let memory = self.memory(id.clone())?;
            let _first = memory.wait().await;
            memory.conversation("delete").remove(None).await
        })
    }

    fn purge_inactive(&self, older_than: SystemTime) -> BoxFuture<'_, Result<u64>> {
        let older_than = signed(millis(older_than));
        self.shared.watched("purge_inactive", async move {
            let wanted = |found: &Listed| found.has_ended() || found.active.0 < older_than;
            self.remove_all("purge_inactive", Some(older_than), wanted).await
        })
    }

    fn ids_with_prefix<'a>(
        &'a self,
        prefix: &'a str,
        after: Option<&'a MemoryId>,
        n: usize,
    ) -> BoxFuture<'a, Result<Vec<MemoryId>>> {
        self.shared.watched("ids_with_prefix", self.list("ids_with_prefix", prefix, after, n))
    }

    fn info<'a>(&'a self, id: &'a MemoryId) -> BoxFuture<'a, Result<Option<Info>>> {
        self.shared.watched("info", async move {
            let key = key(id, "info")?;
            let head = self.conversation("info", &key).head(Consistency::Quorum).await?;
            Ok(head.filter(|head| !head.ended).map(|head| {
                let positions = unsigned(head.start)..unsigned(head.end);
                let active = time_of(unsigned(head.active.0));
                Info::new(positions, active).with_incarnation(head.incarnation)
            }))
        })
    }

    fn delete_prefix<'a>(&'a self, prefix: &'a str) -> BoxFuture<'a, Result<u64>> {
        self.shared.watched("delete_prefix", async move {
            check_prefix(prefix)?;
            let wanted = |found: &Listed| id_of(&found.id).starts_with(prefix);
            self.remove_all("delete_prefix", None, wanted).await
        })
    }

    fn restore<'a>(
        &'a self,
        id: &'a MemoryId,
        start: u64,
        incarnation: Option<Incarnation>,
    ) -> BoxFuture<'a, Result<()>> {
        self.shared.watched("restore", async move {
            let key = key(id, "restore")?;
            let start = i64::try_from(start).ok().filter(|start| *start <= MOST_START);
            let start = start.ok_or_else(|| {
                Error::invalid("restore", "cassandra: there is no room behind this position")
            })?;
            let began = self.conversation("restore", &key).restore(start, incarnation).await?;
            if began { Ok(()) } else { Err(exists("cassandra", id)) }
        })
    }
}

impl CassandraMemory {
    fn conversation(&self, operation: &'static str) -> Conversation<'_> {
        Conversation { client: &self.shared.client, operation, key: &self.key }
    }

    /// Encodes the messages, and refuses a batch that is too large for the server.
    fn encode(&self, append: &Append) -> Result<Payloads> {
        let payloads = Payloads::of("cassandra", self.shared.encoding, &append.messages)?;
        let bytes: usize = payloads.sizes(&append.slots).sum();
        let most = self.shared.limits.batch;
        if bytes > most {
            let text = format!("cassandra: {bytes} bytes at once; {most} are the most");
            return Err(Error::invalid("append", text));
        }
        // Each row also has the key and some more bytes.
        let rows = append.messages.len() + append.slots.len();
        let most = (most / 8 * 7 / (self.key.len() + ROW_BYTES)).clamp(1, MOST_ROWS);
        if rows > most {
            let text = format!("cassandra: {rows} messages and slots at once; {most} are the most");
            return Err(Error::invalid("append", text));
        }
        Ok(payloads)
    }

    /// Waits in the queue of this conversation, but no longer than for an answer; after that it
    /// continues without the lock.
    async fn wait(&self) -> Option<sync::MutexGuard<'_, ()>> {
        tokio::time::timeout(self.shared.client.timeout, self.queue.lock()).await.ok()
    }
}

impl AsyncChatMemory for CassandraMemory {
    fn id(&self) -> &MemoryId {
        &self.id
    }

    append_and_read_by_the_larger_forms!();

    fn evict(&self, before: u64) -> BoxFuture<'_, Result<u64>> {
        self.shared.watched("evict", async move {
            let _first = self.wait().await;
            self.conversation("evict").forget(Some(before)).await
        })
    }

    fn clear(&self) -> BoxFuture<'_, Result<()>> {
        self.shared.watched("clear", async move {
            let _first = self.wait().await;
            self.conversation("clear").forget(None).await.map(drop)
        })
    }

    fn append_with<'a>(&'a self, append: &'a mut Append) -> BoxFuture<'a, Result<Appended>> {
        self.shared.watched("append", async move {
            append.check(&self.shared.limits)?;
            let payloads = &self.encode(append)?;
            let _first = self.wait().await;
            let (conversation, batch) = (self.conversation("append"), Batch { payloads, append });
            let (appended, head) = conversation.append(batch).await?;
            append.messages.clear();
            if let Some(head) = head {
                // Moves what is no longer new. The append is done, so errors are ignored: the next
                // one tries again.
                let _ = conversation.tidy(&head).await;
            }
            Ok(appended)
        })
    }

    fn read_with<'a>(&'a self, read: &'a Read) -> BoxFuture<'a, Result<Snapshot>> {
        self.shared.watched("read", async move { self.conversation("read").read(read).await })
    }

    fn slots(&self) -> BoxFuture<'_, Result<Vec<(String, SlotVersion)>>> {
        self.shared.watched("slots", async move {
            let slots = self.conversation("slots").slots().await?;
            let mut slots: Vec<_> =
                slots.into_iter().map(|(name, stamp)| (name, slot_version(stamp))).collect();
            slots.sort_unstable_by(|one, other| one.0.cmp(&other.0));
            Ok(slots)
        })
    }

    fn limits(&self) -> Limits {
        self.shared.limits
    }
}

/// Returns an id as a partition key, which must not be empty: an empty id, or one that begins with
/// NUL, gets a NUL in front.
fn key(id: &MemoryId, operation: &'static str) -> Result<String> {
    let id = id.as_str();
    if id.len() > MOST_ID_BYTES {
        let text = format!("cassandra: an id of {} bytes; {MOST_ID_BYTES} are the most", id.len());
        return Err(Error::invalid(operation, text));
    }
    let front = if id.is_empty() || id.starts_with('\0') { "\0" } else { "" };
    Ok(format!("{front}{id}"))
}

fn id_of(key: &str) -> &str {
    key.strip_prefix('\0').unwrap_or(key)
}

impl fmt::Debug for CassandraStore {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let Shared { encoding, place, .. } = &*self.shared;
        f.debug_struct("CassandraStore")
            .field("place", place)
            .field("codec", &encoding.codec)
            .finish_non_exhaustive()
    }
}

impl fmt::Debug for CassandraMemory {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("CassandraMemory")
            .field("id", &self.id)
            .field("place", &self.shared.place)
            .finish_non_exhaustive()
    }
}

/// The number of messages in a bucket.
const BUCKET: i64 = 500;

/// The server's limit for a key is 65,535 bytes, and one may be added in front.
const MOST_ID_BYTES: usize = 65_534;

/// The most bytes that a message or a slot takes in a request besides its content and the key.
const ROW_BYTES: usize = 128;

/// The driver's limit for a batch is 65,535 statements.
const MOST_ROWS: usize = 60_000;

/// Far below the head's position, which no message can reach from here.
const MOST_START: i64 = i64::MAX / 2;

const LISTED_AT_ONCE: usize = 1000;

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn every_id_is_a_key_of_its_own() {
        let ids = ["", "\0", "\0\0", "\0a", "a\0", "a", "support:u1001:c2002"];
        let keys = ids.map(|id| key(&id.into(), "test").unwrap());
        for (i, (id, key)) in ids.iter().zip(&keys).enumerate() {
            assert!(!key.is_empty());
            assert!(!keys[..i].contains(key), "{id:?}");
            assert_eq!(id_of(key), *id);
        }
        assert_eq!(keys[6], ids[6], "most are as they are");
    }

    #[test]
    fn outside_of_a_runtime_there_is_an_error() {
        let mut context = std::task::Context::from_waker(std::task::Waker::noop());
        let open = std::pin::pin!(CassandraStore::open("127.0.0.1:9042"));
        let std::task::Poll::Ready(opened) = open.poll(&mut context) else { unreachable!() };
        let error = opened.unwrap_err();
        assert_eq!(error.to_string(), "open: cassandra: the driver needs a tokio runtime");
    }
}
