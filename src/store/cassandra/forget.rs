//! Evicts messages, and ends conversations.

use scylla::value::MaybeUnset;

use super::BUCKET;
use super::ask::{Consistency, Conversation};
use super::attempts::Attempts;
use super::change::{Active, HeadChange, Swap};
use super::failure::overtaken;
use super::rows::Head;
use crate::error::Result;
use crate::record::Incarnation;
use crate::store::common::{signed, unsigned};

impl Conversation<'_> {
    /// Forgets the messages before a position, or all of them and starts a new incarnation; returns
    /// how many there were.
    pub(super) async fn forget(&self, before: Option<u64>) -> Result<u64> {
        let mut seen = self.head(Consistency::Quorum).await?;
        let mut attempts = Attempts::of(self);
        loop {
            attempts.next().await?;
            let Some(head) = seen.as_ref().filter(|head| !head.ended) else { return Ok(0) };
            let to = before.map_or(head.end, signed).min(head.end);
            if before.is_some() && to <= head.start {
                return Ok(0);
            }
            // A bucket is kept if some of its messages stay. Buckets left by an earlier eviction
            // are removed first, and the next head says so.
            let first = head.start / BUCKET;
            self.drop_buckets(head.log, head.swept..first).await?;
            let mut next = Head { start: to, swept: first, ..head.clone() };
            if before.is_none() {
                next.incarnation = Incarnation::random();
            }
            let system = if before.is_none() { MaybeUnset::Set(None) } else { MaybeUnset::Unset };
            let mut change = HeadChange::set(self, Some(head), &mut next, system, &Active::Kept);
            if to > head.sealed {
                change.add(&self.client.cql.forget, (self.key, to));
            }
            if before.is_none() {
                change.add(&self.client.cql.forget_slots, (self.key,));
            }
            match change.make().await? {
                Swap::Done => {
                    // From here on the messages are forgotten. Buckets that can't be removed now
                    // are removed by the next eviction.
                    let _ = self.sweep(&next).await;
                    return Ok(unsigned(to - head.start));
                }
                Swap::Lost(now) => seen = now,
                Swap::Overtaken(_) => return Err(overtaken(self.operation)),
            }
        }
    }

    /// Removes forgotten messages from the buckets, and their copies if a writer is just moving
    /// them. What it copies later stays removed, since that has the lowest timestamp.
    async fn sweep(&self, head: &Head) -> Result<()> {
        let bucket = head.start / BUCKET;
        self.drop_buckets(head.log, head.swept..bucket).await?;
        // A bucket is filled when there are as many messages behind it.
        if head.start % BUCKET > 0 && head.end >= (bucket + 2) * BUCKET {
            self.drop_rows(head.log, head.start).await?;
        }
        Ok(())
    }

    /// Ends the conversation; returns whether there was one. With `active_before`, only if it was
    /// not appended to since then.
    ///
    /// If it has buckets, its head is marked as ended while they are removed, so that any later
    /// operation can continue if this one dies.
    pub(super) async fn remove(&self, active_before: Option<i64>) -> Result<bool> {
        let mut seen = self.head(Consistency::Quorum).await?;
        let mut attempts = Attempts::of(self);
        loop {
            attempts.next().await?;
            let Some(head) = &seen else { return Ok(false) };
            if head.ended {
                self.finish(head).await?;
                return Ok(false);
            }
            if active_before.is_some_and(|time| head.active.0 >= time) {
                return Ok(false);
            }
            let mut next = Head { ended: true, ..head.clone() };
            let change = if head.has_buckets() {
                let gone = MaybeUnset::Set(None);
                let mut change = HeadChange::set(self, Some(head), &mut next, gone, &Active::Kept);
                change.add(&self.client.cql.forget_all, (self.key,));
                change
            } else {
                HeadChange::remove(self, head)
            };
            match change.make().await? {
                Swap::Done if head.has_buckets() => {
                    // The conversation no longer exists. Buckets that can't be removed now are
                    // removed by a purge.
                    let _ = self.finish(&next).await;
                    return Ok(true);
                }
                Swap::Done => return Ok(true),
                Swap::Lost(now) => seen = now,
                Swap::Overtaken(_) => return Err(overtaken(self.operation)),
            }
        }
    }

    /// Removes the buckets of an ended conversation, and then its head.
    pub(super) async fn finish(&self, head: &Head) -> Result<()> {
        // A writer that has not seen the end of the conversation may still be moving messages into
        // the last bucket.
        let buckets = head.swept..head.end / BUCKET + 1;
        self.drop_buckets(head.log, buckets).await?;
        let change = HeadChange::remove(self, head);
        change.make().await.map(drop)
    }
}
