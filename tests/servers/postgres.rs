//! PostgreSQL: the contract, directly and through a pooler, and what can happen to a server.
//!
//! Needs what Debian's `postgresql` and `pgbouncer` install. Both refuse to run as root, so root
//! runs them as the user `postgres`.

mod beside;
mod edits;
mod given_up;
mod in_time;
mod media;
mod observed;
mod prepared;
mod restarted;
mod standby;
#[cfg(feature = "postgres-tls")]
mod tls;

use std::fs;
use std::net::{TcpListener, TcpStream};
use std::os::unix::fs::MetadataExt;
use std::path::{Path, PathBuf};
use std::process::{Command, Stdio};
use std::sync::atomic::{AtomicBool, AtomicU16, AtomicU64, Ordering};
use std::sync::{Arc, LazyLock};
use std::thread;
use std::time::{Duration, Instant, SystemTime};

use memory_prompt::codec::Codec;
use memory_prompt::conformance::{
    Adapted, AsyncDamageFixture, AsyncFixture, AsyncSharedFixture, AsyncStoreFixture,
};
use memory_prompt::memory::{Append, Expected, MemoryId};
use memory_prompt::store::postgres::driver::tokio_postgres::{self, Client, NoTls, Transaction};
use memory_prompt::store::postgres::driver::{Manager, Pool};
use memory_prompt::store::{PostgresMemory, PostgresOptions};
use memory_prompt::{
    AsyncChatMemory, AsyncChatMemoryExt, AsyncChatMemoryStore, ErrorKind, Message, PostgresStore,
    Result,
};

use crate::laws::{self, Failing, failed};
use crate::process::{Server, folder, free_port};
use crate::tasks::{begin, block_on, end};
use crate::way::{Fate, way};
use crate::{sending, soak, turns};

// ---- servers ------------------------------------------------------------------------------------

/// A server of a test's own.
struct Postgres {
    server: Server,
    folder: PathBuf,
    port: u16,
}

/// The newest PostgreSQL that Debian installed, or else the one that the shell finds.
static PROGRAMS: LazyLock<PathBuf> = LazyLock::new(|| {
    let versions = fs::read_dir("/usr/lib/postgresql").into_iter().flatten();
    let newest = versions.map(|version| version.unwrap().path().join("bin")).max();
    newest.unwrap_or_default()
});

fn root() -> bool {
    fs::metadata("/proc/self").unwrap().uid() == 0
}

/// The program, run by somebody who is not root.
fn command(program: impl AsRef<Path>) -> Command {
    if !root() {
        return Command::new(program.as_ref());
    }
    let mut command = Command::new("setpriv");
    command.args(["--reuid=postgres", "--regid=postgres", "--clear-groups", "--"]);
    command.arg(program.as_ref());
    command
}

fn run(mut command: Command) {
    let output = command.output().unwrap();
    assert!(output.status.success(), "{command:?}: {output:?}");
}

fn give_to_postgres(folder: &Path) {
    if root() {
        let mut chown = Command::new("chown");
        chown.arg("postgres:").arg(folder);
        run(chown);
    }
}

impl Postgres {
    fn start(name: &str) -> Self {
        let (folder, port) = (folder(name), free_port());
        give_to_postgres(&folder);
        let data = folder.join("data");
        let mut initdb = command(PROGRAMS.join("initdb"));
        initdb
            .args(["-A", "trust", "-U", "test", "-E", "UTF8", "--locale=C", "-N", "-D"])
            .arg(&data);
        run(initdb);
        Self::over(folder, port)
    }

    /// A server over the data in this folder.
    fn over(folder: PathBuf, port: u16) -> Self {
        let data = folder.join("data");
        let start = move || {
            let mut command = command(PROGRAMS.join("postgres"));
            command.arg("-D").arg(&data).args(["-p", &port.to_string()]);
            for setting in [
                "listen_addresses=127.0.0.1",
                "unix_socket_directories=",
                "max_connections=300",
                "max_wal_size=512MB",
            ] {
                command.args(["-c", setting]);
            }
            command
        };
        let ready = move || {
            let mut ready = Command::new(PROGRAMS.join("pg_isready"));
            ready.args(["-h", "127.0.0.1", "-p", &port.to_string()]).stdout(Stdio::null());
            ready.status().unwrap().success()
        };
        Self { server: Server::start(folder.clone(), start, ready), folder, port }
    }

    fn address(&self) -> String {
        address(self.port)
    }
}

fn address(port: u16) -> String {
    format!("postgres://test@127.0.0.1:{port}/postgres")
}

/// The shared one, with a default that is stricter than PostgreSQL's.
fn serializable() -> String {
    format!("{}?options=-c%20default_transaction_isolation%3Dserializable", SHARED.address())
}

/// The one that most tests share, each with a schema of its own.
static SHARED: LazyLock<Postgres> = LazyLock::new(|| Postgres::start("postgres"));

/// The shared one, for tests beside these.
#[cfg(feature = "sqlite")]
pub(crate) fn shared_address() -> String {
    SHARED.address()
}

/// The store of the clients on the server at this address.
#[cfg(feature = "sqlite")]
pub(crate) async fn store_of_clients(address: &str) -> PostgresStore {
    options("clients").open(address).await.unwrap()
}

/// A pooler in front of it, which gives each transaction another one of three connections.
static POOLER: LazyLock<(Server, u16)> = LazyLock::new(|| pooler("pgbouncer", SHARED.port));

fn pooler(name: &str, server: u16) -> (Server, u16) {
    pooler_with(Path::new(PGBOUNCER), name, server, None)
}

/// Debian's.
const PGBOUNCER: &str = "/usr/sbin/pgbouncer";

