//! One conversation on a server.

use std::fmt;
use std::ops::Range;
use std::sync::Arc;

use redis::cmd;

use super::append::{ScriptCall, limits};
use super::keys::shard;
use super::link::{CLEAR, EVICT};
use super::read::Reply;
use super::wanted::Wanted;
use super::{Shared, parse, unexpected};
use crate::error::Result;
use crate::memory::{Append, Appended, AsyncChatMemory, BoxFuture, Limits, MemoryId, Read};
use crate::message::Message;
use crate::record::{Incarnation, SlotVersion, Snapshot};
use crate::store::common::must_end_at;

/// One conversation of a [`RedisStore`](super::RedisStore).
#[derive(Clone)]
pub struct RedisMemory {
    id: MemoryId,
    shared: Arc<Shared>,
}

impl RedisMemory {
    pub(super) fn new(id: MemoryId, shared: Arc<Shared>) -> Self {
        Self { id, shared }
    }

    /// Returns the key of the stream that the messages are in.
    pub fn log_key(&self) -> String {
        self.shared.keys.log(&self.id)
    }

    /// Returns the token of a new change, and the keys of the conversation.
    fn keys(&self) -> Vec<String> {
        let keys = &self.shared.keys;
        let mut all = vec![keys.token(shard(&self.id))];
        all.extend(keys.conversation(&self.id));
        all
    }

    /// Returns the answers to a read, all of one moment.
    ///
    /// Many entries are read in pages, so that they do not hold up the server. Entries do not
    /// change, so pages make one whole unless some were forgotten meanwhile: then it begins again,
    /// with larger pages.
    async fn find(&self, operation: &'static str, read: &Read) -> Result<Reply> {
        let (n, mut at_once) = (read.n, 10_000);
        'anew: loop {
            let mut found = self.page(operation, read.before, n.min(at_once), Some(read)).await?;
            let mut full = found.rows.len() == at_once;
            while full && found.rows.len() < n {
                let oldest = found.rows.last().map(|row| row.seq);
                let page = at_once.min(n - found.rows.len());
                let older = self.page(operation, oldest, page, None).await?;
                if (older.incarnation, older.start) != (found.incarnation, found.start) {
                    at_once *= 10;
                    continue 'anew;
                }
                full = older.rows.len() == at_once;
                found.rows.extend(older.rows);
            }
            return Ok(found);
        }
    }

    async fn page(
        &self,
        operation: &'static str,
        before: Option<u64>,
        n: usize,
        more: Option<&Read>,
    ) -> Result<Reply> {
        let mut wanted = Wanted::newest(&self.shared.keys, &self.id, before, n);
        if let Some(read) = more {
            wanted = wanted.with(read);
        }
        let reply = self.shared.link.read(operation, &wanted).await?;
        Reply::parse(reply, wanted.names()).ok_or_else(|| unexpected(operation))
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
        self.shared.link.watch.operation("append", async move {
            if batch.is_empty() {
                let end = self.find("append", &Read::default()).await?.end;
                return must_end_at("redis", expected, end);
            }
            let change = ScriptCall { messages: batch, expected, ..ScriptCall::default() };
            let appended = change.make("append", &self.shared, &self.id).await?;
            batch.clear();
            Ok(appended.positions)
        })
    }

    fn read(&self, before: Option<u64>, n: usize) -> BoxFuture<'_, Result<Snapshot>> {
        self.shared.link.watch.operation("read", async move {
            let read = Read { before, n, ..Read::default() };
            self.find("read", &read).await?.snapshot(&read)
        })
    }

    fn evict(&self, before: u64) -> BoxFuture<'_, Result<u64>> {
        self.shared.link.watch.operation("evict", async move {
            let args = [before.to_string()];
            let evicted = self.shared.link.change("evict", &EVICT, &self.keys(), &args).await?;
            parse("evict", evicted)
        })
    }

    fn clear(&self) -> BoxFuture<'_, Result<()>> {
        self.shared.link.watch.operation("clear", async move {
            let args = [Incarnation::random().to_string()];
            self.shared.link.change("clear", &CLEAR, &self.keys(), &args).await.map(|_| ())
        })
    }

    fn append_with<'a>(&'a self, append: &'a mut Append) -> BoxFuture<'a, Result<Appended>> {
        self.shared.link.watch.operation("append", async move {
            append.check(&self.limits())?;
            let (messages, expected) = (append.messages.as_slice(), append.expected);
            let change = ScriptCall { messages, expected, append: Some(append), restored: None };
            let appended = change.make("append", &self.shared, &self.id).await?;
            append.messages.clear();
            Ok(appended)
        })
    }

    fn read_with<'a>(&'a self, read: &'a Read) -> BoxFuture<'a, Result<Snapshot>> {
        self.shared.link.watch.operation("read", async move {
            read.check()?;
            self.find("read", read).await?.snapshot(read)
        })
    }

    fn slots(&self) -> BoxFuture<'_, Result<Vec<(String, SlotVersion)>>> {
        self.shared.link.watch.operation("slots", async move {
            let mut command = cmd("HGETALL");
            command.arg(self.shared.keys.versions(&self.id));
            let found = self.shared.link.ask("slots", &command).await?;
            let found: Vec<(String, String)> = parse("slots", found)?;
            let slots = found.into_iter().map(|(name, version)| Ok((name, version.parse()?)));
            let mut slots: Vec<_> = slots.collect::<Result<_>>()?;
            slots.sort_by(|one: &(String, _), other| one.0.cmp(&other.0));
            Ok(slots)
        })
    }

    fn limits(&self) -> Limits {
        limits()
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
