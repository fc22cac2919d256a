//! Checks that check less than they say are found here.

#![allow(clippy::unwrap_used, clippy::panic, missing_docs)] // a test that panics has failed
#![cfg(unix)]

use std::cell::RefCell;
use std::collections::BTreeSet;
use std::env;
use std::fs;
use std::os::unix::fs::symlink;
use std::path::{Path, PathBuf};
use std::process::{Command, Output};

use crate::counted::{Count, counted};
use proptest::prelude::*;
use proptest::test_runner::{RngSeed, TestRunner};

fn root() -> &'static Path {
    Path::new(env!("CARGO_MANIFEST_DIR"))
}

counted! {
    #![cases(300)]

    /// Some of its cases are passed over: those don't count.
    #[test]
    fn a_law_of_three_hundred_cases(n in 0u32..100, m: u8) {
        prop_assume!(n < 80);
        prop_assert!(n < 80 || m == 0);
    }
}

/// The run of everything exported `PROPTEST_CASES=256`, and proptest lets that override the number
/// that a test asks for: the law that was to check "more than 10,000 prompts a provider" checked
/// 256, and so did nine others that say 500 or 512. Nothing told.
#[test]
fn the_environment_makes_no_law_smaller_than_it_says() {
    for cases in ["1", "256", "300", "1000"] {
        let held = held(Some("all"), Some(cases));
        assert!(held >= 300, "PROPTEST_CASES={cases}: {held}");
    }
}

/// Runs the law of 300 cases in a process of its own, and returns how often it says that it held.
fn held(ours: Option<&str>, proptests: Option<&str>) -> u32 {
    let mut law = Command::new(env::current_exe().unwrap());
    law.args(["--exact", "claims::a_law_of_three_hundred_cases", "--nocapture"]);
    law.env_remove("PROPTEST_RNG_SEED"); // each round would draw the same few cases
    for (name, cases) in [("MEMORY_PROMPT_CASES", ours), ("PROPTEST_CASES", proptests)] {
        law.env_remove(name).envs(cases.map(|cases| (name, cases)));
    }
    let output = law.output().unwrap();
    let told = String::from_utf8(output.stdout).unwrap();
    assert!(output.status.success(), "{told}");
    let line = told.lines().find_map(|line| line.split("held for ").nth(1)).unwrap();
    line.split(' ').next().unwrap().parse().unwrap()
}

/// A fixed seed gave each round of a law the same cases: they were counted again, and one of which
/// the first two were refused tried those a hundred times.
#[test]
fn a_fixed_seed_repeats_no_case() {
    let (count, held) = (Count::of("a law with refused cases", 50), RefCell::new(BTreeSet::new()));
    while count.goes_on() {
        let seeded = ProptestConfig { rng_seed: RngSeed::Fixed(7), ..ProptestConfig::default() };
        let seeded = ProptestConfig { failure_persistence: None, ..seeded };
        let mut runner = TestRunner::new(count.round(count.left(), seeded));
        let law = |n: u64| {
            if count.is_new() && !n.is_multiple_of(3) {
                assert!(held.borrow_mut().insert(n), "a case counts twice");
                count.one();
            }
            Ok(())
        };
        runner.run(&any::<u64>(), law).unwrap();
    }
    count.close();
}

/// `.ci/run` asks for all cases; whoever asks for none in particular waits for an eighth.
#[test]
fn one_variable_says_how_many_cases_are_tried() {
    assert_eq!(held(None, None), 38);
    assert_eq!(held(Some("all"), None), 300);
    assert_eq!(held(Some("1000"), None), 1000);
}

#[test]
#[should_panic(expected = "this law says 3 cases, and held for 2")]
fn a_law_that_held_less_often_than_it_says_has_failed() {
    let count = Count::of("this law", 3);
    while count.goes_on() {
        if count.left() > 1 {
            count.one();
        }
    }
    count.close();
}

fn sources(folder: &Path) -> Vec<PathBuf> {
    let mut found = Vec::new();
    for entry in fs::read_dir(folder).unwrap() {
        let path = entry.unwrap().path();
        if path.is_dir() && path.file_name().is_none_or(|name| name != "target") {
            found.extend(sources(&path));
        } else if path.extension().is_some_and(|ext| ext == "rs") {
            found.push(path);
        }
    }
    found
}

/// A number that proptest is asked for may be overridden, and some laws ran in full where an eighth
/// was enough.
#[test]
fn every_number_of_cases_is_counted() {
    let mut laws = 0;
    for path in ["tests", "examples"].iter().flat_map(|folder| sources(&root().join(folder))) {
        if path.ends_with("common/counted.rs") || path.ends_with("house/claims.rs") {
            continue;
        }
        let text = fs::read_to_string(&path).unwrap();
        laws += text.matches("#![cases(").count();
        let bare = ["with_cases(", "proptest! {"].iter().find(|it| text.contains(**it));
        assert_eq!(bare, None, "{}: use `counted!`", path.display());
    }
    assert!(laws >= 40, "the laws are where this test looks for them: {laws}");
}

/// Runs `fuzz/run` where there is neither rustup nor a nightly compiler nor cargo-fuzz.
fn fuzz(ci: Option<&str>) -> Output {
    let name = format!("memory-prompt-no-tools-{}-{}", std::process::id(), ci.is_some());
    let folder = env::temp_dir().join(name);
    fs::create_dir_all(&folder).unwrap();
    let path = env::var_os("PATH").unwrap();
    for tool in ["bash", "basename", "dirname", "mkdir"] {
        let found = env::split_paths(&path).map(|at| at.join(tool)).find(|tool| tool.exists());
        let _ = symlink(found.unwrap(), folder.join(tool));
    }
    let mut command = Command::new(folder.join("bash"));
    command.arg(root().join("fuzz/run")).args(["1", "decode_json"]).env("PATH", &folder);
    command.env_remove("CI").envs(ci.map(|ci| ("CI", ci)));
    let output = command.output().unwrap();
    fs::remove_dir_all(&folder).unwrap();
    output
}

/// The fuzzer ended well where it could not be built, under CI too: a green run in which nothing
/// was fuzzed looked like one in which everything was.
#[test]
fn a_fuzzer_that_can_not_run_is_no_success() {
    if !root().join("fuzz/run").exists() {
        return; // the published package has no fuzz folder
    }
    let output = fuzz(Some("true"));
    assert_eq!(output.status.code(), Some(1));
    assert!(String::from_utf8_lossy(&output.stderr).starts_with("FAILED: "), "{output:?}");
    let output = fuzz(None);
    assert_eq!(output.status.code(), Some(0));
    assert!(String::from_utf8_lossy(&output.stdout).starts_with("SKIPPED: "), "{output:?}");
}
