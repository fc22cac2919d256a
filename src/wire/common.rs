//! The parts that every format shares: reading with a path, writing what was kept, placeholders.

use std::fmt;

use serde::Serialize;
use serde::ser::{SerializeMap, Serializer};
use serde_json::Value;

use super::json::{Form, Json};
use crate::composed::{self, Prompt};
use crate::error::{Error, ErrorKind, Result};
use crate::message::{
    AiMessage, AiPart, Attributes, Content, Media, Message, OtherPart, Part, Source, SystemMessage,
    TextPart, ToolCall, is_object, is_shallow,
};

/// A place in a document, and what was being done there.
///
/// The way to it is short, and is copied with it: where nothing is wrong it allocates nothing.
#[derive(Clone, Copy, Debug)]
pub struct At {
    operation: &'static str,
    way: [Step; LONGEST_WAY],
    steps: usize,
}

#[derive(Clone, Copy, Debug)]
enum Step {
    Key(&'static str),
    Index(usize),
}

/// The most steps to a place: the formats have no more, and each one makes a copy dearer. Of what
/// a provider nests deeper, an error names the beginning of the way.
const LONGEST_WAY: usize = 9;

impl At {
    /// The top of a document. The operation reads like `read openai answer`.
    pub(super) fn top(operation: &'static str) -> Self {
        Self { operation, way: [Step::Index(0); LONGEST_WAY], steps: 0 }
    }

    /// A field that this crate knows: a name that only the document knows is as much of a text as
    /// any other, and stands in no error.
    pub(super) fn key(self, key: &'static str) -> Self {
        self.step(Step::Key(key))
    }

    pub(super) fn index(self, index: usize) -> Self {
        self.step(Step::Index(index))
    }

    fn step(mut self, step: Step) -> Self {
        if let Some(next) = self.way.get_mut(self.steps) {
            *next = step;
            self.steps += 1;
        }
        self
    }

    /// Returns the error that what is here can't be read.
    pub(super) fn error(&self, what: impl fmt::Display) -> Error {
        self.fail(ErrorKind::Codec, what)
    }

    /// Returns the error that what is here can't be expressed.
    pub(super) fn unsupported(&self, what: impl fmt::Display) -> Error {
        self.fail(ErrorKind::Unsupported, what)
    }

    /// Returns an error of another kind about what is here.
    pub(super) fn of_kind(&self, kind: ErrorKind, what: impl fmt::Display) -> Error {
        self.fail(kind, what)
    }

    /// Returns the error that what is here is not whole.
    pub(super) fn unfinished(&self, what: impl fmt::Display) -> Error {
        self.fail(ErrorKind::Unfinished, what)
    }

    fn fail(&self, kind: ErrorKind, what: impl fmt::Display) -> Error {
        let text = match self.steps {
            0 => what.to_string(),
            _ => format!("{self}: {what}"),
        };
        Error::new(kind, self.operation, text)
    }

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
        if is_shallow(value) { Ok(()) } else { Err(self.error("nested too deep to be kept")) }
    }
}

impl fmt::Display for At {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        for (i, step) in self.way.iter().take(self.steps).enumerate() {
            match step {
                Step::Key(key) if i == 0 => f.write_str(key)?,
                Step::Key(key) => write!(f, ".{key}")?,
                Step::Index(index) => write!(f, "[{index}]")?,
            }
        }
        Ok(())
    }
}

/// The fields of an object, taken one by one; what is left was not known.
///
/// A field that is `null` counts as absent, as every provider reads it.
#[derive(Debug)]
pub struct Fields {
    pub(super) at: At,
    map: Attributes,
}

impl Fields {
    pub(super) fn of(value: Value, at: At) -> Result<Self> {
        match value {
            Value::Object(map) => Ok(Self { at, map }),
            other => Err(at.error(expected("an object", &other))),
        }
    }

    pub(super) fn take(&mut self, key: &str) -> Option<Value> {
        self.map.remove(key).filter(|value| !value.is_null())
    }

    /// A field, left where it is.
    pub(super) fn get(&self, key: &str) -> Option<&Value> {
        self.map.get(key)
    }

    pub(super) fn put(&mut self, key: &str, value: &str) {
        self.map.insert(key.to_owned(), value.into());
    }

    /// Leaves the fields of these names.
    pub(super) fn retain(&mut self, is_wanted: impl Fn(&str) -> bool) {
        self.map.retain(|key, _| is_wanted(key));
    }