fn pgbouncer_version(program: &Path) -> (u32, u32) {
    let output = command(program).arg("-V").output().unwrap();
    let text = String::from_utf8(output.stdout).unwrap();
    let version = text.split_whitespace().nth(1).unwrap();
    let mut numbers = version.split('.').map(|number| number.parse().unwrap());
    (numbers.next().unwrap(), numbers.next().unwrap())
}

/// A pooler that keeps so many prepared statements, if it is to be told.
fn pooler_with(program: &Path, name: &str, server: u16, statements: Option<u32>) -> (Server, u16) {
    let program = program.to_owned();
    let statements =
        statements.map_or_else(String::new, |most| format!("max_prepared_statements = {most}\n"));
    let (folder, port) = (folder(name), free_port());
    give_to_postgres(&folder);
    let settings = folder.join("pgbouncer.ini");
    let text = format!(
        "[databases]\n\
         * = host=127.0.0.1 port={server} user=test\n\
         [pgbouncer]\n\
         listen_addr = 127.0.0.1\n\
         listen_port = {port}\n\
         unix_socket_dir =\n\
         auth_type = any\n\
         pool_mode = transaction\n\
         default_pool_size = 3\n\
         server_round_robin = 1\n\
         server_login_retry = 1\n\
         max_client_conn = 1000\n\
         {statements}"
    );
    fs::write(&settings, text).unwrap();
    let start = move || {
        let mut command = command(&program);
        command.arg(&settings);
        command
    };
    let ready = move || TcpStream::connect(("127.0.0.1", port)).is_ok();
    (Server::start(folder, start, ready), port)
}

/// Options for a store behind it: an old one knows no prepared statements.
fn pooled_options() -> PostgresOptions {
    options(&new_schema()).prepare(pgbouncer_version(Path::new(PGBOUNCER)) >= KNOWS)
}

/// The first pgbouncer that knows prepared statements.
const KNOWS: (u32, u32) = (1, 21);

/// A schema that no other test has, and whose name has to be quoted.
fn new_schema() -> String {
    format!("it's \"{}", MemoryId::random())
}

/// The machine may be busy with other tests.
fn options(schema: &str) -> PostgresOptions {
    PostgresStore::options().schema(schema).timeout(Duration::from_secs(120))
}

/// A store in a schema of its own.
async fn opened() -> (String, PostgresStore) {
    let schema = format!("s{}", MemoryId::random());
    let store = options(&schema).open(SHARED.address()).await.unwrap();
    (schema, store)
}

/// The conversations of a schema, locked by somebody else.
async fn locked<'a>(somebody: &'a mut Client, schema: &str) -> Transaction<'a> {
    let lock = somebody.transaction().await.unwrap();
    let select = format!("SELECT FROM \"{schema}\".conversation FOR UPDATE");
    lock.batch_execute(&select).await.unwrap();
    lock
}

/// Somebody else's connection.
async fn connect(address: &str) -> Client {
    let (client, connection) = tokio_postgres::connect(address, NoTls).await.unwrap();
    tokio::spawn(connection);
    client
}

fn texts(batch: &[Message]) -> Vec<String> {
    batch.iter().map(|message| message.text().into_owned()).collect()
}

async fn all_texts(memory: &dyn AsyncChatMemory) -> Vec<String> {
    memory.all().await.unwrap().messages().map(|message| message.text().into_owned()).collect()
}

// ---- the kit ------------------------------------------------------------------------------------

/// A schema on the shared server, with everything as it comes.
struct Direct {
    store: PostgresStore,
    schema: String,
    port: u16,
}

impl Direct {
    async fn at(port: u16, schema: String) -> Self {
        Self { store: options(&schema).open(address(port)).await.unwrap(), schema, port }
    }
}

impl AsyncFixture for Direct {
    const BACKEND: &'static str = "postgres";
    async fn new() -> Self {
        Self::at(SHARED.port, new_schema()).await
    }
    fn memory(&self, id: &str) -> Arc<dyn AsyncChatMemory> {
        Arc::new(self.store.memory(id).unwrap())
    }
}

impl AsyncStoreFixture for Direct {
    fn store(&self) -> Arc<dyn AsyncChatMemoryStore> {
        Arc::new(self.store.clone())
    }
}

impl AsyncSharedFixture for Direct {
    fn address(&self) -> String {
        format!("{} {}", self.port, self.schema)
    }
    async fn attach(address: &str) -> Self {
        let (port, schema) = address.split_once(' ').unwrap();
        Self::at(port.parse().unwrap(), schema.to_owned()).await
    }
}

impl AsyncDamageFixture for Direct {
    async fn damage(&self, id: &str, position: Option<u64>, payload: &[u8]) {
        let schema = self.schema.replace('"', "\"\"");
        let update = format!(
            "UPDATE \"{schema}\".message SET payload = $1 WHERE position = $2 AND conversation =
             (SELECT key FROM \"{schema}\".conversation WHERE id = $3)"
        );
        let position = position.map_or(-1, |position| i64::try_from(position).unwrap());
        let somebody = connect(&address(self.port)).await;
        let changed = somebody.execute(&update, &[&payload, &position, &id.as_bytes()]).await;
        assert_eq!(changed.unwrap(), 1);
    }
}

memory_prompt::conformance_async!(
    #[ignore = "needs PostgreSQL"] direct: Direct, [
        memory, store, ids, slots, times, media, moving, shared, shared_slots, damage, asynchronous,
        asynchronous_ids
    ]
);
memory_prompt::conformance!(
    #[ignore = "needs PostgreSQL"] failing: Failing<Adapted<Direct>>, [faults, slot_faults]
);

/// Bincode, in a pool of the caller's.
struct Bincode(PostgresStore);

impl AsyncFixture for Bincode {
    const BACKEND: &'static str = "postgres, bincode";
    async fn new() -> Self {
        let manager = Manager::new(SHARED.address().parse().unwrap(), NoTls);
        let pool = Pool::builder(manager).build().unwrap();
        Self(options(&new_schema()).codec(Codec::Bincode).over(pool).await.unwrap())
    }
    fn memory(&self, id: &str) -> Arc<dyn AsyncChatMemory> {
        Arc::new(self.0.memory(id).unwrap())
    }
}

