//! What is sent, to whom, and what nobody is told.

use memory_prompt::provider::Row;
use memory_prompt::wire::Event;
use memory_prompt::{ErrorKind, Tool};
use serde_json::{Value, json};

use super::*;
use crate::stub::{Fault, Step};
use crate::stub_protocols::{CONTAINER, Protocol};

#[test]
fn requests_are_in_the_words_of_each_provider() {
    for (provider, path) in PROTOCOLS.into_iter().zip([
        "/v1/chat/completions",
        "/v1/responses",
        "/v1/messages",
        "/v1beta/models/m-1:streamGenerateContent?alt=sse",
        "/api/chat",
    ]) {
        let stub = Stub::start();
        let model = to(&stub, provider).header("x-team", "blue").unwrap();
        let model = model.shape(|it| it.max_tokens(77));
        stub.then([Step::says("Hello.")]);
        chat(model).say("hi").unwrap();
        let asked = &stub.asked()[0];
        assert_eq!(asked.path, path);
        assert_eq!(asked.headers["x-team"], "blue");
        assert_eq!(
            asked.headers["user-agent"],
            concat!("memory-prompt/", env!("CARGO_PKG_VERSION"))
        );
        assert!(asked.body.to_string().contains("77"));
    }
}

/// A header of the application's stands in place of the one that would be sent.
#[test]
fn a_header_takes_the_place_of_one_of_its_name() {
    let stub = Stub::start();
    let model = to(&stub, Provider::Anthropic).header("anthropic-version", "2099-01-01").unwrap();
    let model = model.header("anthropic-version", "2099-01-02").unwrap();
    stub.then([Step::says("Hello.")]);
    chat(model).say("hi").unwrap();
    assert_eq!(stub.asked()[0].headers["anthropic-version"], "2099-01-02");
}

/// The prompt is for the provider of the transport without a word; for another one it is an error,
/// before anything is sent: it would be in the wrong words, and the key with the wrong server.
#[test]
fn a_prompt_for_another_provider_is_not_sent() {
    let stub = Stub::start();
    let wrong = prompt(&Arc::default()).for_provider(Provider::Mistral);
    let error = over(wrong, to(&stub, Provider::Anthropic)).say("hi").unwrap_err();
    assert_eq!(error.kind(), ErrorKind::Invalid);
    assert_eq!(
        error.to_string(),
        "ask: the prompt is for mistral, and this transport for anthropic"
    );
    assert!(stub.asked().is_empty());

    // One of its models is the same provider.
    let provider = Provider::Anthropic.model("claude-3-5-haiku-latest");
    over(prompt(&Arc::default()).for_provider(provider), to(&stub, Provider::Anthropic)).say("hi").unwrap();
}

#[test]
fn a_server_of_ones_own_needs_an_address_and_no_key() {
    let stub = Stub::start();
    let row = Row::like(Provider::Ollama, "our-ollama").unwrap();
    let model = Transport::new(Provider::custom(row), "m");
    let error = model.url().unwrap_err();
    assert_eq!(
        error.to_string(),
        "transport: our-ollama has no address of its own: set `base_url`"
    );
    stub.then([Step::says("Hello.")]);
    assert_eq!(chat(model.base_url(&stub.url).unwrap()).say("hi").unwrap().text(), "Hello.");
}

#[test]
fn providers_with_a_log_in_are_others_business() {
    for provider in [Provider::ClaudeOnBedrock, Provider::ClaudeOnVertex, Provider::Vertex] {
        assert_eq!(Transport::new(provider, "m").url().unwrap_err().kind(), ErrorKind::Unsupported);
        assert_eq!(Transport::from_env(provider, "m").unwrap_err().kind(), ErrorKind::Unsupported);
    }
}

