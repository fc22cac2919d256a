//! Stories of bodies that a provider refused, because they held what only another one takes.

#![allow(clippy::unwrap_used)] // a test that fails should say so

use crate::setups::{Drawn, PROVIDERS, all, compose, prompt_for};
use memory_prompt::message::{AiMessage, AiPart, Media, Part, Reasoning};
use memory_prompt::wire::{self, Request};
use memory_prompt::{Composer, Message, Provider, Tool, ToolCall};
use serde_json::{Value, json};

/// The request of these messages, and how much of them it has lost.
fn sent(provider: Provider, messages: &[Message]) -> (Value, usize) {
    let prompt = prompt_for(provider, messages);
    let request = Request::new(&prompt).model("m").max_tokens(9);
    (json!(request), request.losses().len())
}

/// OpenAI's model refused, and the conversation went on at Mistral: 422 from then on, "Input tag
/// 'refusal' does not match any of the expected tags".
#[test]
fn what_openai_refused_is_a_text_for_others() {
    let history = json!([
        {"role": "user", "content": "Help me."},
        {"role": "assistant", "content": null, "refusal": "I can't."},
        {"role": "user", "content": "Why?"},
    ]);
    let history = wire::history(Provider::OpenAi, history.to_string().as_str()).unwrap();
    let answer = |provider| {
        let (body, lost) = sent(provider, &history);
        assert_eq!(lost, 0, "{provider}");
        body["messages"][1]["content"].clone()
    };
    let refusal = json!([{"type": "refusal", "refusal": "I can't."}]);
    assert_eq!(answer(Provider::OpenAi), refusal);
    assert_eq!(answer(Provider::Azure), refusal);
    for other in [
        Provider::Mistral,
        Provider::DeepSeek,
        Provider::Groq,
        Provider::Xai,
        Provider::OpenRouter,
        Provider::StrictTemplate,
        Provider::OpenAiCompatible,
    ] {
        assert_eq!(answer(other), "I can't.", "{other}");
    }
}

/// DeepSeek: "unknown variant `image_url`, expected `text`". Groq's client knows no files and no
/// audio. OpenAI: "Please make sure your image has of one the following formats", and files are PDF
/// alone. Google: "Unsupported MIME type". vLLM: "Unknown part type: file".
#[test]
fn media_that_a_provider_refuses_are_told_and_not_sent() {
    const DOCX: &str = "application/vnd.openxmlformats-officedocument.wordprocessingml.document";
    let sent = [
        Part::text("Look:"),
        Part::Image(Media::url("https://e.x/a.png")),
        Part::Image(Media::url("data:image/svg+xml;base64,PHN2Zy8+")),
        Part::Audio(Media::url("data:audio/wav;base64,UklGRg==")),
        Part::File(Media::url(format!("data:{DOCX};base64,UEsDBAoAAAA="))),
    ];
    let refused = |provider| {
        let prompt = prompt_for(provider, &[Message::user(sent.clone())]);
        let body = json!(Request::new(&prompt).model("m").max_tokens(9)).to_string();
        let losses = Request::new(&prompt).losses();
        // What is told is what is not there.
        assert_eq!(body.matches("not supported").count(), losses.len(), "{provider}: {body}");
        assert_eq!(body.contains("svg+xml"), !losses.iter().any(|loss| loss.part == Some(2)));
        losses.iter().map(|loss| loss.part.unwrap()).collect::<Vec<_>>()
    };
    assert_eq!(refused(Provider::OpenAi), [2, 4]);
    assert_eq!(refused(Provider::OpenAiResponses), [2, 3]);
    assert_eq!(refused(Provider::DeepSeek), [1, 2, 3, 4]);
    assert_eq!(refused(Provider::Groq), [2, 3, 4]);
    assert_eq!(refused(Provider::Gemini), [2, 4]);
    assert_eq!(refused(Provider::Vllm), [2, 4]);
}

