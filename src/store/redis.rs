//! Stores conversations on a Redis server, or on a Redis Cluster.
//!
//! Redis 6.2 or later, or a compatible server (Valkey). Every change is a script, which is one
//! step: no client sees half of it, and no crash leaves half of it.
//!
//! # The keys
//!
//! One stream entry per message, readable by people:
//!
//! ```sh
//! redis-cli --scan --pattern 'memory-prompt:*:log:support:u1001:c2002'
//! redis-cli XREVRANGE 'memory-prompt:{5e}:log:support:u1001:c2002' + - COUNT 10
//! ```
//!
//! | key | what it holds |
//! |---|---|
//! | `memory-prompt:{xx}:log:ID` | a stream: the entry `41-1` is the record at position 41, with the fields `at` (in milliseconds since 1970) and `payload` |
//! | `memory-prompt:{xx}:state:ID` | a hash: `start` and `end` (the positions it holds), `incarnation`, `active` (the last append, in milliseconds), `system` |
//! | `memory-prompt:{xx}:slots:ID` | a hash: the content of each slot, if there are any |
//! | `memory-prompt:{xx}:versions:ID` | a hash: the version of each slot |
//! | `memory-prompt:{xx}:known:ID` | a list: the newest 64 ids of appends, each with its outcome |
//! | `memory-prompt:{xx}:media:ID` | a hash: the bytes of [media](#media) under their SHA-256 (32 bytes), if there are any |
//! | `memory-prompt:{xx}:shown:ID` | a sorted set: each such SHA-256 by the newest position that refers to it |
//! | `memory-prompt:{xx}:ids` | a sorted set: the ids of the conversations in the shard `xx` |
//! | `memory-prompt:{xx}:expiring` | a sorted set: those of them that expire, by the time of expiry |
//! | `memory-prompt:{xx}:done:TOKEN` | the result of a change: some 200 bytes, for the timeout and a minute |
//! | `memory-prompt:version` | the version of this layout, which is 1 |
//!
//! The id is in the key unchanged; the shard `xx` is the highest byte of its 64-bit FNV-1a hash
//! after the final mix of `MurmurHash3`, in hex ([`RedisMemory::log_key`] returns a whole key). On
//! a cluster the shard is the hash tag, so that all keys of a conversation and its list of ids are
//! in one slot and change in one step. The 256 shards are spread over all slots: with three
//! masters, each has 83 to 89 of them.
//!
//! The version is checked when a store is opened; data of a later version are refused and not
//! written to.
//!
//! Payloads are written with [`Codec::Json`] or [`Codec::Bincode`]; both are read, whichever is
//! configured.
//!
//! [`Codec::Json`]: crate::codec::Codec::Json
//! [`Codec::Bincode`]: crate::codec::Codec::Bincode
//!
//! A stream was chosen after measurements (Redis 7.0, JSON of 350 bytes): it takes 416 bytes per
//! message, a list 375, a hash 435, a sorted set 480. Ten messages in the middle of a million are
//! read in 0.02 ms; from a list they take 0.12 ms, and more as the list grows. A conversation takes
//! at least 4 KiB.
//!
//! # Media
//!
//! Pictures and documents from 16 KiB on ([`RedisOptions::media_beside`]) are kept as bytes, each
//! once in a conversation. They are written in the same step as the record that refers to them, and
//! removed with the last one that does. A read of such records fetches their bytes with a second
//! round trip, unless [references](crate::memory::Read::references) are enough for it. If records
//! were evicted between the two, it reads again, so that what it returns is of one moment. What is
//! smaller, of no known type, or a text stays within its message.
//!
//! # Guarantees
//!
//! - **Once.** A change whose answer was lost is sent again until the
//!   [timeout](RedisOptions::timeout) is up. It carries a token, by which the server knows, for the
//!   timeout and a minute, what it has already done. So a restart of the server is a pause and not
//!   an error, if the timeout is longer. If it is shorter, the error is
//!   [`ErrorKind::Unacknowledged`]: the change is made, not made, or made when the server
//!   continues. An append [with an id](Append::with_id) can then be repeated, and is stored once.
//! - **A failover**, in which another server takes over the address, may end the operations under
//!   way with such an error; the next ones go to the new server. If a server refuses changes
//!   because it has become a replica, the store reconnects at once; if a server is silent, after
//!   half of the timeout. It connects to where the address leads by then; it knows no other
//!   address. A store that only reads continues to read from the old master as long as that is
//!   alive.
//! - **A crash of the server's machine** loses acknowledged data that are not on its disk yet:
//!   nothing with `appendonly yes` and `appendfsync always`; the last second or two with
//!   `appendfsync everysec`, the default with `appendonly yes`; everything since the last snapshot
//!   without `appendonly`.
//! - **The loss of a machine** loses everything that its replica does not have. Redis replicates
//!   after it has answered: an append that a master acknowledged, on a cluster or not, is lost if
//!   the master dies before the replica has it. Usually these are the last milliseconds, plus
//!   everything that a master accepts while it is cut off from the others (until
//!   `cluster-node-timeout`). With [`RedisOptions::replicas`], an append returns once this many
//!   replicas have it. That makes a loss unlikely but not impossible, since none of them must win
//!   the election. Positions then go back, too: a conversation ends where the replica's copy ends.
//!   If you can't accept that, use PostgreSQL or Cassandra.
//! - **A full memory** refuses appends and changes nothing, if `maxmemory-policy` is `noeviction`
//!   (the default). Under `allkeys-*`, the server removes conversations, or parts of them: missing
//!   records, and those without their media, are then reported as unreadable. What lists the
//!   conversations may go too: then listing, purging and deleting by prefix miss some. Under
//!   `volatile-*`, it does the same to conversations with a [time to live](RedisOptions::ttl); if
//!   there are none, it removes its memory of changes, and a change that is sent again may be made
//!   twice.
//!
//! - **A change whose future was dropped, or whose time was up,** is made, not made, or made later:
//!   a server that was suspended executes what it was sent when it continues. Later requests of the
//!   same store come after it, as long as the connection holds; appends of others may come before
//!   it. An append is safe if it names the [position](AsyncChatMemory::append) that it expects, or
//!   what was [seen](Append::since): then it is made only if nothing came between. Instead of
//!   [`clear`](AsyncChatMemory::clear), use [`evict`](AsyncChatMemory::evict) before a position,
//!   which removes nothing that came later; write a slot with the version that you
//!   [expect](crate::memory::Expected). A delete has no safe form: wait for its answer.
//!
//! # The rights of an account
//!
//! With ACLs, an account needs the keys with its prefix and only these commands:
//!
//! ```text
//! ACL SETUSER chat on >password resetchannels ~memory-prompt:* nocommands
//!   +ping +eval +evalsha +multi +exec +get +set +time +exists +hget +hmget +hgetall +hset +hdel
//!   +hsetnx +xadd +xrange +xrevrange +xtrim +zadd +zrem +zrangebylex +zrangebyscore
//!   +lpos +lindex +rpush +ltrim +unlink +persist +pexpireat
//! ```
//!
//! With [`replicas`](RedisOptions::replicas) it also needs `+wait`, and on a cluster
//! `+cluster|slots`. If a right is missing, the error names the command.
//!
//! # Sentinel
//!
//! A Redis Sentinel holds no data, and is refused with an error that says so. Use a
//! [connection of your own](RedisOptions::over) to the master that it names.
//!
//! # What is left of deleted data
//!
//! Deleting, purging, evicting and clearing remove messages from the keys at once. With
//! `appendonly`, the append-only file holds what was appended until it is rewritten
//! (`BGREWRITEAOF`), a snapshot until the next one replaces it, and a replica as long as it lags
//! behind. A script that took long is in `SLOWLOG` with the beginnings of its arguments, which are
//! texts, until `SLOWLOG RESET` or 128 later ones, and `MONITOR` shows each argument whole. Copies
//! and backups may still have the data.
//!
//! # What it costs
//!
//! An append is one script and one round trip, including id, slots and times. A read is one
//! transaction and one round trip, including slots and single records; a read that fetches media
//! needs two. Slots are transferred only if a read names them.
//! [`ids_with_prefix`](AsyncChatMemoryStore::ids_with_prefix) asks each of the 256 shards for its
//! matching ids, and then once per id that it finds: a thousand ids take 1,256 commands, regardless
//! of other ids. [`delete_prefix`](AsyncChatMemoryStore::delete_prefix) asks all shards too, and
//! [`info`](AsyncChatMemoryStore::info) is one command.
//!
//! An append id of 36 bytes takes 50 bytes, the 64 of a conversation 3.2 KB (measured). It is
//! forgotten with the conversation, or after 64 later ones.
//!
//! A batch, including its slots, may have 512 MiB, which is what a server takes in one piece unless
//! its `proto-max-bulk-len` says otherwise; larger batches are refused before anything is sent.
//! Before Redis 7 a server also takes at most a million values in one: import in smaller batches.
//! Positions go up to 2⁵².
//!
//! With 64 callers on one connection, a turn of one append and one read takes three times as long
//! as a bare `RPUSH` and `LRANGE` (measured with server and callers on the same two cores). That is
//! the price of the guarantees: the script makes seven calls where `RPUSH` is one, which takes the
//! server 10 to 17 µs instead of 2; and a stream entry is seven values to read where a list entry
//! is one, 7 µs for ten of them instead of 2.
//!
//! A [time to live](RedisOptions::ttl) starts again with each append, by the server's clock, even
//! for an import.
//!
//! # How it behaves at scale
//!
//! Everything must fit into memory. With messages of 350 bytes (measured, lists included), a
//! conversation of 4 takes 4.6 KB, one of 20 takes 8.8 KB, one of a million 0.42 GB. A server with
//! 64 GB, half of it kept free for changes during a snapshot, keeps some 3.5 million conversations
//! of 20 messages, or 75 million messages in long ones; a replica needs as much again. With
//! [`RedisOptions::ttl`], only live conversations count.
//!
//! For more data, use a Redis Cluster: `redis-cli --cluster create … --cluster-replicas 1` and
//! [`RedisStore::open_cluster`]. Each master holds its share of the shards, so up to 256 masters
//! can share them: thirty such masters keep 100 million conversations of 20 messages. Each
//! conversation is on one master, which limits it to some thousands of turns a second.
//! `redis-cli --cluster reshard` moves slots while conversations continue; those in a slot that is
//! just moving may wait a moment.
//!
//! Large requests block the server for all clients while they run: a batch of 100,000 messages for
//! some tenths of a second. A large read is split into pages, and is still all of one moment.

