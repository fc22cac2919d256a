//! The contract on a Redis Cluster, and again after one of its masters has died.

use std::net::TcpListener;
use std::sync::atomic::{AtomicBool, AtomicU64, Ordering};
use std::thread;
use std::time::Instant;

use memory_prompt::{AsyncChatMemoryExt, ErrorKind, Message};

use super::*;
use crate::tasks::{begin, end};

/// Three masters, each with a replica.
pub(super) struct Cluster(Vec<(Server, u16)>);

/// For how many milliseconds a master may be silent: not long where one dies, and elsewhere longer
/// than a busy machine stands still.
const HASTY: &str = "2000";
const PATIENT: &str = "20000";

impl Cluster {
    fn start(patience: &str) -> Self {
        let servers: Vec<_> = (0..6)
            .map(|_| {
                let bus = free_port().to_string();
                server(
                    "redis-cluster",
                    &[
                        "--cluster-enabled",
                        "yes",
                        "--cluster-port",
                        &bus,
                        "--cluster-node-timeout",
                        patience,
                        "--repl-diskless-sync-delay",
                        "0",
                    ],
                )
            })
            .collect();
        let mut create = Command::new("redis-cli");
        create.args(["--cluster", "create", "--cluster-replicas", "1", "--cluster-yes"]);
        let output =
            create.args(servers.iter().map(|(_, port)| format!("127.0.0.1:{port}"))).output();
        let output = output.unwrap();
        assert!(output.status.success(), "{}", String::from_utf8_lossy(&output.stdout));
        let cluster = Self(servers);
        cluster.wait_until("all agree", || {
            let live = cluster.ports();
            live.iter().all(|port| {
                let info = cli(*port, &["cluster", "info"]);
                info.contains("cluster_state:ok") && info.contains("cluster_size:3")
            }) && live.iter().filter(|port| cli(**port, &["role"]).starts_with("slave")).count()
                == 3
                && live.iter().all(|port| {
                    let role = cli(*port, &["role"]);
                    role.starts_with("master") || role.contains("connected\n")
                })
        });
        cluster
    }

    fn ports(&self) -> Vec<u16> {
        self.0.iter().map(|(_, port)| *port).collect()
    }

    /// Stops a master, and waits until its replica has taken over.
    fn stop(&self, port: u16, how: fn(&Server)) {
        let (server, _) = self.0.iter().find(|(_, p)| *p == port).unwrap();
        how(server);
        self.wait_until("a replica has taken over", || {
            let mut live = self.ports();
            live.retain(|p| *p != port);
            live.iter().all(|p| cli(*p, &["cluster", "info"]).contains("cluster_state:ok"))
                && live.iter().filter(|p| cli(**p, &["role"]).starts_with("master")).count() == 3
        });
    }

    /// The port of the master that has this key.
    fn master_of(&self, key: &str) -> u16 {
        let masters = self.ports().into_iter().filter(|p| cli(*p, &["role"]).starts_with("master"));
        let mut owner = masters.filter(|p| !cli(*p, &["exists", key]).contains("MOVED"));
        owner.next().unwrap()
    }

    fn wait_until(&self, what: &str, done: impl Fn() -> bool) {
        let end = Instant::now() + Duration::from_secs(60);
        while !done() {
            assert!(
                Instant::now() < end,
                "{what}: {}",
                cli(self.ports()[0], &["cluster", "nodes"])
            );
            thread::sleep(Duration::from_millis(50));
        }
    }

    pub(super) fn addresses(&self) -> Vec<String> {
        self.ports().into_iter().map(address).collect()
    }
}

fn cli(port: u16, args: &[&str]) -> String {
    let output = Command::new("redis-cli").args(["-p", &port.to_string()]).args(args).output();
    String::from_utf8_lossy(&output.unwrap().stdout).into_owned()
}

pub(super) static HEALTHY: LazyLock<Cluster> = LazyLock::new(|| Cluster::start(PATIENT));

static AFTER_A_DEATH: LazyLock<Cluster> = LazyLock::new(|| {
    let cluster = Cluster::start(HASTY);
    cluster.stop(cluster.ports()[0], Server::kill);
    cluster
});

/// A prefix of its own on the healthy cluster, or on the one of which a master died.
struct Place<const WOUNDED: bool> {
    store: RedisStore,
    addresses: Vec<String>,
    prefix: String,
}

