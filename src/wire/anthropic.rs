//! Anthropic's Messages API: `messages` and `system` of a request, and the message in the answer.
//!
//! ```
//! use memory_prompt::wire::anthropic;
//! use memory_prompt::{DefaultChatMemory, MemoryPrompt, Message};
//! use serde_json::json;
//!
//! let mut prompt = MemoryPrompt::new(DefaultChatMemory::new()).system("Be brief.");
//! prompt.add(Message::user("What is the weather in Oslo?"))?;
//! let built = prompt.build()?;
//! let body = json!({
//!     "model": "claude-sonnet-4-5",
//!     "max_tokens": 1024,
//!     "system": anthropic::system(&built),
//!     "messages": anthropic::messages(&built),
//! });
//! assert_eq!(body["system"], "Be brief.");
//! assert_eq!(
//!     body["messages"],
//!     json!([{"role": "user", "content": "What is the weather in Oslo?"}]),
//! );
//!
//! let answer = anthropic::answer(
//!     r#"{"type":"message","role":"assistant","content":[{"type":"text","text":"Sunny."}]}"#,
//! )?;
//! assert_eq!(Message::from(answer), Message::ai("Sunny."));
//! # Ok::<(), memory_prompt::Error>(())
//! ```
//!
//! # How messages become entries
//!
//! - System messages are not in `messages`: [`system`] writes all of them. With a
//!   [row](crate::provider::Row::late_system) that takes late ones, those after the first message
//!   stay in their place, with the role `system`.
//! - Neighbours on one side (user and tool messages, or the model's) are one entry. In a user's
//!   entry the tool results come first, as the API demands.
//! - An entry of one plain text is a string; every other is a list of blocks.
//! - Blank texts, which the API refuses, are left out if something else is said. A user message
//!   that says nothing else becomes `(empty message)`; an answer that says nothing is left out. A
//!   blank tool result is a `tool_result` without content, or with an empty list of it.
//! - Reasoning is written as it was read: `thinking` with its signature, `redacted_thinking` with
//!   its data. Reasoning of another format, or without a signature, is left out, since the API
//!   refuses it. (Servers with this format that don't sign get their reasoning back.) That of
//!   earlier turns is left out for a model that [binds](crate::provider::Row::binds_thoughts) it to
//!   what is before it.
//! - A call id is written in the letters that the API takes, `[A-Za-z0-9_-]`: every other one
//!   becomes `_`, both in the call and in its result.
//! - Pictures are written if they are base64 data in JPEG, PNG, GIF or WebP, an address, or a file
//!   id; documents if they are base64 data in PDF or in any `text/` type, an address, or a file id.
//!   A text document is sent as `text/plain`, with its text. A `data:` address is written as base64
//!   data. File ids need the API's `files-api` beta header.
//!
//! # What is lost
//!
//! If the format has no place for something, [`Messages::strict`] says so in advance. Otherwise,
//! audio, video and other documents become texts like `[video: not supported by this format]`;
//! media in the model's own entry, and custom messages, are left out; arguments that are not a JSON
//! object become `{"arguments": ".."}`.
//!
//! Lost silently, because there is no place for it:
//! - names and attributes of messages, except a tool result's [`ATTRIBUTE`];
//! - [`detail`](crate::message::Media::detail), the name of a picture, the media type of media at
//!   an address, and which `text/` type a text document had: it is read back as `text/plain`;
//! - that a tool result is an error, if it has anything besides texts (`losses` lists it);
//! - which neighbours were one entry, and blank texts in them;
//! - the tool's name in a result, which is read back from the call before it;
//! - the order of keys in arguments, the white space, and digits beyond 64 bits.
//!
//! Reading drops `cache_control`, which belongs to a request and not to a message, and joins the
//! blocks of a system text with an empty line. The other fields of a response are in its
//! [`metadata`](crate::wire::Answer::metadata), and are not kept with the message, except its
//! sources and its container.
//!
//! # Sources
//!
//! The API reference and the request and response types of Anthropic's own Python client, as of
//! August 2026.

mod block;
mod decode;
mod encode;
mod stream;

use serde::ser::{Serialize, Serializer};

use crate::message::Message;
use crate::prompt::Prompt;
use crate::provider::Provider;
use crate::wire::borrowed::{BorrowedValue, Object};
use crate::wire::common::{Sequence, system_text};
use crate::wire::terms::Terms;
use crate::wire::view::{Cache, View};

