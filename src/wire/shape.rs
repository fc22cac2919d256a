//! The shapes that formats share where they write: objects of a few fields, lists, joined texts.

use std::fmt;

use serde::ser::{Serialize, SerializeMap, Serializer};

use super::common::{Arguments, DataUrl};
use crate::message::{Attributes, Media, Source};

/// An object of a few fields, with the fields behind them that were kept beside them.
pub(super) struct Object<'a, const N: usize> {
    pub(super) own: [(&'static str, Entry<'a>); N],
    pub(super) kept: Option<&'a Attributes>,
}

/// The value of a field that a format writes.
#[derive(Clone, Copy)]
pub(super) enum Entry<'a> {
    /// The field is not written.
    Nothing,
    Text(&'a str),
    Url(DataUrl<'a>),
    /// A call's arguments as an object.
    Arguments(&'a str),
    Index(usize),
    True,
    /// An object.
    Fields(&'a [(&'static str, Self)]),
}

impl<'a> From<&'a str> for Entry<'a> {
    fn from(text: &'a str) -> Self {
        Self::Text(text)
    }
}

impl<'a> From<&'a String> for Entry<'a> {
    fn from(text: &'a String) -> Self {
        Self::Text(text)
    }
}

impl<T: Into<Self>> From<Option<T>> for Entry<'_> {
    fn from(value: Option<T>) -> Self {
        value.map_or(Self::Nothing, Into::into)
    }
}

impl<'a> Entry<'a> {
    /// The address of media, with the data in it where they are here.
    pub(super) fn address(media: &'a Media) -> Self {
        match (super::common::inline(media), &media.source) {
            (Some(url), _) => Self::Url(url),
            (None, Source::Url(url)) => Self::Text(url),
            (None, _) => Self::Nothing,
        }
    }

    /// The id that the provider gave to media.
    pub(super) fn file_id(media: &'a Media) -> Self {
        match &media.source {
            Source::FileId(id) => Self::Text(id),
            _ => Self::Nothing,
        }
    }

    /// The text, unless it is empty.
    pub(super) fn unless_empty(text: &'a str) -> Self {
        if text.is_empty() { Self::Nothing } else { Self::Text(text) }
    }

    fn is_nothing(&self) -> bool {
        matches!(self, Self::Nothing)
    }
}

impl Serialize for Entry<'_> {
    fn serialize<S: Serializer>(&self, serializer: S) -> Result<S::Ok, S::Error> {
        match self {
            Self::Nothing => serializer.serialize_none(),
            Self::Text(text) => serializer.serialize_str(text),
            Self::Url(url) => url.serialize(serializer),
            Self::Arguments(text) => Arguments(text).serialize(serializer),
            Self::Index(index) => index.serialize(serializer),
            Self::True => serializer.serialize_bool(true),
            Self::Fields(own) => {
                let mut map = serializer.serialize_map(None)?;
                write(&mut map, own, None)?;
                map.end()
            }
        }
    }
}

/// The fields of a block that says a text under this key.
pub(super) fn block<'a>(
    kind: &'static str,
    key: &'static str,
    text: &'a str,
) -> [(&'static str, Entry<'a>); 2] {
    [("type", kind.into()), (key, text.into())]
}

impl<const N: usize> Serialize for Object<'_, N> {
    fn serialize<S: Serializer>(&self, serializer: S) -> Result<S::Ok, S::Error> {
        let mut map = serializer.serialize_map(None)?;
        write(&mut map, &self.own, self.kept)?;
        map.end()
    }
}

/// Writes fields, and behind them those that were kept, but for the names that stand here: no name
/// may stand twice.
#[inline]
pub(super) fn write<M: SerializeMap>(
    map: &mut M,
    own: &[(&'static str, Entry<'_>)],
    kept: Option<&Attributes>,
) -> Result<(), M::Error> {
    for (name, value) in own.iter().filter(|(_, value)| !value.is_nothing()) {
        map.serialize_entry(name, value)?;
    }
    // Nearly always there is nothing.
    let Some(kept) = kept else { return Ok(()) };
    for (name, value) in kept {
        if own.iter().all(|(own, _)| own != name) {
            map.serialize_entry(name, value)?;
        }
    }
    Ok(())
}

/// A list of whatever comes.
pub(super) struct Seq<I>(pub(super) I);

impl<T: Serialize, I: Iterator<Item = T> + Clone> Serialize for Seq<I> {
    #[inline]
    fn serialize<S: Serializer>(&self, serializer: S) -> Result<S::Ok, S::Error> {
        serializer.collect_seq(self.0.clone())
    }
}

/// Texts as one, with line breaks between them.
pub(super) struct Joined<I>(pub(super) I);

impl<'a, I: Iterator<Item = &'a str> + Clone> fmt::Display for Joined<I> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let mut texts = self.0.clone();
        f.write_str(texts.next().unwrap_or_default())?;
        texts.try_for_each(|text| write!(f, "\n{text}"))
    }
}

impl<'a, I: Iterator<Item = &'a str> + Clone> Serialize for Joined<I> {
    fn serialize<S: Serializer>(&self, serializer: S) -> Result<S::Ok, S::Error> {
        serializer.collect_str(self)
    }
}
