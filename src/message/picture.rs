//! The type and the dimensions of a picture, according to its header.
//!
//! Only the few bytes that are needed are decoded, wherever they are: a picture of ten megabytes
//! costs no more than one of a kilobyte.

use serde::{Deserialize, Serialize};

use super::base64;
use super::{Media, Source};

/// The type and the dimensions of a picture, according to its header.
///
/// ```
/// use memory_prompt::message::{Media, Picture, PictureType};
///
/// let header = "R0lGODlhQAHwAIAAAA=="; // of a GIF
/// let picture = Media::base64("image/gif", header).picture();
/// let told = Picture { media_type: PictureType::Gif, width: 320, height: 240 };
/// assert_eq!(picture, Some(told));
/// assert_eq!(Media::url("https://example.com/a.gif").picture(), None);
/// ```
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct Picture {
    /// Its type.
    pub media_type: PictureType,
    /// Its width in pixels.
    pub width: u32,
    /// Its height in pixels.
    pub height: u32,
}

/// The type of a picture whose header is read.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash, Serialize, Deserialize)]
#[non_exhaustive]
pub enum PictureType {
    /// `image/png`.
    #[serde(rename = "image/png")]
    Png,
    /// `image/jpeg`.
    #[serde(rename = "image/jpeg")]
    Jpeg,
    /// `image/gif`.
    #[serde(rename = "image/gif")]
    Gif,
    /// `image/webp`.
    #[serde(rename = "image/webp")]
    WebP,
}

impl PictureType {
    /// Returns the media type, for example `image/png`.
    pub const fn as_str(self) -> &'static str {
        match self {
            Self::Png => "image/png",
            Self::Jpeg => "image/jpeg",
            Self::Gif => "image/gif",
            Self::WebP => "image/webp",
        }
    }
}

impl Picture {
    /// Reads the header from these bytes; `None` if they don't begin like a PNG, JPEG, GIF or WebP,
    /// or if a side has no pixels.
    ///
    /// ```
    /// use memory_prompt::message::{Picture, PictureType};
    ///
    /// let webp = b"RIFF\x1a\0\0\0WEBPVP8L\x0d\0\0\0\x2f\x3f\xc1\x3b\0";
    /// let picture = Picture::of(webp).ok_or("no picture")?;
    /// assert_eq!(picture.media_type, PictureType::WebP);
    /// assert_eq!((picture.width, picture.height), (320, 240));
    /// assert_eq!(Picture::of(b"RIFF\x1a\0\0\0WAVE"), None);
    /// # Ok::<(), &str>(())
    /// ```
    pub fn of(bytes: &[u8]) -> Option<Self> {
        Header(&|at| bytes.get(at).copied()).read()
    }
}

impl Media {
    /// Returns the type and the dimensions from the header of a picture, whatever its media type
    /// says; `None` if its data is not here.
    pub fn picture(&self) -> Option<Picture> {
        if let Some(reference) = self.reference() {
            return reference.picture;
        }
        let data = self.data()?;
        Header(&|at| base64::byte_at(data, at)).read()
    }

    /// Returns the base64 data, if it is here: by itself, or in a `data:` URL.
    pub(crate) fn data(&self) -> Option<&str> {
        match &self.source {
            Source::Base64(data) => Some(data),
            Source::Url(url) => Some(url.strip_prefix("data:")?.split_once(";base64,")?.1),
            Source::FileId(_) | Source::Reference(_) => None,
        }
    }

    /// Returns the length of the base64 data, if it is here or in the memory.
    pub(crate) fn data_len(&self) -> Option<u64> {
        let kept = self.reference().map(|it| it.size.div_ceil(3).saturating_mul(4));
        kept.or_else(|| Some(self.data()?.len() as u64))
    }
}

/// The first bytes of a file, each had by its place.
struct Header<'a>(&'a dyn Fn(usize) -> Option<u8>);

impl Header<'_> {
    fn read(&self) -> Option<Picture> {
        let (media_type, (width, height)) = if self.is(0, b"\x89PNG\r\n\x1a\n") {
            let sides = (self.big(16, 4)?, self.big(20, 4)?);
            (PictureType::Png, self.is(12, b"IHDR").then_some(sides)?)
        } else if self.is(0, b"\xff\xd8\xff") {
            (PictureType::Jpeg, self.jpeg()?)
        } else if self.is(0, b"GIF87a") || self.is(0, b"GIF89a") {
            (PictureType::Gif, (self.little(6, 2)?, self.little(8, 2)?))
        } else if self.is(0, b"RIFF") && self.is(8, b"WEBP") {
            (PictureType::WebP, self.webp()?)
        } else {
            return None;
        };
        (width > 0 && height > 0).then_some(Picture { media_type, width, height })
    }

    fn is(&self, at: usize, bytes: &[u8]) -> bool {
        bytes.iter().enumerate().all(|(i, byte)| (self.0)(at + i) == Some(*byte))
    }

    /// Reads a big-endian number of up to four bytes.
    fn big(&self, at: usize, bytes: usize) -> Option<u32> {
        (0..bytes).try_fold(0, |sum, i| Some(sum << 8 | u32::from((self.0)(at + i)?)))
    }

    /// Reads a little-endian number of up to four bytes.
    fn little(&self, at: usize, bytes: usize) -> Option<u32> {
        (0..bytes).rev().try_fold(0, |sum, i| Some(sum << 8 | u32::from((self.0)(at + i)?)))
    }

    /// Skips the segments of a JPEG up to the one that begins a frame, which is about the fifth.
    fn jpeg(&self) -> Option<(u32, u32)> {
        let mut at = 2;
        for _ in 0..SEGMENTS {
            match self.big(at, 2)? {
                // A byte that fills.
                0xffff => at += 1,
                // Tables and what is reserved, among the numbers of frames.
                0xffc4 | 0xffc8 | 0xffcc => at += 2 + self.segment(at)?,
                0xffc0..=0xffcf => return Some((self.big(at + 7, 2)?, self.big(at + 5, 2)?)),
                // The data, the end, what has no length or is no marker: no frame has come.
                ..=0xff01 | 0xffd0..=0xffda => return None,
                _ => at += 2 + self.segment(at)?,
            }
        }
        None
    }

    /// Returns the length of a JPEG's segment, which counts itself.
    fn segment(&self, at: usize) -> Option<usize> {
        usize::try_from(self.big(at + 2, 2)?).ok().filter(|length| *length >= 2)
    }

    fn webp(&self) -> Option<(u32, u32)> {
        const LOW_14: u32 = (1 << 14) - 1;
        if self.is(12, b"VP8 ") && self.is(23, b"\x9d\x01\x2a") {
            // The two bits above say how to scale it up.
            Some((self.little(26, 2)? & LOW_14, self.little(28, 2)? & LOW_14))
        } else if self.is(12, b"VP8L") && self.is(20, b"\x2f") {
            let bits = self.little(21, 4)?;
            Some(((bits & LOW_14) + 1, (bits >> 14 & LOW_14) + 1))
        } else if self.is(12, b"VP8X") {
            Some((self.little(24, 3)? + 1, self.little(27, 3)? + 1))
        } else {
            None
        }
    }
}

/// The most segments of a JPEG that are skipped: a profile of 16 MB has 256, and a file that never
/// ends costs no more than this.
const SEGMENTS: usize = 1_024;
