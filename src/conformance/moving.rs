//! The laws of finding, distinguishing and moving conversations.

use std::collections::HashSet;
use std::ops::Range;
use std::time::{Duration, SystemTime};

use super::prelude::*;
use crate::error::Result;
use crate::store::{ChatMemoryStore, ChatMemoryStoreExt, Info};

/// Returns every id with this prefix, in pages of `n`.
#[track_caller]
fn ids(store: &dyn ChatMemoryStore, prefix: &str, n: usize) -> Vec<MemoryId> {
    paged(n, |after| store.ids_with_prefix(prefix, after, n).expect("ids should be listed"))
}

fn starting(ids: &[MemoryId], prefix: &str) -> Vec<MemoryId> {
    ids.iter().filter(|id| id.as_str().starts_with(prefix)).cloned().collect()
}

#[track_caller]
fn info(store: &dyn ChatMemoryStore, id: &str) -> Option<Info> {
    store.info(&id.into()).expect("information should come")
}

/// Asserts that a conversation exists, and begins and ends at these positions.
#[track_caller]
fn stands(store: &dyn ChatMemoryStore, id: &str, at: Range<u64>) {
    let told = info(store, id).expect("the conversation should exist");
    assert_eq!(told.start..told.end, at, "{id:?}");
}

/// Ids with a prefix are exactly the ids that begin with it, in order, in pages.
pub fn ids_with_a_prefix_are_paged<F: StoreFixture>(fixture: &F) {
    let store = fixture.store();
    assert!(ids(&*store, "a", 10).is_empty());
    let plain = (0..40).flat_map(|i| [format!("support:u{i}:c"), format!("sales:u{i}:c")]);
    create(&*store, plain.chain(hostile_ids(fixture).0));
    let all = store.ids(None, usize::MAX).unwrap();
    #[rustfmt::skip]
    let prefixes = [
        "", "support:", "support:u1", "s", "sales:u39:c", "support:u1:cx", "a", "A", "a:b", "%", "_",
        "a_", "a%", "*", "[", "{", "\\", "'", "\0", "a\0", "é", "e", "日本", "\u{10ffff}", "🦀",
        "🦀🦀", "Support:", "support:\u{ff}",
    ];
    for prefix in prefixes {
        let expected = starting(&all, prefix);
        for n in [1, 7, 1000] {
            assert_eq!(ids(&*store, prefix, n), expected, "{prefix:?} by {n}");
        }
        assert!(store.ids_with_prefix(prefix, None, 0).unwrap().is_empty());
    }
    // The id to continue after need not exist, nor begin with the prefix.
    for after in ["support:u2", "sales:u5:c", "support:u39:c", "t", "zzz"].map(MemoryId::from) {
        let rest = store.ids_with_prefix("support:", Some(&after), 1000).unwrap();
        let found = store.ids(Some(&after), 1000).unwrap();
        assert_eq!(rest, starting(&found, "support:"), "after {after:?} of {all:?}");
    }
}

/// Slots of many conversations come in the order of the ids and of their names, in pages.
pub fn slots_of_many_conversations_are_paged<F: StoreFixture>(fixture: &F) {
    let store = fixture.store();
    let slots = |prefix: &str, names: &str, n| {
        paged(n, |after: Option<&(MemoryId, Slot)>| {
            let after = after.map(|(id, slot)| (id, slot.name()));
            store.slots_with_prefix(prefix, names, after, n).expect("slots should be listed")
        })
    };
    assert!(slots("", "", 10).is_empty());
    let all = with_slots(fixture, &*store);
    let those = |wanted: &dyn Fn(&str, &str) -> bool| -> Vec<_> {
        all.iter().filter(|it| wanted(it.0.as_str(), it.1.name())).cloned().collect()
    };
    for prefix in ["", "a:", "a:1", "A", "a%", "nobody"] {
        for names in ["", "turn:", "turn:1", "turn%", "é"] {
            let expected = those(&|id, name| id.starts_with(prefix) && name.starts_with(names));
            for n in [1, 5, 100] {
                assert_eq!(slots(prefix, names, n), expected, "{prefix:?} {names:?} by {n}");
            }
            assert!(store.slots_with_prefix(prefix, names, None, 0).unwrap().is_empty());
        }
    }
    // The slot to continue after need not exist, nor match the names.
    let ids = store.ids(None, 100).unwrap();
    let place = |id: &str| ids.iter().position(|it| it.as_str() == id).unwrap();
    for id in ["a:10", "A:1"] {
        for name in ["a", "turn:15", "zzz"] {
            let is_after = |it: &str, of: &str| (place(it), of) > (place(id), name);
            let expected = those(&|it, of| it.starts_with("a:") && is_after(it, of));
            let found = store.slots_with_prefix("a:", "", Some((&id.into(), name)), 100).unwrap();
            assert_eq!(found, expected, "after {name:?} of {id:?}");
        }
    }
    let gone = MemoryId::from("a:4");
    let rest = store.ids(Some(&gone), 100).unwrap();
    let expected = those(&|id, name| rest.contains(&id.into()) && name.starts_with("turn:"));
    let found = store.slots_with_prefix("", "turn:", Some((&gone, "turn:2")), 100).unwrap();
    assert_eq!(found, expected);
}

