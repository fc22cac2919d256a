//! This module keeps conversations in one SQLite file.
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
//! | `conversation` | `key`, `id`, `start` and `end` (the positions it holds), `active` (the last append, in milliseconds since 1970), `system`, `incarnation` (null where whoever wrote the row did not say) |
//! | `message` | `key` (that of the conversation times 2³² plus the position), `at` (in milliseconds since 1970), `payload` |
//! | `slot` | `conversation` (its key), `name`, `version`, `content` (a blob) |
//! | `appended` | the newest 64 ids of a conversation's appends: `key` (that of the conversation times 2³² plus a number that ascends), `id`, `first` and `past` (the positions), `version` (that of the slots it wrote) |
//! | `history` (a view) | `id`, `seq`, `at` (as text, in UTC), `payload`, and `key`: sorted by it, the newest ten are read and no more, whereas `seq` is computed for all of a conversation before it is sorted |
//!
//! Payloads are text with [`Codec::Json`] and blobs with [`Codec::Bincode`]; both are read,
//! whichever is configured. Messages of one conversation lie side by side in one tree, so the
//! newest ten are a page or two, however many there are. (Measured against a table without rowid
//! under `(conversation, seq)`: messages of 1,500 bytes take less than half the space and are read
//! in less than half the time, since such a table moves long rows out to pages of their own; and
//! against a table with an index, whose newest ten lie on ten pages.)
//!
//! Whoever deletes a row of `conversation`, by hand too, deletes with it what belongs to it: a
//! trigger does that, since the next conversation may have its key.
//!
//! The file knows what it is (`application_id` 0x6d70726d, "mprm") and of which version
//! (`user_version`, which is 2). A file that is something else, or of a later version, is refused
//! and not written to; tables of your own may be added to it once it is one of these, under names
//! that begin with something of yours.
//!
//! A file of an earlier version is brought up to date when it is opened, in one transaction: who is
//! killed meanwhile leaves it as it was, and several that open it at once wait for one of them.
//! What takes time is that each conversation gets an incarnation: measured: 0.4 s for 100,000 of
//! them, 3 s for a million. Opened [read-only](SqliteOptions::read_only), it is refused. Close
//! programs of an earlier version before: one that has the file open goes on, and where it clears a
//! conversation the slots stay.
//!
//! # What it costs, and what it holds
//!
//! An append is one transaction and one wait for the disk, whatever comes with it. An
//! [id](Append::with_id) is looked for among the newest 64 of its conversation, which lie side by
//! side, and costs two more rows, one of which goes; a slot costs a row, which is written whole.
//! Who uses neither pays for neither: plain appends and reads take the same steps among hundreds of
//! slots as among none.
//!
//! | limit | |
//! |---|---|
//! | a message | 10⁹ bytes as it is written, all but a few: SQLite has no longer rows |
//! | a batch | none but the room for it, in the log too until it is worked in |
//! | a slot | 256 MiB |
//! | a conversation | 2³² messages, and as many ids of appends |
//! | a file | 2³¹ conversations |
//!
//! [Ids with a prefix](ChatMemoryStore::ids_with_prefix) are found by an index, so they cost what
//! they are, in the order of their bytes (in a file whose encoding is SQLite's own, UTF-8).
//!
//! # What is promised
//!
//! - An append that returned survives a crash of the process and, with [`Durability::Full`], of the
//!   machine. One that did not return is there whole or not at all.
//! - Any number of threads and processes may use the file at once. Writers wait for each other,
//!   also where one process writes without a pause; a writer waits for as long as
//!   [`SqliteOptions::busy_timeout`] says. Readers wait for nobody.
//! - A change that is an error is not done, and never will be: what nobody knows of is there on
//!   networks alone. In async code (`adapt::ToAsync`) a change whose future was dropped is done or
//!   not done, and not done later: where it waited for another process, nothing is done when that
//!   has finished.
//! - Threads that write at once through one store (or clones of it) share the wait for the disk:
//!   what came meanwhile goes into one commit, and each append still succeeds or fails alone.
//! - Once it is closed, the store is one file. While it is open there are three beside it: `-wal`
//!   and `-shm`, which are SQLite's and belong to the data, and the empty `-turn`, by which
//!   processes take turns.
//! - A file that is opened [read-only](SqliteOptions::read_only) may lie on media that can't be
//!   written to, if it was closed before it was put there: a log beside it would have to be worked
//!   in first.
//! - A file on a network drive is only as safe as its locks: SQLite advises against it.
//! - A file that is moved, removed or replaced by another one while it is open, or whose log is, is
//!   not written to any more, nor read, where the system tells (Windows does not, and lets nobody
//!   do that): each operation is an error until the store is opened again. A store that only reads
//!   reads the file that is there now.
//!
//! # Backups
//!
//! While the file is open, SQLite makes a copy that is whole, and nobody need wait for it:
//! `sqlite3 chat.db ".backup 'copy.db'"`, or `VACUUM INTO 'copy.db'`. To copy the file itself is
//! right only once every process has closed it: without the log it lacks what was appended last,
//! and a file and a log of two moments are damaged.
//!
//! To put a copy back, end every process that has the file open, remove `-wal` and `-shm` beside
//! it, since SQLite would work that log into whatever file is there, and then put the copy in its
//! place. Conversations then end where they ended when it was made: their positions go back, and
//! what is kept elsewhere by [incarnation](crate::record::Incarnation) and position (an index for
//! recall) must be made anew.
//!
//! # What is left of what was deleted
//!
//! Deleting, purging, evicting and clearing take messages out of the tables. As SQLite does it,
//! their bytes stay in the file until something else is written there, and in the log until that
//! begins anew. Who must erase sets [`SqliteOptions::secure_delete`], by which SQLite writes zeros
//! over them, and calls [`SqliteStore::vacuum`] afterwards, which empties the log; for a file that
//! was written without it, `vacuum` alone leaves nothing in file and log. What copies, backups, the
//! file system and the disk keep is another matter.

