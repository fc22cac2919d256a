//! Messages of every kind, for the property tests. Boxed, because whole strategies are large on the
//! stack.
#![allow(dead_code, unreachable_pub)] // each test binary uses its own part
#![allow(clippy::unwrap_used, clippy::expect_used, clippy::panic)]

pub mod decoding;

use memory_prompt::message::{
    AiMessage, AiPart, Attributes, Content, Detail, Media, OtherPart, Part, Reasoning, Source,
    SystemMessage, TextPart, ToolMessage, UserMessage,
};
use memory_prompt::{Message, ToolCall};
use proptest::collection::{btree_map, vec};
use proptest::option;
use proptest::prelude::*;
use proptest::sample::select;
use serde_json::{Value, json};

/// Texts that something has choked on before, and random ones.
pub fn text() -> BoxedStrategy<String> {
    const HOSTILE: [&str; 14] = [
        "",
        " ",
        "ok",
        "\0",
        "a\0b",
        "\"quoted\" \\ back\\slash",
        "line\nfeed\r\ntab\t\u{7f}",
        "{\"role\":\"user\"}",
        "👩‍👩‍👧‍👦 🇳🇴",
        "e\u{301}\u{302}\u{303}",
        "\u{feff}\u{202e}\u{2028}\u{fffd}\u{10ffff}",
        "漢字かな",
        "$serde_json::private::Number",
        "\u{b1}\u{1}",
    ];
    prop_oneof![
        3 => select(&HOSTILE[..]).prop_map(str::to_owned),
        2 => vec(any::<char>(), 0..12).prop_map(String::from_iter),
        1 => (select(&HOSTILE[..]), 1..300_usize).prop_map(|(text, n)| text.repeat(n)),
    ]
    .boxed()
}

/// JSON values.
pub fn value() -> BoxedStrategy<Value> {
    let leaf = prop_oneof![
        Just(Value::Null),
        any::<bool>().prop_map(Value::from),
        any::<i64>().prop_map(Value::from),
        any::<u64>().prop_map(Value::from),
        any::<f64>().prop_filter("JSON has no others", |f| f.is_finite()).prop_map(Value::from),
        text().prop_map(Value::from),
    ];
    leaf.prop_recursive(4, 16, 4, |inner| {
        prop_oneof![
            vec(inner.clone(), 0..4).prop_map(Value::from),
            btree_map(text(), inner, 0..4).prop_map(|map| map.into_iter().collect()),
        ]
    })
    .boxed()
}

/// Nearly always none, as in life.
pub fn attributes() -> BoxedStrategy<Attributes> {
    let some = btree_map(text(), value(), 0..4).prop_map(|map| map.into_iter().collect());
    prop_oneof![3 => Just(Attributes::new()), 1 => some].boxed()
}

/// Fields that no version knows, under names that are not those of known fields.
pub fn extra() -> BoxedStrategy<Attributes> {
    attributes()
        .prop_map(|fields| {
            fields.into_iter().map(|(name, value)| (format!("x-{name}"), value)).collect()
        })
        .boxed()
}

pub fn media() -> BoxedStrategy<Media> {
    let source = prop_oneof![
        text().prop_map(Source::Url),
        text().prop_map(Source::Base64),
        text().prop_map(Source::FileId),
    ];
    let detail = prop_oneof![
        Just(Detail::Auto),
        Just(Detail::Low),
        Just(Detail::High),
        text().prop_map(|level| Detail::Other(format!("x-{level}"))),
    ];
    (source, option::of(text()), option::of(text()), option::of(detail), extra())
        .prop_map(|(source, media_type, name, detail, extra)| {
            let mut media = Media::url("");
            (media.source, media.media_type, media.name) = (source, media_type, name);
            (media.detail, media.extra) = (detail, extra);
            media
        })
        .boxed()
}

pub fn part() -> BoxedStrategy<Part> {
    let other = (text(), extra()).prop_map(|(kind, mut fields)| {
        fields.insert("type".to_owned(), Value::from(format!("x-{kind}")));
        Part::Other(OtherPart::new(fields).unwrap())
    });
    prop_oneof![
        4 => (text(), extra()).prop_map(|(text, extra)| Part::Text(TextPart { text, extra })),
        1 => media().prop_map(Part::Image),
        1 => media().prop_map(Part::Audio),
        1 => media().prop_map(Part::Video),
        1 => media().prop_map(Part::File),
        1 => other,
    ]
    .boxed()
}

pub fn content() -> BoxedStrategy<Content> {
    prop_oneof![
        2 => text().prop_map(Content::from),
        1 => vec(part(), 0..5).prop_map(Content::from),
    ]
    .boxed()
}

