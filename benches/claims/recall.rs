//! Recall costs little: a prompt with it, its index, and a prompt that does not use it.

use std::time::Instant;

use memory_prompt::memory::Append;
use memory_prompt::{ChatMemory, DefaultChatMemory, MemoryPrompt, Message, Recall};

use crate::harness::{Claims, Pace, grouped};

/// Texts of 16 to 25 words: a few words stand everywhere, and many are rare, as in what people say.
fn texts(n: usize) -> impl Iterator<Item = String> {
    let mut random = 0x9e37_79b9_7f4a_7c15_u64;
    let mut next = move || {
        random ^= random << 13;
        random ^= random >> 7;
        random ^= random << 17;
        random >> 11
    };
    (0..n).map(move |_| {
        let words = 16 + next() % 10;
        let word = |next: &mut dyn FnMut() -> u64| {
            // Each power of two of words is as likely as any other: Zipf's law.
            let power = next() % 16;
            let number = (1 << power) + next() % (1 << power);
            let letters = "etaoinshrdlucmfw".as_bytes();
            let letters = (0..2 + power / 3).map(|i| {
                let place = (number.wrapping_mul(0x2545_f491 + i * 0x9e37) >> (8 + i)) % 16;
                char::from(letters[usize::try_from(place).unwrap()])
            });
            letters.collect::<String>()
        };
        (0..words).map(|_| word(&mut next)).collect::<Vec<_>>().join(" ")
    })
}

fn prompt(n: usize) -> (MemoryPrompt, Recall) {
    let memory = DefaultChatMemory::new();
    memory.append_with(&mut Append::new(texts(n).map(Message::user))).unwrap();
    let question = texts(500).last().unwrap_or_default();
    memory.append_with(&mut Append::new([Message::user(question)])).unwrap();
    (MemoryPrompt::new(memory), Recall::words())
}

pub(crate) fn prompts_with_recall_are_quick(claims: &mut Claims) {
    for (n, goal) in [(1000, 1.0), (100_000, 20.0)] {
        let n = if claims.quick { n / 100 } else { n };
        let (prompt, recall) = prompt(n);
        let prompt = prompt.recall(recall.clone());
        let began = Instant::now();
        assert!(!prompt.preview().unwrap().report().recalled.is_empty());
        if n > 10_000 {
            let took = began.elapsed().as_secs_f64();
            let claim = format!("seconds to index {} messages", grouped(n as u64));
            claims.at_most(&claim, took, 2.0);
        }
        if !claims.quick {
            let bytes = recall.index_bytes() as f64;
            let texts: usize = texts(n).map(|text| text.len()).sum();
            let claim = format!("index of {} messages / their texts", grouped(n as u64));
            claims.at_most(&claim, bytes / texts as f64, 1.0);
        }
        let took = median(&prompt, if claims.quick { 3 } else { 51 });
        let claim = format!("milliseconds of a prompt with recall of {}", grouped(n as u64));
        claims.at_most(&claim, took, goal);
    }
}

/// A page that is pasted is searched by the words at both its ends.
pub(crate) fn long_questions_are_quick(claims: &mut Claims) {
    let n = if claims.quick { 1000 } else { 100_000 };
    let (prompt, recall) = prompt(n);
    let question: String = texts(40).collect::<Vec<_>>().join(". ").chars().take(2000).collect();
    assert_eq!(question.len(), 2000);
    prompt.add(Message::user(question)).unwrap();
    let prompt = prompt.recall(recall);
    let took = median(&prompt, if claims.quick { 3 } else { 51 });
    let claim = format!(
        "milliseconds of a prompt with a question of 2,000 characters and recall of {}",
        grouped(n as u64)
    );
    claims.at_most(&claim, took, 20.0);
}

/// A server goes from one user to the next: were an index let go before its user comes again, each
/// prompt would read the whole conversation again.
pub(crate) fn conversations_in_rotation_are_quick(claims: &mut Claims) {
    let (conversations, messages) = if claims.quick { (10, 100) } else { (1000, 1000) };
    let recall = Recall::words();
    let texts: Vec<Message> = texts(messages).map(Message::user).collect();
    let prompts: Vec<MemoryPrompt> = (0..conversations)
        .map(|i| {
            let memory = DefaultChatMemory::with_id(format!("user {i}"));
            memory.append_with(&mut Append::new(texts.clone())).unwrap();
            let prompt = MemoryPrompt::new(memory).recall(recall.clone());
            drop(prompt.preview().unwrap());
            prompt
        })
        .collect();
    let began = Instant::now();
    for prompt in &prompts {
        assert!(!prompt.preview().unwrap().report().recalled.is_empty());
    }
    let took = began.elapsed().as_secs_f64() * 1000.0 / f64::from(conversations);
    let claim = format!(
        "milliseconds of a prompt with recall, {conversations} conversations of {messages} in rotation"
    );
    claims.at_most(&claim, took, 1.0);
    let bytes = texts.iter().map(|it| it.text().len()).sum::<usize>() as f64;
    let all = recall.index_bytes() as f64 / f64::from(conversations);
    claims.at_most("index of each of them / its texts", all / bytes, 1.0);
}

/// Returns the milliseconds of a prompt in the middle of so many.
fn median(prompt: &MemoryPrompt, runs: usize) -> f64 {
    let mut runs: Vec<f64> = (0..runs)
        .map(|_| {
            let began = Instant::now();
            drop(prompt.preview().unwrap());
            began.elapsed().as_secs_f64() * 1000.0
        })
        .collect();
    runs.sort_by(f64::total_cmp);
    runs[runs.len() / 2]
}

/// What is not used costs nothing: a search that has nothing to look for against none at all would
/// say little, so this is a prompt that had recall and has it no more, against one that never had.
pub(crate) fn prompts_without_recall_cost_nothing(claims: &mut Claims) {
    let (never, _) = prompt(1000);
    let (mut once, recall) = prompt(1000);
    once.set_recall(recall);
    once.preview().unwrap();
    once.no_recall();
    let names = ["last 10, recall switched off", "never on"];
    let found =
        claims.compare(Pace::FINE, names, || once.preview().unwrap(), || never.preview().unwrap());
    claims.at_most("build with recall switched off / never on", found.ratio, 1.1);
}
