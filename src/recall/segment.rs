//! A part of an index that is written once: which messages have a word, and how often.

use std::collections::BTreeMap;

use super::words::Word;

/// The number of a message in an index.
pub(super) type Doc = u32;

/// The messages of each word: of every message how much larger its number is than the one before
/// (at first, than that of the segment's first message), and how often it has the word.
///
/// A segment takes about two bytes a word of a message and eight a word of the segment.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub(super) struct Segment {
    pub(super) first: Doc,
    pub(super) end: Doc,
    /// Ascending.
    pub(super) words: Vec<Word>,
    /// The end of each word's list.
    pub(super) ends: Vec<u32>,
    pub(super) lists: Vec<u8>,
}

/// A list in the making.
#[derive(Clone, Debug, Default)]
struct List {
    last: Doc,
    bytes: Vec<u8>,
}

impl List {
    fn push(&mut self, doc: Doc, times: u32) {
        let gap = u64::from(doc - self.last) << 1 | u64::from(times > 1);
        write(gap, &mut self.bytes);
        if times > 1 {
            write(times.into(), &mut self.bytes);
        }
        self.last = doc;
    }
}

/// The newest messages, of which no segment is made yet.
#[derive(Clone, Debug, Default)]
pub(super) struct Unsealed {
    lists: BTreeMap<Word, List>,
    bytes: usize,
}

impl Unsealed {
    pub(super) fn push(&mut self, first: Doc, word: Word, doc: Doc, times: u32) {
        let new = || List { last: first, bytes: Vec::new() };
        let list = self.lists.entry(word).or_insert_with(new);
        let before = list.bytes.capacity();
        // A list that is new takes its place in the tree too.
        self.bytes += if before == 0 { size_of::<(Word, List)>() + 16 } else { 0 };
        list.push(doc, times);
        self.bytes += list.bytes.capacity() - before;
    }

    pub(super) fn list(&self, word: Word) -> &[u8] {
        self.lists.get(&word).map_or(&[], |list| &list.bytes)
    }

    /// Returns about the bytes that it takes.
    pub(super) const fn bytes(&self) -> usize {
        self.bytes
    }

    /// Makes a segment of these messages.
    pub(super) fn seal(&self, first: Doc, end: Doc) -> Segment {
        let mut segment = Segment { first, end, ..Segment::default() };
        for (word, list) in &self.lists {
            segment.add(*word, &list.bytes);
        }
        segment.fit();
        segment
    }
}

impl Segment {
    fn add(&mut self, word: Word, list: &[u8]) {
        self.words.push(word);
        self.lists.extend_from_slice(list);
        self.ends.push(u32::try_from(self.lists.len()).unwrap_or(u32::MAX));
    }

    fn fit(&mut self) {
        self.words.shrink_to_fit();
        self.ends.shrink_to_fit();
        self.lists.shrink_to_fit();
    }

    /// Returns the list of this word.
    pub(super) fn list(&self, word: Word) -> &[u8] {
        self.words.binary_search(&word).map_or(&[], |i| self.at(i))
    }

    fn at(&self, i: usize) -> &[u8] {
        let place = |end: Option<&u32>| end.map_or(0, |end| *end as usize);
        let from = i.checked_sub(1).map_or(0, |before| place(self.ends.get(before)));
        self.lists.get(from..place(self.ends.get(i))).unwrap_or_default()
    }

    /// Returns the bytes that it takes.
    pub(super) fn bytes(&self) -> usize {
        size_of::<Self>() + self.words.len() * 8 + self.lists.len()
    }

    /// Returns whether this one and the next fit into one.
    pub(super) fn goes_with(&self, next: &Self) -> bool {
        let together = self.lists.len() as u64 + next.lists.len() as u64;
        self.lists.len() <= next.lists.len().saturating_mul(2) && together < u64::from(u32::MAX) / 2
    }

    /// Returns this segment and the next one as one.
    pub(super) fn joined(&self, next: &Self) -> Self {
        let mut all = Self { first: self.first, end: next.end, ..Self::default() };
        let (mut i, mut k) = (0, 0);
        loop {
            let word = match (self.words.get(i), next.words.get(k)) {
                (Some(a), Some(b)) => *a.min(b),
                (Some(a), None) => *a,
                (None, Some(b)) => *b,
                (None, None) => break,
            };
            let mut last = self.first;
            if self.words.get(i) == Some(&word) {
                let part = self.at(i);
                last = Postings::new(part, self.first).last().map_or(last, |(doc, _)| doc);
                all.lists.extend_from_slice(part);
                i += 1;
            }
            if next.words.get(k) == Some(&word) {
                // Only the first number is told from another one than before.
                let mut part = next.at(k);
                if let Some(gap) = read(&mut part) {
                    let doc = next.first.saturating_add(gap_of(gap));
                    write(u64::from(doc.saturating_sub(last)) << 1 | gap & 1, &mut all.lists);
                    all.lists.extend_from_slice(part);
                }
                k += 1;
            }
            all.words.push(word);
            all.ends.push(u32::try_from(all.lists.len()).unwrap_or(u32::MAX));
        }
        all.fit();
        all
    }
}

/// The messages of a list, each with how often it has the word.
pub(super) struct Postings<'a> {
    list: &'a [u8],
    last: Doc,
}

impl<'a> Postings<'a> {
    pub(super) fn new(list: &'a [u8], first: Doc) -> Self {
        Self { list, last: first }
    }
}

impl Iterator for Postings<'_> {
    type Item = (Doc, u32);

    fn next(&mut self) -> Option<(Doc, u32)> {
        let gap = read(&mut self.list)?;
        self.last = self.last.checked_add(gap_of(gap))?;
        let times = if gap & 1 == 1 { read(&mut self.list)? } else { 1 };
        Some((self.last, u32::try_from(times).unwrap_or(u32::MAX)))
    }
}

fn gap_of(gap: u64) -> u32 {
    u32::try_from(gap >> 1).unwrap_or(u32::MAX)
}

/// Writes a number, seven bits a byte, the lowest first.
#[expect(clippy::cast_possible_truncation, reason = "seven bits at a time")]
pub(super) fn write(mut number: u64, to: &mut Vec<u8>) {
    while number > 0x7f {
        to.push(number as u8 | 0x80);
        number >>= 7;
    }
    to.push(number as u8);
}

/// Reads what [`write()`] writes; `None` at the end, or where it is no such number.
pub(super) fn read(from: &mut &[u8]) -> Option<u64> {
    let mut number = 0;
    for shift in (0..63).step_by(7) {
        let (&byte, rest) = from.split_first()?;
        *from = rest;
        number |= u64::from(byte & 0x7f) << shift;
        if byte < 0x80 {
            return Some(number);
        }
    }
    None
}
