//! LangChain4j's stored JSON against the shapes that its own tests fix, and the laws of a wire
//! format.

#![allow(clippy::unwrap_used, clippy::expect_used, clippy::panic, missing_docs)] // a test that panics has failed

use crate::conversations;
use crate::counted::counted;
use crate::setups::Drawn;
use crate::wire_json;
use crate::wire_messages::opened_once;
use memory_prompt::message::{
    AiMessage, AiPart, Content, Detail, Media, OtherPart, Part, Reasoning, Source, SystemMessage,
    ToolMessage, UserMessage,
};
use memory_prompt::wire::langchain4j::{self, ATTRIBUTE, Messages};
use memory_prompt::wire::{anthropic, gemini};
use memory_prompt::{Message, ToolCall};
use proptest::prelude::*;
use serde_json::{Map, Value, json};

use crate::golden::*;
use crate::values::{self, under};

fn written(messages: &[Message]) -> String {
    serde_json::to_string(&Messages::of(messages)).expect("serialising never fails")
}

fn read(json: &str) -> Vec<Message> {
    langchain4j::history(json).expect("it can be read")
}

/// Reasoning as Anthropic's API signed it.
fn signed(text: &str, signature: &str) -> Reasoning {
    let extra = under("anthropic", &json!({}));
    Reasoning { extra, ..Reasoning::new(text).with_signature(signature) }
}

fn redacted(data: &str) -> Reasoning {
    let extra = under("anthropic", &json!({"type": "redacted_thinking"}));
    Reasoning { extra, ..Reasoning::new("").with_signature(data) }
}

// --- goldens ---------------------------------------------------------------------------------

#[test]
fn what_java_wrote_is_written_again_byte_for_byte() {
    let golden = golden("langchain4j", "stored.json");
    let stored: Vec<_> = golden["messages"].as_array().expect("messages").iter().collect();
    let stored: Vec<_> = stored.iter().map(|json| json.as_str().expect("a text")).collect();
    for json in &stored {
        let one = read(json);
        assert_eq!(one.len(), 1);
        assert_eq!(written(&one), format!("[{json}]"));
        assert!(Messages::of(&one).strict().is_ok(), "{json}");
    }
    let all = format!("[{}]", stored.join(","));
    assert_eq!(written(&read(&all)), all);
    assert_eq!(read("null"), []);
    assert_eq!(read("[]"), []);
    assert_eq!(written(&[]), "[]");
}

#[test]
fn older_forms_are_read() {
    for pair in golden("langchain4j", "stored.json")["older"].as_array().expect("pairs") {
        let (older, newer) = (pair[0].as_str().expect("a text"), pair[1].as_str().expect("a text"));
        assert_eq!(written(&read(older)), format!("[{newer}]"));
    }
}

#[test]
fn stored_messages_become_these() {
    let golden = golden("langchain4j", "stored.json");
    let one = |i: usize| read(golden["messages"][i].as_str().expect("a text")).remove(0);
    assert_eq!(one(0), Message::system("be brief"));
    assert_eq!(one(2), UserMessage::new("hi").with_name("Ada").into());
    let detail = Detail::Other("ultra_high".to_owned());
    let image = Media::base64("image/png", "YWJj").with_detail(detail);
    assert_eq!(one(4), Message::user([Part::Image(image), Part::text("what is it?")]));
    let expected = UserMessage::new("hi").with_attribute("age", 36);
    assert_eq!(one(8), expected.with_attribute("tags", json!(["one", "two"])).into());
    let expected = AiMessage::from_parts([
        AiPart::from(Reasoning::new("hm")),
        AiPart::from("so"),
        AiPart::from(ToolCall::new("a1", "weather", "{}")),
        AiPart::from(ToolCall::new("a2", "time", "{")),
    ]);
    assert_eq!(one(11), expected.with_attribute("k", json!({"deep": null})).into());
    let expected = [
        AiPart::from(signed("hm", "c2ln")),
        AiPart::from(redacted("ZGF0YQ==")),
        AiPart::from(redacted("ZGF0YTI=")),
        AiPart::from("so"),
    ];
    assert_eq!(one(12), AiMessage::from_parts(expected).into());
    let expected = ToolMessage::new("a2", "time", "no clock").with_error(true);
    assert_eq!(one(15), expected.with_attribute("found", json!([1])).into());
    let expected = [("k1".to_owned(), json!("v1")), ("k2".to_owned(), json!(2))];
    assert_eq!(one(17), Message::custom(expected));
}

