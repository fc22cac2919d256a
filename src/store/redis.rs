//! Conversations on a Redis server, or on a Redis Cluster.
//!
//! Redis 6.2 or later, or what speaks like it (Valkey). Everything is written by scripts, each of which is
//! one step: nobody sees half of it, and no crash leaves half of it.
//!
//! # The keys
//!
//! One entry of a stream a message, so that a person can look into it:
//!
//! ```sh
//! redis-cli --scan --pattern 'memory-prompt:*:log:support:u1001:c2002'
//! redis-cli XREVRANGE 'memory-prompt:{b4}:log:support:u1001:c2002' + - COUNT 10
//! ```
//!
//! | key | what it holds |
//! |---|---|
//! | `memory-prompt:{xx}:log:ID` | a stream: the entry `41-1` is the record at position 41, with the fields `at` (in milliseconds since 1970) and `payload` |
//! | `memory-prompt:{xx}:state:ID` | a hash: `start` and `end` (the positions it holds), `born` (in microseconds), `active` (the last append, in milliseconds), `system` |
//! | `memory-prompt:{xx}:ids` | a sorted set: the ids of the conversations of the shard `xx` |
//! | `memory-prompt:{xx}:expiring` | a sorted set: those of them that expire, by when |
//! | `memory-prompt:{xx}:done:TOKEN` | what a change returned: some 200 bytes, for a minute |
//! | `memory-prompt:version` | the version of this layout |
//!
//! The id is in the key as it is; the shard `xx` is the highest byte of its 64-bit FNV-1a hash, in hex
//! ([`RedisMemory::log_key`] tells). On a cluster it is the hash tag, so that all keys of a conversation
//! and the list of ids that it is in lie on one slot and change in one step. The 256 shards are spread over
//! all slots: of three masters each has 83 to 89 of them.
//!
//! Payloads are written with [`Codec::Json`] or [`Codec::Bincode`]; both are read, whichever is configured.
//!
//! A stream it is because of what was measured (Redis 7.0, JSON of 350 bytes): it takes 416 bytes a message,
//! a list 375, a hash 435, a sorted set 480; and ten messages in the middle of a million are read in 0.02
//! ms, from a list in 0.12, and the longer the later. A conversation takes 4 KiB at least.
//!
//! # What is promised
//!
//! - **Once.** A change whose answer got lost is asked for again, until the [timeout](RedisOptions::timeout)
//!   is up. It carries a token by which the server knows for a minute what it has done, so it is done once.
//!   A server that restarts, or a replica that takes over, is a pause and not an error, if the timeout is
//!   longer. (Three times as long, where a master falls silent and its connections do not break.) Where it
//!   is not, the error is [`ErrorKind::Unacknowledged`].
//! - **A crash of the server's machine** loses what is not on its disk yet, although it was acknowledged:
//!   nothing with `appendonly yes` and `appendfsync always`; the last second or two with `appendfsync
//!   everysec`, the default with `appendonly yes`; all since the last snapshot without `appendonly`.
//! - **The loss of a machine** is survived by what its replica had. Redis replicates after it has answered:
//!   an append that was acknowledged by a master, on a cluster or not, is gone if the master dies before the
//!   replica has it; commonly the last milliseconds, and all that a master still takes that was cut off from
//!   the others (until `cluster-node-timeout`). With [`RedisOptions::replicas`] an append returns once so
//!   many replicas have it, which makes that unlikely but, since none of them must win the election, not
//!   impossible. Positions then go back, too: a conversation ends where the replica says. Whoever
//!   can't live with that is better off with PostgreSQL or Cassandra.
//! - **A full memory** refuses appends and changes nothing, if `maxmemory-policy` is `noeviction` (the
//!   default). Under any other policy the server throws conversations away, or half of one: its missing
//!   records are then reported as unreadable.
//!
//! # How it behaves at scale
//!
//! Everything must fit into memory. With messages of 350 bytes (measured, its lists included), a
//! conversation of 4 takes 4.6 KB, one of 20 takes 8.8 KB, one of a million 0.42 GB. A server of 64 GB, half
//! of it kept free for what changes while a snapshot is made, keeps some 3.5 million conversations of 20
//! messages, or 75 million messages in long ones; a replica takes as much again. With
//! [`RedisOptions::ttl`] only those that are alive count.
//!
//! Beyond that, a Redis Cluster: `redis-cli --cluster create … --cluster-replicas 1` and
//! [`RedisStore::open_cluster`]. Each master holds its share of the shards, so up to 256 masters can share
//! them: thirty such masters keep 100 million conversations of 20 messages. A conversation is on one master,
//! whole, and so is its throughput of some thousands of turns a second. `redis-cli --cluster reshard` moves
//! slots while conversations go on; those on a slot that is just moving may wait a moment.
//!
//! What is large holds up the server, for all who use it, for as long as it takes: a batch of 100,000
//! messages some tenths of a second. A read of many is read in pages, all of one moment nevertheless.

