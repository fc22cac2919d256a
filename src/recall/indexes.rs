//! The indexes of all conversations that were searched, within a memory bound.

use std::collections::HashMap;
use std::sync::Arc;

use parking_lot::Mutex;

use super::index::Index;
use crate::memory::MemoryId;

#[derive(Default)]
pub(super) struct Indexes {
    known: HashMap<MemoryId, Kept>,
    /// The bytes of all of them, and the maximum.
    pub(super) bytes: usize,
    pub(super) most: usize,
    clock: u64,
}

#[derive(Default)]
struct Kept {
    index: Arc<Mutex<Index>>,
    bytes: usize,
    used: u64,
}

impl Indexes {
    pub(super) fn at_most(most: usize) -> Arc<Mutex<Self>> {
        Arc::new(Mutex::new(Self { most, ..Self::default() }))
    }

    pub(super) fn of(&mut self, id: &MemoryId) -> Arc<Mutex<Index>> {
        self.clock += 1;
        let kept = self.known.entry(id.clone()).or_default();
        kept.used = self.clock;
        Arc::clone(&kept.index)
    }

    /// Notes the size of this index, unless another one has taken its place.
    pub(super) fn note(&mut self, id: &MemoryId, index: &Arc<Mutex<Index>>, bytes: usize) {
        if let Some(kept) = self.known.get_mut(id).filter(|kept| Arc::ptr_eq(&kept.index, index)) {
            self.bytes = self.bytes - kept.bytes + bytes;
            kept.bytes = bytes;
        }
        self.shrink(1);
    }

    pub(super) fn remove(&mut self, id: &MemoryId) {
        self.bytes -= self.known.remove(id).map_or(0, |kept| kept.bytes);
    }

    pub(super) fn keep_at_most(&mut self, bytes: usize) {
        self.most = bytes;
        self.shrink(0);
    }

    /// Drops indexes, least recently used first, until the rest fits or only `least` are left.
    fn shrink(&mut self, least: usize) {
        while self.bytes > self.most && self.known.len() > least {
            let oldest = self.known.iter().min_by_key(|(_, kept)| kept.used);
            let Some(oldest) = oldest.map(|(id, _)| id.clone()) else { break };
            self.remove(&oldest);
        }
    }
}
