//! Hours of use in minutes: writers whose futures are dropped, servers that die and freeze, purges
//! in between.
//!
//! `MEMORY_PROMPT_SOAK` says how many minutes each backend gets; without it there is no soak.

use std::ops::Range;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, AtomicU64, Ordering};
use std::time::{Duration, Instant, SystemTime};

use memory_prompt::memory::{Append, Appended, MemoryId};
use memory_prompt::{AsyncChatMemory, AsyncChatMemoryStore, ErrorKind, Message, Result};

use crate::laws::{Told, goes_on, numbers};
use crate::process::Server;
use crate::tasks::{begin, end};

const WRITERS: u64 = 8;
const BATCH: u64 = 3;

/// How long a soak takes, where one is wanted.
pub(crate) fn time() -> Option<Duration> {
    let minutes = std::env::var("MEMORY_PROMPT_SOAK").ok()?;
    Some(Duration::from_secs_f64(60.0 * minutes.parse::<f64>().unwrap()))
}

/// Everything that happened, for people.
#[derive(Default)]
struct Counts {
    acknowledged: AtomicU64,
    repeated: AtomicU64,
    refused: AtomicU64,
    unknown: AtomicU64,
    dropped: AtomicU64,
    purged: AtomicU64,
}

/// Appends numbered batches, and drops some of the futures at any moment. What comes later has a
/// larger number, so that whatever is done late over it stands in the wrong place. Every third
/// batch has an id: if nobody knows what became of it, it is appended again until that is known,
/// and now and then though it is.
async fn write(
    memory: Arc<dyn AsyncChatMemory>,
    stop: Arc<AtomicBool>,
    counts: Arc<Counts>,
) -> Told {
    let mut told = Told::default();
    for number in 0.. {
        if stop.load(Ordering::Relaxed) {
            break;
        }
        let time = (number % 5 == 4).then(|| Duration::from_micros(number * 7919 % 6_000));
        let has_id = number % 3 == 0;
        let mut unknown = false;
        loop {
            let append = append(&*memory, number, has_id);
            let answer = match time.filter(|_| !unknown) {
                Some(time) => tokio::time::timeout(time, append).await.ok(),
                None => Some(append.await),
            };
            match answer {
                Some(Ok(appended)) => {
                    counts.acknowledged.fetch_add(1, Ordering::Relaxed);
                    counts.repeated.fetch_add(u64::from(appended.repeated), Ordering::Relaxed);
                    if has_id && number % 7 == 0 {
                        repeat(&*memory, number, &appended.positions, &counts).await;
                    }
                    told.done.push((number, appended.positions));
                    break;
                }
                None => {
                    counts.dropped.fetch_add(1, Ordering::Relaxed);
                    unknown = true;
                }
                Some(Err(error)) if error.kind() == ErrorKind::Unacknowledged => {
                    counts.unknown.fetch_add(1, Ordering::Relaxed);
                    unknown = true;
                }
                Some(Err(error)) => {
                    assert_eq!(error.kind(), ErrorKind::Storage, "{error}");
                    counts.refused.fetch_add(1, Ordering::Relaxed);
                    tokio::time::sleep(Duration::from_millis(20)).await;
                    if !unknown {
                        told.undone.push(number);
                        break;
                    }
                }
            }
            if !has_id || stop.load(Ordering::Relaxed) {
                told.unknown.push(number);
                break;
            }
        }
    }
    told
}

async fn append(memory: &dyn AsyncChatMemory, number: u64, has_id: bool) -> Result<Appended> {
    let mut append = Append::new((0..BATCH).map(|k| Message::user(format!("{number} {k}"))));
    if has_id {
        append = append.with_id(format!("batch {number}"));
    }
    memory.append_with(&mut append).await
}

/// Appends once more what was acknowledged: nothing happens, and the answer is as before.
async fn repeat(memory: &dyn AsyncChatMemory, number: u64, at: &Range<u64>, counts: &Counts) {
    let Ok(again) = append(memory, number, true).await else { return };
    assert!(again.repeated, "{number} was appended twice");
    assert_eq!(again.positions, *at);
    counts.repeated.fetch_add(1, Ordering::Relaxed);
}

