//! What Anthropic's strict mode refuses although it could enforce it, by its guide to structured
//! outputs ("Schema complexity limits"): recursive schemas, and too much of something.

use std::collections::HashSet;

use serde_json::Value;

use super::Taken;
use super::plain::{inner, plain};
use crate::tool::Tool;

/// Returns the limit of a request that the strict ones among these tools exceed.
pub(crate) fn over_limits<'t>(tools: impl IntoIterator<Item = &'t Tool>) -> Option<String> {
    let mut counts = [0; 3];
    for tool in tools.into_iter().filter(|tool| tool.is_strict()) {
        counts[0] += 1;
        // An invalid schema is reported elsewhere, and not counted.
        if let Ok(schema) = plain(tool.schema(), Taken::Closed) {
            count(&schema, &mut counts);
        }
    }
    let limits = [
        (20, "strict tools"),
        (24, "properties of strict tools that are not required"),
        (16, "properties of strict tools that are of several types"),
    ];
    let mut limits = counts.into_iter().zip(limits);
    let (count, (most, what)) = limits.find(|(count, (most, _))| count > most)?;
    Some(format!("tools: {count} {what}, and the provider takes {most}"))
}

fn count(schema: &Value, counts: &mut [usize; 3]) {
    let Value::Object(fields) = schema else { return };
    let required = super::required(fields);
    let properties = fields.get("properties").and_then(Value::as_object);
    let names = properties.into_iter().flatten().map(|(name, _)| name);
    counts[1] += names.filter(|name| !required.iter().any(|it| it == *name)).count();
    let is_choice = |keyword: &str| fields.get(keyword).is_some_and(Value::is_array);
    counts[2] += usize::from(["anyOf", "oneOf", "type"].into_iter().any(is_choice));
    inner(fields).for_each(|schema| count(schema, counts));
}

/// Returns whether a schema refers to itself.
pub(super) fn is_recursive(root: &Value) -> bool {
    leads_back(root, root, &mut Vec::new(), &mut HashSet::new())
}

fn leads_back<'s>(
    schema: &'s Value,
    root: &'s Value,
    way: &mut Vec<&'s str>,
    known: &mut HashSet<&'s str>,
) -> bool {
    let Value::Object(fields) = schema else { return false };
    if let Some(to) = fields.get("$ref").and_then(Value::as_str) {
        if to == "#" || way.contains(&to) {
            return true;
        }
        let next = to.strip_prefix('#').and_then(|pointer| root.pointer(pointer));
        if let Some(next) = next.filter(|_| known.insert(to)) {
            way.push(to);
            if leads_back(next, root, way, known) {
                return true;
            }
            way.pop();
        }
    }
    inner(fields).any(|schema| leads_back(schema, root, way, known))
}
