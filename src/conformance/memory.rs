//! The laws of one conversation.

use std::sync::Arc;
use std::sync::atomic::{AtomicBool, AtomicU64, Ordering};
use std::thread;
use std::time::{Duration, SystemTime};

use super::Fixture;
use super::model::{self, Model};
use super::support::{
    Done, ID, append, batches, holds, hostile_ids, hostile_texts, later, numbered, numbers,
    refused, rows, times,
};
use crate::error::ErrorKind;
use crate::memory::{Append, ChatMemory, ChatMemoryExt, Expected, Read};
use crate::message::{
    AiMessage, AiPart, Media, Message, Part, Reasoning, ToolCall, ToolMessage, UserMessage,
};

/// Messages are in the order of their appends.
pub fn order_is_the_order_of_append<F: Fixture>(fixture: &F) {
    let memory = fixture.memory(ID);
    for i in 0..20 {
        append(&*memory, i..i + 1);
    }
    append(&*memory, 20..50);
    holds(&*memory, 0..50);
}

/// Positions count from 0 and ascend by one.
pub fn positions_count_from_0_and_ascend_by_one<F: Fixture>(fixture: &F) {
    let memory = fixture.memory(ID);
    assert_eq!(memory.add(numbered(0)).unwrap(), 0);
    assert_eq!(memory.add(numbered(1)).unwrap(), 1);
    assert_eq!(memory.add_all((2..7).map(numbered)).unwrap(), 2..7);
    assert_eq!(memory.next_position().unwrap(), 7);
    holds(&*memory, 0..7);
}

/// Positions are never used again, even after everything was evicted.
pub fn positions_are_never_used_again_after_evict<F: Fixture>(fixture: &F) {
    let memory = fixture.memory(ID);
    append(&*memory, 0..5);
    assert_eq!(memory.evict(5).unwrap(), 5);
    holds(&*memory, 5..5);
    append(&*memory, 5..6);
    holds(&*memory, 5..6);
}

/// Positions are never used again, even after the memory was cleared.
pub fn positions_are_never_used_again_after_clear<F: Fixture>(fixture: &F) {
    let memory = fixture.memory(ID);
    append(&*memory, 0..5);
    memory.clear().unwrap();
    holds(&*memory, 5..5);
    append(&*memory, 5..7);
    holds(&*memory, 5..7);
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
    holds(&*memory, 0..5);
}

/// An empty batch returns an empty range at the end.
pub fn an_empty_batch_returns_an_empty_range_at_the_end<F: Fixture>(fixture: &F) {
    let memory = fixture.memory(ID);
    assert_eq!(memory.append(&mut Vec::new(), None).unwrap(), 0..0);
    assert_eq!(memory.append(&mut Vec::new(), Some(0)).unwrap(), 0..0);
    append(&*memory, 0..3);
    assert_eq!(memory.append(&mut Vec::new(), None).unwrap(), 3..3);
    assert_eq!(memory.append(&mut Vec::new(), Some(3)).unwrap(), 3..3);
    let error = memory.append(&mut Vec::new(), Some(2)).unwrap_err();
    assert_eq!(error.kind(), ErrorKind::Conflict { expected: 2, actual: 3 });
    holds(&*memory, 0..3);
}

/// A batch stays contiguous while other threads append, and nothing is lost.
pub fn batches_of_8_writers_stay_contiguous_and_none_is_lost<F: Fixture>(fixture: &F) {
    const BATCHES: u64 = 20;
    thread::scope(|scope| {
        for writer in 0..8u64 {
            scope.spawn(move || {
                let memory = fixture.memory(ID);
                for batch in 0..BATCHES {
                    let texts = (0..3).map(|i| Message::user(format!("{writer} {batch} {i}")));
                    let positions = memory.add_all(texts).unwrap();
                    assert_eq!(positions.end - positions.start, 3);
                    let read = memory.read(Some(positions.end), 3).unwrap().records;
                    let expected: Vec<_> =
                        positions.zip((0..3).map(|i| format!("{writer} {batch} {i}"))).collect();
                    assert_eq!(rows(&read), expected, "an append returns where its messages are");
                }
            });
        }
    });
    let all = rows(&fixture.memory(ID).all().unwrap());
    let written = (0..8).map(|writer| (writer.to_string(), BATCHES));
    assert_eq!(batches(&all, 3), written.collect(), "nothing is lost");
}

