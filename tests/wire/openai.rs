//! OpenAI Chat Completions: the provider's examples, the laws, and what goes wrong.

#![allow(clippy::unwrap_used, clippy::expect_used, clippy::panic, missing_docs, unreachable_pub)] // a test that panics has failed

use crate::counted::counted;
use crate::golden::assert_storable;
use crate::setups::prompt_for;
use crate::values::compose;
use crate::wire_messages;
use memory_prompt::message::{
    AiMessage, AiPart, Content, Detail, Media, Part, Reasoning, SystemMessage, UserMessage,
};
use memory_prompt::wire::Request;
use memory_prompt::wire::openai::{self, ATTRIBUTE, Messages};
use memory_prompt::{Message, Provider, ToolCall};
use proptest::prelude::*;
use serde_json::{Value, json};

fn json_of(messages: &[Message]) -> Value {
    json!(Messages::of(messages))
}

#[test]
fn calls_stand_alone_where_asked_for() {
    // Mistral's models up to Large 2407: "Assistant message must have either content or tool_calls,
    // but not both."
    let call = || ToolCall::new("c1", "look", "{}");
    let history = [
        Message::user("hi"),
        AiMessage::new("Let me see.").with_tool_call(call()).into(),
        Message::tool("c1", "look", "a cat"),
        AiMessage::from_parts([AiPart::from("It is "), AiPart::from("a cat.")]).into(),
    ];
    let view = Messages::of(&history).strict().unwrap();
    let sent = json!(view.clone());
    assert_eq!(sent[1]["content"], "Let me see.");
    let alone = json!(view.calls_alone());
    assert_eq!(alone[1]["content"], Value::Null);
    assert_eq!(alone[1]["tool_calls"], sent[1]["tool_calls"]);
    for i in [0, 2, 3] {
        assert_eq!(alone[i], sent[i]);
    }
    // A cache mark stands on what is sent.
    let view = Messages::of(&history[..2]).calls_alone().cache_prefix();
    let marked = json!(view);
    assert_eq!(marked[0]["content"][0]["prompt_cache_breakpoint"], json!({"mode": "explicit"}));
    assert_eq!(marked[1]["content"], Value::Null);
}

#[test]
fn deepseek_gets_the_field_with_every_call() {
    let messages = [
        Message::ai_calls([ToolCall::new("c", "look", "{}")]),
        Message::tool("c", "look", "x"),
        Message::ai("x"),
    ];
    let value = json!(Messages::of(&messages).reasoning_content());
    assert_eq!(value[0]["reasoning_content"], "");
    assert_eq!(value[2], json!({"role": "assistant", "content": "x"}));
    let value = json!(Messages::of(&messages).reasoning());
    assert_eq!(value[0].get("reasoning"), None);
}

#[test]
fn flat_text_joins_texts_alone() {
    let messages = [
        Message::user([Part::text("a"), Part::text("b")]),
        Message::user([Part::text("a"), Part::Image(Media::url("u"))]),
        AiMessage::from_parts(["a", "b"]).into(),
    ];
    let value = json!(Messages::of(&messages).flat_text());
    assert_eq!(value[0]["content"], "a\nb");
    assert!(value[1]["content"].is_array());
    assert_eq!(value[2]["content"], "a\nb");
    assert!(json_of(&messages)[0]["content"].is_array());
}

#[test]
fn the_cache_mark_stands_on_the_last_durable_block() {
    let mark = json!({"mode": "explicit"});
    let history = [
        Message::user("hi"),
        Message::ai_calls([ToolCall::new("c", "look", "{}")]),
        Message::tool("c", "look", [Part::text("x"), Part::text("")]),
        Message::ai_calls([ToolCall::new("d", "look", "{}")]),
        Message::tool("d", "look", ""),
    ];
    let built = compose(&history, &[Message::user("Today is Friday.")]);
    let value = json!(openai::messages(&built).cache_prefix());
    // Neither on the call nor on the empty text behind it, nor on the temporary.
    let block = json!({"type": "text", "text": "x", "prompt_cache_breakpoint": mark});
    assert_eq!(value[2]["content"], json!([block, {"type": "text", "text": ""}]));
    assert_eq!(value.to_string().matches("prompt_cache_breakpoint").count(), 1);

    // A plain text becomes a list of one; a mark that was read is not written twice.
    let value = json!(Messages::of(&history[..1]).cache_prefix());
    let marked = json!([{"role": "user", "content": [{"type": "text", "text": "hi", "prompt_cache_breakpoint": mark}]}]);
    assert_eq!(value, marked);
    let read = openai::history(value.to_string()).unwrap();
    let again = serde_json::to_string(&Messages::of(&read).cache_prefix()).unwrap();
    assert_eq!(again.matches("prompt_cache").count(), 1);
    assert_eq!(json!(Messages::of(&[]).cache_prefix()), json!([]));
}

