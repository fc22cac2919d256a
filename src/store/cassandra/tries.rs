//! The tries of an operation that others overtake: pauses between them, and an end.

use std::collections::hash_map::RandomState;
use std::hash::BuildHasher;
use std::time::{Duration, Instant};

use crate::error::{Error, ErrorKind, Result};

/// An operation that is tried again where somebody else was faster.
pub(super) struct Tries {
    operation: &'static str,
    /// The time of the last try; none where it is too far away for a clock.
    until: Option<Instant>,
    number: u32,
}

/// The number of tries without a pause: mostly the one who was faster has ended.
const AT_ONCE: u32 = 3;

const LONGEST: Duration = Duration::from_millis(100);

impl Tries {
    /// Tries for twice as long as an answer is waited for.
    pub(super) fn of(operation: &'static str, timeout: Duration) -> Self {
        Self { operation, until: Instant::now().checked_add(timeout.saturating_mul(2)), number: 0 }
    }

    /// Pauses before the next try.
    ///
    /// # Errors
    ///
    /// Where the time is up. What lost against others is not done.
    pub(super) async fn again(&mut self) -> Result<()> {
        self.number += 1;
        if self.until.is_some_and(|until| Instant::now() >= until) {
            let text = format!("cassandra: others were faster {} times", self.number);
            return Err(Error::new(ErrorKind::Storage, self.operation, text));
        }
        if self.number > AT_ONCE {
            tokio::time::sleep(pause(self.number)).await;
        }
        Ok(())
    }
}

/// Returns how long to pause: at random, so that no two go on in step, and longer from try to try.
fn pause(number: u32) -> Duration {
    let most = LONGEST.min(Duration::from_millis(1) * number);
    most * u32::try_from(RandomState::new().hash_one(()) % 256).unwrap_or(0) / 256
}

#[cfg(test)]
mod tests {
    use super::*;

    /// It was tried again and again without a pause, for as long as others were faster: for ever.
    #[test]
    fn tries_have_pauses_and_an_end() {
        let runtime = tokio::runtime::Builder::new_current_thread().enable_time().build().unwrap();
        runtime.block_on(async {
            let began = Instant::now();
            let mut tries = Tries::of("append", Duration::from_millis(100));
            let mut count = 0;
            let error = loop {
                match tries.again().await {
                    Ok(()) => count += 1,
                    Err(error) => break error,
                }
            };
            assert!(began.elapsed() >= Duration::from_millis(200));
            assert!((AT_ONCE..10_000).contains(&count), "{count} tries in 200 ms");
            assert_eq!(error.kind(), ErrorKind::Storage);
            let expected = format!("append: cassandra: others were faster {} times", count + 1);
            assert_eq!(error.to_string(), expected);
        });
    }
}
