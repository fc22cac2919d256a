//! The load of media in a request, compared with the limits of a row.

use super::media::MediaLimits;
use super::row::{Format, Row};
use super::sent::is_sent;
use crate::message::{Media, Message, Part, Source};

/// Returns whether a part is sent as a picture. Google names the type alone, so a file can be one.
pub(crate) fn is_picture(part: &Part, row: &Row) -> bool {
    let is_one = |media: &Media| row.format == Format::Gemini && media.picture().is_some();
    matches!(part, Part::Image(_)) || matches!(part, Part::File(media) if is_one(media))
}

/// The load of media that are sent together.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub(crate) struct Load {
    pictures: u32,
    documents: u32,
    /// The pictures at addresses that the provider fetches.
    fetched: u32,
    bytes: u64,
    /// The longest side of a picture with known dimensions.
    side: u32,
}

impl Load {
    /// Returns the load of a part in a request to the provider of this row; `None` if it is not
    /// media, or is not sent as such.
    pub(crate) fn of(part: &Part, message: &Message, row: &Row) -> Option<Self> {
        let media = part.as_media()?;
        let is_picture = is_picture(part, row);
        let picture = media.picture().filter(|_| is_picture);
        let fetched = matches!(&media.source, Source::Url(url) if url.starts_with("http"));
        let load = Self {
            pictures: is_picture.into(),
            documents: (!is_picture && matches!(part, Part::File(_))).into(),
            fetched: (is_picture && fetched).into(),
            bytes: media.data_len().unwrap_or(0),
            side: picture.map_or(0, |it| it.width.max(it.height)),
        };
        (load != Self::default() && is_sent(part, message, row)).then_some(load)
    }

    pub(crate) fn with(self, other: Self) -> Self {
        Self {
            pictures: self.pictures.saturating_add(other.pictures),
            documents: self.documents.saturating_add(other.documents),
            fetched: self.fetched.saturating_add(other.fetched),
            bytes: self.bytes.saturating_add(other.bytes),
            side: self.side.max(other.side),
        }
    }

    /// Returns whether all of it fits into a half, a third … of what may be sent together.
    pub(crate) fn fits(&self, limits: &MediaLimits, share: u32) -> bool {
        let within = |most: Option<u32>, n: u64| most.is_none_or(|most| n <= (most / share).into());
        let (pictures, documents) = (self.pictures.into(), self.documents.into());
        let many = limits.many.filter(|(_, side)| self.side > *side).map(|(most, _)| most);
        within(limits.pictures, pictures)
            && within(many, pictures)
            && within(limits.fetched_pictures, self.fetched.into())
            && within(limits.documents, documents)
            && within(limits.together, pictures + documents)
            && within(limits.bytes, self.bytes)
    }

    /// Returns why this part alone can't be sent, if so.
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
