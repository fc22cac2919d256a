//! [`BorrowedValue`]: the output of an encoder, JSON that borrows its texts.

use std::borrow::Cow;

use serde::ser::{Serialize, SerializeMap, Serializer};
use serde_json::Value;

use super::common::{DataUrl, inline};
use crate::message::{Attributes, Media, Source};
use crate::provider::Definition;

/// A JSON value that borrows from the messages: no text or picture is copied.
///
/// Its objects keep the order in which the encoder added the fields; the fields of a [`Value`] keep
/// that value's order.
#[derive(Debug)]
pub enum BorrowedValue<'a> {
    /// The field is not written, not even a kept one of this name.
    Nothing,
    Null,
    Bool(bool),
    Number(u64),
    Text(Cow<'a, str>),
    Url(DataUrl<'a>),
    List(Vec<Self>),
    Object(Object<'a>),
    Kept(&'a Value),
    Value(Value),
    /// A tool. Its schema keeps the order of its keywords, since the model reads it.
    Tool(Definition<'a, Object<'a>>),
}

impl<'a> BorrowedValue<'a> {
    /// Returns the address of media, or a `data:` URL if the data are here.
    pub(super) fn address(media: &'a Media) -> Self {
        match (inline(media), &media.source) {
            (Some(url), _) => Self::Url(url),
            (None, Source::Url(url)) => url.into(),
            (None, _) => Self::Nothing,
        }
    }

    /// Returns the provider's id of media.
    pub(super) fn file_id(media: &'a Media) -> Self {
        if let Source::FileId(id) = &media.source { id.into() } else { Self::Nothing }
    }

    pub(super) fn unless_empty(text: &'a str) -> Self {
        if text.is_empty() { Self::Nothing } else { text.into() }
    }

    /// Joins texts with line breaks.
    pub(super) fn joined(texts: impl IntoIterator<Item = &'a str>) -> Self {
        let mut texts = texts.into_iter();
        let first = texts.next().unwrap_or_default();
        let add = |all: Cow<'a, str>, text| Cow::Owned(format!("{all}\n{text}"));
        Self::Text(texts.fold(first.into(), add))
    }

    pub(super) fn as_text(&self) -> Option<&str> {
        match self {
            Self::Text(text) => Some(text),
            Self::Kept(value) => value.as_str(),
            _ => None,
        }
    }

    pub(super) fn as_list(&self) -> Option<&[Self]> {
        if let Self::List(list) = self { Some(list) } else { None }
    }

    pub(super) fn get(&self, key: &str) -> Option<&Self> {
        if let Self::Object(object) = self { object.get(key) } else { None }
    }

    /// Returns the text of a field; an empty one if there is none.
    pub(super) fn text(&self, key: &str) -> &str {
        if let Self::Object(object) = self { object.text(key) } else { "" }
    }
}

macro_rules! from_kinds {
    ($($kind:ident($inner:ty)),*) => {$(
        impl<'a> From<$inner> for BorrowedValue<'a> {
            fn from(inner: $inner) -> Self {
                Self::$kind(inner.into())
            }
        }
    )*};
}
from_kinds!(Text(&'a str), Text(&'a String), Text(String), Text(Cow<'a, str>), Bool(bool));
from_kinds!(Object(Object<'a>), Kept(&'a Value), Value(Value));

impl<T: Into<Self>> From<Vec<T>> for BorrowedValue<'_> {
    fn from(list: Vec<T>) -> Self {
        Self::List(list.into_iter().map(Into::into).collect())
    }
}

impl<T: Into<Self>> From<Option<T>> for BorrowedValue<'_> {
    fn from(value: Option<T>) -> Self {
        value.map_or(Self::Nothing, Into::into)
    }
}

impl Serialize for BorrowedValue<'_> {
    fn serialize<S: Serializer>(&self, serializer: S) -> Result<S::Ok, S::Error> {
        match self {
            Self::Nothing | Self::Null => serializer.serialize_unit(),
            Self::Bool(is_so) => serializer.serialize_bool(*is_so),
            Self::Number(number) => serializer.serialize_u64(*number),
            Self::Text(text) => serializer.serialize_str(text),
            Self::Url(url) => url.serialize(serializer),
            Self::List(list) => serializer.collect_seq(list),
            Self::Object(object) => object.serialize(serializer),
            Self::Kept(value) => value.serialize(serializer),
            Self::Value(value) => value.serialize(serializer),
            Self::Tool(definition) => definition.serialize(serializer),
        }
    }
}

/// The fields of an object, in the order in which they are written.
#[derive(Debug, Default)]
pub struct Object<'a>(Vec<(&'a str, BorrowedValue<'a>)>);

impl<'a> Object<'a> {
    pub(super) fn of<const N: usize>(fields: [(&'a str, BorrowedValue<'a>); N]) -> Self {
        Self(fields.into())
    }

    /// Returns a block with a text under this key.
    pub(super) fn block(kind: &'a str, key: &'a str, text: &'a str) -> Self {
        Self::of([("type", kind.into()), (key, text.into())])
    }

    /// Returns an object with the kept fields.
    pub(super) fn of_kept(kept: Option<&'a Attributes>) -> Self {
        Self::default().kept(kept, &[])
    }

    #[must_use]
    pub(super) fn with(mut self, key: &'a str, value: impl Into<BorrowedValue<'a>>) -> Self {
        self.put(key, value);
        self
    }

    pub(super) fn put(&mut self, key: &'a str, value: impl Into<BorrowedValue<'a>>) {
        self.0.push((key, value.into()));
    }

    /// Adds the kept fields, except those with these names and those already in the object: no name
    /// occurs twice.
    #[must_use]
    pub(super) fn kept(mut self, kept: Option<&'a Attributes>, but: &[&str]) -> Self {
        for (key, value) in kept.into_iter().flatten() {
            if !but.contains(&key.as_str()) && self.0.iter().all(|(own, _)| own != key) {
                self.put(key, value);
            }
        }
        self
    }

    /// Writes a field at the end, removing an earlier one of this name.
    pub(super) fn replace(&mut self, key: &'a str, value: impl Into<BorrowedValue<'a>>) {
        self.0.retain(|(own, _)| *own != key);
        self.put(key, value);
    }

    /// Leaves these fields alone.
    pub(super) fn only(mut self, keys: &[&str]) -> Self {
        self.0.retain(|(own, _)| keys.contains(own));
        self
    }

    pub(super) fn get(&self, key: &str) -> Option<&BorrowedValue<'a>> {
        self.0.iter().find(|(own, _)| *own == key).map(|(_, value)| value)
    }

    pub(super) fn get_mut(&mut self, key: &str) -> Option<&mut BorrowedValue<'a>> {
        self.0.iter_mut().find(|(own, _)| *own == key).map(|(_, value)| value)
    }

    /// Returns the text of a field; an empty one if there is none.
    pub(super) fn text(&self, key: &str) -> &str {
        self.get(key).and_then(BorrowedValue::as_text).unwrap_or_default()
    }

    /// Returns whether it has only these fields.
    pub(super) fn has_only(&self, keys: &[&str]) -> bool {
        self.0.iter().all(|(own, _)| keys.contains(own))
    }

    fn written(&self) -> impl Iterator<Item = &(&'a str, BorrowedValue<'a>)> {
        self.0.iter().filter(|(_, value)| !matches!(value, BorrowedValue::Nothing))
    }

    pub(super) fn is_empty(&self) -> bool {
        self.written().next().is_none()
    }
}

impl Serialize for Object<'_> {
    fn serialize<S: Serializer>(&self, serializer: S) -> Result<S::Ok, S::Error> {
        let mut map = serializer.serialize_map(None)?;
        for (key, value) in self.written() {
            map.serialize_entry(key, value)?;
        }
        map.end()
    }
}
