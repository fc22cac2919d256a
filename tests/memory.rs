//! The contract of `ChatMemory`, on the memory that lives in this process: a list of operations
//! against a plain `Vec`.

#![allow(clippy::unwrap_used, missing_docs)] // a test that panics has failed

use std::sync::Arc;

use memory_prompt::{
    ChatMemory, ChatMemoryExt, DefaultChatMemory, ErrorKind, MemoryId, Message, Records, Snapshot,
};
use proptest::prelude::*;

#[derive(Clone, Debug)]
enum Op {
    Append { batch: Vec<Message>, expected: Expected },
    Read { before: Option<u64>, n: usize },
    Evict(u64),
    Clear,
}

#[derive(Clone, Copy, Debug)]
enum Expected {
    Anything,
    TheEnd,
    Position(u64),
}

/// The simplest memory there can be.
#[derive(Default)]
struct Model {
    system: Option<Message>,
    records: Vec<(u64, Message)>,
    end: u64,
}

fn message() -> impl Strategy<Value = Message> {
    prop_oneof![
        8 => "[a-z]{0,6}".prop_map(Message::user),
        1 => "[a-c]".prop_map(Message::system),
    ]
}

fn position() -> impl Strategy<Value = u64> {
    prop_oneof![20 => 0u64..300, 1 => Just(u64::MAX)]
}

