//! Reading JSON field by field: an error names the place of what is wrong, and quotes nothing.

use std::fmt;

use serde_json::Value;

use crate::error::{Error, ErrorKind, Result};
use crate::message::{Attributes, Content, Part};

/// A place in a document, and what was being done there.
///
/// The path to it is short, and is copied with it: if nothing is wrong it allocates nothing.
#[derive(Clone, Copy, Debug)]
pub struct At {
    operation: &'static str,
    path: [Step; LONGEST_PATH],
    steps: usize,
}

#[derive(Clone, Copy, Debug)]
enum Step {
    Key(&'static str),
    Index(usize),
}

/// The longest path that an error names; beyond it the path is cut. The formats have no more steps,
/// and each step makes a copy more expensive.
const LONGEST_PATH: usize = 9;

impl At {
    /// The top of a document. The operation reads like `read openai answer`.
    pub(crate) fn top(operation: &'static str) -> Self {
        Self { operation, path: [Step::Index(0); LONGEST_PATH], steps: 0 }
    }

    /// Descends to a field of this name. Only names that this crate knows are passed: a name from
    /// the document is someone's text, which no error quotes.
    pub(crate) fn key(self, key: &'static str) -> Self {
        self.step(Step::Key(key))
    }

    pub(crate) fn index(self, index: usize) -> Self {
        self.step(Step::Index(index))
    }

    fn step(mut self, step: Step) -> Self {
        if let Some(next) = self.path.get_mut(self.steps) {
            *next = step;
            self.steps += 1;
        }
        self
    }

    /// Returns the error for a value that can't be read.
    pub(crate) fn error(&self, what: impl fmt::Display) -> Error {
        self.of_kind(ErrorKind::Codec, what)
    }

    /// Returns the error for a value that can't be expressed.
    pub(crate) fn unsupported(&self, what: impl fmt::Display) -> Error {
        self.of_kind(ErrorKind::Unsupported, what)
    }

    /// Returns the error for a value that is incomplete.
    pub(crate) fn unfinished(&self, what: impl fmt::Display) -> Error {
        self.of_kind(ErrorKind::Unfinished, what)
    }

    /// Returns an error of this kind about the value here.
    pub(crate) fn of_kind(&self, kind: ErrorKind, what: impl fmt::Display) -> Error {
        let text = match self.steps {
            0 => what.to_string(),
            _ => format!("{self}: {what}"),
        };
        Error::new(kind, self.operation, text)
    }
}

impl fmt::Display for At {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        for (i, step) in self.path.iter().take(self.steps).enumerate() {
            match step {
                Step::Key(key) if i == 0 => f.write_str(key)?,
                Step::Key(key) => write!(f, ".{key}")?,
                Step::Index(index) => write!(f, "[{index}]")?,
            }
        }
        Ok(())
    }
}

/// The fields of an object, taken one by one; the rest are unknown.
///
/// A field that is `null` counts as absent, as every provider reads it.
#[derive(Debug)]
pub struct Fields {
    pub(crate) at: At,
    map: Attributes,
}

impl Fields {
    pub(crate) fn of(value: Value, at: At) -> Result<Self> {
        match value {
            Value::Object(map) => Ok(Self { at, map }),
            other => Err(at.error(expected("an object", &other))),
        }
    }

    pub(crate) fn take(&mut self, key: &str) -> Option<Value> {
        self.map.remove(key).filter(|value| !value.is_null())
    }

    /// A field, left where it is.
    pub(crate) fn get(&self, key: &str) -> Option<&Value> {
        self.map.get(key)
    }

    pub(crate) fn put(&mut self, key: &str, value: impl Into<Value>) {
        self.map.insert(key.to_owned(), value.into());
    }

    /// Keeps only the fields with a wanted name.
    pub(crate) fn retain(&mut self, is_wanted: impl Fn(&str) -> bool) {
        self.map.retain(|key, _| is_wanted(key));
    }

    /// Returns true if the field is there and is not `null`.
    pub(crate) fn has(&self, key: &str) -> bool {
        self.map.get(key).is_some_and(|value| !value.is_null())
    }

    /// The text in a field, left where it is.
    pub(crate) fn peek(&self, key: &str) -> Option<&str> {
        self.map.get(key)?.as_str()
    }

    pub(crate) fn text(&mut self, key: &'static str) -> Result<Option<String>> {
        match self.take(key) {
            None => Ok(None),
            Some(Value::String(text)) => Ok(Some(text)),
            Some(other) => Err(self.at.key(key).error(expected("a string", &other))),
        }
    }

    pub(crate) fn required_text(&mut self, key: &'static str) -> Result<String> {
        self.text(key)?.ok_or_else(|| self.at.key(key).error("missing"))
    }

    /// The object in a field; `None` if there is none.
    pub(crate) fn object(&mut self, key: &'static str) -> Result<Option<Self>> {
        self.take(key).map(|value| Self::of(value, self.at.key(key))).transpose()
    }

    pub(crate) fn required_object(&mut self, key: &'static str) -> Result<Self> {
        Self::of(self.required(key)?, self.at.key(key))
    }

    /// The object in a field, as its text; `None` if there is none.
    pub(crate) fn object_text(&mut self, key: &'static str) -> Result<Option<String>> {
        Ok(self.object(key)?.map(|object| Value::Object(object.whole()).to_string()))
    }

