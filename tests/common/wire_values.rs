//! Values for wire formats: JSON of any shape, spoilt goldens, and the pieces of messages that a
//! format with objects for arguments can hold.

use memory_prompt::{Attributes, Media, Message, Part, TextPart};
use proptest::prelude::*;
use serde_json::{Map, Value};

/// A golden file: its `body` and whatever else it holds.
pub(crate) fn golden(text: &str) -> Value {
    let golden: Value = serde_json::from_str(text).expect("a golden is JSON");
    assert!(
        golden["source"].is_string() && golden["date"].is_string(),
        "a golden names its source"
    );
    golden
}

/// JSON of any shape, with the names that the formats use, so that decoders get far into it.
pub(crate) fn any_json() -> impl Strategy<Value = Value> {
    let word = prop_oneof![
        6 => proptest::sample::select(WORDS).prop_map(str::to_owned),
        1 => "\\PC{0,6}",
    ];
    let leaf = prop_oneof![
        1 => Just(Value::Null),
        1 => any::<bool>().prop_map(Value::from),
        1 => any::<i64>().prop_map(Value::from),
        1 => any::<f64>().prop_map(Value::from),
        4 => word.clone().prop_map(Value::from),
    ];
    leaf.prop_recursive(5, 40, 6, move |inner| {
        prop_oneof![
            1 => proptest::collection::vec(inner.clone(), 0..5).prop_map(Value::from),
            3 => proptest::collection::vec((word.clone(), inner), 0..6)
                .prop_map(|fields| Value::Object(fields.into_iter().collect())),
        ]
    })
}

const WORDS: &[&str] = &[
    "type",
    "role",
    "content",
    "messages",
    "system",
    "text",
    "user",
    "assistant",
    "image",
    "source",
    "base64",
    "url",
    "tool_use",
    "tool_result",
    "tool_use_id",
    "id",
    "name",
    "input",
    "is_error",
    "thinking",
    "signature",
    "redacted_thinking",
    "data",
    "index",
    "delta",
    "content_block",
    "content_block_start",
    "content_block_delta",
    "message_start",
    "message_stop",
    "input_json_delta",
    "partial_json",
    "contents",
    "parts",
    "model",
    "functionCall",
    "functionResponse",
    "response",
    "output",
    "args",
    "thought",
    "thoughtSignature",
    "inlineData",
    "mimeType",
    "fileData",
    "fileUri",
    "candidates",
    "finishReason",
    "USER",
    "AI",
    "SYSTEM",
    "CUSTOM",
    "TOOL_EXECUTION_RESULT",
    "TEXT",
    "IMAGE",
    "PDF",
    "attributes",
    "toolExecutionRequests",
    "arguments",
    "detailLevel",
    "isError",
    "toolName",
];

/// A golden in which one value, somewhere, is replaced by any other or is gone.
pub(crate) fn spoilt(golden: Value) -> impl Strategy<Value = Value> {
    let places = count(&golden);
    (0..places, proptest::option::of(any_json())).prop_map(move |(place, by)| {
        let mut golden = golden.clone();
        replace(&mut golden, &mut { place }, by.as_ref());
        golden
    })
}

fn count(value: &Value) -> usize {
    1 + match value {
        Value::Array(list) => list.iter().map(count).sum(),
        Value::Object(fields) => fields.values().map(count).sum(),
        _ => 0,
    }
}

fn replace(value: &mut Value, place: &mut usize, by: Option<&Value>) -> bool {
    if *place == 0 {
        *value = by.cloned().unwrap_or_default();
        return true;
    }
    *place -= 1;
    match value {
        Value::Array(list) => list.iter_mut().any(|value| replace(value, place, by)),
        Value::Object(fields) => {
            let found = fields.iter_mut().find_map(|(key, value)| {
                let here = *place == 0;
                replace(value, place, by).then(|| here.then(|| key.clone()))
            });
            if let (Some(Some(key)), None) = (&found, by) {
                fields.remove(key);
            }
            found.is_some()
        }
        _ => false,
    }
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

/// A message of each kind and shape, whether any provider takes it or not.
pub(crate) fn one_of_each() -> Vec<Message> {
    use memory_prompt::{AiMessage, AiPart, Reasoning, SystemMessage, ToolCall, ToolMessage};
    let odd = |format: &str| {
        let fields = serde_json::json!({"type": format, format: {"type": "odd", "k": 1}});
        Part::Other(fields.as_object().cloned().unwrap_or_default())
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
            Part::Other(Attributes::new()),
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
