//! Clearing in configuration files: `{"results": true, "media": true, "keep": 3, "step": 32}`.

use serde::de::{Deserialize, Deserializer, Error as _};
use serde::ser::{Serialize, Serializer};

use super::{Clear, KEEP, LONGER_THAN, STEP};

/// The serialised form of a clearing.
#[derive(serde::Serialize, serde::Deserialize)]
#[serde(
    remote = "Clear",
    deny_unknown_fields,
    expecting = "a clearing: an object with `results` or `media`"
)]
struct Shape {
    #[serde(default, skip_serializing_if = "std::ops::Not::not")]
    results: bool,
    #[serde(default, skip_serializing_if = "std::ops::Not::not")]
    media: bool,
    #[serde(default = "keep")]
    keep: usize,
    #[serde(default = "step")]
    step: u64,
    #[serde(default = "longer_than")]
    longer_than: usize,
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    except: Vec<String>,
    #[serde(default, skip_serializing_if = "std::ops::Not::not")]
    read_back: bool,
    #[serde(default, skip_serializing_if = "Option::is_none")]
    over: Option<usize>,
    #[serde(default, skip_serializing_if = "Option::is_none")]
    placeholder: Option<String>,
}

const fn keep() -> usize {
    KEEP
}

const fn step() -> u64 {
    STEP
}

const fn longer_than() -> usize {
    LONGER_THAN
}

impl Serialize for Clear {
    fn serialize<S: Serializer>(&self, to: S) -> Result<S::Ok, S::Error> {
        Shape::serialize(self, to)
    }
}

impl<'de> Deserialize<'de> for Clear {
    fn deserialize<D: Deserializer<'de>>(from: D) -> Result<Self, D::Error> {
        let clear = Shape::deserialize(from)?;
        if !clear.results && !clear.media {
            return Err(D::Error::custom("clear: one of `results` and `media` is needed"));
        }
        if clear.keep == 0 {
            return Err(D::Error::custom("clear: `keep`: a model is shown what it asked for"));
        }
        if clear.step == 0 {
            return Err(D::Error::custom("clear: `step`: a step of 0 would never move"));
        }
        Ok(clear)
    }
}
