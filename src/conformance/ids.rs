//! The laws of appends with an id.

use std::sync::{Barrier, Mutex};
use std::thread;

use super::Fixture;
use super::support::{ID, append, holds, hostile_names, no_names, numbered, refused, rows, times};
use crate::error::ErrorKind;
use crate::memory::{Append, Appended, ChatMemory, ChatMemoryExt, Expected};
use crate::message::Message;
use crate::record::{Incarnation, SlotVersion};

#[track_caller]
fn append_as(memory: &dyn ChatMemory, id: &str, numbers: std::ops::Range<u64>) -> Appended {
    let mut append = Append::new(numbers.map(numbered)).with_id(id);
    let appended = memory.append_with(&mut append).expect("an append succeeds");
    assert!(append.messages.is_empty(), "the messages are taken");
    assert!(appended.recognised, "the answer says that ids are recognised");
    appended
}

/// An append with the same id again changes nothing, takes the messages, and returns the positions
/// of the first append, even if its expectations no longer hold or its messages are different.
pub fn the_same_id_again_changes_nothing<F: Fixture>(fixture: &F) {
    let memory = fixture.memory(ID);
    append(&*memory, 0..2);
    let first = append_as(&*memory, "one", 2..5);
    assert_eq!((first.positions.clone(), first.repeated), (2..5, false));
    append(&*memory, 5..7);
    let before = memory.read(None, usize::MAX).unwrap();
    let mut other = before.clone();
    other.incarnation = Some(Incarnation::random());

    for again in [
        Append::new((2..5).map(numbered)),
        Append::new([numbered(100)]),
        Append::new([numbered(100), Message::system("Be brief.")]),
        Append::default(),
        Append::new((2..5).map(numbered)).expecting(2),
        Append::new((2..5).map(numbered)).since(&other),
        Append::new([numbered(100)]).set_slot("a", "late", Expected::Any),
        Append::new([numbered(100)]).remove_slot("a", Expected::Is(SlotVersion::random())),
    ] {
        let mut again = again.with_id("one");
        let appended = memory.append_with(&mut again).unwrap();
        assert!(appended.repeated && appended.recognised, "{appended:?}");
        assert_eq!(appended.positions, 2..5);
        assert!(again.messages.is_empty(), "the messages are taken");
        holds(&*memory, 0..7);
    }
    let after = memory.read(None, usize::MAX).unwrap();
    assert_eq!(times(&after.records), times(&before.records));
    assert!(after.system.is_none());
    // Also through another handle.
    assert!(append_as(&*fixture.memory(ID), "one", 2..5).repeated);
}

/// Without an id, or with another one, equal messages are appended again.
pub fn equal_messages_are_no_repetition<F: Fixture>(fixture: &F) {
    let memory = fixture.memory(ID);
    for (i, id) in [Some("a"), None, Some("b"), None, Some("c")].into_iter().enumerate() {
        let mut append = Append::new([Message::user("again")]);
        append.id = id.map(str::to_owned);
        let appended = memory.append_with(&mut append).unwrap();
        let i = i as u64;
        assert_eq!((appended.positions, appended.repeated), (i..i + 1, false));
        assert!(appended.recognised);
    }
    assert_eq!(memory.next_position().unwrap(), 5);
}

/// At least the newest 64 ids of a conversation are recognised, even if appends without an id come
/// in between.
pub fn the_newest_64_ids_are_recognised<F: Fixture>(fixture: &F) {
    let memory = fixture.memory(ID);
    assert!(memory.limits().ids >= 64);
    let mut firsts = Vec::new();
    for i in 0..100u64 {
        let first = append_as(&*memory, &format!("turn {i}"), i..i + 1);
        firsts.push(first.positions.clone());
        // Repetitions are not new ids.
        assert!(append_as(&*memory, &format!("turn {i}"), i..i + 1).repeated);
        memory.append_with(&mut Append::new([Message::user("plain")])).unwrap();
    }
    for i in (36..100).rev() {
        let again = append_as(&*memory, &format!("turn {i}"), 0..1);
        assert!(again.repeated, "the id {i} of 100");
        assert_eq!(again.positions, firsts[i]);
    }
    assert_eq!(memory.next_position().unwrap(), 200);
}