memory_prompt::conformance_async!(#[ignore = "needs PostgreSQL"] bincode: Bincode, [memory, ids, slots, times, media]);

/// Through the pooler.
struct Pooled(PostgresStore);

impl AsyncFixture for Pooled {
    const BACKEND: &'static str = "postgres, through pgbouncer";
    async fn new() -> Self {
        Self(pooled_options().open(address(POOLER.1)).await.unwrap())
    }
    fn memory(&self, id: &str) -> Arc<dyn AsyncChatMemory> {
        Arc::new(self.0.memory(id).unwrap())
    }
}

impl AsyncStoreFixture for Pooled {
    fn store(&self) -> Arc<dyn AsyncChatMemoryStore> {
        Arc::new(self.0.clone())
    }
}

memory_prompt::conformance_async!(
    #[ignore = "needs PostgreSQL and pgbouncer"] pooled: Pooled, [
        memory, store, ids, slots, times, media, moving, asynchronous, asynchronous_ids
    ]
);

/// Partitioned tables that somebody else made, and a role that may not make any: it has the rights
/// that the documentation lists, and no others.
struct Partitioned(PostgresStore);

impl AsyncFixture for Partitioned {
    const BACKEND: &'static str = "postgres, partitioned";
    async fn new() -> Self {
        let schema = format!("partitioned {}", MemoryId::random());
        let options = options(&schema).prefix("chat_");
        let sql = options.sql().unwrap();
        let partitioned = sql.replace(
            "PRIMARY KEY (conversation, position)\n)",
            "PRIMARY KEY (conversation, position)\n) PARTITION BY HASH (conversation)",
        );
        assert_ne!(sql, partitioned);
        let admin = connect(&SHARED.address()).await;
        admin.batch_execute(&partitioned).await.unwrap();
        for part in 0..4 {
            let create = format!(
                "CREATE TABLE \"{schema}\".part_{part} PARTITION OF \"{schema}\".chat_message
                 FOR VALUES WITH (MODULUS 4, REMAINDER {part})"
            );
            admin.batch_execute(&create).await.unwrap();
        }
        let role = format!("role {}", MemoryId::random());
        let grant = format!(
            "CREATE ROLE \"{role}\" LOGIN;
             GRANT USAGE ON SCHEMA \"{schema}\" TO \"{role}\";
             GRANT SELECT ON \"{schema}\".chat_memory_prompt TO \"{role}\";
             GRANT SELECT, INSERT, UPDATE, DELETE ON \"{schema}\".chat_conversation,
             \"{schema}\".chat_message, \"{schema}\".chat_slot, \"{schema}\".chat_append,
             \"{schema}\".chat_media TO \"{role}\""
        );
        admin.batch_execute(&grant).await.unwrap();
        let role = role.replace(' ', "%20");
        let address = format!("postgres://{role}@127.0.0.1:{}/postgres", SHARED.port);
        Self(options.open(address).await.unwrap())
    }
    fn memory(&self, id: &str) -> Arc<dyn AsyncChatMemory> {
        Arc::new(self.0.memory(id).unwrap())
    }
}

impl AsyncStoreFixture for Partitioned {
    fn store(&self) -> Arc<dyn AsyncChatMemoryStore> {
        Arc::new(self.0.clone())
    }
}

memory_prompt::conformance_async!(
    #[ignore = "needs PostgreSQL"] partitioned: Partitioned, [
        store, ids, slots, media, moving, asynchronous, asynchronous_ids
    ]
);

// ---- servers that die ---------------------------------------------------------------------------

async fn a_server_that_is_killed_loses_nothing() {
    let postgres = Postgres::start("postgres-killed");
    let store = Arc::new(PostgresStore::open(postgres.address()).await.unwrap());
    laws::a_server_that_is_killed_loses_nothing(store, &postgres.server, 6).await;
}

async fn soak() {
    const CONNECTIONS: u8 = 5;
    let Some(time) = soak::time() else { return };
    let postgres = Postgres::start("postgres-soak");
    let address = format!("{}?application_name=soak", postgres.address());
    let options = PostgresStore::options().timeout(Duration::from_secs(2));
    let options = options.max_connections(CONNECTIONS.into());
    let store = options.open(address).await.unwrap();
    let connections = async || {
        let asked = async {
            let asks = tokio_postgres::connect(&postgres.address(), NoTls).await;
            let (client, connection) = asks.ok()?;
            tokio::spawn(connection);
            let count = "SELECT count(*) FROM pg_stat_activity WHERE application_name = 'soak'";
            let count: i64 = client.query_one(count, &[]).await.ok()?.get(0);
            u64::try_from(count).ok()
        };
        tokio::time::timeout(Duration::from_secs(5), asked).await.ok()?
    };
    let trouble = async |round| soak::kill_or_freeze(&[&postgres.server], round).await;
    let most = soak::soak(Arc::new(store), trouble, time, connections).await;
    assert!((1..=CONNECTIONS.into()).contains(&most), "{most} connections");
}

async fn a_server_behind_a_pooler_that_is_killed_loses_nothing() {
    let postgres = Postgres::start("postgres-killed-pooled");
    let (_pooler, port) = pooler("pgbouncer-killed", postgres.port);
    let options = pooled_options().schema("memory_prompt").timeout(Duration::from_secs(10));
    let store = Arc::new(options.open(address(port)).await.unwrap());
    laws::a_server_that_is_killed_loses_nothing(store, &postgres.server, 3).await;
}

async fn many_turns_at_once_lose_and_mix_nothing() {
    let store = options(&new_schema()).open(SHARED.address()).await.unwrap();
    turns::many_at_once(Arc::new(store)).await;
}

