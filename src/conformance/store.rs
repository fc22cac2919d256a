//! The laws of many conversations.

use std::collections::HashSet;
use std::sync::Barrier;
use std::thread;
use std::time::{Duration, SystemTime};

use super::prelude::*;
use crate::store::ChatMemoryStore;

#[track_caller]
fn ids(store: &dyn ChatMemoryStore, n: usize) -> Vec<MemoryId> {
    paged(n, |after| store.ids(after, n).expect("ids should be listed"))
}

#[track_caller]
fn unique(ids: &[MemoryId]) -> HashSet<MemoryId> {
    let mut unique = HashSet::new();
    for id in ids {
        assert!(unique.insert(id.clone()), "{id:?} is listed twice");
    }
    unique
}

/// Nothing is written before the first append.
pub fn a_memory_is_created_by_its_first_append<F: StoreFixture>(fixture: &F) {
    let (store, memory) = opened(fixture);
    memory.read(None, 10).unwrap();
    memory.evicts(10, 0).clears().append(&mut Vec::new(), None).unwrap();
    memory.append(&mut vec![numbered(0)], Some(5)).unwrap_err();
    assert!(ids(&*store, 10).is_empty() && !store.delete(&ID.into()).unwrap());
    memory.says(0..1);
    assert_eq!(ids(&*store, 10), [ID.into()]);
    // A system message alone is a conversation too.
    store.memory("system".into()).unwrap().instructs("Be brief.");
    assert_eq!(ids(&*store, 10).len(), 2);
}

/// Two memories for one id are one conversation.
pub fn two_memories_for_one_id_are_one_conversation<F: StoreFixture>(fixture: &F) {
    let ((store, one), (_, two)) = (opened(fixture), opened(fixture));
    one.says(0..2);
    two.says(2..3);
    one.says(3..4);
    two.holds(0..4);
    one.holds(0..4);
    // One handle may change what the other has read already.
    two.says(4..6);
    one.holds(0..6).instructs("Be brief.");
    two.holds_under(Some("Be brief."), 0..6).instructs("Be kind.");
    one.holds_under(Some("Be kind."), 0..6);
    two.evicts(2, 2);
    one.holds(2..6);
    create(&*store, ["other"]);
    one.holds(2..6).clears();
    two.holds_under(None, 6..6);
}

/// Ids are paged, in a fixed order, and each is listed once.
pub fn ids_are_paged_and_each_is_listed_once<F: StoreFixture>(fixture: &F) {
    let store = fixture.store();
    assert!(store.ids(None, 0).unwrap().is_empty());
    assert!(store.ids(Some(&"nobody".into()), 10).unwrap().is_empty());
    let expected: HashSet<MemoryId> = (0..103).map(|i| format!("domain:u{i}:c").into()).collect();
    create(&*store, expected.clone());
    let order = ids(&*store, 1000);
    for n in [1, 7, 103, 104] {
        assert_eq!(ids(&*store, n), order);
    }
    assert_eq!(unique(&order), expected);
    assert!(store.ids(None, 0).unwrap().is_empty());
    assert_eq!(store.ids(None, usize::MAX).unwrap().len(), 103);
}

/// An id that exists during the whole listing is listed once, even if others come and go.
pub fn ids_that_stay_are_listed_once_while_others_come_and_go<F: StoreFixture>(fixture: &F) {
    let store = fixture.store();
    create(&*store, (0..60).flat_map(|i| [format!("stays {i}"), format!("goes {i}")]));
    let mut round = 0;
    let listed = paged(10, |after| {
        let page = store.ids(after, 10).unwrap();
        create(&*store, [format!("comes {round}")]);
        // If the order were by activity, these appends would change it.
        for i in (0..60).filter(|i| i % 3 == round % 3) {
            store.memory(format!("stays {i}").into()).unwrap().add(numbered(1)).unwrap();
        }
        for i in (0..60).filter(|i| i % 4 == round % 4) {
            store.delete(&format!("goes {i}").into()).unwrap();
        }
        // Even the id to continue after may be deleted.
        if let Some(last) = page.last().filter(|id| id.as_str().starts_with("goes")) {
            store.delete(last).unwrap();
        }
        round += 1;
        page
    });
    let listed = unique(&listed);
    for id in (0..60).map(|i| format!("stays {i}")) {
        assert!(listed.contains(&id.as_str().into()), "{id} was skipped");
    }
}

/// Ids are listed unchanged, even hostile ones, and ids that the backend does not take are refused.
pub fn hostile_ids_are_listed_as_they_are<F: StoreFixture>(fixture: &F) {
    let store = fixture.store();
    let (expected, others) = hostile_ids(fixture);
    for id in others {
        let kind = store.memory(id.as_str().into()).err().map(|error| error.kind());
        assert_eq!(kind, Some(ErrorKind::Invalid), "{id:?} should be refused");
    }
    let expected: HashSet<_> = expected.into_iter().map(MemoryId::from).collect();
    create(&*store, expected.clone());
    for n in [1, 10, 1000] {
        let listed = unique(&ids(&*store, n));
        let other = expected.symmetric_difference(&listed).next();
        assert_eq!(other, None, "this id is not listed, or not one of those that are there");
    }
    for (i, id) in expected.iter().enumerate() {
        assert!(store.delete(id).unwrap(), "{id:?}");
        assert_eq!(store.ids(None, 1000).unwrap().len(), expected.len() - i - 1, "{id:?}");
    }
}

