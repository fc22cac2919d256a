//! The counts and copies that a prompt leaves for the next one.

use super::copies::Copies;
use super::counts::Counts;

/// The token counts and truncated copies of one conversation, so that the next prompt neither
/// counts nor cuts them again.
///
/// The cache changes no prompt, only its cost. A count belongs to a message, and that of a record
/// as it is sent to its position too; a copy belongs to the very record in memory. Both stay valid
/// while counter, truncation and clearing stay the same; a change of these needs a new cache. This
/// is unrelated to a provider's prompt cache.
#[derive(Default)]
pub(crate) struct ComposerCache {
    pub(super) counts: Counts,
    pub(super) copies: Copies,
    /// The positions that the last prompt read singly: the next one reads them at once.
    pub(crate) positions: Vec<u64>,
}
