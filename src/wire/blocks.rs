//! Content in OpenAI's formats: a string, or a list of blocks, one of which may carry the cache
//! mark.

use super::borrowed::{BorrowedValue, Object};
use super::common::placeholder;
use super::terms::Sent;
use super::view::Cache;
use crate::message::{Content, Part};
use crate::provider::Row;

pub(super) enum Block<'a> {
    /// A text without other fields: if it is the only block, it becomes a string.
    Bare(&'a str),
    /// A block with this text.
    Text(&'a str, Object<'a>),
    Other(Object<'a>),
}

impl<'a> Block<'a> {
    /// Returns the text, if it may be joined with others.
    fn text(&self, joins: Joins) -> Option<&'a str> {
        match self {
            Self::Bare(text) if joins != Joins::Nothing => Some(text),
            Self::Text(text, object) => match joins {
                Joins::Nothing => None,
                Joins::Plain => object.has_only(&["type", "text"]).then_some(text),
                Joins::All => Some(text),
            },
            Self::Bare(_) | Self::Other(_) => None,
        }
    }
}

/// Which texts are joined into one string, if there is nothing else.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Joins {
    Nothing,
    /// Texts without other fields.
    Plain,
    All,
}

/// Returns the content of a message, given a function that makes blocks; a placeholder replaces a
/// part without a block.
pub(super) fn written<'a>(
    content: &'a Content,
    block: impl Fn(&'a Part) -> Option<Block<'a>>,
    (kind, joins): (&'static str, Joins),
    sent: &Sent<'_>,
) -> BorrowedValue<'a> {
    if let Content::Text(text) = content {
        return text.into();
    }
    let one = |(i, part)| {
        block(part).unwrap_or_else(|| {
            sent.refuse(i, part);
            let text = placeholder(part);
            Block::Text(text, Object::block(kind, "text", text))
        })
    };
    self::content(content.parts().iter().enumerate().map(one).collect(), (kind, joins))
}

/// Returns content of these blocks. A bare text becomes a block of this kind if it is not alone.
pub(super) fn content<'a>(
    blocks: Vec<Block<'a>>,
    (kind, joins): (&'static str, Joins),
) -> BorrowedValue<'a> {
    match blocks.as_slice() {
        // The formats have no empty list.
        [] => return "".into(),
        [Block::Bare(text)] => return (*text).into(),
        blocks => {
            let texts: Option<Vec<_>> = blocks.iter().map(|block| block.text(joins)).collect();
            if let Some(texts) = texts {
                return BorrowedValue::joined(texts);
            }
        }
    }
    let object = |block| match block {
        Block::Bare(text) => Object::block(kind, "text", text),
        Block::Text(_, object) | Block::Other(object) => object,
    };
    BorrowedValue::List(blocks.into_iter().map(|block| object(block).into()).collect())
}

/// The field with which OpenAI ends a cached prefix.
const BREAKPOINT: &str = "prompt_cache_breakpoint";
/// The same of OpenRouter and `LiteLLM`, after Anthropic's.
const CONTROL: &str = "cache_control";

/// Returns whether the cache marks of this row are Anthropic's.
pub(super) fn has_control(row: &Row) -> bool {
    row.private.takes(CONTROL) && !row.private.takes(BREAKPOINT)
}

/// Returns whether a block has such a mark.
pub(super) fn is_marked(content: &BorrowedValue<'_>) -> bool {
    content.as_list().unwrap_or_default().iter().any(|block| block.get(CONTROL).is_some())
}

/// Puts the provider's cache mark on the last block that can have one; returns `false` if none can.
/// A string becomes a block of this kind.
pub(super) fn mark(
    content: &mut BorrowedValue<'_>,
    kind: &'static str,
    (row, cache): (&Row, Cache),
) -> bool {
    let has_control = has_control(row);
    if let BorrowedValue::Text(text) = content {
        if text.is_empty() {
            return false;
        }
        let block = Object::of([("type", kind.into()), ("text", std::mem::take(text).into())]);
        *content = vec![block].into();
    }
    let BorrowedValue::List(blocks) = content else { return false };
    let takes_mark = |block: &&mut BorrowedValue<'_>| match block.text("type") {
        "text" | "input_text" => !block.text("text").is_empty(),
        // OpenRouter: "can only be inserted into the text part of a multipart message"
        "image_url" | "input_image" | "input_audio" | "file" | "input_file" | "document_url" => {
            !has_control
        }
        _ => false,
    };
    let Some(BorrowedValue::Object(block)) = blocks.iter_mut().rev().find(takes_mark) else {
        return false;
    };
    let (name, mark) = if has_control {
        (CONTROL, cache.control())
    } else {
        (BREAKPOINT, Object::of([("mode", "explicit".into())]))
    };
    if block.get(name).is_none() {
        block.put(name, mark);
    }
    true
}
