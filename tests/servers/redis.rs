//! The contract on Redis, and what can happen to its servers.

mod cluster;
mod cost;
mod faults;
mod ids;
mod keys;
mod media;
#[cfg(feature = "tracing")]
mod observed;
mod once;
mod replicas;
mod rights;
mod silence;
#[cfg(feature = "redis-tls")]
mod tls;

use std::ffi::OsString;
use std::io::{BufRead, BufReader, Write};
use std::net::TcpStream;
use std::process::Command;
use std::sync::{Arc, LazyLock};
use std::time::Duration;

use memory_prompt::codec::Codec;
use memory_prompt::conformance::{
    Adapted, AsyncDamageFixture, AsyncFixture, AsyncSharedFixture, AsyncStoreFixture,
};
use memory_prompt::memory::MemoryId;
use memory_prompt::store::redis::driver::aio::{ConnectionManager, ConnectionManagerConfig};
use memory_prompt::store::redis::driver::{self, FromRedisValue, cmd};
use memory_prompt::store::{RedisMemory, RedisOptions};
use memory_prompt::{AsyncChatMemory, AsyncChatMemoryStore, RedisStore};

use crate::laws::{self, Failing};
use crate::process::{Server, folder, free_port};
use crate::{sending, soak, turns};

/// The server, which `MEMORY_PROMPT_REDIS` may name: another version, or a Valkey.
fn program() -> OsString {
    std::env::var_os("MEMORY_PROMPT_REDIS").unwrap_or_else(|| "redis-server".into())
}

/// A server with these settings beside those that all have; returns its port too.
fn server(name: &str, settings: &[&str]) -> (Server, u16) {
    let (folder, port) = (folder(name), free_port());
    let settings: Vec<String> = settings.iter().map(ToString::to_string).collect();
    let place = folder.clone();
    let command = move || {
        let mut command = Command::new(program());
        command.args(["--port", &port.to_string(), "--bind", "127.0.0.1", "--save", ""]);
        command.arg("--dir").arg(&place).args(&settings);
        command
    };
    (Server::start(folder, command, move || answers(port)), port)
}

/// Whether it has begun to serve, password or not.
fn answers(port: u16) -> bool {
    let ask = || -> std::io::Result<String> {
        let mut stream = TcpStream::connect(("127.0.0.1", port))?;
        stream.set_read_timeout(Some(Duration::from_secs(1)))?;
        stream.write_all(b"PING\r\n")?;
        let mut line = String::new();
        BufReader::new(stream).read_line(&mut line)?;
        Ok(line)
    };
    ask().is_ok_and(|line| line.starts_with("+PONG") || line.starts_with("-NOAUTH"))
}

fn address(port: u16) -> String {
    format!("redis://127.0.0.1:{port}")
}

fn run<T>(test: impl Future<Output = T>) -> T {
    tokio::runtime::Builder::new_multi_thread().enable_all().build().unwrap().block_on(test)
}

/// Options with a prefix that nobody else has.
fn options() -> RedisOptions {
    RedisStore::options().prefix(format!("test-{}", MemoryId::random()))
}

/// A connection that waits longer than the driver does by itself: the machine may be busy.
async fn connect(port: u16) -> ConnectionManager {
    let config = ConnectionManagerConfig::new()
        .set_connection_timeout(Some(Duration::from_secs(20)))
        .set_response_timeout(Some(Duration::from_secs(20)));
    let client = driver::Client::open(address(port)).unwrap();
    ConnectionManager::new_with_config(client, config).await.unwrap()
}

/// Asks a server behind the store's back.
async fn ask<T: FromRedisValue>(port: u16, command: &driver::Cmd) -> T {
    command.query_async(&mut connect(port).await).await.unwrap()
}

/// The server that all share who do it no harm.
static SERVER: LazyLock<(Server, u16)> = LazyLock::new(|| server("redis", &[]));

fn port() -> u16 {
    SERVER.1
}

// ---- the kit ------------------------------------------------------------------------------------

struct One {
    store: RedisStore,
    port: u16,
    prefix: String,
}

impl One {
    async fn open(port: u16, prefix: String) -> Self {
        let store =
            RedisStore::options().prefix(prefix.as_str()).open(&address(port)).await.unwrap();
        Self { store, port, prefix }
    }
}

impl AsyncFixture for One {
    const BACKEND: &'static str = "redis";
    async fn new() -> Self {
        Self::open(port(), format!("test-{}", MemoryId::random())).await
    }
    fn memory(&self, id: &str) -> Arc<dyn AsyncChatMemory> {
        Arc::new(self.store.memory(id).unwrap())
    }
}

impl AsyncStoreFixture for One {
    fn store(&self) -> Arc<dyn AsyncChatMemoryStore> {
        Arc::new(self.store.clone())
    }
}

impl AsyncSharedFixture for One {
    fn address(&self) -> String {
        format!("{} {}", self.port, self.prefix)
    }
    async fn attach(address: &str) -> Self {
        let (port, prefix) = address.split_once(' ').unwrap();
        Self::open(port.parse().unwrap(), prefix.to_owned()).await
    }
}

impl AsyncDamageFixture for One {
    async fn damage(&self, id: &str, position: Option<u64>, payload: &[u8]) {
        damage(&mut connect(self.port).await, &self.store.memory(id).unwrap(), position, payload)
            .await;
    }
}

