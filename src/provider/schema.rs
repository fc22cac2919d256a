//! The JSON schema of a tool, as far as a provider takes it.

mod keywords;
mod limits;
mod merge;
mod place;
mod plain;

use std::fmt;

use serde::ser::{Error, Serialize, SerializeMap, Serializer};
use serde_json::{Value, json};

pub(crate) use keywords::CHOICES;
use keywords::{
    ANTHROPIC_FORMATS, HINTS, LISTED, LOOSE, NARROWING, NO_TYPE, OLD, OPEN, OPENAI_FORMATS,
    SCHEMAS, TOLD, TOLD_TO_GEMINI, TOLD_TO_OPENAI, TYPES,
};
pub(crate) use limits::over_limits;
use place::SchemaPath;
use plain::plain;

use crate::message::Attributes;
use crate::tool::Tool;

/// The part of JSON schema that a provider takes.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Taken {
    /// All of it.
    Whole,
    /// Objects without further properties: Anthropic's strict mode.
    Closed,
    /// The same, with all properties required: OpenAI's strict mode.
    AllRequired,
    /// The keywords that Gemini's reference lists. Other keywords only narrow what is allowed, so
    /// they are moved into the description.
    Listed,
}

/// A view of a tool's schema in the form that a provider takes.
pub(super) struct Schema<'a> {
    pub(super) tool: &'a Tool,
    pub(super) taken: Taken,
}

impl Serialize for Schema<'_> {
    fn serialize<S: Serializer>(&self, serializer: S) -> Result<S::Ok, S::Error> {
        let Value::Object(fields) = self.tool.schema() else {
            return Err(S::Error::custom("tools: a schema is no object"));
        };
        let plain = plain(self.tool.schema(), self.taken).map_err(S::Error::custom)?;
        let fields = plain.as_object().unwrap_or(fields);
        if self.taken == Taken::Closed && limits::is_recursive(&plain) {
            return Err(S::Error::custom("tools: a strict schema can't refer to itself"));
        }
        // Every provider refuses parameters whose type is not an object.
        if fields.contains_key("type") && !has_type(fields, "object") {
            return Err(S::Error::custom("tools: parameters can't be anything but an object"));
        }
        let mut map = serializer.serialize_map(None)?;
        if !fields.contains_key("type") {
            map.serialize_entry("type", "object")?;
        }
        Keywords { fields, taken: self.taken, at: SchemaPath::Root }.write(&mut map)?;
        // "object schema missing properties", if a tool has no parameters.
        if !fields.contains_key("properties") {
            map.serialize_entry("properties", &Attributes::new())?;
        }
        map.end()
    }
}

impl Taken {
    fn is_strict(self) -> bool {
        matches!(self, Self::Closed | Self::AllRequired)
    }

    /// Returns whether each `allOf` is merged into one schema.
    fn merges(self) -> bool {
        matches!(self, Self::Closed | Self::Listed)
    }

    /// Returns whether a provider has no place for this keyword, so that its demand is moved into
    /// the description.
    fn tells(self, keyword: &str, value: &Value) -> bool {
        let is_one_of = |known: &[&str]| value.as_str().is_some_and(|it| known.contains(&it));
        match (self, keyword) {
            (Self::Closed, "format") => !is_one_of(&ANTHROPIC_FORMATS),
            (Self::AllRequired, "format") => !is_one_of(&OPENAI_FORMATS),
            (Self::Closed, "minItems") => !matches!(value.as_u64(), Some(0 | 1)),
            (Self::Closed, _) => TOLD.contains(&keyword),
            (Self::AllRequired, _) => TOLD_TO_OPENAI.contains(&keyword),
            (Self::Listed, _) => TOLD_TO_GEMINI.contains(&keyword),
            (Self::Whole, _) => false,
        }
    }
}

/// The description of a schema, followed by its moved demands: `{minimum: 0, maximum: 9}`.
struct Told<'a> {
    fields: &'a Attributes,
    taken: Taken,
    /// Gemini takes nothing next to a reference.
    beside_reference: bool,
}

impl Told<'_> {
    fn all(&self) -> impl Iterator<Item = (&String, &Value)> {
        let is_told = |keyword: &String, value: &Value| {
            let is_listed = SCHEMAS.contains(&keyword.as_str()) || NARROWING.contains(&&**keyword);
            self.taken.tells(keyword, value) || self.beside_reference && is_listed
        };
        self.fields.iter().filter(move |(keyword, value)| is_told(keyword, value))
    }

    fn is_empty(&self) -> bool {
        self.all().next().is_none()
    }
}

