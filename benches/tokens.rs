//! Token counts: of texts, and where they are used.
//!
//! `cargo bench -p memory-prompt-benches --bench tokens --features bpe` has the exact counter too.

#![allow(clippy::unwrap_used, missing_docs)] // a bench that panics has failed

#[path = "common/measure.rs"]
mod measure;
#[path = "common/messages.rs"]
mod messages;
#[path = "common/samples.rs"]
mod samples;

use std::hint::black_box;

use divan::Bencher;
use divan::counter::BytesCount;
use memory_prompt::token::{Estimate, TokenCounter};
use memory_prompt::{ChatMemory, TokenWindowChatMemory};

use messages::{message, remember};
use samples::sample;

const KINDS: [&str; 6] = ["ascii", "chinese", "japanese", "hindi", "emoji", "code"];

fn main() {
    measure::run();
}

fn count(bencher: Bencher<'_, '_>, text: &str, counter: &impl TokenCounter) {
    bencher
        .counter(BytesCount::of_str(text))
        .bench_local(|| counter.count_text(black_box(text)).unwrap());
}

#[divan::bench(consts = [300, 20_000], args = KINDS)]
fn estimate<const CHARACTERS: usize>(bencher: Bencher<'_, '_>, kind: &str) {
    count(bencher, &sample(kind, CHARACTERS), &Estimate);
}

#[cfg(feature = "bpe")]
#[divan::bench(consts = [300, 20_000], args = KINDS)]
fn o200k<const CHARACTERS: usize>(bencher: Bencher<'_, '_>, kind: &str) {
    count(bencher, &sample(kind, CHARACTERS), &memory_prompt::token::Bpe::o200k());
}

/// To a full window of so many messages of 300 characters; each append evicts one.
#[divan::bench(args = [10, 1_000, 100_000])]
fn append_to_a_window(bencher: Bencher<'_, '_>, messages: u64) {
    let limit = Estimate.count(&message(0)).unwrap() * usize::try_from(messages).unwrap();
    let memory = TokenWindowChatMemory::new(remember(messages + 1), limit, Estimate).unwrap();
    memory.append(&mut vec![message(0)], None).unwrap();
    bencher
        .with_inputs(|| vec![message(0)])
        .bench_local_values(|mut batch| memory.append(&mut batch, None).unwrap());
}
