//! The laws of slots, of single records, and of an append's expectations other than the end.

use std::collections::HashSet;

use super::model::{self, Model};
use super::prelude::*;

/// Returns the slots of these names, in the order of the names.
#[track_caller]
fn read(memory: &dyn ChatMemory, names: &[&str]) -> Vec<(String, Vec<u8>)> {
    let snapshot = memory.read_with(&Read::newest(0).slots(names.iter().copied())).unwrap();
    let pair = |slot: &Slot| (slot.name().to_owned(), slot.content().to_vec());
    let mut slots: Vec<_> = snapshot.slots().iter().map(pair).collect();
    slots.sort();
    slots
}

/// A slot is written, read, replaced and removed, and none of it takes a position.
pub fn a_slot_is_written_replaced_and_removed<F: Fixture>(fixture: &F) {
    let memory = fixture.memory(ID);
    assert!(memory.limits().has_slots() && read(&*memory, &["a"]).is_empty());
    memory.lists(&[]).says(0..2);
    let appended = memory.done(appending(2..3).set_slot("a", "one", Any));
    assert_eq!(appended.positions, 2..3);
    let version = appended.version.expect("the answer should have the version");
    assert_eq!(memory.slot("a").unwrap(), Some(Slot::new("a", version, "one")));
    assert_eq!(memory.slots().unwrap(), [("a".to_owned(), version)]);

    // An append of only slots returns an empty range at the end.
    memory.appends(setting("a", "two"), 3..3);
    assert_eq!(read(&*memory, &["a"]), [("a".to_owned(), b"two".to_vec())]);
    assert_eq!(memory.done(removing("a")).version, None, "nothing is written");
    assert!(memory.slot("a").unwrap().is_none());
    memory.lists(&[]).removes("a").remove_slot("a", Absent).unwrap();
    memory.holds(0..3);
}

/// A change is made if the slot is as expected: anything, absent, or of a version.
pub fn a_slot_is_compared_before_it_is_changed<F: Fixture>(fixture: &F) {
    let memory = fixture.memory(ID);
    let conflict = |expected| {
        let before = memory.slot("a").unwrap();
        let change = Append::default();
        let set = change.clone().set_slot("a", "never", expected);
        for change in [set, change.remove_slot("a", expected)] {
            memory.refuses(&change, ErrorKind::SlotConflict);
            assert_eq!(memory.slot("a").unwrap(), before);
        }
    };
    conflict(Is(SlotVersion::random()));
    let one = memory.set_slot("a", "one", Absent).unwrap();
    conflict(Absent);
    conflict(Is(SlotVersion::random()));
    let two = memory.set_slot("a", "two", Is(one)).unwrap();
    conflict(Is(one));
    let other = memory.set_slot("b", "two", Absent).unwrap();
    conflict(Is(other)); // that of another slot
    // Another handle may change what this handle has read already.
    let handle = fixture.memory(ID);
    let two = handle.set_slot("a", "other", Is(two)).unwrap();
    assert_eq!(memory.version("a"), Some(two));
    memory.remove_slot("a", Is(two)).unwrap();
    assert!(handle.slot("a").unwrap().is_none());
    conflict(Is(two));
    memory.writes("a", "three");
    conflict(Is(two));
    assert_eq!(memory.version("b"), Some(other), "another slot stays");
}

