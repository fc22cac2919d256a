//! What one prompt finds out, for the next one.

use super::counts::Counts;
use super::cuts::Cuts;

/// What the prompts of one conversation have counted and cut, so that the next one neither counts nor
/// cuts it again.
///
/// It changes no prompt, only what a prompt costs. A count belongs to a position and the time of its
/// append, a cut copy to the very record in memory; both stay true as long as counter and truncation
/// are the same. [`MemoryPrompt`] looks after that; whoever composes alone begins a new one where either
/// has changed, or the conversation is another one.
///
/// [`MemoryPrompt`]: crate::MemoryPrompt
#[derive(Debug, Default)]
pub struct Cache {
    pub(super) counts: Counts,
    pub(super) cuts: Cuts,
}

impl Cache {
    /// Nothing known yet.
    pub fn new() -> Self {
        Self::default()
    }
}
