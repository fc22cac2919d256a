//! What the README claims about speed, measured: ratios inside one run, one line a claim.
//!
//! `cargo bench --bench claims` measures; with `-- --quick` it only shows that it runs.

#![allow(clippy::unwrap_used, clippy::expect_used, missing_docs)] // a bench that panics has failed
#![allow(clippy::cast_precision_loss)] // nanoseconds and bytes are far below 2^53

use std::hint::black_box;
use std::time::Instant;

use memory_prompt::token::Estimate;
use memory_prompt::{
    AiMessage, ChatMemoryExt, Composer, DefaultChatMemory, MemoryPrompt, Message, Snapshot,
    TokenCounter, TokenWindowChatMemory, ToolCall, Truncate, Window, wire,
};
use unicode_segmentation::UnicodeSegmentation;

/// How long one run of each kind may take, and how many runs there are: many runs that are shorter
/// than the system's time slices, so that what else runs on the machine falls on few of them.
struct Effort {
    runs: usize,
    nanos: u128,
    large: u64,
}

fn main() {
    let quick = std::env::args().any(|arg| arg == "--quick" || arg == "--test");
    let effort = if quick {
        Effort { runs: 3, nanos: 1_000_000, large: 10_000 }
    } else {
        Effort { runs: 301, nanos: 1_000_000, large: 1_000_000 }
    };
    build_is_flat(&effort);
    build_allocates_little();
    messages_are_small(&effort);
    cutting_is_fast(&effort);
    appends_recount_nothing(&effort);
    writing_json_is_free(&effort);
}

fn remember(n: u64) -> DefaultChatMemory {
    let memory = DefaultChatMemory::new();
    for i in 0..n {
        let text = format!("message {i:0>292}");
        memory.add(if i % 2 == 0 { Message::user(text) } else { Message::ai(text) }).unwrap();
    }
    memory
}

fn build_is_flat(effort: &Effort) {
    let prompt = |n| MemoryPrompt::new(remember(n)).system("You are a terse assistant.");
    let (small, large) = (prompt(100), prompt(effort.large));
    let build = |prompt: &MemoryPrompt| drop(black_box(prompt.preview().unwrap()));
    let [small, large] = measure(effort, [&|| build(&small), &|| build(&large)]);
    at_most("build of 1,000,000 stored / of 100 stored", large / small, 1.2);
    println!("      (the last 10 of {}: {large:.0} ns)", effort.large);
}

fn build_allocates_little() {
    let prompt = MemoryPrompt::new(remember(1000)).system("You are a terse assistant.");
    drop(prompt.preview());
    let cost = allocation_counter::measure(|| drop(black_box(prompt.preview())));
    at_most("allocations of a build of the last 10", cost.count_total as f64, 2.0);
}

fn messages_are_small(effort: &Effort) {
    let mut memory = None;
    let cost = allocation_counter::measure(|| memory = Some(remember(effort.large)));
    let per_message = cost.bytes_current as f64 / effort.large as f64;
    at_most("bytes a stored message of 300 characters", per_message, 400.0);
    drop(memory);
}

fn cutting_is_fast(effort: &Effort) {
    for (name, text, goal) in [
        ("ASCII", "The quick brown fox jumps over the lazy dog. ", 100.0),
        ("Chinese", "春眠不觉晓处处闻啼鸟夜来风雨声花落知多少", 8.0),
    ] {
        let text: String = text.chars().cycle().take(20_000).collect();
        let message = Message::user(text.as_str());
        let truncate = Truncate::default();
        let by_hand = text.grapheme_indices(true).nth(1000).map(|(end, _)| &text[..end]);
        assert_eq!(by_hand, truncate.shorten(&message).as_ref().map(|m| m.text()).as_deref());
        let [ours, walk] = measure(
            effort,
            [&|| drop(black_box(truncate.shorten(black_box(&message)))), &|| {
                _ = black_box(black_box(&text).grapheme_indices(true).nth(1000));
            }],
        );
        at_least(&format!("{name} cut to 1000: walk of graphemes / ours"), walk / ours, goal);
    }
    let composer = {
        let mut composer = Composer::new();
        composer.window(Window::last(10));
        composer
    };
    let short =
        Snapshot::from_messages((0..10).map(|i| Message::user(format!("message {i:0>292}"))));
    let mut cutting = composer.clone();
    cutting.truncate(Truncate::default());
    let [off, on] = measure(
        effort,
        [&|| drop(black_box(composer.compose(&short, &[]))), &|| {
            drop(black_box(cutting.compose(&short, &[])));
        }],
    );
    println!("      (10 short messages: {off:.0} ns, with truncation on {on:.0} ns)");
}

