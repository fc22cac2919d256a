//! Whatever is written is read again, and no bytes do harm.

use std::fs;
use std::hash::{DefaultHasher, Hash, Hasher};
use std::path::Path;

use crate::common::{decoding, message, value};
use crate::counted::counted;
use crate::damage::damaged;
use bincode::config::{legacy, standard};
use memory_prompt::codec::{self, Codec};
use memory_prompt::message::{
    AiMessage, AiPart, Attributes, Content, Part, Reasoning, TextPart, UserMessage,
};
use memory_prompt::{Error, ErrorKind, Message, ToolCall};
use proptest::collection::{btree_map, vec};
use proptest::prelude::*;
use proptest::sample::{Index, select};
use serde::de::DeserializeOwned;
use serde_json::{Value, json};

/// JSON with its keys in an order of their own, and the tags first or last.
fn shuffled(value: &Value, seed: u64, tag_last: bool) -> String {
    let rank = |key: &str| {
        let mut hasher = DefaultHasher::new();
        (seed, key).hash(&mut hasher);
        ((key == "role" || key == "type") == tag_last, hasher.finish())
    };
    match value {
        Value::Array(list) => {
            let list: Vec<String> = list.iter().map(|v| shuffled(v, seed, tag_last)).collect();
            format!("[{}]", list.join(","))
        }
        Value::Object(map) => {
            let mut fields: Vec<_> = map.iter().collect();
            fields.sort_by_key(|(key, _)| rank(key));
            let fields: Vec<String> = fields
                .into_iter()
                .map(|(key, v)| format!("{}: {}", json!(key), shuffled(v, seed, tag_last)))
                .collect();
            format!("{{{}}}", fields.join(" , "))
        }
        leaf => leaf.to_string(),
    }
}

fn through_bincode<T: serde::Serialize + DeserializeOwned>(value: &T) -> [T; 2] {
    let small = bincode::serde::encode_to_vec(value, standard()).unwrap();
    let large = bincode::serde::encode_to_vec(value, legacy()).unwrap();
    let (a, read) = bincode::serde::decode_from_slice(&small, standard()).unwrap();
    assert_eq!(read, small.len());
    let (b, read) = bincode::serde::decode_from_slice(&large, legacy()).unwrap();
    assert_eq!(read, large.len());
    [a, b]
}

/// Decodes, and checks what it costs: the bound that `codec`'s documentation states.
fn decode_cheaply(bytes: &[u8]) -> Result<Vec<Message>, Error> {
    let mut result = None;
    let cost = allocation_counter::measure(|| result = Some(codec::decode_all(bytes)));
    let bound = 256 * bytes.len() as u64 + (2 << 20);
    assert!(cost.bytes_max <= bound, "{} bytes for {} bytes", cost.bytes_max, bytes.len());
    result.unwrap()
}

/// It is read as it was written, in both codecs.
#[track_caller]
fn comes_back(message: &Message) {
    for codec in [Codec::Json, Codec::Bincode] {
        assert_eq!(codec::decode(&codec.encode(message).unwrap()).unwrap(), *message);
    }
}

fn error(bytes: &[u8]) -> String {
    let error = codec::decode(bytes).unwrap_err();
    assert_eq!(error.kind(), ErrorKind::Codec);
    error.to_string()
}

fn json_error(text: &str) -> String {
    serde_json::from_str::<Message>(text).unwrap_err().to_string()
}

