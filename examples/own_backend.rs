//! Implements a memory of your own, and has the kit prove that it keeps the contract.
//!
//! Run it with `cargo run --example own_backend --features conformance`, and its tests with
//! `cargo test --example own_backend --features conformance`.
//!
//! The backend here is as plain as they come: a list of messages behind a lock.

use std::collections::HashMap;
use std::ops::Range;
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};
use std::time::SystemTime;

use memory_prompt::conformance::{self, Fixture};
use memory_prompt::memory::MemoryId;
use memory_prompt::record::{Records, Snapshot};
use memory_prompt::{ChatMemory, Error, ErrorKind, Message, Result};

/// A conversation in a list.
struct ListMemory {
    id: MemoryId,
    list: Mutex<List>,
}

#[derive(Default)]
struct List {
    system: Option<Arc<Message>>,
    rows: Vec<(u64, SystemTime, Message)>,
    end: u64,
}

impl ListMemory {
    fn new(id: impl Into<MemoryId>) -> Self {
        Self { id: id.into(), list: Mutex::default() }
    }

    fn list(&self) -> MutexGuard<'_, List> {
        self.list.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

/// No text: logs are no place for conversations.
impl std::fmt::Debug for ListMemory {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.debug_struct("ListMemory").field("id", &self.id).finish_non_exhaustive()
    }
}

impl ChatMemory for ListMemory {
    fn id(&self) -> &MemoryId {
        &self.id
    }

    fn append(&self, batch: &mut Vec<Message>, expected: Option<u64>) -> Result<Range<u64>> {
        let mut list = self.list();
        // Everything that can fail comes first: an error leaves the memory and the batch as they
        // were.
        if let Some(expected) = expected.filter(|expected| *expected != list.end) {
            let kind = ErrorKind::Conflict { expected, actual: list.end };
            let text = format!("list: the conversation ends at {}, not at {expected}", list.end);
            return Err(Error::new(kind, "append", text));
        }
        if batch.iter().any(Message::has_references) {
            let text = "list: a message has a reference in the place of media";
            return Err(Error::new(ErrorKind::Invalid, "append", text));
        }
        let first = list.end;
        for message in batch.drain(..) {
            if message.is_system() {
                list.system = Some(Arc::new(message));
            } else {
                let position = list.end;
                list.rows.push((position, SystemTime::now(), message));
                list.end += 1;
            }
        }
        Ok(first..list.end)
    }

    fn read(&self, before: Option<u64>, n: usize) -> Result<Snapshot> {
        let list = self.list();
        let before = before.unwrap_or(u64::MAX);
        let past = list.rows.partition_point(|row| row.0 < before);
        let rows = list.rows[past.saturating_sub(n)..past].iter().cloned();
        let start = list.rows.first().map_or(list.end, |row| row.0);
        let snapshot = Snapshot::new(start..list.end, Records::from_rows(rows));
        Ok(snapshot.with_system(list.system.clone()))
    }

    fn evict(&self, before: u64) -> Result<u64> {
        let mut list = self.list();
        let gone = list.rows.partition_point(|row| row.0 < before);
        list.rows.drain(..gone);
        Ok(gone as u64)
    }

    fn clear(&self) -> Result<()> {
        let mut list = self.list();
        let end = list.end; // positions go on from where they were
        *list = List { end, ..List::default() };
        Ok(())
    }
}

/// A place with conversations in it, for one test.
struct Lists(Mutex<HashMap<String, Arc<ListMemory>>>);

impl Fixture for Lists {
    const BACKEND: &'static str = "list";

    fn new() -> Self {
        Self(Mutex::default())
    }

    fn memory(&self, id: &str) -> Arc<dyn ChatMemory> {
        let mut lists = self.0.lock().unwrap_or_else(PoisonError::into_inner);
        let list = lists.entry(id.to_owned()).or_insert_with(|| Arc::new(ListMemory::new(id)));
        Arc::clone(list) as Arc<dyn ChatMemory>
    }
}

// Each law is a test: `cargo test` names the one that does not hold.
memory_prompt::conformance!(list: Lists, [memory]);

fn main() {
    // A law is a function too.
    conformance::memory::order_is_the_order_of_append(&Lists::new());
    conformance::memory::an_append_at_another_position_changes_nothing(&Lists::new());
    conformance::memory::any_list_of_operations_gives_what_a_list_gives(&Lists::new());
    println!("three laws hold; `cargo test --example own_backend --features conformance` runs all");
}
