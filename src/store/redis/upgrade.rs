//! From version 1 of the layout to version 2: conversations move to the shards on which they are
//! now.
//!
//! Whatever breaks it off, it can be done again, and by several at once: a conversation arrives in
//! one step, unless it has, and leaves when it has arrived. That it has arrived is remembered until
//! an hour after the upgrade, so that it does not arrive once more when it was deleted meanwhile.

use futures_util::future::try_join_all;
use redis::cmd;

use super::keys::{Keys, SHARDS, shard, shard_of_version_1};
use super::link::ARRIVE;
use super::{Shared, parse};
use crate::error::{Error, ErrorKind, Result};
use crate::memory::MemoryId;
use crate::record::Incarnation;

const OPERATION: &str = "open";

/// The number of conversations that move at the same time.
const AT_ONCE: usize = 16;

/// The milliseconds after the upgrade for which it is known what has arrived: far longer than one
/// who did the same at the same time waits for anything.
const REMEMBERED: u64 = 3_600_000;

impl Shared {
    /// Moves each conversation of version 1.
    pub(super) async fn upgrade(&self) -> Result<()> {
        // Conversations may be large, and each passes through this process.
        for first in SHARDS.step_by(AT_ONCE) {
            let shards = SHARDS.skip(first.into()).take(AT_ONCE);
            try_join_all(shards.map(|shard| self.upgrade_shard(shard))).await?;
        }
        for shard in SHARDS {
            let mut expire = cmd("PEXPIRE");
            expire.arg(self.keys.arrived(shard)).arg(REMEMBERED);
            self.link.ask(OPERATION, &expire).await?;
        }
        Ok(())
    }

    async fn upgrade_shard(&self, shard: u8) -> Result<()> {
        let mut after = None;
        loop {
            let ids = self.ids_of(OPERATION, shard, "", after.as_ref(), 64).await?;
            // Those that have arrived are listed too.
            for id in ids.iter().filter(|id| shard_of_version_1(id) == shard) {
                self.move_from(shard, id).await?;
            }
            after = ids.into_iter().next_back();
            if after.is_none() {
                return Ok(());
            }
        }
    }

    async fn move_from(&self, old: u8, id: &MemoryId) -> Result<()> {
        let new = shard(id);
        if old == new {
            return self.arrive(id, Default::default()).await.map(drop);
        }
        let [state, log, ..] = self.keys.conversation_on(old, id);
        let mut leave = cmd("EVAL");
        leave.arg(include_str!("leave.lua")).arg(3);
        leave.arg(state).arg(log).arg(self.keys.expiring(old)).arg(id.as_str());
        let found = self.link.ask(OPERATION, &leave).await?;
        let found: [Option<Vec<u8>>; 4] = parse(OPERATION, found)?;
        let there = found[0].is_some();
        if there && !self.arrive(id, found.map(Option::unwrap_or_default)).await? {
            let [_, log, ..] = self.keys.conversation_on(old, id);
            let text = format!(
                "redis: an older program is still running: it has begun {log} anew, which has moved \
                 before; end it, and delete one of the two"
            );
            return Err(Error::new(ErrorKind::Storage, OPERATION, text));
        }
        self.forget(OPERATION, old, std::slice::from_ref(id), None).await.map(|_| ())
    }

    /// Puts a conversation where it belongs now: its state, its log, when it expires and when it
    /// was begun, of which none is there where it does not move. False where another one is there.
    async fn arrive(&self, id: &MemoryId, found: [Vec<u8>; 4]) -> Result<bool> {
        let shard = shard(id);
        let mut keys = vec![self.keys.token(shard)];
        keys.extend(self.keys.conversation(id).into_iter().take(2));
        let lists = [Keys::ids, Keys::expiring, Keys::arrived];
        keys.extend(lists.map(|list| list(&self.keys, shard)));
        let incarnation = Incarnation::random().to_string();
        let [state, log, expires, born] = found;
        let id = id.as_str().as_bytes().to_vec();
        let args = [id, state, log, expires, incarnation.into_bytes(), born];
        let done = self.link.change(OPERATION, &ARRIVE, &keys, &args).await?;
        let said: String = parse(OPERATION, done)?;
        Ok(said.is_empty())
    }
}