mod found;
mod keys;
mod layout;
mod link;
mod options;

use std::fmt;
use std::ops::Range;
use std::sync::Arc;
use std::time::{Duration, SystemTime};

use futures_util::future::try_join_all;
use redis::{Value, cmd};

use super::AsyncChatMemoryStore;
use super::common::{Payloads, conflict, nothing};
use crate::codec::Codec;
use crate::error::{Error, ErrorKind, Result};
use crate::memory::{AsyncChatMemory, BoxFuture, MemoryId};
use crate::message::Message;
use crate::record::{Snapshot, millis};
use found::Found;
use keys::{Keys, SHARDS, shard};
use link::{APPEND, CLEAR, EVICT, FORGET, Link};

pub use options::RedisOptions;
/// The driver, version 1, whose connections can be handed in.
pub use redis as driver;

/// Many conversations on a Redis server or a Redis Cluster. A clone is a handle on the same connection.
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
/// use memory_prompt::{Blocking, ChatMemoryExt, Message, RedisStore};
///
/// let store = Blocking::connect(RedisStore::open("redis://localhost"))?;
/// store.memory("support:u1001:c2002")?.add(Message::user("hi"))?;
/// # }
/// # Ok::<(), memory_prompt::Error>(())
/// ```
#[derive(Clone)]
pub struct RedisStore {
    shared: Arc<Shared>,
}

/// One conversation of a [`RedisStore`].
#[derive(Clone)]
pub struct RedisMemory {
    id: MemoryId,
    shared: Arc<Shared>,
}

struct Shared {
    link: Link,
    keys: Keys,
    codec: Codec,
    /// In milliseconds.
    ttl: Option<u64>,
}

impl RedisStore {
    /// The store on the server at this address, with the defaults of [`RedisOptions`].
    ///
    /// `redis://user:password@host:port/database`, `redis+unix:///path`, or with the feature `redis-tls`
    /// `rediss://…`.
    ///
    /// # Errors
    ///
    /// [`ErrorKind::Invalid`] where the address makes no sense; [`ErrorKind::Storage`] where the server
    /// can't be reached, refuses, or holds data of a later version, which are then as they were.
    pub async fn open(address: &str) -> Result<Self> {
        Self::options().open(address).await
    }

    /// The store on the cluster that one of these addresses belongs to.
    ///
    /// # Errors
    ///
    /// As [`open`](Self::open).
    pub async fn open_cluster(addresses: &[impl AsRef<str> + Sync]) -> Result<Self> {
        Self::options().open_cluster(addresses).await
    }

    /// The defaults, to be changed before the store is opened.
    pub fn options() -> RedisOptions {
        RedisOptions {
            codec: Codec::Json,
            prefix: "memory-prompt".to_owned(),
            ttl: None,
            timeout: Duration::from_secs(10),
            connect_timeout: Duration::from_secs(5),
            replicas: None,
            #[cfg(feature = "redis-tls")]
            certificates: None,
        }
    }

    /// The memory of the conversation under this id. Any text is an id.
    ///
    /// # Errors
    ///
    /// None: it returns a `Result` as every store does.
    pub fn memory(&self, id: impl Into<MemoryId>) -> Result<RedisMemory> {
        Ok(RedisMemory { id: id.into(), shared: Arc::clone(&self.shared) })
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
        Box::pin(async move {
            let mut found = Vec::new();
            let mut after = after.cloned();
            while found.len() < n {
                let page = self.shared.next_ids(after, (n - found.len()).min(IDS_AT_ONCE)).await?;
                let Some(last) = page.last().cloned() else { break };
                after = Some(last);
                found.extend(self.shared.that_exist(page).await?);
            }
            Ok(found)
        })
    }

    fn delete<'a>(&'a self, id: &'a MemoryId) -> BoxFuture<'a, Result<bool>> {
        Box::pin(async move {
            let ids = std::slice::from_ref(id);
            Ok(self.shared.forget("delete", shard(id), ids, None).await? > 0)
        })
    }

