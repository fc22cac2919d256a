//! Codecs: JSON and bincode, one message and a thousand.
//!
//! `cargo bench -p memory-prompt-benches --bench codec`. Bytes a second are those of what is
//! written or read.

#![allow(clippy::unwrap_used, missing_docs)] // a bench that panics has failed

#[path = "common/measure.rs"]
mod measure;
#[path = "common/messages.rs"]
mod messages;

use std::hint::black_box;

use divan::Bencher;
use divan::counter::BytesCount;
use memory_prompt::Message;
use memory_prompt::codec::{self, Codec};

use messages::message;

const CODECS: [Codec; 2] = [Codec::Json, Codec::Bincode];

fn main() {
    measure::run();
}

fn messages<const N: u64>() -> Vec<Message> {
    (0..N).map(message).collect()
}

#[divan::bench(consts = [1, 1_000], args = CODECS)]
fn encode<const N: u64>(bencher: Bencher<'_, '_>, codec: Codec) {
    let messages = messages::<N>();
    let length = codec.encode_all(&messages).unwrap().len();
    bencher
        .counter(BytesCount::new(length))
        .bench_local(|| codec.encode_all(black_box(&messages)).unwrap());
}

#[divan::bench(consts = [1, 1_000], args = CODECS)]
fn decode<const N: u64>(bencher: Bencher<'_, '_>, codec: Codec) {
    let bytes = codec.encode_all(&messages::<N>()).unwrap();
    bencher
        .counter(BytesCount::of_slice(&bytes))
        .bench_local(|| codec::decode_all(black_box(&bytes)).unwrap());
}
