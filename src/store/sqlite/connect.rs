//! The connections of a store: one that writes, and as many that read as read at once.

use std::path::{Path, PathBuf};
use std::sync::Arc;
use std::time::{Duration, Instant, SystemTime};

use parking_lot::Mutex;
use rusqlite::{Connection, ErrorCode, OpenFlags};

use super::moved::Opened;
use super::ticket::{Began, Tickets, patience, pause};
use super::writer::{Writer, deferred, in_transaction};
use super::{Durability, Place, SqliteOptions, Trouble, file_beside, schema};
use crate::error::{Error, Result};
use crate::store::Figures;
use crate::store::observe::Watch;

/// Readers have connections of their own, so that they wait for no writer.
pub(super) struct Connections {
    /// The readers; none where there is one connection for all. Closed before the writer: whoever
    /// closes last tidies up the log, and readers can't.
    readers: Option<Readers>,
    writer: Writer,
    /// The file, where it is written to.
    opened: Option<Arc<Opened>>,
    place: Place,
    watch: Watch,
}

struct Readers {
    path: PathBuf,
    options: SqliteOptions,
    idle: Mutex<Vec<Reader>>,
}

struct Reader {
    connection: Connection,
    /// The file, where it is only read.
    opened: Option<Opened>,
    /// The state of a file that is read as one that nobody changes, when it was opened.
    unchanged: Option<Unchanged>,
}

/// A file without a log, as long and as old as it was.
#[derive(PartialEq)]
struct Unchanged {
    bytes: u64,
    modified: Option<SystemTime>,
}

/// The number of statements that a connection keeps prepared: as many as there are here.
const STATEMENTS: usize = 32;

const WRITTEN_TO: &str = "others wrote to the file each time it was read";

/// The most idle readers that are kept: each holds a page cache.
const MOST_IDLE: usize = 8;

impl Connections {
    /// Opens a file, and creates it or brings it up to date where that is needed.
    pub(super) fn open(place: Place, path: &Path, options: SqliteOptions) -> Result<Self> {
        // A reader that is opened later must find the same file, wherever the process has gone.
        let path = std::path::absolute(path).map_err(|error| {
            Error::invalid("open", format!("sqlite: the path can't be used: {error}"))
        })?;
        let refuse = |text: &str| Err(Trouble::Refused(text.to_owned()).during("open", &place));
        match std::fs::metadata(&path) {
            Ok(file) if file.is_dir() => return refuse("the path is that of a folder"),
            // SQLite takes a file of one byte for an empty one, and would write over it.
            Ok(file) if file.len() == 1 => return refuse("the file is no database"),
            Ok(file) if file.len() > 0 => {
                look_first(&path, &options).map_err(|trouble| trouble.during("open", &place))?;
            }
            _ => {} // there is nothing to refuse
        }
        let began = Began::default();
        let open = || {
            if options.read_only {
                let reader = checked(&path, &options, open_reader)?;
                return Ok((reader.connection, Tickets::default()));
            }
            let flags = OpenFlags::SQLITE_OPEN_READ_WRITE | OpenFlags::SQLITE_OPEN_CREATE;
            let connection = connect(&path, &options, flags, Arc::clone(&began))?;
            schema::prepare(&connection)?;
            let wal = use_wal(&connection, options.busy_timeout)?;
            make_durable(&connection, options.durability)?;
            delete_securely(&connection, &options)?;
            Ok((connection, if wal { Tickets::of(&path) } else { Tickets::default() }))
        };
        let (connection, tickets) =
            open().map_err(|trouble: Trouble| trouble.during("open", &place))?;
        let writer = Writer::new(connection, tickets, options.busy_timeout, began);
        let opened = (!options.read_only).then(|| Arc::new(Opened::with_log(&path)));
        let readers = Some(Readers { path, options, idle: Mutex::default() });
        Ok(Self { readers, writer, opened, place, watch: Watch::new("sqlite") })
    }

    /// Takes one connection for everything.
    pub(super) fn shared(
        place: Place,
        mut connection: Connection,
        options: &SqliteOptions,
    ) -> Result<Self> {
        let mut prepare = || {
            set_up(&mut connection, options)?;
            schema::prepare(&connection)?;
            delete_securely(&connection, options)
        };
        prepare().map_err(|trouble: Trouble| trouble.during("open", &place))?;
        // The connection has a timeout of its own.
        let writer = Writer::new(connection, Tickets::default(), Duration::ZERO, Began::default());
        let watch = Watch::new("sqlite");
        Ok(Self { readers: None, writer, opened: None, place, watch })
    }

