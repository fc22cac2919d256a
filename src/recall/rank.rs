//! The order in which messages are quoted: the best hits, and what stands around them.

#![expect(clippy::cast_precision_loss, reason = "numbers of messages and words, below 2^24")]

use std::collections::{BTreeMap, HashSet};

use super::Recall;
use super::found::{Asked, Hit};
use super::index::Texts;
use super::score::{Question, Scores, leaning, score};

/// Returns the messages that may be quoted, the best first: by words, and by what was offered
/// beside them.
///
/// A hit's rank is its score in parts of the best score, and its fit in parts of the best fit.
pub(super) fn rank(
    recall: &Recall,
    asked: &Asked,
    texts: Texts<'_>,
    question: &mut Question,
    offered: &BTreeMap<u64, f32>,
    most: usize,
) -> Vec<Hit> {
    let asks = asked.asks.and_then(|position| texts.place(position));
    let mut passed_over = copies(texts, question, asks);
    let answers: Vec<usize> = passed_over.iter().map(|copy| copy + 1).collect();
    passed_over.pop(); // the newest copy counts like any other message
    passed_over.extend(asks);
    passed_over.sort_unstable();
    let scores = score(texts, question, &passed_over);
    let may_send = |seq| {
        let place = texts.place(seq);
        asked.may_send(seq) && place.is_none_or(|place| passed_over.binary_search(&place).is_err())
    };
    let fits = |score: f32| score > 0.0 && score >= recall.least;
    let places = (0..scores.scores.len()).filter(|place| fits(scores.scores[*place]));
    let mut best: Vec<Hit> = places.map(|place| hit(texts, &scores, place)).collect();
    let order = |a: &Hit, b: &Hit| b.rank.total_cmp(&a.rank).then(b.seq.cmp(&a.seq));
    let enough = most + asked.not_these.len(); // of which some may not be sent
    if best.len() > enough {
        best.select_nth_unstable_by(enough, order);
        best.truncate(enough);
    }
    best.retain(|hit| may_send(hit.seq));
    best.sort_unstable_by(order);
    best.truncate(most);
    // Nothing fits where what is found could as well be chance.
    let knows = |hit: &Hit| {
        let words = texts.place(hit.seq).map(|place| texts.words(place));
        question.tells_apart(words.unwrap_or_default(), texts.len())
    };
    if recall.least > 0.0 && !best.iter().any(knows) {
        best.clear();
    }
    let top = best.iter().map(|hit| hit.score).fold(0.0, f32::max);
    let top_fit = offered.values().copied().fold(0.0, f32::max);
    let mut hits: BTreeMap<u64, Hit> = BTreeMap::new();
    for hit in best {
        hits.insert(hit.seq, Hit { rank: hit.score / top, ..hit });
    }
    for (seq, fit) in offered.iter().filter(|(seq, _)| may_send(**seq)) {
        let hit = hits.entry(*seq).or_insert(Hit { seq: *seq, rank: 0.0, score: 0.0 });
        (hit.rank, hit.score) = (hit.rank + fit / top_fit, hit.score + fit);
    }
    for hit in hits.values().copied().collect::<Vec<_>>() {
        for around in neighbours(recall, texts, &scores, hit) {
            if may_send(around.seq) {
                let hit = hits.entry(around.seq).or_insert(around);
                hit.rank = hit.rank.max(around.rank);
            }
        }
    }
    rank_answers(texts, &scores, &answers, &mut hits);
    hits.retain(|seq, _| may_send(*seq));
    let mut hits: Vec<Hit> = hits.into_values().collect();
    hits.sort_unstable_by(order);
    hits.truncate(most);
    hits
}

fn hit(texts: Texts<'_>, scores: &Scores, place: usize) -> Hit {
    let score = scores.scores.get(place).copied().unwrap_or_default();
    Hit { seq: texts.position(place), rank: score, score }
}

/// Returns the places of the messages that say the question itself, in order: their words are its
/// words, whatever their case and endings are.
fn copies(texts: Texts<'_>, question: &Question, asks: Option<usize>) -> Vec<usize> {
    // With the name of the speaker, where it is a message.
    let own = asks.map_or(&*question.text, |place| texts.words(place));
    if own.is_empty() || own.len() > LONGEST_COPY {
        return Vec::new();
    }
    let same = texts.iter().enumerate().filter(|(_, words)| *words == own);
    same.map(|(place, _)| place).filter(|place| Some(*place) != asks).collect()
}

/// Returns what stands around a hit: the closer, and the more it leans on the hit, the better.
fn neighbours(recall: &Recall, texts: Texts<'_>, scores: &Scores, of: Hit) -> Vec<Hit> {
    let Some(place) = texts.place(of.seq) else { return Vec::new() };
    let mut found = Vec::new();
    for away in 1..=recall.neighbours as usize {
        for (near, part) in [(place.checked_sub(away), BEFORE), (Some(place + away), BEHIND)] {
            let Some(near) = near.filter(|near| *near < texts.len()) else { continue };
            let leans = scores.kinship * leaning(texts.words(near).len() as f32);
            let rank = of.rank * part * leans / away as f32;
            if rank > 0.0 {
                found.push(Hit { rank, ..hit(texts, scores, near) });
            }
        }
    }
    found
}

/// Puts what was answered to earlier copies of the question in line, of equal answers the newest,
/// and each behind other hits that fit half as well as the one before: however often a question was
/// asked, what answers it elsewhere finds room.
fn rank_answers(
    texts: Texts<'_>,
    scores: &Scores,
    places: &[usize],
    hits: &mut BTreeMap<u64, Hit>,
) {
    let mut said = HashSet::new();
    let mut answers = Vec::new();
    for place in places.iter().rev().filter(|place| **place < texts.len()) {
        let new = hit(texts, scores, *place);
        let known = hits.remove(&new.seq).map_or(0.0, |known| known.rank);
        if said.insert(texts.words(*place)) {
            answers.push(Hit { rank: known.max(BEHIND), ..new });
        }
    }
    answers.sort_by(|a, b| b.rank.total_cmp(&a.rank));
    for (before, answer) in answers.into_iter().enumerate() {
        hits.insert(answer.seq, Hit { rank: answer.rank / (before + 1) as f32, ..answer });
    }
}

/// The part of a hit's rank by which the messages before and behind it stand in line: an answer
/// more often tells what is sought than a question.
const BEFORE: f32 = 0.6;
const BEHIND: f32 = 0.9;
/// The most words of a question whose copies are looked for: another is a page that was pasted.
const LONGEST_COPY: usize = 400;