/// An append is made with its slots, its messages and its system message, or not at all.
pub fn an_append_is_done_with_its_slots_or_not_at_all<F: Fixture>(fixture: &F) {
    let memory = instructed(fixture, 0..3);
    let kept = memory.writes("kept", "kept");
    memory.writes("gone", "gone");
    let failing = |change: Append, kind| {
        let mut change = change.with_id("failing");
        change.messages.extend([numbered(3), Message::system("Be kind."), numbered(4)]);
        memory.refuses(&change, kind).lists(&["gone", "kept"]);
        memory.holds_under(Some("Be brief."), 0..3);
        assert_eq!(memory.version("kept"), Some(kept));
    };
    let first = |it: Append| it.set_slot("new", "new", Any).remove_slot("gone", Any);
    let change = || first(Append::default()).set_slot("kept", "other", Any);
    failing(change().set_slot("last", "last", Is(kept)), ErrorKind::SlotConflict);
    failing(change().remove_slot("last", Is(kept)), ErrorKind::SlotConflict);
    failing(change().expecting(2), ErrorKind::Conflict { expected: 2, actual: 3 });
    let late = first(Append::default().set_slot("kept", "x", Absent));
    failing(late, ErrorKind::SlotConflict);
    // When it is made, all of it is.
    let mut change = change().expecting(3).with_id("failing");
    change.messages.extend([numbered(3), Message::system("Be kind.")]);
    let appended = memory.done(change);
    assert_eq!((appended.positions, appended.repeated), (3..4, false));
    memory.lists(&["kept", "new"]).holds_under(Some("Be kind."), 0..4);
    let versions = ["kept", "new"].map(|name| memory.version(name));
    assert_eq!(versions, [appended.version; 2], "all slots of an append have its version");
}

/// A version is never used again: not for the same content, not after the slot was removed or the
/// conversation cleared.
pub fn a_version_is_never_used_again<F: Fixture>(fixture: &F) {
    let memory = fixture.memory(ID);
    let mut seen = HashSet::new();
    let mut write = |name: &str| {
        let version = memory.writes(name, "same");
        assert!(seen.insert(version), "{version} is used again");
        assert_eq!(memory.version(name), Some(version));
    };
    for round in 0..5 {
        (0..4).for_each(|_| write("a"));
        memory.removes("a");
        write("a");
        memory.removes("a");
        write("b");
        if round % 2 == 0 {
            memory.clears();
        }
    }
}

/// Of many writers that expect the same version, one succeeds.
pub fn of_many_writers_of_one_version_one_succeeds<F: Fixture>(fixture: &F) {
    const ROUNDS: u64 = 15;
    let memory = fixture.memory(ID);
    let mut expected = memory.set_slot("a", "", Absent).unwrap();
    for round in 0..ROUNDS {
        let change = appending(round..round + 1).set_slot("a", round.to_string(), Is(expected));
        let write = |memory: &dyn ChatMemory, _| {
            let mut change = change.clone();
            let appended = memory.append_with(&mut change);
            let Err(error) = appended else { return appended.unwrap().version };
            assert_eq!((error.kind(), change.messages.len()), (ErrorKind::SlotConflict, 1));
            None
        };
        let won: Vec<_> = at_once(fixture, 4, write).into_iter().flatten().collect();
        assert_eq!(won.len(), 1, "of 4 writers in round {round}");
        expected = won[0];
        assert_eq!(memory.version("a"), Some(expected));
    }
    memory.holds(0..ROUNDS);
}

/// A read returns the slots that it names and no others; missing ones are left out.
pub fn a_read_brings_the_slots_that_it_names<F: Fixture>(fixture: &F) {
    let memory = holding(fixture, 5..20);
    let set = |change: Append, name| change.set_slot(name, name, Any);
    memory.done(["a", "b", "c", "ab"].into_iter().fold(Append::default(), set));
    let slot = |name: &str| (name.to_owned(), name.as_bytes().to_vec());
    assert_eq!(read(&*memory, &["a"]), [slot("a")]);
    assert_eq!(read(&*memory, &["c", "nobody", "a"]), [slot("a"), slot("c")]);
    assert_eq!(read(&*memory, &["a", "a", "b"]), [slot("a"), slot("b")], "each once");
    assert!(read(&*memory, &["nobody", "A", "a "]).is_empty());
    for read in [Read::newest(0), Read::newest(10), Read::newest(10).positions([7])] {
        let snapshot = memory.read_with(&read).unwrap();
        assert!(snapshot.slots().is_empty(), "none was asked for: {:?}", snapshot.slots());
    }
    // The rest of the snapshot is the same as without them.
    for (before, n) in [(None, 3), (Some(9), 3), (Some(0), 5), (None, 0), (None, usize::MAX)] {
        let read = Read { before, ..Read::newest(n).slots(["a"]) };
        let (plain, with) = (memory.read(before, n).unwrap(), memory.read_with(&read).unwrap());
        alike(&with, &plain);
        assert_eq!((plain.slots().len(), with.slots().len()), (0, 1));
    }
}

