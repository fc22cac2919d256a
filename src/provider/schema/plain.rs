//! Rewrites a schema in the forms that all providers read: where drafts of JSON schema differ, or
//! allow something to be left out.

use std::borrow::Cow;

use serde_json::{Value, json};

use super::merge::merge_all_of;
use super::place::SchemaPath;
use super::{Taken, has_type};
use crate::message::Attributes;

/// The keywords that hold a map of schemas, a list of them, or one.
const MAPS: [&str; 4] = ["$defs", "definitions", "patternProperties", "properties"];
const LISTS: [&str; 4] = ["allOf", "anyOf", "oneOf", "prefixItems"];
const ONES: [&str; 2] = ["additionalProperties", "items"];

/// Returns a schema in plain forms: `{}` for `true`, `items` for every array, one schema for all
/// places of a tuple. For Gemini, which has no `allOf`, and for Anthropic's strict mode, which
/// closes each object in it, also merges each `allOf`.
pub(super) fn plain(schema: &Value, taken: Taken) -> Result<Cow<'_, Value>, String> {
    if is_plain(schema, taken) {
        return Ok(Cow::Borrowed(schema));
    }
    let mut copy = schema.clone();
    make_plain(&mut copy, taken, &SchemaPath::Root)?;
    Ok(Cow::Owned(copy))
}

fn is_plain(schema: &Value, taken: Taken) -> bool {
    let Value::Object(fields) = schema else { return !schema.is_boolean() };
    let has_items = fields.get("items").is_some_and(|it| !it.is_array() && !it.is_boolean());
    let own = !fields.contains_key("prefixItems")
        && (has_items || !fields.contains_key("items") && !has_type(fields, "array"))
        && (!taken.merges() || !fields.contains_key("allOf"))
        && !NULLS.iter().any(|it| fields.get(*it).is_some_and(Value::is_null));
    own && inner(fields).all(|it| is_plain(it, taken))
}

/// Returns the schemas within a schema, except a bare `additionalProperties`, which all providers
/// know.
pub(super) fn inner(fields: &Attributes) -> impl Iterator<Item = &Value> {
    fields.iter().flat_map(|(keyword, value)| {
        let (map, list, one) = match value {
            Value::Object(all) if MAPS.contains(&keyword.as_str()) => (Some(all), None, None),
            Value::Array(all) if LISTS.contains(&keyword.as_str()) => (None, Some(all), None),
            Value::Object(_) if ONES.contains(&keyword.as_str()) => (None, None, Some(value)),
            _ => (None, None, None),
        };
        let map = map.into_iter().flat_map(|all| all.values());
        map.chain(list.into_iter().flatten()).chain(one)
    })
}

fn make_plain(schema: &mut Value, taken: Taken, at: &SchemaPath<'_>) -> Result<(), String> {
    match schema {
        Value::Bool(true) => *schema = json!({}),
        Value::Bool(false) => *schema = json!({"not": {}}),
        _ => {}
    }
    let Value::Object(fields) = schema else { return Ok(()) };
    fields.retain(|keyword, value| !value.is_null() || !NULLS.contains(&keyword.as_str()));
    if taken.merges() {
        merge_all_of(fields, at)?;
    }
    give_items(fields, taken, at)?;
    for (keyword, value) in fields.iter_mut() {
        let is = |all: &[&str]| all.contains(&keyword.as_str());
        let around = SchemaPath::In(at, keyword);
        match value {
            Value::Object(all) if is(&MAPS) => {
                let around = if keyword == "properties" { at } else { &around };
                for (name, schema) in all {
                    make_plain(schema, taken, &SchemaPath::In(around, name))?;
                }
            }
            Value::Array(all) if is(&LISTS) => {
                for schema in all {
                    make_plain(schema, taken, &around)?;
                }
            }
            Value::Object(_) | Value::Bool(_) if keyword == "items" => {
                make_plain(value, taken, &around)?;
            }
            Value::Object(_) if is(&ONES) => make_plain(value, taken, &around)?,
            _ => {}
        }
    }
    Ok(())
}

/// Gives an array one schema for its items, because of "array schema missing items" and "items must
/// be a schema, not an array".
fn give_items(fields: &mut Attributes, taken: Taken, at: &SchemaPath<'_>) -> Result<(), String> {
    let tuples = [("items", "additionalItems"), ("prefixItems", "items")];
    let tuple = tuples.iter().find(|(kinds, _)| fields.get(*kinds).is_some_and(Value::is_array));
    if let Some((kinds, behind)) = tuple
        && let Some(Value::Array(kinds)) = fields.remove(*kinds)
    {
        let behind = fields.remove(*behind);
        return write_tuple(fields, kinds, behind, taken, at);
    }
    match fields.get("items") {
        Some(Value::Bool(false)) => {
            bound(fields, 0);
            fields.insert("items".to_owned(), json!({}));
        }
        None if has_type(fields, "array") => {
            fields.insert("items".to_owned(), json!({}));
        }
        _ => {}
    }
    Ok(())
}

/// Writes a tuple as a list whose items may be any of its kinds, with as many items; the
/// description says which kind is at which place. A strict mode would not enforce that.
fn write_tuple(
    fields: &mut Attributes,
    places: Vec<Value>,
    behind: Option<Value>,
    taken: Taken,
    at: &SchemaPath<'_>,
) -> Result<(), String> {
    let mut kinds: Vec<Value> = Vec::new();
    for kind in &places {
        if !kinds.contains(kind) {
            kinds.push(kind.clone());
        }
    }
    let is_open = matches!(&behind, Some(Value::Bool(true)));
    match behind {
        Some(Value::Bool(false)) => bound(fields, places.len()),
        // JSON Schema allows further items here, but a tuple is meant to have none.
        None if !places.is_empty() => bound(fields, places.len()),
        Some(schema @ Value::Object(_)) if !kinds.contains(&schema) => kinds.push(schema),
        _ => {}
    }
    if kinds.len() > 1 || is_open && !kinds.is_empty() {
        if taken.is_strict() {
            return Err(at.refused("a strict schema can't have a tuple of several kinds"));
        }
        tell(fields, &format!("{{prefixItems: {}}}", Value::Array(places)));
    }
    let items = match kinds {
        _ if is_open => json!({}),
        kinds if kinds.len() > 1 => json!({ "anyOf": kinds }),
        kinds => kinds.into_iter().next().unwrap_or_else(|| json!({})),
    };
    fields.insert("items".to_owned(), items);
    Ok(())
}

fn bound(fields: &mut Attributes, most: usize) {
    let most = most as u64;
    let least = fields.get("maxItems").and_then(Value::as_u64).map_or(most, |it| it.min(most));
    fields.insert("maxItems".to_owned(), least.into());
}

fn tell(fields: &mut Attributes, words: &str) {
    let text = match fields.get("description").and_then(Value::as_str) {
        Some(text) => format!("{text} {words}"),
        None => words.to_owned(),
    };
    fields.insert("description".to_owned(), text.into());
}

/// Keywords for which some tool servers write `null` instead of leaving them out.
const NULLS: [&str; 2] = ["properties", "required"];
