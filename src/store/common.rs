//! Shared parts of the backends: rows of reads, outcomes of appends, and conversions to signed
//! numbers.

use std::fmt;
use std::ops::Range;
use std::sync::Arc;
use std::time::SystemTime;

use crate::error::{Error, ErrorKind, Result};
use crate::memory::{Append, Appended};
use crate::message::Message;
use crate::record::{Records, SlotVersion, Unreadable, millis, time_of};

/// Refuses to call a driver that would panic outside of a runtime.
#[cfg(any(feature = "cassandra", feature = "postgres", feature = "redis"))]
pub(super) fn in_runtime(backend: &str, operation: &'static str) -> Result<()> {
    tokio::runtime::Handle::try_current().map(drop).map_err(|error| {
        let text = format!("{backend}: the driver needs a tokio runtime");
        Error::new(ErrorKind::Storage, operation, text).with_source(error)
    })
}

/// Returns the time of each message, in milliseconds since 1970; nothing if the append has no
/// times.
pub(super) fn times_of_records(append: &Append) -> impl Iterator<Item = u64> + Clone {
    let timed = append.messages.iter().zip(&append.times);
    timed.filter(|(message, _)| !message.is_system()).map(|(_, at)| millis(*at))
}

/// Returns the outcome of an append in a backend with append ids.
pub(super) fn appended(positions: Range<u64>, version: Option<SlotVersion>) -> Appended {
    let mut appended = Appended::new(positions);
    (appended.version, appended.recognised) = (version, true);
    appended
}

/// The rows of a read, in any order: messages and unreadable rows.
#[derive(Default)]
pub(super) struct Rows {
    readable: Vec<(u64, SystemTime, Message)>,
    unreadable: Vec<Unreadable>,
}

impl Rows {
    /// Adds a row from a database with signed numbers.
    pub(super) fn push_signed(&mut self, position: i64, millis: i64, message: Result<Message>) {
        self.push(unsigned(position), unsigned(millis), message.map_err(Arc::new));
    }

    /// Adds the row at a position, appended at this time in milliseconds since 1970.
    pub(super) fn push(
        &mut self,
        position: u64,
        millis: u64,
        message: Result<Message, Arc<Error>>,
    ) {
        match message {
            Ok(message) => self.readable.push((position, time_of(millis), message)),
            Err(error) => self.unreadable.push(Unreadable { position, error }),
        }
    }

    pub(super) fn readable(&self) -> impl Iterator<Item = &Message> {
        self.readable.iter().map(|(.., message)| message)
    }

    /// Changes the messages; one for which that fails becomes unreadable.
    pub(super) fn change(&mut self, change: impl Fn(&mut Message) -> Result<()>) {
        self.readable.retain_mut(|(position, _, message)| match change(message) {
            Ok(()) => true,
            Err(error) => {
                self.unreadable.push(Unreadable { position: *position, error: Arc::new(error) });
                false
            }
        });
    }

    /// Returns the messages and the unreadable rows, in the order of their positions.
    pub(super) fn into(mut self) -> (Records, Vec<Unreadable>) {
        self.unreadable.sort_unstable_by_key(|row| row.position);
        (Records::from_rows(self.readable), self.unreadable)
    }
}

/// Returns the system message for a snapshot. If it can't be read, that is an error: without it,
/// the conversation would be a different one.
pub(super) fn system(
    backend: &str,
    message: Option<Result<Message>>,
) -> Result<Option<Arc<Message>>> {
    message.transpose().map(|message| message.map(Arc::new)).map_err(|error| {
        let text = format!("{backend}: the system message can't be read: {error}");
        Error::new(ErrorKind::Codec, "read", text).with_source(error)
    })
}

/// Returns what sorts after all texts with this prefix, and before the next ones without it: no
/// byte of a text is 255.
pub(super) fn behind(prefix: &str) -> Vec<u8> {
    [prefix.as_bytes(), b"\xff"].concat()
}

/// Returns the 64-bit FNV-1a hash of a text. Stored data depend on it, so it must never change.
pub(super) fn fnv(text: &str) -> u64 {
    crate::message::fnv1a(text.bytes())
}

/// Returns a slot's version from its signed form in the database.
pub(super) fn slot_version(bits: i64) -> SlotVersion {
    SlotVersion::from_bits(bits.cast_unsigned())
}

/// Returns a position, a time or a count for a database with signed numbers.
pub(super) fn signed(number: impl TryInto<i64>) -> i64 {
    number.try_into().unwrap_or(i64::MAX)
}

/// Returns the stored number. This crate writes no negative ones, but another program may have.
pub(super) fn unsigned(number: i64) -> u64 {
    u64::try_from(number).unwrap_or(0)
}

/// A value that logs must not show, such as a password.
#[derive(Clone, Default)]
pub(super) struct Hidden<T>(pub(super) T);

impl<T> fmt::Debug for Hidden<T> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("..")
    }
}
