//! The common part of the backends: a batch as it is written, errors, and numbers that databases
//! have no other type for.

use std::ops::Range;
#[cfg(any(feature = "cassandra", feature = "postgres", feature = "sqlite"))]
use std::sync::Arc;
use std::time::{Duration, SystemTime};

use crate::codec::Codec;
use crate::error::{Error, ErrorKind, Result};
#[cfg(any(feature = "cassandra", feature = "postgres", feature = "sqlite"))]
use crate::memory::{Appended, FORGOTTEN};
use crate::message::Message;
#[cfg(any(feature = "cassandra", feature = "postgres", feature = "sqlite"))]
use crate::record::{Records, SlotVersion, Unreadable};

/// Refuses to ask a driver that would panic outside of a runtime.
#[cfg(any(feature = "cassandra", feature = "redis"))]
pub(super) fn in_runtime(backend: &str, operation: &'static str) -> Result<()> {
    tokio::runtime::Handle::try_current().map(drop).map_err(|error| {
        let text = format!("{backend}: the driver needs a tokio runtime");
        Error::new(ErrorKind::Storage, operation, text).with_source(error)
    })
}

/// A batch as it is written: a system message goes to its slot, the last one if there are several.
pub(super) struct Payloads {
    pub(super) system: Option<Vec<u8>>,
    pub(super) messages: Vec<Vec<u8>>,
}

impl Payloads {
    pub(super) fn of(backend: &str, codec: Codec, batch: &[Message]) -> Result<Self> {
        let mut payloads = Self { system: None, messages: Vec::with_capacity(batch.len()) };
        for (i, message) in batch.iter().enumerate() {
            let payload = codec.encode(message).map_err(|error| {
                let text = format!("{backend}: message {i} of the batch can't be written: {error}");
                Error::new(ErrorKind::Codec, "append", text).with_source(error)
            })?;
            if message.is_system() {
                payloads.system = Some(payload);
            } else {
                payloads.messages.push(payload);
            }
        }
        Ok(payloads)
    }
}

/// Returns what an append of nothing does where the conversation ends at `end`.
#[cfg(any(feature = "postgres", feature = "redis", feature = "sqlite"))]
pub(super) fn nothing(backend: &str, expected: Option<u64>, end: u64) -> Result<Range<u64>> {
    match expected.filter(|expected| *expected != end) {
        None => Ok(end..end),
        Some(expected) => Err(conflict(backend, expected, end)),
    }
}

/// Returns what an append came to in a backend that recognises ids.
#[cfg(any(feature = "cassandra", feature = "postgres", feature = "sqlite"))]
pub(super) fn appended(positions: Range<u64>, version: Option<SlotVersion>) -> Appended {
    let mut appended = Appended::new(positions);
    (appended.version, appended.recognised) = (version, true);
    appended
}

pub(super) fn conflict(backend: &str, expected: u64, actual: u64) -> Error {
    let text = format!("{backend}: the conversation ends at {actual}, not at {expected}");
    Error::new(ErrorKind::Conflict { expected, actual }, "append", text)
}

/// Returns the error of an append to what was forgotten since it was seen.
#[cfg(any(feature = "cassandra", feature = "postgres", feature = "sqlite"))]
pub(super) fn forgotten(backend: &str) -> Error {
    Error::new(ErrorKind::Forgotten, "append", format!("{backend}: {FORGOTTEN}"))
}

/// The rows of a read, in any order: messages, and those that can't be read.
#[cfg(any(feature = "cassandra", feature = "postgres", feature = "sqlite"))]
#[derive(Default)]
pub(super) struct Rows {
    readable: Vec<(u64, SystemTime, Message)>,
    unreadable: Vec<Unreadable>,
}

#[cfg(any(feature = "cassandra", feature = "postgres", feature = "sqlite"))]
impl Rows {
    /// Takes the row at a position, appended so many milliseconds after 1970.
    pub(super) fn take(&mut self, seq: i64, millis: i64, message: Result<Message>) {
        let seq = unsigned(seq);
        match message {
            Ok(message) => self.readable.push((seq, at(unsigned(millis)), message)),
            Err(error) => self.unreadable.push(Unreadable { seq, error: Arc::new(error) }),
        }
    }

    pub(super) fn into(mut self) -> (Records, Vec<Unreadable>) {
        self.unreadable.sort_unstable_by_key(|row| row.seq);
        (Records::from_rows(self.readable), self.unreadable)
    }
}

/// Without its system message a conversation is another one, so one that can't be read is an error.
pub(super) fn no_system(backend: &str, error: Error) -> Error {
    let text = format!("{backend}: the system message can't be read: {error}");
    Error::new(ErrorKind::Codec, "read", text).with_source(error)
}

/// Returns a time of append, from milliseconds since 1970.
pub(super) fn at(millis: u64) -> SystemTime {
    SystemTime::UNIX_EPOCH + Duration::from_millis(millis)
}

/// Returns a position, a time or a number of rows for a database that counts with signs.
#[cfg(any(feature = "cassandra", feature = "postgres", feature = "sqlite"))]
pub(super) fn signed(number: impl TryInto<i64>) -> i64 {
    number.try_into().unwrap_or(i64::MAX)
}

/// Returns a number as it was before it was stored. This crate writes none that is negative;
/// somebody else may have.
#[cfg(any(feature = "cassandra", feature = "postgres", feature = "sqlite"))]
pub(super) fn unsigned(number: i64) -> u64 {
    u64::try_from(number).unwrap_or(0)
}
