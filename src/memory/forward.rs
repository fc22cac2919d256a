//! Whatever points to a memory is one.

use std::ops::Range;
use std::sync::Arc;

use super::{ChatMemory, MemoryId};
use crate::error::Result;
use crate::message::Message;
use crate::record::Snapshot;

macro_rules! forward {
    ($($pointer:ty),*) => {$(
        // A method that is added to the trait and forgotten here would lose the inner memory's own
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
        }
    )*};
}

forward!(&M, Box<M>, Arc<M>);
