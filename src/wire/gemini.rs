//! Google's Gemini API: `contents` and `systemInstruction` of `generateContent`, and its answer.
//!
//! ```
//! use memory_prompt::{DefaultChatMemory, MemoryPrompt, Message, wire::gemini};
//! use serde_json::json;
//!
//! let mut prompt = MemoryPrompt::new(DefaultChatMemory::new()).system("Be brief.");
//! prompt.add(Message::user("What is the weather in Oslo?"))?;
//! let built = prompt.build()?;
//! let body = json!({
//!     "systemInstruction": gemini::system_instruction(&built),
//!     "contents": gemini::contents(&built),
//! });
//! assert_eq!(body["systemInstruction"], json!({"parts": [{"text": "Be brief."}]}));
//! assert_eq!(
//!     body["contents"],
//!     json!([{"role": "user", "parts": [{"text": "What is the weather in Oslo?"}]}]),
//! );
//!
//! let answer = gemini::answer(
//!     r#"{"candidates":[{"content":{"role":"model","parts":[{"text":"Sunny."}]}}]}"#,
//! )?;
//! assert_eq!(Message::from(answer), Message::ai("Sunny."));
//! # Ok::<(), memory_prompt::Error>(())
//! ```
//!
//! # How messages are written
//!
//! - System messages are not in `contents`: [`system_instruction`] writes all of them.
//! - Neighbouring answers are one entry, and so are the results of one answer's calls, in the order
//!   of the calls, since the API counts them. User messages stay separate.
//! - A call's `args` are an object. A result's `response` is `{"output": ..}`, or `{"error": ..}`
//!   if the tool failed, with a text, or a list of texts if the result has parts. PNG, JPEG, WebP,
//!   PDF and plain text as data, for Vertex AI also in its storage, are its `parts`; other media
//!   are after it. A result has the name of its call, or its own tool name if no call precedes it.
//! - Calls and results carry ids, but not for Vertex AI, which refuses them. If the API gave none,
//!   [`answer`] and [`history`] make one up and mark it, so that it is not written;
//!   [`without_ids`](Contents::without_ids) writes none.
//! - A `thoughtSignature` stays on the part that it came with: a call's is its
//!   [`signature`](crate::ToolCall::signature), those of texts and media are in their `extra`.
//!   Parts are never merged. Reasoning is `"thought": true`; another format's reasoning is left
//!   out.
//! - Base64 data are `inlineData`, addresses and file ids are `fileData`; a `data:` address is
//!   `inlineData`. The media type decides whether media are a picture, audio, video or a file.
//! - Empty texts are left out if something else is said. A user message that says nothing else
//!   becomes `(empty message)`; an answer that says nothing is left out.
//!
//! Fields are also read in `snake_case`, as the Python client prints them.
//!
//! # What is lost
//!
//! If the format has no place for something, [`Contents::strict`] says so in advance. Otherwise,
//! data and addresses of unknown media type, or of one that the API does not read, become texts
//! like `[image: not supported by this format]`, but a text file is sent as text; custom messages
//! are left out; arguments that are not a JSON object become `{"arguments": ".."}`.
//!
//! Lost silently, because there is no place for it:
//! - names and attributes of messages, except a result's [`ATTRIBUTE`];
//! - the names of media, and [`detail`](crate::message::Media::detail), except that of a user's
//!   pictures for models from Gemini 3 on (`losses` lists it);
//! - which answers were neighbours, and the order of parallel results;
//! - whether a message of one text had it in a list, and empty texts;
//! - the place of media among the texts of a result;
//! - the order of keys in arguments, the white space, and digits beyond 64 bits.
//!
//! On the way back, also: a `response` that contains anything other than texts becomes the text of
//! its JSON (and is sent back as it came); the parts of a system instruction are joined with an
//! empty line. The other fields of a response are in its
//! [`metadata`](crate::wire::Answer::metadata), and are not kept with the message, except its
//! sources.
//!
//! # Sources
//!
//! The API reference and guides of ai.google.dev (text, function calling, thought signatures), and
//! the types of Google's own Python client, as of August 2026.

