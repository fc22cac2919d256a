//! Ends of streams: of several reasons the gravest counts, and behind the end nothing does.

#![allow(clippy::unwrap_used, clippy::panic, missing_docs, unreachable_pub)] // a test that fails should say so

use crate::setups::prompt_for;
use std::iter::once;
use std::time::{Duration, Instant};

use crate::events::{begun, block, candidate, end, last, over, start, stop};
use crate::shown::{assert_shown, read};
use memory_prompt::wire::{Stop, Stream, anthropic};
use memory_prompt::{ErrorKind, Message, Provider, ToolCall};
use serde_json::{Value, json};

/// A stream that says "Hi", these reasons to stop, and that it is over.
fn ending(provider: Provider, reasons: &[&str]) -> Vec<Value> {
    let words = reasons.iter();
    match provider {
        Provider::OpenAi => {
            let first = last(json!({"role": "assistant", "content": "Hi"}), "");
            once(first).chain(words.map(|word| over(word))).collect()
        }
        Provider::Gemini => {
            let chunk = |text: &str, word: &str| candidate(json!([{"text": text}]), word);
            once(chunk("Hi", "")).chain(words.map(|word| chunk("", word))).collect()
        }
        Provider::Anthropic => {
            let said = block(0, json!({"type": "text", "text": "Hi"}));
            let [_, over] = end("");
            let words = words.map(|word| end(word)[0].clone());
            let first = [start(json!({"id": "m"})), said, stop(0)];
            first.into_iter().chain(words).chain([over]).collect()
        }
        Provider::Ollama => {
            let line = |text: &str, word: &str, done: bool| json!({"message": {"content": text}, "done_reason": word, "done": done});
            let words = words.map(|word| line("", word, false));
            once(line("Hi", "", false)).chain(words).chain([line("", "", true)]).collect()
        }
        other => panic!("{other:?}"),
    }
}

/// The first reason of a stream won over all others: of a server that writes `stop` into each chunk
/// an answer was whole that was cut, or that a filter had stopped.
#[test]
fn of_several_reasons_the_gravest_counts_in_any_order() {
    // What each says against the answer, ascending.
    let words = |provider| match provider {
        Provider::Gemini => {
            ["STOP", "A_NEW_WORD", "MAX_TOKENS", "MALFORMED_FUNCTION_CALL", "SAFETY"]
        }
        Provider::Anthropic => ["end_turn", "a_new_word", "pause_turn", "max_tokens", "refusal"],
        _ => ["stop", "a_new_word", "length", "malformed_response", "content_filter"],
    };
    for provider in [Provider::OpenAi, Provider::Gemini, Provider::Anthropic, Provider::Ollama] {
        let words = words(provider);
        for (i, gravest) in words.iter().enumerate() {
            for lighter in &words[..=i] {
                for lightest in &words[..=i] {
                    let orders = [
                        [gravest, lighter, lightest],
                        [lighter, gravest, lightest],
                        [lightest, lighter, gravest],
                    ];
                    for order in orders {
                        let name = format!("{provider:?}: {order:?}");
                        let pieces = ending(provider, &order.map(|word| *word));
                        let (told, answer) = read(provider, &pieces);
                        let answer = answer.unwrap();
                        assert_eq!(answer.stop_word.as_deref(), Some(*gravest), "{name}");
                        assert_shown(&told, &answer, &name);
                    }
                }
            }
        }
    }
}

/// A server that fails behind its own `stop` was taken for one that had answered.
#[test]
fn a_failure_weighs_more_than_any_reason() {
    for order in [["stop", "network_error"], ["network_error", "content_filter"]] {
        let (_, answer) = read(Provider::OpenAi, &ending(Provider::OpenAi, &order));
        let kind = answer.unwrap_err().kind();
        let ErrorKind::Refused { code: Some(code), .. } = kind else { panic!("{kind:?}") };
        assert_eq!(code, "network_error");
    }
}

/// Calls that come behind a reason were stored, and `Event::Done` had said that there are none.
#[test]
fn calls_behind_a_reason_are_told() {
    let call = json!({"functionCall": {"name": "look", "args": {}}});
    let pieces = [json!([{"text": "Hi"}]), json!([call])].map(|parts| candidate(parts, "STOP"));
    let (told, answer) = read(Provider::Gemini, &pieces);
    let answer = answer.unwrap();
    assert_eq!(answer.stop, Stop::Calls);
    assert_shown(&told, &answer, "gemini");
}

