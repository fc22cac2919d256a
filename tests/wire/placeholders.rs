//! What a format has no place for: a placeholder in what the user or a tool says, nothing in what
//! the model says, and an error where the application asks for one.

use memory_prompt::message::{AiMessage, AiPart, Media, Part, Reasoning};
use memory_prompt::wire::{anthropic, gemini, langchain4j, ollama, openai, responses};
use memory_prompt::{Error, ErrorKind, Message, ToolCall};
use serde_json::{Map, Value, json};

use crate::values::widget;

/// The word of a placeholder for a part, and what an error calls it.
fn named(part: &Part) -> (&'static str, &'static str) {
    match part {
        Part::Image(_) => ("image", "an image"),
        Part::Audio(_) => ("audio", "audio"),
        Part::Video(_) => ("video", "video"),
        Part::File(_) => ("file", "a file"),
        _ => ("part", "a part of unknown kind"),
    }
}

/// How a format writes messages, and why it refuses to write them exactly.
struct Format<'a> {
    what: &'a str,
    written: fn(&[Message]) -> Value,
    refused: fn(&[Message]) -> Option<Error>,
}

macro_rules! format_of {
    ($format:ident :: $view:ident, $what:literal) => {
        Format {
            what: $what,
            written: |messages| json!($format::$view::of(messages)),
            refused: |messages| $format::$view::of(messages).strict().err(),
        }
    };
}

fn user(part: impl Into<Part>) -> Message {
    Message::user([Part::text("see"), part.into()])
}

fn result(part: impl Into<Part>) -> Message {
    Message::tool("c", "t", [Part::text("see"), part.into()])
}

fn ai(parts: impl IntoIterator<Item = Part>) -> Message {
    AiMessage::from_parts(std::iter::once(Part::text("see")).chain(parts).map(AiPart::from)).into()
}

impl Format<'_> {
    fn assert_refused(&self, message: Message, error: &str) {
        let messages = [Message::user("hi"), message];
        let refused = (self.refused)(&messages).unwrap_or_else(|| panic!("{messages:?} is taken"));
        assert_eq!(refused.kind(), ErrorKind::Unsupported);
        let expected = format!("write {}: messages[1]{error}", self.what);
        assert!(refused.to_string().starts_with(&expected), "{refused} is not {expected}");
    }

    fn assert_stands_in(&self, message: fn(Part) -> Message, part: Part) {
        let (word, kind) = named(&part);
        let placeholder = Part::text(format!("[{word}: not supported by this format]"));
        let written = |part: Part| (self.written)(&[message(part)]);
        assert_eq!(written(part.clone()), written(placeholder), "{}", self.what);
        let error = format!(".content[1]: {kind} is not supported by this format");
        self.assert_refused(message(part), &error);
    }

    /// A placeholder would be what the model has said.
    fn assert_left_out(&self, part: Part) {
        let (_, kind) = named(&part);
        // A list of one text says what the text does.
        let one = r#"[{"text":"see","type":"text"}]"#;
        let written = |message| (self.written)(&[message]).to_string().replace(one, r#""see""#);
        assert_eq!(written(ai([part.clone()])), written(ai([])), "{}", self.what);
        let error = format!(".parts[1]: {kind} is not supported by this format");
        self.assert_refused(ai([part]), &error);
    }

    /// What has no place whoever says it.
    fn assert_no_place(&self, parts: impl IntoIterator<Item = Part>) {
        for part in parts {
            self.assert_stands_in(user, part.clone());
            self.assert_stands_in(result, part.clone());
            self.assert_left_out(part);
        }
    }

    fn assert_no_custom(&self) {
        let messages = [Message::user("hi"), Message::custom([("k".to_owned(), json!(1))])];
        let error = ": a custom message is not supported by this format";
        self.assert_refused(messages[1].clone(), error);
        let without = (self.written)(&messages[..1]);
        assert_eq!((self.written)(&messages), without, "{}", self.what);
    }
}

fn called(id: &str, arguments: &str) -> Message {
    Message::ai_calls([ToolCall::new(id, "t", arguments)])
}

/// Arguments that are no object stand in one.
fn assert_broken(format: &Format<'_>, path: &str) {
    let arguments = |text: &str| (format.written)(&[called("c", text)]).pointer(path).cloned();
    assert_eq!(arguments("{\"x"), Some(json!({"arguments": "{\"x"})), "{}", format.what);
    for text in ["{\"x", "[1]"] {
        format.assert_refused(called("c", text), ".parts[0]: the arguments are not a JSON object");
    }
}