/// Appends until it is told to stop, and reads in between if it is to. No append is refused, and
/// what is acknowledged is there; returns how many were.
async fn append_all_the_while(
    memory: PostgresMemory,
    reads: bool,
    stop: Arc<AtomicBool>,
    lost: Arc<AtomicU64>,
) -> usize {
    let mut acknowledged = Vec::new();
    for number in 0_u64.. {
        if stop.load(Ordering::Relaxed) {
            break;
        }
        let batch = (0..3).map(|k| Message::user(format!("{number} {k}")));
        match memory.add_all(batch).await {
            Ok(_) => acknowledged.push(number),
            Err(error) => {
                assert_eq!(error.kind(), ErrorKind::Unacknowledged, "{error}");
                lost.fetch_add(1, Ordering::Relaxed);
            }
        }
        if reads {
            memory.read(None, 10).await.unwrap();
        }
    }
    let there = laws::numbers(&memory).await;
    assert!(acknowledged.iter().all(|number| there.contains(number)));
    acknowledged.len()
}

/// An append whose session is ended by an administrator is unacknowledged at worst, and the next
/// one takes another connection.
async fn a_store_goes_on_when_its_sessions_are_ended() {
    let (schema, store) = opened().await;
    let (stop, lost) = (Arc::new(AtomicBool::new(false)), Arc::new(AtomicU64::new(0)));
    let writers = begin(4, |i| {
        let memory = store.memory(format!("writer {i}")).unwrap();
        append_all_the_while(memory, false, Arc::clone(&stop), Arc::clone(&lost))
    });
    let admin = connect(&SHARED.address()).await;
    let terminate = format!(
        "SELECT count(pg_terminate_backend(pid)) FROM pg_stat_activity
         WHERE query LIKE '%{schema}%' AND pid <> pg_backend_pid()"
    );
    let mut times = 0;
    // Until somebody was met on the way.
    while times < 40 || (lost.load(Ordering::Relaxed) == 0 && times < 1_000) {
        tokio::time::sleep(Duration::from_millis(50)).await;
        admin.batch_execute(&terminate).await.unwrap();
        times += 1;
    }
    stop.store(true, Ordering::Relaxed);
    let all: usize = end(writers).await.iter().sum();
    let lost = lost.load(Ordering::Relaxed);
    println!("{all} batches acknowledged, {lost} not");
    assert!(all > 0 && lost > 0, "{all} {lost}");
}

/// Connections that died while nobody used them are replaced before anything is sent.
async fn a_restart_while_nothing_was_asked_goes_unnoticed() {
    let postgres = Postgres::start("postgres-restarted");
    let memory = PostgresStore::open(postgres.address()).await.unwrap().memory("a").unwrap();
    for round in 0..3 {
        memory.add(Message::user("before")).await.unwrap();
        tokio::task::block_in_place(|| {
            postgres.server.kill();
            postgres.server.restart();
            thread::sleep(Duration::from_secs(1)); // the client has seen that
        });
        assert_eq!(memory.add(Message::user("after")).await.unwrap(), 2 * round + 1);
    }
}

/// A server that accepts and says nothing is an error when the time is up, and nothing waits for
/// its answer afterwards.
async fn a_server_that_never_answers_is_an_error_in_time() {
    let silent = TcpListener::bind("127.0.0.1:0").unwrap();
    let postgres = Postgres::start("postgres-frozen");
    let time = Duration::from_secs(5);
    let options = PostgresStore::options().connect_timeout(time).timeout(time);
    let began = Instant::now();
    let opened = options.clone().open(address(silent.local_addr().unwrap().port())).await;
    failed(
        &opened.unwrap_err(),
        "open: postgres: no connection within 5s: the server does not answer, or all 10 \
         connections are in use",
    );
    assert!(began.elapsed() < 3 * time);

    let memory = options.open(postgres.address()).await.unwrap().memory("a").unwrap();
    memory.add(Message::user("before")).await.unwrap();
    postgres.server.freeze();
    let began = Instant::now();
    let error = memory.read(None, 10).await.unwrap_err();
    failed(&error, "read: postgres: the server did not answer within 5s");
    postgres.server.thaw();
    memory.add(Message::user("between")).await.unwrap();
    postgres.server.freeze();
    let mut batch = vec![Message::user("unknown")];
    let error = memory.append(&mut batch, None).await.unwrap_err();
    assert_eq!(error.kind(), ErrorKind::Unacknowledged);
    let expected = "append: postgres: outcome unknown: the server did not answer within 5s";
    assert_eq!(error.to_string(), expected);
    assert_eq!(texts(&batch), ["unknown"]);
    assert!(began.elapsed() < 6 * time);
    postgres.server.thaw();
    memory.add(Message::user("after")).await.unwrap();
    let mut there = all_texts(&memory).await;
    there.retain(|text| text != "unknown");
    assert_eq!(there, ["before", "between", "after"]);
}

/// What waits for somebody else's lock is not done when the time is up, and keeps no connection.
async fn an_append_that_waits_too_long_keeps_no_connection() {
    let schema = format!("s{}", MemoryId::random());
    let options = options(&schema).max_connections(1).timeout(Duration::from_secs(15));
    // They wait at once, each for a conversation of its own, over a connection of its own.
    let open = async |id: &str| {
        let store = options.clone().open(SHARED.address()).await.unwrap();
        let memory = store.memory(id).unwrap();
        memory.add(Message::user("before")).await.unwrap();
        (store, memory)
    };
    let [(_, appends), (_, writes), (_, evicts), (_, clears), (store, deletes)] =
        [open("a").await, open("b").await, open("c").await, open("d").await, open("e").await];

    let mut somebody = connect(&SHARED.address()).await;
    let lock = locked(&mut somebody, &schema).await;
    let (append, slot, evict, clear, delete) = tokio::join!(
        appends.add(Message::user("waits")),
        writes.set_slot("a", "x", Expected::Any),
        evicts.evict(1),
        clears.clear(),
        store.delete(deletes.id())
    );
    for error in [append.err(), slot.err(), evict.err(), clear.err(), delete.err()] {
        let error = error.unwrap();
        assert_eq!(error.kind(), ErrorKind::Storage, "{error}");
        let expected = ": postgres: another transaction held a lock for too long";
        assert!(error.to_string().ends_with(expected), "{error}");
    }
    for memory in [&appends, &writes, &evicts, &clears, &deletes] {
        assert_eq!(all_texts(memory).await, ["before"], "there is a connection for this");
    }
    // By the caller's own clock.
    let append = appends.add(Message::user("waits"));
    tokio::time::timeout(Duration::from_millis(100), append).await.unwrap_err();
    assert_eq!(all_texts(&appends).await, ["before"], "there is a connection for this");
    lock.rollback().await.unwrap();
    appends.add(Message::user("after")).await.unwrap();
}

