//! This module keeps conversations on a Redis server, or on a Redis Cluster.
//!
//! Redis 6.2 or later, or what speaks like it (Valkey). Everything is written by scripts, each of
//! which is one step: nobody sees half of it, and no crash leaves half of it.
//!
//! # The keys
//!
//! One entry of a stream a message, so that a person can look into it:
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
//! | `memory-prompt:{xx}:slots:ID` | a hash: the content of each slot, where there are any |
//! | `memory-prompt:{xx}:versions:ID` | a hash: the version of each slot |
//! | `memory-prompt:{xx}:known:ID` | a list: the newest 64 ids of appends, each with what it came to |
//! | `memory-prompt:{xx}:media:ID` | a hash: the bytes of [media](#media) under their SHA-256 (32 bytes), where there are any |
//! | `memory-prompt:{xx}:shown:ID` | a sorted set: each such SHA-256 by the newest position that refers to it |
//! | `memory-prompt:{xx}:ids` | a sorted set: the ids of the conversations of the shard `xx` |
//! | `memory-prompt:{xx}:expiring` | a sorted set: those of them that expire, by when |
//! | `memory-prompt:{xx}:done:TOKEN` | what a change returned: some 200 bytes, for the timeout and a minute |
//! | `memory-prompt:version` | the version of this layout, which is 1 |
//!
//! The id is in the key as it is; the shard `xx` is the highest byte of its 64-bit FNV-1a hash,
//! mixed as `MurmurHash3` ends, in hex ([`RedisMemory::log_key`] tells). On a cluster it is the
//! hash tag, so that all keys of a conversation and the list of ids that it is in lie on one slot
//! and change in one step. The 256 shards are spread over all slots: of three masters each has 83
//! to 89 of them.
//!
//! The version is looked at when a store is opened; data of a later one are refused, and nothing is
//! written to them.
//!
//! Payloads are written with [`Codec::Json`] or [`Codec::Bincode`]; both are read, whichever is
//! configured.
//!
//! [`Codec::Json`]: crate::codec::Codec::Json
//! [`Codec::Bincode`]: crate::codec::Codec::Bincode
//!
//! A stream it is because of what was measured (Redis 7.0, JSON of 350 bytes): it takes 416 bytes a
//! message, a list 375, a hash 435, a sorted set 480; and ten messages in the middle of a million
//! are read in 0.02 ms, from a list in 0.12, and the longer the later. A conversation takes 4 KiB
//! at least.
//!
//! # Media
//!
//! Pictures and documents from 16 KiB on ([`RedisOptions::media_beside`]) are kept as bytes, each
//! once in a conversation, and written in the same step as the record that refers to them. They go
//! with the last one that does. A read that has some brings their bytes with a second round trip,
//! unless [references](crate::memory::Read::references) are enough for it. It reads again where
//! records were evicted between the two, so that what it returns is of one moment. What is
//! smaller, of no known type, or a text stays within its message.
//!
//! # What is promised
//!
//! - **Once.** A change whose answer got lost is asked for again, until the
//!   [timeout](RedisOptions::timeout) is up. It carries a token by which the server knows, for the
//!   timeout and a minute, what it has done: so a server that restarts is a pause and not an error,
//!   if the timeout is longer. If it is not, the error is [`ErrorKind::Unacknowledged`]: the
//!   change is done, not done, or done when the server goes on. An append
//!   [with an id](Append::with_id) can then be done again, and is stored once.
//! - **A failover**, in which another server takes the address, may cost the operations that are
//!   under way such an error; the next ones go to the new server. A server that refuses changes,
//!   since it has become a replica, is left at once, and one that is silent after half of the
//!   timeout: the store then connects again, where the address leads by then. It knows no other
//!   address. A store that only reads goes on reading what the old master has, as long as that
//!   lives.
//! - **A crash of the server's machine** loses what is not on its disk yet, although it was
//!   acknowledged: nothing with `appendonly yes` and `appendfsync always`; the last second or two
//!   with `appendfsync everysec`, the default with `appendonly yes`; all since the last snapshot
//!   without `appendonly`.
//! - **The loss of a machine** is survived by what its replica had. Redis replicates after it has
//!   answered: an append that was acknowledged by a master, on a cluster or not, is gone if the
//!   master dies before the replica has it; commonly the last milliseconds, and all that a master
//!   still takes that was cut off from the others (until `cluster-node-timeout`). With
//!   [`RedisOptions::replicas`] an append returns once so many replicas have it, which makes that
//!   unlikely but, since none of them must win the election, not impossible. Positions then go
//!   back, too: a conversation ends where the replica says. Whoever can't live with that is better
//!   off with PostgreSQL or Cassandra.
//! - **A full memory** refuses appends and changes nothing, if `maxmemory-policy` is `noeviction`
//!   (the default). Under `allkeys-*` the server throws conversations away, or half of one: its
//!   missing records, and those that miss their media, are then reported as unreadable. Under
//!   `volatile-*` it does so with those that have a [time to live](RedisOptions::ttl); without one
//!   it throws away what it remembers of changes, and one that is asked for again may be done
//!   twice.
//!
//! - **A change whose future was dropped, or whose time was up,** is done, not done, or done later:
//!   a server that stood still does what it was sent when it goes on. What the same store asks for
//!   afterwards comes behind it, as long as the connection holds; what others append meanwhile may
//!   stand before it. The safe form of an append names the [position](AsyncChatMemory::append) that
//!   it expects, or what was [seen](Append::since): then it is done if nothing came between, or
//!   never. That of [`clear`](AsyncChatMemory::clear) is [`evict`](AsyncChatMemory::evict) before a
//!   position, which takes nothing that came later; a slot is written with the version that is
//!   [expected](crate::memory::Expected). A delete has none: wait for its answer.
//!
//! # The rights of an account
//!
//! With ACLs, an account needs the keys under its prefix and these commands, and no others:
//!
//! ```text
//! ACL SETUSER chat on >password resetchannels ~memory-prompt:* nocommands
//!   +ping +eval +evalsha +multi +exec +get +set +time +exists +hget +hmget +hgetall +hset +hdel
//!   +hsetnx +xadd +xrange +xrevrange +xtrim +zadd +zrem +zrangebylex +zrangebyscore
//!   +lpos +lindex +rpush +ltrim +unlink +persist +pexpireat
//! ```
//!
//! With [`replicas`](RedisOptions::replicas) it needs `+wait`, and on a cluster `+cluster|slots`. A
//! right that is missing is an error that names the command.
//!
//! # Sentinel
//!
//! A Redis Sentinel keeps no data and is refused with a word that says so: hand in a
//! [connection of your own](RedisOptions::over) to the master that it names.
//!
//! # What it costs
//!
//! An append is one script and one round trip, with an id, slots and times or without; a read is
//! one transaction and one round trip, with slots and single records or without; one that brings
//! media is two. A slot is transferred where a read names it, and nowhere else.
//! [`ids_with_prefix`](AsyncChatMemoryStore::ids_with_prefix) asks all 256 shards, each for what
//! begins so, and once more for each id that it finds: a thousand are 1,256 commands, whatever else
//! there is. [`delete_prefix`](AsyncChatMemoryStore::delete_prefix) asks all shards too, and
//! [`info`](AsyncChatMemoryStore::info) is one command.
//!
//! An id of 36 bytes takes 50 bytes, the 64 of a conversation 3.2 KB (measured). It is forgotten
//! with the conversation, or when 64 have come after it.
//!
//! A batch, its slots included, may have 512 MiB, which is what a server takes in one piece unless
//! its `proto-max-bulk-len` says otherwise: more is refused before anything is sent. A position is
//! at most 2⁵².
//!
//! With 64 callers on one connection, a turn of one append and one read takes three times as long
//! as a bare `RPUSH` and `LRANGE` (measured with server and callers on the same two cores). That is
//! the price of the promises: the script makes seven calls where `RPUSH` is one, 10 to 17 µs of the
//! server's time in place of 2; and an entry of a stream is seven values to read, where one of a
//! list is one, 7 µs for ten of them in place of 2.
//!
//! A [time to live](RedisOptions::ttl) begins with each append by the server's clock, that of an
//! import too.
//!
//! # How it behaves at scale
//!
//! Everything must fit into memory. With messages of 350 bytes (measured, its lists included), a
//! conversation of 4 takes 4.6 KB, one of 20 takes 8.8 KB, one of a million 0.42 GB. A server of 64
//! GB, half of it kept free for what changes while a snapshot is made, keeps some 3.5 million
//! conversations of 20 messages, or 75 million messages in long ones; a replica takes as much
//! again. With [`RedisOptions::ttl`] only those that are alive count.
//!
//! Beyond that, a Redis Cluster: `redis-cli --cluster create … --cluster-replicas 1` and
//! [`RedisStore::open_cluster`]. Each master holds its share of the shards, so up to 256 masters
//! can share them: thirty such masters keep 100 million conversations of 20 messages. A
//! conversation is on one master, whole, and so is its throughput of some thousands of turns a
//! second. `redis-cli --cluster reshard` moves slots while conversations go on; those on a slot
//! that is just moving may wait a moment.
//!
//! What is large holds up the server, for all who use it, for as long as it takes: a batch of
//! 100,000 messages some tenths of a second. A read of many is read in pages, all of one moment
//! nevertheless.

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
/// The driver, version 1, whose connections can be handed in.
pub use redis as driver;

