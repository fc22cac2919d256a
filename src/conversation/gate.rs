//! A fair lock for any executor: it admits one turn at a time.

use std::collections::VecDeque;
use std::future::poll_fn;
use std::task::{Poll, Waker};

use parking_lot::Mutex;

/// Admits one future at a time, in the order of arrival.
#[derive(Debug, Default)]
pub struct Gate(Mutex<Queue>);

#[derive(Debug, Default)]
struct Queue {
    next: u64,
    /// The futures that wait or are inside; the first one is inside.
    line: VecDeque<(u64, Option<Waker>)>,
}

/// A place in the line; dropping it leaves the line.
pub(super) struct QueueTicket<'a> {
    gate: &'a Gate,
    number: u64,
}

impl Gate {
    /// Enters; `None` if another future is inside or waits.
    pub(super) fn try_lock(&self) -> Option<QueueTicket<'_>> {
        let mut queue = self.0.lock();
        queue.line.is_empty().then(|| self.line_up(&mut queue))
    }

    /// Waits until it is the first in the line.
    pub(super) async fn lock(&self) -> QueueTicket<'_> {
        let place = self.line_up(&mut self.0.lock());
        poll_fn(|context| {
            let mut queue = self.0.lock();
            if queue.line.front().is_none_or(|(number, _)| *number == place.number) {
                return Poll::Ready(());
            }
            let waker = context.waker().clone();
            let own = queue.line.iter_mut().find(|(number, _)| *number == place.number);
            if let Some((_, own)) = own {
                *own = Some(waker);
            }
            Poll::Pending
        })
        .await;
        place
    }

    fn line_up(&self, queue: &mut Queue) -> QueueTicket<'_> {
        let number = queue.next;
        queue.next += 1;
        queue.line.push_back((number, None));
        QueueTicket { gate: self, number }
    }
}

impl Drop for QueueTicket<'_> {
    fn drop(&mut self) {
        let first = {
            let mut queue = self.gate.0.lock();
            queue.line.retain(|(number, _)| *number != self.number);
            queue.line.front_mut().and_then(|(_, waker)| waker.take())
        };
        if let Some(first) = first {
            first.wake();
        }
    }
}
