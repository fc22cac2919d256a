//! The kit bites: memories with one fault each, and the law that finds it.

#![allow(clippy::unwrap_used, clippy::panic, missing_docs)] // a test that panics has failed

use std::collections::HashMap;
use std::ops::Range;
use std::panic::{AssertUnwindSafe, catch_unwind};
use std::sync::{Arc, Mutex};

use memory_prompt::conformance::{Fixture, memory as laws};
use memory_prompt::{
    ChatMemory, ChatMemoryExt, DefaultChatMemory, MemoryId, Message, Result, Snapshot,
};

#[derive(Clone, Copy, Debug, PartialEq)]
enum Fault {
    None,
    TakesTheBatchOfAConflict,
    ForgetsPositionsWhenCleared,
    ReadsOneMore,
    EvictsTheSystemMessage,
    StoresOneByOne,
    IgnoresExpected,
    FoldsIds,
    TellsSecrets,
    CutsAtNul,
}
use Fault::*;

struct Faulty(Fault, DefaultChatMemory, Mutex<u64>);

impl std::fmt::Debug for Faulty {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        if self.0 == TellsSecrets {
            return write!(f, "{:?}", self.1.all());
        }
        write!(f, "{:?}", self.1)
    }
}

impl ChatMemory for Faulty {
    fn id(&self) -> &MemoryId {
        self.1.id()
    }
    fn append(&self, batch: &mut Vec<Message>, expected: Option<u64>) -> Result<Range<u64>> {
        let expected = expected.filter(|_| self.0 != IgnoresExpected);
        match self.0 {
            TakesTheBatchOfAConflict => self.1.append(&mut std::mem::take(batch), expected),
            StoresOneByOne if expected.is_none() => {
                let first = self.1.end()?;
                for message in batch.drain(..) {
                    std::thread::sleep(std::time::Duration::from_micros(10));
                    self.1.add(message)?;
                }
                Ok(first..self.1.end()?)
            }
            CutsAtNul => {
                let cut = |message: Message| {
                    let text = message.text();
                    let head = text.split('\0').next().unwrap_or_default();
                    if message.is_user() { Message::user(head) } else { message }
                };
                let mut cut: Vec<_> = batch.iter().cloned().map(cut).collect();
                self.1.append(&mut cut, expected).inspect(|_| batch.clear())
            }
            _ => self.1.append(batch, expected),
        }
    }
    fn read(&self, before: Option<u64>, n: usize) -> Result<Snapshot> {
        let n = if self.0 == ReadsOneMore { n.saturating_add(1) } else { n };
        let mut snapshot = self.1.read(before, n)?;
        if self.0 == ForgetsPositionsWhenCleared {
            snapshot.end -= *self.2.lock().unwrap();
        }
        Ok(snapshot)
    }
    fn evict(&self, before: u64) -> Result<u64> {
        let gone = self.1.evict(before)?;
        if self.0 == EvictsTheSystemMessage {
            self.1.clear()?;
        }
        Ok(gone)
    }
    fn clear(&self) -> Result<()> {
        *self.2.lock().unwrap() = self.1.end()?;
        self.1.clear()
    }
}

struct Place<const FAULT: usize>(Mutex<HashMap<String, Arc<Faulty>>>);

const FAULTS: [Fault; 10] = [
    None,
    TakesTheBatchOfAConflict,
    ForgetsPositionsWhenCleared,
    ReadsOneMore,
    EvictsTheSystemMessage,
    StoresOneByOne,
    IgnoresExpected,
    FoldsIds,
    TellsSecrets,
    CutsAtNul,
];

impl<const FAULT: usize> Fixture for Place<FAULT> {
    const BACKEND: &'static str = "faulty";
    fn new() -> Self {
        Self(Mutex::default())
    }
    fn memory(&self, id: &str) -> Arc<dyn ChatMemory> {
        let fault = FAULTS[FAULT];
        let key = if fault == FoldsIds { id.to_lowercase() } else { id.to_owned() };
        let new = || Arc::new(Faulty(fault, DefaultChatMemory::with_id(id), Mutex::default()));
        Arc::clone(self.0.lock().unwrap().entry(key).or_insert_with(new)) as Arc<dyn ChatMemory>
    }
}

/// Which of these laws do not hold.
fn broken<const FAULT: usize>() -> Vec<&'static str> {
    type Law<F> = (&'static str, fn(&F));
    let laws: [Law<Place<FAULT>>; 9] = [
        ("conflict", laws::an_append_at_another_position_changes_nothing),
        ("clear", laws::positions_are_never_used_again_after_clear),
        ("n of 0", laws::n_of_0_returns_no_records),
        ("system", laws::a_system_message_is_never_evicted),
        ("writers", laws::batches_of_8_writers_stay_contiguous_and_none_is_lost),
        ("ids", laws::hostile_ids_are_conversations_of_their_own),
        ("debug", laws::debug_output_holds_no_text),
        ("text", laws::hostile_text_comes_back_as_it_was),
        ("model", laws::any_list_of_operations_gives_what_a_list_gives),
    ];
    let holds =
        |law: fn(&Place<FAULT>)| catch_unwind(AssertUnwindSafe(|| law(&Place::new()))).is_ok();
    laws.into_iter().filter(|(_, law)| !holds(*law)).map(|(name, _)| name).collect()
}

#[test]
fn each_fault_is_found() {
    assert_eq!(broken::<0>(), [""; 0]);
    assert_eq!(broken::<1>(), ["conflict", "model"]);
    assert_eq!(broken::<2>(), ["clear", "model"]);
    assert_eq!(broken::<3>(), ["n of 0", "writers", "model"]);
    assert_eq!(broken::<4>(), ["n of 0", "system", "model"]);
    assert_eq!(broken::<5>(), ["writers"]);
    assert_eq!(broken::<6>(), ["conflict", "debug", "model"]);
    assert_eq!(broken::<7>(), ["ids"]);
    assert_eq!(broken::<8>(), ["debug"]);
    assert_eq!(broken::<9>(), ["ids", "text"]);
}
