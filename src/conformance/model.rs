//! Compares lists of operations with the simplest possible memory.

use std::collections::{BTreeMap, HashMap};
use std::fmt::Debug;
use std::sync::atomic::{AtomicU64, Ordering};

use proptest::collection::{btree_map, vec};
use proptest::option;
use proptest::prelude::*;
use proptest::test_runner::{Config, TestCaseError, TestRunner};

use super::prelude::{FAR, ID, rows};
use super::{Fixture, cases};
use crate::error::{Error, ErrorKind, Result};
use crate::memory::{Append, Appended, ChatMemory, ChatMemoryExt, Expected, Read, SlotChange};
use crate::message::Message;
use crate::record::{Slot, SlotVersion, Snapshot};

/// Whether something is as it should be.
type Tested<T = ()> = std::result::Result<T, TestCaseError>;

/// Compares what is kept.
pub(super) type Compare = fn(&Model, &dyn ChatMemory) -> Tested;

#[derive(Clone, Debug)]
pub(super) enum Op {
    Append(Change),
    /// An append with everything that it can carry.
    AppendWith(Change),
    Read(Read),
    /// A read of slots and single records.
    ReadWith(Read),
    Evict(u64),
    Clear,
}

/// An append that expects something of a memory whose state is not known yet.
#[derive(Clone, Debug)]
pub(super) struct Change {
    batch: Vec<Message>,
    end: End,
    id: Option<String>,
    /// The content of each slot, if it is not removed, and the version that is expected.
    slots: BTreeMap<String, (Option<String>, Version)>,
}

#[derive(Clone, Copy, Debug)]
enum Version {
    Any,
    Absent,
    /// The current version.
    Present,
    /// A former version, or one that never existed.
    Former(usize),
}

#[derive(Clone, Copy, Debug)]
enum End {
    Any,
    Present,
    Position(u64),
}

/// A memory that is a list.
#[derive(Clone, Debug, Default)]
pub(super) struct Model {
    system: Option<String>,
    records: Vec<(u64, String)>,
    end: u64,
    slots: BTreeMap<String, Slot>,
    /// Every version that ever existed.
    versions: Vec<SlotVersion>,
    /// The outcome of each append with an id.
    ids: HashMap<String, Appended>,
}

fn message() -> impl Strategy<Value = Message> {
    let (user, system) = ("[a-z]{0,6}", "[a-c]");
    prop_oneof![8 => user.prop_map(Message::user), 1 => system.prop_map(Message::system)]
}

fn position() -> impl Strategy<Value = u64> {
    prop_oneof![20 => 0u64..200, 1 => Just(u64::MAX), 1 => Just(FAR)]
}

fn end() -> impl Strategy<Value = End> {
    let position = position().prop_map(End::Position);
    prop_oneof![3 => Just(End::Any), 1 => Just(End::Present), 1 => position]
}

pub(super) fn op() -> impl Strategy<Value = Op> {
    let append = (vec(message(), 0..25), end()).prop_map(|(batch, end)| {
        Op::Append(Change { batch, end, id: None, slots: BTreeMap::new() })
    });
    let n = prop_oneof![10 => 0usize..100, 1 => Just(usize::MAX)];
    let read = (option::of(position()), n)
        .prop_map(|(before, n)| Op::Read(Read { before, ..Read::newest(n) }));
    prop_oneof![6 => append, 6 => read, 2 => position().prop_map(Op::Evict), 1 => Just(Op::Clear)]
}

/// Generates an operation for a memory with slots and ids.
pub(super) fn change() -> impl Strategy<Value = Op> {
    let former = (0usize..20).prop_map(Version::Former);
    let current = prop_oneof![Just(Version::Absent), Just(Version::Present)];
    let version = prop_oneof![4 => Just(Version::Any), 4 => current, 1 => former];
    let slots = btree_map("slot [0-3]", (option::weighted(0.7, "[a-z]{0,4}"), version), 0..3);
    let append = (vec(message(), 0..4), end(), option::of("id [0-7]"), slots)
        .prop_map(|(batch, end, id, slots)| Op::AppendWith(Change { batch, end, id, slots }));
    let read = (0usize..30, vec("slot [0-4]", 0..4), vec(position(), 0..6)).prop_map(
        |(n, slots, positions)| Op::ReadWith(Read::newest(n).slots(slots).positions(positions)),
    );
    prop_oneof![8 => append, 4 => read, 4 => op(), 1 => Just(Op::Clear)]
}

