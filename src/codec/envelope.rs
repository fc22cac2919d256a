//! Reads the JSON envelope field by field, so that every error says what is wrong and none quotes a
//! message.

use std::fmt;

use serde::de::value::{MapAccessDeserializer, SeqAccessDeserializer};
use serde::de::{Deserialize, Deserializer, MapAccess, SeqAccess, Visitor};

use crate::message::{Message, refuse};

/// The fields of an envelope that this version knows.
#[derive(Default, serde::Deserialize)]
#[serde(default, remote = "Self")] // the derived reader is called by the one below
pub(super) struct Envelope {
    #[serde(deserialize_with = "number")]
    pub(super) v: Option<u64>,
    pub(super) message: Option<Message>,
    #[serde(deserialize_with = "list")]
    pub(super) messages: Option<Vec<Message>>,
}

/// Only the version of an envelope with any contents.
#[derive(serde::Deserialize)]
pub(super) struct Version {
    pub(super) v: u64,
}

impl<'de> Deserialize<'de> for Envelope {
    fn deserialize<D: Deserializer<'de>>(from: D) -> Result<Self, D::Error> {
        from.deserialize_any(EnvelopeVisitor)
    }
}

struct EnvelopeVisitor;

impl<'de> Visitor<'de> for EnvelopeVisitor {
    type Value = Envelope;

    fn expecting(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("an envelope must be an object")
    }
    fn visit_map<A: MapAccess<'de>>(self, map: A) -> Result<Envelope, A::Error> {
        Envelope::deserialize(MapAccessDeserializer::new(map))
    }
    refuse!(bool number text bytes null list);
}

fn number<'de, D: Deserializer<'de>>(from: D) -> Result<Option<u64>, D::Error> {
    from.deserialize_any(NumberVisitor).map(Some)
}

struct NumberVisitor;

impl<'de> Visitor<'de> for NumberVisitor {
    type Value = u64;

    fn expecting(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("`v` must be the number of a version (1, 2, ..)")
    }
    fn visit_u64<E>(self, number: u64) -> Result<u64, E> {
        Ok(number)
    }
    refuse!(bool odd_number text bytes null list object);
}

/// Reads the messages of an envelope; `None` for null.
fn list<'de, D: Deserializer<'de>>(from: D) -> Result<Option<Vec<Message>>, D::Error> {
    from.deserialize_any(ListVisitor)
}

struct ListVisitor;

impl<'de> Visitor<'de> for ListVisitor {
    type Value = Option<Vec<Message>>;

    fn expecting(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("`messages` must be a list")
    }
    fn visit_seq<A: SeqAccess<'de>>(self, list: A) -> Result<Self::Value, A::Error> {
        Vec::deserialize(SeqAccessDeserializer::new(list)).map(Some)
    }
    fn visit_unit<E>(self) -> Result<Self::Value, E> {
        Ok(None)
    }
    refuse!(bool number text bytes object);
}
