//! Conversations in one SQLite file.
//!
//! # The file
//!
//! One row a message, and a view for people and other programs:
//!
//! ```sql
//! -- sqlite3 chat.db
//! SELECT seq, at, payload ->> '$.message.role', payload ->> '$.message.content'
//! FROM history WHERE id = 'support:u1001:c2002' ORDER BY key DESC LIMIT 10;
//! ```
//!
//! | table | columns |
//! |---|---|
//! | `conversation` | `key`, `id`, `start` and `end` (the positions it holds), `active` (the last append, in milliseconds since 1970), `system` |
//! | `message` | `key` (that of the conversation times 2³² plus the position), `at` (in milliseconds since 1970), `payload` |
//! | `history` (a view) | `id`, `seq`, `at` (as text, in UTC), `payload`, and `key`: sorted by it, the newest ten are read and no more, whereas `seq` is computed for all of a conversation before it is sorted |
//!
//! Payloads are text with [`Codec::Json`] and blobs with [`Codec::Bincode`]; both are read, whichever
//! is configured. Messages of one conversation lie side by side in one tree, so the newest ten are a
//! page or two, however many there are. (Measured against a table without rowid under `(conversation,
//! seq)`: messages of 1,500 bytes take less than half the space and are read in less than half the
//! time, since such a table moves long rows out to pages of their own; and against a table with an
//! index, whose newest ten lie on ten pages.)
//!
//! The file knows what it is (`application_id` 0x6d70726d, "mprm") and of which version
//! (`user_version`). A file that is something else, or of a later version, is refused and not written
//! to; tables of your own may be added to it once it is one of these.
//!
//! # What is promised
//!
//! - An append that returned survives a crash of the process and, with [`Durability::Full`], of the
//!   machine. One that did not return is there whole or not at all.
//! - Any number of threads and processes may use the file at once. Writers take turns, also where one
//!   process writes without a pause; a writer waits for as long as [`SqliteOptions::busy_timeout`] says.
//!   Readers wait for nobody.
//! - Threads that write at once through one store (or clones of it) share the wait for the disk: what came
//!   meanwhile goes into one commit, and each append still succeeds or fails alone.
//! - Once it is closed, the store is one file. While it is open there are three beside it: `-wal` and
//!   `-shm`, which are SQLite's and belong to the data, and the empty `-turn`, by which processes take
//!   turns.
//! - A file that is opened [read-only](SqliteOptions::read_only) may lie on media that can't be written to,
//!   if it was closed before it was put there: a log beside it would have to be worked in first.
//! - A file on a network drive is only as safe as its locks: SQLite advises against it.
//!
//! # What is left of what was deleted
//!
//! Deleting, purging, evicting and clearing take messages out of the tables. As SQLite does it, their
//! bytes stay in the file until something else is written there, and in the log until that begins anew.
//! Who must erase sets [`SqliteOptions::secure_delete`], by which SQLite writes zeros over them, and calls
//! [`SqliteStore::vacuum`] afterwards, which empties the log; for a file that was written without it,
//! `vacuum` alone leaves nothing in file and log. What copies, backups, the file system and the disk keep
//! is another matter.

mod connect;
mod purge;
mod schema;
mod turn;
mod writer;

use std::fmt;
use std::ops::Range;
use std::path::{Path, PathBuf};
use std::sync::Arc;
use std::time::{Duration, SystemTime};

use rusqlite::types::{ToSqlOutput, ValueRef};
use rusqlite::{Connection, ErrorCode, OptionalExtension, Row, ToSql, params};

use super::ChatMemoryStore;
use super::common::{Payloads, at, conflict, no_system, nothing, signed, unsigned};
use crate::codec::{self, Codec};
use crate::error::{Error, ErrorKind, Result};
use crate::memory::{ChatMemory, MemoryId};
use crate::message::Message;
use crate::record::{Records, Snapshot, Unreadable, millis};
use connect::Connections;

