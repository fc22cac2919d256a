//! The transport against a server that speaks the providers' protocols, and does what servers do
//! wrong. After each fault the memory is whole and the next turn works.
#![cfg(feature = "ureq")]
#![allow(clippy::unwrap_used, clippy::expect_used, clippy::panic, missing_docs)] // a test that panics has failed

#[path = "common/port.rs"]
mod port;
#[path = "provider/setups.rs"]
mod setups;
#[path = "common/stub.rs"]
mod stub;
#[path = "common/stub_protocols.rs"]
mod stub_protocols;
#[path = "provider/validators.rs"]
mod validators;
#[path = "provider/wrong.rs"]
mod wrong;

#[path = "transport/again.rs"]
mod again;
#[path = "transport/clients.rs"]
mod clients;
#[path = "transport/faults.rs"]
mod faults;
#[path = "transport/requests.rs"]
mod requests;
#[path = "transport/ways.rs"]
mod ways;

use std::time::Duration;

use memory_prompt::{Conversation, DefaultChatMemory, Error, MemoryPrompt, Provider, Transport};
use stub::Stub;
use stub_protocols::KEY;

/// One of each protocol.
const PROTOCOLS: [Provider; 5] = [
    Provider::OpenAi,
    Provider::OpenAiResponses,
    Provider::Anthropic,
    Provider::Gemini,
    Provider::Ollama,
];

const STALL: Duration = Duration::from_secs(1);

/// A transport to the stub that loses patience soon.
fn to(stub: &Stub, provider: Provider) -> Transport {
    Transport::new(provider, "m-1")
        .key(KEY)
        .unwrap()
        .base_url(&stub.url)
        .unwrap()
        .connect_timeout(Duration::from_secs(10))
        .first_byte_timeout(Duration::from_secs(3))
        .stall_timeout(STALL)
}

fn chat(model: Transport) -> Conversation {
    Conversation::new(MemoryPrompt::new(DefaultChatMemory::new()), model)
}

fn kind(error: &Error) -> memory_prompt::ErrorKind {
    error.kind()
}