pub fn tool_call() -> BoxedStrategy<ToolCall> {
    let signature = option::weighted(0.2, text());
    (text(), text(), text(), signature, extra())
        .prop_map(|(id, name, arguments, signature, extra)| {
            let mut call = ToolCall::new(id, name, arguments);
            (call.signature, call.extra) = (signature, extra);
            call
        })
        .boxed()
}

pub fn reasoning() -> BoxedStrategy<Reasoning> {
    (text(), option::of(text()), extra())
        .prop_map(|(text, signature, extra)| {
            let mut reasoning = Reasoning::new(text);
            (reasoning.signature, reasoning.extra) = (signature, extra);
            reasoning
        })
        .boxed()
}

/// Answers with their parts in any order, in the usual order, and with many calls.
pub fn ai() -> BoxedStrategy<AiMessage> {
    let any_order = vec(
        prop_oneof![
            part().prop_map(AiPart::from),
            reasoning().prop_map(AiPart::from),
            tool_call().prop_map(AiPart::from),
        ],
        0..6,
    );
    let usual = (vec(reasoning(), 0..3), vec(part(), 0..3), vec(tool_call(), 0..4)).prop_map(
        |(reasoning, content, calls)| -> Vec<AiPart> {
            let reasoning = reasoning.into_iter().map(AiPart::from);
            let content = content.into_iter().map(AiPart::from);
            reasoning.chain(content).chain(calls.into_iter().map(AiPart::from)).collect()
        },
    );
    let many = (tool_call(), 1..200_usize).prop_map(|(call, n)| vec![AiPart::from(call); n]);
    let body = prop_oneof![
        4 => text().prop_map(AiMessage::new),
        4 => usual.prop_map(AiMessage::from_parts),
        4 => any_order.prop_map(AiMessage::from_parts),
        1 => many.prop_map(AiMessage::from_parts),
    ];
    (body, option::weighted(0.1, text()), attributes())
        .prop_map(|(mut message, name, attributes)| {
            if let Some(name) = name {
                message = message.with_name(name);
            }
            attributes.into_iter().fold(message, |message, (key, v)| message.with_attribute(key, v))
        })
        .boxed()
}

pub fn tool() -> BoxedStrategy<ToolMessage> {
    (text(), text(), content(), any::<bool>(), attributes())
        .prop_map(|(id, name, content, is_error, attributes)| {
            let message = ToolMessage::new(id, name, content).with_error(is_error);
            attributes.into_iter().fold(message, |message, (key, v)| message.with_attribute(key, v))
        })
        .boxed()
}

pub fn user() -> BoxedStrategy<UserMessage> {
    (content(), option::weighted(0.2, text()), attributes())
        .prop_map(|(content, name, attributes)| {
            let mut message = UserMessage::new(content);
            if let Some(name) = name {
                message = message.with_name(name);
            }
            attributes.into_iter().fold(message, |message, (key, v)| message.with_attribute(key, v))
        })
        .boxed()
}

pub fn system() -> BoxedStrategy<SystemMessage> {
    (text(), option::weighted(0.2, text()), attributes())
        .prop_map(|(text, name, attributes)| {
            let mut message = SystemMessage::new(text);
            if let Some(name) = name {
                message = message.with_name(name);
            }
            attributes.into_iter().fold(message, |message, (key, v)| message.with_attribute(key, v))
        })
        .boxed()
}

/// A role that no version knows, with whatever fields.
pub fn unknown_role() -> BoxedStrategy<Message> {
    let field = prop_oneof![
        1 => select(&["content", "name", "attributes", "tool_calls", "type"][..]).prop_map(str::to_owned),
        1 => text().prop_map(|name| format!("x-{name}")),
    ];
    (text(), btree_map(field, value(), 0..5))
        .prop_map(|(role, fields)| {
            let mut object: Attributes = fields.into_iter().collect();
            object.insert("role".to_owned(), json!(format!("x-{role}")));
            serde_json::from_value(Value::Object(object)).unwrap()
        })
        .boxed()
}

/// Any message at all, now and then with fields that no version knows.
pub fn message() -> BoxedStrategy<Message> {
    let known = prop_oneof![
        2 => system().prop_map(Message::from),
        6 => user().prop_map(Message::from),
        6 => ai().prop_map(Message::from),
        4 => tool().prop_map(Message::from),
        1 => attributes().prop_map(Message::custom),
        1 => unknown_role(),
    ];
    (known, extra())
        .prop_map(|(message, extra)| {
            let mut object = serde_json::to_value(&message).unwrap();
            object.as_object_mut().unwrap().extend(extra);
            serde_json::from_value(object).unwrap()
        })
        .boxed()
}
