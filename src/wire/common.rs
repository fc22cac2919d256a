//! Shared parts of all formats: parsing, kept fields, ids, media, placeholders.

use std::fmt;

use serde_json::Value;

use super::json::{Form, Json, without_mark};
use crate::error::Result;
use crate::message::{
    AiMessage, AiPart, Attributes, Content, Message, OtherPart, Part, Source, SystemMessage,
    TextPart, ToolCall, base64, is_shallow,
};
pub(super) use crate::message::{
    At, DataUrl, Fields, TextOrList, each, expected, inline, known_type, list, sniff, text_or_list,
};
use crate::prompt::Prompt;
pub(super) use crate::provider::placeholder;

impl At {
    /// Parses JSON, which must not be nested deeper than a message may be.
    pub(super) fn parse<'j>(&self, json: impl Into<Json<'j>>) -> Result<Value> {
        let read = match json.into().0 {
            Form::Text(it) => serde_json::from_str(it.strip_prefix('\u{feff}').unwrap_or(&it)),
            Form::Bytes(bytes) => serde_json::from_slice(without_mark(&bytes)),
            Form::Value(value) => return self.shallow(&value).map(|()| value.into_owned()),
        };
        // Only the syntax can be wrong here, so the cause quotes nothing.
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
    /// Reads a block of text, with its other fields.
    pub(super) fn text_part(mut self, format: &str) -> Result<Part> {
        self.take("type");
        let text = self.required_text("text")?;
        Ok(Part::Text(TextPart { text, extra: keep(format, self.rest()) }))
    }

    /// Returns the rest without those of these lists that are empty: some clients write them into
    /// each message.
    pub(super) fn rest_without_empty(self, lists: &[&str]) -> Attributes {
        let mut rest = self.rest();
        let is_empty = |value: &Value| value.as_array().is_some_and(Vec::is_empty);
        rest.retain(|key, value| !lists.contains(&key.as_str()) || !is_empty(value));
        rest
    }
}

/// Returns the texts of those of these blocks that have one.
pub(super) fn texts(blocks: &[Value]) -> impl Iterator<Item = &str> {
    blocks.iter().filter_map(|block| block.get("text")?.as_str())
}

/// Returns the objects of a list, or of the list in this field of a body.
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

/// Returns content of these parts: a single text without other fields is plain text.
pub(super) fn content_of(mut parts: Vec<Part>) -> Content {
    match parts.as_mut_slice() {
        [Part::Text(TextPart { text, extra })] if extra.is_empty() => {
            Content::Text(std::mem::take(text))
        }
        _ => Content::from(parts),
    }
}

/// Puts the rest of an object back under its key, unless it is empty.
pub(super) fn put_back(rest: &mut Attributes, key: &str, inner: Attributes) {
    if !inner.is_empty() {
        rest.insert(key.to_owned(), Value::Object(inner));
    }
}

/// Adds the other fields of a message, if there are any.
pub(super) fn with_rest(message: impl Into<Message>, key: &str, rest: Attributes) -> Message {
    if rest.is_empty() { message.into() } else { with_attribute(message.into(), key, rest.into()) }
}

/// Returns an answer of these parts, with its other fields, if there are any.
pub(super) fn answered(parts: Vec<AiPart>, key: &str, rest: Attributes) -> AiMessage {
    let ai = AiMessage::from_parts(parts);
    if rest.is_empty() { ai } else { ai.with_attribute(key, rest) }
}

pub(super) fn with_attribute(mut message: Message, key: &str, value: Value) -> Message {
    // The other fields of a custom message belong to its content.
    if let Some(details) = message.details_mut() {
        details.get_or_insert_default().attributes.insert(key.to_owned(), value);
    }
    message
}

/// Makes up ids for calls without one. Based on the answer's own id, they are unique in a
/// conversation, and the same whenever the answer is read.
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

    /// Returns whether they have no answer's id to build on.
    pub(super) fn are_nameless(&self) -> bool {
        self.stem.is_empty()
    }

    /// Continues with another base name.
    pub(super) fn rename(&mut self, name: impl IntoIterator<Item = char>) {
        self.stem = Self::after(name).stem;
    }

    pub(super) fn next(&mut self) -> String {
        self.count += 1;
        format!("call_{}{}", self.stem, self.count - 1)
    }
}

/// Returns the source of media at an address, and their type if the address shows it.
pub(super) fn from_url(url: String) -> (Source, Option<String>) {
    match DataUrl::parse(&url) {
        Some(it) => (Source::Base64(base64::standard(it.data.into())), Some(it.media_type.into())),
        None => (Source::Url(url), None),
    }
}

