//! Plain BM25, to compare with: whole words, `k1` 1.2, `b` 0.75, each message by itself.

use std::collections::HashMap;

use memory_prompt::Result;
use memory_prompt::token::{Estimate, TokenCounter};

use crate::generated::{Conversation, Question};

/// Returns whether all evidence is in half of the budget of tail, and half of what BM25 finds: whole,
/// and where a passage of 600 characters counts for a longer message.
pub(crate) fn ask(
    conversation: &Conversation,
    question: &Question,
    budget: usize,
) -> Result<[bool; 2]> {
    let texts: Vec<String> =
        conversation.messages.iter().map(|(_, message)| message.text().into_owned()).collect();
    let mut left = budget.saturating_sub(Estimate.count_text(&question.text)? + 20);
    let mut sent: HashMap<usize, bool> = HashMap::new();
    let mut tail = texts.len();
    while let Some(text) = tail.checked_sub(1).and_then(|place| texts.get(place)) {
        let tokens = Estimate.count_text(text)? + 5;
        if left < tokens + budget / 2 {
            break;
        }
        left -= tokens;
        tail -= 1;
        sent.insert(tail, true);
    }
    for place in ranked(&texts[..tail], &question.text) {
        let passage: String = texts[place].chars().take(600).collect();
        let tokens = Estimate.count_text(&passage)? + 8; // its position, role and date
        if tokens <= left {
            left -= tokens;
            sent.insert(place, passage.len() == texts[place].len());
        }
    }
    let places = || question.evidence.iter().filter_map(|position| usize::try_from(*position).ok());
    let whole = places().all(|place| sent.get(&place) == Some(&true));
    Ok([whole, places().all(|place| sent.contains_key(&place))])
}

#[expect(clippy::cast_precision_loss, reason = "a few thousand messages")]
fn ranked(texts: &[String], question: &str) -> Vec<usize> {
    let words = |text: &str| -> Vec<String> {
        let words = text.split(|c: char| !c.is_alphanumeric()).filter(|word| !word.is_empty());
        words.map(str::to_lowercase).collect()
    };
    let all: Vec<Vec<String>> = texts.iter().map(|text| words(text)).collect();
    let average = all.iter().map(Vec::len).sum::<usize>() as f32 / all.len().max(1) as f32;
    let mut scores = vec![0.0_f32; all.len()];
    let mut asked = words(question);
    asked.sort_unstable();
    asked.dedup();
    for word in asked {
        let times = |text: &Vec<String>| text.iter().filter(|it| **it == word).count() as f32;
        let times: Vec<f32> = all.iter().map(times).collect();
        let having = times.iter().filter(|times| **times > 0.0).count() as f32;
        let rarity = ((all.len() as f32 - having + 0.5) / (having + 0.5)).ln_1p();
        for ((score, times), text) in scores.iter_mut().zip(times).zip(&all) {
            let long = 1.0 - 0.75 + 0.75 * text.len() as f32 / average;
            *score += rarity * times * 2.2 / (times + 1.2 * long);
        }
    }
    let mut places: Vec<usize> = (0..all.len()).filter(|place| scores[*place] > 0.0).collect();
    places.sort_by(|a, b| scores[*b].total_cmp(&scores[*a]));
    places
}
