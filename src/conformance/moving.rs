//! The laws of finding, distinguishing and moving conversations.

use std::collections::HashSet;
use std::time::{Duration, SystemTime, UNIX_EPOCH};

use super::StoreFixture;
use super::support::{
    ID, append, holds, hostile_ids, later, numbered, paged, refused, rows, times,
};
use crate::error::{ErrorKind, Result};
use crate::memory::{Append, ChatMemory, ChatMemoryExt, Expected, MemoryId, Read};
use crate::message::Message;
use crate::record::{Incarnation, Slot, SlotVersion};
use crate::store::{ChatMemoryStore, ChatMemoryStoreExt, Info};

/// Returns every id with this prefix, in pages of `n`.
#[track_caller]
fn ids(store: &dyn ChatMemoryStore, prefix: &str, n: usize) -> Vec<String> {
    paged(n, |after| store.ids_with_prefix(prefix, after, n).expect("ids are listed"))
}

fn create(store: &dyn ChatMemoryStore, id: &str) {
    append(&*store.memory(id.into()).unwrap(), 0..1);
}

#[track_caller]
fn info(store: &dyn ChatMemoryStore, id: &str) -> Info {
    store.info(&id.into()).expect("a store tells").expect("there is a conversation")
}

fn exists(store: &dyn ChatMemoryStore, id: &str) -> bool {
    store.info(&id.into()).unwrap().is_some()
}

/// Ids with a prefix are exactly the ids that begin with it, in order, in pages.
pub fn ids_with_a_prefix_are_paged<F: StoreFixture>(fixture: &F) {
    let store = fixture.store();
    assert!(ids(&*store, "a", 10).is_empty());
    for i in 0..40 {
        create(&*store, &format!("support:u{i}:c"));
        create(&*store, &format!("sales:u{i}:c"));
    }
    for id in hostile_ids(fixture).0 {
        create(&*store, &id);
    }
    let all: Vec<String> =
        store.ids(None, usize::MAX).unwrap().iter().map(ToString::to_string).collect();
    #[rustfmt::skip]
    let prefixes = [
        "", "support:", "support:u1", "s", "sales:u39:c", "support:u1:cx", "a", "A", "a:b", "%", "_",
        "a_", "a%", "*", "[", "{", "\\", "'", "\0", "a\0", "é", "e", "日本", "\u{10ffff}", "🦀",
        "🦀🦀", "Support:", "support:\u{ff}",
    ];
    for prefix in prefixes {
        let expected: Vec<_> = all.iter().filter(|id| id.starts_with(prefix)).cloned().collect();
        for n in [1, 7, 1000] {
            assert_eq!(ids(&*store, prefix, n), expected, "{prefix:?} by {n}");
        }
        assert!(store.ids_with_prefix(prefix, None, 0).unwrap().is_empty());
    }
    // The id to continue after need not exist, nor begin with the prefix.
    let expected: Vec<_> = all.iter().filter(|id| id.starts_with("support:")).collect();
    for after in ["support:u2", "sales:u5:c", "support:u39:c", "t", "zzz"] {
        let rest = store.ids_with_prefix("support:", Some(&after.into()), 1000).unwrap();
        let found: Vec<_> = store.ids(Some(&after.into()), 1000).unwrap();
        let wanted: Vec<_> =
            found.iter().filter(|id| id.as_str().starts_with("support:")).collect();
        assert_eq!(rest.iter().collect::<Vec<_>>(), wanted, "after {after:?} of {expected:?}");
    }
}