/// A conversation that was cleared or evicted still exists.
pub fn a_cleared_conversation_still_exists<F: StoreFixture>(fixture: &F) {
    let (store, memory) = opened(fixture);
    memory.says(0..3).evicts(3, 3);
    assert_eq!(ids(&*store, 10), [ID.into()]);
    memory.clears().holds(3..3);
    assert_eq!(ids(&*store, 10), [ID.into()]);
    assert!(store.delete(&ID.into()).unwrap() && ids(&*store, 10).is_empty());
}

/// Deleting deletes the conversation and no other, and returns whether there was one.
pub fn deleting_forgets_the_conversation_and_no_other<F: StoreFixture>(fixture: &F) {
    let store = fixture.store();
    let memory = |name: &str| store.memory(name.into()).unwrap();
    for name in ["a", "a:b", "a:b:c", "ab"] {
        memory(name).instructs(name).says(0..5);
    }
    let deleted = ["a:b", "a:b", "nobody"].map(|name| store.delete(&name.into()).unwrap());
    assert_eq!(deleted, [true, false, false]);
    for name in ["a", "a:b:c", "ab"] {
        memory(name).holds_under(Some(name), 0..5);
    }
    memory("a:b").holds_under(None, 0..0);
}

/// Memories of a deleted conversation stay usable: the next append begins a new one at 0.
pub fn a_deleted_conversation_begins_anew_at_0<F: StoreFixture>(fixture: &F) {
    let (store, memory) = opened(fixture);
    memory.instructs("Be brief.").says(0..5);
    store.delete(&ID.into()).unwrap();
    memory.holds_under(None, 0..0);
    assert!(ids(&*store, 10).is_empty());
    assert_eq!(memory.append(&mut vec![numbered(0)], Some(0)).unwrap(), 0..1);
    memory.holds_under(None, 0..1);
    assert_eq!(ids(&*store, 10), [ID.into()]);
}

/// A purge deletes the conversations without an append since a time, and no others.
pub fn a_purge_deletes_what_is_inactive_and_no_other<F: StoreFixture>(fixture: &F) {
    let store = fixture.store();
    let memory = |name: &str| store.memory(name.into()).unwrap();
    let old = ["old and new", "old and read", "old and cleared", "old and evicted"];
    for name in (0..20).map(|i| format!("old {i}")).chain(old.map(str::to_owned)) {
        memory(&name).says(0..3);
    }
    memory("old and spoken to").says(0..1);
    let then = later::<F>();
    memory("old and new").says(3..4);
    memory("old and spoken to").instructs("Be brief.");
    memory("new").says(0..1);
    memory("old and read").all().unwrap();
    memory("old and read").append(&mut Vec::new(), None).unwrap();
    memory("old and read").append(&mut vec![numbered(0)], Some(9)).unwrap_err();
    memory("old and evicted").evicts(1, 1).evicts(3, 2);
    memory("old and cleared").clears();

    let purge = |older_than| store.purge_inactive(older_than).unwrap();
    assert_eq!([SystemTime::UNIX_EPOCH, then, then].map(purge), [0, 23, 0]);
    let left = ["new", "old and new", "old and spoken to"].map(MemoryId::from);
    assert_eq!(unique(&ids(&*store, 10)), left.into());
    memory("old and new").holds(0..4);
    memory("old 0").holds(0..0);

    let tomorrow = SystemTime::now() + Duration::from_secs(24 * 60 * 60);
    assert_eq!(purge(tomorrow), 3);
    assert!(ids(&*store, 10).is_empty());
}

/// A purge deletes nothing that is appended meanwhile.
pub fn a_purge_takes_nothing_that_is_appended_meanwhile<F: StoreFixture>(fixture: &F) {
    let store = fixture.store();
    let old = |id: String| {
        create(&*store, [id.as_str()]);
        (store.memory(id.into()).unwrap(), later::<F>())
    };
    for round in 0..20 {
        let (memory, then) = old(format!("{ID}:{round}"));
        thread::scope(|scope| {
            scope.spawn(|| {
                // In some rounds before the purge, in others during it.
                thread::sleep(Duration::from_micros(50 << (round % 8)));
                memory.add(Message::user("new")).unwrap()
            });
            scope.spawn(|| store.purge_inactive(then).unwrap());
        });
        // Deleted before the append, or not deleted: in both cases the new message is there.
        assert!(memory.latest(1).unwrap().messages().eq([&Message::user("new")]));
    }
    // However long the purge takes: after the first append the conversation is active, and
    // continues.
    for round in 0..20 {
        let (memory, then) = old(format!("{ID}:goes on:{round}"));
        let start = Barrier::new(2);
        thread::scope(|scope| {
            let purge = scope.spawn(|| {
                start.wait();
                store.purge_inactive(then).unwrap()
            });
            start.wait();
            // A purge first looks and then deletes: in each round, the append comes at another
            // moment.
            thread::sleep(Duration::from_micros(50 << (round % 6)));
            let first = memory.add(numbered(0)).unwrap();
            let mut next = first + 1..first + 1001;
            while !purge.is_finished() && !next.is_empty() {
                let added = memory.add(numbered(0)).unwrap();
                assert_eq!(Some(added), next.next(), "it was deleted though it was active");
            }
            assert_eq!(memory.next_position().unwrap(), next.start, "it was deleted at the end");
        });
    }
}