impl Model {
    /// Does `op` on both memories, and compares. Returns `true` if the memory failed, as it may.
    pub(super) fn step(&mut self, memory: &dyn ChatMemory, op: Op, may_fail: bool) -> Tested<bool> {
        let error = match op {
            Op::Append(change) => {
                // Without an id, this is always true.
                let done = |positions| Appended { recognised: true, ..Appended::new(positions) };
                self.append(&change, |it| memory.append(&mut it.messages, it.expected).map(done))?
            }
            Op::AppendWith(change) => self.append(&change, |it| memory.append_with(it))?,
            Op::Read(read) => {
                succeeded(memory.read(read.before, read.n), |seen| self.compare(&seen, &read))?
            }
            Op::ReadWith(read) => {
                succeeded(memory.read_with(&read), |seen| self.compare(&seen, &read))?
            }
            Op::Evict(before) => succeeded(memory.evict(before), |gone| {
                let expected = self.records.iter().filter(|row| row.0 < before).count();
                self.records.drain(..expected);
                prop_assert_eq!(gone, expected as u64);
                Ok(())
            })?,
            Op::Clear => succeeded(memory.clear(), |()| {
                self.records.clear();
                self.slots.clear();
                self.system = None;
                Ok(())
            })?,
        };
        let Some(error) = error else { return Ok(false) };
        let (kind, expected) = (error.kind(), if may_fail { "`Storage`" } else { "no error" });
        let is_expected = may_fail && kind == ErrorKind::Storage;
        prop_assert!(is_expected, "{} was expected, and `{:?}` came: {}", expected, kind, error);
        Ok(true)
    }

    /// Makes an append on both memories. Returns the error, if it is not the one that must be.
    fn append(
        &mut self,
        change: &Change,
        append_it: impl FnOnce(&mut Append) -> Result<Appended>,
    ) -> Tested<Option<Error>> {
        let wanted = self.wanted(change);
        let mut append = wanted.clone();
        let result = append_it(&mut append);
        let left = if result.is_ok() { &[] } else { &*wanted.messages };
        prop_assert_eq!(&*append.messages, left, "messages should be taken by an append, or stay");
        let conflicts = self.conflicts(&wanted);
        let known = wanted.id.as_ref().and_then(|id| self.ids.get(id));
        match (result, known) {
            (Ok(appended), Some(first)) => {
                prop_assert!(appended.repeated && appended.recognised, "the id should be known");
                prop_assert_eq!(&appended.positions, &first.positions);
                prop_assert_eq!(appended.version, first.version);
            }
            (Ok(appended), None) => {
                prop_assert!(conflicts.is_empty(), "done, and {:?} was expected", conflicts);
                self.appended(wanted, appended)?;
            }
            (Err(error), None) if conflicts.contains(&error.kind()) => {}
            (Err(error), _) => return Ok(Some(error)),
        }
        Ok(None)
    }

    /// Returns the append that a change is for this memory.
    fn wanted(&self, change: &Change) -> Append {
        let mut append = Append::new(change.batch.clone());
        append.expected = match change.end {
            End::Any => None,
            End::Present => Some(self.end),
            End::Position(position) => Some(position),
        };
        append.id.clone_from(&change.id);
        for (name, (content, version)) in &change.slots {
            let former = |i| self.versions.get(i).copied().unwrap_or_else(SlotVersion::random);
            let expected = match *version {
                Version::Any => Expected::Any,
                Version::Absent => Expected::Absent,
                Version::Present => self.version(name).map_or(Expected::Absent, Expected::Is),
                Version::Former(i) => Expected::Is(former(i)),
            };
            append = match content {
                Some(content) => append.set_slot(name, content.as_str(), expected),
                None => append.remove_slot(name, expected),
            };
        }
        append
    }

    fn version(&self, name: &str) -> Option<SlotVersion> {
        self.slots.get(name).map(Slot::version)
    }

    /// Returns the errors of which the append must return one; empty if it must succeed.
    fn conflicts(&self, append: &Append) -> Vec<ErrorKind> {
        let position = append.expected.filter(|expected| *expected != self.end);
        let position = position.map(|expected| ErrorKind::Conflict { expected, actual: self.end });
        let conflicts = |change: &SlotChange| match change.expected {
            Expected::Any => false,
            Expected::Absent => self.version(&change.name).is_some(),
            Expected::Is(version) => self.version(&change.name) != Some(version),
        };
        let slot = append.slots.iter().any(conflicts).then_some(ErrorKind::SlotConflict);
        position.into_iter().chain(slot).collect()
    }

