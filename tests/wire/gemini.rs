//! Google's Gemini API against its published examples, and the laws of a wire format.

#![allow(clippy::unwrap_used, clippy::expect_used, clippy::panic, missing_docs)] // a test that panics has failed

use crate::conversations;
use crate::counted::counted;
use crate::events::{candidate, streamed};
use crate::shown;
use memory_prompt::message::{
    AiMessage, AiPart, Content, Media, OtherPart, Part, Reasoning, TextPart, ToolMessage,
};
use memory_prompt::wire::gemini::{self, ATTRIBUTE, Contents, Stream, SystemInstruction};
use memory_prompt::wire::{Event, Stop};
use memory_prompt::{Message, Provider, ToolCall, wire};
use proptest::prelude::*;
use serde_json::{Map, Value, json};

use crate::golden::*;
use crate::values::{self, compose, under};

fn written(messages: &[Message]) -> Value {
    json!(Contents::of(messages))
}

fn read(body: &Value) -> Vec<Message> {
    gemini::history(body.to_string()).expect("a golden can be read")
}

// --- goldens ---------------------------------------------------------------------------------

#[test]
fn calls_and_results_become_these_messages() {
    let history = read(&golden("gemini", "function_calling.json")["request"]);
    let expected = [
        Message::system("You answer in one sentence."),
        Message::user("What is the weather in Oslo, and what time is it there?"),
        AiMessage::from_parts([
            AiPart::from(Reasoning::new("Two look-ups.")),
            AiPart::from("I'll look up both."),
            AiPart::from(
                ToolCall::new("fc1", "weather", r#"{"city":"Oslo","unit":"celsius"}"#)
                    .with_signature("CsYBAdHtim8="),
            ),
            AiPart::from(ToolCall::new("fc2", "time", "{}")),
        ])
        .into(),
        Message::tool("fc1", "weather", "21 degrees"),
        ToolMessage::new("fc2", "time", "no clock").with_error(true).into(),
        AiMessage::from_parts([Part::Text(TextPart {
            text: "21 degrees, at an unknown time.".to_owned(),
            extra: under("gemini", &json!({"thoughtSignature": "CtQBsig="})),
        })])
        .into(),
        Message::user("Show me."),
        AiMessage::from_parts([ToolCall {
            extra: under("gemini", &json!({"functionCall": {"id": null}})),
            ..ToolCall::new("call_5_0", "picture", r#"{"of":"Oslo"}"#).with_signature("c2ln")
        }])
        .into(),
        ToolMessage::new(
            "call_5_0",
            "picture",
            [Part::text("Here."), Part::Image(Media::base64("image/png", "iVBORw0KGgo="))],
        )
        .with_attribute(ATTRIBUTE, json!({"functionResponse": {"willContinue": false}}))
        .into(),
    ];
    assert_eq!(history, expected);
}

#[test]
fn snake_case_is_read_too() {
    let golden = &golden("gemini", "function_calling.json")["request"];
    let names = "systemInstruction functionCall functionResponse inlineData mimeType willContinue
        thoughtSignature";
    let snake = names.split_whitespace().fold(golden.to_string(), |body, name| {
        let (first, second) = name.split_at(name.find(char::is_uppercase).expect("two words"));
        body.replace(name, &format!("{first}_{}", second.to_lowercase()))
    });
    assert_eq!(gemini::history(&snake).expect("it can be read"), read(golden));
    // The names in arguments are the tool's own.
    let own =
        json!([{"role": "model", "parts": [{"functionCall": {"name": "t", "args": {"a_b": 1}}}]}]);
    assert_eq!(read(&own)[0].tool_calls().next().expect("a call").arguments, r#"{"a_b":1}"#);
}

#[test]
fn signed_parts_of_a_stream_stay_apart() {
    let signed = |text, signature| json!([{"text": text, "thoughtSignature": signature}]);
    let begins = [signed("a", "1"), json!([{"text": "b"}]), json!([{"text": "c"}])];
    let ends = candidate(signed("", "2"), "STOP");
    let chunks = begins.map(|parts| candidate(parts, Value::Null));
    let (_, stream) = streamed!(gemini, chunks.iter().chain([&ends]));
    let expected = json!([
        {"text": "a", "thoughtSignature": "1"}, {"text": "bc"}, {"text": "", "thoughtSignature": "2"},
    ]);
    assert_eq!(written(&[stream.finish().expect("whole").into()])[0]["parts"], expected);
}

/// A stream of one answer, and what was shown of it.
fn streamed(parts: &[Value], reason: &Value) -> (Vec<Event>, Stream) {
    let chunks = parts.iter().enumerate().map(|(i, part)| {
        let reason = if i + 1 == parts.len() { reason } else { &Value::Null };
        let content = json!({"role": "model", "parts": [part]});
        json!({"candidates": [{"content": content, "finishReason": reason}], "responseId": "r"})
    });
    streamed!(gemini, chunks)
}

/// Arguments that came in pieces could not be read: where a request asks for them, the whole answer
/// was an error.
#[test]
fn arguments_that_come_in_pieces_are_one_object() {
    let call = |call: Value| json!({"functionCall": call});
    let piece = |path: &str, key: &str, value: Value, on: bool| {
        let piece = json!({"jsonPath": path, key: value, "willContinue": on});
        call(json!({"partialArgs": [piece], "willContinue": true}))
    };
    let mut parts = vec![
        json!({"functionCall": {"name": "now"}, "thoughtSignature": "s"}),
        call(json!({"name": "cook", "willContinue": true})),
        piece("$.dish.steps[0]", "stringValue", json!("Boil"), true),
        piece("$.dish.steps[0]", "stringValue", json!(" it."), true),
        piece("$.dish.steps[0]", "stringValue", json!(""), false),
        call(json!({"willContinue": true})),
        piece("$.dish.steps[1]", "stringValue", json!("Eat."), false),
        piece("$.dish['for a','x']", "numberValue", json!(null), false),
        piece("$.dish['it\\'s [hot].']", "boolValue", json!(true), false),
        piece("$.dish.of", "nullValue", json!("NULL_VALUE"), false),
        call(json!({"partialArgs": [{"jsonPath": "$.price", "numberValue": 0.5}]})),
        call(json!({})),
        call(json!({"name": "look", "willContinue": true})),
    ];
    // The path of two names is none that leads to one value.
    let broken = json!({"candidates": [{"content": {"parts": [parts.remove(7)]}}]}).to_string();
    let (told, stream) = streamed(&parts, &json!("STOP"));
    let answer = stream.finish().expect("whole");
    shown::assert_shown(&told, &answer, "pieces");
    let calls: Vec<_> = answer.message.tool_calls().collect();
    let named: Vec<_> = calls.iter().map(|call| (&*call.id, &*call.name)).collect();
    assert_eq!(named, [("call_r_0", "now"), ("call_r_1", "cook"), ("call_r_2", "look")]);
    assert_eq!(calls[0].signature.as_deref(), Some("s"));
    let cooked: Value = serde_json::from_str(&calls[1].arguments).expect("JSON");
    let dish = json!({"steps": ["Boil it.", "Eat."], "it's [hot].": true, "of": null});
    assert_eq!(cooked, json!({"dish": dish, "price": 0.5}));
    assert_eq!(calls[2].arguments, "{}");

    // A stream that breaks off within a call keeps what was whole before.
    for cut in 2..parts.len() - 2 {
        let kept = streamed(&parts[..cut], &Value::Null).1.broken().message;
        assert_eq!(kept.tool_calls().count(), if cut < 10 { 1 } else { 2 }, "{cut}");
    }
    let (_, mut stream) = streamed(&parts[..2], &Value::Null);
    assert!(stream.push(&broken).is_err());
    let mut push = |path: &str| {
        let piece = piece(path, "stringValue", json!("x"), false);
        let chunk = json!({"candidates": [{"content": {"parts": [piece]}}]}).to_string();
        stream.push(&chunk).map_err(|error| error.to_string())
    };
    let at =
        "read gemini stream: candidates[0].content.parts[0].functionCall.partialArgs[0].jsonPath";
    for path in ["", "$", "x", "$.a[", "$[?(@.x)]", "$..a[0]", "$.a[99999999999999999999]"] {
        assert_eq!(push(path), Err(format!("{at}: not a path to an argument")), "{path}");
    }
    assert_eq!(push("$.a[1]"), Err(format!("{at}: it does not fit what came before")));
    assert_eq!(push("$.b"), Ok(Vec::new()));
    assert_eq!(push("$.b.c"), Err(format!("{at}: it does not fit what came before")));
}

// --- writing ---------------------------------------------------------------------------------

#[test]
fn calls_that_gemini_did_not_make_can_be_marked() {
    let messages = [
        Message::user("hi"),
        Message::ai_calls([ToolCall::new("c1", "t", "{}"), ToolCall::new("c2", "t", "{}")]),
        Message::tool("c1", "t", "1"),
        Message::tool("c2", "t", "2"),
        Message::ai_calls([ToolCall::new("c3", "t", "{}").with_signature("real")]),
        Message::tool("c3", "t", "3"),
    ];
    let json = json!(Contents::of(&messages).skip_missing_signatures());
    assert_eq!(json[1]["parts"][0]["thoughtSignature"], "skip_thought_signature_validator");
    assert_eq!(json[1]["parts"][1].get("thoughtSignature"), None);
    assert_eq!(json[3]["parts"][0]["thoughtSignature"], "real");
    assert!(!written(&messages).to_string().contains("skip_"));
}

#[test]
fn neighbouring_answers_are_one_entry_and_users_stay_apart() {
    let messages = [
        Message::user("one"),
        Message::user("two"),
        Message::ai("said"),
        Message::custom([]),
        Message::ai(""),
        Message::ai_calls([ToolCall::new("c1", "t", "{}")]),
        Message::tool("c1", "t", "1"),
        Message::user(""),
    ];
    let expected = json!([
        {"role": "user", "parts": [{"text": "one"}]},
        {"role": "user", "parts": [{"text": "two"}]},
        {"role": "model", "parts": [
            {"text": "said"}, {"functionCall": {"id": "c1", "name": "t", "args": {}}},
        ]},
        {"role": "user", "parts": [
            {"functionResponse": {"id": "c1", "name": "t", "response": {"output": "1"}}},
        ]},
        {"role": "user", "parts": [{"text": "(empty message)"}]},
    ]);
    assert_eq!(written(&messages), expected);
}

#[test]
fn results_are_counted_where_ids_repeat_or_belong_to_nobody() {
    let messages = [
        Message::ai_calls([ToolCall::new("c", "a", "{}"), ToolCall::new("c", "b", "{}")]),
        Message::tool("c", "", "first"),
        Message::tool("x", "", "stranger"),
        Message::tool("c", "", "second"),
    ];
    let json = written(&messages);
    let parts = json[1]["parts"].as_array().expect("parts").iter();
    let responses = parts.map(|part| &part["functionResponse"]);
    let said: Vec<_> = responses.map(|it| json!([it["name"], it["response"]["output"]])).collect();
    assert_eq!(json!(said), json!([["a", "first"], ["b", "second"], ["x", "stranger"]]));
}

#[test]
fn what_others_signed_is_not_sent() {
    let thinking = wire::anthropic::answer(
        r#"{"role":"assistant","content":[
            {"type":"thinking","thinking":"hm","signature":"c2ln"},
            {"type":"text","text":"said","citations":[1]}]}"#,
    )
    .expect("an answer");
    let foreign_call = ToolCall {
        extra: under("openai", &json!({"x": 1})),
        ..ToolCall::new("c", "t", "{}").with_signature("theirs")
    };
    let own = Reasoning::new("mine").with_signature("put there by the application");
    let messages =
        [thinking.into(), AiMessage::from_parts([AiPart::from(own), foreign_call.into()]).into()];
    let expected = json!([{"role": "model", "parts": [
        {"text": "said"},
        {"text": "mine", "thought": true, "thoughtSignature": "put there by the application"},
        {"functionCall": {"id": "c", "name": "t", "args": {}}},
    ]}]);
    assert_eq!(written(&messages), expected);
    let refused = Contents::of(&messages).strict().expect_err("one is left out");
    let expected = "write gemini contents: messages[0].parts[0]: another provider's reasoning is not supported by this format";
    assert_eq!(refused.to_string(), expected);
    // And the other way round.
    let thought = gemini::answer(
        r#"{"role":"model","parts":[
            {"text":"hm","thought":true,"thoughtSignature":"c2ln"},
            {"text":"said","thoughtSignature":"c2ln"}]}"#,
    )
    .expect("an answer");
    let thought = Message::from(thought);
    let theirs = wire::anthropic::Messages::of([&thought]);
    let expected = json!([{"role": "assistant", "content": [{"type": "text", "text": "said"}]}]);
    assert_eq!(json!(theirs), expected);
}

