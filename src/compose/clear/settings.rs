//! Clearing in configuration files: `{"results": true, "media": true, "keep": 3, "step": 32}`.

use serde::de::{Deserialize, Deserializer, Error as _};
use serde::ser::{Serialize, Serializer};

use super::Clear;

/// The serialised form of a clearing.
#[derive(serde::Serialize, serde::Deserialize)]
#[serde(
    remote = "Clear",
    deny_unknown_fields,
    default = "nothing",
    expecting = "a clearing: an object with `results` or `media`"
)]
struct Shape {
    #[serde(skip_serializing_if = "std::ops::Not::not")]
    results: bool,
    #[serde(skip_serializing_if = "std::ops::Not::not")]
    media: bool,
    keep: usize,
    step: u64,
    longer_than: usize,
    #[serde(skip_serializing_if = "Vec::is_empty")]
    except: Vec<String>,
    #[serde(skip_serializing_if = "std::ops::Not::not")]
    read_back: bool,
    #[serde(skip_serializing_if = "Option::is_none")]
    over: Option<usize>,
    #[serde(skip_serializing_if = "Option::is_none")]
    placeholder: Option<String>,
}

/// What a file that names neither results nor media would clear.
fn nothing() -> Clear {
    Clear { results: false, ..Clear::tool_results() }
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
