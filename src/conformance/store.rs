//! The laws of many conversations.

use std::collections::HashSet;
use std::sync::Barrier;
use std::sync::atomic::{AtomicBool, Ordering};
use std::thread;
use std::time::{Duration, SystemTime};

use super::StoreFixture;
use super::support::{Done, ID, append, holds, hostile_ids, later, numbered, paged};
use crate::error::ErrorKind;
use crate::memory::{ChatMemory, ChatMemoryExt, MemoryId};
use crate::message::Message;
use crate::store::ChatMemoryStore;

#[track_caller]
fn ids(store: &dyn ChatMemoryStore, n: usize) -> Vec<String> {
    paged(n, |after| store.ids(after, n).expect("ids are listed"))
}

#[track_caller]
fn unique(ids: Vec<String>) -> HashSet<String> {
    let all = ids.len();
    let ids: HashSet<String> = ids.into_iter().collect();
    assert_eq!(ids.len(), all, "an id is listed twice");
    ids
}

/// Nothing is written before the first append.
pub fn a_memory_is_created_by_its_first_append<F: StoreFixture>(fixture: &F) {
    let store = fixture.store();
    let memory = store.memory(ID.into()).unwrap();
    memory.read(None, 10).unwrap();
    memory.evict(10).unwrap();
    memory.clear().unwrap();
    memory.append(&mut Vec::new(), None).unwrap();
    memory.append(&mut vec![numbered(0)], Some(5)).unwrap_err();
    assert!(ids(&*store, 10).is_empty());
    assert!(!store.delete(&ID.into()).unwrap());
    append(&*memory, 0..1);
    assert_eq!(ids(&*store, 10), [ID]);
    // A system message alone is a conversation too.
    store.memory("system".into()).unwrap().add(Message::system("Be brief.")).unwrap();
    assert_eq!(ids(&*store, 10).len(), 2);
}

/// Two memories for one id are one conversation.
pub fn two_memories_for_one_id_are_one_conversation<F: StoreFixture>(fixture: &F) {
    let store = fixture.store();
    let (one, two) = (store.memory(ID.into()).unwrap(), fixture.store().memory(ID.into()).unwrap());
    append(&*one, 0..2);
    append(&*two, 2..3);
    append(&*one, 3..4);
    holds(&*two, 0..4);
    holds(&*one, 0..4);
    // One handle may change what the other has read already.
    append(&*two, 4..6);
    holds(&*one, 0..6);
    one.add(Message::system("Be brief.")).unwrap();
    assert!(two.system().unwrap().is_some());
    two.add(Message::system("Be kind.")).unwrap();
    assert_eq!(one.system().unwrap().as_deref(), Some(&Message::system("Be kind.")));
    assert_eq!(two.evict(2).unwrap(), 2);
    holds(&*one, 2..6);
    let other = store.memory("other".into()).unwrap();
    append(&*other, 0..1);
    holds(&*one, 2..6);
    one.clear().unwrap();
    holds(&*two, 6..6);
    assert!(two.system().unwrap().is_none());
}

/// A memory knows its id.
pub fn a_memory_knows_its_id<F: StoreFixture>(fixture: &F) {
    let store = fixture.store();
    assert_eq!(store.memory(ID.into()).unwrap().id().as_str(), ID);
}

/// Ids are paged, in a fixed order, and each is listed once.
pub fn ids_are_paged_and_each_is_listed_once<F: StoreFixture>(fixture: &F) {
    let store = fixture.store();
    assert!(store.ids(None, 0).unwrap().is_empty());
    assert!(store.ids(Some(&"nobody".into()), 10).unwrap().is_empty());
    let expected: HashSet<String> = (0..103).map(|i| format!("domain:u{i}:c")).collect();
    for id in &expected {
        append(&*store.memory(id.as_str().into()).unwrap(), 0..1);
    }
    let order = ids(&*store, 1000);
    for n in [1, 7, 103, 104] {
        assert_eq!(ids(&*store, n), order);
    }
    assert_eq!(unique(order), expected);
    assert!(store.ids(None, 0).unwrap().is_empty());
    assert_eq!(store.ids(None, usize::MAX).unwrap().len(), 103);
}

