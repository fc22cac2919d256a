//! Merges schemas that must all hold into one.

use serde_json::Value;

use super::keywords::HINTS;
use super::place::SchemaPath;
use crate::message::Attributes;

/// Merges the schemas of an `allOf` into the schema that contains it. Older generators write a
/// reference with a description this way, and types that are composed of others.
pub(super) fn merge_all_of(fields: &mut Attributes, at: &SchemaPath<'_>) -> Result<(), String> {
    // A part may have an `allOf` of its own.
    while let Some(all) = fields.remove("allOf") {
        let Value::Array(parts) = all else { return Err(refused(at, "allOf")) };
        for part in parts {
            match part {
                Value::Object(part) => merge(fields, part, at)?,
                Value::Bool(true) => {}
                _ => return Err(refused(at, "allOf")),
            }
        }
    }
    Ok(())
}

fn merge(into: &mut Attributes, part: Attributes, at: &SchemaPath<'_>) -> Result<(), String> {
    if let Some(keyword) = conflict(into, &part).or_else(|| conflict(&part, into)) {
        return Err(refused(at, keyword));
    }
    for (keyword, value) in part {
        match into.get_mut(&keyword) {
            None => {
                into.insert(keyword, value);
            }
            Some(own) => join(own, value, &keyword, at)?,
        }
    }
    Ok(())
}

/// Returns a keyword of one schema whose meaning the other would change.
fn conflict(one: &Attributes, other: &Attributes) -> Option<&'static str> {
    let is_hint =
        |it: &String| HINTS.contains(&it.as_str()) || it == "description" || it == "title";
    if one.contains_key("$ref") && other.keys().any(|it| !is_hint(it)) {
        return Some("$ref");
    }
    let is_closed = one.get("additionalProperties").is_some_and(|it| *it != true);
    let [own, others] = [one, other].map(|it| it.get("properties").and_then(Value::as_object));
    let is_own = |name: &String| own.is_some_and(|own| own.contains_key(name));
    if is_closed && others.is_some_and(|it| !it.keys().all(is_own)) {
        return Some("additionalProperties");
    }
    (one.contains_key("prefixItems") && other.contains_key("items")).then_some("prefixItems")
}

fn join(own: &mut Value, other: Value, keyword: &str, at: &SchemaPath<'_>) -> Result<(), String> {
    if *own == other || HINTS.contains(&keyword) {
        return Ok(());
    }
    let bounds = own.as_f64().zip(other.as_f64());
    match (keyword, &mut *own, &other) {
        ("title", ..) => {}
        ("description", Value::String(text), Value::String(more)) => {
            text.push(' ');
            text.push_str(more);
        }
        ("properties", Value::Object(all), Value::Object(more)) => {
            for (name, schema) in more {
                let around = SchemaPath::In(at, name);
                match (all.get_mut(name), schema) {
                    (None | Some(Value::Bool(true)), _) => {
                        all.insert(name.clone(), schema.clone());
                    }
                    (Some(Value::Object(own)), Value::Object(more)) => {
                        merge(own, more.clone(), &around)?;
                    }
                    (Some(_), Value::Bool(true)) => {}
                    (Some(own), other) if own == other => {}
                    _ => return Err(refused(&around, keyword)),
                }
            }
        }
        ("allOf", Value::Array(all), Value::Array(more)) => all.extend(more.iter().cloned()),
        ("required", Value::Array(all), Value::Array(more)) => {
            for name in more {
                if !all.contains(name) {
                    all.push(name.clone());
                }
            }
        }
        ("enum", Value::Array(all), Value::Array(more)) => {
            all.retain(|it| more.contains(it));
            if all.is_empty() {
                return Err(refused(at, keyword));
            }
        }
        // Every integer is a number, so both together mean an integer.
        ("type", own, other) if *own == "number" && *other == "integer" => *own = other.clone(),
        ("type", own, other) if *own == "integer" && *other == "number" => {}
        _ => {
            let is_lower = keyword.starts_with("min") || keyword == "exclusiveMinimum";
            let is_upper = keyword.starts_with("max") || keyword == "exclusiveMaximum";
            let takes = bounds.filter(|_| is_lower || is_upper);
            let takes = takes.map(|(own, new)| if is_lower { new > own } else { new < own });
            match takes {
                Some(true) => *own = other,
                Some(false) => {}
                None => return Err(refused(at, keyword)),
            }
        }
    }
    Ok(())
}

fn refused(at: &SchemaPath<'_>, keyword: &str) -> String {
    at.refused(format_args!("a schema can't have several `{keyword}`s in `allOf` here"))
}
