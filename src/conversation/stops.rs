//! Stops of answers, and the futures that wait for one.

use std::sync::Weak;
use std::sync::atomic::{AtomicU64, Ordering};
use std::task::Waker;
#[cfg(feature = "async")]
use std::{future::poll_fn, pin::pin, sync::Arc, task::Poll};

use parking_lot::Mutex;

/// The number of stops of a conversation. It distinguishes turns that began before a stop from
/// turns that began after it.
#[derive(Debug, Default)]
pub(super) struct Stops {
    count: AtomicU64,
    wakers: Mutex<Vec<Weak<Mutex<Waker>>>>,
}

impl Stops {
    pub(super) fn count(&self) -> u64 {
        self.count.load(Ordering::Relaxed)
    }

    pub(super) fn stop(&self) {
        self.count.fetch_add(1, Ordering::Relaxed);
        let wakers = std::mem::take(&mut *self.wakers.lock());
        wakers.iter().filter_map(Weak::upgrade).for_each(|it| it.lock().wake_by_ref());
    }

    /// Awaits this work; `None` if a stop comes after this count of stops.
    #[cfg(feature = "async")]
    pub(super) async fn unless<T>(&self, before: u64, work: impl Future<Output = T>) -> Option<T> {
        let mut work = pin!(work);
        let own = Arc::new(Mutex::new(Waker::noop().clone()));
        {
            let mut wakers = self.wakers.lock();
            wakers.retain(|it| it.strong_count() > 0);
            wakers.push(Arc::downgrade(&own));
        }
        poll_fn(|context| {
            own.lock().clone_from(context.waker());
            match work.as_mut().poll(context) {
                Poll::Ready(done) => Poll::Ready(Some(done)),
                Poll::Pending if self.count() != before => Poll::Ready(None),
                Poll::Pending => Poll::Pending,
            }
        })
        .await
    }
}
