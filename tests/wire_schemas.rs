//! Schemas of tools as each provider takes them: random ones, judged by what its reference says and
//! nothing of this crate.

#![allow(clippy::unwrap_used, clippy::panic, missing_docs)] // a test that panics has failed

use std::cell::Cell;
use std::collections::HashSet;
use std::fmt;

use memory_prompt::record::Snapshot;
use memory_prompt::wire::Request;
use memory_prompt::{Composer, Message, Provider, Tool};
use proptest::prelude::*;
use serde::de::{Deserialize, Deserializer, Error, MapAccess, SeqAccess, Visitor};
use serde_json::{Map, Value, json};

/// JSON in which no name stands twice.
struct Once(Value);

impl<'de> Deserialize<'de> for Once {
    fn deserialize<D: Deserializer<'de>>(deserializer: D) -> Result<Self, D::Error> {
        struct Any;
        impl<'de> Visitor<'de> for Any {
            type Value = Once;
            fn expecting(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
                f.write_str("JSON")
            }
            fn visit_bool<E: Error>(self, it: bool) -> Result<Once, E> {
                Ok(Once(it.into()))
            }
            fn visit_i64<E: Error>(self, it: i64) -> Result<Once, E> {
                Ok(Once(it.into()))
            }
            fn visit_u64<E: Error>(self, it: u64) -> Result<Once, E> {
                Ok(Once(it.into()))
            }
            fn visit_f64<E: Error>(self, it: f64) -> Result<Once, E> {
                Ok(Once(it.into()))
            }
            fn visit_str<E: Error>(self, it: &str) -> Result<Once, E> {
                Ok(Once(it.into()))
            }
            fn visit_unit<E: Error>(self) -> Result<Once, E> {
                Ok(Once(Value::Null))
            }
            fn visit_seq<A: SeqAccess<'de>>(self, mut seq: A) -> Result<Once, A::Error> {
                let mut list = Vec::new();
                while let Some(Once(value)) = seq.next_element()? {
                    list.push(value);
                }
                Ok(Once(list.into()))
            }
            fn visit_map<A: MapAccess<'de>>(self, mut map: A) -> Result<Once, A::Error> {
                let mut all = Map::new();
                while let Some((key, Once(value))) = map.next_entry::<String, Once>()? {
                    if all.insert(key.clone(), value).is_some() {
                        return Err(A::Error::custom(format!("{key} stands twice")));
                    }
                }
                Ok(Once(all.into()))
            }
        }
        deserializer.deserialize_any(Any)
    }
}

/// What is sent as the parameters of a tool; an error where it is refused beforehand.
fn sent(provider: Provider, schema: &Value, strict: bool) -> Result<Value, String> {
    let history = Snapshot::from_messages([Message::user("q")]);
    let prompt = Composer::new().for_provider(provider).compose_all(&history, &[]).unwrap();
    let tool = Tool::new("t", "").parameters(schema.clone());
    let tools = [if strict { tool.strict() } else { tool }];
    let request = Request::new(&prompt).model("m").max_tokens(9).tools(&tools);
    let text = serde_json::to_string(&request).map_err(|error| error.to_string())?;
    let Once(body) = serde_json::from_str(&text).unwrap_or_else(|e| panic!("{e}: {text}"));
    let tool = &body["tools"][0];
    let places = [
        &tool["function"]["parameters"],
        &tool["input_schema"],
        &tool["functionDeclarations"][0]["parametersJsonSchema"],
    ];
    Ok(places.into_iter().find(|it| it.is_object()).unwrap().clone())
}

/// Every schema in a schema, itself first.
fn all(schema: &Value) -> Vec<&Value> {
    let mut found = vec![schema];
    for key in ["properties", "$defs", "definitions"] {
        found.extend(schema[key].as_object().into_iter().flatten().flat_map(|(_, it)| all(it)));
    }
    for key in ["anyOf", "oneOf", "allOf", "prefixItems"] {
        found.extend(schema[key].as_array().into_iter().flatten().flat_map(all));
    }
    for key in ["items", "additionalProperties"] {
        found.extend(schema.get(key).filter(|it| it.is_object()).into_iter().flat_map(all));
    }
    found
}

fn is(schema: &Value, kind: &str) -> bool {
    let types = &schema["type"];
    types == kind || types.as_array().is_some_and(|all| all.iter().any(|it| it == kind))
}

fn keys(schema: &Value) -> HashSet<&str> {
    schema.as_object().into_iter().flatten().map(|(key, _)| key.as_str()).collect()
}