/// Many conversations in one SQLite file. A clone is a handle on the same connections.
///
/// The file, its tables and what is promised are described in the [module](self).
///
/// ```
/// use memory_prompt::{ChatMemoryExt, Message, SqliteStore};
///
/// # let folder = std::env::temp_dir().join(format!("memory-prompt-doc-{}", std::process::id()));
/// # std::fs::create_dir_all(&folder)?;
/// # let path = folder.join("chat.db");
/// let memory = SqliteStore::open(&path)?.memory("support:u1001:c2002")?;
/// memory.add(Message::user("hi"))?;
/// drop(memory);
///
/// // In another process, tomorrow:
/// let memory = SqliteStore::open(&path)?.memory("support:u1001:c2002")?;
/// assert_eq!(memory.latest(10)?.len(), 1);
/// # std::fs::remove_dir_all(&folder)?;
/// # Ok::<(), Box<dyn std::error::Error>>(())
/// ```
#[derive(Clone)]
pub struct SqliteStore {
    shared: Arc<Shared>,
}

/// One conversation of a [`SqliteStore`].
#[derive(Clone)]
pub struct SqliteMemory {
    id: MemoryId,
    shared: Arc<Shared>,
}

struct Shared {
    connections: Connections,
    codec: Codec,
}

/// Where the data are, for people.
enum Place {
    File(PathBuf),
    InMemory,
    OwnConnection,
}

/// How a [`SqliteStore`] is opened.
///
/// ```
/// use memory_prompt::{ChatMemoryExt, Codec, Durability, Message, SqliteStore};
///
/// let store = SqliteStore::options()
///     .codec(Codec::Bincode)
///     .durability(Durability::Process)
///     .in_memory()?;
/// store.memory("a:b:c")?.add(Message::user("hi"))?;
/// # Ok::<(), memory_prompt::Error>(())
/// ```
#[derive(Clone)]
pub struct SqliteOptions {
    codec: Codec,
    durability: Durability,
    busy_timeout: Duration,
    read_only: bool,
    secure_delete: bool,
    on_connect: Option<OnConnect>,
}

type OnConnect = Arc<dyn Fn(&mut Connection) -> rusqlite::Result<()> + Send + Sync>;

/// What an append that returned survives.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
#[non_exhaustive]
pub enum Durability {
    /// A crash of the process, of the machine, and a power cut: each append waits for the disk.
    #[default]
    Full,
    /// A crash of the process. A crash of the machine may take the last appends with it, but each one
    /// whole, and never harms the file. An append is then ten to fifty times faster, by the disk.
    Process,
}

impl SqliteStore {
    /// The store in the file at this path, which is created where there is none, with the defaults of
    /// [`SqliteOptions`].
    ///
    /// # Errors
    ///
    /// [`ErrorKind::Storage`] where the file can't be opened, or is no such store, or of a later
    /// version. It is then as it was, byte for byte.
    pub fn open(path: impl AsRef<Path>) -> Result<Self> {
        Self::options().open(path)
    }

    /// The defaults, to be changed before the store is opened.
    pub fn options() -> SqliteOptions {
        SqliteOptions {
            codec: Codec::Json,
            durability: Durability::Full,
            busy_timeout: Duration::from_secs(5),
            read_only: false,
            secure_delete: false,
            on_connect: None,
        }
    }

    /// The memory of the conversation under this id. Any text is an id.
    ///
    /// # Errors
    ///
    /// None: it returns a `Result` as every store does.
    pub fn memory(&self, id: impl Into<MemoryId>) -> Result<SqliteMemory> {
        Ok(SqliteMemory { id: id.into(), shared: Arc::clone(&self.shared) })
    }

    /// Writes the file anew without what is free in it, and empties the log: the file is then as small as
    /// it can be, and nothing of what was [deleted](self#what-is-left-of-what-was-deleted) is left in
    /// either.
    ///
    /// It takes as long as writing all that is kept, and twice its room; others wait to write meanwhile.
    ///
    /// # Errors
    ///
    /// [`ErrorKind::Storage`] where the store failed, where there is no room, or where somebody wrote, or
    /// read all the while, for longer than the busy timeout.
    pub fn vacuum(&self) -> Result<()> {
        self.shared.connections.vacuum()
    }
}

impl SqliteOptions {
    /// How new messages are written; [`Codec::Json`] unless set. Every codec is read.
    #[must_use]
    pub fn codec(mut self, codec: Codec) -> Self {
        self.codec = codec;
        self
    }

