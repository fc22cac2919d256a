//! Listing ids: one list per shard, in byte order.

use futures_util::future::try_join_all;
use redis::{Value, cmd};

use super::keys::SHARDS;
use super::link::FORGET;
use super::{Shared, parse};
use crate::error::{Error, Result};
use crate::memory::MemoryId;
use crate::store::common::behind;

/// How many ids are checked for existence at once.
const AT_ONCE: usize = 1_000;

/// How many conversations of a shard are deleted in one step, so that other clients are not blocked
/// for long.
const A_STEP: usize = 64;

impl Shared {
    /// Returns the next `n` ids of all shards, in order.
    pub(super) async fn list(
        &self,
        prefix: &str,
        after: Option<&MemoryId>,
        n: usize,
    ) -> Result<Vec<MemoryId>> {
        let mut found = Vec::new();
        let mut after = after.cloned();
        while found.len() < n {
            let page = self.page(prefix, after.as_ref(), (n - found.len()).min(AT_ONCE)).await?;
            let Some(last) = page.last().cloned() else { break };
            after = Some(last);
            found.extend(self.that_exist(page).await?);
        }
        Ok(found)
    }

    /// Returns up to `n` of the next ids of all shards, and at least one if there is one.
    async fn page(
        &self,
        prefix: &str,
        after: Option<&MemoryId>,
        n: usize,
    ) -> Result<Vec<MemoryId>> {
        // Hashing spreads the ids evenly, so a few of each shard usually suffice.
        let some = n / 128 + 4;
        let shards = SHARDS.map(|shard| self.ids_of("ids", shard, prefix, after, some));
        let shards = try_join_all(shards).await?;
        // If a shard may have more, nothing is known beyond its last id.
        let full = shards.iter().filter(|ids| ids.len() == some);
        let known = full.filter_map(|ids| ids.last()).min().cloned();
        let mut ids: Vec<MemoryId> = shards.into_iter().flatten().collect();
        ids.retain(|id| known.as_ref().is_none_or(|known| id <= known));
        ids.sort_unstable();
        ids.truncate(n);
        Ok(ids)
    }

    pub(super) async fn ids_of(
        &self,
        operation: &'static str,
        shard: u8,
        prefix: &str,
        after: Option<&MemoryId>,
        n: usize,
    ) -> Result<Vec<MemoryId>> {
        let from = match after {
            Some(after) if after.as_str() >= prefix => format!("({after}"),
            _ => format!("[{prefix}"),
        };
        let past = [b"(".as_slice(), &behind(prefix)].concat();
        let mut command = cmd("ZRANGEBYLEX");
        command.arg(self.keys.ids(shard)).arg(from).arg(past).arg("LIMIT").arg(0).arg(n);
        let ids: Vec<String> = parse(operation, self.link.ask(operation, &command).await?)?;
        Ok(ids.into_iter().map(MemoryId::from).collect())
    }

    /// Returns the ids whose conversations have not expired.
    async fn that_exist(&self, ids: Vec<MemoryId>) -> Result<Vec<MemoryId>> {
        let exists = async |id: MemoryId| {
            let exists =
                self.link.ask("ids", cmd("EXISTS").arg(self.keys.of(&id, "state"))).await?;
            Ok::<_, Error>((exists != Value::Int(0)).then_some(id))
        };
        let ids = try_join_all(ids.into_iter().map(exists)).await?;
        Ok(ids.into_iter().flatten().collect())
    }

    /// Deletes all conversations with this prefix, or the inactive ones among them; returns how
    /// many.
    pub(super) async fn sweep(
        &self,
        operation: &'static str,
        prefix: &str,
        older_than: Option<u64>,
    ) -> Result<u64> {
        let shards = SHARDS.map(|shard| self.sweep_shard(operation, shard, prefix, older_than));
        Ok(try_join_all(shards).await?.into_iter().sum())
    }

    async fn sweep_shard(
        &self,
        operation: &'static str,
        shard: u8,
        prefix: &str,
        older_than: Option<u64>,
    ) -> Result<u64> {
        let (mut gone, mut after) = (0, None);
        loop {
            let ids = self.ids_of(operation, shard, prefix, after.as_ref(), A_STEP).await?;
            if ids.is_empty() {
                return Ok(gone);
            }
            gone += self.forget(operation, shard, &ids, older_than).await?;
            after = ids.into_iter().next_back();
        }
    }

    /// Deletes these conversations, or the inactive ones among them; returns how many.
    pub(super) async fn forget(
        &self,
        operation: &'static str,
        shard: u8,
        ids: &[MemoryId],
        older_than: Option<u64>,
    ) -> Result<u64> {
        let mut keys =
            vec![self.keys.token(shard), self.keys.ids(shard), self.keys.expiring(shard)];
        keys.extend(ids.iter().flat_map(|id| self.keys.conversation(id)));
        let older_than = older_than.map_or_else(String::new, |time| time.to_string());
        let mut args = vec![older_than.as_bytes()];
        args.extend(ids.iter().map(|id| id.as_str().as_bytes()));
        parse(operation, self.link.change(operation, &FORGET, &keys, &args).await?)
    }
}
