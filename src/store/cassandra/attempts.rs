//! The attempts of an operation that loses if another writer changes the head first.

use super::ask::Conversation;
use crate::error::{Error, ErrorKind, Result};
use crate::store::retry::Retry;

pub(super) struct Attempts {
    operation: &'static str,
    retry: Retry,
    begun: u32,
}

impl Attempts {
    /// Allows attempts for twice as long as the timeout of an answer.
    pub(super) fn of(conversation: &Conversation<'_>) -> Self {
        let retry = Retry::within(conversation.client.timeout.saturating_mul(2));
        Self { operation: conversation.operation, retry, begun: 0 }
    }

    /// Begins the next attempt, after a pause unless it is the first.
    ///
    /// # Errors
    ///
    /// If the time is up. An operation that lost against others was not done.
    pub(super) async fn next(&mut self) -> Result<()> {
        self.begun += 1;
        if self.begun == 1 || self.retry.pause().await {
            return Ok(());
        }
        let lost = self.begun - 1;
        let text = format!("cassandra: gave up after {lost} lost compare-and-set attempts");
        Err(Error::new(ErrorKind::Storage, self.operation, text))
    }
}
