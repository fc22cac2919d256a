//! Lists of operations against the simplest memory there can be.

use proptest::prelude::*;
use proptest::test_runner::{Config, TestCaseError, TestRunner};

use super::support::rows;
use super::{Fixture, setting};
use crate::error::ErrorKind;
use crate::memory::{ChatMemory, ChatMemoryExt};
use crate::message::Message;
use crate::record::Snapshot;

#[derive(Clone, Debug)]
pub(super) enum Op {
    Append { batch: Vec<Message>, expected: Expected },
    Read { before: Option<u64>, n: usize },
    Evict(u64),
    Clear,
}

#[derive(Clone, Copy, Debug)]
pub(super) enum Expected {
    Anything,
    TheEnd,
    Position(u64),
}

/// A memory that is a list.
#[derive(Clone, Debug, Default)]
pub(super) struct Model {
    system: Option<String>,
    records: Vec<(u64, String)>,
    end: u64,
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

pub(super) fn op() -> impl Strategy<Value = Op> {
    let expected = prop_oneof![
        3 => Just(Expected::Anything),
        1 => Just(Expected::TheEnd),
        1 => position().prop_map(Expected::Position),
    ];
    let n = prop_oneof![10 => 0usize..100, 1 => Just(usize::MAX)];
    prop_oneof![
        6 => (proptest::collection::vec(message(), 0..25), expected)
            .prop_map(|(batch, expected)| Op::Append { batch, expected }),
        6 => (proptest::option::of(position()), n).prop_map(|(before, n)| Op::Read { before, n }),
        2 => position().prop_map(Op::Evict),
        1 => Just(Op::Clear),
    ]
}

impl Model {
    fn start(&self) -> u64 {
        self.records.first().map_or(self.end, |(seq, _)| *seq)
    }

    fn read(&self, before: Option<u64>, n: usize) -> Vec<(u64, String)> {
        let before = before.unwrap_or(u64::MAX);
        let older: Vec<_> = self.records.iter().filter(|(seq, _)| *seq < before).cloned().collect();
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

    /// Does `op` here and there, and compares. True where the memory failed, as it may.
    pub(super) fn step(
        &mut self,
        memory: &dyn ChatMemory,
        op: Op,
        may_fail: bool,
    ) -> Result<bool, TestCaseError> {
        let failed = |kind: ErrorKind| may_fail && kind == ErrorKind::Storage;
        match op {
            Op::Append { batch, expected } => {
                let expected = match expected {
                    Expected::Anything => None,
                    Expected::TheEnd => Some(self.end),
                    Expected::Position(position) => Some(position),
                };
                let mut left = batch.clone();
                let conflict = expected
                    .filter(|expected| *expected != self.end)
                    .map(|expected| ErrorKind::Conflict { expected, actual: self.end });
                match memory.append(&mut left, expected) {
                    Ok(positions) => {
                        prop_assert_eq!(conflict, None, "it was appended in spite of a conflict");
                        let first = self.end;
                        self.append(batch);
                        prop_assert_eq!(positions, first..self.end);
                        prop_assert!(left.is_empty(), "the batch was not taken");
                    }
                    Err(error) => {
                        prop_assert_eq!(left, batch, "the batch did not stay with the caller");
                        if failed(error.kind()) {
                            return Ok(true);
                        }
                        prop_assert_eq!(Some(error.kind()), conflict, "{}", error);
                    }
                }
            }
            Op::Read { before, n } => match memory.read(before, n) {
                Ok(snapshot) => self.compare(&snapshot, before, n)?,
                Err(error) => {
                    prop_assert!(failed(error.kind()), "{}", error);
                    return Ok(true);
                }
            },
            Op::Evict(before) => match memory.evict(before) {
                Ok(gone) => {
                    let expected = self.records.iter().filter(|(seq, _)| *seq < before).count();
                    self.records.drain(..expected);
                    prop_assert_eq!(gone, expected as u64);
                }
                Err(error) => {
                    prop_assert!(failed(error.kind()), "{}", error);
                    return Ok(true);
                }
            },
            Op::Clear => match memory.clear() {
                Ok(()) => *self = Self { end: self.end, ..Self::default() },
                Err(error) => {
                    prop_assert!(failed(error.kind()), "{}", error);
                    return Ok(true);
                }
            },
        }
        Ok(false)
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

/// Tries a property on random values and panics with the smallest one that breaks it.
#[track_caller]
pub(super) fn try_all<F: Fixture, S: Strategy>(
    strategy: &S,
    property: impl Fn(S::Value) -> Result<(), TestCaseError>,
) {
    let cases = setting("MEMORY_PROMPT_CASES", F::CASES);
    let config =
        Config { cases, failure_persistence: None, max_shrink_iters: 500, ..Config::default() };
    if let Err(error) = TestRunner::new(config).run(strategy, property) {
        panic!("{error}");
    }
}

/// What each case begins with: a conversation that no other case has touched.
#[track_caller]
pub(super) fn fresh(memory: &dyn ChatMemory) {
    assert_eq!(memory.end().expect("a read succeeds"), 0);
}
