//! Media that a backend keeps beside its records: each once in a conversation, as bytes under their
//! hash. A record then has a reference in their place.
//!
//! Positions ascend and messages leave from the oldest on. So it is enough to know of each the
//! newest position that refers to it: once that is evicted, nothing refers to it any more.

use std::collections::BTreeMap;

use sha2::{Digest, Sha256 as Hasher};

use crate::error::{Error, ErrorKind, Result};
use crate::message::{Media, MediaReference, Message, Sha256, Source, base64};

/// The media of a batch that are kept beside its records.
pub(super) type Beside = BTreeMap<Sha256, Kept>;

/// Media that are kept beside records.
pub(super) struct Kept {
    /// The place of the newest message among those of the batch that refers to it.
    pub(super) place: usize,
    pub(super) bytes: Vec<u8>,
}

/// Returns the message at this place with references where it has media of at least so many bytes,
/// which are added to `beside`; `None` if it has none.
pub(super) fn without_media(
    message: &Message,
    place: usize,
    least: usize,
    beside: &mut Beside,
) -> Option<Message> {
    message.with_sources(|media| {
        let bytes = bytes_of(media, least)?;
        let (sha256, size) = (Sha256(Hasher::digest(&bytes).into()), bytes.len() as u64);
        beside.entry(sha256).or_insert(Kept { place, bytes }).place = place;
        Some(Source::Reference(MediaReference { sha256, size, picture: media.picture() }))
    })
}

/// Returns the bytes of media that may be kept beside their record: what comes back is what was
/// given, so they must stand in the one base64 that is made of them; and all that a prompt asks of
/// them must be known without them, so they are of a known type, and no text.
fn bytes_of(media: &Media, least: usize) -> Option<Vec<u8>> {
    let Source::Base64(data) = &media.source else { return None };
    let is_known = media.media_type.is_some() || media.picture().is_some();
    if !is_known || data.len() / 4 < least.div_ceil(3) {
        return None;
    }
    let bytes = base64::decode(data)?;
    let is_kept = bytes.len() >= least && str::from_utf8(&bytes).is_err();
    (is_kept && base64::encode(&bytes) == *data).then_some(bytes)
}

/// The bytes that were found beside records.
pub(super) type Found = BTreeMap<Sha256, Vec<u8>>;

/// Returns the message with the bytes in the places of its references; `None` if it has none.
pub(super) fn filled(message: &Message, found: &Found) -> Result<Option<Message>> {
    let filled = message.with_data(|reference| {
        let bytes = found.get(&reference.sha256)?;
        (bytes.len() as u64 == reference.size).then(|| base64::encode(bytes))
    });
    let lacking = filled.as_ref().unwrap_or(message).references().next().copied();
    let Some(MediaReference { sha256, size, .. }) = lacking else { return Ok(filled) };
    let text = match found.get(&sha256).map(Vec::len) {
        None => format!("the media {sha256} of the record are not there"),
        Some(is) => format!("the media {sha256} of the record have {is} bytes, not {size}"),
    };
    Err(Error::new(ErrorKind::Codec, "read", text))
}