#[test]
fn signed_thinking_of_a_java_application_goes_on_to_anthropic_only() {
    let golden = golden("langchain4j", "stored.json");
    let history = read(golden["messages"][12].as_str().expect("a text"));
    let json = json!(anthropic::Messages::of(&history));
    let expected = json!([
        {"type": "thinking", "thinking": "hm", "signature": "c2ln"},
        {"type": "redacted_thinking", "data": "ZGF0YQ=="},
        {"type": "redacted_thinking", "data": "ZGF0YTI="},
        {"type": "text", "text": "so"},
    ]);
    assert_eq!(json[0]["content"], expected);
    let json = json!(gemini::Contents::of(&history));
    assert_eq!(json[0]["parts"], json!([{"text": "so"}]));
}

// --- writing ---------------------------------------------------------------------------------

#[test]
fn what_java_refuses_to_read_is_not_written() {
    let messages =
        [Message::system(" "), Message::user(Vec::new()), Message::tool("c", "t", Vec::new())];
    let expected = json!([
        {"contents": [{"text": "", "type": "TEXT"}], "type": "USER"},
        {"id": "c", "toolName": "t", "contents": [{"text": "", "type": "TEXT"}], "attributes": {},
         "type": "TOOL_EXECUTION_RESULT"},
    ]);
    assert_eq!(json!(Messages::of(&messages)), expected);
    // A level that its enumeration does not have.
    let odd = Media::url("u").with_detail(Detail::Other("extreme".to_owned()));
    assert!(written(&[Message::user([Part::Image(odd)])]).contains(r#""detailLevel":"AUTO""#));
}

#[test]
fn attributes_and_unknown_fields_are_kept() {
    let json = r#"[{"text":"x","since":1,"type":"SYSTEM"},{"contents":[{"text":"a","mark":1,"type":"TEXT"},{"form":{"x":1},"type":"FORM"}],"attributes":{"k":1},"since":2,"type":"USER"},{"text":"y","toolExecutionRequests":[{"id":"1","name":"t","arguments":"{}","since":3}],"attributes":{},"since":4,"type":"AI"},{"id":"1","contents":[{"text":"z","type":"TEXT"}],"attributes":{},"since":5,"type":"TOOL_EXECUTION_RESULT"},{"attributes":{},"since":6,"type":"CUSTOM"}]"#;
    let history = read(json);
    let Message::User(user) = &history[1] else { panic!("{history:?}") };
    assert_eq!(user.attributes()[ATTRIBUTE], json!({"since": 2}));
    let [again, json]: [Value; 2] =
        [&written(&history), json].map(|it| serde_json::from_str(it).expect("JSON"));
    assert_eq!(again, json);
    let Message::System(system) = &history[0] else { panic!("{history:?}") };
    assert_eq!(system, &SystemMessage::new("x").with_attribute(ATTRIBUTE, json!({"since": 1})));
}

// --- placeholders and strictness -------------------------------------------------------------

#[test]
fn a_signature_is_written_with_its_thinking_or_neither_is() {
    // LangChain4j's Anthropic client would send thinking with a null for its signature.
    let two = AiMessage::from_parts([signed("a", "1"), signed("b", "2"), redacted("d")]);
    let json = json!(Messages::of(&[Message::from(two)]));
    let expected = json!([{"toolExecutionRequests": [], "attributes": {"redacted_thinking": ["d"]}, "type": "AI"}]);
    assert_eq!(json, expected);
    // Unsigned, it was several parts and is one.
    let two = AiMessage::from_parts([Reasoning::new("a"), Reasoning::new("b")]);
    assert_eq!(json!(Messages::of(&[Message::from(two)]))[0]["thinking"], "ab");
}

// --- reading ---------------------------------------------------------------------------------

// --- laws ------------------------------------------------------------------------------------

/// Messages that the format can hold.
fn expressible() -> impl Strategy<Value = Vec<Message>> {
    let other = json!({"type": "langchain4j", "langchain4j": {"type": "FORM", "form": 1}});
    let other =
        Part::Other(OtherPart::new(other.as_object().cloned().unwrap_or_default()).unwrap());
    let medium = Detail::Other("medium".to_owned());
    let level = proptest::sample::select(vec![Detail::Low, Detail::High, Detail::Auto, medium]);
    let part = prop_oneof![
        4 => values::text_part("langchain4j", "mark"),
        1 => (values::media("image/webp"), level).prop_map(|(m, l)| Part::Image(m.with_detail(l))),
        1 => values::media("audio/wav").prop_map(Part::Audio),
        1 => values::media("video/mp4").prop_map(Part::Video),
        1 => values::media("application/pdf").prop_map(Part::File),
        1 => Just(Part::Video(Media { media_type: None, source: Source::Url("gs://b/a".to_owned()), ..Media::url("") })),
        1 => Just(other),
    ];
    let content = prop_oneof![
        values::said().prop_map(Content::from),
        Just(Content::from("")),
        proptest::collection::vec(part, 2..4).prop_map(Content::from),
    ];
    let attributes = prop_oneof![
        3 => Just(Map::new()),
        1 => (said_key(), wire_json::odd_json()).prop_map(|(k, v)| Map::from_iter([(k, v)])),
        1 => said_key().prop_map(|k| under(ATTRIBUTE, &json!({k: 1}))),
    ];
    let user = (content.clone(), proptest::option::of("[A-Z][a-z]{2}"), attributes.clone())
        .prop_map(|(content, name, attributes)| {
            let user = UserMessage::new(content).with_some(name, UserMessage::with_name);
            Message::from(attributes.into_iter().fold(user, |m, (k, v)| m.with_attribute(k, v)))
        });
    let tool = ("[a-z]{0,3}", "[a-z]{0,3}", content, any::<bool>(), attributes.clone()).prop_map(
        |(id, name, content, is_error, attributes)| {
            let tool = ToolMessage::new(id, name, content).with_error(is_error);
            Message::from(attributes.into_iter().fold(tool, |m, (k, v)| m.with_attribute(k, v)))
        },
    );
    let reasoning = prop_oneof![
        2 => Just(None),
        1 => values::said().prop_map(|text| Some(Reasoning::new(text))),
        1 => (values::said(), "[a-z=]{4}").prop_map(|(text, signature)| Some(signed(&text, &signature))),
    ];
    let call = ("[a-z]{0,3}", "\\PC{0,9}", values::extra("langchain4j", "mark")).prop_map(
        |(id, arguments, extra)| ToolCall { extra, ..ToolCall::new(id, "look", arguments) },
    );
    let ai = (
        reasoning,
        proptest::collection::vec("[a-z=]{4}", 0..3),
        proptest::option::of(values::said()),
        proptest::collection::vec(call, 0..3),
        attributes.clone(),
    )
        .prop_map(|(reasoning, data, text, calls, attributes)| {
            let thoughts = reasoning.into_iter().chain(data.iter().map(|data| redacted(data)));
            let calls = calls.into_iter().map(AiPart::from);
            let said = text.as_deref().map(AiPart::from).into_iter().chain(calls);
            let ai = AiMessage::from_parts(thoughts.map(AiPart::from).chain(said));
            Message::from(attributes.into_iter().fold(ai, |m, (k, v)| m.with_attribute(k, v)))
        });
    let one = prop_oneof![
        1 => values::said().prop_map(Message::system),
        3 => user,
        3 => ai,
        2 => tool,
        1 => attributes.prop_map(Message::custom),
    ];
    proptest::collection::vec(one, 0..8)
}

fn said_key() -> impl Strategy<Value = String> {
    "x[a-z]{1,4}"
}

#[test]
fn every_shape_can_be_written_and_read() {
    let messages = values::one_of_each();
    let json = written(&messages);
    let value: Value = serde_json::from_str(&json).expect("it is JSON");
    assert_eq!(json!(Messages::of(&messages)), value);
    let again = read(&json);
    // The blank system message is gone.
    assert_eq!(again.len(), messages.len() - 1);
    assert_eq!(written(&again), json);
}

counted! {
    #![cases(256)]

    #[test]
    fn what_is_written_is_read_again(messages in expressible()) {
        let messages = opened_once(&messages);
        let view = Messages::of(&messages).strict().expect("it can be expressed");
        let json = serde_json::to_string(&view).expect("serialising never fails");
        prop_assert_eq!(read(&json), messages);
    }

    #[test]
    fn conversations_survive_a_second_trip(history in conversations::conversation(12)) {
        let json = written(&opened_once(&history));
        prop_assert_eq!(written(&read(&json)), json);
    }
}
