//! This module keeps conversations in a PostgreSQL database.
//!
//! # The tables
//!
//! One row a message, and a view for people and other programs:
//!
//! ```sql
//! SELECT position, at, payload #>> '{message,role}', payload #>> '{message,content}'
//! FROM memory_prompt.history
//! WHERE key = encode(substr(sha256('support:u1001:c2002'), 1, 16), 'hex')::uuid
//! ORDER BY position DESC LIMIT 10;
//! ```
//!
//! | table | columns |
//! |---|---|
//! | `conversation` | `key` (the first 16 bytes of the SHA-256 of the id), `start` and `end` (the positions it holds), `active` (the last append, in milliseconds since 1970), `id` (as bytes: PostgreSQL's text can't hold NUL), `incarnation`, `slots` and `ids` (how often slots were changed, and how many appends had an id) |
//! | `message` | `conversation` (its key), `position` (or -1 for the system message), `at` (in milliseconds since 1970), `payload` |
//! | `slot` | `conversation` (its key), `name` (as bytes), `version`, `content` |
//! | `append` | `conversation` (its key), `id` of the append (as bytes), `start` and `end` (the positions of its messages), `version` (of the slots that it wrote), `number` |
//! | `media` | `conversation` (its key), `hash` (the SHA-256 of the bytes), `last` (the newest position that refers to it), `bytes` |
//! | `history` (a view) | `key`, `id` (as text), `position`, `at` (as a timestamp), `payload` (as `json`; null if it was written with [`Codec::Bincode`](crate::codec::Codec::Bincode)) |
//! | `memory_prompt` | `version` |
//!
//! They are in the schema `memory_prompt` unless [`PostgresOptions::schema`] and
//! [`PostgresOptions::prefix`] say otherwise, and are created when a store is opened, by one
//! process while the others wait. `WHERE id = …` on the view reads all conversations; by
//! `key` it is one range of one index. PostgreSQL's JSON functions refuse a text that holds
//! `\u0000`, in this view as elsewhere.
//!
//! Tables of a later version are refused when a store is opened, and not written to.
//!
//! # The rights that an account needs
//!
//! One that creates the tables needs `CREATE` on the database, or on the schema if that is there
//! already. An account that may not can use tables that are there, which [`PostgresOptions::sql`]
//! creates. It needs:
//!
//! ```sql
//! GRANT USAGE ON SCHEMA memory_prompt TO app;
//! GRANT SELECT ON memory_prompt.memory_prompt TO app;
//! GRANT SELECT, INSERT, UPDATE, DELETE ON memory_prompt.conversation, memory_prompt.message,
//!     memory_prompt.slot, memory_prompt.append, memory_prompt.media TO app;
//! ```
//!
//! To read it needs `SELECT` alone, and for people `SELECT` on `memory_prompt.history`.
//!
//! # What is promised
//!
//! - An append that returned survives what a commit survives: with PostgreSQL's own settings a
//!   crash of the server and of its machine. With `synchronous_commit = off` a crash takes the last
//!   ones with it.
//! - With a standby in `synchronous_standby_names`, an append that returned survives the loss of
//!   either machine (tested: the primary is killed under load, and the standby promoted). While no
//!   such standby answers nothing is acknowledged: a change is
//!   [`ErrorKind::Unacknowledged`](crate::ErrorKind::Unacknowledged) when its time is up, though
//!   others on the primary may see it. So is the same append when it is
//!   repeated by its id, and a clear, an eviction or a deletion that finds nothing to do: the
//!   answer waits for the standby as the first one did. (A [conflict](crate::ErrorKind::Conflict)
//!   and a read tell what is on the primary.) An operator must not end that wait: PostgreSQL takes
//!   `pg_cancel_backend` there for leave to call the change done.
//! - An append is one transaction and one round trip. It locks the row of its conversation from the
//!   moment its position is settled to the commit, so that positions are committed in their order:
//!   a reader sees no gaps, and appends to one conversation wait for each other. No others do.
//! - What goes with an append goes into its statement: an id, slots and times cost no further round
//!   trip. The id is a row that there can be once, so an append that is repeated undoes itself,
//!   whatever was committed while it waited. The newest 64 of a conversation are kept, and older
//!   ones are forgotten in the same statement. An append whose slots another change
//!   wrote while it waited is asked again, once, with the conversation's row locked.
//! - A read is one statement, and sees one moment, its slots and single records included. Slots
//!   that it does not name are not transferred.
//! - Media from [`PostgresOptions::media_beside`] on are kept once in a conversation, beside its
//!   messages, whose payloads refer to them. They are written in the statement of the append, and
//!   deleted in the transaction that takes the last message which refers to them. Where a read
//!   finds such messages, and references will not do, a second statement brings the bytes; if an
//!   eviction came between the two, all of it is read again.
//! - A slot holds up to 64 MiB, a batch with its slots up to 1 GB.
//! - Ids are listed in the order of their bytes, by an index of their first 512 bytes, which finds
//!   those with a prefix.
//! - What is asked often is prepared once a connection, which costs its first use a round trip: to
//!   plan an append each time takes a server several times as long as to do it. Nothing else of a
//!   session is needed: no settings, no locks beyond a transaction. So it works through a
//!   transaction pooler (tested with pgbouncer). Behind one that knows no prepared statements, as
//!   pgbouncer before 1.21, set [`prepare(false)`](PostgresOptions::prepare).
//! - An operation has one time, [`PostgresOptions::timeout`], whatever it waits for: a connection,
//!   another transaction's lock, the answer. Of what is left when it is sent the server gets nine
//!   tenths, as its `lock_timeout` and `statement_timeout`. A change that takes longer, or waits
//!   longer for a lock, is an error of something not done.
//! - A purge, and a deletion by prefix, deletes 64 conversations in a transaction, or each alone if
//!   that takes too long. One that takes too long alone is left, and the error comes when all
//!   others are deleted; `evict` parts of it first. A purge passes over conversations that are
//!   locked: by an append, for one.
//! - A request that is given up, since the time is up or its future was dropped, is cancelled on
//!   the server, and ends in any case when the server's time for it is up. Its connection counts
//!   until then, so there are never more than [`PostgresOptions::max_connections`]. (Over a pool of
//!   the caller's that speaks TLS it is not cancelled.)
//! - While the server is restarted, or not there, or has too many connections, an operation that
//!   has no connection waits for one within [`PostgresOptions::timeout`].
//! - If a connection breaks, or the time is up, before the answer to a change came, the error is
//!   [`ErrorKind::Unacknowledged`](crate::ErrorKind::Unacknowledged), and the store goes on with another connection. Reads are asked
//!   again, and so is what PostgreSQL gave up because of another transaction (a deadlock).
//!
//! # What becomes of a change that was given up
//!
//! It is done, or not done, or done a little later. The server ends it within its own time, by
//! `lock_timeout` and `statement_timeout`, which begins when the server gets to it: on one that
//! stands still, when it goes on. Until then it may still be done, also over what was acknowledged
//! meanwhile. These are safe:
//!
//! - An append with an [id](crate::memory::Append::with_id) may be repeated, and so may one that
//!   [expects](crate::memory::Append::expecting) where the conversation ends: it is done once.
//! - [`evict`](crate::memory::AsyncChatMemory::evict) names a position, and takes nothing behind
//!   it, however late. If others append meanwhile, take it in place of a `clear` or a `delete` that
//!   may be given up.
//! - A purge looks again, when it is done, which conversations are inactive.
//!
//! # How it behaves at scale
//!
//! A message takes its payload and some 120 bytes: 72 of its row, 48 in the index. (Measured with
//! 400,000 messages in 2,000 conversations that grow side by side. With numbers from a sequence as
//! keys it would be some 110, and messages could not be found, nor spread over machines, by the id
//! alone; with ids of 16 bytes in their place it would be 164.) A conversation takes some 260 bytes
//! of its own, the index of ids included. So 1,000,000 conversations of 200 messages of 400 bytes
//! are 200,000,000 rows and about 105 GB, and the last ten of any of them are one range of one
//! index and up to ten pages, which for conversations that go on are in the cache.
//!
//! - **On one server** an append writes a new version of the conversation's row beside the old one
//!   (`fillfactor` and heap-only updates: all of 12,000 appends to 1,000 conversations touched no
//!   index for it), a row a message, and an index entry each. Autovacuum has next to nothing to do
//!   but to freeze, until conversations are evicted from or purged.
//!   [`purge_inactive`](super::AsyncChatMemoryStore::purge_inactive) reads all conversations once,
//!   since an index on what every append changes would cost each append more.
//! - **With standbys** reads may go to one, through a store of their own that was opened there, and
//!   are then as old as it is.
//! - **Partitioned**: create the tables yourself, from [`PostgresOptions::sql`] with `PARTITION BY
//!   HASH (conversation)` behind the table of messages, and as many partitions as you like. Every
//!   statement names the conversation, so each touches one partition. Worth its while from some
//!   100,000,000 messages on, for vacuum and for backups.
//! - **On several machines**: a conversation touches nothing outside of itself, so conversations
//!   may be spread over servers by their ids, with one store each. The tables are keyed by the
//!   conversation first, as Citus demands of tables that are distributed together; but Citus'
//!   documentation says that it takes no subqueries within `INSERT`, of which an append consists,
//!   so nothing is promised there.
//! - **When a machine dies**: an address may name several hosts
//!   (`postgres://a,b/chat?target_session_attrs=read-write`), of which the one that takes writes is
//!   found when a connection is made; so a store goes on by itself if a standby was promoted. So
//!   it does if the address itself moves to another machine: a connection on which a change
//!   finds a server that takes none is closed, and a new one asked, once. What the
//!   standby had not got yet is lost with the machine, unless it is a synchronous one. Appends on
//!   their way are reported as unacknowledged.
//!
//! # TLS
//!
//! With the feature `postgres-tls`, an address that says `sslmode=require` is spoken to by TLS, and
//! so is one whose `PostgresOptions::authority` or `PostgresOptions::certificate` is given. The
//! server's certificate must then be of this authority, or of one that the operating system trusts,
//! and of the name in the address, whatever else the mode means. Nothing else is encrypted: not
//! if the mode is `prefer`, as it is unless set, since most servers have a certificate that no
//! authority signed.
//!
//! The password is bound to the channel if the server offers that (`SCRAM-SHA-256-PLUS`). A pool
//! of your own may do it in another way:
//!
//! ```text
//! let tls = tokio_postgres_rustls::MakeRustlsConnect::new(rustls_config);
//! let manager = deadpool_postgres::Manager::new(address.parse()?, tls);
//! let pool = deadpool_postgres::Pool::builder(manager).max_size(10).build()?;
//! let store = PostgresStore::options().over(pool).await?;
//! ```
//!
//! The pool is one of `deadpool-postgres` 0.14, which is [here](deadpool_postgres), and in it
//! `tokio-postgres` 0.7.

