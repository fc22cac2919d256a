//! References to media that a memory keeps beside its records.

use std::fmt;

use serde::{Deserialize, Deserializer, Serialize, Serializer, de};

use super::picture::Picture;

/// A reference to media that a memory keeps beside the record: the hash of their bytes, and what a
/// page or a prompt has to know of them.
///
/// A memory makes it, for [reads](crate::memory::Read::references) that do not want the bytes. One
/// that is appended is refused, since nobody knows whether the bytes are there.
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
    /// The type and the dimensions, where it is a picture whose header tells them.
    #[serde(default)]
    pub picture: Option<Picture>,
}

/// A SHA-256 hash: 64 hexadecimal digits in JSON and for people.
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
        if to.is_human_readable() { to.collect_str(self) } else { self.0.serialize(to) }
    }
}

impl<'de> Deserialize<'de> for Sha256 {
    fn deserialize<D: Deserializer<'de>>(from: D) -> Result<Self, D::Error> {
        if !from.is_human_readable() {
            return <[u8; 32]>::deserialize(from).map(Self);
        }
        let text = String::deserialize(from)?;
        let digit = |letter: u8| u8::try_from(char::from(letter).to_digit(16)?).ok();
        let byte = |two: &[u8]| match two {
            [high, low] => Some(digit(*high)? << 4 | digit(*low)?),
            _ => None,
        };
        let (mut hash, digits) = ([0; 32], text.as_bytes().chunks_exact(2));
        let is_hash = text.len() == 64
            && hash.iter_mut().zip(digits).all(|(to, two)| byte(two).map(|it| *to = it).is_some());
        if is_hash {
            Ok(Self(hash))
        } else {
            Err(de::Error::custom("a SHA-256 hash has 64 hexadecimal digits"))
        }
    }
}