    /// What an append that returned survives; [`Durability::Full`] unless set.
    #[must_use]
    pub fn durability(mut self, durability: Durability) -> Self {
        self.durability = durability;
        self
    }

    /// How long to wait for other processes that write; 5 seconds unless set.
    #[must_use]
    pub fn busy_timeout(mut self, timeout: Duration) -> Self {
        self.busy_timeout = timeout;
        self
    }

    /// Opens the file for reading alone: it must exist, and every change is an error.
    ///
    /// On media that can't be written to, and in a folder that only others may write to, the file is read
    /// as it lies there as long as there is no log beside it.
    #[must_use]
    pub fn read_only(mut self, read_only: bool) -> Self {
        self.read_only = read_only;
        self
    }

    /// Writes zeros over what is deleted; off unless set, since it costs as much as writing it did.
    ///
    /// The log keeps the bytes for a while: see
    /// [what is left of what was deleted](self#what-is-left-of-what-was-deleted).
    #[must_use]
    pub fn secure_delete(mut self, secure_delete: bool) -> Self {
        self.secure_delete = secure_delete;
        self
    }

    /// Does this with each connection that is opened, before anything else is: keys, extensions,
    /// `PRAGMA cache_size`, `max_page_count` …
    ///
    /// Whoever interrupts connections: SQLite may report that it was interrupted for a commit that it
    /// has done.
    #[must_use]
    pub fn on_connect(
        mut self,
        action: impl Fn(&mut Connection) -> rusqlite::Result<()> + Send + Sync + 'static,
    ) -> Self {
        self.on_connect = Some(Arc::new(action));
        self
    }

    /// The store in the file at this path, which is created where there is none.
    ///
    /// # Errors
    ///
    /// As [`SqliteStore::open`].
    pub fn open(self, path: impl AsRef<Path>) -> Result<SqliteStore> {
        let path = path.as_ref().to_owned();
        if path.as_os_str().is_empty() || path.as_os_str() == ":memory:" {
            // Each connection to such a name is a database of its own.
            let text = "sqlite: a file has a name; for none, take `in_memory`";
            return Err(Error::invalid("open", text));
        }
        let codec = self.codec;
        let connections = Connections::open(Place::File(path.clone()), &path, self)?;
        Ok(SqliteStore::over(connections, codec))
    }

    /// A store in the memory of this process, which is gone when its last handle is.
    ///
    /// # Errors
    ///
    /// [`ErrorKind::Storage`] where SQLite refuses.
    pub fn in_memory(self) -> Result<SqliteStore> {
        let place = Place::InMemory;
        let connection =
            Connection::open_in_memory().map_err(|error| failed("open", error, &place))?;
        let connections = Connections::shared(place, connection, &self)?;
        Ok(SqliteStore::over(connections, self.codec))
    }

    /// A store over a connection of your own, which serves reads and writes alike.
    ///
    /// Its journal mode, its synchronous setting and its timeout stay as they are, and with them what
    /// an append survives.
    ///
    /// # Errors
    ///
    /// As [`SqliteStore::open`].
    pub fn over(self, connection: Connection) -> Result<SqliteStore> {
        let connections = Connections::shared(Place::OwnConnection, connection, &self)?;
        Ok(SqliteStore::over(connections, self.codec))
    }
}

impl SqliteStore {
    fn over(connections: Connections, codec: Codec) -> Self {
        Self { shared: Arc::new(Shared { connections, codec }) }
    }
}

impl ChatMemoryStore for SqliteStore {
    fn memory(&self, id: MemoryId) -> Result<Arc<dyn ChatMemory>> {
        self.memory(id).map(|memory| Arc::new(memory) as Arc<dyn ChatMemory>)
    }

    fn ids(&self, after: Option<&MemoryId>, n: usize) -> Result<Vec<MemoryId>> {
        self.shared.connections.read("ids", |connection| {
            // An empty text is an id too, so "after nothing" is a question of its own.
            let mut ids = connection.prepare_cached(after.map_or(FIRST_IDS, |_| NEXT_IDS))?;
            let mut rows = match after {
                None => ids.query([signed(n)])?,
                Some(after) => ids.query(params![after.as_str(), signed(n)])?,
            };
            let mut ids = Vec::new();
            while let Some(row) = rows.next()? {
                ids.push(MemoryId::from(row.get::<_, String>(0)?));
            }
            Ok(ids)
        })
    }