    /// Returns true if the field is true; false if it is absent.
    pub(crate) fn flag(&mut self, key: &'static str) -> Result<bool> {
        match self.take(key) {
            None => Ok(false),
            Some(Value::Bool(flag)) => Ok(flag),
            Some(other) => Err(self.at.key(key).error(expected("a boolean", &other))),
        }
    }

    /// Reads an index: a whole number from 0 on.
    pub(crate) fn index(&mut self, key: &'static str) -> Result<Option<u64>> {
        let Some(index) = self.take(key) else { return Ok(None) };
        let wrong = || self.at.key(key).error(expected("an index", &index));
        index.as_u64().ok_or_else(wrong).map(Some)
    }

    /// Reads each element of an array at its place; none if the field is absent.
    pub(crate) fn each<T>(
        &mut self,
        key: &'static str,
        read: impl FnMut(Value, At) -> Result<T>,
    ) -> Result<Vec<T>> {
        each(self.list(key)?, self.at.key(key), read)
    }

    /// The elements of an array; none if the field is absent.
    pub(crate) fn list(&mut self, key: &'static str) -> Result<Vec<Value>> {
        self.take(key).map_or(Ok(Vec::new()), |value| list(value, self.at.key(key)))
    }

    pub(crate) fn required(&mut self, key: &'static str) -> Result<Value> {
        self.take(key).ok_or_else(|| self.at.key(key).error("missing"))
    }

    pub(crate) fn required_list(&mut self, key: &'static str) -> Result<Vec<Value>> {
        list(self.required(key)?, self.at.key(key))
    }

    /// Content: a text, or a list of parts.
    pub(crate) fn content(
        &mut self,
        key: &'static str,
        part: impl FnMut(Value, At) -> Result<Part>,
    ) -> Result<Content> {
        text_or_list(self.required(key)?, self.at.key(key), part).map(Content::from)
    }

    /// The text or the list in a field; an empty list if it is absent.
    pub(crate) fn text_or_list<T>(
        &mut self,
        key: &'static str,
        read: impl FnMut(Value, At) -> Result<T>,
    ) -> Result<TextOrList<T>> {
        let value = self.take(key).unwrap_or(Value::Array(Vec::new()));
        text_or_list(value, self.at.key(key), read)
    }

    /// A text, or the texts of a list of blocks of this kind, joined with an empty line.
    pub(crate) fn joined(&mut self, key: &'static str, kind: &'static str) -> Result<String> {
        let text = |value, at: At| {
            let mut block = Self::of(value, at)?;
            if block.peek("type") != Some(kind) {
                return Err(block.at.key("type").error(format_args!("expected `{kind}`")));
            }
            block.required_text("text")
        };
        Ok(match text_or_list(self.required(key)?, self.at.key(key), text)? {
            TextOrList::Text(text) => text,
            TextOrList::List(texts) => texts.join("\n\n"),
        })
    }

    /// Refuses an unknown field if there is no place to keep it.
    pub(crate) fn end(self) -> Result<()> {
        let at = self.at;
        if self.rest().is_empty() { Ok(()) } else { Err(at.error("a field that is not known")) }
    }

    /// Returns the fields that were not taken, without those that are `null`.
    pub(crate) fn rest(mut self) -> Attributes {
        self.map.retain(|_, value| !value.is_null());
        self.map
    }

    /// Returns the fields that were not taken, as they were read.
    pub(crate) fn whole(self) -> Attributes {
        self.map
    }
}

/// Content as it is written: a text, or a list.
pub(crate) enum TextOrList<T> {
    Text(String),
    List(Vec<T>),
}

impl From<TextOrList<Part>> for Content {
    fn from(content: TextOrList<Part>) -> Self {
        match content {
            TextOrList::Text(text) => Self::Text(text),
            TextOrList::List(parts) => parts.into(),
        }
    }
}

/// Reads a text, or each element of a list at its place.
pub(crate) fn text_or_list<T>(
    value: Value,
    at: At,
    read: impl FnMut(Value, At) -> Result<T>,
) -> Result<TextOrList<T>> {
    match value {
        Value::String(text) => Ok(TextOrList::Text(text)),
        Value::Array(list) => Ok(TextOrList::List(each(list, at, read)?)),
        other => Err(at.error(expected("a string or an array", &other))),
    }
}

/// The elements of an array.
pub(crate) fn list(value: Value, at: At) -> Result<Vec<Value>> {
    match value {
        Value::Array(list) => Ok(list),
        other => Err(at.error(expected("an array", &other))),
    }
}

/// Reads each element of a list at its place.
pub(crate) fn each<T>(
    list: Vec<Value>,
    at: At,
    mut read: impl FnMut(Value, At) -> Result<T>,
) -> Result<Vec<T>> {
    list.into_iter().enumerate().map(|(i, value)| read(value, at.index(i))).collect()
}

/// "expected a string, found an object".
pub(crate) fn expected(what: &str, found: &Value) -> String {
    let found = match found {
        Value::Null => "null",
        Value::Bool(_) => "a boolean",
        Value::Number(_) => "a number",
        Value::String(_) => "a string",
        Value::Array(_) => "an array",
        Value::Object(_) => "an object",
    };
    format!("expected {what}, found {found}")
}