impl<const WOUNDED: bool> Place<WOUNDED> {
    async fn open(addresses: Vec<String>, prefix: String) -> Self {
        let options = RedisStore::options().prefix(prefix.as_str());
        Self { store: options.open_cluster(&addresses).await.unwrap(), addresses, prefix }
    }
}

impl<const WOUNDED: bool> AsyncFixture for Place<WOUNDED> {
    const BACKEND: &'static str =
        if WOUNDED { "redis cluster, after a master died" } else { "redis cluster" };
    async fn new() -> Self {
        let cluster = if WOUNDED { &AFTER_A_DEATH } else { &HEALTHY };
        let addresses = tokio::task::block_in_place(|| cluster.addresses());
        Self::open(addresses, format!("test-{}", MemoryId::random())).await
    }
    fn memory(&self, id: &str) -> Arc<dyn AsyncChatMemory> {
        Arc::new(self.store.memory(id).unwrap())
    }
}

impl<const WOUNDED: bool> AsyncStoreFixture for Place<WOUNDED> {
    fn store(&self) -> Arc<dyn AsyncChatMemoryStore> {
        Arc::new(self.store.clone())
    }
}

impl<const WOUNDED: bool> AsyncSharedFixture for Place<WOUNDED> {
    fn address(&self) -> String {
        format!("{} {}", self.prefix, self.addresses.join(" "))
    }
    async fn attach(address: &str) -> Self {
        let mut words = address.split(' ').map(str::to_owned);
        let prefix = words.next().unwrap();
        Self::open(words.collect(), prefix).await
    }
}

impl<const WOUNDED: bool> AsyncDamageFixture for Place<WOUNDED> {
    async fn damage(&self, id: &str, position: Option<u64>, payload: &[u8]) {
        let client = driver::cluster::ClusterClient::new(self.addresses.clone()).unwrap();
        let mut connection = client.get_async_connection().await.unwrap();
        damage(&mut connection, &self.store.memory(id).unwrap(), position, payload).await;
    }
}

memory_prompt::conformance_async!(
    #[ignore = "needs redis-server"]
    healthy: Place<false>, [
        memory, store, ids, slots, times, media, moving, shared, shared_slots, damage,
        asynchronous, asynchronous_ids
    ]
);

memory_prompt::conformance_async!(
    #[ignore = "needs redis-server"]
    wounded: Place<true>, [
        memory, store, ids, slots, times, media, moving, shared, shared_slots, damage,
        asynchronous, asynchronous_ids
    ]
);

/// A node that accepts and never answers does not keep the client from the others.
async fn a_silent_node_is_gone_around() {
    let silent = TcpListener::bind("127.0.0.1:0").unwrap();
    let silent = address(silent.local_addr().unwrap().port());
    let mut addresses = tokio::task::block_in_place(|| HEALTHY.addresses());
    addresses.truncate(1);
    addresses.insert(0, silent);
    let store = options().open_cluster(&addresses).await.unwrap();
    store.memory("a:b:c").unwrap().add(Message::user("hi")).await.unwrap();
}