/// A batch stays contiguous however large it is: it is not written in parts.
pub fn large_batches_of_4_writers_stay_contiguous<F: Fixture>(fixture: &F) {
    const BATCHES: usize = 6;
    const LARGE: usize = 300;
    thread::scope(|scope| {
        for writer in 0..4 {
            scope.spawn(move || {
                let memory = fixture.memory(ID);
                for _ in 0..BATCHES {
                    let batch = (0..LARGE).map(|_| Message::user(writer.to_string()));
                    let positions = memory.add_all(batch).unwrap();
                    assert_eq!(positions.end - positions.start, LARGE as u64);
                }
            });
        }
    });
    let all = rows(&fixture.memory(ID).all().unwrap());
    assert_eq!(all.len(), 4 * BATCHES * LARGE, "nothing is lost");
    for batch in all.chunks(LARGE) {
        assert!(batch.iter().all(|row| row.1 == batch[0].1), "two batches are mixed");
    }
}

/// An append that expects another end is a conflict, and changes nothing.
pub fn an_append_at_another_position_changes_nothing<F: Fixture>(fixture: &F) {
    let memory = fixture.memory(ID);
    for (end, others) in
        [(0, [1, i64::MAX as u64, u64::MAX]), (3, [0, 2, 4]), (6, [3, 7, u64::MAX])]
    {
        for expected in others {
            let batch = [numbered(100), Message::system("Be brief."), numbered(101)];
            let mut left = batch.to_vec();
            let error = memory.append(&mut left, Some(expected)).unwrap_err();
            assert_eq!(error.kind(), ErrorKind::Conflict { expected, actual: end });
            assert_eq!(error.operation(), "append");
            assert_eq!(left, batch, "the batch stays with the caller");
            holds(&*memory, 0..end);
            assert!(memory.system().unwrap().is_none());
        }
        let mut batch = (end..end + 3).map(numbered).collect();
        assert_eq!(memory.append(&mut batch, Some(end)).unwrap(), end..end + 3);
    }
}

/// Of many appends that expect the same end, one succeeds.
pub fn of_many_appends_at_one_position_one_succeeds<F: Fixture>(fixture: &F) {
    const ROUNDS: u64 = 20;
    let won = AtomicU64::new(0);
    thread::scope(|scope| {
        for writer in 0..4u64 {
            let won = &won;
            scope.spawn(move || {
                let memory = fixture.memory(ID);
                for round in 0..ROUNDS {
                    let mut batch = vec![Message::user(format!("{writer}"))];
                    match memory.append(&mut batch, Some(round)) {
                        Ok(positions) => {
                            assert_eq!(positions, round..round + 1);
                            won.fetch_add(1, Ordering::Relaxed);
                        }
                        Err(error) => {
                            let ErrorKind::Conflict { expected, actual } = error.kind() else {
                                panic!("{error}")
                            };
                            assert!(expected == round && actual > round, "{error}");
                            assert_eq!(batch.len(), 1);
                        }
                    }
                    // A writer that lost sees the winner's append now.
                    assert!(memory.next_position().unwrap() > round);
                }
            });
        }
    });
    assert_eq!(won.into_inner(), ROUNDS);
    assert_eq!(fixture.memory(ID).next_position().unwrap(), ROUNDS);
}

