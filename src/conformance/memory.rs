//! The laws of one conversation.

use std::sync::Arc;
use std::time::SystemTime;

use serde_json::json;

use super::model::{self, Model};
use super::prelude::*;
use crate::memory::Appended;
use crate::message::{Media, MediaReference, Part, Sha256, Source, SystemMessage};

/// Messages are in the order of their appends.
pub fn order_is_the_order_of_append<F: Fixture>(fixture: &F) {
    let memory = fixture.memory(ID);
    for i in 0..20 {
        memory.says(i..i + 1);
    }
    memory.says(20..50).holds(0..50);
}

/// Positions count from 0 and ascend by one.
pub fn positions_count_from_0_and_ascend_by_one<F: Fixture>(fixture: &F) {
    let memory = fixture.memory(ID);
    assert_eq!([0, 1].map(|i| memory.add(numbered(i)).unwrap()), [0, 1]);
    assert_eq!(memory.add_all((2..7).map(numbered)).unwrap(), 2..7);
    assert_eq!(memory.next_position().unwrap(), 7);
    memory.holds(0..7);
}

/// An append returns the positions of the batch, and takes its messages.
pub fn a_batch_returns_its_positions_and_is_taken<F: Fixture>(fixture: &F) {
    let memory = fixture.memory(ID);
    let mut batch: Vec<Message> = (0..3).map(numbered).collect();
    assert_eq!(memory.append(&mut batch, None).unwrap(), 0..3);
    assert!(batch.is_empty());
    batch.extend([numbered(3), Message::system("Be brief."), numbered(4)]);
    assert_eq!(memory.append(&mut batch, Some(3)).unwrap(), 3..5);
    assert!(batch.is_empty());
    memory.holds(0..5);
}

/// An empty batch returns an empty range at the end.
pub fn an_empty_batch_returns_an_empty_range_at_the_end<F: Fixture>(fixture: &F) {
    let memory = fixture.memory(ID);
    let nothing = |expected| memory.append(&mut Vec::new(), expected);
    assert_eq!([None, Some(0)].map(|end| nothing(end).unwrap()), [0..0, 0..0]);
    memory.says(0..3);
    assert_eq!([None, Some(3)].map(|end| nothing(end).unwrap()), [3..3, 3..3]);
    let conflict = ErrorKind::Conflict { expected: 2, actual: 3 };
    assert_eq!(nothing(Some(2)).unwrap_err().kind(), conflict);
    memory.holds(0..3);
}

/// A batch stays contiguous while other threads append, however large it is, and nothing is lost.
pub fn batches_of_8_writers_stay_contiguous_and_none_is_lost<F: Fixture>(fixture: &F) {
    for (n, size) in [(20, 3), (3, 300)] {
        let begin = fixture.memory(ID).next_position().unwrap();
        at_once(fixture, 8, |memory, writer| {
            for i in 0..n {
                let batch = batch(&format!("{writer} {i}"), size);
                memory.has_at(memory.add_all(batch.clone()).unwrap(), &batch);
            }
        });
        let mut all = rows(&fixture.memory(ID).all().unwrap());
        all.retain(|row| row.0 >= begin);
        let written = (0..8).map(|writer| (writer.to_string(), n));
        assert_eq!(batches(&all, size), written.collect(), "nothing should be lost");
    }
}

/// An append that expects another end is a conflict, and changes nothing.
pub fn an_append_at_another_position_changes_nothing<F: Fixture>(fixture: &F) {
    let memory = fixture.memory(ID);
    let system = Message::system("Be brief.");
    let batches = [vec![numbered(100), system.clone(), numbered(101)], vec![system]];
    for (end, others) in [(0, [1, FAR, u64::MAX]), (3, [0, 2, 4]), (6, [3, 7, u64::MAX])] {
        for (expected, batch) in others.iter().flat_map(|at| batches.iter().map(|it| (*at, it))) {
            let mut left = batch.clone();
            let error = memory.append(&mut left, Some(expected)).unwrap_err();
            assert_eq!(error.kind(), ErrorKind::Conflict { expected, actual: end });
            assert_eq!(left, *batch, "the batch should stay with the caller");
            memory.holds_under(None, 0..end);
        }
        let mut batch = (end..end + 3).map(numbered).collect();
        assert_eq!(memory.append(&mut batch, Some(end)).unwrap(), end..end + 3);
    }
}