/// An id is recognised after any eviction or clear.
pub fn an_id_is_recognised_after_evict_and_clear<F: Fixture>(fixture: &F) {
    let memory = fixture.memory(ID);
    for i in 0..64 {
        append_as(&*memory, &format!("turn {i}"), i..i + 1);
    }
    let all_known = |when: &str| {
        for i in 0..64 {
            let again = append_as(&*memory, &format!("turn {i}"), 0..1);
            assert!(again.repeated, "the id {i} {when}");
            assert_eq!(again.positions, i..i + 1);
        }
    };
    memory.evict(40).unwrap();
    all_known("after an eviction");
    memory.evict(u64::MAX).unwrap();
    all_known("after everything was evicted");
    memory.clear().unwrap();
    all_known("after it was cleared");
    holds(&*memory, 64..64);
}

/// The id of a failed append is not recognised, so the append can be retried.
pub fn the_id_of_a_failed_append_is_new<F: Fixture>(fixture: &F) {
    let memory = fixture.memory(ID);
    append(&*memory, 0..3);
    let one = Append::new([numbered(3)]).with_id("one").expecting(1);
    let conflict = ErrorKind::Conflict { expected: 1, actual: 3 };
    assert_eq!(refused(&*memory, &one).kind(), conflict);
    let unknown = Expected::Is(SlotVersion::random());
    let two = Append::new([numbered(3)]).with_id("two").remove_slot("a", unknown);
    assert_eq!(refused(&*memory, &two).kind(), ErrorKind::SlotConflict);
    holds(&*memory, 0..3);
    let appended = memory.append_with(&mut one.expecting(3)).unwrap();
    assert_eq!((appended.positions, appended.repeated), (3..4, false));
    assert!(!append_as(&*memory, "two", 4..5).repeated);
}

/// The id of an empty append is not recorded.
pub fn an_append_of_nothing_is_not_remembered<F: Fixture>(fixture: &F) {
    let memory = fixture.memory(ID);
    // First without a conversation, then with one.
    for (id, end) in [("one", 0), ("two", 1)] {
        for _ in 0..2 {
            let nothing = memory.append_with(&mut Append::default().with_id(id)).unwrap();
            assert_eq!((nothing.positions, nothing.repeated), (end..end, false));
        }
        assert!(!append_as(&*memory, id, end..end + 1).repeated);
        assert!(append_as(&*memory, id, end..end + 1).repeated);
    }
}

/// The id of an append with only a system message or a slot is recorded: if it were made again, it
/// would undo later changes.
pub fn a_repetition_undoes_nothing<F: Fixture>(fixture: &F) {
    let memory = fixture.memory(ID);
    let system = || Append::new([Message::system("Be brief.")]).with_id("system");
    assert_eq!(memory.append_with(&mut system()).unwrap().positions, 0..0);
    memory.add(Message::system("Be kind.")).unwrap();
    assert!(memory.append_with(&mut system()).unwrap().repeated);
    assert_eq!(memory.system().unwrap().as_deref(), Some(&Message::system("Be kind.")));

    let slot = || Append::default().set_slot("a", "old", Expected::Any).with_id("slot");
    let first = memory.append_with(&mut slot()).unwrap();
    let newer = memory.set_slot("a", "new", Expected::Any).unwrap();
    let again = memory.append_with(&mut slot()).unwrap();
    assert!(again.repeated);
    assert_eq!(again.version, first.version, "the version that the first append wrote");
    let found = memory.slot("a").unwrap().unwrap();
    assert_eq!((found.text(), found.version()), (Some("new"), newer));

    let remove = || Append::default().remove_slot("a", Expected::Any).with_id("remove");
    assert!(!memory.append_with(&mut remove()).unwrap().repeated);
    memory.set_slot("a", "back", Expected::Absent).unwrap();
    assert!(memory.append_with(&mut remove()).unwrap().repeated);
    assert!(memory.slot("a").unwrap().is_some());

    // Even a removal of nothing, without a conversation.
    let memory = fixture.memory("nobody");
    assert!(!memory.append_with(&mut remove()).unwrap().repeated);
    memory.set_slot("a", "late", Expected::Absent).unwrap();
    assert!(memory.append_with(&mut remove()).unwrap().repeated);
    assert!(memory.slot("a").unwrap().is_some());
}

