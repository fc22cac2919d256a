//! JSON that no provider would send: of any shape, and published examples with something wrong.

#![allow(clippy::incompatible_msrv, dead_code, unreachable_pub)] // each test file uses its own part of it

use std::collections::{BTreeMap, BTreeSet};

use proptest::collection::vec;
use proptest::prelude::*;
use proptest::sample::Index;
use serde_json::Value;

/// The names that the formats use, so that decoders get far into it.
#[rustfmt::skip]
const WORDS: &[&str] = &[
    "role", "content", "user", "assistant", "tool", "system", "type", "text", "input_text",
    "output_text", "message", "choices", "delta", "index", "tool_calls", "function", "arguments",
    "name", "id", "call_id", "tool_call_id", "function_call", "reasoning", "function_call_output",
    "output", "output_index", "item", "response", "summary", "images", "thinking", "done",
    "error", "image_url", "url", "file", "refusal", "audio", "custom",
    "response.output_item.done", "response.completed", "response.output_text.delta", "messages",
    "input", "finish_reason", "stop", "image", "source", "base64", "tool_use", "tool_result",
    "tool_use_id", "is_error", "signature", "redacted_thinking", "data", "content_block",
    "content_block_start", "content_block_delta", "message_start", "message_stop",
    "input_json_delta", "partial_json", "contents", "parts", "model", "functionCall",
    "functionResponse", "args", "thought", "thoughtSignature", "inlineData", "mimeType",
    "fileData", "fileUri", "candidates", "finishReason", "USER", "AI", "SYSTEM", "CUSTOM",
    "TOOL_EXECUTION_RESULT", "TEXT", "IMAGE", "PDF", "attributes", "toolExecutionRequests",
    "detailLevel", "isError", "toolName",
];

/// The names under which this crate keeps what a provider sent, or by which it knows what it was.
const KEPT: &[&str] = &[
    "item",
    "block",
    "message",
    "custom",
    "type",
    "id",
    "caller",
    "source",
    "function",
    "functionCall",
    "functionResponse",
    "thought",
    "reasoning_details",
    "extra_content",
];

/// JSON that has the words of the formats in places where no provider puts them.
pub fn odd_json() -> BoxedStrategy<Value> {
    let word = proptest::sample::select(WORDS);
    let leaf = prop_oneof![
        Just(Value::Null),
        any::<bool>().prop_map(Value::from),
        any::<i64>().prop_map(Value::from),
        Just(Value::from(u64::MAX)),
        any::<f64>().prop_map(Value::from),
        word.clone().prop_map(Value::from),
        any::<String>().prop_map(Value::from),
    ];
    leaf.prop_recursive(5, 40, 6, move |inner| {
        prop_oneof![
            vec(inner.clone(), 0..5).prop_map(Value::from),
            vec((word.clone(), inner), 0..6)
                .prop_map(|fields| fields.into_iter().map(|(k, v)| (k.to_owned(), v)).collect()),
        ]
    })
    .boxed()
}

/// One of these documents with up to three things wrong, one after the other.
pub fn mutated(documents: Vec<String>) -> BoxedStrategy<String> {
    let faults = vec(fault(&documents), 1..4);
    (proptest::sample::select(documents), faults)
        .prop_map(|(document, faults)| {
            faults.iter().fold(document, |document, fault| fault.put(document))
        })
        .boxed()
}

/// What can go wrong with an event of a stream.
#[derive(Debug, Clone)]
enum Slip {
    Lost,
    Twice,
    /// It comes at another one's place, and that at its own.
    Swapped(Index),
    Spoilt(Fault),
}

/// One of these streams with up to three events lost, repeated or swapped.
pub fn shuffled_stream(streams: Vec<Vec<String>>) -> BoxedStrategy<Vec<String>> {
    let slip =
        prop_oneof![Just(Slip::Lost), Just(Slip::Twice), any::<Index>().prop_map(Slip::Swapped),];
    with_slips(streams, slip.boxed())
}

/// One of these streams with up to three events lost, repeated, swapped or spoilt.
pub fn mutated_stream(streams: Vec<Vec<String>>) -> BoxedStrategy<Vec<String>> {
    let slip = prop_oneof![
        1 => Just(Slip::Lost),
        1 => Just(Slip::Twice),
        1 => any::<Index>().prop_map(Slip::Swapped),
        3 => fault(&streams.concat()).prop_map(Slip::Spoilt),
    ];
    with_slips(streams, slip.boxed())
}

fn with_slips(streams: Vec<Vec<String>>, slip: BoxedStrategy<Slip>) -> BoxedStrategy<Vec<String>> {
    (proptest::sample::select(streams), vec((any::<Index>(), slip), 1..4))
        .prop_map(|(mut events, slips)| {
            for (at, slip) in slips {
                let all = events.len();
                let at = at.index(all.max(1));
                let Some(event) = events.get(at).cloned() else { continue };
                match slip {
                    Slip::Lost => drop(events.remove(at)),
                    Slip::Twice => events.insert(at, event),
                    Slip::Swapped(with) => events.swap(at, with.index(all)),
                    Slip::Spoilt(fault) => events[at] = fault.put(event),
                }
            }
            events
        })
        .boxed()
}

