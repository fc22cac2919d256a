//! A master that falls silent under load: it is frozen, and its connections do not break.

use std::sync::atomic::{AtomicBool, AtomicU64, Ordering};
use std::time::Instant;

use memory_prompt::AsyncChatMemoryExt;
use tokio::task::JoinHandle;

use super::faults::moving;
use super::*;
use crate::laws::{Told, goes_on, numbers, write_and_count};
use crate::soak::Trouble;
use crate::tasks::{begin, end};

const WRITERS: u64 = 16;

/// Writers who append all the while, each to a conversation of its own.
struct Load {
    stop: Arc<AtomicBool>,
    done: Arc<AtomicU64>,
    writers: Vec<JoinHandle<Told>>,
}

impl Load {
    fn begin(store: &RedisStore) -> Self {
        let (stop, done) = (Arc::new(AtomicBool::new(false)), Arc::new(AtomicU64::new(0)));
        let writers = begin(WRITERS, |i| {
            let memory = store.memory(format!("writer {i}")).unwrap();
            write_and_count(Arc::new(memory), Arc::clone(&stop), Arc::clone(&done))
        });
        Self { stop, done, writers }
    }

    /// Ends it; what each writer was told is so, as a store with more patience finds. Returns the
    /// longest time that an append took.
    async fn end(self, patient: &RedisStore) -> Duration {
        self.stop.store(true, Ordering::Relaxed);
        let mut longest = Duration::ZERO;
        for (i, told) in end(self.writers).await.into_iter().enumerate() {
            let memory = patient.memory(format!("writer {i}")).unwrap();
            told.check(&numbers(&memory).await);
            longest = longest.max(told.longest);
        }
        longest
    }
}

async fn connections(port: u16) -> usize {
    let clients: String = ask(port, cmd("CLIENT").arg("LIST")).await;
    clients.lines().count()
}

/// A master, its replica, and the replica of that, with their ports. What the first one has
/// confirmed by one replica the second one has, and goes on to confirm when it has taken over.
fn chain() -> [(Server, u16); 3] {
    let name = "redis-chain";
    let mut before: Option<u16> = None;
    [(); 3].map(|()| {
        let master = before.map(|port| port.to_string());
        let mut settings = vec!["--repl-diskless-sync-delay", "0"];
        settings.extend(master.iter().flat_map(|port| ["--replicaof", "127.0.0.1", port]));
        let server = server(name, &settings);
        before = Some(server.1);
        server
    })
}

/// Lets a server follow a master, or nobody.
async fn follow(port: u16, master: Option<u16>) {
    let port_of = master.map(|master| master.to_string());
    let (host, port_of) = port_of.as_deref().map_or(("NO", "ONE"), |master| ("127.0.0.1", master));
    let _: String = ask(port, cmd("REPLICAOF").arg(host).arg(port_of)).await;
}

/// Waits until each has what the one before it has, or nearly.
async fn joined(chain: &[(Server, u16)]) {
    let began = Instant::now();
    for (_, port) in &chain[1..] {
        loop {
            let told: String = ask(*port, cmd("INFO").arg("replication")).await;
            if told.contains("master_link_status:up") {
                break;
            }
            assert!(began.elapsed() < Duration::from_secs(60), "{port} never joined: {told}");
            tokio::time::sleep(Duration::from_millis(20)).await;
        }
    }
}

/// The master dies or falls silent, its replica takes its address, and it comes back behind the
/// others: again and again.
async fn soak() {
    let Some(time) = soak::time() else { return };
    let mut chain = chain();
    let (port, target) = moving(chain[0].1);
    let options = options().timeout(Duration::from_secs(3)).replicas(1, Duration::from_millis(500));
    let store = Arc::new(options.open(&address(port)).await.unwrap());
    let connections = async || {
        let master = target.load(Ordering::SeqCst);
        let asked = tokio::time::timeout(Duration::from_secs(1), connections(master));
        asked.await.ok().map(|count| count as u64)
    };
    let trouble = async |round: u64| {
        joined(&chain).await;
        let dies = round.is_multiple_of(3);
        let (old, old_port) = &chain[0];
        if dies {
            tokio::task::block_in_place(|| old.kill());
        } else {
            old.freeze();
        }
        tokio::time::sleep(Duration::from_millis(round * 104_729 % 4_000)).await;
        follow(chain[1].1, None).await;
        target.store(chain[1].1, Ordering::SeqCst);
        tokio::time::sleep(Duration::from_millis(round * 7_919 % 3_000)).await;
        if dies {
            tokio::task::block_in_place(|| old.restart());
        } else {
            old.thaw();
        }
        follow(*old_port, Some(chain[2].1)).await;
        chain.rotate_left(1);
        if dies { Trouble::Kill } else { Trouble::Freeze }
    };
    let most = soak::soak(store, trouble, time, connections).await;
    // Nine are the store's, one is ours, one the replica's; the others were left for new ones.
    assert!(most <= 22, "{most} connections");
}

