//! What no wire decoder may do with any input: the seeds of the fuzz targets, JSON that no provider
//! would send, published examples with something wrong, and what decoders may allocate for them.

#![allow(clippy::unwrap_used, clippy::expect_used, clippy::panic, missing_docs, unreachable_pub)] // a test that fails should say so

#[path = "common/golden.rs"]
mod golden;
#[path = "common/wire_decoding.rs"]
mod wire_decoding;
#[path = "common/wire_json.rs"]
mod wire_json;

use std::fs;
use std::panic::{catch_unwind, resume_unwind};
use std::path::Path;

use golden::documents;
use memory_prompt::wire::{anthropic, gemini, langchain4j, ollama, openai, responses};
use proptest::collection::vec;
use proptest::prelude::*;
use wire_decoding::{TARGETS, Target};
use wire_json::{mutated, odd_json};

/// Reads, writes what was read and reads that again, all of which is held at once: together they
/// cost no more than a multiple of the input. `{}` is two bytes here and a message in Gemini.
fn cheaply((name, check): &Target, bytes: &[u8]) {
    let mut outcome = Ok(());
    // The counter can't be left by a panic: it would not stop counting.
    let cost = allocation_counter::measure(|| outcome = catch_unwind(|| check(bytes)));
    outcome.unwrap_or_else(|panic| resume_unwind(panic));
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

#[test]
fn deep_nesting_is_refused() {
    for open in ["[", r#"{"content":"#, r#"{"contents":"#, r#"{"candidates":"#] {
        let deep = open.repeat(100_000);
        for answer in
            [openai::answer, responses::answer, anthropic::answer, gemini::answer, ollama::answer]
        {
            assert!(answer(&deep).is_err());
        }
        for history in [
            openai::history,
            responses::history,
            anthropic::history,
            gemini::history,
            ollama::history,
            langchain4j::history,
        ] {
            assert!(history(&deep).is_err());
        }
        assert!(openai::Stream::new().push(&deep).is_err());
        assert!(responses::Stream::new().push(&deep).is_err());
        assert!(anthropic::Stream::new().push(&deep).is_err());
        assert!(gemini::Stream::new().push(&deep).is_err());
        assert!(ollama::Stream::new().push(&deep).is_err());
    }
}

/// Documents as the decoders of one format see them: each as an answer and as a history, and all of
/// them as one stream that comes to its end.
fn decoded(target: &Target, documents: &[String]) {
    for document in documents {
        cheaply(target, format!("a{document}").as_bytes());
        cheaply(target, format!("h{document}").as_bytes());
    }
    let ends = "[DONE]\n{\"done\": true}\n{\"type\": \"message_stop\"}";
    cheaply(target, format!("s{}\n{ends}", documents.join("\n")).as_bytes());
}

proptest! {
    #![proptest_config(ProptestConfig { cases: 512, failure_persistence: None, ..ProptestConfig::default() })]

    #[test]
    fn odd_json_does_no_harm(all in vec(odd_json(), 1..6)) {
        let all: Vec<_> = all.iter().map(ToString::to_string).collect();
        for target in &TARGETS {
            decoded(target, &all);
        }
    }

    #[test]
    fn spoilt_goldens_do_no_harm(
        (target, all) in proptest::sample::select(&TARGETS[..]).prop_flat_map(|target| {
            let format = target.0.trim_start_matches("wire_");
            (Just(target), vec(mutated(documents(format)), 1..6))
        }),
    ) {
        decoded(&target, &all);
    }
}
