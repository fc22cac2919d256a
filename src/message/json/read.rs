//! Reads messages from human-readable formats.

use serde::Deserialize;
use serde::de::{DeserializeSeed, Deserializer};
use serde_json::Value;

use super::fields::{At, Fields, TextOrList, text_or_list};
use super::strict::Strict;
use crate::error::Result;
use crate::message::ai::Body;
use crate::message::attributes::{Attributes, bounded};
use crate::message::custom::{CustomBody, are_attributes};
use crate::message::details::{DetailFields, Details};
use crate::message::other::{OtherPart, PARTS};
use crate::message::tool::Answer;
use crate::message::{
    AiMessage, AiPart, Content, CustomMessage, Detail, Media, MediaReference, Message, Part,
    Reasoning, Source, SystemMessage, TextPart, ToolCall, ToolMessage, UserMessage,
};

/// Reads anything from a human-readable format.
pub(in crate::message) fn from_human<'de, T, D>(from: D) -> Result<T, D::Error>
where
    T: FromValue,
    D: Deserializer<'de>,
{
    Strict(|value| T::read(value, At::top(T::NAME))).deserialize(from)
}

pub(in crate::message) trait FromValue: Sized {
    /// The name of it in errors.
    const NAME: &'static str;

    fn read(value: Value, at: At) -> Result<Self>;
}

impl FromValue for Content {
    const NAME: &'static str = "content";

    fn read(value: Value, at: At) -> Result<Self> {
        text_or_list(value, at, Part::read).map(Self::from)
    }
}

macro_rules! from_fields {
    ($($type:ty, $name:literal: |$fields:ident| $read:expr;)*) => {$(
        impl FromValue for $type {
            const NAME: &'static str = $name;

            fn read(value: Value, at: At) -> Result<Self> {
                let $fields = Fields::of(value, at)?;
                $read
            }
        }
    )*};
}

from_fields! {
    Message, "message": |fields| message(fields);
    Media, "media": |fields| media(fields);
    Reasoning, "reasoning": |fields| reasoning(fields);
    ToolCall, "tool call": |fields| call(fields);
    Part, "part": |fields| {
        let mut fields = fields;
        let kind = fields.required_text("type")?;
        part(&kind, fields)
    };
    AiPart, "part": |fields| {
        let mut fields = fields;
        match &*fields.required_text("type")? {
            "reasoning" => reasoning(fields).map(Self::Reasoning),
            "tool_call" => call(fields).map(Self::ToolCall),
            kind => part(kind, fields).map(Self::Content),
        }
    };
}

macro_rules! one_kind {
    ($($kind:ident($type:ident)),*) => {from_fields! {$(
        $type, "message": |fields| {
            let at = fields.at;
            match message(fields)? {
                Message::$kind(message) => Ok(message),
                _ => Err(at.key("role").error(concat!("not that of an `", stringify!($type), "`"))),
            }
        };
    )*}};
}
one_kind!(
    System(SystemMessage),
    User(UserMessage),
    Ai(AiMessage),
    Tool(ToolMessage),
    Custom(CustomMessage)
);

// ---- parts --------------------------------------------------------------------------------------

/// Returns the fields that are not known.
fn extra(fields: Fields) -> Result<Attributes> {
    let at = fields.at;
    let extra = fields.whole();
    bounded(&extra).map_err(|why| at.error(why))?;
    Ok(extra)
}

fn media(mut fields: Fields) -> Result<Media> {
    let named = [
        fields.text("url")?.map(Source::Url),
        fields.text("data")?.map(Source::Base64),
        fields.text("file_id")?.map(Source::FileId),
        fields.take("reference").map(|it| reference(it, fields.at)).transpose()?,
    ];
    let mut sources = named.into_iter().flatten();
    let source = match (sources.next(), sources.next()) {
        (Some(source), None) => source,
        (first, _) => {
            let number = if first.is_none() { "none" } else { "more than one" };
            let text = format_args!("{number} of `url`, `data`, `file_id`, `reference`");
            return Err(fields.at.error(text));
        }
    };
    Ok(Media {
        source,
        media_type: fields.text("media_type")?,
        name: fields.text("name")?,
        detail: fields.text("detail")?.map(Detail::from),
        extra: extra(fields)?,
    })
}