/// Of many appends that expect the same end, one succeeds.
pub fn of_many_appends_at_one_position_one_succeeds<F: Fixture>(fixture: &F) {
    const ROUNDS: u64 = 20;
    let wins = |memory: &dyn ChatMemory, writer, round| {
        let mut batch = vec![numbered(writer)];
        let appended = memory.append(&mut batch, Some(round));
        // A writer that lost sees the winner's append now.
        assert!(memory.next_position().unwrap() > round);
        let Err(error) = appended else {
            assert_eq!(appended.unwrap(), round..round + 1);
            return true;
        };
        let ErrorKind::Conflict { expected, actual } = error.kind() else { panic!("{error}") };
        assert!(expected == round && actual > round, "{error}");
        assert_eq!(batch.len(), 1);
        false
    };
    let won = at_once(fixture, 4, |memory, writer| {
        (0..ROUNDS).filter(|round| wins(memory, writer, *round)).count()
    });
    assert_eq!(won.iter().sum::<usize>() as u64, ROUNDS);
    assert_eq!(fixture.memory(ID).next_position().unwrap(), ROUNDS);
}

/// A system message goes to its own slot and gets no position.
pub fn a_system_message_gets_no_position<F: Fixture>(fixture: &F) {
    let memory = fixture.memory(ID);
    memory.holds_under(None, 0..0);
    assert_eq!(memory.add(Message::system("Be brief.")).unwrap(), 0);
    memory.holds_under(Some("Be brief."), 0..0);
    let batch =
        [numbered(0), Message::system("Be kind."), numbered(1), Message::system("Be both.")];
    assert_eq!(memory.add_all(batch).unwrap(), 0..2);
    memory.holds_under(Some("Be both."), 0..2);
    // It comes with every read, for any records.
    assert!(memory.read(Some(0), 5).unwrap().system.is_some());
}

/// The same system message changes nothing; another one replaces it.
pub fn the_same_system_message_changes_nothing_and_another_replaces_it<F: Fixture>(fixture: &F) {
    let memory = holding(fixture, 0..2);
    let system = |text: &str, year: u64| SystemMessage::new(text).with_attribute("year", year);
    let messages = [("brief", 1), ("brief", 1), ("kind", 1), ("brief", 1), ("brief", 2)];
    for message in messages.map(|(text, year)| Message::from(system(text, year))) {
        assert_eq!(memory.add(message.clone()).unwrap(), 2);
        assert_eq!(memory.system().unwrap().as_deref(), Some(&message));
        memory.holds(0..2);
    }
}

/// No eviction touches the system message.
pub fn a_system_message_is_never_evicted<F: Fixture>(fixture: &F) {
    let memory = instructed(fixture, 0..3);
    memory.evicts(2, 2).holds_under(Some("Be brief."), 2..3);
    memory.evicts(u64::MAX, 1).holds_under(Some("Be brief."), 3..3);
}

/// Every operation is allowed on an empty memory.
pub fn an_empty_memory_is_legal_everywhere<F: Fixture>(fixture: &F) {
    let memory = fixture.memory(ID);
    memory.holds(0..0);
    for before in [None, Some(0), Some(1), Some(u64::MAX)] {
        for n in [0, 1, usize::MAX] {
            alike(&memory.read(before, n).unwrap(), &Snapshot::default());
        }
    }
    assert!(memory.pages(10).next().is_none());
    memory.evicts(0, 0).evicts(1, 0).evicts(u64::MAX, 0).clears().clears().holds(0..0);
}

/// `n = 0` returns no records, but the system message and the positions of the conversation.
pub fn n_of_0_returns_no_records<F: Fixture>(fixture: &F) {
    let memory = instructed(fixture, 3..10);
    for before in [None, Some(0), Some(5), Some(u64::MAX)] {
        let snapshot = memory.read(before, 0).unwrap();
        assert!(snapshot.records.is_empty() && snapshot.system.is_some());
        assert_eq!((snapshot.start, snapshot.end), (3, 10));
    }
}

