//! Slots: small named documents beside the records.

use std::fmt;
use std::sync::Arc;

use serde::Serialize;
use serde::de::DeserializeOwned;

use super::SlotVersion;
use crate::error::{Error, ErrorKind, Result};

/// The form of the documents that the library keeps in slots.
pub(crate) const VERSION: u32 = 1;

/// A small named document that is kept beside the records of a conversation, with a version.
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
        Self { name: name.into(), version, content: content.as_ref().into() }
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

    /// Reads `what` the slot holds: a document of the form that is known.
    pub(crate) fn read<T: DeserializeOwned>(
        &self,
        what: &'static str,
        version: impl FnOnce(&T) -> u32,
    ) -> Result<T> {
        let document = self
            .parse()
            .map_err(|wrong| self.damaged(what, format!("holds no {what}: {wrong}")))?;
        match version(&document) {
            VERSION => Ok(document),
            other => Err(self.damaged(what, format!("is of the unknown form {other}"))),
        }
    }

    /// Reads the content as JSON, or returns where it is wrong. serde's own error quotes what it
    /// did not expect, which somebody may have said, so no error has it as its source.
    pub(crate) fn parse<T: DeserializeOwned>(&self) -> Result<T, String> {
        serde_json::from_slice(&self.content)
            .map_err(|e| format!("wrong at line {} column {}", e.line(), e.column()))
    }

    /// Returns the error that `what` the slot holds can't be read.
    pub(crate) fn damaged(&self, what: &'static str, why: impl fmt::Display) -> Error {
        Error::new(ErrorKind::Codec, what, format!("the slot {:?} {why}", self.name))
    }
}

/// Returns a document as the content of a slot.
pub(crate) fn written(what: &'static str, document: &impl Serialize) -> Result<Vec<u8>> {
    serde_json::to_vec(document).map_err(|error| {
        Error::new(ErrorKind::Codec, what, "the slot can't be written").with_source(error)
    })
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
