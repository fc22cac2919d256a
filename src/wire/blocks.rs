//! Content in OpenAI's formats: a string, or a list of blocks, of which one may carry the cache
//! mark.

use serde::Serialize;
use serde::ser::{SerializeMap, SerializeSeq, Serializer};

use super::shape::Joined;
use crate::message::{Attributes, Content, Part};

/// A block of content.
pub(super) trait ContentBlock<'a>: Copy {
    /// Returns the block of a text that nothing stands beside.
    fn bare(text: &'a str) -> Self;

    /// Returns the text of a block that holds nothing else: content of one such block is a string.
    fn as_bare(self) -> Option<&'a str>;

    /// Returns the text of a block of text, also of one with fields beside it.
    fn as_text(self) -> Option<&'a str>;

    /// Returns whether it is a picture, audio or a file.
    fn is_media(self) -> bool;

    /// Returns the fields that were read beside its own.
    fn kept(self) -> Option<&'a Attributes>;

    /// Writes all of its fields.
    fn write<M: SerializeMap>(self, map: &mut M) -> Result<(), M::Error>;

    /// Returns whether a cache mark can stand on it: not on an empty text, nor on what has no place
    /// for one.
    fn takes_mark(self) -> bool {
        self.is_media() || self.as_text().is_some_and(|text| !text.is_empty())
    }
}

/// Returns the blocks of content.
pub(super) fn blocks<'a, B: ContentBlock<'a>>(
    content: &'a Content,
    block: fn(&'a Part) -> B,
) -> impl Iterator<Item = B> + Clone {
    let bare = if let Content::Text(text) = content { Some(B::bare(text)) } else { None };
    bare.into_iter().chain(content.parts().iter().map(block))
}

/// Content as it is written.
pub(super) struct Blocks<I> {
    pub(super) of: I,
    /// True where nothing but texts is one string, however many they are.
    pub(super) flat: bool,
    /// True where the last block that takes one carries the cache mark.
    pub(super) mark: bool,
}

impl<'a, B: ContentBlock<'a>, I: Iterator<Item = B> + Clone> Serialize for Blocks<I> {
    fn serialize<S: Serializer>(&self, serializer: S) -> Result<S::Ok, S::Error> {
        let mut first = self.of.clone();
        let alone = match (first.next(), first.next()) {
            // The formats have no empty list.
            (None, _) => Some(""),
            (Some(block), None) => block.as_bare(),
            _ => None,
        };
        let takes_mark = self.of.clone().enumerate().filter(|(_, block)| block.takes_mark());
        let marked = if self.mark { takes_mark.last().map(|(i, _)| i) } else { None };
        if marked.is_none() {
            if let Some(text) = alone {
                return serializer.serialize_str(text);
            }
            if self.flat && self.of.clone().all(|block| block.as_text().is_some()) {
                return serializer.collect_str(&Joined(self.of.clone().filter_map(B::as_text)));
            }
        }
        let mut seq = serializer.serialize_seq(None)?;
        for (i, block) in self.of.clone().enumerate() {
            seq.serialize_element(&Marked { block, mark: marked == Some(i) })?;
        }
        seq.end()
    }
}

/// A block, with the cache mark or without.
struct Marked<B> {
    block: B,
    mark: bool,
}

impl<'a, B: ContentBlock<'a>> Serialize for Marked<B> {
    fn serialize<S: Serializer>(&self, serializer: S) -> Result<S::Ok, S::Error> {
        let mut map = serializer.serialize_map(None)?;
        self.block.write(&mut map)?;
        let was_marked = self.block.kept().is_some_and(|kept| kept.contains_key(CACHE_MARK));
        if self.mark && !was_marked {
            map.serialize_entry(CACHE_MARK, &CacheMark { mode: "explicit" })?;
        }
        map.end()
    }
}

/// The field with which OpenAI ends a cached prefix.
const CACHE_MARK: &str = "prompt_cache_breakpoint";

#[derive(Serialize)]
struct CacheMark {
    mode: &'static str,
}
