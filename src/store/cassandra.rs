//! Conversations in Apache Cassandra, beyond one machine.
//!
//! The driver is that of ScyllaDB, [`scylla`] 1.9, which speaks to both. The tests run on Apache Cassandra
//! 5.0; on ScyllaDB nothing of this was tested. It needs lightweight transactions there too, for which
//! some versions want a keyspace without tablets: create it beforehand.
//!
//! # The tables
//!
//! | table | a partition | columns |
//! |---|---|---|
//! | `conversation` | a conversation: its head and its newest messages | `id`, `seq` (newest first); of the head, at 2⁶³ − 1: `version`, `log`, `start` and `end` (the positions it holds), `sealed`, `large`, `active` (the last append), `system`; of a message: `at`, `payload`, `attempt` |
//! | `message` | a bucket: 500 messages that are no longer new | `log` and `bucket` (the position divided by 500), `seq`, `at`, `payload` |
//! | `garbage` | buckets that somebody is about to remove | `note`, `id`, `log`, `first`, `past`, `noted` |
//! | `layout` | the version of these tables | `name`, `version` |
//!
//! ```sql
//! -- cqlsh
//! SELECT seq, at, blobAsText(payload) FROM memory_prompt.conversation
//! WHERE id = 'support:u1001:c2002' AND seq < 9223372036854775807 LIMIT 10;
//! ```
//!
//! The newest messages lie beside the head, 500 to 1,000 of them once there are so many, and the others in
//! buckets, so that no partition grows with a conversation, and the newest 500 are one query. An id is a key as it is, but for
//! the empty one and those that begin with NUL, which have a NUL put in front.
//!
//! A keyspace of a later version is refused, and nothing is written. One that is not there is created;
//! where many programs start at once let one of them do it first, since Cassandra itself does not order
//! changes of a schema that several make at the same time.
//!
//! # Why it holds
//!
//! Every change of a conversation is one conditional batch in its partition: it replaces the head's
//! `version`, a random one, *if that is still the one which its maker saw*, and it adds or removes messages
//! beside the head. The replicas agree on each such batch (Paxos) and make it whole or not at all.
//!
//! - *Batches are whole, contiguous and in order*, since each begins at the `end` of the head that it
//!   replaces, and only one can replace it. `expected` is compared with the same head.
//! - *A read is of one moment.* It takes the head and the newest messages in one query, and the others by
//!   position. Messages never change and positions have no gaps; so if all positions between `start` and
//!   `end` are there, it is what the head stands for, and if one is missing, the head has changed: it
//!   reads again. (If the head has not, though the replicas were made to agree on it, the row is lost, and
//!   reported as such.)
//! - *Messages are moved* by copying them into a bucket first, then by a change of the head that says so
//!   and removes them beside it. Two who do it at once copy the same; one who dies has copied in vain.
//! - *A batch of more than a thousand messages or one mebibyte* is put aside first, under a name of its
//!   own that no head knows, and then appended by a change that says where it is. After that it is moved,
//!   and until enough new messages have come the newest ten are two queries and not one.
//! - *An answer that gets lost* is no loss: the change is sent again as it was. The version which it
//!   replaces never comes back, so it is made once at most; and if it turns out not to be the latest any
//!   more, the first message of a batch tells by `attempt` whose it is. Only where that is gone too, or
//!   where nobody answers, is an append [`Unacknowledged`](ErrorKind::Unacknowledged).
//! - *What a crash leaves* is rows that no head leads to: what was put aside, or buckets of a conversation
//!   that was deleted. Whoever is about to leave some writes it down in `garbage` first, and
//!   [`purge_inactive`](AsyncChatMemoryStore::purge_inactive) clears away what is an hour old.
//!
//! `conversation` is changed by conditional batches and nothing else; do likewise when you repair
//! something by hand (`IF EXISTS`), since these have clocks of their own.
//!
//! # What is promised
//!
//! - With [`Consistency::Quorum`] and [`SerialConsistency::Serial`], the defaults, what was acknowledged is
//!   on a majority of replicas and survives the loss of any minority; what one appends, all others
//!   read at once, wherever they are. With three replicas one may die, and everything goes on; with two
//!   dead, reads and changes are errors until one is back. In one data centre `LocalQuorum` and
//!   `LocalSerial` promise the same.
//! - An acknowledged write is on the disk of each replica that acknowledged it only with
//!   `commitlog_sync: batch` or `group`. Cassandra's default, `periodic`, writes it there within ten
//!   seconds: one crashed machine loses nothing that the others have, all of them at once may.
//! - A change costs a read and one round of agreement, some four round trips between replicas; and two who
//!   change one conversation at once take turns, in one process for free, in several by trying again.
//!   Different conversations have nothing to do with each other.
//! - A batch is as large as you like; one message is refused by the server beyond 16 MiB, by its defaults,
//!   and a system message here beyond 4 MiB.
//!
//! # How it behaves at scale
//!
//! A message of 280 random characters is 326 bytes of JSON and takes 300 bytes on a replica's disk, measured
//! after a flush, heads and keys included; what people write is compressed to less. So, with three
//! replicas:
//!
//! | conversations | messages each | one replica | cluster | partitions of one conversation |
//! |--:|--:|--:|--:|---|
//! | 1 million | 50 | 15 GB | 45 GB | one, of 15 kB |
//! | 100 million | 50 | 1.5 TB | 4.5 TB: five nodes of 1 TB | one, of 15 kB |
//! | 10,000 | 100,000 | 300 GB | 900 GB | some 199 buckets of 150 kB, and one of 150 to 300 kB |
//! | 1 | 1 million | 300 MB | 900 MB | some 1,999 buckets of 150 kB, and one of 150 to 300 kB |
//!
//! Conversations are spread over the ring by their ids, and buckets by theirs; nodes are added without
//! further ado. Reading the last ten of a million messages costs what it costs of a hundred (1.03 times, in
//! one run); an append of a turn took 4 ms and the last ten 1.3 ms on one node of two busy cores, and each
//! 250th append moved a bucket in 50 to 110 ms.
//!
//! `ids` and `purge_inactive` walk the whole ring, head by head, and are meant for a night's work. What was
//! deleted is a tombstone for `gc_grace_seconds` (ten days), which reading the newest messages never meets.

