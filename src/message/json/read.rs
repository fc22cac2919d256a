//! Reads messages from human-readable formats.
//!
//! A known field goes straight into its type as soon as the tag (`role`, `type`) was seen. Only
//! what stands before the tag waits as a [`Value`], and what this crate writes begins with the tag.

use std::borrow::Cow;
use std::fmt;
use std::marker::PhantomData;
use std::vec::IntoIter;

use serde::de::value::SeqAccessDeserializer;
use serde::de::{Deserialize, DeserializeSeed, Deserializer, Error, MapAccess, SeqAccess, Visitor};
use serde_json::Value;

use super::refuse::refuse;
use crate::message::ai::Body;
use crate::message::attributes::{Attributes, bounded};
use crate::message::custom::{CustomBody, are_attributes};
use crate::message::details::DetailFields;
use crate::message::fields::{CALL, MEDIA, REASONING, TEXT, fields_of};
use crate::message::other::{OtherPart, PARTS};
use crate::message::tool::Answer;
use crate::message::{
    AiMessage, AiPart, Content, CustomMessage, Detail, Media, Message, Part, Reasoning, Source,
    SystemMessage, TextPart, ToolCall, ToolMessage, UserMessage,
};

/// Reads anything that is written as an object.
pub(super) fn object<'de, T: FromObject, D: Deserializer<'de>>(from: D) -> Result<T, D::Error> {
    // Asked for a map, some formats refuse a text with an error that quotes it.
    from.deserialize_any(ObjectVisitor(PhantomData))
}

/// Reads a content that stands alone.
pub(super) fn content<'de, D: Deserializer<'de>>(from: D) -> Result<Content, D::Error> {
    to_content(Some(TextOrList("content", PhantomData).deserialize(from)?))
}

pub(super) trait FromObject: Sized {
    /// The name of it in errors.
    const NAME: &'static str;
    /// The field that says which kind it is.
    const TAG: Option<&'static str> = None;

    fn from_object<'de, A: MapAccess<'de>>(object: Object<'de, A>) -> Result<Self, A::Error>;
}

struct ObjectVisitor<T>(PhantomData<T>);

impl<'de, T: FromObject> Visitor<'de> for ObjectVisitor<T> {
    type Value = T;

    fn expecting(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "the {} must be an object", T::NAME)
    }
    fn visit_map<A: MapAccess<'de>>(self, map: A) -> Result<T, A::Error> {
        T::from_object(Object::open(T::NAME, T::TAG, map)?)
    }
    refuse!(bool number text bytes null list);
}

// ---- values: one visitor each, so that an error names the field ---------------------------------

/// A text, or `None` for null.
struct Text(&'static str);

/// A text, a list, or null.
struct TextOrList<T>(&'static str, PhantomData<T>);

enum TextOr<T> {
    Text(String),
    List(Vec<T>),
    Null,
}

impl<'de> DeserializeSeed<'de> for Text {
    type Value = Option<Cow<'de, str>>;

    fn deserialize<D: Deserializer<'de>>(self, from: D) -> Result<Self::Value, D::Error> {
        from.deserialize_any(self)
    }
}

impl<'de> Visitor<'de> for Text {
    type Value = Option<Cow<'de, str>>;

    fn expecting(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "`{}` must be a text", self.0)
    }
    fn visit_borrowed_str<E>(self, text: &'de str) -> Result<Self::Value, E> {
        Ok(Some(Cow::Borrowed(text)))
    }
    fn visit_str<E>(self, text: &str) -> Result<Self::Value, E> {
        Ok(Some(Cow::Owned(text.to_owned())))
    }
    fn visit_string<E>(self, text: String) -> Result<Self::Value, E> {
        Ok(Some(Cow::Owned(text)))
    }
    fn visit_unit<E>(self) -> Result<Self::Value, E> {
        Ok(None)
    }
    refuse!(bool number bytes list object);
}

