//! The laws of data that outlive the process, and of several processes at once.

use std::collections::HashMap;
use std::process::{Command, Stdio};
use std::thread;
use std::time::{Duration, Instant, UNIX_EPOCH};

use super::support::{ID, append, batches, holds, numbered, rows, times};
use super::{SharedFixture, setting};
use crate::memory::{Append, ChatMemory, ChatMemoryExt, Expected, Read};
use crate::message::Message;
use crate::record::Slot;

/// Set for a process that must only write to the place at this address.
pub(super) const WRITE_TO: &str = "MEMORY_PROMPT_WRITE_TO";

const THREADS: u64 = 4;
const BATCH: usize = 3;

/// Appended records are there after reopening.
pub fn what_was_appended_is_there_after_reopening<F: SharedFixture>(fixture: &F, _path: &str) {
    let memory = fixture.memory(ID);
    memory.add(Message::system("Be brief.")).unwrap();
    append(&*memory, 0..10);
    memory.evict(3).unwrap();
    let before = memory.all().unwrap();
    drop(memory);
    let again = F::attach(&fixture.address());
    let memory = again.memory(ID);
    holds(&*memory, 3..10);
    assert_eq!(memory.system().unwrap().as_deref(), Some(&Message::system("Be brief.")));
    let after = memory.all().unwrap();
    assert_eq!(times(&after), times(&before));
}

/// Positions continue after reopening, even if nothing is left.
pub fn positions_go_on_after_reopening<F: SharedFixture>(fixture: &F, _path: &str) {
    append(&*fixture.memory(ID), 0..5);
    fixture.memory(ID).clear().unwrap();
    append(&*fixture.memory("evicted"), 0..5);
    fixture.memory("evicted").evict(9).unwrap();
    let again = F::attach(&fixture.address());
    for id in [ID, "evicted"] {
        holds(&*again.memory(id), 5..5);
        append(&*again.memory(id), 5..6);
        holds(&*again.memory(id), 5..6);
    }
}

/// Slots, ids, times and the incarnation are there after reopening.
pub fn slots_and_ids_are_there_after_reopening<F: SharedFixture>(fixture: &F, _path: &str) {
    let memory = fixture.memory(ID);
    append(&*memory, 0..3);
    let at = UNIX_EPOCH + Duration::from_millis(1_714_557_600_123);
    let change = || {
        let change = Append::new([numbered(3)]).with_id("turn").with_times([at]);
        change.set_slot("a", "x", Expected::Any)
    };
    let first = memory.append_with(&mut change()).unwrap();
    let before = memory.read(None, 0).unwrap();
    drop(memory);
    let again = F::attach(&fixture.address());
    let memory = again.memory(ID);
    let repeated = memory.append_with(&mut change()).unwrap();
    assert!(repeated.repeated);
    assert_eq!((repeated.positions, repeated.version), (first.positions, first.version));
    let snapshot = memory.read_with(&Read::newest(1).slots(["a"]).positions([1])).unwrap();
    assert_eq!(snapshot.incarnation, before.incarnation);
    assert_eq!(snapshot.slot("a").map(Slot::version), first.version);
    assert_eq!(snapshot.records.first().map(|record| record.appended_at()), Some(at));
    assert_eq!(rows(snapshot.picked()), [(1, "1".to_owned())]);
    holds(&*memory, 0..4);
}

/// Records that one process appends can be read by the other at once.
pub fn what_one_appends_the_other_reads<F: SharedFixture>(fixture: &F, _path: &str) {
    let other = F::attach(&fixture.address());
    let (one, two) = (fixture.memory(ID), other.memory(ID));
    for i in 0..20 {
        let (writer, reader) = if i % 2 == 0 { (&one, &two) } else { (&two, &one) };
        append(&**writer, i..i + 1);
        holds(&**reader, 0..i + 1);
    }
    two.clear().unwrap();
    holds(&*one, 20..20);
    drop(other);
    append(&*one, 20..21);
    holds(&*one, 20..21);
}

/// Eight writers in two processes lose nothing, and their batches stay contiguous.
pub fn eight_writers_in_2_processes_lose_nothing<F: SharedFixture>(fixture: &F, path: &str) {
    let spawn = |_| {
        Command::new(std::env::current_exe().unwrap())
            .args([path, "--exact", "--include-ignored", "--nocapture", "--test-threads=1"])
            .env(WRITE_TO, fixture.address())
            .stdout(Stdio::piped())
            .spawn()
            .unwrap()
    };
    let processes: Vec<_> = (0..2).map(spawn).collect();
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
    assert_eq!(acknowledged.len() as u64, 2 * THREADS, "{path} runs as {acknowledged:?}");
    let all = rows(&fixture.memory(ID).all().unwrap());
    assert_eq!(batches(&all, BATCH), acknowledged);
    let total: u64 = acknowledged.values().sum();
    println!("{}: {total} batches by 8 writers in 2 processes", F::BACKEND);
}

/// The writes of each of the processes.
pub(super) fn write<F: SharedFixture>(fixture: &F) {
    let time = Duration::from_secs(setting("MEMORY_PROMPT_SECONDS", 1).into());
    let end = Instant::now() + time;
    thread::scope(|scope| {
        for thread in 0..THREADS {
            scope.spawn(move || {
                let writer = format!("{}/{thread}", std::process::id());
                let memory = fixture.memory(ID);
                let mut written = 0;
                while Instant::now() < end {
                    let texts =
                        (0..BATCH).map(|k| Message::user(format!("{writer} {written} {k}")));
                    memory.add_all(texts).unwrap();
                    written += 1;
                }
                println!("acknowledged {writer} {written}");
            });
        }
    });
}
