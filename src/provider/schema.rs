//! The JSON schema of a tool, as far as a provider takes it.

use std::fmt;

use serde::ser::{Error, Serialize, SerializeMap, SerializeSeq, Serializer};
use serde_json::Value;

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
    /// The keywords that Gemini's reference lists. What it does not list only narrows what is
    /// allowed, so it is left out.
    Listed,
}

/// A view of a tool's schema that a provider takes.
pub(super) struct Schema<'a> {
    tool: &'a Tool,
    taken: Taken,
}

impl<'a> Schema<'a> {
    pub(super) fn of(tool: &'a Tool, taken: Taken) -> Self {
        Self { tool, taken }
    }
}

impl Serialize for Schema<'_> {
    fn serialize<S: Serializer>(&self, serializer: S) -> Result<S::Ok, S::Error> {
        let Value::Object(fields) = self.tool.schema() else {
            return Err(S::Error::custom("tools: a schema is no object"));
        };
        // Every provider refuses parameters that are not said to be an object.
        if fields.get("type").is_some_and(|it| !has_type(it, "object")) {
            return Err(S::Error::custom("tools: parameters can't be anything but an object"));
        }
        if self.taken == Taken::Whole && fields.contains_key("type") {
            return fields.serialize(serializer);
        }
        let mut map = serializer.serialize_map(None)?;
        if !fields.contains_key("type") {
            map.serialize_entry("type", "object")?;
        }
        write_fields(&mut map, fields, self.taken, true)?;
        map.end()
    }
}

impl Taken {
    /// Returns whether a strict mode has no place for what this keyword demands, so that it is told
    /// to the model in words.
    fn tells(self, keyword: &str, value: &Value) -> bool {
        let is_known_format = value.as_str().is_some_and(|it| FORMATS.contains(&it));
        match (self, keyword) {
            (Self::Closed | Self::AllRequired, "format") => !is_known_format,
            (Self::Closed, "minItems") => !matches!(value.as_u64(), Some(0 | 1)),
            (Self::Closed, _) => TOLD.contains(&keyword),
            (Self::AllRequired, _) => TOLD_TO_OPENAI.contains(&keyword),
            (Self::Whole | Self::Listed, _) => false,
        }
    }
}

/// The description of a schema, with what it demands behind it: `{minimum: 0, maximum: 9}`.
struct Told<'a> {
    fields: &'a Attributes,
    taken: Taken,
}

impl Told<'_> {
    fn all(&self) -> impl Iterator<Item = (&String, &Value)> {
        self.fields.iter().filter(|(keyword, value)| self.taken.tells(keyword, value))
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

/// A schema within a schema.
struct Inner<'a> {
    schema: &'a Value,
    taken: Taken,
}

impl Serialize for Inner<'_> {
    fn serialize<S: Serializer>(&self, serializer: S) -> Result<S::Ok, S::Error> {
        match self.schema {
            Value::Object(fields)
                if self.taken == Taken::AllRequired
                    && !TYPES.iter().chain(&LOOSE).any(|it| fields.contains_key(*it)) =>
            {
                Err(S::Error::custom(NO_TYPE))
            }
            Value::Object(fields) if self.taken != Taken::Whole => {
                let mut map = serializer.serialize_map(None)?;
                write_fields(&mut map, fields, self.taken, false)?;
                map.end()
            }
            Value::Bool(true) if self.taken == Taken::AllRequired => Err(S::Error::custom(NO_TYPE)),
            // `true` is a schema too.
            other => other.serialize(serializer),
        }
    }
}