// --- placeholders and strictness -------------------------------------------------------------

// --- reading ---------------------------------------------------------------------------------

#[test]
fn responses_of_any_form_are_read() {
    let cases = [
        (json!({"output": "x"}), Content::from("x"), false),
        (json!({"error": "x"}), Content::from("x"), true),
        (json!({"output": ["a", "b"]}), Content::from([Part::text("a"), Part::text("b")]), false),
        (json!({"output": {"t": 21}}), Content::from(r#"{"t":21}"#), false),
        (json!({"result": "x"}), Content::from(r#"{"result":"x"}"#), false),
        (json!({"error": "x", "code": 3}), Content::from(r#"{"code":3,"error":"x"}"#), true),
        (json!({}), Content::from(""), false),
        (Value::Null, Content::from(""), false),
    ];
    for (response, content, is_error) in cases {
        let json = json!([{"role": "function", "parts": [{"functionResponse": {"name": "t", "response": response}}]}]);
        let messages = read(&json);
        let [Message::Tool(tool)] = messages.as_slice() else { panic!("{messages:?}") };
        let expected = ToolMessage::new("result_0_0", "t", content).with_error(is_error);
        assert_eq!((tool.content(), tool.is_error()), (expected.content(), is_error));
        assert_eq!((tool.call_id(), tool.tool_name()), ("result_0_0", "t"));
        // An object goes back as the object that it was.
        let again = &written(&messages)[0]["parts"][0]["functionResponse"]["response"];
        if response.as_object().is_some_and(|fields| !fields.is_empty()) {
            assert_eq!(*again, response);
        }
    }
}

#[test]
fn results_without_ids_answer_the_calls_of_their_name_in_order() {
    let call = |name: &str| json!({"functionCall": {"name": name}});
    let result = |name: &str, id: Option<&str>| json!({"functionResponse": {"name": name, "id": id, "response": {}}});
    let history = read(&json!([
        {"parts": [{"text": "go"}]},
        {"role": "model", "parts": [call("a"), call("b"), call("a"), {"functionCall": {"id": "x", "name": "a"}}]},
        {"parts": [result("b", None), result("a", None), result("a", Some("x")), result("a", Some("")), result("a", None)]},
    ]));
    let ids = history.iter().filter_map(Message::as_tool).map(ToolMessage::call_id);
    let expected = ["call_1_1", "call_1_0", "x", "call_1_2", "result_2_4"];
    assert_eq!(ids.collect::<Vec<_>>(), expected);
}

#[test]
fn made_up_ids_do_not_change() {
    let content = r#"{"role":"model","parts":[{"functionCall":{"name":"t","args":{"x":1}},"thoughtSignature":"s"}]}"#;
    let id = |json: &str| {
        let answer = gemini::answer(json).expect("an answer");
        answer.message.tool_calls().next().expect("a call").id.clone()
    };
    assert_eq!(id(content), "call_ea5e083d88e8c489_0");
    assert_ne!(id(content), id(&content.replace("\"x\":1", "\"x\":2")));
}

#[test]
fn an_answer_that_is_empty_is_an_empty_message() {
    let json = r#"{"candidates":[{"content":{"role":"model"},"finishReason":"MAX_TOKENS"}]}"#;
    assert_eq!(Message::from(gemini::answer(json).expect("an answer")), Message::ai(""));
    let mut stream = Stream::new();
    assert_eq!(stream.push(json).expect("a chunk"), [Event::Done(Stop::Length)]);
    assert_eq!(Message::from(stream.finish().expect("an answer")), Message::ai(""));
}

#[test]
fn unknown_fields_are_kept() {
    let json = json!([
        {"role": "user", "parts": [{"text": "hi"}], "when": 1},
        {"role": "model", "parts": [{"text": "Yes.", "new": [1]}, {"newKind": {"a": 1}}], "when": 2},
    ]);
    let history = read(&json);
    let Message::User(user) = &history[0] else { panic!("{history:?}") };
    assert_eq!(user.attributes()[ATTRIBUTE], json!({"when": 1}));
    assert_eq!(history[1].as_ai().expect("an answer").attributes()[ATTRIBUTE], json!({"when": 2}));
    assert_eq!(written(&history)[1]["parts"], json[1]["parts"]);
}

// --- laws ------------------------------------------------------------------------------------

/// Conversations that the format can hold.
fn expressible() -> impl Strategy<Value = Vec<Message>> {
    let other = json!({"type": "gemini", "gemini": {"executableCode": {"code": "1"}}});
    let other =
        Part::Other(OtherPart::new(other.as_object().cloned().unwrap_or_default()).unwrap());
    let part = prop_oneof![
        4 => values::text_part("gemini", "thoughtSignature"),
        1 => values::media("image/webp").prop_map(Part::Image),
        1 => values::media("audio/wav").prop_map(Part::Audio),
        1 => values::media("video/mp4").prop_map(Part::Video),
        1 => values::media("application/pdf").prop_map(Part::File),
        1 => Just(Part::Image(Media::file_id("files/abc").with_media_type("image/png"))),
        1 => Just(other.clone()),
    ];
    let user = prop_oneof![
        values::said().prop_map(Content::from),
        proptest::collection::vec(part.clone(), 2..4).prop_map(Content::from),
    ];
    let texts = proptest::collection::vec(values::said().prop_map(Part::text), 0..3);
    let images =
        proptest::collection::vec(Just(Part::Image(Media::base64("image/png", "AA=="))), 0..2);
    let result = prop_oneof![
        values::said().prop_map(Content::from),
        Just(Content::from("")),
        (texts, images).prop_map(|(texts, images)| Content::from([texts, images].concat())),
    ];
    let reasoning =
        (values::said(), proptest::option::of("[a-z=]{4}")).prop_map(|(text, signature)| {
            let extra = if signature.is_some() { under("gemini", &json!({})) } else { Map::new() };
            AiPart::from(Reasoning { text, signature, extra })
        });
    let call = (
        values::arguments(),
        values::extra("gemini", "partMetadata"),
        proptest::option::of("[a-z=]{4}"),
    );
    let ai_part = prop_oneof![
        4 => part.prop_map(AiPart::from),
        2 => reasoning,
    ];
    let calls = proptest::collection::vec((call, result, any::<bool>(), any::<bool>()), 0..3);
    let turn = (user, proptest::collection::vec(ai_part, 1..4), calls, any::<bool>());
    proptest::collection::vec(turn, 1..5).prop_map(|turns| {
        let mut messages = vec![Message::system("Be brief.")];
        let mut at = 0_usize;
        for (i, (user, mut parts, calls, ends)) in turns.into_iter().enumerate() {
            messages.push(Message::user(user));
            let (mut results, mut made_up) = (Vec::new(), 0..);
            for (j, ((arguments, mut extra, signature), content, is_error, named)) in
                calls.into_iter().enumerate()
            {
                // A call that came without an id is read again with the same made-up one.
                let id = if named {
                    format!("fc_{i}_{j}")
                } else {
                    let kept = extra.entry("gemini").or_insert_with(|| json!({}));
                    kept["functionCall"] = json!({"id": null});
                    format!("call_{}_{}", at + 1, made_up.next().unwrap())
                };
                let name = format!("look{j}");
                let call = ToolCall { extra, signature, ..ToolCall::new(&id, &name, arguments) };
                parts.push(call.into());
                results.push(ToolMessage::new(id, name, content).with_error(is_error).into());
            }
            let done = (ends && !results.is_empty()).then(|| Message::ai("Done."));
            // All results are one entry.
            at += 2 + usize::from(!results.is_empty()) + usize::from(done.is_some());
            messages.push(AiMessage::from_parts(parts).into());
            messages.extend(results.into_iter().chain(done));
        }
        messages
    })
}

/// What the reference demands of `contents`, as far as a wire format is answerable for it.
fn wrong_with(json: &Value) -> Vec<String> {
    const DATA: &str =
        "text inlineData fileData functionCall functionResponse executableCode newKind odd";
    let mut wrong = Vec::new();
    let entries = json.as_array().expect("an array");
    for entry in entries {
        let parts = entry["parts"].as_array().expect("parts");
        if parts.is_empty() {
            wrong.push("an entry without parts".to_owned());
        }
        for part in parts {
            let kinds = DATA.split(' ').filter(|kind| part.get(kind).is_some()).count();
            let is_blank = part["text"] == "" && part.get("thoughtSignature").is_none();
            if kinds != 1 && part["type"] != "odd" || is_blank {
                wrong.push(format!("a bad part: {part}"));
            }
            let is_bad = |it: &Value| !it["response"].is_object() || !it["name"].is_string();
            if part.get("functionResponse").is_some_and(is_bad) {
                wrong.push(format!("a bad response: {part}"));
            }
        }
    }
    for pair in entries.windows(2).filter(|pair| pair[0]["role"] == "model") {
        if pair[1]["role"] == "model" {
            wrong.push("two answers in a row".to_owned());
        }
        let count = |entry: &Value, key: &str| {
            let parts = entry["parts"].as_array().into_iter().flatten();
            parts.filter(|part| part.get(key).is_some()).count()
        };
        if count(&pair[0], "functionCall") != count(&pair[1], "functionResponse") {
            wrong.push(format!("calls and results differ: {pair:?}"));
        }
    }
    wrong
}

#[test]
fn every_shape_can_be_written() {
    let messages = values::one_of_each();
    let json = written(&messages);
    let wrong = wrong_with(&json);
    assert!(wrong.iter().all(|wrong| wrong.starts_with("calls and results differ")), "{wrong:?}");
    let text = serde_json::to_string(&Contents::of(&messages)).expect("serialising never fails");
    assert_eq!(serde_json::from_str::<Value>(&text).expect("it is JSON"), json);
}

counted! {
    #![cases(256)]

    #[test]
    fn what_is_written_is_read_again(messages in expressible()) {
        let view = Contents::of(&messages).strict().expect("it can be expressed");
        let body = json!({"systemInstruction": SystemInstruction::of(&messages), "contents": view});
        prop_assert_eq!(read(&body), messages);
    }

    #[test]
    fn composed_prompts_are_well_formed(
        history in conversations::conversation(12),
        temporaries in conversations::temporaries(),
    ) {
        // A temporary result of nobody's is sent as it is.
        let temporaries: Vec<_> = temporaries.into_iter().filter(Message::is_user).collect();
        let built = compose(&history, &temporaries);
        let json = json!(gemini::contents(&built));
        prop_assert_eq!(wrong_with(&json), [""; 0]);
        let text = serde_json::to_string(&gemini::contents(&built)).expect("no error");
        prop_assert_eq!(&serde_json::from_str::<Value>(&text).expect("it is JSON"), &json);
        let read = gemini::history(json.to_string());
        prop_assert!(read.is_ok(), "{:?}", read);
    }
}

/// 205 requests that the API had taken were refused: a part of the instruction said that it was no
/// thought, or `parts` were one.
#[test]
fn requests_as_clients_write_them_are_read() {
    let body = json!({
        "systemInstruction": {"parts": {"text": "Be brief.", "thought": false}},
        "contents": [{"role": "user", "parts": {"text": "hi"}}],
    });
    let read = gemini::history(body).expect("the API takes it");
    assert_eq!(read, [Message::system("Be brief."), Message::user("hi")]);
}

/// A file of the Files API in a result became a placeholder, for Gemini itself. The result has no
/// place for it.
#[test]
fn a_file_of_its_own_goes_back_behind_a_result() {
    let uri = "https://generativelanguage.googleapis.com/v1beta/files/abc";
    let picture = Part::Image(Media::url(uri).with_media_type("image/png"));
    let messages = [Message::tool("c", "look", [picture])];
    let view = Contents::of(&messages).for_provider(Provider::Gemini);
    assert_eq!(view.losses(), []);
    assert_eq!(json!(view)[0]["parts"][1]["fileData"]["fileUri"], uri);
    // By its name alone it is the same file.
    let named = Part::Image(Media::file_id("files/abc").with_media_type("image/png"));
    let named = [Message::tool("c", "look", [named])];
    assert_eq!(Contents::of(&named).for_provider(Provider::Gemini).losses(), []);
    // Nobody else can look into it.
    assert_eq!(Contents::of(&messages).for_provider(Provider::Vertex).losses().len(), 1);
    assert_eq!(wire::openai::Messages::of(&messages).losses().len(), 1);
}

/// Without `alt=sse` a stream is one list, which can't be read piece by piece: the error did not
/// say what to ask for.
#[test]
fn a_list_in_place_of_events_says_what_to_ask_for() {
    let error = Stream::new().push(r#"[{"candidates": []}]"#).expect_err("no event");
    assert!(error.to_string().ends_with("ask for `alt=sse`"), "{error}");
    let error = gemini::answer(json!([{"candidates": []}, {}])).expect_err("no answer");
    assert!(error.to_string().ends_with("ask for `alt=sse`"), "{error}");
}

/// An answer that stopped for a reason of tomorrow, behind a `STOP`, passed for whole.
#[test]
fn a_reason_that_is_not_known_is_not_hidden() {
    for words in [["STOP", "UNHEARD_OF"], ["UNHEARD_OF", "STOP"]] {
        let chunks = words.map(|word| candidate(json!([{"text": "a"}]), word));
        let answer = streamed!(gemini, chunks).1.finish().expect("it has ended");
        assert_eq!((answer.stop, answer.stop_word.as_deref()), (Stop::Unknown, Some("UNHEARD_OF")));
    }
}

/// A file in an answer was written without its type, where the API requires one.
#[test]
fn a_file_in_an_answer_is_written_with_its_type() {
    for (url, expected) in [
        ("https://e.x/a.pdf", Some("application/pdf")),
        ("gs://bucket/a.png", Some("image/png")),
        ("https://e.x/a", None),
    ] {
        let answer = AiMessage::from_parts([Part::text("Here."), Part::File(Media::url(url))]);
        let messages = [Message::from(answer)];
        let view = Contents::of(&messages).for_provider(Provider::Gemini);
        assert_eq!(view.losses().len(), usize::from(expected.is_none()), "{url}");
        let sent = json!(view);
        let wrong = crate::validators::gemini_media(&sent, true, true);
        assert!(wrong.is_empty(), "{url}: {wrong:?}");
        assert_eq!(sent[0]["parts"][1]["fileData"]["mimeType"].as_str(), expected, "{url}");
    }
}

/// Vertex knows no ids of calls, of which all other providers' have one: "Unknown name \"id\" at
/// 'contents[1].parts[0].`function_call`'".
#[test]
fn ids_of_calls_are_not_written_to_vertex() {
    let calls = ["a", "b"].map(|id| ToolCall::new(id, "look", "{}"));
    let [one, two] = calls.each_ref().map(|call| call.result(call.id.as_str()));
    // The results came in another order.
    let history = [Message::user("q"), Message::ai_calls(calls), two, one];
    let contents = |provider| {
        let prompt = crate::setups::prompt_for(provider, &history);
        let contents = json!(gemini::contents(&prompt));
        let results = contents[2]["parts"].as_array().unwrap().iter();
        let outputs = results.map(|it| it["functionResponse"]["response"]["output"].clone());
        assert_eq!(outputs.collect::<Vec<_>>(), ["a", "b"], "{contents}");
        contents
    };
    assert_eq!(crate::validators::no_ids(&contents(Provider::Vertex)), [""; 0]);
    assert_eq!(contents(Provider::Gemini)[1]["parts"][0]["functionCall"]["id"], "a");
}

/// A person had a picture of Gemini 2.5 changed by Gemini 3, and went on there after another
/// model's answer: "Image part is missing a `thought_signature` in content position 2" (400), and
/// the same of texts, for as long as the answer was in the window.
#[test]
fn a_model_that_makes_pictures_finds_a_signature_on_each_answer() {
    let made = |parts: Value| {
        let body = json!({"candidates": [{"finishReason": "STOP", "content": {"parts": parts}}]});
        Message::from(wire::answer(Provider::Gemini, body).unwrap())
    };
    let picture = || json!({"inlineData": {"mimeType": "image/png", "data": "iVBORw0KGgo="}});
    let mut signed = picture();
    signed["thoughtSignature"] = "c2ln".into();
    let history = [
        Message::user("A cat."),
        made(json!([{"text": "Here:"}, picture(), {"text": "And so?"}])),
        Message::user("Black."),
        Message::ai("A black one."),
        Message::user("Again."),
        made(json!([{"text": "hm", "thought": true}, signed, {"text": "Done."}])),
        Message::user("Thanks."),
    ];
    let signatures = |provider: Provider| {
        let prompt = crate::setups::prompt_for(provider, &history);
        let contents = json!(gemini::contents(&prompt));
        let entries = contents.as_array().unwrap().iter();
        let parts = entries.filter(|it| it["role"] == "model").map(|it| it["parts"].clone());
        let parts: Vec<Value> = parts.flat_map(|it| it.as_array().unwrap().clone()).collect();
        parts.iter().map(|it| it["thoughtSignature"].as_str().map(str::to_owned)).collect()
    };
    let skipped = || Some("skip_thought_signature_validator".to_owned());
    let own = || Some("c2ln".to_owned());
    let all = vec![skipped(), skipped(), None, skipped(), None, own(), None];
    for provider in [Provider::Gemini, Provider::Gemini.model("gemini-3-pro-preview")] {
        let signatures: Vec<Option<String>> = signatures(provider);
        assert_eq!(signatures, [None, None, None, None, None, own(), None], "{provider}");
    }
    for model in ["gemini-3-pro-image-preview", "gemini-3.1-flash-image"] {
        assert_eq!(signatures(Provider::Gemini.model(model)), all, "{model}");
    }
    let older: Vec<_> = signatures(Provider::Gemini.model("gemini-2.5-flash-image"));
    assert_eq!(older.iter().flatten().count(), 1);
}

/// Of media Gemini takes some types within a result, and answers 400 to others: they are behind it.
#[test]
fn media_that_a_result_can_not_hold_are_behind_it() {
    let png = || Part::Image(Media::base64("image/png", "iVBORw0KGgo="));
    let sound = || Part::Audio(Media::base64("audio/wav", "UklGRg=="));
    let stored = || Part::Image(Media::url("gs://b/a.png"));
    let there = || Part::Image(Media::url("https://e.x/a.png"));
    let json = || Part::File(Media::base64("application/json", "eyJhIjoxfQ=="));
    let call = ToolCall::new("c", "look", "{}");
    let gives = Message::tool("c", "look", [png(), sound(), stored(), there(), json()]);
    let history = [Message::user("q"), Message::ai_calls([call]), gives];
    let (gemini, vertex) = (Provider::Gemini, Provider::Vertex);
    let older = gemini.model("gemini-2.5-pro");
    for (provider, within) in [(gemini, 1), (vertex, 2), (older, 0)] {
        let prompt = crate::setups::prompt_for(provider, &history);
        let view = gemini::contents(&prompt);
        assert_eq!(view.losses(), [], "{provider}");
        let contents = json!(view);
        let bad = crate::validators::media_in_results(&contents, provider == vertex);
        assert_eq!(bad, [""; 0], "{provider}");
        let parts = contents[2]["parts"].as_array().unwrap();
        let inside = parts[0]["functionResponse"]["parts"].as_array();
        assert_eq!((inside.map_or(0, Vec::len), parts.len()), (within, 5 - within), "{provider}");
        let said = &parts[0]["functionResponse"]["response"]["output"];
        assert_eq!(said, &json!(["{\"a\":1}"]), "{provider}");
    }
}

/// Google's API reads no archives and no JSON as a file: "Unsupported MIME type".
#[test]
fn a_file_that_gemini_does_not_read_is_a_text_if_it_is_one() {
    let file = |kind: &str, data: &str| Part::File(Media::base64(kind, data));
    let files = [
        file("application/json", "eyJhIjoxfQ=="),
        file("application/octet-stream", "MjEgwrBD"),
        file("application/zip", "UEsDBBQA"),
        file("application/pdf", "JVBERi0="),
    ];
    let list = [Message::user(files)];
    let view = Contents::of(&list).for_provider(Provider::Gemini);
    let losses: Vec<_> = view.losses().iter().map(ToString::to_string).collect();
    assert_eq!(losses, ["message 0, part 2: a file"]);
    let contents = json!(view);
    let parts = &contents[0]["parts"];
    assert_eq!((&parts[0]["text"], &parts[1]["text"]), (&json!("{\"a\":1}"), &json!("21 °C")));
    assert_eq!(parts[3]["inlineData"]["mimeType"], "application/pdf");
    assert_eq!(crate::validators::gemini_media(&contents, true, false), [""; 0]);
}
