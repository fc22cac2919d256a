//! What providers refuse in the parameters of a tool, over the JSON that they are sent.
//!
//! Written from the providers' references and reports of their errors, and not from the encoders:
//! nothing here imports the crate. `tests/wire/schemas.rs` has a document that each rule refuses.

#![allow(unreachable_pub)] // it is one file of a test

use std::collections::HashSet;

use serde_json::Value;

/// What a provider would say.
pub type Wrong = Vec<String>;

/// Every schema in a schema, itself first; not those that it says it is not.
pub fn all(schema: &Value) -> Vec<&Value> {
    let mut found = vec![schema];
    for key in ["properties", "$defs", "definitions", "patternProperties"] {
        found.extend(schema[key].as_object().into_iter().flatten().flat_map(|(_, it)| all(it)));
    }
    for key in ["anyOf", "oneOf", "allOf", "prefixItems"] {
        found.extend(schema[key].as_array().into_iter().flatten().flat_map(all));
    }
    found.extend(schema.get("items").into_iter().flat_map(all));
    // Whether there may be further ones is said by a bare `true` or `false` everywhere.
    let further = schema.get("additionalProperties").filter(|it| it.is_object());
    found.extend(further.into_iter().flat_map(all));
    found
}

fn is(schema: &Value, kind: &str) -> bool {
    let types = &schema["type"];
    types == kind || types.as_array().is_some_and(|all| all.iter().any(|it| it == kind))
}

fn keys(schema: &Value) -> HashSet<&str> {
    schema.as_object().into_iter().flatten().map(|(key, _)| key.as_str()).collect()
}

/// Whether this is one of these words.
fn has(words: &str, word: &str) -> bool {
    words.split(' ').any(|it| it == word)
}

/// What is refused of any tool, strict or not: "object schema missing properties" (OpenAI, of the
/// root alone), "array schema missing items" (OpenAI), "items: missing field" (Gemini), "[..] is
/// not of type 'object', 'boolean'" (OpenAI) and "'items' must be a schema (object or boolean), not
/// an array" (Gemini, Grok) of draft 7's tuples, "None is not of type 'object'" (OpenAI), a status
/// of 500 for a schema that is a bare `true` (Fireworks).
pub fn parameters(root: &Value) -> Wrong {
    let mut wrong = Wrong::new();
    if !is(root, "object") || !root["properties"].is_object() {
        wrong.push("object schema missing properties".to_owned());
    }
    for schema in all(root) {
        if !schema.is_object() {
            wrong.push(format!("{schema} is no object"));
        }
        if is(schema, "array") && schema.get("items").is_none() {
            wrong.push("array schema missing items".to_owned());
        }
        if schema.get("properties").is_some_and(Value::is_null) {
            wrong.push("None is not of type 'object'".to_owned());
        }
    }
    wrong
}

/// Objects that may have any properties, and those in which some others than its own are allowed:
/// a strict mode holds a model to the properties that it is told of, so that a model could say
/// nothing in the place of these but `{}`.
pub fn open(root: &Value) -> Wrong {
    let may_have_any = |(i, schema): (usize, &&Value)| match &schema["additionalProperties"] {
        Value::Bool(further) => *further,
        Value::Null => i > 0 && is(schema, "object") && schema.get("properties").is_none(),
        _ => false,
    };
    let all = all(root);
    let open = all.iter().enumerate().filter(|it| may_have_any(*it));
    open.map(|(_, schema)| format!("may have any properties: {schema}")).collect()
}

/// The bounds that a schema sets and that are neither in what is sent of it nor told in words
/// there.
pub fn untold(given: &Value, sent: &Value) -> Wrong {
    const BOUNDS: &str = "\
        exclusiveMaximum exclusiveMinimum maxLength maxProperties minLength minProperties \
        minimum multipleOf not pattern patternProperties uniqueItems";
    let said = sent.to_string().replace('\\', "");
    let said = |key: &str, value: &Value| {
        // Its schemas may be said in other words.
        if key == "patternProperties" {
            return said.contains(key);
        }
        let value = value.to_string().replace('\\', "");
        [format!("{key}: {value}"), format!("\"{key}\":{value}")].iter().any(|it| said.contains(it))
    };
    let bounds =
        all(given).into_iter().flat_map(|it| BOUNDS.split(' ').map(move |key| (key, it.get(key))));
    let bounds = bounds.filter_map(|(key, value)| Some((key, value?)));
    let untold = bounds.filter(|(key, value)| !said(key, value));
    untold.map(|(key, value)| format!("{key}: {value} is not said")).collect()
}

