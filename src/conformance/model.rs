//! Compares lists of operations with the simplest possible memory.

use std::collections::{BTreeMap, HashMap};
use std::ops::Range;
use std::sync::atomic::{AtomicU64, Ordering};

use proptest::prelude::*;
use proptest::test_runner::{Config, TestCaseError, TestRunner};

use super::support::{ID, rows};
use super::{Fixture, setting};
use crate::error::{self, Error, ErrorKind};
use crate::memory::{self, Append, Appended, ChatMemory, ChatMemoryExt, Read};
use crate::message::Message;
use crate::record::{SlotVersion, Snapshot};

#[derive(Clone, Debug)]
pub(super) enum Op {
    Append {
        batch: Vec<Message>,
        expected: Expected,
    },
    Read {
        before: Option<u64>,
        n: usize,
    },
    Evict(u64),
    Clear,
    /// An append with everything that it can carry.
    Change {
        batch: Vec<Message>,
        expected: Expected,
        id: Option<u8>,
        slots: Vec<SlotWrite>,
    },
    /// A read of slots and single records.
    ReadWith {
        n: usize,
        slots: Vec<u8>,
        positions: Vec<u64>,
    },
}

#[derive(Clone, Debug)]
pub(super) struct SlotWrite {
    name: u8,
    content: Option<String>,
    expected: Version,
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
pub(super) enum Expected {
    Anything,
    TheEnd,
    Position(u64),
}

impl Expected {
    /// Returns the end that the append expects, if any, given that the memory ends at `end`.
    fn position(self, end: u64) -> Option<u64> {
        match self {
            Self::Anything => None,
            Self::TheEnd => Some(end),
            Self::Position(position) => Some(position),
        }
    }
}

/// A memory that is a list.
#[derive(Clone, Debug, Default)]
pub(super) struct Model {
    system: Option<String>,
    records: Vec<(u64, String)>,
    end: u64,
    slots: BTreeMap<String, (String, SlotVersion)>,
    /// Every version that ever existed.
    versions: Vec<SlotVersion>,
    /// The outcome of each append with an id.
    ids: HashMap<u8, (Range<u64>, Option<SlotVersion>)>,
}

fn message() -> impl Strategy<Value = Message> {
    prop_oneof![
        8 => "[a-z]{0,6}".prop_map(Message::user),
        1 => "[a-c]".prop_map(Message::system),
    ]
}

fn position() -> impl Strategy<Value = u64> {
    prop_oneof![20 => 0u64..200, 1 => Just(u64::MAX), 1 => Just(i64::MAX as u64)]
}

fn expected() -> impl Strategy<Value = Expected> {
    prop_oneof![
        3 => Just(Expected::Anything),
        1 => Just(Expected::TheEnd),
        1 => position().prop_map(Expected::Position),
    ]
}

pub(super) fn op() -> impl Strategy<Value = Op> {
    let n = prop_oneof![10 => 0usize..100, 1 => Just(usize::MAX)];
    prop_oneof![
        6 => (proptest::collection::vec(message(), 0..25), expected())
            .prop_map(|(batch, expected)| Op::Append { batch, expected }),
        6 => (proptest::option::of(position()), n).prop_map(|(before, n)| Op::Read { before, n }),
        2 => position().prop_map(Op::Evict),
        1 => Just(Op::Clear),
    ]
}

/// Generates an operation for a memory with slots and ids.
pub(super) fn change() -> impl Strategy<Value = Op> {
    let version = prop_oneof![
        4 => Just(Version::Any),
        2 => Just(Version::Absent),
        2 => Just(Version::Present),
        1 => (0usize..20).prop_map(Version::Former),
    ];
    let slot = (0u8..4, proptest::option::weighted(0.7, "[a-z]{0,4}"), version)
        .prop_map(|(name, content, expected)| SlotWrite { name, content, expected });
    let slots = proptest::collection::vec(slot, 0..3).prop_map(|mut slots| {
        slots.sort_by_key(|slot| slot.name);
        slots.dedup_by_key(|slot| slot.name);
        slots
    });
    let batch = proptest::collection::vec(message(), 0..4);
    let names = proptest::collection::vec(0u8..5, 0..4);
    let positions = proptest::collection::vec(position(), 0..6);
    prop_oneof![
        8 => (batch, expected(), proptest::option::of(0u8..8), slots)
            .prop_map(|(batch, expected, id, slots)| Op::Change { batch, expected, id, slots }),
        4 => (0usize..30, names, positions)
            .prop_map(|(n, slots, positions)| Op::ReadWith { n, slots, positions }),
        4 => op(),
        1 => Just(Op::Clear),
    ]
}

fn slot_name(name: u8) -> String {
    format!("slot {name}")
}

impl Model {
    fn start(&self) -> u64 {
        self.records.first().map_or(self.end, |(position, _)| *position)
    }

