//! The pictures and documents that a provider takes in one request.

use serde::{Deserialize, Serialize};

/// The pictures and documents that a provider takes in one request; a field that is `None` sets no
/// limit.
///
/// Bytes are counted as they are sent, in base64, which is a third more than the size of the file.
/// Media at an address, or that the provider holds, count as pictures and documents and have no
/// bytes. A limit of the whole request leaves a part of it to texts and tools.
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
/// assert_eq!(prompt.report().media_from, Some(2));
/// # Ok::<(), memory_prompt::Error>(())
/// ```
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Hash, Serialize, Deserialize)]
#[serde(default, deny_unknown_fields)]
#[non_exhaustive]
pub struct MediaLimits {
    /// The most pictures.
    pub pictures: Option<u32>,
    /// The most of them that are at addresses from which the provider fetches them.
    pub fetched_pictures: Option<u32>,
    /// The most documents.
    pub documents: Option<u32>,
    /// The most pictures and documents together.
    pub together: Option<u32>,
    /// The most bytes of one picture.
    pub picture_bytes: Option<u32>,
    /// The most bytes of one document.
    pub document_bytes: Option<u32>,
    /// The most bytes of all media together, recordings and films included.
    pub bytes: Option<u32>,
    /// The most pixels on a side of a picture.
    pub side: Option<u32>,
    /// The number of pictures above which each must be smaller, and the most pixels on a side then.
    pub many: Option<(u32, u32)>,
}

impl MediaLimits {
    /// No limits at all.
    pub const NONE: Self = Self {
        pictures: None,
        fetched_pictures: None,
        documents: None,
        together: None,
        picture_bytes: None,
        document_bytes: None,
        bytes: None,
        side: None,
        many: None,
    };
}
