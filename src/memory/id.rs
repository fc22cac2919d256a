//! The id of a conversation.

use std::collections::hash_map::RandomState;
use std::fmt;
use std::hash::BuildHasher;
use std::sync::Arc;

/// The id of a conversation: opaque text, chosen by the caller.
///
/// Any text is valid. The convention is `{domain}:{user}:{conversation}`, for example
/// `support:u1001:c2002`. There is no shared default:
/// [`DefaultChatMemory`](super::DefaultChatMemory) generates a new id.
///
/// ```
/// use memory_prompt::memory::MemoryId;
///
/// let id = MemoryId::from("support:u1001:c2002");
/// assert_eq!(id.as_str(), "support:u1001:c2002");
/// assert_ne!(MemoryId::random(), MemoryId::random());
/// ```
#[derive(Clone, PartialEq, Eq, PartialOrd, Ord, Hash, serde::Serialize, serde::Deserialize)]
#[serde(from = "String", into = "String")]
pub struct MemoryId(Arc<str>);

impl MemoryId {
    /// Returns a unique id: 128 random bits in the form of a UUID.
    ///
    /// The bits come from the standard library's hasher seeds: unique, but not secret. An id is a
    /// name, not a permission.
    pub fn random() -> Self {
        let word = || RandomState::new().hash_one(std::process::id());
        // Version 4, variant 1, as RFC 9562 lays them out.
        let high = word() & 0xffff_ffff_ffff_0fff | 0x4000;
        let low = word() & 0x3fff_ffff_ffff_ffff | 0x8000_0000_0000_0000;
        let text = format!(
            "{:08x}-{:04x}-{:04x}-{:04x}-{:012x}",
            high >> 32,
            high >> 16 & 0xffff,
            high & 0xffff,
            low >> 48,
            low & 0xffff_ffff_ffff
        );
        Self(text.into())
    }

    /// Returns the id as text.
    pub fn as_str(&self) -> &str {
        &self.0
    }
}

impl From<&str> for MemoryId {
    fn from(id: &str) -> Self {
        Self(id.into())
    }
}

impl From<&String> for MemoryId {
    fn from(id: &String) -> Self {
        id.as_str().into()
    }
}

impl From<String> for MemoryId {
    fn from(id: String) -> Self {
        Self(id.into())
    }
}

impl From<MemoryId> for String {
    fn from(id: MemoryId) -> Self {
        id.0.as_ref().to_owned()
    }
}

impl fmt::Display for MemoryId {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.pad(&self.0)
    }
}

impl fmt::Debug for MemoryId {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        fmt::Debug::fmt(&self.0, f)
    }
}
