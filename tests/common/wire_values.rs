//! The pieces of messages that a format with objects for arguments can hold.

#![allow(dead_code)] // each test file uses its own part of it

use memory_prompt::message::{Attributes, Media, Part, TextPart};
use memory_prompt::record::Snapshot;
use memory_prompt::{Composer, Message, Prompt, Window};
use proptest::prelude::*;
use serde_json::{Map, Value};

/// All of a history as a prompt.
pub(crate) fn compose(history: &[Message], temporaries: &[Message]) -> Prompt {
    let temporaries: Vec<_> = temporaries.iter().cloned().map(Into::into).collect();
    let composer = Composer::new().window(Window::all());
    let snapshot = Snapshot::from_messages(history.iter().cloned());
    composer.compose_all(&snapshot, &temporaries).expect("nothing to refuse")
}

/// Fields under a format's name.
pub(crate) fn under(format: &str, fields: &Value) -> Map<String, Value> {
    Map::from_iter([(format.to_owned(), fields.clone())])
}

/// A text that says something.
pub(crate) fn said() -> impl Strategy<Value = String> {
    prop_oneof![6 => "[a-zæøå漢字 \n\"\\\\]{0,12}[a-z]", 1 => Just("e\u{301}👩‍👩‍👧".to_owned())]
}

/// The arguments of a call, as a canonical object.
pub(crate) fn arguments() -> impl Strategy<Value = String> {
    let value = prop_oneof![
        said().prop_map(Value::from),
        any::<i32>().prop_map(Value::from),
        Just(serde_json::json!({"deep": [1, null, {"er": true}]})),
    ];
    proptest::collection::vec(("[a-z]{1,4}", value), 0..4)
        .prop_map(|fields| Value::Object(fields.into_iter().collect()).to_string())
}

/// Fields under a format's name, or none.
pub(crate) fn extra(format: &'static str, key: &'static str) -> impl Strategy<Value = Attributes> {
    prop_oneof![
        4 => Just(Map::new()),
        1 => said().prop_map(move |text| {
            let fields = Map::from_iter([(key.to_owned(), Value::from(text))]);
            Map::from_iter([(format.to_owned(), Value::Object(fields))])
        }),
    ]
}

/// A text part, with fields beside it or without.
pub(crate) fn text_part(format: &'static str, key: &'static str) -> impl Strategy<Value = Part> {
    (said(), extra(format, key)).prop_map(|(text, extra)| Part::Text(TextPart { text, extra }))
}

/// Media by data or by address.
pub(crate) fn media(media_type: &'static str) -> impl Strategy<Value = Media> {
    prop_oneof![
        "[A-Za-z0-9]{4}".prop_map(move |data| Media::base64(media_type, data)),
        "[a-z]{1,5}".prop_map(move |path| {
            Media::url(format!("https://example.com/{path}")).with_media_type(media_type)
        }),
    ]
}

/// A part that no format knows.
pub(crate) fn widget() -> Part {
    serde_json::from_str(r#"{"type":"widget"}"#).expect("a part")
}

/// A message of each kind and shape, whether any provider takes it or not.
pub(crate) fn one_of_each() -> Vec<Message> {
    use memory_prompt::ToolCall;
    use memory_prompt::message::{AiMessage, AiPart, Reasoning, SystemMessage, ToolMessage};
    let odd = |format: &str| {
        let fields = serde_json::json!({"type": format, format: {"type": "odd", "k": 1}});
        serde_json::from_value(fields).expect("a part")
    };
    let parts = || {
        vec![
            Part::text("a"),
            Part::text(""),
            Part::Image(Media::base64("image/png", "AA==")),
            Part::Image(Media::url("data:image/gif;base64,AA==")),
            Part::Image(Media::file_id("f1")),
            Part::Audio(Media::base64("audio/wav", "AA==")),
            Part::Video(Media::url("https://example.com/a.mp4")),
            Part::File(Media::base64("application/pdf", "AA==").with_name("a.pdf")),
            Part::File(Media::base64("text/csv", "AA==")),
            odd("anthropic"),
            odd("gemini"),
            odd("openai"),
            widget(),
        ]
    };
    let of_another = |format: &str| Reasoning {
        extra: Map::from_iter([(format.to_owned(), Value::Object(Map::new()))]),
        ..Reasoning::new("hm").with_signature("sig")
    };
    let mut all: Vec<AiPart> = parts().into_iter().map(AiPart::Content).collect();
    all.push(Reasoning::new("hm").into());
    all.push(Reasoning::new("hm").with_signature("sig").into());
    all.extend(["openai", "responses", "anthropic", "gemini"].map(|f| of_another(f).into()));
    all.push(ToolCall::new("c.1", "look", r#"{"x": 1}"#).with_signature("s").into());
    all.push(ToolCall::new("", "look", "not json").into());
    all.push(ToolCall::new("c3", "look", "").into());
    all.push(ToolCall::new("c4", "look", "[1]").into());
    vec![
        Message::system("Be brief."),
        Message::from(SystemMessage::new("").with_name("n").with_attribute("k", 1)),
        Message::ai(""),
        Message::user("hi"),
        Message::user(""),
        Message::user(Vec::new()),
        Message::user(parts()),
        Message::ai("Hello."),
        Message::ai(" \n"),
        AiMessage::from_parts(all).with_name("n").with_attribute("k", 1).into(),
        Message::tool("c.1", "look", "21"),
        Message::tool("", "", ""),
        ToolMessage::new("c3", "look", parts()).with_error(true).into(),
        Message::tool("c4", "look", Vec::new()),
        Message::custom([("k".to_owned(), 1.into())]),
        Message::user("bye"),
    ]
}
