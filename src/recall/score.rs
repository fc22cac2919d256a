//! How well each message fits a question: BM25 over its words, and those around it.

#![expect(
    clippy::cast_precision_loss,
    clippy::cast_possible_truncation,
    reason = "numbers of messages and words, of which there are fewer than 2^32"
)]

use std::collections::HashMap;
use std::ops::Range;

use super::endings::Endings;
use super::index::Texts;
use super::words::{Word, each_word};
use crate::text::floor_char_boundary;

/// What is asked for: words, each with its weight, and days.
#[derive(Debug, Default)]
pub(super) struct Question {
    /// The words of the question itself, in their order.
    pub(super) text: Vec<Word>,
    words: Vec<(Word, f32)>,
    /// True for each word that begins where the one before it has ended: pairs of characters
    /// overlap, and to find two of them side by side says nothing new.
    apart: Vec<bool>,
    /// The number of messages that have each word.
    found: Vec<u32>,
    places: HashMap<Word, usize>,
    pub(super) days: Vec<Range<u64>>,
    /// True if a few words ask nothing: "Yes, please."
    pub(super) is_remark: bool,
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
            let mut before = usize::MAX;
            each_word(end, endings, |word, place| {
                // What is written in hiragana is grammar more often than not.
                let is_grammar = end[place.clone()].chars().all(|c| matches!(c, 'ぁ'..='ゟ'));
                let weight = if is_grammar { weight * GRAMMAR } else { weight };
                words.push((word, weight, before <= place.start));
                before = place.end;
            });
        }
        for (word, weight, is_apart) in &words {
            if self.words.len() < MOST / 2 {
                self.ask(*word, *weight, *is_apart);
            }
        }
        words.iter().rev().for_each(|(word, weight, _)| self.ask(*word, *weight, false));
        if self.text.is_empty() {
            self.text = words.into_iter().map(|(word, ..)| word).collect();
        }
    }

    fn ask(&mut self, word: Word, weight: f32, is_apart: bool) {
        if !self.places.contains_key(&word) && self.words.len() < MOST {
            self.places.insert(word, self.words.len());
            self.words.push((word, weight));
            self.apart.push(is_apart);
        }
    }

    /// Returns whether the words of the question that a message has tell it from so many others:
    /// from some of them, or where a remark asks nothing, from all.
    pub(super) fn tells_apart(&self, words: &[Word], all: usize) -> bool {
        let all = (all as f32).ln();
        let has = |word| words.contains(&word);
        let found = self.words.iter().zip(&self.found).filter(|((word, _), _)| has(*word));
        let found: f32 = found.map(|((_, _), found)| all - (*found as f32).max(1.0).ln()).sum();
        found >= all * if self.is_remark { 0.999 } else { 0.4 }
    }

    /// Returns the number of different words.
    pub(super) fn len(&self) -> usize {
        self.words.len()
    }

    /// Returns the weight of a word; none if it is not asked for.
    pub(super) fn weight(&self, word: Word) -> Option<f32> {
        self.places.get(&word).map(|place| self.words[*place].1)
    }
}

/// The scores of all messages, and how much those around a message count for it.
pub(super) struct Scores {
    pub(super) scores: Vec<f32>,
    pub(super) kinship: f32,
}

/// How often a message has a word.
type Times = (u32, u32);

