//! Stores conversations in one SQLite file.
//!
//! # The file
//!
//! One row per message, and a view for people and other programs:
//!
//! ```sql
//! -- sqlite3 chat.db
//! SELECT position, at, payload ->> '$.message.role', payload ->> '$.message.content'
//! FROM history WHERE id = 'support:u1001:c2002' ORDER BY key DESC LIMIT 10;
//! ```
//!
//! | table | columns |
//! |---|---|
//! | `conversation` | `key`, `id`, `start` and `end` (the positions it holds), `active` (the last append, in milliseconds since 1970), `incarnation`, `system` |
//! | `message` | `key` (that of the conversation times 2³² plus the position), `at` (in milliseconds since 1970), `payload` |
//! | `slot` | `conversation` (its key), `name`, `version`, `content` (a blob) |
//! | `appended` | the newest 64 ids of a conversation's appends: `key` (that of the conversation times 2³² plus a number that ascends), `id`, `first` and `past` (the positions), `version` (that of the slots it wrote) |
//! | `media` | pictures and documents: `conversation` (its key), `hash` (SHA-256), `last` (the newest position that refers to it), `bytes` |
//! | `history` (a view) | `id`, `position`, `at` (as text, in UTC), `payload`, and `key`: sorting by it reads only the newest ten rows, whereas `position` is computed for the whole conversation before it is sorted |
//!
//! Payloads are text with [`Codec::Json`] and blobs with [`Codec::Bincode`]; both are read,
//! whichever is configured. The messages of one conversation are adjacent in one tree, so the
//! newest ten are on a page or two, however many there are. (Measured against a table without rowid
//! under `(conversation, position)`: messages of 1,500 bytes take less than half the space and are
//! read in less than half the time, since such a table moves long rows out to pages of their own.
//! And against a table with an index, the newest ten are on ten pages.)
//!
//! [`Codec::Json`]: crate::codec::Codec::Json
//! [`Codec::Bincode`]: crate::codec::Codec::Bincode
//!
//! If a row of `conversation` is deleted, even by hand, a trigger deletes what belongs to it, since
//! the next conversation may get the same key.
//!
//! The file carries a mark (`application_id` 0x6d70726d, "mprm") and a version (`user_version`,
//! which is 1). A file of another kind, or of a later version, is refused and not written to. You
//! may add tables of your own to the file once it is a store, with a prefix of your own in their
//! names.
//!
//! # Media
//!
//! Pictures and documents of 16 KiB and more, or of what [`SqliteOptions::media_beside`] says, are
//! kept in a table of their own: as bytes and not in base64, each once in a conversation. Such a
//! message has a [reference](crate::message::MediaReference) in its payload. A read replaces it
//! with the bytes, unless it [asks for references](Read::references), as prompts do: they read the
//! media that they send. Media that are not canonical base64, of no known type, or a text stay in
//! their message, as do `data:` addresses.
//!
//! # Costs and limits
//!
//! An append is one transaction and one wait for the disk, however much it contains. An
//! [id](Append::with_id) is searched for among the newest 64 of its conversation, which are
//! adjacent; it adds one row and removes one. A slot is one row, which is written whole. Plain
//! appends and reads take the same steps with hundreds of slots as with none.
//!
//! | limit | |
//! |---|---|
//! | a message | just under 10⁹ bytes as it is written, SQLite's limit for a row |
//! | a batch | only the disk space for it, also in the log until the next checkpoint |
//! | a slot | 256 MiB |
//! | a conversation | 2³² messages, and as many ids of appends |
//! | a file | 2³¹ conversations |
//!
//! [Ids with a prefix](ChatMemoryStore::ids_with_prefix) are found with an index, in the order of
//! their bytes, so the cost depends only on how many are found. This holds for files with SQLite's
//! default encoding, UTF-8. With another encoding, listing and deleting by prefix may miss some
//! ids.
//!
//! # Guarantees
//!
//! - An append that returned survives a crash of the process and, with [`Durability::Full`], of the
//!   machine. One that did not return is stored whole or not at all.
//! - Any number of threads and processes may use the file at once. Writers wait for each other, for
//!   up to [`SqliteOptions::busy_timeout`], with pauses of at most a millisecond, so that no
//!   process starves another. Readers never wait for writers.
//! - If a change returns an error, it was not made, and never will be. (Unknown outcomes exist only
//!   on networks.) In async code (`adapt::ToAsync`), a change whose future was dropped is made at
//!   once or never: if it waited for another process, it does nothing when that process has
//!   finished.
//! - Threads that write at once through one store (or clones of it) share the wait for the disk:
//!   changes that arrive during a commit go into the next one together, and each append still
//!   succeeds or fails alone.
//! - Once it is closed, the store is one file. While it is open there are two more next to it,
//!   `-wal` and `-shm`. SQLite owns them, and they are part of the data.
//! - A file on a network drive is only as safe as the drive's locks: SQLite advises against it.
//! - If the file or its log is moved, removed or replaced while it is open, the store neither reads
//!   nor writes it any more: each operation is an error until the store is opened again. A
//!   read-only store reads the file that is there now. (On Windows it is not possible to know which
//!   file is open, but Windows does not allow any of this.)
//!
//! # Backups
//!
//! While the file is open, SQLite can make a consistent copy, and no program waits for it:
//! `sqlite3 chat.db ".backup 'copy.db'"`, or `VACUUM INTO 'copy.db'`. Copy the file itself only
//! once every process has closed it: without the log it lacks the last appends, and a file and a
//! log of different moments are damaged.
//!
//! To restore a copy, end every process that has the file open, remove `-wal` and `-shm` next to it
//! (SQLite would apply that log to the restored file), and then put the copy in its place.
//! Conversations then end where they ended when the copy was made. Their positions go back, so
//! anything that is kept elsewhere by [incarnation](crate::record::Incarnation) and position (an
//! index for recall) must be built again.
//!
//! # What is left of deleted data
//!
//! Deleting, purging, evicting and clearing remove messages from the tables. By SQLite's default,
//! their bytes stay in the file until other data overwrite them, and in the log until it starts
//! over. To erase them, set [`SqliteOptions::secure_delete`], with which SQLite overwrites them
//! with zeros, and call [`SqliteStore::vacuum`] afterwards, which empties the log. For a file that
//! was written without that setting, `vacuum` alone leaves nothing in file and log. Copies,
//! backups, the file system and the disk may still have the data.