mod append;
mod connect;
mod extras;
mod listing;
mod moved;
mod options;
mod purge;
mod read;
mod schema;
#[expect(clippy::incompatible_msrv, reason = "rusqlite asks for 1.89 itself")]
mod ticket;
mod writer;

use std::fmt;
use std::ops::Range;
use std::path::{Path, PathBuf};
use std::sync::Arc;
use std::time::SystemTime;

pub use options::SqliteOptions;
/// The driver, version 0.41, whose connections can be handed in.
pub use rusqlite as driver;
use rusqlite::{Connection, ErrorCode, params};

use super::common::{must_end_at, signed, unsigned};
use super::{ChatMemoryStore, Figures, Info, check_prefix, exists};
use crate::codec::Codec;
use crate::error::{Error, ErrorKind, Result};
use crate::memory::{Append, Appended, ChatMemory, Limits, MemoryId, Read};
use crate::message::Message;
use crate::record::{Incarnation, SlotVersion, Snapshot, millis};
use append::{Batch, Change, begin, too_many};
use connect::Connections;
use read::find;

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

/// The name of the file, for people.
enum Place {
    File(PathBuf),
    InMemory,
    OwnConnection,
}

/// The crashes that an append survives once it has returned.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
#[non_exhaustive]
pub enum Durability {
    /// A crash of the process, of the machine, and a power cut: each append waits for the disk.
    #[default]
    Full,
    /// A crash of the process. A crash of the machine may take the last appends with it, but each
    /// one whole, and never harms the file. An append is then ten to fifty times faster, by the
    /// disk.
    Process,
}

impl SqliteStore {
    /// Opens the store in the file at this path, which is created where there is none, with the
    /// defaults of [`SqliteOptions`].
    ///
    /// # Errors
    ///
    /// [`ErrorKind::Storage`] where the file can't be opened, or is no such store, or of a later
    /// version. It is then as it was, byte for byte.
    pub fn open(path: impl AsRef<Path>) -> Result<Self> {
        Self::options().open(path)
    }

    /// Returns the defaults, to be changed before the store is opened.
    pub fn options() -> SqliteOptions {
        SqliteOptions::new()
    }

