//! Messages as LangChain4j's codec writes them.

use serde::ser::{Serialize, SerializeMap, SerializeSeq, Serializer};
use serde_json::Value;

use super::{ATTRIBUTE, FORMAT, Kind, Messages, Options, REDACTED, SIGNATURE};
use crate::message::{
    AiMessage, AiPart, Attributes, Content, Detail, EMPTY_MESSAGE, Media, Message, NO_OUTPUT, Part,
    Reasoning, Source, TextPart, ToolCall, ToolMessage, UserMessage,
};
use crate::provider::{Provider, Row, attributes};
use crate::wire::common::{
    as_content, as_other_part, kept, kept_object, kept_type, known_type, placeholder, write_kept,
};
use crate::wire::shape::{Entry, Joined, Object, Seq, write};
use crate::wire::view::{MessageFormat, Speaker};

impl Serialize for Messages<'_> {
    fn serialize<S: Serializer>(&self, serializer: S) -> Result<S::Ok, S::Error> {
        let is_readable = |message: &&Message| !is_blank_system(message);
        let one = |message| StoredMessage { message, is_old: self.options.before_1_13 };
        serializer.collect_seq(self.messages.iter().filter(is_readable).map(one))
    }
}

/// LangChain4j refuses to read one.
fn is_blank_system(message: &Message) -> bool {
    matches!(message, Message::System(system) if system.text().trim().is_empty())
}

struct StoredMessage<'a> {
    message: &'a Message,
    /// Whether releases before 1.13 are to read it.
    is_old: bool,
}

impl Serialize for StoredMessage<'_> {
    fn serialize<S: Serializer>(&self, serializer: S) -> Result<S::Ok, S::Error> {
        let Self { message, is_old } = *self;
        let mut map = serializer.serialize_map(None)?;
        let (kind, own): (_, &[&str]) = match message {
            Message::System(system) => {
                map.serialize_entry("text", system.text())?;
                ("SYSTEM", &["text", "type"])
            }
            Message::User(user) => {
                write_user(&mut map, user, is_old)?;
                ("USER", &["name", "contents", "attributes", "type"])
            }
            Message::Ai(ai) => {
                write_ai(&mut map, ai, is_old)?;
                ("AI", &["text", "thinking", "toolExecutionRequests", "attributes", "type"])
            }
            Message::Tool(tool) => {
                write_tool(&mut map, tool, is_old)?;
                let own = &["id", "toolName", "contents", "text", "isError", "attributes", "type"];
                ("TOOL_EXECUTION_RESULT", own)
            }
            Message::Custom(_) => ("CUSTOM", &["attributes", "type"]),
        };
        if !is_old || matches!(message, Message::Custom(_)) {
            write_attributes(&mut map, message, own)?;
        }
        map.serialize_entry("type", kind)?;
        map.end()
    }
}

/// Writes the attributes of a message and what a decoder kept beside them.
fn write_attributes<M: SerializeMap>(
    map: &mut M,
    message: &Message,
    own: &[&str],
) -> Result<(), M::Error> {
    let attributes = attributes(message);
    let reasoning = message.as_ai().map(Thinking);
    let shared = Shared { attributes, reasoning: reasoning.as_ref() };
    // Of a user's message LangChain4j leaves the field out where it is empty.
    let is_left_out = message.is_user() && shared.is_empty();
    if own.contains(&"attributes") && !is_left_out {
        map.serialize_entry("attributes", &shared)?;
    }
    write_kept(map, kept(ATTRIBUTE, attributes), own)
}

fn write_user<M: SerializeMap>(map: &mut M, m: &UserMessage, is_old: bool) -> Result<(), M::Error> {
    if let Some(name) = m.name().filter(|name| !name.is_empty()) {
        map.serialize_entry("name", name)?;
    }
    map.serialize_entry("contents", &Contents { of: m.content(), is_old })
}

