//! What a store tells those who listen: that something is done, and never what is said.

#![cfg(all(feature = "sqlite", feature = "tracing"))]

use std::time::SystemTime;

use memory_prompt::memory::{Append, Expected, Read};
use memory_prompt::{ChatMemory, ChatMemoryExt, ChatMemoryStore, Message, SqliteStore};

use crate::listener::Listener;

/// Each operation is a span with an event of how it ended; neither says what was said, nor to whom.
#[test]
fn operations_are_told_without_text_and_without_ids() {
    let listener = Listener::default();
    tracing::subscriber::with_default(listener.clone(), || {
        let store = SqliteStore::options().in_memory().unwrap();
        let memory = store.memory("id-of-somebody").unwrap();
        memory.add_all([Message::system("secret a"), Message::user("secret b")]).unwrap();
        let append = Append::new([Message::ai("secret c")]).with_id("secret d");
        let append = append.set_slot("secret e", "secret f", Expected::Any);
        memory.append_with(&mut append.clone()).unwrap();
        memory.read_with(&Read::newest(1).slots(["secret e"])).unwrap();
        memory.append(&mut vec![Message::user("secret g")], Some(7)).unwrap_err();
        memory.slots().unwrap();
        memory.evict(1).unwrap();
        memory.clear().unwrap();
        store.ids(None, 10).unwrap();
        store.info(&"id-of-somebody".into()).unwrap().unwrap();
        store.restore(&"id-of-somebody".into(), 0, None).unwrap_err();
        store.delete(&"id-of-somebody".into()).unwrap();
        store.purge_inactive(SystemTime::now()).unwrap();
        assert_eq!(store.figures().under_way, 0);
    });
    let notes = listener.notes();
    for operation in
        ["append", "read", "slots", "evict", "clear", "ids", "info", "restore", "delete"]
    {
        let named = format!("operation=\"{operation}\"");
        let words = ["span DEBUG", "backend=\"sqlite\"", &named];
        assert!(listener.count(&words) > 0, "{operation}: {notes:#?}");
    }
    assert_eq!(listener.count(&["failed", "append", "kind=Conflict"]), 1, "{notes:#?}");
    assert_eq!(listener.count(&["failed", "restore", "kind=Exists"]), 1, "{notes:#?}");
    let spans = listener.count(&["span "]);
    assert_eq!(spans, listener.count(&["event "]), "each ends once");
    for note in notes {
        assert!(!note.contains("secret") && !note.contains("somebody"), "{note}");
    }
}
