//! Answers as a whole: what they cost, why they ended, what is no answer, and streams that break.

#![allow(clippy::unwrap_used, clippy::expect_used, clippy::panic, missing_docs, unreachable_pub)] // a test that fails should say so
#![allow(clippy::needless_pass_by_value)] // `json!` in the place of an argument

use crate::events::{
    billed, block, calling, candidate, delta, end, last, over, piece, sent, start, stop, streamed,
    whole,
};
use crate::golden::{events, goldens};
use crate::shown::{assert_shown, calls, reasoning, text};
use memory_prompt::wire::{
    Answer, Event, Stop, Usage, anthropic, gemini, ollama, openai, responses,
};
use memory_prompt::{ErrorKind, Message, Provider, Result, wire};
use serde_json::{Value, json};

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
    let message = json!({"role": "assistant", "content": "hi"});
    chat(json!({"message": message, "finish_reason": word}), json!({}))
}

fn refusal(result: Result<Answer>) -> (Option<&'static str>, Option<u16>, bool) {
    match result.unwrap_err().kind() {
        ErrorKind::Refused { code, status, retryable } => {
            // So that it can be compared with a literal.
            let code = code.map(|code| &*code.as_str().to_owned().leak());
            (code, status, retryable)
        }
        kind => panic!("{kind:?}"),
    }
}

// --- usage -----------------------------------------------------------------------------------

/// Each row is what a server counts and, behind `=>`, the tokens of the input, of it cached and
/// written to a cache, of the output, and of it reasoning.
#[test]
fn usage_means_the_same_everywhere() {
    let assert_usage = |table: &str, answer: &dyn Fn(Value) -> Result<Answer>| {
        for row in table.lines().filter(|row| row.contains("=>")) {
            let (told, expected) = row.split_once("=>").unwrap();
            let expected: Vec<_> = expected.split(' ').skip(1).map(|it| it.parse().ok()).collect();
            let answer = answer(serde_json::from_str(told).unwrap()).unwrap();
            assert_eq!(answer.usage, usage(expected.try_into().unwrap()), "{row}");
        }
    };
    let choice = || json!({"message": {"content": "hi"}, "finish_reason": "stop"});
    assert_usage(
        r#"
        {"prompt_tokens": 9, "completion_tokens": 4, "total_tokens": 13} => 9 - - 4 -
        {"prompt_tokens": 9, "completion_tokens": 4, "total_tokens": 13, "prompt_tokens_details": {"cached_tokens": 8, "cache_write_tokens": 1}, "completion_tokens_details": {"reasoning_tokens": 3}} => 9 8 1 4 3
        // xAI's reasoning is not in what was completed.
        {"prompt_tokens": 9, "completion_tokens": 4, "total_tokens": 113, "completion_tokens_details": {"reasoning_tokens": 100}} => 9 - - 104 100
        // Of Google's, most of what is billed was not counted: it stands in the total alone.
        {"prompt_tokens": 9, "completion_tokens": 1, "total_tokens": 103} => 9 - - 94 93
        // Of Perplexity's the part was more than the whole.
        {"prompt_tokens": 33, "completion_tokens": 7395, "total_tokens": 7428, "reasoning_tokens": 73825} => 33 - - 81220 73825
        // A gateway to Claude counts what its cache knows in the total alone.
        {"prompt_tokens": 9, "completion_tokens": 4, "total_tokens": 113, "cache_read_input_tokens": 100} => 9 100 - 4 -
        {"prompt_tokens": 9, "prompt_cache_hit_tokens": 7} => 9 7 - - -
        {"prompt_tokens": "many"} => - - - - -
        "#,
        &|told| openai::answer(chat(choice(), json!({"usage": told}))),
    );
    assert_usage(r#"{"prompt_tokens": 2} => 2 - - - -"#, &|told| {
        openai::answer(chat(choice(), json!({"x_groq": {"usage": told}})))
    });
    assert_usage(
        r#"{"input_tokens": 9, "input_tokens_details": {"cached_tokens": 8}, "output_tokens": 4, "output_tokens_details": {"reasoning_tokens": 3}} => 9 8 - 4 3"#,
        &|told| responses::answer(json!({"status": "completed", "output": [], "usage": told})),
    );
    assert_usage(
        r#"{"promptTokenCount": 9, "cachedContentTokenCount": 8, "candidatesTokenCount": 4, "thoughtsTokenCount": 3, "toolUsePromptTokenCount": 1} => 10 8 - 7 3"#,
        &|told| {
            let mut body = candidate(json!([{"text": "hi"}]), "STOP");
            body["usageMetadata"] = told;
            gemini::answer(body)
        },
    );
    assert_usage(
        r#"{"message": {"content": "hi"}, "done": true, "prompt_eval_count": 9, "eval_count": 4} => 9 - - 4 -"#,
        &|body| ollama::answer(body),
    );
}

