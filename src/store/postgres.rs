//! Stores conversations in a PostgreSQL database.
//!
//! # The tables
//!
//! One row per message, and a view for people and other programs:
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
//! The tables are in the schema `memory_prompt` unless [`PostgresOptions::schema`] and
//! [`PostgresOptions::prefix`] say otherwise. They are created when a store is opened, by one
//! process while the others wait. `WHERE id = …` on the view reads all conversations; by `key` it
//! is one range of one index. PostgreSQL's JSON functions refuse a text that contains `\u0000`, in
//! this view as elsewhere.
//!
//! Tables of a later version are refused when a store is opened, and not written to.
//!
//! Delete conversations through the store. Nothing ties `message` to `conversation`: if a row of
//! `conversation` is deleted by hand, its messages stay readable in `message`, and each append to a
//! new conversation under that id is refused because of its positions, until they are deleted too.
//!
//! # What is left of deleted data
//!
//! Deleting, purging, evicting and clearing delete rows. As always in PostgreSQL, their bytes stay
//! in the files of the tables until a vacuum has freed their space and other rows overwrite them
//! (or `VACUUM FULL` rewrites the table), and in the write-ahead log, its archive, standbys and
//! backups as long as these are kept.
//!
//! # The rights that an account needs
//!
//! An account that creates the tables needs `CREATE` on the database, or on the schema if that
//! exists already. An account without that right can use existing tables, which
//! [`PostgresOptions::sql`] creates. It needs:
//!
//! ```sql
//! GRANT USAGE ON SCHEMA memory_prompt TO app;
//! GRANT SELECT ON memory_prompt.memory_prompt TO app;
//! GRANT SELECT, INSERT, UPDATE, DELETE ON memory_prompt.conversation, memory_prompt.message,
//!     memory_prompt.slot, memory_prompt.append, memory_prompt.media TO app;
//! ```
//!
//! To only read, it needs `SELECT`; people need `SELECT` on `memory_prompt.history`.
//!
//! # Guarantees
//!
//! - An append that returned survives what a commit survives: with PostgreSQL's default settings, a
//!   crash of the server and of its machine. With `synchronous_commit = off`, a crash loses the
//!   last appends.
//! - With a standby in `synchronous_standby_names`, an append that returned survives the loss of
//!   either machine (tested: the primary is killed under load, and the standby promoted). While no
//!   such standby answers, nothing is acknowledged: a change is
//!   [`ErrorKind::Unacknowledged`](crate::ErrorKind::Unacknowledged) when its time is up, though
//!   clients of the primary may see it. The same holds for an append that is repeated by its id,
//!   and for a clear, an eviction or a deletion that finds nothing to do: the answer waits for the
//!   standby, like the first one. (A [conflict](crate::ErrorKind::Conflict) and a read show the
//!   state of the primary.) An operator must not end that wait: for PostgreSQL, `pg_cancel_backend`
//!   then means that the change may be reported as done.
//! - An append is one transaction and one round trip. It locks the row of its conversation from the
//!   moment its position is settled until the commit, so that positions are committed in order:
//!   readers see no gaps, and appends to one conversation wait for each other. Other conversations
//!   don't wait.
//! - An id, slots and times go into the same statement as the messages, without a further round
//!   trip. The id is a unique row, so an append that is repeated undoes itself, even if the first
//!   one was committed while it waited. The newest 64 ids of a conversation are kept, and older
//!   ones are removed in the same statement. If another change wrote the slots of an append while
//!   it waited, the append is retried once, with the conversation's row locked.
//! - A read is one statement, and sees one moment, including slots and single records. Slots that
//!   it does not name are not transferred.
//! - Media from [`PostgresOptions::media_beside`] on are kept once in a conversation, in a table of
//!   their own, and the payloads of messages refer to them. They are written in the statement of
//!   the append, and deleted in the transaction that takes the last message that refers to them. If
//!   a read finds such messages, and references are not enough, a second statement fetches the
//!   bytes; if an eviction came between the two, all of it is read again.
//! - A slot holds up to 64 MiB, a batch with its slots up to 1 GB.
//! - Ids are listed in the order of their first 512 bytes, with an index of these, which also finds
//!   prefixes.
//! - Frequent statements are prepared once per connection, which costs their first use a round
//!   trip: planning an append takes a server several times as long as executing it. The store uses
//!   no other session state: no settings, no locks beyond a transaction. So it works through a
//!   transaction pooler (tested with pgbouncer). Behind a pooler without prepared statements, such
//!   as pgbouncer before 1.21, set [`prepare(false)`](PostgresOptions::prepare).
//! - An operation has one time limit, [`PostgresOptions::timeout`], for everything that it waits
//!   for: a connection, another transaction's lock, the answer. When a change is sent, the server
//!   gets nine tenths of the time left, as its `lock_timeout` and `statement_timeout`. A change
//!   that takes longer, or waits longer for a lock, is not made, and the error says so.
//! - A purge, and a deletion by prefix, deletes 64 conversations per transaction, or each alone if
//!   that takes too long. A conversation that takes too long alone is left, and the error is
//!   returned after all others are deleted; `evict` parts of it first. A purge skips locked
//!   conversations, such as those with an append under way.
//! - A request that is abandoned, because its time is up or its future was dropped, is cancelled on
//!   the server. A change ends in any case when the server's time for it is up, and its connection
//!   counts until then, so there are never more than [`PostgresOptions::max_connections`]. (Over a
//!   pool of the caller's with TLS, it is not cancelled: a read then ends when it is done.)
//! - While the server restarts, is not reachable, or has too many connections, an operation without
//!   a connection waits for one within [`PostgresOptions::timeout`].
//! - If a connection breaks, or the time is up, before the answer to a change came, the error is
//!   [`ErrorKind::Unacknowledged`](crate::ErrorKind::Unacknowledged), and the store continues with
//!   another connection. Reads are retried, and so is what PostgreSQL gave up because of another
//!   transaction (a deadlock).
//!
//! # Abandoned changes
//!
//! An abandoned change is made, not made, or made a little later. The server ends it within its own
//! time limit, by `lock_timeout` and `statement_timeout`, which starts when the server begins the
//! statement; if the server is suspended, that is when it continues. Until then the change may
//! still be made, even on top of later acknowledged ones. These are safe:
//!
//! - An append with an [id](crate::memory::Append::with_id) may be repeated, and so may one that
//!   [expects](crate::memory::Append::expecting) where the conversation ends: it is made once.
//! - [`evict`](crate::memory::AsyncChatMemory::evict) names a position, and removes nothing from
//!   there on, however late. If others append meanwhile, use it instead of a `clear` or a `delete`
//!   that may be abandoned.
//! - A purge checks again, when it is executed, which conversations are inactive.
//!
//! # How it behaves at scale
//!
//! A message takes its payload and some 120 bytes: 72 for its row, 48 in the index. (Measured with
//! 400,000 messages in 2,000 conversations that grow at the same time. With sequence numbers as
//! keys it would be some 110, but messages could not be found, or spread over machines, by the id
//! alone; with ids of 16 bytes it would be 164.) A conversation itself takes some 260 bytes,
//! including the index of ids. So 1,000,000 conversations of 200 messages of 400 bytes are
//! 200,000,000 rows and about 105 GB. The last ten messages of any of them are one range of one
//! index and up to ten pages, which are in the cache for active conversations.
//!
//! - **On one server**, an append writes a new version of the conversation's row on the same page
//!   (`fillfactor` and heap-only updates: none of 12,000 appends to 1,000 conversations touched an
//!   index for it), a row per message, and an index entry for each. Autovacuum has little to do
//!   except freezing, until conversations are evicted from or purged.
//!   [`purge_inactive`](super::AsyncChatMemoryStore::purge_inactive) reads all conversations once,
//!   since an index on a column that every append changes would slow down each append.
//! - **With standbys**, reads may go to one, through a separate store that was opened there; they
//!   are then as old as the standby.
//! - **Partitioned**: create the tables yourself, from [`PostgresOptions::sql`] with
//!   `PARTITION BY HASH (conversation)` on the table of messages, and as many partitions as you
//!   like. Every statement names the conversation, so each touches one partition. This is useful
//!   from some 100,000,000 messages on, for vacuum and for backups.
//! - **On several machines**: conversations are independent, so they may be spread over servers by
//!   their ids, with one store each. The first column of every key is the conversation, as Citus
//!   demands of tables that are distributed together; but Citus' documentation says that it
//!   supports no subqueries within `INSERT`, which an append uses, so nothing is promised there.
//! - **When a machine dies**: an address may name several hosts
//!   (`postgres://a,b/chat?target_session_attrs=read-write`), and the writable one is found when a
//!   connection is made; so a store continues by itself after a standby was promoted. It also does
//!   if the address itself moves to another machine: if a change finds a server that takes none,
//!   the store closes the connection and tries a new one, once. Data that the standby did not have
//!   yet are lost with the machine, unless the standby is synchronous. Appends under way are
//!   reported as unacknowledged.
//!
//! # TLS
//!
//! With the feature `postgres-tls`, a connection uses TLS if its address says `sslmode=require`, or
//! if `PostgresOptions::authority` or `PostgresOptions::certificate` is given. The server's
//! certificate must then be signed by this authority, or by one that the operating system trusts,
//! and must match the name in the address, even if the mode does not demand that. Other connections
//! are not encrypted, not even in the mode `prefer`, which is the default, since most servers have
//! a certificate that no authority signed.
//!
//! The password is bound to the channel if the server offers that (`SCRAM-SHA-256-PLUS`). A pool of
//! your own may use TLS in another way:
//!
//! ```text
//! let tls = tokio_postgres_rustls::MakeRustlsConnect::new(rustls_config);
//! let manager = deadpool_postgres::Manager::new(address.parse()?, tls);
//! let pool = deadpool_postgres::Pool::builder(manager).max_size(10).build()?;
//! let store = PostgresStore::options().over(pool).await?;
//! ```
//!
//! The pool is `deadpool-postgres` 0.14, re-exported [here](deadpool_postgres); it uses
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
use std::sync::Arc;
use std::time::SystemTime;

