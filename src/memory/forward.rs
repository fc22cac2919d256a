//! Pointers to a memory are memories.

use std::any::Any;
use std::ops::Range;
use std::sync::Arc;

use super::{Append, Appended, ChatMemory, Limits, MemoryId, Read};
use crate::error::Result;
use crate::message::Message;
use crate::record::{SlotVersion, Snapshot};

/// Implements a trait for pointers: the methods that are listed are those of the value, and the
/// items in the last braces stay as they are.
macro_rules! forward {
    ($trait:ident for $([$($generic:tt)*] $pointer:ty),+; $methods:tt $more:tt) => {
        $(forward!(@ [$($generic)*] $trait, $pointer, $methods, $more);)+
    };
    (@ [$($generic:tt)*] $trait:ident, $pointer:ty, {$(
        fn $name:ident $(<$life:lifetime>)? (
            & $($of:lifetime)? $this:ident $(, $argument:ident: $type:ty)*
        ) -> $returned:ty;
    )*}, {$($more:tt)*}) => {
        // A method that is added to the trait and forgotten here would hide the value's own one.
        #[deny(clippy::missing_trait_methods)]
        impl<$($generic)*> $trait for $pointer {
            $(fn $name $(<$life>)? (& $($of)? $this $(, $argument: $type)*) -> $returned {
                (**$this).$name($($argument),*)
            })*
            $($more)*
        }
    };
}
pub(crate) use forward;

forward! {
    ChatMemory for
        [M: ChatMemory + ?Sized] &M,
        [M: ChatMemory + ?Sized] Box<M>,
        [M: ChatMemory + ?Sized] Arc<M>;
    {
        fn id(&self) -> &MemoryId;
        fn append(&self, batch: &mut Vec<Message>, expected: Option<u64>) -> Result<Range<u64>>;
        fn read(&self, before: Option<u64>, n: usize) -> Result<Snapshot>;
        fn evict(&self, before: u64) -> Result<u64>;
        fn clear(&self) -> Result<()>;
        fn append_with(&self, append: &mut Append) -> Result<Appended>;
        fn read_with(&self, read: &Read) -> Result<Snapshot>;
        fn slots(&self) -> Result<Vec<(String, SlotVersion)>>;
        fn limits(&self) -> Limits;
        fn all_branches(&self) -> Option<Arc<dyn ChatMemory>>;
    } {
        fn already_shared(&self) -> Option<Arc<dyn ChatMemory>>
        where
            Self: 'static,
        {
            (**self).already_shared().or_else(|| same(self))
        }
    }
}

/// Returns the pointer itself, if it is the type that all prompts share a memory by.
pub(super) fn same<T: Clone + 'static>(pointer: &dyn Any) -> Option<T> {
    pointer.downcast_ref().cloned()
}

/// Returns the memory as a shared one. A pointer that is already shared is returned itself, so a
/// memory that is passed in and out repeatedly is never more than one pointer away.
pub(crate) fn share(memory: impl ChatMemory + 'static) -> Arc<dyn ChatMemory> {
    memory.already_shared().unwrap_or_else(|| Arc::new(memory))
}
