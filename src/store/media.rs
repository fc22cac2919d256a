//! Media that a backend keeps beside its records: each once in a conversation, as bytes under
//! their hash. A record then has a reference instead of them.
//!
//! Positions ascend, and the oldest messages leave first. So for each, it is enough to know the
//! newest position that refers to it: once that is evicted, nothing refers to it any more.

use std::collections::BTreeMap;

use sha2::{Digest, Sha256 as Hasher};

use crate::error::{Error, ErrorKind, Result};
use crate::message::{Media, MediaReference, Message, Sha256, Source, base64};

/// The media of a batch that are kept beside its records: for each, its bytes, and the place in
/// the batch of the newest message that refers to it.
pub(super) type Beside = BTreeMap<Sha256, (usize, Vec<u8>)>;

/// Returns the message at this place with references instead of its media of at least this many
/// bytes, which are added to `beside`; `None` if it has none.
pub(super) fn without_media(
    message: &Message,
    place: usize,
    least: usize,
    beside: &mut Beside,
) -> Option<Message> {
    message.with_sources(|media| {
        let bytes = bytes_of(media, least)?;
        let (sha256, size) = (Sha256(Hasher::digest(&bytes).into()), bytes.len() as u64);
        beside.entry(sha256).or_insert((place, bytes)).0 = place;
        Some(Source::Reference(MediaReference { sha256, size, picture: media.picture() }))
    })
}

/// Returns the bytes of media that may be kept beside their record. The media must come back
/// exactly as given, so they must be in canonical base64. A prompt must know all it needs without
/// the bytes, so they are of a known type, and no text.
fn bytes_of(media: &Media, least: usize) -> Option<Vec<u8>> {
    let Source::Base64(data) = &media.source else { return None };
    let told = media.media_type.as_deref().unwrap_or_default();
    let is_known = !told.is_empty() && !told.starts_with(';') || media.picture().is_some();
    if !is_known || data.len() / 4 < least.div_ceil(3) {
        return None;
    }
    let bytes = base64::decode(data)?;
    let is_kept = bytes.len() >= least && str::from_utf8(&bytes).is_err();
    (is_kept && base64::encode(&bytes) == *data).then_some(bytes)
}

/// The bytes that were found for references.
pub(super) type Found = BTreeMap<Sha256, Vec<u8>>;

/// Replaces the references of a message with the bytes; fails if some were not found.
pub(super) fn fill(message: &mut Message, found: &Found) -> Result<()> {
    let filled = message.with_sources(|media| {
        let reference = media.reference()?;
        let bytes = found.get(&reference.sha256)?;
        (bytes.len() as u64 == reference.size).then(|| Source::Base64(base64::encode(bytes)))
    });
    if let Some(filled) = filled {
        *message = filled;
    }
    message.references().next().map_or(Ok(()), |MediaReference { sha256, size, .. }| {
        let text = format!("the media {sha256} of {size} bytes of the record are not there");
        Err(Error::new(ErrorKind::Codec, "read", text))
    })
}
