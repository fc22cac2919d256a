//! The shape of messages in formats that people read: JSON, and whatever else serde calls
//! human-readable.
//!
//! Written by hand: serde's derived `tag` and `flatten` collect every field in a buffer first,
//! accept an unknown field twice, and name no field whose type is wrong.

mod check;
pub(crate) mod fields;
mod read;
pub(crate) mod refuse;
mod strict;

pub(super) use check::Check;
use check::Order;
pub(super) use read::from_human;

use serde::Serialize;
use serde::ser::{Error, SerializeMap, Serializer};

use super::ai::Body;
use super::attributes::{Attributes, bounded};
use super::details::unknown;
use super::fields::{CALL, MEDIA, REASONING, TEXT, fields_of, is_known};
use super::other::{AI_PARTS, PARTS};
use super::{
    AiMessage, AiPart, Content, CustomMessage, Detail, Media, Message, Part, Reasoning, Source,
    SystemMessage, TextPart, ToolCall, ToolMessage, UserMessage,
};

/// A type with a shape of its own in human-readable formats.
pub(super) trait Human: Sized {
    fn write<S: Serializer>(&self, to: S) -> Result<S::Ok, S::Error>;
}

/// Implements [`Human`]. `read` knows how to read them all.
macro_rules! human {
    ($($type:ident: |$it:ident, $to:ident| $write:expr;)*) => {$(
        impl Human for $type {
            fn write<S: Serializer>(&self, $to: S) -> Result<S::Ok, S::Error> {
                let $it = self;
                $write
            }
        }
    )*};
}

human! {
    Message: |it, to| match it {
        Self::System(m) => m.write(to),
        Self::User(m) => m.write(to),
        Self::Ai(m) => m.write(to),
        Self::Tool(m) => m.write(to),
        Self::Custom(m) => m.write(to),
    };
    SystemMessage: |it, to| {
        let mut out = open(to, "system")?;
        put(&mut out, "name", it.name())?;
        put(&mut out, "content", Some(it.text()))?;
        close_message(out, "system", it.attributes(), unknown(&it.details))
    };
    UserMessage: |it, to| {
        let mut out = open(to, "user")?;
        put(&mut out, "name", it.name())?;
        put(&mut out, "content", Some(it.content()))?;
        close_message(out, "user", it.attributes(), unknown(&it.details))
    };
    AiMessage: |it, to| {
        let mut out = open(to, "assistant")?;
        put(&mut out, "name", it.name())?;
        match &it.body {
            Body::Text(text) => put(&mut out, "content", Some(text))?,
            Body::Parts(parts) => put_parts(&mut out, parts)?,
        }
        close_message(out, "assistant", it.attributes(), unknown(&it.details))
    };
    ToolMessage: |it, to| {
        let mut out = open(to, "tool")?;
        put(&mut out, "tool_call_id", Some(it.call_id()))?;
        put(&mut out, "name", Some(it.tool_name()).filter(|name| !name.is_empty()))?;
        put(&mut out, "content", Some(it.content()))?;
        put(&mut out, "is_error", Some(&true).filter(|_| it.is_error()))?;
        close_message(out, "tool", it.attributes(), unknown(&it.answer.details))
    };
    CustomMessage: |it, to| {
        check::role(it).map_err(S::Error::custom)?;
        close_message(open(to, it.role())?, it.role(), it.attributes(), it.fields())
    };
    Content: |it, to| match it {
        Self::Text(text) => to.serialize_str(text),
        Self::Parts(parts) => to.collect_seq(parts),
    };
    Part: |it, to| write_part(it, &PARTS, to);
    AiPart: |it, to| match it {
        Self::Content(part) => write_part(part, &AI_PARTS, to),
        Self::Reasoning(reasoning) => write_reasoning(reasoning, Some("reasoning"), to),
        Self::ToolCall(call) => write_call(call, Some("tool_call"), to),
    };
    Media: |it, to| write_media(it, None, to);
    Reasoning: |it, to| write_reasoning(it, None, to);
    ToolCall: |it, to| write_call(it, None, to);
}

fn open<S: Serializer>(to: S, role: &str) -> Result<S::SerializeMap, S::Error> {
    let mut out = to.serialize_map(None)?;
    out.serialize_entry("role", role)?;
    Ok(out)
}

