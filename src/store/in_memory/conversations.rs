//! The conversations of a store, in the order of their ids.

use std::collections::BTreeMap;
use std::collections::btree_map::Entry;
use std::ops::Bound;
use std::sync::Arc;

use parking_lot::RwLock;

use crate::memory::{DefaultChatMemory, MemoryId};

/// A user of a conversation holds its `Arc` only while using it: a purge leaves conversations alone
/// that are held elsewhere.
#[derive(Default)]
pub(super) struct Conversations(RwLock<BTreeMap<MemoryId, Arc<DefaultChatMemory>>>);

/// How many ids are listed at once, while no conversation can begin or be deleted.
const AT_ONCE: usize = 256;

impl Conversations {
    pub(super) fn find(&self, id: &MemoryId) -> Option<Arc<DefaultChatMemory>> {
        self.0.read().get(id).cloned()
    }

    pub(super) fn find_or_create(&self, id: &MemoryId) -> Arc<DefaultChatMemory> {
        // Nearly always it is there: so appends to other conversations don't wait for this one.
        self.find(id).unwrap_or_else(|| {
            let new = || Arc::new(DefaultChatMemory::with_id(id.clone()));
            Arc::clone(self.0.write().entry(id.clone()).or_insert_with(new))
        })
    }

    pub(super) fn restore(&self, id: &MemoryId, conversation: DefaultChatMemory) -> bool {
        match self.0.write().entry(id.clone()) {
            Entry::Occupied(_) => false,
            Entry::Vacant(place) => {
                place.insert(Arc::new(conversation));
                true
            }
        }
    }

    pub(super) fn remove(&self, id: &MemoryId) -> bool {
        self.remove_if(id, |_| true).is_some()
    }

    /// Removes a conversation if it is `wanted`. It is returned, so that no lock is held while it
    /// is dropped.
    fn remove_if(
        &self,
        id: &MemoryId,
        wanted: impl Fn(&Arc<DefaultChatMemory>) -> bool,
    ) -> Option<Arc<DefaultChatMemory>> {
        let mut all = self.0.write();
        if all.get(id).is_some_and(wanted) { all.remove(id) } else { None }
    }

    /// Removes the conversations that have ended and are not in use; returns how many.
    pub(super) fn remove_where(&self, ended: impl Fn(&DefaultChatMemory) -> bool) -> u64 {
        // Nobody can take another reference while the map is locked.
        let is_over = |it: &Arc<_>| Arc::strong_count(it) == 1 && ended(it);
        let (mut removed, mut after) = (0, None);
        loop {
            let page = self.ids_at_once("", after.as_ref(), AT_ONCE);
            // Most have not ended, and the map is locked for all only to remove one that has.
            let may_go = |id: &&MemoryId| self.0.read().get(*id).is_some_and(is_over);
            let over = page.iter().filter(may_go);
            let over = over.filter(|id| self.remove_if(id, is_over).is_some());
            removed += over.count() as u64;
            after = page.into_iter().next_back();
            if after.is_none() {
                return removed;
            }
        }
    }

    /// Returns the next ids with this prefix, in the order of their bytes.
    ///
    /// Reads them in pages, so that a thread that begins a conversation does not wait long.
    pub(super) fn ids(&self, prefix: &str, after: Option<&MemoryId>, n: usize) -> Vec<MemoryId> {
        let mut ids: Vec<MemoryId> = Vec::new();
        while ids.len() < n {
            let page = AT_ONCE.min(n - ids.len());
            let found = self.ids_at_once(prefix, ids.last().or(after), page);
            if found.is_empty() {
                break;
            }
            ids.extend(found);
        }
        ids
    }

    fn ids_at_once(&self, prefix: &str, after: Option<&MemoryId>, n: usize) -> Vec<MemoryId> {
        let all = self.0.read();
        let first = MemoryId::from(prefix);
        let from = match after {
            Some(after) if *after >= first => Bound::Excluded(after),
            _ => Bound::Included(&first),
        };
        let ids = all.range::<MemoryId, _>((from, Bound::Unbounded)).map(|(id, _)| id);
        ids.take_while(|id| id.as_str().starts_with(prefix)).take(n).cloned().collect()
    }

    pub(super) fn count(&self) -> usize {
        self.0.read().len()
    }
}