/// The same client goes on when a replica takes over, and what replicas had confirmed is there.
fn goes_on(how: fn(&Server)) {
    run(async {
        let cluster = tokio::task::block_in_place(|| Cluster::start(HASTY));
        let store = options()
            .timeout(Duration::from_secs(15))
            .replicas(1, Duration::from_secs(2))
            .open_cluster(&cluster.addresses())
            .await
            .unwrap();
        let memory = store.memory("killed").unwrap();
        memory.add(Message::user("0")).await.unwrap();
        let others: Vec<_> = (0..8).map(|i| store.memory(format!("other {i}")).unwrap()).collect();
        let master = tokio::task::block_in_place(|| cluster.master_of(&memory.log_key()));

        let (stop, end) = (Arc::new(AtomicBool::new(false)), Arc::new(AtomicU64::new(1)));
        let (stopped, ends) = (Arc::clone(&stop), Arc::clone(&end));
        let writing = tokio::spawn(async move {
            let (mut end, mut pause) = (1, Duration::ZERO);
            while !stopped.load(Ordering::SeqCst) {
                let asked = Instant::now();
                let mut batch = vec![Message::user(end.to_string())];
                match memory.append(&mut batch, Some(end)).await {
                    Ok(positions) => end = positions.end,
                    // The replica that took over has no replica itself; and what was on its way
                    // when the master stopped may be done or not.
                    Err(error) if error.kind() == ErrorKind::Unacknowledged => {
                        let is_done = error.to_string().contains("it is done");
                        let there = memory.next_position().await.unwrap();
                        assert!(there == end + 1 || (there == end && !is_done), "{there}: {error}");
                        end = there;
                    }
                    Err(error) => panic!("{error}"),
                }
                pause = pause.max(asked.elapsed());
                ends.store(end, Ordering::SeqCst);
            }
            (memory, end, pause)
        });
        let reaches = async |this: u64| {
            let began = Instant::now();
            while end.load(Ordering::SeqCst) < this && !writing.is_finished() {
                assert!(began.elapsed() < Duration::from_secs(120), "it does not go on");
                tokio::time::sleep(Duration::from_millis(10)).await;
            }
        };
        reaches(100).await;
        let killed = Instant::now();
        tokio::task::block_in_place(|| cluster.stop(master, how));
        let taken_over = killed.elapsed();
        reaches(end.load(Ordering::SeqCst) + 4).await;
        stop.store(true, Ordering::SeqCst);
        let (memory, end, pause) = writing.await.unwrap();
        let texts: Vec<_> =
            memory.all().await.unwrap().messages().map(|m| m.text().into_owned()).collect();
        assert_eq!(texts, (0..end).map(|i| i.to_string()).collect::<Vec<_>>());
        assert!(end > 100, "{end}");
        for other in others {
            let _ = other.add(Message::user("hi")).await; // not confirmed where there is no replica
            assert_eq!(other.next_position().await.unwrap(), 1);
        }
        println!("{end} messages, taken over after {taken_over:?}, the longest pause {pause:?}");
    });
}

#[test]
#[ignore = "needs redis-server"]
fn a_master_that_dies_is_a_pause() {
    goes_on(Server::kill);
}

#[test]
#[ignore = "needs redis-server"]
fn a_master_that_falls_silent_is_a_pause() {
    goes_on(Server::freeze);
}

/// Slots move from master to master while four writers append, and nobody notices.
async fn slots_move_under_the_writers() {
    let cluster = tokio::task::block_in_place(|| Cluster::start(PATIENT));
    let options = options().timeout(Duration::from_secs(15));
    let store = options.open_cluster(&cluster.addresses()).await.unwrap();
    let stop = Arc::new(AtomicBool::new(false));
    let writers = begin(4, |writer| {
        let (store, stop) = (store.clone(), Arc::clone(&stop));
        async move {
            let mut rounds = 0;
            while !stop.load(Ordering::Relaxed) {
                for i in 0..32 {
                    let memory = store.memory(format!("{writer} {i}")).unwrap();
                    let mut turn = vec![Message::user("hi"), Message::ai("hello")];
                    let positions = memory.append(&mut turn, Some(rounds * 2)).await.unwrap();
                    let read = memory.read(None, 3).await.unwrap();
                    assert_eq!((read.start, read.end), (0, positions.end));
                    assert_eq!(read.records.len() as u64, positions.end.min(3));
                    assert!(read.unreadable.is_empty());
                }
                rounds += 1;
            }
            rounds
        }
    });
    let moved = tokio::task::block_in_place(|| {
        let place = format!("127.0.0.1:{}", cluster.ports()[0]);
        let first = cli(cluster.ports()[0], &["cluster", "myid"]);
        let mut reshard = Command::new("redis-cli");
        reshard.args(["--cluster", "reshard", &place, "--cluster-from", "all"]);
        reshard.args(["--cluster-to", first.trim(), "--cluster-slots", "3000", "--cluster-yes"]);
        reshard.output().unwrap()
    });
    assert!(moved.status.success(), "{}", String::from_utf8_lossy(&moved.stdout));
    stop.store(true, Ordering::Relaxed);
    for (writer, rounds) in end(writers).await.into_iter().enumerate() {
        assert!(rounds > 0);
        println!("writer {writer}: {rounds} rounds");
        for i in 0..32 {
            let memory = store.memory(format!("{writer} {i}")).unwrap();
            assert_eq!(memory.all().await.unwrap().len() as u64, rounds * 2);
        }
    }
    assert_eq!(store.ids(None, 1000).await.unwrap().len(), 128);
}

crate::tests! { run:
    #[ignore = "needs redis-server"]
    a_silent_node_is_gone_around,
    slots_move_under_the_writers;
}
