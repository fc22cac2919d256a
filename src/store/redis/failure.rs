//! The driver's errors: what they mean for an operation, and texts for people.

use redis::{RedisError, ServerErrorKind};

use super::connect::Connector;

/// What a failed attempt means for its operation.
pub(super) enum Verdict {
    /// It was not done, and a retry would not help.
    Refused,
    /// It was not done, but a retry may succeed.
    NotYet,
    /// It was not done, but may succeed on the server to which the address leads now.
    Elsewhere,
    /// The outcome is unknown.
    InDoubt,
    /// No answer came: the outcome is unknown, and the connection may be dead.
    Silent,
}

impl Verdict {
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
            // This server may have been the master; the address may lead to the new one by now.
            _ if code(error) == Some("READONLY") && !cluster => {
                if connector.is_managed() {
                    Self::Elsewhere
                } else {
                    Self::Refused
                }
            }
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
            // The cluster client has retried by itself, and returns only the last error.
            _ => Self::InDoubt,
        }
    }

    pub(super) fn leaves_doubt(&self) -> bool {
        matches!(self, Self::InDoubt | Self::Silent)
    }

    pub(super) fn leads_nowhere(&self) -> bool {
        matches!(self, Self::Elsewhere | Self::Silent)
    }

    pub(super) fn reason(&self) -> &'static str {
        match self {
            Self::Refused | Self::NotYet => "the server is not ready",
            Self::Elsewhere => "the server has become a replica",
            Self::InDoubt => "the connection is lost, or the server in doubt",
            Self::Silent => "no answer",
        }
    }
}

/// Returns the code of a server's error. Before Redis 7, the code of a command in a script is
/// within the error of the script.
fn code(error: &RedisError) -> Option<&str> {
    let within = error.detail().unwrap_or_default();
    let mut codes = ["READONLY", "OOM", "MISCONF", "NOREPLICAS"].into_iter();
    codes.find(|code| within.contains(&format!("-{code} "))).or_else(|| error.code())
}

/// Describes the driver's error, with what to do about it.
pub(super) fn describe(error: &RedisError, place: &str) -> String {
    let text = match code(error) {
        Some("OOM") => "the server's memory is full (maxmemory)",
        Some("MISCONF") => "the server can't write to its disk and refuses changes (MISCONF)",
        Some("READONLY") => "the server is a replica and takes no changes",
        Some("NOREPLICAS") => "too few replicas are there for a change (min-replicas-to-write)",
        Some("NOAUTH" | "WRONGPASS") => "the server wants another user or password",
        _ if error.kind() == redis::ErrorKind::AuthenticationFailed => {
            "the server wants another user or password"
        }
        // Every real Redis server knows the command that was sent.
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
