//! A memory that recognises ids and has no slots.

use std::collections::HashMap;
use std::ops::Range;
use std::sync::Arc;

use memory_prompt::conformance::Fixture;
use memory_prompt::memory::{Append, Appended, Limits, MemoryId, Read};
use memory_prompt::record::{SlotVersion, Snapshot};
use memory_prompt::{ChatMemory, DefaultChatMemory, Error, ErrorKind, Message, Result};
use parking_lot::Mutex;

#[derive(Debug)]
struct NoSlots(DefaultChatMemory);

fn refused<T>(operation: &'static str, method: &str) -> Result<T> {
    let text = format!("no slots: implement `{method}` for that");
    Err(Error::new(ErrorKind::Unsupported, operation, text))
}

impl ChatMemory for NoSlots {
    fn id(&self) -> &MemoryId {
        self.0.id()
    }
    fn append(&self, batch: &mut Vec<Message>, expected: Option<u64>) -> Result<Range<u64>> {
        self.0.append(batch, expected)
    }
    fn read(&self, before: Option<u64>, n: usize) -> Result<Snapshot> {
        self.0.read(before, n)
    }
    fn evict(&self, before: u64) -> Result<u64> {
        self.0.evict(before)
    }
    fn clear(&self) -> Result<()> {
        self.0.clear()
    }
    fn append_with(&self, append: &mut Append) -> Result<Appended> {
        if append.slots.is_empty() {
            self.0.append_with(append)
        } else {
            refused("append", "append_with")
        }
    }
    fn read_with(&self, read: &Read) -> Result<Snapshot> {
        if read.slots.is_empty() { self.0.read_with(read) } else { refused("read", "read_with") }
    }
    fn slots(&self) -> Result<Vec<(String, SlotVersion)>> {
        refused("slots", "slots")
    }
    fn limits(&self) -> Limits {
        Limits::default().with_ids(64)
    }
}

struct Place(Mutex<HashMap<String, Arc<NoSlots>>>);

impl Fixture for Place {
    const BACKEND: &'static str = "no slots";
    fn new() -> Self {
        Self(Mutex::default())
    }
    fn memory(&self, id: &str) -> Arc<dyn ChatMemory> {
        let memory = || Arc::new(NoSlots(DefaultChatMemory::with_id(id)));
        Arc::clone(self.0.lock().entry(id.to_owned()).or_insert_with(memory)) as _
    }
}

// The kit demanded that it refuse what a turn asks of each memory that recognises ids: that the
// conversation is still the one that was seen.
memory_prompt::conformance!(ids_without_slots: Place, [memory]);
