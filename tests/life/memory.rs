//! What memories do beyond their contract, which `tests/stores/memory.rs` runs.

use std::sync::Arc;

use crate::counted::counted;
use memory_prompt::memory::{Expected, MemoryId, Read};
use memory_prompt::message::{
    AiMessage, Attributes, Media, OtherPart, Part, Reasoning, UserMessage,
};
use memory_prompt::record::{Records, Unreadable};
use memory_prompt::token::Estimate;
use memory_prompt::{
    ChatMemory, ChatMemoryExt, DefaultChatMemory, Error, ErrorKind, InMemoryStore, Message,
    MessageWindowChatMemory, TokenWindowChatMemory, ToolCall,
};
use proptest::prelude::*;

fn rows(records: &Records) -> Vec<(u64, Message)> {
    records.iter().map(|r| (r.position(), r.message().clone())).collect()
}

counted! {
    #![cases(256)]

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
    assert_eq!(memory.next_position().unwrap(), 0);
    memory.add(Message::system("Be kind.")).unwrap();
    assert_eq!(memory.system().unwrap().unwrap().text(), "Be kind.");
}

/// A message with this text in every place where a message can have some.
fn everywhere(text: &str) -> Vec<Message> {
    let extra = || Attributes::from_iter([(text.to_owned(), text.into())]);
    let signed = |text: &str| Some(text.to_owned());
    let kind = ("type".to_owned(), text.into());
    let other = OtherPart::new(extra().into_iter().chain([kind]).collect()).unwrap();
    let call =
        ToolCall { extra: extra(), signature: signed(text), ..ToolCall::new(text, text, text) };
    let thought = Reasoning { text: text.to_owned(), signature: signed(text), extra: extra() };
    let parts = vec![
        Part::text(text),
        Part::Image(Media::base64(text, text).with_name(text)),
        Part::Other(other),
    ];
    vec![
        Message::system(text),
        UserMessage::new(text).with_name(text).with_attribute(text, text).into(),
        Message::user(parts),
        AiMessage::new(text).with_reasoning(thought).with_tool_call(call).into(),
        Message::tool(text, text, text),
        Message::custom(extra()),
    ]
}

/// A snapshot was logged when a read looked wrong, and the log held what the user had said. The
/// error of a row that can't be read says it too: decoders quote what they did not expect.
#[test]
fn debug_output_holds_positions_and_no_text() {
    let secret = "my secret";
    let memory = DefaultChatMemory::new();
    memory.add_all(everywhere(secret)).unwrap();
    let version = memory.set_slot("notes", secret, Expected::Absent).unwrap();
    let mut snapshot = memory.read_with(&Read::newest(9).slots(["notes"]).positions([1])).unwrap();
    let error = Error::new(ErrorKind::Codec, "read", format!("unexpected {secret}"));
    snapshot.unreadable.push(Unreadable { position: 7, error: Arc::new(error) });
    let records = "[0 user (9 bytes), 1 user (9 bytes), 2 assistant (9 bytes), 3 tool (9 bytes), \
                   4 custom (0 bytes)]";
    assert_eq!(format!("{:?}", snapshot.records), records);
    assert_eq!(
        format!("{snapshot:?}"),
        format!(
            "Snapshot {{ positions: 0..5, system_bytes: Some(9), records: {records}, \
             unreadable: [7 (Codec)], incarnation: {:?}, slots: [Slot {{ name: \"notes\", version: \
             {version:?}, bytes: 9 }}], picked: [1 user (9 bytes)], picked_unreadable: [] }}",
            snapshot.incarnation
        )
    );
}

counted! {
    #![cases(256)]

    #[test]
    fn no_secret_shows_in_debug_output(secret in "zq[a-z]{6} [ -~]{6,20}") {
        let store = InMemoryStore::new();
        let memories: [Box<dyn ChatMemory>; 4] = [
            Box::new(DefaultChatMemory::with_id("a")),
            Box::new(MessageWindowChatMemory::new(DefaultChatMemory::with_id("a"), 9).unwrap()),
            Box::new(TokenWindowChatMemory::new(DefaultChatMemory::with_id("a"), 9999, Estimate).unwrap()),
            Box::new(store.memory("a").unwrap()),
        ];
        for memory in memories {
            memory.add_all(everywhere(&secret)).unwrap();
            memory.set_slot("notes", secret.as_str(), Expected::Absent).unwrap();
            let wanted = Read::newest(9).slots(["notes"]).positions([1]);
            let snapshot = memory.read_with(&wanted).unwrap();
            prop_assert_eq!(snapshot.records.len(), 5);
            prop_assert_eq!((snapshot.slots().len(), snapshot.picked().len()), (1, 1));
            let last = snapshot.records.last().unwrap();
            let pages = memory.pages(2);
            for shown in [
                format!("{snapshot:?} {:?} {last:?} {pages:?} {memory:?} {store:?}", snapshot.records),
                format!("{snapshot:#?} {:#?} {last:#?} {pages:#?} {memory:#?}", snapshot.records),
            ] {
                // However it is escaped, its first word would show.
                let word = &secret[..8];
                prop_assert!(!shown.contains(&secret) && !shown.contains(word), "{shown}");
            }
        }
    }
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
    check::<MessageWindowChatMemory>();
    check::<TokenWindowChatMemory<Arc<dyn ChatMemory>>>();
    check::<memory_prompt::MemoryPrompt>();
    check::<memory_prompt::Prompt>();
    check::<memory_prompt::Composer>();
    check::<Error>();
    check::<Message>();
    check::<Records>();
}