/// `n` larger than the history returns the whole history.
pub fn n_beyond_the_history_returns_what_there_is<F: Fixture>(fixture: &F) {
    let memory = holding(fixture, 0..7);
    let one_more_than_32_bits = (u32::MAX as usize).wrapping_add(1).max(7);
    for n in [7, 8, 1000, i32::MAX as usize, one_more_than_32_bits, usize::MAX / 2, usize::MAX] {
        assert_eq!(memory.latest(n).unwrap().len(), 7, "n = {n}");
    }
}

/// The newest records before a position end right before it.
pub fn reading_before_a_position_ends_there<F: Fixture>(fixture: &F) {
    let memory = holding(fixture, 5..20);
    for before in [0, 1, 4, 5, 6, 10, 19, 20, 21, 1000, FAR, FAR + 1, u64::MAX] {
        for n in [0, 1, 3, 100] {
            let snapshot = memory.read(Some(before), n).unwrap();
            let end = before.clamp(5, 20);
            let start = end.saturating_sub(n as u64).max(5);
            assert_eq!(rows(&snapshot.records), numbers(start..end), "{n} before {before}");
            assert_eq!((snapshot.start, snapshot.end), (5, 20));
        }
    }
}

/// A read is a consistent snapshot: no duplicates and no gaps while others append.
pub fn reads_are_snapshots_while_others_append<F: Fixture>(fixture: &F) {
    let write = |memory: &dyn ChatMemory, i: u64| {
        let mut batch: Vec<_> = (i * 2..i * 2 + 2).map(numbered).collect();
        batch.push(Message::system((i * 2 + 2).to_string()));
        memory.append(&mut batch, None).unwrap();
        if i % 10 == 9 {
            memory.evict((i * 2).saturating_sub(20)).unwrap();
        }
    };
    while_one_writes(fixture, write, &[3, 10, usize::MAX], |memory, n| {
        let mut last = 0;
        for _ in 0..100 {
            let Snapshot { start, end, system, records, .. } = memory.read(None, n).unwrap();
            assert!(end >= last && end.is_multiple_of(2), "a batch is whole: {end}");
            last = end;
            let first = end.saturating_sub(n as u64).max(start);
            assert_eq!(rows(&records), numbers(first..end));
            let expected = (end > 0).then(|| Message::system(end.to_string()));
            assert_eq!(system.as_deref(), expected.as_ref(), "it is of the same moment");
        }
    });
}

/// Paging is by position: concurrent appends neither repeat nor hide records.
pub fn pages_repeat_and_skip_nothing_while_others_append<F: Fixture>(fixture: &F) {
    let memory = holding(fixture, 4..55);
    let mut seen = Vec::new();
    for page in memory.pages(10) {
        let page = page.unwrap();
        assert!(page.len() <= 10);
        seen.splice(0..0, rows(&page));
        memory.says(0..7);
    }
    assert_eq!(seen, numbers(4..55));
}

/// The result of a read never changes, and does not block later appends.
pub fn what_was_read_stays_what_it_was<F: Fixture>(fixture: &F) {
    let memory = instructed(fixture, 0..10);
    let held = memory.read(None, 5).unwrap();
    memory.says(10..20).evicts(12, 12).clears().instructs("Be kind.");
    assert_eq!(rows(&held.records), numbers(5..10));
    assert_eq!(held.system.as_deref(), Some(&Message::system("Be brief.")));
}

/// Evicting forgets every record before a position, and returns how many there were.
pub fn evicting_forgets_what_is_before<F: Fixture>(fixture: &F) {
    let memory = holding(fixture, 0..10);
    for (before, gone, left) in [(0, 0, 0..10), (4, 4, 4..10), (4, 0, 4..10), (2, 0, 4..10)] {
        memory.evicts(before, gone).holds(left);
    }
    memory.says(10..12);
    for (before, gone, left) in [(5, 1, 5..12), (1000, 7, 12..12), (u64::MAX, 0, 12..12)] {
        memory.evicts(before, gone).holds(left);
    }
    // An eviction beyond the end affects only existing records, not later ones.
    memory.says(12..13).holds(12..13);
}

