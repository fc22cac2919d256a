//! Whether the stub speaks the protocols, by those who know: the providers' own Python clients.

use std::process::Command;

use serde_json::json;

use crate::stub::{Fault, Step, Stub};
use crate::stub_protocols::KEY;

/// Runs `tests/python/clients.py` against the stub: each client asks for a text, a text that is
/// streamed, a call, a call that is streamed, and twice where the first answer is a 429 or a 500.
#[test]
#[ignore = "needs python with openai, anthropic, google-genai and ollama"]
fn the_python_clients_understand_the_stub() {
    let python = std::env::var("MEMORY_PROMPT_PYTHON").unwrap_or_else(|_| "python3".to_owned());
    let script = concat!(env!("CARGO_MANIFEST_DIR"), "/tests/python/clients.py");
    let stub = Stub::start();
    for client in ["openai", "openai_responses", "anthropic", "google_genai", "ollama"] {
        let call = || Step::calls(&[("weather", json!({"city": "Oslo", "days": 2}))]);
        stub.forget();
        stub.then([
            Step::says("It is sunny in Oslo, 21 °C."),
            Step::says("It is sunny in Oslo, 21 °C."),
        ]);
        stub.then([call(), call()]);
        let soon = || vec![("retry-after-ms", "50".to_owned())];
        stub.then([Fault::Status(429, soon()), Fault::Status(500, soon())]);
        stub.then([Step::says("It is sunny in Oslo, 21 °C.").but(Fault::OddChunks)]);
        // Google's and Ollama's clients take nothing between the events.
        let is_plain = matches!(client, "google_genai" | "ollama");
        let last = if is_plain { Fault::None } else { Fault::KeepAlive };
        stub.then([Step::says("It is sunny in Oslo, 21 °C.").but(last)]);
        let run = Command::new(&python).args([script, client, &stub.url, KEY]).output();
        let run = run.expect("MEMORY_PROMPT_PYTHON names no Python");
        let told = String::from_utf8_lossy(&run.stderr);
        assert!(run.status.success(), "{client}: {told}");
        assert_eq!(String::from_utf8_lossy(&run.stdout).trim(), format!("{client}: 8 requests"));
        assert_eq!(stub.asked().len(), 8, "{client}");
    }
}
