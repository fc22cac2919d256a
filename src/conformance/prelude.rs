//! What the laws use: scenes, what they do with a memory and find in it, and hostile texts.

use std::collections::{BTreeSet, HashMap};
use std::ops::Range;
use std::sync::{Arc, Barrier};
use std::thread;
use std::time::{Duration, SystemTime, UNIX_EPOCH};

pub(super) use super::{Fixture, StoreFixture};
pub(super) use crate::error::ErrorKind;
pub(super) use crate::memory::Expected::{Absent, Any, Is};
pub(super) use crate::memory::{Append, ChatMemory, ChatMemoryExt, MemoryId, Read};
pub(super) use crate::message::Message;
pub(super) use crate::record::{Incarnation, Slot, SlotVersion, Snapshot};

use crate::error::Error;
use crate::memory::Appended;
use crate::record::Records;
use crate::store::ChatMemoryStore;

type Memory = Arc<dyn ChatMemory>;

/// The id of a conversation that nothing else in the test uses.
pub(super) const ID: &str = "conformance:user:conversation";

/// The last position that a signed integer can hold.
pub(super) const FAR: u64 = i64::MAX as u64;

#[rustfmt::skip]
const HOSTILE_IDS: &[&str] = &[
    "", " ", "  ", "a", "A", "a ", " a", // blanks
    "a:b", "a:b:c", "a:b:", ":a:b", "a/b", "a\\b", // separators
    "../a", "../../etc/passwd", ".", "..", "a.b", // paths
    "a_b", "a%b", "%", "_", "a*b", "*", "?", "[a]", "{a}", "{a}b", "{a", "a}", "{}", // patterns
    "'", "\"", "`", "a'b", "a\"b", "';--", "');DROP TABLE message;--", // quotes
    "$1", ":id", "?1", "@id", // parameters
    "a\0b", "a\0c", "\0", "a\0", "a\nb", "a\rb", "a\r\nb", "a\tb", "\u{7f}", // controls
    "null", "NULL", "0", "00", "1", "01", "-1", "1e0", "true", // other types
    "é", "e\u{301}", "É", "ß", "ss", "SS", "ı", "i", "I", "İ", // cases and forms of one letter
    "K", "\u{212a}", "Å", "\u{212b}", "ﬁ", "fi",
    "\u{feff}a", "a\u{200b}", "\u{200b}", "\u{202e}a", // not seen
    "\u{fffd}", "\u{ffff}", "\u{10ffff}", "日本語", "日本语", "🏳️‍🌈", "🏳",
];

/// Returns ids that are difficult to turn into a key, a path or a query: those that the backend
/// takes, and the others.
pub(super) fn hostile_ids<F: Fixture>(fixture: &F) -> (Vec<String>, Vec<String>) {
    let is_plain = |id: &str| id.chars().all(|it| it.is_ascii_alphanumeric() || it == ':');
    let (taken, others): (Vec<_>, Vec<_>) =
        hostile_texts_of_ids().into_iter().partition(|id| fixture.takes(id));
    let plain = others.iter().find(|id| !id.is_empty() && is_plain(id));
    assert_eq!(plain, None, "ASCII letters, digits and `:` are ids of every backend");
    (taken, others)
}

fn hostile_texts_of_ids() -> Vec<String> {
    // 1 KiB each; they differ only at their end.
    let long = ["🦀".repeat(256), format!("{}🐙", "🦀".repeat(255))];
    HOSTILE_IDS.iter().copied().map(str::to_owned).chain(long).collect()
}

/// Returns names that are difficult to turn into a key or a query: ids without control characters,
/// which are not allowed in names.
pub(super) fn hostile_names() -> Vec<String> {
    let more =
        ["System", "system ", "end", "start", "version", "a:system", "-1", "9223372036854775807"];
    let longest = [255, 256].map(|n| "x".repeat(n));
    let names = hostile_texts_of_ids().into_iter().chain(more.map(str::to_owned)).chain(longest);
    let is_name = |it: &String| !it.is_empty() && it.len() <= 256 && !it.contains(char::is_control);
    names.filter(is_name).collect::<BTreeSet<_>>().into_iter().collect()
}

/// Returns texts that can be neither append ids nor slot names.
pub(super) fn invalid_names() -> Vec<String> {
    let names = ["", "\0", "a\0", "a\nb", "\u{7f}", "\u{85}"].map(str::to_owned);
    names.into_iter().chain(["x".repeat(257), "é".repeat(129)]).collect()
}

