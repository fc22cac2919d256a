//! Anthropic's Messages API against its published examples, and the laws of a wire format.

#![allow(clippy::unwrap_used, clippy::expect_used, clippy::panic, missing_docs)] // a test that panics has failed

use crate::conversations;
use crate::counted::counted;
use memory_prompt::message::{
    AiMessage, AiPart, Content, Detail, Media, OtherPart, Part, Reasoning, Source, TextPart,
    ToolMessage, UserMessage,
};
use memory_prompt::provider::Row;
use memory_prompt::record::Snapshot;
use memory_prompt::wire::anthropic::{self, ATTRIBUTE, Messages, System};
use memory_prompt::{Composer, Message, Provider, ToolCall, wire};
use proptest::prelude::*;
use serde_json::{Map, Value, json};

use crate::golden::*;
use crate::values::{self, compose};

fn written(messages: &[Message]) -> Value {
    json!(Messages::of(messages))
}

fn read(body: &Value) -> Vec<Message> {
    anthropic::history(body.to_string()).expect("a golden can be read")
}

// --- documents -------------------------------------------------------------------------------

/// A document that is a text stands in base64 in a message and as it is in a request. The test
/// vectors of RFC 4648, section 10, and a text that is not ASCII.
#[test]
fn the_base64_of_a_text_is_that_of_the_rfc() {
    let body = |text: &str| {
        let source = json!({"type": "text", "media_type": "text/plain", "data": text});
        json!({"messages": [{"role": "user", "content": [{"type": "document", "source": source}]}]})
    };
    let plain = ["f", "fo", "foo", "foob", "fooba", "foobar", "21 °C"];
    let base64 = ["Zg==", "Zm8=", "Zm9v", "Zm9vYg==", "Zm9vYmE=", "Zm9vYmFy", "MjEgwrBD"];
    for (plain, base64) in plain.into_iter().zip(base64) {
        let history = read(&body(plain));
        let source = history[0].media().next().map(|media| &media.source);
        assert_eq!(source, Some(&Source::Base64(base64.to_owned())));
        assert_eq!(written(&history), body(plain)["messages"]);
    }
    for wrong in ["Z", "Zm9vY", "Zm 9", "Z-8=", "/w==", "Zg==Zg=="] {
        let mut media = Media::base64("text/plain", "");
        media.source = Source::Base64(wrong.to_owned());
        let written = written(&[Message::user([Part::File(media)])]);
        let text = &written[0]["content"][0]["text"];
        assert_eq!(text, "[file: not supported by this format]", "{wrong}");
    }
}

// --- goldens ---------------------------------------------------------------------------------

