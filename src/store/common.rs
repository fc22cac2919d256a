//! The common part of the backends: a batch as it is written, what an append expects, the rows of a
//! read, errors, and numbers that databases have no other type for.

use std::fmt;
use std::ops::Range;
use std::sync::Arc;
use std::time::SystemTime;

use crate::error::{Error, ErrorKind, Result};
use crate::memory::{Append, Appended, FORGOTTEN};
use crate::message::Message;
use crate::record::{Incarnation, Records, SlotVersion, Unreadable, millis, time_of};

/// Refuses to ask a driver that would panic outside of a runtime.
#[cfg(any(feature = "cassandra", feature = "redis"))]
pub(super) fn in_runtime(backend: &str, operation: &'static str) -> Result<()> {
    tokio::runtime::Handle::try_current().map(drop).map_err(|error| {
        let text = format!("{backend}: the driver needs a tokio runtime");
        Error::new(ErrorKind::Storage, operation, text).with_source(error)
    })
}

/// Compares a conversation with what an append expects of it, but for its slots.
pub(super) fn check_expected(
    backend: &str,
    append: &Append,
    incarnation: Option<Incarnation>,
    positions: &Range<u64>,
) -> Result<()> {
    if let Some(expected) = append.expected.filter(|expected| *expected != positions.end) {
        return Err(conflict(backend, expected, positions.end));
    }
    if append.since.is_some_and(|since| !since.holds(incarnation, positions)) {
        return Err(Error::new(ErrorKind::Forgotten, "append", format!("{backend}: {FORGOTTEN}")));
    }
    Ok(())
}

/// Returns the time of each message that gets a position, in milliseconds since 1970; none if
/// the append brings no times.
pub(super) fn times_of_records(append: &Append) -> impl Iterator<Item = u64> + Clone {
    let timed = append.messages.iter().zip(&append.times);
    timed.filter(|(message, _)| !message.is_system()).map(|(_, at)| millis(*at))
}

/// Returns the outcome of an append in a backend that recognises ids.
pub(super) fn appended(positions: Range<u64>, version: Option<SlotVersion>) -> Appended {
    let mut appended = Appended::new(positions);
    (appended.version, appended.recognised) = (version, true);
    appended
}

/// Returns the error of an append that expects another end than there is.
pub(super) fn conflict(backend: &str, expected: u64, actual: u64) -> Error {
    let text = format!("{backend}: the conversation ends at {actual}, not at {expected}");
    Error::new(ErrorKind::Conflict { expected, actual }, "append", text)
}

/// The rows of a read, in any order: messages, and those that can't be read.
#[derive(Default)]
pub(super) struct Rows {
    readable: Vec<(u64, SystemTime, Message)>,
    unreadable: Vec<Unreadable>,
}

impl Rows {
    /// Takes the row at a position, appended so many milliseconds after 1970, from a database that
    /// counts with signs.
    pub(super) fn push_signed(&mut self, position: i64, millis: i64, message: Result<Message>) {
        self.push(unsigned(position), unsigned(millis), message.map_err(Arc::new));
    }

    /// Takes the row at a position, appended so many milliseconds after 1970.
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

    /// Returns the messages, each with its position.
    pub(super) fn readable(&self) -> impl Iterator<Item = (u64, &Message)> {
        self.readable.iter().map(|(position, _, message)| (*position, message))
    }

    /// Changes the messages that this function changes; one for which it fails can't be read.
    pub(super) fn change(&mut self, to: impl Fn(&Message) -> Result<Option<Message>>) {
        self.readable.retain_mut(|(position, _, message)| match to(message) {
            Ok(None) => true,
            Ok(Some(changed)) => {
                *message = changed;
                true
            }
            Err(error) => {
                let (position, error) = (*position, Arc::new(error));
                self.unreadable.push(Unreadable { position, error });
                false
            }
        });
    }

    /// Returns the messages, and the rows that can't be read, in the order of their positions.
    pub(super) fn into(mut self) -> (Records, Vec<Unreadable>) {
        self.unreadable.sort_unstable_by_key(|row| row.position);
        (Records::from_rows(self.readable), self.unreadable)
    }
}

/// Returns the system message as a snapshot has it. One that can't be read is an error: without it
/// a conversation is another one.
pub(super) fn system(
    backend: &str,
    message: Option<Result<Message>>,
) -> Result<Option<Arc<Message>>> {
    message.transpose().map(|message| message.map(Arc::new)).map_err(|error| {
        let text = format!("{backend}: the system message can't be read: {error}");
        Error::new(ErrorKind::Codec, "read", text).with_source(error)
    })
}

/// Returns the FNV-1a hash of a text, of 64 bits. It is part of what is stored, so it never
/// changes.
pub(super) fn fnv(text: &str) -> u64 {
    text.bytes().fold(0xcbf2_9ce4_8422_2325, |hash, byte| {
        (hash ^ u64::from(byte)).wrapping_mul(0x100_0000_01b3)
    })
}

/// Returns a slot's version from the number that a database without unsigned ones keeps.
pub(super) fn slot_version(bits: i64) -> SlotVersion {
    SlotVersion::from_bits(bits.cast_unsigned())
}

/// Returns a position, a time or a number of rows for a database that counts with signs.
pub(super) fn signed(number: impl TryInto<i64>) -> i64 {
    number.try_into().unwrap_or(i64::MAX)
}

/// Returns a number as it was before it was stored. This crate writes none that is negative;
/// somebody else may have.
pub(super) fn unsigned(number: i64) -> u64 {
    u64::try_from(number).unwrap_or(0)
}

/// Something that is not to be seen in a log, such as a password.
#[derive(Clone, Default)]
pub(super) struct Hidden<T>(pub(super) T);

impl<T> fmt::Debug for Hidden<T> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("..")
    }
}
