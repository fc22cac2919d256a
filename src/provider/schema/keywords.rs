//! The keywords of JSON schema, grouped by the providers that take them.

/// The beginning of a `$ref` in drafts before 2019.
pub(super) const OLD: &str = "#/definitions/";

/// The keywords that Gemini's reference lists, except those that hold schemas.
pub(super) const LISTED: [&str; 14] = [
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

/// The keywords that make a schema a choice of others.
pub(crate) const CHOICES: [&str; 3] = ["oneOf", "anyOf", "allOf"];

/// The text formats that OpenAI's strict mode knows: "'uri' is not a valid format".
pub(super) const OPENAI_FORMATS: [&str; 9] =
    ["date", "date-time", "duration", "email", "hostname", "ipv4", "ipv6", "time", "uuid"];

/// The text formats that Anthropic's strict mode knows.
pub(super) const ANTHROPIC_FORMATS: [&str; 10] =
    ["date", "date-time", "duration", "email", "hostname", "ipv4", "ipv6", "time", "uri", "uuid"];

/// Other keywords that Anthropic's strict mode refuses, and that its clients move into the
/// description.
pub(super) const TOLD: [&str; 11] = [
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

/// Those of them that OpenAI's strict mode refuses.
pub(super) const TOLD_TO_OPENAI: [&str; 5] =
    ["maxLength", "maxProperties", "minLength", "minProperties", "uniqueItems"];

/// The keywords that set bounds but are not in Gemini's reference.
pub(super) const TOLD_TO_GEMINI: [&str; 23] = [
    "contains",
    "dependencies",
    "dependentRequired",
    "dependentSchemas",
    "else",
    "exclusiveMaximum",
    "exclusiveMinimum",
    "if",
    "maxContains",
    "maxLength",
    "maxProperties",
    "minContains",
    "minLength",
    "minProperties",
    "multipleOf",
    "not",
    "pattern",
    "patternProperties",
    "propertyNames",
    "then",
    "unevaluatedItems",
    "unevaluatedProperties",
    "uniqueItems",
];

/// Annotations that OpenAI's strict mode refuses.
pub(super) const HINTS: [&str; 6] =
    ["$comment", "default", "deprecated", "examples", "readOnly", "writeOnly"];

/// The keywords that say what a value is: OpenAI's strict mode demands one for each value.
pub(super) const TYPES: [&str; 6] = ["$ref", "anyOf", "const", "enum", "oneOf", "type"];
pub(super) const NO_TYPE: &str = "a strict schema can't leave the type of a value open";

/// Keywords that strict modes refuse. They are not left out, since the schema would then allow
/// values that the tool does not expect.
pub(super) const LOOSE: [&str; 14] = [
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

pub(super) const OPEN: &str = "a strict schema can't leave the properties of an object open";

/// The keywords that hold schemas of a value's parts.
pub(super) const SCHEMAS: [&str; 5] =
    ["additionalProperties", "anyOf", "items", "oneOf", "properties"];

/// The keywords on Gemini's list that narrow what a value may be, and one that it knows in another
/// form.
pub(super) const NARROWING: [&str; 9] =
    ["const", "enum", "format", "maxItems", "maximum", "minItems", "minimum", "required", "type"];
