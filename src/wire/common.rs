//! The parts that every format shares: writing what was kept, placeholders.

use std::fmt;

use serde::Serialize;
use serde::ser::Serializer;
use serde_json::Value;

use super::json::{Form, Json};
use crate::error::Result;
use crate::message::{
    AiMessage, AiPart, Attributes, Content, Media, Message, OtherPart, Part, Source, SystemMessage,
    TextPart, ToolCall, is_shallow,
};
pub(super) use crate::message::{At, Fields, TextOrList, each, expected, list, text_or_list};
use crate::prompt::{self, Prompt};

impl At {
    /// JSON as a value that is nested no deeper than what a message may keep.
    pub(super) fn parse<'j>(&self, json: impl Into<Json<'j>>) -> Result<Value> {
        let read = match json.into().0 {
            // Files and some gateways put a byte order mark in front.
            Form::Text(text) => serde_json::from_str(text.strip_prefix('\u{feff}').unwrap_or(text)),
            Form::Bytes(bytes) => {
                serde_json::from_slice(bytes.strip_prefix(b"\xEF\xBB\xBF").unwrap_or(&bytes))
            }
            Form::Value(value) => return self.shallow(&value).map(|()| value.into_owned()),
        };
        // Syntax is all that can be wrong here, so the cause quotes nothing.
        let value = read.map_err(|e| {
            let place = format_args!("not valid JSON at line {} column {}", e.line(), e.column());
            self.error(place).with_source(e)
        })?;
        self.shallow(&value).map(|()| value)
    }

    fn shallow(&self, value: &Value) -> Result<()> {
        if is_shallow(value, &becomes_text) {
            Ok(())
        } else {
            Err(self.error("nested too deep to be kept"))
        }
    }
}

/// Returns whether a field holds the arguments of a call, which are kept as text, however deep.
fn becomes_text(of: &Attributes, key: &str) -> bool {
    match key {
        "input" => of.get("type").is_some_and(|kind| kind == "tool_use"),
        "args" => of.contains_key("name"),
        _ => false,
    }
}

impl Fields {
    /// A block of text, and what stands beside it.
    pub(super) fn text_part(mut self, format: &str) -> Result<Part> {
        self.take("type");
        let text = self.required_text("text")?;
        Ok(Part::Text(TextPart { text, extra: keep(format, self.rest()) }))
    }
}

/// The objects of a list, or of the list in this field of a body, out of which more can be taken.
pub(super) fn objects(
    body: Value,
    top: At,
    key: &'static str,
    more: &mut dyn FnMut(&mut Fields) -> Result<()>,
) -> Result<impl Iterator<Item = Result<Fields>> + use<>> {
    let list = match body {
        Value::Array(list) => list,
        body => {
            let mut body = Fields::of(body, top)?;
            more(&mut body)?;
            body.required_list(key)?
        }
    };
    let at = top.key(key);
    Ok(list.into_iter().enumerate().map(move |(i, value)| Fields::of(value, at.index(i))))
}

/// Content of these parts: a text alone, with nothing beside it, is a plain text.
pub(super) fn content_of(mut parts: Vec<Part>) -> Content {
    match parts.as_mut_slice() {
        [Part::Text(TextPart { text, extra })] if extra.is_empty() => {
            Content::Text(std::mem::take(text))
        }
        _ => Content::from(parts),
    }
}

/// Puts what is left of an object back under its key, if anything is.
pub(super) fn put_back(rest: &mut Attributes, key: &str, inner: Attributes) {
    if !inner.is_empty() {
        rest.insert(key.to_owned(), Value::Object(inner));
    }
}

/// Returns the message with what stood beside its content, if anything did.
pub(super) fn with_rest(message: impl Into<Message>, key: &str, rest: Attributes) -> Message {
    if rest.is_empty() { message.into() } else { with_attribute(message.into(), key, rest.into()) }
}