mod append;
mod ask;
#[cfg(feature = "postgres-tls")]
mod certificates;
mod connect;
mod create;
mod failure;
mod forget;
mod listing;
mod options;
mod read;
mod schema;
mod tls;

use std::fmt;
use std::ops::Range;
use std::sync::Arc;
use std::time::SystemTime;

/// The pool, version 0.14, which can be handed in; the driver is its `tokio_postgres`.
pub use deadpool_postgres as driver;

use super::{AsyncChatMemoryStore, Figures, Info};
use crate::error::Result;
use crate::memory::{Append, Appended, AsyncChatMemory, BoxFuture, Limits, MemoryId, Read};
use crate::message::Message;
use crate::record::{Incarnation, Slot, SlotVersion, Snapshot};
use ask::Query;
use connect::Connections;
pub use options::PostgresOptions;
use tls::Security;

/// Many conversations in a PostgreSQL database. A clone is a handle on the same connections.
///
/// The tables and what is promised are described in the [module](self). It runs on tokio, with
/// timers and I/O enabled.
///
/// ```no_run
/// use memory_prompt::{AsyncChatMemoryExt, Message, PostgresStore};
///
/// # async fn example() -> memory_prompt::Result<()> {
/// let store = PostgresStore::open("postgres://app:secret@localhost/chat").await?;
/// let memory = store.memory("support:u1001:c2002")?;
/// memory.add(Message::user("hi")).await?;
/// assert_eq!(memory.latest(10).await?.len(), 1);
/// # Ok(())
/// # }
/// ```
///
/// In blocking code, with the feature `tokio`:
///
/// ```no_run
/// # #[cfg(feature = "tokio")] {
/// use memory_prompt::adapt::ToBlocking;
/// use memory_prompt::{MemoryPrompt, Message, PostgresStore};
///
/// let store = ToBlocking::connect(PostgresStore::open("postgres://app:secret@localhost/chat"))?;
/// let mut prompt = MemoryPrompt::new(store.memory("support:u1001:c2002")?);
/// prompt.add(Message::user("hi"))?;
/// # }
/// # Ok::<(), memory_prompt::Error>(())
/// ```
#[derive(Clone)]
pub struct PostgresStore {
    connections: Arc<Connections>,
}

