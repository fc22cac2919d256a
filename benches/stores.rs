//! What the README claims about stores, measured: ratios inside one run, one line a claim.
//!
//! `cargo bench --bench stores --features sqlite` measures; with `-- --quick` it only shows that it
//! runs.

#![allow(clippy::unwrap_used, missing_docs)] // a bench that panics has failed
#![allow(clippy::cast_precision_loss)] // nanoseconds are far below 2^53

use std::cell::Cell;
use std::hint::black_box;
use std::path::{Path, PathBuf};
use std::time::{Duration, Instant};

use memory_prompt::{
    ChatMemory, ChatMemoryExt, ChatMemoryStore, Codec, Durability, InMemoryStore, Message,
    SqliteStore, codec,
};
use rusqlite::{Connection, TransactionBehavior, params};

struct Effort {
    runs: usize,
    time: Duration,
    large: u64,
}

fn main() {
    let quick = std::env::args().any(|arg| arg == "--quick" || arg == "--test");
    let effort = if quick {
        Effort { runs: 3, time: Duration::from_millis(5), large: 10_000 }
    } else {
        Effort { runs: 11, time: Duration::from_millis(200), large: 1_000_000 }
    };
    let folder = std::env::temp_dir().join(format!("memory-prompt-bench-{}", std::process::id()));
    std::fs::create_dir_all(&folder).unwrap();
    last_10_of_many("in memory", &InMemoryStore::new(), &effort);
    let fast = SqliteStore::options().durability(Durability::Process);
    last_10_of_many("SQLite", &fast.open(folder.join("many.db")).unwrap(), &effort);
    reading_costs_little(&folder, &effort);
    for (name, durability, synchronous) in [
        ("durable", Durability::Full, "FULL"),
        ("safe from crashes of the process", Durability::Process, "NORMAL"),
    ] {
        let files =
            [folder.join(format!("{name} ours.db")), folder.join(format!("{name} hand.db"))];
        appending_costs_little(name, durability, synchronous, &files, &effort);
    }
    std::fs::remove_dir_all(&folder).unwrap();
}

fn message(i: u64) -> Message {
    let text = format!("message {i:0>292}");
    if i.is_multiple_of(2) { Message::user(text) } else { Message::ai(text) }
}

fn last_10_of_many(name: &str, store: &dyn ChatMemoryStore, effort: &Effort) {
    let filled = |id: &str, n: u64| {
        let memory = store.memory(id.into()).unwrap();
        for first in (0..n).step_by(5000) {
            memory.add_all((first..n.min(first + 5000)).map(message)).unwrap();
        }
        memory
    };
    let (small, large) = (filled("small", 100), filled("large", effort.large));
    let read =
        |memory: &dyn ChatMemory| assert_eq!(black_box(memory.latest(10).unwrap()).len(), 10);
    let [small, large] = measure(effort, [&|| read(&*small), &|| read(&*large)]);
    let claim = format!("{name}: last 10 of {} stored / of 100", effort.large);
    at_most(&claim, large / small, 1.5);
    println!("      ({:.2} µs)", large / 1000.0);
}

/// The same rows as somebody would write them who needs no more than this.
fn by_hand(path: &Path, synchronous: &str) -> Connection {
    let connection = Connection::open(path).unwrap();
    connection.query_row("PRAGMA journal_mode = WAL", [], |_| Ok(())).unwrap();
    connection.pragma_update(None, "synchronous", synchronous).unwrap();
    let table = "CREATE TABLE message (conversation TEXT, seq INTEGER, at INTEGER, payload TEXT,
                 PRIMARY KEY (conversation, seq)) WITHOUT ROWID";
    connection.execute_batch(table).unwrap();
    connection
}

const INSERT: &str = "INSERT INTO message VALUES (?1, ?2, ?3, ?4)";

