//! Second opinions that nobody here wrote: the providers' own clients and validators, and
//! LangChain4j. Each reads what is composed for 1,250 conversations and must refuse nothing of it.
//!
//! | oracle | needs | with |
//! |---|---|---|
//! | `python` | the packages of `tests/python/requirements.txt` | `MEMORY_PROMPT_PYTHON=.venv/bin/python` |
//! | `node` | the packages of `tests/node/package-lock.json` | `MEMORY_PROMPT_NODE_MODULES=folder` |
//! | `java` | the jars of `tests/java/pom.xml` | `MEMORY_PROMPT_LANGCHAIN4J=folder` |
//!
//! ```text
//! MEMORY_PROMPT_PYTHON=.venv/bin/python cargo test --test wire -- --ignored oracles::python
//! ```
//!
//! `MEMORY_PROMPT_CASES` says how many prompts a provider; `all` are 10,000. An oracle first
//! refuses what is wrong on purpose: one that takes everything would prove nothing.

#![allow(clippy::unwrap_used, clippy::expect_used, missing_docs)] // a test that panics has failed

mod java;
mod node;
mod written;

use std::io::{BufReader, BufWriter, Read, Write};
use std::process::{ChildStdin, Command, Stdio};

use crate::counted::cases;
use crate::setups::TYPED;
use memory_prompt::Provider;
use written::Generated;

/// A file of the tests.
fn file(path: &str) -> String {
    format!("{}/tests/{path}", env!("CARGO_MANIFEST_DIR"))
}

/// Returns what an oracle says about what it is written; fails with its words where it refuses.
pub(crate) fn ask(
    oracle: &mut Command,
    write: impl FnOnce(&mut BufWriter<ChildStdin>) + Send,
) -> String {
    let mut child = oracle
        .stdin(Stdio::piped())
        .stdout(Stdio::piped())
        .spawn()
        .expect("the oracle can't be started");
    let mut lines = BufWriter::new(child.stdin.take().unwrap());
    let mut told = String::new();
    std::thread::scope(|scope| {
        scope.spawn(move || {
            write(&mut lines);
            drop(lines.flush());
        });
        let mut said = BufReader::new(child.stdout.take().unwrap());
        said.read_to_string(&mut told).unwrap();
    });
    assert!(child.wait().unwrap().success(), "{told:.4000}");
    told.replace('\r', "")
}

/// The typed models of the providers' Python clients.
pub(crate) fn python() -> Command {
    let python = std::env::var("MEMORY_PROMPT_PYTHON").unwrap_or_else(|_| "python3".to_owned());
    let mut command = Command::new(python);
    command.arg(file("python/bodies.py"));
    command
}

/// Asks about so many prompts a provider, and returns how many of each the oracle says it took.
fn takes_all(oracle: &mut Command, providers: &[Provider]) {
    let wanted = cases(10_000);
    let told = ask(oracle, |lines| {
        let mut generated = Generated::new();
        for provider in providers {
            for number in 0..wanted {
                let request = generated.request(*provider, number);
                if writeln!(lines, "{request}").is_err() {
                    return; // the oracle says why
                }
            }
        }
    });
    let name = |it| serde_json::to_value(it).unwrap().as_str().unwrap().to_owned();
    let expected: Vec<_> = providers.iter().map(|it| format!("{} {wanted}", name(it))).collect();
    assert_eq!(told.lines().collect::<Vec<_>>(), expected);
    print!("counted: prompts that were taken, a provider\n{told}");
}

#[test]
#[ignore = "needs python with the packages of tests/python/requirements.txt"]
fn python_clients_and_mistral_common_take_what_is_composed() {
    takes_all(&mut python(), &TYPED);
}
