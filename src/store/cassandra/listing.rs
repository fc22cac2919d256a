//! All conversations, in the order of the ring.

use super::rows::Listed;
use super::{CassandraStore, LISTED_AT_ONCE, id_of, key};
use crate::error::Result;
use crate::memory::MemoryId;

impl CassandraStore {
    /// Returns the next `n` wanted conversations after this one.
    async fn page(
        &self,
        operation: &'static str,
        after: Option<(i64, String)>,
        n: usize,
        wanted: impl Fn(&Listed) -> bool + Send + Sync,
    ) -> Result<Vec<Listed>> {
        let mut page = Vec::new();
        if n == 0 {
            return Ok(page);
        }
        // Two conversations may have the same place in the ring, so the place alone is not enough.
        let from = after.as_ref().map_or(i64::MIN, |after| after.0);
        let is_after = |found: &Listed| match &after {
            None => true,
            Some((token, key)) => (found.place, &found.id) > (*token, key),
        };
        let collect = |found: Listed| {
            if is_after(&found) && wanted(&found) {
                page.push(found);
            }
            page.len() < n
        };
        let client = &self.shared.client;
        let walked = client.each(&client.cql.ids, (from,), collect).await;
        walked.map_err(|failure| failure.during(operation))?;
        Ok(page)
    }

    pub(super) async fn list(
        &self,
        operation: &'static str,
        prefix: &str,
        after: Option<&MemoryId>,
        n: usize,
    ) -> Result<Vec<MemoryId>> {
        let after = match after {
            None => None,
            Some(id) => {
                let key = key(id, operation)?;
                Some((self.shared.client.token(operation, &key)?, key))
            }
        };
        let wanted = |found: &Listed| !found.has_ended() && id_of(&found.id).starts_with(prefix);
        let page = self.page(operation, after, n, wanted).await?;
        Ok(page.iter().map(|found| id_of(&found.id).into()).collect())
    }

    /// Ends the wanted conversations, and finishes the removal of those that have ended; returns
    /// how many it ended.
    pub(super) async fn remove_all(
        &self,
        operation: &'static str,
        older_than: Option<i64>,
        wanted: impl Fn(&Listed) -> bool + Send + Sync + Copy,
    ) -> Result<u64> {
        let (mut removed, mut after) = (0, None);
        loop {
            let page = self.page(operation, after, LISTED_AT_ONCE, wanted).await?;
            for Listed { id, .. } in &page {
                let conversation = self.conversation(operation, id);
                removed += u64::from(conversation.remove(older_than).await?);
            }
            after = match page.into_iter().next_back() {
                Some(last) => Some((last.place, last.id)),
                None => return Ok(removed),
            };
        }
    }
}