fn write_ai<M: SerializeMap>(map: &mut M, m: &AiMessage, is_old: bool) -> Result<(), M::Error> {
    let texts = || m.parts().iter().filter_map(said);
    if m.parts().is_empty() {
        map.serialize_entry("text", &m.text())?;
    } else if texts().next().is_some() {
        map.serialize_entry("text", &texts().collect::<String>())?;
    }
    if let Some(text) = Thinking(m).text().filter(|_| !is_old) {
        map.serialize_entry("thinking", &text)?;
    }
    let requests = m.tool_calls().map(|call| request(call, is_old));
    map.serialize_entry("toolExecutionRequests", &Seq(requests))
}

fn write_tool<M: SerializeMap>(map: &mut M, m: &ToolMessage, is_old: bool) -> Result<(), M::Error> {
    let own = [
        ("id", Entry::unless_empty(m.call_id())),
        ("toolName", Entry::unless_empty(m.tool_name())),
    ];
    write(map, &own, None)?;
    if !is_old {
        map.serialize_entry("contents", &Contents { of: m.content(), is_old })?;
        return if m.is_error() { map.serialize_entry("isError", &true) } else { Ok(()) };
    }
    match m.content() {
        content if is_blank(content) => map.serialize_entry("text", NO_OUTPUT),
        Content::Text(text) => map.serialize_entry("text", text),
        Content::Parts(parts) => {
            let texts =
                parts.iter().map(|part| part.as_text().unwrap_or_else(|| placeholder(part)));
            map.serialize_entry("text", &Joined(texts))
        }
    }
}

/// The text of a part of an answer; `None` where it is none: a placeholder would be what the model
/// has said.
fn said(part: &AiPart) -> Option<&str> {
    as_content(part)?.as_text()
}

/// The attributes of a message, with the reasoning's signatures among them.
struct Shared<'a> {
    attributes: &'a Attributes,
    reasoning: Option<&'a Thinking<'a>>,
}

impl Shared<'_> {
    fn entries(&self) -> impl Iterator<Item = (&String, &Value)> {
        self.attributes.iter().filter(|(key, _)| *key != ATTRIBUTE)
    }

    fn is_empty(&self) -> bool {
        self.entries().next().is_none()
    }
}

impl Serialize for Shared<'_> {
    fn serialize<S: Serializer>(&self, serializer: S) -> Result<S::Ok, S::Error> {
        let signature = self.reasoning.and_then(Thinking::signature);
        let redacted = self.reasoning.map(Thinking::redacted).unwrap_or_default();
        let mut map = serializer.serialize_map(None)?;
        for (key, value) in self.entries() {
            let is_ours = match key.as_str() {
                SIGNATURE => signature.is_some(),
                REDACTED => !redacted.is_empty(),
                _ => false,
            };
            if !is_ours {
                map.serialize_entry(key, value)?;
            }
        }
        if let Some(signature) = signature {
            map.serialize_entry(SIGNATURE, signature)?;
        }
        if !redacted.is_empty() {
            map.serialize_entry(REDACTED, &redacted)?;
        }
        map.end()
    }
}

/// The reasoning of an answer, as far as there is a place for it: one text with one signature, and
/// redacted data.
struct Thinking<'a>(&'a AiMessage);

impl<'a> Thinking<'a> {
    fn shown(&self) -> impl Iterator<Item = &'a Reasoning> {
        self.0.reasoning().filter(|reasoning| !is_redacted(reasoning))
    }

    /// True where several parts are signed, of which none could be sent again.
    fn is_too_much(&self) -> bool {
        self.shown().nth(1).is_some() && self.shown().any(is_signed)
    }

    fn text(&self) -> Option<String> {
        let is_there = self.shown().next().is_some() && !self.is_too_much();
        is_there.then(|| self.shown().map(|reasoning| reasoning.text.as_str()).collect())
    }

    fn signature(&self) -> Option<&'a str> {
        let mut shown = self.shown().filter(|reasoning| is_signed(reasoning));
        shown.next().filter(|_| !self.is_too_much())?.signature.as_deref()
    }

    fn redacted(&self) -> Vec<&'a str> {
        let redacted = self.0.reasoning().filter(|reasoning| is_redacted(reasoning));
        redacted.filter_map(|reasoning| reasoning.signature.as_deref()).collect()
    }
}

