//! The `null`s that a model writes because a strict mode wants every property.

use std::iter;

use serde_json::{Map, Value};

/// Removes the `null`s of properties that this schema does not require, and that may not be `null`
/// by it. Returns whether there were any.
///
/// The value was parsed, so its depth is limited. Each step goes deeper into it, or along a
/// reference, and there are few in a row.
pub(super) fn remove_nulls(value: &mut Value, schema: &Value, root: &Value) -> bool {
    let schema = resolved(schema, root);
    match value {
        Value::Object(fields) => {
            let of_choice = alternatives(schema).filter(|it| describes(it, fields, root));
            // If several describe it, it is unknown which is meant.
            let mut meant: Vec<_> = of_choice.collect();
            let only = if meant.len() == 1 { meant.pop() } else { None };
            let of_choice =
                only.is_some_and(|it| remove_nulls_of(fields, resolved(it, root), root));
            remove_nulls_of(fields, schema, root) || of_choice
        }
        Value::Array(list) => {
            let choice = alternatives(schema).map(|it| resolved(it, root));
            let mut all = iter::once(schema).chain(choice).filter_map(|it| it.get("items"));
            // If several lists may be meant, it is unknown which is.
            let (Some(items), None) = (all.next(), all.next()) else { return false };
            list.iter_mut().filter_map(|it| remove_nulls(it, items, root).then_some(())).count() > 0
        }
        _ => false,
    }
}

fn remove_nulls_of(fields: &mut Map<String, Value>, schema: &Value, root: &Value) -> bool {
    let Some(Value::Object(properties)) = schema.get("properties") else { return false };
    let before = fields.len();
    fields.retain(|name, value| {
        let optional = properties.get(name).filter(|_| !requires(schema, name));
        !value.is_null() || optional.is_none_or(|schema| may_be_null(schema, root))
    });
    let mut has_changed = fields.len() < before;
    for (name, schema) in properties {
        let inner = fields.get_mut(name).is_some_and(|value| remove_nulls(value, schema, root));
        has_changed |= inner;
    }
    has_changed
}

/// Returns the schema that a reference within the root leads to.
fn resolved<'a>(schema: &'a Value, root: &'a Value) -> &'a Value {
    const MOST: usize = 8;
    let mut schema = schema;
    for _ in 0..MOST {
        let path = schema.get("$ref").and_then(Value::as_str).and_then(|it| it.strip_prefix('#'));
        match path.and_then(|path| root.pointer(path)) {
            Some(next) => schema = next,
            None => break,
        }
    }
    schema
}

fn alternatives(schema: &Value) -> impl Iterator<Item = &Value> {
    ["anyOf", "oneOf"].into_iter().filter_map(|it| schema.get(it)?.as_array()).flatten()
}

/// Returns whether these may be the fields of an object of the schema.
fn describes(schema: &Value, fields: &Map<String, Value>, root: &Value) -> bool {
    let properties = resolved(schema, root).get("properties").and_then(Value::as_object);
    properties.is_some_and(|all| fields.keys().all(|name| all.contains_key(name)))
}

fn requires(schema: &Value, name: &str) -> bool {
    let required = schema.get("required").and_then(Value::as_array);
    required.is_some_and(|all| all.iter().any(|it| it == name))
}

fn may_be_null(schema: &Value, root: &Value) -> bool {
    /// A schema that has none of these keywords allows any kind of value, `null` included.
    const NARROW: [&str; 7] = ["$ref", "allOf", "anyOf", "const", "enum", "oneOf", "type"];
    let schema = resolved(schema, root);
    let is_narrow = |fields: &Map<_, _>| NARROW.iter().any(|it| fields.contains_key(*it));
    if *schema == true || schema.as_object().is_some_and(|fields| !is_narrow(fields)) {
        return true;
    }
    let says = |keyword: &str, null: &Value| {
        let said = schema.get(keyword);
        said.is_some_and(|it| it == null || it.as_array().is_some_and(|all| all.contains(null)))
    };
    says("type", &"null".into())
        || says("enum", &Value::Null)
        || says("const", &Value::Null)
        || alternatives(schema).any(|it| {
            // One step only: a choice within a choice is the same choice.
            it.get("type").is_some_and(|it| it == "null") || it.get("const") == Some(&Value::Null)
        })
}
