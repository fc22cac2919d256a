//! What servers that speak OpenAI's format do besides, each as public reports tell it.

#![allow(clippy::unwrap_used, clippy::panic, missing_docs, unreachable_pub)] // a test that fails should say so

use std::time::{Duration, Instant};

use crate::events::{begun, calling, delta, over as end, sent};
use crate::setups::prompt_for;
use crate::shown::{assert_shown, read};
use memory_prompt::message::{AiPart, Part};
use memory_prompt::wire::{self, Frames, Request, Stop, Stream};
use memory_prompt::{ErrorKind, Message, Provider, Result};
use serde_json::{Value, json};

/// A call of a tool.
fn look(index: usize, id: &str, arguments: &str) -> Value {
    let function = json!({"name": "look", "arguments": arguments});
    json!({"index": index, "id": id, "type": "function", "function": function})
}

/// `MiniMax` ends a stream of pieces with the whole message, which was stored behind them:
/// "Hello.Hello."
#[test]
fn a_whole_message_behind_its_pieces_is_not_said_twice() {
    let call = look(0, "a", "{\"x\":1}");
    let whole = json!({"role": "assistant", "content": "Hello.", "reasoning_content": "Hm.",
                       "tool_calls": [call], "annotations": [{"type": "url_citation"}]});
    let pieces = [
        delta(json!({"role": "assistant", "content": "", "reasoning_content": "Hm."})),
        delta(json!({"content": "Hel"})),
        delta(json!({"content": "lo."})),
        calling(call),
        json!({"choices": [{"index": 0, "message": whole, "finish_reason": "tool_calls"}]}),
    ];
    let (told, answer) = read(Provider::OpenAiCompatible, &pieces);
    let answer = answer.unwrap();
    assert_eq!(answer.message.text(), "Hello.");
    let thoughts: Vec<&str> = answer.message.reasoning().map(|it| it.text.as_str()).collect();
    assert_eq!(thoughts, ["Hm."]);
    let calls: Vec<&str> = answer.message.tool_calls().map(|it| it.arguments.as_str()).collect();
    assert_eq!(calls, ["{\"x\":1}"]);
    // What only the whole one says is there.
    assert!(answer.message.attributes()["wire:openai"].get("annotations").is_some());
    assert_shown(&told, &answer, "whole");

    // One that stands alone is the answer.
    let begun = delta(json!({"role": "assistant", "content": ""}));
    let (told, answer) = read(Provider::OpenAiCompatible, &[begun, pieces[4].clone()]);
    let answer = answer.unwrap();
    assert_eq!((&*answer.message.text(), answer.stop), ("Hello.", Stop::Calls));
    assert_shown(&told, &answer, "whole");
}

/// `MiniMax` streams `"role": ""`: each piece was shown, and then there was no answer.
#[test]
fn an_empty_role_says_nothing() {
    let pieces = [delta(json!({"role": "", "content": "Hi."})), end("stop")];
    let (_, answer) = read(Provider::OpenAiCompatible, &pieces);
    assert_eq!(answer.unwrap().message.text(), "Hi.");
    let whole = json!({"choices": [{"index": 0, "message": {"role": "", "content": "Hi."}}]});
    assert_eq!(wire::answer(Provider::OpenAiCompatible, whole).unwrap().message.text(), "Hi.");
}

/// Azure streams `"type": ""` with a call, and it went back so: a 400.
#[test]
fn an_empty_type_of_a_call_says_nothing() {
    let mut call = look(0, "a", "{}");
    call["type"] = "".into();
    let pieces = [calling(call.clone()), end("tool_calls")];
    let (_, answer) = read(Provider::OpenAiCompatible, &pieces);
    let message = json!({"role": "assistant", "content": null, "tool_calls": [call]});
    let whole = wire::answer(Provider::OpenAi, json!({"choices": [{"message": message}]}));
    for answer in [answer.unwrap(), whole.unwrap()] {
        let history = [Message::user("hi"), answer.into(), Message::tool("a", "look", "x")];
        let body = json!(Request::new(&prompt_for(Provider::OpenAi, &history)).model("m"));
        assert_eq!(body["messages"][1]["tool_calls"][0]["type"], "function");
    }
}