/// Creates conversations with slots, of which one is cleared and one deleted; returns all slots.
fn with_slots<F: Fixture>(fixture: &F, store: &dyn ChatMemoryStore) -> Vec<(MemoryId, Slot)> {
    let memory = |id: &str| store.memory(id.into()).unwrap();
    let names =
        ["turn:1", "turn:10", "turn:2", "turn:é", "turn:", "turn", "turns", "Turn:1", "a", "turn%"];
    let ids = ["a:1", "a:10", "a:2", "a:3", "a:4", "a:5", "a%1", "A:1", "b:1"];
    for (i, id) in ids.into_iter().filter(|id| fixture.takes(id)).enumerate() {
        if i % 2 == 0 {
            memory(id).says(0..3); // in other rounds, slots are all it has
        }
        for name in names.iter().filter(|name| (name.len() + i) % 3 != 0) {
            memory(id).set_slot(*name, format!("{id} {name}"), Absent).unwrap();
        }
    }
    memory("a:3").clears();
    store.delete(&"a:4".into()).unwrap();
    create(store, ["a:6"]);
    let mut all = Vec::new();
    for id in store.ids(None, 100).unwrap() {
        let memory = memory(id.as_str());
        let names = memory.slots().unwrap().into_iter().map(|(name, _)| name);
        all.extend(names.map(|name| (id.clone(), memory.slot(name).unwrap().unwrap())));
    }
    assert!(all.len() > 30);
    all
}

/// Deleting by a prefix deletes the ids that begin with it and no others, and returns how many
/// there were.
pub fn deleting_by_prefix_forgets_those_and_no_other<F: StoreFixture>(fixture: &F) {
    let store = fixture.store();
    // More than one page, for stores that list and delete in pages.
    create(&*store, (0..300).map(|i| format!("a:{i}")));
    // Pattern characters are plain text.
    let patterns = ["a%", "%", "_", "a_", "*", "a*", "?", "[a]", "a\\"];
    let others = ["a", "b", "ab", "A:1", "ä:1", "", " a:1"];
    let taken = |id: &&str| fixture.takes(id);
    create(&*store, others.into_iter().chain(patterns).filter(taken));
    let memory = store.memory("a:1".into()).unwrap();
    memory.writes("a", "x");
    let delete = |prefix| store.delete_prefix(prefix).unwrap();
    assert_eq!(delete("nobody"), 0);
    for pattern in patterns {
        assert_eq!(delete(pattern), u64::from(fixture.takes(pattern)), "{pattern:?}");
    }
    assert_eq!(store.ids_with_prefix("a:", None, 1000).unwrap().len(), 300, "a page has its size");
    assert_eq!([delete("a:"), delete("a:")], [300, 0]);
    let left: HashSet<MemoryId> = ids(&*store, "", 100).into_iter().collect();
    assert_eq!(left, others.into_iter().filter(taken).map(MemoryId::from).collect());
    memory.holds(0..0).lists(&[]);
    // An empty prefix would match everything, and is more likely a mistake.
    assert_eq!(store.delete_prefix("").unwrap_err().kind(), ErrorKind::Invalid);
    assert_eq!(ids(&*store, "", 100).len(), left.len());
}

