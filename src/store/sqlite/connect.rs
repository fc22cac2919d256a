//! The connections of a store: one that writes, and as many that read as read at once.

use std::collections::hash_map::RandomState;
use std::hash::BuildHasher;
use std::path::{Path, PathBuf};
use std::sync::Arc;
use std::thread;
use std::time::{Duration, Instant};

use parking_lot::Mutex;
use rusqlite::{Connection, ErrorCode, OpenFlags};

use super::failure::{FileName, TxError};
use super::moved::Opened;
use super::options::{Durability, SqliteOptions};
use super::schema;
use super::writer::{Writer, deferred, in_transaction};
use crate::error::{Error, Result};
use crate::store::observe::Watch;
use crate::store::payloads::Encoding;

/// Readers have connections of their own, so that they wait for no writer.
pub(super) struct Connections {
    /// The readers; none if there is one connection for all. Closed before the writer: the last one
    /// to close tidies up the log, and readers can't.
    readers: Option<Readers>,
    writer: Writer,
    /// The file, if it is written to.
    opened: Arc<Opened>,
    pub(super) place: FileName,
    pub(super) encoding: Encoding,
    pub(super) watch: Watch,
}

struct Readers {
    path: PathBuf,
    options: SqliteOptions,
    idle: Mutex<Vec<Reader>>,
}

struct Reader {
    connection: Connection,
    /// The file, if it is only read.
    opened: Opened,
}

/// The number of statements that a connection keeps prepared: as many as there are here.
const STATEMENTS: usize = 32;

/// The most idle readers that are kept: each holds a page cache.
const MOST_IDLE: usize = 8;

impl Connections {
    /// Opens a file, and creates it if there is none.
    pub(super) fn open(place: FileName, path: &Path, options: SqliteOptions) -> Result<Self> {
        // A reader that is opened later must find the same file, wherever the process has gone.
        let path = std::path::absolute(path).map_err(|error| {
            Error::invalid("open", format!("sqlite: the path can't be used: {error}"))
        })?;
        let refuse = |text: &str| Err(TxError::Refused(text.to_owned()).during("open", &place));
        match std::fs::metadata(&path) {
            Ok(file) if file.is_dir() => return refuse("the path is that of a folder"),
            // SQLite takes a file of one byte for an empty one, and would write over it.
            Ok(file) if file.len() == 1 => return refuse("the file is no database"),
            _ => {} // there is nothing to refuse
        }
        let open = || {
            if options.read_only {
                return Ok(open_reader(&path, &options)?.connection);
            }
            let flags = OpenFlags::SQLITE_OPEN_READ_WRITE | OpenFlags::SQLITE_OPEN_CREATE;
            let connection = connect(&path, &options, flags)?;
            schema::prepare(&connection)?;
            use_wal(&connection, options.busy_timeout)?;
            make_durable(&connection, options.durability)?;
            delete_securely(&connection, &options)?;
            Ok(connection)
        };
        let connection = open().map_err(|error: TxError| error.during("open", &place))?;
        let writer = Writer::new(connection);
        let opened = if options.read_only { Opened::default() } else { Opened::with_log(&path) };
        let (encoding, watch) = (options.encoding, Watch::new("sqlite"));
        let readers = Some(Readers { path, options, idle: Mutex::default() });
        Ok(Self { readers, writer, opened: Arc::new(opened), place, encoding, watch })
    }

    /// Takes one connection for everything.
    pub(super) fn shared(
        place: FileName,
        mut connection: Connection,
        options: &SqliteOptions,
    ) -> Result<Self> {
        let mut prepare = || {
            set_up(&mut connection, options)?;
            schema::prepare(&connection)?;
            delete_securely(&connection, options)
        };
        prepare().map_err(|error: TxError| error.during("open", &place))?;
        let writer = Writer::new(connection);
        let (encoding, watch) = (options.encoding, Watch::new("sqlite"));
        Ok(Self { readers: None, writer, opened: Arc::default(), place, encoding, watch })
    }

    /// Reads in a transaction, so that all of it is of one moment.
    pub(super) fn read<T>(
        &self,
        operation: &'static str,
        mut work: impl FnMut(&Connection) -> Result<T, TxError>,
    ) -> Result<T> {
        let read = || {
            let Some(readers) = &self.readers else { return self.writer.read(work) };
            self.opened.must_be_there()?;
            let reader =
                readers.idle().map_or_else(|| open_reader(&readers.path, &readers.options), Ok)?;
            let result = in_transaction(&reader.connection, deferred, &mut work);
            let mut idle = readers.idle.lock();
            if idle.len() < MOST_IDLE && reader.connection.is_autocommit() {
                idle.push(reader);
            }
            result
        };
        let read = move || read().map_err(|error| error.during(operation, &self.place));
        self.watch.blocking(operation, read)
    }

    /// Writes in a transaction that excludes other writers from its beginning, so that what it read
    /// is true when it writes. (What is undone for no fault of its own is done again.)
    pub(super) fn write<T: Send + 'static>(
        &self,
        operation: &'static str,
        mut work: impl FnMut(&Connection) -> Result<T, TxError> + Send + 'static,
    ) -> Result<T> {
        let opened = Arc::clone(&self.opened);
        let work = move |connection: &Connection| {
            opened.must_be_there()?;
            work(connection)
        };
        self.watch.blocking(operation, || {
            self.writer.write(work).map_err(|error| error.during(operation, &self.place))
        })
    }

    /// Gives back what is free in the file, and empties the log.
    pub(super) fn vacuum(&self) -> Result<()> {
        let vacuum = |connection: &Connection| {
            connection.execute_batch("VACUUM")?;
            let checkpoint = "PRAGMA wal_checkpoint(TRUNCATE)";
            if connection.query_row(checkpoint, [], |row| row.get(0))? {
                let text = "another connection read for longer than the busy timeout, so the log is not empty";
                return Err(TxError::Refused(text.to_owned()));
            }
            Ok(())
        };
        self.watch.blocking("vacuum", || {
            let vacuumed =
                self.opened.must_be_there().and_then(|()| self.writer.exclusively(vacuum));
            vacuumed.map_err(|error| error.during("vacuum", &self.place))
        })
    }
}