mod append;
mod connect;
mod failure;
mod keys;
mod link;
mod listing;
mod memory;
mod options;
mod read;
mod schema;
mod wanted;

use std::fmt;
use std::sync::Arc;
use std::time::{Duration, SystemTime};

use redis::{Value, cmd};

use super::payloads::Encoding;
use super::{AsyncChatMemoryStore, Figures, Info, check_prefix};
use crate::error::{Error, ErrorKind, Result};
use crate::memory::{Append, AsyncChatMemory, BoxFuture, MemoryId};
use crate::record::{Incarnation, millis, time_of};
use append::ScriptCall;
use keys::{Keys, shard};
use link::Link;

pub use memory::RedisMemory;
pub use options::RedisOptions;
/// The driver, version 1, for connections of your own.
pub use redis as driver;

/// Many conversations on a Redis server or a Redis Cluster. A clone is a handle to the same
/// connection.
///
/// The keys and the guarantees are described in the [module](self).
///
/// ```no_run
/// use memory_prompt::{AsyncChatMemoryExt, Message, RedisStore};
///
/// # async fn example() -> memory_prompt::Result<()> {
/// let store = RedisStore::open("redis://localhost").await?;
/// let memory = store.memory("support:u1001:c2002")?;
/// memory.add(Message::user("hi")).await?;
/// assert_eq!(memory.latest(10).await?.len(), 1);
/// # Ok(())
/// # }
/// ```
///
/// In blocking code, with the feature `tokio`:
///
/// ```no_run
/// # #[cfg(feature = "tokio")] {
/// use memory_prompt::adapt::ToBlocking;
/// use memory_prompt::{ChatMemoryExt, Message, RedisStore};
///
/// let store = ToBlocking::connect(RedisStore::open("redis://localhost"))?;
/// store.memory("support:u1001:c2002")?.add(Message::user("hi"))?;
/// # }
/// # Ok::<(), memory_prompt::Error>(())
/// ```
#[derive(Clone)]
pub struct RedisStore {
    shared: Arc<Shared>,
}