    fn purge_inactive(&self, older_than: SystemTime) -> BoxFuture<'_, Result<u64>> {
        Box::pin(async move {
            let older_than = millis(older_than);
            let shards = SHARDS.map(|shard| self.shared.purge(shard, older_than));
            Ok(try_join_all(shards).await?.into_iter().sum())
        })
    }
}

impl Shared {
    /// The next ids on a shard, in the order of their bytes.
    async fn ids_of(
        &self,
        operation: &'static str,
        shard: u8,
        after: Option<&MemoryId>,
        n: usize,
    ) -> Result<Vec<MemoryId>> {
        let from = after.map_or_else(|| "-".to_owned(), |after| format!("({after}"));
        let mut command = cmd("ZRANGEBYLEX");
        command.arg(self.keys.ids(shard)).arg(from).arg("+").arg("LIMIT").arg(0).arg(n);
        let ids: Vec<String> = parse(operation, self.link.ask(operation, &command).await?)?;
        Ok(ids.into_iter().map(MemoryId::from).collect())
    }

    /// The next ids of all shards in order, up to `n` and at least one where there is one.
    async fn next_ids(&self, after: Option<MemoryId>, n: usize) -> Result<Vec<MemoryId>> {
        // Hashing spreads them evenly, so that few of each shard are enough most of the time.
        let some = n / 128 + 4;
        let shards = SHARDS.map(|shard| self.ids_of("ids", shard, after.as_ref(), some));
        let shards = try_join_all(shards).await?;
        // What comes after the last of a shard that may have more is not known yet.
        let full = shards.iter().filter(|ids| ids.len() == some);
        let known = full.filter_map(|ids| ids.last()).min().cloned();
        let mut ids: Vec<MemoryId> = shards.into_iter().flatten().collect();
        ids.retain(|id| known.as_ref().is_none_or(|known| id <= known));
        ids.sort_unstable();
        ids.truncate(n);
        Ok(ids)
    }

    /// Those whose conversation has not expired.
    async fn that_exist(&self, ids: Vec<MemoryId>) -> Result<Vec<MemoryId>> {
        let exists = async |id: MemoryId| {
            let exists = self.link.ask("ids", cmd("EXISTS").arg(self.keys.state(&id))).await?;
            Ok::<_, Error>((exists != Value::Int(0)).then_some(id))
        };
        let ids = try_join_all(ids.into_iter().map(exists)).await?;
        Ok(ids.into_iter().flatten().collect())
    }

    async fn purge(&self, shard: u8, older_than: u64) -> Result<u64> {
        const OPERATION: &str = "purge_inactive";
        let (mut purged, mut after) = (0, None);
        loop {
            // A few at a time, so that others get their turn.
            let ids = self.ids_of(OPERATION, shard, after.as_ref(), 64).await?;
            if ids.is_empty() {
                return Ok(purged);
            }
            purged += self.forget(OPERATION, shard, &ids, Some(older_than)).await?;
            after = ids.into_iter().next_back();
        }
    }

    /// Forgets the conversations, or those of them that are inactive; returns how many.
    async fn forget(
        &self,
        operation: &'static str,
        shard: u8,
        ids: &[MemoryId],
        older_than: Option<u64>,
    ) -> Result<u64> {
        let mut keys =
            vec![self.keys.token(shard), self.keys.ids(shard), self.keys.expiring(shard)];
        keys.extend(ids.iter().flat_map(|id| [self.keys.state(id), self.keys.log(id)]));
        let older_than = older_than.map_or_else(String::new, |time| time.to_string());
        let mut args = vec![older_than.as_bytes()];
        args.extend(ids.iter().map(|id| id.as_str().as_bytes()));
        parse(operation, self.link.change(operation, &FORGET, &keys, &args).await?)
    }
}

impl RedisMemory {
    /// The key of the stream that the messages are in.
    pub fn log_key(&self) -> String {
        self.shared.keys.log(&self.id)
    }

    /// The token of a new change, and the keys of the conversation.
    fn keys(&self) -> Vec<String> {
        let keys = &self.shared.keys;
        vec![keys.token(shard(&self.id)), keys.state(&self.id), keys.log(&self.id)]
    }