/// A history of OpenAI's went on at Claude with `file-1` as if Anthropic knew it, and the name of a
/// bucket went to whoever was asked next.
#[test]
fn an_id_that_one_provider_gave_is_no_others() {
    let history = json!([{"role": "user", "content": [
        {"type": "text", "text": "Read:"},
        {"type": "file", "file": {"file_id": "file-1"}},
    ]}]);
    let history = wire::history(Provider::OpenAi, history.to_string().as_str()).unwrap();
    let goes_to = |provider, messages: &[Message], what| {
        let (body, lost) = sent(provider, messages);
        let is_there = body.to_string().contains(what);
        assert_eq!(lost == 0, is_there, "{provider}: {body}");
        is_there
    };
    for (provider, knows) in [
        (Provider::OpenAi, true),
        (Provider::OpenAiResponses, true),
        (Provider::Anthropic, false),
        (Provider::Gemini, false),
        (Provider::Mistral, false),
        (Provider::OpenAiCompatible, false),
    ] {
        assert_eq!(goes_to(provider, &history, "file-1"), knows, "{provider}");
    }
    // One that the application names itself goes to whom it asks, unless it looks like another's.
    let own = [Message::user([Part::File(Media::file_id("file_012"))])];
    assert!(goes_to(Provider::Anthropic, &own, "file_012"));
    let own = [Message::user([Part::File(Media::file_id("file-2"))])];
    assert!(!goes_to(Provider::Anthropic, &own, "file-2"));

    let bucket = [Message::user([Part::Image(Media::url("gs://bucket/a.png"))])];
    assert!(goes_to(Provider::Vertex, &bucket, "gs://bucket"));
    assert!(!goes_to(Provider::OpenAi, &bucket, "gs://bucket"));
    assert!(!goes_to(Provider::Anthropic, &bucket, "gs://bucket"));
}

/// "`function_response.parts` is not supported for this model".
#[test]
fn before_gemini_3_media_stand_behind_a_result() {
    let call = ToolCall::new("c", "draw", "{}");
    let drawn = [Part::text("Done."), Part::Image(Media::url("data:image/png;base64,aGk="))];
    let result = call.result(drawn);
    let messages = [Message::user("Draw."), Message::ai_calls([call]), result];
    let parts = |provider| {
        let (body, lost) = sent(provider, &messages);
        assert_eq!(lost, 0, "{provider}");
        body["contents"][2]["parts"].clone()
    };
    let image = json!({"inlineData": {"mimeType": "image/png", "data": "aGk="}});
    assert_eq!(parts(Provider::Gemini)[0]["functionResponse"]["parts"], json!([image]));
    let older = parts(Provider::Gemini.model("gemini-2.5-flash"));
    assert_eq!(older[0]["functionResponse"].get("parts"), None);
    assert_eq!(older[1], image);
}

/// A PDF under the type of an upload's header (`application/pdf; charset=binary`), in jsPDF's URL
/// (`data:application/pdf;filename=generated.pdf;base64,..`) or under no type went to nobody: its
/// reader got `[file: not supported by this format]`. Data in lines were sent in lines.
#[test]
fn a_type_with_parameters_and_an_empty_one_lose_no_file() {
    use Provider::{Anthropic, Gemini, OpenAi, OpenAiResponses, Vertex};
    const PDF: &str = "JVBERi0xLjQKJcOkw7zD";
    let reads = |provider, file: Value| {
        let history = json!([{"role": "user", "content": [file]}]).to_string();
        wire::history(provider, history.as_str()).unwrap()
    };
    let types = ["application/pdf; charset=binary", "application/pdf;filename=a-b_c.pdf", ""];
    for told in types {
        let url = format!("data:{told};base64,{}\n{}\n", &PDF[..8], &PDF[8..]);
        let file = |media: Media| vec![Message::user([Part::File(media.with_name("a.pdf"))])];
        let histories = [
            file(Media::base64(told, PDF)),
            file(Media::url(url.clone())),
            reads(OpenAi, json!({"type": "file", "file": {"filename": "a.pdf", "file_data": url}})),
            reads(
                OpenAiResponses,
                json!({"type": "input_file", "filename": "a.pdf", "file_data": url}),
            ),
        ];
        for (i, history) in histories.iter().enumerate() {
            for provider in [OpenAi, OpenAiResponses, Anthropic, Gemini, Vertex] {
                let (body, lost) = sent(provider, history);
                let body = body.to_string();
                let is_typed = match provider {
                    OpenAi | OpenAiResponses => {
                        body.contains("\"data:application/pdf;base64,JVBERi")
                    }
                    _ => body.contains("\"application/pdf\""),
                };
                assert!(is_typed && body.contains(PDF) && lost == 0, "{provider} {i}: {body}");
            }
        }
    }
    let google = |part| {
        let (body, _) = sent(Gemini, &[Message::user([part])]);
        body["contents"][0]["parts"][0].clone()
    };
    let heic = Media::base64("image/heic; charset=binary", "AAAA");
    assert_eq!(google(Part::Image(heic))["inlineData"]["mimeType"], "image/heic");
    let at = Media::url("https://e.x/a").with_media_type("application/pdf; charset=binary");
    assert_eq!(google(Part::File(at))["fileData"]["mimeType"], "application/pdf");
    // Raw sound is of no use without its rate.
    let raw = "audio/L16;codec=pcm;rate=24000";
    let said = google(Part::Audio(Media::base64(raw, "AAAA")));
    assert_eq!(said["inlineData"]["mimeType"], raw);
}

