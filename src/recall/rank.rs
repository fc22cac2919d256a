//! The order in which messages are quoted: the best hits, then their neighbours.

#![expect(clippy::cast_precision_loss, reason = "numbers of messages and words, below 2^24")]

use std::cmp::Ordering;
use std::collections::{BTreeMap, HashSet};

use super::Recall;
use super::found::{Asked, Hit};
use super::index::Index;
use super::question::Question;
use super::score::{leaning, score};

/// Returns the messages that may be quoted, best first: hits by words, and the candidates offered
/// by the application.
///
/// A hit's rank is its score divided by the best score, plus its fit divided by the best fit.
pub(super) fn rank(
    recall: &Recall,
    asked: &Asked,
    index: &Index,
    question: &mut Question,
    offered: &BTreeMap<u64, f32>,
    most: usize,
) -> Vec<Hit> {
    let question_place = asked.question_at.and_then(|position| index.place(position));
    let mut passed_over = copies(index, question, question_place);
    let mut answers = Vec::new();
    if !question.is_remark {
        answers.extend(passed_over.iter().map(|copy| copy + 1));
        passed_over.pop(); // the newest copy counts like any other message
    }
    passed_over.extend(question_place);
    passed_over.sort_unstable();
    let (mut scores, kinship) = score(index, question, &passed_over);
    let sent = asked.excluded.iter().filter_map(|position| index.place(*position));
    for place in sent.chain(passed_over.iter().copied()) {
        scores[place] = 0.0;
    }
    let may_send = |hit: &Hit| {
        let place = index.place(hit.position);
        asked.may_send(hit.position)
            && place.is_none_or(|place| passed_over.binary_search(&place).is_err())
    };
    let held = index.before(asked.held.start)..index.before(asked.held.end);
    let mut best: Vec<Hit> = held.map(|place| hit(index, &scores, place)).collect();
    best.retain(|hit| hit.score > 0.0 && hit.score >= recall.least);
    if best.len() > most {
        best.select_nth_unstable_by(most, order);
        best.truncate(most);
    }
    // Nothing fits if the hits may be chance. A day that the question names is not chance.
    let mut places = best.iter().filter_map(|hit| index.place(hit.position));
    let is_known = |place| question.tells_apart(index.words(place), index.len());
    let top = best.iter().map(|hit| hit.score).fold(0.0, f32::max);
    let is_named = |place| question.days.iter().any(|days| index.is_of(place, days));
    let is_chance = !stands_out(&scores, top) || !places.clone().any(is_known);
    if recall.least > 0.0 && is_chance && !places.any(is_named) {
        best.clear();
    }
    let top_fit = offered.values().copied().fold(0.0, f32::max);
    let ranked = best.into_iter().map(|hit| (hit.position, Hit { rank: hit.score / top, ..hit }));
    let mut hits: BTreeMap<u64, Hit> = ranked.collect();
    for (position, fit) in offered {
        let new = Hit { position: *position, rank: 0.0, score: 0.0 };
        let hit = hits.entry(*position).or_insert(new);
        (hit.rank, hit.score) = (hit.rank + fit / top_fit, hit.score + fit);
    }
    hits.retain(|_, hit| may_send(hit));
    for hit in hits.values().copied().collect::<Vec<_>>() {
        for around in neighbours(index, &scores, hit, kinship, recall.neighbours) {
            let hit = hits.entry(around.position).or_insert(around);
            hit.rank = hit.rank.max(around.rank);
        }
    }
    rank_answers(index, &scores, &answers, &mut hits);
    let mut hits: Vec<Hit> = hits.into_values().filter(may_send).collect();
    hits.sort_unstable_by(order);
    hits.truncate(most);
    hits
}

/// Best first; equal ones newest first.
fn order(a: &Hit, b: &Hit) -> Ordering {
    b.rank.total_cmp(&a.rank).then(b.position.cmp(&a.position))
}

/// Returns whether the best score is not chance: it is further above the mean than the scores of
/// this many messages are if nothing fits.
fn stands_out(scores: &[f32], top: f32) -> bool {
    let all = scores.len() as f32;
    let mean = scores.iter().sum::<f32>() / all;
    let variance = scores.iter().map(|score| (score - mean).powi(2)).sum::<f32>() / all;
    scores.len() < TOLD_APART || top - mean > OUT * variance.sqrt()
}

fn hit(index: &Index, scores: &[f32], place: usize) -> Hit {
    let score = scores.get(place).copied().unwrap_or_default();
    Hit { position: index.position(place), rank: score, score }
}

/// Returns the places of the messages that repeat the question, in order: they have the same words,
/// except for case and endings.
fn copies(index: &Index, question: &Question, question_place: Option<usize>) -> Vec<usize> {
    // If the question is a message, the speaker's name is among its words.
    let own = question_place.map_or(&*question.text, |place| index.words(place));
    if own.is_empty() || own.len() > LONGEST_COPY {
        return Vec::new();
    }
    let same = index.iter().enumerate().filter(|(_, words)| *words == own);
    same.map(|(place, _)| place).filter(|place| Some(*place) != question_place).collect()
}

/// Returns the neighbours of a hit: the closer one is, and the more it leans on the hit, the better
/// its rank.
fn neighbours(index: &Index, scores: &[f32], of: Hit, kinship: f32, most: u32) -> Vec<Hit> {
    let Some(place) = index.place(of.position) else { return Vec::new() };
    let mut found = Vec::new();
    for away in 1..=most as usize {
        for (near, part) in [(place.checked_sub(away), BEFORE), (Some(place + away), BEHIND)] {
            let Some(near) = near.filter(|near| *near < index.len()) else { continue };
            let leans = kinship * leaning(index.words(near).len() as f32);
            let rank = of.rank * part * leans / away as f32;
            if rank > 0.0 {
                found.push(Hit { rank, ..hit(index, scores, near) });
            }
        }
    }
    found
}

/// Ranks the answers to earlier copies of the question: the newest of equal answers first, and each
/// after other hits that fit at least half as well as the one before. So an answer elsewhere finds
/// room, however often the question was asked.
fn rank_answers(index: &Index, scores: &[f32], places: &[usize], hits: &mut BTreeMap<u64, Hit>) {
    let mut said = HashSet::new();
    let mut answers = Vec::new();
    for place in places.iter().rev().filter(|place| **place < index.len()) {
        let new = hit(index, scores, *place);
        let known = hits.remove(&new.position).map_or(0.0, |known| known.rank);
        if said.insert(index.words(*place)) {
            answers.push(Hit { rank: known.max(BEHIND), ..new });
        }
    }
    answers.sort_by(|a, b| b.rank.total_cmp(&a.rank));
    for (before, answer) in answers.into_iter().enumerate() {
        hits.insert(answer.position, Hit { rank: answer.rank / (before + 1) as f32, ..answer });
    }
}

/// From this many messages on, a hit can be distinguished from chance; and the standard deviations
/// above the mean that are needed.
const TOLD_APART: usize = 40;
const OUT: f32 = 2.85;
/// The factor for the rank of the messages before and after a hit: what is sought is more often in
/// an answer than in a question.
const BEFORE: f32 = 0.6;
const BEHIND: f32 = 0.9;
/// The most words of a question whose copies are looked for: a longer one is a pasted page.
const LONGEST_COPY: usize = 400;