/// A store knows where a conversation begins and ends and when it was last active, and whether it
/// exists.
pub fn info_tells_where_a_conversation_stands<F: StoreFixture>(fixture: &F) {
    let (store, memory) = opened(fixture);
    assert!(info(&*store, ID).is_none());
    memory.read(None, 1).unwrap();
    memory.done(Append::default());
    assert!(info(&*store, ID).is_none());
    let before = SystemTime::now();
    memory.says(0..10).evicts(3, 3);
    stands(&*store, ID, 3..10);
    let told = info(&*store, ID).unwrap();
    is_of_now::<F>(told.active, before);
    assert!(told.incarnation.is_some() && told.incarnation == memory.whole().incarnation);
    memory.clears();
    stands(&*store, ID, 10..10);
    store.memory("system".into()).unwrap().instructs("Be brief.");
    stands(&*store, "system", 0..0);
    store.delete(&ID.into()).unwrap();
    assert!(info(&*store, ID).is_none());
    for id in hostile_ids(fixture).0 {
        create(&*store, [id.as_str()]);
        stands(&*store, &id, 0..1);
    }
}

/// Appends are activity, including those of slots and system messages; nothing else is.
pub fn appends_are_activity_and_nothing_else_is<F: StoreFixture>(fixture: &F) {
    let (store, memory) = opened(fixture);
    memory.says(0..5).writes("a", "x");
    let mut last = info(&*store, ID).unwrap().active;
    let mut check = |what: &str, activity: bool, result: Result<()>| {
        result.unwrap();
        let now = info(&*store, ID).unwrap().active;
        assert_eq!(now > last, activity, "{what}: {last:?} {now:?}");
        last = now;
        later::<F>();
    };
    let with = |append: Append| memory.append_with(&mut { append }).map(drop);
    let read = Read::newest(1).slots(["a"]).positions([1]);
    later::<F>();
    check("reading", false, memory.all().map(drop));
    check("reading slots", false, memory.read_with(&read).map(drop));
    check("listing slots", false, memory.slots().map(drop));
    check("evicting", false, memory.evict(2).map(drop));
    check("an append of nothing", false, memory.append(&mut Vec::new(), None).map(drop));
    check("an append of an id alone", false, with(Append::default().with_id("one")));
    memory.append(&mut vec![numbered(0)], Some(99)).unwrap_err();
    memory.set_slot("a", "y", Absent).unwrap_err();
    check("a conflict", false, Ok(()));
    check("an append", true, memory.add(numbered(5)).map(drop));
    check("an append with an id", true, with(appending(6..7).with_id("two")));
    check("its repetition", false, with(appending(6..7).with_id("two")));
    for what in ["a system message", "the same system message"] {
        check(what, true, memory.add(Message::system("Be brief.")).map(drop));
    }
    check("writing a slot", true, with(setting("a", "y")));
    check("removing a slot", true, with(removing("a")));
    check("clearing", false, memory.clear());
    check("deleting another", false, store.delete(&"another".into()).map(drop));
}

/// A slot creates the conversation. Removing one does not, nor does an append that changes nothing.
pub fn a_slot_creates_its_conversation<F: StoreFixture>(fixture: &F) {
    let (store, memory) = opened(fixture);
    memory.read_with(&Read::newest(1).slots(["a"]).positions([0])).unwrap();
    memory.lists(&[]).removes("a").remove_slot("a", Absent).unwrap();
    memory.done(Append::default().with_id("one"));
    memory.done(Append::closing(0, SystemTime::now()));
    memory.set_slot("a", "x", Is(SlotVersion::random())).unwrap_err();
    memory.append_with(&mut appending(0..1).expecting(3)).unwrap_err();
    assert!(ids(&*store, "", 10).is_empty() && info(&*store, ID).is_none());
    memory.set_slot("a", "x", Absent).unwrap();
    assert_eq!(ids(&*store, "", 10), [ID.into()]);
    memory.holds(0..0);
    // With an id, a removal or a closing creates it too, since the id must be recognised later.
    for change in [removing("a"), Append::closing(0, long_ago(0))] {
        let other = store.memory("other".into()).unwrap();
        other.appends(change.clone().with_id("one"), 0..0);
        assert!(info(&*store, "other").is_some());
        other.repeats(change.with_id("one"), 0..0);
        assert!(store.delete(&"other".into()).unwrap());
    }
    let then = later::<F>();
    memory.removes("a");
    assert_eq!(store.purge_inactive(then).unwrap(), 0, "removing a slot is activity");
    assert_eq!(store.purge_inactive(later::<F>()).unwrap(), 1);
}