/// An id belongs to one conversation.
pub fn an_id_belongs_to_one_conversation<F: Fixture>(fixture: &F) {
    let (one, two) = (fixture.memory(ID), fixture.memory("another"));
    append(&*two, 0..3);
    assert_eq!(append_as(&*one, "turn", 0..1).positions, 0..1);
    let other = append_as(&*two, "turn", 3..4);
    assert_eq!((other.positions, other.repeated), (3..4, false));
    holds(&*two, 0..4);
}

/// Ids that differ in any one byte are different ids.
pub fn hostile_ids_are_appends_of_their_own<F: Fixture>(fixture: &F) {
    let memory = fixture.memory(ID);
    for names in hostile_names().chunks(60) {
        let mut firsts = Vec::new();
        for name in names {
            let first = append_as(&*memory, name, 0..1);
            assert!(!first.repeated, "{name:?}");
            firsts.push(first.positions);
        }
        for (name, first) in names.iter().zip(firsts) {
            let again = append_as(&*memory, name, 0..1);
            assert!(again.repeated, "{name:?}");
            assert_eq!(again.positions, first);
        }
    }
}

/// A text that can't be an id is refused, and nothing is changed.
pub fn what_is_no_id_is_refused<F: Fixture>(fixture: &F) {
    let memory = fixture.memory(ID);
    for id in no_names() {
        let append = Append::new([numbered(0)]).with_id(id.as_str());
        assert_eq!(refused(&*memory, &append).kind(), ErrorKind::Invalid, "{id:?}");
    }
    holds(&*memory, 0..0);
    append_as(&*memory, &"x".repeat(256), 0..1);
}

/// Of many concurrent appends with one id, one is made, and all return its positions.
pub fn of_many_appends_under_one_id_one_is_done<F: Fixture>(fixture: &F) {
    const ROUNDS: u64 = 20;
    let done = Mutex::new(vec![Vec::new(); 20]);
    let begin = Barrier::new(6);
    thread::scope(|scope| {
        for writer in 0..6u64 {
            let (done, begin) = (&done, &begin);
            let memory = fixture.memory(ID);
            scope.spawn(move || {
                begin.wait();
                for round in 0..ROUNDS {
                    let texts = (0..3).map(|i| Message::user(format!("{round} {i}")));
                    let mut append = Append::new(texts).with_id(format!("turn {round}"));
                    let appended = memory.append_with(&mut append).unwrap();
                    let answer = (appended.positions, appended.repeated);
                    done.lock().unwrap()[usize::try_from(round).unwrap()].push(answer);
                    // An append without an id comes in between, and is not mistaken for a
                    // repetition.
                    memory.add(Message::user(format!("plain {writer}"))).unwrap();
                }
            });
        }
    });
    let memory = fixture.memory(ID);
    for (round, answers) in done.into_inner().unwrap().into_iter().enumerate() {
        assert_eq!(answers.iter().filter(|(_, repeated)| !repeated).count(), 1, "{answers:?}");
        let positions = answers[0].0.clone();
        assert!(answers.iter().all(|answer| answer.0 == positions), "{answers:?}");
        let read = memory.read(Some(positions.end), 3).unwrap().records;
        let expected: Vec<_> = positions.zip((0..3).map(|i| format!("{round} {i}"))).collect();
        assert_eq!(rows(&read), expected);
    }
    assert_eq!(memory.next_position().unwrap(), ROUNDS * 3 + ROUNDS * 6);
}