#[test]
fn a_key_is_shown_nowhere() {
    let stub = Stub::start();
    let secret = "header-secret-91";
    let wrong = "sk-wrong-key-17";
    for provider in PROTOCOLS {
        let model = to(&stub, provider).header("x-secret", secret).unwrap().key(wrong).unwrap();
        let shown = format!("{model:?} {:#?}", model.clone());
        let told = match chat(model).say("hi") {
            Ok(done) => format!("{done:?}"), // Ollama asks for none
            Err(error) => format!("{error} {error:?}"),
        };
        for text in [shown, told] {
            assert!(!text.contains(secret) && !text.contains(wrong), "{text}");
        }
    }
    let error = Transport::new(Provider::OpenAi, "m").key("sk\n-secret").unwrap_err();
    assert_eq!(error.to_string(), "transport: the key can't stand in a header");
    let error = Transport::new(Provider::OpenAi, "m").header("a b", secret).unwrap_err();
    assert!(!error.to_string().contains(secret));
    // A file with a key ends in a line break, as a rule.
    stub.then([Step::says("Hello.")]);
    let model = to(&stub, Provider::OpenAi).key(&format!("{KEY}\n")).unwrap();
    chat(model).say("hi").unwrap();
}

#[test]
fn a_whole_request_is_checked_before_it_is_sent() {
    let stub = Stub::start();
    let model = to(&stub, Provider::OpenAi).shape(|it| it.extra("messages", json!([])));
    assert_eq!(chat(model).say("hi").unwrap_err().kind(), ErrorKind::Invalid);
    assert!(stub.asked().is_empty());
}

/// The variables of the providers' own clients are read, in a process of its own that has no
/// others.
#[test]
fn key_and_address_come_from_the_environment() {
    if std::env::var("MEMORY_PROMPT_FROM_ENV").is_ok() {
        for provider in
            [PROTOCOLS[0], PROTOCOLS[2], PROTOCOLS[3], PROTOCOLS[4], Provider::OpenAiCompatible]
        {
            let done = chat(Transport::from_env(provider, "m-1").unwrap()).say("hi").unwrap();
            assert_eq!(done.text(), "Out of words.", "{provider}");
        }
        return;
    }
    let stub = Stub::start();
    let run = |variables: &[(&str, &str)]| {
        let mut command = std::process::Command::new(std::env::current_exe().unwrap());
        let (_, module) = module_path!().split_once("::").unwrap();
        let name = format!("{module}::key_and_address_come_from_the_environment");
        command.args([&name, "--exact"]);
        let command = command.env_clear().env("MEMORY_PROMPT_FROM_ENV", "1");
        let output = command.envs(variables.iter().copied()).output().unwrap();
        (output.status.success(), format!("{output:?}"))
    };
    let host = stub.url.trim_start_matches("http://");
    let mut all = vec![
        ("OPENAI_API_KEY", KEY),
        ("OPENAI_BASE_URL", &stub.url),
        ("ANTHROPIC_API_KEY", KEY),
        ("ANTHROPIC_BASE_URL", &stub.url),
        ("GOOGLE_API_KEY", ""),
        ("GEMINI_API_KEY", KEY),
        ("GOOGLE_GEMINI_BASE_URL", &stub.url),
        ("OLLAMA_HOST", host),
    ];
    let (is_good, told) = run(&all);
    assert!(is_good, "{told}");
    assert_eq!(stub.asked().len(), 5);

    all.retain(|(name, _)| !name.starts_with("ANTHROPIC"));
    let (is_good, told) = run(&all);
    assert!(!is_good && told.contains("no key for anthropic: set ANTHROPIC_API_KEY"), "{told}");
    assert!(!told.contains(KEY));
}

#[test]
fn a_key_and_what_was_said_are_logged_nowhere() {
    listen();
    for provider in PROTOCOLS {
        let stub = Stub::start();
        stub.then([Step::says("A secret answer.")]);
        let model = to(&stub, provider).header("x-team", "header-secret-92").unwrap();
        chat(model).say("A secret question.").unwrap();
    }
    let logged = LOGGED.lock().unwrap().clone();
    assert!(logged.contains(LOGS), "the client logs");
    for secret in [KEY, "header-secret-92", "secret question", "secret answer"] {
        assert!(!logged.contains(secret), "{secret}");
    }
}

