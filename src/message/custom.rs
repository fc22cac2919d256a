//! The application's own messages, and those of roles that this version does not know.

use serde_json::Value;

use super::details::Attributes;

/// A message that consists of attributes.
///
/// What is read with a role that this version does not know becomes one of these, with the role and
/// every field kept, and is written again as it was.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct CustomMessage {
    pub(crate) body: Box<CustomBody>,
}

#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) struct CustomBody {
    /// The role in JSON; `custom` unless it was read.
    pub(crate) role: String,
    pub(crate) attributes: Attributes,
    /// Fields beside `role` and `attributes`.
    pub(crate) unknown: Attributes,
}

/// Nobody knows what a field `attributes` stands for in an unknown role: a map with something in it
/// is taken for attributes, all else is a field like any other.
pub(crate) fn are_attributes(value: &Value) -> bool {
    value.as_object().is_some_and(|map| !map.is_empty())
}

impl CustomBody {
    /// With its attributes where they are when it is written and read again.
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
    /// A message with these attributes.
    pub fn new(attributes: impl IntoIterator<Item = (String, Value)>) -> Self {
        Self {
            body: Box::new(CustomBody {
                role: "custom".to_owned(),
                attributes: attributes.into_iter().collect(),
                unknown: Attributes::new(),
            }),
        }
    }

    /// A message of a role that is not known, with all else that was read.
    pub(crate) fn of_role(role: String, unknown: Attributes) -> Self {
        let body = CustomBody { role, attributes: Attributes::new(), unknown };
        Self { body: Box::new(body.normal()) }
    }

    /// The role as JSON names it: `custom`, or the unknown role that was read.
    pub fn role(&self) -> &str {
        &self.body.role
    }

    /// The attributes.
    pub fn attributes(&self) -> &Attributes {
        &self.body.attributes
    }

    /// The fields that stood beside the attributes when a message of an unknown role was read.
    pub fn fields(&self) -> &Attributes {
        &self.body.unknown
    }
}
