//! A fair lock for any executor: it admits one turn at a time.

use std::collections::VecDeque;
use std::future::poll_fn;
use std::sync::Arc;
use std::task::{Poll, Waker};

use parking_lot::Mutex;

/// Admits one future at a time, in the order of arrival. It has the places of those that wait or
/// are inside; the first one is inside.
#[derive(Debug, Default)]
pub struct Gate(Mutex<VecDeque<Place>>);

/// How a future that waits is woken, once it was polled.
type Place = Arc<Mutex<Option<Waker>>>;

/// A place in the line; dropping it leaves the line.
pub(super) struct QueueTicket<'a> {
    gate: &'a Gate,
    own: Place,
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
        poll_fn(|context| {
            let line = self.0.lock();
            if line.front().is_none_or(|first| Arc::ptr_eq(first, &ticket.own)) {
                return Poll::Ready(());
            }
            *ticket.own.lock() = Some(context.waker().clone());
            Poll::Pending
        })
        .await;
        ticket
    }

    fn line_up(&self, line: &mut VecDeque<Place>) -> QueueTicket<'_> {
        let own = Place::default();
        line.push_back(Arc::clone(&own));
        QueueTicket { gate: self, own }
    }
}

impl Drop for QueueTicket<'_> {
    fn drop(&mut self) {
        let first = {
            let mut line = self.gate.0.lock();
            line.retain(|it| !Arc::ptr_eq(it, &self.own));
            line.front().and_then(|first| first.lock().take())
        };
        if let Some(first) = first {
            first.wake();
        }
    }
}
