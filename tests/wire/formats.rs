//! The laws of the golden files (tests/wire/golden/README.md), and a prompt with everything in it
//! as each format writes it.

use memory_prompt::message::{
    AiMessage, AiPart, Detail, Media, Part, Reasoning, ToolMessage, UserMessage,
};
use memory_prompt::record::Snapshot;
use memory_prompt::wire::{anthropic, gemini, langchain4j, ollama, openai, responses};
use memory_prompt::{Composer, Message, Prompt, ToolCall};
use serde_json::{Value, json};

use crate::events::whole;
use crate::golden::{asks, assert_storable, events, golden, goldens};
use crate::shown;

/// One of a golden's fields as a list of messages, whatever body it stands in.
fn listed(golden: &Value, field: &str) -> Value {
    match &golden[field] {
        list @ Value::Array(_) => list.clone(),
        body if body["messages"].is_array() => body["messages"].clone(),
        body if body["contents"].is_array() => body["contents"].clone(),
        message => json!([message]),
    }
}

/// `$bare` leads to what is an answer too, without what stands around it.
macro_rules! laws {
    ($format:ident, $bare:literal, |$messages:ident, $golden:ident| $view:expr) => {
        #[test]
        fn $format() {
            for (name, $golden) in goldens(stringify!($format)) {
                if !$golden["request"].is_null() {
                    let $messages = &$format::history(&$golden["request"]).unwrap();
                    assert_storable($messages, &name);
                    let field =
                        if $golden.get("rewritten").is_some() { "rewritten" } else { "request" };
                    let written = json!($view.strict().unwrap());
                    assert_eq!(written, listed(&$golden, field), "{name}");
                }
                if !$golden["response"].is_object() {
                    continue;
                }
                let mut response = $golden["response"].clone();
                let whole = $format::answer(&response).unwrap();
                if let Some(bare) = response.pointer($bare) {
                    assert_eq!($format::answer(bare).unwrap().message, whole.message, "{name}");
                }
                let $messages = &[Message::from(whole)];
                assert_storable($messages, &name);
                assert_eq!(json!($view), listed(&$golden, "replay"), "{name}");
                if !$golden["events"].is_array() {
                    continue;
                }
                let (mut stream, mut told) = ($format::Stream::new(), Vec::new());
                let is_sse = stringify!($format) != "ollama";
                for event in events(&$golden) {
                    let is_bare = is_sse && event.starts_with('{');
                    let event = if is_bare { format!("data: {event}\r\n") } else { event };
                    told.extend(stream.push(&event).unwrap());
                }
                if is_sse {
                    stream.push("[DONE]").unwrap();
                }
                let streamed = stream.finish().unwrap();
                shown::assert_shown(&told, &streamed, &name);
                if let Some(text) = $golden["text"].as_str() {
                    assert_eq!(shown::text(&told), text, "{name}");
                }
                if !is_sse {
                    // Calls of Ollama's stream are named after its first line.
                    let first: Value = serde_json::from_str(&events(&$golden)[0]).unwrap();
                    response["created_at"] = first["created_at"].clone();
                }
                let whole = $format::answer(&response).unwrap();
                assert_eq!(streamed.message, whole.message, "{name}");
            }
        }
    };
}

laws!(openai, "/choices/0/message", |messages, golden| {
    let mut view = openai::Messages::of(messages);
    if !golden["provider"].is_null() {
        view = view.for_provider(serde_json::from_value(golden["provider"].clone()).unwrap());
    }
    if asks(&golden, "verbatim") {
        view = view.verbatim();
    }
    if asks(&golden, "developer") {
        view = view.developer();
    }
    if asks(&golden, "reasoning_content") {
        view = view.reasoning_content();
    }
    if asks(&golden, "reasoning") {
        view = view.reasoning();
    }
    view
});
laws!(responses, "/output", |messages, golden| {
    let view = responses::Input::of(messages);
    if asks(&golden, "developer") { view.developer() } else { view }
});
laws!(anthropic, "/none", |messages, golden| anthropic::Messages::of(messages));
laws!(gemini, "/none", |messages, golden| gemini::Contents::of(messages));
laws!(ollama, "/none", |messages, golden| ollama::Messages::of(messages));