    /// Reads in a transaction, so that all of it is of one moment.
    pub(super) fn read<T>(
        &self,
        operation: &'static str,
        mut work: impl FnMut(&Connection) -> Result<T, Trouble>,
    ) -> Result<T> {
        let read = || {
            let Some(readers) = &self.readers else { return self.writer.read(work) };
            self.must_be_there()?;
            let started = Instant::now();
            loop {
                let reader = readers.idle().map_or_else(|| readers.open(), Ok)?;
                let result = in_transaction(&reader.connection, deferred, &mut work);
                if reader.was_overtaken(&readers.path) {
                    // What was read may be of several moments, and an error may come of that alone.
                    if pause(started, readers.options.busy_timeout) {
                        continue;
                    }
                    return Err(Trouble::Refused(WRITTEN_TO.to_owned()));
                }
                let mut idle = readers.idle.lock();
                let may_be_kept = reader.unchanged.is_none() && reader.connection.is_autocommit();
                if idle.len() < MOST_IDLE && may_be_kept {
                    idle.push(reader);
                }
                return result;
            }
        };
        let read = move || read().map_err(|trouble| trouble.during(operation, &self.place));
        self.watch.blocking(operation, read)
    }

    /// Writes in a transaction that excludes other writers from its beginning, so that what it read
    /// is true when it writes. (What is undone for no fault of its own is done again.)
    pub(super) fn write<T: Send + 'static>(
        &self,
        operation: &'static str,
        mut work: impl FnMut(&Connection) -> Result<T, Trouble> + Send + 'static,
    ) -> Result<T> {
        let opened = self.opened.clone();
        let work = move |connection: &Connection| {
            opened.as_ref().map_or(Ok(()), |opened| opened.must_be_there())?;
            work(connection)
        };
        self.watch.blocking(operation, || {
            self.writer.write(work).map_err(|trouble| trouble.during(operation, &self.place))
        })
    }

    /// Gives back what is free in the file, and empties the log.
    pub(super) fn vacuum(&self) -> Result<()> {
        let vacuum = |connection: &Connection| {
            connection.execute_batch("VACUUM")?;
            let checkpoint = "PRAGMA wal_checkpoint(TRUNCATE)";
            if connection.query_row(checkpoint, [], |row| row.get(0))? {
                let text =
                    "somebody read for longer than the busy timeout, so the log is not empty";
                return Err(Trouble::Refused(text.to_owned()));
            }
            Ok(())
        };
        self.watch.blocking("vacuum", || {
            let vacuumed = self.must_be_there().and_then(|()| self.writer.exclusively(vacuum));
            vacuumed.map_err(|trouble| trouble.during("vacuum", &self.place))
        })
    }

    fn must_be_there(&self) -> Result<(), Trouble> {
        self.opened.as_ref().map_or(Ok(()), |opened| opened.must_be_there())
    }

    pub(super) fn figures(&self) -> Figures {
        self.watch.figures()
    }

    pub(super) fn place(&self) -> &Place {
        &self.place
    }
}

impl Reader {
    /// Returns whether somebody wrote to a file that is read as one that nobody changes: SQLite
    /// looks for a log when it is opened, and this when it has been read.
    fn was_overtaken(&self, path: &Path) -> bool {
        self.unchanged.is_some()
            && (unchanging(path).is_none() || Unchanged::of(path) != self.unchanged)
    }
}

impl Unchanged {
    fn of(path: &Path) -> Option<Self> {
        let file = std::fs::metadata(path).ok()?;
        Some(Self { bytes: file.len(), modified: file.modified().ok() })
    }
}

impl Readers {
    /// Returns a reader that does nothing, and that reads the file which is there now.
    fn idle(&self) -> Option<Reader> {
        let mut idle = self.idle.lock();
        idle.retain(|reader| reader.opened.as_ref().is_none_or(Opened::is_there));
        idle.pop()
    }

    fn open(&self) -> Result<Reader, Trouble> {
        let open = if self.options.read_only { open_reader } else { open_beside_writer };
        checked(&self.path, &self.options, open)
    }
}

/// Opens a reader, and looks whether what it reads is ours: a later program may have brought it up
/// to a version of its own, or put another file there. Where somebody wrote meanwhile to a file
/// that is read as one that nobody changes, what was seen means nothing, and is looked at again.
fn checked(
    path: &Path,
    options: &SqliteOptions,
    open: impl Fn(&Path, &SqliteOptions) -> Result<Reader, Trouble>,
) -> Result<Reader, Trouble> {
    let started = Instant::now();
    loop {
        let reader = open(path, options)?;
        let found = schema::look(&reader.connection).and_then(schema::Version::must_be_current);
        if !reader.was_overtaken(path) {
            return found.map(|()| reader);
        }
        if !pause(started, options.busy_timeout) {
            return Err(Trouble::Refused(WRITTEN_TO.to_owned()));
        }
    }
}

/// Opens a file for a reader of a store that writes too, whose log is therefore there.
fn open_beside_writer(path: &Path, options: &SqliteOptions) -> Result<Reader, Trouble> {
    let flags = OpenFlags::SQLITE_OPEN_READ_ONLY;
    let connection = connect(path, options, flags, Began::default())?;
    Ok(Reader { connection, opened: None, unchanged: None })
}

