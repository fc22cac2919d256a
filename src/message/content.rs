//! The content of a message: a text, or parts.

use std::borrow::Cow;

use super::attributes::Attributes;
use super::base64;
use super::data_url::DataUrl;
use super::other::OtherPart;
use super::reference::MediaReference;

/// The text that replaces a blank user message if a provider refuses blank text.
pub(crate) const EMPTY_MESSAGE: &str = "(empty message)";
/// The text that replaces a blank result.
pub(crate) const NO_OUTPUT: &str = "(no output)";

/// The content of a user or tool message: one text, or parts in order.
#[derive(Clone, Debug, PartialEq, Eq, Hash)]
pub enum Content {
    /// One text.
    Text(String),
    /// Text and media, in order.
    Parts(Box<[Part]>),
}

/// One part of a content.
#[derive(Clone, Debug, PartialEq, Eq, Hash)]
#[non_exhaustive]
pub enum Part {
    /// A text.
    Text(TextPart),
    /// A picture.
    Image(Media),
    /// A recording.
    Audio(Media),
    /// A film.
    Video(Media),
    /// A document.
    File(Media),
    /// A kind of part that this version does not know, kept as it was read.
    Other(OtherPart),
}

/// A text among other parts, with its other fields.
#[derive(Clone, Debug, PartialEq, Eq, Hash)]
pub struct TextPart {
    /// The text.
    pub text: String,
    /// Fields that this version does not know, kept and written again.
    pub extra: Attributes,
}

/// A picture, a recording, a film or a document: where it is and what it is.
#[derive(Clone, Debug, PartialEq, Eq, Hash)]
pub struct Media {
    /// The place where the data is.
    pub source: Source,
    /// The type of the data, for example `image/png`.
    pub media_type: Option<String>,
    /// A file name, for documents.
    pub name: Option<String>,
    /// The detail in which the model should look at an image.
    pub detail: Option<Detail>,
    /// Fields that this version does not know, kept and written again.
    pub extra: Attributes,
}

/// The place where the data of a [`Media`] is.
#[derive(Clone, Debug, PartialEq, Eq, Hash)]
#[non_exhaustive]
pub enum Source {
    /// At an address.
    Url(String),
    /// Here, in base64.
    Base64(String),
    /// At the provider, under an id that it gave.
    FileId(String),
    /// In the memory, beside the record: a [read](crate::memory::Read::references) that does not
    /// want the bytes gets this instead of base64.
    Reference(MediaReference),
}

/// The detail in which a model should look at an image.
#[derive(Clone, Debug, PartialEq, Eq, Hash)]
#[non_exhaustive]
pub enum Detail {
    /// As the provider decides.
    Auto,
    /// Cheap.
    Low,
    /// Exact.
    High,
    /// A level that this version does not know, kept as it was read.
    Other(String),
}

impl Content {
    /// Returns each text, in order.
    pub fn texts(&self) -> impl Iterator<Item = &str> {
        self.as_text().into_iter().chain(self.parts().iter().filter_map(Part::as_text))
    }

    /// Returns all text in one piece: borrowed if there is only one, else joined without a
    /// separator.
    #[inline]
    pub fn text(&self) -> Cow<'_, str> {
        self.as_text().map_or_else(|| join(self.texts()), Cow::Borrowed)
    }

    /// Returns the bytes of all text.
    pub(crate) fn bytes(&self) -> usize {
        self.as_text().map_or_else(|| self.texts().map(str::len).sum(), str::len)
    }

    /// Returns the text of content that has nothing else.
    #[inline]
    pub(crate) fn as_text(&self) -> Option<&str> {
        if let Self::Text(text) = self { Some(text) } else { None }
    }

    /// Returns the parts; none if the content is one text.
    pub fn parts(&self) -> &[Part] {
        match self {
            Self::Text(_) => &[],
            Self::Parts(parts) => parts,
        }
    }

    /// Returns the content with the parts that this function changes; `None` if it changes none.
    pub(crate) fn with_parts(&self, change: impl FnMut(&Part) -> Option<Part>) -> Option<Self> {
        changed(self.parts(), change).map(Self::from)
    }
}

impl Part {
    /// Returns a text.
    pub fn text(text: impl Into<String>) -> Self {
        Self::Text(TextPart { text: text.into(), extra: Attributes::new() })
    }

    /// Returns the text, if this part is one.
    pub fn as_text(&self) -> Option<&str> {
        if let Self::Text(part) = self { Some(&part.text) } else { None }
    }

    /// Returns the `type` of this part in JSON.
    pub(crate) fn kind(&self) -> &str {
        match self {
            Self::Text(_) => "text",
            Self::Image(_) => "image",
            Self::Audio(_) => "audio",
            Self::Video(_) => "video",
            Self::File(_) => "file",
            Self::Other(other) => other.kind(),
        }
    }

    /// Returns media as the part of this `type`: a document, if it is none of the others.
    pub(crate) fn of_kind(kind: &str, media: Media) -> Self {
        match kind {
            "image" => Self::Image(media),
            "audio" => Self::Audio(media),
            "video" => Self::Video(media),
            _ => Self::File(media),
        }
    }

    pub(crate) fn as_media_mut(&mut self) -> Option<&mut Media> {
        match self {
            Self::Image(m) | Self::Audio(m) | Self::Video(m) | Self::File(m) => Some(m),
            Self::Text(_) | Self::Other(_) => None,
        }
    }

