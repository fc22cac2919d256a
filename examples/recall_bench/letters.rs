//! A model of a few lines that runs anywhere: texts that have the same rare groups of letters are
//! close. What is rare it learns from the conversation.

use std::collections::HashMap;
use std::hash::{DefaultHasher, Hash, Hasher};

use memory_prompt::recall::Candidate;

/// The texts of a conversation by their groups of letters.
#[derive(Debug, Default)]
pub(crate) struct Letters {
    texts: Vec<(u64, HashMap<u64, f32>)>,
    /// The number of texts that have each group.
    having: HashMap<u64, f32>,
    /// The length of each text's vector.
    lengths: Vec<f32>,
}

impl Letters {
    /// Adds the text of the message at this position.
    pub(crate) fn add(&mut self, position: u64, text: &str) {
        let groups = groups(text);
        for group in groups.keys() {
            *self.having.entry(*group).or_default() += 1.0;
        }
        self.texts.push((position, groups));
    }

    /// Learns from all texts how much each group weighs: the more the fewer of them have it.
    pub(crate) fn learn(&mut self) {
        let texts = self.texts.iter().map(|(_, groups)| self.length(groups));
        self.lengths = texts.collect();
    }

    /// Returns up to `n` messages that are closest to a question, with the cosine as their fit.
    pub(crate) fn closest(&self, question: &str, n: usize) -> Vec<Candidate> {
        let asked = groups(question);
        let length = self.length(&asked);
        let fit = |text: &HashMap<u64, f32>, other: f32| -> f32 {
            let both =
                asked.iter().filter_map(|(group, times)| Some((group, times, text.get(group)?)));
            let both = both.map(|(group, a, b)| a * b * self.rarity(*group).powi(2));
            both.sum::<f32>() / (length * other)
        };
        let all = self.texts.iter().zip(&self.lengths);
        let all = all.map(|((position, text), other)| Candidate {
            position: *position,
            fit: fit(text, *other),
        });
        let mut close: Vec<_> = all.filter(|it| it.fit > 0.0).collect();
        close.sort_by(|a, b| b.fit.total_cmp(&a.fit));
        close.truncate(n);
        close
    }

    fn rarity(&self, group: u64) -> f32 {
        #[expect(clippy::cast_precision_loss, reason = "a few thousand texts")]
        let all = self.texts.len() as f32;
        (all / self.having.get(&group).unwrap_or(&1.0)).ln()
    }

    fn length(&self, groups: &HashMap<u64, f32>) -> f32 {
        let weights = groups.iter().map(|(group, times)| (times * self.rarity(*group)).powi(2));
        weights.sum::<f32>().sqrt().max(f32::MIN_POSITIVE)
    }
}

/// Returns how much each group of three to five letters counts in a text, with the ends of words:
/// more where it comes again, but not as often.
fn groups(text: &str) -> HashMap<u64, f32> {
    let mut groups: HashMap<u64, f32> = HashMap::new();
    for word in text.to_lowercase().split(|c: char| !c.is_alphanumeric()) {
        let letters: Vec<char> = [' '].into_iter().chain(word.chars()).chain([' ']).collect();
        for group in (3..=5).flat_map(|n| letters.windows(n)) {
            let mut hasher = DefaultHasher::new();
            group.hash(&mut hasher);
            *groups.entry(hasher.finish()).or_default() += 1.0;
        }
    }
    for times in groups.values_mut() {
        *times = times.ln_1p();
    }
    groups
}
