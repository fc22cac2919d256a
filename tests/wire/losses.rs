//! What a view says that it leaves out is what is not on the wire.

#![allow(clippy::unwrap_used)] // a test that fails should say so

use crate::counted::counted;
use crate::setups::{TYPED, prompt_for};
use memory_prompt::message::{AiMessage, AiPart, Attributes, Media, OtherPart, Part, Reasoning};
use memory_prompt::provider::Format;
use memory_prompt::wire::{self, Loss, Request};
use memory_prompt::{ErrorKind, Message, Provider, ToolCall};
use proptest::prelude::*;
use serde_json::{Value, json};

/// Under which each format keeps what it alone understands.
const MARKS: [&str; 5] = ["openai", "responses", "anthropic", "gemini", "ollama"];

fn givers() -> Vec<Provider> {
    [&TYPED[..], &[Provider::DeepSeek, Provider::OpenRouter, Provider::Vllm]].concat()
}

fn extra(mark: &str, fields: &Value) -> Attributes {
    Attributes::from_iter([(mark.to_owned(), fields.clone())])
}

/// A part of an answer, which says this word and no other does.
fn part(kind: usize, mark: &str, word: &str) -> AiPart {
    // Some are of one format alone.
    let mark = match kind {
        6 => "anthropic",
        7 | 8 => "openai",
        _ => mark,
    };
    let thought = |text: &str, signature: Option<&str>, fields: Option<Value>| {
        let extra = fields.map_or_else(Attributes::new, |fields| extra(mark, &fields));
        Reasoning { text: text.to_owned(), signature: signature.map(str::to_owned), extra }
    };
    match kind {
        0 => Part::text(word).into(),
        1 => ToolCall::new(word, "look", "{}").into(),
        2 => thought(word, None, None).into(),
        3 => thought(word, None, Some(json!({}))).into(),
        4 => thought(word, Some("signed"), Some(json!({}))).into(),
        // Encrypted, and of which nothing can be read.
        5 => thought("", Some(word), Some(json!({"id": "rs"}))).into(),
        6 => thought("", Some(word), Some(json!({"type": "redacted_thinking"}))).into(),
        // Mistral's, among what is said; and OpenRouter's.
        7 => thought(word, None, Some(json!({"type": "thinking"}))).into(),
        8 => thought("", None, Some(json!({"reasoning_details": [{"data": word}]}))).into(),
        9 => AiPart::from(Part::Audio(Media::file_id(word))),
        10 => {
            let extra = extra("openai", &json!({"transcript": word}));
            AiPart::from(Part::Audio(Media { extra, ..Media::file_id(word) }))
        }
        // What the model made.
        11 => AiPart::from(Part::Image(Media::url(format!("https://e.x/{word}.png")))),
        12 => AiPart::from(Part::Image(Media::base64("image/png", word))),
        13 => AiPart::from(Part::Video(Media::base64("video/mp4", word))),
        14 => AiPart::from(Part::File(Media::base64("application/msword", word))),
        15 => AiPart::from(Part::Audio(Media::base64("audio/wav", word))),
        _ => {
            let fields = json!({"type": "search", "item": {"type": "search", "id": word}});
            let mut fields = extra(mark, &fields);
            fields.insert("type".to_owned(), mark.into());
            AiPart::from(Part::Other(OtherPart::new(fields).unwrap()))
        }
    }
}

