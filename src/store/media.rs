//! Media that a backend keeps beside its records: each once in a conversation, as bytes under their
//! hash. A record then has a reference in their place.
//!
//! Positions ascend and messages leave from the oldest on. So it is enough to know of each the
//! newest position that refers to it: once that is evicted, nothing refers to it any more.

use std::collections::BTreeMap;
use std::sync::Arc;

use sha2::{Digest, Sha256 as Hasher};

use super::common::Rows;
use crate::error::{Error, ErrorKind, Result};
use crate::message::{Media, MediaReference, Message, Sha256, Source, base64};
use crate::record::Referred;

/// Media of a batch that are kept beside its records.
pub(super) struct Beside {
    pub(super) sha256: Sha256,
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
    beside: &mut Vec<Beside>,
) -> Option<Message> {
    message.with_sources(|media| {
        let bytes = bytes_of(media, least)?;
        let reference = MediaReference {
            sha256: Sha256(Hasher::digest(&bytes).into()),
            size: bytes.len() as u64,
            picture: media.picture(),
        };
        match beside.iter_mut().find(|it| it.sha256 == reference.sha256) {
            Some(known) => known.place = place,
            None => beside.push(Beside { sha256: reference.sha256, place, bytes }),
        }
        Some(Source::Reference(reference))
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

/// Returns the references that stand in rows.
pub(super) fn references(rows: &Rows) -> Vec<Referred> {
    let mut references = Vec::new();
    for (position, message) in rows.readable() {
        for (media, it) in message.media().enumerate() {
            if let Source::Reference(it) = &it.source {
                references.push(Referred { sha256: it.sha256, position, media });
            }
        }
    }
    references
}

/// Puts the bytes in the places of the references. A row whose bytes are not there can't be read.
pub(super) fn fill(rows: &mut Rows, found: &Found) {
    if rows.readable().any(|(_, message)| message.references().next().is_some()) {
        rows.change(|message| filled(message, found).map_err(Arc::new));
    }
}

fn filled(message: Message, found: &Found) -> Result<Message> {
    let mut lacks = None;
    let filled = message.with_sources(|media| {
        let Source::Reference(reference) = &media.source else { return None };
        match found.get(&reference.sha256) {
            Some(bytes) if bytes.len() as u64 == reference.size => {
                Some(Source::Base64(base64::encode(bytes)))
            }
            other => {
                lacks = Some((*reference, other.map(Vec::len)));
                None
            }
        }
    });
    if let Some((MediaReference { sha256, size, .. }, is)) = lacks {
        let text = match is {
            None => format!("the media {sha256} of the record are not there"),
            Some(is) => format!("the media {sha256} of the record have {is} bytes, not {size}"),
        };
        return Err(Error::new(ErrorKind::Codec, "read", text));
    }
    Ok(filled.unwrap_or(message))
}
