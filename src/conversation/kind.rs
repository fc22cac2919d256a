//! The two kinds of conversations: over blocking memories and over async ones.

use std::sync::Arc;

use super::late::Late;
use super::model::Model;
use super::tools::{Handler, Outcome};
use crate::memory::ChatMemory;
use crate::turn::Call;

/// The kind of a conversation: over a blocking memory or over an async one. There are no others.
pub trait MemoryKind: sealed::Sealed {
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

    /// Returns what runs a tool that is done when it returns.
    #[doc(hidden)]
    fn handler(run: impl Fn(&Call) -> Outcome + Send + Sync + 'static) -> Arc<Self::Handler>;
}

mod sealed {
    pub trait Sealed {}
    impl Sealed for dyn crate::memory::ChatMemory + '_ {}
    #[cfg(feature = "async")]
    impl Sealed for dyn crate::memory::AsyncChatMemory + '_ {}
}

impl MemoryKind for dyn ChatMemory + '_ {
    type Model = dyn Model;
    type Handler = Handler;
    type Gate = parking_lot::Mutex<()>;
    type Late = Late;

    fn handler(run: impl Fn(&Call) -> Outcome + Send + Sync + 'static) -> Arc<Handler> {
        Arc::new(run)
    }
}
