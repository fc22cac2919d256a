//! Tools on threads of their own, in blocking conversations.

use std::sync::Arc;
use std::thread;
use std::time::{Duration, Instant};

use super::late::{Late, Pending};
use super::observe::Span;
use super::tools::{Handler, Outcome, caught, run};
use crate::memory::ChatMemory;
use crate::turn::Call;

pub(super) struct Running {
    pub(super) call: Call,
    pub(super) comes: Arc<Pending>,
    since: Instant,
    pub(super) span: Span,
}

impl Running {
    /// Runs a call on this thread.
    pub(super) fn here(call: Call, handler: &Handler, span: Span) -> Self {
        let outcome = span.run(Span::record_outcome, || run(|| handler(&call)));
        let comes = Arc::new(Pending::new(Some(outcome)));
        Self { call, comes, since: Instant::now(), span }
    }

    /// Begins a call on a thread of its own. If the system has no thread for it, the call fails.
    pub(super) fn begin(
        call: Call,
        handler: Arc<Handler>,
        span: Span,
        late: &Arc<Late<dyn ChatMemory>>,
    ) -> Self {
        let (comes, late) = (Arc::new(Pending::default()), Arc::clone(late));
        let job = {
            let (call, span, comes) = (call.clone(), span.clone(), Arc::clone(&comes));
            move || {
                let work = || span.run(Span::record_outcome, || run(|| handler(&call)));
                let outcome = run(work); // a subscriber may panic too
                comes.change(|it| *it = Some(outcome));
                let _ = caught(|| late.settle(false)); // if it fails, the call is still in the list
                late.wake_all();
            }
        };
        if let Err(error) = thread::Builder::new().name("tool".to_owned()).spawn(job) {
            comes.change(|it| *it = Some(Err(error.into())));
        }
        Self { call, comes, since: Instant::now(), span }
    }

    /// Waits for its outcome; `None` if the time is up.
    pub(super) fn wait(&self, timeout: Option<Duration>) -> Option<Outcome> {
        let left = timeout.unwrap_or(Duration::MAX).saturating_sub(self.since.elapsed());
        self.comes.wait(left, |outcome| outcome.is_none()).clone()
    }
}
