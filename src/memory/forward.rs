//! Pointers to a memory are memories.

use std::any::Any;
use std::ops::Range;
use std::sync::Arc;

use super::{Append, Appended, ChatMemory, Limits, MemoryId, Read};
use crate::error::Result;
use crate::message::Message;
use crate::record::{SlotVersion, Snapshot};

macro_rules! forward {
    ($($pointer:ty: $shared:expr),*) => {$(
        // A method that is added to the trait and forgotten here would hide the inner memory's own
        // version of it.
        #[deny(clippy::missing_trait_methods)]
        impl<M: ChatMemory + ?Sized> ChatMemory for $pointer {
            fn id(&self) -> &MemoryId {
                (**self).id()
            }
            fn append(&self, batch: &mut Vec<Message>, expected: Option<u64>) -> Result<Range<u64>> {
                (**self).append(batch, expected)
            }
            fn read(&self, before: Option<u64>, n: usize) -> Result<Snapshot> {
                (**self).read(before, n)
            }
            fn evict(&self, before: u64) -> Result<u64> {
                (**self).evict(before)
            }
            fn clear(&self) -> Result<()> {
                (**self).clear()
            }
            fn append_with(&self, append: &mut Append) -> Result<Appended> {
                (**self).append_with(append)
            }
            fn read_with(&self, read: &Read) -> Result<Snapshot> {
                (**self).read_with(read)
            }
            fn slots(&self) -> Result<Vec<(String, SlotVersion)>> {
                (**self).slots()
            }
            fn limits(&self) -> Limits {
                (**self).limits()
            }
            fn already_shared(&self) -> Option<Arc<dyn ChatMemory>>
            where
                Self: 'static,
            {
                (**self).already_shared().or_else(|| $shared(self))
            }
        }
    )*};
}

forward!(&M: |_| None, Box<M>: |_| None, Arc<M>: same);

/// Returns the pointer itself, if it is the type that all prompts share a memory by.
fn same(pointer: &dyn Any) -> Option<Arc<dyn ChatMemory>> {
    pointer.downcast_ref().cloned()
}

/// Returns the memory as a shared one. A pointer that is already shared is returned itself, so a
/// memory that is passed in and out repeatedly is never more than one pointer away.
pub(crate) fn share(memory: impl ChatMemory + 'static) -> Arc<dyn ChatMemory> {
    memory.already_shared().unwrap_or_else(|| Arc::new(memory))
}