/// Slots of many conversations come in the order of the ids and of their names, in pages.
pub fn slots_of_many_conversations_are_paged<F: StoreFixture>(fixture: &F) {
    let store = fixture.store();
    assert!(slots(&*store, "", "", 10).is_empty());
    #[rustfmt::skip]
    let names = [
        "turn:1", "turn:10", "turn:2", "turn:é", "turn:", "turn", "turns", "Turn:1", "a", "turn%",
    ];
    let ids = ["a:1", "a:10", "a:2", "a:3", "a:4", "a:5", "a%1", "A:1", "b:1"];
    for (i, id) in ids.into_iter().enumerate() {
        let memory = store.memory(id.into()).unwrap();
        if i % 2 == 0 {
            append(&*memory, 0..3); // in other rounds, slots are all it has
        }
        for name in names.iter().filter(|name| (name.len() + i) % 3 != 0) {
            memory.set_slot(*name, format!("{id} {name}"), Expected::Absent).unwrap();
        }
    }
    store.memory("a:3".into()).unwrap().clear().unwrap();
    store.delete(&"a:4".into()).unwrap();
    create(&*store, "a:6");
    let all: Vec<(MemoryId, Slot)> = store
        .ids(None, 100)
        .unwrap()
        .into_iter()
        .flat_map(|id| {
            let memory = store.memory(id.clone()).unwrap();
            let names = memory.slots().unwrap().into_iter().map(|(name, _)| name);
            let slot = |name: String| (id.clone(), memory.slot(&name).unwrap().unwrap());
            names.map(slot).collect::<Vec<_>>()
        })
        .collect();
    assert!(all.len() > 30);
    for prefix in ["", "a:", "a:1", "A", "a%", "nobody"] {
        for names in ["", "turn:", "turn:1", "turn%", "é"] {
            let wanted = |it: &&(MemoryId, Slot)| {
                it.0.as_str().starts_with(prefix) && it.1.name().starts_with(names)
            };
            let expected: Vec<_> = all.iter().filter(wanted).cloned().collect();
            for n in [1, 5, 100] {
                let found = slots(&*store, prefix, names, n);
                assert_eq!(found, expected, "{prefix:?} {names:?} by {n}");
            }
            assert!(store.slots_with_prefix(prefix, names, None, 0).unwrap().is_empty());
        }
    }
    // The slot to continue after need not exist, nor match the names.
    let ids = store.ids(None, 100).unwrap();
    for id in ["a:10", "A:1"] {
        let id = MemoryId::from(id);
        for name in ["a", "turn:15", "zzz"] {
            let place = |of: &MemoryId| ids.iter().position(|it| it == of).unwrap();
            let is_after = |it: &&(MemoryId, Slot)| {
                it.0.as_str().starts_with("a:") && (place(&it.0), it.1.name()) > (place(&id), name)
            };
            let expected: Vec<_> = all.iter().filter(is_after).cloned().collect();
            let found = store.slots_with_prefix("a:", "", Some((&id, name)), 100).unwrap();
            assert_eq!(found, expected, "after {name:?} of {id:?}");
        }
    }
    let gone = MemoryId::from("a:4");
    let rest = store.ids(Some(&gone), 100).unwrap();
    let found = store.slots_with_prefix("", "turn:", Some((&gone, "turn:2")), 100).unwrap();
    let behind = |it: &&(MemoryId, Slot)| rest.contains(&it.0) && it.1.name().starts_with("turn:");
    assert_eq!(found, all.iter().filter(behind).cloned().collect::<Vec<_>>());
}

/// Returns every slot with such a name of the conversations with this prefix, in pages of `n`.
#[track_caller]
fn slots(
    store: &dyn ChatMemoryStore,
    prefix: &str,
    names: &str,
    n: usize,
) -> Vec<(MemoryId, Slot)> {
    let mut all: Vec<(MemoryId, Slot)> = Vec::new();
    loop {
        let after = all.last().map(|(id, slot)| (id, slot.name()));
        let page = store.slots_with_prefix(prefix, names, after, n).expect("slots are listed");
        assert!(page.len() <= n && all.len() < 1_000, "the list has no end");
        let is_last = page.len() < n;
        all.extend(page);
        if is_last {
            return all;
        }
    }
}

