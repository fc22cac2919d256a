//! The contract, on the kinds that live in this process.

use std::collections::HashMap;
use std::sync::{Arc, Mutex};

use memory_prompt::conformance::{Countdown, FaultFixture, Fixture, StoreFixture};
use memory_prompt::history::BranchView;
use memory_prompt::store::{ChatMemoryStoreExt, Copied};
use memory_prompt::{ChatMemory, ChatMemoryStore, DefaultChatMemory, InMemoryStore, Message};

/// Memories without a store.
struct Default(Mutex<HashMap<String, Arc<Countdown<DefaultChatMemory>>>>);

impl Fixture for Default {
    const BACKEND: &'static str = "default";
    const CASES: u32 = 256;
    fn new() -> Self {
        Self(Mutex::default())
    }
    fn memory(&self, id: &str) -> Arc<dyn ChatMemory> {
        let mut memories = self.0.lock().unwrap();
        let new = || Arc::new(Countdown::new(DefaultChatMemory::with_id(id)));
        Arc::clone(memories.entry(id.to_owned()).or_insert_with(new)) as Arc<dyn ChatMemory>
    }
}

impl FaultFixture for Default {
    fn fail_after(&self, steps: Option<u64>) {
        for memory in self.0.lock().unwrap().values() {
            memory.fail_after(steps.map(|steps| steps % 2));
        }
    }
}

memory_prompt::conformance!(default: Default, [memory, ids, slots, times, media, faults, slot_faults]);

/// The view of branches, where there is one branch: a memory like any other, whatever view of it is
/// asked.
struct Viewed(Default);

impl Fixture for Viewed {
    const BACKEND: &'static str = "branch view";
    const CASES: u32 = 256;
    fn new() -> Self {
        Self(Default::new())
    }
    fn memory(&self, id: &str) -> Arc<dyn ChatMemory> {
        Arc::new(BranchView::new(self.0.memory(id)))
    }
}

impl FaultFixture for Viewed {
    fn fail_after(&self, steps: Option<u64>) {
        self.0.fail_after(steps);
    }
}

memory_prompt::conformance!(viewed: Viewed, [memory, ids, slots, times, media, faults, slot_faults]);

struct InProcess(InMemoryStore);

impl Fixture for InProcess {
    const BACKEND: &'static str = "in-memory";
    const CASES: u32 = 256;
    fn new() -> Self {
        Self(InMemoryStore::new())
    }
    fn memory(&self, id: &str) -> Arc<dyn ChatMemory> {
        Arc::new(self.0.memory(id).unwrap())
    }
}

impl StoreFixture for InProcess {
    fn store(&self) -> Arc<dyn ChatMemoryStore> {
        Arc::new(self.0.clone())
    }
}

memory_prompt::conformance!(in_memory: InProcess, [memory, store, ids, slots, times, media, moving]);

#[cfg(feature = "tokio")]
mod asynchronous {
    use std::sync::Arc;

    use memory_prompt::adapt::ToAsync;
    use memory_prompt::conformance::{AsyncFixture, AsyncStoreFixture};
    use memory_prompt::{AsyncChatMemory, AsyncChatMemoryStore, InMemoryStore};

    /// The store in async code, which the kit then makes blocking again: both adapters at once.
    struct Unblocked(ToAsync<InMemoryStore>);

    impl AsyncFixture for Unblocked {
        const BACKEND: &'static str = "in-memory, async";
        async fn new() -> Self {
            Self(ToAsync::new(InMemoryStore::new()))
        }
        fn memory(&self, id: &str) -> Arc<dyn AsyncChatMemory> {
            Arc::new(self.0.memory(id).unwrap())
        }
    }

    impl AsyncStoreFixture for Unblocked {
        fn store(&self) -> Arc<dyn AsyncChatMemoryStore> {
            Arc::new(self.0.clone())
        }
    }

    memory_prompt::conformance_async!(unblocked: Unblocked, [memory, store, ids, slots, times, media, moving, asynchronous, asynchronous_ids]);
}

#[test]
fn debug_output_says_how_much_and_not_what() {
    let store = InMemoryStore::new();
    let memory = store.memory("a:b:c").unwrap();
    memory.append(&mut vec![Message::user("my secret")], None).unwrap();
    assert_eq!(format!("{store:?}"), "InMemoryStore { conversations: 1 }");
    assert_eq!(format!("{memory:?}"), r#"InMemory { id: "a:b:c", .. }"#);
}

/// The trait's `memory` takes an id, a store's own any text. While every `Arc<S>` was a store
/// itself, the trait's came first wherever the trait was in scope, and `store.memory("a:b:c")` did
/// not compile.
#[test]
fn a_store_behind_a_pointer_takes_any_text() {
    let (shared, boxed) = (Arc::new(InMemoryStore::new()), Box::new(InMemoryStore::new()));
    shared.memory("a:b:c").unwrap().append(&mut vec![Message::user("hi")], None).unwrap();
    boxed.memory("a:b:c").unwrap().append(&mut vec![Message::user("hi")], None).unwrap();
    let shared: Arc<dyn ChatMemoryStore> = shared;
    assert_eq!(shared.ids(None, 10).unwrap(), boxed.ids(None, 10).unwrap());
    assert_eq!(shared.memory("a:b:c".into()).unwrap().read(None, 1).unwrap().end, 1);
}

/// A copy was killed before its first batch: the other store had an empty conversation, and
/// progress had named the one before it. The next copy stopped there with `Exists`, which was to
/// mean that the conversation had been there before.
#[test]
fn progress_names_a_conversation_before_it_is_begun() {
    let (from, to) = (InMemoryStore::new(), InMemoryStore::new());
    for id in ["a", "b"] {
        from.memory(id).unwrap().append(&mut vec![Message::user("hi")], None).unwrap();
    }
    let mut named = Vec::new();
    let progress = |now: &Copied| {
        let id = now.id.clone().unwrap();
        if named.last() != Some(&id) {
            assert_eq!(to.info(&id).unwrap(), None);
            named.push(id);
        }
    };
    from.copy_to(&to, |_| true, progress).unwrap();
    assert_eq!(named, from.ids(None, 10).unwrap());
}
