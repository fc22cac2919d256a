//! Errors, and their texts.

use rusqlite::ErrorCode;

use crate::error::{Error, ErrorKind};

pub(super) enum TxError {
    Sqlite(rusqlite::Error),
    /// Why a change is refused because of this file.
    Refused(String),
    Ours(Error),
}

impl From<rusqlite::Error> for TxError {
    fn from(error: rusqlite::Error) -> Self {
        Self::Sqlite(error)
    }
}

impl From<Error> for TxError {
    fn from(error: Error) -> Self {
        Self::Ours(error)
    }
}

impl TxError {
    pub(super) fn during(self, operation: &'static str, place: &str) -> Error {
        match self {
            Self::Sqlite(error) => failed(operation, error, place),
            Self::Refused(text) => {
                Error::new(ErrorKind::Storage, operation, format!("sqlite: {text} ({place})"))
            }
            Self::Ours(error) => error,
        }
    }
}

/// Describes SQLite's error with what to do about it, the place, and SQLite's own text.
pub(super) fn failed(operation: &'static str, error: rusqlite::Error, place: &str) -> Error {
    let text = match error.sqlite_error_code() {
        Some(ErrorCode::DatabaseBusy | ErrorCode::DatabaseLocked) => {
            "another connection wrote for longer than the busy timeout"
        }
        Some(ErrorCode::DiskFull) => "the disk is full",
        Some(ErrorCode::ReadOnly) => "the file is read-only",
        Some(ErrorCode::CannotOpen) => "the file can't be opened",
        Some(ErrorCode::NotADatabase) => "the file is no database",
        Some(ErrorCode::DatabaseCorrupt) => "the file is damaged",
        Some(ErrorCode::TooBig) => "a message, a slot or an id is larger than SQLite takes",
        _ => "the operation failed",
    };
    let words = error.to_string();
    let place = if words.contains(place) { String::new() } else { format!("{place}: ") };
    let text = format!("sqlite: {text} ({place}{words})");
    Error::new(ErrorKind::Storage, operation, text).with_source(error)
}
