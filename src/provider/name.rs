//! The name of a provider.

use std::fmt;

use serde::de::{self, Deserialize, Deserializer};
use serde::ser::{Serialize, Serializer};

use crate::error::{Error, Result};

/// A short name, stored inline so that a row stays plain data that can be copied: of a provider or,
/// with more room, of a model.
#[derive(Clone, Copy, PartialEq, Eq, Hash)]
pub(super) struct Name<const ROOM: usize = 31> {
    bytes: [u8; ROOM],
    len: u8,
}

/// The name of a model. Those of Amazon's inference profiles have more than 100 bytes.
pub(super) type ModelName = Name<255>;

impl<const ROOM: usize> Name<ROOM> {
    /// Returns a name from this crate's tables, or one that was validated.
    pub(super) const fn known(name: &str) -> Self {
        let text = name.as_bytes();
        let mut bytes = [0; ROOM];
        let mut i = 0;
        while i < text.len() && i < ROOM {
            bytes[i] = text[i];
            i += 1;
        }
        #[expect(clippy::cast_possible_truncation, reason = "at most 255")]
        let len = i as u8;
        Self { bytes, len }
    }

    pub(super) fn of_model(name: &str) -> Option<Self> {
        (name.len() <= ROOM).then(|| Self::known(name))
    }

    pub(super) fn as_str(&self) -> &str {
        let named = self.bytes.get(..usize::from(self.len)).unwrap_or_default();
        std::str::from_utf8(named).unwrap_or_default()
    }
}

impl Name {
    /// Returns a name chosen by the application: letters, digits, `_`, `-` and `.`, at most 31.
    pub(super) fn of(name: &str) -> Result<Self> {
        let is_plain = |b: u8| b.is_ascii_alphanumeric() || matches!(b, b'_' | b'-' | b'.');
        if name.is_empty() || name.len() > 31 || !name.bytes().all(is_plain) {
            let rule = "the name has 1 to 31 letters, digits, `_`, `-` and `.`";
            return Err(Error::invalid("provider", rule));
        }
        Ok(Self::known(name))
    }
}

impl<const ROOM: usize> fmt::Debug for Name<ROOM> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        self.as_str().fmt(f)
    }
}

impl<const ROOM: usize> Serialize for Name<ROOM> {
    fn serialize<S: Serializer>(&self, serializer: S) -> Result<S::Ok, S::Error> {
        serializer.serialize_str(self.as_str())
    }
}

impl<'de> Deserialize<'de> for Name {
    fn deserialize<D: Deserializer<'de>>(deserializer: D) -> Result<Self, D::Error> {
        let name = String::deserialize(deserializer)?;
        Self::of(&name).map_err(de::Error::custom)
    }
}

impl<'de> Deserialize<'de> for ModelName {
    fn deserialize<D: Deserializer<'de>>(deserializer: D) -> Result<Self, D::Error> {
        let name = String::deserialize(deserializer)?;
        Self::of_model(&name).ok_or_else(|| de::Error::custom("the name of a model is too long"))
    }
}
