//! A fair lock for any executor: it admits one turn at a time.

use std::collections::VecDeque;
use std::sync::Arc;
use std::task::Poll;

use super::watched::Watched;

/// Admits one future at a time, in the order of arrival. It has the places of those that wait or
/// are inside; the first one is inside.
#[derive(Debug, Default)]
pub struct Gate(Watched<VecDeque<Arc<()>>>);

/// A place in the line; dropping it leaves the line.
pub(super) struct QueueTicket<'a> {
    gate: &'a Gate,
    own: Arc<()>,
}

impl Gate {
    /// Enters; `None` if another future is inside or waits.
    pub(super) fn try_lock(&self) -> Option<QueueTicket<'_>> {
        let mut line = self.0.lock();
        line.is_empty().then(|| self.line_up(&mut line))
    }

    /// Waits until it is the first in the line.
    pub(super) async fn lock(&self) -> QueueTicket<'_> {
        let ticket = self.line_up(&mut self.0.lock());
        let waits = || self.0.lock().front().is_some_and(|it| !Arc::ptr_eq(it, &ticket.own));
        self.0.watch(|_| if waits() { Poll::Pending } else { Poll::Ready(()) }).await;
        ticket
    }

    fn line_up(&self, line: &mut VecDeque<Arc<()>>) -> QueueTicket<'_> {
        let own = Arc::default();
        line.push_back(Arc::clone(&own));
        QueueTicket { gate: self, own }
    }
}

impl Drop for QueueTicket<'_> {
    fn drop(&mut self) {
        self.gate.0.change(|line| line.retain(|it| !Arc::ptr_eq(it, &self.own)));
    }
}