mod client;
mod conversation;
mod failure;
mod schema;
mod statements;
mod turns;

use std::fmt;
use std::ops::Range;
use std::sync::Arc;
use std::time::{Duration, SystemTime};

pub use scylla;
use scylla::client::session::Session;
use scylla::client::session_builder::SessionBuilder;
use scylla::statement::{Consistency, SerialConsistency};
use tokio::runtime::Handle;

use super::AsyncChatMemoryStore;
use super::common::{Payloads, nothing, signed, unsigned};
use crate::codec::Codec;
use crate::error::{Error, ErrorKind, Result};
use crate::memory::{AsyncChatMemory, BoxFuture, MemoryId};
use crate::message::Message;
use crate::record::{Snapshot, millis};
use client::{Client, Found};
use conversation::{Conversation, now};
use turns::{Queue, Turns};

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
/// use memory_prompt::{Blocking, CassandraStore, MemoryPrompt, Message};
///
/// let store = Blocking::connect(CassandraStore::open("127.0.0.1:9042"))?;
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
    turns: Turns,
    codec: Codec,
    /// The addresses and the keyspace, for debug output.
    place: String,
}

/// How a [`CassandraStore`] is opened.
///
/// ```no_run
/// use memory_prompt::store::cassandra::scylla::statement::{Consistency, SerialConsistency};
/// use memory_prompt::{CassandraStore, Codec};
///
/// # tokio::runtime::Builder::new_current_thread().enable_all().build().unwrap().block_on(async {
/// let store = CassandraStore::options()
///     .codec(Codec::Bincode)
///     .keyspace("chat")
///     .replication("{'class': 'NetworkTopologyStrategy', 'europe': 3}")
///     .consistency(Consistency::LocalQuorum)
///     .serial_consistency(SerialConsistency::LocalSerial)
///     .user("chat", "password")
///     .open("10.0.0.1:9042,10.0.0.2:9042")
///     .await?;
/// # Ok::<(), memory_prompt::Error>(())
/// # })?;
/// # Ok::<(), memory_prompt::Error>(())
/// ```
#[derive(Clone)]
pub struct CassandraOptions {
    codec: Codec,
    keyspace: String,
    replication: Option<String>,
    consistency: Consistency,
    serial_consistency: SerialConsistency,
    timeout: Duration,
    connect_timeout: Duration,
    user: Option<(String, String)>,
}

impl CassandraStore {
    /// The store in the keyspace `memory_prompt` of the cluster at these addresses, `host:port` with
    /// commas between them, with the defaults of [`CassandraOptions`].
    ///
    /// # Errors
    ///
    /// [`ErrorKind::Storage`] where nobody answers there, or where the keyspace is of a later version;
    /// then nothing was written.
    pub async fn open(addresses: impl AsRef<str>) -> Result<Self> {
        Self::options().open(addresses).await
    }