/// The crate wrote `{"type": "file", "file_id": ".."}` for Mistral, and could not read it again.
#[test]
fn mistrals_files_are_read_as_they_are_written() {
    let sent = [
        Part::text("Read:"),
        Part::File(Media::file_id("F")),
        Part::File(Media::url("https://e.x/a.pdf").with_name("a.pdf")),
    ];
    let (body, _) = self::sent(Provider::Mistral, &[Message::user(sent.clone())]);
    let body = body["messages"].to_string();
    let read = wire::history(Provider::Mistral, body.as_str()).unwrap();
    let Message::User(user) = &read[0] else { unreachable!("{read:?}") };
    assert_eq!(user.content().parts(), sent);
}

fn check(provider: Provider, schema: Value, strict: bool) -> Result<Value, String> {
    let tool = Tool::new("t", "A tool.").parameters(schema);
    let tools = [tool.with_if(strict, Tool::strict)];
    let prompt = prompt_for(provider, &[Message::user("hi")]);
    let request = Request::new(&prompt).model("m").max_tokens(9).tools(&tools);
    request.check().map_err(|error| error.to_string())?;
    Ok(json!(request)["tools"][0].clone())
}

/// An enum of Rust as the parameters: "schema must have type 'object' and not have 'oneOf'".
#[test]
fn parameters_that_are_a_choice_are_refused_before_they_are_sent() {
    let choice = json!({"oneOf": [
        {"type": "object", "properties": {"a": {"type": "string"}}, "required": ["a"]},
    ]});
    for provider in [Provider::OpenAi, Provider::OpenAiResponses, Provider::Anthropic] {
        for strict in [false, true] {
            let error = check(provider, choice.clone(), strict).unwrap_err();
            assert!(error.contains("tools[0]") && error.contains("oneOf"), "{error}");
        }
    }
    assert!(check(Provider::Vllm, choice.clone(), false).is_ok());
    assert!(check(Provider::Vllm, choice, true).unwrap_err().contains("oneOf"));
}

/// A `u32` is `{"type": "integer", "format": "uint32", "minimum": 0}`: "property 'minimum' is not
/// supported", and "'uint32' is not a valid format".
#[test]
fn what_a_strict_mode_can_not_demand_is_told_to_the_model() {
    let schema = json!({"type": "object", "required": ["n"], "properties": {"n": {
        "type": "integer", "format": "uint32", "minimum": 0, "description": "How many.",
    }}});
    let claude = check(Provider::Anthropic, schema.clone(), true).unwrap();
    let expected =
        json!({"type": "integer", "description": "How many. {format: \"uint32\", minimum: 0}"});
    assert_eq!(claude["input_schema"]["properties"]["n"], expected);
    let openai = check(Provider::OpenAi, schema.clone(), true).unwrap();
    let expected =
        json!({"type": "integer", "minimum": 0, "description": "How many. {format: \"uint32\"}"});
    assert_eq!(openai["function"]["parameters"]["properties"]["n"], expected);
    let loose = check(Provider::Anthropic, schema.clone(), false).unwrap();
    assert_eq!(loose["input_schema"], schema);
}

/// A `serde_json::Value` as a property: "schema must have a 'type' key".
#[test]
fn a_value_of_any_type_is_refused_in_openais_strict_mode() {
    for any in [json!(true), json!({}), json!({"description": "Anything."})] {
        let schema = json!({"type": "object", "properties": {"v": any}, "required": ["v"]});
        let error = check(Provider::OpenAi, schema.clone(), true).unwrap_err();
        assert!(error.contains("type"), "{error}");
        assert!(check(Provider::OpenAi, schema, false).is_ok());
    }
}

/// Claude and Gemini answer 400 to an address without TLS ("Only HTTPS URLs are supported."), and
/// nobody looks at a picture that stands in its address in other letters than base64. Each stayed
/// in the history, and so did the error.
#[test]
fn an_address_that_a_provider_does_not_look_at_is_not_sent() {
    let refused = |provider, media: Media| {
        let message = Message::user([Part::text("See:"), Part::Image(media)]);
        let (body, lost) = sent(provider, &[message]);
        let text = body.to_string();
        let is_there = text.contains("e.x/") || text.contains("data:image/svg");
        assert_eq!(lost == 0, is_there, "{provider}: {body}");
        !is_there
    };
    let plain = || Media::url("http://e.x/a.png");
    for provider in [Provider::Anthropic, Provider::Gemini, Provider::Vertex] {
        assert!(refused(provider, plain()), "{provider}");
        assert!(!refused(provider, Media::url("https://e.x/a.png")), "{provider}");
    }
    assert!(!refused(Provider::Vllm, plain()));
    for provider in PROVIDERS {
        assert!(refused(provider, Media::url("data:image/svg+xml,%3Csvg/%3E")), "{provider}");
    }
}

