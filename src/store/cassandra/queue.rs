//! Queues in which the writers of one process wait for each other before they change the same
//! conversation.
//!
//! Correctness does not depend on them. Concurrent changes of one conversation cost extra rounds
//! among the replicas, and waiting here is cheaper.

use std::collections::HashMap;
use std::sync::{Arc, Weak};

use parking_lot::Mutex;
use tokio::sync;

use crate::memory::MemoryId;

pub(super) type Queue = Arc<sync::Mutex<()>>;

#[derive(Default)]
pub(super) struct Queues(Mutex<ById>);

#[derive(Default)]
struct ById {
    by_id: HashMap<MemoryId, Weak<sync::Mutex<()>>>,
    /// At this size, unused queues are removed.
    sweep_at: usize,
}

impl Queues {
    pub(super) fn queue(&self, id: &MemoryId) -> Queue {
        let mut queues = self.0.lock();
        if let Some(queue) = queues.by_id.get(id).and_then(Weak::upgrade) {
            return queue;
        }
        if queues.by_id.len() >= queues.sweep_at {
            queues.by_id.retain(|_, queue| queue.strong_count() > 0);
            queues.sweep_at = (2 * queues.by_id.len()).max(64);
        }
        let queue = Queue::default();
        queues.by_id.insert(id.clone(), Arc::downgrade(&queue));
        queue
    }
}