/// One conversation of a [`PostgresStore`].
#[derive(Clone)]
pub struct PostgresMemory {
    id: MemoryId,
    connections: Arc<Connections>,
}

impl PostgresStore {
    /// Opens the store in the database at this address, with the defaults of [`PostgresOptions`].
    ///
    /// # Errors
    ///
    /// As [`PostgresOptions::open`].
    pub async fn open(address: impl AsRef<str> + Send) -> Result<Self> {
        Self::options().open(address).await
    }

    /// Returns the defaults, to be changed before the store is opened.
    pub fn options() -> PostgresOptions {
        PostgresOptions::default()
    }

    /// Returns the memory of the conversation under this id. Any text is an id.
    ///
    /// # Errors
    ///
    /// None: it returns a `Result` as every store does.
    pub fn memory(&self, id: impl Into<MemoryId>) -> Result<PostgresMemory> {
        Ok(PostgresMemory { id: id.into(), connections: Arc::clone(&self.connections) })
    }

    /// Asks the server for an answer, and looks whether the tables are there.
    ///
    /// # Errors
    ///
    /// [`ErrorKind::Storage`](crate::ErrorKind::Storage) if none comes within the [timeout](PostgresOptions::timeout).
    pub async fn ping(&self) -> Result<()> {
        let connections = &self.connections;
        let sql = format!("SELECT version FROM {}", connections.tables.version);
        let ping = async { connections.ask("ping", &Query::seldom(sql, &[])).await.map(drop) };
        self.connections.watched("ping", ping).await
    }

