//! What servers say that speak a format of somebody else's, each as its source or public captures
//! tell it.

#![allow(clippy::unwrap_used, missing_docs, unreachable_pub)] // a test that fails should say so

use crate::events::{begun, billed, block, end, sent, start, stop};
use crate::shown::{assert_shown, calls, read, reasoning};
use memory_prompt::Provider;
use memory_prompt::wire::{self, Stop};
use serde_json::{Value, json};

// --- Responses -------------------------------------------------------------------------------

fn event(kind: &str, fields: &Value) -> Value {
    let mut event = json!({"type": format!("response.{kind}")});
    event.as_object_mut().unwrap().extend(fields.as_object().unwrap().clone());
    event
}

fn completed(output: &[&Value]) -> Value {
    event("completed", &json!({"response": {"status": "completed", "output": output}}))
}

/// llama.cpp names items and numbers none: all pieces were of the last one, and each answer of more
/// than one item was an error, "it does not say what its pieces said".
#[test]
fn items_that_are_named_alone_are_told_apart() {
    let thought = json!({"type": "reasoning", "id": "rs_1", "summary": [],
        "content": [{"type": "reasoning_text", "text": "Hm."}]});
    let message = json!({"type": "message", "id": "msg_1", "role": "assistant",
        "content": [{"type": "output_text", "text": "Hello."}]});
    let call = |id: &str, arguments: &str| json!({"type": "function_call", "call_id": id, "name": "look", "arguments": arguments});
    let opens = |kind: &str, id: &str| {
        let item = json!({"type": kind, "id": id, "content": []});
        event("output_item.added", &json!({"item": item}))
    };
    let calls_for = |id: &str| event("output_item.added", &json!({"item": call(id, "")}));
    let piece =
        |kind: &str, id: &str, piece: &str| event(kind, &json!({"item_id": id, "delta": piece}));
    let arguments = |id: &str, part: &str| piece("function_call_arguments.delta", id, part);
    let done = |item: &Value| event("output_item.done", &json!({"item": item}));
    let (first, second) = (call("fc_1", "{\"x\":1}"), call("fc_2", "{}"));
    let pieces = [
        opens("reasoning", "rs_1"),
        piece("reasoning_text.delta", "rs_1", "Hm."),
        opens("message", "msg_1"),
        piece("output_text.delta", "msg_1", "Hel"),
        piece("output_text.delta", "msg_1", "lo."),
        calls_for("fc_1"),
        arguments("fc_1", "{\"x\""),
        calls_for("fc_2"),
        arguments("fc_1", ":1}"),
        arguments("fc_2", "{}"),
        done(&thought),
        done(&message),
        done(&first),
        done(&second),
        completed(&[&thought, &message, &first, &second]),
    ];
    let (told, answer) = read(Provider::OpenAiResponses, &pieces);
    let answer = answer.unwrap();
    assert_shown(&told, &answer, "llama.cpp");
    assert_eq!((&*answer.message.text(), answer.stop), ("Hello.", Stop::Calls));
    assert_eq!((reasoning(&told).as_str(), calls(&told).len()), ("Hm.", 2));
    assert_eq!(answer.message.parts().len(), 4);
}

/// xAI's own search on X arrives as a call of a custom tool, which it has answered itself: a turn
/// told the model that there is no such tool, and asked again in place of ending.
#[test]
fn a_search_of_xais_own_asks_for_nothing() {
    let search = |input: &str, status: &str| {
        json!({"type": "custom_tool_call", "id": "ctc_1_xs_call_9",
        "call_id": "xs_call_9", "name": "x_keyword_search", "input": input, "status": status})
    };
    let found = search("{\"query\":\"ai\"}", "completed");
    let says = json!({"type": "message", "role": "assistant",
        "content": [{"type": "output_text", "text": "People say so."}]});
    let body = json!({"status": "completed", "output": [found, says]});
    let whole = wire::answer(Provider::OpenAiResponses, body).unwrap();
    assert_eq!((whole.stop, whole.message.has_tool_calls()), (Stop::End, false));

    let at = |place: u64, mut fields: Value| {
        fields["output_index"] = place.into();
        fields
    };
    let begins = at(0, json!({"item": search("", "in_progress")}));
    let input = at(0, json!({"item_id": "ctc_1_xs_call_9", "delta": "{\"query\":\"ai\"}"}));
    let pieces = [
        event("output_item.added", &begins),
        event("custom_tool_call_input.delta", &input),
        event("output_item.done", &at(0, json!({"item": found}))),
        event("output_text.delta", &at(1, json!({"delta": "People say so."}))),
        event("output_item.done", &at(1, json!({"item": says}))),
        completed(&[&found, &says]),
    ];
    let (told, streamed) = read(Provider::OpenAiResponses, &pieces);
    let streamed = streamed.unwrap();
    assert_shown(&told, &streamed, "xAI");
    assert_eq!((streamed.stop, &streamed.message), (Stop::End, &whole.message));

    // It goes back as it came, to nobody else.
    assert_eq!(sent(Provider::OpenAiResponses, whole.clone())["input"][1], found);
    assert!(!sent(Provider::OpenAi, whole).to_string().contains("x_keyword_search"));
}

