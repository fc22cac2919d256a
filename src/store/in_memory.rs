//! The store that keeps everything in this process.

use std::collections::BTreeMap;
use std::fmt;
use std::ops::{Bound, Range};
use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering};
use std::time::SystemTime;

use parking_lot::RwLock;

use super::ChatMemoryStore;
use crate::error::Result;
use crate::memory::{ChatMemory, DefaultChatMemory, MemoryId};
use crate::message::Message;
use crate::record::{Snapshot, millis};

/// Many conversations in this process. A clone is a handle on the same store.
///
/// Conversations do not wait for each other: the lock of the store is held while an id is looked up,
/// not while its conversation is used. Ids are listed in the order of their bytes.
///
/// ```
/// use memory_prompt::{ChatMemoryExt, ChatMemoryStore, InMemoryStore, Message};
///
/// let store = InMemoryStore::new();
/// let memory = store.memory("support:u1001:c2002")?;
/// assert!(store.ids(None, 10)?.is_empty()); // asking for a memory creates nothing
///
/// memory.add(Message::user("hi"))?;
/// assert_eq!(store.ids(None, 10)?, ["support:u1001:c2002".into()]);
/// assert!(store.delete(&"support:u1001:c2002".into())?);
/// assert!(memory.all()?.is_empty());
/// # Ok::<(), memory_prompt::Error>(())
/// ```
#[derive(Clone, Default)]
pub struct InMemoryStore {
    conversations: Conversations,
}

/// One conversation of an [`InMemoryStore`].
pub struct InMemory {
    id: MemoryId,
    conversations: Conversations,
}

type Conversations = Arc<RwLock<BTreeMap<MemoryId, Arc<Conversation>>>>;

/// Whoever uses one holds the `Arc` meanwhile, and only meanwhile: a purge leaves alone what
/// somebody else holds.
struct Conversation {
    memory: DefaultChatMemory,
    /// The time of the last append, in milliseconds since 1970.
    active: AtomicU64,
}

impl InMemoryStore {
    /// An empty store.
    pub fn new() -> Self {
        Self::default()
    }

    /// The memory of the conversation under this id. Any text is an id.
    ///
    /// # Errors
    ///
    /// None: it returns a `Result` as every store does.
    pub fn memory(&self, id: impl Into<MemoryId>) -> Result<InMemory> {
        Ok(InMemory { id: id.into(), conversations: Arc::clone(&self.conversations) })
    }
}

impl ChatMemoryStore for InMemoryStore {
    fn memory(&self, id: MemoryId) -> Result<Arc<dyn ChatMemory>> {
        self.memory(id).map(|memory| Arc::new(memory) as Arc<dyn ChatMemory>)
    }

    fn ids(&self, after: Option<&MemoryId>, n: usize) -> Result<Vec<MemoryId>> {
        let conversations = self.conversations.read();
        let from = after.map_or(Bound::Unbounded, Bound::Excluded);
        let ids = conversations.range::<MemoryId, _>((from, Bound::Unbounded));
        Ok(ids.take(n).map(|(id, _)| id.clone()).collect())
    }

    fn delete(&self, id: &MemoryId) -> Result<bool> {
        Ok(self.conversations.write().remove(id).is_some())
    }

    fn purge_inactive(&self, older_than: SystemTime) -> Result<u64> {
        let older_than = millis(older_than);
        let mut conversations = self.conversations.write();
        let before = conversations.len();
        conversations.retain(|_, conversation| {
            // Nobody new can take hold of it while this lock is held.
            Arc::strong_count(conversation) > 1
                || conversation.active.load(Ordering::Acquire) >= older_than
        });
        Ok((before - conversations.len()) as u64)
    }
}

impl InMemory {
    fn find(&self) -> Option<Arc<Conversation>> {
        self.conversations.read().get(&self.id).cloned()
    }

    fn find_or_create(&self) -> Arc<Conversation> {
        let mut conversations = self.conversations.write();
        let conversation = conversations.entry(self.id.clone()).or_insert_with(|| {
            let memory = DefaultChatMemory::with_id(self.id.clone());
            Arc::new(Conversation { memory, active: AtomicU64::new(0) })
        });
        Arc::clone(conversation)
    }
}

impl ChatMemory for InMemory {
    fn id(&self) -> &MemoryId {
        &self.id
    }

    fn append(&self, batch: &mut Vec<Message>, expected: Option<u64>) -> Result<Range<u64>> {
        let conversation = match self.find() {
            Some(conversation) => conversation,
            None if batch.is_empty() || expected.is_some_and(|expected| expected > 0) => {
                // Nothing to store, or a conflict: neither creates a conversation, and what is to be
                // said about either is what an empty one says.
                return DefaultChatMemory::with_id(self.id.clone()).append(batch, expected);
            }
            None => self.find_or_create(),
        };
        let empty = batch.is_empty();
        let positions = conversation.memory.append(batch, expected)?;
        if !empty {
            conversation.active.fetch_max(millis(SystemTime::now()), Ordering::AcqRel);
        }
        Ok(positions)
    }

    fn read(&self, before: Option<u64>, n: usize) -> Result<Snapshot> {
        self.find().map_or_else(|| Ok(Snapshot::default()), |found| found.memory.read(before, n))
    }

    fn evict(&self, before: u64) -> Result<u64> {
        self.find().map_or(Ok(0), |found| found.memory.evict(before))
    }

    fn clear(&self) -> Result<()> {
        self.find().map_or(Ok(()), |found| found.memory.clear())
    }
}

impl fmt::Debug for InMemoryStore {
    /// Says how much is in it, not what: logs are no place for conversations.
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let conversations = self.conversations.read().len();
        f.debug_struct("InMemoryStore").field("conversations", &conversations).finish()
    }
}

impl fmt::Debug for InMemory {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("InMemory").field("id", &self.id).finish_non_exhaustive()
    }
}
