//! The JSON in which LangChain4j stores conversations, so that a Java application's history in
//! Redis or a database can be read here, and one of ours there.
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
//! What is written is what LangChain4j's own codec writes, byte for byte and in its order of
//! fields, and its rules are kept, for one message that it refuses makes the whole list unreadable
//! there: a blank system message is left out, and a user message or result without parts has an
//! empty text.
//!
//! Every release's form is read, and the newest one is written: LangChain4j fails at fields that it
//! does not know, and 1.13, where a result got `contents` in place of `text`, is the first release
//! that reads it.
//!
//! # What stands for what
//!
//! - `USER`: one text is plain text, anything else is parts. `PDF` is a
//!   [`Part::File`](crate::message::Part::File).
//! - `AI`: `thinking` is reasoning, and the attributes `thinking_signature` and
//!   `redacted_thinking`, which LangChain4j's Anthropic client writes, are its signature and
//!   redacted reasoning of Anthropic's. Where the signature was another provider's (its Gemini
//!   client uses the same attribute for those of calls), drop the reasoning before it is sent to
//!   Anthropic.
//! - `TOOL_EXECUTION_RESULT`, `CUSTOM`: as one would think. An absent id or name is empty here.
//! - Other attributes are the message's attributes, in both directions. What this version does not
//!   know is kept, in the `extra` of a part or call and, for a message, under [`ATTRIBUTE`], and is
//!   written again.
//! - Also read are the forms of older releases: `text` in place of `contents`.
//!
//! # What is lost
//!
//! If the format has no place for something, [`Messages::strict`] says so beforehand. Written
//! anyway, media at a provider's file id and files that are no PDF become texts like `[file: not
//! supported by this format]`; media in an answer are left out, and so is reasoning of several
//! signed parts (its signatures can't be kept, and without them it is refused), and so are the
//! signatures of calls and of other providers' reasoning.
//!
//! Lost without a word, because there is no place for it:
//! - the name of a system message or an answer, a system message's attributes except [`ATTRIBUTE`];
//! - the order within an answer (reasoning, text, calls), and where one text or reasoning of
//!   several ends;
//! - whether a message of one text had it in a list, and lists without any;
//! - names of media; [`detail`](crate::message::Media::detail) that is not there is `AUTO`.
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

/// The attribute in which it keeps thinking of which only encrypted data is shown, and the API's
/// name for it.
const REDACTED: &str = "redacted_thinking";

/// The messages of a prompt, as LangChain4j stores them.
///
/// The view borrows: nothing is copied before it is serialised, which never fails. What the format
/// can't express is described in the [module documentation](self).
pub fn messages(prompt: &Prompt) -> Messages<'_> {
    Messages::of_prompt(prompt)
}

/// A view of messages that serialises as LangChain4j's JSON, for a Java application. See
/// [`messages`].
pub type Messages<'a> = View<'a, Options>;

/// The options that are this format's alone: there are none.
#[derive(Clone, Copy, Debug, Default)]
pub struct Options(());

/// The kinds of media: ours, their `type`, and the field with the data.
const MEDIA: [(&str, &str, &str); 4] = [
    ("image", "IMAGE", "image"),
    ("audio", "AUDIO", "audio"),
    ("video", "VIDEO", "video"),
    ("file", "PDF", "pdfFile"),
];