/// Returns true where this reasoning has a signature that the Java application's client sends
/// again.
fn is_signed(reasoning: &Reasoning) -> bool {
    let is_anthropics = reasoning.extra.is_empty() || reasoning.extra.contains_key("anthropic");
    reasoning.signature.is_some() && is_anthropics
}

fn is_redacted(reasoning: &Reasoning) -> bool {
    kept_type("anthropic", &reasoning.extra) == Some(REDACTED)
}

fn request(call: &ToolCall, is_old: bool) -> Object<'_, 3> {
    Object {
        own: [
            ("id", Entry::unless_empty(&call.id)),
            ("name", (&call.name).into()),
            ("arguments", (&call.arguments).into()),
        ],
        kept: kept(FORMAT, &call.extra).filter(|_| !is_old),
    }
}

/// `contents`, which are never empty.
struct Contents<'a> {
    of: &'a Content,
    is_old: bool,
}

impl Serialize for Contents<'_> {
    fn serialize<S: Serializer>(&self, serializer: S) -> Result<S::Ok, S::Error> {
        let bare = |text| Element::Text { text, kept: None };
        let mut list = serializer.serialize_seq(None)?;
        // Older releases refuse a blank text, in the middle of others too.
        let is_sent = |element: &Element<'_>| match element {
            Element::Text { text, .. } => !self.is_old || !text.trim().is_empty(),
            _ => true,
        };
        let empty = if self.is_old { EMPTY_MESSAGE } else { "" };
        match self.of {
            Content::Text(text) if !is_sent(&bare(text)) => list.serialize_element(&bare(empty))?,
            Content::Text(text) => list.serialize_element(&bare(text))?,
            Content::Parts(parts) => {
                let elements = parts.iter().map(|part| element(part, self.is_old));
                let mut elements = elements.filter(is_sent).peekable();
                if elements.peek().is_none() {
                    list.serialize_element(&bare(empty))?;
                }
                elements.try_for_each(|element| list.serialize_element(&element))?;
            }
        }
        list.end()
    }
}

fn is_blank(content: &Content) -> bool {
    let is_blank = |text: &str| text.trim().is_empty();
    match content {
        Content::Text(text) => is_blank(text),
        Content::Parts(parts) => parts.iter().all(|part| part.as_text().is_some_and(is_blank)),
    }
}

/// One of `contents`.
enum Element<'a> {
    Text {
        text: &'a str,
        kept: Option<&'a Attributes>,
    },
    Media {
        kind: Kind,
        media: &'a Media,
        is_old: bool,
    },
    /// A kind that only this format knows, with all of its fields.
    Other(&'a Attributes),
}

fn element(part: &Part, is_old: bool) -> Element<'_> {
    let (kind, media) = match part {
        Part::Text(TextPart { text, extra }) => {
            return Element::Text { text, kept: kept(FORMAT, extra).filter(|_| !is_old) };
        }
        Part::Image(media) => (Kind::Image, media),
        Part::Audio(media) => (Kind::Audio, media),
        Part::Video(media) => (Kind::Video, media),
        Part::File(media) => (Kind::Pdf, media),
        Part::Other(_) => {
            let other = as_other_part(FORMAT, part).filter(|_| !is_old);
            return other.map_or_else(|| stands_for(part), Element::Other);
        }
    };
    let is_pdf = matches!(part, Part::File(_))
        && known_type(media).is_none_or(|media_type| media_type == "application/pdf");
    let is_taken = matches!(media.source, Source::Url(_) | Source::Base64(_));
    let is_right = is_pdf || !matches!(part, Part::File(_));
    if is_taken && is_right { Element::Media { kind, media, is_old } } else { stands_for(part) }
}

