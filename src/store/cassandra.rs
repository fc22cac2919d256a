//! Conversations in Apache Cassandra or ScyllaDB.

mod client;
mod conversation;
mod failure;
mod schema;
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
use crate::codec::Codec;
use crate::error::{Error, ErrorKind, Result};
use crate::memory::{AsyncChatMemory, BoxFuture, MemoryId};
use crate::message::Message;
use crate::record::{Snapshot, millis};
use client::{Client, Found};
use conversation::{Conversation, Encoded, conflict, now, position, unsigned};
use turns::{Queue, Turns};

/// Many conversations in a keyspace of Apache Cassandra. A clone is a handle on the same session.
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
    /// An append that gets none asks again, for once and a half of that, whether it was made, before it is
    /// [`Unacknowledged`](ErrorKind::Unacknowledged).
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
        in_runtime("open")?;
        let place = format!("a session of the caller's/{}", self.keyspace);
        self.connect(session, place).await
    }

    async fn connect(self, session: Arc<Session>, place: String) -> Result<CassandraStore> {
        let is_plain = |c: char| c.is_ascii_alphanumeric() || c == '_';
        if !self.keyspace.chars().all(is_plain) || !(1..=48).contains(&self.keyspace.len()) {
            let text = format!("cassandra: {:?} can't be the name of a keyspace", self.keyspace);
            return Err(Error::invalid("open", text));
        }
        schema::prepare(&session, &self).await?;
        let client = Client::new(session, &self).await?;
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
            let older_than = Some(position(millis(older_than)));
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

    fn encode(&self, batch: &[Message]) -> Result<Encoded> {
        let mut encoded = Encoded { payloads: Vec::with_capacity(batch.len()), system: None };
        for (i, message) in batch.iter().enumerate() {
            let payload = self.shared.codec.encode(message).map_err(|error| {
                let text = format!("cassandra: message {i} of the batch can't be written: {error}");
                Error::new(ErrorKind::Codec, "append", text).with_source(error)
            })?;
            if !message.is_system() {
                encoded.payloads.push(payload);
            } else if payload.len() > MOST_SYSTEM_BYTES {
                let text = format!(
                    "cassandra: a system message of {} bytes; {MOST_SYSTEM_BYTES} are the most",
                    payload.len()
                );
                return Err(Error::invalid("append", text));
            } else {
                encoded.system = Some(payload);
            }
        }
        Ok(encoded)
    }

    /// Where the conversation ends, for an append of nothing.
    async fn end(&self, expected: Option<u64>) -> Result<Range<u64>> {
        let client = &self.shared.client;
        let end = |head: Option<client::Head>| head.map_or(0, |head| unsigned(head.end));
        let actual = end(client.head("append", &self.key).await?);
        match expected.filter(|expected| *expected != actual) {
            None => Ok(actual..actual),
            Some(expected) => Err(conflict(expected, actual)),
        }
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