impl<'de, T: Deserialize<'de>> DeserializeSeed<'de> for TextOrList<T> {
    type Value = TextOr<T>;

    fn deserialize<D: Deserializer<'de>>(self, from: D) -> Result<TextOr<T>, D::Error> {
        from.deserialize_any(self)
    }
}

impl<'de, T: Deserialize<'de>> Visitor<'de> for TextOrList<T> {
    type Value = TextOr<T>;

    fn expecting(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "`{}` must be a text or a list", self.0)
    }
    fn visit_str<E>(self, text: &str) -> Result<TextOr<T>, E> {
        Ok(TextOr::Text(text.to_owned()))
    }
    fn visit_string<E>(self, text: String) -> Result<TextOr<T>, E> {
        Ok(TextOr::Text(text))
    }
    fn visit_seq<A: SeqAccess<'de>>(self, list: A) -> Result<TextOr<T>, A::Error> {
        Vec::deserialize(SeqAccessDeserializer::new(list)).map(TextOr::List)
    }
    fn visit_unit<E>(self) -> Result<TextOr<T>, E> {
        Ok(TextOr::Null)
    }
    refuse!(bool number bytes object);
}

fn missing<E: Error>(what: &str, field: &str) -> E {
    E::custom(format_args!("{what}: missing field `{field}`"))
}

fn wrong<E: Error>(what: &str, field: &str, wanted: &str) -> E {
    E::custom(format_args!("{what}: `{field}` must be {wanted}"))
}

/// Returns the error of a field that stands there twice. A name that is not known may be anybody's
/// text, and is not quoted.
fn twice<E: Error>(what: &str, field: Option<&str>) -> E {
    match field {
        Some(field) => E::custom(format_args!("{what}: duplicate field `{field}`")),
        None => E::custom(format_args!("{what}: a field that is not known stands there twice")),
    }
}

// ---- objects ------------------------------------------------------------------------------------

/// An object whose tag was read, wherever it stood.
pub(super) struct Object<'de, A> {
    name: &'static str,
    tag: Option<&'static str>,
    /// The value of the tag; empty without one.
    kind: Cow<'de, str>,
    /// The fields that stood before the tag.
    early: IntoIter<(Cow<'de, str>, Value)>,
    map: A,
}

/// The value of a field, not read yet.
struct Field<'a, A> {
    early: Option<Value>,
    map: &'a mut A,
}

impl<'de, A: MapAccess<'de>> Field<'_, A> {
    fn read<S: DeserializeSeed<'de>>(self, seed: S) -> Result<S::Value, A::Error> {
        match self.early {
            Some(value) => seed.deserialize(value).map_err(Error::custom),
            None => self.map.next_value_seed(seed),
        }
    }
    fn text(self, name: &'static str) -> Result<Option<String>, A::Error> {
        Ok(self.read(Text(name))?.map(Cow::into_owned))
    }
    fn list<T: Deserialize<'de>>(self, name: &'static str) -> Result<TextOr<T>, A::Error> {
        self.read(TextOrList(name, PhantomData))
    }
    fn value(self) -> Result<Value, A::Error> {
        self.read(PhantomData)
    }
}

