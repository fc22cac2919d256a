//! Forgetting messages, and ending a conversation.

use scylla::value::MaybeUnset;

use super::BUCKET;
use super::ask::Consistency;
use super::attempts::Attempts;
use super::change::{Active, HeadChange, Swap};
use super::failure::overtaken;
use super::read::Conversation;
use super::rows::Head;
use crate::error::Result;
use crate::record::Incarnation;
use crate::store::common::{signed, unsigned};

impl Conversation<'_> {
    /// Forgets the messages before a position, or everything, so that another incarnation begins;
    /// returns how many messages there were.
    pub(super) async fn forget(&self, operation: &'static str, before: Option<u64>) -> Result<u64> {
        let mut seen = self.client.head(operation, self.key, Consistency::Quorum).await?;
        let mut attempts = Attempts::of(operation, self.client.timeout);
        loop {
            attempts.next().await?;
            let Some(head) = seen.as_ref().filter(|head| !head.ended) else { return Ok(0) };
            let to = before.map_or(head.end, signed).min(head.end);
            if before.is_some() && to <= head.start {
                return Ok(0);
            }
            // A bucket in which something stays is not removed, nor one that may yet be filled.
            // Those that an earlier eviction has left are removed first, and the next head says so.
            let first = head.start.min(head.sealed) / BUCKET;
            self.client.drop_buckets(operation, head.log, head.swept..first).await?;
            let mut next = Head { start: to, swept: first, ..head.clone() };
            if before.is_none() {
                next.incarnation = Incarnation::random();
            }
            let system = if before.is_none() { MaybeUnset::Set(None) } else { MaybeUnset::Unset };
            let mut change = self.change(Some(head), &mut next, system, &Active::Kept);
            if to > head.sealed {
                change.forget(to);
            }
            if before.is_none() {
                change.forget_slots();
            }
            match change.make(self.client, operation).await? {
                Swap::Done => {
                    // The messages are forgotten from here on. What can't be removed from the
                    // buckets now, the next eviction removes.
                    let _ = self.sweep(operation, &next).await;
                    return Ok(unsigned(to - head.start));
                }
                Swap::Lost(now) => seen = now,
                Swap::Overtaken(_) => return Err(overtaken(operation)),
            }
        }
    }

    /// Removes from the buckets what is forgotten.
    async fn sweep(&self, operation: &'static str, head: &Head) -> Result<()> {
        let forgotten = head.start.min(head.sealed);
        let whole = head.swept..forgotten / BUCKET;
        self.client.drop_buckets(operation, head.log, whole).await?;
        if forgotten % BUCKET > 0 && forgotten > head.swept * BUCKET {
            self.client.drop_rows(operation, head.log, forgotten).await?;
        }
        Ok(())
    }

    /// Ends the conversation; returns whether there was one. With `active_before`, only one to
    /// which nothing was appended since.
    ///
    /// If it has buckets its head says for as long as they are removed that it is no more, so
    /// that whoever comes by goes on with that if the one who began it has died.
    pub(super) async fn remove(
        &self,
        operation: &'static str,
        active_before: Option<i64>,
    ) -> Result<bool> {
        let mut seen = self.client.head(operation, self.key, Consistency::Quorum).await?;
        let mut attempts = Attempts::of(operation, self.client.timeout);
        loop {
            attempts.next().await?;
            let Some(head) = &seen else { return Ok(false) };
            if head.ended {
                self.finish(operation, head).await?;
                return Ok(false);
            }
            if active_before.is_some_and(|time| head.active.0 >= time) {
                return Ok(false);
            }
            let mut next = Head { ended: true, ..head.clone() };
            let change = if head.has_buckets() {
                let mut change =
                    self.change(Some(head), &mut next, MaybeUnset::Set(None), &Active::Kept);
                change.forget_all();
                change
            } else {
                HeadChange::remove(self.client, self.key, head)
            };
            match change.make(self.client, operation).await? {
                Swap::Done if head.has_buckets() => {
                    // The conversation is no more. What can't be removed now, a purge will remove.
                    let _ = self.finish(operation, &next).await;
                    return Ok(true);
                }
                Swap::Done => return Ok(true),
                Swap::Lost(now) => seen = now,
                Swap::Overtaken(_) => return Err(overtaken(operation)),
            }
        }
    }

    /// Removes the buckets of a conversation that has ended, and then its head.
    pub(super) async fn finish(&self, operation: &'static str, head: &Head) -> Result<()> {
        // Somebody who has not seen the end of the conversation may still be moving messages into
        // the last bucket.
        let buckets = head.swept..head.end / BUCKET + 1;
        self.client.drop_buckets(operation, head.log, buckets).await?;
        let change = HeadChange::remove(self.client, self.key, head);
        change.make(self.client, operation).await.map(drop)
    }
}
