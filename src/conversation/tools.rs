//! How a tool of a blocking conversation is run, how panics are caught, and the texts about calls.

use std::panic::{AssertUnwindSafe, catch_unwind};
use std::thread;
use std::time::Duration;

use crate::message::Content;
use crate::turn::{Call, ToolError};

pub(super) type Outcome = Result<Content, ToolError>;

/// The function that runs a tool; `C` is the outcome of the call, or a future of it.
pub(super) type Handler<C = Outcome> = dyn Fn(&Call) -> C + Send + Sync;

/// Runs a tool on this thread. A tool that panics has failed.
pub(super) fn run(work: impl FnOnce() -> Outcome) -> Outcome {
    caught(work).unwrap_or_else(|_| Err(panicked()))
}

/// Catches a panic of a tool, the model, an approver or a listener.
pub(super) fn caught<T>(work: impl FnOnce() -> T) -> thread::Result<T> {
    catch_unwind(AssertUnwindSafe(work))
}

/// The error of a tool that panicked. The text of the panic may contain anything, so it is not
/// repeated.
pub(super) fn panicked() -> ToolError {
    ToolError::new("the tool panicked; nobody knows how far it came")
}

/// The text for the model about a call that took too long.
pub(super) fn timed_out(timeout: Duration) -> String {
    format!("It took longer than {timeout:?}.")
}

/// The text for the model about a call while too many others go on.
pub(super) const TOO_MANY: &str = "Not run: too many earlier calls took too long and still run.";