impl<'de, A: MapAccess<'de>> Object<'de, A> {
    fn open(name: &'static str, tag: Option<&'static str>, map: A) -> Result<Self, A::Error> {
        let (kind, early) = (Cow::default(), Vec::new().into_iter());
        let mut this = Self { name, tag, kind, early, map };
        let Some(tag) = tag else { return Ok(this) };
        let mut early = Vec::new();
        while let Some(key) = this.next_key()? {
            if key == tag {
                let kind = this.map.next_value_seed(Text(tag))?;
                this.kind = kind.ok_or_else(|| wrong(name, tag, "a text"))?;
                this.early = early.into_iter();
                return Ok(this);
            }
            early.push((key, this.map.next_value()?));
        }
        Err(missing(name, tag))
    }

    fn next_key(&mut self) -> Result<Option<Cow<'de, str>>, A::Error> {
        match self.map.next_key_seed(Text("key"))? {
            Some(None) => Err(wrong(self.name, "null", "a text")),
            key => Ok(key.flatten()),
        }
    }

    /// Hands the `known` fields to `take` by their index, and returns the others.
    fn fields(
        &mut self,
        known: &[&str],
        mut take: impl FnMut(usize, Field<'_, A>) -> Result<(), A::Error>,
    ) -> Result<Attributes, A::Error> {
        let mut unknown = Attributes::new();
        // Bit `i` is set once the known field `i` was seen: a field that stands there twice is
        // refused without a set on the heap. No object has as many as 32 known fields.
        let mut seen = 0_u32;
        loop {
            let (key, early) = match self.early.next() {
                Some((key, value)) => (key, Some(value)),
                None => match self.next_key()? {
                    Some(key) => (key, None),
                    None => break,
                },
            };
            let index = known.iter().position(|name| *name == key);
            let again = match index {
                Some(index) => seen & (1 << index) != 0,
                None => self.tag.is_some_and(|tag| tag == key) || unknown.contains_key(&*key),
            };
            if again {
                let known =
                    index.map(|index| known[index]).or_else(|| self.tag.filter(|tag| *tag == key));
                return Err(twice(self.name, known));
            }
            let field = Field { early, map: &mut self.map };
            if let Some(index) = index {
                seen |= 1 << index;
                take(index, field)?;
            } else {
                unknown.insert(key.into_owned(), field.value()?);
            }
        }
        bounded(&unknown).map_err(Error::custom)?;
        Ok(unknown)
    }

    /// Returns the fields of an object whose known fields are texts.
    fn texts<const N: usize>(
        &mut self,
        names: [&'static str; N],
    ) -> Result<([Option<String>; N], Attributes), A::Error> {
        let mut texts = [const { None }; N];
        let extra = self.fields(&names, |index, field| {
            texts[index] = field.text(names[index])?;
            Ok(())
        })?;
        Ok((texts, extra))
    }

    fn need<T>(&self, name: &str, value: Option<T>) -> Result<T, A::Error> {
        value.ok_or_else(|| missing(self.name, name))
    }
}

// ---- parts --------------------------------------------------------------------------------------

impl FromObject for TextPart {
    const NAME: &'static str = "text";

    fn from_object<'de, A: MapAccess<'de>>(mut object: Object<'de, A>) -> Result<Self, A::Error> {
        let ([text], extra) = object.texts(TEXT)?;
        Ok(Self { text: object.need("text", text)?, extra })
    }
}

impl FromObject for Media {
    const NAME: &'static str = "media";

    fn from_object<'de, A: MapAccess<'de>>(mut object: Object<'de, A>) -> Result<Self, A::Error> {
        let ([url, data, file_id, media_type, name, detail], extra) = object.texts(MEDIA)?;
        let source = match (url, data, file_id) {
            (Some(url), None, None) => Source::Url(url),
            (None, Some(data), None) => Source::Base64(data),
            (None, None, Some(id)) => Source::FileId(id),
            sources => {
                let number = if sources == (None, None, None) { "none" } else { "more than one" };
                let text = format_args!("{}: {number} of `url`, `data`, `file_id`", object.name);
                return Err(Error::custom(text));
            }
        };
        let detail = detail.map(Detail::from);
        Ok(Self { source, media_type, name, detail, extra })
    }
}

impl FromObject for Reasoning {
    const NAME: &'static str = "reasoning";

    fn from_object<'de, A: MapAccess<'de>>(mut object: Object<'de, A>) -> Result<Self, A::Error> {
        let ([text, signature], extra) = object.texts(REASONING)?;
        Ok(Self { text: object.need("text", text)?, signature, extra })
    }
}

impl FromObject for ToolCall {
    const NAME: &'static str = "tool call";

    fn from_object<'de, A: MapAccess<'de>>(mut object: Object<'de, A>) -> Result<Self, A::Error> {
        let ([id, name, arguments, signature], extra) = object.texts(CALL)?;
        let [id, name, arguments] = [("id", id), ("name", name), ("arguments", arguments)]
            .map(|(field, text)| object.need(field, text));
        Ok(Self { id: id?, name: name?, arguments: arguments?, signature, extra })
    }
}

impl FromObject for Part {
    const NAME: &'static str = "part";
    const TAG: Option<&'static str> = Some("type");

    fn from_object<'de, A: MapAccess<'de>>(mut object: Object<'de, A>) -> Result<Self, A::Error> {
        Ok(match &*object.kind {
            "text" => Self::Text(TextPart::from_object(object)?),
            "image" => Self::Image(Media::from_object(object)?),
            "audio" => Self::Audio(Media::from_object(object)?),
            "video" => Self::Video(Media::from_object(object)?),
            "file" => Self::File(Media::from_object(object)?),
            _ => {
                let mut fields = object.fields(&[], |_, _| Ok(()))?;
                fields.insert("type".to_owned(), Value::String(object.kind.into_owned()));
                Self::Other(OtherPart::among(&PARTS, fields).map_err(Error::custom)?)
            }
        })
    }
}

impl FromObject for AiPart {
    const NAME: &'static str = "part";
    const TAG: Option<&'static str> = Some("type");

    fn from_object<'de, A: MapAccess<'de>>(object: Object<'de, A>) -> Result<Self, A::Error> {
        Ok(match &*object.kind {
            "reasoning" => Self::Reasoning(Reasoning::from_object(object)?),
            "tool_call" => Self::ToolCall(ToolCall::from_object(object)?),
            _ => Self::Content(Part::from_object(object)?),
        })
    }
}

// ---- messages -----------------------------------------------------------------------------------

impl FromObject for Message {
    const NAME: &'static str = "message";
    const TAG: Option<&'static str> = Some("role");

    fn from_object<'de, A: MapAccess<'de>>(object: Object<'de, A>) -> Result<Self, A::Error> {
        Ok(match &*object.kind {
            "system" => {
                let mut fields = Fields::<Part>::of(object)?;
                let text = match fields.content.take() {
                    Some(TextOr::Text(text)) => text,
                    Some(TextOr::List(_)) => return Err(wrong("message", "content", "a text")),
                    Some(TextOr::Null) | None => return Err(missing("message", "content")),
                };
                SystemMessage { text, details: fields.details()?.boxed() }.into()
            }
            "user" => {
                let mut fields = Fields::of(object)?;
                let content = to_content(fields.content.take())?;
                UserMessage { content, details: fields.details()?.boxed() }.into()
            }
            "assistant" | "ai" => {
                let mut fields = Fields::of(object)?;
                let body = fields.body()?;
                AiMessage { body, details: fields.details()?.boxed() }.into()
            }
            "tool" => {
                let mut fields = Fields::of(object)?;
                let content = to_content(fields.content.take())?;
                let call_id = fields.call_id.take();
                let answer = Answer {
                    call_id: call_id.ok_or_else(|| missing("message", "tool_call_id"))?,
                    tool_name: fields.name.take().unwrap_or_default(),
                    is_error: match fields.is_error.take() {
                        None | Some(Value::Null) => false,
                        Some(Value::Bool(is_error)) => is_error,
                        Some(_) => return Err(wrong("message", "is_error", "true or false")),
                    },
                    details: fields.details()?.boxed(),
                };
                ToolMessage { content, answer: Box::new(answer) }.into()
            }
            role => {
                let role = role.to_owned();
                let mut fields = Fields::<Part>::of(object)?;
                if role != "custom"
                    && let Some(value) = fields.attributes.take_if(|value| !are_attributes(value))
                {
                    fields.unknown.insert("attributes".to_owned(), value);
                }
                let DetailFields { attributes, unknown, .. } = fields.details()?;
                CustomMessage { body: Box::new(CustomBody { role, attributes, unknown }) }.into()
            }
        })
    }
}

macro_rules! one_kind {
    ($($kind:ident($type:ident)),*) => {$(
        impl FromObject for $type {
            const NAME: &'static str = Message::NAME;
            const TAG: Option<&'static str> = Message::TAG;

            fn from_object<'de, A: MapAccess<'de>>(object: Object<'de, A>) -> Result<Self, A::Error> {
                match Message::from_object(object)? {
                    Message::$kind(message) => Ok(message),
                    _ => Err(wrong("message", "role", concat!("that of an `", stringify!($type), "`"))),
                }
            }
        }
    )*};
}
one_kind!(
    System(SystemMessage),
    User(UserMessage),
    Ai(AiMessage),
    Tool(ToolMessage),
    Custom(CustomMessage)
);

/// The fields of a message whose content may hold `P`; `None` where one is not there.
struct Fields<P> {
    name: Option<String>,
    call_id: Option<String>,
    reasoning: Option<TextOr<Reasoning>>,
    content: Option<TextOr<P>>,
    calls: Option<TextOr<ToolCall>>,
    is_error: Option<Value>,
    attributes: Option<Value>,
    unknown: Attributes,
}

impl<'de, P: Deserialize<'de>> Fields<P> {
    fn of<A: MapAccess<'de>>(mut object: Object<'de, A>) -> Result<Self, A::Error> {
        let known = fields_of(&object.kind);
        let (mut name, mut call_id, mut reasoning, mut content) = (None, None, None, None);
        let (mut calls, mut is_error, mut attributes) = (None, None, None);
        let unknown = object.fields(known, |index, field| {
            match known[index] {
                "name" => name = field.text("name")?,
                "tool_call_id" => call_id = field.text("tool_call_id")?,
                "reasoning" => reasoning = Some(field.list("reasoning")?),
                "content" => content = Some(field.list("content")?),
                "tool_calls" => calls = Some(field.list("tool_calls")?),
                "is_error" => is_error = Some(field.value()?),
                _ => attributes = Some(field.value()?),
            }
            Ok(())
        })?;
        Ok(Self { name, call_id, reasoning, content, calls, is_error, attributes, unknown })
    }
}

