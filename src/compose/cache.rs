//! The counts and cuts that one prompt keeps for the next one.

use std::fmt;

use super::counts::Counts;
use super::cuts::Cuts;

/// The token counts and truncated copies of one conversation, so that the next prompt neither
/// counts nor cuts them again.
///
/// It changes no prompt, only what a prompt costs. A count belongs to a position and the message
/// that was found there, a cut copy to the very record in memory; both stay true as long as counter
/// and truncation are the same. [`MemoryPrompt`] looks after that; whoever composes alone begins a
/// new one where either has changed, or the conversation is another one. A provider's prompt cache
/// is something else.
///
/// ```
/// use memory_prompt::{Composer, ComposerCache, Composition, Message, Snapshot, Truncate};
///
/// let mut composer = Composer::new();
/// composer.truncate(Truncate::chars(5)?);
/// let history = Snapshot::from_messages([Message::user("a long story")]);
/// let mut cache = ComposerCache::new();
/// for _ in 0..2 {
///     // It cuts the first time only.
///     let composed = composer.compose_cached(history.clone(), &[], &mut cache)?;
///     assert!(matches!(composed, Composition::Ready(prompt) if prompt[0].text() == "a lon"));
/// }
/// # Ok::<(), memory_prompt::Error>(())
/// ```
///
/// [`MemoryPrompt`]: crate::MemoryPrompt
#[derive(Default)]
pub struct ComposerCache {
    pub(super) counts: Counts,
    pub(super) cuts: Cuts,
}

impl ComposerCache {
    /// Returns a cache that knows nothing yet.
    pub fn new() -> Self {
        Self::default()
    }
}

impl fmt::Debug for ComposerCache {
    /// Says how much is known, not what.
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("ComposerCache")
            .field("counts", &self.counts.len())
            .field("cuts", &self.cuts.len())
            .finish()
    }
}
