//! Hours of use in minutes: writers whose futures are dropped, servers that die and freeze, purges in between.
//!
//! `MEMORY_PROMPT_SOAK` says how many minutes each backend gets; without it there is no soak.

use std::sync::Arc;
use std::sync::atomic::{AtomicBool, AtomicU64, Ordering};
use std::time::{Duration, Instant, SystemTime};

use memory_prompt::memory::{Append, MemoryId};
use memory_prompt::{
    AsyncChatMemory, AsyncChatMemoryExt, AsyncChatMemoryStore, ErrorKind, Message,
};

use crate::laws::{Told, numbers};
use crate::process::Server;

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
    refused: AtomicU64,
    unknown: AtomicU64,
    dropped: AtomicU64,
    purged: AtomicU64,
}

/// Appends numbered batches, and drops some of the futures at any moment. What comes later has a larger number, so
/// that whatever is done late over it stands in the wrong place.
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
        let batch = (0..BATCH).map(|k| Message::user(format!("{number} {k}")));
        let append = memory.add_all(batch);
        if number % 5 == 4 {
            let micros = number * 7919 % 6_000;
            if tokio::time::timeout(Duration::from_micros(micros), append).await.is_err() {
                counts.dropped.fetch_add(1, Ordering::Relaxed);
            }
            told.unknown(number);
            continue;
        }
        match append.await {
            Ok(_) => {
                counts.acknowledged.fetch_add(1, Ordering::Relaxed);
                told.done(number);
            }
            Err(error) if error.kind() == ErrorKind::Unacknowledged => {
                counts.unknown.fetch_add(1, Ordering::Relaxed);
                told.unknown(number);
            }
            Err(error) => {
                assert_eq!(error.kind(), ErrorKind::Storage, "{error}");
                counts.refused.fetch_add(1, Ordering::Relaxed);
                told.undone(number);
                tokio::time::sleep(Duration::from_millis(20)).await;
            }
        }
    }
    told
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

/// Kills one of these servers, or freezes one or all of them.
async fn trouble(servers: &[&Server], round: u64, troubles: &mut Troubles) {
    let one = servers[usize::try_from(round).unwrap() % servers.len()];
    if round.is_multiple_of(3) {
        troubles.kills += 1;
        tokio::task::block_in_place(|| {
            one.kill();
            one.restart();
        });
        return;
    }
    troubles.freezes += 1;
    let frozen = if round % 4 == 1 { servers } else { &[one] };
    for server in frozen {
        server.freeze();
    }
    tokio::time::sleep(Duration::from_millis(200 + round * 104_729 % 4_000)).await;
    for server in frozen {
        server.thaw();
    }
}

/// Waits until each writer could have gone on; otherwise trouble would come upon trouble, and nobody would write
/// anything in between.
async fn goes_on(counts: &Counts) -> Duration {
    let acknowledged = || counts.acknowledged.load(Ordering::Relaxed);
    let (began, past) = (Instant::now(), acknowledged() + 10 * WRITERS);
    while acknowledged() < past {
        assert!(began.elapsed() < Duration::from_secs(120), "it does not go on");
        tokio::time::sleep(Duration::from_millis(10)).await;
    }
    began.elapsed()
}

/// Lets writers write for so long, while trouble comes to these servers every now and then. `connections` says
/// how many the store has there; returns the most there were.
pub(crate) async fn soak(
    store: Arc<dyn AsyncChatMemoryStore>,
    servers: &[&Server],
    time: Duration,
    connections: impl AsyncFn() -> Option<u64>,
) -> u64 {
    let memory = |writer: u64| store.memory(MemoryId::from(format!("soak:{writer}"))).unwrap();
    let (stop, counts) = (Arc::new(AtomicBool::new(false)), Arc::new(Counts::default()));
    let writers: Vec<_> = (0..WRITERS)
        .map(|i| tokio::spawn(write(memory(i), Arc::clone(&stop), Arc::clone(&counts))))
        .collect();
    let purger = tokio::spawn(purge(Arc::clone(&store), Arc::clone(&stop), Arc::clone(&counts)));
    let (began, mut troubles, mut most) = (Instant::now(), Troubles::default(), 0);
    for round in 0_u64.. {
        tokio::time::sleep(Duration::from_millis(1_500 + round * 7919 % 3_000)).await;
        most = most.max(connections().await.unwrap_or_default());
        if began.elapsed() > time {
            break;
        }
        trouble(servers, round, &mut troubles).await;
        most = most.max(connections().await.unwrap_or_default());
        troubles.slowest = troubles.slowest.max(goes_on(&counts).await);
    }
    stop.store(true, Ordering::Relaxed);
    let mut all = Vec::new();
    for writer in writers {
        all.push(writer.await.unwrap());
    }
    purger.await.unwrap();
    for (writer, told) in (0..).zip(&all) {
        told.check(&numbers(&*memory(writer)).await);
    }
    let count = |count: &AtomicU64| count.load(Ordering::Relaxed);
    let Troubles { kills, freezes, slowest } = troubles;
    println!(
        "{:?}: {} batches acknowledged, {} refused, {} unknown, {} dropped, {} purged, over {kills} kills \
         and {freezes} freezes, {slowest:?} after which at the latest it went on; {most} connections at most",
        began.elapsed(),
        count(&counts.acknowledged),
        count(&counts.refused),
        count(&counts.unknown),
        count(&counts.dropped),
        count(&counts.purged),
    );
    assert!(count(&counts.purged) > 0 && count(&counts.dropped) > 0 && kills > 0);
    most
}
