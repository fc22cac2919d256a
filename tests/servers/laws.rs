//! What holds on every network backend, beyond the contract: nothing is lost with a server, and the
//! newest messages cost what they cost, however many there are.

use std::ops::Range;
use std::sync::atomic::{AtomicBool, AtomicU64, Ordering};
use std::sync::{Arc, Mutex};
use std::time::{Duration, Instant};

use memory_prompt::conformance::{Countdown, FaultFixture, Fixture};
use memory_prompt::memory::MemoryId;
use memory_prompt::{
    AsyncChatMemory, AsyncChatMemoryExt, AsyncChatMemoryStore, ChatMemory, Error, ErrorKind,
    Message,
};

use crate::process::Server;
use crate::tasks::{begin, end};

/// A backend whose memories fail when a countdown reaches zero.
pub(crate) struct Failing<F> {
    inner: F,
    memories: Mutex<Vec<FailingMemory>>,
}

type FailingMemory = Arc<Countdown<Arc<dyn ChatMemory>>>;

impl<F: Fixture> Fixture for Failing<F> {
    const BACKEND: &'static str = F::BACKEND;
    fn new() -> Self {
        Self { inner: F::new(), memories: Mutex::default() }
    }
    fn memory(&self, id: &str) -> Arc<dyn ChatMemory> {
        let memory = Arc::new(Countdown::new(self.inner.memory(id)));
        self.memories.lock().unwrap().push(Arc::clone(&memory));
        memory
    }
}

impl<F: Fixture> FaultFixture for Failing<F> {
    fn fail_after(&self, steps: Option<u64>) {
        for memory in &*self.memories.lock().unwrap() {
            // A step is an operation, and the law counts again for each.
            memory.fail_after(steps.map(|steps| steps % 2));
        }
    }
}

/// The store could not do it, and says so.
#[track_caller]
pub(crate) fn failed(error: &Error, text: &str) {
    assert_eq!((error.kind(), error.to_string().as_str()), (ErrorKind::Storage, text));
}

const BATCH: usize = 3;

/// The numbers of the batches that one writer appended, by what it was told.
#[derive(Default)]
pub(crate) struct Told {
    /// Those that were acknowledged, with their positions.
    pub(crate) done: Vec<(u64, Range<u64>)>,
    pub(crate) undone: Vec<u64>,
    pub(crate) unknown: Vec<u64>,
    /// The longest that one of them took.
    pub(crate) longest: Duration,
}

impl Told {
    /// Everything that was acknowledged is there once, in its order and where it was said to be,
    /// and nothing that was refused. (`there` are the numbers of all batches, as they stand.)
    pub(crate) fn check(&self, there: &[u64]) {
        assert!(there.is_sorted_by(|a, b| a < b), "twice, or not in its order: {there:?}");
        for (number, at) in &self.done {
            let place = there.binary_search(number);
            let place = place.unwrap_or_else(|_| panic!("{number} was acknowledged and is lost"));
            let first = (place * BATCH) as u64;
            assert_eq!(*at, first..first + BATCH as u64, "{number} is elsewhere");
        }
        let wrong: Vec<_> = self.undone.iter().filter(|n| there.binary_search(n).is_ok()).collect();
        assert!(wrong.is_empty(), "refused and there: {wrong:?}");
        let strange: Vec<_> = there.iter().filter(|n| !self.knows(**n)).collect();
        assert!(strange.is_empty(), "there, and never appended: {strange:?}");
    }

    fn knows(&self, number: u64) -> bool {
        self.done.binary_search_by_key(&number, |done| done.0).is_ok()
            || self.unknown.binary_search(&number).is_ok()
    }
}

/// Waits until so many more batches are acknowledged; returns how long that took.
pub(crate) async fn goes_on(acknowledged: &AtomicU64, more: u64) -> Duration {
    let (began, past) = (Instant::now(), acknowledged.load(Ordering::SeqCst) + more);
    while acknowledged.load(Ordering::SeqCst) < past {
        assert!(began.elapsed() < Duration::from_secs(300), "it does not go on");
        tokio::time::sleep(Duration::from_millis(10)).await;
    }
    began.elapsed()
}