#[rustfmt::skip]
const HOSTILE_TEXTS: &[&str] = &[
    "", " ", "\0", "a\0b", "\n", "\r\n", "\t", "\u{1}\u{1f}\u{7f}", "'", "\"", "\\", "\\u0000",
    "\\ud800", "';DROP TABLE message;--", "{}", "[]", "null", "{\"v\":1}", "$1", "%s",
    "\u{feff}", "\u{fffd}", "\u{ffff}", "\u{10ffff}", "\u{2028}\u{2029}", "e\u{301}", "é",
    "🏳️‍🌈👨‍👩‍👧‍👦", "\u{202e}abc", "日本語",
];

/// Returns texts that are difficult to store, escape or cut.
pub(super) fn hostile_texts() -> Vec<String> {
    let long = format!("a{}", "\u{301}".repeat(10_000));
    HOSTILE_TEXTS.iter().copied().map(str::to_owned).chain([long]).collect()
}

/// Does the work in this many threads, each with its own handle of the conversation and its number:
/// all begin at the same moment. Returns what each returned.
pub(super) fn at_once<F: Fixture, T: Send>(
    fixture: &F,
    threads: usize,
    work: impl Fn(&dyn ChatMemory, u64) -> T + Sync,
) -> Vec<T> {
    let (begin, work) = (&Barrier::new(threads), &work);
    thread::scope(|scope| {
        let start = |i| {
            let memory = fixture.memory(ID);
            scope.spawn(move || {
                begin.wait();
                work(&*memory, i)
            })
        };
        let threads: Vec<_> = (0..threads as u64).map(start).collect();
        threads.into_iter().map(|thread| thread.join().expect("a thread should succeed")).collect()
    })
}

/// Calls `write` with ascending numbers while others read: one thread for each number of records.
pub(super) fn while_one_writes<F: Fixture>(
    fixture: &F,
    write: impl Fn(&dyn ChatMemory, u64) + Sync,
    readers: &[usize],
    read: impl Fn(&dyn ChatMemory, usize) + Sync,
) {
    let (read, reading) = (&read, Arc::new(()));
    // Each reader holds its share until its thread ends, even by a panic.
    let readers: Vec<_> = readers.iter().map(|n| (*n, Arc::clone(&reading))).collect();
    thread::scope(|scope| {
        scope.spawn(|| {
            let memory = fixture.memory(ID);
            for i in (0..100_000).take_while(|_| Arc::strong_count(&reading) > 1) {
                write(&*memory, i);
                // Otherwise a fast writer finishes before any reader has started, and no reader
                // keeps up with it.
                thread::sleep(Duration::from_micros(20));
            }
        });
        for (n, share) in readers {
            scope.spawn(move || {
                read(&*fixture.memory(ID), n);
                drop(share);
            });
        }
    });
}

pub(super) fn numbered(i: u64) -> Message {
    Message::user(i.to_string())
}

/// Returns an append of the messages with these numbers.
pub(super) fn appending(numbers: Range<u64>) -> Append {
    Append::new(numbers.map(numbered))
}

pub(super) fn setting(name: &str, content: &str) -> Append {
    Append::default().set_slot(name, content, Any)
}

pub(super) fn removing(name: &str) -> Append {
    Append::default().remove_slot(name, Any)
}

/// Returns the conversation of the test with the records of this range; those before are evicted.
pub(super) fn holding<F: Fixture>(fixture: &F, range: Range<u64>) -> Memory {
    let memory = fixture.memory(ID);
    memory.says(0..range.end);
    if range.start > 0 {
        memory.evicts(range.start, range.start);
    }
    memory
}

/// Returns the same conversation as [`holding`], begun with the system message "Be brief.".
pub(super) fn instructed<F: Fixture>(fixture: &F, range: Range<u64>) -> Memory {
    fixture.memory(ID).instructs("Be brief.");
    holding(fixture, range)
}

/// Returns a store and the memory in it that the test is about.
pub(super) fn opened<F: StoreFixture>(fixture: &F) -> (Arc<dyn ChatMemoryStore>, Memory) {
    let store = fixture.store();
    let memory = store.memory(ID.into()).expect("a store should give its memory");
    (store, memory)
}

/// Creates the conversations under these ids, each with one record.
pub(super) fn create(store: &dyn ChatMemoryStore, ids: impl IntoIterator<Item: Into<MemoryId>>) {
    for id in ids {
        store.memory(id.into()).expect("a store should give its memory").says(0..1);
    }
}

/// Steps and checks of the laws. Each panics if the memory is wrong, and most return the memory, to
/// be chained.
pub(super) trait Scene: ChatMemory {
    /// Appends the messages with these numbers.
    #[track_caller]
    fn says(&self, numbers: Range<u64>) -> &Self {
        self.add_all(numbers.map(numbered)).expect("an append should succeed");
        self
    }