/// Amazon and Google look at no address for Claude: "URL sources are not supported".
#[test]
fn claude_in_a_cloud_looks_at_no_address() {
    for provider in [Provider::ClaudeOnBedrock, Provider::ClaudeOnVertex] {
        for part in [
            Part::Image(Media::url("https://e.x/a.png")),
            Part::File(Media::url("https://e.x/a.pdf")),
        ] {
            let (body, lost) = sent(provider, &[Message::user([Part::text("See:"), part])]);
            assert!(!body.to_string().contains("https://e.x"), "{provider}: {body}");
            assert_eq!(lost, 1);
        }
    }
}

/// A chat that began at another provider went on at DeepSeek: "The `reasoning_content` in the
/// thinking mode must be passed back to the API."
#[test]
fn deepseek_is_sent_its_field_with_each_answer() {
    let thought = AiMessage::from_parts(["Hi.".into(), AiPart::from(Reasoning::new("Hm."))]);
    let history = [
        Message::user("Hi."),
        Message::ai("Hello."),
        Message::user("And?"),
        thought.into(),
        Message::user("So?"),
    ];
    let prompt = prompt_for(Provider::DeepSeek, &history);
    let body = json!(Request::new(&prompt).model("deepseek-v4-pro"));
    assert_eq!(body["messages"][1]["reasoning_content"], "", "{body}");
    assert_eq!(body["messages"][3]["reasoning_content"], "Hm.", "{body}");
}

/// A user began with an empty system message, and a model was cut off while it thought: "Every
/// message needs at least one non-empty content element."
#[test]
fn xai_is_sent_nothing_empty() {
    let thought = AiMessage::from_parts([Reasoning::new("Hm.")]);
    let history = [
        Message::user("Why?"),
        thought.into(),
        Message::user(""),
        Message::ai(""),
        Message::system(""),
    ];
    let composer = Composer::new().system("").for_provider(Provider::Xai);
    let prompt = compose(&composer, &history, &[]).unwrap();
    let body = json!(Request::new(&prompt).model("grok-4"));
    assert!(body["messages"].as_array().unwrap().iter().all(|it| it["content"] != ""), "{body}");
}

/// A settings file had an empty line for the system message, and it was sent as a message.
#[test]
fn an_empty_system_message_is_none() {
    for provider in all() {
        let composer = Composer::new().system("").for_provider(provider);
        let history = [Message::user("hi")];
        let prompt = compose(&composer, &history, &[]).unwrap();
        let body = json!(Request::new(&prompt).model("m").max_tokens(9));
        assert_eq!(body, sent(provider, &history).0, "{provider}");
    }
}

/// A window held nothing but what another provider's model had thought: the list of messages was
/// empty, which each provider refuses.
#[test]
fn what_another_model_thought_is_no_prompt() {
    let body = json!({"choices": [{"message": {"content": "", "reasoning_content": "Hm."}}]});
    let thought = wire::openai::answer(body).unwrap().message;
    let thought = thought.with_attribute("wire:provider", "xai");
    let composer = Composer::new().for_provider(Provider::OpenAi);
    let error = compose(&composer, &[thought.into()], &[]).unwrap_err();
    assert!(error.to_string().contains("there is no message"), "{error}");
}

/// "Property keys should match pattern '^[a-zA-Z0-9_.-]{1,64}$'", in every request of Claude's with
/// such a tool.
#[test]
fn a_parameter_whose_name_claude_refuses_is_an_error() {
    let long = "l".repeat(65);
    let named = |name: &str| json!({"type": "object", "properties": {name: {"type": "string"}}});
    for name in ["größe", "a b", "", &long] {
        for provider in [Provider::Anthropic, Provider::ClaudeOnBedrock, Provider::ClaudeOnVertex] {
            let error = check(provider, named(name), false).unwrap_err();
            assert!(
                error.contains(&format!(
                    "tools[0]: the provider refuses a parameter with the name `{name}`"
                )),
                "{error}"
            );
        }
        assert!(check(Provider::OpenAi, named(name), false).is_ok());
    }
    assert!(check(Provider::Anthropic, named("a.b-C_9"), false).is_ok());
}

/// A page sent an upload of no bytes: each request of the conversation was refused from then on.
#[test]
fn media_of_nothing_are_not_sent() {
    for nothing in [
        Media::base64("image/png", ""),
        Media::url("data:image/png;base64,"),
        Media::url(""),
        Media::file_id(""),
    ] {
        for provider in PROVIDERS {
            let question = Message::user([Part::text("see"), Part::Image(nothing.clone())]);
            let (body, lost) = sent(provider, &[question]);
            assert_eq!(lost, 1, "{provider}: {body}");
            assert!(body.to_string().contains("[image: not supported"), "{provider}: {body}");
        }
    }
}
