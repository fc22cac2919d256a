//! Slots: small named documents next to the records.

use std::fmt;
use std::sync::Arc;

use super::SlotVersion;

/// A small named document that is kept next to the records of a conversation, with a version.
///
/// The memory does not read the content. A clone shares it.
///
/// ```
/// use memory_prompt::record::{Slot, SlotVersion};
///
/// let version = SlotVersion::random();
/// let slot = Slot::new("summary", version, "They want to cancel.");
/// assert_eq!(slot.name(), "summary");
/// assert_eq!(slot.text(), Some("They want to cancel."));
/// assert_eq!(slot.version(), version);
/// ```
#[derive(Clone, PartialEq, Eq)]
pub struct Slot {
    name: Arc<str>,
    version: SlotVersion,
    content: Arc<[u8]>,
}

impl Slot {
    /// Returns a slot as a memory holds it. For implementers of [`ChatMemory`](crate::ChatMemory).
    pub fn new(name: impl Into<Arc<str>>, version: SlotVersion, content: impl AsRef<[u8]>) -> Self {
        Self::shared(name.into(), version, content.as_ref().into())
    }

    pub(crate) fn shared(name: Arc<str>, version: SlotVersion, content: Arc<[u8]>) -> Self {
        Self { name, version, content }
    }

    /// Returns the name, which is unique within the conversation.
    pub fn name(&self) -> &str {
        &self.name
    }

    /// Returns the version, which changes whenever the slot is written.
    pub fn version(&self) -> SlotVersion {
        self.version
    }

    /// Returns the content.
    pub fn content(&self) -> &[u8] {
        &self.content
    }

    /// Returns the content as text, if it is UTF-8.
    pub fn text(&self) -> Option<&str> {
        std::str::from_utf8(&self.content).ok()
    }
}

impl fmt::Debug for Slot {
    /// Shows how much is in it, not what: conversations do not belong in logs.
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Slot")
            .field("name", &self.name)
            .field("version", &self.version)
            .field("bytes", &self.content.len())
            .finish()
    }
}