/// OpenAI: its guide to structured outputs, "Supported schemas"; "$ref cannot have keywords
/// {'description'}", "'default' is not permitted", "schema must have a 'type' key", "array schema
/// missing items", "'required' is required to be supplied and to be an array including every key
/// in properties", "'additionalProperties' is required to be supplied and to be false".
pub fn openai(root: &Value) -> Wrong {
    const KNOWN: &str = "\
        $defs $ref additionalProperties anyOf const definitions description enum \
        exclusiveMaximum exclusiveMinimum format items maxItems maximum minItems minimum \
        multipleOf pattern properties required $schema title type";
    let mut wrong = Vec::new();
    if !is(root, "object") || root.get("anyOf").is_some() || root.get("$ref").is_some() {
        wrong.push("the root is no object".to_owned());
    }
    for schema in all(root) {
        if !schema.is_object() {
            wrong.push(format!("{schema} is no schema"));
            continue;
        }
        let keys = keys(schema);
        let unknown = keys.iter().filter(|it| !has(KNOWN, it));
        wrong.extend(unknown.map(|it| format!("{it} is not permitted")));
        if keys.contains("$ref") && keys.len() > 1 {
            wrong.push(format!("$ref has {keys:?}"));
        }
        wrong.extend(bad_format(schema, &OPENAI_FORMATS));
        if !["type", "anyOf", "$ref", "enum", "const"].iter().any(|it| keys.contains(it)) {
            wrong.push("no type".to_owned());
        }
        if is(schema, "array") && !schema["items"].is_object() {
            wrong.push("no items".to_owned());
        }
        if is(schema, "object") || keys.contains("properties") {
            let properties = schema["properties"].as_object().into_iter().flatten();
            let names: HashSet<_> = properties.map(|it| it.0.as_str()).collect();
            let required = schema["required"].as_array();
            let required = required.map(|it| it.iter().filter_map(Value::as_str).collect());
            if required.as_ref() != Some(&names) || schema["additionalProperties"] != false {
                wrong.push(format!("open: {schema}"));
            }
        }
    }
    wrong
}

/// Anthropic: its guide to structured outputs, "JSON Schema limitations", and what its clients
/// leave of a schema.
pub fn anthropic(root: &Value) -> Wrong {
    const REFUSED: &str = "\
        minimum maximum exclusiveMinimum exclusiveMaximum multipleOf minLength maxLength \
        maxItems uniqueItems oneOf prefixItems patternProperties";
    let mut wrong = Vec::new();
    if !is(root, "object") || root.get("anyOf").is_some() || root.get("$ref").is_some() {
        wrong.push("the root is no object".to_owned());
    }
    for schema in all(root) {
        let keys = keys(schema);
        let refused = keys.iter().filter(|it| has(REFUSED, it));
        wrong.extend(refused.map(|it| format!("{it} is not supported")));
        if keys.contains("$ref") && keys.len() > 1 {
            wrong.push(format!("$ref has {keys:?}"));
        }
        wrong.extend(bad_format(schema, &ANTHROPIC_FORMATS));
        if (is(schema, "object") || keys.contains("properties"))
            && schema["additionalProperties"] != false
        {
            wrong.push(format!("open: {schema}"));
        }
    }
    wrong
}

/// Gemini: the reference of `responseJsonSchema`, which lists what is supported: "If `$ref` is set
/// on a sub-schema, no other properties may be set, except for those starting with a `$`".
pub fn gemini(root: &Value) -> Wrong {
    const LISTED: &str = "\
        $id $defs $ref $anchor type format title description enum items prefixItems minItems \
        maxItems minimum maximum anyOf oneOf properties additionalProperties required \
        propertyOrdering nullable";
    let mut wrong = Vec::new();
    for schema in all(root) {
        let keys = keys(schema);
        let unlisted = keys.iter().filter(|it| !has(LISTED, it));
        wrong.extend(unlisted.map(|it| format!("{it} is not listed")));
        if keys.contains("$ref") && keys.iter().any(|it| !it.starts_with('$')) {
            wrong.push(format!("$ref has {keys:?}"));
        }
    }
    wrong
}

/// Both guides list the formats of a text: "'uri' is not a valid format" is OpenAI's.
fn bad_format(schema: &Value, known: &[&str]) -> Option<String> {
    let format = schema.get("format")?;
    let is_known = format.as_str().is_some_and(|it| known.contains(&it));
    (!is_known).then(|| format!("{format} is not a valid format"))
}

const OPENAI_FORMATS: [&str; 9] =
    ["date-time", "time", "date", "duration", "email", "hostname", "ipv4", "ipv6", "uuid"];

const ANTHROPIC_FORMATS: [&str; 10] =
    ["date-time", "time", "date", "duration", "email", "hostname", "uri", "ipv4", "ipv6", "uuid"];