impl<P> Fields<P> {
    fn details<E: Error>(self) -> Result<DetailFields, E> {
        let attributes = match self.attributes {
            None | Some(Value::Null) => Attributes::new(),
            Some(Value::Object(attributes)) => attributes,
            Some(_) => return Err(wrong("message", "attributes", "an object")),
        };
        bounded(&attributes).map_err(E::custom)?;
        Ok(DetailFields { name: self.name, attributes, unknown: self.unknown })
    }
}

impl Fields<AiPart> {
    /// Returns the answer, from whichever of its three fields are there.
    fn body<E: Error>(&mut self) -> Result<Body, E> {
        let (reasoning, calls) = (self.reasoning.take(), self.calls.take());
        if self.content.is_none() && reasoning.is_none() && calls.is_none() {
            return Err(missing("message", "content"));
        }
        let mut parts = match reasoning.unwrap_or(TextOr::Null) {
            TextOr::Text(text) => vec![Reasoning::new(text).into()],
            TextOr::List(list) => list.into_iter().map(AiPart::from).collect(),
            TextOr::Null => Vec::new(),
        };
        match self.content.take().unwrap_or(TextOr::Null) {
            TextOr::Text(text) => parts.push(Part::text(text).into()),
            TextOr::List(list) => parts.extend(list),
            TextOr::Null => {}
        }
        match calls.unwrap_or(TextOr::Null) {
            TextOr::Text(_) => return Err(wrong("message", "tool_calls", "a list")),
            TextOr::List(list) => parts.extend(list.into_iter().map(AiPart::from)),
            TextOr::Null => {}
        }
        Ok(Body::normal(parts))
    }
}

fn to_content<E: Error>(content: Option<TextOr<Part>>) -> Result<Content, E> {
    match content {
        Some(TextOr::Text(text)) => Ok(Content::Text(text)),
        Some(TextOr::List(parts)) => Ok(parts.into()),
        Some(TextOr::Null) | None => Err(missing("message", "content")),
    }
}
