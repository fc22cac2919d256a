//! The envelope of JSON, read field by field, so that every error says what is wrong and none says
//! what was said.

use std::fmt;

use serde::de::value::SeqAccessDeserializer;
use serde::de::{Deserialize, Deserializer, Error, IgnoredAny, MapAccess, SeqAccess, Visitor};

use crate::message::{Message, refuse};

/// The fields of an envelope, as far as this version knows them.
#[derive(Default)]
pub(super) struct Envelope {
    pub(super) v: Option<u64>,
    pub(super) message: Option<Message>,
    pub(super) messages: Option<Vec<Message>>,
}

/// The version alone, of an envelope that may hold anything.
pub(super) struct Version(pub(super) Option<u64>);

#[derive(serde::Deserialize)]
#[serde(field_identifier, rename_all = "lowercase")]
enum Field {
    V,
    Message,
    Messages,
    #[serde(other)]
    Other,
}

impl<'de> Deserialize<'de> for Envelope {
    fn deserialize<D: Deserializer<'de>>(from: D) -> Result<Self, D::Error> {
        from.deserialize_any(Fields { version_alone: false })
    }
}

impl<'de> Deserialize<'de> for Version {
    fn deserialize<D: Deserializer<'de>>(from: D) -> Result<Self, D::Error> {
        from.deserialize_any(Fields { version_alone: true }).map(|envelope| Self(envelope.v))
    }
}

struct Fields {
    version_alone: bool,
}

impl<'de> Visitor<'de> for Fields {
    type Value = Envelope;

    fn expecting(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("an envelope")
    }
    fn visit_map<A: MapAccess<'de>>(self, mut map: A) -> Result<Envelope, A::Error> {
        let mut read = Envelope::default();
        let mut seen = [false; 3];
        while let Some(field) = map.next_key::<Field>()? {
            let place = match field {
                Field::V => 0,
                Field::Message if !self.version_alone => 1,
                Field::Messages if !self.version_alone => 2,
                _ => {
                    map.next_value::<IgnoredAny>()?;
                    continue;
                }
            };
            if std::mem::replace(&mut seen[place], true) {
                let name = ["v", "message", "messages"][place];
                return Err(Error::custom(format_args!("duplicate field `{name}`")));
            }
            match place {
                0 => read.v = Some(map.next_value::<Number>()?.0),
                1 => read.message = map.next_value()?,
                _ => read.messages = map.next_value::<List>()?.0,
            }
        }
        Ok(read)
    }
    refuse!(bool number text bytes null list);
}

impl Fields {
    #[allow(clippy::unused_self)] // visitors of other things know what they stand for
    fn refuse<E: Error>(&self, kind: &str) -> E {
        E::custom(format_args!("an envelope is an object, and this is {kind}"))
    }
}

/// The number of a version.
struct Number(u64);

impl<'de> Deserialize<'de> for Number {
    fn deserialize<D: Deserializer<'de>>(from: D) -> Result<Self, D::Error> {
        from.deserialize_any(NumberVisitor).map(Self)
    }
}

struct NumberVisitor;

impl<'de> Visitor<'de> for NumberVisitor {
    type Value = u64;

    fn expecting(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("the number of a version")
    }
    fn visit_u64<E>(self, number: u64) -> Result<u64, E> {
        Ok(number)
    }
    refuse!(bool odd_number text bytes null list object);
}

impl NumberVisitor {
    #[allow(clippy::unused_self)] // as above
    fn refuse<E: Error>(&self, kind: &str) -> E {
        E::custom(format_args!("`v` must be the number of a version (1, 2, ..), and is {kind}"))
    }
}

/// A list of messages, or null.
struct List(Option<Vec<Message>>);

impl<'de> Deserialize<'de> for List {
    fn deserialize<D: Deserializer<'de>>(from: D) -> Result<Self, D::Error> {
        from.deserialize_any(ListVisitor).map(Self)
    }
}

struct ListVisitor;

impl<'de> Visitor<'de> for ListVisitor {
    type Value = Option<Vec<Message>>;

    fn expecting(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("a list of messages")
    }
    fn visit_seq<A: SeqAccess<'de>>(self, list: A) -> Result<Self::Value, A::Error> {
        Vec::deserialize(SeqAccessDeserializer::new(list)).map(Some)
    }
    fn visit_unit<E>(self) -> Result<Self::Value, E> {
        Ok(None)
    }
    refuse!(bool number text bytes object);
}

impl ListVisitor {
    #[allow(clippy::unused_self)] // as above
    fn refuse<E: Error>(&self, kind: &str) -> E {
        E::custom(format_args!("`messages` must be a list, and is {kind}"))
    }
}