fn write_fields<M: SerializeMap>(
    map: &mut M,
    fields: &Attributes,
    taken: Taken,
    is_root: bool,
) -> Result<(), M::Error> {
    let is_closed = matches!(taken, Taken::Closed | Taken::AllRequired)
        && (is_root || fields.contains_key("properties") || is_object(fields));
    if let Some(choice) =
        CHOICES.iter().find(|it| is_root && is_closed && fields.contains_key(**it))
    {
        let text = format_args!("tools: strict parameters can't be `{choice}`");
        return Err(M::Error::custom(text));
    }
    if let Some(to) = fields.get("$ref").filter(|_| taken != Taken::Whole) {
        return write_reference(map, fields, to, taken, is_root);
    }
    // They would be written under one name.
    let (one, other) =
        if taken == Taken::Listed { ("$defs", "definitions") } else { ("anyOf", "oneOf") };
    if taken != Taken::Whole && fields.contains_key(one) && fields.contains_key(other) {
        let text = format_args!("tools: a schema can't have both `{one}` and `{other}` here");
        return Err(M::Error::custom(text));
    }
    let is_list = fields.get("type").is_some_and(|it| has_type(it, "array"));
    if taken == Taken::AllRequired && is_list && !fields.contains_key("items") {
        return Err(M::Error::custom(NO_TYPE));
    }
    let told = Told { fields, taken };
    if !told.is_empty() {
        map.serialize_entry("description", &format_args!("{told}"))?;
    }
    for (keyword, value) in fields {
        match (keyword.as_str(), value) {
            ("description", _) if !told.is_empty() => {}
            (keyword, value) if taken.tells(keyword, value) => {}
            // It is written as one, and says more.
            ("enum", _) if taken == Taken::Listed && fields.contains_key("const") => {}
            ("additionalProperties", Value::Bool(_)) | ("required", _) if is_closed => {}
            ("properties", Value::Object(all)) if taken == Taken::AllRequired => {
                let required = required(fields);
                map.serialize_entry("properties", &Properties { all, required })?;
            }
            _ => write_keyword(map, keyword, value, taken)?,
        }
    }
    if !is_closed {
        return Ok(());
    }
    map.serialize_entry("additionalProperties", &false)?;
    match (taken, fields.get("properties")) {
        (Taken::AllRequired, Some(Value::Object(all))) => {
            let names: Vec<_> = all.keys().collect();
            map.serialize_entry("required", &names)
        }
        (Taken::AllRequired, _) => map.serialize_entry("required", &[(); 0]),
        _ => fields.get("required").map_or(Ok(()), |it| map.serialize_entry("required", it)),
    }
}

/// Writes a schema that is another one: nothing may stand beside that, and its description stands
/// around it. What would narrow it can't be told so.
fn write_reference<M: SerializeMap>(
    map: &mut M,
    fields: &Attributes,
    to: &Value,
    taken: Taken,
    is_root: bool,
) -> Result<(), M::Error> {
    if is_root {
        return Err(M::Error::custom("tools: parameters can't be `$ref`"));
    }
    let is_hint = |it: &str| HINTS.contains(&it) || matches!(it, "$ref" | "description" | "title");
    let holds = |it: &str| taken != Taken::Listed || matches!(it, "$defs" | "definitions");
    if let Some(keyword) = fields.keys().find(|it| !is_hint(it) && holds(it)) {
        let text = format_args!("tools: a schema can't have `{keyword}` beside `$ref`");
        return Err(M::Error::custom(text));
    }
    let Some(text) = fields.get("description") else {
        return write_keyword(map, "$ref", to, taken);
    };
    let alone = Attributes::from_iter([("$ref".to_owned(), to.clone())]).into();
    map.serialize_entry("description", text)?;
    map.serialize_entry("anyOf", &[Inner { schema: &alone, taken }])
}

fn write_keyword<M: SerializeMap>(
    map: &mut M,
    keyword: &str,
    value: &Value,
    taken: Taken,
) -> Result<(), M::Error> {
    let is_listed = taken == Taken::Listed;
    let is_strict = matches!(taken, Taken::Closed | Taken::AllRequired);
    let written = match keyword {
        "definitions" if is_listed => "$defs",
        "const" if is_listed => "enum",
        "oneOf" if is_strict => "anyOf",
        _ => keyword,
    };
    match keyword {
        _ if is_strict && LOOSE.contains(&keyword) => {
            Err(M::Error::custom(format_args!("tools: a strict schema can't have `{keyword}`")))
        }
        "$defs" | "anyOf" | "definitions" | "oneOf" | "prefixItems" | "properties" => {
            map.serialize_entry(written, &Many { of: value, taken })
        }
        "items" => map.serialize_entry(written, &Inner { schema: value, taken }),
        "additionalProperties" if is_listed => {
            map.serialize_entry(written, &Inner { schema: value, taken })
        }
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

/// Properties of an object all of which are required: what was not may be `null`.
struct Properties<'a> {
    all: &'a Attributes,
    required: &'a [Value],
}

impl Serialize for Properties<'_> {
    fn serialize<S: Serializer>(&self, serializer: S) -> Result<S::Ok, S::Error> {
        let mut map = serializer.serialize_map(Some(self.all.len()))?;
        for (name, schema) in self.all {
            let inner = Inner { schema, taken: Taken::AllRequired };
            if self.required.iter().any(|it| it == name) || may_be_null(schema) {
                map.serialize_entry(name, &inner)?;
            } else {
                map.serialize_entry(name, &OrNull(inner))?;
            }
        }
        map.end()
    }
}