/// Slots are listed with their versions in the order of their names, without the system message.
pub fn slots_are_listed_with_their_versions<F: Fixture>(fixture: &F) {
    let memory = instructed(fixture, 0..0);
    let set = |name: &str| (name.to_owned(), memory.set_slot(name, name, Absent).unwrap());
    let mut expected = ["b", "a", "é", "B", "a:b", "10", "9", "a b"].map(set).to_vec();
    expected.sort_by(|one, other| one.0.cmp(&other.0));
    assert_eq!(memory.slots().unwrap(), expected);
    expected[0].1 = memory.writes(&expected[0].0, "");
    memory.removes("a:b");
    expected.retain(|(name, _)| name != "a:b");
    assert_eq!(memory.slots().unwrap(), expected);
}

/// `evict` leaves slots, `clear` removes all of them.
pub fn evicting_leaves_slots_and_clearing_removes_them<F: Fixture>(fixture: &F) {
    let memory = holding(fixture, 0..5);
    let one = memory.writes("a", "one");
    memory.writes("b", "two");
    memory.evicts(3, 3).evicts(u64::MAX, 2).lists(&["a", "b"]);
    assert_eq!(memory.version("a"), Some(one));
    memory.clears().lists(&[]);
    assert!(read(&*memory, &["a", "b"]).is_empty());
    let late = Append::default().set_slot("a", "late", Is(one));
    memory.refuses(&late, ErrorKind::SlotConflict).set_slot("a", "anew", Absent).unwrap();
    memory.holds(5..5);
}

/// Slots and single records are of the same moment as the records of their snapshot.
pub fn slots_and_single_records_are_of_the_moment_of_the_read<F: Fixture>(fixture: &F) {
    let write = |memory: &dyn ChatMemory, i: u64| {
        let change = appending(i..i + 1);
        memory.done(match (i + 1) % 9 {
            0 => change.remove_slot("end", Any),
            _ => change.set_slot("end", (i + 1).to_string(), Any),
        });
        if i % 5 == 4 {
            memory.evict(i - 3).unwrap();
        }
    };
    while_one_writes(fixture, write, &[0, 5], |memory, n| {
        let mut last = 0u64;
        for _ in 0..150 {
            let asked = last.saturating_sub(20)..last + 50;
            let read = Read::newest(n).slots(["end"]).positions(asked.clone());
            let snapshot = memory.read_with(&read).unwrap();
            let Snapshot { start, end, .. } = snapshot;
            let slot = snapshot.slot("end").map(|slot| slot.text().unwrap().to_owned());
            let expected = (!end.is_multiple_of(9)).then(|| end.to_string());
            assert_eq!(slot, expected, "the slot is of another moment");
            let held = start.max(asked.start)..end.min(asked.end);
            assert_eq!(rows(snapshot.picked()), numbers(held));
            last = end;
        }
    });
}

/// Any text is a name, and names that differ in one byte are different slots.
pub fn hostile_names_are_slots_of_their_own<F: Fixture>(fixture: &F) {
    let memory = fixture.memory(ID);
    let names = hostile_names();
    let names: Vec<_> = names.iter().map(String::as_str).collect();
    for name in &names {
        memory.set_slot(*name, *name, Absent).unwrap();
    }
    memory.lists(&names);
    for (i, name) in names.iter().enumerate() {
        let slot = memory.slot(*name).unwrap().unwrap();
        assert_eq!((slot.name(), slot.text()), (*name, Some(*name)));
        memory.removes(name).lists(&names[i + 1..]);
    }
}