fn reference(value: Value, at: At) -> Result<Source> {
    // serde's error would quote the wrong value.
    let read = MediaReference::deserialize(value).map(Source::Reference);
    read.map_err(|_| at.key("reference").error("`sha256` and `size` belong here, and `picture`"))
}

fn reasoning(mut fields: Fields) -> Result<Reasoning> {
    Ok(Reasoning {
        text: fields.required_text("text")?,
        signature: fields.text("signature")?,
        extra: extra(fields)?,
    })
}

fn call(mut fields: Fields) -> Result<ToolCall> {
    Ok(ToolCall {
        id: fields.required_text("id")?,
        name: fields.required_text("name")?,
        arguments: fields.required_text("arguments")?,
        signature: fields.text("signature")?,
        extra: extra(fields)?,
    })
}

fn part(kind: &str, mut fields: Fields) -> Result<Part> {
    Ok(match kind {
        "text" => {
            let text = fields.required_text("text")?;
            Part::Text(TextPart { text, extra: extra(fields)? })
        }
        "image" | "audio" | "video" | "file" => Part::of_kind(kind, media(fields)?),
        _ => {
            let at = fields.at;
            fields.put("type", kind);
            Part::Other(OtherPart::among(&PARTS, fields.whole()).map_err(|why| at.error(why))?)
        }
    })
}

// ---- messages -----------------------------------------------------------------------------------

fn message(mut fields: Fields) -> Result<Message> {
    let role = fields.required_text("role")?;
    Ok(match &*role {
        "system" => {
            let text = fields.required_text("content")?;
            SystemMessage { text, details: named(fields)? }.into()
        }
        "user" => {
            let content = fields.content("content", Part::read)?;
            UserMessage { content, details: named(fields)? }.into()
        }
        "assistant" | "ai" => {
            let body = body(&mut fields)?;
            AiMessage { body, details: named(fields)? }.into()
        }
        "tool" => {
            let content = fields.content("content", Part::read)?;
            let answer = Answer {
                call_id: fields.required_text("tool_call_id")?,
                tool_name: fields.text("name")?.unwrap_or_default(),
                is_error: fields.flag("is_error")?,
                details: details(None, fields)?,
            };
            ToolMessage { content, answer: Box::new(answer) }.into()
        }
        _ => {
            let has_attributes = fields.get("attributes").is_some_and(are_attributes);
            let attributes = if role == "custom" || has_attributes {
                attributes(&mut fields)?
            } else {
                Attributes::new() // what else bears that name is not known
            };
            let unknown = extra(fields)?;
            CustomMessage { body: Box::new(CustomBody { role, attributes, unknown }) }.into()
        }
    })
}

/// Returns an answer from whichever of its three fields are present.
fn body(fields: &mut Fields) -> Result<Body> {
    if ["reasoning", "content", "tool_calls"].iter().all(|name| fields.get(name).is_none()) {
        return Err(fields.at.key("content").error("missing"));
    }
    let mut parts = match fields.text_or_list("reasoning", Reasoning::read)? {
        TextOrList::Text(text) => vec![Reasoning::new(text).into()],
        TextOrList::List(list) => list.into_iter().map(AiPart::from).collect(),
    };
    match fields.text_or_list("content", AiPart::read)? {
        TextOrList::Text(text) => parts.push(Part::text(text).into()),
        TextOrList::List(list) => parts.extend(list),
    }
    parts.extend(fields.each("tool_calls", ToolCall::read)?.into_iter().map(AiPart::from));
    Ok(Body::normal(parts))
}

fn named(mut fields: Fields) -> Result<Details> {
    details(fields.text("name")?, fields)
}

fn details(name: Option<String>, mut fields: Fields) -> Result<Details> {
    let attributes = attributes(&mut fields)?;
    Ok(DetailFields { name, attributes, unknown: extra(fields)? }.boxed())
}

fn attributes(fields: &mut Fields) -> Result<Attributes> {
    fields.object("attributes")?.map_or(Ok(Attributes::new()), extra)
}
