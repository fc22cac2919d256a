//! The connection that writes, with one commit for all threads that write at once.
//!
//! The cost of a commit is the wait for the disk, which is as long for sixty changes as for one. So
//! a thread that finds no other at work *leads*: it begins a transaction, makes its own change and
//! then those of all threads that arrived meanwhile, each in its own savepoint. Then it commits,
//! gives each thread the outcome of its change, and passes the lead to the first thread that has
//! arrived since. A single thread pays nothing for this.
//!
//! No outcome is given out before the commit that contains the change. A change that fails or
//! panics is undone alone, and only its own thread sees that. If SQLite gives up the whole
//! transaction, each change is made again in a transaction of its own, so that none fails because
//! of another.

use std::collections::VecDeque;
use std::panic::{AssertUnwindSafe, catch_unwind, resume_unwind};
use std::sync::Arc;
use std::thread;

use parking_lot::{Condvar, Mutex};
use rusqlite::TransactionBehavior::{self, Deferred, Immediate};
use rusqlite::{Connection, ErrorCode, Params, Transaction, ffi};

use super::failure::TxError;
use crate::error::{Error, ErrorKind};
use crate::store::given_up::Cancellation;

pub(super) struct Writer {
    connection: Mutex<Connection>,
    queue: Mutex<Queue>,
}

#[derive(Default)]
struct Queue {
    led: bool,
    waiting: VecDeque<Arc<Waiting>>,
}

/// A thread that waits until another thread has made its change, or for the lead.
struct Waiting {
    change: Mutex<Box<TxWork<'static>>>,
    signal: Mutex<Option<Signal>>,
    wake: Condvar,
}

/// A change to make in a transaction; it is made again if that is undone.
type TxWork<'a> = dyn FnMut(&Connection) -> Result<(), TxError> + Send + 'a;

enum Signal {
    Lead,
    Done(Outcome),
}

/// The outcome of a change; the outer error is a panic.
type Outcome = thread::Result<Result<(), TxError>>;

/// The most changes in a commit, so that neither other processes nor the leading thread wait for
/// long.
const MOST_IN_A_GROUP: usize = 256;

impl Writer {
    pub(super) fn new(connection: Connection) -> Self {
        Self { connection: Mutex::new(connection), queue: Mutex::default() }
    }

    /// Reads through the connection that writes, if there is no other.
    pub(super) fn read<T>(
        &self,
        work: impl FnOnce(&Connection) -> Result<T, TxError>,
    ) -> Result<T, TxError> {
        in_transaction(&self.connection.lock(), Deferred, work)
    }

    /// Writes in a transaction that excludes other writers from its beginning, so that what it read
    /// is still true when it writes. Cancelled work is not done.
    pub(super) fn write<T: Send + 'static>(
        &self,
        mut work: impl FnMut(&Connection) -> Result<T, TxError> + Send + 'static,
    ) -> Result<T, TxError> {
        let cancellation = Cancellation::of_this_thread();
        let value = Arc::new(Mutex::new(None));
        let kept = Arc::clone(&value);
        let mut change = move |connection: &Connection| {
            if cancellation.is_cancelled() {
                return Err(TxError::Refused("its future was dropped".to_owned()));
            }
            *kept.lock() = Some(work(connection)?);
            Ok(())
        };
        let mut queue = self.queue.lock();
        if queue.led {
            let waiting = Arc::new(Waiting {
                change: Mutex::new(Box::new(change)),
                signal: Mutex::default(),
                wake: Condvar::new(),
            });
            queue.waiting.push_back(Arc::clone(&waiting));
            drop(queue);
            match waiting.wait() {
                Signal::Lead => self.lead(&mut **waiting.change.lock())?,
                Signal::Done(outcome) => outcome.unwrap_or_else(|panic| resume_unwind(panic))?,
            }
        } else {
            queue.led = true;
            drop(queue);
            self.lead(&mut change)?;
        }
        let value = value.lock().take();
        value.ok_or_else(not_made)
    }

    /// Does what can't be done in a transaction, while no other thread of this process writes.
    pub(super) fn exclusively<T>(
        &self,
        work: impl FnOnce(&Connection) -> Result<T, TxError>,
    ) -> Result<T, TxError> {
        let connection = self.connection.lock();
        end_of_another(&connection)?;
        work(&connection)
    }

    /// Makes this change, and those of all threads that arrive meanwhile.
    fn lead(&self, own: &mut TxWork<'_>) -> Result<(), TxError> {
        let mut lead = Lead { queue: &self.queue, group: VecDeque::new() };
        let connection = self.connection.lock();
        let came_before = self.queue.lock().waiting.len();
        let transaction = begin(&connection, Immediate).inspect_err(|error| {
            if error.sqlite_error_code() == Some(ErrorCode::DatabaseBusy) {
                // These threads have waited for the other process as long as this one.
                while lead.group.len() < came_before && lead.admit().is_some() {}
                lead.wake_all(|_| Ok(Err(copy_of(error).into())));
            }
        })?;
        own(&connection)?; // a transaction that is dropped is rolled back
        let mut made = VecDeque::new();
        while made.len() == lead.group.len()
            && made.len() < MOST_IN_A_GROUP
            && let Some(next) = lead.admit()
        {
            made.extend(in_savepoint(&connection, &mut **next.change.lock()));
        }
        let whole = made.len() == lead.group.len();
        let committed = whole.then(|| connection.execute_batch("COMMIT"));
        let open = !connection.is_autocommit();
        drop(transaction);
        match committed {
            Some(Ok(())) => {
                lead.wake_all(|_| made.pop_front().unwrap_or_else(|| Ok(Err(not_made()))));
                Ok(())
            }
            Some(Err(error)) if lead.group.is_empty() || is_final(&error, open) => {
                lead.wake_all(|_| Ok(Err(copy_of(&error).into())));
                Err(error.into())
            }
            _ => {
                let alone =
                    |change: &mut TxWork<'_>| in_transaction(&connection, Immediate, change);
                let outcome = alone(own);
                lead.wake_all(|waiting| {
                    let mut change = waiting.change.lock();
                    catch_unwind(AssertUnwindSafe(|| alone(&mut **change)))
                });
                outcome
            }
        }
    }
}

