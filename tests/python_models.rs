//! A second opinion that nobody here wrote: the providers' own Python clients hold typed models of their
//! requests, and every generated prompt must fit them.
//!
//! ```text
//! MEMORY_PROMPT_PYTHON=.venv/bin/python cargo test --release --test python_models -- --ignored
//! ```
//!
//! with a Python that has the packages of `tests/python/requirements.txt`. `MEMORY_PROMPT_CASES` says how
//! many prompts a provider; 10,000 by default.

#![allow(clippy::unwrap_used, clippy::expect_used, missing_docs)] // a test that panics has failed

#[path = "common/conversations.rs"]
mod conversations;
#[path = "common/counted.rs"]
mod counted;
#[path = "provider/setups.rs"]
mod setups;

use std::io::{BufWriter, Write};
use std::process::{Command, Stdio};

use conversations::*;
use counted::cases;
use memory_prompt::Provider;
use proptest::prelude::*;
use proptest::strategy::ValueTree;
use proptest::test_runner::{RngAlgorithm, TestRng, TestRunner};
use serde_json::json;
use setups::*;

const MODELLED: [Provider; 4] =
    [Provider::OpenAi, Provider::OpenAiResponses, Provider::Anthropic, Provider::Gemini];

#[test]
#[ignore = "needs python with openai, anthropic and google-genai"]
fn generated_prompts_fit_the_typed_models_of_the_python_clients() {
    let python = std::env::var("MEMORY_PROMPT_PYTHON").unwrap_or_else(|_| "python3".to_owned());
    let script = concat!(env!("CARGO_MANIFEST_DIR"), "/tests/python/validate.py");
    let mut child = Command::new(python)
        .arg(script)
        .stdin(Stdio::piped())
        .stdout(Stdio::piped())
        .spawn()
        .expect("MEMORY_PROMPT_PYTHON names no Python");
    let wanted = cases(10_000);
    let mut lines = BufWriter::new(child.stdin.take().unwrap());
    let rng = TestRng::deterministic_rng(RngAlgorithm::ChaCha);
    let mut runner = TestRunner::new_with_rng(ProptestConfig::default(), rng);
    let strategy = (setups(), conversation(16), temporaries());
    'providers: for provider in MODELLED {
        let mut written = 0;
        while written < wanted {
            let (setup, conversation, temporaries) =
                strategy.new_tree(&mut runner).unwrap().current();
            let composer = setup.composer().for_provider(provider);
            // A budget or a temporary may be refused.
            let Ok(prompt) = compose(&composer, &conversation, &temporaries) else { continue };
            let name = serde_json::to_value(provider).unwrap();
            let line = json!({"provider": name, "body": request(provider, &prompt)});
            if writeln!(lines, "{line}").is_err() {
                break 'providers; // the script says why
            }
            written += 1;
        }
    }
    drop(lines.flush());
    drop(lines);
    let output = child.wait_with_output().unwrap();
    let told = String::from_utf8(output.stdout).unwrap();
    assert!(output.status.success(), "{told}");
    let expected = format!(
        "openai {wanted}\nopenai_responses {wanted}\nanthropic {wanted}\ngemini {wanted}\n"
    );
    assert_eq!(told.replace('\r', ""), expected);
    print!("counted: prompts that fit their models, a provider\n{expected}");
}