fn appending_costs_little(
    name: &str,
    durability: Durability,
    synchronous: &str,
    files: &[PathBuf; 2],
    effort: &Effort,
) {
    let ours = SqliteStore::options().durability(durability).open(&files[0]).unwrap();
    let ours = ours.memory("support:u1001:c2002").unwrap();
    let hand = by_hand(&files[1], synchronous);
    let seq = Cell::new(0);
    let turn = || {
        let first = seq.replace(seq.get() + 2);
        [message(first), message(first + 1)]
    };
    let append = || assert_eq!(ours.append(&mut turn().to_vec(), None).unwrap().count(), 2);
    let insert = || {
        let transaction =
            rusqlite::Transaction::new_unchecked(&hand, TransactionBehavior::Immediate).unwrap();
        let first = i64::try_from(seq.get()).unwrap();
        for (seq, message) in (first..).zip(turn()) {
            let payload = String::from_utf8(Codec::Json.encode(&message).unwrap()).unwrap();
            let row = params!["support:u1001:c2002", seq, 1_700_000_000_000_i64, payload];
            transaction.prepare_cached(INSERT).unwrap().execute(row).unwrap();
        }
        transaction.commit().unwrap();
    };
    let [ours, hand] = measure(effort, [&append, &insert]);
    at_most(&format!("SQLite, {name}: append of a turn / by hand"), ours / hand, 2.0);
    println!("      ({:.1} µs and {:.1} µs)", ours / 1000.0, hand / 1000.0);
}

fn reading_costs_little(folder: &Path, effort: &Effort) {
    let fast = SqliteStore::options().durability(Durability::Process);
    let ours = fast.open(folder.join("read ours.db")).unwrap();
    let ours = ours.memory("support:u1001:c2002").unwrap();
    ours.add_all((0..1000).map(message)).unwrap();
    let hand = by_hand(&folder.join("read hand.db"), "NORMAL");
    hand.execute_batch("BEGIN").unwrap();
    for i in 0..1000 {
        let payload = String::from_utf8(Codec::Json.encode(&message(i)).unwrap()).unwrap();
        let row = params!["support:u1001:c2002", i64::try_from(i).unwrap(), 1, payload];
        hand.prepare_cached(INSERT).unwrap().execute(row).unwrap();
    }
    hand.execute_batch("COMMIT").unwrap();
    let read = || assert_eq!(black_box(ours.latest(10).unwrap()).len(), 10);
    let select = || {
        let query =
            "SELECT payload FROM message WHERE conversation = ?1 ORDER BY seq DESC LIMIT 10";
        let mut query = hand.prepare_cached(query).unwrap();
        let mut rows = query.query(["support:u1001:c2002"]).unwrap();
        let mut messages = Vec::new();
        while let Some(row) = rows.next().unwrap() {
            messages.push(codec::decode(row.get_ref(0).unwrap().as_bytes().unwrap()).unwrap());
        }
        messages.reverse();
        assert_eq!(black_box(messages).len(), 10);
    };
    let [ours, hand] = measure(effort, [&read, &select]);
    at_most("SQLite: last 10 / bare SELECT and JSON decode", ours / hand, 2.0);
    println!("      ({:.1} µs and {:.1} µs)", ours / 1000.0, hand / 1000.0);
}

/// Nanoseconds a call of each, taken in turn: medians over the runs.
fn measure<const N: usize>(effort: &Effort, work: [&dyn Fn(); N]) -> [f64; N] {
    let mut times: [Vec<f64>; N] = std::array::from_fn(|_| Vec::new());
    for _ in 0..effort.runs {
        for (times, work) in times.iter_mut().zip(work) {
            let start = Instant::now();
            let mut calls = 0;
            while calls == 0 || start.elapsed() < effort.time {
                (0..10).for_each(|_| work());
                calls += 10;
            }
            times.push(start.elapsed().as_nanos() as f64 / f64::from(calls));
        }
    }
    times.map(|mut times| {
        times.sort_by(f64::total_cmp);
        times[times.len() / 2]
    })
}

fn at_most(name: &str, measured: f64, goal: f64) {
    let verdict = if measured <= goal { "ok" } else { "SHORT" };
    println!("claim {name}: measured {measured:.2} goal at most {goal} {verdict}");
}