#[test]
fn data_in_an_address_is_data() {
    let url = "data:application/pdf;base64,JVBERi0=";
    let list = [Message::user([
        Part::File(Media::url(url)),
        Part::Audio(Media::url("data:audio/wav;base64,AA==")),
    ])];
    let expected = json!([{"type": "file", "file": {"filename": "file.pdf", "file_data": url}}, {"type": "input_audio", "input_audio": {"data": "AA==", "format": "wav"}}]);
    assert_eq!(json_of(&list)[0]["content"], expected);
}

#[test]
fn what_is_not_known_is_kept() {
    let request = json!([
        {"role": "system", "content": "s", "cache_control": {"type": "ephemeral"}},
        {"role": "user", "content": [
            {"type": "text", "text": "a", "cache_control": {"type": "ephemeral"}},
            {"type": "image_url", "image_url": {"url": "u", "detail": "original", "fps": 2}, "min_pixels": 3},
            {"type": "input_audio", "input_audio": {"data": "AA==", "format": "flac"}},
            {"type": "video_url", "video_url": {"url": "u"}},
        ], "x": 1},
        {"role": "assistant", "content": null, "prefix": true, "tool_calls": [
            {"id": "c", "type": "function", "function": {"name": "t", "arguments": "{}", "strict": true}},
        ]},
        {"role": "tool", "tool_call_id": "c", "content": "x", "status": "ok"},
        {"role": "assistant", "content": [{"type": "refusal", "refusal": "no"}, {"type": "chart", "x": null}]},
    ]);
    let messages = openai::history(request.to_string()).unwrap();
    assert_eq!(json!(Messages::of(&messages).verbatim()), request);
    // And nobody is sent it who does not list it.
    let sent = json_of(&messages).to_string();
    let fields = "cache_control fps min_pixels \"x\":1 prefix strict status chart";
    for field in fields.split(' ') {
        assert!(!sent.contains(field), "{field}: {sent}");
    }
    for what in ["flac", "video_url", "original", "refusal"] {
        assert!(sent.contains(what), "{what}: {sent}");
    }

    let narrated = r#"[{"role": "narrator", "attributes": {"mood": "low"}, "content": "Rain."}]"#;
    let narrated = openai::history(narrated).unwrap();
    assert_storable(&narrated, "narrator");

    let answer = openai::answer(
        r#"{"role": "assistant", "content": "x", "annotations": [{"type": "url_citation"}], "y": 1}"#,
    )
    .unwrap();
    let ai = &answer.message;
    assert_eq!(ai.attributes()[ATTRIBUTE]["annotations"][0]["type"], "url_citation");
    let list = [answer.into()];
    let expected = json!([{"role": "assistant", "content": "x", "y": 1}]);
    assert_eq!(json!(Messages::of(&list).verbatim()), expected);
    assert_eq!(json_of(&list), json!([{"role": "assistant", "content": "x"}]));
}

#[test]
fn what_another_format_kept_is_not_sent() {
    let extra = |value: Value| value.as_object().unwrap().clone();
    let text = memory_prompt::message::TextPart {
        text: "x".to_owned(),
        extra: extra(json!({"anthropic": {"citations": []}, "responses": {"type": "refusal"}})),
    };
    let call = ToolCall {
        extra: extra(json!({"gemini": {"thoughtSignature": "s"}, "stray": 1})),
        ..ToolCall::new("c", "t", "{}").with_signature("s")
    };
    let message = AiMessage::from_parts([AiPart::Content(Part::Text(text)), call.into()]);
    let expected = json!([{"role": "assistant", "content": "x", "tool_calls": [
        {"id": "c", "type": "function", "function": {"name": "t", "arguments": "{}"}}]}]);
    assert_eq!(json_of(&[message.with_attribute("mine", 1).into()]), expected);
}

#[test]
fn the_deprecated_functions_become_tools() {
    let request = json!([
        {"role": "user", "content": "hi"},
        {"role": "assistant", "content": null, "function_call": {"name": "look", "arguments": "{}"}},
        {"role": "function", "name": "look", "content": "a cat"},
    ]);
    let expected = [
        Message::user("hi"),
        Message::ai_calls([ToolCall::new("function_1", "look", "{}")]),
        Message::tool("function_1", "look", "a cat"),
    ];
    assert_eq!(openai::history(request.to_string()).unwrap(), expected);
}

