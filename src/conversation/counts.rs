//! Counts of the results still to come of calls that took too long.

use std::mem::take;
use std::sync::Arc;
use std::time::{Duration, Instant};

use parking_lot::{Condvar, Mutex};

use super::observe::Span;

/// The results still to come, wherever they are: each tool and each result counts itself.
#[derive(Default)]
pub(super) struct Counts {
    numbers: Mutex<Numbers>,
    changed: Condvar,
}

#[derive(Default)]
struct Numbers {
    /// The tools that run on, until what came of them is appended.
    running: usize,
    /// The results that are neither stored nor let go.
    open: usize,
    /// The results that were lost since somebody asked.
    lost: usize,
}

/// A tool that runs on until this is dropped.
pub(super) struct RunsOn(Arc<Counts>);

/// A late result until it is stored or let go. To drop it is to lose it, and that is told.
pub(super) struct Open {
    counts: Arc<Counts>,
    span: Span,
    is_over: bool,
}

impl Counts {
    /// The time of a tool is up, and it runs on.
    pub(super) fn runs_on(self: &Arc<Self>) -> RunsOn {
        self.numbers.lock().running += 1;
        RunsOn(Arc::clone(self))
    }

    /// A result is to be stored, when it is there and its turn is.
    pub(super) fn open(self: &Arc<Self>, span: Span) -> Open {
        self.numbers.lock().open += 1;
        Open { counts: Arc::clone(self), span, is_over: false }
    }

    pub(super) fn running(&self) -> usize {
        self.numbers.lock().running
    }

    /// Waits so long for the tools that run on, if anybody wants a result.
    pub(super) fn wait(&self, timeout: Duration) {
        let until = Instant::now().checked_add(timeout);
        let mut numbers = self.numbers.lock();
        let goes_on = |it: &mut Numbers| it.running > 0 && it.open > 0;
        match until {
            None => self.changed.wait_while(&mut numbers, goes_on),
            Some(until) => _ = self.changed.wait_while_until(&mut numbers, goes_on, until),
        }
    }

    /// Returns the number of results that are not stored. A lost result is in the next number that
    /// is returned, and in no later one.
    pub(super) fn not_stored(&self) -> usize {
        let mut numbers = self.numbers.lock();
        numbers.open + take(&mut numbers.lost)
    }
}

impl Drop for RunsOn {
    fn drop(&mut self) {
        self.0.numbers.lock().running -= 1;
        self.0.changed.notify_all();
    }
}

impl Open {
    /// It is stored, or nobody wants it any more.
    pub(super) fn over(mut self) {
        self.is_over = true;
    }

    /// Its call is in the memory no more, so that it belongs nowhere.
    pub(super) fn gone(self) {
        self.span.late_result_is_gone();
        self.over();
    }
}

impl Drop for Open {
    fn drop(&mut self) {
        let mut numbers = self.counts.numbers.lock();
        numbers.open -= 1;
        numbers.lost += usize::from(!self.is_over);
        drop(numbers);
        self.counts.changed.notify_all();
        if !self.is_over {
            self.span.late_result_is_lost();
        }
    }
}