/// Clearing forgets everything, including the system message.
pub fn clearing_forgets_everything<F: Fixture>(fixture: &F) {
    let memory = instructed(fixture, 0..10);
    memory.clears().holds_under(None, 10..10).clears().holds_under(None, 10..10);
    memory.instructs("Be kind.").says(10..12).holds_under(Some("Be kind."), 10..12);
}

/// The time of append is kept to the millisecond.
pub fn times_of_append_are_kept<F: Fixture>(fixture: &F) {
    let memory = fixture.memory(ID);
    let before = SystemTime::now();
    memory.says(0..2);
    let first = times(&memory.all().unwrap());
    for at in &first {
        is_of_now::<F>(*at, before);
    }
    // A time never changes once it was read, even after other operations.
    for round in 0..3 {
        later::<F>();
        for memory in [fixture.memory(ID), Arc::clone(&memory)] {
            let again = times(&memory.read(Some(2), 2).unwrap().records);
            assert_eq!(again, first, "{round}");
        }
        memory.says(2 + round..3 + round).instructs(&round.to_string());
    }
    let all = times(&memory.all().unwrap());
    assert!(all.is_sorted(), "{all:?}");
    assert!(all[4] > all[2], "each append has its own time: {all:?}");
    memory.evicts(3, 3);
    assert_eq!(times(&memory.all().unwrap()), all[3..]);
}

/// An `append_with` of messages alone is like `append`, and a `read_with` without extras is like
/// `read`.
pub fn the_larger_forms_do_what_the_plain_ones_do<F: Fixture>(fixture: &F) {
    let memory = fixture.memory(ID);
    let recognised = memory.limits().recognises_ids();
    let batch = [numbered(0), Message::system("Be brief."), numbered(1)];
    let expected = Appended { recognised, ..Appended::new(0..2) };
    assert_eq!(memory.done(Append::new(batch)), expected);
    let late = appending(2..3).expecting(1);
    memory.refuses(&late, ErrorKind::Conflict { expected: 1, actual: 2 });
    memory.appends(late.expecting(2).with_id("one"), 2..3).appends(Append::default(), 3..3);
    memory.says(3..20).holds(0..20).evicts(4, 4);
    for (before, n) in [(None, 0), (None, 3), (Some(10), 3), (Some(2), 3), (None, usize::MAX)] {
        let read = Read { before, ..Read::newest(n).positions([2, 5, 6, 40]) };
        let (plain, with) = (memory.read(before, n).unwrap(), memory.read_with(&read).unwrap());
        alike(&with, &plain);
        assert_eq!(positions(with.picked()), [5, 6]);
        assert!(plain.picked().is_empty() && plain.slots().is_empty());
    }
}

/// If a memory does not support something, it returns an error that names the method to implement,
/// and changes nothing.
pub fn what_a_memory_does_not_keep_is_an_error<F: Fixture>(fixture: &F) {
    let memory = holding(fixture, 0..2);
    let (limits, seen) = (memory.limits(), memory.read(None, 1).unwrap());
    let slot = Read::newest(1).slots(["a"]);
    if limits.has_slots() {
        memory.lists(&[]).read_with(&slot).unwrap();
        memory.writes("a", "x");
        return;
    }
    let unsupported = |change: Append| {
        let error = memory.refused(&change);
        assert_eq!(error.kind(), ErrorKind::Unsupported, "{error}");
        assert!(error.to_string().contains("append_with"), "{error}");
        memory.holds(0..2);
    };
    unsupported(setting("a", "x"));
    unsupported(removing("a"));
    if !limits.recognises_ids() {
        unsupported(appending(2..3).since(&seen));
    }
    // Times need neither slots nor ids.
    let at = SystemTime::UNIX_EPOCH;
    for change in [Append::closing(2, at), appending(2..3).with_times([at])] {
        if memory.append_with(&mut change.clone()).is_err() {
            unsupported(change);
        }
    }
    if limits.recognises_ids() {
        memory.done(appending(2..3).since(&seen));
        memory.clears().refuses(&appending(2..3).since(&seen), ErrorKind::Forgotten);
    }
    let error = memory.read_with(&slot).unwrap_err();
    assert_eq!(error.kind(), ErrorKind::Unsupported);
    assert!(error.to_string().contains("read_with"), "{error}");
    assert_eq!(memory.slots().unwrap_err().kind(), ErrorKind::Unsupported);
}

