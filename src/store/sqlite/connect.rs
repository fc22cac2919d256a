//! The connections of a store: one that writes, and one for each concurrent reader.

use std::collections::hash_map::RandomState;
use std::hash::BuildHasher;
use std::path::{Path, PathBuf};
use std::sync::Arc;
use std::thread;
use std::time::{Duration, Instant};

use parking_lot::Mutex;
use rusqlite::{Connection, ErrorCode, OpenFlags, TransactionBehavior};

use super::failure::TxError;
use super::moved::Opened;
use super::options::{Durability, SqliteOptions};
use super::schema;
use super::writer::{Writer, in_transaction};
use crate::error::{Error, Result};
use crate::store::observe::Watch;
use crate::store::payloads::Encoding;

/// Readers have connections of their own, so that they never wait for writers.
pub(super) struct Connections {
    /// The readers; `None` if one connection does everything. They are closed before the writer:
    /// the last connection to close must clean up the log, and readers can't.
    readers: Option<Readers>,
    writer: Writer,
    /// The file, if it is written to.
    opened: Arc<Opened>,
    /// The name of the file, for messages to people.
    pub(super) place: String,
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

/// How many prepared statements a connection keeps: all of this crate's.
const STATEMENTS: usize = 32;

/// How many idle readers are kept, since each has a page cache.
const MOST_IDLE: usize = 8;

impl Connections {
    pub(super) fn open(path: &Path, options: SqliteOptions) -> Result<Self> {
        let place = path.display().to_string();
        // A reader that is opened later must find the same file, even if the working directory has
        // changed.
        let path = std::path::absolute(path).map_err(|error| {
            Error::invalid("open", format!("sqlite: the path can't be used: {error}"))
        })?;
        let refuse = |text: &str| Err(TxError::Refused(text.to_owned()).during("open", &place));
        match std::fs::metadata(&path) {
            Ok(file) if file.is_dir() => return refuse("the path is that of a folder"),
            // SQLite treats a file of one byte as empty, and would overwrite it.
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
            // A read, by which SQLite opens the log of a new file: it is watched from now on.
            schema::must_be_there(&connection)?;
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

    /// Uses one connection for everything.
    pub(super) fn shared(
        place: &str,
        mut connection: Connection,
        options: &SqliteOptions,
    ) -> Result<Self> {
        let mut prepare = || {
            if !connection.is_autocommit() {
                let text = "the connection is in a transaction, which the store would undo";
                return Err(TxError::Refused(text.to_owned()));
            }
            set_up(&mut connection, options)?;
            if options.read_only {
                connection.pragma_update(None, "query_only", true)?;
            }
            schema::prepare(&connection)?;
            delete_securely(&connection, options)
        };
        prepare().map_err(|error: TxError| error.during("open", place))?;
        let writer = Writer::new(connection);
        let (encoding, watch) = (options.encoding, Watch::new("sqlite"));
        let (opened, place) = (Arc::default(), place.to_owned());
        Ok(Self { readers: None, writer, opened, place, encoding, watch })
    }

    /// Reads in a transaction, so that everything is of one moment.
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
            let how = TransactionBehavior::Deferred;
            let result = in_transaction(&reader.connection, how, &mut work);
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
    /// is still true when it writes. (If it is undone for another reason, it is made again.)
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

    /// Returns free space to the file system, and empties the log.
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
    /// Returns an idle reader of the file that is there now.
    fn idle(&self) -> Option<Reader> {
        let mut idle = self.idle.lock();
        idle.retain(|reader| reader.opened.is_there());
        idle.pop()
    }
}

/// Opens a reader and checks the file: another program may have upgraded it to a later version, or
/// replaced it.
fn open_reader(path: &Path, options: &SqliteOptions) -> Result<Reader, TxError> {
    let connection = connect(path, options, OpenFlags::SQLITE_OPEN_READ_ONLY)?;
    let opened = if options.read_only { Opened::now(path) } else { Opened::default() };
    schema::must_be_there(&connection)?;
    Ok(Reader { connection, opened })
}

fn connect(path: &Path, options: &SqliteOptions, flags: OpenFlags) -> Result<Connection, TxError> {
    // No mutex: only one thread uses a connection at a time. No URI: a name that begins with
    // `file:` is a plain name.
    let mut connection =
        Connection::open_with_flags(path, flags | OpenFlags::SQLITE_OPEN_NO_MUTEX)?;
    connection.busy_handler(Some(patience(options.busy_timeout)))?;
    set_up(&mut connection, options)?;
    Ok(connection)
}

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

/// Switches to the write-ahead log, in which readers don't wait for writers. SQLite does not wait
/// here if several processes open a new file at once, so this function does.
fn use_wal(connection: &Connection, timeout: Duration) -> Result<(), TxError> {
    let mode = |sql| connection.query_row(sql, [], |row| row.get::<_, String>(0));
    let started = Instant::now();
    // A file system without shared memory stays with the rollback journal, which is slower but as
    // safe.
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

/// Returns a busy handler, which decides whether to try again after a pause. SQLite's own pauses
/// grow to 100 ms: the threads of one process would hand the lock to each other, and another
/// process would miss every gap.
fn patience(timeout: Duration) -> impl FnMut(i32) -> bool + Send {
    let mut started = Instant::now();
    move |tries| {
        if tries == 0 {
            started = Instant::now();
        }
        pause(started, timeout)
    }
}

/// Sleeps for a moment; returns `false` if the time is up.
fn pause(started: Instant, timeout: Duration) -> bool {
    let waited = started.elapsed();
    let Some(left) = timeout.checked_sub(waited).filter(|left| !left.is_zero()) else {
        return false;
    };
    // Random, so that two processes do not stay in step; at most a sixteenth of the wait so far, so
    // that oversleeping costs little.
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
    // On macOS, a disk that is asked to sync may keep the data in its own cache, and write them in
    // any order, without these pragmas. Elsewhere they have no effect.
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