    /// Returns the media, if this part is media.
    pub fn as_media(&self) -> Option<&Media> {
        match self {
            Self::Image(m) | Self::Audio(m) | Self::Video(m) | Self::File(m) => Some(m),
            Self::Text(_) | Self::Other(_) => None,
        }
    }
}

impl Media {
    /// Returns media at an address. Data in a `data:` URL are put into the form that providers
    /// take, as by [`base64`](Self::base64).
    pub fn url(url: impl Into<String>) -> Self {
        let url = url.into();
        Self::new(Source::Url(match DataUrl::parse(&url) {
            Some(DataUrl { media_type, data }) => {
                format!("data:{media_type};base64,{}", base64::standard(data.to_owned()))
            }
            None => url,
        }))
    }

    /// Returns media as base64 data, for example `Media::base64("image/png", "AA==")`. Data with
    /// line breaks, or in the alphabet of URLs, is put into the form that providers take.
    pub fn base64(media_type: impl Into<String>, data: impl Into<String>) -> Self {
        let source = Source::Base64(base64::standard(data.into()));
        Self { media_type: Some(media_type.into()), ..Self::new(source) }
    }

    /// Returns media that the provider already holds.
    pub fn file_id(id: impl Into<String>) -> Self {
        Self::new(Source::FileId(id.into()))
    }

    fn new(source: Source) -> Self {
        Self { source, media_type: None, name: None, detail: None, extra: Attributes::new() }
    }

    /// Returns the same media with its type, for example `audio/wav`.
    #[must_use]
    pub fn with_media_type(mut self, media_type: impl Into<String>) -> Self {
        self.media_type = Some(media_type.into());
        self
    }

    /// Returns the same media under a file name.
    #[must_use]
    pub fn with_name(mut self, name: impl Into<String>) -> Self {
        self.name = Some(name.into());
        self
    }

    /// Returns the same image, to be looked at this closely.
    #[must_use]
    pub fn with_detail(mut self, detail: Detail) -> Self {
        self.detail = Some(detail);
        self
    }
}

impl Detail {
    /// Returns the level's name in JSON: `auto`, `low`, `high`, or the unknown one that was read.
    pub fn as_str(&self) -> &str {
        match self {
            Self::Auto => "auto",
            Self::Low => "low",
            Self::High => "high",
            Self::Other(level) => level,
        }
    }
}

/// Returns the text without the spare capacity that a `String` may have: a message does not grow,
/// and a memory holds it for a long time.
pub(super) fn tight(mut text: String) -> String {
    if text.capacity() - text.len() > text.len() / 8 {
        text.shrink_to_fit();
    }
    text
}

/// Joins texts without a copy if there is only one.
pub(super) fn join<'a>(mut texts: impl Iterator<Item = &'a str>) -> Cow<'a, str> {
    let first = texts.next().unwrap_or_default();
    match texts.next() {
        None => Cow::Borrowed(first),
        Some(second) => {
            let mut all = [first, second].concat();
            all.extend(texts);
            Cow::Owned(all)
        }
    }
}

/// Returns the list with the elements that this function changes; `None`, without an allocation, if
/// it changes none, as for most lists.
pub(super) fn changed<T: Clone>(
    list: &[T],
    mut change: impl FnMut(&T) -> Option<T>,
) -> Option<Vec<T>> {
    let mut new = list.iter().map(&mut change).enumerate();
    let (at, first) = new.find_map(|(at, new)| Some((at, new?)))?;
    let (before, rest) = list.split_at(at);
    let behind = rest.iter().skip(1).map(|old| change(old).unwrap_or_else(|| old.clone()));
    Some(before.iter().cloned().chain([first]).chain(behind).collect())
}

/// Says in words how much there is: `1 character`, `2 images and 1 file`.
pub(crate) fn in_words<'a>(characters: usize, parts: impl IntoIterator<Item = &'a Part>) -> String {
    let mut counts = [
        (characters, "character", "characters"),
        (0, "image", "images"),
        (0, "recording", "recordings"),
        (0, "film", "films"),
        (0, "file", "files"),
        (0, "part of another kind", "parts of another kind"),
    ];
    for part in parts {
        let kind = match part {
            Part::Text(_) => continue,
            Part::Image(_) => 1,
            Part::Audio(_) => 2,
            Part::Video(_) => 3,
            Part::File(_) => 4,
            Part::Other(_) => 5,
        };
        counts[kind].0 += 1;
    }
    let counts = counts.into_iter().filter(|(n, ..)| *n > 0);
    let words = counts.map(|(n, one, more)| format!("{n} {}", if n == 1 { one } else { more }));
    words.collect::<Vec<_>>().join(" and ")
}

impl From<String> for Detail {
    fn from(level: String) -> Self {
        match level.as_str() {
            "auto" => Self::Auto,
            "low" => Self::Low,
            "high" => Self::High,
            _ => Self::Other(level),
        }
    }
}

impl From<String> for Content {
    fn from(text: String) -> Self {
        Self::Text(tight(text))
    }
}

impl From<&str> for Content {
    fn from(text: &str) -> Self {
        Self::Text(text.to_owned())
    }
}

impl From<Vec<Part>> for Content {
    fn from(parts: Vec<Part>) -> Self {
        Self::Parts(parts.into_boxed_slice())
    }
}

impl<const N: usize> From<[Part; N]> for Content {
    fn from(parts: [Part; N]) -> Self {
        Self::Parts(Box::new(parts))
    }
}

impl From<&str> for Part {
    fn from(text: &str) -> Self {
        Self::text(text)
    }
}

impl From<String> for Part {
    fn from(text: String) -> Self {
        Self::text(text)
    }
}