/// Each append is an error in time, what it says is so, and when the master goes on everybody does,
/// over as many connections as before.
async fn a_master_that_is_silent_for_a_while_is_an_error_in_time_for_everybody() {
    const TIMEOUT: Duration = Duration::from_secs(3);
    let (master, port) = server("redis-silent", &[]);
    let options = options();
    let patient = options.clone().open(&address(port)).await.unwrap();
    let store = options.timeout(TIMEOUT).open(&address(port)).await.unwrap();
    let load = Load::begin(&store);
    goes_on(&load.done, 200).await;
    for silent in [TIMEOUT / 2, TIMEOUT * 5 / 2] {
        master.freeze();
        tokio::time::sleep(silent).await;
        master.thaw();
        let slow = goes_on(&load.done, 200).await;
        println!("after {silent:?} of silence 200 more batches in {slow:?}");
        // One is the store's, one the patient one's, one is ours, and one may be on its way
        // out; more of those go when the machine gets to it.
        let began = Instant::now();
        loop {
            let most = connections(port).await;
            if most <= 4 {
                break;
            }
            assert!(began.elapsed() < Duration::from_secs(30), "{most} connections");
            tokio::time::sleep(Duration::from_millis(50)).await;
        }
    }
    let longest = load.end(&patient).await;
    println!("the longest append took {longest:?}");
    assert!(longest < TIMEOUT * 3, "{longest:?}");
}

/// The connections to a master that was frozen did not break when its replica took its address:
/// each operation of the store waited there until its time was up, until the process was started
/// again. What was confirmed by the replica is there, and what the old master does when it goes on
/// concerns nobody.
async fn a_master_that_is_silent_is_left_for_the_one_that_takes_its_address() {
    const TIMEOUT: Duration = Duration::from_secs(3);
    let chain = chain();
    let [(old, first), (_, second), _] = &chain;
    let (port, target) = moving(*first);
    let options = options().timeout(TIMEOUT);
    let confirmed = options.clone().replicas(1, Duration::from_millis(500));
    let store = confirmed.open(&address(port)).await.unwrap();
    let patient = options.clone().timeout(Duration::from_secs(60));
    let reader = options.open(&address(port)).await.unwrap().memory("writer 0").unwrap();
    let load = Load::begin(&store);
    goes_on(&load.done, 200).await;
    joined(&chain).await;
    // As long as they take on this machine, and beside the others on it.
    let usual = goes_on(&load.done, 200).await;
    old.freeze();
    tokio::time::sleep(Duration::from_millis(300)).await;
    follow(*second, None).await;
    target.store(*second, Ordering::SeqCst);
    let slow = goes_on(&load.done, 200).await;
    println!("200 more batches at the new master after {slow:?}, else {usual:?}");
    assert!(slow < TIMEOUT * 3 + usual * 3, "{slow:?}, else {usual:?}");
    old.thaw();
    goes_on(&load.done, 200).await;
    assert!(reader.next_position().await.unwrap() > 0);
    let patient = patient.open(&address(port)).await.unwrap();
    let longest = load.end(&patient).await;
    println!("the longest append took {longest:?}");
    assert!(longest < TIMEOUT * 2, "{longest:?}");
}

crate::tests! { run:
    #[ignore = "needs redis-server"]
    soak,
    a_master_that_is_silent_for_a_while_is_an_error_in_time_for_everybody,
    a_master_that_is_silent_is_left_for_the_one_that_takes_its_address;
}