/// A conversation may be long.
pub fn one_hundred_thousand_messages<F: Fixture>(fixture: &F) {
    const ALL: u64 = 100_000;
    let memory = fixture.memory(ID);
    for i in (0..ALL).step_by(1000) {
        memory.says(i..i + 1000);
    }
    assert_eq!(rows(&memory.latest(10).unwrap()), numbers(ALL - 10..ALL));
    let middle = memory.read(Some(50_000), 10).unwrap().records;
    assert_eq!(rows(&middle), numbers(49_990..50_000));
    let mut before = ALL;
    for page in memory.pages(10_000) {
        let page = page.unwrap();
        let first = before - page.len() as u64;
        assert!(rows(&page) == numbers(first..before), "the page before {before}");
        before = first;
    }
    assert_eq!(before, 0);
    assert_eq!(memory.all().unwrap().len() as u64, ALL);
    memory.evicts(ALL - 100, ALL - 100).holds(ALL - 100..ALL);
}

/// A message may be large: 10 megabytes, or as much as the memory allows. A larger one is refused,
/// or kept whole by a memory that writes it smaller.
pub fn a_message_of_10_megabytes<F: Fixture>(fixture: &F) {
    let memory = fixture.memory(ID);
    let most = memory.limits().message.min(memory.limits().batch);
    let large = |bytes: usize| [numbered(1), Message::user("äb".repeat(bytes / 3))];
    // A message takes some bytes in addition to its text.
    let mut written = large(most.saturating_sub(1000).min(10_000_000)).to_vec();
    memory.add(written[1].clone()).unwrap();
    memory.add_all(written.clone()).unwrap();
    written.insert(0, written[1].clone());
    if most <= 16 << 20 {
        let mut batch = large(most + 3).to_vec();
        let before = batch.clone();
        match memory.append(&mut batch, None) {
            Ok(_) => written.extend(before),
            Err(error) => {
                assert_eq!(error.kind(), ErrorKind::Invalid, "{error}");
                assert!(batch == before, "the batch should stay with the caller");
            }
        }
    }
    assert!(memory.messages().unwrap() == written, "other messages came back");
}

/// Every kind of message comes back unchanged, with everything in it.
pub fn every_kind_of_message_comes_back_as_it_was<F: Fixture>(fixture: &F) {
    // As JSON, they name everything that they contain.
    let read = |messages| serde_json::from_value::<Vec<Message>>(messages).unwrap();
    let messages = read(json!([
        {"role": "user", "name": "Klaus", "attributes": {"seen": true}, "content": [
            {"type": "text", "text": "look", "cache": {"ttl": "1h"}},
            {"type": "image", "media_type": "image/png", "name": "a.png", "detail": "high",
             "data": "iVBORw0KGgo=", "of": [1]},
            {"type": "image", "url": "https://example.com/a.png?b=%20#c", "detail": "auto"},
            {"type": "file", "file_id": "file-1"},
            {"type": "widget", "size": 3},
        ]},
        {"role": "assistant", "attributes": {"tokens": 7}, "content": [
            {"type": "reasoning", "text": "hm", "signature": "c2ln", "index": 0},
            {"type": "text", "text": "I ask.", "annotations": []},
            {"type": "tool_call", "id": "call_1", "name": "weather",
             "arguments": "{\"city\" : \"Oslo\"}", "signature": "c2ln", "kind": {"of": "call"}},
            {"type": "tool_call", "id": "call_2", "name": "weather", "arguments": "no json"},
        ]},
        {"role": "tool", "tool_call_id": "call_1", "name": "weather", "content": "sunny, 21 °C"},
        {"role": "tool", "tool_call_id": "call_2", "name": "weather", "content": "none",
         "is_error": true, "attributes": {"ms": 1.5}},
        {"role": "assistant", "content": ""},
        {"role": "custom", "attributes": {"kind": {"deep": [1, 2.5, null, "x"]}}},
        {"role": "critic", "content": {"stars": 3}, "name": "Ann"},
    ]));
    let system = read(json!([{"role": "system", "content": "Be brief.\nBe kind.", "name": "house",
        "attributes": {"of": "2024"}}]));
    let memory = fixture.memory(ID);
    memory.add_all(messages.iter().chain(&system).cloned()).unwrap();
    assert_eq!(memory.messages().unwrap(), messages);
    assert_eq!(memory.system().unwrap().as_deref(), system.first());
}