struct Shared {
    link: Link,
    keys: Keys,
    encoding: Encoding,
    /// In milliseconds.
    ttl: Option<u64>,
}

impl RedisStore {
    /// Opens the store on the server at this address, with the default [`RedisOptions`].
    ///
    /// `redis://user:password@host:port/database`, `redis+unix:///path`, or with the feature
    /// `redis-tls` `rediss://…`.
    ///
    /// # Errors
    ///
    /// [`ErrorKind::Invalid`] if the address is malformed; [`ErrorKind::Storage`] if the server
    /// can't be reached, refuses, or holds data of a later version, which stay unchanged.
    pub async fn open(address: &str) -> Result<Self> {
        Self::options().open(address).await
    }

    /// Opens the store on the cluster to which one of these addresses belongs.
    ///
    /// # Errors
    ///
    /// Same as [`open`](Self::open).
    pub async fn open_cluster(addresses: &[impl AsRef<str> + Sync]) -> Result<Self> {
        Self::options().open_cluster(addresses).await
    }

    /// Returns the default options; change them, then open the store.
    pub fn options() -> RedisOptions {
        RedisOptions {
            encoding: Encoding::default(),
            prefix: "memory-prompt".to_owned(),
            ttl: None,
            timeout: Duration::from_secs(10),
            connect_timeout: Duration::from_secs(5),
            replicas: None,
            #[cfg(feature = "redis-tls")]
            certificates: None,
        }
    }

