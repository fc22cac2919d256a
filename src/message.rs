//! The five roles of messages: plain immutable data.
//!
//! A [`Message`] is what was said, and nothing else. When it was said, and its position in the
//! conversation, belong to a [`Record`](crate::record::Record), so two messages with the same
//! content are equal.
//!
//! ```
//! use memory_prompt::message::UserMessage;
//! use memory_prompt::{Message, ToolCall};
//!
//! let question = Message::user("What is the weather in Oslo?");
//! let call = Message::ai_calls([ToolCall::new("call_1", "weather", r#"{"city":"Oslo"}"#)]);
//! let result = Message::tool("call_1", "weather", "sunny, 21 °C");
//! let signed = Message::from(UserMessage::new("hi").with_name("Klaus"));
//!
//! assert_eq!(question.text(), "What is the weather in Oslo?");
//! assert_eq!(call.tool_calls().count(), 1);
//! assert_eq!(serde_json::to_string(&Message::user("hi"))?, r#"{"role":"user","content":"hi"}"#);
//! # Ok::<(), serde_json::Error>(())
//! ```
//!
//! # In JSON
//!
//! ```json
//! {"role":"system","content":"Be brief."}
//! {"role":"user","name":"Klaus","content":"hi","attributes":{"channel":"mail"}}
//! {"role":"user","content":[{"type":"text","text":"hi"},{"type":"image","url":"https://e.x/a.png","detail":"low"}]}
//! {"role":"assistant","reasoning":"2 + 2","content":"4"}
//! {"role":"assistant","content":"Let me look.","tool_calls":[{"id":"call_1","name":"look","arguments":"{\"x\":1}"}]}
//! {"role":"tool","tool_call_id":"call_1","name":"look","content":"no light","is_error":true}
//! {"role":"custom","attributes":{"k":"v"}}
//! ```
//!
//! - Empty fields are left out; `null` is read as if the field were left out. The order of the
//!   fields is free.
//! - Signed reasoning, or several pieces of reasoning, is a list of `{"text":…,"signature":…}`. If
//!   the order of an answer is not reasoning, content, calls, its `content` has
//!   `{"type":"reasoning",…}` and `{"type":"tool_call",…}` among the parts. Both shapes are read,
//!   for any order.
//! - Fields, roles, types of parts and levels of detail that this version does not know are kept,
//!   and written again. So is a known name in a place that has no use for it.
//! - A known field that is missing, has a wrong type or occurs twice is an error that names it. In
//!   attributes and unknown fields, which are kept unseen, the last of two equal keys counts.
//!
//! In bincode, and any other format that serde does not call human-readable, messages have a
//! compact shape of their own. For bytes that must be readable in years to come, use
//! [`codec`](crate::codec).

mod ai;
mod arguments;
mod attributes;
pub(crate) mod base64;
mod binary;
mod content;
mod custom;
mod data_url;
mod details;
mod fields;
mod json;
mod media;
mod names;
mod open_calls;
mod other;
mod picture;
mod reference;
mod system;
mod tool;
mod user;
mod weight;

use std::borrow::Cow;

pub(crate) use ai::Body;
pub use ai::{AiMessage, AiPart, Reasoning, ToolCall};
pub(crate) use arguments::is_object;
pub use attributes::Attributes;
pub(crate) use attributes::is_shallow;
pub use content::{Content, Detail, Media, Part, Source, TextPart};
pub(crate) use content::{EMPTY_MESSAGE, NO_OUTPUT, in_words};
pub use custom::CustomMessage;
pub(crate) use data_url::{DataUrl, inline, known_type, sniff};
pub(crate) use details::{DetailFields, Details};
pub(crate) use json::fields::{At, Fields, TextOrList, each, expected, list, text_or_list};
pub(crate) use json::refuse::{refuse, wrong_kind};
pub(crate) use names::{agree, fnv1a, fnv1a_on, is_same_tool, nine, plain_id};
pub(crate) use open_calls::OpenCalls;
pub use other::OtherPart;
pub use picture::{Picture, PictureType};
pub use reference::{MediaReference, Sha256};
pub use system::SystemMessage;
pub use tool::ToolMessage;
pub use user::UserMessage;

