#![no_main]
#![allow(dead_code)] // each target runs one of the checks

#[path = "../../tests/common/decoding.rs"]
mod decoding;

libfuzzer_sys::fuzz_target!(|bytes: &[u8]| decoding::json(bytes));
