//! Shared parts of the laws.

use std::collections::HashMap;
use std::ops::Range;
use std::sync::atomic::{AtomicBool, Ordering};
use std::time::{Duration, SystemTime};

use super::Fixture;
use crate::error::Error;
use crate::memory::{Append, ChatMemory, ChatMemoryExt, MemoryId};
use crate::message::Message;
use crate::record::Records;

/// The id of a conversation that nothing else in the test uses.
pub(super) const ID: &str = "conformance:user:conversation";

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
    let mut ids: Vec<String> = HOSTILE_IDS.iter().copied().map(str::to_owned).collect();
    ids.push("🦀".repeat(256)); // 1 KiB
    ids.push(format!("{}🐙", "🦀".repeat(255))); // differs only at its end
    ids
}

/// Returns names that are difficult to turn into a key or a query: ids without control characters,
/// which are not allowed in names.
pub(super) fn hostile_names() -> Vec<String> {
    let more =
        ["System", "system ", "end", "start", "version", "a:system", "-1", "9223372036854775807"];
    let names = hostile_texts_of_ids().into_iter().chain(more.map(str::to_owned));
    let mut names: Vec<_> = names.filter(|name| !no_name(name)).collect();
    names.push("x".repeat(255));
    names.push("x".repeat(256));
    names.sort();
    names.dedup();
    names
}

fn no_name(name: &str) -> bool {
    name.is_empty() || name.len() > 256 || name.contains(char::is_control)
}

/// Returns texts that can be neither append ids nor slot names.
pub(super) fn no_names() -> Vec<String> {
    let mut names = ["", "\0", "a\0", "a\nb", "\u{7f}", "\u{85}"].map(str::to_owned).to_vec();
    names.push("x".repeat(257));
    names.push("é".repeat(129));
    names
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
    let mut texts: Vec<String> = HOSTILE_TEXTS.iter().copied().map(str::to_owned).collect();
    texts.push(format!("a{}", "\u{301}".repeat(10_000)));
    texts
}

/// Sets a flag when dropped, even by a panic, so that no thread waits for ever.
pub(super) struct Done<'a>(pub(super) &'a AtomicBool);

impl Drop for Done<'_> {
    fn drop(&mut self) {
        self.0.store(true, Ordering::Relaxed);
    }
}

pub(super) fn numbered(i: u64) -> Message {
    Message::user(i.to_string())
}

#[track_caller]
pub(super) fn append(memory: &dyn ChatMemory, numbers: Range<u64>) {
    memory.add_all(numbers.map(numbered)).expect("an append succeeds");
}

/// Returns positions and texts.
pub(super) fn rows(records: &Records) -> Vec<(u64, String)> {
    records.iter().map(|record| (record.position(), record.message().text().into_owned())).collect()
}

pub(super) fn numbers(numbers: Range<u64>) -> Vec<(u64, String)> {
    numbers.map(|i| (i, i.to_string())).collect()
}

pub(super) fn times(records: &Records) -> Vec<SystemTime> {
    records.iter().map(|record| record.appended_at()).collect()
}

/// Asserts that these rows are batches of `size` whose messages name writer, batch and number:
/// complete, without gaps, and in each writer's order. Returns how many batches each has written.
#[track_caller]
pub(super) fn batches(rows: &[(u64, String)], size: usize) -> HashMap<String, u64> {
    let mut found: HashMap<String, u64> = HashMap::new();
    for (i, batch) in rows.chunks(size).enumerate() {
        let writer = batch[0].1.split(' ').next().unwrap().to_owned();
        let count = found.entry(writer.clone()).or_default();
        for (k, (position, text)) in batch.iter().enumerate() {
            assert_eq!(*position, (i * size + k) as u64, "positions have no gaps");
            assert_eq!(*text, format!("{writer} {count} {k}"), "batches are whole and in order");
        }
        *count += 1;
    }
    found
}

/// Asserts that the memory has messages with the texts `range` at the positions `range`, and ends
/// after them.
#[track_caller]
pub(super) fn holds(memory: &dyn ChatMemory, range: Range<u64>) {
    let snapshot = memory.read(None, usize::MAX).expect("a read succeeds");
    assert_eq!((snapshot.start, snapshot.end), (range.start, range.end));
    assert_eq!(rows(&snapshot.records), numbers(range));
    assert!(snapshot.unreadable.is_empty(), "{:?}", snapshot.unreadable);
}

/// Makes an append that must fail, and returns the error. Asserts that the append is unchanged, so
/// that it can be retried.
#[track_caller]
pub(super) fn refused(memory: &dyn ChatMemory, before: &Append) -> Error {
    let mut append = before.clone();
    let error = memory.append_with(&mut append).expect_err("the append is refused");
    assert_eq!(append.messages, before.messages, "the messages stay with the caller");
    assert_eq!((&append.id, &append.slots), (&before.id, &before.slots));
    assert_eq!((append.expected, append.since), (before.expected, before.since));
    assert_eq!((&append.times, append.active), (&before.times, before.active));
    error
}

/// Returns all ids in pages of `n`.
#[track_caller]
pub(super) fn paged(n: usize, page: impl Fn(Option<&MemoryId>) -> Vec<MemoryId>) -> Vec<String> {
    let mut all: Vec<MemoryId> = Vec::new();
    loop {
        let page = page(all.last());
        assert!(page.len() <= n, "{} ids in a page of {n}", page.len());
        let again = all.last().filter(|last| page.contains(last));
        assert_eq!(again, None, "a page begins behind the id from which it goes on");
        let is_last = page.len() < n;
        all.extend(page);
        assert!(all.len() < 10_000, "the list has no end");
        if is_last {
            return all.into_iter().map(String::from).collect();
        }
    }
}

/// Waits until the clock has advanced by more than any backend's rounding.
pub(super) fn later() -> SystemTime {
    std::thread::sleep(Duration::from_millis(5));
    let now = SystemTime::now();
    std::thread::sleep(Duration::from_millis(5));
    now
}