    /// Makes an append that the other memory has made, and compares the outcome.
    fn appended(&mut self, append: Append, appended: Appended) -> Tested {
        prop_assert!(appended.recognised && !appended.repeated, "the id should be new");
        let first = self.end;
        let is_empty = append.messages.is_empty() && append.slots.is_empty();
        for message in append.messages {
            let text = message.text().into_owned();
            if message.is_system() {
                self.system = Some(text);
            } else {
                self.records.push((self.end, text));
                self.end += 1;
            }
        }
        prop_assert_eq!(&appended.positions, &(first..self.end));
        let writes = append.slots.iter().any(|change| change.content.is_some());
        prop_assert_eq!(appended.version.is_some(), writes);
        if let Some(version) = appended.version {
            prop_assert!(!self.versions.contains(&version), "a version is used again");
            self.versions.push(version);
        }
        for SlotChange { name, content, .. } in append.slots {
            self.slots.remove(&name);
            let written = content.zip(appended.version);
            let slot = written.map(|(text, version)| Slot::new(name.as_str(), version, text));
            self.slots.extend(slot.map(|slot| (name, slot)));
        }
        if let Some(id) = append.id.filter(|_| !is_empty) {
            self.ids.insert(id, appended);
        }
        Ok(())
    }

    /// Compares what a read returned with what it should return.
    fn compare(&self, seen: &Snapshot, read: &Read) -> Tested {
        let before = read.before.unwrap_or(u64::MAX);
        let older = self.records.iter().filter(|(position, _)| *position < before);
        let newest = older.clone().skip(older.count().saturating_sub(read.n));
        prop_assert_eq!(rows(&seen.records), newest.cloned().collect::<Vec<_>>());
        let system = seen.system.as_ref().map(|message| message.text().into_owned());
        prop_assert_eq!(&system, &self.system);
        let start = self.records.first().map_or(self.end, |(position, _)| *position);
        prop_assert_eq!((seen.start, seen.end), (start, self.end));
        let mut slots = seen.slots().to_vec();
        slots.sort_by(|one, other| one.name().cmp(other.name()));
        let wanted = self.slots.iter().filter(|(name, _)| read.slots.contains(name));
        prop_assert_eq!(slots, wanted.map(|(_, slot)| slot.clone()).collect::<Vec<_>>());
        let wanted = self.records.iter().filter(|(position, _)| read.positions.contains(position));
        prop_assert_eq!(rows(seen.picked()), wanted.cloned().collect::<Vec<_>>());
        prop_assert!(seen.unreadable.is_empty() && seen.picked_unreadable().is_empty());
        Ok(())
    }

    /// Compares all records.
    pub(super) fn compare_records(&self, memory: &dyn ChatMemory) -> Tested {
        let snapshot = memory.read(None, usize::MAX).expect("a read should succeed");
        self.compare(&snapshot, &Read::newest(usize::MAX))
    }

    /// Compares all records and all slots.
    pub(super) fn compare_all(&self, memory: &dyn ChatMemory) -> Tested {
        self.compare_records(memory)?;
        let listed = memory.slots().expect("slots should be listed");
        let expected = self.slots.iter().map(|(name, slot)| (name.clone(), slot.version()));
        prop_assert_eq!(&listed, &expected.collect::<Vec<_>>());
        let read = Read::newest(0).slots(listed.into_iter().map(|(name, _)| name));
        self.compare(&memory.read_with(&read).expect("a read should succeed"), &read)
    }
}

/// Tests what an operation returned; passes the error on if it failed.
fn succeeded<T>(result: Result<T>, test: impl FnOnce(T) -> Tested) -> Tested<Option<Error>> {
    match result {
        Ok(returned) => test(returned).map(|()| None),
        Err(error) => Ok(Some(error)),
    }
}

/// Tries random lists of up to `most` items, each on a new conversation, and panics with the
/// smallest one that breaks the law.
#[track_caller]
pub(super) fn try_lists<F: Fixture, T: Debug>(
    law: &str,
    fixture: &F,
    item: impl Strategy<Value = T>,
    most: usize,
    holds: impl Fn(&dyn ChatMemory, Vec<T>) -> Tested,
) {
    let cases = Config::with_cases(cases(F::CASES));
    let config = Config { failure_persistence: None, max_shrink_iters: 500, ..cases };
    let case = AtomicU64::new(0);
    let tried = TestRunner::new(config).run(&vec(item, 0..most), |list| {
        let case = case.fetch_add(1, Ordering::Relaxed);
        holds(&*fixture.memory(&format!("{ID}:{case}")), list)
    });
    if let Err(error) = tried {
        panic!("{}: the law `{law}` does not hold: {error}", F::BACKEND);
    }
}

/// Tries lists of operations, and compares the results with the model's: of each operation, and at
/// the end of all.
#[track_caller]
pub(super) fn try_operations<F: Fixture>(
    law: &str,
    fixture: &F,
    op: impl Strategy<Value = Op>,
    compare: Compare,
) {
    try_lists(law, fixture, op, 40, |memory, ops| {
        assert_eq!(memory.next_position().expect("a read should succeed"), 0);
        let mut list = Model::default();
        for op in ops {
            list.step(memory, op, false)?;
        }
        compare(&list, memory)
    });
}
