//! A node of Apache Cassandra.

use std::fs;
use std::net::TcpStream;
use std::path::{Path, PathBuf};
use std::process::Command;

use crate::process::{Server, folder, free_port};

pub(crate) struct Node {
    pub(crate) server: Server,
    pub(crate) address: String,
}

impl Node {
    /// A cluster of one node, with more lines for its settings.
    pub(crate) fn start(more: &str) -> Self {
        let jars = std::env::var_os("MEMORY_PROMPT_CASSANDRA_JARS").map_or_else(
            || Path::new(env!("CARGO_MANIFEST_DIR")).join("target/cassandra"),
            PathBuf::from,
        );
        let jar = jars.join("cassandra-all-5.0.5.jar");
        assert!(jar.exists(), "{} is missing: see tests/servers/cassandra.rs", jar.display());

        let place = folder("cassandra");
        let [storage, native] = [free_port(), free_port()];
        let yaml = settings(&place, storage, native) + more;
        fs::write(place.join("cassandra.yaml"), yaml).unwrap();
        fs::write(place.join("logback.xml"), include_str!("logback.xml")).unwrap();

        let home = place.clone();
        let command = move || {
            let mut java = Command::new("java");
            java.args(include_str!("flags").lines())
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
        let ready = move || TcpStream::connect(("127.0.0.1", native)).is_ok();
        Self {
            server: Server::start(place, command, ready),
            address: format!("127.0.0.1:{native}"),
        }
    }
}

/// Everything that an acknowledged write has written is on the disk: `commitlog_sync: batch`.
fn settings(place: &Path, storage: u16, native: u16) -> String {
    let place = place.display();
    format!(
        "cluster_name: memory-prompt
num_tokens: 1
initial_token: 0
partitioner: org.apache.cassandra.dht.Murmur3Partitioner
endpoint_snitch: SimpleSnitch
listen_address: 127.0.0.1
storage_port: {storage}
rpc_address: 127.0.0.1
native_transport_port: {native}
seed_provider:
  - class_name: org.apache.cassandra.locator.SimpleSeedProvider
    parameters:
      - seeds: 127.0.0.1:{storage}
data_file_directories: [{place}/data]
commitlog_directory: {place}/commitlog
saved_caches_directory: {place}/saved_caches
hints_directory: {place}/hints
commitlog_sync: batch
memtable_heap_space: 256MiB
memtable_offheap_space: 128MiB
"
    )
}
