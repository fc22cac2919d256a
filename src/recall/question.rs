//! What is asked for.

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

/// What is asked for: words, each with its weight, and days.
pub(super) struct Question {
    /// The words of the question itself, in their order.
    pub(super) text: Vec<Word>,
    pub(super) words: Vec<Wanted>,
    /// For each word, by its lowest bits or behind them, one more than its place; 0 if there is
    /// none.
    slots: Box<[u8; SLOTS]>,
    pub(super) days: Vec<Range<u64>>,
    /// True if a few words ask nothing: "Yes, please."
    pub(super) is_remark: bool,
}

/// A word of a question.
pub(super) struct Wanted {
    word: Word,
    pub(super) weight: f32,
    /// True if it begins where the word before it has ended: pairs of characters overlap, and to
    /// find two of them side by side says nothing new.
    pub(super) is_apart: bool,
    /// The number of messages that have it.
    pub(super) found: usize,
}

/// The most different words of a question that are asked for.
const MOST: usize = 128;
/// The bytes at either end of a question that are looked at.
const END: usize = 16 << 10;
const SLOTS: usize = 1 << 12;

impl Question {
    /// Asks for the words of a text. Of one with very many it is those of both its ends: a page
    /// that is pasted has its question before or behind it.
    pub(super) fn new(text: &str, endings: &Endings) -> Self {
        let (first, rest) = text.split_at(floor_char_boundary(text, END));
        let last = floor_char_boundary(rest, rest.len().saturating_sub(END));
        let mut found = Vec::new();
        for end in [first, rest.split_at(last).1] {
            let mut before = usize::MAX;
            each_word(end, endings, |word, place| {
                found.push((word, before <= place.start));
                before = place.end;
            });
        }
        let text = found.iter().map(|(word, _)| *word).collect();
        let (words, slots) = (Vec::new(), Box::new([0; SLOTS]));
        let mut question = Self { text, words, slots, days: Vec::new(), is_remark: false };
        // Of too many whole words come before their parts, which are many more.
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

    /// Asks for the words of what was said right before too, but less than for its own: a question
    /// of few words goes on with that.
    pub(super) fn go_on(&mut self, index: &Index, asks: Option<u64>) {
        let own = self.words.len();
        let before = asks.map_or(index.len(), |position| index.before(position));
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

    /// Asks for the rarest words alone: as many as have at most so many places, and one at least.
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

    /// Returns the slot in which a word is, or could be put.
    fn slot(&self, word: Word) -> usize {
        let mut slot = (word >> 1) as usize % SLOTS; // its lowest bit says little
        while self.slots[slot] > 0 && self.words[usize::from(self.slots[slot]) - 1].word != word {
            slot = (slot + 1) % SLOTS;
        }
        slot
    }

    /// Returns the place of a word among those that are asked for.
    pub(super) fn place(&self, word: Word) -> Option<usize> {
        usize::from(self.slots[self.slot(word)]).checked_sub(1)
    }

    /// Returns whether the words of the question that a message has tell it from so many others:
    /// all of them together, or of a remark, which asks nothing, one alone from nearly all.
    pub(super) fn tells_apart(&self, words: &[Word], all: usize) -> bool {
        let all = (all as f32).ln();
        let found = self.words.iter().filter(|asked| words.contains(&asked.word));
        let found = found.map(|asked| all - (asked.found as f32).max(1.0).ln());
        let join: fn(f32, f32) -> f32 = if self.is_remark { f32::max } else { Add::add };
        found.fold(0.0, join) >= all * if self.is_remark { 0.8 } else { 0.4 }
    }
}

/// The weight of the words of what was said before, with which a question goes on.
const OF_BEFORE: f32 = 0.3;
/// The part of its weight that a word of grammar has.
const GRAMMAR: f32 = 0.3;
