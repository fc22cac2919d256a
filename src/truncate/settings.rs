//! Truncation in configuration files:
//! `{"limit": 800, "unit": "graphemes", "keep": "ends", "marker": " … ", "bounded": true}`.

use serde::de::{Deserialize, Deserializer, Error as _};
use serde::ser::{Error as _, Serialize, Serializer};

use super::Truncate;
use crate::text::{Keep, Unit};

/// The serialised form of a truncation; a processor is code and not part of it.
#[derive(serde::Serialize, serde::Deserialize)]
#[serde(deny_unknown_fields, expecting = "a truncation: an object with `limit`")]
struct Settings {
    limit: usize,
    #[serde(default, skip_serializing_if = "is_default")]
    unit: Unit,
    #[serde(default, skip_serializing_if = "is_default")]
    keep: Keep,
    #[serde(default, skip_serializing_if = "Option::is_none")]
    marker: Option<String>,
    #[serde(default, skip_serializing_if = "is_default")]
    bounded: bool,
    #[serde(default, skip_serializing_if = "is_default")]
    sparing_question: bool,
}

fn is_default<T: Default + PartialEq>(value: &T) -> bool {
    *value == T::default()
}

impl Serialize for Truncate {
    fn serialize<S: Serializer>(&self, to: S) -> Result<S::Ok, S::Error> {
        if self.has_processor() {
            let text = "truncate: a processor is code, and can't be written";
            return Err(S::Error::custom(text));
        }
        let settings = Settings {
            limit: self.limit(),
            unit: self.cut.unit(),
            keep: self.cut.keeps(),
            marker: self.cut.marker_template().map(str::to_owned),
            bounded: self.bounded,
            sparing_question: self.spares_question,
        };
        settings.serialize(to)
    }
}

impl<'de> Deserialize<'de> for Truncate {
    fn deserialize<D: Deserializer<'de>>(from: D) -> Result<Self, D::Error> {
        let Settings { limit, unit, keep, marker, bounded, sparing_question } =
            Settings::deserialize(from)?;
        let truncate = Self::new(limit, unit)
            .map_err(|error| D::Error::custom(error.in_field("limit")))?
            .keep(keep)
            .marker(marker.unwrap_or_default());
        let truncate = if bounded { truncate.bounded() } else { truncate };
        Ok(if sparing_question { truncate.sparing_question() } else { truncate })
    }
}