/// Any text comes back unchanged.
pub fn hostile_text_comes_back_as_it_was<F: Fixture>(fixture: &F) {
    let memory = fixture.memory(ID);
    let texts = hostile_texts();
    let both = |text: &str| [Message::user(text), Message::tool(text, text, text)];
    let messages: Vec<Message> = texts.iter().map(String::as_str).flat_map(both).collect();
    // The first batch creates the conversation, the second finds one.
    memory.add_all(messages.clone()).unwrap();
    memory.add_all(messages.clone()).unwrap();
    assert!(memory.all().unwrap().messages().eq(messages.iter().chain(&messages)));
    for text in texts {
        memory.instructs(&text);
        assert_eq!(memory.system().unwrap().as_deref(), Some(&Message::system(text)));
    }
}

/// Any text that the backend takes is an id, and ids that differ in one byte are different
/// conversations.
pub fn hostile_ids_are_conversations_of_their_own<F: Fixture>(fixture: &F) {
    let (ids, _) = hostile_ids(fixture);
    for (id, i) in ids.iter().zip(0..) {
        let memory = fixture.memory(id);
        assert_eq!(memory.id().as_str(), id);
        let batch = [Message::system(id), Message::user(id.as_str()), numbered(i)];
        memory.add_all(batch).unwrap();
    }
    // Neither what was written nor what was cleared under other ids has changed it.
    for (i, id) in ids.iter().enumerate() {
        let memory = fixture.memory(id);
        let Snapshot { system, records, .. } = memory.whole();
        assert_eq!(rows(&records), [(0, id.clone()), (1, i.to_string())], "{id:?}");
        assert_eq!(system.as_deref(), Some(&Message::system(id)));
        assert!(memory.clears().all().unwrap().is_empty());
    }
}

/// A reference instead of media is refused: nothing shows that its bytes are there.
pub fn a_reference_is_refused<F: Fixture>(fixture: &F) {
    let memory = holding(fixture, 0..1);
    let reference = MediaReference { sha256: Sha256([7; 32]), size: 30_000, picture: None };
    let refers = Media { source: Source::Reference(reference), ..Media::url("") };
    let batch = [numbered(1), Message::user([Part::Image(refers)])];
    let mut left = batch.to_vec();
    assert_eq!(memory.append(&mut left, None).unwrap_err().kind(), ErrorKind::Invalid);
    assert_eq!(left, batch, "the batch should stay with the caller");
    memory.refuses(&Append::new(batch), ErrorKind::Invalid).holds(0..1);
}

/// Debug output goes into logs, where conversations don't belong.
pub fn debug_output_holds_no_text<F: Fixture>(fixture: &F) {
    let memory = fixture.memory(ID);
    memory.add_all([Message::system("my secret"), Message::user("my secret")]).unwrap();
    let error = memory.append(&mut vec![Message::user("my secret")], Some(9)).unwrap_err();
    let shown = format!("{memory:?} {memory:#?} {error} {error:?}");
    assert!(!shown.contains("secret"), "Debug output shows what was said: write it by hand");
}

/// Any list of operations gives the same result as on a list.
pub fn any_list_of_operations_gives_what_a_list_gives<F: Fixture>(fixture: &F) {
    let law = "any_list_of_operations_gives_what_a_list_gives";
    model::try_operations(law, fixture, model::op(), Model::compare_records);
}
