//! Counts the questions that have all their evidence in the prompt: by the tail of a conversation
//! alone, and by half tail and half recall in the same budget.
//!
//! ```text
//! cargo run --release --example recall_bench                     generated conversations
//! cargo run --release --example recall_bench -- locomo10.json    those of snap-research/locomo
//! ```
//!
//! "In the prompt" does not say that a model answers right, only that it could.

#[path = "recall_bench/generated.rs"]
mod generated;
#[path = "recall_bench/locomo.rs"]
mod locomo;

use std::collections::BTreeMap;

use generated::{Conversation, ask};

type Outcome = Result<(), Box<dyn std::error::Error>>;

fn main() -> Outcome {
    match std::env::args().nth(1) {
        Some(path) => of_locomo(&locomo::read(&std::fs::read_to_string(path)?)?),
        None => of_generated(&generated::all(24)),
    }
}

fn of_generated(conversations: &[Conversation]) -> Outcome {
    println!("questions with all evidence in a prompt of 1,000 tokens, in %\n");
    println!(
        "| language | kind | questions | tail | half tail, half recall |\n|---|---|--:|--:|--:|"
    );
    for conversation in conversations {
        let found = by_kind([conversation], 1000)?;
        for (kind, counts) in found {
            println!("| {} | {kind} {}", conversation.name, row(counts));
        }
    }
    Ok(())
}

fn of_locomo(conversations: &[Conversation]) -> Outcome {
    println!("questions with all evidence in the prompt, in %\n");
    println!(
        "| tokens | kind | questions | tail | half tail, half recall |\n|--:|---|--:|--:|--:|"
    );
    for budget in [1000, 4000] {
        let found = by_kind(conversations, budget)?;
        let mut all = [0; 3];
        for (kind, counts) in found {
            println!("| {budget} | {kind} {}", row(counts));
            all = std::array::from_fn(|i| all[i] + counts[i]);
        }
        println!("| {budget} | all {}", row(all));
    }
    Ok(())
}

/// Returns for each kind of question how many are found by the tail, with recall, and of how many.
fn by_kind<'a>(
    conversations: impl IntoIterator<Item = &'a Conversation>,
    budget: usize,
) -> memory_prompt::Result<BTreeMap<&'static str, [usize; 3]>> {
    let mut found = BTreeMap::<_, [usize; 3]>::new();
    for conversation in conversations {
        for question in &conversation.questions {
            let [tail, recall] = ask(conversation, question, budget)?;
            let counts = found.entry(question.kind).or_default();
            for (count, more) in counts.iter_mut().zip([tail, recall, true]) {
                *count += usize::from(more);
            }
        }
    }
    Ok(found)
}

#[expect(clippy::cast_precision_loss, reason = "a few thousand questions")]
fn row([tail, recall, all]: [usize; 3]) -> String {
    let percent = |n: usize| 100.0 * n as f64 / all.max(1) as f64;
    format!("| {all} | {:.1} | {:.1} |", percent(tail), percent(recall))
}
