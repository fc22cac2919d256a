//! Requests: the bodies that the providers' references show, the laws, and what goes wrong.

#![allow(clippy::unwrap_used, clippy::expect_used, clippy::panic, missing_docs, unreachable_pub)] // a test that panics has failed

use std::io::Write;

use crate::conversations::{conversation, temporaries};
use crate::counted::counted;
use crate::golden::goldens;
use crate::oracles::{ask, python};
use crate::setups::{
    self, Drawn, PROVIDERS, TYPED, compose, holding, prompt_for, providers, setups,
};
use memory_prompt::message::{
    AiMessage, Attributes, Media, Part, SystemMessage, TextPart, ToolMessage, UserMessage,
};
use memory_prompt::provider::{Format, Row};
use memory_prompt::report::Break;
use memory_prompt::wire::{Request, ToolChoice, anthropic};
use memory_prompt::{Composer, ErrorKind, Message, Prompt, Provider, Tool, ToolCall, wire};
use proptest::prelude::*;
use serde_json::{Value, json};

fn tool(given: &Value) -> Tool {
    let text = |key: &str| given[key].as_str().unwrap();
    let tool = Tool::new(text("name"), text("description")).parameters(given["parameters"].clone());
    if given["strict"] == true { tool.strict() } else { tool }
}

fn choice(given: &Value) -> Option<ToolChoice> {
    match given.as_str() {
        Some("auto") => Some(ToolChoice::Auto),
        Some("none") => Some(ToolChoice::None),
        Some("required") => Some(ToolChoice::Required),
        Some(other) => panic!("{other}"),
        None => given["tool"].as_str().map(|name| ToolChoice::Tool(name.to_owned())),
    }
}

fn greeting(provider: Provider) -> Prompt {
    prompt_for(provider, &[Message::user("hi")])
}

/// The body that the parts in a golden make.
fn body_of(golden: &Value) -> Value {
    let given = &golden["given"];
    let provider: Provider = serde_json::from_value(golden["provider"].clone()).unwrap();
    let system = given["system"].as_str().map(Message::system);
    let mut messages: Vec<_> = system.into_iter().collect();
    messages.push(Message::user(given["user"].as_str().unwrap()));
    if given["response"].is_object() {
        let answer = wire::answer(provider, &given["response"]).unwrap();
        let result = given["result"].as_str().unwrap();
        let results: Vec<_> = answer.message.tool_calls().map(|it| it.result(result)).collect();
        messages.push(answer.into());
        messages.extend(results);
    }
    let prompt = prompt_for(provider, &messages);
    let tools: Vec<_> = given["tools"].as_array().unwrap().iter().map(tool).collect();
    let request = Request::new(&prompt).tools(&tools).stream(given["stream"] == true);
    let request = request
        .with_some(given["model"].as_str(), Request::model)
        .with_some(choice(&given["choice"]), Request::tool_choice)
        .with_some(given["max_tokens"].as_u64(), Request::max_tokens);
    let mut request = match &given["cache"] {
        Value::Bool(true) => request.cache_prefix(),
        Value::String(_) => request.cache_prefix_1h(),
        _ => request,
    };
    for (name, value) in given["extra"].as_object().into_iter().flatten() {
        request = request.extra(name, value.clone());
    }
    json!(request.strict().unwrap())
}

#[test]
fn bodies_are_those_of_the_references() {
    let mut seen = Vec::new();
    for (name, golden) in goldens("request") {
        let body = body_of(&golden);
        assert_eq!(body, golden["request"], "{name}: {body:#}");
        seen.push(serde_json::from_value::<Provider>(golden["provider"].clone()).unwrap());
    }
    for provider in PROVIDERS {
        assert!(seen.contains(&provider), "{provider:?} has no golden");
    }
}

/// What a request of this prompt is, with all that can be asked for of its provider.
fn full_body(prompt: &Prompt, provider: Provider, tools: &[Tool]) -> String {
    let mut request = Request::new(prompt).model("m").tools(tools).max_tokens(100).stream(true);
    if provider.row().forced_calls {
        request = request.tool_choice(ToolChoice::Required);
    }
    serde_json::to_string(&request.cache_prefix()).unwrap()
}

fn some_tools() -> Vec<Tool> {
    let parameters = json!({
        "type": "object",
        "properties": {"city": {"type": "string"}, "days": {"type": "integer", "minimum": 1}},
        "required": ["city"],
    });
    vec![
        Tool::new("weather", "The weather of a city.").parameters(parameters.clone()),
        Tool::new("forecast", "The weather to come.").parameters(parameters).strict(),
    ]
}