/// A system message goes to its own slot and gets no position.
pub fn a_system_message_gets_no_position<F: Fixture>(fixture: &F) {
    let memory = fixture.memory(ID);
    assert!(memory.system().unwrap().is_none());
    assert_eq!(memory.add(Message::system("Be brief.")).unwrap(), 0);
    assert_eq!(memory.next_position().unwrap(), 0);
    assert_eq!(memory.system().unwrap().as_deref(), Some(&Message::system("Be brief.")));
    let batch =
        [numbered(0), Message::system("Be kind."), numbered(1), Message::system("Be both.")];
    assert_eq!(memory.add_all(batch).unwrap(), 0..2);
    assert_eq!(memory.system().unwrap().as_deref(), Some(&Message::system("Be both.")));
    holds(&*memory, 0..2);
    // It comes with every read, for any records.
    assert!(memory.read(Some(0), 5).unwrap().system.is_some());
}

/// The same system message changes nothing; another one replaces it.
pub fn the_same_system_message_changes_nothing_and_another_replaces_it<F: Fixture>(fixture: &F) {
    let memory = fixture.memory(ID);
    append(&*memory, 0..2);
    for text in ["Be brief.", "Be brief.", "Be kind.", "Be brief."] {
        assert_eq!(memory.add(Message::system(text)).unwrap(), 2);
        assert_eq!(memory.system().unwrap().as_deref(), Some(&Message::system(text)));
        holds(&*memory, 0..2);
    }
}

/// No eviction touches the system message.
pub fn a_system_message_is_never_evicted<F: Fixture>(fixture: &F) {
    let memory = fixture.memory(ID);
    memory.add(Message::system("Be brief.")).unwrap();
    append(&*memory, 0..3);
    assert_eq!(memory.evict(2).unwrap(), 2);
    assert!(memory.system().unwrap().is_some());
    assert_eq!(memory.evict(u64::MAX).unwrap(), 1);
    assert_eq!(memory.system().unwrap().as_deref(), Some(&Message::system("Be brief.")));
}

/// Every operation is allowed on an empty memory.
pub fn an_empty_memory_is_legal_everywhere<F: Fixture>(fixture: &F) {
    let memory = fixture.memory(ID);
    holds(&*memory, 0..0);
    for before in [None, Some(0), Some(1), Some(u64::MAX)] {
        for n in [0, 1, usize::MAX] {
            let snapshot = memory.read(before, n).unwrap();
            assert!(snapshot.records.is_empty() && snapshot.system.is_none());
            assert_eq!((snapshot.start, snapshot.end), (0, 0));
        }
    }
    assert!(memory.pages(10).next().is_none());
    for before in [0, 1, u64::MAX] {
        assert_eq!(memory.evict(before).unwrap(), 0);
    }
    memory.clear().unwrap();
    memory.clear().unwrap();
    holds(&*memory, 0..0);
}

/// `n = 0` returns no records, but the system message and the positions of the conversation.
pub fn n_of_0_returns_no_records<F: Fixture>(fixture: &F) {
    let memory = fixture.memory(ID);
    memory.add(Message::system("Be brief.")).unwrap();
    append(&*memory, 0..10);
    memory.evict(3).unwrap();
    for before in [None, Some(0), Some(5), Some(u64::MAX)] {
        let snapshot = memory.read(before, 0).unwrap();
        assert!(snapshot.records.is_empty());
        assert!(snapshot.system.is_some());
        assert_eq!((snapshot.start, snapshot.end), (3, 10));
    }
}

/// `n` larger than the history returns the whole history.
pub fn n_beyond_the_history_returns_what_there_is<F: Fixture>(fixture: &F) {
    let memory = fixture.memory(ID);
    append(&*memory, 0..7);
    let one_more_than_32_bits = (u32::MAX as usize).wrapping_add(1).max(7);
    for n in [7, 8, 1000, i32::MAX as usize, one_more_than_32_bits, usize::MAX / 2, usize::MAX] {
        let read = memory.latest(n).unwrap();
        assert_eq!(read.len(), 7, "n = {n}");
    }
}

