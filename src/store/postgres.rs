//! This module keeps conversations in a PostgreSQL database.
//!
//! # The tables
//!
//! One row a message, and a view for people and other programs:
//!
//! ```sql
//! SELECT seq, at, payload #>> '{message,role}', payload #>> '{message,content}'
//! FROM memory_prompt.history
//! WHERE key = encode(substr(sha256('support:u1001:c2002'), 1, 16), 'hex')::uuid
//! ORDER BY seq DESC LIMIT 10;
//! ```
//!
//! | table | columns |
//! |---|---|
//! | `conversation` | `key` (the first 16 bytes of the SHA-256 of the id), `start` and `end` (the positions it holds), `active` (the last append, in milliseconds since 1970), `id` (as bytes: PostgreSQL's text can't hold NUL), `incarnation`, `slots` and `ids` (how often slots were changed, and how many appends had an id) |
//! | `message` | `conversation` (its key), `seq` (the position, or -1 for the system message), `at` (in milliseconds since 1970), `payload` |
//! | `slot` | `conversation` (its key), `name` (as bytes), `version`, `content` |
//! | `append` | `conversation` (its key), `id` of the append (as bytes), `start` and `end` (the positions of its messages), `version` (of the slots that it wrote), `number` |
//! | `history` (a view) | `key`, `id` (as text), `seq`, `at` (as a timestamp), `payload` (as `json`; null where it was written with [`Codec::Bincode`]) |
//! | `memory_prompt` | `version` |
//!
//! They are in the schema `memory_prompt` unless [`PostgresOptions::schema`] and
//! [`PostgresOptions::prefix`] say otherwise, and are created when a store is opened, by one
//! process while the others wait. `WHERE id = …` on the view reads all conversations; by
//! `key` it is one range of one index. PostgreSQL's JSON functions refuse a text that holds
//! `\u0000`, in this view as elsewhere.
//!
//! Tables of a later version are refused and not written to; that is looked at again whenever a
//! connection is opened. Those of version 1, which knew no slots, ids and incarnations, are
//! upgraded when a store is opened, in one transaction and by one process, or by
//! [`PostgresOptions::upgrade_sql`]. That writes the table of conversations anew and keeps
//! everybody else from it meanwhile (6 seconds for 1,000,000 conversations; the messages are not
//! touched); where it takes longer than [`PostgresOptions::timeout`], it is cancelled and nothing
//! was done. A process that knew version 1 and still runs can then read, and is refused where it
//! appends; end it before.
//!
//! # The rights that an account needs
//!
//! One that creates the tables needs `CREATE` on the database, or on the schema where that is there
//! already; one that upgrades them must own them. An account that may do neither can do with tables
//! that are there: [`PostgresOptions::sql`] is what creates them. It needs:
//!
//! ```sql
//! GRANT USAGE ON SCHEMA memory_prompt TO app;
//! GRANT SELECT ON memory_prompt.memory_prompt TO app;
//! GRANT SELECT, INSERT, UPDATE, DELETE ON memory_prompt.conversation, memory_prompt.message,
//!     memory_prompt.slot, memory_prompt.append TO app;
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
//!   such standby answers nothing is acknowledged: a change is [`ErrorKind::Unacknowledged`] when
//!   its time is up, though others on the primary may see it. So is the same append when it is
//!   repeated by its id, and a clear, an eviction or a deletion that finds nothing to do: the
//!   answer waits for the standby as the first one did. (A [conflict](ErrorKind::Conflict) and a
//!   read tell what is on the primary.) An operator must not end that wait: PostgreSQL takes
//!   `pg_cancel_backend` there for leave to call the change done.
//! - An append is one statement and one round trip. It locks the row of its conversation from the
//!   moment its position is settled to the commit, so that positions are committed in their order:
//!   a reader sees no gaps, and appends to one conversation wait for each other. No others do.
//! - What goes with an append goes into its statement: an id, slots and times cost no further round
//!   trip. The id is a row that there can be once, so an append that is repeated undoes itself,
//!   whatever was committed while it waited. The newest 64 of a conversation are kept, and older
//!   ones are forgotten in the same statement. An append whose slots were changed by somebody else
//!   while it waited is asked again, once, with the conversation's row locked.
//! - A read is one statement, and sees one moment, its slots and single records included. Slots
//!   that it does not name are not transferred.
//! - A slot holds up to 64 MiB, a batch with its slots up to 1 GB.
//! - Ids are listed in the order of their bytes, by an index of their first 512 bytes, which finds
//!   those with a prefix.
//! - What is asked often is prepared once a connection, beside its first answer and so without a
//!   round trip of its own: to plan an append anew takes a server several times as long as to do
//!   it. Nothing else of a session is needed: no settings, no locks beyond a transaction. So it
//!   works through a transaction pooler (tested with pgbouncer). A store finds out by itself
//!   whether there is one between: then it prepares only where the pooler gives statements names of
//!   its own, as pgbouncer does since 1.21.
//! - An operation has one time, [`PostgresOptions::timeout`], whatever it waits for: a connection,
//!   what was given up before it, somebody else's lock, the answer. Of what is left when it is sent
//!   the server gets nine tenths. A change that waits for a lock for longer is an error of
//!   something not done, and so is an eviction, a clear or a deletion that takes longer.
//! - A purge, and a deletion by prefix, deletes as many conversations at once as can be deleted in
//!   that time, 256 at most. One that takes too long alone is left, and the error comes when all
//!   others are deleted; `evict` parts of it first. A purge passes over those that somebody has
//!   locked: whoever appends to one does.
//! - What is given up, since the time is up or its future was dropped, is cancelled on the server
//!   where it does not end by itself in a moment. Its connection counts until then, so there are
//!   never more than [`PostgresOptions::max_connections`]. (Over a pool of the caller's that speaks
//!   TLS it is not cancelled, but its connection is closed when the timeout is over.)
//! - While the server is restarted, or not there, or has too many connections, whoever has no
//!   connection waits for one within [`PostgresOptions::timeout`].
//! - Where a connection breaks, or the time is up, before the answer to a change came, the error is
//!   [`ErrorKind::Unacknowledged`], and the store goes on with another connection. Reads are asked
//!   again, and so is what PostgreSQL gave up because of somebody else (deadlocks, and conflicts
//!   where the default isolation is stricter than `read committed`).
//!
//! # What becomes of a change that was given up
//!
//! It is done, or not done, or done later; nobody knows which. How late it can be:
//!
//! - Whoever changes the same conversation next through this store, or a clone of it, waits until
//!   the server is done with it. So it is not done over what was acknowledged after it.
//! - In any case it carries its time with it, by the server's clock, which is looked at when the
//!   row of the conversation is locked: a server that finds it later, since it stood still, undoes
//!   it. So none is done later than [`PostgresOptions::timeout`] after it was asked, as far as that
//!   clock was not set back meanwhile; and where a pooler leads to several servers, as far as their
//!   clocks agree.
//! - Where the connection broke, or for other processes, that time is all there is. Then these are
//!   safe: an append with an [id](crate::memory::Append::with_id) may be repeated, and so may one
//!   that [expects](crate::memory::Append::expecting) where the conversation ends: it is done once.
//!   [`evict`](crate::memory::AsyncChatMemory::evict) names a position, and takes nothing behind
//!   it, however late; in place of `clear` and `delete`, where others append meanwhile, it is the
//!   one to take. A purge looks again, when it is done, which conversations are inactive.
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
//!   found when a connection is made; so a store goes on by itself where a standby was promoted. So
//!   it does where the address itself moves to another machine: a connection on which a change
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
//! where the mode is `prefer`, as it is unless set, since most servers have a certificate that
//! nobody signed.
//!
//! A pool of your own may do it in another way, or bind the password to the channel
//! (`SCRAM-SHA-256-PLUS`, which a store can't):
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
mod backend;
mod connect;
mod failure;
mod lease;
mod listing;
mod options;
mod read;
#[cfg(feature = "postgres-tls")]
mod rustls;
mod schema;
mod session;
mod settling;
mod statements;
mod tls;
mod upgrade;

