//! The connections of a store: one that writes, and as many that read as read at once.

use std::path::{Path, PathBuf};
use std::thread;
use std::time::{Duration, Instant};

use parking_lot::Mutex;
use rusqlite::{Connection, ErrorCode, OpenFlags, Transaction, TransactionBehavior};

use super::{Durability, OnConnect, SqliteOptions, Trouble, schema};
use crate::error::{Error, ErrorKind, Result};

/// Writers of one process take turns here, where waiting is cheaper than in SQLite. Readers have
/// connections of their own, so that they wait for no writer.
pub(super) struct Connections {
    /// None where there is one connection for all. Closed before the writer: whoever closes last tidies
    /// up the log, and readers can't.
    readers: Option<Readers>,
    writer: Mutex<Connection>,
}

struct Readers {
    path: PathBuf,
    options: SqliteOptions,
    idle: Mutex<Vec<Connection>>,
}

/// More idle readers than this are closed: each holds a page cache.
const MOST_IDLE: usize = 8;

impl Connections {
    /// Opens a file, and creates it or brings it up to date where that is needed.
    pub(super) fn open(path: &Path, options: SqliteOptions) -> Result<Self> {
        // A reader that is opened later must find the same file, wherever the process has gone.
        let path = std::path::absolute(path).map_err(|error| {
            Error::invalid("open", format!("sqlite: the path can't be used: {error}"))
        })?;
        let refuse = |text| Err(Error::new(ErrorKind::Storage, "open", text));
        match std::fs::metadata(&path) {
            Ok(file) if file.is_dir() => return refuse("sqlite: the path is that of a folder"),
            // SQLite takes a file of one byte for an empty one, and would write over it.
            Ok(file) if file.len() == 1 => return refuse("sqlite: the file is no database"),
            Ok(file) if file.len() > 0 => {
                look_first(&path, &options).map_err(|trouble| trouble.during("open"))?;
            }
            _ => {} // there is nothing to refuse
        }
        let flags = if options.read_only {
            OpenFlags::SQLITE_OPEN_READ_ONLY
        } else {
            OpenFlags::SQLITE_OPEN_READ_WRITE | OpenFlags::SQLITE_OPEN_CREATE
        };
        let open = || {
            let writer = connect(&path, &options, flags)?;
            if options.read_only {
                schema::look(&writer)?.must_be_current()?;
            } else {
                schema::prepare(&writer)?;
                use_wal(&writer, options.busy_timeout)?;
                let synchronous = match options.durability {
                    Durability::Full => "FULL",
                    Durability::Process => "NORMAL",
                };
                writer.pragma_update(None, "synchronous", synchronous)?;
            }
            Ok(writer)
        };
        let writer = open().map_err(|trouble: Trouble| trouble.during("open"))?;
        let readers = Readers { path, options, idle: Mutex::default() };
        Ok(Self { writer: Mutex::new(writer), readers: Some(readers) })
    }

    /// One connection for everything.
    pub(super) fn shared(
        mut connection: Connection,
        on_connect: Option<&OnConnect>,
    ) -> Result<Self> {
        let mut prepare = || {
            if let Some(on_connect) = on_connect {
                on_connect(&mut connection)?;
            }
            schema::prepare(&connection)
        };
        prepare().map_err(|trouble| trouble.during("open"))?;
        Ok(Self { writer: Mutex::new(connection), readers: None })
    }

    /// Reads in a transaction, so that all of it is of one moment.
    pub(super) fn read<T>(
        &self,
        operation: &'static str,
        work: impl FnOnce(&Connection) -> Result<T, Trouble>,
    ) -> Result<T> {
        let Some(readers) = &self.readers else {
            return in_transaction(&self.writer.lock(), TransactionBehavior::Deferred, work)
                .map_err(|trouble| trouble.during(operation));
        };
        let idle = readers.idle.lock().pop();
        let connection = match idle {
            Some(connection) => Ok(connection),
            None => connect(&readers.path, &readers.options, OpenFlags::SQLITE_OPEN_READ_ONLY),
        };
        let result = connection.and_then(|connection| {
            let result = in_transaction(&connection, TransactionBehavior::Deferred, work);
            let mut idle = readers.idle.lock();
            if idle.len() < MOST_IDLE && connection.is_autocommit() {
                idle.push(connection);
            }
            result
        });
        result.map_err(|trouble| trouble.during(operation))
    }

