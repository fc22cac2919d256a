//! The seeds of the fuzz targets of `wire`, and what a decoder may allocate.

#![allow(clippy::unwrap_used, clippy::expect_used, clippy::panic, missing_docs, unreachable_pub)] // a test that fails should say so

#[path = "common/wire_decoding.rs"]
mod wire_decoding;

use std::fs;
use std::path::Path;

use wire_decoding::{TARGETS, Target};

/// Reads, writes what was read and reads that again, all of which is held at once: together they
/// cost no more than a multiple of the input. `{}` is two bytes here and a message in Gemini.
fn cheaply((name, check): &Target, bytes: &[u8]) {
    let cost = allocation_counter::measure(|| check(bytes));
    let bound = 1024 * bytes.len() as u64 + (1 << 16);
    let shown = bytes.get(..200).unwrap_or(bytes).escape_ascii();
    assert!(cost.bytes_max <= bound, "{name}: {} for {}: {shown}", cost.bytes_max, bytes.len());
}

#[test]
fn seeds_of_the_fuzzers_do_no_harm() {
    let seeds = Path::new(env!("CARGO_MANIFEST_DIR")).join("fuzz/seeds");
    if !seeds.exists() {
        return; // the published package has no fuzz folder
    }
    for target in &TARGETS {
        let folder = fs::read_dir(seeds.join(target.0)).unwrap();
        let seeds: Vec<_> = folder.map(|seed| fs::read(seed.unwrap().path()).unwrap()).collect();
        assert!(seeds.len() > 5, "{}", target.0);
        for seed in seeds {
            // What one format sends is read by the others too: as an error, or as what it says.
            for target in &TARGETS {
                cheaply(target, &seed);
            }
        }
    }
}

#[test]
fn seeds_cut_short_do_no_harm() {
    let seeds = Path::new(env!("CARGO_MANIFEST_DIR")).join("fuzz/seeds");
    if !seeds.exists() {
        return; // the published package has no fuzz folder
    }
    for target in &TARGETS {
        for seed in fs::read_dir(seeds.join(target.0)).unwrap() {
            let seed = fs::read(seed.unwrap().path()).unwrap();
            let step = seed.len() / 50 + 1;
            for end in (0..seed.len()).step_by(step) {
                cheaply(target, &seed[..end]);
            }
        }
    }
}

/// The emptiest things that can be said are the dearest.
#[test]
fn what_costs_most_stays_within_the_bound() {
    for item in [
        "{}",
        "[]",
        "0",
        r#"{"role":"x"}"#,
        r#"{"role":"user","content":""}"#,
        r#"{"role":"user","parts":[{}]}"#,
        r#"{"role":"assistant","content":[{"type":""}]}"#,
        r#"{"role":"assistant","tool_calls":[{"id":"","function":{"name":""}}]}"#,
        r#"{"type":"reasoning","id":"","summary":[]}"#,
        r#"{"type":"x"}"#,
        r#"{"type":"CUSTOM"}"#,
    ] {
        let list = format!("[{}]", vec![item; 1_000].join(","));
        for target in &TARGETS {
            cheaply(target, list.as_bytes());
            cheaply(target, format!("a{{\"content\":{list}}}").as_bytes());
            cheaply(target, format!("s{}", vec![item; 1_000].join("\n")).as_bytes());
        }
    }
    for open in ["[", r#"{"content":"#, r#"{"content":["#, r#"{"parts":[{"x":"#] {
        let deep = open.repeat(100_000);
        for target in &TARGETS {
            cheaply(target, deep.as_bytes());
        }
    }
}
