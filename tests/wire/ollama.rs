//! Ollama: its published examples, the laws, and what goes wrong.

#![allow(clippy::unwrap_used, clippy::expect_used, clippy::panic, missing_docs, unreachable_pub)] // a test that panics has failed

use crate::counted::counted;
use crate::golden::{assert_storable, events, goldens};
use crate::shown;
use crate::wire_messages;
use memory_prompt::message::{
    AiMessage, AiPart, Content, Detail, Media, Part, Reasoning, SystemMessage, UserMessage,
};
use memory_prompt::record::Snapshot;
use memory_prompt::wire::Event;
use memory_prompt::wire::ollama::{self, ATTRIBUTE, Messages, Stream};
use memory_prompt::{Composer, ErrorKind, Message, ToolCall};
use proptest::prelude::*;
use serde_json::{Value, json};

fn json_of(messages: &[Message]) -> Value {
    serde_json::to_value(Messages::of(messages)).unwrap()
}

#[test]
fn goldens_read_and_write() {
    for (name, golden) in goldens("ollama") {
        if golden["request"].is_array() {
            let messages = ollama::history(golden["request"].to_string()).unwrap();
            assert_storable(&messages, &name);
            assert!(Messages::of(&messages).strict().is_ok());
            let rewritten = golden.get("rewritten").unwrap_or_else(|| &golden["request"]);
            assert_eq!(json_of(&messages), *rewritten, "{name}");
        }
        if golden["response"].is_object() {
            let whole = ollama::answer(golden["response"].to_string()).unwrap();
            let answer = Message::from(whole.clone());
            assert_storable(std::slice::from_ref(&answer), &name);
            assert_eq!(json_of(std::slice::from_ref(&answer)), json!([golden["replay"]]), "{name}");

            // Calls of a stream are named after its first line.
            let mut response = golden["response"].clone();
            let first = events(&golden).swap_remove(0);
            response["created_at"] =
                serde_json::from_str::<Value>(&first).unwrap()["created_at"].clone();
            let whole = ollama::answer(response.to_string()).unwrap();
            let mut stream = Stream::new();
            let mut told = Vec::new();
            for event in events(&golden) {
                told.extend(stream.push(&event).unwrap());
            }
            let streamed = stream.finish().unwrap();
            shown::assert_shown(&told, &streamed, &name);
            assert_eq!(streamed.message, whole.message, "{name}");
        }
    }
}