    /// Writes in a transaction that excludes other writers from its beginning, so that what it read is
    /// true when it writes.
    pub(super) fn write<T>(
        &self,
        operation: &'static str,
        work: impl FnOnce(&Connection) -> Result<T, Trouble>,
    ) -> Result<T> {
        in_transaction(&self.writer.lock(), TransactionBehavior::Immediate, work)
            .map_err(|trouble| trouble.during(operation))
    }
}

fn in_transaction<T>(
    connection: &Connection,
    behavior: TransactionBehavior,
    work: impl FnOnce(&Connection) -> Result<T, Trouble>,
) -> Result<T, Trouble> {
    if !connection.is_autocommit() {
        // The transaction before failed, and so did its rollback.
        connection.execute_batch("ROLLBACK")?;
    }
    let transaction = Transaction::new_unchecked(connection, behavior)?;
    let value = work(connection)?;
    transaction.commit()?; // dropped without it, it is rolled back
    Ok(value)
}

/// Refuses what is not ours through a connection that can't write, so that it stays as it is. (Opening
/// the file without SQLite won't do: closing it again would drop all locks that this process has on it.)
fn look_first(path: &Path, options: &SqliteOptions) -> Result<(), Trouble> {
    let mut log = path.as_os_str().to_owned();
    log.push("-wal");
    let read_only = OpenFlags::SQLITE_OPEN_READ_ONLY;
    let connection = match uri(path) {
        // Without a log, all there is to know is in the file, and nothing need be put beside it.
        Some(uri) if !Path::new(&log).exists() => {
            connect(Path::new(&uri), options, read_only | OpenFlags::SQLITE_OPEN_URI)
        }
        _ => connect(path, options, read_only),
    };
    schema::look(&connection?).map(|_| ())
}

/// The file as one that nobody changes, which SQLite reads without locks.
fn uri(path: &Path) -> Option<String> {
    // Drive letters and shares have rules of their own.
    let path = path.to_str().filter(|_| !cfg!(windows))?;
    let escape = |byte: u8| match byte {
        byte if byte.is_ascii_alphanumeric() || b"/-._~".contains(&byte) => char::from(byte).into(),
        byte => format!("%{byte:02X}"),
    };
    Some(format!("file:{}?immutable=1", path.bytes().map(escape).collect::<String>()))
}

fn connect(path: &Path, options: &SqliteOptions, flags: OpenFlags) -> Result<Connection, Trouble> {
    // A connection is used by one thread at a time; a name that begins with `file:` is a name.
    let mut connection =
        Connection::open_with_flags(path, flags | OpenFlags::SQLITE_OPEN_NO_MUTEX)?;
    connection.busy_timeout(options.busy_timeout)?;
    if let Some(on_connect) = &options.on_connect {
        on_connect(&mut connection)?;
    }
    Ok(connection)
}

/// Switches to the write-ahead log, in which readers wait for nobody. SQLite does not wait for its turn
/// here, so several processes that open a new file at once are made to.
fn use_wal(connection: &Connection, timeout: Duration) -> Result<(), Trouble> {
    let mode = |sql| connection.query_row(sql, [], |row| row.get::<_, String>(0));
    let deadline = Instant::now() + timeout;
    // A file system without shared memory stays with the rollback journal: slower, and as safe.
    while mode("PRAGMA journal_mode")? != "wal" {
        match mode("PRAGMA journal_mode = WAL") {
            Ok(_) => break,
            Err(error)
                if error.sqlite_error_code() == Some(ErrorCode::DatabaseBusy)
                    && Instant::now() < deadline =>
            {
                thread::sleep(Duration::from_millis(5));
            }
            Err(error) => return Err(error.into()),
        }
    }
    Ok(())
}