    /// Returns the memory of the conversation under this id. Any text is an id.
    ///
    /// # Errors
    ///
    /// Never: all stores return a `Result` here.
    pub fn memory(&self, id: impl Into<MemoryId>) -> Result<RedisMemory> {
        Ok(RedisMemory { id: id.into(), shared: Arc::clone(&self.shared) })
    }

    /// Waits for an answer of the server to `PING`; on a cluster, of one of its masters.
    ///
    /// # Errors
    ///
    /// [`ErrorKind::Storage`] if none comes within the [timeout](RedisOptions::timeout).
    pub async fn ping(&self) -> Result<()> {
        let link = &self.shared.link;
        link.watch.operation("ping", async { link.ask("ping", &cmd("PING")).await.map(drop) }).await
    }

    /// Returns the counts since the store was opened. Connections are those that the store made:
    /// one, and eight more if changes wait for replicas. On a cluster, each of them leads to all
    /// masters.
    pub fn figures(&self) -> Figures {
        let connections = self.shared.link.connector.count();
        let most_connections = Some(connections);
        Figures { connections, most_connections, ..self.shared.link.watch.figures() }
    }
}

impl AsyncChatMemoryStore for RedisStore {
    fn memory(&self, id: MemoryId) -> Result<Arc<dyn AsyncChatMemory>> {
        self.memory(id).map(|memory| Arc::new(memory) as Arc<dyn AsyncChatMemory>)
    }