/// Appends batches until it is told to stop, whatever happens to the server.
pub(crate) async fn write_and_count(
    memory: Arc<dyn AsyncChatMemory>,
    stop: Arc<AtomicBool>,
    acknowledged: Arc<AtomicU64>,
) -> Told {
    let mut told = Told::default();
    for number in 0.. {
        if stop.load(Ordering::Relaxed) {
            break;
        }
        let batch = (0..BATCH).map(|k| Message::user(format!("{number} {k}")));
        let began = Instant::now();
        let answer = memory.add_all(batch).await;
        told.longest = told.longest.max(began.elapsed());
        match answer {
            Ok(positions) => {
                told.done.push((number, positions));
                acknowledged.fetch_add(1, Ordering::Relaxed);
            }
            Err(error) => {
                match error.kind() {
                    ErrorKind::Storage => told.undone.push(number),
                    ErrorKind::Unacknowledged => told.unknown.push(number),
                    _ => panic!("{error}"),
                }
                tokio::time::sleep(Duration::from_millis(20)).await;
            }
        }
    }
    told
}

/// Kills the server and starts it again, so many times, while four writers append. Afterwards
/// everything that was acknowledged is there, nothing is there that was said not to be, each batch
/// is there whole and once or not at all, and the same client goes on.
pub(crate) async fn a_server_that_is_killed_loses_nothing(
    store: Arc<dyn AsyncChatMemoryStore>,
    server: &Server,
    rounds: u64,
) {
    let memory =
        |writer: u64| store.memory(MemoryId::from(format!("killed:writer:{writer}"))).unwrap();
    let stop = Arc::new(AtomicBool::new(false));
    let write = |writer| write_and_count(memory(writer), Arc::clone(&stop), Arc::default());
    let writers = begin(4, write);
    for round in 0..rounds {
        tokio::time::sleep(Duration::from_millis(300 + round * 7919 % 400)).await;
        server.die_and_return();
    }
    // The client needs a moment to see that the server is back.
    let patience = Instant::now() + Duration::from_secs(60);
    while let Err(error) = memory(99).add(Message::user("it goes on")).await {
        assert!(Instant::now() < patience, "the client did not come back: {error}");
        tokio::time::sleep(Duration::from_millis(100)).await;
    }
    tokio::time::sleep(Duration::from_millis(300)).await;
    stop.store(true, Ordering::Relaxed);
    let (mut done, mut undone, mut unknown) = (0, 0, 0);
    for (writer, told) in (0..).zip(end(writers).await) {
        let there = numbers(&*memory(writer)).await;
        told.check(&there);
        done += told.done.len();
        undone += told.undone.len();
        unknown += told.unknown.len();
    }
    assert!(done > 0, "nobody wrote anything");
    println!(
        "killed {rounds} times: {done} batches acknowledged and there, {undone} refused and not, \
         {unknown} unknown"
    );
}

/// The numbers of the batches in this memory, each of which is whole and there once.
pub(crate) async fn numbers(memory: &dyn AsyncChatMemory) -> Vec<u64> {
    let records = memory.all().await.unwrap();
    assert!(records.iter().map(|record| record.position()).eq(0..records.len() as u64));
    let texts: Vec<String> =
        records.messages().map(|message| message.text().into_owned()).collect();
    let mut numbers = Vec::new();
    for batch in texts.chunks(BATCH) {
        let number = batch[0].split(' ').next().unwrap().parse().unwrap();
        let whole = (0..BATCH).map(|k| format!("{number} {k}"));
        assert!(whole.eq(batch.iter().cloned()), "a batch by half: {batch:?}");
        numbers.push(number);
    }
    assert!(numbers.is_sorted_by(|a, b| a < b), "a batch is there twice: {numbers:?}");
    numbers
}