/// The counts of Anthropic's `message_delta` are sums, and some gateways write 0 into the others.
#[test]
fn usage_of_a_stream_only_grows() {
    let first = json!({"input_tokens": 5, "cache_read_input_tokens": 90,
        "cache_creation_input_tokens": 0, "output_tokens": 1});
    let begins = [start(json!({"id": "m", "usage": first}))];
    let ends = billed("end_turn", json!({"input_tokens": 0, "output_tokens": 7}));
    let (_, stream) = streamed!(anthropic, begins.iter().chain(&ends));
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
    let candidate = |parts: Value, word: &str| gemini::answer(candidate(parts, word));
    let thought = || json!([{"text": "hm", "thought": true}]);
    assert_eq!(refusal(candidate(json!([]), "SAFETY")), (Some("SAFETY"), None, false));
    let malformed = candidate(thought(), "MALFORMED_FUNCTION_CALL");
    assert_eq!(refusal(malformed), (Some("MALFORMED_FUNCTION_CALL"), None, true));
    assert_eq!(candidate(json!([{"text": "half"}]), "SAFETY").unwrap().stop, Stop::Filtered);
    let expected = "read gemini answer: candidates[0]: nothing was answered (`SAFETY`)";
    assert_eq!(candidate(json!([]), "SAFETY").unwrap_err().to_string(), expected);
    let blocked = gemini::answer(r#"{"candidates":[{"finishReason":"RECITATION"}]}"#);
    assert_eq!(refusal(blocked), (Some("RECITATION"), None, false));
    // What failed on the way is half an answer, whatever is there of it.
    assert!(refusal(openai::answer(said(&json!("network_error")))).2);
}

/// The words of an error could be had only if they stood in a text of `message`.
#[test]
fn what_a_provider_says_of_an_error_can_be_had() {
    let model = "model \"llama9\" not found, try pulling it first";
    let bodies = [
        (json!({"error": model}), model),
        (json!({"code": "The caller has no permission", "error": "No credits"}), "No credits"),
        (json!({"detail": [{"loc": ["body"], "msg": "Field required"}]}), "Field required"),
        (json!({"object": "error", "message": {"detail": [{"msg": "Extra"}]}}), "Extra"),
        (json!({"error": {"message": ["One", "Two"]}}), "Two"),
        (json!({"error": "Not Found", "message": "No such model"}), "No such model"),
    ];
    for (body, said) in bodies {
        for provider in [Provider::OpenAi, Provider::Ollama] {
            let mut stream = wire::Stream::of(provider);
            let streamed = stream.push(&body.to_string()).unwrap_err();
            for error in [wire::answer(provider, &body).unwrap_err(), streamed] {
                let told = error.provider_message().unwrap_or_default();
                assert!(told.contains(said), "{provider}: {body}: {told:?}");
                assert!(!error.to_string().contains(said), "{error}");
            }
        }
    }
    // What says only that there was one says nothing more.
    let error = openai::answer(json!({"error": true})).unwrap_err();
    assert_eq!(error.provider_message(), None);
}

#[test]
fn what_is_not_there_yet_is_no_empty_answer() {
    let status = |word: &str| responses::answer(json!({"status": word, "output": []}).to_string());
    for waiting in ["queued", "in_progress"] {
        assert_eq!(status(waiting).unwrap_err().kind(), ErrorKind::Unfinished);
    }
    assert_eq!(refusal(status("failed")), (Some("failed"), None, true));
    assert_eq!(refusal(status("cancelled")), (Some("cancelled"), None, false));
    let piece = ollama::answer(r#"{"message": {"content": "Hel"}, "done": false}"#);
    assert_eq!(piece.unwrap_err().kind(), ErrorKind::Unfinished);
}

// --- errors in place of messages -------------------------------------------------------------

/// Each row is a body and, behind `=>`, the code and the status of the error, and whether to try
/// again.
#[test]
fn errors_in_place_of_messages_are_of_a_kind_of_their_own() {
    let table = r#"
        {"error": {"message": "no", "type": "insufficient_quota", "code": "insufficient_quota", "status": 429}} => insufficient_quota 429 no
        {"error": {"message": "no", "type": "tokens", "code": "rate_limit_exceeded"}} => rate_limit_exceeded - yes
        {"error": {"message": "no", "code": 502}} => - 502 yes
        {"error": "no"} => - - no
        // vLLM and FastChat.
        {"object": "error", "message": "no", "type": "BadRequestError", "code": 400} => BadRequestError 400 no
        {"text": "no", "error_code": 50001} => - - no
        // MiniMax, with a choice that is none beside it.
        {"choices": null, "base_resp": {"status_code": 1002, "status_msg": "no"}} => - - no
        // Gateways.
        {"statusCode": 429, "message": "no"} => - 429 yes
        {"detail": [{"loc": ["body"], "msg": "no"}]} => - - no
        {"message": "Internal server error"} => - - no"#;
    for (body, expected) in table.lines().filter_map(|row| row.split_once(" => ")) {
        let [code, status, again] = expected.split(' ').collect::<Vec<_>>().try_into().unwrap();
        let expected = (Some(code).filter(|it| *it != "-"), status.parse().ok(), again == "yes");
        for refused in [
            openai::answer(body),
            responses::answer(body),
            anthropic::answer(body),
            ollama::answer(body),
        ] {
            assert_eq!(refusal(refused), expected, "{body}");
        }
        let streamed = [openai::Stream::new().push(body), ollama::Stream::new().push(body)];
        for refused in streamed.map(|pushed| pushed.unwrap_err().kind()) {
            assert!(matches!(refused, ErrorKind::Refused { .. }), "{body}: {refused:?}");
        }
    }
    let overloaded = r#"{"type":"error","error":{"type":"overloaded_error","message":"no"}}"#;
    assert_eq!(refusal(anthropic::answer(overloaded)), (Some("overloaded_error"), None, true));
    // Broken JSON, and JSON that is something else, are not.
    for other in ["{", "[]", "{}", r#"{"choices": [7]}"#] {
        assert_eq!(openai::answer(other).unwrap_err().kind(), ErrorKind::Codec, "{other}");
    }
    // A field that says that there is no error.
    let no_error = json!({"error": null, "base_resp": {"status_code": 0}});
    assert!(openai::answer(chat(json!({"message": {"content": "hi"}}), no_error)).is_ok());
}

/// OpenRouter's choices hold errors of the server behind it.
#[test]
fn an_error_in_a_choice_is_one() {
    let failed = json!({"error": {"code": 502, "message": "no"}, "message": {"content": ""}, "finish_reason": "error"});
    assert_eq!(refusal(openai::answer(chat(failed, json!({})))), (None, Some(502), true));
}

// --- streams ---------------------------------------------------------------------------------

/// `SenseNova`, `MiniMax` and Hunyuan write a reason into each chunk, and a stream that was cut
/// after the first passed for whole. So did one of which nothing but `[DONE]` had come.
#[test]
fn a_stream_ends_only_where_the_provider_says_so() {
    for nothing in [json!(""), json!("null"), json!(null)] {
        let (told, mut stream) = streamed!(openai, [last(json!({"content": "Hel"}), nothing)]);
        assert_eq!(told, [Event::Text("Hel".to_owned())]);
        stream.push("[DONE]").unwrap();
        assert!(!stream.has_ended());
        assert_eq!(stream.finish().unwrap_err().kind(), ErrorKind::Unfinished);
    }
    let mut stream = responses::Stream::new();
    stream.push("[DONE]").unwrap();
    assert_eq!(stream.finish().unwrap_err().kind(), ErrorKind::Unfinished);
    let unspecified = candidate(json!([{"text": "a"}]), "FINISH_REASON_UNSPECIFIED");
    let (_, stream) = streamed!(gemini, [unspecified]);
    assert!(!stream.has_ended());
}

/// Two calls without index and id became one, of whose arguments nobody could read anything.
#[test]
fn calls_without_index_or_id_are_as_many_as_they_are() {
    let call = |name: &str, x: i32| json!({"function": {"name": name, "arguments": format!("{{\"x\":{x}}}")}});
    for calls in [[call("a", 1), call("b", 2)], [call("a", 1), call("a", 2)]] {
        let list = streamed!(openai, [last(json!({"tool_calls": calls}), "tool_calls")]);
        let chunks = calls.each_ref().map(|call| last(json!({"tool_calls": [call]}), "tool_calls"));
        for (told, stream) in [list, streamed!(openai, chunks)] {
            let answer = stream.finish().unwrap();
            assert_shown(&told, &answer, "two calls");
            let stored = answer.message.tool_calls().map(|it| (&*it.id, &*it.arguments));
            let expected =
                [("call_chatcmpl-1_0", r#"{"x":1}"#), ("call_chatcmpl-1_1", r#"{"x":2}"#)];
            assert_eq!(stored.collect::<Vec<_>>(), expected);
        }
    }
    // A server that repeats the name in each piece means one call.
    let piece = |json: &str| calling(json!({"function": {"name": "a", "arguments": json}}));
    let (_, answer) = whole!(openai, [piece("{\"x\""), piece(":1}"), over("stop")]);
    assert_eq!(answer.message.tool_calls().count(), 1);
}

/// Groq's `channel` became "analysis" 152 times over.
#[test]
fn texts_that_are_not_known_are_replaced() {
    let piece = |text: &str, channel: &str| delta(json!({"content": text, "channel": channel}));
    let pieces = [piece("a", "analysis"), piece("b", "analysis"), piece("c", "final")];
    let (_, answer) = whole!(openai, pieces.iter().chain([&over("stop")]));
    assert_eq!(answer.message.text(), "abc");
    assert_eq!(answer.message.attributes()[openai::ATTRIBUTE], json!({"channel": "final"}));
}

/// Magistral streams one thought as dozens of blocks.
#[test]
fn a_thought_in_blocks_is_one() {
    let thinking =
        |text: &str| json!({"type": "thinking", "thinking": [{"type": "text", "text": text}]});
    let block = |text: &str| delta(json!({"content": [thinking(text)]}));
    let said = [delta(json!({"content": "Th"})), last(json!({"content": "ree."}), "stop")];
    let thought = ["One", " and", " two."].map(block);
    let (told, answer) = whole!(openai, thought.iter().chain(&said));
    assert_eq!(reasoning(&told), "One and two.");
    let thoughts: Vec<_> = answer.message.reasoning().map(|it| it.text.as_str()).collect();
    assert_eq!((thoughts, &*answer.message.text()), (vec!["One and two."], "Three."));
    let list = [Message::from(answer)];
    let content = json!([thinking("One and two."), {"type": "text", "text": "Three."}]);
    let expected = json!([{"role": "assistant", "content": content}]);
    assert_eq!(json!(openai::Messages::of(&list).for_provider(Provider::Mistral)), expected);
}

#[test]
fn a_message_start_that_is_repeated_is_passed_over() {
    let begins = ["m", "m", "n"].map(|id| start(json!({"id": id})).to_string());
    let (_, mut stream) = streamed!(anthropic, &begins[..2]);
    let error = stream.push(&begins[2]).unwrap_err();
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
    let expected = "read responses stream: item: it does not say what its pieces said";
    assert_eq!(error.to_string(), expected);
    // Nothing is lost where the items never come.
    let (told, stream) =
        streamed!(responses, [piece("Hi."), json!({"type": "response.completed", "response": {}})]);
    assert_shown(&told, &stream.finish().unwrap(), "pieces alone");
}

// --- streams that break ----------------------------------------------------------------------

#[test]
fn of_a_broken_stream_what_is_whole_is_kept() {
    fn ids(answer: &Answer) -> Vec<&str> {
        answer.message.tool_calls().map(|call| call.id.as_str()).collect()
    }
    let call = |id: &str| json!({"type": "tool_use", "id": id, "name": "t", "input": {}});
    let search = json!({"type": "server_tool_use", "id": "b", "name": "web_search", "input": {}});
    let events = [
        start(json!({"usage": {"input_tokens": 3}})),
        block(0, json!({"type": "thinking", "thinking": ""})),
        piece(0, json!({"type": "thinking_delta", "thinking": "hm"})),
        piece(0, json!({"type": "signature_delta", "signature": "s"})),
        stop(0),
        block(1, json!({"type": "text", "text": "Look"})),
        block(2, call("a")),
        piece(2, json!({"type": "input_json_delta", "partial_json": "{\"x\": 1}"})),
        block(3, search),
        stop(3),
        block(4, call("c")),
        block(5, json!({"type": "thinking", "thinking": "un"})),
    ];
    let answer = streamed!(anthropic, events).1.broken();
    assert_eq!((answer.stop, answer.usage.input), (Stop::Broken, Some(3)));
    assert_eq!((&*answer.message.text(), answer.message.parts().len()), ("Look", 3));
    assert_eq!(ids(&answer), ["a"]);

    let call = |index: u64, id: &str, arguments: &str| {
        let function = json!({"name": "t", "arguments": arguments});
        calling(json!({"index": index, "id": id, "function": function}))
    };
    let said = delta(json!({"reasoning_content": "hm", "content": "Look"}));
    let events = [said, call(0, "a", "{\"x\":1}"), call(1, "b", "{\"x\":")];
    let answer = streamed!(openai, events).1.broken();
    assert_eq!((&*answer.message.text(), answer.message.reasoning().count()), ("Look", 0));
    assert_eq!(ids(&answer), ["a"]);

    let events = [
        json!({"type": "response.output_item.done", "output_index": 0, "item": {"type": "reasoning", "id": "r", "summary": [], "encrypted_content": "g"}}),
        json!({"type": "response.output_text.delta", "output_index": 1, "content_index": 0, "delta": "Look"}),
        json!({"type": "response.output_item.added", "output_index": 2, "item": {"type": "function_call", "call_id": "a", "name": "t", "arguments": ""}}),
        json!({"type": "response.function_call_arguments.delta", "output_index": 2, "delta": "{\"x\":"}),
        json!({"type": "response.output_item.added", "output_index": 3, "item": {"type": "web_search_call", "id": "w"}}),
    ];
    let parts = json!([{"text": "hm", "thought": true}, {"text": "Look"},
        {"functionCall": {"name": "t", "args": {}}}]);
    for answer in [
        streamed!(responses, events).1.broken(),
        streamed!(gemini, [candidate(parts, Value::Null)]).1.broken(),
    ] {
        assert_eq!((&*answer.message.text(), answer.message.parts().len()), ("Look", 2));
    }
}

/// The text that was shown so far, whole calls, no thought without a signature: after every event
/// of every golden.
fn assert_broken(told: &[Event], answer: &Answer, whole: &Answer, name: &str) {
    assert_eq!(answer.message.text(), text(told), "{name}");
    assert_eq!(answer.stop, Stop::Broken, "{name}");
    assert!(answer.message.reasoning().all(|thought| thought.signature.is_some()), "{name}");
    for call in answer.message.tool_calls() {
        let mut known = whole.message.tool_calls();
        assert!(known.any(|it| it.id == call.id && it.arguments == call.arguments), "{name}");
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

// --- what stands beside the message ----------------------------------------------------------

/// Claude's compaction is billed beside what the answer cost, and 162 tokens were told where 99,357
/// were billed.
#[test]
fn what_compacting_cost_is_counted() {
    let told = json!({"input_tokens": 162, "output_tokens": 40, "iterations": [
        {"type": "compaction", "input_tokens": 99_195, "output_tokens": 900, "cache_read_input_tokens": 0},
        {"type": "message", "input_tokens": 162, "output_tokens": 40},
        {"type": "advisor_message", "input_tokens": 7, "output_tokens": 7}]});
    let content = json!([{"type": "text", "text": "hi"}]);
    let body = json!({"role": "assistant", "content": content, "usage": told});
    let whole = anthropic::answer(body).unwrap().usage;
    assert_eq!(whole, usage([Some(99_357), Some(0), None, Some(940), None]));
    let first = json!({"input_tokens": 162, "output_tokens": 1});
    let begins = [start(json!({"id": "m", "content": content, "usage": first}))];
    let (_, stream) = streamed!(anthropic, begins.iter().chain(&billed("end_turn", told)));
    assert_eq!(stream.finish().unwrap().usage, whole);
}

/// A stream's counts were the greatest of each field: 169 where Gemini's last event says 79.
#[test]
fn the_last_event_that_counts_says_what_an_answer_cost() {
    let chunk = |text: &str, word: Option<&str>, counts: Value| {
        json!({"candidates": [{"content": {"parts": [{"text": text}]}, "finishReason": word}],
            "usageMetadata": counts})
    };
    let first =
        json!({"promptTokenCount": 9, "candidatesTokenCount": 100, "thoughtsTokenCount": 69});
    let all = json!({"promptTokenCount": 9, "candidatesTokenCount": 79});
    let (_, stream) = streamed!(gemini, [chunk("a", None, first), chunk("b", Some("STOP"), all)]);
    let counted = stream.finish().unwrap().usage;
    assert_eq!(counted, usage([Some(9), None, None, Some(79), None]));

    let counting = |input: u64, output: u64| json!({"choices": [], "usage": {"prompt_tokens": input, "completion_tokens": output}});
    let said = last(json!({"content": "hi"}), "stop");
    let (_, stream) = streamed!(openai, [counting(12, 30), said, counting(10, 4), counting(0, 0)]);
    let counted = stream.finish().unwrap().usage;
    assert_eq!(counted, usage([Some(10), None, None, Some(4), None]));
}

/// What an answer is grounded in, what it cost and who gave it was read by nobody.
#[test]
fn what_stands_beside_a_message_is_told_of_each_format() {
    let url = |it: &wire::Metadata| it.sources.iter().map(|it| it.url.clone()).collect::<Vec<_>>();
    let found = |url: &str| vec![Some(url.to_owned())];

    // OpenRouter, Perplexity and xAI, whole and in pieces.
    let beside = json!({"id": "gen-1", "model": "m-2026", "citations": ["https://e.x/a"],
        "search_results": [{"title": "A", "url": "https://e.x/a", "date": "2026-01-01"}],
        "usage": {"prompt_tokens": 3, "completion_tokens": 1, "cost": 0.25}});
    let with = |choice: Value| {
        let mut body = beside.clone();
        body["choices"] = json!([choice]);
        body
    };
    let logprobs = |token: &str| json!({"content": [{"token": token, "logprob": -0.5}]});
    let body = with(json!({"message": {"content": "Hi."}, "logprobs": logprobs("Hi."),
        "finish_reason": "stop"}));
    let whole = openai::answer(body.to_string()).unwrap();
    let told = &whole.metadata;
    assert_eq!((told.id.as_deref(), told.model.as_deref()), (Some("gen-1"), Some("m-2026")));
    assert_eq!(told.cost.as_ref().and_then(serde_json::Number::as_f64), Some(0.25));
    assert_eq!(url(told), found("https://e.x/a"));
    assert_eq!(told.sources[0].title.as_deref(), Some("A"));
    assert_eq!(told.attributes["logprobs"]["content"][0]["token"], "Hi.");
    let piece = |text: &str, word: Value| {
        with(json!({"delta": {"content": text}, "logprobs": logprobs(text), "finish_reason": word}))
    };
    let (_, stream) = streamed!(openai, [piece("Hi", json!(null)), piece(".", json!("stop"))]);
    let answer = stream.finish().unwrap();
    assert_eq!(answer.message, whole.message);
    assert_eq!(answer.metadata.sources, told.sources);
    assert_eq!(answer.metadata.attributes["logprobs"]["content"].as_array().unwrap().len(), 2);
    // Kept with the message, to be shown, and sent to nobody.
    let message = Message::from(answer.given_by(Provider::Xai));
    assert_eq!(message.as_ai().unwrap().attributes()["wire:sources"][0]["title"], "A");
    for provider in [Provider::Xai, Provider::OpenAi, Provider::Vllm] {
        let sent = json!(openai::Messages::of([&message]).for_provider(provider));
        assert_eq!(sent, json!([{"role": "assistant", "content": "Hi."}]), "{provider}");
    }

    // Gemini.
    let chunks = json!([{"web": {"uri": "https://e.x/g", "title": "e.x"}}]);
    let body = json!({"responseId": "r", "modelVersion": "gemini-3", "candidates": [{
        "content": {"parts": [{"text": "Sunny."}]}, "finishReason": "STOP",
        "groundingMetadata": {"groundingChunks": chunks, "searchEntryPoint": {"renderedContent": "<b>"}},
        "urlContextMetadata": {"urlMetadata": [{"retrievedUrl": "https://e.x/u"}]}}]});
    let whole = gemini::answer(body.clone()).unwrap();
    let (_, stream) = streamed!(gemini, [body]);
    for answer in [whole, stream.finish().unwrap()] {
        let told = &answer.metadata;
        assert_eq!((told.id.as_deref(), told.model.as_deref()), (Some("r"), Some("gemini-3")));
        assert_eq!(url(told), [found("https://e.x/g"), found("https://e.x/u")].concat());
        assert!(told.attributes["groundingMetadata"]["searchEntryPoint"].is_object());
    }

    // Claude's sources stand in its texts, and OpenAI's in their annotations.
    let cited = json!([{"type": "web_search_result_location", "url": "https://e.x/c", "title": "C",
        "cited_text": "It is sunny."}]);
    let body = json!({"id": "msg_1", "model": "claude", "role": "assistant",
        "content": [{"type": "text", "text": "Sunny.", "citations": cited}],
        "context_management": {"applied_edits": [{"type": "clear_tool_uses_20250919"}]}});
    let told = anthropic::answer(body).unwrap().metadata;
    assert_eq!((told.id.as_deref(), told.model.as_deref()), (Some("msg_1"), Some("claude")));
    assert_eq!(told.sources[0].text.as_deref(), Some("It is sunny."));
    assert!(told.attributes["context_management"]["applied_edits"].is_array());
    let annotations = json!([{"type": "url_citation", "url": "https://e.x/o", "title": "O"}]);
    let body = json!({"id": "resp_1", "model": "gpt", "status": "completed", "instructions": "Hm",
        "output": [{"type": "message", "role": "assistant", "content": [
            {"type": "output_text", "text": "Sunny.", "annotations": annotations}]}]});
    let told = responses::answer(body).unwrap().metadata;
    assert_eq!((told.id.as_deref(), url(&told)), (Some("resp_1"), found("https://e.x/o")));
    assert!(!told.attributes.contains_key("instructions"));
}

/// What an answer costs was logged, and the log held the words that it cites and all its tokens.
#[test]
fn debug_of_what_is_reported_says_nothing_of_what_is_said() {
    let part = json!({"type": "text", "text": "Sunny.", "citations": [{"cited_text": "a secret"}]});
    let claude = json!({"id": "msg_1", "content": [part], "stop_reason": "end_turn"});
    let tokens = json!({"content": [{"token": "a secret", "logprob": -0.1}]});
    let choice = json!({"message": {"content": "a secret"}, "logprobs": tokens});
    let told = anthropic::answer(claude.to_string()).unwrap().metadata;
    assert_eq!(told.sources[0].text.as_deref(), Some("a secret"));
    let considered = openai::answer(chat(choice, json!({}))).unwrap().metadata;
    let shown = format!("{told:?} {considered:?}");
    assert!(shown.contains("logprobs") && shown.contains("msg_1"), "{shown}");
    assert!(!shown.contains("a secret"), "{shown}");
}

/// Snowflake never says why an answer stops, and Novita behind OpenRouter not always: a paid call
/// was lost.
#[test]
fn done_behind_the_usage_is_an_end() {
    let call = json!({"tool_calls": [{"index": 0, "id": "c", "function": {"name": "f", "arguments": "{}"}}]});
    let usage = json!({"choices": [], "usage": {"prompt_tokens": 3, "completion_tokens": 1}});
    let (_, mut stream) = streamed!(openai, [delta(call.clone()), usage]);
    assert!(!stream.has_ended());
    let told = stream.push("[DONE]").unwrap();
    assert!(told.contains(&Event::Done(Stop::Calls)), "{told:?}");
    assert_eq!(stream.finish().unwrap().message.tool_calls().count(), 1);

    // A row says so of a server that does not even count.
    let mut row = memory_prompt::provider::Row::like(Provider::OpenAiCompatible, "snow").unwrap();
    for ends_in_done in [false, true] {
        row.ends_in_done = ends_in_done;
        let mut stream = wire::Stream::of(Provider::custom(row));
        stream.push(&delta(call.clone()).to_string()).unwrap();
        stream.push("[DONE]").unwrap();
        assert_eq!(stream.finish().is_ok(), ends_in_done);
    }
}

/// What Claude, OpenAI and Groq have found stood in parts that only they understand, and was no
/// source; an address that was listed and then cited was two.
#[test]
fn what_a_provider_has_found_is_a_source() {
    let told = |sources: &[wire::Citation]| {
        let sources = sources.iter().map(|it| [&it.url, &it.title, &it.text]);
        sources.map(|it| it.map(|it| it.clone().unwrap_or_default())).collect::<Vec<_>>()
    };
    let source = |url: &str, title: &str, text: &str| [url, title, text].map(str::to_owned);
    let body = json!({"role": "assistant", "content": [
        {"type": "server_tool_use", "id": "s", "name": "web_search", "input": {"query": "oslo"}},
        {"type": "web_search_tool_result", "tool_use_id": "s", "content": [
            {"type": "web_search_result", "url": "https://e.x/a", "title": "A", "encrypted_content": "c2ln"},
            {"type": "web_search_result", "url": "https://e.x/b", "title": "B", "encrypted_content": "c2ln"}]},
        {"type": "web_fetch_tool_result", "tool_use_id": "s", "content":
            {"type": "web_fetch_result", "url": "https://e.x/f", "content": {"type": "document"}}},
        {"type": "bash_code_execution_tool_result", "tool_use_id": "s", "content": [{"type": "text", "text": "7"}]},
        {"type": "text", "text": "Sunny.", "citations": [
            {"type": "web_search_result_location", "url": "https://e.x/a", "title": "A", "cited_text": "It is sunny."},
            {"type": "char_location", "document_title": "Notes", "cited_text": "Sun."}]}]});
    let expected = [
        source("https://e.x/a", "A", "It is sunny."),
        source("https://e.x/b", "B", ""),
        source("https://e.x/f", "", ""),
        source("", "Notes", "Sun."),
    ];
    assert_eq!(told(&anthropic::answer(body.clone()).unwrap().metadata.sources), expected);
    let mut begins = body;
    begins["id"] = json!("m");
    let (_, stream) = streamed!(anthropic, [start(begins)].iter().chain(&end("end_turn")));
    assert_eq!(told(&stream.finish().unwrap().metadata.sources), expected);

    let body = json!({"status": "completed", "output": [
        {"type": "web_search_call", "id": "ws_1", "status": "completed", "action": {"type": "search",
            "query": "oslo", "sources": [{"type": "url", "url": "https://e.x/a"}]}},
        {"type": "file_search_call", "id": "fs_1", "status": "completed", "queries": ["oslo"],
            "results": [{"file_id": "file-1", "filename": "a.pdf", "text": "Sun.", "score": 0.5}]}]});
    let found = responses::answer(body).unwrap().metadata.sources;
    assert_eq!(told(&found), [source("https://e.x/a", "", ""), source("", "a.pdf", "Sun.")]);

    let executed = json!([{"index": 0, "type": "search", "search_results": {"results": [
        {"title": "A", "url": "https://e.x/a", "content": "It is sunny.", "score": 0.9}]}}]);
    let body = json!({"choices": [{"finish_reason": "stop", "message":
        {"role": "assistant", "content": "Sunny.", "executed_tools": executed}}]});
    let found = wire::answer(Provider::Groq, body).unwrap().metadata.sources;
    assert_eq!(told(&found), [source("https://e.x/a", "A", "It is sunny.")]);
}

/// Of what a stream told of each token, the last piece was kept, but for OpenAI's.
#[test]
fn what_is_told_of_each_token_is_kept_of_all() {
    let line = |text: &str, done: bool| {
        json!({"message": {"role": "assistant", "content": text},
        "logprobs": [{"token": text, "logprob": -0.5}], "done": done, "done_reason": "stop"})
    };
    let (_, stream) = streamed!(ollama, [line("Hi", false), line(".", true)]);
    let told = stream.finish().unwrap().metadata.attributes;
    assert_eq!(told["logprobs"].as_array().unwrap().len(), 2);
    let chunk = |text: &str| {
        json!({"candidates": [{"content": {"parts": [{"text": text}]},
        "logprobsResult": {"chosenCandidates": [{"token": text}], "avgLogprobs": -0.5},
        "finishReason": "STOP"}]})
    };
    let (_, stream) = streamed!(gemini, [chunk("Hi"), chunk(".")]);
    let told = stream.finish().unwrap().metadata.attributes;
    assert_eq!(told["logprobsResult"]["chosenCandidates"].as_array().unwrap().len(), 2);
}

/// Claude's last event counts what all of the answer has read, which may be less from the cache and
/// more beside it: the greatest of each field was told.
#[test]
fn the_last_event_of_claude_counts_the_whole_answer() {
    let counts = |input: u64, cached: u64, output: u64| json!({"input_tokens": input, "cache_read_input_tokens": cached, "output_tokens": output});
    let begins = [start(json!({"id": "m", "content": "hi", "usage": counts(30, 500, 1)}))];
    let ends = billed("end_turn", counts(70, 400, 20));
    let (_, stream) = streamed!(anthropic, begins.iter().chain(&ends));
    let counted = stream.finish().unwrap().usage;
    assert_eq!(counted, usage([Some(470), Some(400), None, Some(20), None]));
}

/// A refusal of OpenAI's stopped like any answer, and who asked had to look into its parts.
#[test]
fn a_refusal_is_a_stop_of_its_own_kind() {
    let words = "I can't help with that.";
    let said = json!({"role": "assistant", "content": null, "refusal": words});
    let whole = openai::answer(json!({"choices": [{"finish_reason": "stop", "message": said}]}));
    let begins = delta(json!({"refusal": "I can't "}));
    let ends = last(json!({"refusal": "help with that."}), "stop");
    let (told, stream) = streamed!(openai, [begins, ends]);
    assert_eq!(told.last(), Some(&Event::Done(Stop::Refused)));
    let item = json!({"type": "message", "role": "assistant", "content": [{"type": "refusal", "refusal": words}]});
    let body = json!({"status": "completed", "output": [item]});
    let (also_told, items) =
        streamed!(responses, [json!({"type": "response.completed", "response": body})]);
    assert_eq!(also_told.last(), Some(&Event::Done(Stop::Refused)));
    let answers = [whole, stream.finish(), responses::answer(body), items.finish()];
    for answer in answers.map(Result::unwrap) {
        assert_eq!((answer.stop, answer.refusal().as_deref()), (Stop::Refused, Some(words)));
    }
    // What was cut or withheld is that above all.
    let cut = json!({"choices": [{"finish_reason": "length", "message": said}]});
    assert_eq!(openai::answer(cut).unwrap().stop, Stop::Length);
}

/// Azure leaves out the message where its filter has taken all of it, and the answer could not be
/// read; Cloudflare hands over the JSON that was asked for as an object.
#[test]
fn a_filtered_answer_and_one_that_is_an_object_are_read() {
    let filtered = json!({"choices": [{"index": 0, "finish_reason": "content_filter",
        "content_filter_results": {"hate": {"filtered": true, "severity": "high"}}}]});
    let error = wire::answer(Provider::Azure, filtered).unwrap_err();
    let ErrorKind::Refused { code, retryable, .. } = error.kind() else { panic!("{error}") };
    let expected = (Some("content_filter"), false);
    assert_eq!((code.map(|it| it.to_string()).as_deref(), retryable), expected);
    let error =
        openai::answer(json!({"choices": [{"finish_reason": "stop", "text": "Hi"}]})).unwrap_err();
    assert_eq!(error.to_string(), "read openai answer: choices[0].message: missing");

    let body = json!({"choices": [{"finish_reason": "stop", "message":
        {"role": "assistant", "content": {"city": "Oslo", "days": 3}}}]});
    let answer = openai::answer(body).unwrap();
    let said: Value = serde_json::from_str(&answer.message.text()).unwrap();
    assert_eq!(said, json!({"city": "Oslo", "days": 3}));
}

/// A gateway streamed the message under number 0, and ended with the reasoning at its place: the
/// message was shown and stored twice, and the reasoning was lost.
#[test]
fn an_item_is_told_once_wherever_it_stands() {
    let message = json!({"type": "message", "id": "m", "role": "assistant",
                         "content": [{"type": "output_text", "text": "Hello."}]});
    let thought = json!({"type": "reasoning", "id": "r", "summary": [], "encrypted_content": "g"});
    let search = json!({"type": "web_search_call", "id": "w", "status": "completed"});
    let done = |item: &Value| json!({"type": "response.output_item.done", "output_index": 0, "item": item});
    let response = json!({"status": "completed", "output": [thought, search, message]});
    let end = json!({"type": "response.completed", "response": response});
    let (_, answer) = whole!(responses, [done(&message), done(&search), end]);
    assert_eq!(answer.message.text(), "Hello.");
    assert_eq!(answer.message.reasoning().count(), 1);
    let body = sent(Provider::OpenAiResponses, answer);
    let input = body["input"].to_string();
    assert!(["\"r\"", "\"w\"", "\"m\""].iter().all(|id| input.contains(id)), "{body}");
}
