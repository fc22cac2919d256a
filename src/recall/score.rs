//! Scores how well each message fits a question: BM25 over its words and those of its neighbours.

#![expect(
    clippy::cast_precision_loss,
    clippy::cast_possible_truncation,
    clippy::cast_sign_loss,
    reason = "numbers of messages and words, below 2^32, and scores, which are not negative"
)]

use super::index::Index;
use super::question::Question;

/// Scores every message by its part of the question's weight: a function of what the memory holds
/// now, not of what it held when the index was made. Sets each word's weight to its worth in this
/// conversation. Also returns the kinship of neighbouring messages.
///
/// The messages at `passed` are the question and its copies, in order: they do not raise the
/// scores of their neighbours.
pub(super) fn score(index: &Index, question: &mut Question, passed: &[usize]) -> (Vec<f32>, f32) {
    let (all, kinship) = (index.len(), kinship(index));
    // In a long question, words that many messages have cost most and say least.
    if all * question.words.len() > MOST_PLACES {
        let apart = all / LOOKED_THROUGH + 1;
        let some: Vec<_> = (0..all).step_by(apart).map(|place| index.words(place)).collect();
        let having = |word| some.iter().filter(|words| words.contains(&word)).count();
        question.keep_rarest(MOST_PLACES, |word| apart * having(word));
    }
    let average = (index.iter().map(<[_]>::len).sum::<usize>() as f32 / all.max(1) as f32).max(1.0);
    let lengths = index.iter().map(|words| words.len() as f32);
    let leanings: Vec<f32> = lengths.clone().map(|it| NEAR * kinship * leaning(it)).collect();
    let longs: Vec<f32> = lengths.map(|it| K1 * (1.0 - B + B * it / average)).collect();
    // For each word, the messages that have it and how often; and the words that follow each other
    // in a message as in the question.
    let mut lists = vec![Vec::<(u32, u32)>::new(); question.words.len()];
    let mut pairs = Vec::new();
    for (place, words) in index.iter().enumerate() {
        if passed.binary_search(&place).is_ok() {
            continue;
        }
        let mut before = None;
        for word in words {
            let found = question.place(*word);
            if let Some(found) = found {
                match lists[found].last_mut() {
                    Some((last, times)) if *last == place as u32 => *times += 1,
                    _ => lists[found].push((place as u32, 1)),
                }
                if question.words[found].is_apart && found > 0 && before == Some(found - 1) {
                    pairs.push((place, found));
                }
            }
            before = found;
        }
    }
    // A word that no message has is not counted as missing, and neither is such a day.
    let mut total = 0.0;
    for (asked, list) in question.words.iter_mut().zip(&lists) {
        asked.found = list.len();
        asked.weight *= rarity(list.len(), all);
        total += if list.is_empty() { 0.0 } else { asked.weight };
    }
    let mut scores = vec![0.0_f32; all];
    // Each message's part of a word's weight: at most 1.
    let (mut parts, mut touched) = (vec![0.0_f32; all], Vec::new());
    for (asked, list) in question.words.iter().zip(&lists) {
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
            scores[place] += asked.weight * (K1 + 1.0) * std::mem::take(&mut parts[place]);
        }
    }
    pairs.sort_unstable();
    pairs.dedup();
    for (place, second) in pairs {
        let [first, second] = [second - 1, second].map(|word| question.words[word].weight);
        scores[place] += PAIR * first.min(second);
    }
    for days in &question.days {
        let written: Vec<_> = (0..all).filter(|it| index.is_of(*it, days)).collect();
        let weight = if written.is_empty() { 0.0 } else { rarity(written.len(), all) };
        total += weight;
        for place in written {
            scores[place] += weight;
        }
    }
    (surrounded(&scores, total.max(f32::MIN_POSITIVE), OF_AROUND * kinship), kinship)
}

/// Returns the weight of a word that `having` of `all` messages have: rare words weigh more.
fn rarity(having: usize, all: usize) -> f32 {
    let (having, all) = (having as f32, all as f32);
    let rarity = ((all - having + 0.5).max(0.0) / (having + 0.5)).ln_1p();
    // Names of things should decide, not the words that ask about them: to the power of 1.75, by
    // roots, which every machine rounds alike.
    rarity * rarity.sqrt() * rarity.sqrt().sqrt()
}

/// Returns how much a message leans on its neighbours: the longer it is, the less.
pub(super) fn leaning(words: f32) -> f32 {
    LONG / (LONG + words)
}

/// Returns how much neighbouring messages share a topic, from 0 to 1: by the words that a message
/// shares with the messages after it, compared with those that it shares with distant ones.
///
/// Words that are in both groups say nothing. The result is near 0 if messages are in no order, and
/// about a half in dialogue.
fn kinship(index: &Index) -> f32 {
    let Some(most) = index.len().checked_sub(2 * BEHIND + 2) else { return 1.0 };
    let beginning = |place| index.words(place).chunks(LOOKED_AT).next().unwrap_or(&[]);
    let (mut near, mut far) = (0_u32, 0_u32);
    for i in 0..SAMPLES.min(most) {
        let place = i * most / SAMPLES.min(most);
        // A distant message, at a different distance for each place.
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

/// Returns each score as a fraction of `all`, plus a part of its neighbours' scores.
fn surrounded(scores: &[f32], all: f32, part: f32) -> Vec<f32> {
    let around = |place: usize| {
        let stretch = place.saturating_sub(AROUND)..(place + AROUND + 1).min(scores.len());
        let others: f32 = scores[stretch].iter().sum();
        (scores[place] + part * (others - scores[place])) / all
    };
    (0..scores.len()).map(around).collect()
}

pub(super) fn thousandths(score: f32) -> u32 {
    (score * 1000.0) as u32
}

/// The parameters of BM25: saturation of repeated words, and normalisation by length.
const K1: f32 = 1.2;
const B: f32 = 0.75;
/// The factor for neighbours' words, for a message that leans on them fully.
const NEAR: f32 = 0.55;
/// The most places of words that are read, and the messages from which their number is estimated.
const MOST_PLACES: usize = 1 << 17;
const LOOKED_THROUGH: usize = 256;
/// The number of words at which a message leans on its neighbours half as much.
const LONG: f32 = 120.0;
/// The extra factor for a word that follows the same word as in the question.
const PAIR: f32 = 0.3;
/// The distance within which neighbours count, and their weights.
const AROUND: usize = 3;
const OF_AROUND: f32 = 0.1;
/// How kinship is measured: the number of samples, the messages after each, and the words of a
/// message that are used; then the differences that count as chance and as none.
const SAMPLES: usize = 128;
const BEHIND: usize = 3;
const LOOKED_AT: usize = 64;
const CHANCE: f32 = 0.1;
const SURE: f32 = 0.35;