/// An id that exists during the whole listing is listed once, even if others come and go.
pub fn ids_that_stay_are_listed_once_while_others_come_and_go<F: StoreFixture>(fixture: &F) {
    let store = fixture.store();
    let create = |id: &str| append(&*store.memory(id.into()).unwrap(), 0..1);
    for i in 0..60 {
        create(&format!("stays {i}"));
        create(&format!("goes {i}"));
    }
    let mut listed: Vec<MemoryId> = Vec::new();
    let mut round = 0;
    loop {
        let page = store.ids(listed.last(), 10).unwrap();
        let end = page.len() < 10;
        listed.extend(page);
        assert!(listed.len() < 10_000, "the list has no end");
        if end {
            break;
        }
        create(&format!("comes {round}"));
        // If the order were by activity, these appends would change it.
        for i in (0..60).filter(|i| i % 3 == round % 3) {
            store.memory(format!("stays {i}").into()).unwrap().add(numbered(1)).unwrap();
        }
        for i in 0..60 {
            if i % 4 == round % 4 {
                store.delete(&format!("goes {i}").into()).unwrap();
            }
        }
        // Even the id to continue after may be deleted.
        if let Some(last) = listed.last().filter(|id| id.as_str().starts_with("goes")) {
            store.delete(last).unwrap();
        }
        round += 1;
    }
    let listed = unique(listed.iter().map(ToString::to_string).collect());
    for i in 0..60 {
        assert!(listed.contains(&format!("stays {i}")), "stays {i} was skipped");
    }
}

/// Ids are listed unchanged, even hostile ones, and ids that the backend does not take are refused.
pub fn hostile_ids_are_listed_as_they_are<F: StoreFixture>(fixture: &F) {
    let store = fixture.store();
    let (expected, others) = hostile_ids(fixture);
    for id in others {
        let refused = store.memory(id.as_str().into()).unwrap_err();
        assert_eq!(refused.kind(), ErrorKind::Invalid, "{id:?}: {refused}");
    }
    for id in &expected {
        append(&*store.memory(id.as_str().into()).unwrap(), 0..1);
    }
    for n in [1, 10, 1000] {
        assert_eq!(unique(ids(&*store, n)), expected.iter().cloned().collect());
    }
    for (i, id) in expected.iter().enumerate() {
        assert!(store.delete(&id.as_str().into()).unwrap(), "{id:?}");
        assert_eq!(store.ids(None, 1000).unwrap().len(), expected.len() - i - 1, "{id:?}");
    }
}

/// A conversation that was cleared or evicted still exists.
pub fn a_cleared_conversation_still_exists<F: StoreFixture>(fixture: &F) {
    let store = fixture.store();
    let memory = store.memory(ID.into()).unwrap();
    append(&*memory, 0..3);
    memory.evict(3).unwrap();
    assert_eq!(ids(&*store, 10), [ID]);
    memory.clear().unwrap();
    assert_eq!(ids(&*store, 10), [ID]);
    holds(&*memory, 3..3);
    assert!(store.delete(&ID.into()).unwrap());
    assert!(ids(&*store, 10).is_empty());
}

/// Deleting deletes the conversation and no other, and returns whether there was one.
pub fn deleting_forgets_the_conversation_and_no_other<F: StoreFixture>(fixture: &F) {
    let store = fixture.store();
    let names = ["a", "a:b", "a:b:c", "ab"];
    for name in names {
        let memory = store.memory(name.into()).unwrap();
        memory.add(Message::system(name)).unwrap();
        append(&*memory, 0..5);
    }
    assert!(store.delete(&"a:b".into()).unwrap());
    assert!(!store.delete(&"a:b".into()).unwrap());
    assert!(!store.delete(&"nobody".into()).unwrap());
    for name in names.into_iter().filter(|name| *name != "a:b") {
        let memory = store.memory(name.into()).unwrap();
        holds(&*memory, 0..5);
        assert_eq!(memory.system().unwrap().as_deref(), Some(&Message::system(name)));
    }
    let memory = store.memory("a:b".into()).unwrap();
    holds(&*memory, 0..0);
    assert!(memory.system().unwrap().is_none());
}