/// After a delete or a purge, a new beginning has another incarnation, without earlier ids and
/// slots; no version is used again.
pub fn a_new_beginning_knows_nothing_of_before<F: StoreFixture>(fixture: &F) {
    let (store, memory) = opened(fixture);
    let (mut incarnations, mut versions) = (HashSet::new(), HashSet::new());
    let late = |seen: &Snapshot| memory.refused(&appending(1..2).since(seen)).kind();
    let mut before = None;
    for round in 0..6 {
        let change = appending(0..1).with_id("turn").set_slot("a", "same", Absent).expecting(0);
        let appended = memory.done(change);
        assert!(versions.insert(appended.version.unwrap()), "a version is used again");
        assert_eq!((appended.positions, appended.repeated), (0..1, false));
        memory.lists(&["a"]).holds_under(None, 0..1);
        let more = Append::new([Message::system("Be brief.")]);
        memory.done(more.set_slot(format!("of round {round}"), "x", Absent));
        let snapshot = memory.read(None, 1).unwrap();
        assert!(incarnations.insert(snapshot.incarnation.unwrap()), "an incarnation is used again");
        assert!(before.iter().all(|seen| late(seen) == ErrorKind::Forgotten));
        match round % 3 {
            0 => assert!(store.delete(&ID.into()).unwrap()),
            1 => assert_eq!(store.purge_inactive(later::<F>()).unwrap(), 1),
            _ => assert_eq!(store.delete_prefix(ID).unwrap(), 1),
        }
        assert_eq!(memory.read(None, 1).unwrap().incarnation, None, "there is no conversation");
        assert!(memory.lists(&[]).slot("a").unwrap().is_none());
        assert_eq!(late(&snapshot), ErrorKind::Forgotten);
        assert!(info(&*store, ID).is_none(), "what failed created nothing");
        before = Some(snapshot);
    }
}

/// A restored conversation continues where it ended, as the same one.
pub fn a_restored_conversation_goes_on<F: StoreFixture>(fixture: &F) {
    let (store, memory) = opened(fixture);
    let incarnation = Some(Incarnation::from_bits(0xfedc_ba98_7654_3210));
    let restore = |start, incarnation| store.restore(&ID.into(), start, incarnation);
    let then = later::<F>();
    restore(40, incarnation).unwrap();
    assert_eq!(memory.holds(40..40).whole().incarnation, incarnation);
    assert_eq!(info(&*store, ID).unwrap().incarnation, incarnation);
    assert_eq!(ids(&*store, "", 10), [ID.into()]);
    assert_eq!(store.ids(None, 10).unwrap(), [ID.into()]);
    assert_eq!(store.purge_inactive(then).unwrap(), 0, "it is active by the clock");
    for (start, other) in [(0, None), (40, incarnation), (50, None)] {
        assert_eq!(restore(start, other).unwrap_err().kind(), ErrorKind::Exists);
    }
    memory.refuses(&appending(0..1).expecting(0), ErrorKind::Conflict { expected: 0, actual: 40 });
    assert_eq!(memory.append(&mut (40..42).map(numbered).collect(), Some(40)).unwrap(), 40..42);
    memory.holds(40..42);
    let read = memory.read_with(&Read::newest(0).positions([0, 39, 40, 41])).unwrap();
    assert_eq!(positions(read.picked()), [40, 41]);
    memory.evicts(41, 1).clears();
    assert_eq!(restore(42, None).unwrap_err().kind(), ErrorKind::Exists);
    store.delete(&ID.into()).unwrap();

    // Without an incarnation it gets a new one. A far position is possible too.
    let far = 1 << 31;
    restore(far, None).unwrap();
    let anew = memory.whole().incarnation;
    assert!(anew.is_some() && anew != incarnation);
    memory.appends(appending(far..far + 1), far..far + 1).holds(far..far + 1);
    // A position that is further away is kept exactly, or refused: it must not be cut to fewer
    // bits.
    for far in [(1 << 32) + 5, (1 << 53) + 1, FAR, u64::MAX - 9] {
        store.delete(&ID.into()).unwrap();
        if let Err(error) = restore(far, None) {
            assert_eq!(error.kind(), ErrorKind::Invalid, "{far}: {error}");
            assert!(info(&*store, ID).is_none());
        } else {
            stands(&*store, ID, far..far);
        }
    }
    for (id, i) in hostile_ids(fixture).0.iter().zip(0..) {
        store.restore(&id.as_str().into(), i, None).unwrap();
        stands(&*store, id, i..i);
    }
}