/// Two calls that ask for nothing came under one index, and the second was lost.
#[test]
fn two_calls_without_arguments_under_one_index_are_two() {
    let call = |id: &str| calling(look(0, id, ""));
    let (_, answer) = read(Provider::OpenAiCompatible, &[call("a"), call("b"), end("tool_calls")]);
    let answer = answer.unwrap();
    let ids: Vec<&str> = answer.message.tool_calls().map(|call| call.id.as_str()).collect();
    assert_eq!(ids, ["a", "b"]);
}

/// Each new call looked at all before it: 16,000 calls took eight seconds.
#[test]
fn many_calls_take_time_in_proportion() {
    let time = |n: usize| {
        let calls = (0..n).map(|i| calling(look(i, &format!("c{i}"), "{}")));
        let pieces: Vec<Value> = calls.chain([end("tool_calls")]).collect();
        let began = Instant::now();
        let (_, answer) = read(Provider::OpenAiCompatible, &pieces);
        assert_eq!(answer.unwrap().message.tool_calls().count(), n);
        began.elapsed()
    };
    let fewest = |n| (0..3).map(|_| time(n)).min().unwrap_or(Duration::MAX);
    let (few, many) = (fewest(500), fewest(8_000));
    assert!(many < few * 64, "16 times as many calls took {few:?} and {many:?}");
}

/// Google answers an error in a list of one, also where it speaks `OpenAI`'s format: a refusal that
/// passes, which was taken for broken JSON.
#[test]
fn an_error_in_a_list_is_a_refusal() {
    let error = json!([{"error": {"code": 429, "status": "RESOURCE_EXHAUSTED", "message": "m"}}]);
    for provider in [Provider::GoogleOpenAi, Provider::Gemini] {
        let streamed = Stream::of(provider).push(&error.to_string()).unwrap_err();
        for error in [wire::answer(provider, &error).unwrap_err(), streamed] {
            let retryable = matches!(error.kind(), ErrorKind::Refused { retryable: true, .. });
            assert!(retryable, "{provider}: {error}");
        }
    }
}

/// `LiteLLM` hands over Claude's signed thoughts in `thinking_blocks`, piece by piece, and wants
/// them back whole: without them the next round of a tool loop is a 400.
#[test]
fn litellm_gets_its_thoughts_back() {
    let thought = |text: &str, signature: Value| json!([{"type": "thinking", "thinking": text, "signature": signature}]);
    let hidden = json!([{"type": "redacted_thinking", "data": "D"}]);
    let pieces = [
        delta(json!({"role": "assistant", "thinking_blocks": thought("Th", Value::Null)})),
        delta(json!({"content": "", "thinking_blocks": thought("ink", Value::Null)})),
        delta(json!({"content": "", "thinking_blocks": thought("", "SIG".into())})),
        delta(json!({"thinking_blocks": hidden})),
        delta(json!({"thinking_blocks": thought("More", Value::Null)})),
        delta(json!({"thinking_blocks": thought("", "SAG".into())})),
        calling(look(0, "toolu_1", "{}")),
        end("tool_calls"),
    ];
    let (_, answer) = read(Provider::LiteLlm, &pieces);
    let request = sent(Provider::LiteLlm, answer.unwrap());
    let whole = json!([
        {"type": "thinking", "thinking": "Think", "signature": "SIG"},
        {"type": "redacted_thinking", "data": "D"},
        {"type": "thinking", "thinking": "More", "signature": "SAG"},
    ]);
    assert_eq!(request["messages"][1]["thinking_blocks"], whole);

    // One that begins without a text loses none of it.
    let first = json!([{"type": "thinking", "thinking": null}]);
    let first = delta(json!({"role": "assistant", "content": "", "thinking_blocks": first}));
    let late = [&[first][..], &pieces[1..3], &[end("stop")]].concat();
    let request = sent(Provider::LiteLlm, read(Provider::LiteLlm, &late).1.unwrap());
    let thoughts = json!([{"type": "thinking", "thinking": "ink", "signature": "SIG"}]);
    assert_eq!(request["messages"][1]["thinking_blocks"], thoughts);

    // One that broke off in a thought keeps those that are signed.
    let said = delta(json!({"content": "Hm"}));
    let stream = begun(Provider::LiteLlm, pieces[..5].iter().chain([&said]));
    let request = sent(Provider::LiteLlm, stream.broken());
    assert_eq!(request["messages"][1]["thinking_blocks"], json!([whole[0], whole[1]]));
    // And nobody else is shown them.
    let (_, answer) = read(Provider::LiteLlm, &pieces);
    assert_eq!(sent(Provider::OpenAi, answer.unwrap())["messages"][1].get("thinking_blocks"), None);
}