/// Returns an answer of these parts, with what stood beside them, if anything did.
pub(super) fn answered(parts: Vec<AiPart>, key: &str, rest: Attributes) -> AiMessage {
    let ai = AiMessage::from_parts(parts);
    if rest.is_empty() { ai } else { ai.with_attribute(key, rest) }
}

pub(super) fn with_attribute(mut message: Message, key: &str, value: Value) -> Message {
    // What stands beside the content of a custom message is its content.
    if let Some(details) = message.details_mut() {
        details.get_or_insert_default().attributes.insert(key.to_owned(), value);
    }
    message
}

/// Makes up ids for calls that came without. After a name of the answer's own they differ within a
/// conversation, and are the same whenever the answer is read.
#[derive(Debug, Default)]
pub(super) struct Ids {
    stem: String,
    count: usize,
}

impl Ids {
    pub(super) fn after(name: impl IntoIterator<Item = char>) -> Self {
        let mut stem: String = name.into_iter().collect();
        if !stem.is_empty() {
            stem.push('_');
        }
        Self { stem, count: 0 }
    }

    /// Returns true if they have no name to stand after.
    pub(super) fn are_nameless(&self) -> bool {
        self.stem.is_empty()
    }

    /// The same after another name.
    pub(super) fn rename(&mut self, name: impl IntoIterator<Item = char>) {
        self.stem = Self::after(name).stem;
    }

    pub(super) fn next(&mut self) -> String {
        self.count += 1;
        format!("call_{}{}", self.stem, self.count - 1)
    }
}

/// The source of media at an address, and their type where the address says it.
pub(super) fn from_url(url: String) -> (Source, Option<String>) {
    match DataUrl::parse(&url) {
        Some(data) => (Source::Base64(data.data.to_owned()), Some(data.media_type.to_owned())),
        None => (Source::Url(url), None),
    }
}

/// Keeps what only `format` understands, under the name of that format.
///
/// A conversation outlives the model that began it: what one provider gave (a signature, a cache
/// mark) is a 400 at another, so each format writes again only what lies under its own name.
pub(super) fn keep(format: &str, fields: Attributes) -> Attributes {
    let mut extra = Attributes::new();
    if !fields.is_empty() {
        extra.insert(format.to_owned(), Value::Object(fields));
    }
    extra
}

/// Like [`keep`], and marks the holder as this format's even where there is nothing else to keep:
/// for whatever carries a signature.
pub(super) fn keep_signed(format: &str, fields: Attributes) -> Attributes {
    let mut extra = Attributes::new();
    extra.insert(format.to_owned(), Value::Object(fields));
    extra
}

/// Returns what [`keep`] kept for this format.
#[inline]
pub(super) fn kept<'a>(format: &str, extra: &'a Attributes) -> Option<&'a Attributes> {
    // Nearly always there is nothing.
    if extra.is_empty() { None } else { extra.get(format)?.as_object() }
}

/// Returns the object among what was kept that stands under this key.
#[inline]
pub(super) fn kept_object<'a>(kept: Option<&'a Attributes>, key: &str) -> Option<&'a Attributes> {
    kept?.get(key)?.as_object()
}

/// Returns the `type` among what was kept for this format.
pub(super) fn kept_type<'a>(format: &str, extra: &'a Attributes) -> Option<&'a str> {
    kept(format, extra)?.get("type")?.as_str()
}

/// Returns true if a signature beside this `extra` comes from another format and must not be
/// sent.
///
/// A signature that nobody marked was put there by the application, which knows what it does.
pub(super) fn is_foreign(format: &str, extra: &Attributes) -> bool {
    !extra.contains_key(format) && super::FORMATS.iter().any(|other| extra.contains_key(*other))
}

/// A part of a kind that only `format` knows: `{"type": format, format: {..}}`.
pub(super) fn other_part(format: &'static str, whole: Attributes) -> Part {
    Part::Other(OtherPart::of(format, keep_signed(format, whole)))
}

