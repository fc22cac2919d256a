//! Messages for the wire: nasty ones of every kind.

use memory_prompt::message::{
    AiMessage, AiPart, Detail, Media, OtherPart, Part, Reasoning, Source, SystemMessage, TextPart,
    ToolMessage, UserMessage,
};
use memory_prompt::{Message, ToolCall};
use proptest::collection::vec;
use proptest::prelude::*;
use serde_json::{Map, Value, json};

/// Texts, some empty, with what needs escaping.
pub fn text() -> BoxedStrategy<String> {
    prop_oneof![
        4 => "[a-z ]{1,12}",
        1 => Just(String::new()),
        1 => Just("\"\\\u{0}\u{7f}\u{2028}\n</s>".to_owned()),
        1 => Just("👩‍👩‍👧 漢字 e\u{301}".to_owned()),
        1 => any::<String>(),
    ]
    .boxed()
}

/// Texts that are not empty.
pub fn words() -> BoxedStrategy<String> {
    prop_oneof!["[a-z ]{1,12}", Just("\"quoted\"\\ 漢字\n".to_owned())].boxed()
}

/// Media of any kind and from anywhere.
pub fn media() -> BoxedStrategy<Media> {
    let source = prop_oneof![
        Just(Source::Url("https://e.x/a?b=c".to_owned())),
        Just(Source::Url("data:image/gif;base64,R0lGOD".to_owned())),
        Just(Source::Base64("AA==".to_owned())),
        Just(Source::FileId("file_1".to_owned())),
    ];
    let kind = prop_oneof![
        Just(None),
        Just(Some("image/png".to_owned())),
        Just(Some("audio/wav".to_owned())),
        Just(Some("application/pdf".to_owned())),
        Just(Some("x".to_owned())),
    ];
    let detail = prop_oneof![
        Just(None),
        Just(Some(Detail::Low)),
        Just(Some(Detail::Other("original".to_owned()))),
    ];
    (source, kind, proptest::option::of(text()), detail, extra())
        .prop_map(|(source, media_type, name, detail, extra)| Media {
            source,
            media_type,
            name,
            detail,
            extra,
        })
        .boxed()
}

/// What stands beside a part: nothing, this format's, another's, or nonsense under their names.
fn extra() -> BoxedStrategy<Map<String, Value>> {
    let format = prop_oneof![
        Just("openai"),
        Just("responses"),
        Just("ollama"),
        Just("anthropic"),
        Just("gemini"),
    ];
    let fields = prop_oneof![
        Just(json!({})),
        Just(json!({"type": "refusal", "id": "x_1", "text": "no", "role": "user"})),
        Just(json!({"type": "custom", "function": {"name": "no"}, "message": {"id": "msg_1"}})),
        Just(json!({"type": "custom_tool_call", "message": 7, "summary": 7, "index": 3})),
        Just(json!(7)),
    ];
    prop_oneof![
        3 => Just(Map::new()),
        2 => (format, fields)
            .prop_map(|(format, fields)| Map::from_iter([(format.to_owned(), fields)])),
    ]
    .boxed()
}

/// A part of any kind.
pub fn part() -> BoxedStrategy<Part> {
    prop_oneof![
        4 => text().prop_map(Part::text),
        1 => (text(), extra()).prop_map(|(text, extra)| Part::Text(TextPart { text, extra })),
        1 => media().prop_map(Part::Image),
        1 => media().prop_map(Part::Audio),
        1 => media().prop_map(Part::Video),
        1 => media().prop_map(Part::File),
        1 => extra().prop_map(|mut fields| {
            let format = fields.keys().next().cloned().unwrap_or_default();
            fields.insert("type".to_owned(), format.into());
            Part::Other(OtherPart::new(fields).unwrap())
        }),
    ]
    .boxed()
}