mod append;
mod connect;
mod extras;
mod failure;
mod listing;
mod moved;
mod options;
mod purge;
mod read;
mod schema;
mod writer;

use std::fmt;
use std::ops::Range;
use std::path::Path;
use std::sync::Arc;
use std::time::SystemTime;

pub use options::{Durability, SqliteOptions};
/// The driver, version 0.41, for connections of your own.
pub use rusqlite as driver;
use rusqlite::Connection;

use super::common::signed;
use super::{ChatMemoryStore, Figures, Info, check_prefix, exists};
use crate::error::{Error, Result};
use crate::memory::{Append, Appended, ChatMemory, LentBatch, Limits, MemoryId, Read};
use crate::message::Message;
use crate::record::{Incarnation, Slot, SlotVersion, Snapshot, millis};
use append::{PreparedAppend, begin, too_many};
use connect::Connections;
use failure::failed;
use read::find;
use schema::{MOST_CONVERSATIONS, MOST_MESSAGES, first_key};
use writer::run;

/// Many conversations in one SQLite file. A clone is a handle to the same connections.
///
/// The file, its tables and its guarantees are described in the [module](self).
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
    connections: Arc<Connections>,
}

/// One conversation of a [`SqliteStore`].
#[derive(Clone)]
pub struct SqliteMemory {
    id: MemoryId,
    connections: Arc<Connections>,
}

impl SqliteStore {
    /// Opens the store in the file at this path with the default [`SqliteOptions`]. The file is
    /// created if it does not exist.
    ///
    /// # Errors
    ///
    /// [`ErrorKind::Storage`](crate::ErrorKind::Storage) if the file can't be opened, is not a
    /// store, or is of a later version. Its content is then unchanged, except that a log left by a
    /// crash may have been applied to it, as with any program that opens it.
    pub fn open(path: impl AsRef<Path>) -> Result<Self> {
        Self::options().open(path)
    }

    /// Returns the default options; change them, then open the store.
    pub fn options() -> SqliteOptions {
        SqliteOptions::new()
    }

    /// Returns the memory of the conversation under this id. Any text is an id.
    ///
    /// # Errors
    ///
    /// Never: all stores return a `Result` here.
    pub fn memory(&self, id: impl Into<MemoryId>) -> Result<SqliteMemory> {
        Ok(SqliteMemory { id: id.into(), connections: Arc::clone(&self.connections) })
    }