    /// Appends a system message.
    #[track_caller]
    fn instructs(&self, text: &str) -> &Self {
        self.add(Message::system(text)).expect("an append should succeed");
        self
    }

    /// Evicts the records before a position, and asserts how many there were.
    #[track_caller]
    fn evicts(&self, before: u64, gone: u64) -> &Self {
        assert_eq!(self.evict(before).expect("an eviction should succeed"), gone);
        self
    }

    #[track_caller]
    fn clears(&self) -> &Self {
        self.clear().expect("a clear should succeed");
        self
    }

    /// Writes a slot, whatever is there.
    #[track_caller]
    fn writes(&self, name: &str, content: &str) -> SlotVersion {
        self.set_slot(name, content, Any).expect("a write of a slot should succeed")
    }

    /// Removes a slot, whatever is there.
    #[track_caller]
    fn removes(&self, name: &str) -> &Self {
        self.remove_slot(name, Any).expect("a removal of a slot should succeed");
        self
    }

    /// Makes an append that must succeed, and asserts that it takes the messages and nothing else.
    #[track_caller]
    fn done(&self, mut append: Append) -> Appended {
        let before = append.clone();
        let appended = self.append_with(&mut append).expect("an append should succeed");
        assert!(append.messages.is_empty(), "an append should take the messages");
        keeps_the_rest(&append, &before);
        appended
    }

    /// Makes an append that must be no repetition, and asserts its positions.
    #[track_caller]
    fn appends(&self, append: Append, positions: Range<u64>) -> &Self {
        let appended = self.done(append);
        assert_eq!((&appended.positions, appended.repeated), (&positions, false), "{appended:?}");
        assert_eq!(appended.recognised, self.limits().recognises_ids(), "{appended:?}");
        self
    }

    /// Makes an append that must be recognised as a repetition of one at these positions.
    #[track_caller]
    fn repeats(&self, append: Append, positions: Range<u64>) -> Appended {
        let id = append.id.clone();
        let appended = self.done(append);
        let is_known = appended.repeated && appended.recognised;
        assert!(is_known, "{id:?} should be recognised: {appended:?}");
        assert_eq!(appended.positions, positions, "{id:?}");
        appended
    }

    /// Makes an append that must fail, and returns the error. Asserts that the append is unchanged,
    /// so that it can be retried.
    #[track_caller]
    fn refused(&self, before: &Append) -> Error {
        let mut append = before.clone();
        let error = self.append_with(&mut append).expect_err("the append should be refused");
        assert_eq!(append.messages, before.messages, "the messages should stay with the caller");
        keeps_the_rest(&append, before);
        error
    }

    /// Asserts the same as [`refused`](Self::refused), and what kind of error it is.
    #[track_caller]
    fn refuses(&self, append: &Append, kind: ErrorKind) -> &Self {
        assert_eq!(self.refused(append).kind(), kind, "{append:?}");
        self
    }

    /// Reads everything but slots.
    #[track_caller]
    fn whole(&self) -> Snapshot {
        self.read(None, usize::MAX).expect("a read should succeed")
    }

    /// Asserts that these slots are listed, and no others.
    #[track_caller]
    fn lists(&self, names: &[&str]) -> &Self {
        let slots = self.slots().expect("slots should be listed");
        assert!(slots.iter().map(|(name, _)| name).eq(names), "{slots:?} should be {names:?}");
        self
    }

    #[track_caller]
    fn version(&self, name: &str) -> Option<SlotVersion> {
        self.slot(name).expect("a read of a slot should succeed").map(|slot| slot.version())
    }

    /// Asserts that the memory has messages with the texts `range` at the positions `range`, and
    /// ends after them.
    #[track_caller]
    fn holds(&self, range: Range<u64>) -> &Self {
        is_whole(&self.whole(), range);
        self
    }

    /// Asserts the same as [`holds`](Self::holds), and the text of the system message, if any.
    #[track_caller]
    fn holds_under(&self, system: Option<&str>, range: Range<u64>) -> &Self {
        let snapshot = self.whole();
        is_whole(&snapshot, range);
        assert_eq!(snapshot.system.as_deref(), system.map(Message::system).as_ref());
        self
    }

    /// Asserts that these messages are at these positions.
    #[track_caller]
    fn has_at(&self, at: Range<u64>, messages: &[Message]) {
        let found = self.read(Some(at.end), messages.len()).expect("a read should succeed").records;
        assert!(found.iter().map(|record| record.position()).eq(at.clone()), "{at:?}");
        assert!(found.messages().eq(messages), "other messages are at {at:?}");
    }
}

