//! Errors of the server and the driver, and what they mean for the request.

use std::error::Error as StdError;
use std::{io, iter};

use deadpool_postgres::tokio_postgres as driver;
use deadpool_postgres::tokio_postgres::error::{Severity, SqlState};

use super::schema::is_of_appends;
use super::tls::Security;
use crate::error::{Error, ErrorKind};

/// What an error means for the request.
pub(super) enum Verdict {
    /// It was not done.
    Undone,
    /// It was not done because of another transaction; a retry may succeed.
    InTheWay,
    /// It was not done: this server takes no changes, but the address may lead to another one by
    /// now.
    ReadOnly,
    /// It was not done: the prepared statement does not exist, because a pooler is in between.
    NotPrepared,
    Unknown,
}

impl Verdict {
    pub(super) fn of(error: &driver::Error) -> Self {
        let Some(said) = error.as_db_error() else { return Self::Unknown };
        // An error that ends a session may come after a commit; a pooler reports class 08 when it
        // loses the server.
        if said.parsed_severity() != Some(Severity::Error) || said.code().code().starts_with("08") {
            return Self::Unknown;
        }
        match *said.code() {
            SqlState::T_R_SERIALIZATION_FAILURE | SqlState::T_R_DEADLOCK_DETECTED => Self::InTheWay,
            // Another append under the same id was faster. The next attempt sees it.
            SqlState::UNIQUE_VIOLATION if said.table().is_some_and(is_of_appends) => Self::InTheWay,
            SqlState::READ_ONLY_SQL_TRANSACTION => Self::ReadOnly,
            SqlState::INVALID_SQL_STATEMENT_NAME | SqlState::DUPLICATE_PSTATEMENT => {
                Self::NotPrepared
            }
            SqlState::T_R_STATEMENT_COMPLETION_UNKNOWN => Self::Unknown,
            _ => Self::Undone,
        }
    }
}

pub(super) fn fail_unacknowledged(operation: &'static str, why: &str) -> Error {
    let text = format!("postgres: outcome unknown: {why}");
    Error::new(ErrorKind::Unacknowledged, operation, text)
}

/// Converts the driver's error for an operation that was not done.
pub(super) fn fail(operation: &'static str, error: driver::Error) -> Error {
    let text = format!("postgres: {}", describe(&error));
    Error::new(ErrorKind::Storage, operation, text).with_source(error)
}

/// Describes the driver's error, with what to do about it, but without the server's quotes from
/// rows.
pub(super) fn describe(error: &driver::Error) -> String {
    let Some(said) = error.as_db_error() else {
        return causes(error).map(ToString::to_string).collect::<Vec<_>>().join(": ");
    };
    match *said.code() {
        SqlState::QUERY_CANCELED => "it was cancelled, or took too long".to_owned(),
        SqlState::DISK_FULL => "the disk is full".to_owned(),
        SqlState::LOCK_NOT_AVAILABLE => "another transaction held a lock for too long".to_owned(),
        SqlState::READ_ONLY_SQL_TRANSACTION => "the database is read-only".to_owned(),
        _ => format!("{} ({})", said.message(), said.code().code()),
    }
}

/// Returns whether the server cancelled the request because it took too long, and did nothing.
pub(super) fn took_too_long(error: &Error) -> bool {
    let source = StdError::source(error);
    let said = source.and_then(|error| error.downcast_ref::<driver::Error>());
    said.and_then(driver::Error::code) == Some(&SqlState::QUERY_CANCELED)
}

/// Returns whether a connection may be possible in a moment: no server listens, or it starts, ends,
/// or has too many connections.
pub(super) fn may_come_back(error: &driver::Error) -> bool {
    let Some(said) = error.as_db_error() else { return is_of_the_network(error) };
    [
        SqlState::CANNOT_CONNECT_NOW,
        SqlState::ADMIN_SHUTDOWN,
        SqlState::CRASH_SHUTDOWN,
        SqlState::TOO_MANY_CONNECTIONS,
    ]
    .contains(said.code())
        || said.code().code().starts_with("08")
}

/// Returns whether no server listens, or it is gone, as opposed to a problem with the address, the
/// password or the certificate.
fn is_of_the_network(error: &driver::Error) -> bool {
    match causes(error).find_map(|error| error.downcast_ref::<io::Error>()) {
        Some(error) => error.kind() != io::ErrorKind::InvalidData,
        None => error.is_closed(),
    }
}

/// Returns the error, what caused it, and so on.
fn causes(error: &driver::Error) -> impl Iterator<Item = &(dyn StdError + 'static)> {
    iter::successors(Some(error as &(dyn StdError + 'static)), |&error| error.source())
}

/// Describes a failed connection, with what to do about it.
pub(super) fn describe_connecting(error: &driver::Error, security: &Security) -> String {
    let text = describe(error);
    let refused = error.code() == Some(&SqlState::INVALID_AUTHORIZATION_SPECIFICATION);
    // The server says so in its own language, except for this file name.
    if refused && text.contains("pg_hba.conf") { security.advise(&text) } else { text }
}