/// Deleting by a prefix deletes the ids that begin with it and no others, and returns how many
/// there were.
pub fn deleting_by_prefix_forgets_those_and_no_other<F: StoreFixture>(fixture: &F) {
    let store = fixture.store();
    // More than one page, for stores that list and delete in pages.
    for i in 0..300 {
        create(&*store, &format!("a:{i}"));
    }
    let matched = ["%", "_", "a_", "*", "a*", "?", "[a]", "a\\"];
    for id in ["a", "b", "ab", "A:1", "a%", "ä:1", "", " a:1"].into_iter().chain(matched) {
        create(&*store, id);
    }
    store.memory("a:1".into()).unwrap().set_slot("a", "x", Expected::Any).unwrap();
    assert_eq!(store.delete_prefix("nobody").unwrap(), 0);
    assert_eq!(store.delete_prefix("a%").unwrap(), 1);
    // Pattern characters are plain text.
    for pattern in matched {
        assert_eq!(store.delete_prefix(pattern).unwrap(), 1, "{pattern:?}");
    }
    assert_eq!(store.ids_with_prefix("a:", None, 1000).unwrap().len(), 300, "a page has its size");
    assert_eq!(store.delete_prefix("a:").unwrap(), 300);
    assert_eq!(store.delete_prefix("a:").unwrap(), 0);
    let left: HashSet<String> = ids(&*store, "", 100).into_iter().collect();
    assert_eq!(left, ["a", "b", "ab", "A:1", "ä:1", "", " a:1"].map(str::to_owned).into());
    let memory = store.memory("a:1".into()).unwrap();
    holds(&*memory, 0..0);
    assert!(memory.slots().unwrap().is_empty());
    // An empty prefix would match everything, and is more likely a mistake.
    assert_eq!(store.delete_prefix("").unwrap_err().kind(), ErrorKind::Invalid);
    assert_eq!(ids(&*store, "", 100).len(), left.len());
}

/// A store knows where a conversation begins and ends and when it was last active, and whether it
/// exists.
pub fn info_tells_where_a_conversation_stands<F: StoreFixture>(fixture: &F) {
    let store = fixture.store();
    let memory = store.memory(ID.into()).unwrap();
    let tolerance = Duration::from_secs(2);
    assert!(!exists(&*store, ID));
    memory.read(None, 1).unwrap();
    memory.append_with(&mut Append::default()).unwrap();
    assert!(!exists(&*store, ID));
    let before = SystemTime::now() - tolerance;
    append(&*memory, 0..10);
    memory.evict(3).unwrap();
    let told = info(&*store, ID);
    assert_eq!((told.start, told.end), (3, 10));
    assert!(before <= told.active && told.active <= SystemTime::now() + tolerance, "{told:?}");
    assert_eq!(told.incarnation, memory.read(None, 0).unwrap().incarnation);
    assert!(told.incarnation.is_some());
    memory.clear().unwrap();
    assert_eq!((info(&*store, ID).start, info(&*store, ID).end), (10, 10));
    store.memory("system".into()).unwrap().add(Message::system("Be brief.")).unwrap();
    assert_eq!((info(&*store, "system").start, info(&*store, "system").end), (0, 0));
    store.delete(&ID.into()).unwrap();
    assert!(!exists(&*store, ID));
    for id in hostile_ids(fixture).0 {
        create(&*store, &id);
        assert_eq!(info(&*store, &id).end, 1, "{id:?}");
    }
}

/// Appends are activity, including those of slots and system messages; nothing else is.
pub fn appends_are_activity_and_nothing_else_is<F: StoreFixture>(fixture: &F) {
    let store = fixture.store();
    let memory = store.memory(ID.into()).unwrap();
    append(&*memory, 0..5);
    memory.set_slot("a", "x", Expected::Any).unwrap();
    let active = || info(&*store, ID).active;
    let mut last = active();
    let mut check = |what: &str, activity: bool, act: &dyn Fn() -> Result<()>| {
        later();
        act().unwrap();
        let now = active();
        assert_eq!(now > last, activity, "{what}: {last:?} {now:?}");
        last = now;
    };
    check("reading", false, &|| memory.all().map(drop));
    check("reading slots", false, &|| {
        memory.read_with(&Read::newest(1).slots(["a"]).positions([1])).map(drop)
    });
    check("listing slots", false, &|| memory.slots().map(drop));
    check("evicting", false, &|| memory.evict(2).map(drop));
    check("an append of nothing", false, &|| memory.append(&mut Vec::new(), None).map(drop));
    check("an append of an id alone", false, &|| {
        memory.append_with(&mut Append::default().with_id("one")).map(drop)
    });
    check("a conflict", false, &|| {
        memory.append(&mut vec![numbered(0)], Some(99)).unwrap_err();
        memory.set_slot("a", "y", Expected::Absent).unwrap_err();
        Ok(())
    });
    check("an append", true, &|| memory.add(numbered(5)).map(drop));
    check("an append with an id", true, &|| {
        memory.append_with(&mut Append::new([numbered(6)]).with_id("two")).map(drop)
    });
    check("its repetition", false, &|| {
        memory.append_with(&mut Append::new([numbered(6)]).with_id("two")).map(drop)
    });
    check("a system message", true, &|| memory.add(Message::system("Be brief.")).map(drop));
    check("the same system message", true, &|| memory.add(Message::system("Be brief.")).map(drop));
    check("writing a slot", true, &|| memory.set_slot("a", "y", Expected::Any).map(drop));
    check("removing a slot", true, &|| memory.remove_slot("a", Expected::Any));
    check("clearing", false, &|| memory.clear());
    check("deleting another", false, &|| store.delete(&"another".into()).map(drop));
}

