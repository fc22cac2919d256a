//! Recalls older messages by embeddings, beside those that words find.
//!
//! The vectors here are made by hashing groups of letters, so that this runs without a model; put
//! your model's in their place. They find what differs by a typing error, which words do not.

use std::collections::HashMap;
use std::hash::{DefaultHasher, Hash, Hasher};
use std::sync::Mutex;

use memory_prompt::memory::MemoryId;
use memory_prompt::recall::{Candidate, Candidates};
use memory_prompt::{ChatMemoryExt, DefaultChatMemory, MemoryPrompt, Message, Recall, Result};

/// The vectors of a conversation, by position.
type ByPosition = Vec<(u64, Vec<f32>)>;

/// The vectors of each conversation. An application keeps them beside its memory.
#[derive(Default)]
struct Vectors(Mutex<HashMap<MemoryId, ByPosition>>);

impl Vectors {
    fn add(&self, id: &MemoryId, seq: u64, text: &str) {
        if let Ok(mut known) = self.0.lock() {
            known.entry(id.clone()).or_default().push((seq, embed(text)));
        }
    }
}

impl Candidates for Vectors {
    fn candidates(&self, id: &MemoryId, query: &str, n: usize) -> Result<Vec<Candidate>> {
        let asked = embed(query);
        let Ok(known) = self.0.lock() else { return Ok(Vec::new()) };
        let known = known.get(id).map_or(&[][..], Vec::as_slice);
        let fit = |vector: &[f32]| vector.iter().zip(&asked).map(|(a, b)| a * b).sum();
        let all = known.iter().map(|(seq, vector)| Candidate { seq: *seq, fit: fit(vector) });
        let mut close: Vec<_> = all.filter(|it| it.fit > 0.15).collect();
        close.sort_by(|a, b| b.fit.total_cmp(&a.fit));
        close.truncate(n);
        Ok(close)
    }
}

/// Returns a vector of length 1: which groups of three letters a text has.
fn embed(text: &str) -> Vec<f32> {
    let letters: Vec<char> = text.to_lowercase().chars().filter(|c| c.is_alphanumeric()).collect();
    let mut vector = vec![0.0_f32; 512];
    for group in letters.windows(3) {
        let mut hasher = DefaultHasher::new();
        group.hash(&mut hasher);
        let place = usize::try_from(hasher.finish() % 512).unwrap_or_default();
        if let Some(place) = vector.get_mut(place) {
            *place += 1.0;
        }
    }
    let length = vector.iter().map(|it| it * it).sum::<f32>().sqrt().max(1.0);
    vector.into_iter().map(|it| it / length).collect()
}

fn main() -> Result<()> {
    let vectors = std::sync::Arc::new(Vectors::default());
    let memory = DefaultChatMemory::with_id("support:u1001");
    let said = ["The chandelier in the hall is broken.", "I shall send an electrician."];
    let chatter = (0..40).map(|i| format!("Nothing else happened on day {i}."));
    for text in said.into_iter().map(str::to_owned).chain(chatter) {
        vectors.add(&"support:u1001".into(), memory.add(Message::user(&*text))?, &text);
    }
    memory.add(Message::user("Who repairs my chandeleir?"))?;

    let mut prompt = MemoryPrompt::new(memory).max_messages(1).recall(Recall::words());
    let words = positions(&prompt)?;
    println!("words alone: {words:?}");
    assert!(!words.contains(&0));
    prompt.set_recall(Recall::words().candidates(vectors));
    let both = positions(&prompt)?;
    println!("with vectors: {both:?}");
    println!("\n{}", prompt.build()?[1].text());
    assert!(both.contains(&0));
    Ok(())
}

fn positions(prompt: &MemoryPrompt) -> Result<Vec<u64>> {
    Ok(prompt.preview()?.report().recalled.iter().map(|it| it.seq).collect())
}
