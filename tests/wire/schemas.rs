//! Schemas of tools as each provider takes them: random ones, judged by what its reference says and
//! nothing of this crate.

#![allow(clippy::unwrap_used, clippy::panic, missing_docs)] // a test that panics has failed

use std::cell::Cell;
use std::collections::HashSet;
use std::fmt;

use crate::counted;
use crate::judges;
use crate::judges::Wrong;
use crate::setups::{Drawn, prompt_for};
use memory_prompt::wire::Request;
use memory_prompt::{Message, Provider, Tool};
use proptest::prelude::*;
use serde::de::{Deserialize, Deserializer, Error, MapAccess, SeqAccess, Visitor};
use serde_json::{Map, Value, json};

/// JSON in which no name stands twice.
struct Once(Value);

impl<'de> Deserialize<'de> for Once {
    fn deserialize<D: Deserializer<'de>>(deserializer: D) -> Result<Self, D::Error> {
        macro_rules! plain {
            ($($visit:ident($kind:ty))*) => {$(
                fn $visit<E: Error>(self, it: $kind) -> Result<Once, E> {
                    Ok(Once(it.into()))
                }
            )*};
        }
        struct Any;
        impl<'de> Visitor<'de> for Any {
            type Value = Once;
            fn expecting(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
                f.write_str("JSON")
            }
            plain!(visit_bool(bool) visit_i64(i64) visit_u64(u64) visit_f64(f64) visit_str(&str));
            fn visit_unit<E: Error>(self) -> Result<Once, E> {
                Ok(Once(Value::Null))
            }
            fn visit_seq<A: SeqAccess<'de>>(self, mut position: A) -> Result<Once, A::Error> {
                let mut list = Vec::new();
                while let Some(Once(value)) = position.next_element()? {
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

/// What is sent as the parameters of a tool; an error if it is refused beforehand.
fn sent(provider: Provider, schema: &Value, strict: bool) -> Result<Value, String> {
    let prompt = prompt_for(provider, &[Message::user("q")]);
    let tool = Tool::new("t", "").parameters(schema.clone());
    let tools = [tool.with_if(strict, Tool::strict)];
    let request = Request::new(&prompt).model("m").max_tokens(9).tools(&tools);
    let text = serde_json::to_string(&request).map_err(|error| error.to_string())?;
    let Once(body) = serde_json::from_str(&text).unwrap_or_else(|e| panic!("{e}: {text}"));
    let tool = &body["tools"][0];
    let places = [
        &tool["function"]["parameters"],
        &tool["parameters"],
        &tool["input_schema"],
        &tool["functionDeclarations"][0]["parametersJsonSchema"],
    ];
    Ok(places.into_iter().find(|it| it.is_object()).unwrap().clone())
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
        1 => Just(json!({"type": ["array", "null"], "items": true})),
        1 => Just(json!({"type": "array", "items": false})),
        1 => Just(json!({"type": "object"})),
        1 => Just(json!({"type": "object", "additionalProperties": false})),
        1 => Just(json!({"type": "object", "properties": null, "required": null})),
        1 => Just(json!(true)),
        1 => Just(json!(false)),
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
            1 => (list.clone(), tail()).prop_map(|(kinds, tail)| tuple("prefixItems", &kinds, tail)),
            1 => (list, tail()).prop_map(|(kinds, tail)| tuple("items", &kinds, tail)),
            1 => inner.prop_map(|it| tuple("items", &[it.clone(), it], None)),
        ]
    });
    (inner, proptest::collection::vec(beside(), 0..2)).prop_map(|(mut schema, beside)| {
        if let Some(fields) = schema.as_object_mut() {
            fields.extend(beside);
        }
        schema
    })
}

/// A list of one kind at each place, as drafts up to 7 write it or as later ones do.
fn tuple(keyword: &str, kinds: &[Value], tail: Option<Value>) -> Value {
    let mut tuple = json!({"type": "array", keyword: kinds, "minItems": kinds.len()});
    let behind = if keyword == "items" { "additionalItems" } else { "items" };
    match tail {
        Some(tail) => tuple[behind] = tail,
        None => tuple["maxItems"] = kinds.len().into(),
    }
    tuple
}