fn stands_for(part: &Part) -> Element<'_> {
    Element::Text { text: placeholder(part), kept: None }
}

impl Serialize for Element<'_> {
    fn serialize<S: Serializer>(&self, serializer: S) -> Result<S::Ok, S::Error> {
        let mut map = serializer.serialize_map(None)?;
        match *self {
            Self::Text { text, kept } => {
                map.serialize_entry("text", text)?;
                write_kept(&mut map, kept, &["text", "type"])?;
                map.serialize_entry("type", "TEXT")?;
            }
            Self::Media { kind, media, is_old } => {
                let (name, field) = kind.names();
                let kept = kept(FORMAT, &media.extra).filter(|_| !is_old);
                map.serialize_entry(field, &data(media, kept_object(kept, field)))?;
                if matches!(kind, Kind::Image) {
                    map.serialize_entry("detailLevel", level(media.detail.as_ref(), is_old))?;
                }
                write_kept(&mut map, kept, &[field, "detailLevel", "type"])?;
                map.serialize_entry("type", name)?;
            }
            Self::Other(fields) => write_kept(&mut map, Some(fields), &[])?,
        }
        map.end()
    }
}

fn data<'a>(media: &'a Media, kept: Option<&'a Attributes>) -> Object<'a, 2> {
    let key = if matches!(media.source, Source::Base64(_)) { "base64Data" } else { "url" };
    let (Source::Base64(value) | Source::Url(value) | Source::FileId(value)) = &media.source;
    Object { own: [(key, value.into()), ("mimeType", known_type(media).into())], kept }
}

/// LangChain4j's levels. It reads no others, and none where there is none.
const LEVELS: [&str; 5] = ["LOW", "MEDIUM", "HIGH", "ULTRA_HIGH", "AUTO"];
const OLD_LEVELS: [&str; 3] = ["LOW", "HIGH", "AUTO"];

fn level(detail: Option<&Detail>, is_old: bool) -> &'static str {
    let levels = if is_old { &OLD_LEVELS[..] } else { &LEVELS[..] };
    let detail = detail.map_or("auto", Detail::as_str);
    levels.iter().find(|level| level.eq_ignore_ascii_case(detail)).unwrap_or(&"AUTO")
}

impl MessageFormat for Options {
    /// No provider reads it, so nothing of this one is looked at.
    const NAMESAKE: Provider = Provider::OpenAiCompatible;
    const OPERATION: &'static str = "write langchain4j messages";
    const OBJECTS: bool = false;
    const STORED: bool = true;

    fn takes(&self, part: &Part, by: Speaker, _: &Row) -> bool {
        match by {
            Speaker::Ai => false,
            Speaker::Tool if self.before_1_13 => false,
            _ => !matches!(element(part, self.before_1_13), Element::Text { .. }),
        }
    }

    fn names(&self, _: &Row) -> bool {
        true
    }

    fn refuses_part(&self, part: &AiPart) -> Option<&'static str> {
        match part {
            AiPart::Reasoning(_) if self.before_1_13 => Some("reasoning"),
            AiPart::Reasoning(r) if r.signature.is_some() && !is_signed(r) => {
                Some("another provider's signature")
            }
            AiPart::ToolCall(call) if call.signature.is_some() => Some("a call's signature"),
            _ => None,
        }
    }

    fn refuses(&self, message: &Message, _: &[&str]) -> Option<&'static str> {
        match message {
            Message::System(_) if is_blank_system(message) => Some("a blank system message"),
            Message::Custom(custom) if custom.role() != "custom" || !custom.fields().is_empty() => {
                Some("a role of its own")
            }
            Message::Tool(tool) if self.before_1_13 && tool.is_error() => Some("a failed result"),
            Message::Ai(ai) if Thinking(ai).is_too_much() => {
                Some("reasoning in several signed parts")
            }
            _ => None,
        }
    }
}
