//! The counts and copies that one prompt keeps for the next one.

use super::copies::Copies;
use super::counts::Counts;

/// The token counts and truncated copies of one conversation, so that the next prompt neither
/// counts nor cuts them again.
///
/// It changes no prompt, only what a prompt costs. A count belongs to a position and the message
/// that was found there, a cut copy to the very record in memory; both stay true as long as
/// counter, truncation and clearing are the same, and whoever changes these begins a new one. A
/// provider's prompt cache is something else.
#[derive(Default)]
pub(crate) struct ComposerCache {
    pub(super) counts: Counts,
    /// The counts of whole messages, by which clearing is decided.
    pub(super) whole: Counts,
    pub(super) copies: Copies,
    /// The single positions that the last prompt has read: the next one reads them at once.
    pub(crate) positions: Vec<u64>,
}