/// Refuses what is not ours through a connection that can't write, so that it stays as it is.
/// (Opening the file without SQLite won't do: closing it again would drop all locks that this
/// process has on it.)
fn look_first(path: &Path, options: &SqliteOptions) -> Result<(), Trouble> {
    if is_filled(path, "-journal") {
        // The file may hold half of a change, which only a connection that may write can undo; that
        // one looks too, before it writes anything of ours.
        return Ok(());
    }
    if let Some(uri) = unchanging(path) {
        // Without a log, all there is to know is in the file, and nothing need be put beside it.
        let unchanged = Unchanged::of(path);
        let connection = connect_unchanging(&uri, options)?;
        let reader = Reader { connection, opened: None, unchanged };
        let found = schema::look(&reader.connection);
        if !reader.was_overtaken(path) {
            return found.map(drop);
        }
    }
    let flags = OpenFlags::SQLITE_OPEN_READ_ONLY;
    schema::look(&connect(path, options, flags, Began::default())?).map(drop)
}

/// Opens a file for a store that only reads. SQLite wants to put the log's index beside it, for
/// which there may be no room on media that can't be written to: without a log the file is then
/// read as one that nobody changes, and by a new connection each time, since somebody else may come
/// and write.
fn open_reader(path: &Path, options: &SqliteOptions) -> Result<Reader, Trouble> {
    let read_only = OpenFlags::SQLITE_OPEN_READ_ONLY;
    let connection = connect(path, options, read_only, Began::default())?;
    let (unchanged, opened) = (Unchanged::of(path), Some(Opened::now(path)));
    let error = match connection.query_row("PRAGMA schema_version", [], |_| Ok(())) {
        Ok(()) => return Ok(Reader { connection, opened, unchanged: None }),
        Err(error) => error,
    };
    match (error.sqlite_error_code(), unchanging(path)) {
        (Some(ErrorCode::CannotOpen | ErrorCode::ReadOnly), Some(uri)) => {
            let connection = connect_unchanging(&uri, options)?;
            Ok(Reader { connection, opened, unchanged })
        }
        _ => Err(error.into()),
    }
}

fn connect_unchanging(uri: &str, options: &SqliteOptions) -> Result<Connection, Trouble> {
    let flags = OpenFlags::SQLITE_OPEN_READ_ONLY | OpenFlags::SQLITE_OPEN_URI;
    connect(Path::new(uri), options, flags, Began::default())
}

/// Returns whether a file with this ending lies beside it and holds something. SQLite may have left
/// an empty one where it could not go on.
fn is_filled(path: &Path, ending: &str) -> bool {
    std::fs::metadata(file_beside(path, ending)).is_ok_and(|file| file.len() > 0)
}

/// Returns the name of a file without a log, and without a journal by which half of a change would
/// have to be undone, as one that nobody changes, which SQLite reads without locks.
fn unchanging(path: &Path) -> Option<String> {
    if is_filled(path, "-wal") || is_filled(path, "-journal") {
        return None;
    }
    // Drive letters and shares have rules of their own.
    let path = path.to_str().filter(|_| !cfg!(windows))?;
    let escape = |byte: u8| match byte {
        byte if byte.is_ascii_alphanumeric() || b"/-._~".contains(&byte) => char::from(byte).into(),
        byte => format!("%{byte:02X}"),
    };
    Some(format!("file:{}?immutable=1", path.bytes().map(escape).collect::<String>()))
}

fn connect(
    path: &Path,
    options: &SqliteOptions,
    flags: OpenFlags,
    began: Began,
) -> Result<Connection, Trouble> {
    // No mutex: a connection is used by one thread at a time. No URI: a name that begins with
    // `file:` is a name.
    let mut connection =
        Connection::open_with_flags(path, flags | OpenFlags::SQLITE_OPEN_NO_MUTEX)?;
    connection.busy_handler(Some(patience(options.busy_timeout, began)))?;
    set_up(&mut connection, options)?;
    Ok(connection)
}

/// Sets up a connection as each one begins.
fn set_up(connection: &mut Connection, options: &SqliteOptions) -> Result<(), Trouble> {
    connection.set_prepared_statement_cache_capacity(STATEMENTS);
    if let Some(on_connect) = &options.on_connect {
        on_connect(connection)?;
    }
    Ok(())
}

fn delete_securely(connection: &Connection, options: &SqliteOptions) -> Result<(), Trouble> {
    if options.secure_delete {
        connection.pragma_update(None, "secure_delete", true)?;
    }
    Ok(())
}

/// Switches to the write-ahead log, in which readers wait for nobody. SQLite does not wait here, so
/// several processes that open a new file at once are made to. False where there is no such log.
fn use_wal(connection: &Connection, timeout: Duration) -> Result<bool, Trouble> {
    let mode = |sql| connection.query_row(sql, [], |row| row.get::<_, String>(0));
    let started = Instant::now();
    // A file system without shared memory stays with the rollback journal: slower, and as safe.
    while mode("PRAGMA journal_mode")? != "wal" {
        match mode("PRAGMA journal_mode = WAL") {
            Ok(mode) => return Ok(mode == "wal"),
            Err(error)
                if error.sqlite_error_code() == Some(ErrorCode::DatabaseBusy)
                    && pause(started, timeout) => {}
            Err(error) => return Err(error.into()),
        }
    }
    Ok(true)
}

/// Sets what an append that returned survives.
fn make_durable(connection: &Connection, durability: Durability) -> Result<(), Trouble> {
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
