//! One trait for both kinds of memory, so that each step of a turn is written once: it is awaited
//! over an async memory, and completes at once over a blocking one.

use std::pin::pin;
use std::sync::Arc;
use std::task::{Context, Poll, Waker};

use crate::error::{Error, ErrorKind, Result};
#[cfg(feature = "async")]
use crate::memory::AsyncChatMemory;
use crate::memory::{Append, Appended, ChatMemory, Limits, MemoryId, Read};
use crate::recall::{Found, Search};
use crate::record::{SlotVersion, Snapshot};

/// The methods of both kinds, under names that neither has.
pub(super) trait AnyMemory: Sync {
    fn name(&self) -> &MemoryId;
    fn bounds(&self) -> Limits;
    fn list(&self) -> impl Future<Output = Result<Vec<(String, SlotVersion)>>> + Send;
    fn look_up(&self, read: &Read) -> impl Future<Output = Result<Snapshot>> + Send;
    fn put(&self, append: &mut Append) -> impl Future<Output = Result<Appended>> + Send;
    fn recall(&self, by: &mut Search<'_>) -> impl Future<Output = Result<Option<Found>>> + Send;
}

macro_rules! any_memory {
    ($over:ty, [$($now:tt)*], |$search:ident, $memory:ident| $run:expr) => {
        impl AnyMemory for Arc<$over> {
            fn name(&self) -> &MemoryId {
                self.id()
            }

            fn bounds(&self) -> Limits {
                self.limits()
            }

            async fn list(&self) -> Result<Vec<(String, SlotVersion)>> {
                self.slots()$($now)*
            }

            async fn look_up(&self, read: &Read) -> Result<Snapshot> {
                self.read_with(read)$($now)*
            }

            async fn put(&self, append: &mut Append) -> Result<Appended> {
                self.append_with(append)$($now)*
            }

            async fn recall(&self, $search: &mut Search<'_>) -> Result<Option<Found>> {
                let $memory = self;
                $run$($now)*
            }
        }
    };
}

any_memory!(dyn ChatMemory + '_, [], |search, memory| search.run(|read| memory.read_with(read)));
#[cfg(feature = "async")]
any_memory!(dyn AsyncChatMemory + '_, [.await], |search, memory| search.run_async(memory));

/// Runs this work over a blocking memory. Nothing in it waits, so the first poll completes it.
pub(super) fn at_once<T>(work: impl Future<Output = Result<T>>) -> Result<T> {
    match pin!(work).poll(&mut Context::from_waker(Waker::noop())) {
        Poll::Ready(done) => done,
        Poll::Pending => Err(Error::new(ErrorKind::Storage, "turn", "a blocking memory waited")),
    }
}
