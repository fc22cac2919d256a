//! The laws of appends with an id.

use std::ops::Range;

use super::prelude::*;

fn under(id: &str, numbers: Range<u64>) -> Append {
    appending(numbers).with_id(id)
}

/// An append with the same id again changes nothing, takes the messages, and returns the positions
/// of the first append, even if its expectations no longer hold or its messages are different.
pub fn the_same_id_again_changes_nothing<F: Fixture>(fixture: &F) {
    let memory = holding(fixture, 0..2);
    memory.appends(under("one", 2..5), 2..5);
    let before = memory.says(5..7).whole();
    let mut other = before.clone();
    other.incarnation = Some(Incarnation::random());

    for again in [
        appending(2..5),
        appending(100..101),
        Append::new([numbered(100), Message::system("Be brief.")]),
        Append::default(),
        appending(2..5).expecting(2),
        appending(2..5).since(&other),
        appending(100..101).set_slot("a", "late", Any),
        appending(100..101).remove_slot("a", Is(SlotVersion::random())),
    ] {
        memory.repeats(again.with_id("one"), 2..5);
        let after = memory.holds_under(None, 0..7).whole();
        assert_eq!(times(&after.records), times(&before.records));
    }
    // Also through another handle.
    fixture.memory(ID).repeats(under("one", 2..5), 2..5);
}

/// Without an id, or with another one, equal messages are appended again.
pub fn equal_messages_are_no_repetition<F: Fixture>(fixture: &F) {
    let memory = fixture.memory(ID);
    for (i, id) in (0..).zip([Some("a"), None, Some("b"), None, Some("c")]) {
        let mut append = Append::new([Message::user("again")]);
        append.id = id.map(str::to_owned);
        memory.appends(append, i..i + 1);
    }
    assert_eq!(memory.next_position().unwrap(), 5);
}

/// At least the newest 64 ids of a conversation are recognised, even if appends without an id come
/// in between.
pub fn the_newest_64_ids_are_recognised<F: Fixture>(fixture: &F) {
    let memory = fixture.memory(ID);
    assert!(memory.limits().ids >= 64);
    for i in 0..100 {
        let turn = || under(&format!("turn {i}"), i..i + 1);
        memory.appends(turn(), 2 * i..2 * i + 1);
        // Repetitions are not new ids.
        memory.repeats(turn(), 2 * i..2 * i + 1);
        memory.done(Append::new([Message::user("plain")]));
    }
    for i in (36..100).rev() {
        memory.repeats(under(&format!("turn {i}"), 0..1), 2 * i..2 * i + 1);
    }
    assert_eq!(memory.next_position().unwrap(), 200);
}

/// An id is recognised after any eviction or clear.
pub fn an_id_is_recognised_after_evict_and_clear<F: Fixture>(fixture: &F) {
    let memory = fixture.memory(ID);
    let turn = |i, numbers| under(&format!("turn {i}"), numbers);
    for i in 0..64 {
        memory.appends(turn(i, i..i + 1), i..i + 1);
    }
    let all_are_known = |memory: &dyn ChatMemory| {
        for i in 0..64 {
            memory.repeats(turn(i, 0..1), i..i + 1);
        }
    };
    all_are_known(memory.evicts(40, 40));
    all_are_known(memory.evicts(u64::MAX, 24));
    all_are_known(memory.clears());
    memory.holds(64..64);
}

/// The id of a failed append is not recognised, so the append can be retried.
pub fn the_id_of_a_failed_append_is_new<F: Fixture>(fixture: &F) {
    let memory = holding(fixture, 0..3);
    let one = under("one", 3..4).expecting(1);
    memory.refuses(&one, ErrorKind::Conflict { expected: 1, actual: 3 });
    let two = under("two", 3..4).remove_slot("a", Is(SlotVersion::random()));
    memory.refuses(&two, ErrorKind::SlotConflict).holds(0..3);
    memory.appends(one.expecting(3), 3..4);
    memory.appends(under("two", 4..5), 4..5);
}