impl<M: ChatMemory + ?Sized> Scene for M {}

/// Asserts that an append is unchanged except for its messages.
#[track_caller]
fn keeps_the_rest(append: &Append, before: &Append) {
    assert_eq!((&append.id, &append.slots), (&before.id, &before.slots));
    assert_eq!((append.expected, append.since), (before.expected, before.since));
    assert_eq!((&append.times, append.active), (&before.times, before.active));
}

#[track_caller]
fn is_whole(snapshot: &Snapshot, range: Range<u64>) {
    assert_eq!((snapshot.start, snapshot.end), (range.start, range.end));
    assert_eq!(rows(&snapshot.records), numbers(range));
    assert!(snapshot.unreadable.is_empty(), "{:?}", snapshot.unreadable);
}

/// Returns messages that name their batch, and count.
pub(super) fn batch(name: &str, size: usize) -> Vec<Message> {
    (0..size).map(|i| Message::user(format!("{name} {i}"))).collect()
}

/// Returns positions and texts.
pub(super) fn rows(records: &Records) -> Vec<(u64, String)> {
    records.iter().map(|record| (record.position(), record.message().text().into_owned())).collect()
}

pub(super) fn numbers(numbers: impl IntoIterator<Item = u64>) -> Vec<(u64, String)> {
    numbers.into_iter().map(|i| (i, i.to_string())).collect()
}

pub(super) fn positions(records: &Records) -> Vec<u64> {
    records.iter().map(|record| record.position()).collect()
}

pub(super) fn times(records: &Records) -> Vec<SystemTime> {
    records.iter().map(|record| record.appended_at()).collect()
}

/// Returns the time this many milliseconds after 1970.
pub(super) fn ms(millis: u64) -> SystemTime {
    UNIX_EPOCH + Duration::from_millis(millis)
}

/// Returns a time in May 2024, another one for each number.
pub(super) fn long_ago(i: u64) -> SystemTime {
    ms(1_714_557_600_123 + i * 1000)
}

/// Asserts that these rows are batches of `size` whose messages name writer, batch and number:
/// complete, without gaps, and in each writer's order. Returns how many batches each has written.
#[track_caller]
pub(super) fn batches(rows: &[(u64, String)], size: usize) -> HashMap<String, u64> {
    let mut found: HashMap<String, u64> = HashMap::new();
    let first = rows.first().map_or(0, |row| row.0);
    for (i, batch) in rows.chunks(size).enumerate() {
        let writer = batch[0].1.split(' ').next().unwrap().to_owned();
        let count = found.entry(writer.clone()).or_default();
        let texts = (0..size).map(|k| format!("{writer} {count} {k}"));
        let whole: Vec<_> = (first + (i * size) as u64..).zip(texts).collect();
        assert_eq!(batch, whole, "batches should be whole, in order and without gaps");
        *count += 1;
    }
    found
}

/// Asserts that two snapshots are of the same positions, records and system message.
#[track_caller]
pub(super) fn alike(one: &Snapshot, other: &Snapshot) {
    assert_eq!(one.records, other.records);
    assert_eq!((one.start, one.end, &one.system), (other.start, other.end, &other.system));
}

/// Returns a whole list that is read in pages of `n`.
#[track_caller]
pub(super) fn paged<T: PartialEq>(n: usize, mut page: impl FnMut(Option<&T>) -> Vec<T>) -> Vec<T> {
    let mut all: Vec<T> = Vec::new();
    loop {
        let page = page(all.last());
        assert!(page.len() <= n, "{} in a page of {n}", page.len());
        let goes_on = all.last().is_none_or(|last| !page.contains(last));
        assert!(goes_on, "a page should begin behind the place from which it goes on");
        let is_last = page.len() < n;
        all.extend(page);
        assert!(all.len() < 10_000, "the list has no end");
        if is_last {
            return all;
        }
    }
}

/// Returns the time after what was appended and before what will be, by the backend's clock.
pub(super) fn later<F: Fixture>() -> SystemTime {
    thread::sleep(F::CLOCK_SKEW);
    let now = SystemTime::now();
    thread::sleep(F::CLOCK_SKEW);
    now
}

/// Asserts that this is the time of an append that was made since `before`, within some seconds.
#[track_caller]
pub(super) fn is_of_now<F: Fixture>(at: SystemTime, before: SystemTime) {
    let tolerance = F::CLOCK_SKEW + Duration::from_secs(2);
    let now = before - tolerance..=SystemTime::now() + tolerance;
    assert!(now.contains(&at), "{at:?} should be in {now:?}");
}
