//! Hours of use of one file in minutes: processes that are killed and frozen while they write through `ToAsync`,
//! futures that are dropped, and another process that purges.
//!
//! `MEMORY_PROMPT_SOAK` says how many minutes; without it there is no soak.

#![cfg(all(feature = "sqlite", feature = "tokio"))]
#![allow(clippy::unwrap_used, missing_docs)] // a test that panics has failed

#[path = "common/folder.rs"]
#[allow(dead_code)] // not all of it is needed here
mod folder;

use std::collections::BTreeSet;
use std::io::{BufRead, BufReader};
use std::path::Path;
use std::process::{Command, Stdio};
use std::time::{Duration, Instant, SystemTime};
use std::{env, thread};

use memory_prompt::adapt::ToAsync;
use memory_prompt::memory::Append;
use memory_prompt::{
    AsyncChatMemoryExt, ChatMemory, ChatMemoryExt, ChatMemoryStore, Message, SqliteStore,
};

use folder::Folder;

const WRITE_TO: &str = "MEMORY_PROMPT_SOAK_FILE";
const WRITERS: u64 = 8;

/// Not a test of its own: what the process does that the next test kills.
#[test]
fn soak_writer() {
    let Ok(path) = env::var(WRITE_TO) else { return };
    let first: u64 = env::var("MEMORY_PROMPT_SOAK_FIRST").unwrap().parse().unwrap();
    let runtime = tokio::runtime::Builder::new_multi_thread().enable_all().build().unwrap();
    runtime.block_on(async {
        let store = ToAsync::new(SqliteStore::open(path).unwrap());
        let writers: Vec<_> = (0..WRITERS)
            .map(|writer| {
                let memory = store.memory(format!("soak:{writer}")).unwrap();
                tokio::spawn(async move {
                    for number in first.. {
                        let batch = (0..3).map(|k| Message::user(format!("{number} {k}")));
                        let append = memory.add_all(batch);
                        if number % 3 == 0 {
                            let time = Duration::from_micros(number * 7919 % 4_000);
                            let _ = tokio::time::timeout(time, append).await;
                        } else if append.await.is_ok() {
                            println!("acknowledged {writer} {number}");
                        }
                    }
                })
            })
            .collect();
        for writer in writers {
            writer.await.unwrap();
        }
    });
}

/// Each batch is there whole, once and in its place: a larger number that was written later stands later.
fn check(path: &Path, acknowledged: &BTreeSet<(u64, u64)>) {
    let store = SqliteStore::open(path).unwrap();
    for writer in 0..WRITERS {
        let records = store.memory(format!("soak:{writer}")).unwrap().all().unwrap();
        let texts: Vec<String> =
            records.messages().map(|message| message.text().into_owned()).collect();
        let mut there = Vec::new();
        for batch in texts.chunks(3) {
            let number: u64 = batch[0].split(' ').next().unwrap().parse().unwrap();
            assert!((0..3).all(|k| batch[k] == format!("{number} {k}")), "by half: {batch:?}");
            there.push(number);
        }
        assert!(there.is_sorted_by(|a, b| a < b), "twice, or late: {there:?}");
        let there: BTreeSet<u64> = there.into_iter().collect();
        for (_, number) in acknowledged.iter().filter(|(of, _)| *of == writer) {
            assert!(there.contains(number), "{number} of {writer} was acknowledged and is lost");
        }
    }
}

#[test]
#[ignore = "takes as long as it is told"]
fn soak() {
    let Ok(minutes) = env::var("MEMORY_PROMPT_SOAK") else { return };
    let time = Duration::from_secs_f64(60.0 * minutes.parse::<f64>().unwrap());
    let (folder, began) = (Folder::new(), Instant::now());
    let path = folder.file("chat.db");
    let own = SqliteStore::open(&path).unwrap();
    let past = SystemTime::now() - Duration::from_hours(24);
    let (mut acknowledged, mut purged, mut rounds) = (BTreeSet::new(), 0, 0_u64);
    while began.elapsed() < time {
        let mut writer = Command::new(env::current_exe().unwrap())
            .args(["soak_writer", "--exact", "--nocapture"])
            .env(WRITE_TO, &path)
            .env("MEMORY_PROMPT_SOAK_FIRST", (rounds * 1_000_000).to_string())
            .stdout(Stdio::piped())
            .stderr(Stdio::null())
            .spawn()
            .unwrap();
        let output = writer.stdout.take().unwrap();
        let told = thread::spawn(move || {
            let mut told = Vec::new();
            for line in BufReader::new(output).lines().map_while(Result::ok) {
                let mut words = line.split(' ');
                if words.by_ref().any(|word| word.ends_with("acknowledged"))
                    && let (Some(writer), Some(number)) = (words.next(), words.next())
                    && let (Ok(writer), Ok(number)) = (writer.parse(), number.parse())
                {
                    told.push((writer, number));
                }
            }
            told
        });
        let signal = |signal: &str| {
            let id = writer.id().to_string();
            assert!(Command::new("kill").args(["-s", signal, &id]).status().unwrap().success());
        };
        for i in 0..3 {
            thread::sleep(Duration::from_millis(200 + (rounds * 7919 + i * 104_729) % 600));
            // A process that is frozen while it holds the lock keeps all others out: shorter than they wait.
            signal("STOP");
            thread::sleep(Duration::from_millis(rounds * 31 % 400));
            signal("CONT");
            for old in 0..5 {
                let mut append = Append::new([Message::user("old")]);
                append.active = Some(past);
                own.memory(format!("old:{rounds}:{i}:{old}"))
                    .unwrap()
                    .append_with(&mut append)
                    .unwrap();
            }
            purged += own.purge_inactive(past + Duration::from_hours(1)).unwrap();
        }
        writer.kill().unwrap();
        writer.wait().unwrap();
        acknowledged.extend(told.join().unwrap());
        rounds += 1;
    }
    drop(own);
    check(&path, &acknowledged);
    println!(
        "{:?}: {} batches acknowledged and there, {purged} conversations purged, over {rounds} kills",
        began.elapsed(),
        acknowledged.len()
    );
    assert!(purged > 0 && !acknowledged.is_empty());
}
