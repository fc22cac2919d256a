//! A node of Apache Cassandra, and three of them.

use std::fs;
use std::net::{TcpListener, TcpStream};
use std::path::{Path, PathBuf};
use std::process::Command;
use std::thread;

use crate::process::{Server, folder, free_port};

pub(crate) struct Node {
    pub(crate) server: Server,
    pub(crate) address: String,
}

/// Where a node listens, and what is its own among several.
struct Seat {
    host: &'static str,
    storage: u16,
    native: u16,
    /// Where its part of the ring begins.
    token: i64,
    /// Where it asks who else there is.
    seed: &'static str,
    heap: &'static str,
    /// How long it looks for the others, in milliseconds: on a busy machine they take their time.
    ring_delay: u32,
    memtables: &'static str,
}

impl Node {
    /// A cluster of one node, with more lines for its settings.
    pub(crate) fn start(more: &str) -> Self {
        let [storage, native] = [free_port(), free_port()];
        let (host, seed) = ("127.0.0.1", "127.0.0.1");
        let (heap, memtables) = ("-Xmx1g", "256MiB");
        Self::at(
            &Seat { host, storage, native, token: 0, seed, heap, ring_delay: 100, memtables },
            &format!("{PATIENT}{more}"),
        )
    }

    /// A cluster of three nodes, each on a loopback address of its own with a third of the ring.
    ///
    /// They need the same ports, since drivers are told of hosts alone.
    pub(crate) fn start_three() -> [Self; 3] {
        const HOSTS: [&str; 3] = ["127.0.0.1", "127.0.0.2", "127.0.0.3"];
        let is_free =
            |port: &u16| HOSTS.iter().all(|host| TcpListener::bind((*host, *port)).is_ok());
        let mut ports = std::iter::repeat_with(free_port).filter(is_free);
        let (storage, native) = (ports.next().unwrap(), ports.next().unwrap());
        let third = i64::MAX / 3 * 2;
        let seat = move |i: usize, token: i64| Seat {
            host: HOSTS[i],
            storage,
            native,
            token,
            seed: HOSTS[0],
            heap: "-Xmx512m",
            ring_delay: 60_000,
            memtables: "64MiB",
        };
        // The others find the first one there.
        let first = Self::at(&seat(0, 0), ALONE);
        let start =
            move |i: usize, token: i64| thread::spawn(move || Self::at(&seat(i, token), ALONE));
        let others = [start(1, third), start(2, -third)];
        let [second, last] = others.map(|node| node.join().unwrap());
        [first, second, last]
    }

    fn at(seat: &Seat, more: &str) -> Self {
        let jars = std::env::var_os("MEMORY_PROMPT_CASSANDRA_JARS").map_or_else(
            || Path::new(env!("CARGO_MANIFEST_DIR")).join("target/cassandra"),
            PathBuf::from,
        );
        let jar = jars.join("cassandra-all-5.0.5.jar");
        assert!(jar.exists(), "{} is missing: see tests/servers/cassandra.rs", jar.display());

        let place = folder("cassandra");
        let yaml = settings(&place, seat) + more;
        fs::write(place.join("cassandra.yaml"), yaml).unwrap();
        fs::write(place.join("logback.xml"), include_str!("logback.xml")).unwrap();

        let (home, heap) = (place.clone(), seat.heap);
        let ring_delay = format!("-Dcassandra.ring_delay_ms={}", seat.ring_delay);
        let command = move || {
            let mut java = Command::new("java");
            java.args(include_str!("flags").lines())
                .arg(heap)
                .arg(&ring_delay)
                .arg(format!("-Dcassandra.config=file://{}/cassandra.yaml", home.display()))
                .arg(format!("-Dcassandra.storagedir={}", home.display()))
                .arg(format!("-Dlogback.configurationFile={}/logback.xml", home.display()))
                .arg("-cp")
                .arg(jars.join("*"))
                .arg("org.apache.cassandra.service.CassandraDaemon")
                .current_dir(&home);
            java
        };
        // It listens when everything else is done.
        let (host, native) = (seat.host, seat.native);
        let ready = move || TcpStream::connect((host, native)).is_ok();
        let server = Server::start(place, command, ready);
        Self { server, address: format!("{host}:{native}") }
    }
}

/// There is nobody else to go on with, so a busy machine takes its time.
const PATIENT: &str = "read_request_timeout: 60s
range_request_timeout: 60s
write_request_timeout: 60s
cas_contention_timeout: 60s
truncate_request_timeout: 60s
request_timeout: 60s
";

/// A new cluster has nothing to hand over to those that join.
const ALONE: &str = "auto_bootstrap: false\n";

/// Everything that an acknowledged write has written is on the disk: `commitlog_sync: batch`.
fn settings(place: &Path, seat: &Seat) -> String {
    let Seat { host, storage, native, token, seed, memtables, .. } = seat;
    let place = place.display();
    format!(
        "cluster_name: memory-prompt
num_tokens: 1
initial_token: {token}
partitioner: org.apache.cassandra.dht.Murmur3Partitioner
endpoint_snitch: SimpleSnitch
listen_address: {host}
storage_port: {storage}
rpc_address: {host}
native_transport_port: {native}
seed_provider:
  - class_name: org.apache.cassandra.locator.SimpleSeedProvider
    parameters:
      - seeds: {seed}:{storage}
data_file_directories: [{place}/data]
commitlog_directory: {place}/commitlog
saved_caches_directory: {place}/saved_caches
hints_directory: {place}/hints
commitlog_sync: batch
memtable_heap_space: {memtables}
memtable_offheap_space: 64MiB
"
    )
}