/// One message of a conversation.
///
/// Messages are immutable: a changed message is a new one. They are `Send + Sync` and small on the
/// stack (40 bytes), with everything rare behind one pointer.
///
/// A message is data, and so is its `Debug`: it shows everything that was said, for tests and
/// debuggers. Types that hold messages (a memory, a prompt's builder, a view, a stream) show
/// numbers instead, and errors name places. So log those, and log messages only where a
/// conversation may be read.
#[derive(Clone, Debug, PartialEq, Eq, Hash)]
#[non_exhaustive]
pub enum Message {
    /// The instructions to the model. A conversation has at most one, and it is sent first.
    System(SystemMessage),
    /// A message of the user.
    User(UserMessage),
    /// An answer of the model: text, reasoning, tool calls.
    #[doc(alias = "Assistant")]
    Ai(AiMessage),
    /// The result of a tool for one call.
    Tool(ToolMessage),
    /// Anything else: the application's own records, or a role that this version does not know.
    Custom(CustomMessage),
}

/// The role of a message, without its content.
#[derive(
    Clone, Copy, Debug, PartialEq, Eq, Hash, PartialOrd, Ord, serde::Serialize, serde::Deserialize,
)]
#[serde(rename_all = "lowercase")]
#[non_exhaustive]
pub enum Role {
    /// [`Message::System`].
    System,
    /// [`Message::User`].
    User,
    /// [`Message::Ai`].
    #[doc(alias = "Assistant")]
    #[serde(rename = "assistant")]
    Ai,
    /// [`Message::Tool`].
    Tool,
    /// [`Message::Custom`].
    Custom,
}

impl Message {
    /// Returns a system message.
    pub fn system(text: impl Into<String>) -> Self {
        Self::System(SystemMessage::new(text))
    }

    /// Returns a user message from a text or a list of [`Part`]s.
    pub fn user(content: impl Into<Content>) -> Self {
        Self::User(UserMessage::new(content))
    }

    /// Returns an answer of the model as plain text.
    #[doc(alias = "assistant")]
    pub fn ai(text: impl Into<String>) -> Self {
        Self::Ai(AiMessage::new(text))
    }

    /// Returns an answer of the model that consists only of tool calls.
    pub fn ai_calls(calls: impl IntoIterator<Item = ToolCall>) -> Self {
        Self::Ai(AiMessage::from_parts(calls.into_iter().map(AiPart::ToolCall)))
    }

    /// Returns the result of the tool `name` for the call `call_id`. If the call is at hand,
    /// [`ToolCall::result`] writes both by itself.
    #[doc(alias = "tool_result")]
    pub fn tool(
        call_id: impl Into<String>,
        name: impl Into<String>,
        content: impl Into<Content>,
    ) -> Self {
        Self::Tool(ToolMessage::new(call_id, name, content))
    }

    /// Returns the failure of the tool `name` for the call `call_id`, in words for the model. If
    /// the call is at hand, [`ToolCall::error`] writes both by itself.
    pub fn tool_error(
        call_id: impl Into<String>,
        name: impl Into<String>,
        content: impl Into<Content>,
    ) -> Self {
        Self::Tool(ToolMessage::new(call_id, name, content).with_error(true))
    }

    /// Returns a message of the application, which consists of attributes.
    pub fn custom(attributes: impl IntoIterator<Item = (String, serde_json::Value)>) -> Self {
        Self::Custom(CustomMessage::new(attributes))
    }

    /// Returns the role of this message.
    pub fn role(&self) -> Role {
        match self {
            Self::System(_) => Role::System,
            Self::User(_) => Role::User,
            Self::Ai(_) => Role::Ai,
            Self::Tool(_) => Role::Tool,
            Self::Custom(_) => Role::Custom,
        }
    }

    /// Returns each text in this message, in order: the one of a plain message, or those of its
    /// parts.
    ///
    /// Reasoning, tool-call arguments and attributes are not text in this sense.
    pub fn texts(&self) -> impl Iterator<Item = &str> {
        let (one, content, ai): (Option<&str>, &[Part], &[AiPart]) = match self {
            Self::System(m) => (Some(m.text()), &[], &[]),
            Self::User(UserMessage { content, .. }) | Self::Tool(ToolMessage { content, .. }) => {
                (content.as_text(), content.parts(), &[])
            }
            Self::Ai(m) => (m.as_text(), &[], m.parts()),
            Self::Custom(_) => (None, &[], &[]),
        };
        let content = content.iter().filter_map(Part::as_text);
        one.into_iter().chain(content).chain(ai.iter().filter_map(AiPart::as_text))
    }