    /// Returns true where the field is there and is not `null`.
    pub(super) fn has(&self, key: &str) -> bool {
        self.map.get(key).is_some_and(|value| !value.is_null())
    }

    /// The text in a field, left where it is.
    pub(super) fn peek(&self, key: &str) -> Option<&str> {
        self.map.get(key)?.as_str()
    }

    pub(super) fn text(&mut self, key: &'static str) -> Result<Option<String>> {
        match self.take(key) {
            None => Ok(None),
            Some(Value::String(text)) => Ok(Some(text)),
            Some(other) => Err(self.at.key(key).error(expected("a string", &other))),
        }
    }

    pub(super) fn required_text(&mut self, key: &'static str) -> Result<String> {
        self.text(key)?.ok_or_else(|| self.at.key(key).error("missing"))
    }

    /// The object in a field; `None` where there is none.
    pub(super) fn object(&mut self, key: &'static str) -> Result<Option<Self>> {
        self.take(key).map(|value| Self::of(value, self.at.key(key))).transpose()
    }

    pub(super) fn required_object(&mut self, key: &'static str) -> Result<Self> {
        Self::of(self.required(key)?, self.at.key(key))
    }

    /// The object in a field, as its text; `None` where there is none.
    pub(super) fn object_text(&mut self, key: &'static str) -> Result<Option<String>> {
        Ok(self.object(key)?.map(|object| Value::Object(object.whole()).to_string()))
    }

    /// Returns true where a field says so; false where it is absent.
    pub(super) fn flag(&mut self, key: &'static str) -> Result<bool> {
        match self.take(key) {
            None => Ok(false),
            Some(Value::Bool(flag)) => Ok(flag),
            Some(other) => Err(self.at.key(key).error(expected("a boolean", &other))),
        }
    }

    /// A place in a list.
    pub(super) fn index(&mut self, key: &'static str) -> Result<Option<u64>> {
        let Some(index) = self.take(key) else { return Ok(None) };
        let wrong = || self.at.key(key).error(expected("an index", &index));
        index.as_u64().ok_or_else(wrong).map(Some)
    }

    /// Reads each element of an array at its place; none where the field is absent.
    pub(super) fn each<T>(
        &mut self,
        key: &'static str,
        read: impl FnMut(Value, At) -> Result<T>,
    ) -> Result<Vec<T>> {
        each(self.list(key)?, self.at.key(key), read)
    }

    /// The elements of an array; none where the field is absent.
    pub(super) fn list(&mut self, key: &'static str) -> Result<Vec<Value>> {
        self.take(key).map_or(Ok(Vec::new()), |value| list(value, self.at.key(key)))
    }

    pub(super) fn required(&mut self, key: &'static str) -> Result<Value> {
        self.take(key).ok_or_else(|| self.at.key(key).error("missing"))
    }

    pub(super) fn required_list(&mut self, key: &'static str) -> Result<Vec<Value>> {
        list(self.required(key)?, self.at.key(key))
    }

    /// Content: a text, or a list of parts.
    pub(super) fn content(
        &mut self,
        key: &'static str,
        part: impl FnMut(Value, At) -> Result<Part>,
    ) -> Result<Content> {
        Ok(match text_or_list(self.required(key)?, self.at.key(key), part)? {
            TextOrList::Text(text) => Content::Text(text),
            TextOrList::List(parts) => Content::from(parts),
        })
    }

    /// A text, or the texts of a list of blocks of this kind, joined with an empty line.
    pub(super) fn joined(&mut self, key: &'static str, kind: &'static str) -> Result<String> {
        let text = |value, at: At| {
            let mut block = Self::of(value, at)?;
            if block.peek("type") != Some(kind) {
                return Err(block.at.key("type").error(format_args!("expected `{kind}`")));
            }
            block.required_text("text")
        };
        Ok(match text_or_list(self.required(key)?, self.at.key(key), text)? {
            TextOrList::Text(text) => text,
            TextOrList::List(texts) => texts.join("\n\n"),
        })
    }

    /// A block of text, and what stands beside it.
    pub(super) fn text_part(mut self, format: &str) -> Result<Part> {
        self.take("type");
        let text = self.required_text("text")?;
        Ok(Part::Text(TextPart { text, extra: keep(format, self.rest()) }))
    }

    /// Refuses an unknown field where there is no place to keep it.
    pub(super) fn end(self) -> Result<()> {
        let at = self.at;
        if self.rest().is_empty() { Ok(()) } else { Err(at.error("a field that is not known")) }
    }