    /// Rewrites the file without free space, and empties the log. The file is then as small as
    /// possible, and nothing of what was [deleted](self#what-is-left-of-deleted-data) is left in
    /// either.
    ///
    /// This takes as long as writing all data, and twice its space; other writers wait for it.
    ///
    /// # Errors
    ///
    /// [`ErrorKind::Storage`](crate::ErrorKind::Storage) if the store failed, if there is no space,
    /// or if another connection was writing or reading for longer than the busy timeout.
    pub fn vacuum(&self) -> Result<()> {
        self.connections.vacuum()
    }

    /// Returns the number of operations under way. A file has no connections to count.
    pub fn figures(&self) -> Figures {
        self.connections.watch.figures()
    }
}

impl SqliteOptions {
    /// Opens the store in the file at this path, which is created if it does not exist.
    ///
    /// # Errors
    ///
    /// Same as [`SqliteStore::open`].
    pub fn open(self, path: impl AsRef<Path>) -> Result<SqliteStore> {
        let path = path.as_ref();
        if path.as_os_str().is_empty() || path.as_os_str() == ":memory:" {
            // Each connection with such a name would be a database of its own.
            let text = "sqlite: a file has a name; for none, take `in_memory`";
            return Err(Error::invalid("open", text));
        }
        let connections = Connections::open(path, self)?;
        Ok(SqliteStore { connections: Arc::new(connections) })
    }

    /// Opens a store in the memory of this process. It is gone when its last handle is dropped.
    ///
    /// # Errors
    ///
    /// [`ErrorKind::Storage`](crate::ErrorKind::Storage) if SQLite refuses.
    pub fn in_memory(self) -> Result<SqliteStore> {
        let place = "in memory";
        let connection =
            Connection::open_in_memory().map_err(|error| failed("open", error, place))?;
        let connections = Connections::shared(place, connection, &self)?;
        Ok(SqliteStore { connections: Arc::new(connections) })
    }

    /// Opens a store over a connection of your own, which is used for both reads and writes.
    ///
    /// Its journal mode, synchronous setting and timeout stay unchanged, and decide what an append
    /// survives.
    ///
    /// # Errors
    ///
    /// Same as [`SqliteStore::open`].
    pub fn over(self, connection: Connection) -> Result<SqliteStore> {
        let connections = Connections::shared("a connection of the caller's", connection, &self)?;
        Ok(SqliteStore { connections: Arc::new(connections) })
    }
}

impl ChatMemoryStore for SqliteStore {
    fn memory(&self, id: MemoryId) -> Result<Arc<dyn ChatMemory>> {
        self.memory(id).map(|memory| Arc::new(memory) as Arc<dyn ChatMemory>)
    }

    fn ids(&self, after: Option<&MemoryId>, n: usize) -> Result<Vec<MemoryId>> {
        self.ids_with_prefix("", after, n)
    }

    /// Deletes the conversation, as the trait describes. The
    /// [module](self#what-is-left-of-deleted-data) describes what is left of its bytes in the file.
    fn delete(&self, id: &MemoryId) -> Result<bool> {
        let id = id.clone();
        self.connections.write("delete", move |connection| purge::delete_by_id(connection, &id))
    }

    fn purge_inactive(&self, older_than: SystemTime) -> Result<u64> {
        purge::inactive(&self.connections, signed(millis(older_than)))
    }

    fn ids_with_prefix(
        &self,
        prefix: &str,
        after: Option<&MemoryId>,
        n: usize,
    ) -> Result<Vec<MemoryId>> {
        let list = |connection: &Connection| listing::with_prefix(connection, prefix, after, n);
        self.connections.read("ids", list)
    }

    fn slots_with_prefix(
        &self,
        prefix: &str,
        names: &str,
        after: Option<(&MemoryId, &str)>,
        n: usize,
    ) -> Result<Vec<(MemoryId, Slot)>> {
        let list = |connection: &Connection| listing::slots(connection, prefix, names, after, n);
        self.connections.read("slots", list)
    }

    fn info(&self, id: &MemoryId) -> Result<Option<Info>> {
        let find = |connection: &Connection| Ok(find(connection, id)?.map(|found| found.info()));
        self.connections.read("info", find)
    }

    /// Deletes in small steps, so that no other writer waits long.
    fn delete_prefix(&self, prefix: &str) -> Result<u64> {
        check_prefix(prefix)?;
        purge::with_prefix(&self.connections, prefix)
    }