fn put<M, T>(out: &mut M, name: &'static str, value: Option<&T>) -> Result<(), M::Error>
where
    M: SerializeMap,
    T: Serialize + ?Sized,
{
    value.map_or(Ok(()), |value| out.serialize_entry(name, value))
}

fn close_message<M: SerializeMap>(
    mut out: M,
    role: &str,
    attributes: &Attributes,
    unknown: &Attributes,
) -> Result<M::Ok, M::Error> {
    if !attributes.is_empty() {
        bounded(attributes).map_err(M::Error::custom)?;
        out.serialize_entry("attributes", attributes)?;
    }
    let known = fields_of(role);
    let taken = if is_known(role) { known } else { check::beside(role, attributes) };
    close(out, unknown, Some("role"), taken)
}

/// Writes the fields that this version does not know. One with the name of a known field could not
/// be read again. No reader makes such a field, so the error is for the author of the code that
/// did.
fn close<M: SerializeMap>(
    mut out: M,
    extra: &Attributes,
    tag: Option<&str>,
    taken: &[&str],
) -> Result<M::Ok, M::Error> {
    check::free(extra, tag, taken).map_err(M::Error::custom)?;
    extra.iter().try_for_each(|(name, value)| out.serialize_entry(name, value))?;
    out.end()
}

/// Writes the parts of an answer. If they are in the order reasoning, content, calls, each has a
/// field of its own. Any other order is written as a content that holds them all; but if leading
/// reasoning or a trailing call has a `type` of its own, those keep their fields, and the content
/// holds the parts in between.
fn put_parts<M: SerializeMap>(out: &mut M, parts: &[AiPart]) -> Result<(), M::Error> {
    let order = Order::of(parts);
    if !order.is_plain() && !order.has_types() {
        return out.serialize_entry("content", parts);
    }
    put_listed(out, "reasoning", order.reasoning)?;
    if order.is_plain() {
        put_listed(out, "content", order.between)?;
    } else {
        out.serialize_entry("content", order.between)?;
    }
    put_listed(out, "tool_calls", order.calls)
}

fn put_listed<M: SerializeMap>(
    out: &mut M,
    name: &'static str,
    list: &[AiPart],
) -> Result<(), M::Error> {
    put(out, name, Some(&Listed(list)).filter(|_| !list.is_empty()))
}

/// Parts of one kind in the field for them: a single bare text is written as a string.
struct Listed<'a>(&'a [AiPart]);

/// A part whose place shows its kind: without a `type`.
struct Untagged<'a>(&'a AiPart);

impl Serialize for Listed<'_> {
    fn serialize<S: Serializer>(&self, to: S) -> Result<S::Ok, S::Error> {
        match self.0 {
            [
                AiPart::Reasoning(Reasoning { text, signature: None, extra })
                | AiPart::Content(Part::Text(TextPart { text, extra })),
            ] if extra.is_empty() => to.serialize_str(text),
            parts => to.collect_seq(parts.iter().map(Untagged)),
        }
    }
}

impl Serialize for Untagged<'_> {
    fn serialize<S: Serializer>(&self, to: S) -> Result<S::Ok, S::Error> {
        match self.0 {
            AiPart::Content(_) => self.0.serialize(to),
            AiPart::Reasoning(reasoning) => write_reasoning(reasoning, None, to),
            AiPart::ToolCall(call) => write_call(call, None, to),
        }
    }
}

/// Writes a part among parts of these kinds.
fn write_part<S: Serializer>(part: &Part, known: &[&str], to: S) -> Result<S::Ok, S::Error> {
    match part {
        Part::Text(it) => write_texts(to, Some("text"), TEXT, [Some(&it.text)], &it.extra),
        Part::Image(it) | Part::Audio(it) | Part::Video(it) | Part::File(it) => {
            write_media(it, Some(part.kind()), to)
        }
        Part::Other(other) => {
            other.may_stand_among(known).map_err(S::Error::custom)?;
            let mut out = to.serialize_map(None)?;
            out.serialize_entry("type", other.kind())?;
            let mut others = other.fields().iter().filter(|(name, _)| *name != "type");
            others.try_for_each(|(name, value)| out.serialize_entry(name, value))?;
            out.end()
        }
    }
}

fn write_media<S: Serializer>(it: &Media, kind: Option<&str>, to: S) -> Result<S::Ok, S::Error> {
    let mut out = to.serialize_map(None)?;
    put(&mut out, "type", kind)?;
    match &it.source {
        Source::Url(url) => put(&mut out, "url", Some(url))?,
        Source::Base64(data) => put(&mut out, "data", Some(data))?,
        Source::FileId(id) => put(&mut out, "file_id", Some(id))?,
        Source::Reference(reference) => put(&mut out, "reference", Some(reference))?,
    }
    put(&mut out, "media_type", it.media_type.as_deref())?;
    put(&mut out, "name", it.name.as_deref())?;
    put(&mut out, "detail", it.detail.as_ref().map(Detail::as_str))?;
    close(out, &it.extra, kind.map(|_| "type"), &MEDIA)
}

fn write_reasoning<S>(it: &Reasoning, kind: Option<&str>, to: S) -> Result<S::Ok, S::Error>
where
    S: Serializer,
{
    write_texts(to, kind, REASONING, [Some(&it.text), it.signature.as_deref()], &it.extra)
}

fn write_call<S: Serializer>(it: &ToolCall, kind: Option<&str>, to: S) -> Result<S::Ok, S::Error> {
    let texts = [Some(&*it.id), Some(&*it.name), Some(&*it.arguments), it.signature.as_deref()];
    write_texts(to, kind, CALL, texts, &it.extra)
}

/// Writes an object whose known fields are texts.
fn write_texts<S: Serializer, const N: usize>(
    to: S,
    kind: Option<&str>,
    names: [&'static str; N],
    texts: [Option<&str>; N],
    extra: &Attributes,
) -> Result<S::Ok, S::Error> {
    let mut out = to.serialize_map(None)?;
    put(&mut out, "type", kind)?;
    names.into_iter().zip(texts).try_for_each(|(name, text)| put(&mut out, name, text))?;
    close(out, extra, kind.map(|_| "type"), &names)
}