/// What can go wrong with a document, somewhere in it.
#[derive(Debug, Clone)]
enum Fault {
    CutOff(Index),
    Changed(Index),
    Replaced(Index, Value),
    /// What belongs elsewhere stands in a list, perhaps without one of its fields.
    Strayed(Index, Value),
    /// A field that belongs elsewhere stands in an object.
    Added(Index, String, Value),
}

impl Fault {
    fn put(&self, mut document: String) -> String {
        // Not every event of a stream is JSON, nor is what was cut off.
        let value = serde_json::from_str::<Value>(&document);
        match (self, value) {
            (Self::CutOff(at), _) => {
                let end = at.index(document.len() + 1);
                document.truncate(document.floor_char_boundary(end));
            }
            (Self::Changed(at), _) => {
                let at = document.floor_char_boundary(at.index(document.len() + 1));
                let end = document.ceil_char_boundary(at + 1);
                document.replace_range(at..end, ["{", "\"", "[", "0", ","][at % 5]);
            }
            (Self::Replaced(at, with), Ok(mut value)) => {
                let at = at.index(count(&value, |_| true));
                place(&mut value, |_| true, at).unwrap().clone_from(with);
                document = value.to_string();
            }
            (Self::Strayed(at, object), Ok(mut value)) if count(&value, Value::is_array) > 0 => {
                let at = at.index(count(&value, Value::is_array));
                let list = place(&mut value, Value::is_array, at).unwrap();
                list.as_array_mut().unwrap().push(object.clone());
                document = value.to_string();
            }
            (Self::Added(at, name, field), Ok(mut value))
                if count(&value, Value::is_object) > 0 =>
            {
                let at = at.index(count(&value, Value::is_object));
                let object = place(&mut value, Value::is_object, at).unwrap();
                object.as_object_mut().unwrap().insert(name.clone(), field.clone());
                document = value.to_string();
            }
            _ => {}
        }
        document
    }
}

/// A fault of a document that has something of these others in it.
fn fault(documents: &[String]) -> BoxedStrategy<Fault> {
    let values = documents.iter().flat_map(|document| serde_json::from_str::<Value>(document));
    let objects: BTreeMap<String, Value> = values
        .flat_map(|mut value| {
            let all = count(&value, Value::is_object);
            let nth = move |i| place(&mut value, Value::is_object, i).unwrap().clone();
            (0..all).map(nth)
        })
        .map(|object| (object.to_string(), object))
        .collect();
    let objects: Vec<Value> = objects.into_values().collect();
    let names =
        objects.iter().filter_map(Value::as_object).flat_map(|object| object.keys().cloned());
    let names = names.chain(WORDS.iter().map(|word| (*word).to_owned())).collect::<BTreeSet<_>>();
    let any_name = proptest::sample::select(Vec::from_iter(names));
    let kept_name = proptest::sample::select(KEPT).prop_map(str::to_owned);
    let name = prop_oneof![any_name, kept_name];
    let without = (proptest::sample::select(objects), any::<Index>())
        .prop_map(|(mut object, field)| {
            let fields = object.as_object_mut().unwrap();
            // One time out of so many it stays whole.
            if let Some(name) = fields.keys().nth(field.index(fields.len() + 1)).cloned() {
                fields.remove(&name);
            }
            object
        })
        .boxed();
    let field = prop_oneof![odd_json(), without.clone()];
    prop_oneof![
        any::<Index>().prop_map(Fault::CutOff),
        any::<Index>().prop_map(Fault::Changed),
        (any::<Index>(), odd_json()).prop_map(|(at, odd)| Fault::Replaced(at, odd)),
        (any::<Index>(), without).prop_map(|(at, object)| Fault::Strayed(at, object)),
        (any::<Index>(), name, field).prop_map(|(at, name, it)| Fault::Added(at, name, it)),
    ]
    .boxed()
}

/// How many such values there are in this one, itself among them.
fn count(value: &Value, such: fn(&Value) -> bool) -> usize {
    let inside = match value {
        Value::Array(list) => list.iter().map(|value| count(value, such)).sum(),
        Value::Object(map) => map.values().map(|value| count(value, such)).sum(),
        _ => 0,
    };
    inside + usize::from(such(value))
}

/// One of them.
fn place(value: &mut Value, such: fn(&Value) -> bool, mut at: usize) -> Option<&mut Value> {
    if such(value) {
        if at == 0 {
            return Some(value);
        }
        at -= 1;
    }
    let inside: Vec<&mut Value> = match value {
        Value::Array(list) => list.iter_mut().collect(),
        Value::Object(map) => map.values_mut().collect(),
        _ => Vec::new(),
    };
    inside.into_iter().find_map(|value| {
        let here = count(value, such);
        if at >= here {
            at -= here;
            return None;
        }
        place(value, such, at)
    })
}
