//! The index: the words of each message of a conversation, in order.

use std::ops::Range;

use super::endings::Endings;
use super::words::{Word, each_word};
use crate::message::{Message, ToolMessage, fnv1a};
use crate::record::{Incarnation, Record, Records, speaker};

/// Holds numbers that represent words, and no text: what is recalled is read from the memory, so
/// what the memory has forgotten is never sent.
#[derive(Default)]
pub(super) struct Index {
    pub(super) incarnation: Option<Incarnation>,
    pub(super) start: u64,
    pub(super) end: u64,
    /// A hash of the last record's text, to detect another conversation under the same id.
    pub(super) last: u64,
    messages: Vec<Entry>,
    words: Vec<Word>,
}

/// The position of a message, the end of its words, and its day (0 if unknown).
#[derive(Clone, Copy)]
struct Entry {
    position: u64,
    end: u32,
    day: u32,
}

impl Index {
    pub(super) fn bytes(&self) -> usize {
        size_of::<Self>()
            + self.messages.capacity() * size_of::<Entry>()
            + self.words.capacity() * size_of::<Word>()
    }

    pub(super) fn add(&mut self, record: &Record<'_>, endings: &Endings, with_tools: bool) {
        let (position, message) = (record.position(), record.message());
        (self.last, self.end) = (hash_of(message), position.saturating_add(1));
        // They only repeat what is stored, and would push out their sources.
        let repeats = |it: &ToolMessage| ["search_history", "read_back"].contains(&it.tool_name());
        if !is_searched(message, with_tools) || message.as_tool().is_some_and(repeats) {
            return;
        }
        let before = self.words.len();
        for part in speaker(message).into_iter().chain(message.texts()) {
            each_word(part, endings, |word, _| push(&mut self.words, word));
        }
        let Ok(end) = u32::try_from(self.words.len()) else { return self.words.truncate(before) };
        if self.words.len() > before {
            let day = record.day().and_then(|day| u32::try_from(day).ok()).unwrap_or_default();
            push(&mut self.messages, Entry { position, end, day });
        }
    }

    /// Returns whether these records show another message at the last known position: then another
    /// conversation has replaced this one.
    pub(super) fn is_refuted_by(&self, records: &Records) -> bool {
        let last = self.end.checked_sub(1).filter(|_| self.last != 0);
        let last = last.and_then(|last| records.find(last));
        last.is_some_and(|record| hash_of(record.message()) != self.last)
    }

    pub(super) fn forget_before(&mut self, start: u64) {
        if start > self.end {
            (self.end, self.last) = (start, 0);
        }
        self.start = self.start.max(start);
        let gone = self.messages.partition_point(|entry| entry.position < self.start);
        let Some(last) = self.messages.drain(..gone).next_back() else { return };
        self.words.drain(..last.end as usize);
        self.messages.iter_mut().for_each(|entry| entry.end -= last.end);
        self.messages.shrink_to(with_spare(self.messages.len()));
        self.words.shrink_to(with_spare(self.words.len()));
    }

    pub(super) fn len(&self) -> usize {
        self.messages.len()
    }

    pub(super) fn words(&self, place: usize) -> &[Word] {
        let before = place.checked_sub(1).and_then(|before| self.messages.get(before));
        let Some(entry) = self.messages.get(place) else { return &[] };
        &self.words[before.map_or(0, |before| before.end as usize)..entry.end as usize]
    }

    pub(super) fn iter(&self) -> impl Iterator<Item = &[Word]> + Clone {
        (0..self.len()).map(|place| self.words(place))
    }

    /// Returns the position of the message at this place; `u64::MAX` if there is none.
    pub(super) fn position(&self, place: usize) -> u64 {
        self.messages.get(place).map_or(u64::MAX, |entry| entry.position)
    }

    pub(super) fn before(&self, position: u64) -> usize {
        self.messages.partition_point(|entry| entry.position < position)
    }

    pub(super) fn place(&self, position: u64) -> Option<usize> {
        let place = self.before(position);
        self.messages.get(place).is_some_and(|it| it.position == position).then_some(place)
    }

    pub(super) fn is_of(&self, place: usize, days: &Range<u64>) -> bool {
        self.messages.get(place).is_some_and(|it| it.day > 0 && days.contains(&it.day.into()))
    }
}

/// Pushes with little spare capacity.
fn push<T>(to: &mut Vec<T>, item: T) {
    if to.len() == to.capacity() {
        to.reserve_exact(with_spare(to.len()) - to.len());
    }
    to.push(item);
}

fn with_spare(len: usize) -> usize {
    len + len / 16 + 16
}

/// Returns whether a message can be recalled: not instructions, and not the application's own
/// messages.
pub(super) fn is_searched(message: &Message, with_tools: bool) -> bool {
    match message {
        Message::User(_) | Message::Ai(_) => true,
        Message::Tool(_) => with_tools,
        _ => false,
    }
}

/// Returns a hash of a message's text; the same in every process of this version.
fn hash_of(message: &Message) -> u64 {
    fnv1a(message.role().as_str().bytes().chain(message.texts().flat_map(str::bytes)))
}
