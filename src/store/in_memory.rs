//! The store that keeps everything in this process.

use std::collections::BTreeMap;
use std::collections::btree_map::Entry;
use std::fmt;
use std::ops::{Bound, Range};
use std::sync::Arc;
use std::time::{Duration, SystemTime};

use parking_lot::RwLock;

use super::{ChatMemoryStore, Info, check_prefix, exists};
use crate::error::{Error, Result};
use crate::memory::{Append, Appended, ChatMemory, DefaultChatMemory, Limits, MemoryId, Read};
use crate::message::Message;
use crate::record::{Incarnation, SlotVersion, Snapshot, millis};

/// Many conversations in this process. A clone is a handle on the same store.
///
/// Conversations do not wait for each other: the lock of the store is held while an id is looked
/// up, not while its conversation is used. Ids are listed in the order of their bytes.
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

/// Whoever uses a conversation holds the `Arc` meanwhile, and only meanwhile: a purge leaves alone
/// what somebody else holds.
type Conversations = Arc<RwLock<BTreeMap<MemoryId, Arc<DefaultChatMemory>>>>;

impl InMemoryStore {
    /// Returns an empty store.
    pub fn new() -> Self {
        Self::default()
    }

    /// Returns the memory of the conversation under this id. Any text is an id.
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
            Arc::strong_count(conversation) > 1 || conversation.active() >= older_than
        });
        Ok((before - conversations.len()) as u64)
    }

    fn ids_with_prefix(
        &self,
        prefix: &str,
        after: Option<&MemoryId>,
        n: usize,
    ) -> Result<Vec<MemoryId>> {
        let conversations = self.conversations.read();
        let first = MemoryId::from(prefix);
        let from = match after {
            Some(after) if *after >= first => Bound::Excluded(after),
            _ => Bound::Included(&first),
        };
        let ids = conversations.range::<MemoryId, _>((from, Bound::Unbounded)).map(|(id, _)| id);
        let ids = ids.take_while(|id| id.as_str().starts_with(prefix));
        Ok(ids.take(n).cloned().collect())
    }

    fn info(&self, id: &MemoryId) -> Result<Option<Info>> {
        let found = self.conversations.read().get(id).map(|found| found.standing());
        Ok(found.map(|(positions, incarnation, active)| {
            let active = SystemTime::UNIX_EPOCH + Duration::from_millis(active);
            Info::new(positions, active).with_incarnation(incarnation)
        }))
    }

    fn delete_prefix(&self, prefix: &str) -> Result<u64> {
        check_prefix(prefix)?;
        let mut conversations = self.conversations.write();
        let before = conversations.len();
        conversations.retain(|id, _| !id.as_str().starts_with(prefix));
        Ok((before - conversations.len()) as u64)
    }

    fn restore(&self, id: &MemoryId, start: u64, incarnation: Option<Incarnation>) -> Result<()> {
        if start > MOST {
            let text = format!("in-memory: a position is at most {MOST}, and this one is {start}");
            return Err(Error::invalid("restore", text));
        }
        let incarnation = incarnation.unwrap_or_else(Incarnation::random);
        let restored = DefaultChatMemory::restored(id.clone(), start, incarnation);
        match self.conversations.write().entry(id.clone()) {
            Entry::Occupied(_) => Err(exists("in-memory", id)),
            Entry::Vacant(vacant) => {
                vacant.insert(Arc::new(restored));
                Ok(())
            }
        }
    }
}

/// The largest position at which a conversation is restored, as in most databases.
const MOST: u64 = i64::MAX as u64;

impl InMemory {
    fn find(&self) -> Option<Arc<DefaultChatMemory>> {
        self.conversations.read().get(&self.id).cloned()
    }

    fn find_or_create(&self) -> Arc<DefaultChatMemory> {
        let mut conversations = self.conversations.write();
        let conversation = conversations
            .entry(self.id.clone())
            .or_insert_with(|| Arc::new(DefaultChatMemory::with_id(self.id.clone())));
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
                // Nothing to store, or a conflict: neither creates a conversation, and either ends
                // as on an empty one.
                return DefaultChatMemory::with_id(self.id.clone()).append(batch, expected);
            }
            None => self.find_or_create(),
        };
        conversation.append(batch, expected)
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
        if let Some(found) = self.find() {
            return found.append_with(append);
        }
        append.check(&self.limits())?;
        append.check_on_nothing()?;
        if !append.creates() {
            // Nothing to store: it ends as on an empty conversation.
            append.messages.clear();
            let mut appended = Appended::new(0..0);
            appended.recognised = true;
            return Ok(appended);
        }
        self.find_or_create().append_with(append)
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
