//! The driver's errors: what they mean for an operation, and words for people.

use redis::{RedisError, ServerErrorKind};

use super::connect::Way;

/// The sense of an error for what was asked for.
pub(super) enum Verdict {
    /// It is not done, and would not be the next time.
    Refused,
    /// It is not done, but may be the next time.
    NotYet,
    /// It is not done, but may be where the address leads now.
    NotHere,
    /// It may be done.
    InDoubt,
}

impl Verdict {
    /// Returns the verdict on an operation that failed so on this way.
    pub(super) fn of(error: &RedisError, way: &Way) -> Self {
        use redis::ErrorKind::{
            AuthenticationFailed, Client, Extension, InvalidClientConfig, Server,
        };
        let cluster = way.is_cluster();
        match error.kind() {
            Server(
                ServerErrorKind::Ask
                | ServerErrorKind::BusyLoading
                | ServerErrorKind::ClusterDown
                | ServerErrorKind::MasterDown
                | ServerErrorKind::Moved
                | ServerErrorKind::TryAgain,
            ) if !cluster => Self::NotYet,
            // It is not done, and may have been late by the clock of another server than this one.
            _ if error.code() == Some("LATE") => Self::NotYet,
            // The server may have been the master before: the address may lead to the new one now.
            Server(ServerErrorKind::ReadOnly) if !cluster && way.is_made() => Self::NotHere,
            Server(ServerErrorKind::ReadOnly) if !cluster => Self::Refused,
            Server(
                ServerErrorKind::ResponseError
                | ServerErrorKind::ExecAbort
                | ServerErrorKind::NoPerm
                | ServerErrorKind::CrossSlot,
            )
            | AuthenticationFailed
            | Client
            | Extension
            | InvalidClientConfig => Self::Refused,
            _ if error.is_connection_refusal() && !cluster => Self::NotYet,
            // The cluster's client has asked several times by itself, and tells the last error
            // alone.
            _ => Self::InDoubt,
        }
    }
}

/// Puts the driver's error in words that say what to do about it.
pub(super) fn describe(error: &RedisError, place: &str) -> String {
    let text = match error.code() {
        Some("OOM") => "the server's memory is full (maxmemory)",
        Some("MISCONF") => "the server can't write to its disk and refuses changes (MISCONF)",
        Some("READONLY") => "the server is a replica and takes no changes",
        Some("NOREPLICAS") => "too few replicas are there for a change (min-replicas-to-write)",
        Some("NOAUTH" | "WRONGPASS") => "the server wants another user or password",
        _ if error.kind() == redis::ErrorKind::AuthenticationFailed => {
            "the server wants another user or password"
        }
        // What was asked for is a command that each server has.
        _ if error.to_string().contains("unknown command") && error.to_string().contains("GET") => {
            return format!(
                "{place} is a Redis Sentinel, or something else that keeps no data: name the master"
            );
        }
        _ if error.is_timeout() => return format!("{place} does not answer in time"),
        _ if error.is_io_error() => return format!("no connection to {place}: {error}"),
        _ => return error.to_string(),
    };
    text.to_owned()
}
