//! The laws of slots, of single records, and of an append's expectations other than the end.

use std::collections::HashSet;
use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::{Arc, Barrier};
use std::thread;
use std::time::Duration;

use super::Fixture;
use super::model::{self, Model};
use super::support::{
    Done, ID, append, holds, hostile_names, no_names, numbered, numbers, refused, rows, times,
};
use crate::error::ErrorKind;
use crate::memory::{Append, ChatMemory, ChatMemoryExt, Expected, Read};
use crate::message::Message;
use crate::record::{Incarnation, SlotVersion, Snapshot};

/// Returns the slots of these names, in the order of the names.
#[track_caller]
fn read(memory: &dyn ChatMemory, names: &[&str]) -> Vec<(String, Vec<u8>)> {
    let snapshot = memory.read_with(&Read::newest(0).slots(names.iter().copied())).unwrap();
    let slots = snapshot.slots().iter();
    let mut slots: Vec<_> =
        slots.map(|slot| (slot.name().to_owned(), slot.content().to_vec())).collect();
    slots.sort();
    slots
}

fn named(memory: &dyn ChatMemory) -> Vec<String> {
    memory.slots().expect("slots are listed").into_iter().map(|(name, _)| name).collect()
}

/// A slot is written, read, replaced and removed, and none of it takes a position.
pub fn a_slot_is_written_replaced_and_removed<F: Fixture>(fixture: &F) {
    let memory = fixture.memory(ID);
    assert!(memory.limits().has_slots());
    assert!(memory.slots().unwrap().is_empty() && read(&*memory, &["a"]).is_empty());
    append(&*memory, 0..2);
    let mut change = Append::new([numbered(2)]).set_slot("a", "one", Expected::Any);
    let appended = memory.append_with(&mut change).unwrap();
    assert_eq!(appended.positions, 2..3);
    let slot = memory.slot("a").unwrap().unwrap();
    assert_eq!((slot.name(), slot.text()), ("a", Some("one")));
    assert_eq!(Some(slot.version()), appended.version, "the answer tells the version");
    assert_eq!(memory.slots().unwrap(), [("a".to_owned(), slot.version())]);

    // An append of only slots returns an empty range at the end.
    let mut change = Append::default().set_slot("a", "two", Expected::Any);
    assert_eq!(memory.append_with(&mut change).unwrap().positions, 3..3);
    assert_eq!(read(&*memory, &["a"]), [("a".to_owned(), b"two".to_vec())]);
    let removed = memory.append_with(&mut Append::default().remove_slot("a", Expected::Any));
    assert_eq!(removed.unwrap().version, None, "nothing is written");
    assert!(memory.slot("a").unwrap().is_none() && memory.slots().unwrap().is_empty());
    memory.remove_slot("a", Expected::Any).unwrap();
    memory.remove_slot("a", Expected::Absent).unwrap();
    holds(&*memory, 0..3);
}

/// A change is made if the slot is as expected: anything, absent, or of a version.
pub fn a_slot_is_compared_before_it_is_changed<F: Fixture>(fixture: &F) {
    let memory = fixture.memory(ID);
    let conflict = |expected, remove: bool| {
        let before = memory.slot("a").unwrap();
        let result = if remove {
            memory.remove_slot("a", expected)
        } else {
            memory.set_slot("a", "never", expected).map(drop)
        };
        let error = result.unwrap_err();
        assert_eq!(error.kind(), ErrorKind::SlotConflict, "{expected:?}");
        assert_eq!(memory.slot("a").unwrap(), before);
    };
    for remove in [false, true] {
        conflict(Expected::Is(SlotVersion::random()), remove);
    }
    let one = memory.set_slot("a", "one", Expected::Absent).unwrap();
    for remove in [false, true] {
        conflict(Expected::Absent, remove);
        conflict(Expected::Is(SlotVersion::random()), remove);
    }
    let two = memory.set_slot("a", "two", Expected::Is(one)).unwrap();
    conflict(Expected::Is(one), false);
    let other = memory.set_slot("b", "two", Expected::Absent).unwrap();
    conflict(Expected::Is(other), false); // that of another slot
    // Another handle may change what this handle has read already.
    let handle = fixture.memory(ID);
    let two = handle.set_slot("a", "other", Expected::Is(two)).unwrap();
    assert_eq!(memory.slot("a").unwrap().map(|slot| slot.version()), Some(two));
    memory.remove_slot("a", Expected::Is(two)).unwrap();
    assert!(handle.slot("a").unwrap().is_none());
    conflict(Expected::Is(two), true);
    memory.set_slot("a", "three", Expected::Any).unwrap();
    conflict(Expected::Is(two), false);
    assert_eq!(memory.slot("b").unwrap().unwrap().version(), other, "another slot stays");
}

