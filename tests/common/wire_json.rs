//! JSON that no provider would send: of any shape, and published examples with something wrong.

#![allow(dead_code, unreachable_pub)] // each test file uses its own part of it

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

/// JSON that has the words of the formats in places where no provider puts them.
pub fn odd_json() -> BoxedStrategy<Value> {
    let word = proptest::sample::select(WORDS);
    let leaf = prop_oneof![
        Just(Value::Null),
        any::<bool>().prop_map(Value::from),
        any::<i64>().prop_map(Value::from),
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

/// One of these documents with something wrong: a value replaced, or bytes cut or changed.
pub fn mutated(documents: Vec<String>) -> BoxedStrategy<String> {
    let document = proptest::sample::select(documents);
    (document, any::<Index>(), odd_json(), 0..4u8)
        .prop_map(|(document, at, odd, how)| match how {
            0 => {
                let cut = (0..=at.index(document.len() + 1)).rev();
                let cut = cut.into_iter().find(|&i| document.is_char_boundary(i)).unwrap_or(0);
                document[..cut].to_owned()
            }
            1 => {
                let mut chars: Vec<char> = document.chars().collect();
                let at = at.index(chars.len());
                chars[at] = ['{', '"', '[', '0', ','][at % 5];
                chars.into_iter().collect()
            }
            _ => {
                // Not every event of a stream is JSON.
                let Ok(mut value) = serde_json::from_str(&document) else { return document };
                let places = count(&value);
                replace(&mut value, &mut at.index(places), &odd);
                value.to_string()
            }
        })
        .boxed()
}

fn count(value: &Value) -> usize {
    1 + match value {
        Value::Array(list) => list.iter().map(count).sum(),
        Value::Object(map) => map.values().map(count).sum(),
        _ => 0,
    }
}

fn replace(value: &mut Value, at: &mut usize, with: &Value) -> bool {
    if *at == 0 {
        *value = with.clone();
        return true;
    }
    *at -= 1;
    match value {
        Value::Array(list) => list.iter_mut().any(|value| replace(value, at, with)),
        Value::Object(map) => map.values_mut().any(|value| replace(value, at, with)),
        _ => false,
    }
}
