//! The words and days that a question asks for.

#![expect(
    clippy::cast_precision_loss,
    clippy::cast_possible_truncation,
    reason = "numbers of messages and words, of which there are fewer than 2^32"
)]

use std::mem;
use std::ops::{Add, Range};

use super::endings::Endings;
use super::index::Index;
use super::words::{Word, each_word, is_grammar};
use crate::text::floor_char_boundary;

pub(super) struct Question {
    pub(super) text: Vec<Word>,
    pub(super) words: Vec<Wanted>,
    /// A hash table: for each word its place plus one, at the word's lowest bits or the next free
    /// slot; 0 is empty.
    slots: Box<[u8; SLOTS]>,
    pub(super) days: Vec<Range<u64>>,
    /// True if the question has too few words to ask anything: "Yes, please."
    pub(super) is_remark: bool,
}

pub(super) struct Wanted {
    word: Word,
    pub(super) weight: f32,
    /// True if it begins where the word before it ends. Pairs of characters overlap, so finding two
    /// of those next to each other proves nothing.
    pub(super) is_apart: bool,
    pub(super) found: usize,
}

const MOST: usize = 128;
const END: usize = 16 << 10;
const SLOTS: usize = 1 << 12;

impl Question {
    /// Takes the words of a text. Of a very long text it takes those of both ends: a pasted page
    /// has its question before or after it.
    pub(super) fn new(text: &str, endings: &Endings) -> Self {
        let mut found = Vec::new();
        for end in ends(text) {
            let mut before = usize::MAX;
            each_word(end, endings, |word, place| {
                found.push((word, before <= place.start));
                before = place.end;
            });
        }
        let text = found.iter().map(|(word, _)| *word).collect();
        let (words, slots) = (Vec::new(), Box::new([0; SLOTS]));
        let mut question = Self { text, words, slots, days: Vec::new(), is_remark: false };
        // If there are too many, whole words come before parts of words, which are many more.
        let fits = found.len() <= MOST;
        let (whole, parts): (Vec<_>, Vec<_>) = found.into_iter().partition(|it| fits || it.1);
        for some in [whole, parts] {
            for (word, is_apart) in &some {
                if question.words.len() < MOST / 2 {
                    question.ask(*word, *is_apart);
                }
            }
            some.iter().rev().for_each(|(word, _)| question.ask(*word, false));
        }
        question
    }

    /// Adds the words of the message right before, with less weight: a question of few words
    /// continues it.
    pub(super) fn go_on(&mut self, index: &Index, question_at: Option<u64>) {
        let own = self.words.len();
        let before = question_at.map_or(index.len(), |position| index.before(position));
        for place in (0..before).rev().take(2) {
            index.words(place).iter().for_each(|word| self.ask(*word, false));
        }
        self.words.iter_mut().skip(own).for_each(|asked| asked.weight *= OF_BEFORE);
    }

    fn ask(&mut self, word: Word, is_apart: bool) {
        let weight = if is_grammar(word) { GRAMMAR } else { 1.0 };
        self.put(Wanted { word, weight, is_apart, found: 0 });
    }

    fn put(&mut self, asked: Wanted) {
        let slot = self.slot(asked.word);
        if self.slots[slot] == 0 && self.words.len() < MOST {
            self.words.push(asked);
            self.slots[slot] = self.words.len() as u8;
        }
    }

    /// Keeps only the rarest words: as many as have at most this many places, and at least one.
    pub(super) fn keep_rarest(&mut self, most: usize, places: impl Fn(Word) -> usize) {
        let places: Vec<usize> = self.words.iter().map(|asked| places(asked.word)).collect();
        let (mut rarest, mut sum): (Vec<_>, _) = ((0..places.len()).collect(), 0);
        rarest.sort_by_key(|word| places[*word]);
        rarest.retain(|word| {
            sum += places[*word];
            sum <= most || sum == places[*word]
        });
        let words = mem::take(&mut self.words).into_iter().enumerate();
        self.slots.fill(0);
        words.filter(|it| rarest.contains(&it.0)).for_each(|(_, asked)| self.put(asked));
    }

    fn slot(&self, word: Word) -> usize {
        let mut slot = (word >> 1) as usize % SLOTS; // its lowest bit carries little information
        while self.slots[slot] > 0 && self.words[usize::from(self.slots[slot]) - 1].word != word {
            slot = (slot + 1) % SLOTS;
        }
        slot
    }

    pub(super) fn place(&self, word: Word) -> Option<usize> {
        usize::from(self.slots[self.slot(word)]).checked_sub(1)
    }

    /// Returns whether the question's words in a message tell it from this many others: all words
    /// together, or for a remark a single word that is rare enough.
    pub(super) fn tells_apart(&self, words: &[Word], all: usize) -> bool {
        let all = (all as f32).ln();
        let found = self.words.iter().filter(|asked| words.contains(&asked.word));
        let found = found.map(|asked| all - (asked.found as f32).max(1.0).ln());
        let join: fn(f32, f32) -> f32 = if self.is_remark { f32::max } else { Add::add };
        found.fold(0.0, join) >= all * if self.is_remark { 0.8 } else { 0.4 }
    }
}

/// Returns both ends of a very long text; of another one all of it, and nothing.
pub(super) fn ends(text: &str) -> [&str; 2] {
    let (first, rest) = text.split_at(floor_char_boundary(text, END));
    let last = floor_char_boundary(rest, rest.len().saturating_sub(END));
    [first, rest.split_at(last).1]
}

/// The weight of the words of the previous message, when a question continues it.
const OF_BEFORE: f32 = 0.3;
/// The factor for words of grammar.
const GRAMMAR: f32 = 0.3;