/// An append is made with its slots, its messages and its system message, or not at all.
pub fn an_append_is_done_with_its_slots_or_not_at_all<F: Fixture>(fixture: &F) {
    let memory = fixture.memory(ID);
    append(&*memory, 0..3);
    memory.add(Message::system("Be brief.")).unwrap();
    let kept = memory.set_slot("kept", "kept", Expected::Any).unwrap();
    memory.set_slot("gone", "gone", Expected::Any).unwrap();
    let failing = |change: Append, kind: fn(ErrorKind) -> bool| {
        let batch = [numbered(3), Message::system("Be kind."), numbered(4)];
        let mut change = change.with_id("failing");
        change.messages.extend(batch);
        let error = refused(&*memory, &change);
        assert!(kind(error.kind()), "{error:?}");
        holds(&*memory, 0..3);
        assert_eq!(memory.system().unwrap().as_deref(), Some(&Message::system("Be brief.")));
        assert_eq!(named(&*memory), ["gone", "kept"]);
        assert_eq!(memory.slot("kept").unwrap().map(|slot| slot.version()), Some(kept));
    };
    let change = || {
        Append::default()
            .set_slot("new", "new", Expected::Any)
            .remove_slot("gone", Expected::Any)
            .set_slot("kept", "other", Expected::Any)
    };
    let slot = |kind| kind == ErrorKind::SlotConflict;
    failing(change().set_slot("last", "last", Expected::Is(kept)), slot);
    failing(change().remove_slot("last", Expected::Is(kept)), slot);
    let position = |kind| kind == ErrorKind::Conflict { expected: 2, actual: 3 };
    failing(change().expecting(2), position);
    let mut late = Append::default().set_slot("kept", "x", Expected::Absent);
    late.slots.extend(change().slots.into_iter().take(2));
    failing(late, slot);
    // When it is made, all of it is.
    let mut change = change().expecting(3).with_id("failing");
    change.messages.extend([numbered(3), Message::system("Be kind.")]);
    let appended = memory.append_with(&mut change).unwrap();
    assert_eq!((appended.positions, appended.repeated), (3..4, false));
    assert_eq!(named(&*memory), ["kept", "new"]);
    for name in ["kept", "new"] {
        let version = memory.slot(name).unwrap().map(|slot| slot.version());
        assert_eq!(version, appended.version, "all slots of an append have its version");
    }
    assert_eq!(memory.system().unwrap().as_deref(), Some(&Message::system("Be kind.")));
}

/// A version is never used again: not for the same content, not after the slot was removed or the
/// conversation cleared.
pub fn a_version_is_never_used_again<F: Fixture>(fixture: &F) {
    let memory = fixture.memory(ID);
    let mut seen = HashSet::new();
    let mut write = |name: &str| {
        let version = memory.set_slot(name, "same", Expected::Any).unwrap();
        assert!(seen.insert(version), "{version} is used again");
        assert_eq!(memory.slot(name).unwrap().unwrap().version(), version);
    };
    for round in 0..5 {
        (0..4).for_each(|_| write("a"));
        memory.remove_slot("a", Expected::Any).unwrap();
        write("a");
        memory.remove_slot("a", Expected::Any).unwrap();
        write("b");
        if round % 2 == 0 {
            memory.clear().unwrap();
        }
    }
}

