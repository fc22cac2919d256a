//! The two kinds of conversations: over blocking memories and over async ones.

use std::sync::Arc;

use super::Approval;
use super::model::Model;
use super::tools::{Handler, Outcome};
use crate::memory::{ChatMemory, Limits};
use crate::turn::Call;

/// The kind of a conversation: over a blocking memory or over an async one. There are no others.
pub trait MemoryKind: sealed::Sealed {
    /// The type of its models.
    #[doc(hidden)]
    type Model: ?Sized;
    /// The type that runs a tool of it.
    #[doc(hidden)]
    type Handler: ?Sized;
    /// The type that asks whoever approves.
    #[doc(hidden)]
    type Approver: ?Sized;
    /// The lock that lets one turn run at a time.
    #[doc(hidden)]
    type Gate: Default;

    /// Returns what runs a tool that is done when it returns.
    #[doc(hidden)]
    fn handler(run: impl Fn(&Call) -> Outcome + Send + Sync + 'static) -> Arc<Self::Handler>;

    /// Returns what asks whoever has decided when it returns.
    #[doc(hidden)]
    fn approver(ask: impl Fn(&Call) -> Approval + Send + Sync + 'static) -> Box<Self::Approver>;

    /// Returns what the memory takes at most.
    #[doc(hidden)]
    fn limits(memory: &Self) -> Limits;
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
    type Approver = dyn Fn(&Call) -> Approval + Send + Sync;
    type Gate = parking_lot::Mutex<()>;

    fn handler(run: impl Fn(&Call) -> Outcome + Send + Sync + 'static) -> Arc<Handler> {
        Arc::new(run)
    }

    fn approver(ask: impl Fn(&Call) -> Approval + Send + Sync + 'static) -> Box<Self::Approver> {
        Box::new(ask)
    }

    fn limits(memory: &Self) -> Limits {
        memory.limits()
    }
}
