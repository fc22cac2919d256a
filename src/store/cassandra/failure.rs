//! The driver's errors in words, and whether a change may have been made in spite of them.

use std::error::Error as StdError;

use scylla::errors::{DbError, ExecutionError, NewSessionError, RequestAttemptError};

use crate::error::{Error, ErrorKind};

/// A request without an answer, or with an unknown one.
pub(super) enum Failure {
    Request(Box<ExecutionError>),
    Strange(Box<dyn StdError + Send + Sync>),
}

impl From<ExecutionError> for Failure {
    fn from(error: ExecutionError) -> Self {
        Self::Request(Box::new(error))
    }
}

impl Failure {
    pub(super) fn strange(error: impl StdError + Send + Sync + 'static) -> Self {
        Self::Strange(Box::new(error))
    }

    pub(super) fn during(self, operation: &'static str) -> Error {
        self.error(ErrorKind::Storage, operation, "")
    }

    /// Returns the error of a change whose outcome is unknown after all attempts.
    pub(super) fn unacknowledged(self, operation: &'static str) -> Error {
        self.error(ErrorKind::Unacknowledged, operation, "outcome unknown: ")
    }

    fn error(self, kind: ErrorKind, operation: &'static str, text: &str) -> Error {
        let (why, source): (_, Box<dyn StdError + Send + Sync>) = match self {
            Self::Request(error) => (describe(&error), error),
            Self::Strange(error) => (format!("the answer can't be read: {error}"), error),
        };
        Error::new(kind, operation, format!("cassandra: {text}{why}")).with_source(source)
    }

    /// Returns whether a change may have been made in spite of this error.
    pub(super) fn leaves_doubt(&self) -> bool {
        match self {
            Self::Request(error) => leaves_doubt(error),
            Self::Strange(_) => true,
        }
    }
}

pub(super) fn failed(operation: &'static str, error: ExecutionError) -> Error {
    Failure::from(error).during(operation)
}

/// Returns the error of a change that may have been made, if the evidence is gone because of later
/// changes.
pub(super) fn overtaken(operation: &'static str) -> Error {
    let text = "cassandra: outcome unknown: the request failed, and then \
                another writer changed the conversation";
    Error::new(ErrorKind::Unacknowledged, operation, text)
}

pub(super) fn unreachable(address: &str, error: NewSessionError) -> Error {
    let text = format!("cassandra: {address} can't be reached: {error}");
    Error::new(ErrorKind::Storage, "open", text).with_source(error)
}

/// Describes the driver's error, with what to do about it.
fn describe(error: &ExecutionError) -> String {
    match error {
        ExecutionError::RequestTimeout(time) => format!("no answer within {time:?}"),
        ExecutionError::LastAttemptError(RequestAttemptError::DbError(error, text)) => {
            match error {
                DbError::Unavailable { required, alive, .. } => {
                    format!("{alive} replicas are alive, and {required} are needed")
                }
                DbError::ReadTimeout { .. } | DbError::WriteTimeout { .. } => {
                    "the replicas did not answer in time".to_owned()
                }
                DbError::Unauthorized => format!("the user may not do that: {text}"),
                error if text.is_empty() => error.to_string(),
                _ => text.clone(),
            }
        }
        error => error.to_string(),
    }
}

/// Returns whether a change may have been made in spite of this error. `Unavailable` leaves doubt:
/// replicas that have agreed on a change commit it, and if too few are alive by then, the error is
/// the same as if too few were alive from the start.
fn leaves_doubt(error: &ExecutionError) -> bool {
    use DbError as Db;
    match error {
        ExecutionError::LastAttemptError(error) => match error {
            RequestAttemptError::DbError(error, _) => !matches!(
                error,
                Db::SyntaxError
                    | Db::Invalid
                    | Db::Unauthorized
                    | Db::AuthenticationError
                    | Db::ConfigError
                    | Db::IsBootstrapping
            ),
            RequestAttemptError::SerializationError(_)
            | RequestAttemptError::CqlRequestSerialization(_)
            | RequestAttemptError::UnableToAllocStreamId => false,
            _ => true,
        },
        ExecutionError::BadQuery(_)
        | ExecutionError::EmptyPlan
        | ExecutionError::PrepareError(_)
        | ExecutionError::ConnectionPoolError(_) => false,
        _ => true,
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    /// A replica died between agreement and commit: the change was reported as not made, and then
    /// the next request completed it.
    #[test]
    fn replicas_that_are_gone_leave_doubt() {
        let failure = |error| {
            let error = RequestAttemptError::DbError(error, String::new());
            Failure::from(ExecutionError::LastAttemptError(error))
        };
        let consistency = scylla::statement::Consistency::Quorum;
        let gone = || DbError::Unavailable { consistency, required: 2, alive: 1 };
        assert!(failure(gone()).leaves_doubt());
        assert!(!failure(DbError::Invalid).leaves_doubt());
        let error = failure(gone()).unacknowledged("append");
        assert_eq!(error.kind(), ErrorKind::Unacknowledged);
        let expected = "append: cassandra: outcome unknown: 1 \
                        replicas are alive, and 2 are needed";
        assert_eq!(error.to_string(), expected);
    }
}