    /// As the trait says. What is left of its bytes in the file is described in the
    /// [module](self#what-is-left-of-what-was-deleted).
    fn delete(&self, id: &MemoryId) -> Result<bool> {
        let id = id.clone();
        self.shared.connections.write("delete", move |connection| {
            let found = find(connection, &id)?;
            if let Some(found) = &found {
                forget(connection, found.key)?;
            }
            Ok(found.is_some())
        })
    }

    fn purge_inactive(&self, older_than: SystemTime) -> Result<u64> {
        purge::inactive(&self.shared.connections, signed(millis(older_than)))
    }
}

impl ChatMemory for SqliteMemory {
    fn id(&self) -> &MemoryId {
        &self.id
    }

    fn append(&self, batch: &mut Vec<Message>, expected: Option<u64>) -> Result<Range<u64>> {
        // All that can be done beforehand is, so that others wait for the rest alone.
        let codec = self.shared.codec;
        let Payloads { system, messages } = Payloads::of("sqlite", codec, batch)?;
        if batch.is_empty() {
            let end = self.shared.connections.read("append", |connection| {
                Ok(find(connection, &self.id)?.map_or(0, |found| unsigned(found.end)))
            })?;
            return nothing("sqlite", expected, end);
        }
        let at = signed(millis(SystemTime::now()));
        let count = signed(messages.len());
        let id = self.id.clone();
        let positions = self.shared.connections.write("append", move |connection| {
            let system = system.as_deref().map(|payload| Payload(codec, payload));
            let extended = connection
                .prepare_cached(EXTEND)?
                .query_row(
                    params![id.as_str(), count, at, system, expected.map(signed)],
                    |row| Ok((row.get(0)?, row.get(1)?)),
                )
                .optional()?;
            let (key, end): (i64, i64) = match extended {
                Some(extended) => extended,
                // Either there is no such conversation yet, or it ends elsewhere.
                None => match (find(connection, &id)?, expected) {
                    (Some(found), expected) => {
                        let expected = expected.unwrap_or(u64::MAX);
                        return Err(conflict("sqlite", expected, unsigned(found.end)).into());
                    }
                    (None, Some(expected)) if expected > 0 => {
                        return Err(conflict("sqlite", expected, 0).into());
                    }
                    (None, _) => {
                        let new = params![id.as_str(), count, at, system];
                        connection.prepare_cached(CREATE)?.execute(new)?;
                        (connection.last_insert_rowid(), count)
                    }
                },
            };
            if end > MOST_MESSAGES || key > MOST_CONVERSATIONS {
                let text = "sqlite: a conversation holds 2^32 messages at most, and a file 2^31 conversations";
                return Err(Error::new(ErrorKind::Storage, "append", text).into());
            }
            let first = end - count;
            let mut insert = connection.prepare_cached(INSERT)?;
            for (key, payload) in (first_key(key) + first..).zip(messages.iter().map(|payload| Payload(codec, payload))) {
                insert.execute(params![key, at, payload])?;
            }
            Ok(unsigned(first)..unsigned(end))
        })?;
        batch.clear();
        Ok(positions)
    }

    fn read(&self, before: Option<u64>, n: usize) -> Result<Snapshot> {
        self.shared.connections.read("read", |connection| {
            let mut conversation = connection.prepare_cached(CONVERSATION)?;
            let mut rows = conversation.query([self.id.as_str()])?;
            let Some(row) = rows.next()? else {
                return Ok(Snapshot::default());
            };
            let found = Found::from_row(row)?;
            let mut snapshot = Snapshot {
                system: system(row.get_ref(3)?)?,
                start: unsigned(found.start),
                end: unsigned(found.end),
                ..Snapshot::default()
            };
            let before = before.map_or(found.end, signed).min(found.end);
            if n == 0 || before <= found.start {
                return Ok(snapshot);
            }
            let first = first_key(found.key);
            let mut newest = connection.prepare_cached(NEWEST)?;
            let mut rows = newest.query([
                first.wrapping_add(found.start),
                first.wrapping_add(before),
                signed(n),
            ])?;
            let mut read = Vec::with_capacity(n.min(64));
            while let Some(row) = rows.next()? {
                let seq = unsigned(row.get::<_, i64>(0)?.wrapping_sub(first));
                let at = at(unsigned(row.get(1)?));
                match decode(row.get_ref(2)?) {
                    Ok(message) => read.push((seq, at, message)),
                    Err(error) => {
                        snapshot.unreadable.push(Unreadable { seq, error: Arc::new(error) });
                    }
                }
            }
            read.reverse();
            snapshot.unreadable.reverse();
            snapshot.records = Records::from_rows(read);
            Ok(snapshot)
        })
    }

