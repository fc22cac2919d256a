//! Messages as bytes, in an envelope that says which version of the format they are in.
//!
//! | | one message | several |
//! |---|---|---|
//! | [`Codec::Json`] | `{"v":1,"message":{"role":"user","content":"hi"}}` | `{"v":1,"messages":[…]}` |
//! | [`Codec::Bincode`] | `B1 01`, then a list of one | `B1 01`, then a list |
//!
//! JSON is for people, other systems and databases that can look into it; bincode is smaller and
//! faster. [`decode`] reads both, whichever is configured: no text begins with the byte `B1`.
//!
//! ```
//! use memory_prompt::Message;
//! use memory_prompt::codec::{self, Codec};
//!
//! let message = Message::user("hi");
//! let json = Codec::Json.encode(&message)?;
//! assert_eq!(json, br#"{"v":1,"message":{"role":"user","content":"hi"}}"#);
//!
//! let bincode = Codec::Bincode.encode(&message)?;
//! assert_eq!(codec::decode(&json)?, message);
//! assert_eq!(codec::decode(&bincode)?, message);
//! # Ok::<(), memory_prompt::Error>(())
//! ```
//!
//! # What is promised
//!
//! - What a released version has written can be read by every later one.
//! - In JSON, fields and kinds that this version does not know are kept and written again. What
//!   only the envelope holds is ignored.
//! - No input makes a decoder panic, and none makes it allocate more than 256 times the length of
//!   the input and 2 MiB, even if every length in the input is a lie. (What a person wrote takes
//!   about what it is long; 256 is for tens of thousands of the emptiest objects there can be.)
//!
//! # What an error tells
//!
//! What is wrong and where: the line and column in JSON, the byte in bincode, and which known field
//! it is. Never what was said: no error here, nor its causes, quotes a text, a number or an unknown
//! name, so that errors can go where conversations must not.
//!
//! # Numbers
//!
//! Attributes and unknown fields hold what [`serde_json::Value`] holds: integers from `i64::MIN` to
//! `u64::MAX` and every finite `f64` survive exactly; a number beyond these is an error. They may
//! be nested 100 levels deep. Tool-call arguments are text and survive byte for byte.

mod envelope;

use bincode::config::standard;
use bincode::de::read::Reader;
use bincode::error::{DecodeError, EncodeError};
use serde::Serialize;

use crate::error::{Error, ErrorKind, Result};
use crate::message::Message;
use envelope::{Envelope, Version};

/// The version of the envelope that is written, and the last one that can be read.
const VERSION: u8 = 1;

/// The first byte of bincode: a continuation byte in UTF-8, so no text begins with it.
const MAGIC: u8 = 0xB1;

/// A way to write messages. They are read by [`decode`], whatever they were written in.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Hash)]
#[non_exhaustive]
pub enum Codec {
    /// JSON: a person can read it, and a database can query it.
    #[default]
    Json,
    /// [bincode](https://docs.rs/bincode/2): smaller and faster.
    Bincode,
}

impl Codec {
    /// Returns the bytes of one message.
    ///
    /// # Errors
    ///
    /// [`ErrorKind::Codec`] if the message could not be read again: a field is nested deeper than
    /// 100 levels, or, for JSON, code put a known field among the extra ones or a known part into
    /// [`Part::Other`](crate::message::Part::Other).
    pub fn encode(self, message: &Message) -> Result<Vec<u8>> {
        match self {
            Self::Json => to_json(&Written::One { v: VERSION, message }),
            Self::Bincode => to_bincode(&[message]),
        }
    }

    /// Returns the bytes of several messages, for example of a whole conversation.
    ///
    /// # Errors
    ///
    /// As for [`encode`](Self::encode).
    pub fn encode_all<'a>(
        self,
        messages: impl IntoIterator<Item = &'a Message>,
    ) -> Result<Vec<u8>> {
        let messages: Vec<&Message> = messages.into_iter().collect();
        match self {
            Self::Json => to_json(&Written::All { v: VERSION, messages: &messages }),
            Self::Bincode => to_bincode(&messages),
        }
    }
}

/// Reads one message, in whichever codec it was written.
///
/// # Errors
///
/// [`ErrorKind::Codec`] if the bytes are empty, cut off, damaged, of a later version, or if they
/// hold more or less than one message. The error says where, and does not quote what is there.
pub fn decode(bytes: &[u8]) -> Result<Message> {
    let mut messages = decode_all(bytes)?;
    match messages.pop() {
        Some(message) if messages.is_empty() => Ok(message),
        Some(_) => Err(codec(format!("{} messages where one belongs", messages.len() + 1))),
        None => Err(codec("no message where one belongs")),
    }
}

