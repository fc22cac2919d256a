//! Memories in this process: append and read by one to sixteen threads, many conversations at once,
//! and what a stored message takes.
//!
//! `cargo bench -p memory-prompt-benches --bench memory`. Threads share one memory, or one store of
//! 100,000 conversations.

#![allow(clippy::unwrap_used, missing_docs)] // a bench that panics has failed

#[path = "common/measure.rs"]
mod measure;
#[path = "common/messages.rs"]
mod messages;

use std::sync::OnceLock;
use std::sync::atomic::{AtomicUsize, Ordering};

use divan::Bencher;
use divan::counter::ItemsCount;
use memory_prompt::store::InMemory;
use memory_prompt::{
    ChatMemory, ChatMemoryExt, DefaultChatMemory, InMemoryStore, MemoryPrompt, Message,
    MessageWindowChatMemory,
};

use messages::{message, remember};

const THREADS: [usize; 5] = [1, 2, 4, 8, 16];
const CONVERSATIONS: usize = 100_000;

fn main() {
    measure::run();
}

fn append(bencher: Bencher<'_, '_>, memory: &dyn ChatMemory) {
    bencher
        .with_inputs(|| vec![message(0)])
        .bench_values(|mut batch| memory.append(&mut batch, None).unwrap());
}

#[divan::bench(threads = THREADS)]
fn append_one(bencher: Bencher<'_, '_>) {
    append(bencher, &DefaultChatMemory::new());
}

#[divan::bench(threads = THREADS)]
fn append_one_to_a_window_of_1000(bencher: Bencher<'_, '_>) {
    let memory = MessageWindowChatMemory::new(remember(1000), 1000).unwrap();
    append(bencher, &memory);
}

#[divan::bench(threads = THREADS)]
fn read_10_of_10_000(bencher: Bencher<'_, '_>) {
    let memory = remember(10_000);
    bencher.bench(|| memory.read(None, 10).unwrap());
}

/// Every eighth call appends.
#[divan::bench(threads = THREADS)]
fn read_10_and_append(bencher: Bencher<'_, '_>) {
    let memory = remember(10_000);
    let calls = AtomicUsize::new(0);
    bencher.bench(|| {
        if calls.fetch_add(1, Ordering::Relaxed).is_multiple_of(8) {
            memory.add(Message::user("hi")).unwrap();
        }
        memory.read(None, 10).unwrap()
    });
}

/// One prompt that all threads build from.
#[divan::bench(threads = THREADS)]
fn build(bencher: Bencher<'_, '_>) {
    let prompt = MemoryPrompt::new(remember(10_000)).system("Be brief.");
    bencher.bench(|| prompt.preview().unwrap());
}

/// Ten messages in each of them.
fn conversations() -> &'static [InMemory] {
    static CONVERSATION: OnceLock<Vec<InMemory>> = OnceLock::new();
    CONVERSATION.get_or_init(|| {
        let store = InMemoryStore::new();
        let filled = |i| {
            let memory = store.memory(format!("support:u{i}:c1")).unwrap();
            memory.add_all((0..10).map(message)).unwrap();
            memory
        };
        (0..CONVERSATIONS).map(filled).collect()
    })
}

/// The conversations one after another, in an order that no cache foresees.
fn next() -> &'static InMemory {
    static CALLS: AtomicUsize = AtomicUsize::new(0);
    let call = CALLS.fetch_add(1, Ordering::Relaxed);
    &conversations()[call.wrapping_mul(0x9E37_79B1) % CONVERSATIONS]
}

#[divan::bench(threads = THREADS)]
fn append_one_in_100_000_conversations(bencher: Bencher<'_, '_>) {
    conversations();
    bencher
        .with_inputs(|| vec![Message::user("hi")])
        .bench_values(|mut batch| next().append(&mut batch, None).unwrap());
}

#[divan::bench(threads = THREADS)]
fn read_10_in_100_000_conversations(bencher: Bencher<'_, '_>) {
    conversations();
    bencher.bench(|| next().read(None, 10).unwrap());
}

/// `max alloc` is what the messages take. The time is mostly that of making their texts.
#[divan::bench(args = [1, 10, 1_000, 100_000], sample_count = 3)]
fn remember_300_characters(bencher: Bencher<'_, '_>, messages: u64) {
    bencher.counter(ItemsCount::new(messages)).bench(|| remember(messages));
}