/// Reading the last 10 of a million messages costs what it costs of a hundred.
pub(crate) async fn the_last_ten_of_a_million_cost_what_they_cost_of_a_hundred(
    store: Arc<dyn AsyncChatMemoryStore>,
) {
    let (small, large) =
        (store.memory("scale:small".into()).unwrap(), store.memory("scale:large".into()).unwrap());
    fill(&*small, 100).await;
    let began = Instant::now();
    fill(&*large, 1_000_000).await;
    println!("1,000,000 messages appended in {:?}", began.elapsed());
    // What the server still does with a million new messages passes; what they cost does not.
    for left in (0..3).rev() {
        let ratio = cost_of_ten(&*large, &*small).await;
        if ratio <= 1.5 {
            return;
        }
        assert!(left > 0, "{ratio}");
    }
}

/// What it costs to read ten messages of one, in terms of another one: the medians of reads that
/// take turns.
async fn cost_of_ten(one: &dyn AsyncChatMemory, another: &dyn AsyncChatMemory) -> f64 {
    let (mut of_one, mut of_another) = (Vec::new(), Vec::new());
    for _ in 0..400 {
        for (memory, times) in [(another, &mut of_another), (one, &mut of_one)] {
            let began = Instant::now();
            let read = memory.read(None, 10).await.unwrap();
            times.push(began.elapsed());
            assert_eq!(read.records.len(), 10);
        }
    }
    // The first ones warm up.
    let median = |times: &mut Vec<Duration>| {
        times.drain(..100);
        times.sort_unstable();
        times[times.len() / 2]
    };
    let (of_one, of_another) = (median(&mut of_one), median(&mut of_another));
    let ratio = of_one.as_secs_f64() / of_another.as_secs_f64();
    println!("last 10 of many: {of_one:?}, of few: {of_another:?}, ratio {ratio:.2}");
    ratio
}

async fn fill(memory: &dyn AsyncChatMemory, count: u64) {
    const AT_ONCE: u64 = 1_000;
    let text = "What a person asks, and what a model answers, in about so many words. ".repeat(4);
    for first in (0..count).step_by(1_000) {
        let batch = (first..count.min(first + AT_ONCE))
            .map(|number| Message::user(format!("{number} {text}")));
        memory.add_all(batch).await.unwrap();
    }
    assert_eq!(memory.next_position().await.unwrap(), count);
}

/// Drops many changes half way and makes others afterwards: a dropped append stands before what was
/// appended after it was dropped or nowhere, and a dropped `clear` takes nothing that came later.
pub(crate) async fn what_was_dropped_is_not_done_later(
    dropping: Arc<dyn AsyncChatMemoryStore>,
    keeping: Arc<dyn AsyncChatMemoryStore>,
    rounds: u64,
) {
    const CONVERSATIONS: u64 = 8;
    let conversation = |i: u64| {
        let id = MemoryId::from(format!("dropped:{i}"));
        let (dropped, kept) = (dropping.memory(id.clone()).unwrap(), keeping.memory(id).unwrap());
        async move {
            let (mut there, mut takes) = (0, Duration::from_millis(4));
            for round in 0..rounds {
                // From at once to when it is done, as long as that took the last time.
                let part = (round * 7919 + i * 104_729) % 1_000;
                let time = takes * u32::try_from(part).unwrap() / 800;
                if round % 8 == 7 {
                    let _ = tokio::time::timeout(time, dropped.clear()).await;
                } else {
                    let append = dropped.add(Message::user(format!("dropped {round}")));
                    let _ = tokio::time::timeout(time, append).await;
                }
                let began = Instant::now();
                let position = kept.add(Message::user(format!("kept {round}"))).await.unwrap();
                takes = began.elapsed();
                // Time for what is on its way.
                if round % 4 == 3 {
                    tokio::time::sleep(Duration::from_millis(3)).await;
                }
                let records = kept.latest(8).await.unwrap();
                let last = records.last().unwrap();
                let text = last.message().text().into_owned();
                let kept = (position, format!("kept {round}"));
                assert_eq!((last.position(), text), kept, "late over it");
                let texts = records.messages().map(Message::text);
                there += texts.filter(|it| it.starts_with("dropped")).count();
            }
            there
        }
    };
    let there: usize = end(begin(CONVERSATIONS, conversation)).await.iter().sum();
    println!(
        "{} changes dropped, {there} times seen in their place, none late",
        CONVERSATIONS * rounds
    );
    assert!(there > 0, "they were dropped too soon to show anything");
}