    /// The defaults, to be changed before the store is opened.
    pub fn options() -> CassandraOptions {
        CassandraOptions {
            codec: Codec::Json,
            keyspace: "memory_prompt".to_owned(),
            replication: None,
            consistency: Consistency::Quorum,
            serial_consistency: SerialConsistency::Serial,
            timeout: Duration::from_secs(10),
            connect_timeout: Duration::from_secs(10),
            user: None,
        }
    }

    /// The memory of the conversation under this id. Any text of at most 65,534 bytes is an id.
    ///
    /// # Errors
    ///
    /// [`ErrorKind::Invalid`] where the id is longer.
    pub fn memory(&self, id: impl Into<MemoryId>) -> Result<CassandraMemory> {
        let id = id.into();
        let key = key(&id, "memory")?.into();
        let queue = self.shared.turns.queue(&id);
        Ok(CassandraMemory { id, key, queue, shared: Arc::clone(&self.shared) })
    }

    /// The next `n` conversations after this one in the ring; with `active_before`, those of them to
    /// which nothing was appended since.
    async fn page(
        &self,
        operation: &'static str,
        after: Option<(i64, String)>,
        n: usize,
        active_before: Option<i64>,
    ) -> Result<Vec<Found>> {
        let mut page = Vec::new();
        if n == 0 {
            return Ok(page);
        }
        // Two conversations may have the same place in the ring, so the place alone says nothing.
        let from = after.as_ref().map_or(i64::MIN, |after| after.0);
        let is_after = |found: &Found| match &after {
            None => true,
            Some((token, key)) => (found.place, &found.id) > (*token, key),
        };
        let is_old = |found: &Found| active_before.is_none_or(|time| found.active.0 < time);
        let collect = |found: Found| {
            if is_after(&found) && is_old(&found) {
                page.push(found);
            }
            page.len() < n
        };
        self.shared.client.each_from(operation, from, collect).await?;
        Ok(page)
    }
}

impl CassandraOptions {
    /// How new messages are written; [`Codec::Json`] unless set. Every codec is read.
    #[must_use]
    pub fn codec(mut self, codec: Codec) -> Self {
        self.codec = codec;
        self
    }

    /// The keyspace, `memory_prompt` unless set: at most 48 letters, digits and `_`.
    #[must_use]
    pub fn keyspace(mut self, keyspace: impl Into<String>) -> Self {
        self.keyspace = keyspace.into();
        self
    }

    /// How a keyspace that is not there is replicated, in CQL, for example
    /// `{'class': 'NetworkTopologyStrategy', 'europe': 3}`.
    ///
    /// Unless set: in each data centre on as many nodes as the smallest one has, and on three at most.
    #[must_use]
    pub fn replication(mut self, replication: impl Into<String>) -> Self {
        self.replication = Some(replication.into());
        self
    }

    /// How many replicas must have done what is asked of them; [`Consistency::Quorum`] unless set.
    ///
    /// With anything weaker, what one appends another may not read at once, and what was acknowledged
    /// can be lost with a machine. Where all who use a conversation are in one data centre,
    /// [`Consistency::LocalQuorum`] is as good and does not wait for the others.
    #[must_use]
    pub fn consistency(mut self, consistency: Consistency) -> Self {
        self.consistency = consistency;
        self
    }

    /// Which replicas agree on the order of appends; [`SerialConsistency::Serial`] unless set.
    ///
    /// [`SerialConsistency::LocalSerial`] is right where all who use a conversation are in one data
    /// centre, and loses messages where they are not.
    #[must_use]
    pub fn serial_consistency(mut self, serial_consistency: SerialConsistency) -> Self {
        self.serial_consistency = serial_consistency;
        self
    }

    /// How long to wait for an answer; 10 seconds unless set.
    ///
    /// A change that gets none is sent again until it gets one, for some three times as long, before it
    /// is [`Unacknowledged`](ErrorKind::Unacknowledged).
    #[must_use]
    pub fn timeout(mut self, timeout: Duration) -> Self {
        self.timeout = timeout;
        self
    }

    /// How long to wait for the first connection; 10 seconds unless set.
    #[must_use]
    pub fn connect_timeout(mut self, timeout: Duration) -> Self {
        self.connect_timeout = timeout;
        self
    }

    /// The name and the password to connect with.
    #[must_use]
    pub fn user(mut self, name: impl Into<String>, password: impl Into<String>) -> Self {
        self.user = Some((name.into(), password.into()));
        self
    }

