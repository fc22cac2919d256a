//! What is sent, to whom, and what nobody is told.

use memory_prompt::{Conversation, provider::Row};
use std::fmt::Write;
use std::sync::Mutex;

use memory_prompt::{DefaultChatMemory, ErrorKind, MemoryPrompt, Provider, Transport};
use serde_json::{Value, json};

use crate::stub::{Fault, Step, Stub};
use crate::stub_protocols::KEY;
use crate::{PROTOCOLS, chat, to};

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
    let prompt = MemoryPrompt::new(DefaultChatMemory::new()).for_provider(Provider::Mistral);
    let error = Conversation::new(prompt, to(&stub, Provider::Anthropic)).say("hi").unwrap_err();
    assert_eq!(error.kind(), ErrorKind::Invalid);
    assert_eq!(
        error.to_string(),
        "ask: the prompt is for mistral, and this transport for anthropic"
    );
    assert!(stub.asked().is_empty());

    // One of its models is the same provider.
    let prompt = MemoryPrompt::new(DefaultChatMemory::new())
        .for_provider(Provider::Anthropic.model("claude-3-5-haiku-latest"));
    Conversation::new(prompt, to(&stub, Provider::Anthropic)).say("hi").unwrap();
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
    let done = chat(model.base_url(&stub.url).unwrap()).say("hi").unwrap();
    assert_eq!(done.text(), "Hello.");
}

#[test]
fn providers_with_a_log_in_are_others_business() {
    for provider in [Provider::ClaudeOnBedrock, Provider::ClaudeOnVertex, Provider::Vertex] {
        let error = Transport::new(provider, "m").url().unwrap_err();
        assert_eq!(error.kind(), ErrorKind::Unsupported);
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
    let error = chat(model).say("hi").unwrap_err();
    assert_eq!(error.kind(), ErrorKind::Invalid);
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
        command.args(["requests::key_and_address_come_from_the_environment", "--exact"]);
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

/// All that is logged, up to the level `debug`.
struct Logged(Mutex<String>);

static LOGGED: Logged = Logged(Mutex::new(String::new()));

impl log::Log for Logged {
    fn enabled(&self, _: &log::Metadata<'_>) -> bool {
        true
    }
    fn log(&self, record: &log::Record<'_>) {
        let mut logged = self.0.lock().unwrap();
        writeln!(logged, "{} {}", record.target(), record.args()).unwrap();
    }
    fn flush(&self) {}
}

#[test]
fn a_key_and_what_was_said_are_logged_nowhere() {
    log::set_logger(&LOGGED).unwrap();
    log::set_max_level(log::LevelFilter::Debug);
    for provider in PROTOCOLS {
        let stub = Stub::start();
        stub.then([Step::says("A secret answer.")]);
        let model = to(&stub, provider).header("x-team", "header-secret-92").unwrap();
        chat(model).say("A secret question.").unwrap();
    }
    let logged = LOGGED.0.lock().unwrap().clone();
    assert!(logged.contains("ureq"), "the client logs");
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