/// Scores every message by the part of the question's weight that it has: a function of what the
/// memory holds now, whatever it held when the index was made. Each word's weight becomes what it
/// is worth in this conversation.
///
/// The messages at `asks` are the question and its copies, in order: they have no score, and lift
/// nothing that stands around them.
pub(super) fn score(texts: Texts<'_>, question: &mut Question, asks: &[usize]) -> Scores {
    let all = texts.len();
    let kinship = kinship(texts);
    let average = (texts.total() as f32 / all.max(1) as f32).max(1.0);
    let is_asked = |place: usize| asks.binary_search(&place).is_ok();
    let lengths = texts.iter().map(|words| words.len() as f32);
    let leanings: Vec<f32> = lengths.clone().map(|it| NEAR * kinship * leaning(it)).collect();
    let longs: Vec<f32> = lengths.map(|it| K1 * (1.0 - B + B * it / average)).collect();
    let mut scores = vec![0.0_f32; all];
    let mut lists = vec![Vec::<Times>::new(); question.len()];
    let mut pairs = Vec::new();
    let table = Table::of(&question.words);
    for (place, words) in texts.iter().enumerate() {
        if !is_asked(place) {
            find(place as u32, words, &table, &mut lists, &mut pairs);
        }
    }
    for ((_, weight), list) in question.words.iter_mut().zip(&lists) {
        question.found.push(list.len() as u32);
        *weight *= rarity(list.len(), all);
    }
    // A word that stands nowhere is not missing in any message.
    let known = question.words.iter().zip(&lists).filter(|(_, list)| !list.is_empty());
    let mut total: f32 = known.map(|((_, weight), _)| weight).sum();
    // The part of a word's weight that each message has: at most 1.
    let mut parts = vec![0.0_f32; all];
    let mut touched = Vec::new();
    for ((_, weight), list) in question.words.iter().zip(&lists) {
        if *weight < total / LITTLE {
            continue; // it stands everywhere, and costs most
        }
        for (place, times) in list {
            let (place, times) = (*place as usize, *times as f32);
            let part = times / (times + longs[place]);
            for near in place.saturating_sub(1)..(place + 2).min(all) {
                let counts = if near == place { 1.0 } else { leanings[near] };
                if parts[near] == 0.0 && counts > 0.0 {
                    touched.push(near);
                }
                parts[near] = 1.0 - (1.0 - parts[near]) * (1.0 - counts * part);
            }
        }
        for place in touched.drain(..) {
            scores[place] += weight * (K1 + 1.0) * std::mem::take(&mut parts[place]);
        }
    }
    pairs.retain(|(_, [_, second])| question.apart[usize::from(*second)]);
    for (place, [first, second]) in pairs {
        let weight = |word: u8| question.words[usize::from(word)].1;
        scores[place as usize] += PAIR * weight(first).min(weight(second));
    }
    for days in &question.days {
        let written: Vec<usize> = texts.of_days(days.clone()).collect();
        let weight = rarity(written.len(), all);
        total += weight;
        for place in written {
            scores[place] += weight;
        }
    }
    let mut scores = surrounded(&scores, total.max(f32::MIN_POSITIVE), OF_AROUND * kinship);
    for place in asks {
        scores[*place] = 0.0;
    }
    Scores { scores, kinship }
}

/// Notes which words of the question a message has, and which pairs side by side.
fn find(
    place: u32,
    words: &[Word],
    table: &Table<'_>,
    lists: &mut [Vec<Times>],
    pairs: &mut Vec<(u32, [u8; 2])>,
) {
    let (from, mut before) = (pairs.len(), None);
    for word in words {
        let found = table.find(*word);
        if let Some(found) = found {
            match lists[usize::from(found)].last_mut() {
                Some((last, times)) if *last == place => *times += 1,
                _ => lists[usize::from(found)].push((place, 1)),
            }
            let pair = before.filter(|before| before + 1 == found).map(|before| [before, found]);
            if let Some(pair) = pair.filter(|pair| !pairs[from..].iter().any(|it| it.1 == *pair)) {
                pairs.push((place, pair));
            }
        }
        before = found;
    }
}

/// The words of a question by their lowest bits.
struct Table<'a> {
    words: &'a [(Word, f32)],
    /// One more than the place of a word; 0 if there is none.
    slots: Box<[u8; SLOTS]>,
}

const SLOTS: usize = 1 << 12;

impl<'a> Table<'a> {
    fn of(words: &'a [(Word, f32)]) -> Self {
        let mut slots = Box::new([0; SLOTS]);
        for (place, (word, _)) in words.iter().enumerate() {
            let mut slot = *word as usize;
            while slots[slot % SLOTS] != 0 {
                slot += 1;
            }
            slots[slot % SLOTS] = place as u8 + 1;
        }
        Self { words, slots }
    }

