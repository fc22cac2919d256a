//! Ollama's own `/api/chat`. (Its `/v1` uses [`openai`](super::openai).)
//!
//! [`messages`] is the `messages` of a request; [`answer`] reads a response and [`Stream`] a
//! streamed one; [`history`] reads the messages of a request that another program wrote.
//!
//! ```
//! use memory_prompt::{DefaultChatMemory, MemoryPrompt, Message, wire};
//! use serde_json::json;
//!
//! let mut prompt = MemoryPrompt::new(DefaultChatMemory::new()).system("Be brief.");
//! prompt.add(Message::user("hi"))?;
//! let built = prompt.build()?;
//!
//! let body = json!({"model": "m", "messages": wire::ollama::messages(&built)});
//! assert_eq!(body["messages"], json!([
//!     {"role": "system", "content": "Be brief."},
//!     {"role": "user", "content": "hi"},
//! ]));
//!
//! let answer = r#"{"message": {"role": "assistant", "content": "Hello."}, "done": true}"#;
//! prompt.add(wire::ollama::answer(answer)?)?;
//! # Ok::<(), memory_prompt::Error>(())
//! ```
//!
//! # How messages are written
//!
//! - Content is always one string; images are in a separate list, as base64 without a prefix.
//! - A call's arguments are an object. They are read as JSON text without spaces, with sorted keys.
//! - Calls have ids, and results name them, in the versions that know ids; older ones ignore them.
//!   A call that came without an id gets one, made of the answer's `created_at` and the call's
//!   place, or of its place in the history: results must find their calls, and other providers
//!   require ids.
//! - Reasoning is `thinking`, and is sent back, since templates use it within a turn.
//! - Fields unknown to this version are kept under `ollama` in the call's `extra`, or for a message
//!   under [`ATTRIBUTE`] in its attributes, and only this format writes them again.
//! - A message of an unknown role becomes a [`CustomMessage`](crate::message::CustomMessage).
//!
//! # What is lost
//!
//! On the way to the server:
//! - Custom messages, names, and attributes other than [`ATTRIBUTE`].
//! - Images by address or file id, those that are not PNG or JPEG (a server that takes WebP is a
//!   [row](crate::provider::Row::images) of your own), audio, video and files: a text such as
//!   `[video: not supported by this format]` replaces them. Arguments that are not a JSON object
//!   become `{"arguments": ".."}`, with their text. [`strict`](Messages::strict) makes each of
//!   these an error.
//! - The order of parts: texts come first, joined by line breaks, then images; in an answer
//!   reasoning, text, images, calls. Several reasoning parts become one, and there is no place for
//!   signatures.
//! - Spaces, the order of keys, and digits beyond double precision in arguments; empty ones become
//!   `{}`.
//! - Whether a tool result is an error; an image's type, name and detail (reading detects the type
//!   from the data if possible).
//!
//! On the way back, also: the `index` of a call, which is its place. The other fields of a response
//! are in its [`metadata`](crate::wire::Answer::metadata), and are not kept with the message.

mod decode;
mod encode;
mod stream;

use crate::prompt::Prompt;

pub use decode::{answer, history};
pub use stream::Stream;

use super::view::View;

/// The attribute in which a message keeps fields that only this format knows.
pub const ATTRIBUTE: &str = "wire:ollama";

const FORMAT: &str = "ollama";

/// The `messages` of a request: serialise it, or put it into `json!`.
///
/// A placeholder replaces what the format can't express; [`strict`](Messages::strict) refuses it
/// instead. Serialising fails only if a message has a [reference](crate::message::MediaReference)
/// instead of media.
pub fn messages(prompt: &Prompt) -> Messages<'_> {
    Messages::of_prompt(prompt)
}

/// A view of messages that serialises as the `messages` of a request to Ollama.
pub type Messages<'a> = View<'a, Options>;

/// The options of this format: there are none.
#[derive(Clone, Copy, Debug, Default)]
pub struct Options(());
