//! A client of the application's.

use std::sync::Arc;
use std::thread;
use std::time::Duration;

use memory_prompt::adapt::ToAsync;
use memory_prompt::transport::driver::header::HeaderMap;
use memory_prompt::transport::driver::{Client, ClientBuilder};
use memory_prompt::turn::Done;
use memory_prompt::{
    AsyncChatMemory, ChatMemoryExt, Conversation, DefaultChatMemory, ErrorKind, MemoryPrompt,
    Provider, Result,
};

use crate::stub::{Fault, Step, Stub};
use crate::transport::reqwest::runtime;
use crate::transport::to;

fn chat(
    stub: &Stub,
    client: Client,
) -> (Arc<DefaultChatMemory>, Conversation<dyn AsyncChatMemory>) {
    let memory = Arc::new(DefaultChatMemory::new());
    let prompt = MemoryPrompt::new_async(ToAsync::new(Arc::clone(&memory)));
    // What is set behind it does not take it away.
    let model = to(stub, Provider::Anthropic).over(client).base_url(&stub.url).unwrap();
    (memory, Conversation::new_async(prompt, model))
}

fn say(chat: &Conversation<dyn AsyncChatMemory>, question: &str) -> Result<Done> {
    runtime().block_on(chat.say(question))
}

fn client() -> ClientBuilder {
    let ring = Arc::new(rustls::crypto::ring::default_provider());
    let tls = rustls::ClientConfig::builder_with_provider(ring);
    let tls = tls.with_safe_default_protocol_versions().unwrap();
    let roots = rustls::RootCertStore::empty();
    let tls = tls.with_root_certificates(roots).with_no_client_auth();
    Client::builder().tls_backend_preconfigured(tls)
}

/// It is the one that asks: its own header is there.
#[test]
fn an_own_client_is_the_one_that_asks() {
    let stub = Stub::start();
    stub.then([Step::says("Yes."), Step::says("Again.")]);
    let mut headers = HeaderMap::new();
    headers.insert("x-own", "blue".parse().unwrap());
    let (_, chat) = chat(&stub, client().default_headers(headers).build().unwrap());
    assert_eq!(say(&chat, "hi").unwrap().text(), "Yes.");
    // The client has the connection back a moment after the last byte was read.
    thread::sleep(Duration::from_millis(200));
    assert_eq!(say(&chat, "hi").unwrap().text(), "Again.");
    assert_eq!(stub.connections(), 1);
    assert!(stub.asked().iter().all(|it| it.headers["x-own"] == "blue"));
}

/// A client that follows redirects does so before anybody can refuse it: without the messages, and
/// what it brings from there is not taken.
#[test]
fn messages_go_nowhere_else_and_no_answer_comes_from_there() {
    for (status, comes) in [
        (307, ErrorKind::Refused { code: None, status: Some(307), retryable: false }),
        (302, ErrorKind::Unanswered { sent: true }),
    ] {
        let (stub, other) = (Stub::start(), Stub::start());
        other.then([Step::says("I am somebody else.")]);
        stub.then([Fault::RedirectTo(status, format!("{}/v1/messages", other.url))]);
        let (memory, chat) = chat(&stub, client().build().unwrap());
        let error = say(&chat, "A secret.").unwrap_err();
        assert_eq!(error.kind(), comes);
        assert!(error.to_string().starts_with("ask: the server redirects"), "{error}");
        assert!(other.asked().iter().all(|it| !it.body.to_string().contains("secret")));
        assert!(memory.all().unwrap().is_empty());
    }
}