/// Of many writers that expect the same version, one succeeds.
pub fn of_many_writers_of_one_version_one_succeeds<F: Fixture>(fixture: &F) {
    const ROUNDS: u64 = 15;
    let memory = fixture.memory(ID);
    let mut version = memory.set_slot("a", "", Expected::Absent).unwrap();
    for round in 0..ROUNDS {
        let start = Barrier::new(4);
        let writers: Vec<_> = (0..4).map(|_| fixture.memory(ID)).collect();
        let results: Vec<_> = thread::scope(|scope| {
            let write = |memory: Arc<dyn ChatMemory>| {
                let mut change = Append::new([numbered(round)]);
                change = change.set_slot("a", round.to_string(), Expected::Is(version));
                let start = &start;
                scope.spawn(move || {
                    start.wait();
                    (memory.append_with(&mut change), change.messages.len())
                })
            };
            let threads: Vec<_> = writers.into_iter().map(write).collect();
            threads.into_iter().map(|thread| thread.join().unwrap()).collect()
        });
        let mut won = Vec::new();
        for (result, left) in results {
            match result {
                Ok(appended) => won.push(appended.version.unwrap()),
                Err(error) => {
                    assert_eq!((error.kind(), left), (ErrorKind::SlotConflict, 1), "{error}");
                }
            }
        }
        assert_eq!(won.len(), 1, "of 4 writers in round {round}");
        version = won[0];
        assert_eq!(memory.slot("a").unwrap().unwrap().version(), version);
    }
    holds(&*memory, 0..ROUNDS);
}

/// A read returns the slots that it names and no others; missing ones are left out.
pub fn a_read_brings_the_slots_that_it_names<F: Fixture>(fixture: &F) {
    let memory = fixture.memory(ID);
    append(&*memory, 0..20);
    memory.evict(5).unwrap();
    let mut change = Append::default();
    for name in ["a", "b", "c", "ab"] {
        change = change.set_slot(name, name, Expected::Any);
    }
    memory.append_with(&mut change).unwrap();
    let slot = |name: &str| (name.to_owned(), name.as_bytes().to_vec());
    assert_eq!(read(&*memory, &["a"]), [slot("a")]);
    assert_eq!(read(&*memory, &["c", "nobody", "a"]), [slot("a"), slot("c")]);
    assert_eq!(read(&*memory, &["a", "a", "b"]), [slot("a"), slot("b")], "each once");
    assert!(read(&*memory, &[]).is_empty() && read(&*memory, &["nobody", "A", "a "]).is_empty());
    for snapshot in [
        memory.read(None, 10).unwrap(),
        memory.read_with(&Read::newest(10)).unwrap(),
        memory.read_with(&Read::newest(10).positions([7])).unwrap(),
    ] {
        assert!(snapshot.slots().is_empty(), "none was asked for: {:?}", snapshot.slots());
    }
    // The rest of the snapshot is the same as without them.
    for (before, n) in [(None, 3), (Some(9), 3), (Some(0), 5), (None, 0), (None, usize::MAX)] {
        let mut with = Read::newest(n).slots(["a"]);
        with.before = before;
        let (plain, with) = (memory.read(before, n).unwrap(), memory.read_with(&with).unwrap());
        assert_eq!(with.records, plain.records);
        assert_eq!((with.start, with.end), (plain.start, plain.end));
        assert_eq!(with.slots().len(), 1);
    }
}

/// Slots are listed with their versions in the order of their names, without the system message.
pub fn slots_are_listed_with_their_versions<F: Fixture>(fixture: &F) {
    let memory = fixture.memory(ID);
    memory.add(Message::system("Be brief.")).unwrap();
    let mut expected = Vec::new();
    for name in ["b", "a", "é", "B", "a:b", "10", "9", "a b"] {
        let version = memory.set_slot(name, name, Expected::Absent).unwrap();
        expected.push((name.to_owned(), version));
    }
    expected.sort_by(|one, other| one.0.cmp(&other.0));
    assert_eq!(memory.slots().unwrap(), expected);
    expected[0].1 = memory.set_slot(expected[0].0.as_str(), "", Expected::Any).unwrap();
    memory.remove_slot("a:b", Expected::Any).unwrap();
    expected.retain(|(name, _)| name != "a:b");
    assert_eq!(memory.slots().unwrap(), expected);
}