fn appends_recount_nothing(effort: &Effort) {
    for (name, text) in [
        ("300 characters", "The quick brown fox jumps over the lazy dog. ".repeat(7)),
        ("20 characters", "How far is the moon?".to_owned()),
    ] {
        let message = Message::user(text);
        let limit = 1000 * Estimate.count(&message).unwrap();
        let memory = TokenWindowChatMemory::new(DefaultChatMemory::new(), limit, Estimate).unwrap();
        memory.add_all(vec![message.clone(); 2000]).unwrap();
        let window = memory.all().unwrap();
        assert_eq!(window.len(), 1000);
        let recount =
            || window.messages().map(|message| Estimate.count(message).unwrap()).sum::<usize>();
        assert_eq!(recount(), limit);
        let [recount, append] = measure(
            effort,
            [&|| _ = black_box(recount()), &|| _ = black_box(memory.add(message.clone()).unwrap())],
        );
        assert_eq!(memory.memory().all().unwrap().len(), 1000);
        let claim = "append to a token window of 1,000 messages: recount / append";
        at_least(&format!("{claim} ({name})"), recount / append, 100.0);
        println!("      (append {append:.0} ns)");
    }
}

fn writing_json_is_free(effort: &Effort) {
    // Both spend most of their time in the same escaping, so the difference is small.
    let effort = &Effort { runs: effort.runs * 15, nanos: effort.nanos / 20, ..*effort };
    let plain = (0..100).map(|i| {
        let text = format!("message {i:0>292}");
        if i % 2 == 0 { Message::user(text) } else { Message::ai(text) }
    });
    // Short texts with calls between them: nothing hides what a message costs.
    let tools = (0..25).flat_map(|i| {
        let id = format!("call_{i}");
        let call = ToolCall::new(id.as_str(), "weather", r#"{"city": "Oslo", "day": 2}"#);
        [
            Message::user("What is the weather in Oslo?\nThe day after tomorrow."),
            AiMessage::from_parts([call]).into(),
            Message::tool(id, "weather", "sunny, 21 °C"),
            Message::ai("It will be \"sunny\" at 21 °C."),
        ]
    });
    let mut composer = Composer::new();
    composer.window(Window::last(100));
    for (name, snapshot) in
        [("plain", Snapshot::from_messages(plain)), ("tools", Snapshot::from_messages(tools))]
    {
        let prompt = composer.compose_all(&snapshot, &[]).unwrap();
        assert_eq!(prompt.len(), 100);
        let ready = serde_json::to_value(wire::openai::messages(&prompt)).unwrap();
        let view = || wire::openai::messages(black_box(&prompt));
        let [ours, value] = measure(
            effort,
            [&|| drop(black_box(serde_json::to_vec(&view()))), &|| {
                drop(black_box(serde_json::to_vec(black_box(&ready))));
            }],
        );
        let claim = format!("100 messages ({name}) to OpenAI's JSON / the same from a ready Value");
        at_most(&claim, ours / value, 1.0);
        println!("      ({ours:.0} ns / {value:.0} ns)");
    }
}

/// Nanoseconds a call of each, taken in turn: medians over the runs.
fn measure<const N: usize>(effort: &Effort, work: [&dyn Fn(); N]) -> [f64; N] {
    let calls = work.map(|work| {
        let mut calls = 1;
        loop {
            let start = Instant::now();
            (0..calls).for_each(|_| work());
            if start.elapsed().as_nanos() >= effort.nanos {
                return calls;
            }
            calls *= 2;
        }
    });
    let mut times: [Vec<f64>; N] = std::array::from_fn(|_| Vec::new());
    for _ in 0..effort.runs {
        for i in 0..N {
            let start = Instant::now();
            (0..calls[i]).for_each(|_| work[i]());
            times[i].push(start.elapsed().as_nanos() as f64 / f64::from(calls[i]));
        }
    }
    times.map(|mut times| {
        times.sort_by(f64::total_cmp);
        times[times.len() / 2]
    })
}

fn at_most(name: &str, measured: f64, goal: f64) {
    report(name, measured, "at most", goal, measured <= goal);
}

fn at_least(name: &str, measured: f64, goal: f64) {
    report(name, measured, "at least", goal, measured >= goal);
}

fn report(name: &str, measured: f64, sense: &str, goal: f64, reached: bool) {
    let verdict = if reached { "ok" } else { "SHORT" };
    println!("claim {name}: measured {measured:.2} goal {sense} {goal} {verdict}");
}