impl Waiting {
    fn wait(&self) -> Signal {
        let mut signal = self.signal.lock();
        loop {
            match signal.take() {
                Some(signal) => return signal,
                None => self.wake.wait(&mut signal),
            }
        }
    }

    fn wake(&self, signal: Signal) {
        *self.signal.lock() = Some(signal);
        self.wake.notify_one();
    }
}

/// The lead, and the threads whose changes go into the same commit. The lead is passed on when this
/// is dropped, even by a panic.
struct Lead<'a> {
    queue: &'a Mutex<Queue>,
    group: VecDeque<Arc<Waiting>>,
}

impl Lead<'_> {
    fn admit(&mut self) -> Option<Arc<Waiting>> {
        let next = self.queue.lock().waiting.pop_front()?;
        self.group.push_back(Arc::clone(&next));
        Some(next)
    }

    /// Wakes each thread with the outcome of its change, in the order of their arrival.
    fn wake_all(&mut self, mut outcome: impl FnMut(&Waiting) -> Outcome) {
        while let Some(waiting) = self.group.pop_front() {
            let outcome = outcome(&waiting);
            waiting.wake(Signal::Done(outcome));
        }
    }
}

impl Drop for Lead<'_> {
    fn drop(&mut self) {
        let mut queue = self.queue.lock();
        // Threads still in the group have no outcome, since this thread panics: none of their
        // changes was committed.
        while let Some(waiting) = self.group.pop_back() {
            queue.waiting.push_front(waiting);
        }
        match queue.waiting.pop_front() {
            Some(first) => first.wake(Signal::Lead),
            None => queue.led = false,
        }
    }
}

fn begin(connection: &Connection, how: TransactionBehavior) -> rusqlite::Result<Transaction<'_>> {
    end_of_another(connection)?;
    Transaction::new_unchecked(connection, how)
}

/// Rolls back a transaction that failed and whose rollback failed too.
fn end_of_another(connection: &Connection) -> rusqlite::Result<()> {
    if connection.is_autocommit() { Ok(()) } else { connection.execute_batch("ROLLBACK") }
}

pub(super) fn in_transaction<T>(
    connection: &Connection,
    how: TransactionBehavior,
    work: impl FnOnce(&Connection) -> Result<T, TxError>,
) -> Result<T, TxError> {
    let transaction = begin(connection, how)?;
    let value = work(connection)?;
    transaction.commit()?; // without this, dropping it rolls it back
    Ok(value)
}

/// Runs a cached statement; returns how many rows it changed.
pub(super) fn run(
    connection: &Connection,
    sql: &str,
    values: impl Params,
) -> rusqlite::Result<usize> {
    connection.prepare_cached(sql)?.execute(values)
}

/// Makes a change that is undone alone if it fails. Returns `None` if that is impossible, or if the
/// change ended the whole transaction.
fn in_savepoint(connection: &Connection, change: &mut TxWork<'_>) -> Option<Outcome> {
    run(connection, "SAVEPOINT change", []).ok()?;
    let outcome = catch_unwind(AssertUnwindSafe(|| change(connection)));
    if connection.is_autocommit() {
        return None;
    }
    if !matches!(outcome, Ok(Ok(()))) {
        run(connection, "ROLLBACK TO change", []).ok()?;
    }
    run(connection, "RELEASE change", []).ok()?;
    Some(outcome)
}