/// What may stand behind the kinds of a tuple.
fn tail() -> impl Strategy<Value = Option<Value>> {
    let all = vec![None, Some(json!(false)), Some(json!(true)), Some(json!({"type": "boolean"}))];
    proptest::sample::select(all)
}

fn object(inner: impl Strategy<Value = Value>) -> impl Strategy<Value = Value> {
    let beside = proptest::option::weighted(0.4, beside());
    let property = ("[a-c]", any::<bool>(), inner, beside);
    proptest::collection::vec(property, 0..3).prop_map(|properties| {
        let (mut required, mut all) = (HashSet::new(), Map::new());
        for (name, is_required, mut schema, beside) in properties {
            if let Some(fields) = schema.as_object_mut() {
                fields.extend(beside);
            }
            required.extend(is_required.then(|| name.clone()));
            all.insert(name, schema);
        }
        json!({"type": "object", "properties": all, "required": required})
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
        ("format", json!("uri")),
        ("format", json!("email")),
        ("exclusiveMinimum", json!(0)),
        ("not", json!({"const": "b"})),
        ("patternProperties", json!({"^x": {"type": "array"}})),
        ("pattern", json!("^a$")),
        ("additionalProperties", json!(true)),
        ("additionalProperties", json!({"type": "string"})),
        ("additionalProperties", json!(false)),
        ("allOf", json!([{"type": "string", "pattern": "^kept$"}])),
        ("allOf", json!([{"$ref": "#/$defs/d"}])),
        ("allOf", json!([{"minimum": 1}, {"maximum": 7, "description": "more"}])),
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
type Judge = fn(&Value) -> Wrong;

const SENT: [(Provider, bool, Judge); 13] = [
    (Provider::OpenAi, true, judges::openai),
    (Provider::OpenAiResponses, true, judges::openai),
    (Provider::Anthropic, true, judges::anthropic),
    (Provider::Gemini, false, judges::gemini),
    (Provider::Vertex, true, judges::gemini),
    (Provider::OpenAi, false, judges::parameters),
    (Provider::OpenAiResponses, false, judges::parameters),
    (Provider::Anthropic, false, judges::parameters),
    (Provider::GoogleOpenAi, false, judges::parameters),
    (Provider::Mistral, false, judges::parameters),
    (Provider::Vllm, false, judges::parameters),
    (Provider::OpenAiCompatible, false, judges::parameters),
    (Provider::Ollama, true, judges::parameters),
];

/// A schema is sent as its provider takes it, or refused beforehand: a keyword stood twice where
/// two are written as one, and a `$ref` beside others, which is a 400. So is an object without
/// `properties`, an array without `items` or with a list of them, a bare `true`, and a format that
/// the mode doesn't know, all of which were sent. Gemini was sent nothing of an `allOf` or of
/// bounds that it has no keyword for, and strict modes were told that objects which may have any
/// properties have none.
#[test]
fn a_schema_is_as_its_provider_takes_it_or_refused() {
    let taken = [const { Cell::new(0) }; SENT.len()];
    let cases = counted::cases(1500);
    let config = ProptestConfig { cases, failure_persistence: None, ..ProptestConfig::default() };
    proptest!(config, |(schema in root())| {
        for ((provider, strict, judge), taken) in SENT.into_iter().zip(&taken) {
            let is_held = strict && !matches!(provider, Provider::Vertex | Provider::Ollama);
            match sent(provider, &schema, strict) {
                Ok(sent) => {
                    let mut wrong = [judge(&sent), judges::parameters(&sent)].concat();
                    wrong.extend(judges::untold(&schema, &sent));
                    if is_held {
                        wrong.extend(judges::open(&schema));
                    }
                    prop_assert!(wrong.is_empty(), "{provider}: {wrong:?}\n{schema:#}\n{sent:#}");
                    taken.set(taken.get() + 1);
                }
                Err(error) => {
                    let expected = format!("request for {}: tools", provider.row().name());
                    prop_assert!(error.starts_with(&expected), "{error}");
                }
            }
        }
    });
    let taken = taken.map(Cell::into_inner);
    println!("counted: schemas that are sent: {taken:?} of {cases}");
    assert!(taken.iter().all(|it| *it > cases / 8), "{taken:?}");
}

/// What is sent of the only property `a` of a tool.
fn property(provider: Provider, schema: &Value, strict: bool) -> Result<Value, String> {
    let root = json!({"type": "object", "properties": {"a": schema}, "required": ["a"]});
    sent(provider, &root, strict).map(|it| it["properties"]["a"].clone())
}

const FORMATS: [Provider; 5] = [
    Provider::OpenAi,
    Provider::OpenAiResponses,
    Provider::Anthropic,
    Provider::Gemini,
    Provider::Ollama,
];

/// A tool without arguments, as a type without fields says it and as servers of tools write it, was
/// sent as `{"type": "object"}`: "In context=(), object schema missing properties".
#[test]
fn a_tool_that_takes_nothing_has_properties() {
    for provider in FORMATS {
        for schema in [json!({}), json!({"type": "object"}), json!({"properties": null})] {
            for strict in [false, true] {
                let sent = sent(provider, &schema, strict).unwrap();
                assert_eq!((&sent["type"], &sent["properties"]), (&json!("object"), &json!({})));
            }
        }
    }
}

/// The tuple of a Rust type, a list at `items`, was a 400 everywhere: "[..] is not of type
/// 'object', 'boolean'"; and `prefixItems` alone was another, "array schema missing items".
#[test]
fn a_tuple_is_a_list_of_its_kinds() {
    let (number, text) = (json!({"type": "number"}), json!({"type": "string"}));
    for keyword in ["items", "prefixItems"] {
        let pair = |kinds: [&Value; 2]| json!({"type": "array", keyword: kinds, "minItems": 2, "maxItems": 2});
        for provider in FORMATS {
            let point = property(provider, &pair([&number, &number]), false).unwrap();
            let expected = json!({"type": "array", "items": number, "minItems": 2, "maxItems": 2});
            assert_eq!(point, expected, "{provider}");
            let mixed = property(provider, &pair([&number, &text]), false).unwrap();
            assert_eq!(mixed["items"], json!({"anyOf": [number, text]}), "{provider}");
            // Which kind stands where is lost but for this.
            let told = r#"{prefixItems: [{"type":"number"},{"type":"string"}]}"#;
            assert_eq!(mixed["description"], told, "{provider}");
        }
        let openai = property(Provider::OpenAi, &pair([&number, &number]), true).unwrap();
        assert_eq!((&openai["items"], &openai["maxItems"]), (&number, &json!(2)));
        for provider in [Provider::OpenAi, Provider::Anthropic] {
            let error = property(provider, &pair([&number, &text]), true).unwrap_err();
            let said = "tools: at `a`: a strict schema can't have a tuple of several kinds";
            assert!(error.ends_with(said), "{error}");
        }
    }
    // What may stand behind its kinds is one of them.
    let behind = json!({"type": "array", "prefixItems": [number], "items": text, "minItems": 1});
    let sent = property(Provider::Gemini, &behind, false).unwrap();
    assert_eq!(sent["items"], json!({"anyOf": [number, text]}));
    assert_eq!((sent.get("maxItems"), &sent["minItems"]), (None, &json!(1)));
    let closed = json!({"type": "array", "prefixItems": [number], "items": false});
    let sent = property(Provider::OpenAi, &closed, false).unwrap();
    assert_eq!(sent, json!({"type": "array", "items": number, "maxItems": 1}));
}

#[cfg(feature = "schemars")]
#[test]
fn types_of_rust_are_parameters_that_providers_take() {
    #[derive(schemars::JsonSchema)]
    #[expect(dead_code, reason = "its schema is all that is read")]
    struct Place {
        at: (f64, f64),
        named: Option<(u8, String)>,
        any: Value,
        all: Vec<Value>,
        by_name: std::collections::BTreeMap<String, Vec<Value>>,
    }
    #[derive(schemars::JsonSchema)]
    struct Nothing {}
    let tools = [Tool::new("t", "").takes::<Place>(), Tool::new("t", "").takes::<Nothing>()];
    for provider in FORMATS {
        for tool in &tools {
            let sent = sent(provider, tool.schema(), false).unwrap();
            assert_eq!(judges::parameters(&sent), Wrong::new(), "{provider}: {sent}");
        }
    }
}

/// One list of formats stood for two strict modes: "'uri' is not a valid format" is OpenAI's.
#[test]
fn a_format_goes_to_the_strict_mode_that_knows_it() {
    let link = json!({"type": "string", "format": "uri"});
    let told = json!({"type": "string", "description": "{format: \"uri\"}"});
    for provider in [Provider::OpenAi, Provider::OpenAiResponses] {
        assert_eq!(property(provider, &link, true).unwrap(), told);
        assert_eq!(property(provider, &link, false).unwrap(), link);
    }
    assert_eq!(property(Provider::Anthropic, &link, true).unwrap(), link);
    let mail = json!({"type": "string", "format": "email"});
    assert_eq!(property(Provider::OpenAi, &mail, true).unwrap(), mail);
}

/// `{"type": "array"}` is "array schema missing items" and "items: missing field", and a bare
/// `true`, a value of any type, was answered with a status of 500.
#[test]
fn what_is_not_said_is_said_to_be_anything() {
    let none = json!({"type": "array", "maxItems": 0, "items": {}});
    for provider in FORMATS {
        let sent = |schema: Value| property(provider, &schema, false).unwrap();
        assert_eq!(sent(json!({"type": "array"})), json!({"type": "array", "items": {}}));
        assert_eq!(sent(json!({"type": "array", "items": true}))["items"], json!({}));
        assert_eq!(sent(json!({"type": "array", "items": false})), none);
        assert_eq!(sent(json!(true)), json!({}));
        let inner = sent(json!({"type": "object", "additionalProperties": {"type": "array"}}));
        assert_eq!(inner["additionalProperties"]["items"], json!({}), "{provider}");
        let nothing = match provider {
            Provider::Gemini => json!({"description": "{not: {}}"}),
            _ => json!({"not": {}}),
        };
        assert_eq!(sent(json!(false)), nothing);
    }
}

/// Gemini knows no `allOf`, by which older generators describe a reference, and was sent neither
/// type nor fields of what stood in one; nor a bound that it has no keyword for.
#[test]
fn gemini_is_told_what_its_schemas_have_no_keyword_for() {
    let sent = |schema: Value| property(Provider::Gemini, &schema, false);
    let reference = json!({"allOf": [{"$ref": "#/definitions/A"}], "description": "The z."});
    let expected = json!({"description": "The z.", "anyOf": [{"$ref": "#/$defs/A"}]});
    assert_eq!(sent(reference).unwrap(), expected);
    let parts = json!({"description": "A person.", "minProperties": 1, "allOf": [
        {"type": "object", "properties": {"n": {"type": "number", "minimum": 1}}, "required": ["n"]},
        {"type": "object", "properties": {"n": {"type": "integer", "minimum": 3}, "m": {}},
            "required": ["m"], "description": "Named."},
    ]});
    let expected = json!({"type": "object", "description": "A person. Named. {minProperties: 1}",
        "properties": {"n": {"type": "integer", "minimum": 3}, "m": {}}, "required": ["n", "m"]});
    assert_eq!(sent(parts).unwrap(), expected);
    let closed = json!({"properties": {"b": {}}, "additionalProperties": false});
    for (keyword, parts) in [
        ("type", json!([{"type": "string"}, {"type": "number"}])),
        ("$ref", json!([{"$ref": "#/$defs/a"}, {"type": "object", "properties": {"b": {}}}])),
        ("anyOf", json!([{"anyOf": [{}]}, {"anyOf": [{"type": "null"}]}])),
        ("additionalProperties", json!([closed, {"properties": {"c": {}}}])),
    ] {
        let error = sent(json!({"allOf": parts})).unwrap_err();
        let said = format!("a schema can't have several `{keyword}`s in `allOf` here");
        assert!(error.ends_with(&format!("tools: at `a`: {said}")), "{error}");
    }
    let root = json!({"allOf": [{"type": "string"}]});
    let error = self::sent(Provider::Gemini, &root, false).unwrap_err();
    assert!(error.ends_with("tools: parameters can't be anything but an object"), "{error}");
    let bounds = json!({"type": "string", "pattern": "^a", "minLength": 1, "not": {"const": "ab"}});
    let told = r#"{minLength: 1, not: {"const":"ab"}, pattern: "^a"}"#;
    assert_eq!(sent(bounds).unwrap(), json!({"type": "string", "description": told}));
    let beside = json!({"$ref": "#/$defs/a", "minimum": 1, "default": 3});
    let expected = json!({"description": "{minimum: 1}", "anyOf": [{"$ref": "#/$defs/a"}]});
    assert_eq!(sent(beside).unwrap(), expected);
}

/// A map of any values became, in strict modes, an object that has no properties: the model could
/// only ever say `{}` for it.
#[test]
fn a_strict_mode_closes_no_object_that_is_open() {
    let open = "a strict schema can't leave the properties of an object open";
    for provider in [Provider::OpenAi, Provider::OpenAiResponses, Provider::Anthropic] {
        for schema in [
            json!({"type": "object"}),
            json!({"type": "object", "additionalProperties": true}),
            json!({"type": "object", "properties": {"k": {"type": "null"}}, "additionalProperties": true}),
        ] {
            let listed = json!({"type": "array", "items": schema});
            for (schema, place) in [(&schema, "a"), (&listed, "a.items")] {
                let error = property(provider, schema, true).unwrap_err();
                assert!(error.ends_with(&format!("tools: at `{place}`: {open}")), "{error}");
            }
        }
        let root = json!({"type": "object", "properties": {}, "additionalProperties": true});
        let error = sent(provider, &root, true).unwrap_err();
        assert!(error.ends_with(&format!("tools: {open}")), "{error}");
        let closed = json!({"type": "object", "additionalProperties": false});
        assert_eq!(property(provider, &closed, true).unwrap()["properties"], json!({}));
    }
}

/// Each rule of the judges has a schema that it refuses.
#[test]
fn the_judges_can_fail() {
    let refuses = |wrong: Wrong, why: &str| {
        assert!(wrong.iter().any(|it| it.contains(why)), "{why}: {wrong:?}");
    };
    let of_a = |a: Value| json!({"type": "object", "properties": {"a": a}, "required": ["a"], "additionalProperties": false});
    refuses(judges::parameters(&json!({"type": "object"})), "missing properties");
    refuses(judges::parameters(&of_a(json!({"type": "array"}))), "missing items");
    refuses(judges::parameters(&of_a(json!({"items": [{}]}))), "is no object");
    refuses(judges::parameters(&of_a(json!(true))), "is no object");
    refuses(judges::parameters(&of_a(json!({"properties": null}))), "None");
    let uri = of_a(json!({"type": "string", "format": "uri"}));
    refuses(judges::openai(&uri), "not a valid format");
    assert_eq!(judges::anthropic(&uri), Wrong::new());
    refuses(judges::anthropic(&of_a(json!({"format": "uint8"}))), "not a valid format");
    refuses(judges::open(&of_a(json!({"type": "object"}))), "any properties");
    refuses(judges::open(&json!({"additionalProperties": true})), "any properties");
    refuses(judges::untold(&of_a(json!({"minLength": 1})), &of_a(json!({}))), "minLength");
    refuses(judges::gemini(&of_a(json!({"allOf": []}))), "not listed");
}

/// Anthropic's strict mode takes no schema that leads back to itself: a 400 that came with the
/// first request. An `allOf` within one, which it takes, was an error.
#[test]
fn anthropic_is_sent_no_schema_that_leads_back_to_itself() {
    let tree = json!({"type": "object", "properties": {"label": {"type": "string"},
        "of": {"type": "array", "items": {"$ref": "#/$defs/tree"}}}, "required": ["label", "of"]});
    let shared = json!({"type": "object", "$defs": {"day": {"type": "string", "format": "date"}},
        "properties": {"from": {"$ref": "#/$defs/day"}, "to": {"$ref": "#/$defs/day"}},
        "required": ["from", "to"]});
    let itself = json!({"type": "object", "properties": {"of": {"$ref": "#"}}, "required": ["of"]});
    let trees = json!({"type": "object", "$defs": {"tree": tree}, "properties":
        {"all": {"anyOf": [{"$ref": "#/$defs/tree"}, {"type": "null"}]}}, "required": ["all"]});
    let longer = json!({"type": "object", "$defs": {
        "a": {"type": "object", "properties": {"b": {"$ref": "#/$defs/b"}}, "required": ["b"]},
        "b": {"type": "array", "items": {"$ref": "#/$defs/a"}}},
        "properties": {"a": {"$ref": "#/$defs/a"}}, "required": ["a"]});
    for schema in [&itself, &trees, &longer] {
        let error = sent(Provider::Anthropic, schema, true).unwrap_err();
        assert!(error.ends_with("tools: a strict schema can't refer to itself"), "{error}");
        assert!(sent(Provider::Anthropic, schema, false).is_ok());
        assert!(sent(Provider::OpenAi, schema, true).is_ok());
    }
    assert!(sent(Provider::Anthropic, &shared, true).is_ok());

    let parts = json!({"allOf": [
        {"type": "object", "properties": {"x": {"type": "integer"}}, "required": ["x"]},
        {"properties": {"y": {"type": "string"}}, "required": ["y"], "description": "A place."}]});
    let one = json!({"type": "object", "properties": {"x": {"type": "integer"}, "y": {"type": "string"}},
        "required": ["x", "y"], "description": "A place.", "additionalProperties": false});
    assert_eq!(property(Provider::Anthropic, &parts, true).unwrap(), one);
}

/// Beyond these numbers Anthropic answers 400: "too many optional parameters".
#[test]
fn anthropic_is_sent_no_more_strict_tools_than_it_takes() {
    let tools = |count: usize, optional: usize, unions: usize| -> Vec<Tool> {
        let name = |i: usize| format!("p{i}");
        let (text, union) = (json!({"type": "string"}), json!({"type": ["string", "null"]}));
        let kind = |i: usize| if i < unions { union.clone() } else { text.clone() };
        let properties: Map<_, _> = (0..25).map(|i| (name(i), kind(i))).collect();
        let required: Vec<_> = (optional..25).map(name).collect();
        let first = json!({"type": "object", "properties": properties, "required": required});
        let tool = |i: usize| Tool::new(format!("t{i}"), "Does it.");
        let rest = (1..count).map(&tool);
        std::iter::once(tool(0).parameters(first)).chain(rest).collect()
    };
    for ([count, optional, unions], why) in [
        ([20, 24, 16], None),
        ([21, 24, 16], Some(("21 strict tools", 20))),
        ([20, 25, 16], Some(("25 properties of strict tools that are not required", 24))),
        ([20, 24, 17], Some(("17 properties of strict tools that are of several types", 16))),
    ] {
        let tools = tools(count, optional, unions);
        for provider in [Provider::Anthropic, Provider::OpenAi, Provider::Gemini] {
            let prompt = prompt_for(provider, &[Message::user("hi")]);
            let request = Request::new(&prompt).max_tokens(9).tools(&tools);
            assert!(request.check().is_ok());
            let possible = request.strict_possible().map_err(|error| error.to_string());
            let why = why.filter(|_| provider == Provider::Anthropic).map(|(what, most)| {
                format!(
                    "write request: for anthropic: tools: {what}, and the provider takes {most}"
                )
            });
            assert_eq!(possible.err(), why);
            let strict: Vec<_> = tools.iter().cloned().map(Tool::strict).collect();
            let request = Request::new(&prompt).max_tokens(9).tools(&strict);
            assert_eq!(request.check().is_ok(), request.strict_possible().is_ok());
        }
    }
}