/// The pool, version 0.14, for pools of your own; it re-exports the driver as `tokio_postgres`.
pub use deadpool_postgres as driver;

use super::{AsyncChatMemoryStore, Figures, Info};
use crate::error::Result;
use crate::memory::{
    Append, Appended, AsyncChatMemory, BoxFuture, Limits, MemoryId, Read,
    append_and_read_by_the_larger_forms,
};
use crate::record::{Incarnation, Slot, SlotVersion, Snapshot};
use ask::Query;
use connect::Connections;
pub use options::PostgresOptions;
use tls::Security;

/// Many conversations in a PostgreSQL database. A clone is a handle to the same connections.
///
/// The tables and the guarantees are described in the [module](self). The store runs on tokio, with
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
    /// Opens the store in the database at this address, with the default [`PostgresOptions`].
    ///
    /// # Errors
    ///
    /// Same as [`PostgresOptions::open`].
    pub async fn open(address: impl AsRef<str> + Send) -> Result<Self> {
        Self::options().open(address).await
    }

    /// Returns the default options; change them, then open the store.
    pub fn options() -> PostgresOptions {
        PostgresOptions::default()
    }

    /// Returns the memory of the conversation under this id. Any text is an id.
    ///
    /// # Errors
    ///
    /// Never: all stores return a `Result` here.
    pub fn memory(&self, id: impl Into<MemoryId>) -> Result<PostgresMemory> {
        Ok(PostgresMemory { id: id.into(), connections: Arc::clone(&self.connections) })
    }

    /// Waits for an answer of the server, and checks that the tables exist.
    ///
    /// # Errors
    ///
    /// [`ErrorKind::Storage`](crate::ErrorKind::Storage) if none comes within the
    /// [timeout](PostgresOptions::timeout).
    pub async fn ping(&self) -> Result<()> {
        let connections = &self.connections;
        let sql = format!("SELECT version FROM {}", connections.tables.version);
        let ping = async { connections.ask("ping", &Query::seldom(sql, &[])).await.map(drop) };
        self.connections.watched("ping", ping).await
    }

    /// Returns the counts since the store was opened, and its current connections.
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

    append_and_read_by_the_larger_forms!();

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
    /// Opens the store in the database at this address. The tables are created if there are none.
    ///
    /// An address is a URL (`postgres://user:password@host:5432/database`) or in libpq's form
    /// (`host=… user=…`); [`Config`](deadpool_postgres::tokio_postgres::Config) lists its
    /// parameters.
    ///
    /// # Errors
    ///
    /// [`ErrorKind::Invalid`](crate::ErrorKind::Invalid) if the address, the schema or the prefix
    /// is malformed, or if there is no tokio runtime;
    /// [`ErrorKind::Storage`](crate::ErrorKind::Storage) if the server can't be reached or refuses,
    /// or if the tables are of another kind or a later version. They stay unchanged.
    pub async fn open(self, address: impl AsRef<str> + Send) -> Result<PostgresStore> {
        PostgresStore::over(Connections::to(address.as_ref(), &self)?).await
    }

    /// Opens the store in the database of this pool.
    ///
    /// The pool then decides how many connections there are, and checks connections before use in
    /// its own way.
    ///
    /// # Errors
    ///
    /// Same as [`open`](Self::open).
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
