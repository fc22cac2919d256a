//! A memory that fails as it is told.

use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};

use memory_prompt::memory::{Append, Appended, Limits, MemoryId, Read};
use memory_prompt::record::{SlotVersion, Snapshot};
use memory_prompt::{ChatMemory, DefaultChatMemory, Error, ErrorKind, Message, Result};

/// A memory that fails as it is told, with limits as it is told.
#[derive(Debug)]
pub(crate) struct Odd {
    inner: DefaultChatMemory,
    limits: Limits,
    /// The next append is made, and its answer is lost.
    pub(crate) loses: AtomicBool,
    /// The next append is not made.
    pub(crate) fails: AtomicBool,
    /// The next read fails.
    pub(crate) is_unreadable: AtomicBool,
}

impl Odd {
    pub(crate) fn new(limits: Limits) -> Arc<Self> {
        Arc::new(Self {
            inner: DefaultChatMemory::new(),
            limits,
            loses: AtomicBool::default(),
            fails: AtomicBool::default(),
            is_unreadable: AtomicBool::default(),
        })
    }
}

impl Odd {
    fn must_be_readable(&self) -> Result<()> {
        if self.is_unreadable.swap(false, Ordering::Relaxed) {
            return Err(Error::new(ErrorKind::Storage, "read", "the disk is gone"));
        }
        Ok(())
    }
}

impl ChatMemory for Odd {
    fn id(&self) -> &MemoryId {
        self.inner.id()
    }
    fn append(
        &self,
        batch: &mut Vec<Message>,
        expected: Option<u64>,
    ) -> Result<std::ops::Range<u64>> {
        self.inner.append(batch, expected)
    }
    fn read(&self, before: Option<u64>, n: usize) -> Result<Snapshot> {
        self.must_be_readable()?;
        self.inner.read(before, n)
    }
    fn evict(&self, before: u64) -> Result<u64> {
        self.inner.evict(before)
    }
    fn clear(&self) -> Result<()> {
        self.inner.clear()
    }
    fn append_with(&self, append: &mut Append) -> Result<Appended> {
        if self.fails.swap(false, Ordering::Relaxed) {
            return Err(Error::new(ErrorKind::Storage, "append", "the disk is full"));
        }
        let appended = self.inner.append_with(append)?;
        if self.loses.swap(false, Ordering::Relaxed) {
            return Err(Error::new(ErrorKind::Unacknowledged, "append", "the answer got lost"));
        }
        Ok(appended)
    }
    fn read_with(&self, read: &Read) -> Result<Snapshot> {
        self.must_be_readable()?;
        self.inner.read_with(read)
    }
    fn slots(&self) -> Result<Vec<(String, SlotVersion)>> {
        self.inner.slots()
    }
    fn limits(&self) -> Limits {
        self.limits
    }
}