/// A slot holds any bytes, up to a MiB of them; more than the memory's limit are refused.
pub fn a_slot_holds_any_bytes<F: Fixture>(fixture: &F) {
    let memory = fixture.memory(ID);
    let most = memory.limits().slot;
    let each: Vec<u8> = (0..=255).collect();
    let large: Vec<u8> = (0..251).cycle().take(most.min(1 << 20)).collect();
    #[rustfmt::skip]
    let contents: [&[u8]; 9] = [
        b"", b"\0", b"\0a\0", &each, b"\xff\xfe\xed\xa0\x80", b"{\"a\":\"\\u0000\"}", b"null",
        "日本語'\"\\;--".as_bytes(), &large,
    ];
    for content in contents {
        memory.set_slot("a", content, Any).unwrap();
        let slot = memory.slot("a").unwrap().unwrap();
        assert!(slot.content() == content, "{} bytes came back otherwise", content.len());
    }
    if most <= 1 << 28 {
        let before = memory.slot("a").unwrap();
        let change = appending(0..1).set_slot("a", vec![0; most + 1], Any);
        memory.refuses(&change, ErrorKind::Invalid);
        assert_eq!(memory.slot("a").unwrap(), before);
    }
}

/// An invalid change is refused, and nothing is changed.
pub fn what_is_no_slot_is_refused<F: Fixture>(fixture: &F) {
    let memory = fixture.memory(ID);
    for name in invalid_names().into_iter().chain(["system".to_owned()]) {
        let fine = || appending(0..1).set_slot("fine", "x", Any);
        for change in [fine().set_slot(&name, "x", Any), fine().remove_slot(&name, Any)] {
            assert_eq!(memory.refused(&change).kind(), ErrorKind::Invalid, "{name:?}");
        }
        let error = memory.read_with(&Read::newest(1).slots([&name])).unwrap_err();
        assert_eq!(error.kind(), ErrorKind::Invalid, "{name:?}");
    }
    let twice = appending(0..1).set_slot("a", "x", Any).remove_slot("a", Any);
    memory.refuses(&twice, ErrorKind::Invalid).holds(0..0).lists(&[]);
    memory.set_slot("x".repeat(256), "", Absent).unwrap();
}

/// Debug output and errors go into logs, where the contents of slots don't belong.
pub fn debug_output_holds_no_slot<F: Fixture>(fixture: &F) {
    let memory = fixture.memory(ID);
    let change = setting("a", "my secret");
    let shown = format!("{change:?}");
    memory.done(change);
    let snapshot = memory.read_with(&Read::newest(1).slots(["a"])).unwrap();
    let error = memory.set_slot("a", "my secret", Absent).unwrap_err();
    assert!(!format!("{shown} {memory:?} {snapshot:?} {error} {error:?}").contains("secret"));
}

/// An append may expect that what a snapshot saw was not forgotten.
pub fn an_append_may_expect_what_was_seen<F: Fixture>(fixture: &F) {
    let memory = fixture.memory(ID);
    let after = |seen: &Snapshot, i| memory.appends(appending(i..i + 1).since(seen), i..i + 1);
    let too_late = |seen: &Snapshot, why| {
        let end = memory.next_position().unwrap();
        let late = appending(99..100).set_slot("a", "x", Any).since(seen);
        assert_eq!(memory.refused(&late).kind(), ErrorKind::Forgotten, "{why}");
        assert_eq!(memory.next_position().unwrap(), end);
        assert!(memory.slot("a").unwrap().is_none());
    };
    let mut empty = memory.read(None, 0).unwrap();
    let seen = after(&empty, 0).says(1..4).read(None, 0).unwrap();
    memory.says(4..6);
    after(&seen, 6).evicts(3, 3); // one of those seen is left
    after(&seen, 7).evicts(4, 1);
    too_late(&seen, "all that was seen is evicted");
    let seen = memory.read(None, 1).unwrap();
    memory.clears();
    too_late(&seen, "it was cleared");
    memory.says(8..9);
    too_late(&seen, "it was cleared and goes on");
    let hollow = memory.evicts(u64::MAX, 1).read(None, 0).unwrap();
    after(&hollow, 9).clears();
    too_late(&hollow, "it was cleared, and held nothing before");
    let other = fixture.memory("another").says(0..20).read(None, 0).unwrap();
    too_late(&other, "that is another conversation");
    // If nothing was seen, not even an incarnation, nothing can be forgotten.
    empty.incarnation = None;
    after(&empty, 10).holds(10..11);
}

