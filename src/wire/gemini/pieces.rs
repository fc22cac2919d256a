//! Call arguments that arrive in pieces, if a request asks for `streamFunctionCallArguments`.

use serde_json::Value;

use crate::error::Result;
use crate::message::Attributes;
use crate::wire::common::{Fields, expected};

/// The most steps of a path. Deeper values can't be kept.
const DEEPEST: usize = 90;

/// The arguments of a call so far.
#[derive(Debug, Default)]
pub(super) struct Arguments(Value);

enum Step {
    Key(String),
    Index(usize),
}

impl Arguments {
    /// Adds a piece: `{"jsonPath": "$.city", "stringValue": "Os"}`. A text continues where it
    /// stopped.
    pub(super) fn add(&mut self, mut piece: Fields) -> Result<()> {
        let at = piece.at.key("jsonPath");
        let path = piece.required_text("jsonPath")?;
        let steps = steps(&path).filter(|steps| !steps.is_empty() && steps.len() <= DEEPEST);
        let Some(steps) = steps else { return Err(at.error("not a path to an argument")) };
        let mut value = ["numberValue", "boolValue"].into_iter().find_map(|key| piece.take(key));
        if piece.has("nullValue") {
            value = Some(Value::Null);
        }
        let text = piece.text("stringValue")?;
        if value.is_none() && text.is_none() {
            return Ok(()); // it only announces where the next piece goes
        }
        let Some(place) = place(&mut self.0, steps) else {
            return Err(at.error("it does not fit what came before"));
        };
        match (place, text, value) {
            (Value::String(said), Some(more), _) => said.push_str(&more),
            (place @ Value::Null, Some(text), _) => *place = text.into(),
            (place @ Value::Null, None, Some(value)) => *place = value,
            (found, ..) => return Err(at.error(expected("nothing", found))),
        }
        Ok(())
    }

    pub(super) fn json(self) -> String {
        if self.0.is_null() { "{}".to_owned() } else { self.0.to_string() }
    }
}

/// Returns the value at the end of the path, and creates it if needed; `None` if another kind of
/// value is on the path, or an element of a list would be skipped.
fn place(top: &mut Value, steps: Vec<Step>) -> Option<&mut Value> {
    steps.into_iter().try_fold(top, |value, step| match step {
        Step::Key(key) => {
            if value.is_null() {
                *value = Value::Object(Attributes::new());
            }
            Some(value.as_object_mut()?.entry(key).or_insert(Value::Null))
        }
        Step::Index(index) => {
            if value.is_null() {
                *value = Value::Array(Vec::new());
            }
            let list = value.as_array_mut()?;
            if index == list.len() {
                list.push(Value::Null);
            }
            list.get_mut(index)
        }
    })
}

/// Parses a path (RFC 9535) that leads to one value: `$.a.b[0]['c d']`. `None` for any other.
fn steps(path: &str) -> Option<Vec<Step>> {
    let mut rest = path.strip_prefix('$')?;
    let mut steps = Vec::new();
    while !rest.is_empty() {
        let step;
        (step, rest) = if let Some(name) = rest.strip_prefix('.') {
            let end = name.find(['.', '[']).unwrap_or(name.len());
            let (name, rest) = name.split_at(end);
            if matches!(name, "" | "*") {
                return None; // of many values
            }
            (Step::Key(name.to_owned()), rest)
        } else if let Some(quote) =
            rest.strip_prefix('[')?.chars().next().filter(|c| "'\"".contains(*c))
        {
            quoted(rest.get(2..)?, quote)?
        } else {
            let (index, rest) = rest.get(1..)?.split_once(']')?;
            (Step::Index(index.parse().ok()?), rest)
        };
        steps.push(step);
    }
    Some(steps)
}

/// Returns a name up to its closing quote, and the rest after the bracket.
fn quoted(text: &str, quote: char) -> Option<(Step, &str)> {
    let mut name = String::new();
    let mut letters = text.char_indices();
    while let Some((i, letter)) = letters.next() {
        if letter == quote {
            let rest = text.get(i + 1..)?.strip_prefix(']')?;
            return Some((Step::Key(name), rest));
        }
        name.push(if letter == '\\' { letters.next()?.1 } else { letter });
    }
    None
}
