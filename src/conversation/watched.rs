//! A value that threads and futures wait for.

use std::sync::Weak;
use std::task::Waker;
use std::time::Duration;
#[cfg(feature = "async")]
use std::{future::poll_fn, sync::Arc, task::Context, task::Poll};

use parking_lot::{Condvar, Mutex, MutexGuard};

/// A value that threads and futures can wait on.
#[derive(Debug, Default)]
pub(super) struct Watched<T> {
    value: Mutex<T>,
    changed: Condvar,
    /// Those of the futures that wait, and perhaps of some that were dropped.
    wakers: Mutex<Vec<Weak<Mutex<Waker>>>>,
}

impl<T> Watched<T> {
    pub(super) fn new(value: T) -> Self {
        Self { value: Mutex::new(value), changed: Condvar::new(), wakers: Mutex::default() }
    }

    pub(super) fn lock(&self) -> MutexGuard<'_, T> {
        self.value.lock()
    }

    /// Changes the value, and wakes all who wait.
    pub(super) fn change(&self, change: impl FnOnce(&mut T)) {
        change(&mut self.lock());
        self.wake_all();
    }

    /// Wakes all who wait, to look again.
    pub(super) fn wake_all(&self) {
        self.changed.notify_all();
        let wakers: Vec<_> = self.wakers.lock().iter().filter_map(Weak::upgrade).collect();
        for waker in wakers {
            // Nothing is locked while it wakes: an executor may poll the future there and then.
            let waker = waker.lock().clone();
            waker.wake();
        }
    }

    /// Waits on this thread as long as `waits` says so, but no longer than this time.
    pub(super) fn wait(
        &self,
        timeout: Duration,
        waits: impl FnMut(&mut T) -> bool,
    ) -> MutexGuard<'_, T> {
        let mut value = self.lock();
        self.changed.wait_while_for(&mut value, waits, timeout);
        value
    }

    /// Awaits what `look` finds; it looks again after each change.
    #[cfg(feature = "async")]
    pub(super) async fn watch<R>(&self, mut look: impl FnMut(&mut Context<'_>) -> Poll<R>) -> R {
        let own = Arc::new(Mutex::new(Waker::noop().clone()));
        {
            let mut wakers = self.wakers.lock();
            wakers.retain(|it| it.strong_count() > 0);
            wakers.push(Arc::downgrade(&own));
        }
        poll_fn(|context| {
            // Before it looks, so that no change in between is missed.
            own.lock().clone_from(context.waker());
            look(context)
        })
        .await
    }
}