#[test]
fn a_prompt_with_everything_is_this() {
    let history = [
        Message::system("Be brief."),
        UserMessage::new([
            Part::Image(Media::base64("image/png", "AA==").with_detail(Detail::Low)),
            Part::text("What is this?"),
            Part::text("And this?"),
            Part::Image(Media::url("data:image/gif;base64,R0lGOD")),
        ])
        .with_name("Klaus")
        .into(),
        AiMessage::new("Looking.")
            .with_tool_call(ToolCall::new("call_1", "look", r#"{"y": 2, "x": 1}"#))
            .with_tool_call(ToolCall::new("call_2", "look", ""))
            .with_reasoning(Reasoning::new("Hm.").with_signature("sig"))
            .into(),
        Message::tool("call_1", "look", "a cat"),
        Message::tool("call_2", "look", "nothing"),
        Message::ai("A cat."),
    ];
    let snapshot = Snapshot::from_messages(history);
    let built = Composer::new().compose_all(&snapshot, &[]).unwrap();
    let view = ollama::messages(&built).strict().unwrap();
    assert!(format!("{view:?}").contains(&format!("{} messages", built.len())));
    assert_eq!(
        json!({"messages": view}),
        json!({"messages": [
            {"role": "system", "content": "Be brief."},
            {"role": "user", "content": "What is this?\nAnd this?", "images": ["AA==", "R0lGOD"]},
            {"role": "assistant", "content": "Looking.", "thinking": "Hm.", "tool_calls": [
                {"id": "call_1", "function": {"index": 0, "name": "look", "arguments": {"x": 1, "y": 2}}},
                {"id": "call_2", "function": {"index": 1, "name": "look", "arguments": {}}},
            ]},
            {"role": "tool", "tool_name": "look", "tool_call_id": "call_1", "content": "a cat"},
            {"role": "tool", "tool_name": "look", "tool_call_id": "call_2", "content": "nothing"},
            {"role": "assistant", "content": "A cat."},
        ]})
    );
}

#[test]
fn placeholders_stand_for_what_can_not_be_sent() {
    let cases = [
        (
            Message::user([Part::Video(Media::url("u"))]),
            "[video: not supported by this format]",
            "messages[0].content[0]: video is not supported by this format",
        ),
        (
            Message::user([Part::text("x"), Part::Image(Media::url("https://e.x"))]),
            "x\n[image: not supported by this format]",
            "messages[0].content[1]: an image is not supported by this format",
        ),
        (
            Message::tool("c", "t", [Part::File(Media::base64("text/csv", "AA=="))]),
            "[file: not supported by this format]",
            "messages[0].content[0]: a file is not supported by this format",
        ),
        (
            // It would be what the model has said.
            AiMessage::from_parts([Part::text("x"), Part::Audio(Media::file_id("a"))]).into(),
            "x",
            "messages[0].parts[1]: audio is not supported by this format",
        ),
    ];
    for (message, content, error) in cases {
        let list = [message];
        assert_eq!(json_of(&list)[0]["content"], content);
        let refused = Messages::of(&list).strict().unwrap_err();
        assert_eq!(refused.kind(), ErrorKind::Unsupported);
        assert_eq!(refused.to_string(), format!("write ollama messages: {error}"));
    }
    let list = [Message::ai_calls([ToolCall::new("c", "t", r#"{"x":"#)])];
    let arguments = json_of(&list)[0]["tool_calls"][0]["function"]["arguments"].clone();
    assert_eq!(arguments, json!({"arguments": "{\"x\":"}));
    assert_eq!(
        Messages::of(&list).strict().unwrap_err().to_string(),
        "write ollama messages: messages[0].parts[0]: the arguments are not a JSON object"
    );
    let list = [Message::user("hi"), Message::custom([("k".to_owned(), json!(1))])];
    assert_eq!(json_of(&list), json!([{"role": "user", "content": "hi"}]));
    assert_eq!(
        Messages::of(&list).strict().unwrap_err().to_string(),
        "write ollama messages: messages[1]: a custom message is not supported by this format"
    );
}

#[test]
fn results_find_their_calls() {
    let call = |name: &str| json!({"function": {"name": name, "arguments": {}}});
    let request = json!([
        {"role": "assistant", "content": "", "tool_calls": [call("a"), call("b"), call("a")]},
        {"role": "tool", "tool_name": "b", "content": "1"},
        {"role": "tool", "tool_name": "a", "content": "2"},
        {"role": "tool", "content": "3"},
        {"role": "tool", "content": "4"},
        {"role": "Assistant", "content": "", "tool_calls": [call("a")]},
        {"role": "tool", "tool_call_id": "call_3", "content": "5"},
    ]);
    let messages = ollama::history(request.to_string()).unwrap();
    assert_eq!(
        messages[1..],
        [
            Message::tool("call_1", "b", "1"),
            Message::tool("call_0", "a", "2"),
            Message::tool("call_2", "a", "3"),
            Message::tool("", "", "4"),
            Message::ai_calls([ToolCall::new("call_3", "a", "{}")]),
            Message::tool("call_3", "a", "5"),
        ]
    );
}

#[test]
fn what_is_not_known_is_kept() {
    let request = json!([
        {"role": "user", "content": "x", "y": 1},
        {"role": "assistant", "content": "", "z": {}, "tool_calls": [
            {"id": "c", "type": "function", "function": {"index": 0, "name": "t", "arguments": {}, "strict": true}},
        ]},
        {"role": "tool", "tool_name": "t", "tool_call_id": "c", "content": "", "y": 1},
    ]);
    let messages = ollama::history(request.to_string()).unwrap();
    assert_eq!(json_of(&messages), request);
    assert_eq!(messages[1].as_ai().unwrap().attributes()[ATTRIBUTE], json!({"z": {}}));
    let messages = ollama::history(r#"{"messages": [{"role": "control", "content": "x"}]}"#);
    let Message::Custom(control) = &messages.unwrap()[0] else { panic!() };
    assert_eq!((control.role(), &control.fields()["content"]), ("control", &json!("x")));
}

#[test]
fn an_empty_list_of_calls_is_none() {
    // ollama-rs, whose messages are all of one type, writes it into each, and it came to lie in the
    // attributes of what the user had said.
    let request = r#"[
        {"role": "system", "content": "s", "tool_calls": [], "thinking": null},
        {"role": "user", "content": "hi", "tool_calls": [], "thinking": null},
        {"role": "assistant", "content": "Hello.", "tool_calls": [], "thinking": null},
        {"role": "tool", "content": "r", "tool_calls": [], "thinking": null}]"#;
    let expected = [
        Message::system("s"),
        Message::user("hi"),
        Message::ai("Hello."),
        Message::tool("", "", "r"),
    ];
    assert_eq!(ollama::history(request).unwrap(), expected);
    let request = r#"[{"role": "user", "content": "hi", "tool_calls": [1]}]"#;
    let Message::User(kept) = &ollama::history(request).unwrap()[0] else { panic!() };
    assert_eq!(kept.attributes()[ATTRIBUTE], json!({"tool_calls": [1]}));
}

#[test]
fn errors_name_the_place() {
    let cases = [
        ("", "not valid JSON at line 1 column 0"),
        ("7", "expected an object, found a number"),
        ("{}", "messages: missing"),
        (r#"{"messages": 7}"#, "messages: expected an array, found a number"),
        (r"[7]", "messages[0]: expected an object, found a number"),
        (r#"[{"content": "hi"}]"#, "messages[0].role: missing"),
        (
            r#"[{"role": "user", "content": []}]"#,
            "messages[0].content: expected a string, found an array",
        ),
        (
            r#"[{"role": "user", "images": [7]}]"#,
            "messages[0].images[0]: expected a string, found a number",
        ),
        (
            r#"[{"role": "assistant", "tool_calls": [{}]}]"#,
            "messages[0].tool_calls[0].function: missing",
        ),
        (
            r#"[{"role": "assistant", "tool_calls": [{"function": {"name": "t", "arguments": []}}]}]"#,
            "messages[0].tool_calls[0].function.arguments: expected an object, found an array",
        ),
    ];
    for (json, error) in cases {
        let refused = ollama::history(json).unwrap_err();
        assert_eq!(refused.kind(), ErrorKind::Codec, "{json}");
        assert_eq!(refused.to_string(), format!("read ollama history: {error}"), "{json}");
    }
    let cases = [
        ("{}", "message: missing"),
        (r#"{"error": "model not found"}"#, "error: the provider answered an error"),
        (r#"{"message": {"role": "user"}}"#, "message.role: expected `assistant`"),
    ];
    for (json, error) in cases {
        let refused = ollama::answer(json).unwrap_err();
        assert_eq!(refused.to_string(), format!("read ollama answer: {error}"), "{json}");
    }
    let bare = ollama::answer(r#"{"role": "assistant", "content": "x"}"#).unwrap();
    assert_eq!(Message::from(bare), Message::ai("x"));
}

#[test]
fn streams_that_go_wrong() {
    let mut stream = Stream::new();
    assert_eq!(
        stream.push(r#"{"error": "overloaded"}"#).unwrap_err().to_string(),
        "read ollama stream: error: the provider answered an error"
    );
    assert_eq!(
        stream.push(r#"{"message": 7}"#).unwrap_err().to_string(),
        "read ollama stream: message: expected an object, found a number"
    );
    assert_eq!(stream.push("\n").unwrap(), []);
    assert_eq!(
        stream.push(r#"{"message": {"content": "Hel"}}"#).unwrap(),
        [Event::Text("Hel".to_owned())]
    );
    assert_eq!(
        stream.finish().unwrap_err().to_string(),
        "read ollama stream: it broke off before the answer was complete"
    );
}

#[test]
fn nesting_is_refused_and_not_followed() {
    let deep = format!("{}{}", r#"{"a":"#.repeat(100_000), "}".repeat(100_000));
    assert!(ollama::answer(&deep).is_err());
    assert!(ollama::history(format!("[{deep}]")).is_err());
    assert!(Stream::new().push(&deep).is_err());
}

/// What the format can hold without a loss.
fn lossless() -> BoxedStrategy<Vec<Message>> {
    use crate::wire_messages::*;
    let image = Just(Part::Image(Media::base64("image/png", "iVBORw0KGgo=")));
    let parts = (proptest::option::of(words()), proptest::collection::vec(image, 1..3)).prop_map(
        |(text, images)| {
            Content::from(text.map(Part::text).into_iter().chain(images).collect::<Vec<_>>())
        },
    );
    let content = prop_oneof![3 => text().prop_map(Content::from), 1 => parts].boxed();
    let user = content.clone().prop_map(|content| vec![UserMessage::new(content).into()]);
    let said = (proptest::option::of(words()), proptest::option::of(words())).prop_map(
        |(thought, text)| {
            let thought = thought.map(|thought| AiPart::from(Reasoning::new(thought)));
            thought
                .into_iter()
                .chain(text.map(|text| AiPart::from(text.as_str())))
                .collect::<Vec<_>>()
        },
    );
    let said = said.boxed();
    let ai = said.clone().prop_map(|parts| vec![AiMessage::from_parts(parts).into()]);
    let arguments = prop_oneof![
        Just("{}".to_owned()),
        Just(r#"{"a":[1,-2,0.5,null,true],"b":{"ö":"\n"}}"#.to_owned()),
    ];
    let group = group(said, content, arguments);
    let system = text().prop_map(|text| vec![SystemMessage::new(text).into()]);
    let step = prop_oneof![1 => system, 3 => user, 2 => ai, 3 => group];
    proptest::collection::vec(step, 0..6).prop_map(|steps| steps.concat()).boxed()
}

counted! {
    #![cases(512)]

    #[test]
    fn nothing_is_lost_where_the_format_allows(messages in lossless()) {
        // Several system messages that open a history become one: tests/composing/imports.rs.
        let opening = messages.iter().take_while(|m| m.is_system()).count();
        let messages = messages[opening.saturating_sub(1)..].to_vec();
        let json = serde_json::to_string(&Messages::of(&messages).strict().unwrap()).unwrap();
        prop_assert_eq!(ollama::history(&json).unwrap(), messages);
    }

    /// Whatever a memory holds becomes messages that this format reads, and reading and writing
    /// them again changes nothing more.
    #[test]
    fn anything_can_be_written(messages in wire_messages::messages()) {
        let text = serde_json::to_string(&Messages::of(&messages)).unwrap();
        let value: Value = serde_json::from_str(&text).unwrap();
        for message in value.as_array().unwrap() {
            prop_assert!(message["content"].is_string());
        }
        // Each key once: a map that is written again is as long.
        prop_assert_eq!(value.to_string().len(), text.len());
        let once = ollama::history(&text).unwrap();
        let again = serde_json::to_string(&Messages::of(&once)).unwrap();
        let twice = ollama::history(&again).unwrap();
        prop_assert_eq!(&twice, &once);
    }
}
