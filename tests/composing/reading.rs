//! Memories that are read otherwise.

use std::fmt;
use std::sync::Arc;

use memory_prompt::memory::Read;
use memory_prompt::record::Snapshot;
use memory_prompt::{ChatMemory, DefaultChatMemory, Result};

use crate::inside::inside;

/// A memory over another one, of which each read is done by this.
pub(crate) struct Reading<F> {
    memory: Arc<DefaultChatMemory>,
    read: F,
}

impl<F: Fn(&DefaultChatMemory, &Read) -> Result<Snapshot> + Send + Sync> Reading<F> {
    pub(crate) fn new(memory: &Arc<DefaultChatMemory>, read: F) -> Self {
        Self { memory: Arc::clone(memory), read }
    }
}

impl<F> fmt::Debug for Reading<F> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("Reading")
    }
}

impl<F: Fn(&DefaultChatMemory, &Read) -> Result<Snapshot> + Send + Sync> ChatMemory for Reading<F> {
    inside!(memory: id append append_with evict clear limits);
    fn read(&self, before: Option<u64>, n: usize) -> Result<Snapshot> {
        let mut read = Read::newest(n);
        read.before = before;
        self.read_with(&read)
    }
    fn read_with(&self, read: &Read) -> Result<Snapshot> {
        (self.read)(&self.memory, read)
    }
}
