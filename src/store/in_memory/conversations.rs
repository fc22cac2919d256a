//! The conversations of a store: found by a hash, listed in order.
//!
//! There are two structures, since neither does both. A hash table finds one conversation among a
//! million with one cache miss, where a tree needs twenty; a tree lists them in order. The table
//! has several parts, each with a lock, so that a reader waits only for writers of the same part. A
//! writer of the table changes the tree before it unlocks the part, so a conversation is in both or
//! in neither.

use std::collections::BTreeMap;
use std::hash::{BuildHasher, RandomState};
use std::ops::Bound;
use std::sync::Arc;

use parking_lot::RwLock;

use super::table::{Key, Table};
use crate::memory::{DefaultChatMemory, MemoryId};

/// A user of a conversation holds its `Arc` only while using it: a purge leaves conversations alone
/// that are held elsewhere.
pub(super) struct Conversations {
    parts: Vec<RwLock<Table>>,
    order: RwLock<BTreeMap<MemoryId, Arc<DefaultChatMemory>>>,
    /// Randomly keyed, so that ids with colliding hashes can't be crafted.
    hasher: RandomState,
}

const PARTS: usize = 64;

/// How many conversations a purge or a listing handles at once, while beginning and deleting are
/// locked out.
const AT_ONCE: usize = 256;

/// The references to each conversation: from the table and from the tree.
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

    /// Returns the part of a key, by hash bits that the table itself does not use.
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

    pub(super) fn remove(&self, key: &Key) -> bool {
        self.remove_if(key, |_| true).is_some()
    }

    /// Removes a conversation if it is `wanted`. It is returned, so that no lock is held while it
    /// is dropped.
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

    /// Removes the conversations that have ended and are not in use; returns how many.
    ///
    /// In the order of the tree, which keeps neighbours together.
    pub(super) fn remove_where(&self, ended: impl Fn(&DefaultChatMemory) -> bool) -> u64 {
        // No new reference can be taken while its part is locked.
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

    /// Returns those of the next conversations that have ended, and the last one looked at, unless
    /// these were all.
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

    /// Returns the next ids with this prefix, in the order of their bytes.
    ///
    /// Reads them in pages, so that a thread that begins a conversation does not wait long.
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
