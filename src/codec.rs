//! Messages as bytes, in an envelope with the version of the format.
//!
//! | | one message | several |
//! |---|---|---|
//! | [`Codec::Json`] | `{"v":1,"message":{"role":"user","content":"hi"}}` | `{"v":1,"messages":[…]}` |
//! | `Codec::Bincode` | `B1 01`, then a list of one | `B1 01`, then a list |
//!
//! JSON is for people, other systems and databases that can query it; bincode is smaller and
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
//! assert_eq!(codec::decode(&json)?, message);
//! # #[cfg(feature = "bincode")] {
//! let bincode = Codec::Bincode.encode(&message)?;
//! assert_eq!(codec::decode(&bincode)?, message);
//! # }
//! # Ok::<(), memory_prompt::Error>(())
//! ```
//!
//! # Without bincode
//!
//! Version 2 of bincode works, but is unmaintained: [RUSTSEC-2025-0141] says so, and audit tools
//! report it. Its feature, `bincode`, is on by default, and can be switched off:
//!
//! ```toml
//! memory-prompt = { version = "0.1", default-features = false }
//! ```
//!
//! Then there is only `Codec::Json`, and bytes in bincode are an error that names the feature. If
//! you have stored bincode, read it with [`decode`] and write it as JSON before you switch it off.
//! If bincode ever stops working, the format can still be read: it is little-endian varints, a page
//! of code.
//!
//! [RUSTSEC-2025-0141]: https://rustsec.org/advisories/RUSTSEC-2025-0141
//!
//! # Guarantees
//!
//! - What a released version has written can be read by every later one.
//! - In JSON, unknown fields and kinds are kept and written again. Unknown fields of the envelope
//!   itself are ignored.
//! - No input makes a decoder panic, or allocate more than 256 times the length of the input plus 2
//!   MiB, even if every length in the input is false. (Real conversations take about their own
//!   length; 256 is for tens of thousands of the emptiest possible objects.)
//!
//! # What an error contains
//!
//! What is wrong and where: the line and column in JSON, the byte in bincode, and the known field.
//! Never any content: neither an error here nor its causes quote a text, a number or an unknown
//! name, so errors can go where conversations must not.
//!
//! # Numbers
//!
//! Attributes and unknown fields hold what [`serde_json::Value`] holds: integers from `i64::MIN` to
//! `u64::MAX` and every finite `f64` survive exactly; a number beyond these is an error. They may
//! be nested 100 levels deep. Tool-call arguments are text and survive byte for byte.

#[cfg(feature = "bincode")]
mod binary;
mod envelope;

use serde::Serialize;

use crate::error::{Error, ErrorKind, Result};
use crate::message::Message;
use envelope::{Envelope, Version};

/// The version of the envelope that is written, and the latest that can be read.
const VERSION: u8 = 1;

/// The first byte of bincode: a continuation byte in UTF-8, so no text begins with it.
const MAGIC: u8 = 0xB1;

/// The format in which messages are written. [`decode`] reads every format.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Hash)]
#[non_exhaustive]
pub enum Codec {
    /// JSON: people can read it, and databases can query it.
    #[default]
    Json,
    /// [bincode](https://docs.rs/bincode/2): smaller and faster. With the feature `bincode`, which
    /// is on by default.
    #[cfg(feature = "bincode")]
    Bincode,
}

impl Codec {
    /// Returns the bytes of one message.
    ///
    /// # Errors
    ///
    /// [`ErrorKind::Codec`] if the message could not be read again: a field is nested deeper than
    /// 100 levels or, for JSON, code put a known field among the extra ones or a known part into
    /// [`Part::Other`](crate::message::Part::Other).
    pub fn encode(self, message: &Message) -> Result<Vec<u8>> {
        match self {
            Self::Json => to_json(&Written::One { v: VERSION, message }),
            #[cfg(feature = "bincode")]
            Self::Bincode => binary::write(&[message]),
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
            #[cfg(feature = "bincode")]
            Self::Bincode => binary::write(&messages),
        }
    }
}

/// Reads one message in any codec.
///
/// # Errors
///
/// [`ErrorKind::Codec`] if the bytes are empty, cut off, damaged or of a later version, or if they
/// contain more or less than one message. The error says where, and does not quote anything.
pub fn decode(bytes: &[u8]) -> Result<Message> {
    let mut messages = decode_all(bytes)?;
    match messages.pop() {
        Some(message) if messages.is_empty() => Ok(message),
        Some(_) => Err(codec(format!("{} messages where one belongs", messages.len() + 1))),
        None => Err(codec("no message where one belongs")),
    }
}

/// Reads any number of messages in any codec, written by [`encode_all`](Codec::encode_all) or
/// [`encode`](Codec::encode).
///
/// # Errors
///
/// As for [`decode`], except for the number of messages.
pub fn decode_all(bytes: &[u8]) -> Result<Vec<Message>> {
    match bytes {
        [] => Err(codec("there are no bytes")),
        #[cfg(feature = "bincode")]
        [MAGIC, VERSION, body @ ..] => binary::read(body),
        #[cfg(not(feature = "bincode"))]
        [MAGIC, VERSION, ..] => {
            Err(codec("this is bincode, which is read with the feature `bincode`"))
        }
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
        // Such a large number is probably not a version of this format.
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

/// The hint for JSON without an envelope, which probably comes from another program.
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
        // Check the version first: if it is another one, that is the error.
        match serde_json::from_str(text) {
            Ok(Version { v }) if v != u64::from(VERSION) => unknown_version(v),
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