/// Returns what [`other_part`] holds for this format; an empty object is never sent.
pub(super) fn as_other_part<'a>(format: &str, part: &'a Part) -> Option<&'a Attributes> {
    match part {
        Part::Other(other) if other.kind() == format => {
            kept(format, other.fields()).filter(|kept| !kept.is_empty())
        }
        _ => None,
    }
}

/// The text that stands for a part that a format can't express.
pub(super) fn placeholder(part: &Part) -> &'static str {
    match part {
        Part::Text(_) => "[text: not supported by this format]",
        Part::Image(_) => "[image: not supported by this format]",
        Part::Audio(_) => "[audio: not supported by this format]",
        Part::Video(_) => "[video: not supported by this format]",
        Part::File(_) => "[file: not supported by this format]",
        Part::Other(_) => "[part: not supported by this format]",
    }
}

/// Returns the name of a part in errors.
pub(super) fn kind(part: &Part) -> &'static str {
    match part {
        Part::Text(_) => "text",
        Part::Image(_) => "an image",
        Part::Audio(_) => "audio",
        Part::Video(_) => "video",
        Part::File(_) => "a file",
        Part::Other(_) => "a part of unknown kind",
    }
}

/// Returns what OpenAI takes for a call's input: the free text of a custom tool, or arguments as
/// JSON.
///
/// Models write nothing if a tool takes nothing, and servers that parse it refuse that.
#[inline]
pub(super) fn input(call: &ToolCall, is_custom: bool) -> &str {
    if !is_custom && call.arguments.is_empty() { "{}" } else { &call.arguments }
}

/// Google's word for a signature that was never there.
pub(super) const NO_SIGNATURE: &str = "skip_thought_signature_validator";

/// Returns what a user, an answer or a system message says: a text alone, parts of content, or
/// parts of an answer. Of the three at most one is there.
pub(super) fn said(message: &Message) -> (Option<&str>, &[Part], &[AiPart]) {
    match message {
        Message::System(system) => (Some(system.text()), &[], &[]),
        Message::User(user) => match user.content() {
            Content::Text(text) => (Some(text), &[], &[]),
            Content::Parts(parts) => (None, parts, &[]),
        },
        Message::Ai(ai) if ai.parts().is_empty() => (ai.texts().next(), &[], &[]),
        Message::Ai(ai) => (None, &[], ai.parts()),
        Message::Tool(_) | Message::Custom(_) => (None, &[], &[]),
    }
}

/// `data:image/png;base64,AA==`, written without a copy of the data.
#[derive(Clone, Copy, Debug)]
pub struct DataUrl<'a> {
    pub(super) media_type: &'a str,
    pub(super) data: &'a str,
}

impl<'a> DataUrl<'a> {
    pub(super) fn parse(url: &'a str) -> Option<Self> {
        let (media_type, data) = url.strip_prefix("data:")?.split_once(";base64,")?;
        Some(Self { media_type, data })
    }
}

impl fmt::Display for DataUrl<'_> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "data:{};base64,{}", self.media_type, self.data)
    }
}

impl Serialize for DataUrl<'_> {
    fn serialize<S: Serializer>(&self, serializer: S) -> Result<S::Ok, S::Error> {
        serializer.collect_str(self)
    }
}

/// Media whose data is here: as base64, or in a `data:` URL.
pub(super) fn inline(media: &Media) -> Option<DataUrl<'_>> {
    let data = match &media.source {
        Source::Base64(data) => data,
        // Where it says which media these are, their bytes do not matter yet.
        Source::Reference(_) => "",
        Source::Url(url) => return DataUrl::parse(url),
        Source::FileId(_) => return None,
    };
    let media_type = known_type(media).unwrap_or("application/octet-stream");
    Some(DataUrl { media_type, data })
}