/// Returns whether the changes of a failed commit must not be retried one by one: SQLite may report
/// an interruption of a commit that is done; and if the file was busy, it has waited long enough
/// already.
fn is_final(error: &rusqlite::Error, open: bool) -> bool {
    match error.sqlite_error_code() {
        Some(ErrorCode::OperationInterrupted) => !open,
        code => code == Some(ErrorCode::DatabaseBusy),
    }
}

/// Returns the same error for another waiting thread.
fn copy_of(error: &rusqlite::Error) -> rusqlite::Error {
    match error {
        rusqlite::Error::SqliteFailure(code, text) => {
            rusqlite::Error::SqliteFailure(*code, text.clone())
        }
        other => {
            let code = ffi::Error::new(ffi::SQLITE_ERROR);
            rusqlite::Error::SqliteFailure(code, Some(other.to_string()))
        }
    }
}

/// Returns an error that can't happen: a change was made without a result.
fn not_made() -> TxError {
    Error::new(ErrorKind::Storage, "write", "sqlite: the change was not made").into()
}

#[cfg(test)]
#[allow(clippy::panic)] // changes that panic are what is tested
mod tests {
    use std::collections::BTreeSet;
    use std::sync::atomic::{AtomicBool, AtomicU32, Ordering};
    use std::sync::mpsc;

    use super::*;

    /// What a change does after it has written its row.
    #[derive(Clone, Copy, Debug, PartialEq)]
    enum Then {
        Succeeds,
        Fails,
        Panics,
        /// Like SQLite when the disk is full.
        UndoesAll,
    }

    fn writer() -> Writer {
        let connection = Connection::open_in_memory().unwrap();
        connection.execute_batch("CREATE TABLE made (n)").unwrap();
        Writer::new(connection)
    }

    fn make(writer: &Writer, n: u32, then: Then) -> Result<u32, TxError> {
        writer.write(move |connection| {
            connection.execute("INSERT INTO made VALUES (?1)", [n])?;
            match then {
                Then::Succeeds => Ok(n),
                Then::Fails => Err(Error::invalid("test", n.to_string()).into()),
                Then::Panics => panic!("{n}"),
                Then::UndoesAll => {
                    connection.execute_batch("ROLLBACK")?;
                    Err(Error::invalid("test", n.to_string()).into())
                }
            }
        })
    }

    fn rows(writer: &Writer) -> Vec<u32> {
        let rows = writer.read(|connection| {
            let mut rows = connection.prepare("SELECT n FROM made ORDER BY n")?;
            Ok(rows.query_map([], |row| row.get(0))?.collect::<rusqlite::Result<_>>()?)
        });
        rows.unwrap_or_else(|error| panic!("{}", error.during("read", "in memory")))
    }

    /// Lets these changes wait while another thread leads, which then commits or panics. Each
    /// change must have the outcome that it would have alone. Returns how many commits that took.
    fn together(writer: &Writer, changes: &[Then], leader_panics: bool) -> u32 {
        let commits = Arc::new(AtomicU32::new(0));
        let count = Arc::clone(&commits);
        let count = move || {
            count.fetch_add(1, Ordering::Relaxed);
            false
        };
        writer.connection.lock().commit_hook(Some(count)).unwrap();
        let (go_on, may_go_on) = mpsc::channel::<()>();
        let (leads, is_led) = mpsc::channel();
        thread::scope(|scope| {
            let leader = scope.spawn(move || {
                writer.write(move |_| {
                    leads.send(()).unwrap();
                    let _ = may_go_on.recv();
                    assert!(!leader_panics, "the leader panics");
                    Ok(())
                })
            });
            is_led.recv().unwrap();
            let others: Vec<_> = (0..)
                .zip(changes)
                .map(|(n, then)| {
                    let other = scope.spawn(move || make(writer, n, *then));
                    while writer.queue.lock().waiting.len() <= n as usize {
                        thread::yield_now();
                    }
                    other
                })
                .collect();
            drop(go_on);
            assert_eq!(leader.join().is_err(), leader_panics);
            for ((n, then), other) in (0..).zip(changes).zip(others) {
                let n: u32 = n;
                match (then, other.join()) {
                    (Then::Succeeds, Ok(Ok(made))) => assert_eq!(made, n),
                    (Then::Fails | Then::UndoesAll, Ok(Err(error))) => {
                        assert_eq!(
                            error.during("test", "in memory").to_string(),
                            format!("test: {n}")
                        );
                    }
                    (Then::Panics, Err(panic)) => {
                        assert_eq!(*panic.downcast::<String>().unwrap(), n.to_string());
                    }
                    (then, _) => panic!("{n}, which {then:?}, became something else"),
                }
            }
        });
        let expected = (0..).zip(changes).filter(|(_, then)| **then == Then::Succeeds);
        assert_eq!(rows(writer), expected.map(|(n, _)| n).collect::<Vec<_>>());
        assert!(!writer.queue.lock().led);
        commits.load(Ordering::Relaxed)
    }