// ---- servers that refuse ------------------------------------------------------------------------

/// A disk of 16 MB for the tables of one store.
struct SmallDisk(PathBuf);

impl Drop for SmallDisk {
    fn drop(&mut self) {
        let _ = Command::new("umount").arg("--lazy").arg(&self.0).status();
    }
}

async fn a_full_disk_is_an_error_and_loses_nothing() {
    let postgres = Postgres::start("postgres-full");
    let disk = SmallDisk(postgres.folder.join("disk"));
    fs::create_dir(&disk.0).unwrap();
    let mut mount = Command::new("mount");
    mount.args(["-t", "tmpfs", "-o", "size=16m", "none"]).arg(&disk.0);
    let mounted = mount.output().unwrap();
    if !mounted.status.success() {
        println!("not tested: nobody may mount a small disk here: {mounted:?}");
        return;
    }
    give_to_postgres(&disk.0);
    let admin = connect(&postgres.address()).await;
    let create = format!("CREATE TABLESPACE small LOCATION '{}'", disk.0.display());
    admin.batch_execute(&create).await.unwrap();
    admin.batch_execute("ALTER ROLE test SET default_tablespace = small").await.unwrap();
    let admin = connect(&postgres.address()).await;
    let other = "CREATE TABLE other AS SELECT repeat('x', 1000) FROM generate_series(1, 2000)";
    admin.batch_execute(other).await.unwrap();
    let memory = PostgresStore::open(postgres.address()).await.unwrap().memory("a").unwrap();
    // Noise, which can't be compressed.
    let text = |number: u64| {
        let random = || MemoryId::random().to_string();
        format!("{number} {}", (0..10_000).map(|_| random()).collect::<String>())
    };
    let mut written = Vec::new();
    let (batch, error) = loop {
        let number = written.len() as u64;
        let mut batch = vec![Message::user(text(number)), Message::user(text(number))];
        let sent = texts(&batch);
        match memory.append(&mut batch, None).await {
            Ok(_) => written.extend(sent),
            Err(error) => break (batch, error),
        }
    };
    failed(&error, "append: postgres: the disk is full");
    assert_eq!(batch.len(), 2);
    assert!(written.len() > 10, "{}", written.len());
    assert_eq!(all_texts(&memory).await, written);
    // There is room again.
    admin.batch_execute("DROP TABLE other; CHECKPOINT").await.unwrap();
    memory.add(Message::user("after")).await.unwrap();
    assert_eq!(memory.next_position().await.unwrap(), written.len() as u64 + 1);
}

async fn a_read_only_database_can_be_read() {
    let fixture = Direct::new().await;
    fixture.store.memory("a").unwrap().add(Message::user("hi")).await.unwrap();
    let address = format!("{}?options=-c%20default_transaction_read_only%3Don", SHARED.address());
    let store = options(&fixture.schema).open(&address).await.unwrap();
    let memory = store.memory("a").unwrap();
    let mut batch = vec![Message::user("more")];
    let error = memory.append(&mut batch, None).await.unwrap_err();
    failed(&error, "append: postgres: the database is read-only");
    assert_eq!(batch.len(), 1);
    for error in [
        memory.evict(1).await.unwrap_err(),
        memory.clear().await.unwrap_err(),
        store.delete(&"a".into()).await.unwrap_err(),
        store.purge_inactive(SystemTime::now()).await.unwrap_err(),
    ] {
        assert!(error.to_string().ends_with(": postgres: the database is read-only"), "{error}");
    }
    assert_eq!(all_texts(&memory).await, ["hi"]);
}

async fn tables_of_a_later_version_are_refused_and_left_alone() {
    let (schema, store) = opened().await;
    store.memory("a").unwrap().add(Message::user("hi")).await.unwrap();
    let admin = connect(&SHARED.address()).await;
    let later = format!("UPDATE \"{schema}\".memory_prompt SET version = 2");
    admin.batch_execute(&later).await.unwrap();
    let error = options(&schema).open(SHARED.address()).await.unwrap_err();
    failed(
        &error,
        "open: postgres: the tables are of version 2, and this program knows versions up to 1",
    );
    let version = format!("SELECT version FROM \"{schema}\".memory_prompt");
    assert_eq!(admin.query_one(&version, &[]).await.unwrap().get::<_, i32>(0), 2);
}

async fn tables_of_something_else_are_refused_and_left_alone() {
    let schema = format!("s{}", MemoryId::random());
    let admin = connect(&SHARED.address()).await;
    let create =
        format!("CREATE SCHEMA \"{schema}\"; CREATE TABLE \"{schema}\".message (mine text)");
    admin.batch_execute(&create).await.unwrap();
    let error = options(&schema).open(SHARED.address()).await.unwrap_err();
    failed(
        &error,
        &format!(
            "open: postgres: there are other tables of the names of these in the schema \
             \"{schema}\"; choose another schema or prefix"
        ),
    );
    let count = format!("SELECT count(*) FROM pg_tables WHERE schemaname = '{schema}'");
    assert_eq!(admin.query_one(&count, &[]).await.unwrap().get::<_, i64>(0), 1);
    // With a prefix both have room.
    let store = options(&schema).prefix("chat_").open(SHARED.address()).await.unwrap();
    store.memory("a").unwrap().add(Message::user("hi")).await.unwrap();
}

