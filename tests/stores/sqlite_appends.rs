//! Appends with an id, slots and times in SQLite: together with others in one commit, cut off at
//! any moment, and over the memories and adapters that wrap others.

#![cfg(feature = "sqlite")]

use std::collections::HashMap;
use std::sync::atomic::{AtomicU64, Ordering};
use std::sync::{Arc, Barrier};
use std::thread;
use std::time::{Duration, SystemTime, UNIX_EPOCH};

use crate::again;
use crate::counted::cases;
use crate::folder::Folder;
use crate::sqlite::step;
use memory_prompt::conformance::Fixture;
use memory_prompt::memory::{Append, Expected};
use memory_prompt::record::SlotVersion;
use memory_prompt::store::Durability;
use memory_prompt::token::Estimate;
use memory_prompt::{
    ChatMemory, ChatMemoryExt, ChatMemoryStore, ErrorKind, Message, MessageWindowChatMemory,
    SqliteStore, TokenWindowChatMemory,
};
use rusqlite::Connection;

// ---- the kit, on what wraps a memory of SQLite --------------------------------------------------

/// Windows over SQLite that are large enough for the laws: each handle is one of its own.
struct Windows<const TOKENS: bool>(SqliteStore, #[expect(dead_code)] Folder);

impl<const TOKENS: bool> Fixture for Windows<TOKENS> {
    const BACKEND: &'static str =
        if TOKENS { "sqlite, token window" } else { "sqlite, message window" };
    const CASES: u32 = 8;
    fn new() -> Self {
        let folder = Folder::new();
        let options = SqliteStore::options().durability(Durability::Process);
        Self(options.open(folder.file("chat.db")).unwrap(), folder)
    }
    fn memory(&self, id: &str) -> Arc<dyn ChatMemory> {
        let inside = self.0.memory(id).unwrap();
        if TOKENS {
            Arc::new(TokenWindowChatMemory::new(inside, usize::MAX, Estimate).unwrap())
        } else {
            Arc::new(MessageWindowChatMemory::new(inside, usize::MAX).unwrap())
        }
    }
}

memory_prompt::conformance!(message_window: Windows<false>, [memory, ids, slots, times, media]);
memory_prompt::conformance!(token_window: Windows<true>, [memory, ids, slots, times, media]);

#[cfg(feature = "tokio")]
mod adapted {
    use memory_prompt::adapt::ToAsync;
    use memory_prompt::conformance::{AsyncFixture, AsyncStoreFixture};
    use memory_prompt::{AsyncChatMemory, AsyncChatMemoryStore};

    use super::*;

    /// In async code and back, bincode, one connection for reads and writes.
    struct Unblocked(ToAsync<SqliteStore>);

    impl AsyncFixture for Unblocked {
        const BACKEND: &'static str = "sqlite, async, in memory, bincode";
        async fn new() -> Self {
            let options = SqliteStore::options().codec(memory_prompt::codec::Codec::Bincode);
            Self(ToAsync::new(options.in_memory().unwrap()))
        }
        fn memory(&self, id: &str) -> Arc<dyn AsyncChatMemory> {
            Arc::new(self.0.memory(id).unwrap())
        }
    }

    impl AsyncStoreFixture for Unblocked {
        fn store(&self) -> Arc<dyn AsyncChatMemoryStore> {
            Arc::new(self.0.clone())
        }
    }

    memory_prompt::conformance_async!(unblocked: Unblocked, [ids, slots, times, moving, asynchronous, asynchronous_ids]);
}

// ---- one commit for many ------------------------------------------------------------------------

/// What one of many appends at once is to come to, by its number.
fn one_of_many(i: u64, version: SlotVersion) -> Append {
    let append = Append::new([Message::user(format!("one of many {i}")), Message::ai("yes")]);
    match i % 8 {
        0 => append.expecting(1 << 20),
        1 => append.set_slot("seat", format!("{i}"), Expected::Is(SlotVersion::random())),
        2 => append.with_id("the same for all"),
        3 => append.set_slot("seat", format!("{i}"), Expected::Is(version)),
        4 => append.with_id(format!("{i}")).set_slot(
            format!("slot {i}"),
            i.to_be_bytes(),
            Expected::Absent,
        ),
        5 => append.with_id(format!("{i}")).with_times([UNIX_EPOCH + Duration::from_secs(i); 2]),
        6 => append.remove_slot(format!("no slot {i}"), Expected::Any),
        _ => append,
    }
}

/// Sixty-four at once share a few commits, and each comes to what it would have come to alone:
/// conflicts of positions and slots are their owners' alone, one of those under one id is done, one
/// of those over one version, and each is told the positions and the version that are its own.
#[test]
fn each_of_many_at_once_is_told_what_became_of_its_own() {
    const AT_ONCE: u64 = 64;
    let commits = Arc::new(AtomicU64::new(0));
    let count = Arc::clone(&commits);
    let folder = Folder::new();
    let store = SqliteStore::options()
        .on_connect(move |connection| {
            let count = Arc::clone(&count);
            connection.commit_hook(Some(move || {
                count.fetch_add(1, Ordering::Relaxed);
                // The longer a commit takes, the more come meanwhile.
                thread::sleep(Duration::from_millis(20));
                false
            }))
        })
        .open(folder.file("chat.db"))
        .unwrap();
    let memory = store.memory("a").unwrap();
    let version = memory.set_slot("seat", "12A", Expected::Absent).unwrap();
    commits.store(0, Ordering::Relaxed);
    let start = Barrier::new(64);
    let outcomes: Vec<_> = thread::scope(|scope| {
        let append = |i| {
            let (memory, start) = (memory.clone(), &start);
            scope.spawn(move || {
                let mut append = one_of_many(i, version);
                start.wait();
                let outcome = memory.append_with(&mut append);
                assert_eq!(append.messages.len(), if outcome.is_ok() { 0 } else { 2 });
                (i, outcome)
            })
        };
        let threads: Vec<_> = (0..AT_ONCE).map(append).collect();
        threads.into_iter().map(|thread| thread.join().unwrap()).collect()
    });
    let commits = commits.load(Ordering::Relaxed);
    println!("{AT_ONCE} appends in {commits} commits");
    assert!(commits < AT_ONCE / 2, "they share their commits: {commits}");

    let all = memory.all().unwrap();
    let text = |position: u64| {
        all.iter().find(|it| it.position() == position).map(|it| it.message().text())
    };
    let (mut under_one_id, mut over_one_version, mut stored) = (Vec::new(), Vec::new(), 0);
    for (i, outcome) in outcomes {
        match (i % 8, outcome) {
            (0, Err(error)) => {
                assert!(matches!(error.kind(), ErrorKind::Conflict { .. }), "{error}");
            }
            (1 | 3, Err(error)) => assert_eq!(error.kind(), ErrorKind::SlotConflict),
            (2, Ok(appended)) => {
                stored += u64::from(!appended.repeated);
                under_one_id.push((i, appended));
            }
            (3, Ok(appended)) => {
                stored += 1;
                over_one_version.push((i, appended.version.unwrap()));
            }
            (4..=7, Ok(appended)) => {
                stored += 1;
                let position = appended.positions.start;
                assert_eq!((appended.positions.end, appended.repeated), (position + 2, false));
                assert_eq!(text(position).unwrap(), format!("one of many {i}"));
                if i % 8 == 4 {
                    let slot = memory.slot(format!("slot {i}")).unwrap().unwrap();
                    assert_eq!(appended.version, Some(slot.version()));
                    assert_eq!(slot.content(), i.to_be_bytes());
                } else {
                    assert_eq!(appended.version, None);
                }
                if i % 8 == 5 {
                    let record = all.iter().find(|it| it.position() == position).unwrap();
                    assert_eq!(record.appended_at(), UNIX_EPOCH + Duration::from_secs(i));
                }
            }
            (_, outcome) => panic!("{i} came to {outcome:?}"),
        }
    }
    assert_eq!(all.len() as u64, 2 * stored, "what failed left nothing");
    let (first, _) = under_one_id.iter().find(|it| !it.1.repeated).unwrap();
    let positions = under_one_id[0].1.positions.clone();
    assert!(under_one_id.iter().all(|it| it.1.positions == positions));
    assert_eq!(under_one_id.iter().filter(|it| !it.1.repeated).count(), 1);
    assert_eq!(text(positions.start).unwrap(), format!("one of many {first}"));
    let [(winner, version)] = over_one_version[..] else { panic!("{over_one_version:?}") };
    let slot = memory.slot("seat").unwrap().unwrap();
    assert_eq!((slot.version(), slot.text().unwrap()), (version, winner.to_string().as_str()));
}

// ---- cut off at any moment ----------------------------------------------------------------------

const REPEAT_TO: &str = "MEMORY_PROMPT_TEST_REPEAT";

/// How many appends. Among fewer, none fails after its commit.
fn repetitions() -> u64 {
    cases(500).max(500).into()
}

/// The `i`th append of somebody who does not know how often it was tried: one message or three, a
/// slot that counts, and a time.
fn repeated(i: u64) -> Append {
    let texts = (0..=i % 3).map(|k| Message::user(format!("{i} {k}")));
    let times = (0..=i % 3).map(|_| UNIX_EPOCH + Duration::from_secs(i));
    let append = Append::new(texts).with_id(format!("turn {i}")).with_times(times);
    append.set_slot("done", i.to_string(), Expected::Any)
}

/// Not a test of its own: what the process does that the next test kills. It begins with the append
/// that it is told, since nobody knows whether that one was done, and does each of them twice.
#[test]
fn repeater() {
    let Ok(path) = std::env::var(REPEAT_TO) else { return };
    let (path, first) = path.rsplit_once(' ').unwrap();
    // A machine may die too, but that is not tried here: it saves the disk.
    let store = SqliteStore::options().durability(Durability::Process).open(path).unwrap();
    let memory = store.memory("repeated").unwrap();
    for i in first.parse::<u64>().unwrap()..repetitions() {
        let once = memory.append_with(&mut repeated(i)).unwrap();
        let again = memory.append_with(&mut repeated(i)).unwrap();
        assert_eq!((&again.positions, again.version), (&once.positions, once.version));
        assert!(again.repeated);
        println!("acknowledged {i} {} {}", once.positions.start, once.version.unwrap());
    }
}

/// Processes that are killed at any moment, and the next one that begins with what the last one did
/// not hear of: each append is there once, in order, with its slot and its times, and those who
/// heard of it heard the same.
#[test]
fn appends_that_are_repeated_after_kills_are_stored_once() {
    use std::io::{BufRead, BufReader};
    let folder = Folder::new();
    let path = folder.file("chat.db");
    let (mut next, mut kills, mut repeats) = (0, 0u64, 0);
    let mut told: HashMap<u64, String> = HashMap::new();
    while next < repetitions() {
        let mut process = again::again("sqlite_appends::repeater")
            .env(REPEAT_TO, format!("{} {next}", path.to_str().unwrap()))
            .spawn()
            .unwrap();
        let output = process.stdout.take().unwrap();
        let reader = thread::spawn(move || {
            let lines = BufReader::new(output).lines().map_while(Result::ok);
            let told = lines.filter_map(|line| {
                let (i, what) = line.split_once("acknowledged ")?.1.split_once(' ')?;
                Some((i.parse::<u64>().ok()?, what.to_owned()))
            });
            told.collect::<Vec<_>>()
        });
        // At any moment, later and later, and to the end in the last: whatever it costs to start.
        thread::sleep(Duration::from_micros(5_000 + kills * 7919 % 60_000 + kills * 100));
        process.kill().unwrap();
        let finished = process.wait().unwrap().success();
        kills += u64::from(!finished);
        for (i, what) in reader.join().unwrap() {
            // The last line may be cut.
            next = next.max(i);
            match told.insert(i, what.clone()) {
                Some(before) if before.starts_with(&what) || what.starts_with(&before) => {
                    repeats += 1;
                }
                Some(before) => panic!("{i} was {before} and is {what}"),
                None => {}
            }
        }
        if finished {
            next = repetitions();
        }
    }
    println!(
        "{} appends, {kills} kills, {repeats} were repeated by the next process",
        repetitions()
    );
    assert!(kills > 0, "nobody was killed");
    let memory = SqliteStore::open(&path).unwrap().memory("repeated").unwrap();
    let all = memory.all().unwrap();
    let mut records = all.iter();
    for i in 0..repetitions() {
        for message in repeated(i).messages {
            let record = records.next().unwrap();
            assert_eq!(
                (record.message(), record.appended_at()),
                (&message, UNIX_EPOCH + Duration::from_secs(i))
            );
        }
    }
    assert!(records.next().is_none(), "each is stored once");
    assert_eq!(
        memory.slot("done").unwrap().unwrap().text(),
        Some((repetitions() - 1).to_string().as_str())
    );
    let connection = Connection::open(&path).unwrap();
    let one = |sql| connection.query_row(sql, [], |row| row.get::<_, String>(0)).unwrap();
    assert_eq!(one("PRAGMA integrity_check"), "ok");
    assert_eq!(one("SELECT count(*) || ' ' || count(DISTINCT id) FROM appended"), "64 64");
}

/// Errors at any step, in the commit too, and the same append again until it succeeds: whatever was
/// told, each is stored once.
#[test]
fn appends_that_are_repeated_after_errors_are_stored_once() {
    let folder = Folder::new();
    let left = Arc::new(AtomicU64::new(u64::MAX));
    let countdown = Arc::clone(&left);
    let store = SqliteStore::options()
        .durability(Durability::Process)
        .on_connect(move |connection| {
            let left = Arc::clone(&countdown);
            let step = move || step(&left);
            // It also fails once more after a commit that is done: nobody then knows that it is.
            connection.progress_handler(1, Some(step.clone()))?;
            connection.commit_hook(Some(step))
        })
        .open(folder.file("chat.db"))
        .unwrap();
    let memory = store.memory("repeated").unwrap();
    let (mut failures, mut unheard) = (0, 0);
    let mut took = [100; 3];
    for i in 0..repetitions() {
        let mut append = repeated(i);
        // Anywhere, or around the end: after the commit SQLite asks once more.
        let took = &mut took[usize::try_from(i % 3).unwrap()];
        let mut steps = if i % 2 == 0 { i * 7 % 400 } else { *took + i % 7 - 3 };
        let appended = loop {
            left.store(steps, Ordering::Relaxed);
            let outcome = memory.append_with(&mut append);
            let unused = left.swap(u64::MAX, Ordering::Relaxed);
            if let Ok(appended) = outcome {
                if !appended.repeated {
                    *took = steps - unused;
                }
                break appended;
            }
            failures += 1;
            steps = steps * 2 + 50;
            assert_eq!(append.messages, repeated(i).messages);
        };
        unheard += u64::from(appended.repeated);
    }
    let n = repetitions();
    println!("{n} appends, {failures} failures, after {unheard} of which it was done");
    assert!(failures > n / 4 && unheard > 0, "{failures} failures, {unheard} unheard of");
    let all = memory.all().unwrap();
    let expected = (0..repetitions()).flat_map(|i| repeated(i).messages);
    assert!(all.messages().cloned().eq(expected), "each is stored once");
}

// ---- what it costs ------------------------------------------------------------------------------

/// Sixty-four ids a conversation are kept, however many there were, and none of another one.
#[test]
fn old_ids_are_forgotten_with_the_write_that_makes_them_old() {
    let folder = Folder::new();
    let path = folder.file("chat.db");
    let store = SqliteStore::options().durability(Durability::Process).open(&path).unwrap();
    let [one, two] = ["one", "two"].map(|id| store.memory(id).unwrap());
    let connection = Connection::open(&path).unwrap();
    let rows = || {
        let sql = "SELECT count(*) FROM appended";
        connection.query_row(sql, [], |row| row.get::<_, u32>(0).map(u64::from)).unwrap()
    };
    for i in 0..200u64 {
        one.append_with(&mut Append::new([Message::user("hi")]).with_id(i.to_string())).unwrap();
        two.append_with(&mut Append::new([Message::user("hi")]).with_id(i.to_string())).unwrap();
        assert_eq!(rows(), 2 * (i + 1).min(64));
        let known = i.saturating_sub(63);
        let again = one.append_with(&mut Append::default().with_id(known.to_string())).unwrap();
        assert_eq!((again.repeated, again.positions), (true, known..known + 1));
    }
    store.delete(one.id()).unwrap();
    assert_eq!(rows(), 64);
    assert_eq!(store.purge_inactive(SystemTime::now() + Duration::from_secs(1)).unwrap(), 1);
    assert_eq!(rows(), 0);
    // The last number that there is: an error, and nothing is written.
    two.append_with(&mut Append::new([Message::user("hi")]).with_id("last")).unwrap();
    connection.execute("UPDATE appended SET key = key | 0xffffffff", []).unwrap();
    let mut more = Append::new([Message::user("hi")]).with_id("one more");
    let error = two.append_with(&mut more).unwrap_err();
    let expected = "append: sqlite: a conversation takes 2^32 ids of appends at most";
    assert_eq!((error.to_string().as_str(), more.messages.len()), (expected, 1));
    assert_eq!(two.next_position().unwrap(), 1);
    assert!(two.append_with(&mut Append::default().with_id("last")).unwrap().repeated);
}

/// In steps of SQLite's virtual machine, since time depends on what else the machine does: plain
/// appends and reads take the same steps in a conversation that has slots and ids, and in one of a
/// thousand slots as in one of none. Those that use it take some more.
#[test]
fn slots_and_ids_cost_only_those_who_use_them() {
    let folder = Folder::new();
    let count = Arc::new(AtomicU64::new(0));
    let counted = Arc::clone(&count);
    let store = SqliteStore::options().durability(Durability::Process);
    let store = store.on_connect(move |connection| {
        let count = Arc::clone(&counted);
        let step = move || {
            count.fetch_add(1, Ordering::Relaxed);
            false
        };
        connection.progress_handler(1, Some(step))
    });
    let store = (store.open(folder.file("chat.db")).unwrap(), count);
    let turn = || [Message::user("hi"), Message::ai("hello")];
    let slots = |id: &str, n: u64| {
        let memory = store.0.memory(id).unwrap();
        memory.add_all(turn()).unwrap();
        for i in 0..n {
            let append = Append::new(turn()).with_id(i.to_string());
            let slot = vec![b'x'; 5000];
            memory.append_with(&mut append.set_slot(i.to_string(), slot, Expected::Any)).unwrap();
        }
    };
    slots("none", 0);
    slots("many", 200);
    let cost = |id: &str, round: u32| {
        let memory = store.0.memory(id).unwrap();
        let steps = |work: &dyn Fn()| {
            let before = store.1.load(Ordering::Relaxed);
            work();
            store.1.load(Ordering::Relaxed) - before
        };
        let with = |append: Append| {
            steps(&|| assert!(!memory.append_with(&mut append.clone()).unwrap().repeated))
        };
        let append = steps(&|| assert_eq!(memory.add_all(turn()).unwrap().count(), 2));
        let read = steps(&|| assert_eq!(memory.latest(2).unwrap().len(), 2));
        let id = with(Append::new(turn()).with_id(format!("new {round}")));
        let slot = with(Append::new(turn()).set_slot(format!("new {round}"), "x", Expected::Any));
        (append, read, id, slot)
    };
    cost("none", 0); // prepares the statements
    let (none, many) = (cost("none", 1), cost("many", 1));
    println!("[append, read, with an id, with a slot] {none:?}, among 200 slots {many:?}");
    assert_eq!((none.0, none.1), (many.0, many.1), "plain appends and reads");
    assert!(none.2 < 3 * none.0 && none.3 < 3 * none.0, "{none:?}");
    // A slot is found by its name, and an id among 64.
    assert!(many.3 == none.3 && many.2 < none.2 + 64 * 8, "{none:?} {many:?}");
}