/// A slot creates the conversation. Removing one does not, nor does an append that changes nothing.
pub fn a_slot_creates_its_conversation<F: StoreFixture>(fixture: &F) {
    let store = fixture.store();
    let memory = store.memory(ID.into()).unwrap();
    memory.slots().unwrap();
    memory.read_with(&Read::newest(1).slots(["a"]).positions([0])).unwrap();
    memory.remove_slot("a", Expected::Any).unwrap();
    memory.remove_slot("a", Expected::Absent).unwrap();
    memory.append_with(&mut Append::default().with_id("one")).unwrap();
    memory.append_with(&mut Append::closing(0, SystemTime::now())).unwrap();
    memory.set_slot("a", "x", Expected::Is(SlotVersion::random())).unwrap_err();
    memory.append_with(&mut Append::new([numbered(0)]).expecting(3)).unwrap_err();
    assert!(ids(&*store, "", 10).is_empty() && !exists(&*store, ID));
    memory.set_slot("a", "x", Expected::Absent).unwrap();
    assert_eq!(ids(&*store, "", 10), [ID]);
    holds(&*memory, 0..0);
    // A removal with an id creates it too, since the id must be recognised later.
    let other = store.memory("other".into()).unwrap();
    let remove = || Append::default().remove_slot("a", Expected::Any).with_id("one");
    assert!(!other.append_with(&mut remove()).unwrap().repeated);
    assert!(exists(&*store, "other"));
    assert!(other.append_with(&mut remove()).unwrap().repeated);
    assert!(store.delete(&"other".into()).unwrap());
    let then = later();
    memory.remove_slot("a", Expected::Any).unwrap();
    assert_eq!(store.purge_inactive(then).unwrap(), 0, "removing a slot is activity");
    assert_eq!(store.purge_inactive(later()).unwrap(), 1);
}

/// After a delete or a purge, a new beginning has another incarnation, without earlier ids and
/// slots; no version is used again.
pub fn a_new_beginning_knows_nothing_of_before<F: StoreFixture>(fixture: &F) {
    let store = fixture.store();
    let memory = store.memory(ID.into()).unwrap();
    let (mut incarnations, mut versions) = (HashSet::new(), HashSet::new());
    let mut before = None;
    for round in 0..6 {
        let change = Append::new([numbered(0)]).with_id("turn");
        let change = change.set_slot("a", "same", Expected::Absent);
        let appended = memory.append_with(&mut change.expecting(0)).unwrap();
        assert_eq!((appended.positions, appended.repeated), (0..1, false));
        assert_eq!(memory.slots().unwrap().len(), 1, "a slot of before comes back");
        assert!(memory.system().unwrap().is_none(), "a system message of before comes back");
        let mut more = Append::new([Message::system("Be brief.")]);
        more = more.set_slot(format!("of round {round}"), "x", Expected::Absent);
        memory.append_with(&mut more).unwrap();
        assert!(versions.insert(appended.version.unwrap()), "a version is used again");
        let snapshot = memory.read(None, 1).unwrap();
        assert!(incarnations.insert(snapshot.incarnation.unwrap()), "an incarnation is used again");
        if let Some(before) = before.replace(snapshot) {
            let late = Append::new([numbered(1)]).since(&before);
            assert_eq!(refused(&*memory, &late).kind(), ErrorKind::Forgotten);
        }
        match round % 3 {
            0 => assert!(store.delete(&ID.into()).unwrap()),
            1 => assert_eq!(store.purge_inactive(later()).unwrap(), 1),
            _ => assert_eq!(store.delete_prefix(ID).unwrap(), 1),
        }
        assert_eq!(memory.read(None, 1).unwrap().incarnation, None, "there is no conversation");
        assert!(memory.slots().unwrap().is_empty() && memory.slot("a").unwrap().is_none());
        let late = Append::new([numbered(1)]).since(before.as_ref().unwrap());
        assert_eq!(refused(&*memory, &late).kind(), ErrorKind::Forgotten);
        assert!(!exists(&*store, ID), "what failed created nothing");
    }
}

