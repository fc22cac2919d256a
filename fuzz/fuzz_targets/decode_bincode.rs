#![no_main]

#[path = "../../tests/common/decoding.rs"]
mod decoding;

libfuzzer_sys::fuzz_target!(|bytes: &[u8]| decoding::bincode(bytes));
