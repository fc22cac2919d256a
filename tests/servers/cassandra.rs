//! The contract on Apache Cassandra, and what can happen to it.
//!
//! The server is started from its jars, which Maven fetches:
//!
//! ```text
//! mvn -f tests/servers/cassandra/pom.xml dependency:copy-dependencies -DoutputDirectory=$PWD/target/cassandra
//! ```
//!
//! They are looked for there, or in the folder that `MEMORY_PROMPT_CASSANDRA_JARS` names; `java` is
//! looked for in the path.

mod content;
#[cfg(feature = "tracing")]
mod observed;
mod replicas;
mod server;
mod trouble;

use std::sync::atomic::{AtomicU64, Ordering};
use std::sync::{Arc, LazyLock, Mutex};
use std::time::Duration;

use memory_prompt::codec::Codec;
use memory_prompt::conformance::{
    Adapted, AsyncDamageFixture, AsyncFixture, AsyncSharedFixture, AsyncStoreFixture,
};
use memory_prompt::store::CassandraOptions;
use memory_prompt::store::cassandra::driver::client::session::Session;
use memory_prompt::store::cassandra::driver::client::session_builder::SessionBuilder;
use memory_prompt::{AsyncChatMemory, AsyncChatMemoryStore, CassandraStore};

use crate::laws::Failing;
use crate::sending;
use crate::tasks::block_on as wait;
use server::Node;

/// The server that most of the tests share.
static NODE: LazyLock<Node> = LazyLock::new(|| Node::start(""));

/// How long an answer may take where none is awaited in vain: all tests ask one machine.
const PATIENCE: Duration = Duration::from_secs(60);

// ---- the kit ------------------------------------------------------------------------------------

/// A keyspace that nobody else uses meanwhile. To create one takes seconds, so those that were used
/// are used again, after everything in them was deleted.
struct Keyspace(String);

static FREE: Mutex<Vec<String>> = Mutex::new(Vec::new());
static CREATED: AtomicU64 = AtomicU64::new(0);

impl Keyspace {
    async fn take(options: CassandraOptions) -> (Self, CassandraStore) {
        let free = FREE.lock().unwrap().pop();
        let name =
            free.unwrap_or_else(|| format!("kit_{}", CREATED.fetch_add(1, Ordering::Relaxed)));
        let options = options.keyspace(&name).timeout(PATIENCE);
        let store = options.open(&NODE.address).await.unwrap();
        for id in store.ids(None, usize::MAX).await.unwrap() {
            assert!(store.delete(&id).await.unwrap());
        }
        (Self(name), store)
    }
}

impl Drop for Keyspace {
    fn drop(&mut self) {
        FREE.lock().unwrap().push(std::mem::take(&mut self.0));
    }
}

struct Fixture {
    store: CassandraStore,
    /// The server's address and the name of the keyspace.
    address: String,
    /// None if another fixture has taken it.
    _keyspace: Option<Keyspace>,
}

impl AsyncFixture for Fixture {
    const BACKEND: &'static str = "cassandra";
    async fn new() -> Self {
        let (keyspace, store) = Keyspace::take(CassandraStore::options()).await;
        let address = format!("{}/{}", NODE.address, keyspace.0);
        Self { store, address, _keyspace: Some(keyspace) }
    }
    fn memory(&self, id: &str) -> Arc<dyn AsyncChatMemory> {
        Arc::new(self.store.memory(id).unwrap())
    }
}

impl AsyncStoreFixture for Fixture {
    fn store(&self) -> Arc<dyn AsyncChatMemoryStore> {
        Arc::new(self.store.clone())
    }
}

impl AsyncSharedFixture for Fixture {
    fn address(&self) -> String {
        self.address.clone()
    }
    async fn attach(address: &str) -> Self {
        let (server, keyspace) = address.split_once('/').unwrap();
        let options = CassandraStore::options().keyspace(keyspace).timeout(PATIENCE);
        let store = options.open(server).await.unwrap();
        Self { store, address: address.to_owned(), _keyspace: None }
    }
}

impl AsyncDamageFixture for Fixture {
    async fn damage(&self, id: &str, position: Option<u64>, payload: &[u8]) {
        let (server, keyspace) = self.address.split_once('/').unwrap();
        let session = session(server).await;
        let (column, position) = match position {
            Some(position) => ("payload", i64::try_from(position).unwrap()),
            None => ("system", i64::MAX),
        };
        // Under a condition, as every change of this table is.
        let update = format!(
            "UPDATE {keyspace}.conversation SET {column} = ? WHERE id = ? AND position = ? IF EXISTS"
        );
        session.query_unpaged(update, (payload, id, position)).await.unwrap();
    }
}

async fn session(server: &str) -> Session {
    let builder = SessionBuilder::new().known_node(server);
    builder.connection_timeout(PATIENCE).build().await.unwrap()
}

memory_prompt::conformance_async!(
    #[ignore = "needs Apache Cassandra"]
    kit: Fixture, [
        memory, store, shared, damage, asynchronous, ids, slots, times, media, moving, shared_slots,
        asynchronous_ids
    ]
);

memory_prompt::conformance!(
    #[ignore = "needs Apache Cassandra"]
    failing: Failing<Adapted<Fixture>>, [faults, slot_faults]
);

/// Bincode.
struct Compact(
    CassandraStore,
    #[allow(dead_code, reason = "is given back when it is dropped")] Keyspace,
);

impl AsyncFixture for Compact {
    const BACKEND: &'static str = "cassandra, bincode";
    async fn new() -> Self {
        let (keyspace, store) =
            Keyspace::take(CassandraStore::options().codec(Codec::Bincode)).await;
        Self(store, keyspace)
    }
    fn memory(&self, id: &str) -> Arc<dyn AsyncChatMemory> {
        Arc::new(self.0.memory(id).unwrap())
    }
}

memory_prompt::conformance_async!(
    #[ignore = "needs Apache Cassandra"]
    compact: Compact, [memory, ids, slots]
);

async fn pins_and_recall_obey_what_is_forgotten() {
    let fixture = Fixture::new().await;
    let other = Arc::new(Fixture::attach(&fixture.address()).await.store);
    let store = Arc::new(fixture.store.clone());
    sending::pins_and_recall_obey_what_is_forgotten(store, other).await;
}

crate::tests! { wait:
    #[ignore = "needs Apache Cassandra"]
    pins_and_recall_obey_what_is_forgotten;
}
