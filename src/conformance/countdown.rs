//! A memory that fails when a countdown reaches zero.

use std::ops::Range;
use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering};

use crate::error::{Error, ErrorKind, Result};
use crate::memory::{Append, Appended, ChatMemory, Limits, MemoryId, Read};
use crate::message::Message;
use crate::record::{SlotVersion, Snapshot};

/// A memory that forwards to another one until a countdown reaches zero. From then on, every
/// operation fails and changes nothing.
///
/// It is for tests of code that uses a memory: try a countdown from each number, and every point of
/// failure is covered.
///
/// ```
/// use memory_prompt::conformance::Countdown;
/// use memory_prompt::{DefaultChatMemory, MemoryPrompt, Message};
/// use std::sync::Arc;
///
/// let memory = Arc::new(Countdown::new(DefaultChatMemory::new()));
/// let mut prompt = MemoryPrompt::new(Arc::clone(&memory));
/// prompt.add_temporary(Message::user("once"));
/// memory.fail_after(Some(0));
/// assert_eq!(prompt.build().unwrap_err().to_string(), "read: countdown: the time has come");
/// memory.fail_after(None);
/// assert_eq!(prompt.build()?.len(), 1); // the temporary message was not lost
/// # Ok::<(), memory_prompt::Error>(())
/// ```
#[derive(Debug)]
pub struct Countdown<M> {
    inner: M,
    left: AtomicU64,
}

const NEVER: u64 = u64::MAX;

impl<M> Countdown<M> {
    /// Returns a memory that does not fail yet.
    pub fn new(inner: M) -> Self {
        Self { inner, left: AtomicU64::new(NEVER) }
    }

    /// Lets the next `operations` succeed and all after them fail; `None` lets all succeed.
    pub fn fail_after(&self, operations: Option<u64>) {
        self.left.store(operations.unwrap_or(NEVER), Ordering::Relaxed);
    }

    /// Does an operation on the memory, unless the countdown has ended.
    fn step<T>(&self, operation: &'static str, act: impl FnOnce(&M) -> Result<T>) -> Result<T> {
        let count = |left| if left == NEVER { Some(NEVER) } else { u64::checked_sub(left, 1) };
        if self.left.fetch_update(Ordering::Relaxed, Ordering::Relaxed, count).is_err() {
            let text = "countdown: the time has come";
            return Err(Error::new(ErrorKind::Storage, operation, text));
        }
        act(&self.inner)
    }
}

#[deny(clippy::missing_trait_methods)] // a forgotten method would not fail
impl<M: ChatMemory> ChatMemory for Countdown<M> {
    fn id(&self) -> &MemoryId {
        self.inner.id()
    }
    fn append(&self, batch: &mut Vec<Message>, expected: Option<u64>) -> Result<Range<u64>> {
        self.step("append", |inner| inner.append(batch, expected))
    }
    fn read(&self, before: Option<u64>, n: usize) -> Result<Snapshot> {
        self.step("read", |inner| inner.read(before, n))
    }
    fn evict(&self, before: u64) -> Result<u64> {
        self.step("evict", |inner| inner.evict(before))
    }
    fn clear(&self) -> Result<()> {
        self.step("clear", M::clear)
    }
    fn append_with(&self, append: &mut Append) -> Result<Appended> {
        self.step("append", |inner| inner.append_with(append))
    }
    fn read_with(&self, read: &Read) -> Result<Snapshot> {
        self.step("read", |inner| inner.read_with(read))
    }
    fn slots(&self) -> Result<Vec<(String, SlotVersion)>> {
        self.step("slots", M::slots)
    }
    fn limits(&self) -> Limits {
        self.inner.limits()
    }
    fn already_shared(&self) -> Option<Arc<dyn ChatMemory>>
    where
        Self: 'static,
    {
        None // the inner memory is shared without the countdown
    }
    fn all_branches(&self) -> Option<Arc<dyn ChatMemory>> {
        None // nor has what it shows a countdown
    }
}
