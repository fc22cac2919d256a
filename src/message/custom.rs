//! The application's own messages, and those of roles that this version does not know.

use serde_json::Value;

use super::attributes::{Attributes, json_text};
use super::fields::is_known;

/// The role of the application's own messages.
const ROLE: &str = "custom";

/// A message that consists of attributes.
///
/// A message that was read with a role that this version does not know becomes one of these. The
/// role and every field are kept, and are written again unchanged.
#[derive(Clone, Debug, PartialEq, Eq, Hash)]
pub struct CustomMessage {
    pub(crate) body: Box<CustomBody>,
}

// The derives are for the binary codec; JSON is read and written by hand.
#[derive(Clone, Debug, PartialEq, Eq, Hash, serde::Serialize, serde::Deserialize)]
pub(crate) struct CustomBody {
    /// The role in JSON; `custom` unless it was read.
    pub(crate) role: String,
    #[serde(with = "json_text")]
    pub(crate) attributes: Attributes,
    /// Fields other than `role` and `attributes`.
    #[serde(with = "json_text")]
    pub(crate) unknown: Attributes,
}

/// Returns whether a field `attributes` holds attributes. In an unknown role its meaning is
/// unknown: a map that is not empty is taken for attributes, and everything else is a field like
/// any other.
pub(crate) fn are_attributes(value: &Value) -> bool {
    value.as_object().is_some_and(|map| !map.is_empty())
}

impl CustomBody {
    /// Returns the body with its attributes where they are after it was written and read again.
    pub(crate) fn normal(mut self) -> Self {
        if self.attributes.is_empty()
            && self.unknown.get("attributes").is_some_and(are_attributes)
            && let Some(Value::Object(map)) = self.unknown.remove("attributes")
        {
            self.attributes = map;
        }
        self
    }
}

impl CustomMessage {
    /// Returns a message with these attributes.
    pub fn new(attributes: impl IntoIterator<Item = (String, Value)>) -> Self {
        let attributes = attributes.into_iter().collect();
        let body = CustomBody { role: ROLE.to_owned(), attributes, unknown: Attributes::new() };
        Self { body: Box::new(body) }
    }

    /// Returns a message of a role that another format does not know, with everything else that was
    /// read.
    ///
    /// Its role may be one that this crate knows with another meaning. Then all of it, role
    /// included, becomes the attributes of a message of the application.
    pub(crate) fn of_role(role: String, unknown: Attributes) -> Self {
        let body = CustomBody { role, attributes: Attributes::new(), unknown }.normal();
        let is_taken = body.role == "custom" && body.unknown.contains_key("attributes");
        if !is_taken && !is_known(&body.role) {
            return Self { body: Box::new(body) };
        }
        let CustomBody { role, attributes, unknown } = body;
        let fields = attributes.into_iter().chain(unknown);
        Self::new(fields.chain([("role".to_owned(), Value::String(role))]))
    }

    /// Returns whether this is a record of the application alone: a `custom` message without
    /// [`fields`](Self::fields), which is never sent to a provider.
    ///
    /// Such a record takes no place in a window or a budget, and separates nothing: see
    /// [`Report::private`](crate::Report::private). A window looks past 1,024 of them, and then the
    /// report says that it looked [no further](crate::Report::search_ended).
    pub fn is_private(&self) -> bool {
        self.body.unknown.is_empty() && self.body.role == ROLE
    }

    /// Returns the role as JSON names it: `custom`, or the unknown role that was read.
    pub fn role(&self) -> &str {
        &self.body.role
    }

    /// Returns the attributes.
    pub fn attributes(&self) -> &Attributes {
        &self.body.attributes
    }

    /// Returns the fields, other than attributes, of a message that was read with an unknown role.
    pub fn fields(&self) -> &Attributes {
        &self.body.unknown
    }
}
