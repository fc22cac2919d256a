//! JSON data attached to a message: how deep it may be, and its compact shape.

use serde_json::{Map, Value};

/// JSON data that the application or a provider attached to a message.
pub type Attributes = Map<String, Value>;

/// The levels that an attribute or an unknown field may be nested. `serde_json` reads 128 levels;
/// this leaves room for the message and the envelope around it, so that what can be written can be
/// read again.
const MAX_DEPTH: usize = 100;

type IsText = dyn Fn(&Attributes, &str) -> bool;

fn fits(value: &Value, levels: usize, is_text: &IsText) -> bool {
    let below = |value| fits(value, levels - 1, is_text);
    match value {
        Value::Array(list) => levels > 0 && list.iter().all(below),
        Value::Object(map) => {
            levels > 0 && map.iter().all(|(key, value)| is_text(map, key) || below(value))
        }
        _ => true,
    }
}

/// Returns whether a whole document is shallow enough that any part of it may be kept in a message,
/// apart from the fields that are kept as text.
pub(crate) fn is_shallow(document: &Value, is_text: &IsText) -> bool {
    fits(document, MAX_DEPTH, is_text)
}

/// Refuses data that could be written but not read again.
pub(crate) fn bounded(fields: &Attributes) -> Result<(), String> {
    let fits = fields.values().all(|value| fits(value, MAX_DEPTH, &|_, _| false));
    if fits { Ok(()) } else { Err(format!("a field is nested deeper than {MAX_DEPTH} levels")) }
}

/// Attributes in the compact shape, as JSON text: empty for an empty map, which is what nearly all
/// are.
pub(super) mod json_text {
    use serde::{Deserialize, Deserializer, Serializer, de, ser};

    use super::{Attributes, bounded};

    pub(in crate::message) fn serialize<S: Serializer>(
        map: &Attributes,
        to: S,
    ) -> Result<S::Ok, S::Error> {
        if map.is_empty() {
            return to.serialize_str("");
        }
        bounded(map).map_err(ser::Error::custom)?;
        to.serialize_str(&serde_json::to_string(map).map_err(ser::Error::custom)?)
    }

    pub(in crate::message) fn deserialize<'de, D>(from: D) -> Result<Attributes, D::Error>
    where
        D: Deserializer<'de>,
    {
        let text = String::deserialize(from)?;
        if text.is_empty() {
            return Ok(Attributes::new());
        }
        // The cause would quote what it found instead of an object.
        let map = serde_json::from_str(&text)
            .map_err(|_| de::Error::custom("extra fields that are no JSON object"))?;
        bounded(&map).map_err(de::Error::custom)?;
        Ok(map)
    }
}
