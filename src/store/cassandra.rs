//! This module keeps conversations in Apache Cassandra, beyond one machine.
//!
//! The driver is that of ScyllaDB, [`scylla`] 1.9, which speaks to both. The tests run on Apache
//! Cassandra 5.0; on ScyllaDB nothing of this was tested. It needs lightweight transactions there
//! too, for which some versions want a keyspace without tablets: create it beforehand.
//!
//! # The tables
//!
//! | table | a partition | columns |
//! |---|---|---|
//! | `conversation` | a conversation | `id`, `position` (newest first), and what the row at `position` has |
//! | `message` | a bucket: 500 messages that are no longer new | `log` and `bucket` (the position divided by 500), `position`, `at`, `payload` |
//! | `layout` | the version of these tables | `name`, `version` |
//!
//! The rows of `conversation`:
//!
//! | `position` | row | columns |
//! |--:|---|---|
//! | 2⁶³ − 1 | the head | `version`, `log`, `incarnation`, `start` and `end` (the positions it holds), `sealed` (what is before lies in buckets), `swept`, `ids`, `ended`, `active` (the last append), `system` |
//! | 0 and more | a message, at its position | `at`, `payload`, `attempt` |
//! | −64 to −1 | the newest 64 ids of appends, each in the place of the one 64 before it | `name`, `start` and `end` (the positions it was told), `stamp` (the version of its slots), `attempt` |
//! | below −64 | a slot, by a hash of its name | `name`, `stamp` (its version), `payload` |
//!
//! ```sql
//! -- cqlsh
//! SELECT position, at, blobAsText(payload) FROM memory_prompt.conversation
//! WHERE id = 'support:u1001:c2002' AND position >= 0 AND position < 9223372036854775807 LIMIT 10;
//! ```
//!
//! The newest messages lie beside the head, 500 to 1,000 of them once there are so many, and the
//! others in buckets, so that no partition grows with a conversation, and the newest 500 are one
//! query, which meets neither slots nor ids. An id is a key as it is, but for the empty one and
//! those that begin with NUL, which have a NUL put in front.
//!
//! A keyspace that is not there is created; where many programs start at once let one of them do it
//! first, since Cassandra itself does not order changes of a schema that several make at the same
//! time. The version is looked at when a store is opened; one that is later is refused, and nothing
//! is written.
//!
//! # Why it holds
//!
//! Every change of a conversation is one conditional batch in its partition: it replaces the head's
//! `version`, a random one, *if that is still the one which its maker saw*, and it adds or removes
//! messages beside the head. The replicas agree on each such batch (Paxos) and make it whole or not
//! at all.
//!
//! - *Batches are whole, contiguous and in order*, since each begins at the `end` of the head that
//!   it replaces, and only one can replace it. `expected` is compared with the same head.
//! - *Slots and ids* are rows beside it, changed by the same batch. An append that names some looks
//!   at the head and at them in one query, so what it compares holds if the head is still the one
//!   that it saw.
//! - *A read is of one moment.* It takes the head and the newest messages in one query, and the
//!   others by position. Messages never change and positions have no gaps; so if all positions
//!   between `start` and `end` are there, it is what the head stands for, and if one is missing,
//!   the head has changed: it reads again. (If the head has not, though the replicas were made to
//!   agree on it, the row is lost, and reported as such.) Slots and single messages are a second
//!   query at the same time, which tells the head's version too: where the two differ, it reads
//!   again.
//! - *Messages are moved* by copying them into a bucket first, then by a change of the head that
//!   says so and removes them beside it. Two who do it at once copy the same; one who dies has
//!   copied in vain.
//! - *An answer that gets lost* is no loss: the change is sent again as it was. The version which
//!   it replaces never comes back, so it is made once at most; and if it turns out not to be the
//!   latest any more, its id tells whether it was made, or the first message of a batch does by
//!   `attempt`. Only where those are gone too, or if nobody answers, is an append
//!   [`Unacknowledged`](crate::ErrorKind::Unacknowledged): to do it once and once only, do it again
//!   under the same id.
//! - *What a crash leaves* the head knows. The buckets from `swept` on may still be there, though
//!   they were evicted: the next eviction removes them. Of a conversation that is deleted and has
//!   buckets, the head stays, as `ended`, until they are removed: it is no more for everybody, and
//!   whoever comes by, an append, a delete or
//!   [`purge_inactive`](AsyncChatMemoryStore::purge_inactive), goes on with that.
//!
//! `conversation` is changed by conditional batches and nothing else; do likewise when you repair
//! something by hand (`IF EXISTS`), since these have clocks of their own.
//!
//! # What is promised
//!
//! - With [`Consistency::Quorum`](scylla::statement::Consistency::Quorum) and
//!   [`SerialConsistency::Serial`](scylla::statement::SerialConsistency::Serial), the defaults,
//!   what was acknowledged is on a majority of replicas and survives the loss of any minority; what
//!   one appends, all others read at once, wherever they are. With three replicas one may die, and
//!   everything goes on; with two dead, reads and changes are errors until one is back. In one data
//!   centre `LocalQuorum` and `LocalSerial` promise the same.
//! - An acknowledged write is on the disk of each replica that acknowledged it only with
//!   `commitlog_sync: batch` or `group`. Cassandra's default, `periodic`, writes it there within
//!   ten seconds: one crashed machine loses nothing that the others have, all of them at once may.
//! - A change costs a read and one round of agreement, some four round trips between replicas; and
//!   two who change one conversation at once wait for each other, in one process for free, in
//!   several by trying again. Different conversations have nothing to do with each other.
//! - *The time of an append* is that of the node that takes it, of its messages and of the activity
//!   by which `purge_inactive` goes, so that no client with a wrong clock dates anything; except
//!   where an append brings [times](Append::times) of its own, as an import does. The clocks of the
//!   nodes must be in step, which Cassandra wants anyway.
//! - An append is two requests, with an id, slots and times or without; a read is one, two at the
//!   same time where it asks for slots or single messages, and one more for each bucket that it
//!   needs. An id costs the 64 rows of the newest ones, which come back with the head.
//! - *What is appended at once* has 8 MiB at most, in messages, system message and slots together,
//!   and is refused before anything is done if it has more: that is what a server with Cassandra's
//!   defaults takes as one request and one change, with ids and keys to spare. For more see
//!   [`CassandraOptions::largest_batch`]. In number it is some 49,000 messages under an id of 20
//!   bytes, and 111 under the longest.
//! - Of two names of slots that have the same hash, of 63 bits, the first one has the place, and an
//!   append with the other is an error ([`ErrorKind::Invalid`](crate::ErrorKind::Invalid)): chance
//!   does not find such names, but whoever lets strangers choose them should know.
//!
//! - **A change that timed out or was dropped** is done before whatever is acknowledged afterwards,
//!   by anybody, or never: it names the version of the head that it replaces, and that never comes
//!   back. So an append, an eviction, a `clear` or a delete of a minute ago takes nothing that came
//!   since. Until somebody changes the conversation it may still be done.
//!
//! # The rights of an account
//!
//! If the keyspace and its tables are there, an account needs `SELECT` and `MODIFY` on the
//! keyspace; `SELECT` alone reads, and each change is an error. To create the tables it needs
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
//! measured after a flush, heads and keys included; what people write is compressed to less. So,
//! with three replicas:
//!
//! | conversations | messages each | one replica | cluster | partitions of one conversation |
//! |--:|--:|--:|--:|---|
//! | 1 million | 50 | 15 GB | 45 GB | one, of 15 kB |
//! | 100 million | 50 | 1.5 TB | 4.5 TB: five nodes of 1 TB | one, of 15 kB |
//! | 10,000 | 100,000 | 300 GB | 900 GB | some 199 buckets of 150 kB, and one of 150 to 300 kB |
//! | 1 | 1 million | 300 MB | 900 MB | some 1,999 buckets of 150 kB, and one of 150 to 300 kB |
//!
//! Conversations are spread over the ring by their ids, and buckets by theirs; nodes are added
//! without further ado. Reading the last ten of a million messages costs what it costs of a hundred
//! (1.03 times, in one run); an append of a turn took 4 ms and the last ten 1.3 ms on one node of
//! two busy cores, and each 250th append moved a bucket in 50 to 110 ms.
//!
//! `ids`, `ids_with_prefix`, `delete_prefix` and `purge_inactive` walk the ring, head by head, and
//! are meant for a night's work: ids lie in it by their hash, so a prefix saves nothing, and its
//! first id takes as long as all of them: 20,000 heads took 2.7 s on one node of two busy cores.
//! What was deleted is a tombstone for `gc_grace_seconds` (ten days), which reading the newest
//! messages never meets.

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
use std::ops::Range;
use std::sync::Arc;
use std::time::SystemTime;

