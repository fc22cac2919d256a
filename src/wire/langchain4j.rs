//! The JSON in which LangChain4j stores conversations: reads the history of a Java application from
//! Redis or a database, and writes one for it.
//!
//! ```
//! use memory_prompt::Message;
//! use memory_prompt::message::SystemMessage;
//! use memory_prompt::wire::langchain4j;
//!
//! let stored = r#"[{"text":"Be brief.","type":"SYSTEM"},
//!     {"contents":[{"text":"hello","type":"TEXT"}],"type":"USER"}]"#;
//! let history = langchain4j::history(stored)?;
//! assert_eq!(history, [Message::system("Be brief."), Message::user("hello")]);
//!
//! let written = serde_json::to_string(&langchain4j::Messages::of(&history)).unwrap();
//! assert_eq!(written, stored.replace("\n    ", ""));
//! # Ok::<(), memory_prompt::Error>(())
//! ```
//!
//! The output is what LangChain4j's own codec writes, byte for byte and in its order of fields. Its
//! rules are kept, since one message that it refuses makes the whole list unreadable there: a blank
//! system message is left out, and a user message or result without parts gets an empty text.
//!
//! The forms of all releases are read, and the newest one is written. LangChain4j refuses unknown
//! fields, so the output needs at least release 1.13, in which a result got `contents` instead of
//! `text`.
//!
//! # How messages are written
//!
//! - `USER`: one text is plain text, anything else is parts. `PDF` is a
//!   [`Part::File`](crate::message::Part::File).
//! - `AI`: `thinking` is reasoning. The attributes `thinking_signature` and `redacted_thinking`,
//!   which LangChain4j's Anthropic client writes, are its signature and Anthropic's redacted
//!   reasoning. If another provider made the signature (its Gemini client uses the same attribute
//!   for signatures of calls), drop the reasoning before it is sent to Anthropic.
//! - `TOOL_EXECUTION_RESULT`, `CUSTOM`: the corresponding messages. A missing id or name is empty
//!   here.
//! - Other attributes are the message's attributes, in both directions. Fields unknown to this
//!   version are kept, in the `extra` of a part or call and, for a message, under [`ATTRIBUTE`],
//!   and are written again.
//! - Older releases' `text` instead of `contents` is read too.
//!
//! # What is lost
//!
//! If the format has no place for something, [`Messages::strict`] says so in advance. Otherwise,
//! media with a provider's file id and files other than PDF become texts like
//! `[file: not supported by this format]`. Left out are media in an answer, reasoning in several
//! signed parts (its signatures can't be kept, and without them it is refused), and the signatures
//! of calls and of other providers' reasoning.
//!
//! Lost silently, because there is no place for it:
//! - the name of a system message or an answer, a system message's attributes except [`ATTRIBUTE`];
//! - the order within an answer (reasoning, text, calls), and the borders between several texts or
//!   several reasoning parts;
//! - whether a message of one text had it in a list, and lists without elements;
//! - names of media; a missing [`detail`](crate::message::Media::detail) becomes `AUTO`.
//!
//! # Sources
//!
//! LangChain4j's codec (`JacksonChatMessageJsonCodec`) and its tests, as of August 2026; its
//! messages in each release from 1.0.0 to 1.16.0.

mod decode;
mod encode;

use crate::prompt::Prompt;
use crate::wire::view::View;

pub use decode::history;

/// The attribute under which a message keeps fields that only this format knows.
pub const ATTRIBUTE: &str = "wire:langchain4j";

const FORMAT: &str = "langchain4j";

/// The attribute in which LangChain4j's Anthropic client keeps the signature of `thinking`.
const SIGNATURE: &str = "thinking_signature";

/// The attribute for thinking that exists only as encrypted data, and the API's name for it.
const REDACTED: &str = "redacted_thinking";

/// The messages of a prompt, as LangChain4j stores them.
///
/// The view borrows: nothing is copied before it is serialised, which never fails. The
/// [module documentation](self) describes what the format can't express.
pub fn messages(prompt: &Prompt) -> Messages<'_> {
    Messages::of_prompt(prompt)
}

/// A view of messages that serialises as LangChain4j's JSON, for a Java application. See
/// [`messages`].
pub type Messages<'a> = View<'a, Options>;

/// The options of this format: there are none.
#[derive(Clone, Copy, Debug, Default)]
pub struct Options(());

/// The kinds of media: ours, their `type`, and the field with the data.
const MEDIA: [(&str, &str, &str); 4] = [
    ("image", "IMAGE", "image"),
    ("audio", "AUDIO", "audio"),
    ("video", "VIDEO", "video"),
    ("file", "PDF", "pdfFile"),
];
