//! The last 10 of many cost what the last 10 of few cost, in every store; one conversation of many
//! is found at once; and what goes through all of them takes as long as there are.

use std::time::{Instant, SystemTime};

use memory_prompt::memory::MemoryId;
use memory_prompt::{
    ChatMemory, ChatMemoryExt, ChatMemoryStore, DefaultChatMemory, InMemoryStore, Message,
};

use crate::backends::BACKENDS;
use crate::folder::Folder;
use crate::harness::{Claims, Pace, grouped};
use crate::messages::fill;

pub(crate) fn reads_are_flat(claims: &mut Claims) {
    let stored = grouped(claims.large());
    for backend in BACKENDS {
        let claim = format!("{backend}: last 10 of {stored} stored / of 100 stored");
        let folder = Folder::new();
        match (backend.open)(&folder) {
            Ok(store) => {
                let ratio = last_10(claims, backend.name, &store);
                claims.at_most(&claim, ratio, 1.5);
            }
            Err(why) => claims.leave_out(&claim, &why),
        }
    }
}

fn last_10(claims: &Claims, name: &str, store: &dyn ChatMemoryStore) -> f64 {
    let [large, small] = [claims.large(), 100].map(|n| {
        // A server outlives this program, so the ids are its own, and what they hold is removed.
        let id = format!("bench:{}:{n}", std::process::id());
        let memory = store.memory(id.into()).unwrap();
        fill(&memory, n);
        memory
    });
    assert_eq!(large.latest(10).unwrap().len(), 10);
    let found = claims.compare(
        Pace::FINE,
        [&format!("{name}: last 10 of {}", grouped(claims.large())), "of 100"],
        || large.latest(10).unwrap(),
        || small.latest(10).unwrap(),
    );
    for memory in [large, small] {
        assert!(store.delete(memory.id()).unwrap());
    }
    found.ratio
}

/// Asks conversations for nothing, one after another, in an order that is neither that of their ids
/// nor that in which they began, so that nothing of the one before helps; and one that somebody
/// holds. The difference is what finding them costs.
pub(crate) fn one_of_many_is_found(claims: &mut Claims) {
    let count = if claims.quick { 10_000 } else { 1_000_000 };
    let store = InMemoryStore::new();
    let memory = |i: usize| store.memory(format!("support:u{i:07}:c2002")).unwrap();
    // A step that has no divisor in common with the count comes by each of them.
    let asked: Vec<_> = (0..count).map(|i| memory(i * 387_019 % count)).collect();
    for i in 0..count {
        asked[i * 611_953 % count].add(Message::user("hi")).unwrap();
    }
    let (mut asked, held) = (asked.iter().cycle(), DefaultChatMemory::new());
    let found = claims.compare(
        Pace::FINE,
        [&format!("in memory: asking one of {}", grouped(count as u64)), "one that is held"],
        || asked.next().unwrap().append(&mut Vec::new(), None).unwrap(),
        || held.append(&mut Vec::new(), None).unwrap(),
    );
    let claim = "in memory: finding one of a million conversations, in microseconds";
    claims.at_most(claim, (found.nanos[0] - found.nanos[1]) / 1e3, 3.0);
}

/// Twice as many take little more than twice the time.
pub(crate) fn listing_and_purging_are_linear(claims: &mut Claims) {
    let folder = Folder::new();
    linear(claims, "in memory", &|_| Box::new(InMemoryStore::new()));
    #[cfg(feature = "sqlite")]
    linear(claims, "SQLite", &|i| {
        // What the disk costs is the same for all.
        let options = memory_prompt::SqliteStore::options();
        let options = options.durability(memory_prompt::store::Durability::Process);
        Box::new(options.open(folder.file(format!("{i}.db").as_str())).unwrap())
    });
    drop(folder);
}

fn linear(claims: &mut Claims, name: &str, open: &dyn Fn(usize) -> Box<dyn ChatMemoryStore>) {
    let half = if claims.quick { 2_000 } else { 300_000 };
    // What else the machine does falls on one of them; the best of three is what it takes, and they
    // take turns, since an hour of the machine is not like the next one.
    let runs =
        [0, 2, 4].map(|i| [(i, half), (i + 1, 2 * half)].map(|(i, n)| list_and_purge(&open(i), n)));
    let best = |of: usize| {
        [0, 1].map(|what| runs.iter().map(|run| run[of][what]).fold(f64::MAX, f64::min))
    };
    let (of_half, of_all) = (best(0), best(1));
    for (i, what) in ["listing", "purging a fifth of"].into_iter().enumerate() {
        let count = grouped(2 * half);
        println!("      {name}: {what} {count}: {:.2} s, half: {:.2} s", of_all[i], of_half[i]);
        let claim = format!("{name}: {what} {count} conversations / half as many");
        claims.at_most(&claim, of_all[i] / of_half[i], 2.3);
    }
}

/// Seconds for listing so many, and for purging a fifth of them.
fn list_and_purge(store: &dyn ChatMemoryStore, n: u64) -> [f64; 2] {
    let id = |i: u64| MemoryId::from(format!("bench:{}:{i}", std::process::id()));
    // Restored, since that takes one request each; a fifth was active in the past alone.
    let past = SystemTime::now();
    let restore = |range: &mut dyn Iterator<Item = u64>| {
        range.for_each(|i| store.restore(&id(i), 0, None).unwrap());
    };
    restore(&mut (0..n).filter(|i| i % 5 == 0));
    std::thread::sleep(std::time::Duration::from_millis(50));
    let since = SystemTime::now();
    std::thread::sleep(std::time::Duration::from_millis(50));
    restore(&mut (0..n).filter(|i| i % 5 > 0));
    assert!(since > past);
    let began = Instant::now();
    let (mut listed, mut after) = (0, None);
    loop {
        let page = store.ids(after.as_ref(), 1_000).unwrap();
        listed += page.len() as u64;
        after = page.into_iter().next_back();
        if after.is_none() {
            break;
        }
    }
    let list = began.elapsed().as_secs_f64();
    assert!(listed >= n);
    let began = Instant::now();
    assert_eq!(store.purge_inactive(since).unwrap(), n / 5);
    let purge = began.elapsed().as_secs_f64();
    [list, purge]
}
