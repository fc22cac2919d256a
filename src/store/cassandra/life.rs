//! The end of a conversation, and the beginning of one that was kept elsewhere.

use scylla::value::MaybeUnset;

use super::BUCKET;
use super::change::{Active, Change};
use super::client::{Sure, Swap};
use super::conversation::Conversation;
use super::failure::overtaken;
use super::rows::{Head, new_log};
use super::tries::Tries;
use crate::error::Result;
use crate::record::Incarnation;

impl Conversation<'_> {
    /// Ends the conversation; returns whether there was one. With `active_before`, only one to
    /// which nothing was appended since.
    ///
    /// Where it has buckets its head says for as long as they are removed that it is no more, so
    /// that whoever comes by goes on with that if the one who began it has died.
    pub(super) async fn remove(
        &self,
        operation: &'static str,
        active_before: Option<i64>,
    ) -> Result<bool> {
        let mut seen = self.client.head(operation, self.key, Sure::Acknowledged).await?;
        let mut tries = Tries::of(operation, self.client.timeout);
        loop {
            tries.again().await?;
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
                Change::remove(self.client, self.key, head)
            };
            match self.client.swap(operation, self.key, &change).await? {
                Swap::Done if head.has_buckets() => {
                    // It is no more. What can't be removed now, a purge will remove.
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
        // The last one may be on its way from somebody who moves messages and has not seen it end.
        let buckets = head.swept..head.end / BUCKET + 1;
        self.client.drop_buckets(operation, head.log, buckets).await?;
        let change = Change::remove(self.client, self.key, head);
        self.client.swap(operation, self.key, &change).await.map(drop)
    }

    /// Begins a conversation at this position; returns whether there was none.
    pub(super) async fn restore(
        &self,
        start: i64,
        incarnation: Option<Incarnation>,
    ) -> Result<bool> {
        let mut seen = self.client.head("restore", self.key, Sure::Acknowledged).await?;
        let mut tries = Tries::of("restore", self.client.timeout);
        loop {
            tries.again().await?;
            match &seen {
                Some(head) if head.ended => self.finish("restore", head).await?,
                Some(_) => return Ok(false),
                None => {}
            }
            let mut next = Head::new(new_log(incarnation), start);
            let change = self.change(None, &mut next, MaybeUnset::Unset, &Active::Now);
            match self.client.swap("restore", self.key, &change).await? {
                Swap::Done => return Ok(true),
                Swap::Lost(now) => seen = now,
                Swap::Overtaken(_) => return Err(overtaken("restore")),
            }
        }
    }
}
