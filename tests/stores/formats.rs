//! Every file under `tests/formats` reads as it always did, and today's writer still writes the
//! newest ones byte for byte. See `tests/formats/README.md`.

use std::collections::BTreeSet;
use std::fs;
use std::io::Write;
use std::path::{Path, PathBuf};

use memory_prompt::codec::{self, Codec};
use memory_prompt::message::{
    AiMessage, AiPart, Attributes, CustomMessage, Detail, Media, OtherPart, Part, Reasoning,
    SystemMessage, ToolMessage, UserMessage,
};
use memory_prompt::turn::{OnInterrupt, ToolError};
use memory_prompt::wire::Usage;
use memory_prompt::{DefaultChatMemory, MemoryPrompt, Message, Tool, ToolCall, Turn};
use serde_json::json;

fn folder() -> PathBuf {
    Path::new(env!("CARGO_MANIFEST_DIR")).join("tests/formats/v1")
}

fn read(json: serde_json::Value) -> Message {
    serde_json::from_value(json).unwrap()
}

/// What the files hold: one of each kind of message.
fn messages() -> Vec<(&'static str, Message)> {
    let mut annotated = Media::base64("application/pdf", "JVBERi0=").with_name("a.pdf");
    annotated.extra.insert("cache_control".to_owned(), json!({"type": "ephemeral"}));
    let look = || ToolCall::new("call_1", "look", r#"{"x": 1}"#);
    let mut signed = Reasoning::new("Best to look.").with_signature("c2lnbmVk");
    signed.extra.insert("id".to_owned(), json!("rs_1"));
    let widget: Attributes =
        [("type".to_owned(), json!("widget")), ("n".to_owned(), json!([1, 2.5]))]
            .into_iter()
            .collect();
    vec![
        ("system", Message::system("Be brief.")),
        (
            "system_details",
            SystemMessage::new("")
                .with_name("setup")
                .with_attribute("k", json!({"a": null}))
                .into(),
        ),
        ("user", Message::user("hi \"there\"\n👩‍👩‍👧‍👦 \0")),
        (
            "user_parts",
            UserMessage::new([
                Part::text("Which of these?"),
                Part::Image(Media::url("https://e.x/a.png").with_detail(Detail::Low)),
                Part::Image(Media::base64("image/png", "AA==").with_detail(Detail::High)),
                Part::Image(
                    Media::file_id("file-2").with_detail(Detail::Other("ultra".to_owned())),
                ),
                Part::Audio(Media::base64("audio/wav", "UklGRg==").with_detail(Detail::Auto)),
                Part::Video(Media::url("https://e.x/a.mp4").with_media_type("video/mp4")),
                Part::File(Media::file_id("file-1").with_name("a.pdf")),
                Part::File(annotated),
                Part::Other(OtherPart::new(widget).unwrap()),
            ])
            .with_name("Klaus")
            .with_attribute("channel", "mail")
            .into(),
        ),
        ("user_no_parts", Message::user([])),
        ("ai", Message::ai("Hello.")),
        ("ai_empty", Message::ai("")),
        ("ai_calls", Message::ai_calls([look(), ToolCall::new("call_2", "look", "{")])),
        (
            "ai_text_and_call",
            AiMessage::new("Let me look.")
                .with_tool_call(look().with_signature("dGhvdWdodA=="))
                .into(),
        ),
        ("ai_reasoning", AiMessage::new("4").with_reasoning(Reasoning::new("2 + 2")).into()),
        (
            "ai_signed",
            AiMessage::new("Let me look.")
                .with_tool_call(look())
                .with_reasoning(signed.clone())
                .into(),
        ),
        (
            "ai_interleaved",
            AiMessage::from_parts([
                AiPart::from("Let me look."),
                look().into(),
                signed.into(),
                Part::Image(Media::url("https://e.x/b.png")).into(),
                "There.".into(),
            ])
            .with_name("bot")
            .with_attribute("model", "m")
            .into(),
        ),
        ("tool", Message::tool("call_1", "look", "a cat")),
        (
            "tool_error",
            ToolMessage::new("call_1", "look", "no light")
                .with_error(true)
                .with_attribute("ms", 12)
                .into(),
        ),
        ("tool_parts", Message::tool("call_1", "", [Part::Image(Media::url("https://e.x/c.png"))])),
        (
            "custom",
            CustomMessage::new([("k".to_owned(), json!({"deep": [1, -2.5, "x", null]}))]).into(),
        ),
        (
            "unknown_role",
            read(
                json!({"role": "narrator", "content": ["Meanwhile"], "attributes": {"k": 1}, "v": 2}),
            ),
        ),
        (
            "unknown_fields",
            read(json!({
                "role": "user", "tool_calls": [], "weight": 18_446_744_073_709_551_615_u64,
                "content": [{"type": "text", "text": "hi", "citations": [{"from": 1}]}],
            })),
        ),
    ]
}

const CODECS: [(Codec, &str); 2] = [(Codec::Json, "json"), (Codec::Bincode, "bincode")];

/// Each file that this version writes, with what it holds.
fn files() -> Vec<(String, Codec, Vec<Message>, Vec<u8>)> {
    let mut files = Vec::new();
    for (codec, suffix) in CODECS {
        for (name, message) in messages() {
            let bytes = codec.encode(&message).unwrap();
            files.push((format!("{name}.{suffix}"), codec, vec![message], bytes));
        }
        // A list of its own: the file stays as it is when a message is added above.
        let named = |name| messages().into_iter().find(|(n, _)| *n == name).unwrap().1;
        let all = ["system", "user", "ai_text_and_call", "tool", "ai_signed", "custom"].map(named);
        let all = Vec::from(all);
        let bytes = codec.encode_all(&all).unwrap();
        files.push((format!("conversation.{suffix}"), codec, all, bytes));
    }
    files
}

/// Files that nobody writes like this, but that must be read: the name of the message they hold.
const VARIANTS: [(&str, &str); 3] = [
    ("ai_calls.openai_null.json", "ai_calls"),
    ("ai_signed.role_last.json", "ai_signed"),
    ("ai_text_and_call.other_fields.json", "ai_text_and_call"),
];

#[test]
fn every_file_reads_as_it_always_did() {
    for (name, _, messages, _) in files() {
        let bytes = fs::read(folder().join(&name)).unwrap_or_else(|e| panic!("{name}: {e}"));
        assert_eq!(codec::decode_all(&bytes).unwrap(), messages, "{name}");
    }
    for (name, like) in VARIANTS {
        let bytes = fs::read(folder().join(name)).unwrap_or_else(|e| panic!("{name}: {e}"));
        let (_, message) = messages().into_iter().find(|(name, _)| *name == like).unwrap();
        assert_eq!(codec::decode(&bytes).unwrap(), message, "{name}");
    }
}

/// The form in which turns are written now; the file before it is of an earlier one. `3.json` is a
/// turn that may be stored already, in the same form.
const NEWEST_TURN: &str = "turns/2.json";

/// A turn that booked a room and waits for the approval of a payment, as its owner keeps it.
fn parked(prompt: &mut MemoryPrompt) -> Turn {
    prompt.add_temporary(Message::user("Today is Friday."));
    let pay = Tool::new("pay", "Pays.").needing_approval();
    let tools = [Tool::new("book", "Books."), Tool::new("look", "Looks.").repeatable(), pay];
    let mut turn = prompt.turn(Message::user("Book and pay.")).tools(tools).with_id("update 4711");
    turn.next(prompt).unwrap();
    let calls = ["book", "look", "pay"];
    let calls = calls.map(|tool| ToolCall::new(format!("c_{tool}"), tool, r#"{"n":1}"#));
    turn.answer(Message::ai_calls(calls)).unwrap();
    turn.steer("Quickly.").unwrap();
    turn.next(prompt).unwrap();
    turn.result("c_book", Ok::<_, ToolError>("ref 7XK")).unwrap();
    turn
}

/// A turn that was written by this or an earlier version goes on for ever.
#[test]
fn every_turn_goes_on() {
    for entry in fs::read_dir(folder().join("turns")).unwrap() {
        let bytes = fs::read(entry.unwrap().path()).unwrap();
        let mut turn: Turn = serde_json::from_slice(&bytes).unwrap();
        assert_eq!((turn.id(), turn.messages().len()), ("update 4711", 3));
        assert_eq!(turn.usage(), Usage::default());
        turn.approve("c_pay").unwrap();
        turn.interrupt(OnInterrupt::Keep);
        assert_eq!(turn.messages().len(), 6);
        let texts: Vec<_> = turn.messages()[2..].iter().map(|it| it.text()).collect();
        assert_eq!((texts[0].as_ref(), texts[3].as_ref()), ("ref 7XK", "Quickly."));
        // The one was handed out to whoever wrote the turn, the other one was only approved since.
        assert!(texts[1].contains("not known"), "{}", texts[1]);
        assert_eq!(texts[2], "Not run: the turn was interrupted.");
        let Message::User(steered) = &turn.messages()[5] else { panic!("it is the user's") };
        assert!(steered.is_steered());
        assert_eq!(turn.into_temporaries(), [Message::user("Today is Friday.")]);
    }
}

/// What is written again has the fields of the newest file, no more and no less.
#[test]
fn a_turn_is_written_as_the_newest_file() {
    let file: serde_json::Value =
        serde_json::from_slice(&fs::read(folder().join(NEWEST_TURN)).unwrap()).unwrap();
    let mut prompt = MemoryPrompt::new(DefaultChatMemory::new());
    let mut turn = serde_json::to_value(parked(&mut prompt)).unwrap();
    // These are other ones each time.
    for key in ["life", "owner", "since", "written", "seen"] {
        assert!(turn[key] != json!(null), "{key}");
        turn[key] = file[key].clone();
    }
    assert_eq!(turn, file);
}

#[test]
fn writing_gives_the_same_bytes_for_ever() {
    // Where another crate of the build has switched on serde_json's `preserve_order`, maps are
    // written in the order in which they were made, and these messages were not made by reading
    // them.
    let sorted = json!({"b": 1, "a": 2});
    if sorted.as_object().unwrap().keys().next().unwrap() != "a" {
        return;
    }
    for (name, _, _, bytes) in files() {
        assert!(
            fs::read(folder().join(&name)).unwrap() == bytes,
            "{name} would be written differently"
        );
    }
}

#[test]
fn every_file_is_looked_at() {
    let known: BTreeSet<String> = files()
        .into_iter()
        .map(|(name, ..)| name)
        .chain(VARIANTS.map(|(name, _)| name.to_owned()))
        .chain(["turns".to_owned()])
        .collect();
    let there: BTreeSet<String> = fs::read_dir(folder())
        .unwrap()
        .map(|entry| entry.unwrap().file_name().into_string().unwrap())
        .collect();
    assert_eq!(there, known);
}

/// Writes the files that are not there yet, and never touches one that is:
/// `cargo test --test stores -- --ignored write_new_files`.
#[test]
#[ignore = "writes into the source tree"]
fn write_new_files() {
    for (name, _, _, bytes) in files() {
        if let Ok(mut file) = fs::File::create_new(folder().join(&name)) {
            file.write_all(&bytes).unwrap();
            println!("new: {name}");
        }
    }
    if let Ok(mut file) = fs::File::create_new(folder().join(NEWEST_TURN)) {
        let turn = parked(&mut MemoryPrompt::new(DefaultChatMemory::new()));
        file.write_all(&serde_json::to_vec(&turn).unwrap()).unwrap();
        println!("new: {NEWEST_TURN}");
    }
}
