//! One turn at a time, for any executor.

use std::collections::VecDeque;
use std::future::poll_fn;
use std::task::{Poll, Waker};

use parking_lot::Mutex;

/// Lets one future through at a time, in the order in which they came.
#[derive(Debug, Default)]
pub struct Gate(Mutex<Queue>);

#[derive(Debug, Default)]
struct Queue {
    /// The number of the next one to come.
    next: u64,
    /// Those that wait or are inside, the first of them inside.
    line: VecDeque<(u64, Option<Waker>)>,
}

/// A place in the line, which is left when it is dropped.
pub(super) struct QueueTicket<'a> {
    gate: &'a Gate,
    number: u64,
}

impl Gate {
    /// Goes in; `None` if somebody is inside.
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