    /// The store at these addresses, `host:port` with commas between them.
    ///
    /// # Errors
    ///
    /// As [`CassandraStore::open`], and [`ErrorKind::Invalid`] where the options make no sense.
    pub async fn open(self, addresses: impl AsRef<str>) -> Result<CassandraStore> {
        let addresses = addresses.as_ref();
        self.check()?;
        in_runtime("open")?;
        let nodes: Vec<&str> =
            addresses.split(',').map(str::trim).filter(|node| !node.is_empty()).collect();
        if nodes.is_empty() {
            return Err(Error::invalid("open", "cassandra: there is no address to connect to"));
        }
        let mut builder =
            SessionBuilder::new().known_nodes(nodes).connection_timeout(self.connect_timeout);
        if let Some((name, password)) = &self.user {
            builder = builder.user(name, password);
        }
        let session = tokio::time::timeout(self.connect_timeout, builder.build())
            .await
            .map_err(|_| {
                let time = self.connect_timeout;
                let text = format!("cassandra: no answer from {addresses} within {time:?}");
                Error::new(ErrorKind::Storage, "open", text)
            })?
            .map_err(|error| failure::unreachable(addresses, error))?;
        let place = format!("{addresses}/{}", self.keyspace);
        self.connect(Arc::new(session), place).await
    }

    /// A store over a session of your own, for everything that [`SessionBuilder`] can do: TLS, a data
    /// centre to prefer, compression.
    ///
    /// Of its execution profile the load balancing is used, and for what may be repeated its policies
    /// of retries and speculation.
    ///
    /// # Errors
    ///
    /// As [`open`](Self::open).
    pub async fn over(self, session: Arc<Session>) -> Result<CassandraStore> {
        self.check()?;
        in_runtime("open")?;
        let place = format!("a session of the caller's/{}", self.keyspace);
        self.connect(session, place).await
    }

    fn check(&self) -> Result<()> {
        let is_plain = |c: char| c.is_ascii_alphanumeric() || c == '_';
        if self.keyspace.chars().all(is_plain) && (1..=48).contains(&self.keyspace.len()) {
            return Ok(());
        }
        let text = format!("cassandra: {:?} can't be the name of a keyspace", self.keyspace);
        Err(Error::invalid("open", text))
    }

    async fn connect(self, session: Arc<Session>, place: String) -> Result<CassandraStore> {
        schema::prepare(&session, &self).await?;
        let client = tokio::time::timeout(self.timeout, Client::new(session, &self));
        let client = client.await.map_err(|_| {
            let text = format!("cassandra: no answer within {:?}", self.timeout);
            Error::new(ErrorKind::Storage, "open", text)
        })??;
        let shared = Shared { client, turns: Turns::default(), codec: self.codec, place };
        Ok(CassandraStore { shared: Arc::new(shared) })
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
        Box::pin(async move {
            in_runtime("ids")?;
            let after = match after {
                None => None,
                Some(id) => {
                    let key = key(id, "ids")?;
                    Some((self.shared.client.token("ids", &key)?, key))
                }
            };
            let page = self.page("ids", after, n, None).await?;
            Ok(page.into_iter().map(|found| id(&found.id)).collect())
        })
    }

    fn delete<'a>(&'a self, id: &'a MemoryId) -> BoxFuture<'a, Result<bool>> {
        Box::pin(async move {
            in_runtime("delete")?;
            let memory = self.memory(id.clone())?;
            let _turn = turns::wait(&memory.queue, self.shared.client.timeout).await;
            memory.conversation().remove("delete", None).await
        })
    }

    fn purge_inactive(&self, older_than: SystemTime) -> BoxFuture<'_, Result<u64>> {
        Box::pin(async move {
            in_runtime("purge_inactive")?;
            let older_than = Some(signed(millis(older_than)));
            let (mut purged, mut after) = (0, None);
            loop {
                let page = self.page("purge_inactive", after, LISTED_AT_ONCE, older_than).await?;
                for Found { id, .. } in &page {
                    let conversation = Conversation { client: &self.shared.client, key: id };
                    purged += u64::from(conversation.remove("purge_inactive", older_than).await?);
                }
                after = match page.into_iter().next_back() {
                    Some(last) => Some((last.place, last.id)),
                    None => break,
                };
            }
            let client = &self.shared.client;
            for garbage in client.notes("purge_inactive").await? {
                if garbage.noted.0 < now().0 - OLD_GARBAGE {
                    Conversation { client, key: &garbage.id }.sweep(&garbage).await?;
                }
            }
            Ok(purged)
        })
    }
}