pub use decode::{answer, history};
pub use stream::Stream;

/// The attribute in which a message keeps fields that only this format knows.
pub const ATTRIBUTE: &str = "wire:anthropic";

const FORMAT: &str = "anthropic";

/// The kind of a thinking block with only encrypted data.
const REDACTED: &str = "redacted_thinking";

/// The field in which a system message keeps the blocks that add or remove tools.
const TOOL_CHANGES: &str = "tool_changes";

/// The messages of a prompt, as a request's `messages`.
///
/// The view borrows: nothing is copied before it is serialised, which fails only if a message has a
/// [reference](crate::message::MediaReference) instead of media. The [module documentation](self)
/// describes what the format can't express.
pub fn messages(prompt: &Prompt) -> Messages<'_> {
    Messages::of_prompt(prompt)
}

/// The system message of a prompt, as a request's `system`; `None` if there is none.
pub fn system(prompt: &Prompt) -> Option<System<'_>> {
    let late = Terms::for_prompt(prompt, Provider::Anthropic).row.late_system;
    System::new(Sequence::of_prompt(prompt), late)
}

/// A view of messages that serialises as a request's `messages`. See [`messages`].
pub type Messages<'a> = View<'a, Options>;

/// The options of this format.
#[derive(Clone, Copy, Debug, Default)]
pub struct Options(());

/// A view of the system message that serialises as a request's `system`. See [`system`].
///
/// It is a string, or a list of text blocks if there are several texts or a cache mark.
#[derive(Clone, Debug)]
pub struct System<'a> {
    messages: Sequence<'a>,
    /// True if it holds only the system messages at the beginning.
    late: bool,
    cache: Option<Cache>,
}

impl Messages<'_> {
    /// Same as [`cache_prefix`](Self::cache_prefix), for an hour instead of five minutes.
    #[must_use]
    pub fn cache_prefix_1h(mut self) -> Self {
        self.cache = Some(Cache::Hour);
        self
    }
}

impl<'a> System<'a> {
    /// Returns a view of the system messages among any messages; `None` if there are none.
    pub fn of(messages: impl IntoIterator<Item = &'a Message>) -> Option<Self> {
        Self::new(Sequence::of(messages), false)
    }

    /// Returns the view for this provider. If it takes
    /// [late ones](crate::provider::Row::late_system), only system messages at the beginning are
    /// included; `None` if there are none.
    #[must_use]
    pub fn for_provider(self, provider: Provider) -> Option<Self> {
        let Self { messages, cache, .. } = self;
        Some(Self { cache, ..Self::new(messages, provider.row().late_system)? })
    }

    fn new(messages: Sequence<'a>, late: bool) -> Option<Self> {
        let view = Self { messages, late, cache: None };
        Some(view).filter(|view| view.texts().next().is_some())
    }

    /// Adds a cache mark at the end of the text, which also covers the request's tools.
    #[must_use]
    pub fn cache(self) -> Self {
        self.cached(Some(Cache::Short))
    }

    /// Same as [`cache`](Self::cache), for an hour instead of five minutes.
    #[must_use]
    pub fn cache_1h(self) -> Self {
        self.cached(Some(Cache::Hour))
    }

    pub(super) fn cached(mut self, cache: Option<Cache>) -> Self {
        self.cache = cache;
        self
    }

    fn texts(&self) -> impl Iterator<Item = &'a str> {
        let all = self.messages.iter().take_while(|message| !self.late || message.is_system());
        all.filter_map(system_text).filter(|text| !encode::is_blank(text))
    }

    pub(super) fn value(&self) -> BorrowedValue<'a> {
        let mut blocks: Vec<_> =
            self.texts().map(|text| Object::block("text", "text", text)).collect();
        let mut texts = self.texts();
        if let (None, Some(text), None) = (self.cache, texts.next(), texts.next()) {
            return text.into();
        }
        if let (Some(cache), Some(last)) = (self.cache, blocks.last_mut()) {
            last.put("cache_control", cache.control());
        }
        blocks.into()
    }
}

impl Serialize for System<'_> {
    fn serialize<S: Serializer>(&self, serializer: S) -> Result<S::Ok, S::Error> {
        self.value().serialize(serializer)
    }
}