#[test]
fn openai() {
    let format = format_of!(openai::Messages, "openai messages");
    format.assert_no_custom();
    format.assert_no_place([
        Part::Video(Media::url("u")),
        Part::Image(Media::file_id("file_1")),
        Part::Audio(Media::base64("audio/flac", "AA==")),
        Part::File(Media::url("u")),
        widget(),
    ]);
    format.assert_stands_in(result, Part::Image(Media::url("u")));
    format.assert_left_out(Part::Image(Media::url("u")));
}

#[test]
fn responses() {
    let format = format_of!(responses::Input, "responses input");
    format.assert_no_custom();
    format.assert_no_place([Part::Video(Media::url("u")), Part::Audio(Media::file_id("a"))]);
    let film = AiMessage::from_parts([Part::Video(Media::url("u"))]);
    assert_eq!((format.written)(&[film.into()]), json!([]));
}

#[test]
fn anthropic() {
    let format = format_of!(anthropic::Messages, "anthropic messages");
    format.assert_no_custom();
    format.assert_no_place([
        Part::Video(Media::url("https://example.com/a.mp4")),
        Part::Audio(Media::base64("audio/wav", "AA==")),
        Part::Image(Media::base64("image/tiff", "AA==")),
        Part::File(Media::base64("application/zip", "AA==")),
        widget(),
    ]);
    format.assert_left_out(Part::Image(Media::base64("image/png", "AA==")));
    assert_broken(&format, "/0/content/0/input");
    let unsigned = AiMessage::new("a").with_reasoning(Reasoning::new("hm"));
    for (message, error) in [
        (Message::user(" "), ": an empty message is not"),
        (Message::user(Vec::new()), ": an empty message is not"),
        (Message::ai(""), ": an empty answer is not"),
        (Message::tool("", "t", "x"), ": a call without an id is not"),
        (called("", "{}"), ".parts[0]: a call without"),
        (unsigned.into(), ".parts[0]: reasoning without this provider's signature"),
    ] {
        format.assert_refused(message, error);
    }
}

#[test]
fn gemini() {
    let format = format_of!(gemini::Contents, "gemini contents");
    format.assert_no_custom();
    let untyped = || Media { media_type: None, ..Media::base64("", "AA==") };
    format.assert_no_place([
        Part::Image(untyped()),
        Part::Audio(untyped()),
        Part::Video(untyped()),
        Part::File(untyped()),
        widget(),
    ]);
    format.assert_stands_in(result, Part::Image(Media::url("https://example.com/a")));
    assert_broken(&format, "/0/parts/0/functionCall/args");
    for (message, error) in [
        (Message::user(""), ": an empty message is not"),
        (Message::user(Vec::new()), ": an empty message is not"),
        (Message::ai(""), ": an empty answer is not"),
        (Message::tool("c", "", "x"), ": a result without a tool's name is not"),
    ] {
        format.assert_refused(message, error);
    }
}

#[test]
fn ollama() {
    let format = format_of!(ollama::Messages, "ollama messages");
    format.assert_no_custom();
    format.assert_no_place([
        Part::Video(Media::url("u")),
        Part::Image(Media::url("https://e.x")),
        Part::File(Media::base64("text/csv", "AA==")),
        Part::Audio(Media::file_id("a")),
    ]);
    assert_broken(&format, "/0/tool_calls/0/function/arguments");
    let video = Message::user([Part::Video(Media::url("u"))]);
    let alone = (format.written)(&[video])[0]["content"].clone();
    assert_eq!(alone, "[video: not supported by this format]");
}

#[test]
fn langchain4j() {
    let format = format_of!(langchain4j::Messages, "langchain4j messages");
    format.assert_no_place([
        Part::Image(Media::file_id("f")),
        Part::Audio(Media::file_id("f")),
        Part::Video(Media::file_id("f")),
        Part::File(Media::base64("text/csv", "AA==")),
        Part::File(Media::file_id("f")),
        widget(),
    ]);
    let signed = |format: &str, signature: &str| Reasoning {
        extra: Map::from_iter([(format.to_owned(), json!({}))]),
        ..Reasoning::new("hm").with_signature(signature)
    };
    let thoughts = ["1", "2"].map(|signature| signed("anthropic", signature));
    let foreign = AiMessage::from_parts([signed("responses", "s")]);
    let call = ToolCall::new("c", "t", "{}").with_signature("s");
    for (message, error) in [
        (Message::system(" "), ": a blank system message is not"),
        (AiMessage::from_parts(thoughts).into(), ": reasoning in several signed parts is not"),
        (foreign.into(), ".parts[0]: another provider's signature is not"),
        (Message::ai_calls([call]), ".parts[0]: a call's signature is not"),
    ] {
        format.assert_refused(message, error);
    }
}
