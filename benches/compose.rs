//! What a build costs: by what is stored, by what is sent, and by what is done to it.
//!
//! ```text
//! cargo bench -p memory-prompt-benches --bench compose                        histories of up to 100,000 messages
//! cargo bench -p memory-prompt-benches --bench compose -- --include-ignored   and of up to 10,000,000
//! ```

#![allow(clippy::unwrap_used, missing_docs)] // a bench that panics has failed

#[path = "common/measure.rs"]
mod measure;
#[path = "common/messages.rs"]
mod messages;
#[path = "common/samples.rs"]
mod samples;

use std::hint::black_box;

use divan::Bencher;
use memory_prompt::record::Snapshot;
use memory_prompt::token::Estimate;
use memory_prompt::{
    Budget, ChatMemoryExt, Composer, DefaultChatMemory, MemoryPrompt, Message, ToolCall, Truncate,
};

use messages::remember;
use samples::sample;

fn main() {
    measure::run();
}

/// Nothing is precomputed but the memory; a preview is a build that spends no temporaries.
fn build(bencher: Bencher<'_, '_>, prompt: &MemoryPrompt) {
    let sent = prompt.preview().unwrap().len();
    bencher.counter(divan::counter::ItemsCount::new(sent)).bench(|| prompt.preview().unwrap());
}

#[divan::bench(consts = [10, 100], args = [10, 1_000, 100_000])]
fn last<const N: usize>(bencher: Bencher<'_, '_>, stored: u64) {
    build(bencher, &MemoryPrompt::new(remember(stored)).system("Be brief.").max_messages(N));
}

/// Short messages, since ten million long ones take four gigabytes.
#[divan::bench(args = [1_000_000, 10_000_000], ignore)]
fn last_10_of_very_many(bencher: Bencher<'_, '_>, stored: u64) {
    let memory = DefaultChatMemory::new();
    for i in 0..stored {
        memory.add(Message::user(i.to_string())).unwrap();
    }
    build(bencher, &MemoryPrompt::new(memory).system("Be brief."));
}

#[divan::bench(consts = [10, 100])]
fn truncation_with_nothing_to_cut<const N: usize>(bencher: Bencher<'_, '_>) {
    let prompt = MemoryPrompt::new(remember(1000)).system("Be brief.").max_messages(N);
    build(bencher, &prompt.truncate(Truncate::default()));
}

/// Ten messages of 20,000 characters, cut to 1000 for the first time.
#[divan::bench(args = ["ascii", "chinese", "hindi"])]
fn truncation(bencher: Bencher<'_, '_>, text: &str) {
    let history = Snapshot::from_messages(vec![Message::user(sample(text, 20_000)); 10]);
    let composer = Composer::new().truncate(Truncate::default());
    bencher.bench_local(|| composer.compose_all(black_box(&history), &[]).unwrap());
}

/// The same in a prompt that was built before: all copies are there.
#[divan::bench]
fn truncation_again(bencher: Bencher<'_, '_>) {
    let memory = DefaultChatMemory::new();
    memory.add_all(vec![Message::user(sample("ascii", 20_000)); 10]).unwrap();
    build(bencher, &MemoryPrompt::new(memory).truncate(Truncate::default()));
}

/// A question, two calls at once, their results, and an answer, over and over.
#[divan::bench(consts = [10, 100])]
fn tool_groups<const N: usize>(bencher: Bencher<'_, '_>) {
    let memory = DefaultChatMemory::new();
    for turn in 0..200 {
        let ids = [0, 1].map(|call| format!("call_{turn}_{call}"));
        let call = |id: &String| ToolCall::new(id.as_str(), "weather", r#"{"city": "Oslo"}"#);
        memory.add(Message::user("What is the weather in Oslo?")).unwrap();
        memory.add(Message::ai_calls(ids.iter().map(call))).unwrap();
        memory.add_all(ids.map(|id| Message::tool(id, "weather", "sunny, 21 °C"))).unwrap();
        memory.add(Message::ai("It is sunny.")).unwrap();
    }
    build(bencher, &MemoryPrompt::new(memory).max_messages(N));
}

/// 8,000 tokens: about a hundred messages. Each was counted by the build before.
#[divan::bench(args = [1_000, 100_000])]
fn budget(bencher: Bencher<'_, '_>, stored: u64) {
    build(bencher, &MemoryPrompt::new(remember(stored)).max_tokens(Budget::new(8_000), Estimate));
}

#[divan::bench]
fn temporaries(bencher: Bencher<'_, '_>) {
    let mut prompt = MemoryPrompt::new(remember(1000)).system("Be brief.");
    prompt
        .add_temporary(Message::user("Today is Friday."))
        .add_temporary(Message::user("Note 17."));
    build(bencher, &prompt);
}