    /// Returns the memory of the conversation under this id. Any text is an id.
    ///
    /// # Errors
    ///
    /// None: it returns a `Result` as every store does.
    pub fn memory(&self, id: impl Into<MemoryId>) -> Result<SqliteMemory> {
        Ok(SqliteMemory { id: id.into(), shared: Arc::clone(&self.shared) })
    }

    /// Writes the file anew without what is free in it, and empties the log: the file is then as
    /// small as it can be, and nothing of what was [deleted](self#what-is-left-of-what-was-deleted)
    /// is left in either.
    ///
    /// It takes as long as writing all that is kept, and twice its room; others wait to write
    /// meanwhile.
    ///
    /// # Errors
    ///
    /// [`ErrorKind::Storage`] where the store failed, where there is no room, or where somebody
    /// wrote, or read all the while, for longer than the busy timeout.
    pub fn vacuum(&self) -> Result<()> {
        self.shared.connections.vacuum()
    }

    /// Returns what was counted since the store was opened: the operations that are under way. A
    /// file has no connections to speak of.
    pub fn figures(&self) -> Figures {
        self.shared.connections.figures()
    }

    fn over(connections: Connections, codec: Codec) -> Self {
        Self { shared: Arc::new(Shared { connections, codec }) }
    }
}

impl ChatMemoryStore for SqliteStore {
    fn memory(&self, id: MemoryId) -> Result<Arc<dyn ChatMemory>> {
        self.memory(id).map(|memory| Arc::new(memory) as Arc<dyn ChatMemory>)
    }

    fn ids(&self, after: Option<&MemoryId>, n: usize) -> Result<Vec<MemoryId>> {
        self.ids_with_prefix("", after, n)
    }

    /// Deletes the conversation, as the trait says. What is left of its bytes in the file is
    /// described in the [module](self#what-is-left-of-what-was-deleted).
    fn delete(&self, id: &MemoryId) -> Result<bool> {
        let id = id.clone();
        self.shared.connections.write("delete", move |connection| forget_id(connection, &id))
    }

    fn purge_inactive(&self, older_than: SystemTime) -> Result<u64> {
        purge::inactive(&self.shared.connections, signed(millis(older_than)))
    }

    fn ids_with_prefix(
        &self,
        prefix: &str,
        after: Option<&MemoryId>,
        n: usize,
    ) -> Result<Vec<MemoryId>> {
        let list = |connection: &Connection| listing::with_prefix(connection, prefix, after, n);
        self.shared.connections.read("ids", list)
    }

    fn info(&self, id: &MemoryId) -> Result<Option<Info>> {
        let find = |connection: &Connection| Ok(find(connection, id)?.map(|found| found.info()));
        self.shared.connections.read("info", find)
    }

    /// Deletes what has the prefix, as the trait says, a little at a time, so that nobody waits
    /// long.
    fn delete_prefix(&self, prefix: &str) -> Result<u64> {
        check_prefix(prefix)?;
        purge::with_prefix(&self.shared.connections, prefix)
    }

    fn restore(&self, id: &MemoryId, start: u64, incarnation: Option<Incarnation>) -> Result<()> {
        if signed(start) > MOST_MESSAGES {
            let text = "sqlite: a conversation holds 2^32 messages at most";
            return Err(Error::invalid("restore", text));
        }
        let (id, incarnation) = (id.clone(), incarnation.unwrap_or_else(Incarnation::random));
        self.shared.connections.write("restore", move |connection| {
            if find(connection, &id)?.is_some() {
                return Err(exists("sqlite", &id).into());
            }
            let (positions, now) =
                (signed(start)..signed(start), signed(millis(SystemTime::now())));
            let key = begin(connection, &id, positions, now, None, incarnation)?;
            if key > MOST_CONVERSATIONS { Err(too_many("restore")) } else { Ok(()) }
        })
    }
}

impl SqliteMemory {
    fn snapshot(&self, read: &Read) -> Result<Snapshot> {
        let snapshot = |connection: &Connection| read::snapshot(connection, &self.id, read);
        self.shared.connections.read("read", snapshot)
    }
}

impl ChatMemory for SqliteMemory {
    fn id(&self) -> &MemoryId {
        &self.id
    }

