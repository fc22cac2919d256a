//! The conversations of a store: found by a hash, listed in order.
//!
//! Two structures hold them, since neither does both: a table, which finds one among a million at
//! the price of one cache miss where a tree takes twenty, and a tree, which lists. The table is
//! parted, so that those who look wait only for those who change the same part. Who changes the
//! table changes the tree before it lets go of the part: a conversation is in both or in neither.

use std::collections::BTreeMap;
use std::hash::{BuildHasher, RandomState};
use std::ops::Bound;
use std::sync::Arc;

use parking_lot::RwLock;

use super::table::{Key, Table};
use crate::memory::{DefaultChatMemory, MemoryId};

/// Whoever uses a conversation holds the `Arc` meanwhile, and only meanwhile: a purge leaves alone
/// what somebody else holds.
pub(super) struct Conversations {
    parts: Vec<RwLock<Table>>,
    order: RwLock<BTreeMap<MemoryId, Arc<DefaultChatMemory>>>,
    /// Keyed at random, so that nobody can choose ids that all fall in one place.
    hasher: RandomState,
}

const PARTS: usize = 64;

/// The number of conversations that a purge or a list looks at at a time, while nobody can begin or
/// delete one.
const AT_ONCE: usize = 256;

/// The holders of each conversation: table and tree.
const HOLDERS: usize = 2;

impl Default for Conversations {
    fn default() -> Self {
        let parts = std::iter::repeat_with(RwLock::default).take(PARTS).collect();
        Self { parts, order: RwLock::default(), hasher: RandomState::new() }
    }
}

impl Conversations {
    pub(super) fn key(&self, id: MemoryId) -> Key {
        Key::new(self.hasher.hash_one(&id), id)
    }

    /// Returns the part that a key belongs to: by bits of which the table itself makes no use.
    fn part(&self, key: &Key) -> &RwLock<Table> {
        &self.parts[usize::try_from(key.hash() >> 40).unwrap_or_default() % PARTS]
    }

    pub(super) fn find(&self, key: &Key) -> Option<Arc<DefaultChatMemory>> {
        self.part(key).read().get(key).cloned()
    }

    pub(super) fn find_or_create(&self, key: &Key) -> Arc<DefaultChatMemory> {
        let mut part = self.part(key).write();
        if let Some(conversation) = part.get(key) {
            return Arc::clone(conversation);
        }
        let conversation = Arc::new(DefaultChatMemory::with_id(key.id().clone()));
        self.put(&mut part, key, &conversation);
        conversation
    }

    /// Puts a conversation there; returns whether there was none.
    pub(super) fn restore(&self, key: &Key, conversation: DefaultChatMemory) -> bool {
        let mut part = self.part(key).write();
        let is_new = part.get(key).is_none();
        if is_new {
            self.put(&mut part, key, &Arc::new(conversation));
        }
        is_new
    }

    fn put(&self, part: &mut Table, key: &Key, conversation: &Arc<DefaultChatMemory>) {
        self.order.write().insert(key.id().clone(), Arc::clone(conversation));
        part.insert(key.hash(), Arc::clone(conversation));
    }

    /// Takes a conversation away; returns whether there was one.
    pub(super) fn remove(&self, key: &Key) -> bool {
        self.remove_if(key, |_| true).is_some()
    }

    /// Takes a conversation away, if it is to be; it is dropped if nobody waits for that.
    fn remove_if(
        &self,
        key: &Key,
        wanted: impl Fn(&Arc<DefaultChatMemory>) -> bool,
    ) -> Option<Arc<DefaultChatMemory>> {
        let mut part = self.part(key).write();
        if !part.get(key).is_some_and(wanted) {
            return None;
        }
        self.order.write().remove(key.id());
        part.remove(key)
    }

    /// Takes away the conversations that nobody uses and that have ended; returns how many.
    ///
    /// In the order of the tree, where those that are neighbours lie together.
    pub(super) fn remove_where(&self, ended: impl Fn(&DefaultChatMemory) -> bool) -> u64 {
        // Nobody new can take hold of it while its part is held.
        let is_over = |it: &Arc<_>| Arc::strong_count(it) == HOLDERS && ended(it);
        let (mut removed, mut after) = (0, None);
        loop {
            let (found, last) = self.page(after.as_ref(), &ended);
            for id in found {
                removed += u64::from(self.remove_if(&self.key(id), is_over).is_some());
            }
            match last {
                Some(last) => after = Some(last),
                None => return removed,
            }
        }
    }

    /// Returns those that have ended among the next ones, and the last of these unless they are
    /// all.
    fn page(
        &self,
        after: Option<&MemoryId>,
        ended: impl Fn(&DefaultChatMemory) -> bool,
    ) -> (Vec<MemoryId>, Option<MemoryId>) {
        let order = self.order.read();
        let from = after.map_or(Bound::Unbounded, Bound::Excluded);
        let next = order.range::<MemoryId, _>((from, Bound::Unbounded)).take(AT_ONCE);
        let (mut found, mut last) = (Vec::new(), None);
        for (id, conversation) in next {
            if ended(conversation) {
                found.push(id.clone());
            }
            last = Some(id);
        }
        (found, last.cloned())
    }

    /// Returns the next ids in the order of their bytes that begin with this text.
    ///
    /// In pages, so that nobody who begins a conversation waits for long.
    pub(super) fn ids(&self, prefix: &str, after: Option<&MemoryId>, n: usize) -> Vec<MemoryId> {
        let mut ids: Vec<MemoryId> = Vec::new();
        while ids.len() < n {
            let page = AT_ONCE.min(n - ids.len());
            let found = self.ids_at_once(prefix, ids.last().or(after), page);
            let is_last = found.len() < page;
            ids.extend(found);
            if is_last {
                break;
            }
        }
        ids
    }

    fn ids_at_once(&self, prefix: &str, after: Option<&MemoryId>, n: usize) -> Vec<MemoryId> {
        let order = self.order.read();
        let first = MemoryId::from(prefix);
        let from = match after {
            Some(after) if *after >= first => Bound::Excluded(after),
            _ => Bound::Included(&first),
        };
        let ids = order.range::<MemoryId, _>((from, Bound::Unbounded)).map(|(id, _)| id);
        ids.take_while(|id| id.as_str().starts_with(prefix)).take(n).cloned().collect()
    }

    pub(super) fn count(&self) -> usize {
        self.order.read().len()
    }
}
