//! A hash table that stores its entries inline.
//!
//! The standard library's table keeps one byte per place next to its entries, so finding one among
//! a million takes two cache misses there, and one here. This one is simple: linear probing, at
//! least half of the places stay free, and a removal leaves no gap behind.

use std::sync::Arc;

use crate::memory::{ChatMemory, DefaultChatMemory, MemoryId};

/// An id with its hash, which is computed once per memory.
#[derive(Clone)]
pub(super) struct Key {
    hash: u64,
    id: MemoryId,
}

#[derive(Default)]
pub(super) struct Table {
    /// The number of places is 0 or a power of two.
    places: Vec<Option<Entry>>,
    len: usize,
}

struct Entry {
    hash: u64,
    conversation: Arc<DefaultChatMemory>,
}

const FEWEST: usize = 8;

impl Key {
    pub(super) fn new(hash: u64, id: MemoryId) -> Self {
        Self { hash, id }
    }

    pub(super) fn hash(&self) -> u64 {
        self.hash
    }

    pub(super) fn id(&self) -> &MemoryId {
        &self.id
    }
}

impl Table {
    pub(super) fn get(&self, key: &Key) -> Option<&Arc<DefaultChatMemory>> {
        let entry = self.places.get(self.find(key)?)?.as_ref()?;
        Some(&entry.conversation)
    }

    /// Inserts a conversation, which must not be in the table yet.
    pub(super) fn insert(&mut self, hash: u64, conversation: Arc<DefaultChatMemory>) {
        if 2 * (self.len + 1) > self.places.len() {
            self.grow();
        }
        self.put(Entry { hash, conversation });
        self.len += 1;
    }

    /// Removes a conversation, and moves later entries up into the gap.
    pub(super) fn remove(&mut self, key: &Key) -> Option<Arc<DefaultChatMemory>> {
        let mut gap = self.find(key)?;
        let removed = self.places[gap].take()?;
        self.len -= 1;
        let mut next = self.behind(gap);
        while let Some(entry) = &self.places[next] {
            let moved = self.distance(self.home(entry.hash), next);
            if moved >= self.distance(gap, next) {
                self.places.swap(gap, next);
                gap = next;
            }
            next = self.behind(next);
        }
        Some(removed.conversation)
    }

    fn find(&self, key: &Key) -> Option<usize> {
        let mut place = self.home(key.hash());
        while let Some(entry) = self.places.get(place)? {
            if entry.hash == key.hash() && entry.conversation.id() == key.id() {
                return Some(place);
            }
            place = self.behind(place);
        }
        None
    }

    fn put(&mut self, entry: Entry) {
        let mut place = self.home(entry.hash);
        while self.places[place].is_some() {
            place = self.behind(place);
        }
        self.places[place] = Some(entry);
    }

    fn grow(&mut self) {
        let most = (2 * self.places.len()).max(FEWEST);
        let places = std::iter::repeat_with(|| None).take(most).collect();
        for entry in std::mem::replace(&mut self.places, places).into_iter().flatten() {
            self.put(entry);
        }
    }

    /// Returns the first place that is tried for a hash.
    fn home(&self, hash: u64) -> usize {
        // The place comes from the low bits, so cutting off the high ones loses nothing.
        #[expect(clippy::cast_possible_truncation, reason = "the mask leaves fewer bits")]
        let hash = hash as usize;
        hash & self.mask()
    }

    fn behind(&self, place: usize) -> usize {
        (place + 1) & self.mask()
    }

    /// Returns the distance between two places, wrapping around the end.
    fn distance(&self, from: usize, to: usize) -> usize {
        to.wrapping_sub(from) & self.mask()
    }

    /// Returns the mask for places. An empty table has a mask of all ones, but nothing is looked up
    /// there.
    fn mask(&self) -> usize {
        self.places.len().wrapping_sub(1)
    }
}

#[cfg(test)]
mod tests {
    use std::collections::BTreeMap;

    use super::*;

    fn hash_of(id: u64) -> u64 {
        if id.is_multiple_of(3) { u64::MAX - id % 2 } else { id / 4 }
    }

    /// Compares the table with a map, with so few hashes that most collide, wrap around the end,
    /// and fill each other's gaps.
    #[test]
    fn it_holds_what_a_map_holds() {
        let (mut table, mut model) = (Table::default(), BTreeMap::new());
        let mut random = 1_u64;
        for step in 0..200_000 {
            random = random.wrapping_mul(6_364_136_223_846_793_005).wrapping_add(1);
            let number = random >> 33;
            // Few ids, then many, then few again.
            let id = number % if (step / 50_000_u32).is_multiple_of(2) { 40 } else { 400 };
            let hash = hash_of(id);
            let key = Key::new(hash, id.to_string().into());
            match model.remove(&id) {
                Some(stood) if (number / 1_000).is_multiple_of(2) => {
                    assert!(Arc::ptr_eq(&table.remove(&key).unwrap(), &stood));
                    assert!(table.remove(&key).is_none());
                }
                Some(stood) => {
                    model.insert(id, stood);
                }
                None => {
                    let new = Arc::new(DefaultChatMemory::with_id(key.id().clone()));
                    assert!(table.get(&key).is_none());
                    table.insert(hash, Arc::clone(&new));
                    model.insert(id, new);
                }
            }
            assert_eq!(table.len, model.len());
            if step.is_multiple_of(100) {
                let all = table.places.iter().flatten();
                assert_eq!(all.count(), model.len());
                for (id, stood) in &model {
                    let key = Key::new(hash_of(*id), id.to_string().into());
                    let found = table.get(&key).unwrap();
                    assert!(Arc::ptr_eq(found, stood));
                }
            }
        }
    }
}