/// `evict` leaves slots, `clear` removes all of them.
pub fn evicting_leaves_slots_and_clearing_removes_them<F: Fixture>(fixture: &F) {
    let memory = fixture.memory(ID);
    append(&*memory, 0..5);
    let one = memory.set_slot("a", "one", Expected::Any).unwrap();
    memory.set_slot("b", "two", Expected::Any).unwrap();
    memory.evict(3).unwrap();
    memory.evict(u64::MAX).unwrap();
    assert_eq!(memory.slot("a").unwrap().map(|slot| slot.version()), Some(one));
    assert_eq!(named(&*memory), ["a", "b"]);
    memory.clear().unwrap();
    assert!(memory.slots().unwrap().is_empty());
    assert!(read(&*memory, &["a", "b"]).is_empty());
    let late = memory.set_slot("a", "late", Expected::Is(one));
    assert_eq!(late.unwrap_err().kind(), ErrorKind::SlotConflict);
    memory.set_slot("a", "anew", Expected::Absent).unwrap();
    holds(&*memory, 5..5);
}

/// Slots and single records are of the same moment as the records of their snapshot.
pub fn slots_and_single_records_are_of_the_moment_of_the_read<F: Fixture>(fixture: &F) {
    const READS: usize = 150;
    let done = [AtomicBool::new(false), AtomicBool::new(false)];
    thread::scope(|scope| {
        scope.spawn(|| {
            let memory = fixture.memory(ID);
            let goes_on = || done.iter().any(|done| !done.load(Ordering::Relaxed));
            for i in (0..100_000u64).take_while(|_| goes_on()) {
                let mut change = Append::new([numbered(i)]);
                if i % 9 == 8 {
                    change = change.remove_slot("end", Expected::Any);
                } else {
                    change = change.set_slot("end", (i + 1).to_string(), Expected::Any);
                }
                memory.append_with(&mut change).unwrap();
                if i % 5 == 4 {
                    memory.evict(i - 3).unwrap();
                }
                // Readers must be able to keep up.
                thread::sleep(Duration::from_micros(20));
            }
        });
        for (n, done) in [0, 5].into_iter().zip(&done) {
            scope.spawn(move || {
                let _done = Done(done);
                let memory = fixture.memory(ID);
                let mut last = 0u64;
                for _ in 0..READS {
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
    });
}

/// Any text is a name, and names that differ in one byte are different slots.
pub fn hostile_names_are_slots_of_their_own<F: Fixture>(fixture: &F) {
    let memory = fixture.memory(ID);
    let names = hostile_names();
    for name in &names {
        memory.set_slot(name.as_str(), name.as_str(), Expected::Absent).unwrap();
    }
    let mut sorted = names.clone();
    sorted.sort();
    assert_eq!(named(&*memory), sorted);
    for name in &names {
        let slot = memory.slot(name.as_str()).unwrap().unwrap();
        assert_eq!((slot.name(), slot.text()), (name.as_str(), Some(name.as_str())));
    }
    for (i, name) in names.iter().enumerate() {
        memory.remove_slot(name.as_str(), Expected::Any).unwrap();
        assert_eq!(memory.slots().unwrap().len(), names.len() - i - 1, "{name:?}");
    }
}

/// A slot holds any bytes, up to the memory's limit.
pub fn a_slot_holds_any_bytes<F: Fixture>(fixture: &F) {
    let memory = fixture.memory(ID);
    let most = memory.limits().slot;
    let large = most.min(1 << 20);
    let contents: Vec<Vec<u8>> = vec![
        Vec::new(),
        vec![0],
        b"\0a\0".to_vec(),
        (0..=255).collect(),
        b"\xff\xfe\xed\xa0\x80".to_vec(),
        b"{\"a\":\"\\u0000\"}".to_vec(),
        b"null".to_vec(),
        "日本語'\"\\;--".into(),
        (0..251u8).cycle().take(large).collect(),
    ];
    for content in contents {
        memory.set_slot("a", content.clone(), Expected::Any).unwrap();
        let slot = memory.slot("a").unwrap().unwrap();
        assert!(slot.content() == content, "{} bytes came back otherwise", content.len());
    }
    if most < usize::MAX {
        let before = memory.slot("a").unwrap();
        let change = Append::new([numbered(0)]).set_slot("a", vec![0; most + 1], Expected::Any);
        assert_eq!(refused(&*memory, &change).kind(), ErrorKind::Invalid);
        assert_eq!(memory.slot("a").unwrap(), before);
    }
}

/// An invalid change is refused, and nothing is changed.
pub fn what_is_no_slot_is_refused<F: Fixture>(fixture: &F) {
    let memory = fixture.memory(ID);
    let names = no_names().into_iter().chain(["system".to_owned()]);
    for name in names {
        for change in [
            Append::new([numbered(0)]).set_slot(name.as_str(), "x", Expected::Any),
            Append::new([numbered(0)]).remove_slot(name.as_str(), Expected::Any),
        ] {
            let change = change.set_slot("fine", "x", Expected::Any);
            assert_eq!(refused(&*memory, &change).kind(), ErrorKind::Invalid, "{name:?}");
        }
        let error = memory.read_with(&Read::newest(1).slots([name.as_str()])).unwrap_err();
        assert_eq!(error.kind(), ErrorKind::Invalid, "{name:?}");
    }
    let twice = Append::new([numbered(0)]).set_slot("a", "x", Expected::Any);
    let twice = twice.remove_slot("a", Expected::Any);
    assert_eq!(refused(&*memory, &twice).kind(), ErrorKind::Invalid);
    holds(&*memory, 0..0);
    assert!(memory.slots().unwrap().is_empty());
    memory.set_slot("x".repeat(256), "", Expected::Absent).unwrap();
}

/// Debug output and errors go into logs, where the contents of slots don't belong.
pub fn debug_output_holds_no_slot<F: Fixture>(fixture: &F) {
    let memory = fixture.memory(ID);
    let mut change = Append::default().set_slot("a", "my secret", Expected::Any);
    assert!(!format!("{change:?}").contains("secret"));
    memory.append_with(&mut change).unwrap();
    let snapshot = memory.read_with(&Read::newest(1).slots(["a"])).unwrap();
    assert!(!format!("{memory:?} {snapshot:?}").contains("secret"));
    let error = memory.set_slot("a", "my secret", Expected::Absent).unwrap_err();
    assert!(!format!("{error} {error:?}").contains("secret"));
}

/// An append may expect that what a snapshot saw was not forgotten.
pub fn an_append_may_expect_what_was_seen<F: Fixture>(fixture: &F) {
    let memory = fixture.memory(ID);
    let too_late = |seen: &Snapshot, why: &str| {
        let end = memory.next_position().unwrap();
        let late = Append::new([numbered(99)]).set_slot("a", "x", Expected::Any).since(seen);
        assert_eq!(refused(&*memory, &late).kind(), ErrorKind::Forgotten, "{why}");
        assert_eq!(memory.next_position().unwrap(), end);
        assert!(memory.slot("a").unwrap().is_none());
    };
    let empty = memory.read(None, 0).unwrap();
    memory.append_with(&mut Append::new([numbered(0)]).since(&empty)).unwrap();
    append(&*memory, 1..4);
    let seen = memory.read(None, 0).unwrap();
    append(&*memory, 4..6);
    memory.append_with(&mut Append::new([numbered(6)]).since(&seen)).unwrap();
    memory.evict(3).unwrap(); // one of those seen is left
    memory.append_with(&mut Append::new([numbered(7)]).since(&seen)).unwrap();
    memory.evict(4).unwrap();
    too_late(&seen, "all that was seen is evicted");
    let seen = memory.read(None, 1).unwrap();
    memory.clear().unwrap();
    too_late(&seen, "it was cleared");
    append(&*memory, 8..9);
    too_late(&seen, "it was cleared and goes on");
    memory.evict(u64::MAX).unwrap();
    let hollow = memory.read(None, 0).unwrap();
    memory.append_with(&mut Append::new([numbered(9)]).since(&hollow)).unwrap();
    memory.clear().unwrap();
    too_late(&hollow, "it was cleared, and held nothing before");
    let other = fixture.memory("another");
    append(&*other, 0..20);
    too_late(&other.read(None, 0).unwrap(), "that is another conversation");
    // If nothing was seen, not even an incarnation, nothing can be forgotten.
    let mut empty = empty;
    empty.incarnation = None;
    memory.append_with(&mut Append::new([numbered(10)]).since(&empty)).unwrap();
    holds(&*memory, 10..11);
}

/// Single records come with the newest: those that exist, oldest first, each once.
pub fn single_records_come_with_the_newest<F: Fixture>(fixture: &F) {
    let memory = fixture.memory(ID);
    let none = memory.read_with(&Read::newest(5).positions([0, 7, u64::MAX])).unwrap();
    assert!(none.picked().is_empty() && none.records.is_empty());
    append(&*memory, 0..30);
    memory.evict(10).unwrap();
    let far = i64::MAX as u64;
    for (n, before, asked, expected) in [
        (5, None, vec![12], vec![12]),
        (0, None, vec![20, 12, 13, 20, 10], vec![10, 12, 13, 20]),
        (5, None, vec![9, 10, 29, 30], vec![10, 29]),
        (5, Some(15), vec![28, 13], vec![13, 28]),
        (usize::MAX, None, vec![11], vec![11]),
        (3, Some(0), vec![0, 3, far, far + 1, u64::MAX], vec![]),
        (3, None, vec![], vec![]),
        (2, None, (0..40).rev().collect(), (10..30).collect()),
    ] {
        let mut read = Read::newest(n).positions(asked.iter().copied());
        read.before = before;
        let snapshot = memory.read_with(&read).unwrap();
        let expected: Vec<(u64, String)> =
            expected.into_iter().map(|i: u64| (i, i.to_string())).collect();
        assert_eq!(rows(snapshot.picked()), expected, "{asked:?}");
        assert!(snapshot.picked_unreadable().is_empty());
        let plain = memory.read(before, n).unwrap();
        assert_eq!(snapshot.records, plain.records, "the newest are what they are without");
        assert_eq!((snapshot.start, snapshot.end), (10, 30));
    }
    let all = memory.read_with(&Read::newest(0).positions(10..30)).unwrap();
    assert_eq!(times(all.picked()), times(&memory.all().unwrap()));
}

/// A snapshot of a conversation that exists names its incarnation. It stays the same until the
/// conversation is cleared (an eviction does not change it), and never comes back.
pub fn an_incarnation_lasts_until_a_clear<F: Fixture>(fixture: &F) {
    let memory = fixture.memory(ID);
    append(&*memory, 0..2);
    let now = || memory.read(None, 1).unwrap().incarnation;
    let seen = now();
    assert!(seen.is_some());
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
    still(seen, "at once");
    append(&*memory, 2..3);
    memory.add(Message::system("Be brief.")).unwrap();
    memory.set_slot("a", "x", Expected::Any).unwrap();
    still(seen, "after appends");
    memory.evict(2).unwrap();
    still(seen, "after an eviction");
    memory.evict(u64::MAX).unwrap();
    still(seen, "after everything was evicted");
    let mut lives = vec![seen];
    for end in 4..7 {
        memory.clear().unwrap();
        let cleared = now();
        assert!(cleared.is_some() && !lives.contains(&cleared), "a clear begins another one");
        still(cleared, "after it was cleared");
        append(&*memory, end - 1..end);
        still(cleared, "after it went on");
        lives.push(cleared);
    }
    let other = fixture.memory("another");
    append(&*other, 0..1);
    let another = other.read(None, 1).unwrap().incarnation;
    assert!(!lives.contains(&another), "another conversation has its own");
}

/// Any list of operations gives the same result as a model: slots are a map, ids a list, and single
/// records come from the list.
pub fn any_list_of_changes_gives_what_a_map_gives<F: Fixture>(fixture: &F) {
    let law = "any_list_of_changes_gives_what_a_map_gives";
    model::try_operations(law, fixture, model::change(), Model::compare_all);
}
