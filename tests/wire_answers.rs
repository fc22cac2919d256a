//! Answers as a whole: what they cost, why they ended, what is no answer, and streams that break.

#![allow(clippy::unwrap_used, clippy::expect_used, clippy::panic, missing_docs, unreachable_pub)] // a test that fails should say so
#![allow(clippy::needless_pass_by_value)] // `json!` in the place of an argument

#[path = "common/golden.rs"]
mod golden;
#[path = "common/shown.rs"]
mod shown;

use golden::{events, goldens};
use memory_prompt::wire::{
    Answer, Event, Stop, Usage, anthropic, gemini, ollama, openai, responses,
};
use memory_prompt::{ErrorKind, Message, Provider, Result};
use serde_json::{Value, json};
use shown::{assert_shown, calls, reasoning, text};

fn usage(told: [Option<u64>; 5]) -> Usage {
    let [input, cached, written, output, reasoning] = told;
    let told = json!({"input": input, "cached": cached, "written": written, "output": output, "reasoning": reasoning});
    serde_json::from_value(told).unwrap()
}

fn chat(choice: Value, beside: Value) -> String {
    let mut body = json!({"id": "chatcmpl-1", "choices": [choice]});
    body.as_object_mut().unwrap().extend(beside.as_object().unwrap().clone());
    body.to_string()
}

fn said(word: &Value) -> String {
    chat(
        json!({"message": {"role": "assistant", "content": "hi"}, "finish_reason": word}),
        json!({}),
    )
}

fn refusal(result: Result<Answer>) -> (Option<&'static str>, Option<u16>, bool) {
    match result.unwrap_err().kind() {
        ErrorKind::Refused { code, status, retryable } => (code, status, retryable),
        kind => panic!("{kind:?}"),
    }
}

macro_rules! streamed {
    ($format:ident, $events:expr) => {{
        let mut stream = $format::Stream::new();
        let mut told = Vec::new();
        for event in $events {
            told.extend(stream.push(&event.to_string()).unwrap());
        }
        (told, stream)
    }};
}

// --- usage -----------------------------------------------------------------------------------

#[test]
fn usage_means_the_same_everywhere() {
    let choice = || json!({"message": {"content": "hi"}, "finish_reason": "stop"});
    for (told, expected) in [
        (
            json!({"prompt_tokens": 9, "completion_tokens": 4, "total_tokens": 13}),
            [Some(9), None, None, Some(4), None],
        ),
        (
            json!({"prompt_tokens": 9, "completion_tokens": 4, "total_tokens": 13,
                "prompt_tokens_details": {"cached_tokens": 8, "cache_write_tokens": 1},
                "completion_tokens_details": {"reasoning_tokens": 3}}),
            [Some(9), Some(8), Some(1), Some(4), Some(3)],
        ),
        // xAI's reasoning is not in what was completed.
        (
            json!({"prompt_tokens": 9, "completion_tokens": 4, "total_tokens": 113,
                "completion_tokens_details": {"reasoning_tokens": 100}}),
            [Some(9), None, None, Some(104), Some(100)],
        ),
        (
            json!({"prompt_tokens": 9, "prompt_cache_hit_tokens": 7}),
            [Some(9), Some(7), None, None, None],
        ),
        (json!({"prompt_tokens": "many"}), [None; 5]),
    ] {
        let answer = openai::answer(chat(choice(), json!({"usage": told}))).unwrap();
        assert_eq!(answer.usage, usage(expected));
    }
    let groq = openai::answer(chat(choice(), json!({"x_groq": {"usage": {"prompt_tokens": 2}}})));
    assert_eq!(groq.unwrap().usage.input, Some(2));

    let body = json!({"status": "completed", "output": [], "usage": {"input_tokens": 9,
        "input_tokens_details": {"cached_tokens": 8}, "output_tokens": 4,
        "output_tokens_details": {"reasoning_tokens": 3}}});
    let answer = responses::answer(body.to_string()).unwrap();
    assert_eq!(answer.usage, usage([Some(9), Some(8), None, Some(4), Some(3)]));

    let body = json!({"candidates": [{"content": {"parts": [{"text": "hi"}]}, "finishReason": "STOP"}],
        "usageMetadata": {"promptTokenCount": 9, "cachedContentTokenCount": 8, "candidatesTokenCount": 4,
            "thoughtsTokenCount": 3, "toolUsePromptTokenCount": 1}});
    let answer = gemini::answer(body.to_string()).unwrap();
    assert_eq!(answer.usage, usage([Some(10), Some(8), None, Some(7), Some(3)]));

    let body = json!({"message": {"content": "hi"}, "done": true, "prompt_eval_count": 9, "eval_count": 4});
    let answer = ollama::answer(body.to_string()).unwrap();
    assert_eq!(answer.usage, usage([Some(9), None, None, Some(4), None]));
}