    fn append(&self, batch: &mut Vec<Message>, expected: Option<u64>) -> Result<Range<u64>> {
        if batch.is_empty() {
            let end = self.shared.connections.read("append", |connection| {
                Ok(find(connection, &self.id)?.map_or(0, |found| unsigned(found.end)))
            })?;
            return must_end_at("sqlite", expected, end);
        }
        let ready = Batch::new(&self.id, self.shared.codec, batch, expected)?;
        let positions = self
            .shared
            .connections
            .write("append", move |connection| Ok(ready.write(connection)?.1))?;
        batch.clear();
        Ok(positions)
    }

    fn read(&self, before: Option<u64>, n: usize) -> Result<Snapshot> {
        self.snapshot(&Read { before, n, ..Read::default() })
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
            extras::clear(connection, found.key)?;
            Ok(())
        })
    }

    fn append_with(&self, append: &mut Append) -> Result<Appended> {
        append.check(&LIMITS)?;
        let change = Change::new(&self.id, self.shared.codec, append)?;
        let make = move |connection: &Connection| change.make(connection);
        let appended = if append.is_empty() {
            self.shared.connections.read("append", make)?
        } else {
            self.shared.connections.write("append", make)?
        };
        append.messages.clear();
        Ok(appended)
    }

    fn read_with(&self, read: &Read) -> Result<Snapshot> {
        read.check()?;
        self.snapshot(read)
    }

    fn slots(&self) -> Result<Vec<(String, SlotVersion)>> {
        self.shared.connections.read("slots", |connection| {
            let found = find(connection, &self.id)?;
            let slots = found.map(|found| extras::list(connection, found.key)).transpose()?;
            Ok(slots.unwrap_or_default())
        })
    }

    fn limits(&self) -> Limits {
        LIMITS
    }
}

/// Deletes a conversation: a trigger deletes what belongs to it.
fn forget(connection: &Connection, key: i64) -> rusqlite::Result<()> {
    connection.prepare_cached(DELETE)?.execute([key]).map(drop)
}

/// Deletes a conversation by its id; returns whether there was one.
fn forget_id(connection: &Connection, id: &MemoryId) -> Result<bool, Trouble> {
    let Some(found) = find(connection, id)? else { return Ok(false) };
    forget(connection, found.key)?;
    Ok(true)
}

/// An error inside of a transaction.
enum Trouble {
    Sqlite(rusqlite::Error),
    /// The reason for which a change is refused, about this file.
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

/// Puts SQLite's error in words that say what to do about it, and adds the place and its own words.
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
        Some(ErrorCode::TooBig) => "a message, a slot or an id is larger than SQLite takes",
        _ => "the operation failed",
    };
    let (place, words) = (place.to_string(), error.to_string());
    let place = if words.contains(&place) { String::new() } else { place + ": " };
    let text = format!("sqlite: {text} ({place}{words})");
    Error::new(ErrorKind::Storage, operation, text).with_source(error)
}

/// Returns the path of the file beside a database that has its name with this ending, as its log
/// has.
fn file_beside(database: &Path, ending: &str) -> PathBuf {
    let mut name = database.as_os_str().to_owned();
    name.push(ending);
    name.into()
}

/// Returns the key of the first message that a conversation can have. Nothing wraps here or where
/// a place is added: there are at most [`MOST_CONVERSATIONS`], of [`MOST_MESSAGES`] each.
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

/// A message's key is its conversation's key times this, plus its position.
const MOST_MESSAGES: i64 = 1 << 32;
const MOST_CONVERSATIONS: i64 = (1 << 31) - 1;

/// A row of SQLite's has 10⁹ bytes at most, unless somebody compiled it otherwise. A slot is a
/// small document, and is written whole each time.
const LIMITS: Limits =
    Limits { message: 999_999_900, batch: usize::MAX, slot: 1 << 28, ids: extras::IDS };

const SET_START: &str = "UPDATE conversation SET start = ?2 WHERE key = ?1";
const EVICT: &str = "DELETE FROM message WHERE key >= ?1 AND key < ?2";
const CLEAR: &str = r#"UPDATE conversation SET start = "end", system = NULL WHERE key = ?1"#;
const DELETE: &str = "DELETE FROM conversation WHERE key = ?1";