    /// Returns a copy with each of its [texts](Self::texts) changed. Everything else is as it was:
    /// media, reasoning, calls, ids, names, attributes, and that a tool failed.
    ///
    /// ```
    /// use memory_prompt::Message;
    ///
    /// let failed = Message::tool_error("call_1", "save", "disk full");
    /// assert_eq!(
    ///     failed.map_texts(str::to_uppercase),
    ///     Message::tool_error("call_1", "save", "DISK FULL"),
    /// );
    /// ```
    #[must_use]
    pub fn map_texts(&self, mut change: impl FnMut(&str) -> String) -> Self {
        if let Self::System(SystemMessage { text, details }) = self {
            let text = change(text);
            return Self::System(SystemMessage { text, details: details.clone() });
        }
        self.with_texts(|text| Some(change(text))).unwrap_or_else(|| self.clone())
    }

    /// Returns a copy with what is `left` of each text, without parts of which nothing is; `None`
    /// for a plain message of which nothing is left, and for one that is neither of the user, of
    /// the model nor of a tool.
    pub(crate) fn with_texts(&self, mut left: impl FnMut(&str) -> Option<String>) -> Option<Self> {
        let mut part = |part: &Part| {
            let Part::Text(TextPart { text, extra }) = part else { return Some(part.clone()) };
            Some(Part::Text(TextPart { text: left(text)?, extra: extra.clone() }))
        };
        let Self::Ai(AiMessage { body, details }) = self else {
            return Some(self.with_content(match self.content()? {
                Content::Text(text) => Content::Text(left(text)?),
                Content::Parts(parts) => Content::Parts(parts.iter().filter_map(part).collect()),
            }));
        };
        let body = match body {
            Body::Text(text) => Body::Text(left(text)?),
            Body::Parts(parts) => {
                let parts = parts.iter().filter_map(|it| match it {
                    AiPart::Content(it) => part(it).map(AiPart::Content),
                    other => Some(other.clone()),
                });
                Body::normal(parts.collect())
            }
        };
        Some(Self::Ai(AiMessage { body, details: details.clone() }))
    }

    /// Returns the content of a user's message or a tool's result.
    pub(crate) fn content(&self) -> Option<&Content> {
        match self {
            Self::User(UserMessage { content, .. }) | Self::Tool(ToolMessage { content, .. }) => {
                Some(content)
            }
            _ => None,
        }
    }

    /// Returns a copy of a user's message or a tool's result with this content; a copy of any other
    /// message is unchanged.
    pub(crate) fn with_content(&self, content: Content) -> Self {
        match self {
            Self::User(m) => UserMessage { content, details: m.details.clone() }.into(),
            Self::Tool(m) => ToolMessage { content, answer: m.answer.clone() }.into(),
            other => other.clone(),
        }
    }

    pub(crate) fn details(&self) -> Option<&DetailFields> {
        match self {
            Self::System(m) => m.details.as_deref(),
            Self::User(m) => m.details.as_deref(),
            Self::Ai(m) => m.details.as_deref(),
            Self::Tool(m) => m.answer.details.as_deref(),
            Self::Custom(_) => None,
        }
    }

    pub(crate) fn details_mut(&mut self) -> Option<&mut Details> {
        match self {
            Self::System(m) => Some(&mut m.details),
            Self::User(m) => Some(&mut m.details),
            Self::Ai(m) => Some(&mut m.details),
            Self::Tool(m) => Some(&mut m.answer.details),
            Self::Custom(_) => None,
        }
    }

    /// Returns the name of the speaker, if one was given.
    pub(crate) fn name(&self) -> Option<&str> {
        self.details()?.name.as_deref()
    }

    /// Returns the bytes of all [texts](Self::texts).
    pub(crate) fn text_bytes(&self) -> usize {
        self.texts().map(str::len).sum()
    }

