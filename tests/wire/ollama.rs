//! Ollama: its published examples, the laws, and what goes wrong.

#![allow(clippy::unwrap_used, clippy::expect_used, clippy::panic, missing_docs, unreachable_pub)] // a test that panics has failed

use crate::counted::counted;
use crate::wire_messages;
use memory_prompt::message::{
    AiMessage, AiPart, Content, Media, Part, Reasoning, SystemMessage, UserMessage,
};
use memory_prompt::wire::ollama::{self, ATTRIBUTE, Messages};
use memory_prompt::{Message, ToolCall};
use proptest::prelude::*;
use serde_json::{Value, json};

fn json_of(messages: &[Message]) -> Value {
    json!(Messages::of(messages))
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
    let expected = [
        Message::tool("call_1", "b", "1"),
        Message::tool("call_0", "a", "2"),
        Message::tool("call_2", "a", "3"),
        Message::tool("", "", "4"),
        Message::ai_calls([ToolCall::new("call_3", "a", "{}")]),
        Message::tool("call_3", "a", "5"),
    ];
    assert_eq!(messages[1..], expected);
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

/// What the format can hold without a loss.
fn lossless() -> BoxedStrategy<Vec<Message>> {
    use crate::wire_messages::*;
    let image = Just(Part::Image(Media::base64("image/png", "iVBORw0KGgo=")));
    let parts = (proptest::option::of(words()), proptest::collection::vec(image, 1..3));
    let parts = parts.prop_map(|(text, images)| {
        Content::from(text.map(Part::text).into_iter().chain(images).collect::<Vec<_>>())
    });
    let content = prop_oneof![3 => text().prop_map(Content::from), 1 => parts].boxed();
    let user = content.clone().prop_map(|content| vec![UserMessage::new(content).into()]);
    let said = (proptest::option::of(words()), proptest::option::of(words()));
    let said = said.prop_map(|(thought, text)| {
        let thought = thought.map(|thought| AiPart::from(Reasoning::new(thought)));
        let text = text.map(|text| AiPart::from(Part::text(text)));
        thought.into_iter().chain(text).collect::<Vec<_>>()
    });
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

#[test]
fn a_message_alone_is_an_answer() {
    let bare = ollama::answer(r#"{"role": "assistant", "content": "x"}"#).unwrap();
    assert_eq!(Message::from(bare), Message::ai("x"));
}

counted! {
    #![cases(512)]

    #[test]
    fn nothing_is_lost_where_the_format_allows(messages in lossless()) {
        let messages = wire_messages::opened_once(&messages);
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

/// A signature has no place in the format, so reasoning that is nothing else is lost.
#[test]
fn reasoning_that_is_a_signature_alone_is_a_loss() {
    let signed = Reasoning::new("").with_signature("s");
    for (thought, losses) in [(signed, 1), (Reasoning::new(""), 0)] {
        let answer = AiMessage::from_parts([AiPart::from(thought), AiPart::from("Yes.")]);
        let messages = [Message::user("Is it?"), answer.into()];
        assert_eq!(Messages::of(&messages).losses().len(), losses);
    }
}