/// The media type that the header of a picture says, for a provider refuses one that is said to be
/// what it is not; else the one that was given, or that the data or the address tells.
pub(super) fn known_type(media: &Media) -> Option<&str> {
    let header = media.picture().map(|picture| picture.media_type.as_str());
    let told = || match &media.source {
        Source::Base64(data) => sniff(data),
        Source::Url(url) => DataUrl::parse(url).map(|url| url.media_type),
        Source::Reference(_) | Source::FileId(_) => None,
    };
    header.or(media.media_type.as_deref()).or_else(told)
}

/// Returns the media type that the first bytes of base64 data tell.
pub(super) fn sniff(data: &str) -> Option<&'static str> {
    /// What comes first, and what stands behind twelve letters: RIFF says there what it is.
    const SIGNS: [(&str, &str, &str); 7] = [
        ("iVBORw0KGgo", "", "image/png"),
        ("/9j/", "", "image/jpeg"),
        ("R0lGOD", "", "image/gif"),
        ("JVBERi0", "", "application/pdf"),
        ("SUQz", "", "audio/mpeg"),
        ("UklGR", "RUJQ", "image/webp"),
        ("UklGR", "QVZF", "audio/wav"),
    ];
    let behind = data.get(12..).unwrap_or_default();
    let mut signs = SIGNS.into_iter();
    let sign = signs.find(|(start, kind, _)| data.starts_with(start) && behind.starts_with(kind));
    sign.map(|(.., media_type)| media_type)
}

/// The messages that a view writes: a prompt, or any others.
#[derive(Clone)]
pub(super) enum Sequence<'a> {
    Prompt(&'a Prompt),
    List(Vec<&'a Message>),
}

impl<'a> Sequence<'a> {
    pub(super) fn of(messages: impl IntoIterator<Item = &'a Message>) -> Self {
        Self::List(messages.into_iter().collect())
    }

    pub(super) fn iter(&self) -> Iter<'a, '_> {
        match self {
            Self::Prompt(prompt) => Iter::Prompt(prompt.iter()),
            Self::List(list) => Iter::List(list.iter()),
        }
    }

    /// Refuses a message whose media are not here, but beside a record.
    pub(super) fn must_hold_media(&self) -> Result<(), String> {
        match self.iter().position(Message::refers) {
            None => Ok(()),
            Some(i) => Err(format!("message {i} has a reference where the bytes of media belong")),
        }
    }

    /// The texts of the system messages.
    pub(super) fn systems(&self) -> impl Iterator<Item = &'a str> {
        self.iter().filter_map(system_text)
    }

    /// Returns how many of the first messages will be sent again; all of them if nothing says
    /// otherwise.
    pub(super) fn cacheable(&self) -> usize {
        match self {
            Self::Prompt(prompt) => prompt.cacheable(),
            Self::List(list) => list.len(),
        }
    }
}

pub(super) fn system_text(message: &Message) -> Option<&str> {
    if let Message::System(system) = message { Some(system.text()) } else { None }
}

/// The messages of a [`Sequence`].
#[derive(Clone)]
pub(super) enum Iter<'a, 'b> {
    Prompt(prompt::Iter<'a>),
    List(std::slice::Iter<'b, &'a Message>),
}

impl<'a> Iterator for Iter<'a, '_> {
    type Item = &'a Message;

    fn next(&mut self) -> Option<&'a Message> {
        match self {
            Self::Prompt(prompt) => prompt.next(),
            Self::List(list) => list.next().copied(),
        }
    }
}

impl fmt::Debug for Sequence<'_> {
    /// Says how many there are: what they say is for the provider alone.
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{} messages", self.iter().count())
    }
}

/// The history with the system messages that open it as one, in their order: a memory keeps a
/// single system message, and of several the last would win.
pub(super) fn with_one_system(history: Vec<Message>) -> Vec<Message> {
    let mut joined: Option<SystemMessage> = None;
    let mut messages = history.into_iter().peekable();
    while let Some(Message::System(next)) = messages.next_if(Message::is_system) {
        joined = Some(next.behind(joined));
    }
    joined.map(Message::System).into_iter().chain(messages).collect()
}
