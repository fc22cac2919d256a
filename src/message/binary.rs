//! serde for messages: which shape they have in which format, and the compact shape.
//!
//! Formats that serde calls human-readable get the shape in `json`. All others (bincode, postcard)
//! get the shapes below, which read nothing but what they wrote:
//!
//! - Every field is always written, in this order; lists carry their length, kinds are an index.
//! - Attributes and unknown fields are JSON text, because a format that is not self-describing can
//!   write a [`serde_json::Value`] but can't read one.
//!
//! These shapes never change, and neither do the indices: new kinds come last, and a new field is a
//! new version of the envelope in [`codec`](crate::codec).

use serde::{Deserialize, Deserializer, Serialize, Serializer, de};

use super::ai::Body;
use super::attributes::json_text;
use super::custom::CustomBody;
use super::json::{Check, Human, from_human};
use super::other::{OtherPart, PARTS};
use super::{
    AiMessage, AiPart, Content, CustomMessage, Detail, Media, Message, Part, Reasoning,
    SystemMessage, ToolCall, ToolMessage, UserMessage,
};

/// Types with two shapes.
macro_rules! both {
    ($($type:ident)*) => {$(
        impl Serialize for $type {
            fn serialize<S: Serializer>(&self, to: S) -> Result<S::Ok, S::Error> {
                if to.is_human_readable() { self.write(to) } else { compact::$type::serialize(self, to) }
            }
        }
        impl<'de> Deserialize<'de> for $type {
            fn deserialize<D: Deserializer<'de>>(from: D) -> Result<Self, D::Error> {
                if from.is_human_readable() {
                    return from_human(from);
                }
                let read = compact::$type::deserialize(from)?;
                read.check().map_err(de::Error::custom)?;
                Ok(read)
            }
        }
    )*};
}

both!(Message SystemMessage UserMessage AiMessage ToolMessage CustomMessage);
both!(Content Part AiPart Media Reasoning ToolCall);

impl Serialize for Detail {
    fn serialize<S: Serializer>(&self, to: S) -> Result<S::Ok, S::Error> {
        to.serialize_str(self.as_str())
    }
}

impl<'de> Deserialize<'de> for Detail {
    fn deserialize<D: Deserializer<'de>>(from: D) -> Result<Self, D::Error> {
        String::deserialize(from).map(Self::from)
    }
}

/// Mirrors of the types: the compiler checks that they have the same fields.
#[allow(clippy::struct_field_names)] // the names are those of the types
mod compact {
    use super::{json_text, normal_body, normal_custom, other_part};
    use crate::message as m;
    use crate::message::ai::Body;
    use crate::message::attributes::Attributes;
    use crate::message::details::{Details, normal_details};
    use crate::message::{custom, tool};
    use serde::{Deserialize, Serialize};

    #[derive(Serialize, Deserialize)]
    #[serde(remote = "m::Message")]
    pub(super) enum Message {
        System(m::SystemMessage),
        User(m::UserMessage),
        Ai(m::AiMessage),
        Tool(m::ToolMessage),
        Custom(m::CustomMessage),
    }

    #[derive(Serialize, Deserialize)]
    #[serde(remote = "m::SystemMessage")]
    pub(super) struct SystemMessage {
        text: String,
        #[serde(deserialize_with = "normal_details")]
        details: Details,
    }

    #[derive(Serialize, Deserialize)]
    #[serde(remote = "m::UserMessage")]
    pub(super) struct UserMessage {
        content: m::Content,
        #[serde(deserialize_with = "normal_details")]
        details: Details,
    }

    #[derive(Serialize, Deserialize)]
    #[serde(remote = "m::AiMessage")]
    pub(super) struct AiMessage {
        #[serde(deserialize_with = "normal_body")]
        body: Body,
        #[serde(deserialize_with = "normal_details")]
        details: Details,
    }

    #[derive(Serialize, Deserialize)]
    #[serde(remote = "m::ToolMessage")]
    pub(super) struct ToolMessage {
        content: m::Content,
        answer: Box<tool::Answer>,
    }

    #[derive(Serialize, Deserialize)]
    #[serde(remote = "m::CustomMessage")]
    pub(super) struct CustomMessage {
        #[serde(deserialize_with = "normal_custom")]
        body: Box<custom::CustomBody>,
    }

    #[derive(Serialize, Deserialize)]
    #[serde(remote = "m::Content")]
    pub(super) enum Content {
        Text(String),
        Parts(Box<[m::Part]>),
    }

    #[derive(Serialize, Deserialize)]
    #[serde(remote = "m::AiPart")]
    pub(super) enum AiPart {
        Content(m::Part),
        Reasoning(m::Reasoning),
        ToolCall(m::ToolCall),
    }

    #[derive(Serialize, Deserialize)]
    #[serde(remote = "m::Part")]
    pub(super) enum Part {
        Text(#[serde(with = "TextPart")] m::TextPart),
        Image(m::Media),
        Audio(m::Media),
        Video(m::Media),
        File(m::Media),
        Other(#[serde(with = "other_part")] m::OtherPart),
    }

    #[derive(Serialize, Deserialize)]
    #[serde(remote = "m::TextPart")]
    pub(super) struct TextPart {
        text: String,
        #[serde(with = "json_text")]
        extra: Attributes,
    }

    #[derive(Serialize, Deserialize)]
    #[serde(remote = "m::Media")]
    pub(super) struct Media {
        #[serde(with = "Source")]
        source: m::Source,
        media_type: Option<String>,
        name: Option<String>,
        detail: Option<m::Detail>,
        #[serde(with = "json_text")]
        extra: Attributes,
    }

    #[derive(Serialize, Deserialize)]
    #[serde(remote = "m::Source")]
    pub(super) enum Source {
        Url(String),
        Base64(String),
        FileId(String),
        Reference(m::MediaReference),
    }

    #[derive(Serialize, Deserialize)]
    #[serde(remote = "m::Reasoning")]
    pub(super) struct Reasoning {
        text: String,
        signature: Option<String>,
        #[serde(with = "json_text")]
        extra: Attributes,
    }

    #[derive(Serialize, Deserialize)]
    #[serde(remote = "m::ToolCall")]
    pub(super) struct ToolCall {
        id: String,
        name: String,
        arguments: String,
        signature: Option<String>,
        #[serde(with = "json_text")]
        extra: Attributes,
    }
}

/// A part of an unknown kind as the JSON text of its fields.
mod other_part {
    use super::{Deserializer, OtherPart, PARTS, Serializer, de, json_text};

    pub(super) fn serialize<S: Serializer>(part: &OtherPart, to: S) -> Result<S::Ok, S::Error> {
        json_text::serialize(part.fields(), to)
    }

    pub(super) fn deserialize<'de, D: Deserializer<'de>>(from: D) -> Result<OtherPart, D::Error> {
        OtherPart::among(&PARTS, json_text::deserialize(from)?).map_err(de::Error::custom)
    }
}

// These types keep their promises for damaged bytes too.

fn normal_custom<'de, D: Deserializer<'de>>(from: D) -> Result<Box<CustomBody>, D::Error> {
    CustomBody::deserialize(from).map(|body| Box::new(body.normal()))
}

fn normal_body<'de, D: Deserializer<'de>>(from: D) -> Result<Body, D::Error> {
    Ok(match Body::deserialize(from)? {
        Body::Text(text) => Body::Text(text),
        Body::Parts(parts) => Body::normal(parts.into_vec()),
    })
}