/// The counts of Anthropic's `message_delta` are sums, and some gateways write 0 into the others.
#[test]
fn usage_of_a_stream_only_grows() {
    let (_, stream) = streamed!(
        anthropic,
        [
            json!({"type": "message_start", "message": {"id": "m", "usage": {"input_tokens": 5,
            "cache_read_input_tokens": 90, "cache_creation_input_tokens": 0, "output_tokens": 1}}}),
            json!({"type": "message_delta", "delta": {"stop_reason": "end_turn"},
            "usage": {"input_tokens": 0, "output_tokens": 7}}),
            json!({"type": "message_stop"}),
        ]
    );
    let answer = stream.finish().unwrap();
    assert_eq!(answer.usage, usage([Some(95), Some(90), Some(0), Some(7), None]));
}

// --- stop ------------------------------------------------------------------------------------

#[test]
fn the_reason_to_stop_is_one_of_a_few_and_its_word_is_kept() {
    for (word, stop) in [
        ("stop", Stop::End),
        ("eos", Stop::End),
        ("length", Stop::Length),
        ("content_filter", Stop::Filtered),
        ("a_word_of_the_future", Stop::Unknown),
    ] {
        let answer = openai::answer(said(&json!(word))).unwrap();
        assert_eq!((answer.stop, answer.stop_word.as_deref()), (stop, Some(word)));
        assert_eq!((answer.provider, Message::from(answer)), (Provider::OpenAi, Message::ai("hi")));
    }
    for none in [json!(null), json!(""), json!("null")] {
        let answer = openai::answer(said(&none)).unwrap();
        assert_eq!((answer.stop, answer.stop_word), (Stop::Unknown, None), "{none}");
    }
    for (word, stop) in [
        ("end_turn", Stop::End),
        ("stop_sequence", Stop::Sequence),
        ("max_tokens", Stop::Length),
        ("model_context_window_exceeded", Stop::Length),
        ("pause_turn", Stop::Paused),
        ("refusal", Stop::Filtered),
    ] {
        let body = json!({"content": [{"type": "text", "text": "hi"}], "stop_reason": word});
        assert_eq!(anthropic::answer(body.to_string()).unwrap().stop, stop);
    }
    // Ollama and Gemini have the word for an end where the model calls.
    let call = json!({"function": {"name": "t", "arguments": {}}});
    let body = json!({"message": {"content": "", "tool_calls": [call]}, "done": true, "done_reason": "stop"});
    let answer = ollama::answer(body.to_string()).unwrap();
    assert_eq!((answer.stop, answer.stop_word.as_deref()), (Stop::Calls, Some("stop")));
    let body = json!({"status": "incomplete", "incomplete_details": {"reason": "max_output_tokens"},
        "output": [{"type": "message", "role": "assistant", "content": "hi"}]});
    assert_eq!(responses::answer(body.to_string()).unwrap().stop, Stop::Length);
}

