//! Blocking work that somebody waits for elsewhere, and may cease to wait for: the work asks here
//! whether anybody still does.
//!
//! A thread can't be stopped, so a change whose future was dropped while it waited for another
//! process would be made when that is done, over what was acknowledged meanwhile. What is asked
//! here under the lock that keeps others out is either made before anybody else can change
//! anything, or not at all.

use std::cell::RefCell;
#[cfg(feature = "tokio")]
use std::sync::Arc;
use std::sync::Weak;

thread_local! {
    static WAITS: RefCell<Option<Weak<()>>> = const { RefCell::new(None) };
}

/// The one who waits for work, until this is dropped.
#[cfg(feature = "tokio")]
#[derive(Default)]
pub(crate) struct Waits(Arc<()>);

#[cfg(feature = "tokio")]
impl Waits {
    /// Returns the work, which knows then who waits for it.
    pub(crate) fn for_work<R, W: FnOnce() -> R>(&self, work: W) -> impl FnOnce() -> R + use<R, W> {
        let waits = Arc::downgrade(&self.0);
        move || {
            let _restored = Restored(WAITS.replace(Some(waits)));
            work()
        }
    }
}

/// The waiter that was known on this thread before, and is known again when this is dropped.
#[cfg(feature = "tokio")]
struct Restored(Option<Weak<()>>);

#[cfg(feature = "tokio")]
impl Drop for Restored {
    fn drop(&mut self) {
        WAITS.set(self.0.take());
    }
}

/// The knowledge whether anybody waits for the work of a thread.
#[cfg(feature = "sqlite")]
pub(super) struct Waited(Option<Weak<()>>);

#[cfg(feature = "sqlite")]
impl Waited {
    pub(super) fn for_this_thread() -> Self {
        Self(WAITS.with_borrow(Clone::clone))
    }

    /// Tells whether the work was given up. The caller of blocking code always waits.
    pub(super) fn is_given_up(&self) -> bool {
        self.0.as_ref().is_some_and(|waits| waits.strong_count() == 0)
    }
}
