//! Windows and prices in configuration files.
//!
//! ```json
//! {"last": 20}
//! {"turns": 5, "starting_with_user": true}
//! "all"
//! {"stepped": {"low": 40, "step": 38}}
//! {"stepped": {"low": 40, "prices": {"write": 1.0, "read": 0.1}}}
//! ```

use std::fmt;

use serde::de::value::MapAccessDeserializer;
use serde::de::{Deserialize, Deserializer, Error as _, MapAccess, Visitor};
use serde::ser::{Serialize, Serializer};

use super::{Kind, Prices, Window};
use crate::error::Error;

/// The serialised form of a window.
#[derive(Default, serde::Serialize, serde::Deserialize)]
#[serde(deny_unknown_fields, default)]
struct Shape {
    #[serde(skip_serializing_if = "Option::is_none")]
    last: Option<usize>,
    #[serde(skip_serializing_if = "Option::is_none")]
    turns: Option<usize>,
    #[serde(skip_serializing_if = "std::ops::Not::not")]
    all: bool,
    #[serde(skip_serializing_if = "Option::is_none")]
    stepped: Option<Stepped>,
    #[serde(skip_serializing_if = "std::ops::Not::not")]
    starting_with_user: bool,
    #[serde(skip_serializing_if = "std::ops::Not::not")]
    exactly: bool,
}

#[derive(serde::Serialize, serde::Deserialize)]
#[serde(deny_unknown_fields)]
struct Stepped {
    low: usize,
    #[serde(skip_serializing_if = "Option::is_none")]
    step: Option<usize>,
    /// Replaces the step, which follows from the prices; never written.
    #[serde(skip_serializing_if = "Option::is_none")]
    prices: Option<Prices>,
}

impl From<&Window> for Shape {
    fn from(window: &Window) -> Self {
        let Window { kind, starting_with_user, exactly } = *window;
        let shape = Self { starting_with_user, exactly, ..Self::default() };
        match kind {
            Kind::Last(n) => Self { last: Some(n), ..shape },
            Kind::Turns(n) => Self { turns: Some(n), ..shape },
            Kind::All => Self { all: true, ..shape },
            Kind::Stepped { low, step } => {
                let stepped = Stepped { low, step: Some(step), prices: None };
                Self { stepped: Some(stepped), ..shape }
            }
        }
    }
}

impl TryFrom<Shape> for Window {
    type Error = String;

    fn try_from(shape: Shape) -> Result<Self, String> {
        let Shape { last, turns, all, stepped, starting_with_user, exactly } = shape;
        let window = match (last, turns, all, stepped) {
            (Some(n), None, false, None) => Self::last(n),
            (None, Some(n), false, None) => Self::turns(n),
            (None, None, true, None) => Self::all(),
            (None, None, false, Some(stepped)) => stepped.window()?,
            (None, None, false, None) => {
                return Err("window: one of `last`, `turns`, `all`, `stepped` is needed".to_owned());
            }
            _ => return Err("window: only one of `last`, `turns`, `all`, `stepped`".to_owned()),
        };
        Ok(Self { starting_with_user, exactly, ..window })
    }
}

impl Stepped {
    fn window(self) -> Result<Window, String> {
        let window = match (self.step, self.prices) {
            (Some(step), None) => Window::stepped(self.low, step),
            (None, Some(prices)) => Window::stepped_for(self.low, prices),
            _ => return Err("window: `stepped`: either `step` or `prices` is needed".to_owned()),
        };
        window.map_err(|error| error.in_field("stepped"))
    }
}

impl Serialize for Window {
    fn serialize<S: Serializer>(&self, to: S) -> Result<S::Ok, S::Error> {
        if *self == Self::all() { to.serialize_str("all") } else { Shape::from(self).serialize(to) }
    }
}

impl<'de> Deserialize<'de> for Window {
    fn deserialize<D: Deserializer<'de>>(from: D) -> Result<Self, D::Error> {
        from.deserialize_any(WindowVisitor)
    }
}

struct WindowVisitor;

impl<'de> Visitor<'de> for WindowVisitor {
    type Value = Window;

    fn expecting(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("a window: `all`, or an object with `last`, `turns`, `all` or `stepped`")
    }
    fn visit_str<E: serde::de::Error>(self, text: &str) -> Result<Window, E> {
        if text == "all" { Ok(Window::all()) } else { Err(E::unknown_variant(text, &["all"])) }
    }
    fn visit_map<A: MapAccess<'de>>(self, map: A) -> Result<Window, A::Error> {
        let shape = Shape::deserialize(MapAccessDeserializer::new(map))?;
        Window::try_from(shape).map_err(A::Error::custom)
    }
}

impl<'de> Deserialize<'de> for Prices {
    fn deserialize<D: Deserializer<'de>>(from: D) -> Result<Self, D::Error> {
        #[derive(serde::Deserialize)]
        #[serde(deny_unknown_fields, rename = "Prices")]
        struct Shape {
            write: f64,
            read: f64,
        }
        let Shape { write, read } = Shape::deserialize(from)?;
        let prices = Self { write, read };
        // Prices that make no window are refused.
        let checked = Window::stepped_for(1, prices).map(|_| prices);
        checked.map_err(|error: Error| D::Error::custom(error.in_field("prices")))
    }
}
