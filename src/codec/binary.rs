//! Messages in bincode, after two bytes that identify the format.
//!
//! bincode 2.0.1 is the last working release (3.0.0 is an empty crate), and it is unmaintained.
//! Nothing outside this file depends on it: if it must be replaced, the structure in
//! `message/binary.rs` is plain serde data, and the encoding (little-endian varints) is a page of
//! code.

use bincode::config::standard;
use bincode::de::read::Reader;
use bincode::error::{DecodeError, EncodeError};

use super::{MAGIC, VERSION, codec};
use crate::error::{Error, Result};
use crate::message::Message;

pub(super) fn write(messages: &[&Message]) -> Result<Vec<u8>> {
    let mut out = vec![MAGIC, VERSION];
    bincode::serde::encode_into_std_write(messages, &mut out, standard()).map_err(|error| {
        let text = match &error {
            EncodeError::OtherString(text) => text.clone(),
            other => other.to_string(),
        };
        codec(text).with_source(error)
    })?;
    Ok(out)
}

pub(super) fn read(body: &[u8]) -> Result<Vec<Message>> {
    let mut rest = Rest(body);
    let messages = read_body(body.len(), &mut rest).map_err(|error| {
        let at = body.len() - rest.0.len() + 2; // after the magic and the version
        let (text, source) = match error {
            DecodeError::UnexpectedEnd { .. } => {
                ("the bytes end too early".to_owned(), Some(error))
            }
            DecodeError::LimitExceeded => {
                (format!("a length is beyond the end of the bytes, before byte {at}"), Some(error))
            }
            DecodeError::Utf8 { inner } => {
                (format!("a text is not UTF-8, before byte {at}: {inner}"), Some(error))
            }
            // This is serde's own text, which quotes the number.
            DecodeError::OtherString(text) if text.starts_with("invalid value: integer") => {
                (format!("there is no kind of this number, before byte {at}"), None)
            }
            DecodeError::OtherString(text) => (format!("{text}, before byte {at}"), None),
            _ => (format!("the bytes are damaged, before byte {at}"), None),
        };
        let error = codec(text);
        source.into_iter().fold(error, Error::with_source)
    })?;
    match rest.0.len() {
        0 => Ok(messages),
        rest => Err(codec(format!("{rest} bytes too many at the end"))),
    }
}

/// The unread bytes, so that an error can say how far reading got.
struct Rest<'a>(&'a [u8]);

impl Reader for Rest<'_> {
    #[inline]
    fn read(&mut self, bytes: &mut [u8]) -> Result<(), DecodeError> {
        let Some((read, rest)) = self.0.split_at_checked(bytes.len()) else {
            let additional = bytes.len() - self.0.len();
            return Err(DecodeError::UnexpectedEnd { additional });
        };
        bytes.copy_from_slice(read);
        self.0 = rest;
        Ok(())
    }

    #[inline]
    fn peek_read(&mut self, n: usize) -> Option<&[u8]> {
        self.0.get(..n)
    }

    #[inline]
    fn consume(&mut self, n: usize) {
        self.0 = self.0.get(n..).unwrap_or_default();
    }
}

/// Reads the messages within a limit. bincode allocates what a length says before it checks whether
/// that many bytes are there, and a failed allocation aborts the process. If there is a limit, it
/// checks that first.
///
/// The limit counts the size of numbers in memory: up to 8 bytes for one byte read. So 8 times the
/// input is enough for any valid one. The limit is a type, so there are only a few, each 8 times
/// the one before, and a false length can cost at most 64 times the input.
fn read_body(length: usize, rest: &mut Rest<'_>) -> Result<Vec<Message>, DecodeError> {
    macro_rules! first_that_fits {
        ($($bits:literal)*) => {
            match length {
                $(length if length <= limit($bits) / 8 => {
                    bincode::serde::decode_from_reader(rest, standard().with_limit::<{ limit($bits) }>())
                })*
                _ => Err(DecodeError::LimitExceeded), // more than 8 GiB
            }
        };
    }
    first_that_fits!(12 15 18 21 24 27 30 33 36)
}

/// Returns the limit of this many bits; 0, which allows nothing, if the address space is smaller.
const fn limit(bits: u32) -> usize {
    if bits < usize::BITS { 1 << bits } else { 0 }
}
