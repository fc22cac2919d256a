//! A part of a kind that this version does not know.

use serde_json::Value;

use super::attributes::{Attributes, bounded};
use crate::error::{Error, Result};

/// A part of a kind that this version does not know, kept as it was read: all of its fields, `type`
/// included.
///
/// Every such part can be written: its `type` is a text, and not that of a part with a variant of
/// its own.
///
/// ```
/// use memory_prompt::message::{Attributes, OtherPart, Part};
/// use serde_json::json;
///
/// let widget: Attributes = serde_json::from_value(json!({"type": "widget", "size": 3}))?;
/// let part = Part::Other(OtherPart::new(widget)?);
/// assert_eq!(serde_json::to_value(&part)?, json!({"type": "widget", "size": 3}));
///
/// let error = OtherPart::new(Attributes::new()).unwrap_err();
/// assert_eq!(error.to_string(), "part: missing field `type`");
/// # Ok::<(), Box<dyn std::error::Error>>(())
/// ```
#[derive(Clone, Debug, PartialEq, Eq, Hash)]
pub struct OtherPart(Attributes);

/// The types of the parts of a content, which have variants of their own.
pub(super) const PARTS: [&str; 5] = ["text", "image", "audio", "video", "file"];

/// The types of the parts of an answer.
pub(super) const AI_PARTS: [&str; 7] =
    ["text", "image", "audio", "video", "file", "reasoning", "tool_call"];

impl OtherPart {
    /// Returns the part with these fields, one of which is its `type`.
    ///
    /// # Errors
    ///
    /// [`ErrorKind::Invalid`](crate::ErrorKind::Invalid) if `type` is missing, is not a text or is
    /// the type of a known part (`text`, `image`, `audio`, `video`, `file`, `reasoning`,
    /// `tool_call`), and if a field is nested deeper than 100 levels.
    pub fn new(fields: Attributes) -> Result<Self> {
        Self::among(&AI_PARTS, fields)
            .map_err(|text| Error::invalid("part", text.strip_prefix("part: ").unwrap_or(&text)))
    }

    /// Returns the part with these fields, which were among parts of these known types.
    pub(super) fn among(known: &[&str], fields: Attributes) -> Result<Self, String> {
        let part = Self(fields);
        let Some(kind) = part.0.get("type") else {
            return Err("part: missing field `type`".to_owned());
        };
        if !kind.is_string() {
            return Err("part: `type` must be a text".to_owned());
        }
        part.may_stand_among(known)?;
        Ok(part)
    }

    /// Refuses a part that has one of these known types, or is nested too deep to be read again.
    pub(super) fn may_stand_among(&self, known: &[&str]) -> Result<(), String> {
        if let Some(kind) = known.iter().find(|known| **known == self.kind()) {
            return Err(format!("part: `{kind}` is the type of a known part"));
        }
        bounded(&self.0)
    }

    /// Returns the part that keeps what only `format` understands.
    pub(crate) fn of(format: &'static str, mut fields: Attributes) -> Self {
        fields.insert("type".to_owned(), Value::from(format));
        Self(fields)
    }

    /// Returns the `type`.
    pub fn kind(&self) -> &str {
        self.0.get("type").and_then(Value::as_str).unwrap_or_default()
    }

    /// Returns all fields, `type` included.
    pub fn fields(&self) -> &Attributes {
        &self.0
    }

    /// Returns all fields, `type` included.
    pub fn into_fields(self) -> Attributes {
        self.0
    }
}

impl TryFrom<Attributes> for OtherPart {
    type Error = Error;

    fn try_from(fields: Attributes) -> Result<Self> {
        Self::new(fields)
    }
}
