//! Damaged documents: an error, or messages that can be written and read again; and no error says
//! what was said.

use std::error::Error as StdError;
use std::fs;
use std::ops::Range;
use std::path::Path;
use std::sync::Arc;
use std::time::UNIX_EPOCH;

use crate::common::{decoding, message};
use crate::counted::counted;
use memory_prompt::codec::{self, Codec};
use memory_prompt::message::{
    AiMessage, AiPart, Attributes, Content, OtherPart, Part, TextPart, ToolMessage, UserMessage,
};
use memory_prompt::record::{Records, Snapshot, Unreadable};
use memory_prompt::token::Estimate;
use memory_prompt::wire::{anthropic, gemini};
use memory_prompt::{
    Budget, Clear, Composer, Error, ErrorKind, Message, Provider, ToolCall, Truncate, Window,
};
use proptest::collection::vec;
use proptest::prelude::*;
use proptest::sample::Index;
use serde_json::{Value, json};

/// Every document under `tests/formats`.
fn documents() -> Vec<Vec<u8>> {
    let folder = Path::new(env!("CARGO_MANIFEST_DIR")).join("tests/formats/v1");
    let files = fs::read_dir(folder).unwrap().map(|entry| entry.unwrap().path());
    files.filter(|path| path.is_file()).map(|path| fs::read(path).unwrap()).collect()
}