/// Memories of a deleted conversation stay usable: the next append begins a new one at 0.
pub fn a_deleted_conversation_begins_anew_at_0<F: StoreFixture>(fixture: &F) {
    let store = fixture.store();
    let memory = store.memory(ID.into()).unwrap();
    memory.add(Message::system("Be brief.")).unwrap();
    append(&*memory, 0..5);
    store.delete(&ID.into()).unwrap();
    holds(&*memory, 0..0);
    assert!(memory.system().unwrap().is_none());
    assert!(ids(&*store, 10).is_empty());
    assert_eq!(memory.append(&mut vec![numbered(0)], Some(0)).unwrap(), 0..1);
    holds(&*memory, 0..1);
    assert!(memory.system().unwrap().is_none(), "nothing of before comes back");
    assert_eq!(ids(&*store, 10), [ID]);
}

/// A purge deletes the conversations without an append since a time, and no others.
pub fn a_purge_deletes_what_is_inactive_and_no_other<F: StoreFixture>(fixture: &F) {
    let store = fixture.store();
    let memory = |name: &str| store.memory(name.into()).unwrap();
    for i in 0..20 {
        append(&*memory(&format!("old {i}")), 0..3);
    }
    append(&*memory("old and new"), 0..3);
    append(&*memory("old and read"), 0..3);
    append(&*memory("old and cleared"), 0..3);
    append(&*memory("old and evicted"), 0..3);
    memory("old and spoken to").add(numbered(0)).unwrap();
    let then = later();
    append(&*memory("old and new"), 3..4);
    memory("old and spoken to").add(Message::system("Be brief.")).unwrap();
    append(&*memory("new"), 0..1);
    memory("old and read").all().unwrap();
    memory("old and read").append(&mut Vec::new(), None).unwrap();
    memory("old and read").append(&mut vec![numbered(0)], Some(9)).unwrap_err();
    memory("old and evicted").evict(1).unwrap();
    memory("old and evicted").evict(3).unwrap();
    memory("old and cleared").clear().unwrap();

    assert_eq!(store.purge_inactive(SystemTime::UNIX_EPOCH).unwrap(), 0);
    assert_eq!(store.purge_inactive(then).unwrap(), 23);
    assert_eq!(store.purge_inactive(then).unwrap(), 0);
    let left = unique(ids(&*store, 10));
    assert_eq!(left, ["new", "old and new", "old and spoken to"].map(str::to_owned).into());
    holds(&*memory("old and new"), 0..4);
    holds(&*memory("old 0"), 0..0);

    let tomorrow = SystemTime::now() + Duration::from_secs(24 * 60 * 60);
    assert_eq!(store.purge_inactive(tomorrow).unwrap(), 3);
    assert!(ids(&*store, 10).is_empty());
}

/// A purge deletes nothing that is appended meanwhile.
pub fn a_purge_takes_nothing_that_is_appended_meanwhile<F: StoreFixture>(fixture: &F) {
    let store = fixture.store();
    for round in 0..20 {
        let memory = store.memory(format!("{ID}:{round}").into()).unwrap();
        append(&*memory, 0..1);
        let then = later();
        thread::scope(|scope| {
            scope.spawn(|| {
                // In some rounds before the purge, in others during it.
                thread::sleep(Duration::from_micros(50 << (round % 8)));
                memory.add(Message::user("new")).unwrap()
            });
            scope.spawn(|| store.purge_inactive(then).unwrap());
        });
        // Deleted before the append, or not deleted: in both cases the new message is there.
        let latest = memory.latest(1).unwrap();
        assert_eq!(latest.messages().next().map(Message::text).as_deref(), Some("new"));
    }
    // However long the purge takes: after the first append the conversation is active, and
    // continues.
    for round in 0..20 {
        let memory = store.memory(format!("{ID}:goes on:{round}").into()).unwrap();
        append(&*memory, 0..1);
        let then = later();
        let (start, done) = (Barrier::new(2), AtomicBool::new(false));
        thread::scope(|scope| {
            scope.spawn(|| {
                let _done = Done(&done);
                start.wait();
                store.purge_inactive(then).unwrap()
            });
            start.wait();
            // A purge first looks and then deletes: in each round, the append comes at another
            // moment.
            thread::sleep(Duration::from_micros(50 << (round % 6)));
            let mut last = memory.add(numbered(0)).unwrap();
            for _ in (0..1000).take_while(|_| !done.load(Ordering::Relaxed)) {
                let next = memory.add(numbered(0)).unwrap();
                assert_eq!(next, last + 1, "it was deleted though it was active");
                last = next;
            }
            let end = memory.next_position().unwrap();
            assert_eq!(end, last + 1, "it was deleted though it was active");
        });
    }
}