/// A second opinion, beside the goldens: the typed models of the providers' Python clients.
///
/// ```text
/// MEMORY_PROMPT_PYTHON=.venv/bin/python cargo test --test wire -- --ignored request
/// ```
#[test]
#[ignore = "needs python with the packages of tests/python/requirements.txt"]
fn requests_fit_the_typed_models_of_the_python_clients() {
    let call = ToolCall::new("call12345", "weather", r#"{"city": "Oslo"}"#);
    let messages = [
        Message::system("Be brief."),
        Message::user("What is the weather in Oslo?"),
        Message::ai_calls([call.clone()]),
        call.result("sunny, 21 °C"),
        Message::ai("Sunny."),
        Message::user("And tomorrow?"),
    ];
    // Those that have a client of their own: the others add fields that it does not know.
    let modelled = [&TYPED[..], &[Provider::StrictTemplate]].concat();
    let mut requests = Vec::new();
    for (_, golden) in goldens("request") {
        if modelled.iter().any(|known| json!(known) == golden["provider"]) {
            requests.push(json!({"provider": golden["provider"], "body": body_of(&golden)}));
        }
    }
    for provider in modelled {
        let body = full_body(&prompt_for(provider, &messages), provider, &some_tools());
        let body: Value = serde_json::from_str(&body).unwrap();
        requests.push(json!({"provider": provider, "body": body}));
    }
    let told = ask(&mut python(), |lines| {
        for request in &requests {
            writeln!(lines, "{request}").unwrap();
        }
    });
    let counts = told.lines().filter_map(|line| line.split(' ').nth(1)?.parse::<usize>().ok());
    assert_eq!(counts.sum::<usize>(), requests.len(), "{told}");
}

/// What an error says.
fn refused(request: &Request<'_>) -> String {
    let error = request.check().unwrap_err();
    assert_eq!(error.kind(), ErrorKind::Invalid);
    assert!(serde_json::to_string(request).is_err());
    error.to_string()
}

#[test]
fn what_would_be_wrong_is_an_error() {
    let claude = greeting(Provider::Anthropic);
    let error = refused(&Request::new(&claude));
    assert_eq!(error, "write request: for anthropic: max_tokens: it is required");
    assert!(Request::new(&claude).extra("max_tokens", 5).check().is_ok());

    let ollama = greeting(Provider::Ollama);
    let tools = some_tools();
    for choice in [ToolChoice::Required, ToolChoice::Tool("weather".into())] {
        let error = refused(&Request::new(&ollama).tools(&tools).tool_choice(choice));
        assert_eq!(error, "write request: for ollama: choice: it can't be made to call a tool");
    }

    for provider in PROVIDERS {
        let prompt = greeting(provider);
        let request = || Request::new(&prompt).max_tokens(5);
        let error = refused(&request().tool_choice(ToolChoice::Required));
        assert!(error.ends_with("choice: a call is required, and there is no tool"), "{error}");
        let error =
            refused(&request().tools(&tools).tool_choice(ToolChoice::Tool("nothing".into())));
        assert!(error.ends_with("choice: there is no such tool"), "{error}");
        let odd = [Tool::new("x", "").parameters(json!("text"))];
        let error = refused(&request().tools(&odd));
        assert!(error.ends_with("tools: a schema is no object"), "{error}");
        // A choice between nothing is none.
        for choice in [ToolChoice::Auto, ToolChoice::None] {
            assert_eq!(json!(request().tool_choice(choice)), json!(request()));
        }
    }
}

/// Errors named the format: "write anthropic request" for a gateway of the user's own, "write
/// openai request" for Groq and vLLM, "not supported by this format" for a file that OpenAI's
/// format has a place for and Groq has not.
#[test]
fn errors_name_the_provider_and_not_its_format() {
    let own = |like| Provider::custom(Row::like(like, "our-gateway").unwrap());
    let all = [
        (Provider::Groq, "groq"),
        (Provider::Vllm, "vllm"),
        (Provider::ClaudeOnVertex, "claude_on_vertex"),
        (Provider::Gemini.model("gemini-2.5-pro"), "gemini"),
        (own(Provider::Anthropic), "our-gateway"),
        (own(Provider::OpenAiResponses), "our-gateway"),
        (own(Provider::Ollama), "our-gateway"),
    ];
    let weather = Tool::new("weather", "The weather of a city.");
    for (provider, name) in all {
        let prompt = greeting(provider);
        let request = || Request::new(&prompt).max_tokens(9);
        let odd = [Tool::new("x", "").parameters(json!({"type": "string"}))];
        let twice = [weather.clone(), weather.clone()];
        let nameless = [Tool::new("", "Nameless.")];
        let mut wrong = vec![
            request().tools(&odd),
            request().tools(&twice),
            request().tools(&nameless),
            request().tool_choice(ToolChoice::Required),
            request().tool_choice(ToolChoice::Tool("book".into())).tools(&twice[..1]),
            request().extra("tools", 1).tools(&twice[..1]),
        ];
        if provider.format() == Format::Anthropic {
            wrong.push(Request::new(&prompt));
        }
        for request in wrong {
            let error = refused(&request);
            assert!(error.starts_with(&format!("write request: for {name}: ")), "{error}");
            let error = serde_json::to_string(&request).unwrap_err().to_string();
            assert!(error.starts_with(&format!("request for {name}: ")), "{error}");
        }
    }
    let pdf = Media::base64("application/pdf", "JVBERi0=");
    let history = [Message::user([Part::File(pdf)])];
    for (provider, by) in [(Provider::Groq, "groq"), (own(Provider::Groq), "our-gateway")] {
        let prompt = prompt_for(provider, &history);
        let error = Request::new(&prompt).strict().unwrap_err().to_string();
        assert!(error.ends_with(&format!("a file is not supported by {by}")), "{error}");
    }
}

#[test]
fn a_field_of_ours_is_no_extra_field() {
    for provider in PROVIDERS {
        let prompt = prompt_for(provider, &[Message::system("Be brief."), Message::user("hi")]);
        let tools = some_tools();
        let request = Request::new(&prompt).model("m").tools(&tools).max_tokens(5).stream(true);
        let request = || request.clone().tool_choice(ToolChoice::Auto);
        let body = json!(request());
        for (name, ours) in body.as_object().unwrap() {
            let doubled = request().extra(name, ours.clone());
            if name == "store" || name == "anthropic_version" {
                continue; // ours gives way
            }
            if let (Some(once), "tools") = (ours.as_array(), name.as_str()) {
                assert_eq!(json!(doubled)["tools"].as_array().unwrap().len(), 2 * once.len());
                continue;
            }
            let error = refused(&doubled);
            assert!(error.contains(&format!("extra: `{name}")), "{error}");
            assert!(error.ends_with("is written by the request itself"), "{error}");
        }
        let named = json!(request().extra("labels", 7));
        assert_eq!(named["labels"], 7);
    }
}

#[test]
fn a_strict_schema_refuses_what_it_would_loosen() {
    let prompt = greeting(Provider::OpenAi);
    let strict = |schema: Value| [Tool::new("x", "").parameters(schema).strict()];
    for (keyword, (field, schema)) in [
        ("allOf", ("properties", json!({"a": {"allOf": [{"type": "string"}]}}))),
        ("not", ("properties", json!({"a": {"type": "object", "not": {}}}))),
        ("additionalProperties", ("additionalProperties", json!({"type": "string"}))),
    ] {
        let tools = strict(json!({"type": "object", field: schema}));
        let error = refused(&Request::new(&prompt).tools(&tools));
        assert!(error.ends_with(&format!("a strict schema can't have `{keyword}`")), "{error}");
    }
    let tools = strict(json!({
        "type": "object",
        "properties": {
            "kind": {"oneOf": [{"type": "string"}, {"type": "object", "properties": {"a": {"type": "integer"}}}]},
            "note": {"type": ["string", "null"], "default": null},
            "list": {"type": "array", "items": {"$ref": "#/$defs/Item"}},
        },
        "required": ["kind", "list"],
        "$defs": {"Item": {"type": "object", "properties": {}}},
    }));
    let body = json!(Request::new(&prompt).tools(&tools));
    let inner = json!({"type": "object", "properties": {"a": {"anyOf": [{"type": "integer"}, {"type": "null"}]}},
        "required": ["a"], "additionalProperties": false});
    let expected = json!({
        "type": "object",
        "properties": {
            "kind": {"anyOf": [{"type": "string"}, inner]},
            "note": {"type": ["string", "null"]},
            "list": {"type": "array", "items": {"$ref": "#/$defs/Item"}},
        },
        "required": ["kind", "list", "note"],
        "additionalProperties": false,
        "$defs": {"Item": {"type": "object", "properties": {}, "required": [], "additionalProperties": false}},
    });
    assert_eq!(body["tools"][0]["function"]["parameters"], expected);
}

#[test]
fn a_schema_without_a_type_is_of_an_object() {
    let tools = [Tool::new("x", "").parameters(json!({"properties": {}}))];
    for provider in PROVIDERS {
        let prompt = greeting(provider);
        let body = serde_json::to_string(&Request::new(&prompt).tools(&tools).max_tokens(1));
        assert!(body.unwrap().contains(r#"{"type":"object","properties":{}"#));
    }
}

/// A prompt was the list of its messages in the form in which they are stored: a tool call with the
/// arguments at the wrong place, and the application's own attributes. Somebody's server had both.
#[test]
fn a_prompt_is_the_messages_of_chat_completions() {
    let question = UserMessage::new("hi").with_attribute("tenant", "acme");
    let call = AiMessage::from_parts([ToolCall::new("c1", "look", "{}")]);
    let messages = [question.into(), call.into(), Message::tool("c1", "look", "seen")];
    let prompt = compose(&Composer::new(), &messages, &[]).unwrap();
    let expected = json!([
        {"role": "user", "content": "hi"},
        {"role": "assistant", "content": null, "tool_calls": [
            {"id": "c1", "type": "function", "function": {"name": "look", "arguments": "{}"}}]},
        {"role": "tool", "tool_call_id": "c1", "content": "seen"},
    ]);
    assert_eq!(json!(&prompt), expected);
    for provider in [Provider::OpenAi, Provider::Mistral, Provider::StrictTemplate] {
        assert!(serde_json::to_value(greeting(provider)).is_ok());
    }
    for (provider, name) in [
        (Provider::OpenAiResponses, "openai responses"),
        (Provider::Anthropic, "anthropic"),
        (Provider::Gemini, "gemini"),
        (Provider::Ollama, "ollama"),
    ] {
        let error = serde_json::to_value(greeting(provider)).unwrap_err().to_string();
        let why = "is no `messages` of chat completions: write a wire::Request";
        assert_eq!(error, format!("a prompt for {name} {why}"));
    }
}

/// A text that nothing else says.
const SECRET: &str = "kept by the application";

/// The message with an attribute of the application's, wherever it may have one.
fn with_attribute(message: Message) -> Message {
    match message {
        Message::System(m) => SystemMessage::with_attribute(m, "note", SECRET).into(),
        Message::User(m) => UserMessage::with_attribute(m, "note", SECRET).into(),
        Message::Ai(m) => AiMessage::with_attribute(m, "note", SECRET).into(),
        Message::Tool(m) => ToolMessage::with_attribute(m, "note", SECRET).into(),
        _ => Message::custom([("note".to_owned(), SECRET.into())]),
    }
}

counted! {
    #![cases(256)]

    #[test]
    fn no_attribute_of_the_application_reaches_a_wire(
        setup in setups(),
        provider in proptest::option::of(providers()),
        conversation in conversation(12),
        temporaries in temporaries(),
    ) {
        let composer = setup.composer().with_some(provider, Composer::for_provider);
        let own = Message::custom([("note".to_owned(), SECRET.into())]);
        let mut conversation: Vec<_> = conversation.into_iter().map(with_attribute).collect();
        conversation.insert(conversation.len() / 2, own);
        let temporaries: Vec<_> = temporaries.into_iter().map(with_attribute).collect();
        let Ok(prompt) = compose(&composer, &conversation, &temporaries) else { return Ok(()) };
        let mut written = PROVIDERS.map(|it| setups::request(it, &prompt).to_string()).to_vec();
        written.push(full_body(&prompt, provider.unwrap_or(Provider::OpenAi), &some_tools()));
        written.extend(serde_json::to_string(&prompt));
        for json in written {
            prop_assert!(!json.contains(SECRET), "{json}");
        }
    }

    /// A request says of the messages what the views say, and no more.
    #[test]
    fn a_request_holds_what_the_views_write(
        setup in setups(),
        provider in providers(),
        conversation in conversation(12),
    ) {
        let composer = setup.composer().for_provider(provider);
        let Ok(prompt) = compose(&composer, &conversation, &[]) else { return Ok(()) };
        let request = Request::new(&prompt).max_tokens(5);
        let body = json!(&request);
        for (name, field) in setups::request(provider, &prompt).as_object().unwrap() {
            prop_assert_eq!(&body[name], field);
        }
    }
}

#[test]
fn tools_of_the_prompt_are_sent() {
    let mut prompt = holding([Message::user("hi")]).tools(some_tools());
    let built = prompt.build().unwrap();
    assert_eq!(built.tools(), some_tools());
    let body = json!(Request::new(&built));
    assert_eq!(body["tools"].as_array().unwrap().len(), 2);
}

#[test]
fn the_report_says_that_tools_or_options_broke_the_prefix() {
    let mut prompt = holding([Message::user("hi")]).tools(some_tools());
    let first = prompt.build().unwrap();
    prompt.add(Message::ai("Hello.")).unwrap();
    let again = prompt.preview().unwrap().compared_to(&first);
    assert_eq!(again.report().shared_prefix.unwrap().broken_by, None);

    prompt.configure(|composer| composer.tools(some_tools().into_iter().rev()));
    let built = prompt.preview().unwrap().compared_to(&first);
    let shared = built.report().shared_prefix.unwrap();
    assert_eq!((shared.messages, shared.tokens), (0, 0));
    assert_eq!(shared.broken_by, Some(Break::Tools));
    assert!(built.report().to_string().contains("other tools are sent"));

    // What only the application looks at changes no definition; how an answer is drawn, no prefix.
    prompt.configure(|composer| composer.tools(some_tools().into_iter().map(Tool::repeatable)));
    let built = prompt.preview().unwrap();
    assert_eq!(built.shared_prefix(&first).broken_by, None);
    let with = |prompt: &Prompt, name: &str| {
        prompt.clone().sent_as(Request::new(prompt).model("m").extra(name, 1).fingerprint())
    };
    let first = with(&first, "temperature");
    assert_eq!(with(&built, "seed").shared_prefix(&first).broken_by, None);
    let built = with(&built, "reasoning_effort");
    assert_eq!(built.shared_prefix(&first).broken_by, Some(Break::Options));
}

#[test]
fn debug_says_nothing_of_what_is_said() {
    let prompt = greeting(Provider::OpenAi);
    let request = Request::new(&prompt).tools(&[]).extra("metadata", SECRET);
    let debug = format!("{request:?}");
    assert!(debug.contains("metadata") && !debug.contains(SECRET) && !debug.contains("hi"));
}

/// A film, another model's thought and the name of a user were lost without a word: a strict
/// request told the first and no other, and the report is about composing.
#[test]
fn all_losses_are_told_with_their_places() {
    use memory_prompt::message::{AiPart, Reasoning};
    let film = Part::Video(Media::url("https://e.x/a.mp4"));
    let asked = UserMessage::new([Part::text("Look:"), film.clone(), film]).with_name("Klaus");
    let parts = [AiPart::from(Reasoning::new("A cat?")), "A cat.".into()];
    let history = [asked.into(), AiMessage::from_parts(parts).into(), Message::user("Sure?")];
    let told = |provider: Provider| -> Vec<String> {
        let prompt = prompt_for(provider, &history);
        Request::new(&prompt).losses().iter().map(ToString::to_string).collect()
    };
    let films = ["message 0, part 1: video", "message 0, part 2: video"];
    let name = "message 0: the name of the user";
    let thought = "message 1, part 0: reasoning";
    assert_eq!(told(Provider::OpenAi), [films[0], films[1], thought]);
    assert_eq!(told(Provider::DeepSeek), films);
    assert_eq!(told(Provider::OpenAiResponses), [films[0], films[1], name, thought]);
    let unsigned = "message 1, part 0: reasoning without this provider's signature";
    assert_eq!(told(Provider::Anthropic), [films[0], films[1], name, unsigned]);
    assert_eq!(told(Provider::Ollama), [films[0], films[1], name]);
    assert_eq!(told(Provider::Gemini), [name]);
    assert_eq!(told(Provider::Mistral), [films[0], films[1], name, thought]);
}

/// Two tools of one name were written as they are, and names that the provider answers 400 to; and
/// where the history had such names, a model that repeated what it was sent was told that there is
/// no such tool.
#[test]
fn tools_that_a_provider_refuses_are_refused() {
    let error = |provider, tools: &[Tool]| {
        let prompt = greeting(provider);
        let request = Request::new(&prompt).max_tokens(9).tools(tools);
        request.check().err().map(|error| error.to_string())
    };
    let (dotted, plain) = (Tool::new("mail.send", "Sends."), Tool::new("look", "Looks."));
    let nameless = [plain.clone(), Tool::new("", "Does nothing.")];
    let nameless = error(Provider::OpenAi, &nameless).unwrap();
    assert_eq!(nameless, "write request: for openai: tools[1]: has no name");
    for provider in PROVIDERS {
        let prompt = greeting(provider);
        let tools = [plain.clone(), dotted.clone()];
        let mut request = Request::new(&prompt).max_tokens(9).tools(&tools);
        let forced = provider.row().forced_calls;
        if forced {
            request = request.tool_choice(ToolChoice::Tool("mail.send".to_owned()));
        }
        let sent = provider.row().tool_names.sent("mail.send");
        let body = serde_json::to_string(&request).unwrap();
        let times = 1 + usize::from(forced);
        assert_eq!(body.matches(&format!("\"{sent}\"")).count(), times, "{provider}: {body}");
        assert_eq!(request.tool(&sent), Some(&dotted), "{provider}");
        assert_eq!(request.tool("mail_send"), None);
    }
    for provider in PROVIDERS {
        let twice = error(provider, &[plain.clone(), plain.clone()]).unwrap();
        assert!(twice.ends_with("tools[1]: has the name of tools[0]"), "{twice}");
    }
}

/// `model` stood in the body and `anthropic_version` did not: Bedrock and Vertex answer 400.
#[test]
fn claude_elsewhere_is_named_in_the_url() {
    for (provider, version, streams) in [
        (Provider::ClaudeOnBedrock, json!("bedrock-2023-05-31"), false),
        (Provider::ClaudeOnVertex, json!("vertex-2023-10-16"), true),
        (Provider::Anthropic, Value::Null, true),
    ] {
        let prompt = greeting(provider.model("claude"));
        let request = Request::new(&prompt).model("claude").max_tokens(9).stream(true);
        let body = json!(request);
        assert_eq!(body["anthropic_version"], version, "{provider}");
        assert_eq!(body.get("model").is_some(), provider == Provider::Anthropic, "{provider}");
        assert_eq!(body.get("stream").is_some(), streams, "{provider}");
        let own = json!(request.extra("anthropic_version", "own"));
        assert_eq!(own["anthropic_version"], "own");
    }
}

/// Without its container a program of Claude's could not go on.
#[test]
fn a_container_goes_back_within_its_turn() {
    let answer = anthropic::answer(json!({"role": "assistant", "container": {
        "id": "container_1", "expires_at": "2026-11-26T10:00:00Z"}, "content": [
        {"type": "tool_use", "id": "t", "name": "look", "input": {},
            "caller": {"type": "code_execution_20260120", "tool_id": "srvtoolu_1"}}]}))
    .unwrap();
    assert_eq!(answer.metadata.container.as_deref(), Some("container_1"));
    let called = Message::from(answer.given_by(Provider::Anthropic));
    let mut history = vec![Message::user("Go."), called, Message::tool("t", "look", "sunny")];
    let body = |history: &[Message], provider: Provider, extra: Option<Value>| {
        let prompt = prompt_for(provider, history);
        let request = Request::new(&prompt).model("m").max_tokens(9);
        json!(extra.into_iter().fold(request, |request, it| request.extra("container", it)))
    };
    let running = body(&history, Provider::Anthropic, None);
    assert_eq!(running["container"], "container_1");
    let skills = json!({"skills": [{"type": "anthropic", "skill_id": "pptx"}]});
    let with = body(&history, Provider::Anthropic, Some(skills));
    assert_eq!(with["container"]["id"], "container_1");
    assert_eq!(with["container"]["skills"][0]["skill_id"], "pptx");
    let own = body(&history, Provider::Anthropic, Some(json!("container_2")));
    assert_eq!(own["container"], "container_2");
    for other in [Provider::OpenAi, Provider::Gemini, Provider::ClaudeOnVertex] {
        assert_eq!(body(&history, other, None).get("container"), None, "{other}");
    }
    // By the next turn it may have expired, and each call of code would fail.
    history.extend([Message::ai("Sunny."), Message::user("And now?")]);
    assert_eq!(body(&history, Provider::Anthropic, None).get("container"), None);
}

/// DeepSeek was sent lists of texts in answers and results, and 330 of 6,067 real conversations
/// were stuck: "invalid type: sequence, expected a string".
#[test]
fn texts_of_answers_and_results_are_one_string_where_no_list_is_known() {
    let texts = || [Part::text("a"), Part::text("b")];
    let marked = || {
        let extra = Attributes::from_iter([("openai".to_owned(), json!({"cache_control": {}}))]);
        Part::Text(TextPart { text: "c".to_owned(), extra })
    };
    let called = AiMessage::from_parts(texts()).with_tool_call(ToolCall::new("t", "look", "{}"));
    let history = [
        Message::user(texts()),
        called.into(),
        Message::tool("t", "look", texts().into_iter().chain([marked()]).collect::<Vec<_>>()),
    ];
    for provider in [Provider::DeepSeek, Provider::OpenAiCompatible, Provider::Groq, Provider::Vllm]
    {
        let sent = json!(wire::openai::Messages::of(&history).for_provider(provider));
        assert!(sent[0]["content"].is_array(), "{provider}");
        assert_eq!(sent[1]["content"], "a\nb", "{provider}");
        let result = &sent[2]["content"];
        // What stands beside a text, and is taken back, is not lost.
        let is_marked = provider == Provider::Vllm;
        assert_eq!(result.is_array(), is_marked, "{provider}");
        assert!(is_marked || result == "a\nb\nc", "{provider}");
    }
    for provider in [Provider::OpenAi, Provider::OpenRouter] {
        let sent = json!(wire::openai::Messages::of(&history).for_provider(provider));
        assert!(sent[1]["content"].is_array() && sent[2]["content"].is_array(), "{provider}");
    }
}

/// A request of 4 MB of pictures is written without a copy of them, and its losses are told so.
#[test]
fn pictures_are_not_copied() {
    let picture = Part::Image(Media::base64("image/png", "A".repeat(4 << 20)));
    for provider in [Provider::OpenAi, Provider::Anthropic, Provider::Gemini] {
        let prompt = prompt_for(provider, &[Message::user([Part::text("Look:"), picture.clone()])]);
        let request = Request::new(&prompt).model("m").max_tokens(9);
        let cost = allocation_counter::measure(|| {
            serde_json::to_writer(std::io::sink(), &request).unwrap();
            assert_eq!(request.losses(), []);
        });
        // At most one copy more, by the goal.
        assert!(cost.bytes_max < 5 << 20, "{provider}: {}", cost.bytes_max);
    }
}

/// The order of keys is the encoder's, whatever order a map of `serde_json` has: what comes first
/// says what the rest is.
#[test]
fn keys_stand_in_one_order() {
    let tools = [Tool::new("look", "Looks.")];
    let call = ToolCall::new("t", "look", r#"{"z": 1, "a": 2}"#);
    let history = [Message::user("hi"), Message::ai_calls([call.clone()]), call.result("x")];
    let table = r#"
        openai => {"model":"m","messages":[{"role":"user","content":"hi"},{"role":"assistant","content":null,"tool_calls":[{"id":"t","type":"function","function":{"name":"look","arguments":"{\"z\": 1, \"a\": 2}"}}]},{"role":"tool","tool_call_id":"t","content":"x"}],"max_completion_tokens":9,"tools":[{"type":"function","function":{"name":"look","description":"Looks.","parameters":{"properties":{},"type":"object"}}}]}
        anthropic => {"model":"m","max_tokens":9,"messages":[{"role":"user","content":"hi"},{"role":"assistant","content":[{"type":"tool_use","id":"t","name":"look","input":{"a":2,"z":1}}]},{"role":"user","content":[{"type":"tool_result","tool_use_id":"t","content":"x"}]}],"tools":[{"name":"look","description":"Looks.","input_schema":{"properties":{},"type":"object"}}]}
        gemini => {"contents":[{"role":"user","parts":[{"text":"hi"}]},{"role":"model","parts":[{"functionCall":{"id":"t","name":"look","args":{"a":2,"z":1}},"thoughtSignature":"skip_thought_signature_validator"}]},{"role":"user","parts":[{"functionResponse":{"id":"t","name":"look","response":{"output":"x"}}}]}],"tools":[{"functionDeclarations":[{"name":"look","description":"Looks.","parametersJsonSchema":{"properties":{},"type":"object"}}]}],"generationConfig":{"maxOutputTokens":9}}
        ollama => {"model":"m","messages":[{"role":"user","content":"hi"},{"role":"assistant","content":"","tool_calls":[{"id":"t","function":{"index":0,"name":"look","arguments":{"a":2,"z":1}}}]},{"role":"tool","content":"x","tool_name":"look","tool_call_id":"t"}],"tools":[{"type":"function","function":{"name":"look","description":"Looks.","parameters":{"properties":{},"type":"object"}}}],"options":{"num_predict":9},"stream":false}
        openai_responses => {"model":"m","input":[{"type":"message","role":"user","content":"hi"},{"type":"function_call","call_id":"t","name":"look","arguments":"{\"z\": 1, \"a\": 2}"},{"type":"function_call_output","call_id":"t","output":"x"}],"max_output_tokens":9,"tools":[{"type":"function","name":"look","description":"Looks.","parameters":{"properties":{},"type":"object"},"strict":false}],"store":false}
    "#;
    for (name, expected) in table.lines().filter_map(|row| row.split_once(" => ")) {
        let provider: Provider = serde_json::from_value(name.trim().into()).unwrap();
        let prompt = prompt_for(provider, &history);
        let request = Request::new(&prompt).model("m").tools(&tools).max_tokens(9);
        assert_eq!(serde_json::to_string(&request).unwrap(), expected, "{provider}");
    }
}

/// A model had to be named twice: for the rules of its prompt, and in its request.
#[test]
fn a_model_is_named_once() {
    for (provider, model) in [
        (Provider::OpenAi, "gpt-5-mini"),
        (Provider::OpenAiResponses, "gpt-5-mini"),
        (Provider::Anthropic, "claude-opus-4-8"),
        (Provider::OpenRouter, "meta-llama/llama-4-maverick-17b-128e-instruct:free"),
        (Provider::Ollama, "qwen3:8b"),
    ] {
        let named = provider.model(model);
        assert_eq!((named.row().model(), named.row().name()), (Some(model), provider.row().name()));
        assert_eq!(named.to_string(), provider.to_string());
        let written = serde_json::to_string(&named).unwrap();
        assert_eq!(serde_json::from_str::<Provider>(&written).unwrap(), named);
        let prompt = greeting(named);
        let request = Request::new(&prompt).max_tokens(9);
        assert_eq!(json!(request)["model"], model);
        assert_eq!(json!(request.model("another"))["model"], "another");
    }
    // Where it stands in the URL it is not written.
    let prompt = greeting(Provider::Gemini.model("gemini-3-pro"));
    assert_eq!(json!(Request::new(&prompt)).get("model"), None);
}

/// DeepSeek answers 400 where a model that thinks is to be made to call a tool.
#[test]
fn a_model_that_thinks_is_not_made_to_call() {
    let tools = [Tool::new("look", "Looks.")];
    let body = |model: &str, choice: ToolChoice, thinking: Option<&str>| {
        let prompt = greeting(Provider::DeepSeek.model(model));
        let request = Request::new(&prompt).tools(&tools).tool_choice(choice);
        let request =
            request.with_some(thinking, |it, kind| it.extra("thinking", json!({"type": kind})));
        request.check().map(|()| json!(request)).map_err(|error| error.to_string())
    };
    let one = || ToolChoice::Tool("look".to_owned());
    for choice in [ToolChoice::Required, one()] {
        for thinking in [None, Some("enabled")] {
            let error = body("deepseek-v4-flash", choice.clone(), thinking).unwrap_err();
            assert!(error.ends_with("choice: it can't be made to call a tool"), "{error}");
        }
        assert!(body("deepseek-v4-flash", choice.clone(), Some("disabled")).is_ok());
        assert!(body("deepseek-chat", choice, None).is_ok());
    }
    let auto = body("deepseek-v4-flash", ToolChoice::Auto, None).unwrap();
    assert_eq!(auto["tool_choice"], "auto");
}

/// Claude Fable 5.1 was to be made to call: "type "tool" and "any" are not supported for this
/// model", and so were Opus 5.5 and Sonnet 5.5.
#[test]
fn the_newest_claudes_are_not_made_to_call() {
    let tools = some_tools();
    let asked = |model: &str, choice: ToolChoice| {
        let prompt = greeting(Provider::Anthropic.model(model));
        let request = Request::new(&prompt).max_tokens(9).tools(&tools).tool_choice(choice);
        request.check().map_err(|error| error.to_string())
    };
    for model in ["claude-fable-5-1", "claude-mythos-5-2", "claude-opus-5-5", "claude-sonnet-5-5"] {
        let error = asked(model, ToolChoice::Required).unwrap_err();
        assert!(error.contains("choice: it can't be made to call a tool"), "{model}: {error}");
        asked(model, ToolChoice::Auto).unwrap();
    }
    for model in ["claude-opus-5", "claude-fable-5", "claude-haiku-5-5", "claude-sonnet-4-6"] {
        asked(model, ToolChoice::Required).unwrap();
    }
}

/// A row of one's own said that the system message is called `developer`, and it was sent twice: as
/// a message and as `instructions`.
#[test]
fn a_developer_message_is_sent_once() {
    let mut row = Row::like(Provider::OpenAiResponses, "own").unwrap();
    row.developer = true;
    let composer = Composer::new().system("Be brief.").for_provider(Provider::custom(row));
    let prompt = compose(&composer, &[Message::user("hi")], &[]).unwrap();
    let body = json!(Request::new(&prompt).model("m"));
    assert_eq!(body["input"][0]["role"], "developer");
    assert_eq!(body.to_string().matches("Be brief.").count(), 1, "{body}");
}

/// Claude thinks with a budget of its own, and was to be made to call: "Thinking may not be enabled
/// when `tool_choice` forces tool use."
#[test]
fn claude_is_not_made_to_call_while_it_thinks() {
    let prompt = greeting(Provider::Anthropic);
    let tools = some_tools();
    let asked = |thinking: Value| {
        let request = Request::new(&prompt).model("m").max_tokens(2_000).tools(&tools);
        let request = request.tool_choice(ToolChoice::Required);
        request.extra("thinking", thinking).check().map_err(|error| error.to_string())
    };
    let error = asked(json!({"type": "enabled", "budget_tokens": 1_024})).unwrap_err();
    assert!(error.contains("choice: it can't be made to call a tool"), "{error}");
    asked(json!({"type": "disabled"})).unwrap();
}