/// All that a decoder says of these bytes, each error with its causes.
fn complaints(bytes: &[u8]) -> Vec<String> {
    fn chain(error: &(dyn StdError + 'static)) -> Vec<String> {
        let causes = std::iter::successors(Some(error), |error| (*error).source());
        causes.flat_map(|error| [error.to_string(), format!("{error:?}")]).collect()
    }
    let mut told = Vec::new();
    told.extend(codec::decode(bytes).err().iter().flat_map(|error| chain(error)));
    told.extend(codec::decode_all(bytes).err().iter().flat_map(|error| chain(error)));
    if let Ok(text) = str::from_utf8(bytes) {
        let mut errors = vec![
            serde_json::from_str::<Message>(text).err(),
            serde_json::from_str::<Content>(text).err(),
            serde_json::from_str::<AiPart>(text).err(),
        ];
        if let Ok(value) = serde_json::from_str::<Value>(text) {
            errors.push(serde_json::from_value::<Message>(value.clone()).err());
            errors.push(serde_json::from_value::<ToolMessage>(value).err());
        }
        told.extend(errors.iter().flatten().flat_map(|error| chain(error)));
    }
    told
}

/// Of 52,839 documents with one bit or byte damaged, 56 gave a part without a `type`, or an extra
/// field with the name of a known one: they could be sent and stored, until somebody wrote JSON,
/// and then every prompt that held one could not be written at all.
#[test]
fn one_damaged_byte_gives_an_error_or_a_message_that_can_be_written() {
    let mut tried = 0;
    for (number, document) in documents().iter().enumerate() {
        for at in 0..document.len() {
            let mut bytes = document.clone();
            let odd = [0, 0xff, (at * 31 + number * 7).to_le_bytes()[0]];
            let flips = (0..8).map(|bit| document[at] ^ (1 << bit));
            for byte in flips.chain(odd) {
                bytes[at] = byte;
                decoding::any(&bytes);
                tried += 1;
            }
        }
    }
    println!("counted: {tried} damaged documents");
    assert!(tried > 50_000, "{tried} damaged documents are fewer than this law says");
}

/// In bincode a length is all that tells whose a text is.
#[test]
fn what_only_damage_can_make_is_refused() {
    let bytes = |body: &[u8]| [b"\xB1\x01\x01", body].concat();
    for (body, expected) in [
        (&b"\x01\x01\x01\x05\x00\x00"[..], "codec: part: missing field `type`, before byte 8"),
        (
            b"\x01\x01\x01\x05\x0A{\"type\":1}\x00",
            "codec: part: `type` must be a text, before byte 18",
        ),
        (
            b"\x01\x01\x01\x05\x0F{\"type\":\"text\"}\x00",
            "codec: part: `text` is the type of a known part, before byte 23",
        ),
        (
            b"\x01\x01\x01\x00\x01a\x0A{\"text\":1}\x00",
            "codec: the field `text` stands among the extra fields too, before byte 20",
        ),
        (
            b"\x01\x00\x01a\x01\x00\x00\x0A{\"role\":1}",
            "codec: the field `role` stands among the extra fields too, before byte 21",
        ),
        (
            b"\x02\x01\x01\x00\x05\x14{\"type\":\"reasoning\"}\x00",
            "codec: part: `reasoning` is the type of a known part, before byte 29",
        ),
        (
            b"\x04\x04user\x00\x00",
            "codec: message: `user` is the role of a known message, before byte 11",
        ),
        (
            b"\x01\x00\x01a\x01\x00\x09\"hunter2\"\x00",
            "codec: extra fields that are no JSON object, before byte 19",
        ),
    ] {
        let error = codec::decode(&bytes(body)).unwrap_err();
        assert_eq!(error.to_string(), expected, "{}", body.escape_ascii());
    }
}

/// A part without a `type` could be made in code too, and failed only when it was written.
#[test]
fn no_part_can_be_made_that_can_not_be_written() {
    let fields = |json: Value| -> Attributes { serde_json::from_value(json).unwrap() };
    let deep = (0..101).fold(json!(0), |inner, _| json!([inner]));
    for (part, expected) in [
        (json!({}), "part: missing field `type`"),
        (json!({"type": null}), "part: `type` must be a text"),
        (json!({"type": "image"}), "part: `image` is the type of a known part"),
        (json!({"type": "tool_call"}), "part: `tool_call` is the type of a known part"),
        (json!({"type": "x", "k": deep}), "part: a field is nested deeper than 100 levels"),
    ] {
        let error = OtherPart::new(fields(part)).unwrap_err();
        assert_eq!(error.kind(), ErrorKind::Invalid);
        assert_eq!(error.to_string(), expected);
    }
    let widget = OtherPart::try_from(fields(json!({"type": "widget", "n": 1}))).unwrap();
    assert_eq!((widget.kind(), &widget.fields()["n"]), ("widget", &json!(1)));
    decoding::rewrite(&[
        Message::user([Part::Other(widget.clone())]),
        AiMessage::from_parts([Part::Other(widget)]).into(),
    ]);
}

const SECRET: &str = "hunter2";
/// A number that nobody says by accident.
const NUMBER: u64 = 4_929_111_222_333_444;

/// The same with the secret in every text, name and number that is not part of the format.
fn spill(value: &mut Value) {
    match value {
        Value::String(text) => text.push_str(SECRET),
        Value::Number(number) => *number = NUMBER.into(),
        Value::Array(list) => list.iter_mut().for_each(spill),
        Value::Object(map) => {
            for (key, mut value) in std::mem::take(map) {
                spill(&mut value);
                map.insert(format!("{key}{SECRET}"), value);
            }
        }
        _ => {}
    }
}

fn spilt(attributes: &Attributes) -> Attributes {
    let mut value = Value::Object(attributes.clone());
    spill(&mut value);
    value.as_object().cloned().unwrap_or_default()
}

fn part(part: &Part) -> Part {
    let mut json = serde_json::to_value(part).unwrap();
    if let Part::Other(_) = part {
        spill(&mut json);
        let kind = json[format!("type{SECRET}")].take();
        json["type"] = kind;
        return serde_json::from_value(json).unwrap();
    }
    for (key, value) in json.as_object_mut().unwrap() {
        if key != "type" {
            spill(value);
        }
    }
    serde_json::from_value(json).unwrap()
}

/// The same message, with secrets in all that it says.
fn secretive(message: &Message) -> Message {
    let said = format!("{}{SECRET}", message.text());
    match message {
        Message::User(user) => {
            let parts: Vec<Part> = user.content().parts().iter().map(part).collect();
            let content = if parts.is_empty() { Content::from(said) } else { parts.into() };
            spilt(user.attributes())
                .into_iter()
                .fold(UserMessage::new(content).with_name(SECRET), |user, (key, value)| {
                    user.with_attribute(key, value)
                })
                .into()
        }
        Message::Ai(ai) => {
            let parts = ai.parts().iter().map(|it| match it {
                AiPart::Content(content) => AiPart::Content(part(content)),
                AiPart::ToolCall(call) => {
                    ToolCall { extra: spilt(&call.extra), ..ToolCall::new(SECRET, SECRET, SECRET) }
                        .into()
                }
                AiPart::Reasoning(thought) => {
                    let mut thought = thought.clone();
                    (thought.text, thought.extra) = (SECRET.to_owned(), spilt(&thought.extra));
                    thought.into()
                }
                _ => AiPart::from(SECRET),
            });
            AiMessage::from_parts(parts)
                .with_part(Part::Text(TextPart { text: said, extra: spilt(ai.attributes()) }))
                .into()
        }
        Message::Tool(tool) => spilt(tool.attributes())
            .into_iter()
            .fold(ToolMessage::new(SECRET, SECRET, said), |tool, (key, value)| {
                tool.with_attribute(key, value)
            })
            .into(),
        Message::Custom(custom) => Message::custom(spilt(custom.attributes())),
        _ => Message::system(said),
    }
}

fn assert_silent(bytes: &[u8]) {
    for told in complaints(bytes) {
        assert!(!told.contains(SECRET), "{told}");
        assert!(!told.contains(&NUMBER.to_string()), "{told}");
        assert!(told.len() <= 1024, "{} bytes: {told:.200}", told.len());
    }
}

/// A document of five megabytes with a text where a message belongs gave an error of five
/// megabytes, the user's password among them: serde quotes what it did not expect.
#[test]
fn an_error_is_short_whatever_it_is_about() {
    let document = format!(r#"{{"v":1,"message":"{}"}}"#, SECRET.repeat(700_000));
    let error = codec::decode(document.as_bytes()).unwrap_err();
    assert_eq!(
        error.to_string(),
        "codec: message: expected an object, found a string at line 1 column 4900019"
    );
    let long = SECRET.repeat(10_000);
    for text in [
        format!(r#"{{"v":1,"message":"{long}"}}"#),
        format!(r#"{{"v":1,"messages":"{long}"}}"#),
        format!(r#"{{"v":"{long}"}}"#),
        format!(r#"{{"v":1,"message":{{"role":"{long}","{long}":1,"{long}":2}}}}"#),
        format!(r#"{{"v":1,"message":{{"role":["{long}"]}}}}"#),
        format!(r#"{{"v":1,"message":{{"role":"assistant","tool_calls":["{long}"]}}}}"#),
        format!(
            r#"{{"v":1,"message":{{"role":"user","content":[{{"type":"{long}","{long}":1,"{long}":1}}]}}}}"#
        ),
        format!(r#"["{long}"]"#),
        format!(r#""{long}""#),
        long,
    ] {
        assert!(codec::decode(text.as_bytes()).is_err(), "{text:.60}");
        assert_silent(text.as_bytes());
        let inside = text.trim_start_matches(r#"{"v":1,"message":"#);
        assert_silent(inside.strip_suffix('}').unwrap_or(inside).as_bytes());
    }
    assert_silent(NUMBER.to_string().as_bytes());
    assert_silent(format!(r#"{{"v":{NUMBER}.5}}"#).as_bytes());
    assert_silent(format!(r#"{{"role":"user","content":{NUMBER}}}"#).as_bytes());
}

/// One value of a document replaced by another: what it expects least.
fn misplaced(value: &mut Value, place: &mut usize, with: &Value) {
    if *place == 0 {
        *value = with.clone();
        *place = usize::MAX;
        return;
    }
    *place -= 1;
    match value {
        Value::Array(list) => list.iter_mut().for_each(|value| misplaced(value, place, with)),
        Value::Object(map) => map.values_mut().for_each(|value| misplaced(value, place, with)),
        _ => {}
    }
}

/// Cuts bytes off, or puts one in, takes one out or changes one.
pub(crate) fn damaged(bytes: &mut Vec<u8>, (index, byte, how): (Index, u8, u8)) {
    let at = index.index(bytes.len() + 1);
    match how {
        0 => bytes.truncate(at),
        1 => bytes.insert(at, byte),
        2 if at < bytes.len() => drop(bytes.remove(at)),
        _ => bytes.iter_mut().skip(at).take(1).for_each(|b| *b = byte),
    }
}

counted! {
    #![cases(256)]

    #[test]
    fn no_error_says_what_was_said(
        messages in vec(message(), 1..4),
        damage in vec((any::<Index>(), any::<u8>(), 0..4_u8), 1..4),
        place in 0usize..40, kind in 0..5_u8,
    ) {
        let messages: Vec<Message> = messages.iter().map(secretive).collect();
        for codec in [Codec::Json, Codec::Bincode] {
            let mut bytes = codec.encode_all(&messages).unwrap();
            for wound in &damage {
                damaged(&mut bytes, *wound);
                assert_silent(&bytes);
                decoding::any(&bytes);
            }
        }
        // A value of the wrong kind in each place that there is.
        let with = match kind {
            0 => json!(SECRET),
            1 => json!(NUMBER),
            2 => json!([SECRET, NUMBER]),
            3 => json!({SECRET: SECRET}),
            _ => json!(-2.5e10),
        };
        let envelope = serde_json::from_slice(&Codec::Json.encode_all(&messages).unwrap()).unwrap();
        for tree in [envelope, serde_json::to_value(&messages[0]).unwrap()] {
            let (mut tree, mut place) = (tree, place);
            misplaced(&mut tree, &mut place, &with);
            let text = tree.to_string();
            assert_silent(text.as_bytes());
            decoding::json(text.as_bytes());
        }
    }
}

/// Composes this snapshot in several ways; returns how many were an error.
fn compose(positions: Range<u64>, rows: &[u64], unreadable: &[u64]) -> (usize, usize) {
    let call =
        |position: u64| Message::ai_calls([ToolCall::new(format!("c{}", position / 2), "t", "{}")]);
    let message = |position: u64| match position % 5 {
        0 => Message::user("Where?"),
        1 => call(position),
        2 => Message::tool(format!("c{}", position / 2), "t", "There. ".repeat(30)),
        3 => Message::system("Be brief."),
        _ => Message::ai("Here."),
    };
    let rows = rows.iter().map(|position| (*position, UNIX_EPOCH, message(*position)));
    let mut snapshot = Snapshot::new(positions, Records::from_rows(rows));
    let error = Arc::new(Error::new(ErrorKind::Codec, "read", "no row"));
    let row = |position: &u64| Unreadable { position: *position, error: Arc::clone(&error) };
    snapshot.unreadable = unreadable.iter().map(row).collect();
    let plain = Composer::new();
    let windows = [
        Window::last(3),
        Window::all(),
        Window::turns(2),
        Window::stepped(2, 3).unwrap(),
        Window::last(2).starting_with_user(),
    ];
    let ways = windows.into_iter().flat_map(|window| {
        let plain = plain.clone().window(window);
        let full = plain.clone().max_tokens(Budget::new(200), Estimate).with_pins().with_summary();
        let full = full.truncate(Truncate::chars(9).unwrap()).clear(Clear::tool_results().keep(1));
        [plain, full.clone(), full.for_provider(Provider::Anthropic)]
    });
    let composed = ways.map(|composer| composer.compose(snapshot.clone(), &[]).is_err());
    composed.fold((0, 0), |(errors, all), error| (errors + usize::from(error), all + 1))
}

/// A memory of somebody's own said that it ends at 3, and had records at 7, or one at the last
/// position that there is: where overflow is checked, composing panicked.
#[test]
fn records_behind_the_end_are_an_error() {
    const LAST: u64 = u64::MAX;
    let hostile: [(Range<u64>, &[u64], &[u64]); 8] = [
        (0..3, &[0, 1, 7], &[]),
        (0..3, &[3], &[]),
        (Range { start: 5, end: 3 }, &[], &[]),
        (0..LAST, &[LAST], &[]),
        (0..LAST, &[LAST - 1, LAST, LAST], &[]),
        (0..9, &[4, 4], &[]),
        (0..3, &[1], &[3]),
        (0..LAST, &[1], &[LAST]),
    ];
    for (positions, rows, unreadable) in hostile {
        let (errors, all) = compose(positions.clone(), rows, unreadable);
        assert_eq!(errors, all, "{positions:?} {rows:?} {unreadable:?}");
    }
    assert_eq!(compose(LAST - 3..LAST, &[LAST - 3, LAST - 2, LAST - 1], &[]).0, 0);
}

counted! {
    #![cases(256)]

    #[test]
    fn no_snapshot_makes_composing_panic(
        base in prop_oneof![Just(0), Just(u64::MAX - 9)], positions in (0u64..10, 0u64..10),
        rows in vec(0u64..10, 0..8), unreadable in vec(0u64..10, 0..3),
    ) {
        let at = |positions: Vec<u64>| -> Vec<u64> { positions.into_iter().map(|position| base + position).collect() };
        compose(base + positions.0..base + positions.1, &at(rows), &at(unreadable));
    }
}

/// An answer was an error as a whole, and so paid for nothing, where a tool takes a tree and the
/// model called it with one of a hundred levels.
#[test]
fn arguments_nested_deep_are_kept_as_text() {
    let deep = |levels: usize| format!("{}1{}", "{\"a\":".repeat(levels), "}".repeat(levels));
    for levels in [1, 96, 97, 98, 99, 100, 110, 120] {
        let input = deep(levels);
        let body = format!(
            r#"{{"role":"assistant","content":[{{"type":"text","text":"So."}},
            {{"type":"tool_use","id":"c1","name":"grow","input":{input}}}]}}"#
        );
        let answer = anthropic::answer(body.as_str()).unwrap();
        let call = answer.message.tool_calls().next().unwrap();
        assert_eq!(call.arguments, input, "{levels}");
        let message: Message = answer.message.clone().into();
        for codec in [Codec::Json, Codec::Bincode] {
            let bytes = codec.encode(&message).unwrap();
            assert_eq!(codec::decode(&bytes).unwrap(), message, "{levels}");
        }
        let body = format!(
            r#"{{"candidates":[{{"content":{{"role":"model","parts":[
            {{"functionCall":{{"name":"grow","args":{input}}}}}]}},"finishReason":"STOP"}}]}}"#
        );
        let answer = gemini::answer(body.as_str()).unwrap();
        assert_eq!(answer.message.tool_calls().next().unwrap().arguments, input, "{levels}");
    }
    // What is kept as it is may not be so deep.
    let body = format!(r#"{{"content":[{{"type":"new","input":{}}}]}}"#, deep(100));
    assert_eq!(anthropic::answer(body.as_str()).unwrap_err().kind(), ErrorKind::Codec);
}