    /// Returns what was counted since the store was opened, and its connections at this moment.
    pub fn figures(&self) -> Figures {
        self.connections.figures()
    }

    async fn over(connections: Connections) -> Result<Self> {
        create::create(&connections).await?;
        Ok(Self { connections: Arc::new(connections) })
    }
}

impl AsyncChatMemoryStore for PostgresStore {
    fn memory(&self, id: MemoryId) -> Result<Arc<dyn AsyncChatMemory>> {
        self.memory(id).map(|memory| Arc::new(memory) as Arc<dyn AsyncChatMemory>)
    }

    fn ids<'a>(
        &'a self,
        after: Option<&'a MemoryId>,
        n: usize,
    ) -> BoxFuture<'a, Result<Vec<MemoryId>>> {
        self.connections.watched("ids", listing::ids(&self.connections, "", after, n))
    }

    fn delete<'a>(&'a self, id: &'a MemoryId) -> BoxFuture<'a, Result<bool>> {
        self.connections.watched("delete", forget::delete_one(&self.connections, id))
    }

    fn purge_inactive(&self, older_than: SystemTime) -> BoxFuture<'_, Result<u64>> {
        self.connections
            .watched("purge_inactive", forget::purge_inactive(&self.connections, older_than))
    }

    fn ids_with_prefix<'a>(
        &'a self,
        prefix: &'a str,
        after: Option<&'a MemoryId>,
        n: usize,
    ) -> BoxFuture<'a, Result<Vec<MemoryId>>> {
        self.connections
            .watched("ids_with_prefix", listing::ids(&self.connections, prefix, after, n))
    }

    fn slots_with_prefix<'a>(
        &'a self,
        prefix: &'a str,
        names: &'a str,
        after: Option<(&'a MemoryId, &'a str)>,
        n: usize,
    ) -> BoxFuture<'a, Result<Vec<(MemoryId, Slot)>>> {
        self.connections
            .watched("slots", listing::slots(&self.connections, prefix, names, after, n))
    }

    fn info<'a>(&'a self, id: &'a MemoryId) -> BoxFuture<'a, Result<Option<Info>>> {
        self.connections.watched("info", listing::info(&self.connections, id))
    }

    fn delete_prefix<'a>(&'a self, prefix: &'a str) -> BoxFuture<'a, Result<u64>> {
        self.connections.watched("delete_prefix", forget::delete_prefix(&self.connections, prefix))
    }

    fn restore<'a>(
        &'a self,
        id: &'a MemoryId,
        start: u64,
        incarnation: Option<Incarnation>,
    ) -> BoxFuture<'a, Result<()>> {
        self.connections
            .watched("restore", listing::restore(&self.connections, id, start, incarnation))
    }
}

