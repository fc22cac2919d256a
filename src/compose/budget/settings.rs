//! Budgets in configuration files.
//!
//! ```json
//! 8000
//! {"tokens": 8000, "reserve": 1500, "cut_before_drop": true}
//! {"tokens": 8000, "stepped": {"low": 3000, "high": 6000}}
//! ```

use std::fmt;

use serde::de::value::MapAccessDeserializer;
use serde::de::{Deserialize, Deserializer, Error as _, MapAccess, Unexpected, Visitor};

use super::Budget;

/// The serialised form of a budget.
#[derive(serde::Serialize, serde::Deserialize)]
#[serde(deny_unknown_fields)]
pub(super) struct Shape {
    tokens: usize,
    #[serde(default, skip_serializing_if = "is_zero")]
    reserve: usize,
    #[serde(default, skip_serializing_if = "Option::is_none")]
    stepped: Option<Range>,
    #[serde(default, skip_serializing_if = "std::ops::Not::not")]
    cut_before_drop: bool,
}

#[derive(serde::Serialize, serde::Deserialize)]
#[serde(deny_unknown_fields)]
struct Range {
    low: usize,
    high: usize,
}

#[allow(clippy::trivially_copy_pass_by_ref)] // serde passes references
fn is_zero(number: &usize) -> bool {
    *number == 0
}

impl From<Budget> for Shape {
    fn from(budget: Budget) -> Self {
        let Budget { tokens, reserve, range, cut_first } = budget;
        let stepped = range.map(|(low, high)| Range { low, high });
        Self { tokens, reserve, stepped, cut_before_drop: cut_first }
    }
}

/// Refuses a file that leaves nothing for the prompt, since every build would fail.
impl TryFrom<Shape> for Budget {
    type Error = String;

    fn try_from(shape: Shape) -> Result<Self, String> {
        let Shape { tokens, reserve, stepped, cut_before_drop } = shape;
        if tokens == 0 {
            return Err("budget: `tokens`: a budget of 0 has no room for a prompt".to_owned());
        }
        if reserve >= tokens {
            return Err(format!(
                "budget: `reserve`: a reserve of {reserve} leaves nothing of {tokens} tokens"
            ));
        }
        let mut budget = Self::new(tokens).reserve(reserve);
        if let Some(Range { low, high }) = stepped {
            budget = budget.stepped(low, high).map_err(|error| error.in_field("stepped"))?;
        }
        Ok(if cut_before_drop { budget.cut_before_drop() } else { budget })
    }
}

impl<'de> Deserialize<'de> for Budget {
    fn deserialize<D: Deserializer<'de>>(from: D) -> Result<Self, D::Error> {
        from.deserialize_any(BudgetVisitor)
    }
}

struct BudgetVisitor;

impl<'de> Visitor<'de> for BudgetVisitor {
    type Value = Budget;

    fn expecting(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("a budget: a number of tokens, or an object with `tokens`")
    }
    fn visit_u64<E: serde::de::Error>(self, number: u64) -> Result<Budget, E> {
        let tokens = usize::try_from(number)
            .map_err(|_| E::invalid_value(Unexpected::Unsigned(number), &self))?;
        let shape = Shape { tokens, reserve: 0, stepped: None, cut_before_drop: false };
        Budget::try_from(shape).map_err(E::custom)
    }
    /// TOML has only signed integers.
    fn visit_i64<E: serde::de::Error>(self, number: i64) -> Result<Budget, E> {
        let tokens = u64::try_from(number)
            .map_err(|_| E::invalid_value(Unexpected::Signed(number), &self))?;
        self.visit_u64(tokens)
    }
    fn visit_map<A: MapAccess<'de>>(self, map: A) -> Result<Budget, A::Error> {
        let shape = Shape::deserialize(MapAccessDeserializer::new(map))?;
        Budget::try_from(shape).map_err(A::Error::custom)
    }
}