#[test]
fn parallel_calls_are_answered_by_messages_of_their_own() {
    let history = read(&golden("anthropic", "parallel_tools.json")["request"]);
    let call =
        |id: &str, name: &str, arguments: &str| AiPart::from(ToolCall::new(id, name, arguments));
    let expected = [
        Message::system("You answer in one sentence."),
        Message::user("What is the weather in Oslo, and what time is it there?"),
        AiMessage::from_parts([
            AiPart::from("I'll look up both."),
            call("toolu_01A", "weather", r#"{"city":"Oslo","unit":"celsius"}"#),
            call("toolu_01B", "time", r#"{"zone":"Europe/Oslo"}"#),
        ])
        .into(),
        Message::tool("toolu_01A", "weather", "21 degrees"),
        ToolMessage::new("toolu_01B", "time", [Part::text("14:03")]).with_error(true).into(),
        Message::user("Is that warm?"),
        Message::ai("Yes, for Oslo."),
        Message::user("Call the one without arguments."),
        Message::ai_calls([ToolCall::new("toolu_01C", "ping", "{}")]),
        Message::tool("toolu_01C", "ping", ""),
    ];
    assert_eq!(history, expected);
}

#[test]
fn signed_reasoning_keeps_its_place_and_its_bytes() {
    let history = read(&golden("anthropic", "thinking.json")["request"]);
    let ai = history[1].as_ai().expect("the model's message");
    let kinds = ai.parts().iter().map(|part| match part {
        AiPart::Reasoning(r) => r.signature.as_deref().unwrap_or("unsigned"),
        AiPart::ToolCall(call) => &call.name,
        AiPart::Content(Part::Other(_)) => "other",
        AiPart::Content(_) => "content",
        _ => "unknown",
    });
    let first = "EqQBCgIYAhIM1gbcDa9GJwZA2b3hGgxBdjrkzLoky3dl1pkiMOYds+/=";
    let data = "EmwKAhgBEgy3va3pzix/LafPsn4aDFIT2Xlxh0L5L8rLVyIwxtE3";
    let expected = [first, data, "other", "other", "c2Vjb25k", "count"];
    assert_eq!(kinds.collect::<Vec<_>>(), expected);
    assert_eq!(ai.tool_calls().next().expect("a call").arguments, r#"{"what":"ants"}"#);
}

// --- writing ---------------------------------------------------------------------------------

#[test]
fn the_order_of_fields_is_fixed() {
    let call = Message::ai_calls([ToolCall::new("c1", "look", r#"{"x":1}"#)]);
    let text = serde_json::to_string(&Messages::of([&call])).expect("serialising never fails");
    let expected = r#"[{"role":"assistant","content":[{"type":"tool_use","id":"c1","name":"look","input":{"x":1}}]}]"#;
    assert_eq!(text, expected);
}

#[test]
fn neighbours_on_one_side_are_one_turn_with_results_first() {
    let messages = [
        Message::ai("One."),
        Message::ai_calls([ToolCall::new("c1", "look", "{}")]),
        Message::user("meanwhile"),
        Message::custom([]),
        Message::system("left out here"),
        Message::ai(""),
        Message::tool("c1", "look", "21"),
    ];
    let expected = json!([
        {"role": "assistant", "content": [
            {"type": "text", "text": "One."},
            {"type": "tool_use", "id": "c1", "name": "look", "input": {}},
        ]},
        {"role": "user", "content": [
            {"type": "tool_result", "tool_use_id": "c1", "content": "21"},
            {"type": "text", "text": "meanwhile"},
        ]},
    ]);
    assert_eq!(written(&messages), expected);
}

#[test]
fn what_the_api_refuses_is_not_written() {
    // Blank texts, ids with dots, signatures of others, fields that others sent.
    let foreign = |format: &str| Reasoning {
        extra: Map::from_iter([(format.to_owned(), json!({"id": "rs_1"}))]),
        ..Reasoning::new("hm").with_signature("sig")
    };
    let annotated = TextPart {
        text: "said".to_owned(),
        extra: Map::from_iter([("openai".to_owned(), json!({"annotations": [1]}))]),
    };
    let call = ToolCall::new("functions.look:0", "look", "{}").with_signature("gemini's");
    let answer = [
        AiPart::from(foreign("responses")),
        foreign("gemini").into(),
        Reasoning::new("unsigned").into(),
        " ".into(),
        Part::Text(annotated).into(),
        call.into(),
    ];
    let messages = [
        Message::user(" \n"),
        AiMessage::from_parts(answer).into(),
        Message::tool("functions.look:0", "look", " "),
    ];
    let expected = json!([
        {"role": "user", "content": "(empty message)"},
        {"role": "assistant", "content": [
            {"type": "text", "text": "said"},
            {"type": "tool_use", "id": "functions_look_0", "name": "look", "input": {}},
        ]},
        {"role": "user", "content": [{"type": "tool_result", "tool_use_id": "functions_look_0"}]},
    ]);
    assert_eq!(written(&messages), expected);
}

#[test]
fn thinking_of_servers_that_do_not_sign_goes_back_to_them() {
    let content = json!([{"type": "thinking", "thinking": "hm"}, {"type": "text", "text": "Yes."}]);
    let body = json!({"role": "assistant", "content": content});
    let answer = anthropic::answer(body.to_string()).expect("an answer");
    assert_eq!(written(&[answer.into()])[0]["content"], content);
}

#[test]
fn media_are_written_as_the_api_takes_them() {
    let parts = [
        Part::Image(Media::url("data:image/gif;base64,R0lGOD==").with_detail(Detail::Low)),
        Part::Image(Media::base64("image/jpg", "/9j/")),
        // Ollama's pictures have no media type.
        Part::Image(Media { media_type: None, ..Media::base64("", "iVBORw0KGgo=") }),
        Part::File(Media::base64("application/pdf", "JVBERi0=").with_name("a.pdf")),
        Part::File(Media::file_id("file_1")),
    ];
    let expected = json!([
        {"type": "image", "source": {"type": "base64", "media_type": "image/gif", "data": "R0lGOD=="}},
        {"type": "image", "source": {"type": "base64", "media_type": "image/jpeg", "data": "/9j/"}},
        {"type": "image", "source": {"type": "base64", "media_type": "image/png", "data": "iVBORw0KGgo="}},
        {"type": "document", "source": {"type": "base64", "media_type": "application/pdf", "data": "JVBERi0="}, "title": "a.pdf"},
        {"type": "document", "source": {"type": "file", "file_id": "file_1"}},
    ]);
    let messages = [Message::user(parts)];
    assert_eq!(written(&messages)[0]["content"], expected);
    assert!(Messages::of(&messages).strict().is_ok());
}

// --- caching ---------------------------------------------------------------------------------

#[test]
fn the_cache_mark_stands_at_the_durable_boundary() {
    let history = [Message::user("one"), Message::ai("two"), Message::user("three")];
    let built = compose(&history, &[Message::user("Today is Friday.")]);
    let ephemeral = json!({"type": "ephemeral"});
    let json = json!(anthropic::messages(&built).cache_prefix());
    let expected = json!([
        {"role": "user", "content": [{"type": "text", "text": "one", "cache_control": ephemeral}]},
        {"role": "assistant", "content": "two"},
        {"role": "user", "content": [
            {"type": "text", "text": "three", "cache_control": ephemeral},
            {"type": "text", "text": "Today is Friday."},
        ]},
    ]);
    assert_eq!(json, expected);

    let json = json!(anthropic::messages(&built).cache_prefix_1h());
    let hour = json!({"type": "ephemeral", "ttl": "1h"});
    assert_eq!(json[2]["content"][0]["cache_control"], hour);
}

/// Anthropic looks 20 blocks back from a mark. Behind twelve calls and their results it found
/// nothing of what the request before had cached.
#[test]
fn a_request_repeats_the_mark_of_the_one_before() {
    let calls =
        |round: usize| (0..12).map(move |i| ToolCall::new(format!("c{round}_{i}"), "t", "{}"));
    let round =
        |n| [Message::ai_calls(calls(n))].into_iter().chain(calls(n).map(|it| it.result("x")));
    let mut history = vec![Message::user(["two", "parts"].map(Part::text))];
    let mut marks = Vec::new();
    for n in 0..3 {
        history.extend(round(n));
        let json = json!(anthropic::messages(&compose(&history, &[])).cache_prefix());
        let blocks =
            json.as_array().unwrap().iter().flat_map(|it| it["content"].as_array().unwrap());
        let marked = blocks.enumerate().filter(|(_, it)| it.get("cache_control").is_some());
        marks.push(marked.map(|(i, _)| i).collect::<Vec<_>>());
    }
    assert_eq!(marks, [[1, 25], [25, 49], [49, 73]]);
}

#[test]
fn thinking_is_never_marked() {
    let thinking = || Reasoning::new("hm").with_signature("sig");
    let ai = Message::from(AiMessage::from_parts([AiPart::from("said"), thinking().into()]));
    let only_thinking = AiMessage::from_parts([thinking()]).into();
    for messages in [vec![ai.clone()], vec![ai, only_thinking]] {
        let json = json!(Messages::of(&messages).cache_prefix());
        assert_eq!(json.to_string().matches("cache_control").count(), 1);
        assert_eq!(json[0]["content"][0]["cache_control"], json!({"type": "ephemeral"}));
    }
}

#[test]
fn the_system_text_can_be_marked() {
    let composer = Composer::new().system("Be brief.");
    let built = composer.compose_all(&Snapshot::default(), &[]).expect("nothing to refuse");
    let system = anthropic::system(&built).expect("there is one");
    let expected =
        json!([{"type": "text", "text": "Be brief.", "cache_control": {"type": "ephemeral"}}]);
    assert_eq!(json!(system.clone().cache()), expected);
    let hour = json!(system.cache_1h());
    assert_eq!(hour[0]["cache_control"]["ttl"], "1h");

    let both = [Message::system("one"), Message::user("hi"), Message::system("two")];
    let both = json!(System::of(&both));
    assert_eq!(both, json!([{"type": "text", "text": "one"}, {"type": "text", "text": "two"}]));
    assert!(System::of(&[Message::user("hi"), Message::system(" ")]).is_none());
}

#[test]
fn an_applications_own_cache_mark_stands_once() {
    let extra = json!({"anthropic": {"cache_control": {"type": "ephemeral", "ttl": "1h"}}});
    let extra = extra.as_object().cloned().expect("an object");
    let marked = Message::user([Part::Text(TextPart { text: "hi".to_owned(), extra })]);
    let own = serde_json::to_string(&Messages::of([&marked])).expect("no error");
    assert!(own.contains(r#""ttl":"1h""#));
    let ours = serde_json::to_string(&Messages::of([&marked]).cache_prefix()).expect("no error");
    assert_eq!(ours.matches("cache_control").count(), 1);

    // A request takes four marks: a second one of ours could be too many.
    let history = [Message::user("one"), marked, Message::ai("two"), Message::user("three")];
    let marks = |written: Value| written.to_string().matches("cache_control").count();
    assert_eq!(marks(json!(Messages::of(&history).cache_prefix())), 2);
    let plain = [Message::user("one"), Message::ai("two"), Message::user("three")];
    let composer = Composer::new().for_provider(Provider::Anthropic);
    let prompt = composer.compose_all(&Snapshot::from_messages(plain), &[]).unwrap();
    let request = wire::Request::new(&prompt).model("m").max_tokens(9).cache_prefix();
    assert_eq!(marks(json!(request)), 2);
    let tool =
        json!({"type": "bash_20250124", "name": "bash", "cache_control": {"type": "ephemeral"}});
    assert_eq!(marks(json!(request.extra("tools", json!([tool])))), 2);
}

// --- placeholders and strictness -------------------------------------------------------------

// --- reading ---------------------------------------------------------------------------------

#[test]
fn unknown_fields_are_kept() {
    let json = json!([
        {"role": "user", "content": "hi", "when": 1},
        {"role": "assistant", "id": "msg_1", "content": [{"type": "tool_use", "id": "c", "name": "t", "input": {}}]},
        {"role": "user", "content": [
            {"type": "tool_result", "tool_use_id": "c", "seen": true, "cache_control": {"type": "ephemeral"}},
        ]},
    ]);
    let history = read(&json);
    let Message::User(user) = &history[0] else { panic!("{history:?}") };
    assert_eq!(user.attributes()[ATTRIBUTE], json!({"when": 1}));
    let expected = json!({"id": "msg_1"});
    assert_eq!(history[1].as_ai().expect("an answer").attributes()[ATTRIBUTE], expected);
    let expected = json!({"seen": true});
    assert_eq!(history[2].as_tool().expect("a result").attributes()[ATTRIBUTE], expected);
    let result = &written(&history)[2]["content"][0];
    assert_eq!(result, &json!({"type": "tool_result", "tool_use_id": "c", "seen": true}));
}

// --- laws ------------------------------------------------------------------------------------

/// The format has no place for the media type of an address.
fn untyped(media: Media) -> Media {
    let media_type = media.media_type.filter(|_| matches!(media.source, Source::Base64(_)));
    Media { media_type, ..media }
}

/// Conversations that the format can hold: one message a turn, but for results and a text after
/// them.
fn expressible() -> impl Strategy<Value = Vec<Message>> {
    let other = json!({"type": "anthropic", "anthropic": {"type": "web_search_tool_result", "content": []}});
    let other =
        Part::Other(OtherPart::new(other.as_object().cloned().unwrap_or_default()).unwrap());
    let part = prop_oneof![
        4 => values::text_part("anthropic", "citations"),
        1 => values::media("image/webp").prop_map(untyped).prop_map(Part::Image),
        1 => values::media("application/pdf").prop_map(|media| Part::File(untyped(media).with_name("n"))),
        1 => Just(Part::Image(Media::file_id("file_1"))),
        1 => Just(other.clone()),
    ];
    let user = prop_oneof![
        values::said().prop_map(Content::from),
        proptest::collection::vec(part.clone(), 2..4).prop_map(Content::from),
    ];
    let result = prop_oneof![
        values::said().prop_map(Content::from),
        Just(Content::from("")),
        proptest::collection::vec(part, 0..3).prop_map(Content::from),
    ];
    let reasoning = prop_oneof![
        (values::said(), "[a-z=]{4}").prop_map(|(text, signature)| (text, signature, json!({}))),
        "[a-z=]{4}"
            .prop_map(|data| { (String::new(), data, json!({"type": "redacted_thinking"})) }),
    ]
    .prop_map(|(text, signature, fields)| {
        let extra = Map::from_iter([("anthropic".to_owned(), fields)]);
        AiPart::from(Reasoning { text, signature: Some(signature), extra })
    });
    let call = (values::arguments(), values::extra("anthropic", "caller"));
    let ai_part = prop_oneof![
        3 => values::text_part("anthropic", "citations").prop_map(AiPart::from),
        2 => reasoning,
        1 => Just(AiPart::from(other)),
    ];
    let calls = proptest::collection::vec((call, result, any::<bool>()), 0..3);
    let turn = (user, proptest::collection::vec(ai_part, 1..4), calls, any::<bool>());
    proptest::collection::vec(turn, 1..5).prop_map(|turns| {
        let mut messages = vec![Message::system("Be brief.")];
        let mut ids = 0..;
        for (user, mut parts, calls, ends) in turns {
            messages.push(Message::user(user));
            let mut results = Vec::new();
            for ((arguments, extra), content, is_error) in calls {
                let id = format!("toolu_{}", ids.next().unwrap_or_default());
                let call = ToolCall { extra, ..ToolCall::new(&id, "look", arguments) };
                parts.push(call.into());
                // An error may hold texts alone.
                let is_error = is_error && content.parts().iter().all(|it| it.as_text().is_some());
                results.push(ToolMessage::new(id, "look", content).with_error(is_error).into());
            }
            let done = (ends && !results.is_empty()).then(|| Message::ai("Done."));
            messages.push(AiMessage::from_parts(parts).into());
            messages.extend(results.into_iter().chain(done));
        }
        messages
    })
}

/// What the reference demands of `messages`, as far as a wire format is answerable for it.
fn wrong_with(json: &Value) -> Vec<String> {
    let mut wrong = Vec::new();
    let turns = json.as_array().expect("an array");
    for pair in turns.windows(2) {
        if pair[0]["role"] == pair[1]["role"] {
            wrong.push(format!("two turns of {}", pair[0]["role"]));
        }
    }
    for turn in turns {
        let blank = |text: &Value| text.as_str().is_none_or(|text| text.trim().is_empty());
        let no_blocks = Vec::new();
        let blocks = turn["content"].as_array().unwrap_or(&no_blocks);
        if blocks.is_empty() && blank(&turn["content"]) {
            wrong.push(format!("a blank turn: {turn}"));
        }
        let is_result = |block: &Value| block["type"] == "tool_result";
        if !blocks.is_sorted_by_key(|block| !is_result(block)) {
            wrong.push("a result behind other blocks".to_owned());
        }
        for block in blocks {
            if block["type"] == "text" && blank(&block["text"]) || !block["type"].is_string() {
                wrong.push(format!("a bad block: {block}"));
            }
        }
    }
    wrong
}

#[test]
fn every_shape_can_be_written() {
    let messages = values::one_of_each();
    let json = written(&messages);
    assert_eq!(wrong_with(&json), [""; 0]);
    let text = serde_json::to_string(&Messages::of(&messages)).expect("serialising never fails");
    assert_eq!(serde_json::from_str::<Value>(&text).expect("it is JSON"), json);
}

counted! {
    #![cases(256)]

    #[test]
    fn what_is_written_is_read_again(messages in expressible()) {
        let view = Messages::of(&messages).strict().expect("it can be expressed");
        let body = json!({"system": System::of(&messages), "messages": view});
        prop_assert_eq!(read(&body), messages);
    }

    #[test]
    fn composed_prompts_are_well_formed(
        history in conversations::conversation(12),
        temporaries in conversations::temporaries(),
    ) {
        let built = compose(&history, &temporaries);
        let json = json!(anthropic::messages(&built));
        prop_assert_eq!(wrong_with(&json), [""; 0]);
        let text = serde_json::to_string(&anthropic::messages(&built)).expect("no error");
        prop_assert_eq!(&serde_json::from_str::<Value>(&text).expect("it is JSON"), &json);
        let marked = json!(anthropic::messages(&built).cache_prefix());
        prop_assert!(marked.to_string().matches("cache_control").count() <= 2);
        // And it can be read.
        let read = anthropic::history(json.to_string());
        prop_assert!(read.is_ok(), "{:?}", read);
    }
}

/// A text file became "[file: not supported by this format]", though the API takes the text.
#[test]
fn text_documents_are_written_as_their_text() {
    let text = |media_type: &str| Media::base64(media_type, "MjEgwrBD").with_name("a.txt");
    let expected = json!([{"role": "user", "content": [{"type": "document", "title": "a.txt",
        "source": {"type": "text", "media_type": "text/plain", "data": "21 °C"}}]}]);
    let message = Message::user([Part::File(text("text/plain"))]);
    assert_eq!(json!(Messages::of([&message]).strict().unwrap()), expected);
    assert_eq!(anthropic::history(&expected).unwrap(), [message]);
    let table = Message::user([Part::File(text("text/csv"))]);
    assert_eq!(json!(Messages::of([&table])), expected);
    let at_data = Media::url("data:text/markdown;base64,MjEgwrBD").with_name("a.txt");
    assert_eq!(json!(Messages::of([&Message::user([Part::File(at_data)])])), expected);

    // What is no text stays a placeholder.
    for (media_type, data) in [("text/plain", "/w=="), ("application/zip", "MjEgwrBD")] {
        let other = Message::user([Part::File(Media::base64(media_type, data))]);
        let error = Messages::of([&other]).strict().unwrap_err().to_string();
        assert!(error.ends_with("content[0]: a file is not supported by this format"), "{error}");
    }
}

/// A system message in the middle of a conversation was moved into `system` even where the
/// provider's row says that it takes one there: the cached prefix broke, and the instruction lost
/// its place.
#[test]
fn late_system_messages_stay_where_the_row_takes_them() {
    let messages = [
        Message::system("Be brief."),
        Message::user("hi"),
        Message::system("Answer in French."),
        Message::ai("Bonjour."),
        Message::user("And now?"),
        Message::system(" "),
    ];
    let mut row = Row::like(Provider::Anthropic, "claude-4-8").unwrap();
    row.late_system = true;
    let provider = Provider::custom(row);
    let view = || Messages::of(&messages).for_provider(provider);
    let expected = json!([
        {"role": "user", "content": "hi"},
        {"role": "system", "content": "Answer in French."},
        {"role": "assistant", "content": "Bonjour."},
        {"role": "user", "content": "And now?"},
    ]);
    assert_eq!(json!(view()), expected);
    let system = || System::of(&messages).unwrap();
    assert_eq!(json!(system().for_provider(provider)), "Be brief.");
    let body = json!({"system": system().for_provider(provider), "messages": view()});
    assert_eq!(anthropic::history(&body).unwrap(), messages[..5]);
    // Marked, it is a list like any other.
    let marked = json!(Messages::of(&messages[..3]).for_provider(provider).cache_prefix());
    let mark = json!({"type": "text", "text": "Answer in French.", "cache_control": {"type": "ephemeral"}});
    assert_eq!(marked[1], json!({"role": "system", "content": [mark]}));

    // Without such a row all of them are the request's.
    assert_eq!(json!(system()).as_array().unwrap().len(), 2);
    assert_eq!(json!(Messages::of(&messages)).as_array().unwrap().len(), 3);
    assert!(System::of(&messages[1..]).unwrap().for_provider(provider).is_none());
}

/// Requests in which a tool was added on the way were refused.
#[test]
fn a_tool_that_is_added_on_the_way_is_kept() {
    let change =
        json!({"type": "tool_addition", "tool": {"type": "tool_reference", "name": "look"}});
    let read = anthropic::history(json!([
        {"role": "user", "content": "hi"},
        {"role": "system", "content": [{"type": "text", "text": "Look."}, change]},
    ]))
    .expect("the API takes it");
    let Message::System(system) = &read[1] else { panic!("a system message") };
    assert_eq!(system.text(), "Look.");
    assert_eq!(system.attributes()[ATTRIBUTE]["tool_changes"], json!([change]));

    // If the model takes them it is sent them again, a text or none beside them.
    let mut row = Row::like(Provider::Anthropic, "claude-4-8").expect("a name");
    row.late_system = true;
    for content in [json!([{"type": "text", "text": "Look."}, change]), json!([change])] {
        let sent =
            json!([{"role": "user", "content": "hi"}, {"role": "system", "content": content}]);
        let read = wire::history(Provider::custom(row), sent.clone()).expect("the API takes it");
        assert_eq!(json!(Messages::of(&read).for_provider(Provider::custom(row))), sent);
    }
}

/// Gemini streams a signature with an empty text, which other providers were sent as a block.
#[test]
fn a_text_that_was_but_a_signature_is_no_block_for_others() {
    let signed = TextPart {
        text: String::new(),
        extra: Map::from_iter([("gemini".to_owned(), json!({"thoughtSignature": "c2ln"}))]),
    };
    let answer = AiMessage::from_parts([Part::text("Hi."), Part::Text(signed)]);
    let messages = [Message::from(answer)];
    let chat = json!(wire::openai::Messages::of(&messages));
    assert_eq!(chat, json!([{"role": "assistant", "content": "Hi."}]));
    let input = json!(wire::responses::Input::of(&messages));
    assert_eq!(input.as_array().expect("items").len(), 1);
    let claude = json!(Messages::of(&messages));
    assert_eq!(claude[0]["content"], "Hi.");
    assert_eq!(json!(wire::ollama::Messages::of(&messages))[0]["content"], "Hi.");
}

/// The last text of an answer was white space alone and was left out, and the one before it ended
/// the prompt in a blank: "final assistant content cannot end with trailing whitespace".
#[test]
fn white_space_in_front_of_a_blank_text_is_trimmed() {
    let answer = AiMessage::from_parts(["Hello ", "\n"]);
    let history = [Message::user("Go on."), answer.into()];
    let prompt =
        crate::setups::prompt_for(Provider::Anthropic.model("claude-sonnet-4-5"), &history);
    assert_eq!(prompt[1].text(), "Hello");
}

/// A person asked Claude Fable 5.1 a second question, and the window had moved, or the system
/// message told another date: "Invalid `signature` in `thinking` block. The block is bound to a
/// different conversation." (400), and so until the first answer was out of the window.
#[test]
fn thoughts_of_earlier_turns_are_not_sent_where_they_are_bound() {
    let said = |signature: &str, content: Value| {
        let thought = json!({"type": "thinking", "thinking": "hm", "signature": signature});
        let body = json!({"role": "assistant", "content": [thought, content]});
        Message::from(wire::answer(Provider::Anthropic, body).expect("an answer"))
    };
    let call = |id: &str| json!({"type": "tool_use", "id": id, "name": "look", "input": {}});
    let text = || json!({"type": "text", "text": "Done."});
    let history = [
        Message::user("First."),
        said("sig-a", call("a")),
        Message::tool("a", "look", "r"),
        said("sig-b", text()),
        Message::user("Second."),
        said("sig-c", call("c")),
        Message::tool("c", "look", "r"),
        said("sig-d", call("d")),
        Message::tool("d", "look", "r"),
    ];
    let body = |model: &str, n: usize| {
        let prompt = crate::setups::prompt_for(Provider::Anthropic.model(model), &history[..n]);
        let request = wire::Request::new(&prompt).max_tokens(9);
        let losses: Vec<_> = request.losses().iter().map(ToString::to_string).collect();
        (json!(request), losses)
    };
    for model in ["claude-fable-5-1", "claude-opus-5-5", "eu.anthropic.claude-haiku-5-5-v1:0"] {
        let (whole, losses) = body(model, 9);
        let sent = whole.to_string();
        let is_sent = ["sig-a", "sig-b", "sig-c", "sig-d"].map(|it| sent.contains(it));
        assert_eq!(is_sent, [false, false, true, true], "{model}: {sent}");
        assert_eq!(losses, ["message 1, part 0: reasoning", "message 3, part 0: reasoning"]);
        // Each request of a turn goes on from the one before.
        let (before, _) = body(model, 7);
        let list = |body: &Value| body["messages"].as_array().expect("a list").clone();
        assert!(list(&whole).starts_with(&list(&before)), "{model}: {before}\n{whole}");
        assert_eq!(crate::validators::anthropic(&whole["messages"]), [""; 0]);
    }
    for model in ["claude-opus-5", "claude-sonnet-4-6"] {
        let (whole, losses) = body(model, 9);
        assert_eq!((whole.to_string().matches("sig-").count(), losses.len()), (4, 0), "{model}");
    }
}

/// A turn had used up its rounds, so a tool result came before the next question, and the thoughts
/// of that turn were sent behind other temporaries than they were signed with: "The block is bound
/// to a different conversation." (400) Nothing was stored, and so each later question was refused.
#[test]
fn thoughts_and_container_of_a_turn_without_an_answer_stay_behind() {
    let body = json!({"role": "assistant", "container": {"id": "container_1"}, "content": [
        {"type": "thinking", "thinking": "hm", "signature": "sig-a"},
        {"type": "tool_use", "id": "a", "name": "look", "input": {}}]});
    let called = Message::from(wire::answer(Provider::Anthropic, body).expect("an answer"));
    let stored = [Message::user("First."), called, Message::tool("a", "look", "r")];
    let steered = UserMessage::new("Hurry.").steered().into();
    let it_rains = Message::user("It rains.");
    for (more, temporary, thoughts, container) in [
        (None, None, true, true),
        (Some(steered), None, true, true), // the turn goes on
        (Some(Message::user("Second.")), None, false, false),
        // A retry goes on behind its stored calls, but its temporaries stood before them.
        (None, Some(it_rains.clone()), false, true),
        // The turn is over, and a temporary asks.
        (Some(Message::ai("Done.")), Some(it_rains), false, false),
    ] {
        let snapshot = Snapshot::from_messages(stored.iter().cloned().chain(more));
        let temporary: Vec<_> = temporary.into_iter().map(std::sync::Arc::new).collect();
        let composer = Composer::new().for_provider(Provider::Anthropic.model("claude-opus-5-5"));
        let prompt = composer.compose_all(&snapshot, &temporary).expect("a prompt");
        let body = json!(wire::Request::new(&prompt).max_tokens(9));
        assert_eq!(body.to_string().contains("sig-a"), thoughts, "{body}");
        assert_eq!(body.get("container").is_some(), container, "{body}");
    }
}

/// An application's history was refused as a whole for a field that this version does not know,
/// beside a late system message (`clear_at`) or results, where the same field beside any other
/// message is kept: "unknown field".
#[test]
fn an_unknown_field_of_any_message_refuses_no_history() {
    let block = json!({"type": "tool_result", "tool_use_id": "c", "content": "r"});
    let messages = read(&json!([
        {"role": "user", "content": "q", "new": 1},
        {"role": "assistant", "new": 1, "content": [
            {"type": "tool_use", "id": "c", "name": "look", "input": {}}]},
        {"role": "user", "content": [block], "new": 1},
        {"role": "system", "content": "Be brief.", "clear_at": "next_user_message"},
    ]));
    assert_eq!(messages.len(), 4);
    let Message::System(late) = &messages[3] else { panic!("{messages:?}") };
    assert_eq!(late.attributes()[ATTRIBUTE]["clear_at"], "next_user_message");
    // It stands beside the entry, and is none of a result's.
    assert_eq!(written(&messages)[2]["content"], json!([block]));
}

/// Tools that were added in the middle of a conversation with Claude left a system message without
/// words, which xAI was sent: "An empty message was provided." (400)
#[test]
fn a_system_message_of_another_formats_fields_alone_is_not_sent() {
    let change = json!({"type": "tool_addition", "tool": {"type": "tool_reference", "name": "t"}});
    let history = wire::history(
        Provider::Anthropic,
        json!([
            {"role": "user", "content": "q"},
            {"role": "system", "content": [change]},
            {"role": "assistant", "content": "a"},
            {"role": "user", "content": "And?"},
        ]),
    )
    .expect("a history");
    let prompt = |provider| {
        let composer = Composer::new().system("Be brief.").for_provider(provider);
        let snapshot = Snapshot::from_messages(history.iter().cloned());
        composer.compose_all(&snapshot, &[]).expect("a prompt")
    };
    let sent = json!(wire::openai::messages(&prompt(Provider::Xai)));
    let roles: Vec<_> = sent.as_array().expect("a list").iter().map(|it| &it["role"]).collect();
    assert_eq!(roles, ["system", "user", "assistant", "user"]);
    // Where it has a place, it stays.
    let mut row = Row::like(Provider::Anthropic, "own").expect("a name");
    row.late_system = true;
    row.private = row.private.from(Provider::Anthropic);
    let sent = json!(anthropic::messages(&prompt(Provider::custom(row))));
    assert_eq!(sent[1]["content"], json!([change]));
}

/// A tool that failed and showed a picture: "all content must be type 'text' if `is_error` is
/// true".
#[test]
fn an_error_with_a_picture_is_sent_without_the_mark_of_an_error() {
    let picture = || Part::Image(Media::base64("image/png", "iVBORw0KGgo="));
    let film = || Part::Video(Media::url("https://e.x/a.mp4"));
    for (part, is_sent) in [(picture(), true), (film(), false), (Part::text("Dark."), false)] {
        let call = ToolCall::new("c", "look", "{}");
        let fails = ToolMessage::new("c", "look", vec![Part::text("It failed."), part]);
        let list = [Message::user("q"), Message::ai_calls([call]), fails.with_error(true).into()];
        let view = Messages::of(&list);
        let losses: Vec<_> = view.losses().iter().map(ToString::to_string).collect();
        let told = "message 2: that a result is an error".to_owned();
        assert_eq!(losses.contains(&told), is_sent, "{losses:?}");
        let json = json!(view);
        assert_eq!(json[2]["content"][0].get("is_error").is_none(), is_sent, "{json}");
        assert_eq!(crate::validators::anthropic(&json), [""; 0], "{json}");
    }
}
