//! Wire formats: a prompt to a request's messages and back, 10 and 1,000 messages.
//!
//! `cargo bench -p memory-prompt-benches --bench wire`. A tenth of the messages call a tool, a
//! tenth are its results; texts have 300 characters. Bytes a second are those of the JSON.

#![allow(clippy::unwrap_used, missing_docs)] // a bench that panics has failed

#[path = "common/measure.rs"]
mod measure;
#[path = "common/messages.rs"]
mod messages;

use std::fmt;
use std::hint::black_box;

use divan::Bencher;
use divan::counter::BytesCount;
use memory_prompt::record::Snapshot;
use memory_prompt::{Composer, Message, Prompt, ToolCall, Window, wire};
use serde::Serialize;

use messages::message;

fn main() {
    measure::run();
}

struct Format {
    name: &'static str,
    encode: fn(&Prompt, &mut Vec<u8>),
    decode: fn(&str) -> Vec<Message>,
}

#[rustfmt::skip]
const FORMATS: [Format; 6] = [
    Format { name: "openai", encode: |prompt, to| write(&wire::openai::messages(prompt), to), decode: |json| wire::openai::history(json).unwrap() },
    Format { name: "responses", encode: |prompt, to| write(&wire::responses::input(prompt), to), decode: |json| wire::responses::history(json).unwrap() },
    Format { name: "anthropic", encode: |prompt, to| write(&wire::anthropic::messages(prompt), to), decode: |json| wire::anthropic::history(json).unwrap() },
    Format { name: "gemini", encode: |prompt, to| write(&wire::gemini::contents(prompt), to), decode: |json| wire::gemini::history(json).unwrap() },
    Format { name: "ollama", encode: |prompt, to| write(&wire::ollama::messages(prompt), to), decode: |json| wire::ollama::history(json).unwrap() },
    Format { name: "langchain4j", encode: |prompt, to| write(&wire::langchain4j::messages(prompt), to), decode: |json| wire::langchain4j::history(json).unwrap() },
];

fn write(view: &impl Serialize, to: &mut Vec<u8>) {
    to.clear();
    serde_json::to_writer(to, view).unwrap();
}

fn prompt(messages: u64) -> Prompt {
    let history = (0..messages).map(|i| match i % 10 {
        3 => Message::ai_calls([ToolCall::new(
            format!("call_{i}"),
            "weather",
            r#"{"city": "Oslo"}"#,
        )]),
        4 => Message::tool(format!("call_{}", i - 1), "weather", message(i).text().into_owned()),
        _ => message(i),
    });
    let snapshot = Snapshot::from_messages(history);
    let prompt = Composer::new().window(Window::all()).compose_all(&snapshot, &[]).unwrap();
    assert_eq!(prompt.len() as u64, messages);
    prompt
}

/// Into a buffer that is there.
#[divan::bench(consts = [10, 1_000], args = &FORMATS)]
fn encode<const MESSAGES: u64>(bencher: Bencher<'_, '_>, format: &Format) {
    let prompt = prompt(MESSAGES);
    let mut json = Vec::new();
    (format.encode)(&prompt, &mut json);
    bencher
        .counter(BytesCount::new(json.len()))
        .bench_local(|| (format.encode)(black_box(&prompt), &mut json));
}

#[divan::bench(consts = [10, 1_000], args = &FORMATS)]
fn decode<const MESSAGES: u64>(bencher: Bencher<'_, '_>, format: &Format) {
    let mut json = Vec::new();
    (format.encode)(&prompt(MESSAGES), &mut json);
    let json = String::from_utf8(json).unwrap();
    assert_eq!((format.decode)(&json).len() as u64, MESSAGES);
    bencher.counter(BytesCount::of_str(&json)).bench_local(|| (format.decode)(black_box(&json)));
}

impl fmt::Display for Format {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(self.name)
    }
}
