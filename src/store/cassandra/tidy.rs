//! Moves messages that are no longer new into buckets.

use scylla::value::MaybeUnset;

use super::BUCKET;
use super::ask::{Consistency, Conversation, buckets};
use super::change::{Active, HeadChange};
use super::rows::Head;
use crate::error::Result;

impl Conversation<'_> {
    /// Moves messages that are no longer new from the head's partition into buckets, if there are
    /// enough: copies them, and then changes the head. If this dies in between, the copies are
    /// unused; concurrent runs copy the same rows.
    pub(super) async fn tidy(&self, head: &Head) -> Result<()> {
        let from = head.sealed.max(head.start);
        if head.end - from < 2 * BUCKET {
            return Ok(());
        }
        let to = (head.end - BUCKET) / BUCKET * BUCKET;
        // The copy must be complete, so every change must have reached the replicas that are asked.
        let confirmed = self.head(Consistency::Serial).await?;
        if confirmed.is_none_or(|confirmed| confirmed.version != head.version) {
            return Ok(());
        }
        for bucket in buckets(&(from..to)) {
            let range = from.max(bucket * BUCKET)..to.min((bucket + 1) * BUCKET);
            let mut rows = self.rows(head, range).await?;
            rows.sort_unstable_by_key(|row| row.position);
            self.put(head.log, bucket, &rows).await?;
        }
        let mut next = Head { sealed: to, ..head.clone() };
        let mut change =
            HeadChange::set(self, Some(head), &mut next, MaybeUnset::Unset, &Active::Kept);
        change.add(&self.client.cql.forget, (self.key, to));
        change.make().await.map(drop)
    }
}