    fn find(&self, word: Word) -> Option<u8> {
        let mut slot = word as usize;
        loop {
            let place = self.slots[slot % SLOTS].checked_sub(1)?;
            if self.words[usize::from(place)].0 == word {
                return Some(place);
            }
            slot += 1;
        }
    }
}

/// Returns the weight of a word that `having` of `all` messages have: the rarer the more.
fn rarity(having: usize, all: usize) -> f32 {
    let (having, all) = (having as f32, all as f32);
    let rarity = ((all - having + 0.5).max(0.0) / (having + 0.5)).ln_1p();
    // Names of things decide, and not what is asked of them.
    rarity * rarity.sqrt() * rarity.sqrt().sqrt()
}

/// Returns how much a message leans on those around it: one that is long says itself what it
/// speaks of.
pub(super) fn leaning(words: f32) -> f32 {
    LONG / (LONG + words)
}

/// Returns how far messages side by side speak of the same, from 0 to 1: by the words that a
/// message shares with those behind it, against those that it shares with others.
///
/// Words that both share say nothing, so that it is near 0 where messages stand in no order, and
/// about a half in what people say to each other.
fn kinship(texts: Texts<'_>) -> f32 {
    let Some(most) = texts.len().checked_sub(2 * BEHIND + 2) else { return 1.0 };
    let beginning = |place: usize| {
        let words = texts.words(place);
        &words[..words.len().min(LOOKED_AT)]
    };
    let (mut near, mut far) = (0_u32, 0_u32);
    for i in 0..SAMPLES.min(most) {
        let place = i * most / SAMPLES.min(most);
        // Far away, and for each place by another distance.
        let other = (place + most / 3 + i * 7 % (most / 3 + 1)) % most;
        let own = beginning(place);
        let different = own.iter().enumerate().filter(|(k, word)| !own[..*k].contains(word));
        for (_, word) in different {
            let follows = |at: usize| (1..=BEHIND).any(|on| beginning(at + on).contains(word));
            match (follows(place), follows(other)) {
                (true, false) => near += 1,
                (false, true) => far += 1,
                _ => {}
            }
        }
    }
    let more = 1.0 - far as f32 / near.max(1) as f32;
    ((more - CHANCE) / (SURE - CHANCE)).clamp(0.0, 1.0)
}

/// Returns each score in parts of all, with a part of those around it: what a stretch speaks of,
/// each message of it does.
fn surrounded(scores: &[f32], all: f32, part: f32) -> Vec<f32> {
    let around = |place: usize| {
        let stretch = place.saturating_sub(AROUND)..(place + AROUND + 1).min(scores.len());
        let others: f32 = scores[stretch].iter().sum();
        (scores[place] + part * (others - scores[place])) / all
    };
    (0..scores.len()).map(around).collect()
}

/// The numbers of BM25: how much a word counts that comes again, and how much less in long texts.
const K1: f32 = 1.2;
const B: f32 = 0.75;
/// The part of its neighbours' words that counts for a message that leans on them.
const NEAR: f32 = 0.55;
/// The part of its weight that a word of grammar has.
const GRAMMAR: f32 = 0.3;
/// The part of the question's weight below which a word does not count.
const LITTLE: f32 = 200.0;
/// The words of a message at which it leans on its neighbours half as much.
const LONG: f32 = 120.0;
/// The part of a word's weight that it has again behind the one that it follows in the question.
const PAIR: f32 = 0.3;
/// The reach within which others count for a message, and their weight.
const AROUND: usize = 3;
const OF_AROUND: f32 = 0.1;
/// How kinship is measured: at so many places, by so many messages behind each, and by so many
/// words of a message; and which difference may be chance, and which is none.
const SAMPLES: usize = 128;
const BEHIND: usize = 3;
const LOOKED_AT: usize = 64;
const CHANCE: f32 = 0.1;
const SURE: f32 = 0.35;
