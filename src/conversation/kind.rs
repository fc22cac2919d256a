//! The two kinds of conversations: over blocking memories and over async ones.

use super::model::Model;
use crate::memory::ChatMemory;

/// The kind of a conversation: over a blocking memory or over an async one. There are no others.
pub trait MemoryKind: sealed::Sealed {
    /// The type of its models.
    #[doc(hidden)]
    type Model: ?Sized;
    /// What a tool or an approver returns: the value, or a future of it.
    #[doc(hidden)]
    type Coming<T>;
    /// The lock that lets one turn run at a time.
    #[doc(hidden)]
    type Gate: Default;

    /// Returns a value that is ready.
    #[doc(hidden)]
    fn come<T: Send + 'static>(value: T) -> Self::Coming<T>;
}

mod sealed {
    pub trait Sealed {}
    impl Sealed for dyn crate::memory::ChatMemory + '_ {}
    #[cfg(feature = "async")]
    impl Sealed for dyn crate::memory::AsyncChatMemory + '_ {}
}

impl MemoryKind for dyn ChatMemory + '_ {
    type Model = dyn Model;
    type Coming<T> = T;
    type Gate = parking_lot::Mutex<()>;

    fn come<T: Send + 'static>(value: T) -> T {
        value
    }
}
