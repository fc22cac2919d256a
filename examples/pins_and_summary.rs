//! Keeps in the prompt what the window has passed: a pinned message, a summary of what is old, and
//! an older message that fits the question.
//!
//! Run it with `cargo run --example pins_and_summary`.

use std::io;

use memory_prompt::summary::{Compaction, CompactionPolicy};
use memory_prompt::{DefaultChatMemory, MemoryPrompt, Message, Recall, Result};

fn main() -> Result<()> {
    let mut prompt = MemoryPrompt::new(DefaultChatMemory::new())
        .system("You plan a journey.")
        .max_messages(4)
        .with_pins()
        .with_summary()
        .recall(Recall::words().tokens(200));

    let allergy = prompt.add(Message::user("I am allergic to nuts."))?;
    prompt.pin(allergy)?;
    prompt.add(Message::user("My sister Ada lives in Oslo."))?;
    for day in 1..=20 {
        prompt.add(Message::user(format!("Plan day {day}.")))?;
        prompt.add(Message::ai(format!("Day {day} is planned.")))?;
    }

    // Here a model of yours would write the text, see `conversation::ModelSummarizer`.
    let summarizer = |due: &Compaction| {
        Ok::<_, io::Error>(format!("{} messages: a journey is planned.", due.records.len()))
    };
    // The newest 4 or more are kept; older ones are due as soon as there are 8.
    let policy = CompactionPolicy::messages(4, 8)?;
    while prompt.compact(&policy, &summarizer)? {}

    prompt.add(Message::user("Where does my sister live?"))?;
    let built = prompt.build()?;
    for message in &built {
        println!("{:<10} {}", message.role(), message.text());
    }
    println!("\n{}", built.report());
    Ok(())
}
