//! The index: the words of each message of a conversation, in their order.

use std::ops::Range;

use super::endings::Endings;
use super::words::{Word, each_word, fnv};
use crate::message::Message;
use crate::record::{Incarnation, Record, Records, speaker};

/// The words of one conversation by position: what [`Recall`](super::Recall) searches.
///
/// It holds numbers that stand for words, and no text: what is recalled is read from the memory, so
/// what the memory has forgotten is never sent. It grows by what is new.
#[derive(Default)]
pub(super) struct Index {
    /// The rules by which its words were made.
    pub(super) rules: u64,
    pub(super) incarnation: Option<Incarnation>,
    /// Positions before this one are forgotten.
    pub(super) start: u64,
    /// The position that is to be indexed next.
    pub(super) end: u64,
    /// The text of the last record by a hash, to tell whether the conversation is still the same.
    pub(super) last: u64,
    /// The position from which those of messages count.
    base: u64,
    messages: Vec<Entry>,
    words: Vec<Word>,
    /// The days, each with the first message that was written on it, as a number from `base`.
    days: Vec<(u32, u32)>,
}

/// A message that has words: its position, and where its words end.
#[derive(Clone, Copy)]
struct Entry {
    position: u32,
    end: u32,
}

/// The most words of a message that are indexed.
const MOST_WORDS: usize = u16::MAX as usize;

impl Index {
    pub(super) fn new(rules: u64, incarnation: Option<Incarnation>, start: u64) -> Self {
        Self { rules, incarnation, start, end: start, base: start, ..Self::default() }
    }

    /// Returns the bytes that it takes in memory.
    pub(super) fn bytes(&self) -> usize {
        size_of::<Self>()
            + self.messages.capacity() * size_of::<Entry>()
            + self.words.capacity() * size_of::<Word>()
            + self.days.capacity() * size_of::<(u32, u32)>()
    }

    /// Adds the next record.
    pub(super) fn add(&mut self, record: &Record<'_>, endings: &Endings, with_tools: bool) {
        self.last = hash_of(record.message());
        self.end = record.seq().saturating_add(1);
        let Ok(position) = u32::try_from(record.seq().saturating_sub(self.base)) else { return };
        if !is_searched(record.message(), with_tools) {
            return;
        }
        let before = self.words.len();
        each_part(record.message(), |part| {
            each_word(part, endings, |word, _| {
                if self.words.len() < before + MOST_WORDS {
                    push(&mut self.words, word);
                }
            });
        });
        let Ok(end) = u32::try_from(self.words.len()) else { return self.words.truncate(before) };
        if self.words.len() > before {
            push(&mut self.messages, Entry { position, end });
        }
        let day = record.day().and_then(|day| u32::try_from(day).ok()).unwrap_or_default();
        if self.days.last().map_or(0, |(_, last)| *last) != day {
            push(&mut self.days, (position, day));
        }
    }

    /// Returns whether these records show another message in the place of the last that is known:
    /// then another conversation took the place of the one before.
    pub(super) fn is_refuted_by(&self, records: &Records) -> bool {
        let last = self.end.checked_sub(1).filter(|_| self.last != 0);
        let last = last.and_then(|last| records.find(last));
        last.is_some_and(|record| hash_of(record.message()) != self.last)
    }

    /// Forgets what is before this position.
    pub(super) fn forget_before(&mut self, start: u64) {
        if start > self.end {
            (self.end, self.last) = (start, 0);
        }
        self.start = self.start.max(start);
        let first = self.first();
        let gone = self.words_before(first);
        // Moving the rest costs less than what was forgotten did.
        if gone > self.words.len() / 2 || first > self.messages.len() / 2 {
            self.words.drain(..gone);
            self.messages.drain(..first);
            let gone = u32::try_from(gone).unwrap_or(u32::MAX);
            for entry in &mut self.messages {
                entry.end = entry.end.saturating_sub(gone);
            }
            self.words.shrink_to_fit();
            self.messages.shrink_to_fit();
        }
    }

