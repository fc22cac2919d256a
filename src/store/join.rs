//! Waits for two futures at once.

use std::future::poll_fn;
use std::pin::pin;
use std::task::Poll;

/// Waits for both, and polls the first one first. A connection sends `BEGIN`, a statement and
/// `COMMIT` in the order in which they are polled, and no crate's `join` guarantees an order.
pub(super) async fn join_in_order<A, B>(
    one: impl Future<Output = A>,
    other: impl Future<Output = B>,
) -> (A, B) {
    let (mut one, mut other) = (pin!(one), pin!(other));
    let (mut first, mut second) = (None, None);
    poll_fn(|context| {
        if first.is_none()
            && let Poll::Ready(done) = one.as_mut().poll(context)
        {
            first = Some(done);
        }
        if second.is_none()
            && let Poll::Ready(done) = other.as_mut().poll(context)
        {
            second = Some(done);
        }
        match (first.take(), second.take()) {
            (Some(first), Some(second)) => Poll::Ready((first, second)),
            left => {
                (first, second) = left;
                Poll::Pending
            }
        }
    })
    .await
}
