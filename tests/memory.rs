//! What memories do beyond their contract, which `tests/store_memory.rs` runs.

#![allow(clippy::unwrap_used, missing_docs)] // a test that panics has failed

use std::sync::Arc;

use memory_prompt::{ChatMemory, ChatMemoryExt, DefaultChatMemory, MemoryId, Message, Records};
use proptest::prelude::*;

fn rows(records: &Records) -> Vec<(u64, Message)> {
    records.iter().map(|r| (r.seq(), r.message().clone())).collect()
}

proptest! {
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