impl CassandraMemory {
    fn conversation(&self) -> Conversation<'_> {
        Conversation { client: &self.shared.client, key: &self.key }
    }

    fn encode(&self, batch: &[Message]) -> Result<Payloads> {
        let payloads = Payloads::of("cassandra", self.shared.codec, batch)?;
        let bytes = payloads.system.as_ref().map_or(0, Vec::len);
        if bytes > MOST_SYSTEM_BYTES {
            let text = format!(
                "cassandra: a system message of {bytes} bytes; {MOST_SYSTEM_BYTES} are the most"
            );
            return Err(Error::invalid("append", text));
        }
        Ok(payloads)
    }

    /// Where the conversation ends, for an append of nothing.
    async fn end(&self, expected: Option<u64>) -> Result<Range<u64>> {
        let client = &self.shared.client;
        let end = |head: Option<client::Head>| head.map_or(0, |head| unsigned(head.end));
        nothing("cassandra", expected, end(client.head("append", &self.key).await?))
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
        Box::pin(async move {
            in_runtime("append")?;
            if batch.is_empty() {
                return self.end(expected).await;
            }
            let encoded = self.encode(batch)?;
            let _turn = turns::wait(&self.queue, self.shared.client.timeout).await;
            let conversation = self.conversation();
            let (positions, head) = conversation.append(&encoded, expected).await?;
            batch.clear();
            // It is appended, wherever it lies: what can't be tidied up now, the next append will.
            let _ = conversation.tidy(&head).await;
            Ok(positions)
        })
    }

    fn read(&self, before: Option<u64>, n: usize) -> BoxFuture<'_, Result<Snapshot>> {
        Box::pin(async move {
            in_runtime("read")?;
            self.conversation().read(before, n).await
        })
    }

    fn evict(&self, before: u64) -> BoxFuture<'_, Result<u64>> {
        Box::pin(async move {
            in_runtime("evict")?;
            let _turn = turns::wait(&self.queue, self.shared.client.timeout).await;
            self.conversation().forget("evict", Some(before)).await
        })
    }

    fn clear(&self) -> BoxFuture<'_, Result<()>> {
        Box::pin(async move {
            in_runtime("clear")?;
            let _turn = turns::wait(&self.queue, self.shared.client.timeout).await;
            self.conversation().forget("clear", None).await.map(drop)
        })
    }
}

/// The driver panics outside of a runtime.
fn in_runtime(operation: &'static str) -> Result<()> {
    Handle::try_current().map(drop).map_err(|error| {
        let text = "cassandra: the driver needs a tokio runtime";
        Error::new(ErrorKind::Storage, operation, text).with_source(error)
    })
}

/// An id as a partition key, which is never empty: one that is, or that begins with NUL, gets a NUL
/// put in front.
fn key(id: &MemoryId, operation: &'static str) -> Result<String> {
    let id = id.as_str();
    if id.len() > MOST_ID_BYTES {
        let text = format!("cassandra: an id of {} bytes; {MOST_ID_BYTES} are the most", id.len());
        return Err(Error::invalid(operation, text));
    }
    let front = if id.is_empty() || id.starts_with('\0') { "\0" } else { "" };
    Ok(format!("{front}{id}"))
}

fn id(key: &str) -> MemoryId {
    MemoryId::from(key.strip_prefix('\0').unwrap_or(key))
}

impl fmt::Debug for CassandraStore {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let Shared { codec, place, .. } = &*self.shared;
        f.debug_struct("CassandraStore")
            .field("place", place)
            .field("codec", codec)
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

impl fmt::Debug for CassandraOptions {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("CassandraOptions")
            .field("codec", &self.codec)
            .field("keyspace", &self.keyspace)
            .field("replication", &self.replication)
            .field("consistency", &self.consistency)
            .field("serial_consistency", &self.serial_consistency)
            .field("timeout", &self.timeout)
            .field("connect_timeout", &self.connect_timeout)
            .field("user", &self.user.as_ref().map(|(name, _)| name))
            .finish()
    }
}

/// How many messages lie together once they are no longer new.
const BUCKET: i64 = 500;

/// The server's limit for a key is 65,535 bytes, and one may be put in front.
const MOST_ID_BYTES: usize = 65_534;

/// The system message is a part of what the replicas agree on.
const MOST_SYSTEM_BYTES: usize = 4 << 20;

const LISTED_AT_ONCE: usize = 1000;

/// What is younger may belong to somebody who is still at it. In milliseconds.
const OLD_GARBAGE: i64 = 3_600_000;

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
            assert_eq!(super::id(key).as_str(), *id);
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