/// A restored conversation continues where it ended, as the same one.
pub fn a_restored_conversation_goes_on<F: StoreFixture>(fixture: &F) {
    let store = fixture.store();
    let incarnation = Incarnation::from_bits(0xfedc_ba98_7654_3210);
    let then = later();
    store.restore(&ID.into(), 40, Some(incarnation)).unwrap();
    let memory = store.memory(ID.into()).unwrap();
    holds(&*memory, 40..40);
    assert_eq!(memory.read(None, 0).unwrap().incarnation, Some(incarnation));
    assert_eq!(info(&*store, ID).incarnation, Some(incarnation));
    assert_eq!(ids(&*store, "", 10), [ID]);
    assert_eq!(store.ids(None, 10).unwrap(), [ID.into()]);
    assert_eq!(store.purge_inactive(then).unwrap(), 0, "it is active by the clock");
    for (start, other) in [(0, None), (40, Some(incarnation)), (50, None)] {
        let error = store.restore(&ID.into(), start, other).unwrap_err();
        assert_eq!(error.kind(), ErrorKind::Exists);
    }
    let mut early = vec![numbered(0)];
    let error = memory.append(&mut early, Some(0)).unwrap_err();
    assert_eq!(error.kind(), ErrorKind::Conflict { expected: 0, actual: 40 });
    assert_eq!(memory.append(&mut (40..42).map(numbered).collect(), Some(40)).unwrap(), 40..42);
    holds(&*memory, 40..42);
    let read = memory.read_with(&Read::newest(0).positions([0, 39, 40, 41])).unwrap();
    assert_eq!(rows(read.picked()).len(), 2);
    assert_eq!(memory.evict(41).unwrap(), 1);
    memory.clear().unwrap();
    assert_eq!(store.restore(&ID.into(), 42, None).unwrap_err().kind(), ErrorKind::Exists);
    store.delete(&ID.into()).unwrap();

    // Without an incarnation it gets a new one. A far position is possible too.
    let far = 1 << 31;
    store.restore(&ID.into(), far, None).unwrap();
    let anew = memory.read(None, 0).unwrap().incarnation;
    assert!(anew.is_some() && anew != Some(incarnation));
    assert_eq!(memory.add(numbered(far)).unwrap(), far);
    holds(&*memory, far..far + 1);
    // A position that is further away is kept exactly, or refused: it must not be cut to fewer
    // bits.
    for far in [(1 << 32) + 5, (1 << 53) + 1, i64::MAX as u64, u64::MAX - 9] {
        store.delete(&ID.into()).unwrap();
        match store.restore(&ID.into(), far, None) {
            Ok(()) => assert_eq!((info(&*store, ID).start, info(&*store, ID).end), (far, far)),
            Err(error) => {
                assert_eq!(error.kind(), ErrorKind::Invalid, "{far}: {error}");
                assert!(!exists(&*store, ID));
            }
        }
    }
    for (i, id) in hostile_ids(fixture).0.iter().enumerate() {
        store.restore(&id.as_str().into(), i as u64, None).unwrap();
        assert_eq!(info(&*store, id).end, i as u64, "{id:?}");
    }
}