#[test]
fn instructions_of_goldens_are_written_as_they_were() {
    for (name, golden) in goldens("anthropic") {
        if let Some(body) = golden.get("request") {
            let history = anthropic::history(body).unwrap();
            assert_eq!(json!(anthropic::System::of(&history)), body["system"], "{name}");
        }
    }
    for (name, golden) in goldens("gemini") {
        if let Some(body) = golden.get("request") {
            let history = gemini::history(body).unwrap();
            let system = json!(gemini::SystemInstruction::of(&history));
            assert_eq!(system, body["systemInstruction"], "{name}");
        }
    }
}

/// A prompt of everything that each of the formats takes.
fn everything() -> Prompt {
    let asked = UserMessage::new([
        Part::text("What is this?"),
        Part::Image(Media::base64("image/png", "AA==").with_detail(Detail::Low)),
        Part::text("And this?"),
        Part::Image(Media::url("data:image/jpeg;base64,/9j/")),
    ]);
    let looked = [
        AiPart::from(Reasoning::new("Two look-ups.").with_signature("sig")),
        AiPart::from("Let me look."),
        AiPart::from(ToolCall::new("c1", "look", r#"{"y": 2, "x": 1}"#)),
        AiPart::from(ToolCall::new("c2", "look", "")),
    ];
    let nothing = ToolMessage::new("c2", "look", [Part::text("no "), Part::text("x")]);
    let history = [
        Message::system("Be brief."),
        asked.with_name("Klaus M").into(),
        AiMessage::from_parts(looked).into(),
        Message::tool("c1", "look", "a cat"),
        nothing.with_error(true).into(),
        Message::user("And now?"),
        Message::ai("A cat."),
    ];
    Composer::new().compose_all(&Snapshot::from_messages(history), &[]).unwrap()
}

#[test]
fn a_prompt_with_everything_is_this() {
    let built = everything();
    macro_rules! written {
        ($format:ident, $view:expr) => {
            let golden = golden("prompt", concat!(stringify!($format), ".json"));
            let view = $view.strict().unwrap();
            assert_eq!(json!(view), golden["messages"], "{:#}", json!(view));
            let bytes = serde_json::to_vec(&view).unwrap();
            assert_eq!(serde_json::from_slice::<Value>(&bytes).unwrap(), golden["messages"]);
            let shown = format!("{view:?}");
            assert!(shown.contains(&format!("{} messages", built.len())), "{shown}");
        };
    }
    written!(openai, openai::messages(&built));
    written!(responses, responses::input(&built));
    written!(anthropic, anthropic::messages(&built));
    written!(gemini, gemini::contents(&built));
    written!(ollama, ollama::messages(&built));
    written!(langchain4j, langchain4j::messages(&built));

    let view = json!(openai::messages(&built).developer().reasoning_content());
    assert_eq!(
        (&view[0]["role"], &view[2]["reasoning_content"]),
        (&json!("developer"), &json!("Two look-ups."))
    );
    let input = json!(responses::input(&built));
    let view = json!(responses::input(&built).developer());
    let developer = json!({"type": "message", "role": "developer", "content": "Be brief."});
    assert_eq!(view[0], developer);
    assert_eq!(view.as_array().unwrap()[1..], *input.as_array().unwrap());
    assert_eq!(responses::instructions(&built), Some("Be brief."));
    assert_eq!(json!(anthropic::system(&built)), "Be brief.");
    let system = json!(gemini::system_instruction(&built));
    assert_eq!(system, json!({"parts": [{"text": "Be brief."}]}));
    let without = serde_json::to_string(&gemini::contents(&built).without_ids()).unwrap();
    assert!(!without.contains("\"id\""));

    let built = Composer::new().compose_all(&Snapshot::default(), &[]).unwrap();
    assert_eq!(responses::instructions(&built), None);
}

/// The reference rates the whole response, and no piece.
#[test]
fn a_streamed_answer_of_gemini_is_the_whole_one() {
    let golden = golden("gemini", "answer.json");
    let (_, mut streamed) = whole!(gemini, golden["events"].as_array().unwrap());
    let answer = gemini::answer(&golden["response"]).unwrap();
    streamed.metadata.attributes.extend(answer.metadata.attributes.clone());
    assert_eq!(streamed, answer);
    let content = gemini::answer(&golden["response"]["candidates"][0]["content"]).unwrap();
    assert_eq!(content.message.texts().collect::<Vec<_>>(), ["I'll look."]);
    let ids: Vec<_> = answer.message.tool_calls().map(|call| call.id.as_str()).collect();
    assert_eq!(ids, ["call_r7_0", "call_r7_1"]);
}