async fn who_may_not_create_tables_is_told_so() {
    let role = format!("r{}", MemoryId::random().as_str().replace('-', ""));
    let admin = connect(&SHARED.address()).await;
    admin.batch_execute(&format!("CREATE ROLE {role} LOGIN")).await.unwrap();
    let address = format!("postgres://{role}@127.0.0.1:{}/postgres", SHARED.port);
    let error = options(&new_schema()).open(&address).await.unwrap_err();
    failed(&error, "open: postgres: permission denied for database postgres (42501)");
}

async fn whoever_the_server_does_not_let_in_is_told_why() {
    let nobody = format!("postgres://nobody:secret@127.0.0.1:{}/postgres", SHARED.port);
    let error = PostgresStore::open(nobody).await.unwrap_err();
    let expected = "open: postgres: no connection: role \"nobody\" does not exist (28000)";
    assert_eq!(error.to_string(), expected);
    let nowhere = format!("postgres://test:secret@127.0.0.1:{}/nowhere", SHARED.port);
    let error = PostgresStore::open(nowhere).await.unwrap_err();
    let expected = "open: postgres: no connection: database \"nowhere\" does not exist (3D000)";
    assert_eq!(error.to_string(), expected);
    let nothing = format!("postgres://test:secret@127.0.0.1:{}/postgres", free_port());
    let error = PostgresStore::open(nothing).await.unwrap_err();
    assert_eq!(error.kind(), ErrorKind::Storage);
    let text = error.to_string();
    assert!(text.starts_with("open: postgres: no connection: error connecting to"), "{text}");
    assert!(text.contains("Connection refused"), "{text}");
    assert!(!format!("{error:?}").contains("secret"));
    let tls = format!("{}?sslmode=require", SHARED.address());
    let error = PostgresStore::open(tls).await.unwrap_err();
    let said = if cfg!(feature = "postgres-tls") {
        "open: postgres: no connection: error performing TLS handshake: server does not support TLS"
    } else {
        "open: postgres: the address asks for TLS, which needs the feature `postgres-tls`"
    };
    assert_eq!(error.to_string(), said);
}

#[test]
fn an_address_that_makes_no_sense_is_refused() {
    block_on(async {
        for (address, problem) in [
            ("", "the address names no host"),
            ("postgres://", "the address names no host"),
            ("postgres:///chat", "the address names no host"),
            ("mysql://app:secret@db/chat", "an address begins with postgres://"),
            (
                "postgres://app:secret@db:port/chat",
                "the address can't be read: invalid connection string: invalid value for option `port`",
            ),
            (
                "postgres://app:secret@db/chat?colour=red",
                "the address can't be read: invalid connection string: unknown option `colour`",
            ),
            ("postgres://app:sec@ret@db/chat", "write an @ in a name or a password as %40"),
            ("postgres://app:sec@ret/word@db/chat", "write an @ in a name or a password as %40"),
            ("postgres://app:se?c@ret@db/chat", "write an @ in a name or a password as %40"),
            (
                "postgres://app@db:port/my%40chat",
                "the address can't be read: invalid connection string: invalid value for option `port`",
            ),
        ] {
            let error = PostgresStore::open(address).await.unwrap_err();
            assert_eq!(error.kind(), ErrorKind::Invalid, "{address}");
            assert_eq!(error.to_string(), format!("open: postgres: {problem}"), "{address}");
            assert!(!format!("{error:?}").contains("secret"), "{address}");
        }
    });
    let refused = |schema: &str, prefix: &str| {
        PostgresStore::options().schema(schema).prefix(prefix).sql().unwrap_err().to_string()
    };
    assert_eq!(refused("", ""), "open: postgres: a schema has a name");
    assert_eq!(refused("a\0b", ""), "open: postgres: a name holds no NUL");
    let long = "open: postgres: the names of tables and schemas are 63 bytes long at most";
    assert_eq!(refused(&"s".repeat(64), ""), long);
    assert_eq!(refused("s", &"p".repeat(51)), long);
    assert!(PostgresStore::options().schema("s".repeat(63)).prefix("p".repeat(50)).sql().is_ok());
}

async fn debug_output_shows_the_place_and_no_password() {
    let address = format!("postgres://test:secret@127.0.0.1:{}/postgres", SHARED.port);
    let store = options("debug").open(&address).await.unwrap();
    let place = format!("\"127.0.0.1:{}/postgres\"", SHARED.port);
    assert_eq!(format!("{store:?}"), format!("PostgresStore {{ place: {place}, codec: Json }}"));
    let memory = store.memory("a").unwrap();
    memory.add(Message::user("hush")).await.unwrap();
    let shown = format!("PostgresMemory {{ id: \"a\", place: {place}, .. }}");
    assert_eq!(format!("{memory:?}"), shown);
    assert!(!format!("{:?}", options("debug")).contains("secret"));
}

// ---- beside others ------------------------------------------------------------------------------

async fn stores_that_are_opened_at_once_create_the_tables_once() {
    for _ in 0..5 {
        let schema = new_schema();
        let opened = begin(8, |i| {
            let options = options(&schema);
            let address = if i % 2 == 0 { SHARED.address() } else { serializable() };
            async move {
                let store = options.open(address).await.unwrap();
                store.memory("a").unwrap().add(Message::user(i.to_string())).await.unwrap()
            }
        });
        let mut positions = end(opened).await;
        positions.sort_unstable();
        assert!(positions.into_iter().eq(0..8));
    }
}