/// Junk behind the end made an error of an answer that was whole: it was read before it was passed
/// over.
#[test]
fn whatever_stands_behind_the_end_spoils_nothing() {
    let content = json!([{"type": "output_text", "text": "Hi"}]);
    let item = json!({"type": "message", "role": "assistant", "content": content});
    let response = json!({"status": "completed", "output": [item]});
    let whole = json!({"type": "response.completed", "response": response});
    let over = [
        (Provider::OpenAi, ending(Provider::OpenAi, &["stop"]), "[DONE]"),
        (Provider::Anthropic, ending(Provider::Anthropic, &["end_turn"]), ""),
        (Provider::Ollama, ending(Provider::Ollama, &["stop"]), ""),
        (Provider::OpenAiResponses, vec![whole], ""),
    ];
    for (provider, pieces, end) in over {
        let mut stream = begun(provider, &pieces);
        stream.push(end).unwrap();
        for junk in [
            "}{",
            "7",
            "<html>",
            "[DONE]",
            r#"{"error": {"type": "overloaded_error"}}"#,
            r#"{"type": "message_start", "message": {"id": "n"}}"#,
            r#"{"choices": [{"index": 1}]}"#,
        ] {
            assert_eq!(stream.push(junk).unwrap(), [], "{provider:?}: {junk}");
        }
        assert_eq!(stream.finish().unwrap().message.text(), "Hi", "{provider:?}");
    }
}

/// Before the end an error is one, and so is one behind a `[DONE]` that ends nothing.
#[test]
fn an_error_before_the_end_is_one() {
    let error = r#"{"error": {"type": "overloaded_error"}}"#;
    for before in [&["stop"][..], &[]] {
        for done in ["", "[DONE]"] {
            if before.is_empty() || done.is_empty() {
                let mut stream = begun(Provider::OpenAi, &ending(Provider::OpenAi, before));
                stream.push(done).unwrap();
                let kind = stream.push(error).unwrap_err().kind();
                assert!(matches!(kind, ErrorKind::Refused { retryable: true, .. }), "{kind:?}");
            }
        }
    }
}

/// Each piece of arguments was read again from their beginning where it ended in a brace: a call of
/// a megabyte in small objects took minutes.
#[test]
fn arguments_in_many_pieces_are_read_once() {
    let chunk = |call: Value| json!({"choices": [{"delta": {"tool_calls": [call]}}]}).to_string();
    let time = |pieces: usize| {
        let next = chunk(json!({"index": 0, "function": {"arguments": r#"{"a":"}"}"#}}));
        let comma = chunk(json!({"index": 0, "function": {"arguments": ","}}));
        let times = (0..3).map(|_| {
            let function = json!({"name": "run", "arguments": "{\"l\":["});
            let began = Instant::now();
            let mut stream = Stream::of(Provider::OpenAi);
            stream.push(&chunk(json!({"index": 0, "id": "c", "function": function}))).unwrap();
            for _ in 1..pieces {
                stream.push(&next).unwrap();
                stream.push(&comma).unwrap();
            }
            stream.push(&next).unwrap();
            let last = chunk(json!({"index": 0, "function": {"arguments": "]}"}}));
            stream.push(&last).unwrap();
            // What follows a whole object, under one index and no id, is another call.
            let other = json!({"index": 0, "function": {"name": "run", "arguments": "{}"}});
            stream.push(&chunk(other)).unwrap();
            let took = began.elapsed();
            let answer = stream.broken();
            let lengths = answer.message.tool_calls().map(|call| call.arguments.len());
            assert_eq!(lengths.collect::<Vec<_>>(), [pieces * 10 + 7, 2]);
            took
        });
        times.min().unwrap()
    };
    time(100);
    let (short, long) = (time(500), time(5_000));
    assert!(long < short * 30 + Duration::from_millis(200), "{short:?} {long:?}");
}

/// Whether arguments are an object was asked in three ways, of which two took a number, a text or a
/// depth for readable that no server reads.
#[test]
fn arguments_are_an_object_for_all_or_for_none() {
    let deep = format!("{{\"a\":{}{}}}", "[".repeat(200), "]".repeat(200));
    let all = [
        ("{}", true),
        (" {\"a\": [1, -2.5, true, null, {\"b\": \"\\u00e9\"}]}\n", true),
        (r#"{"a": 1e999}"#, false),
        (r#"{"a": "\ud800"}"#, false),
        (deep.as_str(), false),
        (r#"{"a": 1} {}"#, false),
        (r#"{"a": 1"#, false),
        ("[{}]", false),
        ("{a}", false),
    ];
    for (arguments, is_object) in all {
        // A server that reads them again.
        let call = ToolCall::new("c", "look", arguments);
        let messages =
            [Message::user("Look."), Message::ai_calls([call]), Message::tool("c", "look", "ok")];
        let prompt = prompt_for(Provider::Vllm, &messages);
        let sent = &prompt[1].tool_calls().next().unwrap().arguments;
        assert_eq!(sent == arguments, is_object, "composed: {arguments}");
        // A format that holds an object.
        let losses = anthropic::Messages::of(&messages).losses();
        assert_eq!(losses.is_empty(), is_object, "written: {arguments}");
        let written = json!(anthropic::Messages::of(&messages));
        let is_stopgap = written[1]["content"][0]["input"]["arguments"] == arguments;
        assert_eq!(is_stopgap, !is_object, "written: {arguments}");
        // A stream that broke off behind them.
        let function = json!({"name": "look", "arguments": arguments});
        let calls = json!([{"index": 0, "id": "c", "function": function}]);
        let stream =
            begun(Provider::OpenAi, [&json!({"choices": [{"delta": {"tool_calls": calls}}]})]);
        assert_eq!(stream.broken().message.has_tool_calls(), is_object, "kept: {arguments}");
    }
}