// --- Anthropic -------------------------------------------------------------------------------

/// llama.cpp writes an empty signature, since local models sign nothing. It passed for one, and
/// Claude was sent the thought, which is a 400.
#[test]
fn an_empty_signature_is_none() {
    let thought = json!({"type": "thinking", "thinking": "Hm.", "signature": ""});
    let says = json!({"type": "text", "text": "Hi."});
    let body = json!({"role": "assistant", "stop_reason": "end_turn", "content": [thought, says]});
    let begins = start(json!({"id": "m", "role": "assistant", "content": []}));
    let pieces = [begins, block(0, thought.clone()), stop(0), block(1, says.clone()), stop(1)];
    let broken = begun(Provider::Anthropic, &pieces).broken();
    assert_eq!(broken.message.reasoning().count(), 0);
    let all = [&pieces[..], &end("end_turn")].concat();
    let streamed = read(Provider::Anthropic, &all).1.unwrap();
    for answer in [wire::answer(Provider::Anthropic, body).unwrap(), streamed] {
        assert_eq!(answer.message.reasoning().next().unwrap().signature, None);
        let body = sent(Provider::Anthropic, answer).to_string();
        assert!(body.contains("Hi.") && !body.contains("Hm."), "{body}");
    }
}

/// A call of a tool that takes nothing may open without `input`, and no piece of one follows: all
/// of the answer was lost for it.
#[test]
fn a_call_without_input_asks_for_nothing() {
    let call = json!({"type": "tool_use", "id": "x", "name": "now"});
    let begins = start(json!({"id": "m", "role": "assistant", "content": []}));
    let pieces = [&[begins, block(0, call.clone()), stop(0)][..], &end("tool_use")].concat();
    let (told, streamed) = read(Provider::Anthropic, &pieces);
    let streamed = streamed.unwrap();
    assert_shown(&told, &streamed, "llama.cpp");
    let body = json!({"role": "assistant", "stop_reason": "tool_use", "content": [call]});
    for answer in [wire::answer(Provider::Anthropic, body).unwrap(), streamed] {
        assert_eq!(answer.message.tool_calls().next().unwrap().arguments, "{}");
    }
}

/// Claude tells what a cache wrote at each of its two prices, and the tier, where a stream begins;
/// the counts at its end took the place of all that.
#[test]
fn a_stream_tells_the_usage_of_a_whole_answer() {
    let first = json!({"input_tokens": 5, "output_tokens": 1, "service_tier": "standard",
        "cache_creation": {"ephemeral_5m_input_tokens": 7, "ephemeral_1h_input_tokens": 0}});
    let begins = start(json!({"id": "m", "role": "assistant", "content": [], "usage": first}));
    let ends = billed("end_turn", json!({"output_tokens": 9}));
    let says = json!({"type": "text", "text": "Hi."});
    let pieces = [&[begins, block(0, says), stop(0)][..], &ends].concat();
    let answer = read(Provider::Anthropic, &pieces).1.unwrap();
    let usage = &answer.metadata.attributes["usage"];
    assert_eq!(usage["cache_creation"]["ephemeral_5m_input_tokens"], 7);
    assert_eq!((&usage["service_tier"], &usage["output_tokens"]), (&json!("standard"), &json!(9)));
    assert_eq!(answer.usage.output, Some(9));
}
