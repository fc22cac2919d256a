//! The fields that few messages have, kept behind one pointer.

use std::sync::LazyLock;

use serde::de::{Deserialize, Deserializer, Error};

use super::attributes::{Attributes, json_text};

/// The fields that any kind of message may have, and few messages do.
#[derive(Clone, Debug, Default, PartialEq, Eq, Hash, serde::Serialize, serde::Deserialize)]
pub(crate) struct DetailFields {
    pub(crate) name: Option<String>,
    #[serde(with = "json_text")]
    pub(crate) attributes: Attributes,
    /// Fields that this version does not know, kept and written again.
    #[serde(with = "json_text")]
    pub(crate) unknown: Attributes,
}

/// The details of a message. `None` means that they are empty, so that equal messages are equal.
pub(crate) type Details = Option<Box<DetailFields>>;

impl DetailFields {
    pub(crate) fn boxed(self) -> Details {
        let empty = self.name.is_none() && self.attributes.is_empty() && self.unknown.is_empty();
        (!empty).then(|| Box::new(self))
    }
}

pub(crate) fn attributes(details: &Details) -> &Attributes {
    details.as_ref().map_or(&EMPTY, |it| &it.attributes)
}

pub(crate) fn unknown(details: &Details) -> &Attributes {
    details.as_ref().map_or(&EMPTY, |it| &it.unknown)
}

/// The attributes that a message without details lends out.
static EMPTY: LazyLock<Attributes> = LazyLock::new(Attributes::new);

/// Reads details in their normal form, which damaged bytes need not have: none if all is empty.
pub(super) fn normal_details<'de, D: Deserializer<'de>>(from: D) -> Result<Details, D::Error> {
    Ok(Details::deserialize(from)?.and_then(|details| details.boxed()))
}

/// Reads the details of a tool message, which is named by its tool and has no other name.
pub(super) fn nameless_details<'de, D: Deserializer<'de>>(from: D) -> Result<Details, D::Error> {
    let details = normal_details(from)?;
    if details.as_ref().is_some_and(|details| details.name.is_some()) {
        return Err(D::Error::custom("tool: a name beside that of the tool"));
    }
    Ok(details)
}

/// Gives a kind of message its attributes, and its name if it may have one.
macro_rules! detailed {
    ($type:ident, $($details:ident).+) => {
        impl $type {
            /// Returns the same message with one more attribute. Attributes belong to the
            /// application and are never sent to a provider. (What only one wire format understands
            /// is kept under its name, `wire:…`.)
            #[must_use]
            pub fn with_attribute(
                mut self,
                key: impl Into<String>,
                value: impl Into<serde_json::Value>,
            ) -> Self {
                let details = self.$($details).+.get_or_insert_default();
                details.attributes.insert(key.into(), value.into());
                self
            }

            /// Returns the attributes; empty unless some were given.
            pub fn attributes(&self) -> &Attributes {
                $crate::message::details::attributes(&self.$($details).+)
            }
        }
    };
    (named $type:ident, $details:ident) => {
        detailed!($type, $details);

        impl $type {
            /// Returns the same message under a name, for example that of one of several users.
            #[must_use]
            pub fn with_name(mut self, name: impl Into<String>) -> Self {
                self.$details.get_or_insert_default().name = Some(name.into());
                self
            }

            /// Returns the name, if one was given.
            pub fn name(&self) -> Option<&str> {
                self.$details.as_ref()?.name.as_deref()
            }
        }
    };
}
pub(super) use detailed;
