#![no_main]

#[path = "../../tests/common/picture_header.rs"]
mod picture_header;

libfuzzer_sys::fuzz_target!(|bytes: &[u8]| picture_header::any(bytes));
