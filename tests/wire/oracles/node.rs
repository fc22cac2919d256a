//! The providers' own JavaScript clients: what they send, and their types.

use std::path::Path;
use std::process::Command;

use memory_prompt::Provider;

use crate::oracles::{file, takes_all};

#[test]
#[ignore = "needs node with the packages of tests/node/package-lock.json"]
fn node_clients_take_what_is_composed() {
    let installed = Path::new(&file("node")).join("node_modules");
    assert!(installed.is_dir(), "npm ci --prefix tests/node --ignore-scripts");
    takes_all(
        Command::new("node").arg(file("node/clients.mjs")),
        &[
            Provider::Mistral,
            Provider::Gemini,
            Provider::OpenAi,
            Provider::OpenAiResponses,
            Provider::Anthropic,
        ],
    );
}
