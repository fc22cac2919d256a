//! The settings of a store.

use std::fmt;
use std::sync::Arc;
use std::time::Duration;

use rusqlite::Connection;

use crate::codec::Codec;
use crate::store::payloads::Encoding;
use crate::store::setters::setters;

/// The crashes that an append survives once it has returned.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
#[non_exhaustive]
pub enum Durability {
    /// A crash of the process, of the machine, and a power cut: each append waits for the disk.
    #[default]
    Full,
    /// A crash of the process. A crash of the machine may lose the last appends, each as a whole,
    /// and never damages the file. Appends are ten to fifty times faster, depending on the disk.
    Process,
}

/// The settings with which a [`SqliteStore`](super::SqliteStore) is opened.
///
/// ```
/// use memory_prompt::codec::Codec;
/// use memory_prompt::store::Durability;
/// use memory_prompt::{ChatMemoryExt, Message, SqliteStore};
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
    pub(super) encoding: Encoding,
    pub(super) durability: Durability,
    pub(super) busy_timeout: Duration,
    pub(super) read_only: bool,
    pub(super) secure_delete: bool,
    pub(super) on_connect: Option<OnConnect>,
}

type OnConnect = Arc<dyn Fn(&mut Connection) -> rusqlite::Result<()> + Send + Sync>;

setters! {
    SqliteOptions:

    /// Sets how new messages are written; the default is [`Codec::Json`]. Messages in every codec
    /// are read.
    pub fn codec(codec: Codec) => encoding.codec = codec;

    /// Sets the size in bytes from which on [media](super#media) are kept beside their
    /// messages, each once in a conversation; the default is 16 KiB. With `usize::MAX` all media
    /// stay in their messages.
    pub fn media_beside(bytes: usize) => encoding.media_beside = bytes;

    /// Sets what an append that returned survives; the default is [`Durability::Full`].
    pub fn durability(durability: Durability) => durability = durability;

    /// Sets how long to wait for other processes that write; the default is 5 seconds.
    pub fn busy_timeout(timeout: Duration) => busy_timeout = timeout;

    /// Opens the file read-only: it must exist, and every change is an error.
    ///
    /// SQLite creates the index of the log next to the file, so a file on read-only media, or in a
    /// read-only folder, can't be read this way. If the file was closed before it was put there,
    /// read it [over](Self::over) a connection with this setting:
    ///
    /// ```no_run
    /// use memory_prompt::SqliteStore;
    /// use memory_prompt::store::sqlite::driver::{Connection, OpenFlags};
    ///
    /// let flags = OpenFlags::SQLITE_OPEN_READ_ONLY | OpenFlags::SQLITE_OPEN_URI;
    /// let connection = Connection::open_with_flags("file:/media/chat.db?immutable=1", flags)?;
    /// let store = SqliteStore::options().over(connection)?;
    /// # Ok::<(), Box<dyn std::error::Error>>(())
    /// ```
    pub fn read_only(read_only: bool) => read_only = read_only;

    /// Overwrites deleted data with zeros. This is off by default, since it costs as much as
    /// writing the data did.
    ///
    /// The log keeps the bytes for a while: see
    /// [what is left of deleted data](super#what-is-left-of-deleted-data).
    pub fn secure_delete(secure_delete: bool) => secure_delete = secure_delete;
}

impl SqliteOptions {
    pub(super) fn new() -> Self {
        Self {
            encoding: Encoding::default(),
            durability: Durability::Full,
            busy_timeout: Duration::from_secs(5),
            read_only: false,
            secure_delete: false,
            on_connect: None,
        }
    }

    /// Runs this on each new connection before anything else: keys, extensions,
    /// `PRAGMA cache_size`, `max_page_count` …
    ///
    /// Be careful with interrupts: SQLite may report a commit as interrupted although it was done.
    #[must_use]
    pub fn on_connect(
        mut self,
        action: impl Fn(&mut Connection) -> rusqlite::Result<()> + Send + Sync + 'static,
    ) -> Self {
        self.on_connect = Some(Arc::new(action));
        self
    }
}

impl fmt::Debug for SqliteOptions {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("SqliteOptions")
            .field("codec", &self.encoding.codec)
            .field("media_beside", &self.encoding.media_beside)
            .field("durability", &self.durability)
            .field("busy_timeout", &self.busy_timeout)
            .field("read_only", &self.read_only)
            .field("secure_delete", &self.secure_delete)
            .field("on_connect", &self.on_connect.is_some())
            .finish()
    }
}