    fn evict(&self, before: u64) -> Result<u64> {
        let id = self.id.clone();
        self.shared.connections.write("evict", move |connection| {
            let Some(found) = find(connection, &id)? else { return Ok(0) };
            let before = signed(before).min(found.end);
            if before <= found.start {
                return Ok(0);
            }
            connection.prepare_cached(SET_START)?.execute(params![found.key, before])?;
            let first = first_key(found.key);
            let gone =
                connection.prepare_cached(EVICT)?.execute([first, first.wrapping_add(before)])?;
            Ok(gone as u64)
        })
    }

    fn clear(&self) -> Result<()> {
        let id = self.id.clone();
        self.shared.connections.write("clear", move |connection| {
            let Some(found) = find(connection, &id)? else { return Ok(()) };
            let first = first_key(found.key);
            connection.prepare_cached(EVICT)?.execute([first, first.wrapping_add(found.end)])?;
            connection.prepare_cached(CLEAR)?.execute([found.key])?;
            Ok(())
        })
    }
}

/// Where a conversation lies.
struct Found {
    key: i64,
    start: i64,
    end: i64,
}

impl Found {
    fn from_row(row: &Row<'_>) -> rusqlite::Result<Self> {
        Ok(Self { key: row.get(0)?, start: row.get(1)?, end: row.get(2)? })
    }
}

fn find(connection: &Connection, id: &MemoryId) -> rusqlite::Result<Option<Found>> {
    let mut conversation = connection.prepare_cached(CONVERSATION)?;
    conversation.query_row([id.as_str()], Found::from_row).optional()
}

fn forget(connection: &Connection, key: i64) -> rusqlite::Result<()> {
    let first = first_key(key);
    let past = first.wrapping_add(MOST_MESSAGES);
    connection.prepare_cached(EVICT)?.execute([first, past])?;
    connection.prepare_cached(DELETE)?.execute([key])?;
    Ok(())
}

/// A message in its codec: JSON as text, so that SQLite's own functions read it.
struct Payload<'a>(Codec, &'a [u8]);

impl ToSql for Payload<'_> {
    fn to_sql(&self) -> rusqlite::Result<ToSqlOutput<'_>> {
        Ok(ToSqlOutput::Borrowed(match self {
            Self(Codec::Json, bytes) => ValueRef::Text(bytes),
            Self(_, bytes) => ValueRef::Blob(bytes),
        }))
    }
}

fn decode(payload: ValueRef<'_>) -> Result<Message> {
    match payload {
        ValueRef::Text(bytes) | ValueRef::Blob(bytes) => codec::decode(bytes),
        _ => Err(Error::new(
            ErrorKind::Codec,
            "read",
            "sqlite: the payload is neither text nor blob",
        )),
    }
}

fn system(payload: ValueRef<'_>) -> Result<Option<Arc<Message>>> {
    if payload == ValueRef::Null {
        return Ok(None);
    }
    let message = decode(payload).map_err(|error| no_system("sqlite", error))?;
    Ok(Some(Arc::new(message)))
}

/// What went wrong inside of a transaction.
enum Trouble {
    Sqlite(rusqlite::Error),
    /// What we say of a file.
    Refused(String),
    Ours(Error),
}

impl From<rusqlite::Error> for Trouble {
    fn from(error: rusqlite::Error) -> Self {
        Self::Sqlite(error)
    }
}

impl From<Error> for Trouble {
    fn from(error: Error) -> Self {
        Self::Ours(error)
    }
}

impl Trouble {
    fn during(self, operation: &'static str, place: &Place) -> Error {
        match self {
            Self::Sqlite(error) => failed(operation, error, place),
            Self::Refused(text) => {
                Error::new(ErrorKind::Storage, operation, format!("sqlite: {text} ({place})"))
            }
            Self::Ours(error) => error,
        }
    }
}

