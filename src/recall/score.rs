//! How well each message fits a question: BM25 over its words, and those around it.

#![expect(
    clippy::cast_precision_loss,
    clippy::cast_possible_truncation,
    clippy::cast_sign_loss,
    reason = "numbers of messages and words, below 2^32, and scores, which are not negative"
)]

use super::index::Index;
use super::question::Question;

/// Scores every message by the part of the question's weight that it has: a function of what the
/// memory holds now, whatever it held when the index was made. Each word's weight becomes what it
/// is worth in this conversation. Returned with the kinship of messages side by side.
///
/// The messages at `asks` are the question and its copies, in order: they lift nothing that stands
/// around them.
pub(super) fn score(index: &Index, question: &mut Question, asks: &[usize]) -> (Vec<f32>, f32) {
    let (all, kinship) = (index.len(), kinship(index));
    // The words of a long question that many messages have cost most, and say least.
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
    // The messages that have each word, and how often; and the words that stand in a message behind
    // those that they follow in the question.
    let mut lists = vec![Vec::<(u32, u32)>::new(); question.words.len()];
    let mut pairs = Vec::new();
    for (place, words) in index.iter().enumerate() {
        if asks.binary_search(&place).is_ok() {
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
    // A word that stands nowhere is not missing in any message.
    let mut total = 0.0;
    for (asked, list) in question.words.iter_mut().zip(&lists) {
        asked.found = list.len();
        asked.weight *= rarity(list.len(), all);
        total += if list.is_empty() { 0.0 } else { asked.weight };
    }
    let mut scores = vec![0.0_f32; all];
    // The part of a word's weight that each message has: at most 1.
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
        let weight = rarity(written.len(), all);
        total += weight;
        for place in written {
            scores[place] += weight;
        }
    }
    (surrounded(&scores, total.max(f32::MIN_POSITIVE), OF_AROUND * kinship), kinship)
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
fn kinship(index: &Index) -> f32 {
    let Some(most) = index.len().checked_sub(2 * BEHIND + 2) else { return 1.0 };
    let beginning = |place| index.words(place).chunks(LOOKED_AT).next().unwrap_or(&[]);
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

/// Returns a score as reports show it.
pub(super) fn thousandths(score: f32) -> u32 {
    (score * 1000.0) as u32
}

/// The numbers of BM25: how much a word counts that comes again, and how much less in long texts.
const K1: f32 = 1.2;
const B: f32 = 0.75;
/// The part of its neighbours' words that counts for a message that leans on them.
const NEAR: f32 = 0.55;
/// The most places of words that are looked at, and the messages by which these are told.
const MOST_PLACES: usize = 1 << 17;
const LOOKED_THROUGH: usize = 256;
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
