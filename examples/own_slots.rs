//! Implements a memory of your own with everything: ids of appends, slots, times.
//!
//! Run it with `cargo run --example own_slots --features conformance`, and its tests with
//! `cargo test --example own_slots --features conformance`. `own_backend.rs` has the five methods
//! that are required.
//!
//! All conversations are in one map behind a lock. A database does the same in one transaction.

use std::collections::{BTreeMap, HashMap, VecDeque};
use std::ops::Range;
use std::sync::{Arc, Mutex, PoisonError};
use std::time::SystemTime;

use memory_prompt::conformance::{self, Fixture};
use memory_prompt::memory::{Append, Appended, Limits, MemoryId, Read};
use memory_prompt::record::{Incarnation, Records, Slot, SlotVersion, Snapshot};
use memory_prompt::{ChatMemory, Error, ErrorKind, Message, Result};

/// The number of the newest ids of appends that are recognised.
const IDS: usize = 64;

#[derive(Default)]
struct Conversation {
    system: Option<Arc<Message>>,
    rows: Vec<(u64, SystemTime, Message)>,
    end: u64,
    slots: BTreeMap<String, Slot>,
    ids: VecDeque<(String, Appended)>,
    incarnation: Option<Incarnation>,
}

impl Conversation {
    fn held(&self) -> Range<u64> {
        self.rows.first().map_or(self.end, |row| row.0)..self.end
    }

    /// Refuses what does not find the conversation as it expects it. Nothing is changed before.
    fn check(&self, append: &Append) -> Result<()> {
        if let Some(expected) = append.expected.filter(|expected| *expected != self.end) {
            let kind = ErrorKind::Conflict { expected, actual: self.end };
            return Err(Error::new(kind, "append", "map: the conversation ends elsewhere"));
        }
        if append.since.is_some_and(|it| !it.holds(self.incarnation, &self.held())) {
            let text = "map: the conversation is no more that was seen";
            return Err(Error::new(ErrorKind::Forgotten, "append", text));
        }
        append.slots.iter().try_for_each(|it| it.holds(self.slots.get(&it.name).map(Slot::version)))
    }

    fn apply(&mut self, append: &mut Append) -> Appended {
        self.incarnation.get_or_insert_with(Incarnation::random);
        let (first, now) = (self.end, SystemTime::now());
        for (i, message) in append.messages.drain(..).enumerate() {
            if message.is_system() {
                self.system = Some(Arc::new(message));
            } else {
                let at = append.times.get(i).copied().unwrap_or(now);
                self.rows.push((self.end, at, message));
                self.end += 1;
            }
        }
        let mut done = Appended::new(first..self.end);
        done.recognised = true;
        for change in &append.slots {
            if let Some(content) = &change.content {
                // One version for all that it writes, and never one that was used before.
                let version = *done.version.get_or_insert_with(SlotVersion::random);
                self.slots.insert(change.name.clone(), Slot::new(&*change.name, version, content));
            } else {
                self.slots.remove(&change.name);
            }
        }
        if let Some(id) = &append.id {
            self.ids.push_back((id.clone(), done.clone()));
            self.ids.drain(..self.ids.len().saturating_sub(IDS));
        }
        done
    }

    fn read(&self, read: &Read) -> Snapshot {
        let past = self.rows.partition_point(|row| row.0 < read.before.unwrap_or(u64::MAX));
        let newest = self.rows[past.saturating_sub(read.n)..past].iter().cloned();
        let row = |position| self.rows.binary_search_by_key(&position, |row| row.0).ok();
        let single = read.stretches(self.held()).into_iter().flatten().filter_map(row);
        let slots =
            self.slots.values().filter(|slot| read.slots.iter().any(|it| it == slot.name()));
        let mut snapshot = Snapshot::new(self.held(), Records::from_rows(newest))
            .with_system(self.system.clone())
            .with_slots(slots.cloned())
            .with_picked(Records::from_rows(single.map(|i| self.rows[i].clone())), vec![]);
        snapshot.incarnation = self.incarnation;
        snapshot
    }
}