/// An import is active by the clock until it is closed; then its activity is the time of its
/// messages.
pub fn an_import_is_active_until_it_is_closed<F: StoreFixture>(fixture: &F) {
    let store = fixture.store();
    let memory = store.memory(ID.into()).unwrap();
    let at = |i: u64| UNIX_EPOCH + Duration::from_millis(1_714_557_600_123 + i * 1000); // May 2024
    let last_year = SystemTime::now() - Duration::from_secs(365 * 24 * 60 * 60);
    let import = |memory: &dyn ChatMemory, range: std::ops::Range<u64>| {
        let append = Append::new(range.clone().map(numbered)).with_times(range.clone().map(at));
        memory.append_with(&mut append.expecting(range.start)).unwrap();
    };
    for batch in 0..3 {
        let then = later();
        import(&*memory, batch * 5..batch * 5 + 5);
        assert_eq!(store.purge_inactive(then).unwrap(), 0, "a purge between two batches");
    }
    // Another writer uses it: it stays active.
    let error = memory.append_with(&mut Append::closing(14, at(14))).unwrap_err();
    assert_eq!(error.kind(), ErrorKind::Conflict { expected: 14, actual: 15 });
    assert_eq!(store.purge_inactive(last_year).unwrap(), 0);
    memory.append_with(&mut Append::closing(15, at(14))).unwrap();
    assert_eq!(info(&*store, ID).active, at(14));
    holds(&*memory, 0..15);
    assert_eq!(store.purge_inactive(at(14)).unwrap(), 0, "not before that time");
    // Continuing it makes it active again.
    let other = store.memory("goes on".into()).unwrap();
    import(&*other, 0..2);
    other.append_with(&mut Append::closing(2, at(1))).unwrap();
    append(&*other, 2..3);
    assert!(info(&*store, "goes on").active > last_year);
    assert_eq!(store.purge_inactive(last_year).unwrap(), 1);
    assert_eq!(ids(&*store, "", 10), ["goes on"]);
    // A closing may have slots and the system message, without becoming activity by the clock.
    let third = store.memory("third".into()).unwrap();
    import(&*third, 0..2);
    let mut closing = Append::closing(2, at(1)).set_slot("a", "x", Expected::Absent);
    closing.messages.push(Message::system("Be brief."));
    third.append_with(&mut closing).unwrap();
    assert_eq!(info(&*store, "third").active, at(1));
    assert!(third.slot("a").unwrap().is_some() && third.system().unwrap().is_some());
}

/// A copy keeps positions, times, slots, the system message, the incarnation, and the time of the
/// last activity.
pub fn a_copy_keeps_everything<F: StoreFixture>(fixture: &F) {
    let other = F::new();
    let (from, to) = (fixture.store(), other.store());
    let at = |i: u64| UNIX_EPOCH + Duration::from_secs(1_714_557_600 + i * 60);
    for c in 0..4u64 {
        let memory = from.memory(format!("copied {c}").into()).unwrap();
        let n = [0, 1, 70, 300][usize::try_from(c).unwrap()];
        let append = Append::new((0..n).map(numbered)).with_times((0..n).map(at));
        let append = append.set_slot("a", c.to_string(), Expected::Any);
        memory.append_with(&mut append.set_slot("b", [0, 255], Expected::Any)).unwrap();
        memory.add(Message::system(format!("Be {c}."))).unwrap();
        memory.evict(n / 3).unwrap();
        memory.append_with(&mut Append::closing(n, at(n))).unwrap();
    }
    create(&*from, "left out");
    create(&*to, "there already");
    let mut told = Vec::new();
    let copied = from
        .copy_to(&*to, |id| id.as_str().starts_with("copied"), |now| told.push(now.clone()))
        .unwrap();
    assert_eq!((copied.conversations, copied.records), (4, 1 + 47 + 200));
    assert_eq!(told.last(), Some(&copied));
    assert!(told.is_sorted_by_key(|now| (now.conversations, now.records)), "{told:?}");
    assert!(told.len() > 4, "progress is told after each batch");
    assert_eq!(ids(&*to, "", 10).len(), 5);
    for c in 0..4 {
        let id = format!("copied {c}");
        let [old, new] = [&from, &to].map(|store| store.memory(id.as_str().into()).unwrap());
        let read = Read::newest(usize::MAX).slots(["a", "b"]);
        let (one, two) = (old.read_with(&read).unwrap(), new.read_with(&read).unwrap());
        assert_eq!(two.records, one.records);
        assert_eq!(times(&two.records), times(&one.records));
        assert_eq!((two.start, two.end), (one.start, one.end));
        assert_eq!((&two.system, two.incarnation), (&one.system, one.incarnation));
        for name in ["a", "b"] {
            let [one, two] = [&one, &two].map(|it| it.slot(name).unwrap().content().to_vec());
            assert_eq!(two, one);
        }
        assert_eq!(info(&*to, &id), info(&*from, &id));
        assert_eq!(new.add(numbered(0)).unwrap(), one.end, "it goes on");
    }
    let again = from.copy_to(&*to, |id| id.as_str() == "copied 1", |_| ());
    assert_eq!(again.unwrap_err().kind(), ErrorKind::Exists);
}