    fn restore(&self, id: &MemoryId, start: u64, incarnation: Option<Incarnation>) -> Result<()> {
        let start = signed(start);
        if start > MOST_MESSAGES {
            let text = "sqlite: a conversation holds 2^32 messages at most";
            return Err(Error::invalid("restore", text));
        }
        let (id, incarnation) = (id.clone(), incarnation.unwrap_or_else(Incarnation::random));
        self.connections.write("restore", move |connection| {
            if find(connection, &id)?.is_some() {
                return Err(exists("sqlite", &id).into());
            }
            let now = signed(millis(SystemTime::now()));
            let key = begin(connection, &id, start..start, now, None, incarnation)?;
            if key > MOST_CONVERSATIONS { Err(too_many("restore")) } else { Ok(()) }
        })
    }
}

impl ChatMemory for SqliteMemory {
    fn id(&self) -> &MemoryId {
        &self.id
    }

    fn append(&self, batch: &mut Vec<Message>, expected: Option<u64>) -> Result<Range<u64>> {
        let mut lent = LentBatch::new(batch, expected);
        Ok(self.append_with(&mut lent.append)?.positions)
    }

    fn read(&self, before: Option<u64>, n: usize) -> Result<Snapshot> {
        self.read_with(&Read { before, ..Read::newest(n) })
    }

    fn evict(&self, before: u64) -> Result<u64> {
        let id = self.id.clone();
        self.connections.write("evict", move |connection| {
            let Some(found) = find(connection, &id)? else { return Ok(0) };
            let before = signed(before).min(found.end);
            if before <= found.start {
                return Ok(0);
            }
            run(connection, SET_START, [found.key, before])?;
            let first = first_key(found.key);
            let gone = run(connection, EVICT, [first, first.wrapping_add(before)])?;
            run(connection, FORGET_MEDIA, [found.key, before])?;
            Ok(gone as u64)
        })
    }

    fn clear(&self) -> Result<()> {
        let id = self.id.clone();
        self.connections.write("clear", move |connection| {
            let Some(found) = find(connection, &id)? else { return Ok(()) };
            let first = first_key(found.key);
            run(connection, EVICT, [first, first.wrapping_add(found.end)])?;
            let incarnation = Incarnation::random().to_bits().cast_signed();
            run(connection, CLEAR, [found.key, incarnation])?;
            run(connection, CLEAR_SLOTS, [found.key])?;
            run(connection, FORGET_MEDIA, [found.key, found.end])?;
            Ok(())
        })
    }

    fn append_with(&self, append: &mut Append) -> Result<Appended> {
        append.check(&LIMITS)?;
        let change = PreparedAppend::new(&self.id, self.connections.encoding, append)?;
        let make = move |connection: &Connection| change.make(connection);
        let appended = if append.is_empty() {
            self.connections.read("append", make)?
        } else {
            self.connections.write("append", make)?
        };
        append.messages.clear();
        Ok(appended)
    }

    fn read_with(&self, read: &Read) -> Result<Snapshot> {
        read.check()?;
        let snapshot = |connection: &Connection| read::snapshot(connection, &self.id, read);
        self.connections.read("read", snapshot)
    }

    fn slots(&self) -> Result<Vec<(String, SlotVersion)>> {
        self.connections.read("slots", |connection| {
            let found = find(connection, &self.id)?;
            let slots = found.map(|found| extras::list(connection, found.key)).transpose()?;
            Ok(slots.unwrap_or_default())
        })
    }

    fn limits(&self) -> Limits {
        LIMITS
    }
}

impl fmt::Debug for SqliteStore {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let Connections { place, encoding, .. } = &*self.connections;
        f.debug_struct("SqliteStore")
            .field("place", &format_args!("{place}"))
            .field("codec", &encoding.codec)
            .finish()
    }
}

impl fmt::Debug for SqliteMemory {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("SqliteMemory")
            .field("id", &self.id)
            .field("place", &format_args!("{}", self.connections.place))
            .finish_non_exhaustive()
    }
}

/// A row in SQLite has at most 10⁹ bytes, unless SQLite was compiled otherwise. A slot is a small
/// document, and is rewritten whole each time.
const LIMITS: Limits =
    Limits { message: 999_999_900, batch: usize::MAX, slot: 1 << 28, ids: extras::IDS };

const SET_START: &str = "UPDATE conversation SET start = ?2 WHERE key = ?1";
const CLEAR_SLOTS: &str = "DELETE FROM slot WHERE conversation = ?1";
const FORGET_MEDIA: &str = "DELETE FROM media WHERE conversation = ?1 AND last < ?2";
const EVICT: &str = "DELETE FROM message WHERE key >= ?1 AND key < ?2";
const CLEAR: &str = r#"
    UPDATE conversation SET start = "end", system = NULL, incarnation = ?2 WHERE key = ?1"#;