/// Keeps fields that only `format` understands, under its name.
///
/// A conversation may outlive its first model, and one provider's fields (a signature, a cache
/// mark) are a 400 at another, so each format writes only the fields under its own name again.
pub(super) fn keep(format: &str, fields: Attributes) -> Attributes {
    if fields.is_empty() { fields } else { keep_signed(format, fields) }
}

/// Like [`keep`], and marks the holder as this format's even if there is nothing else to keep: for
/// holders of a signature.
pub(super) fn keep_signed(format: &str, fields: Attributes) -> Attributes {
    Attributes::from_iter([(format.to_owned(), Value::Object(fields))])
}

/// Returns what [`keep`] kept for this format.
#[inline]
pub(super) fn kept<'a>(format: &str, extra: &'a Attributes) -> Option<&'a Attributes> {
    // Nearly always there is nothing.
    if extra.is_empty() { None } else { extra.get(format)?.as_object() }
}

/// Returns the kept object under this key.
#[inline]
pub(super) fn kept_object<'a>(kept: Option<&'a Attributes>, key: &str) -> Option<&'a Attributes> {
    kept?.get(key)?.as_object()
}

/// Returns the kept `type` of this format.
pub(super) fn kept_type<'a>(format: &str, extra: &'a Attributes) -> Option<&'a str> {
    kept(format, extra)?.get("type")?.as_str()
}

/// Returns whether a signature next to this `extra` comes from another format and must not be sent.
///
/// A signature without a mark was set by the application, on purpose.
pub(super) fn is_foreign(format: &str, extra: &Attributes) -> bool {
    !extra.contains_key(format) && super::FORMATS.iter().any(|other| extra.contains_key(*other))
}

/// Returns a part of a kind that only `format` knows: `{"type": format, format: {..}}`.
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

/// Returns the input of a call for OpenAI: the free text of a custom tool, or arguments as JSON.
///
/// If a tool takes nothing, models write nothing, which servers that parse it refuse.
#[inline]
pub(super) fn input(call: &ToolCall, is_custom: bool) -> &str {
    if !is_custom && call.arguments.is_empty() { "{}" } else { &call.arguments }
}

/// Google's placeholder for a signature that never existed.
pub(super) const NO_SIGNATURE: &str = "skip_thought_signature_validator";

/// The messages that a view writes: a prompt's, or any others.
#[derive(Clone)]
pub(super) struct Sequence<'a> {
    messages: Vec<&'a Message>,
    /// How many of the first will be sent again; all of them if there is no prompt.
    pub(super) cacheable: usize,
    /// The place of the first message that the next turn does not repeat.
    pub(super) passing: usize,
}

impl<'a> Sequence<'a> {
    pub(super) fn of(messages: impl IntoIterator<Item = &'a Message>) -> Self {
        let messages: Vec<_> = messages.into_iter().collect();
        Self { cacheable: messages.len(), passing: messages.len(), messages }
    }

    pub(super) fn of_prompt(prompt: &'a Prompt) -> Self {
        let sequence = Self::of(prompt.iter());
        let passing = prompt.with_origins().position(|(origin, _)| origin.is_passing());
        let passing = passing.unwrap_or(sequence.passing);
        Self { cacheable: prompt.cacheable(), passing, ..sequence }
    }

    /// Returns the place behind the newest message before this place that begins a turn.
    pub(super) fn turn(&self, before: usize) -> usize {
        let before = self.iter().take(before).enumerate();
        before.filter(|(_, message)| message.begins_turn()).last().map_or(0, |(i, _)| i + 1)
    }

    pub(super) fn iter(&self) -> impl ExactSizeIterator<Item = &'a Message> {
        self.messages.iter().copied()
    }

    /// Refuses a message whose media are stored separately and were not read.
    pub(super) fn must_hold_media(&self) -> Result<(), String> {
        match self.iter().position(Message::has_references) {
            None => Ok(()),
            Some(i) => Err(format!("message {i} has a reference where the bytes of media belong")),
        }
    }
}

pub(super) fn system_text(message: &Message) -> Option<&str> {
    if let Message::System(system) = message { Some(system.text()) } else { None }
}

impl fmt::Debug for Sequence<'_> {
    /// Shows their number, not their content, which is for the provider alone.
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{} messages", self.messages.len())
    }
}

/// Joins the system messages at the beginning of a history into one, in order: a memory keeps a
/// single system message, and otherwise the last would win.
pub(super) fn with_one_system(history: Vec<Message>) -> Vec<Message> {
    let mut joined: Option<SystemMessage> = None;
    let mut messages = history.into_iter().peekable();
    while let Some(Message::System(next)) = messages.next_if(Message::is_system) {
        joined = Some(next.behind(joined));
    }
    joined.map(Message::System).into_iter().chain(messages).collect()
}
