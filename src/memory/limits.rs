//! The limits of a memory.

/// The most that a memory accepts, in bytes as it writes them, and whether it has slots and ids.
///
/// ```
/// use memory_prompt::{ChatMemory, DefaultChatMemory};
///
/// let limits = DefaultChatMemory::new().limits();
/// assert!(limits.has_slots());
/// assert_eq!(limits.message, usize::MAX); // no limit is known
/// ```
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
#[non_exhaustive]
pub struct Limits {
    /// The largest message, in its codec; `usize::MAX` if no limit is known.
    pub message: usize,
    /// The largest batch, slots included; `usize::MAX` if no limit is known.
    pub batch: usize,
    /// The largest content of a slot; 0 if the memory has no slots.
    pub slot: usize,
    /// The least number of ids of appends that a conversation recognises; 0 if the memory
    /// recognises none. A memory that recognises ids also compares
    /// [`Append::since`](super::Append::since).
    pub ids: usize,
}

impl Limits {
    /// The limits of a memory of five methods.
    pub(super) const NONE: Self = Self { message: usize::MAX, batch: usize::MAX, slot: 0, ids: 0 };

    /// Sets the largest message.
    #[must_use]
    pub fn with_message(mut self, bytes: usize) -> Self {
        self.message = bytes;
        self
    }

    /// Sets the largest batch.
    #[must_use]
    pub fn with_batch(mut self, bytes: usize) -> Self {
        self.batch = bytes;
        self
    }

    /// Sets the largest slot.
    #[must_use]
    pub fn with_slot(mut self, bytes: usize) -> Self {
        self.slot = bytes;
        self
    }

    /// Sets the number of ids that are recognised.
    #[must_use]
    pub fn with_ids(mut self, ids: usize) -> Self {
        self.ids = ids;
        self
    }

    /// Returns whether the memory has slots.
    pub fn has_slots(&self) -> bool {
        self.slot > 0
    }

    /// Returns whether the memory recognises the ids of appends.
    pub fn recognises_ids(&self) -> bool {
        self.ids > 0
    }
}

impl Default for Limits {
    /// Returns the limits of a memory of five methods: no limit is known, and there are neither
    /// slots nor ids.
    fn default() -> Self {
        Self::NONE
    }
}