type Map = Arc<Mutex<HashMap<String, Conversation>>>;

struct MapMemory(MemoryId, Map);

impl MapMemory {
    fn with<T>(&self, act: impl FnOnce(&mut HashMap<String, Conversation>, &str) -> T) -> T {
        act(&mut self.1.lock().unwrap_or_else(PoisonError::into_inner), self.0.as_str())
    }
}

impl std::fmt::Debug for MapMemory {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.debug_tuple("MapMemory").field(&self.0).finish_non_exhaustive()
    }
}

impl ChatMemory for MapMemory {
    fn id(&self) -> &MemoryId {
        &self.0
    }

    fn append(&self, batch: &mut Vec<Message>, expected: Option<u64>) -> Result<Range<u64>> {
        let mut append = Append::new(std::mem::take(batch));
        append.expected = expected;
        let done = self.append_with(&mut append);
        *batch = append.messages; // as it was, where it failed
        Ok(done?.positions)
    }

    fn append_with(&self, append: &mut Append) -> Result<Appended> {
        append.check(&self.limits())?;
        self.with(|map, id| {
            let none = Conversation::default();
            let found = map.get(id).unwrap_or(&none);
            let known = found.ids.iter().find(|known| append.id.as_ref() == Some(&known.0));
            if let Some((_, first)) = known {
                append.messages.clear();
                let mut again = first.clone();
                again.repeated = true;
                return Ok(again);
            }
            found.check(append)?;
            if append.is_empty() || !map.contains_key(id) && !append.creates() {
                let mut nothing = Appended::new(found.end..found.end);
                nothing.recognised = true;
                return Ok(nothing);
            }
            Ok(map.entry(id.to_owned()).or_default().apply(append))
        })
    }

    fn read(&self, before: Option<u64>, n: usize) -> Result<Snapshot> {
        let mut read = Read::newest(n);
        read.before = before;
        self.read_with(&read)
    }

    fn read_with(&self, read: &Read) -> Result<Snapshot> {
        read.check()?;
        Ok(self.with(|map, id| map.get(id).map(|it| it.read(read)).unwrap_or_default()))
    }

    fn slots(&self) -> Result<Vec<(String, SlotVersion)>> {
        let named = |slot: &Slot| (slot.name().to_owned(), slot.version());
        let slots = |it: &Conversation| it.slots.values().map(named).collect();
        Ok(self.with(|map, id| map.get(id).map(slots).unwrap_or_default()))
    }

    fn limits(&self) -> Limits {
        Limits::default().with_slot(1 << 20).with_ids(IDS)
    }

    fn evict(&self, before: u64) -> Result<u64> {
        self.with(|map, id| {
            let Some(found) = map.get_mut(id) else { return Ok(0) };
            let gone = found.rows.partition_point(|row| row.0 < before);
            Ok(found.rows.drain(..gone).len() as u64)
        })
    }

    fn clear(&self) -> Result<()> {
        self.with(|map, id| {
            let Some(found) = map.get_mut(id) else { return Ok(()) };
            // Positions and ids go on, in another incarnation.
            (found.system, found.rows, found.slots) = Default::default();
            found.incarnation = Some(Incarnation::random());
            Ok(())
        })
    }
}

struct Maps(Map);

impl Fixture for Maps {
    const BACKEND: &'static str = "map";

    fn new() -> Self {
        Self(Map::default())
    }

    fn memory(&self, id: &str) -> Arc<dyn ChatMemory> {
        Arc::new(MapMemory(id.into(), Arc::clone(&self.0)))
    }
}

memory_prompt::conformance!(map: Maps, [memory, ids, slots, times]);

fn main() {
    conformance::ids::the_same_id_again_changes_nothing(&Maps::new());
    conformance::slots::any_list_of_changes_gives_what_a_map_gives(&Maps::new());
    println!("two laws hold; `cargo test --example own_slots --features conformance` runs all");
}
