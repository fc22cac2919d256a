//! The store that keeps everything in this process.

mod conversations;

use std::fmt;
use std::ops::Range;
use std::sync::Arc;
use std::time::SystemTime;

use super::{ChatMemoryStore, Info, exists};
use crate::error::{Error, Result};
use crate::memory::{
    Append, Appended, ChatMemory, DefaultChatMemory, LentBatch, Limits, MemoryId, Read,
};
use crate::message::Message;
use crate::record::{Incarnation, SlotVersion, Snapshot, millis, time_of};
use conversations::Conversations;

/// Many conversations in this process. A clone is a handle to the same store.
///
/// Conversations don't wait for each other: the store is locked while an id is looked up, not while
/// its conversation is used. Ids are listed in the order of their bytes.
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
    conversations: Arc<Conversations>,
}

/// One conversation of an [`InMemoryStore`].
pub struct InMemory {
    id: MemoryId,
    conversations: Arc<Conversations>,
}

impl InMemoryStore {
    /// Returns an empty store.
    pub fn new() -> Self {
        Self::default()
    }

    /// Returns the memory of the conversation under this id. Any text is an id.
    ///
    /// # Errors
    ///
    /// Never: all stores return a `Result` here.
    pub fn memory(&self, id: impl Into<MemoryId>) -> Result<InMemory> {
        Ok(InMemory { id: id.into(), conversations: Arc::clone(&self.conversations) })
    }
}

impl ChatMemoryStore for InMemoryStore {
    fn memory(&self, id: MemoryId) -> Result<Arc<dyn ChatMemory>> {
        self.memory(id).map(|memory| Arc::new(memory) as Arc<dyn ChatMemory>)
    }

    fn ids(&self, after: Option<&MemoryId>, n: usize) -> Result<Vec<MemoryId>> {
        Ok(self.conversations.ids("", after, n))
    }

    fn delete(&self, id: &MemoryId) -> Result<bool> {
        Ok(self.conversations.remove(id))
    }

    /// Deletes in small steps, so that no other thread waits long.
    fn purge_inactive(&self, older_than: SystemTime) -> Result<u64> {
        let older_than = millis(older_than);
        Ok(self.conversations.remove_where(|conversation| conversation.active() < older_than))
    }

    fn ids_with_prefix(
        &self,
        prefix: &str,
        after: Option<&MemoryId>,
        n: usize,
    ) -> Result<Vec<MemoryId>> {
        Ok(self.conversations.ids(prefix, after, n))
    }

    fn info(&self, id: &MemoryId) -> Result<Option<Info>> {
        Ok(self.conversations.find(id).map(|found| {
            let (positions, incarnation, active) = found.state_now();
            Info::new(positions, time_of(active)).with_incarnation(incarnation)
        }))
    }

    fn restore(&self, id: &MemoryId, start: u64, incarnation: Option<Incarnation>) -> Result<()> {
        if start > MOST {
            let text = format!("in-memory: a position is at most {MOST}, and this one is {start}");
            return Err(Error::invalid("restore", text));
        }
        let incarnation = incarnation.unwrap_or_else(Incarnation::random);
        let restored = DefaultChatMemory::restored(id.clone(), start, incarnation);
        if self.conversations.restore(id, restored) { Ok(()) } else { Err(exists("in-memory", id)) }
    }
}

/// The largest position at which a conversation can be restored, as in most databases.
const MOST: u64 = i64::MAX as u64;

impl InMemory {
    fn find(&self) -> Option<Arc<DefaultChatMemory>> {
        self.conversations.find(&self.id)
    }

    /// Returns the conversation to append to, and creates it if the append begins it. Otherwise
    /// returns an empty one, on which the append stores nothing or is refused.
    fn to_append(&self, begins: impl FnOnce() -> bool) -> Arc<DefaultChatMemory> {
        match self.find() {
            Some(found) => found,
            None if begins() => self.conversations.find_or_create(&self.id),
            None => Arc::new(DefaultChatMemory::with_id(self.id.clone())),
        }
    }
}

impl ChatMemory for InMemory {
    fn id(&self) -> &MemoryId {
        &self.id
    }

    fn append(&self, batch: &mut Vec<Message>, expected: Option<u64>) -> Result<Range<u64>> {
        let mut lent = LentBatch::new(batch, expected);
        Ok(self.append_with(&mut lent.append)?.positions)
    }

    fn read(&self, before: Option<u64>, n: usize) -> Result<Snapshot> {
        self.find().map_or_else(|| Ok(Snapshot::default()), |found| found.read(before, n))
    }

    fn evict(&self, before: u64) -> Result<u64> {
        self.find().map_or(Ok(0), |found| found.evict(before))
    }

    fn clear(&self) -> Result<()> {
        self.find().map_or(Ok(()), |found| found.clear())
    }

    fn append_with(&self, append: &mut Append) -> Result<Appended> {
        let is_sound = || {
            append.check(&self.limits())?;
            append.check_on_nothing()
        };
        // Only an append that will succeed creates a conversation; the error itself comes from the
        // memory.
        self.to_append(|| append.creates() && is_sound().is_ok()).append_with(append)
    }

    fn read_with(&self, read: &Read) -> Result<Snapshot> {
        read.check()?;
        self.find().map_or_else(|| Ok(Snapshot::default()), |found| found.read_with(read))
    }

    fn slots(&self) -> Result<Vec<(String, SlotVersion)>> {
        self.find().map_or_else(|| Ok(Vec::new()), |found| found.slots())
    }

    fn limits(&self) -> Limits {
        DefaultChatMemory::LIMITS
    }
}

impl fmt::Debug for InMemoryStore {
    /// Shows how much is stored, not what, since conversations don't belong in logs.
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let conversations = self.conversations.count();
        f.debug_struct("InMemoryStore").field("conversations", &conversations).finish()
    }
}

impl fmt::Debug for InMemory {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("InMemory").field("id", &self.id).finish_non_exhaustive()
    }
}
