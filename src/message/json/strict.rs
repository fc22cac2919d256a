//! Reads a [`Value`] from any human-readable format, and refuses an object in which a name occurs
//! twice, since readers differ in what they make of that.

use std::fmt;

use serde::de::{DeserializeSeed, Deserializer, Error, MapAccess, SeqAccess, Visitor};
use serde_json::Value;

use crate::error::Result;
use crate::message::Attributes;

/// Reads a value, and hands it to a function. The function runs where the value ends, so that a
/// format that knows the place puts it into the error.
pub(super) struct Strict<F>(pub(super) F);

impl<'de, T, F: FnOnce(Value) -> Result<T>> DeserializeSeed<'de> for Strict<F> {
    type Value = T;

    fn deserialize<D: Deserializer<'de>>(self, from: D) -> Result<T, D::Error> {
        from.deserialize_any(self)
    }
}

macro_rules! visit {
    ($($visit:ident($type:ty))*) => {$(
        fn $visit<E: Error>(self, value: $type) -> Result<T, E> {
            (self.0)(value.into()).map_err(E::custom)
        }
    )*};
}

impl<'de, T, F: FnOnce(Value) -> Result<T>> Visitor<'de> for Strict<F> {
    type Value = T;

    fn expecting(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("anything that JSON can say")
    }

    visit!(visit_bool(bool) visit_i64(i64) visit_u64(u64) visit_f64(f64));
    visit!(visit_str(&str) visit_string(String));

    fn visit_unit<E: Error>(self) -> Result<T, E> {
        (self.0)(Value::Null).map_err(E::custom)
    }

    fn visit_none<E: Error>(self) -> Result<T, E> {
        self.visit_unit()
    }

    fn visit_some<D: Deserializer<'de>>(self, from: D) -> Result<T, D::Error> {
        self.deserialize(from)
    }

    fn visit_seq<A: SeqAccess<'de>>(self, mut from: A) -> Result<T, A::Error> {
        let mut list = Vec::new();
        while let Some(value) = from.next_element_seed(Strict(Ok))? {
            list.push(value);
        }
        (self.0)(list.into()).map_err(A::Error::custom)
    }

    fn visit_map<A: MapAccess<'de>>(self, mut from: A) -> Result<T, A::Error> {
        let mut map = Attributes::new();
        while let Some(key) = from.next_key_seed(Strict(Ok))? {
            // A name may be part of a conversation, and is not quoted.
            let Value::String(key) = key else {
                return Err(A::Error::custom("the name of a field must be a text"));
            };
            if map.insert(key, from.next_value_seed(Strict(Ok))?).is_some() {
                return Err(A::Error::custom("a field stands there twice"));
            }
        }
        (self.0)(map.into()).map_err(A::Error::custom)
    }

    crate::message::refuse!(bytes);
}