    fn read(&self, before: Option<u64>, n: usize) -> Vec<(u64, String)> {
        let before = before.unwrap_or(u64::MAX);
        let older: Vec<_> =
            self.records.iter().filter(|(position, _)| *position < before).cloned().collect();
        older[older.len().saturating_sub(n)..].to_vec()
    }

    fn append(&mut self, batch: Vec<Message>) {
        for message in batch {
            let text = message.text().into_owned();
            if message.is_system() {
                self.system = Some(text);
            } else {
                self.records.push((self.end, text));
                self.end += 1;
            }
        }
    }

    /// Does `op` on both memories, and compares. Returns `true` if the memory failed, as it may.
    pub(super) fn step(
        &mut self,
        memory: &dyn ChatMemory,
        op: Op,
        may_fail: bool,
    ) -> Result<bool, TestCaseError> {
        let failed = |error: &Error| may_fail && error.kind() == ErrorKind::Storage;
        let error = match op {
            Op::Append { batch, expected } => {
                // Without an id, this is always true.
                let done = |positions| Appended { recognised: true, ..Appended::new(positions) };
                let append =
                    |it: &mut Append| memory.append(&mut it.messages, it.expected).map(done);
                return self.change(append, batch, expected, None, &[], may_fail);
            }
            Op::Read { before, n } => match memory.read(before, n) {
                Ok(snapshot) => return self.compare(&snapshot, before, n).map(|()| false),
                Err(error) => error,
            },
            Op::Evict(before) => match memory.evict(before) {
                Ok(gone) => {
                    let expected =
                        self.records.iter().filter(|(position, _)| *position < before).count();
                    self.records.drain(..expected);
                    prop_assert_eq!(gone, expected as u64);
                    return Ok(false);
                }
                Err(error) => error,
            },
            Op::Clear => match memory.clear() {
                Ok(()) => {
                    self.records.clear();
                    self.slots.clear();
                    self.system = None;
                    return Ok(false);
                }
                Err(error) => error,
            },
            Op::Change { batch, expected, id, slots } => {
                let append = |append: &mut Append| memory.append_with(append);
                return self.change(append, batch, expected, id, &slots, may_fail);
            }
            Op::ReadWith { n, slots, positions } => {
                let read = Read::newest(n)
                    .slots(slots.into_iter().map(slot_name))
                    .positions(positions.iter().copied());
                match memory.read_with(&read) {
                    Ok(snapshot) => {
                        self.compare(&snapshot, None, n)?;
                        return self.compare_extra(&snapshot, &read).map(|()| false);
                    }
                    Err(error) => error,
                }
            }
        };
        prop_assert!(failed(&error), "{}", error);
        Ok(true)
    }

    fn change(
        &mut self,
        append_it: impl FnOnce(&mut Append) -> error::Result<Appended>,
        batch: Vec<Message>,
        expected: Expected,
        id: Option<u8>,
        changes: &[SlotWrite],
        may_fail: bool,
    ) -> Result<bool, TestCaseError> {
        let mut append = Append::new(batch.clone());
        append.expected = expected.position(self.end);
        append.id = id.map(|id| format!("id {id}"));
        let mut slot_conflict = false;
        for change in changes {
            let name = slot_name(change.name);
            let actual = self.slots.get(&name).map(|slot| slot.1);
            let expected = match change.expected {
                Version::Any => memory::Expected::Any,
                Version::Absent => memory::Expected::Absent,
                Version::Present => actual.map_or(memory::Expected::Absent, memory::Expected::Is),
                Version::Former(i) => memory::Expected::Is(
                    self.versions.get(i).copied().unwrap_or_else(SlotVersion::random),
                ),
            };
            slot_conflict |= match expected {
                memory::Expected::Any => false,
                memory::Expected::Absent => actual.is_some(),
                memory::Expected::Is(version) => actual != Some(version),
            };
            append = match &change.content {
                Some(content) => append.set_slot(name, content.as_str(), expected),
                None => append.remove_slot(name, expected),
            };
        }
        let conflict = append.expected.filter(|expected| *expected != self.end);
        let known = id.and_then(|id| self.ids.get(&id)).cloned();
        match append_it(&mut append) {
            Ok(appended) => {
                prop_assert!(append.messages.is_empty(), "the messages were not taken");
                prop_assert!(appended.recognised);
                if let Some((positions, version)) = known {
                    prop_assert!(appended.repeated, "the id was not recognised");
                    prop_assert_eq!((appended.positions, appended.version), (positions, version));
                    return Ok(false);
                }
                prop_assert!(!appended.repeated, "the id is new");
                prop_assert!(conflict.is_none() && !slot_conflict, "done in spite of a conflict");
                let first = self.end;
                let nothing = batch.is_empty() && changes.is_empty();
                self.append(batch);
                prop_assert_eq!(&appended.positions, &(first..self.end));
                let writes = changes.iter().any(|change| change.content.is_some());
                prop_assert_eq!(appended.version.is_some(), writes);
                if let Some(version) = appended.version {
                    prop_assert!(!self.versions.contains(&version), "a version is used again");
                    self.versions.push(version);
                }
                for change in changes {
                    let name = slot_name(change.name);
                    match (&change.content, appended.version) {
                        (Some(text), Some(version)) => {
                            drop(self.slots.insert(name, (text.clone(), version)));
                        }
                        _ => drop(self.slots.remove(&name)),
                    }
                }
                if let Some(id) = id.filter(|_| !nothing) {
                    self.ids.insert(id, (appended.positions, appended.version));
                }
                Ok(false)
            }
            Err(error) => {
                prop_assert_eq!(append.messages, batch, "the messages did not stay");
                if may_fail && error.kind() == ErrorKind::Storage {
                    return Ok(true);
                }
                prop_assert!(known.is_none(), "a known id fails: {}", error);
                let position = conflict
                    .map(|expected| ErrorKind::Conflict { expected, actual: self.end })
                    == Some(error.kind());
                let slot = slot_conflict && error.kind() == ErrorKind::SlotConflict;
                prop_assert!(position || slot, "{}", error);
                Ok(false)
            }
        }
    }