impl AsyncChatMemory for PostgresMemory {
    fn id(&self) -> &MemoryId {
        &self.id
    }

    fn append<'a>(
        &'a self,
        batch: &'a mut Vec<Message>,
        expected: Option<u64>,
    ) -> BoxFuture<'a, Result<Range<u64>>> {
        self.connections.watched("append", async move {
            let mut append = Append::new(batch.iter().cloned());
            append.expected = expected;
            let appended = append::append(&self.connections, &self.id, &mut append).await?;
            batch.clear();
            Ok(appended.positions)
        })
    }

    fn read(&self, before: Option<u64>, n: usize) -> BoxFuture<'_, Result<Snapshot>> {
        self.connections.watched("read", async move {
            let read = Read { before, n, ..Read::default() };
            read::read(&self.connections, &self.id, &read).await
        })
    }

    fn evict(&self, before: u64) -> BoxFuture<'_, Result<u64>> {
        self.connections.watched("evict", forget::evict(&self.connections, &self.id, before))
    }

    fn clear(&self) -> BoxFuture<'_, Result<()>> {
        self.connections.watched("clear", forget::clear(&self.connections, &self.id))
    }

    fn append_with<'a>(&'a self, append: &'a mut Append) -> BoxFuture<'a, Result<Appended>> {
        self.connections.watched("append", append::append(&self.connections, &self.id, append))
    }

    fn read_with<'a>(&'a self, read: &'a Read) -> BoxFuture<'a, Result<Snapshot>> {
        self.connections.watched("read", read::read(&self.connections, &self.id, read))
    }

    fn slots(&self) -> BoxFuture<'_, Result<Vec<(String, SlotVersion)>>> {
        self.connections.watched("slots", read::slots(&self.connections, &self.id))
    }

    fn limits(&self) -> Limits {
        append::LIMITS
    }
}

impl PostgresOptions {
    /// Opens the store in the database at this address, whose tables are created if there are none.
    ///
    /// An address is a URL (`postgres://user:password@host:5432/database`) or in libpq's form
    /// (`host=… user=…`); [`Config`](deadpool_postgres::tokio_postgres::Config) lists what may be
    /// in it.
    ///
    /// # Errors
    ///
    /// [`ErrorKind::Invalid`](crate::ErrorKind::Invalid) if the address, the schema or the prefix
    /// make no sense, or if there is no tokio runtime, and
    /// [`ErrorKind::Storage`](crate::ErrorKind::Storage) if the server can't be reached or refuses,
    /// or if the tables are those of something else or of a later version. They are then as they
    /// were.
    pub async fn open(self, address: impl AsRef<str> + Send) -> Result<PostgresStore> {
        PostgresStore::over(Connections::to(address.as_ref(), &self)?).await
    }

    /// Opens the store in the database that this pool is connected to.
    ///
    /// The pool decides then how many connections there are, and looks itself whether one is still
    /// there before it is used.
    ///
    /// # Errors
    ///
    /// As [`open`](Self::open).
    pub async fn over(self, pool: deadpool_postgres::Pool) -> Result<PostgresStore> {
        let place = "a pool of the caller's".to_owned();
        PostgresStore::over(Connections::over(pool, Security::Plain, place, &self)?).await
    }
}

impl fmt::Debug for PostgresStore {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let Connections { encoding, place, .. } = &*self.connections;
        let codec = &encoding.codec;
        f.debug_struct("PostgresStore").field("place", place).field("codec", codec).finish()
    }
}

impl fmt::Debug for PostgresMemory {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("PostgresMemory")
            .field("id", &self.id)
            .field("place", &self.connections.place)
            .finish_non_exhaustive()
    }
}