mod decode;
mod encode;
mod pieces;
mod stream;

use serde::ser::{Serialize, Serializer};

use crate::message::Message;
use crate::prompt::Prompt;
use crate::wire::borrowed::Object;
use crate::wire::common::{Sequence, system_text};
use crate::wire::view::View;

pub use decode::{answer, history};
pub use stream::Stream;

/// The attribute in which a message keeps fields that only this format knows.
pub const ATTRIBUTE: &str = "wire:gemini";

const FORMAT: &str = "gemini";

const SIGNATURE: &str = "thoughtSignature";

/// The field that marks a result whose text was JSON: all of its `response`, or the value in it.
const SHAPE: &str = "shape";
const WHOLE: &str = "whole";
const VALUE: &str = "value";

/// The messages of a prompt, as a request's `contents`.
///
/// The view borrows: nothing is copied before it is serialised, which fails only if a message has a
/// [reference](crate::message::MediaReference) instead of media. The [module documentation](self)
/// describes what the format can't express.
pub fn contents(prompt: &Prompt) -> Contents<'_> {
    Contents::of_prompt(prompt)
}

/// The system message of a prompt, as a request's `systemInstruction`; `None` if there is none.
pub fn system_instruction(prompt: &Prompt) -> Option<SystemInstruction<'_>> {
    SystemInstruction::new(Sequence::of_prompt(prompt))
}

/// A view of messages that serialises as a request's `contents`. See [`contents`].
pub type Contents<'a> = View<'a, Options>;

/// A view of the system message that serialises as a request's `systemInstruction`. See
/// [`system_instruction`].
#[derive(Clone, Debug)]
pub struct SystemInstruction<'a> {
    messages: Sequence<'a>,
}

/// The options of this format, set by methods of the view.
#[derive(Clone, Copy, Debug, Default)]
pub struct Options {
    no_ids: bool,
    skip_signatures: bool,
}

impl Contents<'_> {
    /// Writes no `id` in calls and results, for models and gateways that don't support it.
    #[must_use]
    pub fn without_ids(mut self) -> Self {
        self.options.no_ids = true;
        self
    }

    /// Marks calls that Gemini did not make, so that Gemini 3 takes them.
    ///
    /// Gemini 3 answers 400 if the first call of an answer has no signature. Calls that another
    /// model made, or that were recorded without their signatures, have none. For them Google
    /// documents the signature `skip_thought_signature_validator`, which this writes on the first
    /// call of each answer without a signature of its own. A prompt that was composed for Gemini,
    /// unless for a model before 3, is written this way by itself.
    #[must_use]
    pub fn skip_missing_signatures(mut self) -> Self {
        self.options.skip_signatures = true;
        self
    }
}

impl<'a> SystemInstruction<'a> {
    /// Returns a view of the system messages among any messages; `None` if there are none.
    pub fn of(messages: impl IntoIterator<Item = &'a Message>) -> Option<Self> {
        Self::new(Sequence::of(messages))
    }

    fn new(messages: Sequence<'a>) -> Option<Self> {
        Some(Self { messages }).filter(|view| view.texts().next().is_some())
    }

    fn texts(&self) -> impl Iterator<Item = &'a str> {
        self.messages.iter().filter_map(system_text).filter(|text| !text.is_empty())
    }

    pub(super) fn value(&self) -> Object<'a> {
        let parts: Vec<_> = self.texts().map(|text| Object::of([("text", text.into())])).collect();
        Object::of([("parts", parts.into())])
    }
}

impl Serialize for SystemInstruction<'_> {
    fn serialize<S: Serializer>(&self, serializer: S) -> Result<S::Ok, S::Error> {
        self.value().serialize(serializer)
    }
}