    /// Returns the fields that nobody took.
    pub(super) fn rest(mut self) -> Attributes {
        self.map.retain(|_, value| !value.is_null());
        self.map
    }

    /// Every field that nobody took, as it was read.
    pub(super) fn whole(self) -> Attributes {
        self.map
    }
}

/// Content as it is written: a text, or a list.
pub(super) enum TextOrList<T> {
    Text(String),
    List(Vec<T>),
}

/// Reads a text, or each element of a list at its place.
pub(super) fn text_or_list<T>(
    value: Value,
    at: At,
    read: impl FnMut(Value, At) -> Result<T>,
) -> Result<TextOrList<T>> {
    match value {
        Value::String(text) => Ok(TextOrList::Text(text)),
        Value::Array(list) => Ok(TextOrList::List(each(list, at, read)?)),
        other => Err(at.error(expected("a string or an array", &other))),
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

/// The elements of an array.
pub(super) fn list(value: Value, at: At) -> Result<Vec<Value>> {
    match value {
        Value::Array(list) => Ok(list),
        other => Err(at.error(expected("an array", &other))),
    }
}

/// Reads each element of a list at its place.
pub(super) fn each<T>(
    list: Vec<Value>,
    at: At,
    mut read: impl FnMut(Value, At) -> Result<T>,
) -> Result<Vec<T>> {
    list.into_iter().enumerate().map(|(i, value)| read(value, at.index(i))).collect()
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
pub(super) fn beside(message: impl Into<Message>, key: &str, rest: Attributes) -> Message {
    if rest.is_empty() { message.into() } else { with_attribute(message.into(), key, rest.into()) }
}

pub(super) fn with_attribute(message: Message, key: impl Into<String>, value: Value) -> Message {
    match message {
        Message::System(m) => m.with_attribute(key, value).into(),
        Message::User(m) => m.with_attribute(key, value).into(),
        Message::Ai(m) => m.with_attribute(key, value).into(),
        Message::Tool(m) => m.with_attribute(key, value).into(),
        // What stands beside its content is its content.
        Message::Custom(_) => message,
    }
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

    /// Returns true where they have no name to stand after.
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

/// "expected a string, found an object".
pub(super) fn expected(what: &'static str, found: &Value) -> impl fmt::Display {
    struct Expected(&'static str, &'static str);
    impl fmt::Display for Expected {
        fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
            write!(f, "expected {}, found {}", self.0, self.1)
        }
    }
    let found = match found {
        Value::Null => "null",
        Value::Bool(_) => "a boolean",
        Value::Number(_) => "a number",
        Value::String(_) => "a string",
        Value::Array(_) => "an array",
        Value::Object(_) => "an object",
    };
    Expected(what, found)
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

/// Returns true where a signature beside this `extra` comes from another format and must not be
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

/// Writes an entry of a map within the loop over the messages: the trait's own way is a call for
/// each.
#[inline]
pub(super) fn entry<M: SerializeMap>(
    map: &mut M,
    key: &'static str,
    value: &(impl Serialize + ?Sized),
) -> Result<(), M::Error> {
    map.serialize_key(key)?;
    map.serialize_value(value)
}

/// Writes kept fields again, except those that the encoder writes itself.
#[inline]
pub(super) fn write_kept<M: SerializeMap>(
    map: &mut M,
    kept: Option<&Attributes>,
    own: &[&str],
) -> Result<(), M::Error> {
    // Nearly always there is nothing.
    let Some(kept) = kept else { return Ok(()) };
    for (key, value) in kept {
        if !own.contains(&key.as_str()) {
            map.serialize_entry(key, value)?;
        }
    }
    Ok(())
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

/// A call's arguments as an object, for formats that hold one.
///
/// Nothing is the empty object. What is not an object (models do write broken JSON) is kept as
/// text: `{"arguments": ".."}`.
pub(super) struct Arguments<'a>(pub(super) &'a str);

impl Arguments<'_> {
    /// Returns whether they are written as they are, and not as a text in an object.
    pub(super) fn is_object(&self) -> bool {
        self.0.trim().is_empty() || is_object(self.0)
    }
}

impl Serialize for Arguments<'_> {
    fn serialize<S: Serializer>(&self, serializer: S) -> Result<S::Ok, S::Error> {
        if let Ok(object) = serde_json::from_str::<Attributes>(self.0) {
            return object.serialize(serializer);
        }
        let mut map = serializer.serialize_map(None)?;
        if !self.0.trim().is_empty() {
            map.serialize_entry("arguments", self.0)?;
        }
        map.end()
    }
}

/// Returns what OpenAI takes for a call's input: the free text of a custom tool, or arguments as
/// JSON.
///
/// Models write nothing where a tool takes nothing, and servers that parse it refuse that.
#[inline]
pub(super) fn input(call: &ToolCall, is_custom: bool) -> &str {
    if !is_custom && call.arguments.is_empty() { "{}" } else { &call.arguments }
}

/// Google's word for a signature that was never there.
pub(super) const NO_SIGNATURE: &str = "skip_thought_signature_validator";

/// Returns the part, where it is neither reasoning nor a call.
pub(super) fn as_content(part: &AiPart) -> Option<&Part> {
    if let AiPart::Content(part) = part { Some(part) } else { None }
}

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

/// Returns the blocks of a message's text, or of its parts, for a format that has nothing but
/// blocks. Results are not among them.
pub(super) fn flattened<'a, B: Clone + 'a>(
    message: &'a Message,
    text: impl Fn(&'a str) -> Option<B>,
    part: impl Fn(&'a Part) -> Option<B> + Clone,
    ai_part: impl Fn(&'a AiPart) -> Option<B> + Clone,
) -> impl Iterator<Item = B> + Clone {
    let (said, parts, ai) = said(message);
    let said = said.and_then(text).into_iter();
    said.chain(parts.iter().filter_map(part)).chain(ai.iter().filter_map(ai_part))
}

/// Returns why an answer of which nothing is sent is refused. Where parts that are no texts were
/// left out, those are refused instead.
pub(super) fn empty_answer(ai: &AiMessage) -> Option<&'static str> {
    let mut parts = ai.parts().iter().filter_map(as_content);
    parts.all(|part| part.as_text().is_some()).then_some("an empty answer")
}

/// `data:image/png;base64,AA==`, written without a copy of the data.
#[derive(Clone, Copy)]
pub(super) struct DataUrl<'a> {
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
    match &media.source {
        Source::Base64(data) => {
            let media_type = known_type(media).unwrap_or("application/octet-stream");
            Some(DataUrl { media_type, data })
        }
        Source::Url(url) => DataUrl::parse(url),
        Source::FileId(_) => None,
    }
}

/// The media type that was given, or else the one that the data itself or its address tells.
pub(super) fn known_type(media: &Media) -> Option<&str> {
    let told = || match &media.source {
        Source::Base64(data) => sniff(data),
        Source::Url(url) => DataUrl::parse(url).map(|url| url.media_type),
        Source::FileId(_) => None,
    };
    media.media_type.as_deref().or_else(told)
}

/// Returns the media type that the first bytes of base64 data tell.
pub(super) fn sniff(data: &str) -> Option<&'static str> {
    const SIGNS: [(&str, &str); 5] = [
        ("iVBORw0KGgo", "image/png"),
        ("/9j/", "image/jpeg"),
        ("R0lGOD", "image/gif"),
        ("JVBERi0", "application/pdf"),
        ("SUQz", "audio/mpeg"),
    ];
    if data.starts_with("UklGR") {
        // RIFF, a length, and then what it is: the last three of four letters.
        return match data.get(12..16)? {
            "RUJQ" => Some("image/webp"),
            "QVZF" => Some("audio/wav"),
            _ => None,
        };
    }
    SIGNS.iter().find(|(sign, _)| data.starts_with(sign)).map(|(_, media_type)| *media_type)
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

    /// Hands out the messages in order until one fails.
    #[inline]
    pub(super) fn try_for_each<E>(
        &self,
        mut each: impl FnMut(&Message) -> Result<(), E>,
    ) -> Result<(), E> {
        match self {
            Self::Prompt(prompt) => prompt.try_for_each(each),
            Self::List(list) => list.iter().try_for_each(|message| each(message)),
        }
    }

    /// Asks of each message, at its place, whether the format can express it.
    pub(super) fn check(
        &self,
        operation: &'static str,
        mut check: impl FnMut(&'a Message, At) -> Result<()>,
    ) -> Result<()> {
        let at = At::top(operation).key("messages");
        self.iter().enumerate().try_for_each(|(i, message)| check(message, at.index(i)))
    }

    /// The texts of the system messages.
    pub(super) fn systems(&self) -> impl Iterator<Item = &'a str> {
        self.iter().filter_map(system_text)
    }

    /// Returns how many of the first messages will be sent again; all of them where nothing says
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
    Prompt(composed::Iter<'a>),
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
