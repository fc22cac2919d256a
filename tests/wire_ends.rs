//! Ends of streams: of several reasons the gravest counts, and behind the end nothing does.

#![allow(clippy::unwrap_used, clippy::panic, missing_docs, unreachable_pub)] // a test that fails should say so

#[path = "common/shown.rs"]
mod shown;

use memory_prompt::wire::{Answer, Event, Stop, Stream};
use memory_prompt::{ErrorKind, Provider, Result};
use serde_json::{Value, json};
use shown::assert_shown;

/// A stream that says "Hi", these reasons to stop, and that it is over.
fn ending(provider: Provider, reasons: &[&str]) -> Vec<Value> {
    let reasons = reasons.iter();
    let each: Vec<Value> = match provider {
        Provider::OpenAi => {
            let chunk = |delta: Value, word: &str| json!({"choices": [{"index": 0, "delta": delta, "finish_reason": word}]});
            let first = chunk(json!({"role": "assistant", "content": "Hi"}), "");
            [first].into_iter().chain(reasons.map(|word| chunk(json!({}), word))).collect()
        }
        Provider::Gemini => {
            let chunk = |text: &str, word: &str| json!({"candidates": [{"content": {"parts": [{"text": text}]}, "finishReason": word}]});
            let first = chunk("Hi", "");
            [first].into_iter().chain(reasons.map(|word| chunk("", word))).collect()
        }
        Provider::Anthropic => {
            let delta = |word: &&str| json!({"type": "message_delta", "delta": {"stop_reason": word}});
            let block = json!({"type": "text", "text": "Hi"});
            let first = [
                json!({"type": "message_start", "message": {"id": "m"}}),
                json!({"type": "content_block_start", "index": 0, "content_block": block}),
                json!({"type": "content_block_stop", "index": 0}),
            ];
            let last = json!({"type": "message_stop"});
            first.into_iter().chain(reasons.map(delta)).chain([last]).collect()
        }
        Provider::Ollama => {
            let line = |text: &str, word: &str, done: bool| json!({"message": {"content": text}, "done_reason": word, "done": done});
            let first = line("Hi", "", false);
            let last = line("", "", true);
            [first].into_iter().chain(reasons.map(|word| line("", word, false))).chain([last]).collect()
        }
        other => panic!("{other:?}"),
    };
    each
}

fn read(provider: Provider, pieces: &[Value]) -> (Vec<Event>, Result<Answer>) {
    let mut stream = Stream::of(provider);
    let mut told = Vec::new();
    for piece in pieces {
        told.extend(stream.push(&piece.to_string()).unwrap());
    }
    (told, stream.finish())
}

/// The first reason of a stream won over all others: of a server that writes `stop` into each chunk
/// an answer was whole that was cut, or that a filter had stopped.
#[test]
fn of_several_reasons_the_gravest_counts_in_any_order() {
    // What each says against the answer, ascending.
    let words = |provider| match provider {
        Provider::Gemini => ["A_NEW_WORD", "STOP", "MAX_TOKENS", "MALFORMED_FUNCTION_CALL", "SAFETY"],
        Provider::Anthropic => ["a_new_word", "end_turn", "pause_turn", "max_tokens", "refusal"],
        _ => ["a_new_word", "stop", "length", "malformed_response", "content_filter"],
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
                        let (told, answer) = read(provider, &ending(provider, &order.map(|word| *word)));
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
        assert!(matches!(kind, ErrorKind::Refused { code: Some("network_error"), .. }), "{kind:?}");
    }
}

/// Calls that come behind a reason were stored, and `Event::Done` had said that there are none.
#[test]
fn calls_behind_a_reason_are_told() {
    let chunk = |part: Value| json!({"candidates": [{"content": {"parts": [part]}, "finishReason": "STOP"}]});
    let call = json!({"functionCall": {"name": "look", "args": {}}});
    let pieces = [chunk(json!({"text": "Hi"})), chunk(call)];
    let (told, answer) = read(Provider::Gemini, &pieces);
    let answer = answer.unwrap();
    assert_eq!(answer.stop, Stop::Calls);
    assert_shown(&told, &answer, "gemini");
}

/// Junk behind the end made an error of an answer that was whole: it was read before it was passed
/// over.
#[test]
fn whatever_stands_behind_the_end_spoils_nothing() {
    let over = [
        (Provider::OpenAi, ending(Provider::OpenAi, &["stop"]), "[DONE]"),
        (Provider::Anthropic, ending(Provider::Anthropic, &["end_turn"]), ""),
        (Provider::Ollama, ending(Provider::Ollama, &["stop"]), ""),
        (Provider::OpenAiResponses, responses_whole(), ""),
    ];
    for (provider, pieces, end) in over {
        let mut stream = Stream::of(provider);
        for piece in &pieces {
            stream.push(&piece.to_string()).unwrap();
        }
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

fn responses_whole() -> Vec<Value> {
    let content = json!([{"type": "output_text", "text": "Hi"}]);
    let item = json!({"type": "message", "role": "assistant", "content": content});
    vec![json!({"type": "response.completed", "response": {"status": "completed", "output": [item]}})]
}

/// Before the end an error is one, and so is one behind a `[DONE]` that ends nothing.
#[test]
fn an_error_before_the_end_is_one() {
    let error = r#"{"error": {"type": "overloaded_error"}}"#;
    for before in [&["stop"][..], &[]] {
        for done in ["", "[DONE]"] {
            if before.is_empty() || done.is_empty() {
                let mut stream = Stream::of(Provider::OpenAi);
                for piece in ending(Provider::OpenAi, before) {
                    stream.push(&piece.to_string()).unwrap();
                }
                stream.push(done).unwrap();
                let kind = stream.push(error).unwrap_err().kind();
                assert!(matches!(kind, ErrorKind::Refused { retryable: true, .. }), "{kind:?}");
            }
        }
    }
}