/// SQLite's error in words that say what to do about it, and then where, and in its own words.
fn failed(operation: &'static str, error: rusqlite::Error, place: &Place) -> Error {
    let text = match error.sqlite_error_code() {
        Some(ErrorCode::DatabaseBusy | ErrorCode::DatabaseLocked) => {
            "somebody else wrote for longer than the busy timeout"
        }
        Some(ErrorCode::DiskFull) => "the disk is full",
        Some(ErrorCode::ReadOnly) => "the file is read-only",
        Some(ErrorCode::CannotOpen) => "the file can't be opened",
        Some(ErrorCode::NotADatabase) => "the file is no database",
        Some(ErrorCode::DatabaseCorrupt) => "the file is damaged",
        _ => "the operation failed",
    };
    let (place, words) = (place.to_string(), error.to_string());
    let place = if words.contains(&place) { String::new() } else { place + ": " };
    let text = format!("sqlite: {text} ({place}{words})");
    Error::new(ErrorKind::Storage, operation, text).with_source(error)
}

/// The key of the first message that a conversation can have.
fn first_key(conversation: i64) -> i64 {
    conversation.wrapping_mul(MOST_MESSAGES)
}

impl fmt::Display for Place {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::File(path) => path.display().fmt(f),
            Self::InMemory => f.write_str("in memory"),
            Self::OwnConnection => f.write_str("a connection of the caller's"),
        }
    }
}

impl fmt::Debug for Place {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::File(path) => path.fmt(f),
            other => write!(f, "{other}"),
        }
    }
}

impl fmt::Debug for SqliteStore {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let Shared { codec, connections } = &*self.shared;
        let place = connections.place();
        f.debug_struct("SqliteStore").field("place", place).field("codec", codec).finish()
    }
}

impl fmt::Debug for SqliteMemory {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let place = self.shared.connections.place();
        f.debug_struct("SqliteMemory")
            .field("id", &self.id)
            .field("place", place)
            .finish_non_exhaustive()
    }
}

impl fmt::Debug for SqliteOptions {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("SqliteOptions")
            .field("codec", &self.codec)
            .field("durability", &self.durability)
            .field("busy_timeout", &self.busy_timeout)
            .field("read_only", &self.read_only)
            .field("secure_delete", &self.secure_delete)
            .field("on_connect", &self.on_connect.is_some())
            .finish()
    }
}

/// A message's key is its conversation's key times this, plus its position.
const MOST_MESSAGES: i64 = 1 << 32;
const MOST_CONVERSATIONS: i64 = (1 << 31) - 1;

const CONVERSATION: &str = r#"SELECT key, start, "end", system FROM conversation WHERE id = ?1"#;
const CREATE: &str =
    r#"INSERT INTO conversation (id, start, "end", active, system) VALUES (?1, 0, ?2, ?3, ?4)"#;
/// Finds the conversation, checks where it ends and moves its end, all in one.
const EXTEND: &str = r#"
    UPDATE conversation
    SET "end" = "end" + ?2, active = max(active, ?3), system = coalesce(?4, system)
    WHERE id = ?1 AND (?5 IS NULL OR "end" = ?5)
    RETURNING key, "end""#;
const INSERT: &str = "INSERT INTO message (key, at, payload) VALUES (?1, ?2, ?3)";
const NEWEST: &str =
    "SELECT key, at, payload FROM message WHERE key >= ?1 AND key < ?2 ORDER BY key DESC LIMIT ?3";
const SET_START: &str = "UPDATE conversation SET start = ?2 WHERE key = ?1";
const EVICT: &str = "DELETE FROM message WHERE key >= ?1 AND key < ?2";
const CLEAR: &str = r#"UPDATE conversation SET start = "end", system = NULL WHERE key = ?1"#;
const DELETE: &str = "DELETE FROM conversation WHERE key = ?1";
const FIRST_IDS: &str = "SELECT id FROM conversation ORDER BY id LIMIT ?1";
const NEXT_IDS: &str = "SELECT id FROM conversation WHERE id > ?1 ORDER BY id LIMIT ?2";
