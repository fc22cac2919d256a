//! The order of processes that write: waits are short, and nobody overtakes who waits.
//!
//! SQLite sleeps for up to 100 ms between its tries, and whoever has written may begin again at
//! once: the threads of one process would hand the lock to each other for seconds, and another
//! process would miss every gap. So tries come after fractions of a millisecond here, and whoever
//! wants to write first takes a *ticket*: a lock on a file beside the database, kept until the
//! process may write. While one waits with the ticket in hand, those who come back for more wait
//! for the ticket.
//!
//! The ticket orders and guards nothing: what keeps writers apart is SQLite's lock, also from
//! programs that know of no ticket. The system takes it back from a process that is killed; where
//! one is stopped with the ticket in hand, the others go on without it after a moment. Where there
//! can be no such file, there are short waits alone.

use std::collections::hash_map::RandomState;
use std::fs::{File, OpenOptions, TryLockError, remove_file};
use std::hash::BuildHasher;
use std::path::{Path, PathBuf};
use std::sync::Arc;
use std::thread;
use std::time::{Duration, Instant};

use parking_lot::Mutex;

use super::file_beside;

/// The file that lends out the ticket. Removed when the database is closed by whoever closes it
/// last.
#[derive(Default)]
pub(super) struct Tickets(Option<Place>);

struct Place {
    path: PathBuf,
    log: PathBuf,
    ticket: File,
    had: Mutex<Option<Instant>>,
}

/// The right to be next, given back when this is dropped.
pub(super) struct Next<'a>(&'a File);

/// The longest time to wait for somebody who has the ticket and doesn't write. Who waited this long
/// in a queue of many then tries beside the one who has it.
const PATIENCE: Duration = Duration::from_millis(250);

/// The time for which a process that had the ticket may write again and again, so that the ticket
/// costs nothing where appends take microseconds.
const IN_A_ROW: Duration = Duration::from_millis(1);

impl Tickets {
    /// Returns the tickets of those who write to the database at this path, which has a write-ahead
    /// log.
    pub(super) fn of(database: &Path) -> Self {
        // Under the name of the file itself, as SQLite's log is, by whatever link it was opened.
        let database = database.canonicalize().unwrap_or_else(|_| database.to_owned());
        let path = file_beside(&database, "-turn");
        // Somebody else may have created it so that this process may only read it.
        let created = OpenOptions::new().read(true).append(true).create(true).open(&path);
        let ticket = created.or_else(|_| File::open(&path)).ok();
        Self(ticket.map(|ticket| {
            let had = Mutex::default();
            Place { path, log: file_beside(&database, "-wal"), ticket, had }
        }))
    }

    /// Waits for the ticket, for a fraction of the timeout at most. `None` where it is not to be
    /// had, or not needed yet.
    pub(super) fn next(&self, started: Instant, timeout: Duration) -> Option<Next<'_>> {
        let Place { ticket, had, .. } = self.0.as_ref()?;
        let mut had = had.lock();
        if had.is_some_and(|had| started.saturating_duration_since(had) < IN_A_ROW) {
            return None;
        }
        let patience = PATIENCE.min(timeout / 2);
        loop {
            match ticket.try_lock() {
                Ok(()) => {
                    *had = Some(started);
                    return Some(Next(ticket));
                }
                Err(TryLockError::WouldBlock) if pause(started, patience) => {}
                Err(_) => return None,
            }
        }
    }
}

impl Drop for Next<'_> {
    fn drop(&mut self) {
        // What can't be given back now is given back when the file is closed; others wait a moment.
        let _ = self.0.unlock();
    }
}

impl Drop for Tickets {
    fn drop(&mut self) {
        // The log is gone when nobody has the database open. If somebody opens it this very moment,
        // two files may be in use at once: then waiting is less fair, and no less safe.
        if let Some(place) = self.0.take()
            && !place.log.exists()
        {
            drop(place.ticket);
            let _ = remove_file(place.path);
        }
    }
}

/// The time when a connection began to wait, so that waiting for the ticket counts too.
pub(super) type Began = Arc<Mutex<Option<Instant>>>;

/// Returns the answer to SQLite's question where the database is busy: whether to try again, after
/// a pause.
pub(super) fn patience(timeout: Duration, began: Began) -> impl FnMut(i32) -> bool + Send {
    let mut started = Instant::now();
    move |tries| {
        if tries == 0 {
            started = began.lock().take().unwrap_or_else(Instant::now);
        }
        pause(started, timeout)
    }
}

/// Sleeps for a moment; false where the time is up.
pub(super) fn pause(started: Instant, timeout: Duration) -> bool {
    let waited = started.elapsed();
    let Some(left) = timeout.checked_sub(waited).filter(|left| !left.is_zero()) else {
        return false;
    };
    // Of random length, so that no two go on in step; the longer the wait, the less of it is missed
    // by sleeping on.
    let most = (waited / 16).clamp(SHORTEST, LONGEST);
    let random = u32::try_from(RandomState::new().hash_one(()) % 128).unwrap_or(0);
    thread::sleep((most / 2 + most * random / 256).min(left));
    true
}

const SHORTEST: Duration = Duration::from_micros(50);
const LONGEST: Duration = Duration::from_millis(1);
