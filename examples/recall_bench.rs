//! Counts the questions that have all their evidence in the prompt: by the tail of a conversation
//! alone, by half tail and half plain BM25, by half tail and half recall in the same budget, and by
//! recall with vectors of letters beside the words.
//!
//! ```text
//! cargo run --release --example recall_bench                     generated conversations
//! cargo run --release --example recall_bench -- locomo10.json    those of snap-research/locomo
//! ```
//!
//! Other sets are read in the same layout; a number behind the file asks each so many-th question
//! only. A question may have `candidates`, the finds of a model of your own in place of the letters':
//! `[["D1:3", 0.62], ..]`. "In the prompt" does not say that a model answers right, only that it could. Where messages
//! are long, a second number counts a passage of a message for it.

#[path = "recall_bench/generated.rs"]
mod generated;
#[path = "recall_bench/letters.rs"]
mod letters;
#[path = "recall_bench/locomo.rs"]
mod locomo;
#[path = "recall_bench/plain.rs"]
mod plain;
#[path = "recall_bench/vectors.rs"]
mod vectors;

use std::collections::BTreeMap;

use generated::{Conversation, ask};
use letters::Letters;

type Outcome = Result<(), Box<dyn std::error::Error>>;

fn main() -> Outcome {
    let mut arguments = std::env::args().skip(1);
    let Some(path) = arguments.next() else {
        let mut all = generated::all(24);
        all.push(generated::strewn(1500));
        return all.iter().try_for_each(|conversation| {
            print(conversation.name, std::slice::from_ref(conversation), 1, &[1000])
        });
    };
    let step = arguments.next().map_or(Ok(1), |step| step.parse())?;
    let name = std::path::Path::new(&path).file_stem().unwrap_or_default().to_string_lossy();
    print(&name, &locomo::read(&std::fs::read_to_string(&path)?)?, step, &[1000, 4000])
}

fn print(name: &str, conversations: &[Conversation], step: usize, budgets: &[usize]) -> Outcome {
    println!("\n{name}: questions with all evidence in the prompt, in % (passages count)\n");
    println!(
        "| tokens | kind | questions | tail | plain BM25 | recall | with vectors |\n\
         |--:|---|--:|--:|--:|--:|--:|"
    );
    for budget in budgets {
        let mut all = [0; COUNTS];
        for (kind, counts) in by_kind(conversations, step, *budget)? {
            println!("| {budget} | {kind} {}", row(counts));
            all = std::array::from_fn(|i| all[i] + counts[i]);
        }
        println!("| {budget} | all {}", row(all));
    }
    Ok(())
}

/// What is counted: of how many questions it is asked, and how many are found by the tail, and whole
/// and in part by plain BM25, by recall, and by recall with vectors.
const COUNTS: usize = 8;

fn by_kind(
    conversations: &[Conversation],
    step: usize,
    budget: usize,
) -> memory_prompt::Result<BTreeMap<&str, [usize; COUNTS]>> {
    let mut found = BTreeMap::<_, [usize; COUNTS]>::new();
    for conversation in conversations {
        let mut letters = Letters::default();
        for (position, (_, message)) in (0..).zip(&conversation.messages) {
            letters.add(position, &message.text());
        }
        letters.learn();
        for question in conversation.questions.iter().step_by(step) {
            let [tail, whole, part] = ask(conversation, question, budget)?;
            let [both, both_part] = vectors::ask(conversation, &letters, question, budget)?;
            let [plain, plain_part] = plain::ask(conversation, question, budget)?;
            let counts = found.entry(&*question.kind).or_default();
            let new = [true, tail, plain, plain_part, whole, part, both, both_part];
            counts.iter_mut().zip(new).for_each(|(count, more)| *count += usize::from(more));
        }
    }
    Ok(found)
}

#[expect(clippy::cast_precision_loss, reason = "a few thousand questions")]
fn row([all, tail, counts @ ..]: [usize; COUNTS]) -> String {
    let percent = |n: usize| format!("{:.1}", 100.0 * n as f64 / all.max(1) as f64);
    let mut row = format!("| {all} | {} |", percent(tail));
    for both in counts.chunks(2) {
        let (whole, part) = (both[0], both[1]);
        let more = if part > whole { format!(" ({})", percent(part)) } else { String::new() };
        for piece in [" ", &percent(whole), &more, " |"] {
            row.push_str(piece);
        }
    }
    row
}