    fn ids<'a>(
        &'a self,
        after: Option<&'a MemoryId>,
        n: usize,
    ) -> BoxFuture<'a, Result<Vec<MemoryId>>> {
        self.shared.link.watch.operation("ids", self.shared.list("", after, n))
    }

    fn delete<'a>(&'a self, id: &'a MemoryId) -> BoxFuture<'a, Result<bool>> {
        self.shared.link.watch.operation("delete", async move {
            let ids = std::slice::from_ref(id);
            Ok(self.shared.forget("delete", shard(id), ids, None).await? > 0)
        })
    }

    fn purge_inactive(&self, older_than: SystemTime) -> BoxFuture<'_, Result<u64>> {
        self.shared.link.watch.operation(
            "purge_inactive",
            self.shared.sweep("purge_inactive", "", Some(millis(older_than))),
        )
    }

    fn ids_with_prefix<'a>(
        &'a self,
        prefix: &'a str,
        after: Option<&'a MemoryId>,
        n: usize,
    ) -> BoxFuture<'a, Result<Vec<MemoryId>>> {
        self.shared.link.watch.operation("ids_with_prefix", self.shared.list(prefix, after, n))
    }

    fn info<'a>(&'a self, id: &'a MemoryId) -> BoxFuture<'a, Result<Option<Info>>> {
        self.shared.link.watch.operation("info", async move {
            let fields = ["start", "end", "active", "incarnation"];
            let state = self.shared.keys.of(id, "state");
            let found = self.shared.link.ask("info", cmd("HMGET").arg(state).arg(&fields)).await?;
            let (start, end, active, incarnation): (_, _, _, Option<String>) =
                parse("info", found)?;
            let (Some(start), Some(end), Some(active)) = (start, end, active) else {
                return Ok(None);
            };
            let incarnation = incarnation.and_then(|text| text.parse().ok());
            let incarnation = incarnation.ok_or_else(|| unexpected("info"))?;
            Ok(Some(Info::new(start..end, time_of(active)).with_incarnation(incarnation)))
        })
    }

    fn delete_prefix<'a>(&'a self, prefix: &'a str) -> BoxFuture<'a, Result<u64>> {
        self.shared.link.watch.operation("delete_prefix", async move {
            check_prefix(prefix)?;
            self.shared.sweep("delete_prefix", prefix, None).await
        })
    }

    fn restore<'a>(
        &'a self,
        id: &'a MemoryId,
        start: u64,
        incarnation: Option<Incarnation>,
    ) -> BoxFuture<'a, Result<()>> {
        self.shared.link.watch.operation("restore", async move {
            if start > LAST {
                let text = format!("redis: {start} is no position, the last one is {LAST}");
                return Err(Error::invalid("restore", text));
            }
            let incarnation = incarnation.unwrap_or_else(Incarnation::random);
            let restored = Some((start, incarnation));
            let change = ScriptCall { append: &Append::default(), restored };
            change.make("restore", &self.shared, id).await.map(|_| ())
        })
    }
}

/// The last position: the scripts count in floating point, which is exact up to 2⁵³.
const LAST: u64 = 1 << 52;

fn parse<T: redis::FromRedisValue>(operation: &'static str, value: Value) -> Result<T> {
    redis::from_redis_value(value).map_err(|error| unexpected(operation).with_source(error))
}

fn unexpected(operation: &'static str) -> Error {
    let text = "redis: the server's answer, or what it holds, is not in the form that was expected";
    Error::new(ErrorKind::Storage, operation, text)
}

impl fmt::Debug for RedisStore {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let Shared { link, encoding, .. } = &*self.shared;
        f.debug_struct("RedisStore").field("place", link).field("codec", &encoding.codec).finish()
    }
}
