//! The settings by which a store is opened, and its opening.

use std::fmt;
use std::path::Path;
use std::sync::Arc;
use std::time::Duration;

use rusqlite::Connection;

use super::connect::Connections;
use super::{Durability, Place, SqliteStore, failed};
use crate::codec::Codec;
use crate::error::{Error, Result};

/// The settings by which a [`SqliteStore`] is opened.
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
    /// On media that can't be written to, and in a folder that only others may write to, the file
    /// is read as it lies there as long as there is no log beside it. Where somebody writes to it
    /// after all while it is read, it is read again, until the [busy timeout](Self::busy_timeout)
    /// is up.
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
    /// Whoever interrupts connections: SQLite may report that it was interrupted for a commit that
    /// it has done.
    #[must_use]
    pub fn on_connect(
        mut self,
        action: impl Fn(&mut Connection) -> rusqlite::Result<()> + Send + Sync + 'static,
    ) -> Self {
        self.on_connect = Some(Arc::new(action));
        self
    }

    /// Opens the store in the file at this path, which is created where there is none.
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

    /// Opens a store in the memory of this process, which is gone when its last handle is.
    ///
    /// # Errors
    ///
    /// [`ErrorKind::Storage`](crate::ErrorKind::Storage) where SQLite refuses.
    pub fn in_memory(self) -> Result<SqliteStore> {
        let place = Place::InMemory;
        let connection =
            Connection::open_in_memory().map_err(|error| failed("open", error, &place))?;
        let connections = Connections::shared(place, connection, &self)?;
        Ok(SqliteStore::over(connections, self.codec))
    }

    /// Opens a store over a connection of your own, which serves reads and writes alike.
    ///
    /// Its journal mode, its synchronous setting and its timeout stay as they are, and with them
    /// what an append survives.
    ///
    /// # Errors
    ///
    /// As [`SqliteStore::open`].
    pub fn over(self, connection: Connection) -> Result<SqliteStore> {
        let connections = Connections::shared(Place::OwnConnection, connection, &self)?;
        Ok(SqliteStore::over(connections, self.codec))
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