/// Many conversations on a Redis server or a Redis Cluster. A clone is a handle on the same
/// connection.
///
/// The keys and what is promised are described in the [module](self).
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
    /// Opens the store on the server at this address, with the defaults of [`RedisOptions`].
    ///
    /// `redis://user:password@host:port/database`, `redis+unix:///path`, or with the feature
    /// `redis-tls` `rediss://…`.
    ///
    /// # Errors
    ///
    /// [`ErrorKind::Invalid`] where the address makes no sense; [`ErrorKind::Storage`] where the
    /// server can't be reached, refuses, or holds data of a later version, which are then as they
    /// were.
    pub async fn open(address: &str) -> Result<Self> {
        Self::options().open(address).await
    }

    /// Opens the store on the cluster that one of these addresses belongs to.
    ///
    /// # Errors
    ///
    /// As [`open`](Self::open).
    pub async fn open_cluster(addresses: &[impl AsRef<str> + Sync]) -> Result<Self> {
        Self::options().open_cluster(addresses).await
    }

    /// Returns the defaults, to be changed before the store is opened.
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
    /// None: it returns a `Result` as every store does.
    pub fn memory(&self, id: impl Into<MemoryId>) -> Result<RedisMemory> {
        Ok(RedisMemory::new(id.into(), Arc::clone(&self.shared)))
    }

    /// Asks the server for an answer, as `PING` does; on a cluster one of its masters.
    ///
    /// # Errors
    ///
    /// [`ErrorKind::Storage`] where none comes within the [timeout](RedisOptions::timeout).
    pub async fn ping(&self) -> Result<()> {
        let link = &self.shared.link;
        link.watch.operation("ping", async { link.ask("ping", &cmd("PING")).await.map(drop) }).await
    }

    /// Returns what was counted since the store was opened. Connections are those that the store
    /// has made: one, and eight more where replicas are waited for; on a cluster each leads to all
    /// its masters.
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
            let mut command = cmd("HMGET");
            command.arg(self.shared.keys.of(id, "state")).arg(&[
                "start",
                "end",
                "active",
                "incarnation",
            ]);
            let found = self.shared.link.ask("info", &command).await?;
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
            let (append, restored) = (&Append::default(), Some((start, incarnation)));
            let change = ScriptCall { messages: &[], append, restored };
            change.make("restore", &self.shared, id).await.map(|_| ())
        })
    }
}

/// The last position: the scripts count with floating point, and could not go on for long behind
/// it.
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
