//! The rule that determines when records are due to be summarised.

use std::fmt;
use std::sync::Arc;

use crate::error::{Error, Result};
use crate::message::Message;
use crate::token::TokenCounter;

/// Determines how much of a conversation stays as it is, and how much is summarised at once.
///
/// The due part grows in steps, because each summary changes the prefix of the prompt and costs a
/// call. Messages that summaries leave out don't count: pinned ones, system messages and the
/// application's own.
#[derive(Clone)]
pub struct CompactionPolicy {
    pub(super) keep: usize,
    pub(super) step: usize,
    /// If there is none, messages are counted, and not tokens.
    pub(super) counter: Option<Arc<dyn TokenCounter>>,
    pub(super) most: usize,
}

impl CompactionPolicy {
    /// Keeps at least the newest `keep` messages as they are; something is due as soon as `step`
    /// older ones are not covered.
    ///
    /// This bounds the number of messages, and not their length: after a summary that failed, up to
    /// four steps are due at once, each message with up to 8,000 characters in the
    /// [transcript](super::Compaction::transcript). To bound what a model must read, use
    /// [`tokens`](Self::tokens).
    ///
    /// # Errors
    ///
    /// [`ErrorKind::Invalid`](crate::ErrorKind::Invalid) if `step` is 0.
    pub fn messages(keep: usize, step: usize) -> Result<Self> {
        Self::new(keep, step, None)
    }

    /// Keeps at least the newest `keep` tokens as they are; something is due as soon as messages of
    /// `step` tokens before them are not covered.
    ///
    /// # Errors
    ///
    /// [`ErrorKind::Invalid`](crate::ErrorKind::Invalid) if `step` is 0.
    pub fn tokens(keep: usize, step: usize, counter: impl TokenCounter + 'static) -> Result<Self> {
        Self::new(keep, step, Some(Arc::new(counter)))
    }

    fn new(keep: usize, step: usize, counter: Option<Arc<dyn TokenCounter>>) -> Result<Self> {
        if step == 0 {
            return Err(Error::invalid("summary", "a step of 0 would never be done"));
        }
        Ok(Self { keep, step, counter, most: 8_000 })
    }

    /// Limits the characters of a summary, in Unicode scalar values; the default is 8,000. A longer
    /// text is requested [once more](super::Compaction::again), and then cut after the last line
    /// that fits, or after the last character if the lines are less than half of what fits.
    ///
    /// A summary is always sent: leave room for it in the prompt's budget. In a script such as
    /// Chinese, 8,000 characters have about 6,500 tokens.
    #[must_use]
    pub fn text_at_most(mut self, characters: usize) -> Self {
        self.most = characters;
        self
    }

    pub(super) fn weigh(&self, message: &Message) -> Result<usize> {
        self.counter.as_ref().map_or(Ok(1), |counter| counter.count(message))
    }
}

impl fmt::Debug for CompactionPolicy {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("CompactionPolicy")
            .field("keep", &self.keep)
            .field("step", &self.step)
            .field("tokens", &self.counter.is_some())
            .field("text_at_most", &self.most)
            .finish()
    }
}