/// Begins conversations that were last active in the past, and purges them.
async fn purge(store: Arc<dyn AsyncChatMemoryStore>, stop: Arc<AtomicBool>, counts: Arc<Counts>) {
    let past = SystemTime::now() - Duration::from_secs(30 * 24 * 3600);
    for round in 0_u64.. {
        if stop.load(Ordering::Relaxed) {
            break;
        }
        for i in 0..10 {
            let id = MemoryId::from(format!("old:{round}:{i}"));
            let mut append = Append::new([Message::user("old")]).with_times([past]);
            append.active = Some(past);
            // Where that fails there is one the less to purge.
            let _ = store.memory(id).unwrap().append_with(&mut append).await;
        }
        let purged = store.purge_inactive(past + Duration::from_secs(3600)).await;
        counts.purged.fetch_add(purged.unwrap_or_default(), Ordering::Relaxed);
        tokio::time::sleep(Duration::from_millis(500)).await;
    }
}

/// The troubles that came, and how long it took at most until it went on.
#[derive(Default)]
struct Troubles {
    kills: u64,
    freezes: u64,
    slowest: Duration,
}

/// A trouble that came to a server, or to all.
#[derive(PartialEq)]
pub(crate) enum Trouble {
    Kill,
    Freeze,
}

/// Kills one of these servers, or freezes one or all of them.
pub(crate) async fn kill_or_freeze(servers: &[&Server], round: u64) -> Trouble {
    let one = servers[usize::try_from(round).unwrap() % servers.len()];
    if round.is_multiple_of(3) {
        one.die_and_return();
        return Trouble::Kill;
    }
    let frozen = if round % 4 == 1 { servers } else { &[one] };
    for server in frozen {
        server.freeze();
    }
    tokio::time::sleep(Duration::from_millis(200 + round * 104_729 % 4_000)).await;
    for server in frozen {
        server.thaw();
    }
    Trouble::Freeze
}

/// Lets writers write for so long, while trouble comes every now and then. `connections` says how
/// many the store has there; returns the most there were.
pub(crate) async fn soak(
    store: Arc<dyn AsyncChatMemoryStore>,
    mut trouble: impl AsyncFnMut(u64) -> Trouble,
    time: Duration,
    connections: impl AsyncFn() -> Option<u64>,
) -> u64 {
    let memory = |writer: u64| store.memory(MemoryId::from(format!("soak:{writer}"))).unwrap();
    let (stop, counts) = (Arc::new(AtomicBool::new(false)), Arc::new(Counts::default()));
    let writers = begin(WRITERS, |i| write(memory(i), Arc::clone(&stop), Arc::clone(&counts)));
    let purger = tokio::spawn(purge(Arc::clone(&store), Arc::clone(&stop), Arc::clone(&counts)));
    let (began, mut troubles, mut most) = (Instant::now(), Troubles::default(), 0);
    for round in 0_u64.. {
        tokio::time::sleep(Duration::from_millis(1_500 + round * 7919 % 3_000)).await;
        most = most.max(connections().await.unwrap_or_default());
        if began.elapsed() > time {
            break;
        }
        match trouble(round).await {
            Trouble::Kill => troubles.kills += 1,
            Trouble::Freeze => troubles.freezes += 1,
        }
        most = most.max(connections().await.unwrap_or_default());
        // Otherwise trouble would come upon trouble, and nobody would write anything in between.
        let slow = goes_on(&counts.acknowledged, 10 * WRITERS).await;
        troubles.slowest = troubles.slowest.max(slow);
    }
    stop.store(true, Ordering::Relaxed);
    let all = end(writers).await;
    purger.await.unwrap();
    for (writer, told) in (0..).zip(&all) {
        told.check(&numbers(&*memory(writer)).await);
    }
    let count = |count: &AtomicU64| count.load(Ordering::Relaxed);
    let Troubles { kills, freezes, slowest } = troubles;
    println!(
        "{:?}: {} batches acknowledged, {} repeated, {} refused, {} unknown, {} dropped, {} purged, over {kills} kills \
         and {freezes} freezes, {slowest:?} after which at the latest it went on; {most} connections at most",
        began.elapsed(),
        count(&counts.acknowledged),
        count(&counts.repeated),
        count(&counts.refused),
        count(&counts.unknown),
        count(&counts.dropped),
        count(&counts.purged),
    );
    assert!(count(&counts.purged) > 0 && count(&counts.dropped) > 0 && kills > 0);
    assert!(count(&counts.repeated) > 0);
    most
}