/// A picture that a model made through `OpenRouter` stands in `images`, and was left out of the
/// next request without a word.
#[test]
fn pictures_of_openrouter_are_pictures() {
    let images = json!([{"type": "image_url", "image_url": {"url": "data:image/png;base64,AAAA"}}]);
    let whole = json!({"choices": [{"index": 0, "finish_reason": "stop",
        "message": {"role": "assistant", "content": "Here", "images": images}}]});
    let streamed = [
        delta(json!({"role": "assistant", "content": "Here"})),
        delta(json!({"images": images})),
        end("stop"),
    ];
    let answers = [
        wire::answer(Provider::OpenRouter, whole).unwrap(),
        read(Provider::OpenRouter, &streamed).1.unwrap(),
    ];
    for answer in answers {
        let message = Message::from(answer);
        let mut parts = message.as_ai().unwrap().parts().iter();
        let made = parts.any(|part| matches!(part, AiPart::Content(Part::Image(_))));
        assert!(made, "{message:?}");
        let messages = [Message::user("q"), message, Message::user("and?")];
        let prompt = prompt_for(Provider::OpenRouter, &messages);
        let request = Request::new(&prompt).model("m");
        let report = prompt.report().to_string();
        assert!(report.contains("adapted    1: assistant"), "{report}");
        let body = json!(&request);
        assert_eq!(body["messages"][1], json!({"role": "assistant", "content": "Here"}));
    }
    // Of a form that nobody knows they are kept as they are.
    let odd =
        json!({"choices": [{"index": 0, "message": {"content": "Here", "images": ["AAAA"]}}]});
    let answer = wire::answer(Provider::OpenRouter, odd).unwrap();
    assert!(answer.message.attributes()["wire:openai"].get("images").is_some());
}

/// A byte order mark before a body that was kept in a file, and a blank before an error in place of
/// a stream, which was passed over.
#[test]
fn what_stands_before_a_body_is_passed_over() {
    let body = "\u{feff}{\"choices\": [{\"message\": {\"content\": \"Hi.\"}}]}";
    assert_eq!(wire::answer(Provider::OpenAi, body).unwrap().message.text(), "Hi.");
    assert_eq!(wire::answer(Provider::OpenAi, body.as_bytes()).unwrap().message.text(), "Hi.");

    let error = b" {\"error\": {\"code\": 503, \"message\": \"m\"}}\n\n";
    let texts: Vec<String> = Frames::sse().push(error).collect::<Result<_>>().unwrap();
    assert_eq!(texts.len(), 1);
    assert!(Stream::of(Provider::OpenAi).push(&texts[0]).is_err());
}