/// Single records come with the newest: those that exist, oldest first, each once.
pub fn single_records_come_with_the_newest<F: Fixture>(fixture: &F) {
    let memory = fixture.memory(ID);
    let none = memory.read_with(&Read::newest(5).positions([0, 7, u64::MAX])).unwrap();
    assert!(none.picked().is_empty() && none.records.is_empty());
    let memory = holding(fixture, 10..30);
    for (n, before, asked, expected) in [
        (5, None, vec![12], vec![12]),
        (0, None, vec![20, 12, 13, 20, 10], vec![10, 12, 13, 20]),
        (5, None, vec![9, 10, 29, 30], vec![10, 29]),
        (5, Some(15), vec![28, 13], vec![13, 28]),
        (usize::MAX, None, vec![11], vec![11]),
        (3, Some(0), vec![0, 3, FAR, FAR + 1, u64::MAX], vec![]),
        (3, None, vec![], vec![]),
        (2, None, (0..40).rev().collect(), (10..30).collect()),
    ] {
        let read = Read { before, ..Read::newest(n).positions(asked) };
        let snapshot = memory.read_with(&read).unwrap();
        assert_eq!(rows(snapshot.picked()), numbers(expected), "{read:?}");
        assert!(snapshot.picked_unreadable().is_empty());
        alike(&snapshot, &memory.read(before, n).unwrap());
        assert_eq!((snapshot.start, snapshot.end), (10, 30));
    }
    let all = memory.read_with(&Read::newest(0).positions(10..30)).unwrap();
    assert_eq!(times(all.picked()), times(&memory.all().unwrap()));
}

/// A snapshot of a conversation that exists names its incarnation. It stays the same until the
/// conversation is cleared (an eviction does not change it), and never comes back.
pub fn an_incarnation_lasts_until_a_clear<F: Fixture>(fixture: &F) {
    let memory = holding(fixture, 0..2);
    let still = |seen: Option<Incarnation>, when: &str| {
        for snapshot in [
            memory.read(None, 0).unwrap(),
            memory.read(Some(1), 5).unwrap(),
            memory.read_with(&Read::newest(1).slots(["a"]).positions([0])).unwrap(),
            fixture.memory(ID).read(None, 1).unwrap(),
        ] {
            assert_eq!(snapshot.incarnation, seen, "{when}");
        }
    };
    let mut lives = Vec::new();
    for next in [2, 5, 8, 11] {
        let life = memory.whole().incarnation;
        assert!(life.is_some() && !lives.contains(&life), "a clear begins another one");
        still(life, "at once");
        memory.says(next..next + 2).instructs("Be brief.").writes("a", "x");
        still(life, "after appends");
        memory.evict(next + 1).unwrap();
        still(life, "after an eviction");
        memory.evicts(u64::MAX, 1);
        still(life, "after everything was evicted");
        memory.says(next + 2..next + 3);
        still(life, "after it went on");
        lives.push(life);
        memory.clears();
    }
    let another = fixture.memory("another").says(0..1).whole().incarnation;
    assert!(!lives.contains(&another), "another conversation has its own");
}

/// Any list of operations gives the same result as a model: slots are a map, ids a list, and single
/// records come from the list.
pub fn any_list_of_changes_gives_what_a_map_gives<F: Fixture>(fixture: &F) {
    let law = "any_list_of_changes_gives_what_a_map_gives";
    model::try_operations(law, fixture, model::change(), Model::compare_all);
}
