//! BM25 over an index: how well each message fits a question.

#![expect(
    clippy::cast_precision_loss,
    clippy::cast_possible_truncation,
    reason = "numbers of messages and words, of which there are fewer than 2^32"
)]

use std::collections::HashMap;

use super::endings::Endings;
use super::index::RecallIndex;
use super::segment::Doc;
use super::words::{Word, each_word};
use crate::text::floor_char_boundary;

/// The numbers of the formula.
#[derive(Clone, Copy, Debug, PartialEq)]
pub(super) struct Weights {
    pub(super) k1: f32,
    pub(super) b: f32,
}

/// The words that are asked for, each with its weight.
#[derive(Clone, Debug, Default)]
pub(super) struct Question {
    words: Vec<(Word, f32)>,
    places: HashMap<Word, usize>,
}

/// The most different words of a question that are asked for.
const MOST: usize = 128;
/// The bytes at either end of a question that are looked at.
const END: usize = 16 << 10;

impl Question {
    /// Asks for the words of a text. Of one with very many it is those of both its ends: a page
    /// that is pasted has its question before or behind it.
    pub(super) fn ask_all(&mut self, text: &str, endings: &Endings, weight: f32) {
        let (first, rest) = text.split_at(floor_char_boundary(text, END));
        let last = floor_char_boundary(rest, rest.len().saturating_sub(END));
        let mut words = Vec::new();
        for end in [first, rest.split_at(last).1] {
            each_word(end, endings, |word, _| words.push(word));
        }
        for word in &words {
            if self.words.len() < MOST / 2 {
                self.ask(*word, weight);
            }
        }
        words.into_iter().rev().for_each(|word| self.ask(word, weight));
    }

    pub(super) fn ask(&mut self, word: Word, weight: f32) {
        if let Some(place) = self.places.get(&word) {
            let known = &mut self.words[*place].1;
            *known = known.max(weight);
        } else if self.words.len() < MOST {
            self.places.insert(word, self.words.len());
            self.words.push((word, weight));
        }
    }

    pub(super) fn has(&self, word: Word) -> bool {
        self.places.contains_key(&word)
    }

    pub(super) fn is_empty(&self) -> bool {
        self.words.is_empty()
    }

    pub(super) fn words(&self) -> impl Iterator<Item = (Word, f32)> {
        self.words.iter().copied()
    }
}

/// The scores of all messages that are not forgotten.
pub(super) struct Scores {
    pub(super) first: Doc,
    pub(super) scores: Vec<f32>,
}

impl Scores {
    pub(super) fn of(&self, doc: Doc) -> f32 {
        let place = doc.checked_sub(self.first).map(|place| place as usize);
        place.and_then(|place| self.scores.get(place).copied()).unwrap_or_default()
    }
}

/// Returns the weight of a word that `having` of `all` messages have: the rarer the more.
pub(super) fn rarity(having: usize, all: usize) -> f32 {
    let (having, all) = (having as f32, all as f32);
    let rarity = ((all - having + 0.5).max(0.0) / (having + 0.5)).ln_1p();
    rarity * rarity.sqrt() // rare words decide: names of things, not what is asked about them
}

/// Scores every message: a function of what the memory holds now, whatever it held when the index
/// was made.
///
/// The messages at `asks` are the question and its copies, which would lift what stands beside
/// them.
pub(super) fn score(
    index: &RecallIndex,
    question: &Question,
    weights: Weights,
    asks: &[u64],
) -> Scores {
    let asks: Vec<Doc> = asks.iter().filter_map(|position| index.doc_at(*position)).collect();
    let (first, end) = (index.first(), index.docs());
    let all = (end - first) as usize;
    let mut scores = vec![0.0_f32; all];
    let words: u64 = (first..end).map(|doc| u64::from(index.length(doc))).sum();
    let average = (words as f32 * (1.0 + 2.0 * NEAR) / all.max(1) as f32).max(1.0);
    let length = |place: usize| {
        let at = |place: Option<usize>| {
            let place = place.filter(|place| *place < all);
            place.map_or(0.0, |place| f32::from(index.length(first + place as Doc)))
        };
        at(Some(place)) + NEAR * (at(place.checked_sub(1)) + at(Some(place + 1)))
    };
    let having = |word| index.having(word, first).filter(|(doc, _)| !asks.contains(doc));
    // Words that stand everywhere say little and cost most: they count where there are no others.
    let counts = question.words().map(|(word, _)| having(word).count());
    let counts: Vec<usize> = counts.collect();
    let is_common = |having: usize| having > all / 4;
    let own = question.words().zip(&counts).filter(|((_, weight), _)| *weight >= 1.0);
    let only_common = own.map(|(_, having)| *having).all(|it| it == 0 || is_common(it));
    let mut spread = Vec::new();
    for ((word, weight), count) in question.words().zip(counts) {
        if count == 0 || (is_common(count) && !only_common) {
            continue;
        }
        spread.clear();
        for (doc, times) in having(word) {
            let (place, times) = ((doc - first) as usize, times as f32);
            if place > 0 {
                add(&mut spread, place - 1, NEAR * times);
            }
            add(&mut spread, place, times);
            if place + 1 < all {
                add(&mut spread, place + 1, NEAR * times);
            }
        }
        let weight = weight * rarity(count, all) * (weights.k1 + 1.0);
        for (place, times) in &spread {
            let long = 1.0 - weights.b + weights.b * length(*place) / average;
            scores[*place] += weight * times / (times + weights.k1 * long);
        }
    }
    Scores { first, scores: surrounded(&scores) }
}

/// Adds to each score a part of those around it: what a stretch speaks of, each message of it does.
fn surrounded(scores: &[f32]) -> Vec<f32> {
    let around = |place: usize| {
        let stretch = place.saturating_sub(AROUND)..(place + AROUND + 1).min(scores.len());
        let others: f32 = scores[stretch].iter().sum();
        scores[place] + OF_AROUND * (others - scores[place])
    };
    (0..scores.len()).map(around).collect()
}

/// The part of its neighbours' words that counts for a message too.
const NEAR: f32 = 0.4;
/// The reach within which others count for a message, and their weight.
const AROUND: usize = 3;
const OF_AROUND: f32 = 0.1;

/// Adds to what a message has; places come in order, but for the last three.
fn add(spread: &mut Vec<(usize, f32)>, place: usize, times: f32) {
    let from = spread.len().saturating_sub(3);
    match spread[from..].iter_mut().rev().find(|(known, _)| *known == place) {
        Some((_, known)) => *known += times,
        None => spread.push((place, times)),
    }
}