/// OpenAI: its guide to structured outputs, "Supported schemas"; "$ref cannot have keywords
/// {'description'}", "'default' is not permitted", "schema must have a 'type' key", "array schema
/// missing items", "'required' is required to be supplied and to be an array including every key
/// in properties", "'additionalProperties' is required to be supplied and to be false".
fn openai(root: &Value) -> Vec<String> {
    const KNOWN: [&str; 20] = [
        "$defs",
        "$ref",
        "additionalProperties",
        "anyOf",
        "const",
        "definitions",
        "description",
        "enum",
        "exclusiveMaximum",
        "exclusiveMinimum",
        "format",
        "items",
        "maxItems",
        "maximum",
        "minItems",
        "minimum",
        "multipleOf",
        "pattern",
        "properties",
        "required",
    ];
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
        let unknown = keys
            .iter()
            .filter(|it| !KNOWN.contains(it) && !["type", "title", "$schema"].contains(it));
        wrong.extend(unknown.map(|it| format!("{it} is not permitted")));
        if keys.contains("$ref") && keys.len() > 1 {
            wrong.push(format!("$ref has {keys:?}"));
        }
        if !["type", "anyOf", "$ref", "enum", "const"].iter().any(|it| keys.contains(it)) {
            wrong.push("no type".to_owned());
        }
        if is(schema, "array") && !schema["items"].is_object() {
            wrong.push("no items".to_owned());
        }
        if is(schema, "object") || keys.contains("properties") {
            let names: HashSet<_> = schema["properties"]
                .as_object()
                .into_iter()
                .flatten()
                .map(|it| it.0.as_str())
                .collect();
            let required = schema["required"]
                .as_array()
                .map(|it| it.iter().filter_map(Value::as_str).collect());
            if required.as_ref() != Some(&names) || schema["additionalProperties"] != false {
                wrong.push(format!("open: {schema}"));
            }
        }
    }
    wrong
}

