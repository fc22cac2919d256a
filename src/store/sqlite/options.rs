//! The settings by which a store is opened.

use std::fmt;
use std::sync::Arc;
use std::time::Duration;

use rusqlite::Connection;

use crate::codec::Codec;

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

/// The settings by which a [`SqliteStore`](super::SqliteStore) is opened.
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
    pub(super) codec: Codec,
    pub(super) durability: Durability,
    pub(super) busy_timeout: Duration,
    pub(super) read_only: bool,
    pub(super) secure_delete: bool,
    pub(super) on_connect: Option<OnConnect>,
}

type OnConnect = Arc<dyn Fn(&mut Connection) -> rusqlite::Result<()> + Send + Sync>;

impl SqliteOptions {
    pub(super) fn new() -> Self {
        Self {
            codec: Codec::Json,
            durability: Durability::Full,
            busy_timeout: Duration::from_secs(5),
            read_only: false,
            secure_delete: false,
            on_connect: None,
        }
    }

    /// Sets how new messages are written; [`Codec::Json`] unless set. Every codec is read.
    #[must_use]
    pub fn codec(mut self, codec: Codec) -> Self {
        self.codec = codec;
        self
    }

    /// Sets what an append that returned survives; [`Durability::Full`] unless set.
    #[must_use]
    pub fn durability(mut self, durability: Durability) -> Self {
        self.durability = durability;
        self
    }

    /// Sets how long to wait for other processes that write; 5 seconds unless set.
    #[must_use]
    pub fn busy_timeout(mut self, timeout: Duration) -> Self {
        self.busy_timeout = timeout;
        self
    }

    /// Opens the file for reading alone: it must exist, and every change is an error.
    ///
    /// SQLite puts the index of the log beside the file, so it can't be read on media, or in a
    /// folder, if nothing can be written. A file that was closed before it was put there is read
    /// [over](Self::over) a connection that says so:
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
    #[must_use]
    pub fn read_only(mut self, read_only: bool) -> Self {
        self.read_only = read_only;
        self
    }

    /// Writes zeros over what is deleted; off unless set, since it costs as much as writing it did.
    ///
    /// The log keeps the bytes for a while: see
    /// [what is left of what was deleted](super#what-is-left-of-what-was-deleted).
    #[must_use]
    pub fn secure_delete(mut self, secure_delete: bool) -> Self {
        self.secure_delete = secure_delete;
        self
    }

    /// Does this with each connection that is opened, before anything else is: keys, extensions,
    /// `PRAGMA cache_size`, `max_page_count` …
    ///
    /// If it interrupts connections: SQLite may report that it was interrupted for a commit that it
    /// has done.
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
            .field("codec", &self.codec)
            .field("durability", &self.durability)
            .field("busy_timeout", &self.busy_timeout)
            .field("read_only", &self.read_only)
            .field("secure_delete", &self.secure_delete)
            .field("on_connect", &self.on_connect.is_some())
            .finish()
    }
}
