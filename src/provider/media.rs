//! The pictures and documents that a provider takes in one request.

use serde::{Deserialize, Serialize};

use super::row::{Files, Images, Row};
use crate::message::{Media, Part};

/// The pictures and documents that a provider takes in one request; a field that is `None` bounds
/// nothing.
///
/// Bytes are counted as they are sent, in base64, which is a third more than the file has. Media at
/// an address, or that the provider holds, count as pictures and documents and have no bytes. A
/// limit of the whole request leaves a part of it to texts and tools.
///
/// ```
/// use memory_prompt::Provider;
/// use memory_prompt::message::{Media, Part};
/// use memory_prompt::provider::Row;
/// use memory_prompt::record::Snapshot;
/// use memory_prompt::{Composer, Message};
///
/// let mut row = Row::like(Provider::OpenAiCompatible, "our-gateway")?;
/// row.media.pictures = Some(1);
/// let picture = |name: &str| Part::Image(Media::url(format!("https://example.com/{name}.png")));
/// let history = Snapshot::from_messages([
///     Message::user([picture("cat")]),
///     Message::ai("A cat."),
///     Message::user([picture("dog")]),
/// ]);
/// let composer = Composer::new().for_provider(Provider::custom(row));
/// let prompt = composer.compose_all(&history, &[])?;
/// assert_eq!(prompt[0].text(), "[Not shown here: 1 image in message 0.]");
/// assert_eq!(prompt[2], Message::user([picture("dog")]));
/// assert_eq!(prompt.report().media_from, Some(1));
/// # Ok::<(), memory_prompt::Error>(())
/// ```
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Hash, Serialize, Deserialize)]
#[serde(default, deny_unknown_fields)]
#[non_exhaustive]
pub struct MediaLimits {
    /// The most pictures.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub pictures: Option<u32>,
    /// The most documents.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub documents: Option<u32>,
    /// The most pictures and documents together.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub together: Option<u32>,
    /// The most bytes of one picture.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub picture_bytes: Option<u32>,
    /// The most bytes of one document.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub document_bytes: Option<u32>,
    /// The most bytes of all media together, recordings and films included.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub bytes: Option<u32>,
    /// The most pixels of a side of a picture.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub side: Option<u32>,
    /// The number of pictures above which each has to be smaller, and the most pixels of a side
    /// then.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub many: Option<(u32, u32)>,
}

impl MediaLimits {
    /// No limits at all.
    pub const NONE: Self = Self {
        pictures: None,
        documents: None,
        together: None,
        picture_bytes: None,
        document_bytes: None,
        bytes: None,
        side: None,
        many: None,
    };

    pub(super) fn is_none(&self) -> bool {
        *self == Self::NONE
    }

    /// Returns the same limits for half of what may be sent together.
    pub(crate) fn halved(self) -> Self {
        let half = |most: Option<u32>| most.map(|most| most / 2);
        Self {
            pictures: half(self.pictures),
            documents: half(self.documents),
            together: half(self.together),
            bytes: half(self.bytes),
            many: self.many.map(|(above, side)| (above / 2, side)),
            ..self
        }
    }
}

/// Media that are sent together, as the limits count them.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub(crate) struct Load {
    pictures: u32,
    documents: u32,
    bytes: u64,
    /// The longest side of a picture whose dimensions are known.
    side: u32,
}

impl Load {
    /// Returns what a part takes up in a request to the provider of this row; nothing if it is no
    /// media, or of a kind that it is never sent.
    pub(crate) fn of(part: &Part, row: &Row) -> Self {
        let bytes = |media: &Media| media.data().map_or(0, |data| data.len() as u64);
        match part {
            Part::Image(_) if row.images == Images::Never => Self::default(),
            Part::File(_) if row.files == Files::Never => Self::default(),
            Part::Image(media) => {
                let side = media.picture().map_or(0, |picture| picture.longer_side());
                Self { pictures: 1, documents: 0, bytes: bytes(media), side }
            }
            Part::File(media) => Self { documents: 1, bytes: bytes(media), ..Self::default() },
            Part::Audio(media) | Part::Video(media) => {
                Self { bytes: bytes(media), ..Self::default() }
            }
            Part::Text(_) | Part::Other(_) => Self::default(),
        }
    }

    pub(crate) fn is_none(&self) -> bool {
        *self == Self::default()
    }

    pub(crate) fn with(self, other: Self) -> Self {
        Self {
            pictures: self.pictures.saturating_add(other.pictures),
            documents: self.documents.saturating_add(other.documents),
            bytes: self.bytes.saturating_add(other.bytes),
            side: self.side.max(other.side),
        }
    }

    /// Returns whether all of it may be sent together.
    pub(crate) fn fits(&self, limits: &MediaLimits) -> bool {
        let within = |most: Option<u32>, n: u64| most.is_none_or(|most| n <= most.into());
        let (pictures, documents) = (u64::from(self.pictures), u64::from(self.documents));
        within(limits.pictures, pictures)
            && within(limits.documents, documents)
            && within(limits.together, pictures + documents)
            && within(limits.bytes, self.bytes)
            && limits.many.is_none_or(|(above, side)| self.pictures <= above || self.side <= side)
    }

    /// Returns why this part alone can't be sent, where it can't.
    pub(crate) fn excess(&self, limits: &MediaLimits) -> Option<String> {
        let (what, own) = match (self.pictures, self.documents) {
            (1, _) => ("a picture", limits.picture_bytes),
            (_, 1) => ("a document", limits.document_bytes),
            _ => ("media", None),
        };
        let most = own.into_iter().chain(limits.bytes).min();
        if let Some(most) = most.filter(|most| self.bytes > u64::from(*most)) {
            return Some(format!("{what} of {} bytes in base64, of at most {most}", self.bytes));
        }
        let most = limits.side.filter(|most| self.side > *most)?;
        Some(format!("{what} of {} pixels a side, of at most {most}", self.side))
    }
}
