//! The differences between blocking and async conversations, and the run of a blocking tool.

use std::any::Any;
use std::panic::{AssertUnwindSafe, catch_unwind};
use std::time::Duration;

use super::late::Late;
use super::model::Model;
use crate::memory::ChatMemory;
use crate::message::Content;
use crate::turn::{Call, ToolError};

/// The kind of a conversation: over a blocking memory or over an async one. There are no others.
pub trait Kind: sealed::Sealed {
    /// The type of its models.
    #[doc(hidden)]
    type Model: ?Sized;
    /// The type that runs a tool of it.
    #[doc(hidden)]
    type Handler: ?Sized;
    /// The lock that lets one turn run at a time.
    #[doc(hidden)]
    type Gate: Default;
    /// The calls that took too long, while their turns are not stored.
    #[doc(hidden)]
    type Late: Default;
}

mod sealed {
    pub trait Sealed {}
    impl Sealed for dyn crate::memory::ChatMemory + '_ {}
    #[cfg(feature = "async")]
    impl Sealed for dyn crate::memory::AsyncChatMemory + '_ {}
}

/// The outcome of a call.
pub(super) type Outcome = Result<Content, ToolError>;

impl Kind for dyn ChatMemory + '_ {
    type Model = dyn Model;
    type Handler = dyn Fn(&Call) -> Outcome + Send + Sync;
    type Gate = parking_lot::Mutex<()>;
    type Late = Late;
}

/// The type that runs a tool of a blocking conversation.
pub(super) type Handler = <dyn ChatMemory as Kind>::Handler;

/// Runs a tool here and now. One that panics has failed.
pub(super) fn run(handler: &Handler, call: &Call) -> Outcome {
    catch_unwind(AssertUnwindSafe(|| handler(call))).unwrap_or_else(|panic| Err(panicked(&*panic)))
}

/// The error of a tool that panicked. Its words may be about anything, so they are not repeated.
pub(super) fn panicked(_: &dyn Any) -> ToolError {
    ToolError::new("the tool panicked; nobody knows how far it came")
}

/// The text for the model about a call that took too long.
pub(super) fn timed_out(timeout: Duration) -> String {
    format!("It took longer than {timeout:?}.")
}