fn op() -> impl Strategy<Value = Op> {
    let expected = prop_oneof![
        3 => Just(Expected::Anything),
        1 => Just(Expected::TheEnd),
        1 => position().prop_map(Expected::Position),
    ];
    let n = prop_oneof![10 => 0usize..100, 1 => Just(usize::MAX)];
    prop_oneof![
        6 => (proptest::collection::vec(message(), 0..40), expected)
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

    fn read(&self, before: Option<u64>, n: usize) -> Vec<(u64, Message)> {
        let before = before.unwrap_or(u64::MAX);
        let older: Vec<_> = self.records.iter().filter(|(seq, _)| *seq < before).cloned().collect();
        older[older.len().saturating_sub(n)..].to_vec()
    }
}

fn rows(records: &Records) -> Vec<(u64, Message)> {
    records.iter().map(|r| (r.seq(), r.message().clone())).collect()
}

proptest! {
    #[test]
    fn a_memory_is_a_list(ops in proptest::collection::vec(op(), 0..40)) {
        let memory = DefaultChatMemory::new();
        let mut model = Model::default();
        let mut held: Vec<(Snapshot, Vec<(u64, Message)>)> = Vec::new();
        for op in ops {
            match op {
                Op::Append { batch, expected } => {
                    let expected = match expected {
                        Expected::Anything => None,
                        Expected::TheEnd => Some(model.end),
                        Expected::Position(p) => Some(p),
                    };
                    let mut left = batch.clone();
                    let result = memory.append(&mut left, expected);
                    if let Some(expected) = expected.filter(|e| *e != model.end) {
                        let error = result.unwrap_err();
                        let kind = ErrorKind::Conflict { expected, actual: model.end };
                        prop_assert_eq!(error.kind(), kind);
                        prop_assert_eq!(left, batch, "the batch stays with the caller");
                        continue;
                    }
                    let first = model.end;
                    for message in batch {
                        if message.is_system() {
                            model.system = Some(message);
                        } else {
                            model.records.push((model.end, message));
                            model.end += 1;
                        }
                    }
                    prop_assert!(left.is_empty());
                    prop_assert_eq!(result.unwrap(), first..model.end);
                }
                Op::Read { before, n } => {
                    let snapshot = memory.read(before, n).unwrap();
                    prop_assert_eq!(rows(&snapshot.records), model.read(before, n));
                    prop_assert_eq!(snapshot.system.as_deref(), model.system.as_ref());
                    prop_assert_eq!((snapshot.start, snapshot.end), (model.start(), model.end));
                    held.push((snapshot, model.read(before, n)));
                }
                Op::Evict(before) => {
                    let gone = model.records.iter().filter(|(seq, _)| *seq < before).count();
                    model.records.drain(..gone);
                    prop_assert_eq!(memory.evict(before).unwrap(), gone as u64);
                }
                Op::Clear => {
                    memory.clear().unwrap();
                    model = Model { end: model.end, ..Model::default() };
                }
            }
        }
        prop_assert_eq!(rows(&memory.all().unwrap()), model.records);
        // What was once read stays what it was, whatever came afterwards.
        for (snapshot, expected) in held {
            prop_assert_eq!(rows(&snapshot.records), expected);
        }
    }

    #[test]
    fn pages_go_by_position(size in 0usize..50, before in 0usize..200, evicted in 0u64..50, during in 0usize..20) {
        let memory = DefaultChatMemory::new();
        memory.add_all((0..before).map(|i| Message::user(i.to_string()))).unwrap();
        memory.evict(evicted).unwrap();
        let expected = rows(&memory.all().unwrap());
        let mut seen = Vec::new();
        for page in memory.pages(size) {
            let page = page.unwrap();
            prop_assert!(page.len() <= size.max(1));
            seen.splice(0..0, rows(&page));
            memory.add_all((0..during).map(|i| Message::ai(i.to_string()))).unwrap();
        }
        prop_assert_eq!(seen, expected);
    }
}

#[test]
fn whatever_points_to_a_memory_is_one() {
    fn shared_use(memory: impl ChatMemory) {
        memory.add(Message::user("hi")).unwrap();
        assert_eq!(memory.id().as_str(), "a:b:c");
    }
    let memory = Arc::new(DefaultChatMemory::with_id("a:b:c"));
    shared_use(&*memory);
    shared_use(Arc::clone(&memory));
    shared_use(Arc::clone(&memory) as Arc<dyn ChatMemory>);
    shared_use(Box::new(Arc::clone(&memory)) as Box<dyn ChatMemory>);
    assert_eq!(memory.all().unwrap().len(), 4);
}

#[test]
fn the_same_system_message_again_changes_nothing() {
    let memory = DefaultChatMemory::new();
    memory.add(Message::system("Be brief.")).unwrap();
    let first = memory.system().unwrap().unwrap();
    memory.add(Message::system("Be brief.")).unwrap();
    assert!(Arc::ptr_eq(&first, &memory.system().unwrap().unwrap()));
    assert_eq!(memory.end().unwrap(), 0);
    memory.add(Message::system("Be kind.")).unwrap();
    assert_eq!(memory.system().unwrap().unwrap().text(), "Be kind.");
}

#[test]
fn debug_output_holds_no_text() {
    let memory = DefaultChatMemory::with_id("a:b:c");
    memory.add(Message::user("my secret")).unwrap();
    let text = format!("{memory:?}");
    assert_eq!(text, r#"DefaultChatMemory { id: "a:b:c", positions: 0..1, system: false }"#);
}

#[test]
fn random_ids_are_uuids_that_nobody_else_has() {
    let ids: std::collections::HashSet<String> =
        (0..10_000).map(|_| MemoryId::random().to_string()).collect();
    assert_eq!(ids.len(), 10_000);
    for id in ids {
        let lengths: Vec<usize> = id.split('-').map(str::len).collect();
        assert_eq!(lengths, [8, 4, 4, 4, 12], "{id}");
        assert_eq!(&id[14..15], "4", "{id}");
        assert!("89ab".contains(&id[19..20]), "{id}");
    }
}

#[test]
fn public_types_cross_threads() {
    fn check<T: Send + Sync>() {}
    check::<DefaultChatMemory>();
    check::<memory_prompt::MemoryPrompt>();
    check::<memory_prompt::Prompt>();
    check::<memory_prompt::Composer>();
    check::<memory_prompt::Error>();
    check::<Message>();
    check::<Records>();
}