/// Anthropic: its guide to structured outputs, "JSON Schema limitations", and what its clients
/// leave of a schema.
fn anthropic(root: &Value) -> Vec<String> {
    const REFUSED: [&str; 12] = [
        "minimum",
        "maximum",
        "exclusiveMinimum",
        "exclusiveMaximum",
        "multipleOf",
        "minLength",
        "maxLength",
        "maxItems",
        "uniqueItems",
        "oneOf",
        "prefixItems",
        "patternProperties",
    ];
    let mut wrong = Vec::new();
    if !is(root, "object") || root.get("anyOf").is_some() || root.get("$ref").is_some() {
        wrong.push("the root is no object".to_owned());
    }
    for schema in all(root) {
        let keys = keys(schema);
        wrong.extend(
            REFUSED
                .iter()
                .filter(|it| keys.contains(*it))
                .map(|it| format!("{it} is not supported")),
        );
        if keys.contains("$ref") && keys.len() > 1 {
            wrong.push(format!("$ref has {keys:?}"));
        }
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
fn gemini(root: &Value) -> Vec<String> {
    const LISTED: [&str; 22] = [
        "$id",
        "$defs",
        "$ref",
        "$anchor",
        "type",
        "format",
        "title",
        "description",
        "enum",
        "items",
        "prefixItems",
        "minItems",
        "maxItems",
        "minimum",
        "maximum",
        "anyOf",
        "oneOf",
        "properties",
        "additionalProperties",
        "required",
        "propertyOrdering",
        "nullable",
    ];
    let mut wrong = Vec::new();
    for schema in all(root) {
        let keys = keys(schema);
        wrong.extend(
            keys.iter().filter(|it| !LISTED.contains(it)).map(|it| format!("{it} is not listed")),
        );
        if keys.contains("$ref") && keys.iter().any(|it| !it.starts_with('$')) {
            wrong.push(format!("$ref has {keys:?}"));
        }
    }
    wrong
}

/// A schema of anything that tools are known to have.
fn schema() -> impl Strategy<Value = Value> {
    let leaf = prop_oneof![
        3 => proptest::sample::select(vec!["string", "integer", "number", "boolean", "null"])
            .prop_map(|it| json!({"type": it})),
        1 => Just(json!({"type": ["string", "null"]})),
        1 => Just(json!({"enum": ["a", "b"]})),
        1 => Just(json!({"const": "a"})),
        1 => Just(json!({"const": "a", "enum": ["a", "b"]})),
        2 => proptest::sample::select(vec!["#/$defs/d", "#/definitions/d"])
            .prop_map(|it| json!({"$ref": it})),
        1 => Just(json!({"type": "array"})),
        1 => Just(json!(true)),
        1 => Just(json!({})),
    ];
    let inner = leaf.prop_recursive(4, 24, 3, |inner| {
        let list = proptest::collection::vec(inner.clone(), 1..3);
        prop_oneof![
            3 => object(inner.clone()),
            2 => inner.clone().prop_map(|it| json!({"type": "array", "items": it})),
            1 => list.clone().prop_map(|it| json!({"anyOf": it})),
            1 => list.clone().prop_map(|it| json!({"oneOf": it})),
            1 => (list.clone(), list.clone()).prop_map(|(one, other)| json!({"anyOf": one, "oneOf": other})),
            1 => list.prop_map(|it| json!({"type": "array", "prefixItems": it})),
        ]
    });
    (inner, proptest::collection::vec(beside(), 0..2)).prop_map(|(mut schema, beside)| {
        if let Some(fields) = schema.as_object_mut() {
            fields.extend(beside);
        }
        schema
    })
}

fn object(inner: impl Strategy<Value = Value>) -> impl Strategy<Value = Value> {
    let beside = proptest::option::weighted(0.4, beside());
    let property = ("[a-c]", any::<bool>(), inner, beside);
    proptest::collection::vec(property, 0..3).prop_map(|properties| {
        let required: HashSet<_> =
            properties.iter().filter(|it| it.1).map(|it| it.0.clone()).collect();
        let properties: Map<_, _> = properties
            .into_iter()
            .map(|(name, _, mut schema, beside)| {
                if let Some(fields) = schema.as_object_mut() {
                    fields.extend(beside);
                }
                (name, schema)
            })
            .collect();
        json!({"type": "object", "properties": properties, "required": required})
    })
}

/// What may stand beside whatever a schema says.
fn beside() -> impl Strategy<Value = (String, Value)> {
    let known = vec![
        ("description", json!("what it is")),
        ("title", json!("T")),
        ("default", json!("a")),
        ("examples", json!(["a"])),
        ("minimum", json!(1)),
        ("maxLength", json!(9)),
        ("minItems", json!(2)),
        ("uniqueItems", json!(true)),
        ("minProperties", json!(1)),
        ("format", json!("uint8")),
        ("pattern", json!("^a$")),
        ("additionalProperties", json!(true)),
        ("additionalProperties", json!({"type": "string"})),
        ("allOf", json!([{"type": "string"}])),
        ("deprecated", json!(true)),
    ];
    proptest::sample::select(known).prop_map(|(key, value)| (key.to_owned(), value))
}

fn root() -> impl Strategy<Value = Value> {
    let defs =
        proptest::option::weighted(0.5, proptest::sample::select(vec!["$defs", "definitions"]));
    let both = proptest::bool::weighted(0.1);
    let root = prop_oneof![9 => object(schema()), 1 => schema()];
    (root, schema(), defs, both).prop_map(|(mut root, inner, defs, both)| {
        if let (Some(fields), Some(name)) = (root.as_object_mut(), defs) {
            fields.insert(name.to_owned(), json!({"d": inner}));
            if both {
                fields.insert("$defs".to_owned(), json!({"d": {"type": "string"}}));
            }
        }
        root
    })
}

/// Names what a provider would refuse of a schema.
type Judge = fn(&Value) -> Vec<String>;

/// A schema is sent as its provider takes it, or refused beforehand: a keyword stood twice where
/// two are written as one, and a `$ref` beside others, which is a 400.
#[test]
fn a_schema_is_as_its_provider_takes_it_or_refused() {
    let taken = [const { Cell::new(0) }; 3];
    let cases = 1500;
    proptest!(ProptestConfig { cases, failure_persistence: None, ..ProptestConfig::default() }, |(schema in root())| {
        let judges: [(Provider, bool, Judge); 3] = [
            (Provider::OpenAi, true, openai),
            (Provider::Anthropic, true, anthropic),
            (Provider::Gemini, false, gemini),
        ];
        for ((provider, strict, judge), taken) in judges.into_iter().zip(&taken) {
            match sent(provider, &schema, strict) {
                Ok(sent) => {
                    let wrong = judge(&sent);
                    prop_assert!(wrong.is_empty(), "{provider}: {wrong:?}\n{schema:#}\n{sent:#}");
                    taken.set(taken.get() + 1);
                }
                Err(error) => {
                    let expected = format!("request for {provider}: tools");
                    prop_assert!(error.starts_with(&expected), "{error}");
                }
            }
        }
    });
    let taken = taken.map(Cell::into_inner);
    println!("counted: schemas that openai, anthropic and gemini are sent: {taken:?} of {cases}");
    assert!(taken.iter().all(|it| *it > cases / 8), "{taken:?}");
}