/// An import is active by the clock until it is closed; then its activity is the time of its
/// messages.
pub fn an_import_is_active_until_it_is_closed<F: StoreFixture>(fixture: &F) {
    let (store, memory) = opened(fixture);
    let purge = |older_than| store.purge_inactive(older_than).unwrap();
    let last_year = SystemTime::now() - Duration::from_secs(365 * 24 * 60 * 60);
    for batch in 0..3 {
        let then = later::<F>();
        memory.done(importing(batch * 5..batch * 5 + 5));
        assert_eq!(purge(then), 0, "a purge between two batches");
    }
    // Another writer uses it: it stays active.
    let conflict = ErrorKind::Conflict { expected: 14, actual: 15 };
    memory.refuses(&Append::closing(14, long_ago(14)), conflict);
    assert_eq!(purge(last_year), 0);
    memory.appends(Append::closing(15, long_ago(14)), 15..15).holds(0..15);
    assert_eq!(info(&*store, ID).unwrap().active, long_ago(14));
    assert_eq!(purge(long_ago(14)), 0, "not before that time");
    // Continuing it makes it active again.
    let other = store.memory("goes on".into()).unwrap();
    let closing = || Append::closing(2, long_ago(1)).with_id("closing");
    other.appends(importing(0..2), 0..2).appends(closing(), 2..2).says(2..3);
    other.repeats(closing(), 2..2);
    assert!(info(&*store, "goes on").unwrap().active > last_year);
    assert_eq!(purge(last_year), 1);
    assert_eq!(ids(&*store, "", 10), ["goes on".into()]);
    // A closing may have slots and the system message, without becoming activity by the clock.
    let third = store.memory("third".into()).unwrap();
    let mut closing = Append::closing(2, long_ago(1)).set_slot("a", "x", Absent);
    closing.messages.push(Message::system("Be brief."));
    third.appends(importing(0..2), 0..2).appends(closing, 2..2);
    assert_eq!(info(&*store, "third").unwrap().active, long_ago(1));
    third.lists(&["a"]).holds_under(Some("Be brief."), 0..2);
}

/// Returns the batch of an import that has the messages with these numbers.
fn importing(numbers: Range<u64>) -> Append {
    let times = numbers.clone().map(long_ago);
    appending(numbers.clone()).with_times(times).expecting(numbers.start)
}

/// A copy keeps positions, times, slots, the system message, the incarnation, and the time of the
/// last activity.
pub fn a_copy_keeps_everything<F: StoreFixture>(fixture: &F) {
    let other = F::new();
    let (from, to) = (fixture.store(), other.store());
    for (c, n) in [0, 1, 70, 300].into_iter().enumerate() {
        let memory = from.memory(format!("copied {c}").into()).unwrap();
        let append = importing(0..n).set_slot("a", c.to_string(), Any);
        memory.appends(append.set_slot("b", [0, 255], Any), 0..n);
        memory.instructs(&format!("Be {c}.")).evicts(n / 3, n / 3);
        memory.done(Append::closing(n, long_ago(n)));
    }
    create(&*from, ["left out"]);
    create(&*to, ["there already"]);
    let mut told = Vec::new();
    let is_copied = |id: &MemoryId| id.as_str().starts_with("copied");
    let copied = from.copy_to(&*to, is_copied, |now| told.push(now.clone())).unwrap();
    assert_eq!((copied.conversations, copied.records), (4, 1 + 47 + 200));
    assert_eq!(told.last(), Some(&copied));
    assert!(told.is_sorted_by_key(|now| (now.conversations, now.records)), "{told:?}");
    assert!(told.len() > 4, "progress is told after each batch");
    assert_eq!(ids(&*to, "", 10).len(), 5);
    for id in (0..4).map(|c| format!("copied {c}")) {
        let read = Read::newest(usize::MAX).slots(["a", "b"]);
        let memories = [&from, &to].map(|store| store.memory(id.as_str().into()).unwrap());
        let [one, two] = memories.each_ref().map(|it| it.read_with(&read).unwrap());
        alike(&two, &one);
        assert_eq!(times(&two.records), times(&one.records));
        assert_eq!(two.incarnation, one.incarnation);
        let slots =
            |it: &Snapshot| ["a", "b"].map(|name| it.slot(name).unwrap().content().to_vec());
        assert_eq!(slots(&two), slots(&one));
        assert_eq!(info(&*to, &id), info(&*from, &id));
        assert_eq!(memories[1].add(numbered(0)).unwrap(), one.end, "it goes on");
    }
    let again = from.copy_to(&*to, |id| id.as_str() == "copied 1", |_| ());
    assert_eq!(again.unwrap_err().kind(), ErrorKind::Exists);
}
