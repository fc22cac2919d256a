//! A master that falls silent under load: it is frozen, and its connections do not break.

use std::sync::Arc;
use std::sync::atomic::{AtomicBool, AtomicU64, Ordering};
use std::time::{Duration, Instant};

use memory_prompt::memory::MemoryId;
use memory_prompt::store::redis::driver::cmd;
use memory_prompt::{AsyncChatMemory, AsyncChatMemoryExt, ErrorKind, Message, RedisStore};

use super::faults::moving;
use super::{address, ask, options, run, server};
use crate::laws::{Told, goes_on, numbers};

const WRITERS: u64 = 16;

/// Writers who append all the while, each to a conversation of its own.
struct Load {
    store: RedisStore,
    stop: Arc<AtomicBool>,
    done: Arc<AtomicU64>,
    writers: Vec<tokio::task::JoinHandle<(Told, Duration)>>,
}

impl Load {
    fn begin(store: RedisStore) -> Self {
        let (stop, done) = (Arc::new(AtomicBool::new(false)), Arc::new(AtomicU64::new(0)));
        let writers = (0..WRITERS).map(|i| {
            let memory = store.memory(MemoryId::from(format!("writer {i}"))).unwrap();
            tokio::spawn(write(Arc::new(memory), Arc::clone(&stop), Arc::clone(&done)))
        });
        Self { writers: writers.collect(), store, stop, done }
    }

    /// Ends it; what each writer was told is so. Returns the longest time that an append took.
    async fn end(self) -> Duration {
        self.stop.store(true, Ordering::Relaxed);
        let mut longest = Duration::ZERO;
        for (i, writer) in self.writers.into_iter().enumerate() {
            let (told, took) = writer.await.unwrap();
            let memory = self.store.memory(format!("writer {i}")).unwrap();
            told.check(&numbers(&memory).await);
            longest = longest.max(took);
        }
        longest
    }
}

async fn write(
    memory: Arc<dyn AsyncChatMemory>,
    stop: Arc<AtomicBool>,
    done: Arc<AtomicU64>,
) -> (Told, Duration) {
    let (mut told, mut longest) = (Told::default(), Duration::ZERO);
    for number in 0.. {
        if stop.load(Ordering::Relaxed) {
            break;
        }
        let began = Instant::now();
        let batch = (0..3).map(|k| Message::user(format!("{number} {k}")));
        let answer = memory.add_all(batch).await;
        longest = longest.max(began.elapsed());
        match answer {
            Ok(positions) => {
                told.done(number, positions);
                done.fetch_add(1, Ordering::Relaxed);
            }
            Err(error) if error.kind() == ErrorKind::Unacknowledged => told.unknown(number),
            Err(error) => {
                assert_eq!(error.kind(), ErrorKind::Storage, "{error}");
                told.undone(number);
            }
        }
    }
    (told, longest)
}

async fn connections(port: u16) -> usize {
    let clients: String = ask(port, cmd("CLIENT").arg("LIST")).await;
    clients.lines().count()
}

/// Each append is an error in time, what it says is so, and when the master goes on everybody does,
/// over as many connections as before.
#[test]
#[ignore = "needs redis-server"]
fn a_master_that_is_silent_for_a_while_is_an_error_in_time_for_everybody() {
    const TIMEOUT: Duration = Duration::from_secs(1);
    run(async {
        let (master, port) = server("redis-silent", &[]);
        let store = options().timeout(TIMEOUT).open(&address(port)).await.unwrap();
        let load = Load::begin(store);
        goes_on(&load.done, 200).await;
        for silent in [400, 2_500] {
            master.freeze();
            tokio::time::sleep(Duration::from_millis(silent)).await;
            master.thaw();
            let slow = goes_on(&load.done, 200).await;
            println!("after {silent} ms of silence 200 more batches in {slow:?}");
            // One is the store's, one is ours, and one may be on its way out.
            let most = connections(port).await;
            assert!(most <= 3, "{most} connections");
        }
        let longest = load.end().await;
        println!("the longest append took {longest:?}");
        assert!(longest < TIMEOUT * 3, "{longest:?}");
    });
}

/// The connections to a master that was frozen did not break when its replica had taken its address:
/// each operation of the store waited there until its time was up, until the process was started
/// anew. What was confirmed by the replica is there, and what the old master does when it goes on
/// concerns nobody.
#[test]
#[ignore = "needs redis-server"]
fn a_master_that_is_silent_is_left_for_the_one_that_takes_its_address() {
    const TIMEOUT: Duration = Duration::from_secs(3);
    run(async {
        let at_once = ["--repl-diskless-sync-delay", "0", "--replicaof", "127.0.0.1"];
        let (old, first) = server("redis-master", &at_once[..2]);
        let behind = |port: u16| {
            let port = port.to_string();
            server("redis-replica", &[&at_once[..], &[port.as_str()]].concat())
        };
        let (_new, second) = behind(first);
        let (_last, third) = behind(second);
        let (port, target) = moving(first);
        let options = options().timeout(TIMEOUT);
        let confirmed = options.clone().replicas(1, Duration::from_millis(500));
        let store = confirmed.open(&address(port)).await.unwrap();
        let reader = options.open(&address(port)).await.unwrap().memory("writer 0").unwrap();
        let load = Load::begin(store);
        goes_on(&load.done, 200).await;
        // The last one has joined too, behind the second.
        let began = Instant::now();
        while ask::<u64>(third, &cmd("DBSIZE")).await == 0 {
            assert!(began.elapsed() < Duration::from_secs(60), "the last one never joined");
            tokio::time::sleep(Duration::from_millis(20)).await;
        }
        old.freeze();
        tokio::time::sleep(Duration::from_millis(300)).await;
        let _: String = ask(second, cmd("REPLICAOF").arg("NO").arg("ONE")).await;
        target.store(second, Ordering::SeqCst);
        let slow = goes_on(&load.done, 200).await;
        println!("200 more batches at the new master after {slow:?}");
        assert!(slow < TIMEOUT * 3, "{slow:?}");
        old.thaw();
        goes_on(&load.done, 200).await;
        assert!(reader.next_position().await.unwrap() > 0);
        let longest = load.end().await;
        println!("the longest append took {longest:?}");
        assert!(longest < TIMEOUT * 2, "{longest:?}");
    });
}