pub use options::CassandraOptions;
/// The driver, version 1, whose sessions can be handed in.
pub use scylla as driver;
use tokio::sync;

use super::common::{in_runtime, signed, slot_version, unsigned};
use super::payloads::{Encoding, Payloads};
use super::{AsyncChatMemoryStore, Figures, Info, check_prefix, exists};
use crate::error::{Error, Result};
use crate::memory::{
    Append, Appended, AsyncChatMemory, BoxFuture, Limits, MemoryId, Read, SlotChange,
};
use crate::message::Message;
use crate::record::{Incarnation, SlotVersion, Snapshot, millis, time_of};
use append::Batch;
use ask::{Client, Consistency, Conversation};
use queue::{Queue, Queues};
use rows::{Head, Listed};

/// Many conversations in a keyspace of Apache Cassandra. A clone is a handle on the same session.
///
/// The tables and what is promised are described in the [module](self).
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
    /// The addresses and the keyspace, for debug output.
    place: String,
}

impl CassandraStore {
    /// Opens the store in the keyspace `memory_prompt` of the cluster at these addresses,
    /// `host:port` with commas between them, with the defaults of [`CassandraOptions`].
    ///
    /// # Errors
    ///
    /// [`ErrorKind::Storage`](crate::ErrorKind::Storage) if nobody answers there, or where the
    /// keyspace is of a later version; then nothing was written.
    pub async fn open(addresses: impl AsRef<str>) -> Result<Self> {
        Self::options().open(addresses).await
    }