/// The id of an empty append is not recorded.
pub fn an_append_of_nothing_is_not_remembered<F: Fixture>(fixture: &F) {
    let memory = fixture.memory(ID);
    // First without a conversation, then with one.
    for (id, end) in [("one", 0), ("two", 1)] {
        let nothing = || Append::default().with_id(id);
        memory.appends(nothing(), end..end).appends(nothing(), end..end);
        memory.appends(under(id, end..end + 1), end..end + 1);
        memory.repeats(under(id, end..end + 1), end..end + 1);
    }
}

/// The id of an append with only a system message or a slot is recorded: if it were made again, it
/// would undo later changes.
pub fn a_repetition_undoes_nothing<F: Fixture>(fixture: &F) {
    let memory = fixture.memory(ID);
    let system = || Append::new([Message::system("Be brief.")]).with_id("system");
    memory.appends(system(), 0..0).instructs("Be kind.").repeats(system(), 0..0);
    memory.holds_under(Some("Be kind."), 0..0);

    let slot = || setting("a", "old").with_id("slot");
    let written = memory.done(slot()).version;
    let newer = memory.writes("a", "new");
    let repeated = memory.repeats(slot(), 0..0);
    assert_eq!(repeated.version, written, "the version that the first append wrote");
    assert_eq!(memory.slot("a").unwrap(), Some(Slot::new("a", newer, "new")));

    // Even a removal of nothing, without a conversation.
    for memory in [memory, fixture.memory("nobody")] {
        let remove = || removing("a").with_id("remove");
        memory.appends(remove(), 0..0).set_slot("a", "back", Absent).unwrap();
        memory.repeats(remove(), 0..0);
        memory.lists(&["a"]);
    }
}

/// An id belongs to one conversation.
pub fn an_id_belongs_to_one_conversation<F: Fixture>(fixture: &F) {
    let (one, two) = (fixture.memory(ID), fixture.memory("another"));
    two.says(0..3);
    one.appends(under("turn", 0..1), 0..1);
    two.appends(under("turn", 3..4), 3..4);
    two.holds(0..4);
}

/// Ids that differ in any one byte are different ids.
pub fn hostile_ids_are_appends_of_their_own<F: Fixture>(fixture: &F) {
    let memory = fixture.memory(ID);
    let names: Vec<_> = (0..).zip(hostile_names()).collect();
    for names in names.chunks(60) {
        for (i, name) in names {
            memory.appends(under(name, 0..1), *i..i + 1);
        }
        for (i, name) in names {
            memory.repeats(under(name, 0..1), *i..i + 1);
        }
    }
}

/// A text that can't be an id is refused, and nothing is changed.
pub fn what_is_no_id_is_refused<F: Fixture>(fixture: &F) {
    let memory = fixture.memory(ID);
    for id in invalid_names() {
        assert_eq!(memory.refused(&under(&id, 0..1)).kind(), ErrorKind::Invalid, "{id:?}");
    }
    memory.holds(0..0);
    memory.done(under(&"x".repeat(256), 0..1));
}

/// Of many concurrent appends with one id, one is made, and all return its positions.
pub fn of_many_appends_under_one_id_one_is_done<F: Fixture>(fixture: &F) {
    const ROUNDS: u64 = 20;
    let batch = |round| batch(&format!("{round}"), 3);
    let answers = at_once(fixture, 6, |memory, writer| {
        let append = |round| {
            let append = Append::new(batch(round)).with_id(format!("turn {round}"));
            let appended = memory.done(append);
            // An append without an id comes in between, and is not mistaken for a repetition.
            memory.add(Message::user(format!("plain {writer}"))).unwrap();
            appended
        };
        (0..ROUNDS).map(append).collect::<Vec<_>>()
    });
    let memory = fixture.memory(ID);
    for (i, round) in (0..ROUNDS).enumerate() {
        let answers = answers.iter().map(|of_writer| &of_writer[i]);
        assert_eq!(answers.clone().filter(|it| !it.repeated).count(), 1, "round {round}");
        for answer in answers {
            memory.has_at(answer.positions.clone(), &batch(round));
        }
    }
    assert_eq!(memory.next_position().unwrap(), ROUNDS * 3 + ROUNDS * 6);
}