/// An answer that was stopped before anything was said was read as the empty answer, and stored.
#[test]
fn nothing_for_a_reason_is_no_answer() {
    let silent = |word: &str| {
        openai::answer(chat(json!({"message": {"content": ""}, "finish_reason": word}), json!({})))
    };
    assert_eq!(refusal(silent("content_filter")), (Some("content_filter"), None, false));
    // A call that the server could not read, and left out.
    assert_eq!(refusal(silent("tool_calls")), (Some("tool_calls"), None, true));
    assert_eq!(silent("length").unwrap().stop, Stop::Length);

    let body = json!({"content": [], "stop_reason": "refusal"}).to_string();
    assert_eq!(refusal(anthropic::answer(&body)), (Some("refusal"), None, false));
    let candidate = |parts: Value, word: &str| {
        gemini::answer(
            json!({"candidates": [{"content": {"parts": parts}, "finishReason": word}]})
                .to_string(),
        )
    };
    let thought = || json!([{"text": "hm", "thought": true}]);
    assert_eq!(refusal(candidate(json!([]), "SAFETY")), (Some("SAFETY"), None, false));
    let malformed = candidate(thought(), "MALFORMED_FUNCTION_CALL");
    assert_eq!(refusal(malformed), (Some("MALFORMED_FUNCTION_CALL"), None, true));
    assert_eq!(candidate(json!([{"text": "half"}]), "SAFETY").unwrap().stop, Stop::Filtered);
    assert_eq!(
        candidate(json!([]), "SAFETY").unwrap_err().to_string(),
        "read gemini answer: candidates[0]: nothing was answered (`SAFETY`)"
    );
    let blocked = gemini::answer(r#"{"candidates":[{"finishReason":"RECITATION"}]}"#);
    assert_eq!(refusal(blocked), (Some("RECITATION"), None, false));
    // What failed on the way is half an answer, whatever is there of it.
    assert!(refusal(openai::answer(said(&json!("network_error")))).2);
}

#[test]
fn what_is_not_there_yet_is_no_empty_answer() {
    let status =
        |status: &str| responses::answer(json!({"status": status, "output": []}).to_string());
    for waiting in ["queued", "in_progress"] {
        assert_eq!(status(waiting).unwrap_err().kind(), ErrorKind::Unfinished);
    }
    assert_eq!(refusal(status("failed")), (Some("failed"), None, true));
    assert_eq!(refusal(status("cancelled")), (Some("cancelled"), None, false));
    let piece = ollama::answer(r#"{"message": {"content": "Hel"}, "done": false}"#);
    assert_eq!(piece.unwrap_err().kind(), ErrorKind::Unfinished);
}

// --- errors in place of messages -------------------------------------------------------------

#[test]
fn errors_in_place_of_messages_are_of_a_kind_of_their_own() {
    for (body, expected) in [
        (
            json!({"error": {"message": "no", "type": "insufficient_quota", "code": "insufficient_quota", "status": 429}}),
            (Some("insufficient_quota"), Some(429), false),
        ),
        (
            json!({"error": {"message": "no", "type": "tokens", "code": "rate_limit_exceeded"}}),
            (Some("rate_limit_exceeded"), None, true),
        ),
        (json!({"error": {"message": "no", "code": 502}}), (None, Some(502), true)),
        (json!({"error": "no"}), (None, None, false)),
        // vLLM and FastChat.
        (
            json!({"object": "error", "message": "no", "type": "BadRequestError", "code": 400}),
            (Some("BadRequestError"), Some(400), false),
        ),
        (json!({"text": "no", "error_code": 50001}), (None, None, false)),
        // MiniMax, with a choice that is none beside it.
        (
            json!({"choices": null, "base_resp": {"status_code": 1002, "status_msg": "no"}}),
            (None, None, false),
        ),
        // Gateways.
        (json!({"statusCode": 429, "message": "no"}), (None, Some(429), true)),
        (json!({"detail": [{"loc": ["body"], "msg": "no"}]}), (None, None, false)),
        (json!({"message": "Internal server error"}), (None, None, false)),
    ] {
        let text = body.to_string();
        assert_eq!(refusal(openai::answer(&text)), expected, "{body}");
        for refused in [responses::answer(&text), anthropic::answer(&text), ollama::answer(&text)] {
            assert_eq!(refusal(refused), expected, "{body}");
        }
        let streamed = [openai::Stream::new().push(&text), ollama::Stream::new().push(&text)];
        for refused in streamed.map(|pushed| pushed.unwrap_err().kind()) {
            assert!(matches!(refused, ErrorKind::Refused { .. }), "{body}: {refused:?}");
        }
    }
    let overloaded =
        r#"{"type":"error","error":{"type":"overloaded_error","message":"Overloaded"}}"#;
    assert_eq!(refusal(anthropic::answer(overloaded)), (Some("overloaded_error"), None, true));
    // Broken JSON, and JSON that is something else, are not.
    for other in ["{", "[]", "{}", r#"{"choices": [7]}"#] {
        assert_eq!(openai::answer(other).unwrap_err().kind(), ErrorKind::Codec, "{other}");
    }
    // A field that says that there is no error.
    let fine = chat(
        json!({"message": {"content": "hi"}}),
        json!({"error": null, "base_resp": {"status_code": 0}}),
    );
    assert!(openai::answer(&fine).is_ok());
}

/// OpenRouter's choices hold errors of the server behind it.
#[test]
fn an_error_in_a_choice_is_one() {
    let failed = json!({"error": {"code": 502, "message": "no"}, "message": {"content": ""}, "finish_reason": "error"});
    assert_eq!(refusal(openai::answer(chat(failed, json!({})))), (None, Some(502), true));
}

// --- streams ---------------------------------------------------------------------------------

fn delta(delta: Value, word: Value) -> Value {
    json!({"id": "chatcmpl-1", "choices": [{"index": 0, "delta": delta, "finish_reason": word}]})
}

/// `SenseNova`, `MiniMax` and Hunyuan write a reason into each chunk, and a stream that was cut
/// after the first passed for whole. So did one of which nothing but `[DONE]` had come.
#[test]
fn a_stream_ends_only_where_the_provider_says_so() {
    for nothing in [json!(""), json!("null"), json!(null)] {
        let (told, mut stream) = streamed!(openai, [delta(json!({"content": "Hel"}), nothing)]);
        assert_eq!(told, [Event::Text("Hel".to_owned())]);
        stream.push("[DONE]").unwrap();
        assert!(!stream.has_ended());
        assert_eq!(stream.finish().unwrap_err().kind(), ErrorKind::Unfinished);
    }
    let mut stream = responses::Stream::new();
    stream.push("[DONE]").unwrap();
    assert_eq!(stream.finish().unwrap_err().kind(), ErrorKind::Unfinished);
    let unspecified = json!({"candidates": [{"content": {"parts": [{"text": "a"}]}, "finishReason": "FINISH_REASON_UNSPECIFIED"}]});
    let (_, stream) = streamed!(gemini, [unspecified]);
    assert!(!stream.has_ended());
}

/// Two calls without index and id became one, of whose arguments nobody could read anything.
#[test]
fn calls_without_index_or_id_are_as_many_as_they_are() {
    let call = |name: &str, x: i32| json!({"function": {"name": name, "arguments": format!("{{\"x\":{x}}}")}});
    for calls in [[call("a", 1), call("b", 2)], [call("a", 1), call("a", 2)]] {
        let list = streamed!(openai, [delta(json!({"tool_calls": calls}), json!("tool_calls"))]);
        let chunks =
            calls.each_ref().map(|call| delta(json!({"tool_calls": [call]}), json!("tool_calls")));
        for (told, stream) in [list, streamed!(openai, chunks)] {
            let answer = stream.finish().unwrap();
            assert_shown(&told, &answer, "two calls");
            let ids: Vec<_> = answer.message.tool_calls().map(|call| call.id.as_str()).collect();
            assert_eq!(ids, ["call_chatcmpl-1_0", "call_chatcmpl-1_1"]);
            let arguments: Vec<_> =
                answer.message.tool_calls().map(|call| call.arguments.as_str()).collect();
            assert_eq!(arguments, [r#"{"x":1}"#, r#"{"x":2}"#]);
        }
    }
    // A server that repeats the name in each piece means one call.
    let piece = |arguments: &str| {
        delta(
            json!({"tool_calls": [{"function": {"name": "a", "arguments": arguments}}]}),
            json!(null),
        )
    };
    let end = delta(json!({}), json!("stop"));
    let (told, stream) = streamed!(openai, [piece("{\"x\""), piece(":1}"), end]);
    let answer = stream.finish().unwrap();
    assert_shown(&told, &answer, "one call");
    assert_eq!(answer.message.tool_calls().count(), 1);
}

/// Groq's `channel` became "analysis" 152 times over.
#[test]
fn texts_that_are_not_known_are_replaced() {
    let piece = |content: &str, channel: &str| {
        delta(json!({"content": content, "channel": channel}), json!(null))
    };
    let (_, stream) = streamed!(
        openai,
        [
            piece("a", "analysis"),
            piece("b", "analysis"),
            piece("c", "final"),
            delta(json!({}), json!("stop"))
        ]
    );
    let message = stream.finish().unwrap().message;
    assert_eq!(message.text(), "abc");
    assert_eq!(message.attributes()[openai::ATTRIBUTE], json!({"channel": "final"}));
}

/// Magistral streams one thought as dozens of blocks.
#[test]
fn a_thought_in_blocks_is_one() {
    let block = |text: &str| {
        delta(
            json!({"content": [{"type": "thinking", "thinking": [{"type": "text", "text": text}]}]}),
            json!(null),
        )
    };
    let (told, stream) = streamed!(
        openai,
        [
            block("One"),
            block(" and"),
            block(" two."),
            delta(json!({"content": "Th"}), json!(null)),
            delta(json!({"content": "ree."}), json!("stop")),
        ]
    );
    let answer = stream.finish().unwrap();
    assert_shown(&told, &answer, "magistral");
    assert_eq!(reasoning(&told), "One and two.");
    let thoughts: Vec<_> =
        answer.message.reasoning().map(|thought| thought.text.as_str()).collect();
    assert_eq!((thoughts, &*answer.message.text()), (vec!["One and two."], "Three."));
    let list = [Message::from(answer)];
    assert_eq!(
        serde_json::to_value(openai::Messages::of(&list).for_provider(Provider::Mistral)).unwrap(),
        json!([{"role": "assistant", "content": [
        {"type": "thinking", "thinking": [{"type": "text", "text": "One and two."}]}, {"type": "text", "text": "Three."}]}])
    );
}

#[test]
fn a_message_start_that_is_repeated_is_passed_over() {
    let start = |id: &str| json!({"type": "message_start", "message": {"id": id}});
    let mut stream = anthropic::Stream::new();
    stream.push(&start("m").to_string()).unwrap();
    stream.push(&start("m").to_string()).unwrap();
    let error = stream.push(&start("n").to_string()).unwrap_err();
    assert_eq!(error.to_string(), "read anthropic stream: a second `message_start`");
}

/// What a provider streams of an item may be less than the item; what it says at last may not be
/// something else.
#[test]
fn what_was_not_streamed_is_shown_when_it_is_done() {
    let item = json!({"type": "message", "role": "assistant", "content": [
        {"type": "output_text", "text": "Hello."}, {"type": "refusal", "refusal": "No."}]});
    let call =
        json!({"type": "function_call", "call_id": "c", "name": "t", "arguments": "{\"x\":1}"});
    let piece = |text: &str| json!({"type": "response.output_text.delta", "output_index": 0, "content_index": 0, "delta": text});
    let done = |i: u64, item: &Value| json!({"type": "response.output_item.done", "output_index": i, "item": item});
    let end = json!({"type": "response.completed", "response": {"status": "completed", "output": [item, call]}});
    for events in [
        vec![piece("Hel"), done(0, &item), done(1, &call), end.clone()],
        vec![piece("Hello."), end.clone()],
        vec![end.clone()],
    ] {
        let (told, stream) = streamed!(responses, events);
        assert_shown(&told, &stream.finish().unwrap(), "items");
        assert_eq!(text(&told), "Hello.No.");
        assert_eq!(calls(&told).len(), 1);
    }
    let (_, mut stream) = streamed!(responses, [piece("Bye.")]);
    let error = stream.push(&done(0, &item).to_string()).unwrap_err();
    assert_eq!(
        error.to_string(),
        "read responses stream: item: it does not say what its pieces said"
    );
    // Nothing is lost where the items never come.
    let (told, stream) =
        streamed!(responses, [piece("Hi."), json!({"type": "response.completed", "response": {}})]);
    assert_shown(&told, &stream.finish().unwrap(), "pieces alone");
}

// --- streams that break ----------------------------------------------------------------------

#[test]
fn of_a_broken_stream_what_is_whole_is_kept() {
    let (_, stream) = streamed!(
        anthropic,
        [
            json!({"type": "message_start", "message": {"usage": {"input_tokens": 3}}}),
            json!({"type": "content_block_start", "index": 0, "content_block": {"type": "thinking", "thinking": ""}}),
            json!({"type": "content_block_delta", "index": 0, "delta": {"type": "thinking_delta", "thinking": "hm"}}),
            json!({"type": "content_block_delta", "index": 0, "delta": {"type": "signature_delta", "signature": "s"}}),
            json!({"type": "content_block_stop", "index": 0}),
            json!({"type": "content_block_start", "index": 1, "content_block": {"type": "text", "text": "Look"}}),
            json!({"type": "content_block_start", "index": 2, "content_block": {"type": "tool_use", "id": "a", "name": "t", "input": {}}}),
            json!({"type": "content_block_delta", "index": 2, "delta": {"type": "input_json_delta", "partial_json": "{\"x\": 1}"}}),
            json!({"type": "content_block_start", "index": 3, "content_block": {"type": "server_tool_use", "id": "b", "name": "web_search", "input": {}}}),
            json!({"type": "content_block_stop", "index": 3}),
            json!({"type": "content_block_start", "index": 4, "content_block": {"type": "tool_use", "id": "c", "name": "t", "input": {}}}),
            json!({"type": "content_block_start", "index": 5, "content_block": {"type": "thinking", "thinking": "un"}}),
        ]
    );
    let answer = stream.broken();
    assert_eq!((answer.stop, answer.usage.input), (Stop::Broken, Some(3)));
    assert_eq!(answer.message.text(), "Look");
    assert_eq!(answer.message.parts().len(), 3);
    assert_eq!(answer.message.tool_calls().map(|call| call.id.as_str()).collect::<Vec<_>>(), ["a"]);

    let (_, stream) = streamed!(
        openai,
        [
            delta(json!({"reasoning_content": "hm", "content": "Look"}), json!(null)),
            delta(
                json!({"tool_calls": [{"index": 0, "id": "a", "function": {"name": "t", "arguments": "{\"x\":1}"}}]}),
                json!(null)
            ),
            delta(
                json!({"tool_calls": [{"index": 1, "id": "b", "function": {"name": "t", "arguments": "{\"x\":"}}]}),
                json!(null)
            ),
        ]
    );
    let answer = stream.broken();
    assert_eq!((&*answer.message.text(), answer.message.reasoning().count()), ("Look", 0));
    assert_eq!(answer.message.tool_calls().map(|call| call.id.as_str()).collect::<Vec<_>>(), ["a"]);

    let (_, stream) = streamed!(
        responses,
        [
            json!({"type": "response.output_item.done", "output_index": 0, "item": {"type": "reasoning", "id": "r", "summary": [], "encrypted_content": "g"}}),
            json!({"type": "response.output_text.delta", "output_index": 1, "content_index": 0, "delta": "Look"}),
            json!({"type": "response.output_item.added", "output_index": 2, "item": {"type": "function_call", "call_id": "a", "name": "t", "arguments": ""}}),
            json!({"type": "response.function_call_arguments.delta", "output_index": 2, "delta": "{\"x\":"}),
            json!({"type": "response.output_item.added", "output_index": 3, "item": {"type": "web_search_call", "id": "w"}}),
        ]
    );
    let answer = stream.broken();
    assert_eq!((&*answer.message.text(), answer.message.parts().len()), ("Look", 2));

    let (_, stream) = streamed!(
        gemini,
        [json!({"candidates": [{"content": {"parts": [
        {"text": "hm", "thought": true}, {"text": "Look"}, {"functionCall": {"name": "t", "args": {}}}]}}]})]
    );
    let answer = stream.broken();
    assert_eq!((&*answer.message.text(), answer.message.parts().len()), ("Look", 2));
}

/// The text that was shown so far, whole calls, no thought without a signature: after every event
/// of every golden.
fn assert_broken(told: &[Event], answer: &Answer, whole: &Answer, name: &str) {
    assert_eq!(answer.message.text(), text(told), "{name}");
    assert_eq!(answer.stop, Stop::Broken, "{name}");
    assert!(answer.message.reasoning().all(|thought| thought.signature.is_some()), "{name}");
    for call in answer.message.tool_calls() {
        assert!(
            whole
                .message
                .tool_calls()
                .any(|known| known.id == call.id && known.arguments == call.arguments),
            "{name}"
        );
    }
}

#[test]
fn no_cut_passes_for_whole() {
    let mut cuts = 0;
    macro_rules! cut {
        ($($format:ident)*) => {$(
            for (name, golden) in goldens(stringify!($format)).into_iter().filter(|(_, g)| g["events"].is_array()) {
                let events = events(&golden);
                let whole = streamed!($format, &events).1.finish().unwrap();
                for cut in 0..events.len() {
                    let (told, stream) = streamed!($format, &events[..cut]);
                    let has_ended = told.iter().any(|event| matches!(event, Event::Done(_)));
                    assert_eq!(stream.has_ended(), has_ended, "{name}");
                    assert_broken(&told, &stream.broken(), &whole, &name);
                    let finished = streamed!($format, &events[..cut]).1.finish();
                    match finished {
                        // What comes behind the end is what it cost.
                        Ok(answer) => assert!(has_ended && answer.message == whole.message, "{name}"),
                        Err(error) => assert_eq!(error.kind(), ErrorKind::Unfinished, "{name}"),
                    }
                    cuts += 1;
                }
            }
        )*};
    }
    cut!(openai responses anthropic gemini ollama);
    assert!(cuts > 50, "{cuts}");
}
