//! The deadline of an operation, and the backoff between its attempts: one rule for all stores.

use std::collections::hash_map::RandomState;
use std::hash::BuildHasher;
use std::time::{Duration, Instant};

/// An operation that may be retried until its time is up.
pub(super) struct Retry {
    pub(super) began: Instant,
    timeout: Duration,
    /// The longest possible next pause; it doubles each time.
    bound: Duration,
    longest: Duration,
}

impl Retry {
    /// Starts the clock of an operation on a server, with pauses from a millisecond to a tenth of a
    /// second.
    pub(super) fn within(timeout: Duration) -> Self {
        let [bound, longest] = [1, 100].map(Duration::from_millis);
        Self { began: Instant::now(), timeout, bound, longest }
    }

    pub(super) fn left(&self) -> Duration {
        self.timeout.saturating_sub(self.began.elapsed())
    }

    /// Returns the next pause, or `None` if it would end after the deadline.
    pub(super) fn next_pause(&mut self) -> Option<Duration> {
        // Random, so that two operations that collided do not collide again.
        let random = u32::try_from(RandomState::new().hash_one(()) % 256).unwrap_or(0);
        let pause = self.bound / 2 + self.bound * random / 512;
        self.bound = (self.bound * 2).min(self.longest);
        (pause < self.left()).then_some(pause)
    }

    /// Sleeps before the next attempt; returns `false`, without sleeping, if the time is up.
    pub(super) async fn pause(&mut self) -> bool {
        let Some(pause) = self.next_pause() else { return false };
        tokio::time::sleep(pause).await;
        true
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    /// A change that lost against others used to be retried without a pause, forever.
    #[test]
    fn pauses_grow_and_have_an_end() {
        for (timeout, shortest, longest) in
            [(100_u64, 1_000_u64, 100_000_u64), (20, 50, 1_000), (0, 1, 1), (30, 7, 7)]
        {
            let (timeout, [shortest, longest]) =
                (Duration::from_millis(timeout), [shortest, longest].map(Duration::from_micros));
            let began = Instant::now();
            let mut retry = Retry { bound: shortest, longest, ..Retry::within(timeout) };
            let (mut bound, mut slept) = (shortest, Duration::ZERO);
            while let Some(pause) = retry.next_pause() {
                assert!(pause >= bound / 2 && pause <= bound, "{pause:?} of {bound:?}");
                bound = (bound * 2).min(longest);
                std::thread::sleep(pause);
                slept += pause;
            }
            assert!(slept <= timeout, "{slept:?} of {timeout:?}");
            assert!(began.elapsed() + longest >= timeout, "it ended early");
        }
        assert!(Retry::within(Duration::MAX).next_pause().is_some(), "the longest time is a time");
    }
}