#[test]
fn a_body_and_odd_histories_are_read() {
    let body = json!({"model": "m", "messages": [
        {"role": "system", "content": [{"type": "text", "text": "a"}, {"type": "text", "text": "b"}]},
        {"role": "critic", "content": "no", "x": null},
        {"role": "tool", "tool_call_id": "nobody", "name": "t", "content": ["x"]},
        {"role": "user", "content": [{"type": "image_url", "image_url": "https://e.x"}]},
    ]});
    let messages = openai::history(body.to_string()).unwrap();
    assert_eq!(messages[0], Message::system("a\n\nb"));
    let Message::Custom(critic) = &messages[1] else { panic!() };
    assert_eq!((critic.role(), &critic.fields()["content"]), ("critic", &json!("no")));
    assert_eq!(messages[2], Message::tool("nobody", "t", [Part::text("x")]));
    assert_eq!(messages[3], Message::user([Part::Image(Media::url("https://e.x"))]));
}

/// What the format can hold without a loss.
fn lossless() -> BoxedStrategy<Vec<Message>> {
    use crate::wire_messages::*;
    let image = prop_oneof![
        Just(Media::url("https://e.x/a.png")),
        Just(Media::base64("image/png", "AA==").with_detail(Detail::High)),
        Just(Media::url("u").with_detail(Detail::Other("original".to_owned()))),
    ];
    let part = prop_oneof![
        4 => text().prop_map(Part::text),
        1 => image.prop_map(Part::Image),
        1 => Just(Part::Audio(Media::base64("audio/wav", "AA=="))),
        1 => Just(Part::Audio(Media::base64("audio/mpeg", "AA=="))),
        1 => words().prop_map(|name| Part::File(Media::base64("application/pdf", "AA==").with_name(name))),
        1 => Just(Part::File(Media::file_id("file_1"))),
    ];
    let parts = proptest::collection::vec(part, 1..4);
    let name = proptest::option::of("[a-z_-]{1,8}");
    let user = (prop_oneof![text().prop_map(Content::from), parts.prop_map(Content::from)], name)
        .prop_map(|(content, name)| {
            vec![name.into_iter().fold(UserMessage::new(content), UserMessage::with_name).into()]
        });
    let said = (proptest::option::of(words()), proptest::collection::vec(words(), 0..3));
    let said = said.prop_map(|(thought, texts)| {
        let thought = thought.map(|thought| AiPart::from(Reasoning::new(thought)));
        let texts = texts.into_iter().map(Part::text).map(AiPart::from);
        thought.into_iter().chain(texts).collect::<Vec<_>>()
    });
    let said = said.boxed();
    let ai = said.clone().prop_map(|parts| vec![AiMessage::from_parts(parts).into()]);
    let results = prop_oneof![
        text().prop_map(Content::from),
        proptest::collection::vec(text().prop_map(Part::text), 1..3).prop_map(Content::from),
    ];
    let arguments = arguments().prop_filter("empty arguments become {}", |a| !a.is_empty());
    let group = group(said, results, arguments);
    let system = text().prop_map(|text| vec![SystemMessage::new(text).into()]);
    let step = prop_oneof![1 => system, 3 => user, 2 => ai, 3 => group];
    proptest::collection::vec(step, 0..6).prop_map(|steps| steps.concat()).boxed()
}

