//! The conversations of a store: found by a hash, listed in order.
//!
//! Two structures hold the ids, since neither does both: a table, which finds one among a million at the
//! price of a few cache misses where a tree takes twenty, and a tree, which lists. The table is parted,
//! so that those who look wait only for those who change the same part. Who changes the table changes the
//! tree before it lets go of the part: an id is in both or in neither.

use std::collections::hash_map::Entry;
use std::collections::{BTreeSet, HashMap};
use std::hash::{BuildHasher, BuildHasherDefault, Hash, Hasher, RandomState};
use std::ops::Bound;
use std::sync::Arc;

use parking_lot::RwLock;

use crate::memory::{DefaultChatMemory, MemoryId};

/// An id with its hash, which is computed once for each memory that is handed out.
#[derive(Clone, PartialEq, Eq)]
pub(super) struct Key {
    hash: u64,
    id: MemoryId,
}

pub(super) struct Conversations {
    parts: Vec<RwLock<Part>>,
    order: RwLock<BTreeSet<MemoryId>>,
    /// Keyed at random, so that nobody can choose ids that all fall in one place.
    hasher: RandomState,
}

/// Whoever uses a conversation holds the `Arc` meanwhile, and only meanwhile: a purge leaves alone what
/// somebody else holds.
type Part = HashMap<Key, Arc<DefaultChatMemory>, BuildHasherDefault<Given>>;

/// Takes the hash that a key brings along.
#[derive(Default)]
pub(super) struct Given(u64);

const PARTS: usize = 64;

/// A purge holds a part for as many conversations at a time.
const AT_ONCE: usize = 64;

impl Default for Conversations {
    fn default() -> Self {
        let parts = std::iter::repeat_with(RwLock::default).take(PARTS).collect();
        Self { parts, order: RwLock::default(), hasher: RandomState::new() }
    }
}

impl Conversations {
    pub(super) fn key(&self, id: MemoryId) -> Key {
        Key { hash: self.hasher.hash_one(&id), id }
    }

    /// The part that a key belongs to: by bits that the table itself makes little use of.
    fn part(&self, key: &Key) -> &RwLock<Part> {
        &self.parts[usize::try_from(key.hash >> 40).unwrap_or_default() % PARTS]
    }

    pub(super) fn find(&self, key: &Key) -> Option<Arc<DefaultChatMemory>> {
        self.part(key).read().get(key).cloned()
    }

    pub(super) fn find_or_create(&self, key: &Key) -> Arc<DefaultChatMemory> {
        let mut part = self.part(key).write();
        let conversation = part.entry(key.clone()).or_insert_with(|| {
            self.order.write().insert(key.id.clone());
            Arc::new(DefaultChatMemory::with_id(key.id.clone()))
        });
        Arc::clone(conversation)
    }

    /// Puts a conversation there; returns whether there was none.
    pub(super) fn restore(&self, key: Key, conversation: DefaultChatMemory) -> bool {
        match self.part(&key).write().entry(key) {
            Entry::Occupied(_) => false,
            Entry::Vacant(vacant) => {
                self.order.write().insert(vacant.key().id.clone());
                vacant.insert(Arc::new(conversation));
                true
            }
        }
    }

    /// Takes a conversation away; returns whether there was one.
    pub(super) fn remove(&self, key: &Key) -> bool {
        let mut part = self.part(key).write();
        let removed = part.remove(key);
        if removed.is_some() {
            self.order.write().remove(&key.id);
        }
        drop(part);
        removed.is_some() // dropped here, where nobody waits for it
    }

    /// Takes away the conversations that nobody uses and that have ended; returns how many.
    pub(super) fn remove_where(&self, ended: impl Fn(&DefaultChatMemory) -> bool) -> u64 {
        let mut removed = 0;
        for part in &self.parts {
            let found: Vec<Key> = {
                let part = part.read();
                let found = part.iter().filter(|(_, conversation)| ended(conversation));
                found.map(|(key, _)| key.clone()).collect()
            };
            for keys in found.chunks(AT_ONCE) {
                let mut gone = Vec::with_capacity(keys.len());
                let mut part = part.write();
                for key in keys {
                    // Nobody new can take hold of it while the part is held.
                    let is_over = |it: &Arc<_>| Arc::strong_count(it) == 1 && ended(it);
                    if part.get(key).is_some_and(is_over) {
                        gone.extend(part.remove_entry(key));
                    }
                }
                let mut order = self.order.write();
                for (key, _) in &gone {
                    order.remove(&key.id);
                }
                drop((order, part));
                removed += gone.len() as u64;
            }
        }
        removed
    }

    /// The next ids in the order of their bytes that begin with this text.
    pub(super) fn ids(&self, prefix: &str, after: Option<&MemoryId>, n: usize) -> Vec<MemoryId> {
        let order = self.order.read();
        let first = MemoryId::from(prefix);
        let from = match after {
            Some(after) if *after >= first => Bound::Excluded(after),
            _ => Bound::Included(&first),
        };
        let ids = order.range::<MemoryId, _>((from, Bound::Unbounded));
        ids.take_while(|id| id.as_str().starts_with(prefix)).take(n).cloned().collect()
    }

    pub(super) fn count(&self) -> usize {
        self.order.read().len()
    }
}

impl Key {
    pub(super) fn id(&self) -> &MemoryId {
        &self.id
    }
}

impl Hash for Key {
    fn hash<H: Hasher>(&self, state: &mut H) {
        state.write_u64(self.hash);
    }
}

impl Hasher for Given {
    fn finish(&self) -> u64 {
        self.0
    }

    fn write_u64(&mut self, hash: u64) {
        self.0 = hash;
    }

    /// Not called: a key writes its hash and nothing else.
    fn write(&mut self, bytes: &[u8]) {
        for byte in bytes {
            self.0 = self.0.rotate_left(8) ^ u64::from(*byte);
        }
    }
}
