//! Appends that are repeated by their id, whatever happens in between.

use std::sync::atomic::{AtomicBool, AtomicU64, Ordering};

use memory_prompt::memory::{Append, Expected};
use memory_prompt::{AsyncChatMemoryExt, ErrorKind, Message};

use super::faults::breaking;
use super::*;
use crate::tasks::{begin, end};

const WRITERS: u64 = 4;

/// What happened to the appends of all writers.
#[derive(Default)]
struct Tally {
    done: AtomicU64,
    repeated: AtomicU64,
    dropped: AtomicU64,
    failed: AtomicU64,
}

/// Appends turns until each is acknowledged: some answers are cut off, some futures dropped.
async fn write(memory: RedisMemory, turns: u64, cut: Arc<AtomicBool>, tally: Arc<Tally>) {
    for turn in 0..turns {
        let texts = (0..2).map(|i| Message::user(format!("{turn} {i}")));
        let append = Append::new(texts).with_id(format!("turn {turn}"));
        let append = append.set_slot("last", turn.to_string(), Expected::Any);
        let (mut attempts, mut repetitions) = (0, 0);
        // Once more after it is known to be done.
        while repetitions < 2 {
            attempts += 1;
            assert!(attempts < 1000, "turn {turn} is not done");
            if (turn + attempts) % 3 == 0 {
                cut.store(true, Ordering::SeqCst);
            }
            let mut again = append.clone();
            let limit = match (turn + attempts) % 4 {
                0 => Duration::from_micros(turn % 50 * 20),
                _ => Duration::from_secs(60),
            };
            match tokio::time::timeout(limit, memory.append_with(&mut again)).await {
                Ok(Ok(appended)) => {
                    assert_eq!(appended.positions, turn * 2..turn * 2 + 2);
                    assert!(repetitions == 0 || appended.repeated);
                    assert!(again.messages.is_empty() && appended.version.is_some());
                    repetitions += 1;
                    tally.done.fetch_add(1, Ordering::Relaxed);
                    tally.repeated.fetch_add(appended.repeated.into(), Ordering::Relaxed);
                }
                Ok(Err(error)) => {
                    let kind = error.kind();
                    let fair = matches!(kind, ErrorKind::Storage | ErrorKind::Unacknowledged);
                    assert!(fair && again.messages.len() == 2, "{error}");
                    tally.failed.fetch_add(1, Ordering::Relaxed);
                    tokio::time::sleep(Duration::from_millis(20)).await;
                }
                Err(_) => {
                    tally.dropped.fetch_add(1, Ordering::Relaxed);
                }
            }
        }
    }
}

/// Each append is stored once, though it is repeated over cut answers, dropped futures and a server
/// that is killed. `MEMORY_PROMPT_CASES` says how many.
async fn repeated_appends_are_stored_once() {
    let cases = std::env::var("MEMORY_PROMPT_CASES").ok().and_then(|n| n.parse().ok());
    let turns = cases.unwrap_or(600_u64) / WRITERS;
    let (server, own) =
        server("redis-repeated", &["--appendonly", "yes", "--appendfsync", "always"]);
    let (port, cut) = breaking(own);
    // Short enough for the client to give up while the server is away.
    let direct = options();
    let hasty = direct.clone().timeout(Duration::from_millis(500));
    let store = hasty.open(&address(port)).await.unwrap();
    let tally = Arc::new(Tally::default());
    let writers = begin(WRITERS, |writer| {
        let memory = store.memory(format!("repeated {writer}")).unwrap();
        write(memory, turns, Arc::clone(&cut), Arc::clone(&tally))
    });
    let mut kills = 0;
    while !writers.iter().all(tokio::task::JoinHandle::is_finished) {
        tokio::time::sleep(Duration::from_millis(400)).await;
        // A machine that is slow to start it again gets little done in between.
        if kills < 20 {
            tokio::task::block_in_place(|| {
                server.kill();
                std::thread::sleep(Duration::from_millis(600));
                server.restart();
            });
            kills += 1;
        }
    }
    end(writers).await;
    let store = direct.open(&address(own)).await.unwrap();
    for writer in 0..WRITERS {
        let memory = store.memory(format!("repeated {writer}")).unwrap();
        let all = memory.all().await.unwrap();
        let texts = all.messages().map(|message| message.text().into_owned());
        assert!(texts.eq((0..turns * 2).map(|i| format!("{} {}", i / 2, i % 2))));
        let last = memory.slot("last").await.unwrap().unwrap();
        assert_eq!(last.text(), Some((turns - 1).to_string().as_str()));
    }
    let Tally { done, repeated, dropped, failed } = &*tally;
    println!(
        "{} appends stored once: {done:?} answers, {repeated:?} of them that it was known; {dropped:?} \
         futures dropped, {failed:?} errors, {kills} kills",
        turns * WRITERS
    );
}

crate::tests! { run:
    #[ignore = "needs redis-server"]
    repeated_appends_are_stored_once;
}