/// Entries of a stream can't be changed, so it is written again.
const DAMAGE: &str = r"
    local entries, found = redis.call('XRANGE', KEYS[1], '-', '+'), 0
    redis.call('DEL', KEYS[1])
    for _, entry in ipairs(entries) do
      local fields = entry[2]
      if entry[1] == ARGV[1] then fields[4], found = ARGV[2], found + 1 end
      redis.call('XADD', KEYS[1], entry[1], unpack(fields))
    end
    return found";

async fn damage(
    connection: &mut impl driver::aio::ConnectionLike,
    memory: &RedisMemory,
    position: Option<u64>,
    payload: &[u8],
) {
    let log = memory.log_key();
    let Some(position) = position else {
        let state = log.replace("}:log:", "}:state:");
        let mut set = cmd("HSET");
        set.arg(state).arg("system").arg(payload);
        let new: u32 = set.query_async(connection).await.unwrap();
        assert_eq!(new, 0);
        return;
    };
    let mut damage = cmd("EVAL");
    damage.arg(DAMAGE).arg(1).arg(log).arg(format!("{position}-1")).arg(payload);
    let found: u32 = damage.query_async(connection).await.unwrap();
    assert_eq!(found, 1);
}

memory_prompt::conformance_async!(
    #[ignore = "needs redis-server"]
    one: One, [
        memory, store, ids, slots, times, media, moving, shared, shared_slots, damage,
        asynchronous, asynchronous_ids
    ]
);

memory_prompt::conformance!(
    #[ignore = "needs redis-server"]
    failing: Failing<Adapted<One>>,
    [faults, slot_faults]
);

/// Bincode, and with a time to live.
struct Bincode(RedisStore);

impl AsyncFixture for Bincode {
    const BACKEND: &'static str = "redis, bincode, ttl";
    async fn new() -> Self {
        let options = options().codec(Codec::Bincode).ttl(Duration::from_secs(3600));
        Self(options.open(&address(port())).await.unwrap())
    }
    fn memory(&self, id: &str) -> Arc<dyn AsyncChatMemory> {
        Arc::new(self.0.memory(id).unwrap())
    }
}

impl AsyncStoreFixture for Bincode {
    fn store(&self) -> Arc<dyn AsyncChatMemoryStore> {
        Arc::new(self.0.clone())
    }
}

memory_prompt::conformance_async!(
    #[ignore = "needs redis-server"]
    bincode: Bincode,
    [memory, store, ids, slots, times, media, moving, asynchronous, asynchronous_ids]
);

// ---- the laws of network backends ---------------------------------------------------------------

async fn many_turns_at_once_lose_and_mix_nothing() {
    let store = options().open(&address(port())).await.unwrap();
    turns::many_at_once(Arc::new(store)).await;
}

async fn a_server_that_is_killed_loses_nothing() {
    let (server, port) =
        server("redis-killed", &["--appendonly", "yes", "--appendfsync", "always"]);
    let store = options().open(&address(port)).await.unwrap();
    laws::a_server_that_is_killed_loses_nothing(Arc::new(store), &server, 10).await;
}

async fn soak() {
    let Some(time) = soak::time() else { return };
    let (server, port) = server("redis-soak", &["--appendonly", "yes", "--appendfsync", "always"]);
    let options = options().timeout(Duration::from_secs(2));
    let store = Arc::new(options.open(&address(port)).await.unwrap());
    let trouble = async |round| soak::kill_or_freeze(&[&server], round).await;
    // One is the store's, one is ours, and one may be on its way out.
    let connections = async || {
        let clients: String = ask(port, cmd("CLIENT").arg("LIST")).await;
        Some(clients.lines().count() as u64)
    };
    let most = soak::soak(store, trouble, time, connections).await;
    assert!(most <= 4, "{most} connections");
}

async fn the_last_ten_of_a_million_cost_what_they_cost_of_a_hundred() {
    let (_server, port) = server("redis-million", &[]);
    let store = options().open(&address(port)).await.unwrap();
    let shared = Arc::new(store.clone());
    laws::the_last_ten_of_a_million_cost_what_they_cost_of_a_hundred(shared).await;
    let log = store.memory("scale:large").unwrap().log_key();
    let bytes: u64 = ask(port, cmd("MEMORY").arg("USAGE").arg(log).arg("SAMPLES").arg(1000)).await;
    println!("1,000,000 messages take {} bytes each", bytes / 1_000_000);
}

async fn pins_and_recall_obey_what_is_forgotten() {
    let (_server, port) = server("redis-sending", &[]);
    let options = options();
    let store = Arc::new(options.clone().open(&address(port)).await.unwrap());
    let other = Arc::new(options.open(&address(port)).await.unwrap());
    sending::pins_and_recall_obey_what_is_forgotten(store, other).await;
}

crate::tests! { run:
    #[ignore = "needs redis-server"]
    many_turns_at_once_lose_and_mix_nothing,
    a_server_that_is_killed_loses_nothing,
    soak,
    the_last_ten_of_a_million_cost_what_they_cost_of_a_hundred,
    pins_and_recall_obey_what_is_forgotten;
}