/// A schema, or `null`.
struct OrNull<'a>(Inner<'a>);

impl Serialize for OrNull<'_> {
    fn serialize<S: Serializer>(&self, serializer: S) -> Result<S::Ok, S::Error> {
        #[derive(serde::Serialize)]
        struct Null {
            r#type: &'static str,
        }
        struct Either<'b, 'a>(&'b Inner<'a>);
        impl Serialize for Either<'_, '_> {
            fn serialize<S: Serializer>(&self, serializer: S) -> Result<S::Ok, S::Error> {
                let mut list = serializer.serialize_seq(Some(2))?;
                list.serialize_element(self.0)?;
                list.serialize_element(&Null { r#type: "null" })?;
                list.end()
            }
        }
        let mut map = serializer.serialize_map(Some(1))?;
        map.serialize_entry("anyOf", &Either(&self.0))?;
        map.end()
    }
}

/// A map or a list of schemas.
struct Many<'a> {
    of: &'a Value,
    taken: Taken,
}

impl Serialize for Many<'_> {
    fn serialize<S: Serializer>(&self, serializer: S) -> Result<S::Ok, S::Error> {
        let taken = self.taken;
        match self.of {
            Value::Object(all) => serializer
                .collect_map(all.iter().map(|(name, schema)| (name, Inner { schema, taken }))),
            Value::Array(all) => {
                serializer.collect_seq(all.iter().map(|schema| Inner { schema, taken }))
            }
            other => other.serialize(serializer),
        }
    }
}

fn required(fields: &Attributes) -> &[Value] {
    fields.get("required").and_then(Value::as_array).map_or(&[], Vec::as_slice)
}

fn is_object(fields: &Attributes) -> bool {
    fields.get("type").is_some_and(|it| has_type(it, "object"))
}

fn may_be_null(schema: &Value) -> bool {
    schema.get("type").is_some_and(|it| has_type(it, "null"))
}

/// Returns whether a `type` is this one, or a list with it.
fn has_type(types: &Value, name: &str) -> bool {
    types == name || types.as_array().is_some_and(|all| all.iter().any(|it| it == name))
}

/// The beginning of a `$ref` in drafts before 2019.
const OLD: &str = "#/definitions/";

/// The keywords that Gemini's reference lists, beside those that hold schemas.
const LISTED: [&str; 14] = [
    "$anchor",
    "$id",
    "$ref",
    "description",
    "enum",
    "format",
    "maxItems",
    "maximum",
    "minItems",
    "minimum",
    "propertyOrdering",
    "required",
    "title",
    "type",
];

/// The keywords that make of a schema a choice of others.
pub(crate) const CHOICES: [&str; 3] = ["oneOf", "anyOf", "allOf"];

/// The formats of a text that strict modes know.
const FORMATS: [&str; 10] =
    ["date", "date-time", "duration", "email", "hostname", "ipv4", "ipv6", "time", "uri", "uuid"];

/// The keywords besides that Anthropic's strict mode refuses, and its clients tell in words.
const TOLD: [&str; 11] = [
    "exclusiveMaximum",
    "exclusiveMinimum",
    "maxItems",
    "maxLength",
    "maxProperties",
    "maximum",
    "minLength",
    "minProperties",
    "minimum",
    "multipleOf",
    "uniqueItems",
];

/// Those of them that OpenAI's refuses.
const TOLD_TO_OPENAI: [&str; 5] =
    ["maxLength", "maxProperties", "minLength", "minProperties", "uniqueItems"];

/// Hints that OpenAI's strict mode refuses.
const HINTS: [&str; 6] = ["$comment", "default", "deprecated", "examples", "readOnly", "writeOnly"];

/// One of these says what a value is, which OpenAI's strict mode demands of each.
const TYPES: [&str; 6] = ["$ref", "anyOf", "const", "enum", "oneOf", "type"];
const NO_TYPE: &str = "tools: a strict schema can't leave the type of a value open";

/// Keywords that strict modes refuse. Without them a schema would allow what the tool does not
/// expect, so they are not left out.
const LOOSE: [&str; 14] = [
    "additionalProperties",
    "allOf",
    "contains",
    "dependentRequired",
    "dependentSchemas",
    "else",
    "if",
    "not",
    "patternProperties",
    "prefixItems",
    "propertyNames",
    "then",
    "unevaluatedItems",
    "unevaluatedProperties",
];