impl fmt::Display for Told<'_> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        if let Some(text) = self.fields.get("description").and_then(Value::as_str) {
            write!(f, "{text} ")?;
        }
        for (i, (keyword, value)) in self.all().enumerate() {
            let before = if i == 0 { "{" } else { ", " };
            write!(f, "{before}{keyword}: {value}")?;
        }
        f.write_str("}")
    }
}

struct Inner<'a> {
    schema: &'a Value,
    taken: Taken,
    at: SchemaPath<'a>,
    /// True for an optional property, if all are required.
    or_null: bool,
}

impl Serialize for Inner<'_> {
    fn serialize<S: Serializer>(&self, serializer: S) -> Result<S::Ok, S::Error> {
        let Self { schema, taken, at, or_null } = *self;
        if or_null {
            let either = (Inner { or_null: false, ..*self }, json!({"type": "null"}));
            return serializer.collect_map([("anyOf", either)]);
        }
        match schema {
            Value::Object(fields)
                if taken == Taken::AllRequired
                    && !TYPES.iter().chain(&LOOSE).any(|it| fields.contains_key(*it)) =>
            {
                Err(S::Error::custom(at.refused(NO_TYPE)))
            }
            Value::Object(fields) if taken != Taken::Whole => {
                let mut map = serializer.serialize_map(None)?;
                Keywords { fields, taken, at }.write(&mut map)?;
                map.end()
            }
            other => other.serialize(serializer),
        }
    }
}

struct Keywords<'a> {
    fields: &'a Attributes,
    taken: Taken,
    at: SchemaPath<'a>,
}

impl Keywords<'_> {
    fn refused<E: Error>(&self, why: impl fmt::Display) -> E {
        E::custom(self.at.refused(why))
    }

    fn is_root(&self) -> bool {
        matches!(self.at, SchemaPath::Root)
    }

    fn write<M: SerializeMap>(&self, map: &mut M) -> Result<(), M::Error> {
        let Self { fields, taken, .. } = *self;
        if taken == Taken::Whole {
            return fields.iter().try_for_each(|(keyword, it)| map.serialize_entry(keyword, it));
        }
        let is_closed = taken.is_strict()
            && (self.is_root() || fields.contains_key("properties") || has_type(fields, "object"));
        if let Some(choice) =
            CHOICES.iter().find(|it| self.is_root() && is_closed && fields.contains_key(**it))
        {
            return Err(self.refused(format_args!("strict parameters can't be `{choice}`")));
        }
        if let Some(to) = fields.get("$ref") {
            return self.write_reference(map, to);
        }
        // Both would be written under one name.
        let (one, other) =
            if taken == Taken::Listed { ("$defs", "definitions") } else { ("anyOf", "oneOf") };
        if fields.contains_key(one) && fields.contains_key(other) {
            let text = format_args!("a schema can't have both `{one}` and `{other}` here");
            return Err(self.refused(text));
        }
        let told = Told { fields, taken, beside_reference: false };
        if !told.is_empty() {
            map.serialize_entry("description", &format_args!("{told}"))?;
        }
        for (keyword, value) in fields {
            match (keyword.as_str(), value) {
                ("description", _) if !told.is_empty() => {}
                (keyword, value) if taken.tells(keyword, value) => {}
                // `const` is written as an `enum` too, and is narrower.
                ("enum", _) if taken == Taken::Listed && fields.contains_key("const") => {}
                ("additionalProperties", Value::Bool(_)) | ("required", _) if is_closed => {}
                _ => self.write_keyword(map, keyword, value)?,
            }
        }
        if is_closed { self.close(map) } else { Ok(()) }
    }

    /// Writes what a strict mode demands of an object: no further properties, and for OpenAI all of
    /// them required.
    fn close<M: SerializeMap>(&self, map: &mut M) -> Result<(), M::Error> {
        let (fields, properties) = (self.fields, self.fields.get("properties"));
        let is_open = match fields.get("additionalProperties") {
            None => !self.is_root() && properties.is_none(),
            further => further == Some(&Value::Bool(true)),
        };
        if is_open {
            // It would become an object without any properties.
            return Err(self.refused(OPEN));
        }
        if properties.is_none() && !self.is_root() {
            map.serialize_entry("properties", &Attributes::new())?;
        }
        map.serialize_entry("additionalProperties", &false)?;
        match (self.taken, properties) {
            (Taken::AllRequired, Some(Value::Object(all))) => {
                let names: Vec<_> = all.keys().collect();
                map.serialize_entry("required", &names)
            }
            (Taken::AllRequired, _) => map.serialize_entry("required", &[(); 0]),
            _ => fields.get("required").map_or(Ok(()), |it| map.serialize_entry("required", it)),
        }
    }

    /// Writes a reference. Nothing may be next to it, so its description is put around it; for
    /// Gemini this includes narrowing keywords.
    fn write_reference<M: SerializeMap>(&self, map: &mut M, to: &Value) -> Result<(), M::Error> {
        let Self { fields, taken, at } = *self;
        if self.is_root() {
            return Err(self.refused("parameters can't be `$ref`"));
        }
        let is_hint =
            |it: &str| HINTS.contains(&it) || matches!(it, "$ref" | "description" | "title");
        let holds = |it: &str| taken != Taken::Listed || matches!(it, "$defs" | "definitions");
        if let Some(keyword) = fields.keys().find(|it| !is_hint(it) && holds(it)) {
            return Err(self.refused(format_args!("a schema can't have `{keyword}` beside `$ref`")));
        }
        let told = Told { fields, taken, beside_reference: taken == Taken::Listed };
        match fields.get("description") {
            _ if !told.is_empty() => {
                map.serialize_entry("description", &format_args!("{told}"))?;
            }
            Some(text) => map.serialize_entry("description", text)?,
            None => return self.write_keyword(map, "$ref", to),
        }
        let alone = Attributes::from_iter([("$ref".to_owned(), to.clone())]).into();
        map.serialize_entry("anyOf", &[Inner { schema: &alone, taken, at, or_null: false }])
    }

    fn write_keyword<M: SerializeMap>(
        &self,
        map: &mut M,
        keyword: &str,
        value: &Value,
    ) -> Result<(), M::Error> {
        let taken = self.taken;
        let is_listed = taken == Taken::Listed;
        let written = match keyword {
            "definitions" if is_listed => "$defs",
            "const" if is_listed => "enum",
            "oneOf" if taken.is_strict() => "anyOf",
            _ => keyword,
        };
        let around = SchemaPath::In(&self.at, keyword);
        let one = Inner { schema: value, taken, at: around, or_null: false };
        match keyword {
            _ if taken.is_strict() && LOOSE.contains(&keyword) => {
                Err(self.refused(format_args!("a strict schema can't have `{keyword}`")))
            }
            "properties" => {
                let required = (taken == Taken::AllRequired).then(|| required(self.fields));
                map.serialize_entry(written, &Many { of: value, taken, at: &self.at, required })
            }
            "$defs" | "anyOf" | "definitions" | "oneOf" => {
                let many = Many { of: value, taken, at: &around, required: None };
                map.serialize_entry(written, &many)
            }
            "items" => map.serialize_entry(written, &one),
            "additionalProperties" if is_listed => map.serialize_entry(written, &one),
            "const" if is_listed => map.serialize_entry(written, &[value]),
            "$ref" if is_listed => match value.as_str().and_then(|it| it.strip_prefix(OLD)) {
                Some(name) => map.serialize_entry(written, &format_args!("#/$defs/{name}")),
                None => map.serialize_entry(written, value),
            },
            _ if is_listed && !LISTED.contains(&keyword) => Ok(()),
            _ if taken == Taken::AllRequired && HINTS.contains(&keyword) => Ok(()),
            _ => map.serialize_entry(written, value),
        }
    }
}