    /// Compares the slots and single records that a read asked for.
    fn compare_extra(&self, snapshot: &Snapshot, read: &Read) -> Result<(), TestCaseError> {
        let mut found: Vec<_> = snapshot
            .slots()
            .iter()
            .map(|slot| (slot.name().to_owned(), slot.text().map(str::to_owned), slot.version()))
            .collect();
        found.sort_by(|one, other| one.0.cmp(&other.0));
        let wanted = self.slots.iter().filter(|(name, _)| read.slots.contains(name));
        let wanted: Vec<_> = wanted
            .map(|(name, (text, version))| (name.clone(), Some(text.clone()), *version))
            .collect();
        prop_assert_eq!(found, wanted);
        let wanted = self.records.iter().filter(|(position, _)| read.positions.contains(position));
        prop_assert_eq!(rows(snapshot.picked()), wanted.cloned().collect::<Vec<_>>());
        prop_assert!(snapshot.picked_unreadable().is_empty());
        Ok(())
    }

    /// Compares all slots.
    pub(super) fn compare_slots(&self, memory: &dyn ChatMemory) -> Result<(), TestCaseError> {
        let listed = memory.slots().expect("slots are listed");
        let expected: Vec<_> =
            self.slots.iter().map(|(name, slot)| (name.clone(), slot.1)).collect();
        prop_assert_eq!(&listed, &expected);
        let read = Read::newest(0).slots(listed.into_iter().map(|(name, _)| name));
        self.compare_extra(&memory.read_with(&read).expect("a read succeeds"), &read)
    }

    pub(super) fn compare(
        &self,
        snapshot: &Snapshot,
        before: Option<u64>,
        n: usize,
    ) -> Result<(), TestCaseError> {
        let system = snapshot.system.as_ref().map(|message| message.text().into_owned());
        prop_assert_eq!(rows(&snapshot.records), self.read(before, n));
        prop_assert_eq!(system, self.system.clone());
        prop_assert_eq!((snapshot.start, snapshot.end), (self.start(), self.end));
        prop_assert!(snapshot.unreadable.is_empty());
        Ok(())
    }

    pub(super) fn compare_all(&self, memory: &dyn ChatMemory) -> Result<(), TestCaseError> {
        let snapshot = memory.read(None, usize::MAX).expect("a read succeeds");
        self.compare(&snapshot, None, usize::MAX)
    }
}

/// Tries a property on random values, and panics with the smallest one that breaks it.
#[track_caller]
pub(super) fn try_all<F: Fixture, S: Strategy>(
    law: &str,
    strategy: &S,
    property: impl Fn(S::Value) -> Result<(), TestCaseError>,
) {
    let cases = setting("MEMORY_PROMPT_CASES", F::CASES);
    let config =
        Config { cases, failure_persistence: None, max_shrink_iters: 500, ..Config::default() };
    if let Err(error) = TestRunner::new(config).run(strategy, property) {
        panic!("{}: the law `{law}` does not hold: {error}", F::BACKEND);
    }
}

/// Tries lists of operations, each on a new conversation, and compares the results with the
/// model's.
#[track_caller]
pub(super) fn try_lists<F: Fixture>(
    law: &str,
    fixture: &F,
    op: impl Strategy<Value = Op>,
    compare: impl Fn(&Model, &dyn ChatMemory) -> Result<(), TestCaseError>,
) {
    let case = AtomicU64::new(0);
    try_all::<F, _>(law, &proptest::collection::vec(op, 0..40), |ops| {
        let case = case.fetch_add(1, Ordering::Relaxed);
        let memory = fixture.memory(&format!("{ID}:{case}"));
        assert_eq!(memory.next_position().expect("a read succeeds"), 0);
        let mut list = Model::default();
        for op in ops {
            list.step(&*memory, op, false)?;
        }
        compare(&list, &*memory)
    });
}