counted! {
    #![cases(512)]

    #[test]
    fn nothing_is_lost_where_the_format_allows(messages in lossless()) {
        let messages = wire_messages::opened_once(&messages);
        let json = serde_json::to_string(&Messages::of(&messages).reasoning().strict().unwrap()).unwrap();
        prop_assert_eq!(openai::history(&json).unwrap(), messages.clone());
        let json = serde_json::to_string(&Messages::of(&messages).reasoning_content().developer()).unwrap();
        prop_assert_eq!(openai::history(&json).unwrap(), messages);
    }

    /// Whatever a memory holds becomes a list of well-formed messages, with no key twice, and
    /// reading it back changes nothing more.
    #[test]
    fn anything_can_be_written(messages in wire_messages::messages(), flags in any::<[bool; 6]>()) {
        let options = |mut view: Messages<'_>| {
            if flags[0] { view = view.developer(); }
            if flags[1] { view = view.reasoning(); }
            if flags[2] { view = view.reasoning_content(); }
            if flags[3] { view = view.flat_text(); }
            if flags[4] { view = view.cache_prefix(); }
            if flags[5] { view = view.calls_alone(); }
            serde_json::to_string(&view).unwrap()
        };
        let text = options(Messages::of(&messages));
        let value: Value = serde_json::from_str(&text).unwrap();
        // An answer of which only what others understand is left out is none.
        let is_sent = |m: &&Message| options(Messages::of([*m])) != "[]";
        prop_assert_eq!(value.as_array().unwrap().len(), messages.iter().filter(is_sent).count());
        for message in messages.iter().filter(|m| !is_sent(m)) {
            let says = message.as_ai().is_some_and(|ai| !ai.text().is_empty() || ai.has_tool_calls());
            prop_assert!(!says && (message.as_ai().is_some() || matches!(message, Message::Custom(_))));
        }
        for message in value.as_array().unwrap() {
            let content = &message["content"];
            prop_assert!(content.is_string() || content.as_array().is_some_and(|l| !l.is_empty())
                || (content.is_null() && message["role"] == "assistant"));
        }
        // Each key once: a map that is written again is as long.
        prop_assert_eq!(value.to_string().len(), text.len());

        if let Ok(once) = openai::history(&text) {
            let again = options(Messages::of(&once));
            if let Ok(twice) = openai::history(&again) {
                prop_assert_eq!(options(Messages::of(&twice)), again);
            }
        }
    }
}

/// Mistral's own client refused the audio that was written for it: OpenAI's is an object, Mistral's
/// its data or address alone, and a history with that could not be read.
#[test]
fn audio_is_written_and_read_as_mistral_has_it() {
    let history = [Message::user([
        Part::text("What is said?"),
        Part::Audio(Media::base64("audio/wav", "UklGRgAA")),
        Part::Audio(Media::url("https://e.x/a.mp3")),
        Part::Audio(Media::file_id("file_1")),
    ])];
    let body = json!(Messages::of(&history).for_provider(Provider::Mistral));
    let expected = json!([
        {"type": "text", "text": "What is said?"},
        {"type": "input_audio", "input_audio": "UklGRgAA"},
        {"type": "input_audio", "input_audio": "https://e.x/a.mp3"},
        {"type": "text", "text": "[audio: not supported by this format]"},
    ]);
    assert_eq!(body[0]["content"], expected);
    let read = openai::history(&body).expect("it can be read");
    assert_eq!(json!(Messages::of(&read).for_provider(Provider::Mistral)), body);
}

/// A request was refused with 400, and neither the parameter nor the reason could be had.
#[test]
fn an_error_names_the_parameter_and_keeps_the_words_of_the_provider() {
    let refused = |param: &str| {
        let error = json!({"message": "Invalid value: 'Ann, 4 Elm Street'", "param": param,
            "type": "invalid_request_error", "code": null});
        openai::answer(json!({"error": error}).to_string()).unwrap_err()
    };
    let error = refused("messages[3].content");
    assert_eq!(error.provider_message(), Some("Invalid value: 'Ann, 4 Elm Street'"));
    assert!(error.to_string().contains("about `messages[3].content`"), "{error}");
    assert!(!format!("{error} {error:?}").contains("Elm"));
    // What is no name of a parameter is not repeated.
    assert!(!refused("4 Elm Street").to_string().contains("Elm"));
}

/// OpenRouter and `LiteLLM` document Anthropic's mark, and were sent OpenAI's.
#[test]
fn the_cache_mark_is_the_one_that_the_provider_knows() {
    let list = [Message::user([Part::text("hi"), Part::Image(Media::url("https://e.x/a.png"))])];
    let hour = json!({"type": "ephemeral", "ttl": "1h"});
    for provider in [Provider::OpenRouter, Provider::LiteLlm] {
        let prompt = prompt_for(provider, &list);
        let body = json!(Request::new(&prompt).cache_prefix_1h());
        let content = &body["messages"][0]["content"];
        assert_eq!(content[0]["cache_control"], hour, "{provider}: {body}");
        assert!(content[1].get("cache_control").is_none(), "it is for texts");
        let body = json!(Request::new(&prompt).cache_prefix());
        let short = json!({"type": "ephemeral"});
        assert_eq!(body["messages"][0]["content"][0]["cache_control"], short);
        assert!(!body.to_string().contains("prompt_cache_breakpoint"), "{body}");
    }
    let body = json!(Request::new(&prompt_for(Provider::OpenAi, &list)).cache_prefix());
    assert!(body["messages"][0]["content"][1].get("prompt_cache_breakpoint").is_some(), "{body}");
}
