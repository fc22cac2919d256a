//! Ollama's own `/api/chat`. (Its `/v1` speaks [`openai`](super::openai).)
//!
//! [`messages`] is the `messages` of a request; [`answer`] reads a response and [`Stream`] a
//! streamed one; [`history`] reads the messages of a request that somebody else wrote.
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
//! # What stands for what
//!
//! - Content is always one string; images stand beside it as bare base64.
//! - A call's arguments are an object. They are read into JSON text without blanks, its keys
//!   sorted.
//! - Calls have ids, and results name them, as of the versions that know ids; older ones pass over
//!   them. A call that came without an id gets one, made of the answer's `created_at` and the
//!   call's place, or of its place in the history: results must find their calls, and other
//!   providers ask for ids.
//! - Reasoning is `thinking` and goes back, since templates use it within a turn.
//! - What this version does not know is kept under `ollama` in the call's `extra`, or for a message
//!   under [`ATTRIBUTE`] in its attributes, and is written again by this format alone.
//! - A message of a role that is not known becomes a
//!   [`CustomMessage`](crate::message::CustomMessage).
//!
//! # What is lost
//!
//! On the way to the server:
//! - Custom messages, names, and attributes other than [`ATTRIBUTE`].
//! - Images by address or file id, audio, video and files: a text such as `[video: not supported by
//!   this format]` stands for them. Arguments that are no JSON object become `{"arguments": ".."}`,
//!   their text. [`strict`](Messages::strict) makes each of these an error.
//! - The order of parts: texts come first, joined by line breaks, then images; in an answer
//!   reasoning, text, images, calls. Several stretches of reasoning become one, and signatures have
//!   no place.
//! - Blanks, the order of keys, and digits beyond a double's in arguments; empty ones become `{}`.
//! - Whether a tool result is an error; an image's type, name and detail (the type is told from the
//!   data again where it can be).
//!
//! On the way back, besides: the `index` of a call, which is its place. What else a response
//! says is told by its [`metadata`](crate::wire::Answer::metadata), and not kept with the message.

mod decode;
mod encode;
mod stream;

use crate::prompt::Prompt;

pub use decode::{answer, history};
pub use stream::Stream;

use super::view::View;

/// The attribute under which a message keeps fields that only this format knows.
pub const ATTRIBUTE: &str = "wire:ollama";

const FORMAT: &str = "ollama";

/// The `messages` of a request: serialise it, or put it into `json!`.
///
/// Serialising never fails: a placeholder stands for what the format can't express.
/// [`strict`](Messages::strict) refuses it instead.
pub fn messages(prompt: &Prompt) -> Messages<'_> {
    Messages::of_prompt(prompt)
}

/// A view of messages that serialises as the `messages` of a request to Ollama.
pub type Messages<'a> = View<'a, Options>;

/// The options that are this format's alone: there are none.
#[derive(Clone, Copy, Debug, Default)]
pub struct Options(());
