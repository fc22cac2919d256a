//! The rare fields of messages, kept behind one pointer.

use std::sync::LazyLock;

use serde_json::{Map, Value};

/// JSON data that the application or a provider attached to a message.
pub type Attributes = Map<String, Value>;

/// The rare fields that every kind of message shares.
#[derive(Clone, Debug, Default, PartialEq, Eq, Hash)]
pub(crate) struct Details {
    pub(crate) name: Option<String>,
    pub(crate) attributes: Attributes,
    /// Fields that this version does not know: read, kept and written again.
    pub(crate) unknown: Attributes,
}

/// `None` stands for details without content, so that equal messages are equal.
pub(crate) type Rare = Option<Box<Details>>;

impl Details {
    pub(crate) fn into_rare(self) -> Rare {
        let empty = self.name.is_none() && self.attributes.is_empty() && self.unknown.is_empty();
        (!empty).then(|| Box::new(self))
    }
}

/// The levels that an attribute or an unknown field may be nested. `serde_json` reads 128 levels;
/// this leaves room for the message and the envelope around it, so that what can be written can be
/// read again.
const MAX_DEPTH: usize = 100;

fn fits(value: &Value, levels: usize) -> bool {
    match value {
        Value::Array(list) => levels > 0 && list.iter().all(|v| fits(v, levels - 1)),
        Value::Object(map) => levels > 0 && map.values().all(|v| fits(v, levels - 1)),
        _ => true,
    }
}

/// Returns whether all of a document is so shallow that any part of it may be kept in a message.
pub(crate) fn is_shallow(document: &Value) -> bool {
    fits(document, MAX_DEPTH)
}

/// Refuses data that could be written but not read again.
pub(crate) fn bounded(fields: &Attributes) -> Result<(), String> {
    let fits = fields.values().all(|value| fits(value, MAX_DEPTH));
    if fits { Ok(()) } else { Err(format!("a field is nested deeper than {MAX_DEPTH} levels")) }
}

pub(crate) fn name(rare: &Rare) -> Option<&str> {
    rare.as_ref()?.name.as_deref()
}

pub(crate) fn attributes(rare: &Rare) -> &Attributes {
    rare.as_ref().map_or(&EMPTY, |d| &d.attributes)
}

pub(crate) fn unknown(rare: &Rare) -> &Attributes {
    rare.as_ref().map_or(&EMPTY, |d| &d.unknown)
}

pub(crate) fn edit(rare: &mut Rare) -> &mut Details {
    rare.get_or_insert_default()
}

/// The attributes that a message without details lends out.
static EMPTY: LazyLock<Attributes> = LazyLock::new(Attributes::new);