fn answers() -> impl Strategy<Value = (AiMessage, Vec<String>)> {
    let one = (0usize..17, proptest::sample::select(MARKS.to_vec()));
    let giver = proptest::option::weighted(0.8, proptest::sample::select(givers()));
    (proptest::collection::vec(one, 1..6), giver).prop_map(|(kinds, giver)| {
        let mut has_audio = false;
        let kinds = kinds.into_iter().filter(|(kind, _)| {
            // A message has one audio.
            *kind != 9 && *kind != 10 || !std::mem::replace(&mut has_audio, true)
        });
        let named = kinds.enumerate().map(|(i, (kind, mark))| (kind, mark, format!("word{i}end")));
        let named: Vec<_> = named.collect();
        let parts = named.iter().map(|(kind, mark, word)| part(*kind, mark, word));
        let message = AiMessage::from_parts(parts);
        let words = named.iter().map(|(_, _, word)| word.clone()).collect();
        let Some(giver) = giver else { return (message, words) };
        let mut answer = wire::openai::answer(r#"{"role": "assistant", "content": "a"}"#).unwrap();
        answer.message = message;
        (answer.given_by(giver).message, words)
    })
}

/// What a provider is sent of these messages, what is lost, and whether a strict view takes them.
fn written(provider: Provider, message: &Message) -> (Value, Vec<Loss>, bool) {
    macro_rules! view {
        ($view:expr) => {{
            let view = $view.for_provider(provider);
            (json!(view), view.losses(), view.strict().is_ok())
        }};
    }
    match provider.format() {
        Format::OpenAi => view!(wire::openai::Messages::of([message])),
        Format::Responses => view!(wire::responses::Input::of([message])),
        Format::Anthropic => view!(wire::anthropic::Messages::of([message])),
        Format::Gemini => view!(wire::gemini::Contents::of([message])),
        _ => view!(wire::ollama::Messages::of([message])),
    }
}

counted! {
    #![cases(1000)]

    /// Reasoning of Mistral's, and thoughts that are encrypted, were left out and not told; one
    /// that stood behind audio with a transcript was told and written.
    #[test]
    fn a_part_of_an_answer_is_on_the_wire_or_told(
        (answer, words) in answers(),
        provider in proptest::sample::select(givers()),
    ) {
        let message = Message::from(answer.clone());
        let (json, losses, _) = written(provider, &message);
        let json = json.to_string();
        for (i, word) in words.iter().enumerate() {
            let told = losses.iter().filter(|loss| loss.part == Some(i)).count();
            let is_lost = usize::from(!json.contains(word));
            prop_assert_eq!(told, is_lost, "{} {:?}\n{}", i, losses, json);
        }
        // A placeholder would be what the model has said.
        prop_assert!(!json.contains("not supported"), "{}", json);
    }
}

/// An answer that was spoken, and of which there is no more than OpenAI's id, went to Mistral as
/// one that says nothing, and nobody told. To Gemini it went as the address of a file. OpenAI
/// itself knows the id for an hour.
#[test]
fn audio_that_only_its_provider_knows_is_told_and_nothing_empty_is_sent() {
    let body = r#"{"role": "assistant", "audio": {"id": "au_1"}}"#;
    let answer = wire::openai::answer(body).unwrap();
    let spoken = Message::from(answer.given_by(Provider::OpenAi));
    let history = [Message::user("Sing."), spoken.clone(), Message::user("Again.")];
    for provider in givers() {
        let (json, losses, is_strict) = written(provider, &spoken);
        assert!(!is_strict, "{provider}");
        assert_eq!(losses.len(), 1, "{provider}: {losses:?}");
        assert_eq!(json, json!([]), "{provider}");

        let prompt = prompt_for(provider, &history);
        let report = prompt.report();
        assert_eq!(report.left_out.len(), 1, "{provider}: {report}");
        assert_eq!(Request::new(&prompt).losses(), [], "the composer left it out");
    }
    let error = wire::openai::Messages::of([&spoken]).for_provider(Provider::Mistral).strict();
    let error = error.unwrap_err();
    assert_eq!(error.kind(), ErrorKind::Unsupported);
    assert!(error.to_string().ends_with("messages[0].parts[0]: audio is not supported by mistral"));
}

/// What a model said beside its calls was left out for those that take nothing beside them, and
/// nobody told.
#[test]
fn what_is_said_beside_calls_is_told_where_it_is_left_out() {
    let call = || AiPart::from(ToolCall::new("c", "look", "{}"));
    let list = [Message::from(AiMessage::from_parts(["I look.".into(), call()]))];
    let view = wire::openai::Messages::of(&list).calls_alone();
    assert_eq!(json!(view)[0]["content"], Value::Null);
    let told: Vec<_> = view.losses().iter().map(ToString::to_string).collect();
    assert_eq!(told, ["message 0, part 0: text beside calls"]);
    assert_eq!(wire::openai::Messages::of(&list).losses(), []);
    let silent = [Message::from(AiMessage::from_parts([call()]))];
    assert_eq!(wire::openai::Messages::of(&silent).calls_alone().losses(), []);
}
