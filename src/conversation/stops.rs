//! Stops of answers, and the futures that wait for one. Stops are counted, which distinguishes
//! turns that began before a stop from turns that began after it.

use std::sync::Arc;
#[cfg(feature = "async")]
use std::{pin::pin, task::Poll};

use super::watched::Watched;

/// Stops the answers of a [`Conversation`](super::Conversation) from another thread.
#[derive(Clone, Debug)]
pub struct Stopper(pub(super) Arc<Watched<u64>>);

impl Stopper {
    /// Stops all turns of its [`Conversation`](super::Conversation) value that run now. Those of
    /// another value over the same memory run on. As a stop names no turn, one that is repeated may
    /// hit the next. What was said is kept and marked, or dropped: see
    /// [`Conversation::on_interrupt`](super::Conversation::on_interrupt).
    ///
    /// A blocking model ends when it [tells](super::Asking::tell) its next piece or has answered,
    /// and a blocking approver is waited for. An async model or approver ends immediately: its
    /// future is dropped. A running tool is waited for up to its time limit, and its result is
    /// kept; no other tool is started.
    pub fn stop(&self) {
        self.0.change(|stops| *stops += 1);
    }

    pub(super) fn count(&self) -> u64 {
        *self.0.lock()
    }

    /// Awaits this work; `None` if a stop comes after this count of stops.
    #[cfg(feature = "async")]
    pub(super) async fn unless<T>(&self, before: u64, work: impl Future<Output = T>) -> Option<T> {
        let mut work = pin!(work);
        let watched = self.0.watch(|context| match work.as_mut().poll(context) {
            Poll::Ready(done) => Poll::Ready(Some(done)),
            Poll::Pending if self.count() != before => Poll::Ready(None),
            Poll::Pending => Poll::Pending,
        });
        watched.await
    }
}
