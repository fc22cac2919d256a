//! Changes that were given up and that the server may still do: whoever changes the same
//! conversation next waits until it is done with them, so that none is done over what was
//! acknowledged meanwhile.

use std::collections::HashMap;
use std::sync::Arc;

use parking_lot::Mutex;
use tokio::sync::Notify;

use crate::memory::MemoryId;

/// The conversations that the server may still change, and by how many changes.
#[derive(Default)]
pub(super) struct Settling {
    open: Mutex<HashMap<MemoryId, usize>>,
    fewer: Notify,
}

/// Changes that were given up, until this is dropped.
pub(super) struct Unsettled {
    settling: Arc<Settling>,
    ids: Vec<MemoryId>,
}

impl Settling {
    pub(super) fn begin(self: &Arc<Self>, ids: &[&MemoryId]) -> Unsettled {
        let ids: Vec<MemoryId> = ids.iter().map(|id| (*id).clone()).collect();
        let mut open = self.open.lock();
        for id in &ids {
            *open.entry(id.clone()).or_default() += 1;
        }
        Unsettled { settling: Arc::clone(self), ids }
    }

    /// Waits until nothing of these is open.
    pub(super) async fn settled(&self, ids: &[&MemoryId]) {
        loop {
            let fewer = self.fewer.notified();
            if !self.is_open(ids) {
                return;
            }
            fewer.await;
        }
    }

    /// Tells whether the server may still change one of these.
    pub(super) fn is_open(&self, ids: &[&MemoryId]) -> bool {
        let open = self.open.lock();
        !open.is_empty() && ids.iter().any(|id| open.contains_key(*id))
    }
}

impl Drop for Unsettled {
    fn drop(&mut self) {
        let mut open = self.settling.open.lock();
        for id in &self.ids {
            if let Some(count) = open.get_mut(id) {
                *count -= 1;
                if *count == 0 {
                    open.remove(id);
                }
            }
        }
        drop(open);
        self.settling.fewer.notify_waiters();
    }
}