/// Google's server says behind the word for it why it filtered: the two of them were a word that
/// nobody knows. A blocked prompt was asked again for ever, and of half an answer the calls ran.
#[test]
fn googles_words_for_why_it_stops_are_known() {
    let answer = |word: &str, message: Option<Value>| {
        let mut choice = json!({"index": 0, "finish_reason": word});
        choice.as_object_mut().unwrap().extend(message.map(|it| ("message".to_owned(), it)));
        wire::answer(Provider::GoogleOpenAi, json!({"choices": [choice]}))
    };
    let words = [
        ("content_filter: PROHIBITED_CONTENT", "PROHIBITED_CONTENT", false),
        ("function_call_filter: MALFORMED_FUNCTION_CALL", "MALFORMED_FUNCTION_CALL", true),
    ];
    for (word, known, passes) in words {
        for nothing in [None, Some(json!({"role": "assistant"}))] {
            let streamed = read(Provider::GoogleOpenAi, &[end(word)]).1;
            for refused in [answer(word, nothing), streamed] {
                let kind = refused.unwrap_err().kind();
                let ErrorKind::Refused { code: Some(code), retryable, .. } = kind else {
                    panic!("{kind:?}")
                };
                assert_eq!((code.as_str(), retryable), (known, passes));
            }
        }
    }
    let half = json!({"role": "assistant", "content": "Half", "tool_calls": [look(0, "a", "{}")]});
    let pieces = [delta(half.clone()), end("content_filter: SAFETY")];
    let (told, streamed) = read(Provider::GoogleOpenAi, &pieces);
    let streamed = streamed.unwrap();
    assert_shown(&told, &streamed, "half");
    for half in [answer("content_filter: SAFETY", Some(half)).unwrap(), streamed] {
        assert_eq!(half.stop, Stop::Filtered);
    }
}

/// Google counts in each chunk. A gateway wrote `[DONE]` where its server had broken off, and half
/// an answer was whole, since behind a usage that is an end.
#[test]
fn a_usage_in_each_chunk_is_no_end() {
    let usage = json!({"completion_tokens": 1, "prompt_tokens": 9, "total_tokens": 103});
    let says = |text: &str, usage: &Value| json!({"choices": [{"index": 0, "delta": {"content": text}}], "usage": usage});
    let last = json!({"choices": [], "usage": usage});
    let pieces = |pieces: &[Value]| {
        let mut stream = begun(Provider::GoogleOpenAi, pieces);
        stream.push("[DONE]").unwrap();
        stream
    };
    for behind in [&[][..], std::slice::from_ref(&last)] {
        let stream = pieces(&[&[says("1", &usage), says(", ", &usage)], behind].concat());
        assert!(!stream.has_ended());
        assert_eq!(stream.broken().message.text(), "1, ");
    }
    // One that comes last counts what was written in full.
    let nothing = Value::Null;
    for whole in [
        vec![says("1", &nothing), says(", 2", &nothing), last],
        vec![says("1", &nothing), says(", 2", &usage)],
    ] {
        assert_eq!(pieces(&whole).finish().unwrap().message.text(), "1, 2");
    }
}

/// Perplexity tells its sources in the first chunk, before it says a word. If the stream broke
/// behind that, the empty answer was one to store: the sources stood on it. So did Claude's
/// container.
#[test]
fn what_stands_beside_nothing_is_no_answer() {
    let sources = json!({"citations": ["https://e.x"], "choices": [
        {"index": 0, "delta": {"role": "assistant", "content": ""}}]});
    let broken = begun(Provider::OpenAiCompatible, [&sources]).broken();
    assert!(broken.is_empty(), "{broken:?}");
    assert_eq!(broken.metadata.sources.len(), 1);

    let begins = json!({"type": "message_start", "message": {"id": "m", "role": "assistant",
        "content": [], "container": {"id": "container_1"}}});
    let broken = begun(Provider::Anthropic, [&begins]).broken();
    assert!(broken.is_empty(), "{broken:?}");
    assert_eq!(broken.metadata.container.as_deref(), Some("container_1"));

    // Beside a word they are kept.
    let pieces = [sources, delta(json!({"content": "[1]"})), end("stop")];
    let (_, answer) = read(Provider::OpenAiCompatible, &pieces);
    assert!(answer.unwrap().message.attributes().contains_key("wire:sources"));
}