    /// The newest `n` entries before a position, all of one moment.
    ///
    /// Many are read in pages, so that they do not hold up the server. Entries do not change, so pages make
    /// one whole unless some were forgotten meanwhile: then it begins anew, with larger pages.
    async fn find(&self, operation: &'static str, before: Option<u64>, n: usize) -> Result<Found> {
        let mut at_once = 10_000;
        'anew: loop {
            let mut found = self.page(operation, before, n.min(at_once)).await?;
            let mut full = found.rows.len() == at_once;
            while full && found.rows.len() < n {
                let oldest = found.rows.last().map(|row| row.seq);
                let page = at_once.min(n - found.rows.len());
                let older = self.page(operation, oldest, page).await?;
                if (older.born, older.start) != (found.born, found.start) {
                    at_once *= 10;
                    continue 'anew;
                }
                full = older.rows.len() == at_once;
                found.rows.extend(older.rows);
            }
            return Ok(found);
        }
    }

    async fn page(&self, operation: &'static str, before: Option<u64>, n: usize) -> Result<Found> {
        let keys = [self.shared.keys.state(&self.id), self.shared.keys.log(&self.id)];
        let newest = match before {
            None => "+".to_owned(),
            // `0-0` is no id, and stands before all of them.
            Some(before) => {
                before.checked_sub(1).map_or_else(|| "0-0".to_owned(), |seq| format!("{seq}-1"))
            }
        };
        let reply = self.shared.link.read(operation, &keys, &newest, n).await?;
        Found::parse(reply).ok_or_else(|| unexpected(operation))
    }
}

impl AsyncChatMemory for RedisMemory {
    fn id(&self) -> &MemoryId {
        &self.id
    }

    fn append<'a>(
        &'a self,
        batch: &'a mut Vec<Message>,
        expected: Option<u64>,
    ) -> BoxFuture<'a, Result<Range<u64>>> {
        Box::pin(async move {
            if batch.is_empty() {
                return nothing("redis", expected, self.find("append", None, 0).await?.end);
            }
            let Payloads { system, messages } = Payloads::of("redis", self.shared.codec, batch)?;
            let system = system.unwrap_or_default(); // no payload is empty
            let number = |number: Option<u64>| number.map_or(String::new(), |n| n.to_string());
            let at = millis(SystemTime::now()).to_string();
            let ttl = number(self.shared.ttl);
            let first = number(expected);
            let mut args: Vec<&[u8]> = vec![
                self.id.as_str().as_bytes(),
                first.as_bytes(),
                at.as_bytes(),
                ttl.as_bytes(),
                &system,
            ];
            args.extend(messages.iter().map(Vec::as_slice));
            let (mut keys, shard) = (self.keys(), shard(&self.id));
            keys.extend([self.shared.keys.ids(shard), self.shared.keys.expiring(shard)]);
            let done = self.shared.link.change("append", &APPEND, &keys, &args).await?;
            if let (Value::Int(end), Some(expected)) = (&done, expected) {
                return Err(conflict("redis", expected, u64::try_from(*end).unwrap_or(0)));
            }
            let done: String = parse("append", done)?;
            let positions = done.split_once(' ').and_then(|(first, last)| {
                Some(first.parse::<u64>().ok()?..last.parse::<u64>().ok()?)
            });
            let positions = positions.ok_or_else(|| unexpected("append"))?;
            batch.clear();
            Ok(positions)
        })
    }

    fn read(&self, before: Option<u64>, n: usize) -> BoxFuture<'_, Result<Snapshot>> {
        Box::pin(async move { self.find("read", before, n).await?.snapshot(before, n) })
    }

    fn evict(&self, before: u64) -> BoxFuture<'_, Result<u64>> {
        Box::pin(async move {
            let before = before.to_string();
            let args: [&[u8]; 1] = [before.as_bytes()];
            let evicted = self.shared.link.change("evict", &EVICT, &self.keys(), &args).await?;
            parse("evict", evicted)
        })
    }

    fn clear(&self) -> BoxFuture<'_, Result<()>> {
        Box::pin(async move {
            self.shared.link.change("clear", &CLEAR, &self.keys(), &[]).await.map(|_| ())
        })
    }
}

fn parse<T: redis::FromRedisValue>(operation: &'static str, value: Value) -> Result<T> {
    redis::from_redis_value(value).map_err(|error| unexpected(operation).with_source(error))
}

fn unexpected(operation: &'static str) -> Error {
    Error::new(ErrorKind::Storage, operation, "redis: the server holds or says what nobody wrote")
}

impl fmt::Debug for RedisStore {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let Shared { link, codec, .. } = &*self.shared;
        f.debug_struct("RedisStore").field("place", link).field("codec", codec).finish()
    }
}

impl fmt::Debug for RedisMemory {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let place = &self.shared.link;
        f.debug_struct("RedisMemory")
            .field("id", &self.id)
            .field("place", place)
            .finish_non_exhaustive()
    }
}

/// So many ids are looked for at the same time.
const IDS_AT_ONCE: usize = 1_000;