use std::fmt;
use std::ops::Range;
use std::sync::Arc;
use std::time::SystemTime;

/// The pool, version 0.14, which can be handed in; the driver is its `tokio_postgres`.
pub use deadpool_postgres as driver;
use deadpool_postgres::tokio_postgres::types::Type;
use deadpool_postgres::tokio_postgres::{self, Row};

use super::common::{Payloads, conflict, must_end_at, signed, unsigned};
use super::{AsyncChatMemoryStore, Figures, Info};
use crate::codec::Codec;
use crate::error::{Error, ErrorKind, Result};
use crate::memory::{
    Append, Appended, AsyncChatMemory, BoxFuture, Limits, MemoryId, Read, SlotChange,
};
use crate::message::Message;
use crate::record::{Incarnation, SlotVersion, Snapshot, millis};
use append::Shape;
use ask::{Change, Parameter};
use connect::Connections;
pub use options::PostgresOptions;
use statements::{Statements, key_of};

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
    shared: Arc<Shared>,
}

/// One conversation of a [`PostgresStore`].
#[derive(Clone)]
pub struct PostgresMemory {
    id: MemoryId,
    shared: Arc<Shared>,
}

struct Shared {
    connections: Connections,
    statements: Statements,
    codec: Codec,
    /// The place of the data, for debug output.
    place: String,
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
        Ok(PostgresMemory { id: id.into(), shared: Arc::clone(&self.shared) })
    }

    /// Asks the server for an answer, and looks whether the tables are there.
    ///
    /// # Errors
    ///
    /// [`ErrorKind::Storage`] where none comes within the [timeout](PostgresOptions::timeout).
    pub async fn ping(&self) -> Result<()> {
        let Shared { connections, statements, .. } = &*self.shared;
        let ping = async { connections.ask("ping", &[], ask::Read(&statements.ping, &[])).await };
        self.shared.watched("ping", async { ping.await.map(drop) }).await
    }

    /// Returns what was counted since the store was opened, and its connections at this moment.
    pub fn figures(&self) -> Figures {
        self.shared.connections.figures()
    }
}

