//! The attempts of an operation that loses where another writer changes the head first.

use std::time::Duration;

use crate::error::{Error, ErrorKind, Result};
use crate::store::retry::Retry;

pub(super) struct Attempts {
    operation: &'static str,
    retry: Retry,
    lost: u32,
    begun: bool,
}

impl Attempts {
    /// Allows attempts for twice as long as an answer is waited for.
    pub(super) fn of(operation: &'static str, timeout: Duration) -> Self {
        let retry = Retry::within(timeout.saturating_mul(2));
        Self { operation, retry, lost: 0, begun: false }
    }

    /// Begins the next attempt, after a pause if there was one before.
    ///
    /// # Errors
    ///
    /// Where the time is up. What lost against others is not done.
    pub(super) async fn next(&mut self) -> Result<()> {
        if !std::mem::replace(&mut self.begun, true) {
            return Ok(());
        }
        self.lost += 1;
        if self.retry.pause().await {
            return Ok(());
        }
        let text = format!("cassandra: gave up after {} lost compare-and-set attempts", self.lost);
        Err(Error::new(ErrorKind::Storage, self.operation, text))
    }
}