/// Arguments: objects, and what models write in their place.
pub fn arguments() -> BoxedStrategy<String> {
    prop_oneof![
        3 => Just(r#"{"x":1}"#.to_owned()),
        1 => Just(r#"{"b":{"c":[1.5,null]},"a":"ö"}"#.to_owned()),
        1 => Just("{}".to_owned()),
        1 => Just(String::new()),
        1 => Just("[1]".to_owned()),
        1 => Just(r#"{"x":"#.to_owned()),
        1 => Just(format!("{}{}", "[".repeat(200), "]".repeat(200))),
    ]
    .boxed()
}

fn call() -> BoxedStrategy<ToolCall> {
    let id = prop_oneof![Just("c0"), Just("c1"), Just(""), Just("toolu_1")];
    (id, text(), arguments(), extra(), proptest::option::of(text()))
        .prop_map(|(id, name, arguments, extra, signature)| ToolCall {
            extra,
            signature,
            ..ToolCall::new(id, name, arguments)
        })
        .boxed()
}

fn ai_part() -> BoxedStrategy<AiPart> {
    let reasoning = (text(), proptest::option::of(text()), extra())
        .prop_map(|(text, signature, extra)| Reasoning { text, signature, extra });
    prop_oneof![
        4 => part().prop_map(AiPart::Content),
        2 => reasoning.prop_map(AiPart::Reasoning),
        3 => call().prop_map(AiPart::ToolCall),
    ]
    .boxed()
}

/// Any message at all.
pub fn message() -> BoxedStrategy<Message> {
    let attribute = prop_oneof![
        4 => Just(None),
        1 => Just(Some(("wire:openai".to_owned(), json!({"role": "no", "x": [1]})))),
        1 => Just(Some(("wire:responses".to_owned(), json!({"type": "no", "x": [1]})))),
        1 => Just(Some(("wire:ollama".to_owned(), json!(null)))),
    ];
    let kind = prop_oneof![
        (text(), proptest::option::of(text())).prop_map(|(text, name)| {
            let message = SystemMessage::new(text);
            name.into_iter().fold(message, SystemMessage::with_name).into()
        }),
        (text(), proptest::option::of(text())).prop_map(|(text, name)| {
            let message = UserMessage::new(text);
            name.into_iter().fold(message, UserMessage::with_name).into()
        }),
        vec(part(), 0..5).prop_map(Message::user),
        text().prop_map(Message::ai),
        vec(ai_part(), 0..6).prop_map(|parts| AiMessage::from_parts(parts).into()),
        (text(), text(), vec(part(), 0..4), any::<bool>()).prop_map(|(id, name, parts, error)| {
            ToolMessage::new(id, name, parts).with_error(error).into()
        }),
        Just(Message::custom([("k".to_owned(), json!(1))])),
    ];
    (kind, attribute)
        .prop_map(|(message, attribute)| match (message, attribute) {
            (Message::System(m), Some((k, v))) => m.with_attribute(k, v).into(),
            (Message::User(m), Some((k, v))) => m.with_attribute(k, v).into(),
            (Message::Ai(m), Some((k, v))) => m.with_attribute(k, v).into(),
            (Message::Tool(m), Some((k, v))) => m.with_attribute(k, v).into(),
            (message, _) => message,
        })
        .boxed()
}

/// Any list of messages.
pub fn messages() -> BoxedStrategy<Vec<Message>> {
    vec(message(), 0..8).boxed()
}

/// Calls with unique ids and their results in order, around what the model says beside them.
pub fn group(
    content: impl Strategy<Value = Vec<AiPart>> + 'static,
    results: impl Strategy<Value = memory_prompt::message::Content> + 'static,
    arguments: impl Strategy<Value = String> + 'static,
) -> BoxedStrategy<Vec<Message>> {
    let calls = vec((words(), arguments, results), 1..4);
    (content, calls, any::<u32>())
        .prop_map(|(mut parts, calls, n)| {
            let id = |i: usize| format!("call_{n}_{i}");
            let mut results = Vec::new();
            for (i, (name, arguments, result)) in calls.into_iter().enumerate() {
                parts.push(ToolCall::new(id(i), name.clone(), arguments).into());
                results.push(Message::tool(id(i), name, result));
            }
            [vec![AiMessage::from_parts(parts).into()], results].concat()
        })
        .boxed()
}

/// All but the first of several system messages that open a history, which would become one:
/// tests/composing/imports.rs.
pub fn opened_once(messages: &[Message]) -> Vec<Message> {
    let opening = messages.iter().take_while(|m| m.is_system()).count();
    messages[opening.saturating_sub(1)..].to_vec()
}