    #[test]
    fn those_who_wait_share_one_commit() {
        assert_eq!(together(&writer(), &[Then::Succeeds; 64], false), 1);
    }

    #[test]
    fn a_change_that_fails_or_panics_harms_no_neighbour() {
        use Then::{Fails, Panics, Succeeds};
        let changes = [Succeeds, Fails, Succeeds, Panics, Fails, Succeeds];
        assert_eq!(together(&writer(), &changes, false), 1);
    }

    #[test]
    fn a_leader_that_panics_hands_on_the_lead() {
        assert_eq!(together(&writer(), &[Then::Succeeds; 8], true), 1);
    }

    #[test]
    fn what_was_undone_for_a_neighbour_is_done_again() {
        let mut changes = [Then::Succeeds; 8];
        changes[5] = Then::UndoesAll;
        // The leader and the six changes up to the failure, each alone; then the two that were
        // left.
        assert!(together(&writer(), &changes, false) > 1);
    }

    /// Every list of changes has the same outcomes as its changes one by one.
    #[test]
    fn any_changes_together_are_what_they_are_alone() {
        use proptest::prelude::*;
        let then = prop_oneof![
            6 => Just(Then::Succeeds), 2 => Just(Then::Fails),
            1 => Just(Then::Panics), 1 => Just(Then::UndoesAll)
        ];
        let changes = proptest::collection::vec(then, 0..24);
        let config =
            ProptestConfig { failure_persistence: None, ..ProptestConfig::with_cases(100) };
        proptest!(config, |(changes in changes, leader_panics: bool)| {
            together(&writer(), &changes, leader_panics);
        });
    }

    /// Threads come and go while every third commit fails: acknowledged changes are there once, and
    /// nothing else is.
    #[test]
    fn what_is_acknowledged_is_there_once_while_commits_fail() {
        let writer = writer();
        let commits = AtomicU32::new(0);
        let fail = move || commits.fetch_add(1, Ordering::Relaxed) % 3 == 1;
        writer.connection.lock().commit_hook(Some(fail)).unwrap();
        let (writer, acknowledged) = (&writer, &Mutex::new(BTreeSet::new()));
        thread::scope(|scope| {
            for thread in 0..8 {
                scope.spawn(move || {
                    for n in thread * 100..(thread + 1) * 100 {
                        if make(writer, n, Then::Succeeds).is_ok() {
                            acknowledged.lock().insert(n);
                        }
                    }
                });
            }
        });
        let acknowledged = acknowledged.lock();
        assert!(acknowledged.len() > 100 && acknowledged.len() < 800, "{}", acknowledged.len());
        assert!(acknowledged.iter().eq(&rows(writer)));
    }

    /// SQLite calls the progress handler once more when a commit is done, and reports an error for
    /// it: a retry would write everything twice.
    #[test]
    fn a_commit_that_may_be_done_is_not_done_again() {
        let writer = writer();
        let done = Arc::new(AtomicBool::new(false));
        let interrupts = Arc::clone(&done);
        {
            let mut connection = writer.connection.lock();
            connection
                .progress_handler(1, Some(move || interrupts.swap(false, Ordering::Relaxed)))
                .unwrap();
            let commit = move || {
                done.store(true, Ordering::Relaxed);
                false
            };
            connection.commit_hook(Some(commit)).unwrap();
        }
        let (go_on, may_go_on) = mpsc::channel::<()>();
        thread::scope(|scope| {
            let writer = &writer;
            let leader = scope.spawn(move || {
                writer.write(move |_| {
                    let _ = may_go_on.recv();
                    Ok(())
                })
            });
            while !writer.queue.lock().led {
                thread::yield_now();
            }
            let others: Vec<_> =
                (0..4).map(|n| scope.spawn(move || make(writer, n, Then::Succeeds))).collect();
            while writer.queue.lock().waiting.len() < 4 {
                thread::yield_now();
            }
            drop(go_on);
            assert!(leader.join().unwrap().is_err());
            for other in others {
                assert!(other.join().unwrap().is_err(), "nobody knows that it is done");
            }
        });
        assert_eq!(rows(&writer), [0, 1, 2, 3]);
    }
}