/// The newest records before a position end right before it.
pub fn reading_before_a_position_ends_there<F: Fixture>(fixture: &F) {
    let memory = fixture.memory(ID);
    append(&*memory, 0..20);
    memory.evict(5).unwrap();
    for before in
        [0, 1, 4, 5, 6, 10, 19, 20, 21, 1000, i64::MAX as u64, i64::MAX as u64 + 1, u64::MAX]
    {
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
    const READS: usize = 100;
    let done = [const { AtomicBool::new(false) }; 3];
    thread::scope(|scope| {
        scope.spawn(|| {
            let memory = fixture.memory(ID);
            let goes_on = || done.iter().any(|done| !done.load(Ordering::Relaxed));
            for i in (0..100_000).take_while(|_| goes_on()) {
                let mut batch: Vec<_> = (i * 2..i * 2 + 2).map(numbered).collect();
                batch.push(Message::system((i * 2 + 2).to_string()));
                memory.append(&mut batch, None).unwrap();
                if i % 10 == 9 {
                    memory.evict((i * 2).saturating_sub(20)).unwrap();
                }
                // Otherwise the fastest writer would finish before any reader has started.
                thread::sleep(Duration::from_micros(20));
            }
        });
        for (n, done) in [3, 10, usize::MAX].into_iter().zip(&done) {
            scope.spawn(move || {
                let _done = Done(done);
                let memory = fixture.memory(ID);
                let mut last = 0;
                for _ in 0..READS {
                    let snapshot = memory.read(None, n).unwrap();
                    let (start, end) = (snapshot.start, snapshot.end);
                    assert!(end >= last && end.is_multiple_of(2), "a batch is whole: {end}");
                    last = end;
                    let first = end.saturating_sub(n as u64).max(start);
                    assert_eq!(rows(&snapshot.records), numbers(first..end));
                    let system =
                        snapshot.system.map_or_else(String::new, |m| m.text().into_owned());
                    let expected = if end == 0 { String::new() } else { end.to_string() };
                    assert_eq!(system, expected, "the system message is of the same moment");
                }
            });
        }
    });
}

/// Paging is by position: concurrent appends neither repeat nor hide records.
pub fn pages_repeat_and_skip_nothing_while_others_append<F: Fixture>(fixture: &F) {
    let memory = fixture.memory(ID);
    append(&*memory, 0..55);
    memory.evict(4).unwrap();
    let mut seen = Vec::new();
    for page in memory.pages(10) {
        let page = page.unwrap();
        assert!(page.len() <= 10);
        seen.splice(0..0, rows(&page));
        memory.add_all((0..7).map(numbered)).unwrap();
    }
    assert_eq!(seen, numbers(4..55));
}

/// The result of a read never changes, and does not block later appends.
pub fn what_was_read_stays_what_it_was<F: Fixture>(fixture: &F) {
    let memory = fixture.memory(ID);
    memory.add(Message::system("Be brief.")).unwrap();
    append(&*memory, 0..10);
    let held = memory.read(None, 5).unwrap();
    append(&*memory, 10..20);
    memory.evict(12).unwrap();
    memory.clear().unwrap();
    memory.add(Message::system("Be kind.")).unwrap();
    assert_eq!(rows(&held.records), numbers(5..10));
    assert_eq!(held.system.as_deref(), Some(&Message::system("Be brief.")));
}

/// Evicting forgets every record before a position, and returns how many there were.
pub fn evicting_forgets_what_is_before<F: Fixture>(fixture: &F) {
    let memory = fixture.memory(ID);
    append(&*memory, 0..10);
    assert_eq!(memory.evict(0).unwrap(), 0);
    holds(&*memory, 0..10);
    assert_eq!(memory.evict(4).unwrap(), 4);
    holds(&*memory, 4..10);
    assert_eq!(memory.evict(4).unwrap(), 0);
    assert_eq!(memory.evict(2).unwrap(), 0);
    holds(&*memory, 4..10);
    append(&*memory, 10..12);
    assert_eq!(memory.evict(5).unwrap(), 1);
    holds(&*memory, 5..12);
    assert_eq!(memory.evict(1000).unwrap(), 7);
    assert_eq!(memory.evict(u64::MAX).unwrap(), 0);
    // An eviction beyond the end affects only existing records, not later ones.
    holds(&*memory, 12..12);
    append(&*memory, 12..13);
    holds(&*memory, 12..13);
}

/// Clearing forgets everything, including the system message.
pub fn clearing_forgets_everything<F: Fixture>(fixture: &F) {
    let memory = fixture.memory(ID);
    memory.add(Message::system("Be brief.")).unwrap();
    append(&*memory, 0..10);
    memory.clear().unwrap();
    holds(&*memory, 10..10);
    assert!(memory.system().unwrap().is_none());
    memory.clear().unwrap();
    holds(&*memory, 10..10);
    memory.add(Message::system("Be kind.")).unwrap();
    append(&*memory, 10..12);
    holds(&*memory, 10..12);
    assert_eq!(memory.system().unwrap().as_deref(), Some(&Message::system("Be kind.")));
}

/// The time of append is kept to the millisecond.
pub fn times_of_append_are_kept<F: Fixture>(fixture: &F) {
    let memory = fixture.memory(ID);
    // A server's clock may differ slightly from this one.
    let tolerance = Duration::from_secs(2);
    let before = SystemTime::now() - tolerance;
    append(&*memory, 0..2);
    let after = SystemTime::now() + tolerance;
    let records = memory.all().unwrap();
    for record in records.iter() {
        let at = record.appended_at();
        assert!(before <= at && at <= after, "{before:?} {at:?} {after:?}");
    }
    // A time never changes once it was read, even after other operations.
    for round in 0..3 {
        later();
        for memory in [fixture.memory(ID), Arc::clone(&memory)] {
            let again = memory.read(Some(2), 2).unwrap().records;
            assert_eq!(times(&again), times(&records), "{round}: {records:?} {again:?}");
        }
        append(&*memory, 2 + round..3 + round);
        memory.add(Message::system(round.to_string())).unwrap();
    }
    let all = times(&memory.all().unwrap());
    assert!(all.is_sorted(), "{all:?}");
    assert!(all[4] > all[2], "each append has its own time: {all:?}");
    memory.evict(3).unwrap();
    assert_eq!(times(&memory.all().unwrap()), all[3..]);
}

/// An `append_with` of messages alone is like `append`, and a `read_with` without extras is like
/// `read`.
pub fn the_larger_forms_do_what_the_plain_ones_do<F: Fixture>(fixture: &F) {
    let memory = fixture.memory(ID);
    let recognised = memory.limits().recognises_ids();
    let batch = [numbered(0), Message::system("Be brief."), numbered(1)];
    let mut change = Append::new(batch);
    let appended = memory.append_with(&mut change).unwrap();
    assert_eq!((appended.positions, appended.version), (0..2, None));
    assert_eq!((appended.recognised, appended.repeated), (recognised, false));
    assert!(change.messages.is_empty());
    let late = Append::new([numbered(2)]).expecting(1);
    let error = refused(&*memory, &late);
    assert_eq!(error.kind(), ErrorKind::Conflict { expected: 1, actual: 2 });
    let appended = memory.append_with(&mut late.expecting(2).with_id("one")).unwrap();
    assert_eq!((appended.positions, appended.repeated), (2..3, false));
    assert_eq!(memory.append_with(&mut Append::default()).unwrap().positions, 3..3);
    append(&*memory, 3..20);
    holds(&*memory, 0..20);
    memory.evict(4).unwrap();
    for (before, n) in [(None, 0), (None, 3), (Some(10), 3), (Some(2), 3), (None, usize::MAX)] {
        let mut read = Read::newest(n).positions([2, 5, 6, 40]);
        read.before = before;
        let (plain, with) = (memory.read(before, n).unwrap(), memory.read_with(&read).unwrap());
        assert_eq!(with.records, plain.records);
        assert_eq!((with.start, with.end), (plain.start, plain.end));
        assert_eq!(with.system, plain.system);
        let picked: Vec<_> = with.picked().iter().map(|record| record.position()).collect();
        assert_eq!(picked, [5, 6]);
        assert!(plain.picked().is_empty() && plain.slots().is_empty());
    }
}

/// If a memory does not support something, it returns an error that names the method to implement,
/// and changes nothing.
pub fn what_a_memory_does_not_keep_is_an_error<F: Fixture>(fixture: &F) {
    let memory = fixture.memory(ID);
    append(&*memory, 0..2);
    let seen = memory.read(None, 1).unwrap();
    if memory.limits().has_slots() {
        memory.slots().unwrap();
        memory.read_with(&Read::newest(1).slots(["a"])).unwrap();
        memory.set_slot("a", "x", Expected::Any).unwrap();
        return;
    }
    for change in [
        Append::default().set_slot("a", "x", Expected::Any),
        Append::default().remove_slot("a", Expected::Any),
        Append::new([numbered(2)]).with_times([SystemTime::UNIX_EPOCH]),
        Append::closing(2, SystemTime::UNIX_EPOCH),
        Append::new([numbered(2)]).since(&seen),
    ] {
        let error = refused(&*memory, &change);
        assert_eq!(error.kind(), ErrorKind::Unsupported, "{error}");
        assert!(error.to_string().contains("append_with"), "{error}");
        holds(&*memory, 0..2);
    }
    let error = memory.read_with(&Read::newest(1).slots(["a"])).unwrap_err();
    assert_eq!(error.kind(), ErrorKind::Unsupported);
    assert!(error.to_string().contains("read_with"), "{error}");
    let error = memory.slots().unwrap_err();
    assert_eq!(error.kind(), ErrorKind::Unsupported);
}

/// A conversation may be long.
pub fn one_hundred_thousand_messages<F: Fixture>(fixture: &F) {
    const ALL: u64 = 100_000;
    let memory = fixture.memory(ID);
    for i in 0..ALL / 1000 {
        append(&*memory, i * 1000..(i + 1) * 1000);
    }
    assert_eq!(rows(&memory.latest(10).unwrap()), numbers(ALL - 10..ALL));
    let middle = memory.read(Some(50_000), 10).unwrap().records;
    assert_eq!(rows(&middle), numbers(49_990..50_000));
    let mut before = ALL;
    for page in memory.pages(10_000) {
        for record in page.unwrap().iter().rev() {
            before -= 1;
            assert_eq!(
                (record.position(), &*record.message().text()),
                (before, &*before.to_string())
            );
        }
    }
    assert_eq!(before, 0);
    assert_eq!(memory.all().unwrap().len() as u64, ALL);
    assert_eq!(memory.evict(ALL - 100).unwrap(), ALL - 100);
    holds(&*memory, ALL - 100..ALL);
}

/// A message may be large: 10 megabytes, or as much as the memory allows.
pub fn a_message_of_10_megabytes<F: Fixture>(fixture: &F) {
    let memory = fixture.memory(ID);
    let limits = memory.limits();
    // Besides its text, a message takes some more bytes.
    let most = limits.message.min(limits.batch).saturating_sub(1000).min(10_000_000);
    assert!(most >= 1_000_000, "a picture is larger than {most} bytes");
    let large = Message::user("äb".repeat(most / 3));
    memory.add(large.clone()).unwrap();
    memory.add_all([numbered(1), large.clone()]).unwrap();
    let records = memory.all().unwrap();
    assert_eq!(records.len(), 3);
    assert!(records.first().unwrap().message() == &large, "the first large message is another");
    assert!(records.last().unwrap().message() == &large, "the second large message is another");
}

/// Every kind of message comes back unchanged, with everything in it.
pub fn every_kind_of_message_comes_back_as_it_was<F: Fixture>(fixture: &F) {
    let image = Media::base64("image/png", "iVBORw0KGgo=").with_name("a.png");
    let messages = vec![
        Message::from(
            UserMessage::new(vec![Part::text("look"), Part::Image(image)])
                .with_name("Klaus")
                .with_attribute("seen", true),
        ),
        Message::from(
            AiMessage::from_parts([
                AiPart::Reasoning(Reasoning::new("hm").with_signature("c2ln")),
                AiPart::Content(Part::text("I ask.")),
                AiPart::ToolCall(ToolCall::new("call_1", "weather", "{\"city\" : \"Oslo\"}")),
                AiPart::ToolCall(ToolCall::new("call_2", "weather", "no json")),
            ])
            .with_attribute("tokens", 7),
        ),
        Message::from(ToolMessage::new("call_1", "weather", "sunny, 21 °C")),
        Message::from(ToolMessage::new("call_2", "weather", "no such city").with_error(true)),
        Message::ai(""),
        Message::custom([("kind".to_owned(), serde_json::json!({"deep": [1, 2.5, null, "x"]}))]),
    ];
    let system = Message::system("Be brief.\nBe kind.");
    let memory = fixture.memory(ID);
    memory.add_all(messages.iter().cloned().chain([system.clone()])).unwrap();
    let snapshot = memory.read(None, 10).unwrap();
    assert_eq!(snapshot.records.messages().cloned().collect::<Vec<_>>(), messages);
    assert_eq!(snapshot.system.as_deref(), Some(&system));
}

/// Any text comes back unchanged.
pub fn hostile_text_comes_back_as_it_was<F: Fixture>(fixture: &F) {
    let memory = fixture.memory(ID);
    let texts = hostile_texts();
    let messages: Vec<Message> = texts
        .iter()
        .flat_map(|text| [Message::user(text.as_str()), Message::tool(text, text, text.as_str())])
        .collect();
    // The first batch creates the conversation, the second finds one.
    memory.add_all(messages.iter().cloned()).unwrap();
    memory.add_all(messages.iter().cloned()).unwrap();
    assert!(memory.all().unwrap().messages().eq(messages.iter().chain(&messages)));
    for text in texts {
        memory.add(Message::system(text.clone())).unwrap();
        assert_eq!(memory.system().unwrap().as_deref(), Some(&Message::system(text)));
    }
}

/// Any text that the backend takes is an id, and ids that differ in one byte are different
/// conversations.
pub fn hostile_ids_are_conversations_of_their_own<F: Fixture>(fixture: &F) {
    let (ids, _) = hostile_ids(fixture);
    for (i, id) in ids.iter().enumerate() {
        let memory = fixture.memory(id);
        assert_eq!(memory.id().as_str(), id);
        memory
            .add_all([Message::system(id.clone()), Message::user(id.as_str()), numbered(i as u64)])
            .unwrap();
    }
    for (i, id) in ids.iter().enumerate() {
        let memory = fixture.memory(id);
        let expected = vec![(0, id.clone()), (1, i.to_string())];
        assert_eq!(rows(&memory.all().unwrap()), expected, "{id:?}");
        assert_eq!(memory.system().unwrap().as_deref(), Some(&Message::system(id.clone())));
    }
    for (i, id) in ids.iter().enumerate() {
        let memory = fixture.memory(id);
        memory.clear().unwrap();
        assert!(memory.all().unwrap().is_empty());
        if let Some(next) = ids.get(i + 1) {
            assert_eq!(fixture.memory(next).all().unwrap().len(), 2, "{id:?} is not {next:?}");
        }
    }
}

/// Debug output goes into logs, where conversations don't belong.
pub fn debug_output_holds_no_text<F: Fixture>(fixture: &F) {
    let memory = fixture.memory(ID);
    memory.add_all([Message::system("my secret"), Message::user("my secret")]).unwrap();
    let shown = format!("{memory:?} {memory:#?}");
    assert!(!shown.contains("secret"), "its Debug output shows what was said: write it by hand");
    let error = memory.append(&mut vec![Message::user("my secret")], Some(9)).unwrap_err();
    assert!(!format!("{error} {error:?}").contains("secret"));
}

/// Any list of operations gives the same result as on a list.
pub fn any_list_of_operations_gives_what_a_list_gives<F: Fixture>(fixture: &F) {
    let law = "any_list_of_operations_gives_what_a_list_gives";
    model::try_operations(law, fixture, model::op(), Model::compare_records);
}
