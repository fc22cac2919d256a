//! The driver's errors: what they mean for an operation, and words for people.

use redis::{RedisError, ServerErrorKind};

use super::connect::Connector;

/// The meaning of a failed attempt for its operation.
pub(super) enum Verdict {
    /// It is not done, and would not be the next time.
    Refused,
    /// It is not done, but may be the next time.
    NotYet,
    /// It is not done, but may be at the server to which the address leads now.
    Elsewhere,
    /// It may be done.
    InDoubt,
    /// Nothing came back: it may be done, and the connection may lead nowhere.
    Silent,
}

impl Verdict {
    /// Returns the verdict on an operation that failed so.
    pub(super) fn of(error: &RedisError, connector: &Connector) -> Self {
        use redis::ErrorKind::{
            AuthenticationFailed, Client, Extension, InvalidClientConfig, Server,
        };
        let cluster = connector.is_cluster();
        match error.kind() {
            Server(
                ServerErrorKind::Ask
                | ServerErrorKind::BusyLoading
                | ServerErrorKind::ClusterDown
                | ServerErrorKind::MasterDown
                | ServerErrorKind::Moved
                | ServerErrorKind::TryAgain,
            ) if !cluster => Self::NotYet,
            // The server may have been the master before: the address may lead to the new one now.
            Server(ServerErrorKind::ReadOnly) if !cluster && connector.is_managed() => {
                Self::Elsewhere
            }
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
            // The cluster's client has asked several times by itself, and returns the last error
            // alone.
            _ => Self::InDoubt,
        }
    }

    pub(super) fn leaves_doubt(&self) -> bool {
        matches!(self, Self::InDoubt | Self::Silent)
    }

    /// Returns whether other connections are needed.
    pub(super) fn leads_nowhere(&self) -> bool {
        matches!(self, Self::Elsewhere | Self::Silent)
    }

    /// Returns why it is attempted again.
    pub(super) fn reason(&self) -> &'static str {
        match self {
            Self::Refused | Self::NotYet => "the server is not ready",
            Self::Elsewhere => "the server has become a replica",
            Self::InDoubt => "the connection is lost, or the server in doubt",
            Self::Silent => "no answer",
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