struct Many<'a> {
    of: &'a Value,
    taken: Taken,
    at: &'a SchemaPath<'a>,
    /// The required ones, if each other one may be `null` instead.
    required: Option<&'a [Value]>,
}

impl Serialize for Many<'_> {
    fn serialize<S: Serializer>(&self, serializer: S) -> Result<S::Ok, S::Error> {
        let Self { taken, at, required, .. } = *self;
        let inner = |schema, at, or_null| Inner { schema, taken, at, or_null };
        match self.of {
            Value::Object(all) => serializer.collect_map(all.iter().map(|(name, schema)| {
                let has_null = schema.as_object().is_some_and(|it| has_type(it, "null"));
                let is_optional = |required: &[Value]| !required.iter().any(|it| it == name);
                let or_null = !has_null && required.is_some_and(is_optional);
                (name, inner(schema, SchemaPath::In(at, name), or_null))
            })),
            Value::Array(all) => {
                serializer.collect_seq(all.iter().map(|schema| inner(schema, *at, false)))
            }
            other => other.serialize(serializer),
        }
    }
}

fn required(fields: &Attributes) -> &[Value] {
    fields.get("required").and_then(Value::as_array).map_or(&[], Vec::as_slice)
}

/// Returns whether the `type` of a schema is this one, or a list with it.
fn has_type(fields: &Attributes, name: &str) -> bool {
    fields.get("type").is_some_and(|types| {
        types == name || types.as_array().is_some_and(|all| all.iter().any(|it| it == name))
    })
}