    /// Returns all text of this message in one piece: borrowed if there is only one, else joined
    /// without a separator. Empty if there is none.
    #[inline]
    pub fn text(&self) -> Cow<'_, str> {
        match self {
            Self::System(m) => Cow::Borrowed(m.text()),
            Self::User(m) => m.content.text(),
            Self::Tool(m) => m.content.text(),
            Self::Ai(m) => m.text(),
            Self::Custom(_) => Cow::Borrowed(""),
        }
    }

    /// Returns the tool calls of this message, in order; none unless it is an `Ai` message.
    pub fn tool_calls(&self) -> impl Iterator<Item = &ToolCall> {
        self.as_ai().into_iter().flat_map(AiMessage::tool_calls)
    }

    /// Returns whether the model calls a tool here.
    pub fn has_tool_calls(&self) -> bool {
        self.as_ai().is_some_and(AiMessage::has_tool_calls)
    }

    pub(crate) fn as_user(&self) -> Option<&UserMessage> {
        if let Self::User(m) = self { Some(m) } else { None }
    }

    /// Returns the `Ai` message, if it is one.
    pub fn as_ai(&self) -> Option<&AiMessage> {
        if let Self::Ai(m) = self { Some(m) } else { None }
    }

    /// Returns the `Tool` message, if it is one.
    pub fn as_tool(&self) -> Option<&ToolMessage> {
        if let Self::Tool(m) = self { Some(m) } else { None }
    }

    /// Returns whether this is a user message that begins a turn: one that is not
    /// [steered](UserMessage::steered).
    pub fn begins_turn(&self) -> bool {
        matches!(self, Self::User(m) if !m.is_steered())
    }

    /// Returns whether this is a record of the application alone, which is never sent to a
    /// provider: see [`CustomMessage::is_private`].
    pub fn is_private(&self) -> bool {
        matches!(self, Self::Custom(m) if m.is_private())
    }

    /// Returns whether this is a `User` message.
    pub fn is_user(&self) -> bool {
        matches!(self, Self::User(_))
    }

    /// Returns whether this is a `System` message.
    pub fn is_system(&self) -> bool {
        matches!(self, Self::System(_))
    }

    /// Returns whether this is a `Tool` message.
    pub fn is_tool(&self) -> bool {
        matches!(self, Self::Tool(_))
    }
}

impl ToolCall {
    /// Returns the result of this call: the text of the tool.
    #[doc(alias = "answer")]
    pub fn result(&self, content: impl Into<Content>) -> Message {
        Message::tool(self.id.as_str(), self.name.as_str(), content)
    }

    /// Returns the failure of this call, in words for the model.
    pub fn error(&self, content: impl Into<Content>) -> Message {
        Message::tool_error(self.id.as_str(), self.name.as_str(), content)
    }
}

impl Role {
    /// Returns the name of the role in this crate's JSON: `system`, `user`, `assistant`, `tool`,
    /// `custom`.
    pub fn as_str(self) -> &'static str {
        match self {
            Self::System => "system",
            Self::User => "user",
            Self::Ai => "assistant",
            Self::Tool => "tool",
            Self::Custom => "custom",
        }
    }
}

impl std::fmt::Display for Role {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.pad(self.as_str())
    }
}

macro_rules! from_kinds {
    ($whole:ident: $($kind:ident($inner:ty)),*) => {$(
        impl From<$inner> for $whole {
            fn from(inner: $inner) -> Self {
                Self::$kind(inner)
            }
        }
    )*};
}
from_kinds!(Message: System(SystemMessage), User(UserMessage), Ai(AiMessage));
from_kinds!(Message: Tool(ToolMessage), Custom(CustomMessage));
from_kinds!(AiPart: Content(Part), Reasoning(Reasoning), ToolCall(ToolCall));

/// Returns the messages with one system message in front, which joins all of theirs.
pub(crate) fn with_one_system(messages: impl IntoIterator<Item = Message>) -> Vec<Message> {
    let mut system: Option<SystemMessage> = None;
    let mut rest: Vec<Message> = Vec::new();
    for message in messages {
        match message {
            Message::System(next) => system = Some(next.behind(system)),
            message => rest.push(message),
        }
    }
    system.map(Message::System).into_iter().chain(rest).collect()
}

/// A million messages are a million of these: making it larger must be a decision, not an accident.
const _: () = assert!(size_of::<Message>() <= 40);
