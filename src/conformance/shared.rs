//! The laws of data that outlive the process, and of several processes at once.

use std::collections::HashMap;
use std::process::{Command, Stdio};
use std::time::{Duration, Instant};

use super::SharedFixture;
use super::prelude::*;

/// Set for a process that must only write to the place at this address.
pub(super) const WRITE_TO: &str = "MEMORY_PROMPT_WRITE_TO";

const THREADS: usize = 4;
const BATCH: usize = 3;

/// Appended records are there after reopening.
pub fn what_was_appended_is_there_after_reopening<F: SharedFixture>(fixture: &F, _path: &str) {
    let before = instructed(fixture, 3..10).all().unwrap();
    let again = F::attach(&fixture.address());
    let memory = again.memory(ID);
    memory.holds_under(Some("Be brief."), 3..10);
    assert_eq!(times(&memory.all().unwrap()), times(&before));
}

/// Positions continue after reopening, even if nothing is left.
pub fn positions_go_on_after_reopening<F: SharedFixture>(fixture: &F, _path: &str) {
    holding(fixture, 0..5).clears();
    fixture.memory("evicted").says(0..5).evicts(9, 5);
    let again = F::attach(&fixture.address());
    for id in [ID, "evicted"] {
        again.memory(id).holds(5..5).says(5..6).holds(5..6);
    }
}

/// Slots, ids, times and the incarnation are there after reopening.
pub fn slots_and_ids_are_there_after_reopening<F: SharedFixture>(fixture: &F, _path: &str) {
    let memory = holding(fixture, 0..3);
    let change = || {
        let change = appending(3..4).with_id("turn").with_times([long_ago(0)]);
        change.set_slot("a", "x", Any)
    };
    let first = memory.done(change());
    let before = memory.whole();
    drop(memory);
    let other = F::attach(&fixture.address());
    let memory = other.memory(ID);
    assert_eq!(memory.repeats(change(), first.positions).version, first.version);
    let snapshot = memory.read_with(&Read::newest(1).slots(["a"]).positions([1])).unwrap();
    assert_eq!(snapshot.incarnation, before.incarnation);
    assert_eq!(snapshot.slot("a").map(Slot::version), first.version);
    assert_eq!(times(&snapshot.records), [long_ago(0)]);
    assert_eq!(rows(snapshot.picked()), [(1, "1".to_owned())]);
    memory.holds(0..4);
}

/// Records that one process appends can be read by the other at once.
pub fn what_one_appends_the_other_reads<F: SharedFixture>(fixture: &F, _path: &str) {
    let other = F::attach(&fixture.address());
    let (one, two) = (fixture.memory(ID), other.memory(ID));
    for i in 0..20 {
        let (writer, reader) = if i % 2 == 0 { (&one, &two) } else { (&two, &one) };
        writer.says(i..i + 1);
        reader.holds(0..i + 1);
    }
    two.clears();
    one.holds(20..20);
    drop(other);
    one.says(20..21).holds(20..21);
}

/// Eight writers in two processes lose nothing, and their batches stay contiguous.
pub fn eight_writers_in_2_processes_lose_nothing<F: SharedFixture>(fixture: &F, path: &str) {
    let mut command = Command::new(std::env::current_exe().unwrap());
    command.args([path, "--exact", "--include-ignored", "--nocapture", "--test-threads=1"]);
    command.env(WRITE_TO, fixture.address()).stdout(Stdio::piped());
    let processes = [(), ()].map(|()| command.spawn().unwrap());
    let mut acknowledged = HashMap::new();
    for process in processes {
        let output = process.wait_with_output().unwrap();
        assert!(output.status.success(), "a writer failed");
        for line in String::from_utf8_lossy(&output.stdout).lines() {
            // The harness may have begun the line.
            let Some((_, line)) = line.split_once("acknowledged ") else { continue };
            let (writer, batches) = line.split_once(' ').unwrap();
            acknowledged.insert(writer.to_owned(), batches.parse::<u64>().unwrap());
        }
    }
    assert_eq!(acknowledged.len(), 2 * THREADS, "{path} runs as {acknowledged:?}");
    let all = rows(&fixture.memory(ID).all().unwrap());
    assert_eq!(batches(&all, BATCH), acknowledged);
    let total: u64 = acknowledged.values().sum();
    println!("{}: {total} batches by 8 writers in 2 processes", F::BACKEND);
}

/// Writes as each of the processes does.
pub(super) fn write<F: SharedFixture>(fixture: &F) {
    let seconds = std::env::var("MEMORY_PROMPT_SECONDS").map_or(1, |it| it.parse().unwrap());
    let end = Instant::now() + Duration::from_secs(seconds);
    at_once(fixture, THREADS, |memory, thread| {
        let writer = format!("{}/{thread}", std::process::id());
        let mut written = 0;
        while Instant::now() < end {
            memory.add_all(batch(&format!("{writer} {written}"), BATCH)).unwrap();
            written += 1;
        }
        println!("acknowledged {writer} {written}");
    });
}