impl Shared {
    fn watched<'a, T>(
        &'a self,
        operation: &'static str,
        work: impl Future<Output = Result<T>> + Send + 'a,
    ) -> BoxFuture<'a, Result<T>> {
        self.connections.watch.operation(operation, work)
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
        self.shared.watched("ids", listing::ids(&self.shared, "", after, n))
    }

    fn delete<'a>(&'a self, id: &'a MemoryId) -> BoxFuture<'a, Result<bool>> {
        self.shared.watched("delete", async move {
            Ok(listing::delete(&self.shared, "delete", &[id]).await? > 0)
        })
    }

    fn purge_inactive(&self, older_than: SystemTime) -> BoxFuture<'_, Result<u64>> {
        self.shared.watched("purge_inactive", listing::purge_inactive(&self.shared, older_than))
    }

    fn ids_with_prefix<'a>(
        &'a self,
        prefix: &'a str,
        after: Option<&'a MemoryId>,
        n: usize,
    ) -> BoxFuture<'a, Result<Vec<MemoryId>>> {
        self.shared.watched("ids_with_prefix", listing::ids(&self.shared, prefix, after, n))
    }

    fn info<'a>(&'a self, id: &'a MemoryId) -> BoxFuture<'a, Result<Option<Info>>> {
        self.shared.watched("info", listing::info(&self.shared, id))
    }

    fn delete_prefix<'a>(&'a self, prefix: &'a str) -> BoxFuture<'a, Result<u64>> {
        self.shared.watched("delete_prefix", listing::delete_prefix(&self.shared, prefix))
    }

    fn restore<'a>(
        &'a self,
        id: &'a MemoryId,
        start: u64,
        incarnation: Option<Incarnation>,
    ) -> BoxFuture<'a, Result<()>> {
        self.shared.watched("restore", listing::restore(&self.shared, id, start, incarnation))
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
        self.shared.watched("append", self.append_messages(batch, expected))
    }

    fn read(&self, before: Option<u64>, n: usize) -> BoxFuture<'_, Result<Snapshot>> {
        let read = Read { before, n, ..Read::default() };
        self.shared.watched("read", async move { read::read(self, &read).await })
    }

    fn evict(&self, before: u64) -> BoxFuture<'_, Result<u64>> {
        self.shared.watched("evict", async move {
            let Shared { connections, statements, .. } = &*self.shared;
            let script = statements.evict(&key_of(&self.id), signed(before));
            let counts = connections.ask("evict", &[&self.id], script).await?;
            Ok(counts.last().copied().unwrap_or(0))
        })
    }

    fn clear(&self) -> BoxFuture<'_, Result<()>> {
        self.shared.watched("clear", async move {
            let Shared { connections, statements, .. } = &*self.shared;
            let script = statements.clear(&key_of(&self.id));
            connections.ask("clear", &[&self.id], script).await.map(|_| ())
        })
    }

    fn append_with<'a>(&'a self, append: &'a mut Append) -> BoxFuture<'a, Result<Appended>> {
        self.shared.watched("append", append::append_with(self, append))
    }

    fn read_with<'a>(&'a self, read: &'a Read) -> BoxFuture<'a, Result<Snapshot>> {
        self.shared.watched("read", read::read(self, read))
    }

    fn slots(&self) -> BoxFuture<'_, Result<Vec<(String, SlotVersion)>>> {
        self.shared.watched("slots", read::slots(self))
    }

    fn limits(&self) -> Limits {
        LIMITS
    }
}