counted! {
    #![cases(256)]

    #[test]
    fn json_round_trips(message in message(), seed: u64, last: bool) {
        let text = serde_json::to_string(&message).unwrap();
        let pretty = serde_json::to_string_pretty(&message).unwrap();
        let tree = serde_json::to_value(&message).unwrap();
        prop_assert_eq!(&serde_json::from_str::<Message>(&text).unwrap(), &message);
        prop_assert_eq!(&serde_json::from_reader::<_, Message>(text.as_bytes()).unwrap(), &message);
        prop_assert_eq!(&serde_json::from_str::<Message>(&pretty).unwrap(), &message);
        prop_assert_eq!(&serde_json::from_str::<Message>(&shuffled(&tree, seed, last)).unwrap(), &message);
        prop_assert_eq!(&serde_json::from_value::<Message>(tree).unwrap(), &message);
        prop_assert_eq!(serde_json::from_str::<Value>(&text).unwrap(), serde_json::to_value(&message).unwrap());
    }

    #[test]
    fn codecs_round_trip(messages in vec(message(), 0..5)) {
        for codec in [Codec::Json, Codec::Bincode] {
            for message in &messages {
                let bytes = codec.encode(message).unwrap();
                prop_assert_eq!(&codec::decode(&bytes).unwrap(), message);
            }
            let bytes = codec.encode_all(&messages).unwrap();
            let read = decode_cheaply(&bytes).unwrap();
            prop_assert_eq!(&read, &messages);
            prop_assert_eq!(codec.encode_all(&read).unwrap(), bytes);
        }
    }

    #[test]
    fn bincode_itself_round_trips(message in message()) {
        for read in through_bincode(&message) {
            prop_assert_eq!(&read, &message);
        }
        for read in through_bincode(&vec![(7_u8, message.clone(), Some(message.clone()))]) {
            prop_assert_eq!(&read[0].1, &message);
        }
    }

    /// Also inside other people's types, whose derived code hands over buffered data.
    #[test]
    fn round_trips_inside_other_types(message in message()) {
        #[derive(serde::Serialize, serde::Deserialize)]
        #[serde(tag = "kind")]
        enum Event { Said { message: Box<Message> } }
        #[derive(serde::Serialize, serde::Deserialize)]
        struct Row { id: u32, #[serde(flatten)] message: Message }

        let text = serde_json::to_string(&Event::Said { message: Box::new(message.clone()) }).unwrap();
        let Event::Said { message: read } = serde_json::from_str(&text).unwrap();
        prop_assert_eq!(&*read, &message);
        let text = serde_json::to_string(&Row { id: 1, message: message.clone() }).unwrap();
        prop_assert_eq!(serde_json::from_str::<Row>(&text).unwrap().message, message);
    }

    #[test]
    fn damaged_bytes_do_no_harm(
        message in message(),
        bincode: bool,
        damage in vec((any::<Index>(), any::<u8>(), 0..4_u8), 1..4),
    ) {
        let codec = if bincode { Codec::Bincode } else { Codec::Json };
        let mut bytes = codec.encode(&message).unwrap();
        for wound in damage {
            damaged(&mut bytes, wound);
        }
        let _ = decode_cheaply(&bytes);
        decoding::any(&bytes);
        decoding::json(&bytes);
    }

    #[test]
    fn arbitrary_bytes_do_no_harm(bytes in vec(any::<u8>(), 0..200)) {
        let _ = decode_cheaply(&bytes);
        let _ = decode_cheaply(&[&[0xB1, 1], &bytes[..]].concat());
        decoding::json(&bytes);
        decoding::bincode(&bytes);
    }

    /// Whatever is read can be written, as the same thing; and tree and text are read alike.
    #[test]
    fn any_json_is_read_alike_and_kept(value in like_a_message(), seed: u64, last: bool) {
        let tree = serde_json::from_value::<Message>(value.clone());
        let text = serde_json::from_str::<Message>(&shuffled(&value, seed, last));
        prop_assert_eq!(tree.is_ok(), text.is_ok(), "{:?} {:?}", tree, text);
        if let Ok(message) = tree {
            prop_assert_eq!(&text.unwrap(), &message);
            let written = serde_json::to_value(&message).unwrap();
            for (key, field) in value.as_object().unwrap() {
                let shaped = ["role", "name", "content", "reasoning", "tool_calls", "is_error", "attributes"];
                if !shaped.contains(&key.as_str()) {
                    prop_assert_eq!(written.get(key), Some(field), "{}", key);
                }
            }
            decoding::rewrite(&[message]);
        }
    }

    #[test]
    fn any_json_at_all_does_no_harm(value in value()) {
        let _ = serde_json::from_value::<Message>(value.clone());
        let _ = serde_json::from_value::<Content>(value.clone());
        let _ = serde_json::from_value::<AiPart>(value.clone());
        decoding::json(value.to_string().as_bytes());
    }
}

/// Objects of the right names with values that are often wrong.
fn like_a_message() -> impl Strategy<Value = Value> {
    fn object(value: impl Strategy<Value = Value>) -> impl Strategy<Value = Value> {
        let names = "role type content name text id arguments signature url \
            data detail reasoning tool_calls tool_call_id is_error attributes other";
        let names: Vec<&str> = names.split_whitespace().collect();
        btree_map(select(names), value, 0..8).prop_map(|fields| {
            fields.into_iter().map(|(name, value)| (name.to_owned(), value)).collect()
        })
    }
    let words: Vec<&str> =
        "user assistant tool text image reasoning tool_call low custom x ".split(' ').collect();
    let leaf = prop_oneof![
        8 => select(words).prop_map(Value::from),
        1 => Just(Value::Null),
        1 => any::<bool>().prop_map(Value::from),
        1 => any::<i32>().prop_map(Value::from),
    ];
    let tree = leaf.prop_recursive(3, 24, 8, |inner| {
        let part =
            (select(&["text", "image", "reasoning", "tool_call", "x"][..]), object(inner.clone()))
                .prop_map(|(kind, mut part)| {
                    let fields = part.as_object_mut().unwrap();
                    fields.insert("type".to_owned(), json!(kind));
                    for name in ["text", "id", "name", "arguments"] {
                        fields.entry(name).or_insert_with(|| json!("?"));
                    }
                    part
                });
        prop_oneof![
            vec(inner.clone(), 0..3).prop_map(Value::from),
            vec(part, 0..4).prop_map(Value::from),
            object(inner)
        ]
    });
    (select(&["user", "assistant", "ai", "tool", "system", "custom", "x"][..]), object(tree))
        .prop_map(|(role, mut message)| {
            let fields = message.as_object_mut().unwrap();
            fields.insert("role".to_owned(), json!(role));
            fields.entry("content").or_insert_with(|| json!("hi"));
            message
        })
}

#[test]
fn seeds_of_the_fuzzers_do_no_harm() {
    let seeds = Path::new(env!("CARGO_MANIFEST_DIR")).join("fuzz/seeds");
    if !seeds.exists() {
        return; // the published package has no fuzz folder
    }
    for target in ["decode_json", "decode_bincode"] {
        let check = if target == "decode_json" { decoding::json } else { decoding::bincode };
        let folder = fs::read_dir(seeds.join(target)).unwrap();
        let seeds: Vec<_> = folder.map(|seed| fs::read(seed.unwrap().path()).unwrap()).collect();
        assert!(seeds.len() > 5, "{target}");
        for seed in seeds {
            check(&seed);
        }
    }
}

// ---- the shape of JSON --------------------------------------------------------------------------

#[test]
fn json_is_what_a_person_would_write() {
    let call = ToolCall::new("call_1", "look", r#"{"x":1}"#);
    for (message, json) in [
        (Message::user("hi"), r#"{"role":"user","content":"hi"}"#),
        (
            AiMessage::new("Let me look.").with_tool_call(call).into(),
            r#"{"role":"assistant","content":"Let me look.","tool_calls":[{"id":"call_1","name":"look","arguments":"{\"x\":1}"}]}"#,
        ),
        (
            Message::custom([("k".to_owned(), json!("v"))]),
            r#"{"role":"custom","attributes":{"k":"v"}}"#,
        ),
    ] {
        assert_eq!(serde_json::to_string(&message).unwrap(), json);
    }
}

#[test]
fn the_documentation_is_true() {
    let source = include_str!("../../src/message.rs");
    let examples =
        source.lines().filter_map(|line| line.strip_prefix("//! {").map(|s| format!("{{{s}")));
    let mut count = 0;
    for json in examples {
        let message: Message = serde_json::from_str(&json).unwrap();
        assert_eq!(serde_json::to_string(&message).unwrap(), json);
        count += 1;
    }
    assert_eq!(count, 7);
}

/// The rows of a table: a text, and what is said of it.
fn rows(table: &str) -> impl Iterator<Item = (&str, &str)> {
    table.trim().lines().map(|row| row.trim().split_once(" => ").unwrap())
}

#[test]
fn errors_name_the_field() {
    let table = r#"
        {"role":"user"} => content: missing
        {"content":"hi"} => role: missing
        {"role":null} => role: missing
        {"role":7} => role: expected a string, found a number
        {"role":"user","content":5} => content: expected a string or an array, found a number
        {"content":5,"role":"user"} => content: expected a string or an array, found a number
        {"role":"user","content":null} => content: missing
        {"role":"system","content":[]} => content: expected a string, found an array
        {"role":"assistant"} => content: missing
        {"role":"assistant","tool_calls":"x"} => tool_calls: expected an array, found a string
        {"role":"assistant","tool_calls":[{"id":"1","name":"n"}]} => tool_calls[0].arguments: missing
        {"role":"assistant","tool_calls":[{"id":"1","name":"n","arguments":{}}]} => tool_calls[0].arguments: expected a string, found an object
        {"role":"tool","content":"x"} => tool_call_id: missing
        {"role":"tool","tool_call_id":"1","content":"x","is_error":"no"} => is_error: expected a boolean, found a string
        {"role":"user","content":"x","attributes":[]} => attributes: expected an object, found an array
        {"role":"user","content":[{}]} => content[0].type: missing
        {"role":"user","content":[{"type":"text"}]} => content[0].text: missing
        {"role":"user","content":[{"type":"text","text":""},{"type":"image"}]} => content[1]: none of `url`, `data`, `file_id`, `reference`
        {"role":"user","content":[{"type":"image","url":"a","data":"b"}]} => content[0]: more than one of `url`, `data`, `file_id`, `reference`
        [] => expected an object, found an array
    "#;
    for (text, expected) in rows(table) {
        let expected = format!("message: {expected} at line 1 column {}", text.len());
        assert_eq!(json_error(text), expected, "{text}");
    }
}

/// A reference is written as it was read, in both codecs, and one that is none is told by its place
/// and without its text.
#[test]
fn references_are_read_and_refused() {
    let hash = "00ff".repeat(16);
    let of = |reference: &str| {
        let part =
            format!(r#"{{"type":"image","reference":{reference},"media_type":"image/png"}}"#);
        format!(r#"{{"role":"user","content":[{part}]}}"#)
    };
    let whole = format!(
        r#"{{"sha256":"{hash}","size":7,"picture":{{"media_type":"image/png","width":3,"height":2}}}}"#
    );
    let bare = format!(r#"{{"sha256":"{hash}","size":18446744073709551615,"picture":null}}"#);
    for text in [whole, bare].map(|it| of(&it)) {
        let message: Message = serde_json::from_str(&text).unwrap();
        assert_eq!(serde_json::to_string(&message).unwrap(), text);
        comes_back(&message);
    }
    let wrong = [
        "{}".to_owned(),
        "7".to_owned(),
        format!(r#"{{"sha256":"{hash}","size":-1}}"#),
        format!(r#"{{"sha256":"{hash}","size":1,"secret":"mine"}}"#),
        format!(r#"{{"sha256":"{}","size":1}}"#, &hash[1..]),
        format!(r#"{{"sha256":"+{}","size":1}}"#, &hash[1..]),
        format!(r#"{{"sha256":"{}é","size":1}}"#, &hash[2..]),
        format!(r#"{{"sha256":"{hash}","size":1,"picture":{{"media_type":"secret"}}}}"#),
    ];
    for text in wrong.map(|it| of(&it)) {
        let error = json_error(&text);
        assert!(error.contains("content[0].reference: `sha256` and `size`"), "{error}");
        assert!(!error.contains("secret") && !error.contains("ff"), "{error}");
    }
}

/// What a reader makes of a key that stands there twice differs from reader to reader: a hole.
#[test]
fn duplicate_keys_are_errors() {
    for text in [
        r#"{"role":"user","role":"user","content":"a"}"#,
        r#"{"content":"a","role":"user","role":"tool"}"#,
        r#"{"role":"user","content":"a","content":"b"}"#,
        r#"{"content":"a","role":"user","content":"b"}"#,
        r#"{"content":"a","content":"b","role":"user"}"#,
        r#"{"role":"user","content":"a","x":1,"x":1}"#,
        r#"{"role":"y","x":1,"x":1}"#,
        r#"{"role":"user","name":null,"name":"n","content":"a"}"#,
        r#"{"role":"user","content":[{"type":"text","type":"x","text":""}]}"#,
        r#"{"role":"assistant","tool_calls":[{"id":"","id":"","name":"","arguments":""}]}"#,
        r#"{"role":"user","content":"a","attributes":{"a":[{"b":1,"b":2}]}}"#,
    ] {
        let error = json_error(text);
        assert!(error.starts_with("a field stands there twice at line 1"), "{text}: {error}");
    }
}

#[test]
fn unknown_fields_and_kinds_survive() {
    for text in [
        r#"{"role":"user","content":"hi","tool_calls":[{"odd":1}],"weight":0.5}"#,
        r#"{"role":"user","content":[{"type":"widget","size":3}]}"#,
        r#"{"role":"user","content":[{"type":"reasoning","text":"not an answer"}]}"#,
        r#"{"role":"user","content":[{"type":"image","url":"u","detail":"ultra","alt":"a cat"}]}"#,
        r#"{"role":"assistant","reasoning":[{"text":"t","id":"r"}],"content":"x","refusal":null}"#,
        r#"{"role":"assistant","tool_calls":[{"id":"1","name":"n","arguments":"","type":"function"}]}"#,
        r#"{"role":"narrator","text":"Meanwhile","n":[1,{"a":null}]}"#,
        r#"{"role":"narrator","attributes":5}"#,
        r#"{"role":"narrator","attributes":{}}"#,
        r#"{"role":"","x":1}"#,
        r#"{"role":"custom","attributes":{"a":1},"beside":2}"#,
        r#"{"role":"tool","tool_call_id":"1","content":"","tool_calls":null}"#,
    ] {
        let message: Message = serde_json::from_str(text).unwrap();
        let written = serde_json::to_string(&message).unwrap();
        let [before, after] = [text, &written].map(|t| serde_json::from_str::<Value>(t).unwrap());
        assert_eq!(before, after);
        comes_back(&message);
    }
}

#[test]
fn either_shape_of_an_answer_is_read() {
    let call = ToolCall::new("1", "n", "{}");
    let message =
        Message::from(AiMessage::new("x").with_tool_call(call).with_reasoning(Reasoning::new("r")));
    for text in [
        r#"{"role":"assistant","reasoning":"r","content":"x","tool_calls":[{"id":"1","name":"n","arguments":"{}"}]}"#,
        r#"{"role":"ai","content":[{"type":"reasoning","text":"r"},{"type":"text","text":"x"},{"type":"tool_call","id":"1","name":"n","arguments":"{}"}]}"#,
        r#"{"role":"ai","content":[{"type":"reasoning","text":"r"},{"type":"text","text":"x"}],"tool_calls":[{"id":"1","name":"n","arguments":"{}"}]}"#,
    ] {
        assert_eq!(serde_json::from_str::<Message>(text).unwrap(), message);
    }
}

#[test]
fn null_is_no_value() {
    let text = r#"{"role":"assistant","content":null,"reasoning":null,"tool_calls":null,"name":null,"attributes":null}"#;
    assert_eq!(serde_json::from_str::<Message>(text).unwrap(), Message::ai(""));
    let text = r#"{"role":"tool","tool_call_id":"1","name":null,"content":"x","is_error":null}"#;
    assert_eq!(serde_json::from_str::<Message>(text).unwrap(), Message::tool("1", "", "x"));
}

#[test]
fn each_struct_reads_its_own_kind() {
    let text = serde_json::to_string(&UserMessage::new("hi")).unwrap();
    assert_eq!(text, r#"{"role":"user","content":"hi"}"#);
    assert_eq!(serde_json::from_str::<UserMessage>(&text).unwrap(), UserMessage::new("hi"));
    let error = serde_json::from_str::<AiMessage>(&text).unwrap_err().to_string();
    assert_eq!(error, "message: role: not that of an `AiMessage` at line 1 column 30");
    for message in through_bincode(&UserMessage::new("hi")) {
        assert_eq!(message, UserMessage::new("hi"));
    }
}

/// What could be written but not read again is not written.
#[test]
fn extra_fields_have_names_of_their_own() {
    let taken = |name: &str| -> Attributes { [(name.to_owned(), json!(1))].into_iter().collect() };
    let text = |name| Part::Text(TextPart { text: String::new(), extra: taken(name) });
    for (part, expected) in [
        (text("text"), "codec: the field `text` stands among the extra fields too"),
        (text("type"), "codec: the field `type` stands among the extra fields too"),
    ] {
        assert_eq!(Codec::Json.encode(&Message::user([part])).unwrap_err().to_string(), expected);
    }
}

/// In `tool_calls` a call may have an unknown `type`; among other parts it has one already.
#[test]
fn a_call_with_a_type_of_its_own_stands_last() {
    let text = r#"{"role":"assistant","tool_calls":[{"id":"1","name":"n","arguments":"","type":"function"}]}"#;
    let message: AiMessage = serde_json::from_str(text).unwrap();
    assert_eq!(serde_json::to_string(&message).unwrap(), text);
    // Calls behind all else stay where they are, whatever the order before them is.
    let mixed = r#"{"role":"assistant","reasoning":[{"text":"t","type":"summary"}],"content":[{"type":"text","text":"a"},{"type":"reasoning","text":"hm"}],"tool_calls":[{"id":"1","name":"n","arguments":"","type":"function"}]}"#;
    let read: AiMessage = serde_json::from_str(mixed).unwrap();
    assert_eq!(serde_json::to_string(&read).unwrap(), mixed);
    let error = serde_json::to_string(&message.with_part("more")).unwrap_err().to_string();
    assert_eq!(error, "the field `type` stands among the extra fields too");
}

// ---- numbers, depth, odd texts ------------------------------------------------------------------

#[test]
fn numbers() {
    let whole =
        [json!(i64::MIN), json!(u64::MAX), json!(0), json!(-0.0), json!(1e300), json!(0.125)];
    let message = Message::custom([("n".to_owned(), json!(whole))]);
    comes_back(&message);
    // Beyond 64 bits a number is a float, and beyond those an error.
    let large: Message = serde_json::from_str(r#"{"role":"x","n":18446744073709551616}"#).unwrap();
    assert_eq!(
        serde_json::to_string(&large).unwrap(),
        r#"{"role":"x","n":1.8446744073709552e+19}"#
    );
    assert!(json_error(r#"{"role":"x","n":1e400}"#).starts_with("number out of range"));
}

fn nested(levels: usize) -> Value {
    (1..levels).fold(json!([]), |inner, _| json!([inner]))
}

#[test]
fn depth_is_bounded() {
    for place in 0..3 {
        let at = |levels| match place {
            0 => json!({"role": "user", "content": "", "attributes": {"k": nested(levels)}}),
            1 => json!({"role": "user", "content": "", "unknown": nested(levels)}),
            _ => json!({"role": "user", "content": [{"type": "x", "k": nested(levels)}]}),
        };
        let message: Message = serde_json::from_value(at(100)).unwrap();
        for codec in [Codec::Json, Codec::Bincode] {
            let all = codec.encode_all([&message]).unwrap();
            assert_eq!(codec::decode(&all).unwrap(), message);
        }
        let error = serde_json::from_value::<Message>(at(101)).unwrap_err().to_string();
        let place = ["attributes: ", "", "content[0]: "][place];
        assert_eq!(error, format!("message: {place}a field is nested deeper than 100 levels"));
    }
    let message = Message::custom([("k".to_owned(), nested(101))]);
    for codec in [Codec::Json, Codec::Bincode] {
        let error = codec.encode(&message).unwrap_err();
        assert_eq!(error.to_string(), "codec: a field is nested deeper than 100 levels");
    }
    for open in ["[", r#"{"a":"#, r#"{"role":"user","content":["#] {
        let deep = format!(r#"{{"v":1,"message":{{"role":"x","a":{}"#, open.repeat(200_000));
        assert!(error(deep.as_bytes()).starts_with("codec: recursion limit exceeded"));
        assert!(error(&deep.as_bytes()[7..]).starts_with("codec: "));
    }
}

#[test]
fn lone_surrogates_are_an_error() {
    for escape in [r"\ud800", r"\udc00", r"\ud800\ud800", r"\ud83d\u0041"] {
        let error = json_error(&format!(r#"{{"role":"user","content":"{escape}"}}"#));
        assert!(error.contains("surrogate") || error.contains("hex escape"), "{error}");
    }
    let pair: Message =
        serde_json::from_str(r#"{"role":"user","content":"\ud83d\ude00"}"#).unwrap();
    assert_eq!(pair, Message::user("😀"));
}

// ---- the envelope -------------------------------------------------------------------------------

#[test]
fn envelope_errors() {
    let bincode = Codec::Bincode.encode(&Message::user("hi")).unwrap();
    assert_eq!(bincode, b"\xB1\x01\x01\x01\x00\x02hi\x00");
    for (bytes, expected) in [
        (&b""[..], "codec: there are no bytes"),
        (b"\xB1", "codec: the bytes end too early"),
        (b"\xB1\x09", "codec: this is version 9; versions up to 1 can be read"),
        (b"\xB1\x01", "codec: the bytes end too early"),
        (&bincode[..6], "codec: the bytes end too early"),
        (&[&bincode[..], b"!!"].concat(), "codec: 2 bytes too many at the end"),
        (b"\xB1\x01\x00", "codec: no message where one belongs"),
        (
            b"\xB1\x01\x01\x01\x00\x02\xFF\xFF\x00",
            "codec: a text is not UTF-8, before byte 8: invalid utf-8 sequence of 1 bytes from index 0",
        ),
        (b"\xB1\x01\x01\x09", "codec: there is no kind of this number, before byte 4"),
        (
            b"\xB1\x01\x01\x01\x00\xFD\xFF\xFF\xFF\xFF\xFF\xFF\xFF\x7F",
            "codec: a length is beyond the end of the bytes, before byte 14",
        ),
        (
            b"\xB1\x01\x01\x03\x00\x00\x00\x00\x00\x01\x01\x01n\x00\x00",
            "codec: tool: a name beside that of the tool, before byte 15",
        ),
        (
            b"\xFF\xFE",
            "codec: neither bincode nor text: invalid utf-8 sequence of 1 bytes from index 0",
        ),
        (
            b"\xB1\x00",
            "codec: this says version 0, and versions begin with 1: `Codec::encode` and `encode_all` \
             write an envelope as it must be",
        ),
        (
            b"{}",
            "codec: an envelope has a version, `v`: messages without an envelope are read with \
             serde_json, as `Message` or `Vec<Message>`; with one they are {\"v\":1,\"messages\":[..]}",
        ),
        (b"nonsense", "codec: expected ident at line 1 column 2"),
    ] {
        assert_eq!(error(bytes), expected, "{}", bytes.escape_ascii());
    }
    let table = r#"
        {"v":9,"message":"from the future"} => this is version 9; versions up to 1 can be read
        {"message":{"role":5},"v":9} => this is version 9; versions up to 1 can be read
        {"v":2} => this is version 2; versions up to 1 can be read
        {"v":0} => this says version 0, and versions begin with 1: `Codec::encode` and `encode_all` write an envelope as it must be
        {"v":1} => an envelope holds either `message` or `messages`
        {"v":1,"messages":[]} => no message where one belongs
        {"v":1,"message":{"role":"user"}} => message: content: missing at line 1 column 32
        {"v":1,"message":{"role":"user","content":"hi"}} {} => trailing characters at line 1 column 50
        {"v":1,"message":{"role":"user","cont => EOF while parsing a string at line 1 column 37
    "#;
    for (text, expected) in rows(table) {
        assert_eq!(error(text.as_bytes()), format!("codec: {expected}"), "{text}");
    }
    let error = codec::decode(br#"{"v":1,"message":5}"#).unwrap_err();
    assert!(std::error::Error::source(&error).unwrap().is::<serde_json::Error>());
    let error = codec::decode(b"\xB1\x01\x01").unwrap_err();
    assert!(std::error::Error::source(&error).unwrap().is::<bincode::error::DecodeError>());
}

/// Who has a list of messages hands it to the codec, and was told "invalid type: map, expected
/// u64"; and a list of three was taken for an envelope, as serde's derived code reads structs from
/// lists too.
#[test]
fn what_is_no_envelope_is_told_what_to_do() {
    for list in [
        &br#"[{"role":"user","content":"hi"}]"#[..],
        b" []",
        br#"[1,{"role":"user","content":"hi"},null]"#,
        b"[9",
    ] {
        assert_eq!(
            error(list),
            "codec: this is a list, and an envelope is an object: messages without an envelope are \
             read with serde_json, as `Message` or `Vec<Message>`; with one they are \
             {\"v\":1,\"messages\":[..]}"
        );
    }
    let table = r#"
        {"v":"1"} => `v` must be the number of a version (1, 2, ..), and is a text at line 1 column 8
        {"v":-1} => `v` must be the number of a version (1, 2, ..), and is a number at line 1 column 7
        {"v":1,"v":1} => duplicate field `v` at line 1 column 10
        {"v":1,"messages":"x"} => `messages` must be a list, and is a text at line 1 column 21
        {"v":1,"message":"x"} => message: expected an object, found a string at line 1 column 20
        "x" => an envelope must be an object, and is a text at line 1 column 3
    "#;
    for (text, expected) in rows(table) {
        assert_eq!(error(text.as_bytes()), format!("codec: {expected}"), "{text}");
    }
}

#[test]
fn one_message_is_a_list_of_one() {
    let message = Message::user("hi");
    for codec in [Codec::Json, Codec::Bincode] {
        let one = codec.encode(&message).unwrap();
        let two = codec.encode_all([&message, &message]).unwrap();
        assert_eq!(codec::decode_all(&one).unwrap(), std::slice::from_ref(&message));
        assert_eq!(codec::decode(&codec.encode_all([&message]).unwrap()).unwrap(), message);
        assert_eq!(error(&two), "codec: 2 messages where one belongs");
    }
}

#[test]
fn the_envelope_may_hold_more() {
    let text = br#" {"by":{"x":[1]},"message":{"content":"hi","role":"user"},"v":1} "#;
    assert_eq!(codec::decode(text).unwrap(), Message::user("hi"));
}

/// bincode 2.0.1 without a limit takes a length at its word: eight bytes ended the process.
#[test]
fn lengths_that_lie_cost_nothing() {
    for length in [1_u64 << 20, 1 << 32, 1 << 40, 1 << 62, u64::MAX] {
        let lie = [&[0xFD], &length.to_le_bytes()[..]].concat();
        for before in [
            &b"\xB1\x01"[..],
            b"\xB1\x01\x01\x01\x00",
            b"\xB1\x01\x01\x01\x01",
            b"\xB1\x01\x01\x02\x01",
        ] {
            for padding in [0, 10_000] {
                let bytes = [before, &lie, &vec![0; padding]].concat();
                let _ = decode_cheaply(&bytes);
            }
        }
    }
}

/// The emptiest things that can be said are the dearest.
#[test]
fn what_costs_most_stays_within_the_bound() {
    let list = |item: &str| format!(r#"{{"v":1,"messages":[{}]}}"#, vec![item; 5_000].join(","));
    let parts = |item: &str| {
        let parts = vec![item; 5_000].join(",");
        format!(r#"{{"v":1,"message":{{"role":"assistant","content":[{parts}]}}}}"#)
    };
    for text in [
        list(r#"{"role":""}"#),
        list(r#"{"role":"user","content":""}"#),
        parts(r#"{"type":""}"#),
        parts(r#"{"type":"image","url":""}"#),
        parts(r#"{"type":"image","url":"","x":0}"#),
        list(r#"{"role":"","":[{"":0},{"":0},{"":0},{"":0},{"":0},{"":0},{"":0},{"":0}]}"#),
        list(r#"{"":[[],[],[],[],[],[],[],[],[],[],[],[],[],[],[],[]],"role":""}"#),
    ] {
        let messages = decode_cheaply(text.as_bytes()).unwrap();
        decode_cheaply(&Codec::Bincode.encode_all(&messages).unwrap()).unwrap();
    }
    for item in
        [&b"\0\0\0\0"[..], b"\0\x05\x0B{\"type\":\"\"}", b"\x01\0\0\0", b"\0\x01\0\0\0\0\0\0"]
    {
        let body =
            [b"\xB1\x01\x01\x02\x01\xFC\x88\x13\0\0", &item.repeat(5_000)[..], b"\0"].concat();
        decode_cheaply(&body).unwrap();
    }
}
