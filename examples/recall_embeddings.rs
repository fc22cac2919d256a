//! Recalls older messages by vectors, beside those that words find.
//!
//! The vectors are made of groups of letters, with weights that are learned from the conversation,
//! so that this runs without a model and without a network; put your model's in their place. They
//! find what differs by a typing error or an ending, which words do not, and no more: no group of
//! letters leads from "felines" to "kittens".
//!
//! Run it with `cargo run --example recall_embeddings`.

#[path = "recall_bench/letters.rs"]
mod letters;

use std::collections::HashMap;
use std::sync::{Arc, Mutex};

use letters::Letters;
use memory_prompt::memory::MemoryId;
use memory_prompt::recall::{Candidate, Candidates};
use memory_prompt::{ChatMemoryExt, DefaultChatMemory, MemoryPrompt, Message, Recall, Result};

/// The vectors of each conversation. An application keeps them beside its memory.
#[derive(Default)]
struct Vectors(Mutex<HashMap<MemoryId, Letters>>);

impl Vectors {
    fn add(&self, id: &MemoryId, position: u64, text: &str) {
        if let Ok(mut known) = self.0.lock() {
            known.entry(id.clone()).or_default().add(position, text);
        }
    }
}

impl Candidates for Vectors {
    fn candidates(&self, id: &MemoryId, query: &str, n: usize) -> Result<Vec<Candidate>> {
        let Ok(mut known) = self.0.lock() else { return Ok(Vec::new()) };
        let Some(letters) = known.get_mut(id) else { return Ok(Vec::new()) };
        letters.learn();
        Ok(letters.closest(query, n))
    }
}

fn main() -> Result<()> {
    let vectors = Arc::new(Vectors::default());
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
    Ok(prompt.preview()?.report().recalled.iter().map(|it| it.position).collect())
}