impl PostgresMemory {
    /// Appends what is nothing but messages.
    async fn append_messages(
        &self,
        batch: &mut Vec<Message>,
        expected: Option<u64>,
    ) -> Result<Range<u64>> {
        let payloads = Payloads::of("postgres", self.shared.codec, batch)?;
        check_size(&payloads, &[])?;
        if batch.is_empty() {
            return must_end_at("postgres", expected, self.end().await?);
        }
        let Shared { connections, statements, .. } = &*self.shared;
        // What is expected to be there already must not be created.
        let append = statements.append(Shape::plain(expected.is_none_or(|it| it == 0)));
        let parameters: [Parameter<'_>; 6] = [
            (&self.id.as_str().as_bytes(), Type::BYTEA),
            (&signed(millis(SystemTime::now())), Type::INT8),
            (&payloads.messages, Type::BYTEA_ARRAY),
            (&payloads.system, Type::BYTEA),
            (&expected.map(signed), Type::INT8),
            (&Incarnation::random().to_bits().cast_signed(), Type::INT8),
        ];
        loop {
            let rows = connections.ask("append", &[&self.id], Change(append, &parameters)).await?;
            if let Some(row) = rows.first() {
                let end = unsigned(value(row, 0)?);
                batch.clear();
                return Ok(end.saturating_sub(payloads.messages.len() as u64)..end);
            }
            // The end is asked for by another statement, and by then the conversation may have come
            // to end where it was expected to: the append is tried again. That ends, since each
            // append by others moves the end on.
            let end = self.end().await?;
            if expected != Some(end) {
                return Err(conflict("postgres", expected.unwrap_or(0), end));
            }
            connections.watch.lost_race("append");
        }
    }

    async fn end(&self) -> Result<u64> {
        Ok(read::read(self, &Read::newest(0)).await?.end)
    }
}

/// Refuses a batch that is too large: it would end the session.
fn check_size(payloads: &Payloads, slots: &[SlotChange]) -> Result<()> {
    let bytes: usize = payloads.sizes(slots).sum();
    if bytes + 8 * payloads.sizes(slots).count() > MOST_BYTES {
        let text = format!("postgres: a batch holds 1 GB at most, and this one {bytes} bytes");
        return Err(Error::new(ErrorKind::Storage, "append", text));
    }
    Ok(())
}

/// Returns a column of a row. Only somebody else's tables could hold another type.
fn value<'a, T: tokio_postgres::types::FromSql<'a>>(row: &'a Row, column: usize) -> Result<T> {
    row.try_get(column).map_err(|error| failure::fail("read", error))
}

impl fmt::Debug for PostgresStore {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let Shared { codec, place, .. } = &*self.shared;
        f.debug_struct("PostgresStore").field("place", place).field("codec", codec).finish()
    }
}

impl fmt::Debug for PostgresMemory {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let place = &self.shared.place;
        f.debug_struct("PostgresMemory")
            .field("id", &self.id)
            .field("place", place)
            .finish_non_exhaustive()
    }
}

/// The most that one message to the server may hold, less some room for the rest of it.
const MOST_BYTES: usize = 0x3fff_ffff - 0x1_0000;

/// The largest slot: those of more than some KB are better messages.
const MOST_SLOT: usize = 64 << 20;

const LIMITS: Limits =
    Limits { message: MOST_BYTES - 8, batch: MOST_BYTES, slot: MOST_SLOT, ids: append::IDS };