/// Reads any number of messages, in whichever codec they were written, by
/// [`encode_all`](Codec::encode_all) or [`encode`](Codec::encode).
///
/// # Errors
///
/// As for [`decode`], except for the number of messages.
pub fn decode_all(bytes: &[u8]) -> Result<Vec<Message>> {
    match bytes {
        [] => Err(codec("there are no bytes")),
        [MAGIC, VERSION, body @ ..] => from_bincode(body),
        [MAGIC] => Err(codec("the bytes end too early")),
        [MAGIC, version, ..] => Err(unknown_version(u64::from(*version))),
        _ => from_json(bytes),
    }
}

fn codec(message: impl Into<String>) -> Error {
    Error::new(ErrorKind::Codec, "codec", message)
}

fn unknown_version(version: u64) -> Error {
    codec(match version {
        0 => "this says version 0, and versions begin with 1: `Codec::encode` and `encode_all` write \
              an envelope as it must be"
            .to_owned(),
        later @ 1..=255 => format!("this is version {later}; versions up to {VERSION} can be read"),
        // So large a number is hardly a version of this format.
        _ => format!("this is a later version; versions up to {VERSION} can be read"),
    })
}

// ---- JSON ---------------------------------------------------------------------------------------

#[derive(Serialize)]
#[serde(untagged)]
enum Written<'a> {
    One { v: u8, message: &'a Message },
    All { v: u8, messages: &'a [&'a Message] },
}

/// The hint for JSON that has no envelope, and so is likely somebody's own.
const BARE: &str = "messages without an envelope are read with serde_json, as `Message` or \
                    `Vec<Message>`; with one they are {\"v\":1,\"messages\":[..]}";

fn to_json(envelope: &Written<'_>) -> Result<Vec<u8>> {
    serde_json::to_vec(envelope).map_err(|error| codec(error.to_string()).with_source(error))
}

fn from_json(bytes: &[u8]) -> Result<Vec<Message>> {
    let text = str::from_utf8(bytes)
        .map_err(|error| codec(format!("neither bincode nor text: {error}")).with_source(error))?;
    if text.trim_start().starts_with('[') {
        return Err(codec(format!("this is a list, and an envelope is an object: {BARE}")));
    }
    let envelope = serde_json::from_str::<Envelope>(text).map_err(|error| {
        // Whatever else is wrong: an envelope of another version is an error of its version.
        match version(text) {
            Some(other) if other != u64::from(VERSION) => unknown_version(other),
            _ => codec(error.to_string()).with_source(error),
        }
    })?;
    match envelope {
        Envelope { v: None, .. } => Err(codec(format!("an envelope has a version, `v`: {BARE}"))),
        Envelope { v: Some(v), .. } if v != u64::from(VERSION) => Err(unknown_version(v)),
        Envelope { message: Some(message), messages: None, .. } => Ok(vec![message]),
        Envelope { message: None, messages: Some(messages), .. } => Ok(messages),
        _ => Err(codec("an envelope holds either `message` or `messages`")),
    }
}

fn version(text: &str) -> Option<u64> {
    serde_json::from_str::<Version>(text).ok().map(|it| it.v)
}

// ---- bincode ------------------------------------------------------------------------------------
//
// bincode 2.0.1 is the last release that works (3.0.0 is an empty crate), and nobody maintains it.
// Nothing outside this file knows of it: if it must go, the shape in `message/binary.rs` is plain
// serde data, and the encoding (little-endian varints) is a page of code.

fn to_bincode(messages: &[&Message]) -> Result<Vec<u8>> {
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

fn from_bincode(body: &[u8]) -> Result<Vec<Message>> {
    let mut rest = Rest(body);
    let messages = read_body(body.len(), &mut rest).map_err(|error| {
        let at = body.len() - rest.0.len() + 2; // behind the magic and the version
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
            // serde's own, which quotes the number.
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

/// The bytes that are not read yet, so that an error can say how far reading came.
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

/// bincode allocates what a length says before it looks whether so many bytes are there, and a
/// failed allocation ends the process. It asks a limit first, where there is one.
///
/// What counts against the limit is the size of the numbers in memory: up to 8 for one byte read.
/// So 8 times the input is enough for any honest one. The limit is a type, so there are a few of
/// them, each 8 times the one before, and a lie can cost 64 times the input at most.
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

/// 0, which fits nothing, where the address space ends before.
const fn limit(bits: u32) -> usize {
    if bits < usize::BITS { 1 << bits } else { 0 }
}
