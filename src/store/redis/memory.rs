//! One conversation on a server.

use std::collections::BTreeSet;
use std::fmt;
use std::sync::Arc;

use redis::cmd;

use super::append::{LIMITS, ScriptCall};
use super::link::{CLEAR, EVICT};
use super::read::Reply;
use super::wanted::Wanted;
use super::{Shared, parse, unexpected};
use crate::error::Result;
use crate::memory::{
    Append, Appended, AsyncChatMemory, BoxFuture, Limits, MemoryId, Read,
    append_and_read_by_the_larger_forms,
};
use crate::message::Sha256;
use crate::record::{Incarnation, SlotVersion, Snapshot};
use crate::store::media::Found;

/// How many media one command fetches, so that it does not block the server for long.
const MEDIA_AT_ONCE: usize = 64;

/// One conversation of a [`RedisStore`](super::RedisStore).
#[derive(Clone)]
pub struct RedisMemory {
    pub(super) id: MemoryId,
    pub(super) shared: Arc<Shared>,
}

impl RedisMemory {
    /// Returns the key of the stream that holds the messages.
    pub fn log_key(&self) -> String {
        self.shared.keys.of(&self.id, "log")
    }

    /// Returns the reply to a read, all of one moment.
    ///
    /// Many entries are read in pages, so that no command blocks the server for long. Entries never
    /// change, so the pages are consistent unless some entries were removed in between: then the
    /// read starts again with larger pages.
    async fn find(&self, read: &Read) -> Result<Reply> {
        let (n, mut at_once) = (read.n, 10_000);
        'again: loop {
            let mut found = self.page(read.before, n.min(at_once), Some(read)).await?;
            let mut full = found.rows.len() == at_once;
            while full && found.rows.len() < n {
                let oldest = found.rows.last().map(|row| row.position);
                let page = at_once.min(n - found.rows.len());
                let older = self.page(oldest, page, None).await?;
                if (older.incarnation, older.start) != (found.incarnation, found.start) {
                    at_once *= 10;
                    continue 'again;
                }
                full = older.rows.len() == at_once;
                found.rows.extend(older.rows);
            }
            return Ok(found);
        }
    }

    /// The bytes of media come with further commands. They always match their hash, whenever they
    /// are read. If some are missing, records may have been evicted meanwhile: then everything is
    /// read again, until that is no longer the reason.
    async fn snapshot(&self, read: &Read) -> Result<Snapshot> {
        read.check()?;
        let (mut found, mut tries) = (Found::new(), 0);
        loop {
            let answer = self.find(read).await?.decode(read)?;
            self.find_media(answer.lacking(read, &found), &mut found).await?;
            if let Some(snapshot) = answer.settled(read, &found, &mut tries) {
                return Ok(snapshot);
            }
        }
    }

    async fn find_media(&self, hashes: BTreeSet<Sha256>, found: &mut Found) -> Result<()> {
        let hashes: Vec<_> = hashes.into_iter().collect();
        for some in hashes.chunks(MEDIA_AT_ONCE) {
            let media = self.shared.keys.of(&self.id, "media");
            let fields: Vec<&[u8]> = some.iter().map(|hash| &hash.0[..]).collect();
            let bytes = self.shared.link.ask("read", cmd("HMGET").arg(media).arg(fields)).await?;
            let bytes: Vec<Option<Vec<u8>>> = parse("read", bytes)?;
            found.extend(some.iter().zip(bytes).filter_map(|(hash, it)| Some((*hash, it?))));
        }
        Ok(())
    }

    async fn page(&self, before: Option<u64>, n: usize, more: Option<&Read>) -> Result<Reply> {
        let wanted = Wanted::of(&self.shared.keys, &self.id, before, n, more);
        let reply = self.shared.link.read(&wanted).await?;
        Reply::parse(reply, &wanted.names).ok_or_else(|| unexpected("read"))
    }
}

impl AsyncChatMemory for RedisMemory {
    fn id(&self) -> &MemoryId {
        &self.id
    }

    append_and_read_by_the_larger_forms!();

    fn evict(&self, before: u64) -> BoxFuture<'_, Result<u64>> {
        self.shared.link.watch.operation("evict", async move {
            let (keys, args) = (self.shared.keys.change(&self.id), [before.to_string()]);
            let evicted = self.shared.link.change("evict", &EVICT, &keys, &args).await?;
            parse("evict", evicted)
        })
    }

    fn clear(&self) -> BoxFuture<'_, Result<()>> {
        self.shared.link.watch.operation("clear", async move {
            let keys = self.shared.keys.change(&self.id);
            let args = [Incarnation::random().to_string()];
            self.shared.link.change("clear", &CLEAR, &keys, &args).await.map(drop)
        })
    }

    fn append_with<'a>(&'a self, append: &'a mut Append) -> BoxFuture<'a, Result<Appended>> {
        self.shared.link.watch.operation("append", async move {
            append.check(&LIMITS)?;
            let change = ScriptCall { append, restored: None };
            let appended = change.make("append", &self.shared, &self.id).await?;
            append.messages.clear();
            Ok(appended)
        })
    }

    fn read_with<'a>(&'a self, read: &'a Read) -> BoxFuture<'a, Result<Snapshot>> {
        self.shared.link.watch.operation("read", self.snapshot(read))
    }

    fn slots(&self) -> BoxFuture<'_, Result<Vec<(String, SlotVersion)>>> {
        self.shared.link.watch.operation("slots", async move {
            let versions = self.shared.keys.of(&self.id, "versions");
            let found = self.shared.link.ask("slots", cmd("HGETALL").arg(versions)).await?;
            let found: Vec<(String, String)> = parse("slots", found)?;
            let slots = found.into_iter().map(|(name, version)| Ok((name, version.parse()?)));
            let mut slots: Vec<_> = slots.collect::<Result<_>>()?;
            slots.sort_by(|one: &(String, _), other| one.0.cmp(&other.0));
            Ok(slots)
        })
    }

    fn limits(&self) -> Limits {
        LIMITS
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
