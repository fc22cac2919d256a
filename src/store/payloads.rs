//! A batch as it is written.

use super::media::{Beside, without_media};
use crate::codec::Codec;
use crate::error::{Error, ErrorKind, Result};
use crate::memory::SlotChange;
use crate::message::Message;

/// How messages are written.
#[derive(Clone, Copy, Debug)]
pub(super) struct Encoding {
    pub(super) codec: Codec,
    /// The size from which on media are kept beside their messages.
    pub(super) media_beside: usize,
}

impl Default for Encoding {
    fn default() -> Self {
        Self { codec: Codec::default(), media_beside: MEDIA_FROM }
    }
}

/// A batch as it is written: a system message goes to its slot, the last one if there are several.
pub(super) struct Payloads {
    pub(super) system: Option<Vec<u8>>,
    pub(super) messages: Vec<Vec<u8>>,
    /// The media that are kept beside them.
    pub(super) beside: Beside,
}

impl Payloads {
    pub(super) fn of(backend: &str, encoding: Encoding, batch: &[Message]) -> Result<Self> {
        let messages = Vec::with_capacity(batch.len());
        let mut payloads = Self { system: None, messages, beside: Beside::new() };
        for (i, message) in batch.iter().enumerate() {
            let place = payloads.messages.len();
            let without =
                without_media(message, place, encoding.media_beside, &mut payloads.beside);
            let message = without.as_ref().unwrap_or(message);
            let payload = encoding.codec.encode(message).map_err(|error| {
                let text = format!("{backend}: message {i} of the batch can't be written: {error}");
                Error::new(ErrorKind::Codec, "append", text).with_source(error)
            })?;
            if message.is_system() {
                payloads.system = Some(payload);
            } else {
                payloads.messages.push(payload);
            }
        }
        Ok(payloads)
    }

    /// Returns the size of each message, of the system message, and of each slot and of the media
    /// that are written with them.
    pub(super) fn sizes<'a>(&'a self, slots: &'a [SlotChange]) -> impl Iterator<Item = usize> + 'a {
        let contents = slots.iter().filter_map(|change| change.content.as_ref());
        let media = self.beside.values().map(|(_, bytes)| bytes);
        self.messages.iter().chain(&self.system).chain(contents).chain(media).map(Vec::len)
    }
}

/// The default size from which on media are kept beside their messages: a few kilobytes are
/// read faster with the message than separately.
const MEDIA_FROM: usize = 16 * 1_024;