impl Readers {
    /// Returns a reader that does nothing, and that reads the file which is there now.
    fn idle(&self) -> Option<Reader> {
        let mut idle = self.idle.lock();
        idle.retain(|reader| reader.opened.is_there());
        idle.pop()
    }
}

/// Opens a reader. What it reads must be ours: another program may have brought it up to a later
/// version, or put another file there.
fn open_reader(path: &Path, options: &SqliteOptions) -> Result<Reader, TxError> {
    let connection = connect(path, options, OpenFlags::SQLITE_OPEN_READ_ONLY)?;
    let opened = if options.read_only { Opened::now(path) } else { Opened::default() };
    schema::must_be_there(&connection)?;
    Ok(Reader { connection, opened })
}

fn connect(path: &Path, options: &SqliteOptions, flags: OpenFlags) -> Result<Connection, TxError> {
    // No mutex: a connection is used by one thread at a time. No URI: a name that begins with
    // `file:` is a name.
    let mut connection =
        Connection::open_with_flags(path, flags | OpenFlags::SQLITE_OPEN_NO_MUTEX)?;
    connection.busy_handler(Some(patience(options.busy_timeout)))?;
    set_up(&mut connection, options)?;
    Ok(connection)
}

/// Sets up a connection as each one begins.
fn set_up(connection: &mut Connection, options: &SqliteOptions) -> Result<(), TxError> {
    connection.set_prepared_statement_cache_capacity(STATEMENTS);
    if let Some(on_connect) = &options.on_connect {
        on_connect(connection)?;
    }
    Ok(())
}

fn delete_securely(connection: &Connection, options: &SqliteOptions) -> Result<(), TxError> {
    if options.secure_delete {
        connection.pragma_update(None, "secure_delete", true)?;
    }
    Ok(())
}

/// Switches to the write-ahead log, in which readers wait for no writer. SQLite does not wait here,
/// so this does, if several processes open a new file at once.
fn use_wal(connection: &Connection, timeout: Duration) -> Result<(), TxError> {
    let mode = |sql| connection.query_row(sql, [], |row| row.get::<_, String>(0));
    let started = Instant::now();
    // A file system without shared memory stays with the rollback journal: slower, and as safe.
    while mode("PRAGMA journal_mode")? != "wal" {
        match mode("PRAGMA journal_mode = WAL") {
            Ok(_) => return Ok(()),
            Err(error)
                if error.sqlite_error_code() == Some(ErrorCode::DatabaseBusy)
                    && pause(started, timeout) => {}
            Err(error) => return Err(error.into()),
        }
    }
    Ok(())
}

/// Returns the answer to SQLite's question if the file is busy: whether to try again, after a
/// pause. SQLite's own pauses grow to 100 ms: the threads of one process would hand the lock to
/// each other, and another process would miss every gap.
fn patience(timeout: Duration) -> impl FnMut(i32) -> bool + Send {
    let mut started = Instant::now();
    move |tries| {
        if tries == 0 {
            started = Instant::now();
        }
        pause(started, timeout)
    }
}

/// Sleeps for a moment; false if the time is up.
fn pause(started: Instant, timeout: Duration) -> bool {
    let waited = started.elapsed();
    let Some(left) = timeout.checked_sub(waited).filter(|left| !left.is_zero()) else {
        return false;
    };
    // At random, so that two do not go on in step; at most a sixteenth of the wait so far, so that
    // sleeping past its end costs little.
    let most = (waited / 16).clamp(SHORTEST, LONGEST);
    let random = u32::try_from(RandomState::new().hash_one(()) % 128).unwrap_or(0);
    thread::sleep((most / 2 + most * random / 256).min(left));
    true
}

const SHORTEST: Duration = Duration::from_micros(50);
const LONGEST: Duration = Duration::from_millis(1);

/// Sets what an append that returned survives.
fn make_durable(connection: &Connection, durability: Durability) -> Result<(), TxError> {
    let (synchronous, each_commit) = match durability {
        Durability::Full => ("FULL", true),
        Durability::Process => ("NORMAL", false),
    };
    connection.pragma_update(None, "synchronous", synchronous)?;
    // On macOS a disk that was told to sync may keep in its own memory what it got, and write it in
    // any order, unless it is told in this way. Elsewhere these mean nothing.
    connection.pragma_update(None, "fullfsync", each_commit)?;
    connection.pragma_update(None, "checkpoint_fullfsync", true)?;
    Ok(())
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_strictest_durability_asks_for_a_full_sync() {
        for (durability, expected) in
            [(Durability::Full, [2, 1, 1]), (Durability::Process, [1, 0, 1])]
        {
            let connection = Connection::open_in_memory().unwrap();
            make_durable(&connection, durability).map_err(|_| "refused").unwrap();
            let setting =
                |name| connection.pragma_query_value(None, name, |row| row.get(0)).unwrap();
            let settings: [i32; 3] =
                ["synchronous", "fullfsync", "checkpoint_fullfsync"].map(setting);
            assert_eq!(settings, expected, "{durability:?}");
        }
    }
}