/// Claude rests in the middle of a search. What it said goes back as it is, and what comes then
/// goes on with it.
#[test]
fn claude_goes_on_where_it_has_rested() {
    let rested = r#"{"type": "message", "role": "assistant", "model": "m-1", "content": [
        {"type": "text", "text": "Searching."},
        {"type": "server_tool_use", "id": "s", "name": "web_search", "input": {"query": "x"}}
    ], "stop_reason": "pause_turn", "usage": {"input_tokens": 3, "output_tokens": 5}}"#;
    let found = r#"{"type": "message", "role": "assistant", "model": "m-1", "content": [
        {"type": "web_search_tool_result", "tool_use_id": "s", "content": []},
        {"type": "text", "text": " Nothing."}
    ], "stop_reason": "end_turn", "usage": {"input_tokens": 8, "output_tokens": 2}}"#;
    let stub = Stub::start();
    stub.then([rested, found].map(|body| Step::from(Fault::Body(200, body))));
    stub.then([Step::says("Well.")]);
    let conversation = chat(to(&stub, Provider::Anthropic));
    let done = conversation.say("Search.").unwrap();
    assert_eq!((done.text().as_str(), done.messages.len()), ("Searching. Nothing.", 2));
    assert_eq!((done.usage.input, done.usage.output), (Some(11), Some(7)));
    conversation.say("And?").unwrap();
    let asked = stub.asked();
    let content = |request: usize| {
        let messages = &asked[request].body["messages"];
        (messages.as_array().unwrap().len(), messages[1]["content"].clone())
    };
    let parts = |body: &str| serde_json::from_str::<Value>(body).unwrap()["content"].clone();
    assert_eq!(content(1), (2, parts(rested)));
    let all = [parts(rested), parts(found)].map(|it| it.as_array().unwrap().clone()).concat();
    assert_eq!(content(2), (3, Value::from(all)));
}

/// A program of Claude's that called a tool could not go on: "`container_id` is required". And what
/// stood beside an answer was told to nobody.
#[test]
fn a_program_goes_on_in_its_container_and_what_stands_beside_it_is_told() {
    for streams in [true, false] {
        let stub = Stub::start();
        let hosted = json!([{"type": "code_execution_20260120", "name": "code_execution"}]);
        let model = to(&stub, Provider::Anthropic);
        let model = if streams { model } else { model.no_stream() };
        let model = model.shape(move |it| it.max_tokens(99).extra("tools", hosted.clone()));
        let chat = chat(model).tool(Tool::new("look", "Looks."), |_: Value| Ok("sunny"));
        stub.then([Step::calls(&[("look", json!({}))]), Step::says("Sunny.")]);
        let told = Arc::new(Mutex::new(Vec::new()));
        let to = Arc::clone(&told);
        let on_event = move |event| match event {
            Event::Metadata(beside) => to.lock().unwrap().push(*beside),
            _ => assert!(to.lock().unwrap().len() < 2, "behind all else"),
        };
        let done = chat.stream("Where?", on_event).unwrap();
        assert_eq!(done.text(), "Sunny.");
        let asked = stub.asked();
        assert_eq!(asked[0].body.get("container"), None);
        assert_eq!(asked[1].body["container"], CONTAINER);
        // The server is strict: without it, it refuses.
        let mut without = asked[1].body.clone();
        without.as_object_mut().unwrap().remove("container");
        let header = |name: &str| asked[1].headers.get(name).cloned();
        assert_eq!(Protocol::Anthropic.refuses(header, &asked[1].body), None);
        assert!(Protocol::Anthropic.refuses(header, &without).unwrap().1.starts_with("container"));
        // Of each answer it is told, and of the last one handed on.
        let told = told.lock().unwrap().clone();
        let ids: Vec<_> = told.iter().map(|it| it.id.as_deref()).collect();
        assert_eq!(ids, [Some("msg_0"), Some("msg_1")]);
        assert_eq!(told.last(), Some(&*done.metadata));
        assert_eq!(done.metadata.model.as_deref(), Some("m-1"));
        assert_eq!(done.metadata.container.as_deref(), Some(CONTAINER));
        // By the next question it may have expired.
        stub.then([Step::says("Still.")]);
        chat.say("And now?").unwrap();
        assert_eq!(stub.asked()[0].body.get("container"), None);
    }
}
