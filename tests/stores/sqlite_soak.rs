//! Hours of use of one file in minutes: processes that are killed and frozen while they write
//! through `ToAsync`, futures that are dropped, and another process that purges.
//!
//! `MEMORY_PROMPT_SOAK` says how many minutes; without it there is no soak.

#![cfg(all(feature = "sqlite", feature = "tokio"))]

use std::collections::BTreeMap;
use std::io::{BufRead, BufReader};
use std::path::Path;
use std::process::{Command, Stdio};
use std::time::{Duration, Instant, SystemTime};
use std::{env, thread};

use memory_prompt::adapt::ToAsync;
use memory_prompt::memory::{Append, Appended};
use memory_prompt::{
    AsyncChatMemory, ChatMemory, ChatMemoryExt, ChatMemoryStore, Message, Result, SqliteStore,
};

use crate::again;
use crate::folder::Folder;

const WRITE_TO: &str = "MEMORY_PROMPT_SOAK_FILE";
const WRITERS: u64 = 8;
const BATCH: u64 = 3;

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
                let unknown = unknown(writer);
                tokio::spawn(async move {
                    // What the process before this one did not get to know.
                    for number in unknown {
                        let appended = append(&memory, number, true).await.unwrap();
                        acknowledged(writer, number, &appended);
                    }
                    for number in first.. {
                        let has_id = number % 3 == 1;
                        println!("begun {writer} {number} {has_id}");
                        let append = append(&memory, number, has_id);
                        let answer = if number % 3 == 2 {
                            append.await.ok()
                        } else {
                            let time = Duration::from_micros(number * 7919 % 4_000);
                            let answer = tokio::time::timeout(time, append).await;
                            answer.ok().and_then(Result::ok)
                        };
                        // With an id it may be asked again.
                        let answer = match answer {
                            None if has_id => self::append(&memory, number, true).await.ok(),
                            answer => answer,
                        };
                        if let Some(appended) = answer {
                            acknowledged(writer, number, &appended);
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

/// The batches of a writer that have an id, and of which nobody knows whether they were appended.
fn unknown(writer: u64) -> Vec<u64> {
    let all = env::var("MEMORY_PROMPT_SOAK_UNKNOWN").unwrap();
    let all = all.split_whitespace().map(|one| one.split_once(':').unwrap());
    let own = all.filter(|(of, _)| *of == writer.to_string());
    own.map(|(_, number)| number.parse().unwrap()).collect()
}

async fn append(memory: &dyn AsyncChatMemory, number: u64, has_id: bool) -> Result<Appended> {
    let mut append = Append::new((0..BATCH).map(|k| Message::user(format!("{number} {k}"))));
    if has_id {
        append = append.with_id(format!("batch {number}"));
    }
    memory.append_with(&mut append).await
}

fn acknowledged(writer: u64, number: u64, appended: &Appended) {
    let (at, repeated) = (appended.positions.start, appended.repeated);
    println!("acknowledged {writer} {number} {at} {repeated}");
}

/// What the writers told before they were killed.
#[derive(Default)]
struct Told {
    /// The batches that were begun, by writer and number, and whether they have an id.
    begun: BTreeMap<(u64, u64), bool>,
    /// The position of each that was acknowledged.
    acknowledged: BTreeMap<(u64, u64), u64>,
    repeated: usize,
}

impl Told {
    /// Takes a line; one that was cut off by a kill says nothing.
    fn take(&mut self, line: &str) {
        // The first one stands behind what the harness says.
        let words: Vec<&str> = line.split(' ').collect();
        let words = words.strip_prefix(&["test", "soak_writer", "..."]).unwrap_or(&words);
        let number = |at: usize| words.get(at).and_then(|word| word.parse::<u64>().ok());
        let is = |at: usize| words.get(at).and_then(|word| word.parse::<bool>().ok());
        match (words.first().copied().unwrap_or_default(), number(1), number(2)) {
            ("begun", Some(writer), Some(batch)) => {
                let Some(has_id) = is(3) else { return };
                self.begun.insert((writer, batch), has_id);
            }
            ("acknowledged", Some(writer), Some(batch)) => {
                let (Some(at), Some(repeated)) = (number(3), is(4)) else { return };
                self.acknowledged.insert((writer, batch), at);
                self.repeated += usize::from(repeated);
            }
            _ => {}
        }
    }

    /// Those which the next process is to append again: the last one of each writer alone, since
    /// what comes later shall stand later.
    fn unknown(&self) -> String {
        let last = (0..WRITERS).filter_map(|writer| {
            let (last, has_id) = self.begun.range((writer, 0)..(writer + 1, 0)).next_back()?;
            (*has_id && !self.acknowledged.contains_key(last)).then_some(last)
        });
        last.map(|(writer, number)| format!("{writer}:{number}")).collect::<Vec<_>>().join(" ")
    }
}

/// Each batch is there whole, once and in its place: a larger number that was written later stands
/// later.
fn check(path: &Path, told: &Told) {
    let store = SqliteStore::open(path).unwrap();
    for writer in 0..WRITERS {
        let records = store.memory(format!("soak:{writer}")).unwrap().all().unwrap();
        assert!(records.iter().map(|record| record.position()).eq(0..records.len() as u64));
        let texts: Vec<String> =
            records.messages().map(|message| message.text().into_owned()).collect();
        let mut there = BTreeMap::new();
        let mut last = None;
        for (at, batch) in (0..).step_by(3).zip(texts.chunks(3)) {
            let number: u64 = batch[0].split(' ').next().unwrap().parse().unwrap();
            assert!((0..3).all(|k| batch[k] == format!("{number} {k}")), "by half: {batch:?}");
            assert!(last < Some(number), "twice, or late: {number} behind {last:?}");
            assert!(told.begun.contains_key(&(writer, number)), "{number} was never begun");
            last = Some(number);
            there.insert(number, at);
        }
        let acknowledged = told.acknowledged.range((writer, 0)..(writer + 1, 0));
        for ((_, number), at) in acknowledged {
            assert_eq!(
                there.get(number),
                Some(at),
                "{number} of {writer} was acknowledged at {at}, and is lost or elsewhere"
            );
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
    let (mut all, mut purged, mut rounds) = (Told::default(), 0, 0_u64);
    let mut again = 0;
    while began.elapsed() < time {
        let unknown = all.unknown();
        again += unknown.split_whitespace().count();
        let mut writer = again::again("sqlite_soak::soak_writer")
            .env(WRITE_TO, &path)
            .env("MEMORY_PROMPT_SOAK_FIRST", (rounds * 1_000_000).to_string())
            .env("MEMORY_PROMPT_SOAK_UNKNOWN", unknown)
            .stderr(Stdio::null())
            .spawn()
            .unwrap();
        let output = writer.stdout.take().unwrap();
        let told = thread::spawn(move || {
            for line in BufReader::new(output).lines().map_while(Result::ok) {
                all.take(&line);
            }
            all
        });
        let signal = |signal: &str| {
            let id = writer.id().to_string();
            assert!(Command::new("kill").args(["-s", signal, &id]).status().unwrap().success());
        };
        for i in 0..3 {
            thread::sleep(Duration::from_millis(200 + (rounds * 7919 + i * 104_729) % 600));
            // A process that is frozen while it holds the lock keeps all others out: shorter than
            // they wait.
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
        all = told.join().unwrap();
        rounds += 1;
    }
    drop(own);
    check(&path, &all);
    println!(
        "{:?}: {} batches begun, {} acknowledged and there, {} repeated by id, {again} of them by another \
         process, {purged} conversations purged, over {rounds} kills",
        began.elapsed(),
        all.begun.len(),
        all.acknowledged.len(),
        all.repeated,
    );
    assert!(purged > 0 && !all.acknowledged.is_empty() && all.repeated > 0);
}
