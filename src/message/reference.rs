//! References to media that a memory keeps beside its records.

use std::fmt;

use serde::{Deserialize, Deserializer, Serialize, Serializer, de};

use super::picture::Picture;

/// A reference to media that a memory keeps beside the record: the hash of the bytes, and what a
/// page or a prompt needs to know about them.
///
/// A memory makes it, for [reads](crate::memory::Read::references) that do not want the bytes. An
/// append of one is refused, since the bytes may not be there.
///
/// ```
/// use memory_prompt::Message;
///
/// let json = r#"{"role":"user","content":[{"type":"image","reference":{
///     "sha256":"e3b0c44298fc1c149afbf4c8996fb92427ae41e4649b934ca495991b7852b855",
///     "size":2097152,"picture":{"media_type":"image/png","width":320,"height":240}}}]}"#;
/// let message: Message = serde_json::from_str(json)?;
/// let picture = message.media().find_map(|media| media.picture()).ok_or("no picture")?;
/// assert_eq!((picture.width, picture.height), (320, 240));
/// # Ok::<(), Box<dyn std::error::Error>>(())
/// ```
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
#[non_exhaustive]
pub struct MediaReference {
    /// The hash of the bytes.
    pub sha256: Sha256,
    /// The number of the bytes.
    pub size: u64,
    /// The type and the dimensions, if it is a picture with a readable header.
    #[serde(default)]
    pub picture: Option<Picture>,
}

/// A SHA-256 hash, written as 64 hexadecimal digits.
#[derive(Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct Sha256(pub [u8; 32]);

impl fmt::Display for Sha256 {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        self.0.iter().try_for_each(|byte| write!(f, "{byte:02x}"))
    }
}

impl fmt::Debug for Sha256 {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        fmt::Display::fmt(self, f)
    }
}

impl Serialize for Sha256 {
    fn serialize<S: Serializer>(&self, to: S) -> Result<S::Ok, S::Error> {
        to.collect_str(self)
    }
}

impl<'de> Deserialize<'de> for Sha256 {
    fn deserialize<D: Deserializer<'de>>(from: D) -> Result<Self, D::Error> {
        let text = String::deserialize(from)?;
        if text.len() != 64 || !text.bytes().all(|it| it.is_ascii_hexdigit()) {
            return Err(de::Error::custom("a SHA-256 hash has 64 hexadecimal digits"));
        }
        let mut hash = [0; 32];
        for (to, at) in hash.iter_mut().zip((0..64).step_by(2)) {
            *to = u8::from_str_radix(&text[at..at + 2], 16).map_err(de::Error::custom)?;
        }
        Ok(Self(hash))
    }
}
