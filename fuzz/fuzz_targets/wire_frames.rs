#![no_main]
#![allow(dead_code)] // each target runs one of the checks

#[path = "../../tests/common/wire_decoding.rs"]
mod wire_decoding;

libfuzzer_sys::fuzz_target!(|bytes: &[u8]| wire_decoding::frames(bytes));