/// Under a stricter isolation the server gives up whoever comes second, so each change says which
/// isolation it wants.
async fn writers_lose_nothing_whatever_the_isolation() {
    let store = options(&new_schema()).open(serializable()).await.unwrap();
    let writers = begin(8, |writer| {
        let memory = store.memory("a").unwrap();
        async move {
            for number in 0..20 {
                let batch = (0..3).map(|k| Message::user(format!("{writer} {number} {k}")));
                memory.add_all(batch).await.unwrap();
                if number % 5 == 0 {
                    memory.evict(3).await.unwrap();
                }
            }
        }
    });
    end(writers).await;
    let memory = store.memory("a").unwrap();
    assert!(memory.all().await.unwrap().iter().map(|record| record.position()).eq(3..8 * 20 * 3));
}

/// Whoever evicts, clears or deletes everything takes what was appended until it got its turn, and
/// leaves nothing behind.
async fn forgetting_leaves_nothing_behind_while_others_append() {
    let (schema, store) = opened().await;
    let memory = store.memory("a").unwrap();
    let stop = Arc::new(AtomicBool::new(false));
    let writers = begin(3, |_| {
        let (memory, stop) = (store.memory("a").unwrap(), Arc::clone(&stop));
        async move {
            while !stop.load(Ordering::Relaxed) {
                let batch = [Message::user("a"), media::with_picture(1)];
                memory.add_all(batch).await.unwrap();
            }
        }
    });
    let admin = connect(&SHARED.address()).await;
    // Nothing is there that the conversation does not hold, and all that it holds.
    let astray = format!(
        "SELECT (SELECT count(*) FROM \"{schema}\".message m
                 WHERE NOT EXISTS (SELECT FROM \"{schema}\".conversation c
                 WHERE c.key = m.conversation AND m.position >= c.start AND m.position < c.\"end\"))
              + (SELECT coalesce(sum(\"end\" - start), 0)::bigint FROM \"{schema}\".conversation)
              - (SELECT count(*) FROM \"{schema}\".message)
              + (SELECT count(*) FROM \"{schema}\".media m
                 WHERE NOT EXISTS (SELECT FROM \"{schema}\".conversation c
                 WHERE c.key = m.conversation AND m.last >= c.start AND m.last < c.\"end\"))"
    );
    let tomorrow = SystemTime::now() + Duration::from_secs(86400);
    for round in 0..200 {
        match round % 4 {
            0 => drop(memory.evict(u64::MAX).await.unwrap()),
            1 => memory.clear().await.unwrap(),
            2 => drop(store.delete(&"a".into()).await.unwrap()),
            _ => drop(store.purge_inactive(tomorrow).await.unwrap()),
        }
        assert_eq!(admin.query_one(&astray, &[]).await.unwrap().get::<_, i64>(0), 0);
    }
    stop.store(true, Ordering::Relaxed);
    end(writers).await;
}

async fn people_can_read_the_view() {
    let (schema, store) = opened().await;
    let id = "unterstützung:u1001:c2002";
    let memory = store.memory(id).unwrap();
    memory.add_all([Message::system("Be brief."), Message::user("hällo")]).await.unwrap();
    let bincode = options(&schema).codec(Codec::Bincode).open(SHARED.address()).await.unwrap();
    bincode.memory(id).unwrap().add(Message::ai("hi")).await.unwrap();
    store.memory("a\0b").unwrap().add(Message::user("nul")).await.unwrap();
    let admin = connect(&SHARED.address()).await;
    let select = format!(
        "SELECT id, position, payload #>> '{{message,role}}', payload #>> '{{message,content}}',
                abs(extract(epoch FROM now() - at)) < 600
         FROM \"{schema}\".history
         WHERE key = encode(substr(sha256('{id}'), 1, 16), 'hex')::uuid ORDER BY position"
    );
    let rows = admin.query(&select, &[]).await.unwrap();
    let row = |i: usize| {
        let row = &rows[i];
        assert_eq!(row.get::<_, &str>(0), id);
        assert!(row.get::<_, bool>(4));
        (row.get(1), row.get(2), row.get(3))
    };
    assert_eq!(row(0), (-1_i64, Some("system"), Some("Be brief.")));
    assert_eq!(row(1), (0, Some("user"), Some("hällo")));
    assert_eq!(row(2), (1, None, None));
    assert_eq!(rows.len(), 3);
    let select = format!("SELECT id FROM \"{schema}\".history WHERE payload::text LIKE '%nul%'");
    assert_eq!(admin.query_one(&select, &[]).await.unwrap().get::<_, &str>(0), "a\\000b");
}

/// What stands between a store and a server.
struct Between {
    port: u16,
    /// How often the store asked and waited for an answer.
    turns: Arc<AtomicU64>,
    /// Connections of before say nothing any more, as where a firewall forgot them.
    forgotten: Arc<AtomicU64>,
    /// Where connections lead to that are made from now on.
    server: Arc<AtomicU16>,
}

impl Between {
    fn before(server: u16) -> Self {
        let server = Arc::new(AtomicU16::new(server));
        let (turns, forgotten) = (Arc::<AtomicU64>::default(), Arc::<AtomicU64>::default());
        let (to, asked, lost) = (Arc::clone(&server), Arc::clone(&turns), Arc::clone(&forgotten));
        let port = way(
            move || to.load(Ordering::SeqCst),
            move |it| {
                if it.connection <= lost.load(Ordering::SeqCst) {
                    return Fate::IsLost;
                }
                asked.fetch_add(u64::from(it.is_asked && it.is_turn), Ordering::SeqCst);
                Fate::Arrives
            },
        );
        Self { port, turns, forgotten, server }
    }

    async fn turns_of<T>(&self, work: impl Future<Output = Result<T>>) -> u64 {
        let before = self.turns.load(Ordering::SeqCst);
        work.await.unwrap();
        self.turns.load(Ordering::SeqCst) - before
    }
}

/// Whether these operations ask so many questions. What is sent in pieces may be answered in
/// between, and a busy machine makes that look like two questions; a question that is really asked
/// is asked each time. So the fewest of many tries count.
async fn takes<const N: usize>(turns: [u64; N], of_all: impl AsyncFn(usize) -> [u64; N]) {
    let mut fewest = [u64::MAX; N];
    for number in 0..50 {
        let found = of_all(number).await;
        fewest = std::array::from_fn(|place| fewest[place].min(found[place]));
        if fewest == turns {
            return println!("so few questions at try {number}");
        }
    }
    assert_eq!(fewest, turns);
}

/// A connection that a firewall forgot was found out by a request that got no answer. To ask each
/// of them first cost a quarter of the time for a connection: with ten of them there was none left
/// for a new one, and again for the next caller. Now one that idled is replaced.
async fn connections_that_a_firewall_forgot_are_replaced() {
    let between = Between::before(SHARED.port);
    let (most, patience) = (10, Duration::from_secs(8));
    let options = options(&new_schema()).max_connections(most).connect_timeout(patience);
    let store = options.open(address(between.port)).await.unwrap();
    let memory = store.memory("a").unwrap();
    memory.add(Message::user("before")).await.unwrap();
    // As many at once as it takes until there are ten connections.
    while store.figures().connections < most {
        let reads = begin(20, |_| {
            let memory = memory.clone();
            async move { memory.read(None, 10).await.map(drop).unwrap() }
        });
        end(reads).await;
    }
    between.forgotten.store(u64::try_from(most).unwrap(), Ordering::SeqCst);
    tokio::time::sleep(Duration::from_millis(30_100)).await;
    let began = Instant::now();
    memory.add(Message::user("after")).await.unwrap();
    let took = began.elapsed();
    println!("after {most} connections that were forgotten it went on within {took:?}");
    assert!(took < patience, "{took:?}");
    assert_eq!(all_texts(&memory).await, ["before", "after"]);
}

async fn an_operation_is_one_round_trip() {
    let between = Between::before(SHARED.port);
    let schema = new_schema();
    options(&schema).open(SHARED.address()).await.unwrap();
    let options = options(&schema).max_connections(1);
    let store = options.open(address(between.port)).await.unwrap();
    let of_all = async |number: usize| {
        let id = MemoryId::from(format!("a{number}"));
        let memory = store.memory(id.clone()).unwrap();
        let batch = || ["a", "b", "c"].map(Message::user);
        [
            between.turns_of(memory.add_all(batch())).await,
            between.turns_of(memory.add_all(batch())).await,
            between.turns_of(memory.append(&mut batch().into(), Some(6))).await,
            between.turns_of(memory.read(None, 10)).await,
            between.turns_of(memory.evict(2)).await,
            between.turns_of(memory.clear()).await,
            between.turns_of(store.ids(None, 10)).await,
            between.turns_of(store.delete(&id)).await,
        ]
    };
    takes([1; 8], of_all).await;
}

async fn the_last_ten_of_a_million_cost_what_they_cost_of_a_hundred() {
    let postgres = Postgres::start("postgres-million");
    let store = PostgresStore::open(postgres.address()).await.unwrap();
    let law = laws::the_last_ten_of_a_million_cost_what_they_cost_of_a_hundred;
    law(Arc::new(store)).await;
    let admin = connect(&postgres.address()).await;
    let size = "SELECT avg(octet_length(payload))::float8,
                pg_table_size('memory_prompt.message') / count(*)::float8,
                pg_indexes_size('memory_prompt.message') / count(*)::float8
                FROM memory_prompt.message";
    let size = admin.query_one(size, &[]).await.unwrap();
    let [payload, row, index] = [0, 1, 2].map(|i| size.get::<_, f64>(i));
    println!("bytes a message: {payload:.0} payload, {row:.0} row, {index:.0} index");
    assert!(row + index < payload + 160.0, "{payload} {row} {index}");
}

async fn pins_and_recall_obey_what_is_forgotten() {
    let postgres = Postgres::start("postgres-sending");
    let store = Arc::new(PostgresStore::open(postgres.address()).await.unwrap());
    let other = Arc::new(PostgresStore::open(postgres.address()).await.unwrap());
    sending::pins_and_recall_obey_what_is_forgotten(store, other).await;
}

crate::tests! { block_on:
    #[ignore = "needs PostgreSQL"]
    a_server_that_is_killed_loses_nothing,
    soak,
    many_turns_at_once_lose_and_mix_nothing,
    a_store_goes_on_when_its_sessions_are_ended,
    a_restart_while_nothing_was_asked_goes_unnoticed,
    a_server_that_never_answers_is_an_error_in_time,
    an_append_that_waits_too_long_keeps_no_connection,
    a_read_only_database_can_be_read,
    tables_of_a_later_version_are_refused_and_left_alone,
    tables_of_something_else_are_refused_and_left_alone,
    who_may_not_create_tables_is_told_so,
    whoever_the_server_does_not_let_in_is_told_why,
    debug_output_shows_the_place_and_no_password,
    stores_that_are_opened_at_once_create_the_tables_once,
    writers_lose_nothing_whatever_the_isolation,
    forgetting_leaves_nothing_behind_while_others_append,
    people_can_read_the_view,
    connections_that_a_firewall_forgot_are_replaced,
    an_operation_is_one_round_trip,
    the_last_ten_of_a_million_cost_what_they_cost_of_a_hundred,
    pins_and_recall_obey_what_is_forgotten;
    #[ignore = "needs PostgreSQL and pgbouncer"]
    a_server_behind_a_pooler_that_is_killed_loses_nothing;
    #[ignore = "needs PostgreSQL, and the right to mount a small disk"]
    a_full_disk_is_an_error_and_loses_nothing;
}