    /// Returns the place of the first message that is not forgotten.
    fn first(&self) -> usize {
        let start = self.start.saturating_sub(self.base);
        self.messages.partition_point(|entry| u64::from(entry.position) < start)
    }

    fn words_before(&self, place: usize) -> usize {
        place.checked_sub(1).map_or(0, |before| self.messages[before].end as usize)
    }

    /// Returns what is not forgotten.
    pub(super) fn texts(&self) -> Texts<'_> {
        Texts { index: self, first: self.first() }
    }
}

/// The messages of an index that are not forgotten, by their places among these.
#[derive(Clone, Copy)]
pub(super) struct Texts<'a> {
    index: &'a Index,
    first: usize,
}

impl<'a> Texts<'a> {
    pub(super) fn len(self) -> usize {
        self.index.messages.len() - self.first
    }

    /// Returns the words of a message in their order; none if there is no such message.
    pub(super) fn words(self, place: usize) -> &'a [Word] {
        let place = self.first + place;
        let end = self.index.messages.get(place).map_or(0, |entry| entry.end as usize);
        self.index.words.get(self.index.words_before(place)..end).unwrap_or_default()
    }

    /// Returns the words of each message, oldest first.
    pub(super) fn iter(self) -> impl Iterator<Item = &'a [Word]> + Clone {
        let mut from = self.index.words_before(self.first);
        self.index.messages[self.first..].iter().map(move |entry| {
            let words = &self.index.words[from..entry.end as usize];
            from = entry.end as usize;
            words
        })
    }

    /// Returns the number of all words.
    pub(super) fn total(self) -> usize {
        self.index.words.len() - self.index.words_before(self.first)
    }

    pub(super) fn position(self, place: usize) -> u64 {
        let entry = self.index.messages.get(self.first + place);
        self.index.base + entry.map_or(0, |entry| u64::from(entry.position))
    }

    /// Returns the place of the message at this position.
    pub(super) fn place(self, position: u64) -> Option<usize> {
        let position = u32::try_from(position.checked_sub(self.index.base)?).ok()?;
        let messages = &self.index.messages[self.first..];
        messages.binary_search_by_key(&position, |entry| entry.position).ok()
    }

    /// Returns the places of the messages that were written on one of these days.
    pub(super) fn of_days(self, days: Range<u64>) -> impl Iterator<Item = usize> {
        let known = self.index.days.iter().enumerate();
        let messages = &self.index.messages[self.first..];
        let place = move |position| messages.partition_point(|entry| entry.position < position);
        let known = known.filter(move |(_, (_, day))| days.contains(&u64::from(*day)));
        known.flat_map(move |(i, (from, _))| {
            let end = self.index.days.get(i + 1).map_or(messages.len(), |(end, _)| place(*end));
            place(*from)..end
        })
    }
}

/// Adds to a list that takes little more than what is in it.
fn push<T>(to: &mut Vec<T>, item: T) {
    if to.len() == to.capacity() {
        to.reserve_exact(to.len() / 8 + 16);
    }
    to.push(item);
}

/// Returns whether a message can be recalled: it is neither an instruction nor the application's
/// own.
pub(super) fn is_searched(message: &Message, with_tools: bool) -> bool {
    match message {
        Message::User(_) | Message::Ai(_) => true,
        Message::Tool(_) => with_tools,
        _ => false,
    }
}

/// Hands out what is searched of a message: its speaker's name, and its texts.
fn each_part(message: &Message, mut found: impl FnMut(&str)) {
    speaker(message).into_iter().for_each(&mut found);
    message.texts().for_each(found);
}

/// Returns a hash of what a message says; the same in every process of this version.
fn hash_of(message: &Message) -> u64 {
    fnv(message.role().as_str().bytes().chain(message.texts().flat_map(str::bytes)))
}