    /// Returns the defaults, to be changed before the store is opened.
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

    /// Asks one of the nodes for an answer, which says nothing of how many others there are.
    ///
    /// # Errors
    ///
    /// [`ErrorKind::Storage`](crate::ErrorKind::Storage) if none comes within the
    /// [timeout](CassandraOptions::timeout).
    pub async fn ping(&self) -> Result<()> {
        self.shared.watched("ping", self.shared.client.ping()).await
    }

    /// Returns what was counted since the store was opened; its connections are the nodes that the
    /// driver has some to.
    pub fn figures(&self) -> Figures {
        let client = &self.shared.client;
        Figures { connections: client.connected(), ..client.watch.figures() }
    }

    fn conversation<'a>(&'a self, operation: &'static str, key: &'a str) -> Conversation<'a> {
        Conversation { client: &self.shared.client, operation, key }
    }
}

impl Shared {
    /// Does an operation under watch, in a runtime.
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

    /// Returns the messages as they are written, if the server takes that much at once.
    fn encode(&self, messages: &[Message], slots: &[SlotChange]) -> Result<Payloads> {
        let payloads = Payloads::of("cassandra", self.shared.encoding, messages)?;
        let bytes: usize = payloads.sizes(slots).sum();
        let most = self.shared.limits.batch;
        if bytes > most {
            let text = format!("cassandra: {bytes} bytes at once; {most} are the most");
            return Err(Error::invalid("append", text));
        }
        // Besides, each row brings the key and some more bytes along.
        let rows = messages.len() + slots.len();
        let most = (most / 8 * 7 / (self.key.len() + ROW_BYTES)).clamp(1, MOST_ROWS);
        if rows > most {
            let text = format!("cassandra: {rows} messages and slots at once; {most} are the most");
            return Err(Error::invalid("append", text));
        }
        Ok(payloads)
    }

    /// Moves messages that are no longer new, where there are enough. What fails here is done by
    /// the next append: this one is appended, wherever its messages lie.
    async fn tidy(&self, head: Option<Head>) {
        if let Some(head) = head {
            let _ = self.conversation("append").tidy(&head).await;
        }
    }

    /// Waits in the queue of this conversation, but not for ever: whoever has waited for as long as
    /// for an answer goes without.
    async fn wait(&self) -> Option<sync::MutexGuard<'_, ()>> {
        tokio::time::timeout(self.shared.client.timeout, self.queue.lock()).await.ok()
    }
}

impl AsyncChatMemory for CassandraMemory {
    fn id(&self) -> &MemoryId {
        &self.id
    }

    fn append<'a>(
        &'a self,
        batch: &'a mut Vec<Message>,
        expected: Option<u64>,
    ) -> BoxFuture<'a, Result<Range<u64>>> {
        self.shared.watched("append", async move {
            let payloads = &self.encode(batch, &[])?;
            let with = &Append { expected, ..Append::default() };
            let _first = self.wait().await;
            let (appended, head) =
                self.conversation("append").append(Batch { payloads, with }).await?;
            batch.clear();
            self.tidy(head).await;
            Ok(appended.positions)
        })
    }

    fn read(&self, before: Option<u64>, n: usize) -> BoxFuture<'_, Result<Snapshot>> {
        self.shared.watched("read", async move {
            self.conversation("read").read(&Read { before, n, ..Read::default() }).await
        })
    }

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
            let payloads = &self.encode(&append.messages, &append.slots)?;
            let _first = self.wait().await;
            let batch = Batch { payloads, with: append };
            let (appended, head) = self.conversation("append").append(batch).await?;
            append.messages.clear();
            self.tidy(head).await;
            Ok(appended)
        })
    }

    fn read_with<'a>(&'a self, read: &'a Read) -> BoxFuture<'a, Result<Snapshot>> {
        self.shared.watched("read", async move {
            read.check()?;
            self.conversation("read").read(read).await
        })
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

/// Returns an id as a partition key, which is never empty: one that is, or that begins with NUL,
/// gets a NUL put in front.
fn key(id: &MemoryId, operation: &'static str) -> Result<String> {
    let id = id.as_str();
    if id.len() > MOST_ID_BYTES {
        let text = format!("cassandra: an id of {} bytes; {MOST_ID_BYTES} are the most", id.len());
        return Err(Error::invalid(operation, text));
    }
    let front = if id.is_empty() || id.starts_with('\0') { "\0" } else { "" };
    Ok(format!("{front}{id}"))
}

/// Returns the id that is this partition key.
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

/// The number of messages that lie together once they are no longer new.
const BUCKET: i64 = 500;

/// The server's limit for a key is 65,535 bytes, and one may be put in front.
const MOST_ID_BYTES: usize = 65_534;

/// The most bytes that a message or a slot takes in a request beside its content and the key.
const ROW_BYTES: usize = 128;

/// The driver's limit for a batch is 65,535 statements.
const MOST_ROWS: usize = 60_000;

/// The position of the head is no message's, and nobody gets there from here.
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
