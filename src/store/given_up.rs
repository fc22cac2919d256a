//! Cancels blocking work whose future was dropped: the work checks here whether it was.
//!
//! A thread can't be stopped. A change that waits for another process when its future is dropped
//! would still be made later, on top of what was acknowledged meanwhile. Since it checks here under
//! the lock that keeps others out, it is either made before anything else can change, or not at
//! all.

use std::cell::RefCell;
#[cfg(feature = "tokio")]
use std::sync::Arc;
use std::sync::Weak;

thread_local! {
    static SOURCE: RefCell<Option<Weak<()>>> = const { RefCell::new(None) };
}

/// Dropping this cancels the work.
#[cfg(feature = "tokio")]
#[derive(Default)]
pub(crate) struct CancelSource(Arc<()>);

#[cfg(feature = "tokio")]
impl CancelSource {
    /// Returns the work, which can then check whether it was cancelled.
    pub(crate) fn for_work<R, W: FnOnce() -> R>(&self, work: W) -> impl FnOnce() -> R + use<R, W> {
        let source = Arc::downgrade(&self.0);
        move || {
            let _restored = Restored(SOURCE.replace(Some(source)));
            work()
        }
    }
}

/// Restores the previous source of this thread when dropped.
#[cfg(feature = "tokio")]
struct Restored(Option<Weak<()>>);

#[cfg(feature = "tokio")]
impl Drop for Restored {
    fn drop(&mut self) {
        SOURCE.set(self.0.take());
    }
}

#[cfg(feature = "sqlite")]
pub(super) struct Cancellation(Option<Weak<()>>);

#[cfg(feature = "sqlite")]
impl Cancellation {
    pub(super) fn of_this_thread() -> Self {
        Self(SOURCE.with_borrow(Clone::clone))
    }

    /// Returns whether the work was cancelled. Work of a blocking caller never is.
    pub(super) fn is_cancelled(&self) -> bool {
        self.0.as_ref().is_some_and(|source| source.strong_count() == 0)
    }
}
