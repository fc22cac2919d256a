//! Composing costs what is sent, allocates twice, and a stored message takes little more than its
//! text.

use std::hint::black_box;

use memory_prompt::record::Snapshot;
use memory_prompt::summary::{Compaction, CompactionPolicy};
use memory_prompt::token::Estimate;
use memory_prompt::{
    Clear, Composer, DefaultChatMemory, MemoryPrompt, Message, Provider, ToolCall, Truncate, Window,
};

use crate::harness::{Claims, Pace, grouped};
use crate::messages::remember;

fn prompt(n: u64) -> MemoryPrompt {
    MemoryPrompt::new(remember(n)).system("You are a terse assistant.")
}

/// Makes so many calls in the shape that is measured.
type Calls<'a> = &'a dyn Fn(usize) -> Vec<Message>;

pub(crate) fn build_is_flat(claims: &mut Claims) {
    let stored = grouped(claims.large());
    let (large, small) = (prompt(claims.large()), prompt(100));
    let names = [&*format!("last 10 of {stored}"), "of 100"];
    let found =
        claims.compare(Pace::FINE, names, || large.preview().unwrap(), || small.preview().unwrap());
    let claim = format!("build of the last 10 of {stored} stored / of 100 stored");
    claims.at_most(&claim, found.ratio, 1.2);
}

/// The question is looked for at most so far before the window, however long the loop is.
pub(crate) fn tool_loops_are_flat(claims: &mut Claims) {
    let looping = |messages: usize| {
        let prompt = MemoryPrompt::new(DefaultChatMemory::new());
        prompt.add(Message::user("Which of these files is the oldest?")).unwrap();
        for i in 0..messages / 2 {
            let id = format!("call_{i}");
            prompt.add(Message::ai_calls([ToolCall::new(&id, "stat", "{}")])).unwrap();
            prompt.add(Message::tool(&id, "stat", "2024-01-01")).unwrap();
        }
        prompt
    };
    let (long, short) = (looping(5_000), looping(50));
    let names = ["default window in a loop of 5,000", "of 50"];
    let found =
        claims.compare(Pace::FINE, names, || long.preview().unwrap(), || short.preview().unwrap());
    claims.at_most("default window in a loop of 5,000 messages / of 50", found.ratio, 1.2);
}

/// A tool loop of so many messages, whose tool says 2,000 characters.
fn reading(messages: usize) -> MemoryPrompt {
    let prompt = MemoryPrompt::new(DefaultChatMemory::new()).window(Window::all());
    prompt.add(Message::user("Which of these files is the oldest?")).unwrap();
    for i in 0..messages / 2 {
        let id = format!("call_{i}");
        prompt.add(Message::ai_calls([ToolCall::new(&id, "read", "{}")])).unwrap();
        prompt.add(Message::tool(&id, "read", "words of a file ".repeat(125))).unwrap();
    }
    prompt
}

/// A placeholder is one copy, and if nothing is cleared nothing is copied.
pub(crate) fn clearing_costs_little(claims: &mut Claims) {
    let never = reading(256);
    let cleared = reading(256).clear(Clear::tool_results());
    let names = ["a loop of 256 messages, cleared", "sent whole"];
    let found = claims.compare(
        Pace::FINE,
        names,
        || cleared.preview().unwrap(),
        || never.preview().unwrap(),
    );
    claims.at_most("a loop of 256 messages, cleared / sent whole", found.ratio, 2.0);
    let mut once = reading(256).clear(Clear::tool_results());
    drop(once.preview().unwrap());
    once.configure(Composer::no_clear);
    let names = ["clearing switched off", "never on"];
    let found =
        claims.compare(Pace::FINE, names, || once.preview().unwrap(), || never.preview().unwrap());
    claims.at_most("build with clearing switched off / never on", found.ratio, 1.1);
}

/// If nobody ever asked, nothing is looked for far and wide.
pub(crate) fn no_question_is_flat(claims: &mut Claims) {
    let stored = grouped(claims.large());
    let unasked = |n: u64| {
        let prompt = MemoryPrompt::new(DefaultChatMemory::new());
        let steps = (0..n / 2).flat_map(|i| {
            let id = format!("call_{i}");
            let call = Message::ai_calls([ToolCall::new(&id, "stat", "{}")]);
            [call, Message::tool(&id, "stat", "2024-01-01")]
        });
        prompt.add_all(steps).unwrap();
        prompt
    };
    let (large, small) = (unasked(claims.large()), unasked(100));
    let names = [&*format!("default window of {stored} without a user"), "of 100"];
    let found =
        claims.compare(Pace::FINE, names, || large.preview().unwrap(), || small.preview().unwrap());
    let claim = format!("default window over {stored} records without a user / over 100");
    claims.at_most(&claim, found.ratio, 1.2);
}

pub(crate) fn build_allocates_little(claims: &mut Claims) {
    let prompt = prompt(1000);
    drop(prompt.preview());
    let cost = allocation_counter::measure(|| drop(black_box(prompt.preview())));
    claims.at_most("allocations of a build of the last 10", cost.count_total as f64, 4.0);
}

pub(crate) fn looking_for_long_messages_is_cheap(claims: &mut Claims) {
    let (on, off) = (prompt(1000).truncate(Truncate::default()), prompt(1000));
    assert_eq!(on.preview().unwrap(), off.preview().unwrap());
    let names = ["last 10, truncation on", "off"];
    let found =
        claims.compare(Pace::FINE, names, || on.preview().unwrap(), || off.preview().unwrap());
    claims.at_most("build with truncation on and nothing to cut / off", found.ratio, 1.6);
}

pub(crate) fn cutting_costs_the_limit(claims: &mut Claims) {
    // A prompt would remember what it has cut; a composer alone cuts it each time.
    let composer = Composer::new().truncate(Truncate::default());
    let cutting = |characters: usize| {
        let history = vec![Message::user("a".repeat(characters)); 10];
        let (composer, history) = (composer.clone(), Snapshot::from_messages(history));
        move || composer.compose_all(&history, &[]).unwrap()
    };
    let (long, short) = (cutting(1_000_000), cutting(2000));
    assert_eq!(long().len(), 10);
    assert!(long().iter().all(|message| message.text().len() == 1000));
    let names = ["10 messages of 1,000,000 characters cut to 1000", "of 2,000"];
    let found = claims.compare(Pace::FINE, names, long, short);
    let claim = "build that cuts 1,000,000 characters to 1000 / 2,000 to 1000";
    claims.at_most(claim, found.ratio, 1.2);
}

pub(crate) fn budget_is_flat(claims: &mut Claims) {
    let stored = grouped(claims.large());
    let budgeted = |n| {
        let prompt = prompt(n).max_tokens(2000, Estimate);
        assert!(prompt.preview().unwrap().len() > 10);
        prompt
    };
    let (large, small) = (budgeted(claims.large()), budgeted(100));
    let names = [&*format!("2,000 tokens of {stored}"), "of 100"];
    let found =
        claims.compare(Pace::FINE, names, || large.preview().unwrap(), || small.preview().unwrap());
    let claim = format!("build of 2,000 tokens of {stored} stored / of 100 stored");
    claims.at_most(&claim, found.ratio, 1.2);
}

pub(crate) fn messages_are_small(claims: &mut Claims) {
    let mut memory = None;
    let cost = allocation_counter::measure(|| memory = Some(remember(claims.large())));
    let bytes = cost.bytes_current as f64 / claims.large() as f64;
    let claim = format!(
        "bytes a message of 300 ASCII characters, {} of them stored",
        grouped(claims.large())
    );
    claims.at_most(&claim, bytes, 400.0);
    drop(memory);
}

/// A prompt that may send pins and a summary, of a conversation that has none, against one that
/// sends neither; and one that sends both, of many messages and of few.
pub(crate) fn pins_and_summaries_cost_little(claims: &mut Claims) {
    let asked_for = prompt(1000).with_pins().with_summary();
    let plain = prompt(1000);
    let names = ["last 10, pins and a summary asked for, none there", "last 10"];
    let found = claims.compare(
        Pace::FINE,
        names,
        || asked_for.preview().unwrap(),
        || plain.preview().unwrap(),
    );
    // Both are kept in slots, which such a build reads by their names: 0.25 µs more.
    claims.at_most("build that may send pins and a summary / plain", found.ratio, 4.0);

    let sending = |n| {
        let prompt = prompt(n).with_pins().with_summary();
        prompt.pin(0).unwrap();
        let policy = CompactionPolicy::messages(10, 20).unwrap();
        let wrote = |_: &Compaction| Ok::<_, std::io::Error>("Much was said.".to_owned());
        assert!(prompt.compact(&policy, &wrote).unwrap());
        prompt
    };
    let stored = grouped(claims.large());
    let (large, small) = (sending(claims.large()), sending(200));
    let names = [&*format!("last 10 with a pin and a summary of {stored}"), "of 200"];
    let found =
        claims.compare(Pace::FINE, names, || large.preview().unwrap(), || small.preview().unwrap());
    let claim = format!("build with a pin and a summary of {stored} stored / of 200 stored");
    claims.at_most(&claim, found.ratio, 1.3);
}

/// Calls whose ids repeat are renamed, and results that came late find their calls: each once.
pub(crate) fn calls_are_linear(claims: &mut Claims) {
    const PACE: Pace = Pace { runs: 15, nanos: 1 };
    let call = |id: &str| ToolCall::new(id, "stat", "{}");
    let result = |id: &str| Message::tool(id, "stat", "2024-01-01");
    let rounds = |calls: usize| -> Vec<Message> {
        let round = || [Message::ai_calls([call("call_0")]), result("call_0")];
        (0..calls).flat_map(|_| round()).collect()
    };
    let at_once = |calls: usize| -> Vec<Message> {
        let results = (0..calls).map(|_| result("call_0"));
        [Message::ai_calls(vec![call("call_0"); calls])].into_iter().chain(results).collect()
    };
    let late = |calls: usize| -> Vec<Message> {
        let id = |i: usize| format!("c{i}");
        let results = (0..calls).rev().map(|i| result(&id(i)));
        (0..calls).map(|i| Message::ai_calls([call(&id(i))])).chain(results).collect()
    };
    let kinds: [(usize, &str, Provider, Calls<'_>); 5] = [
        (10_000, "calls of one id, one an answer, for Anthropic", Provider::Anthropic, &rounds),
        (
            10_000,
            "calls of one id, one an answer, for Responses",
            Provider::OpenAiResponses,
            &rounds,
        ),
        (10_000, "calls of one id in one answer, for OpenAI", Provider::OpenAi, &at_once),
        (10_000, "calls of one id in one answer, for Mistral", Provider::Mistral, &at_once),
        (100_000, "calls, all results late in reverse, for Anthropic", Provider::Anthropic, &late),
    ];
    for (most, name, provider, history) in kinds {
        let most = if claims.quick { 1000 } else { most };
        let build = |calls: usize| {
            let composer = Composer::new().window(Window::all()).for_provider(provider);
            let messages =
                [Message::user("Which is the oldest?")].into_iter().chain(history(calls));
            let snapshot = Snapshot::from_messages(messages);
            move || composer.compose_all(&snapshot, &[]).unwrap()
        };
        let [many, few] = [grouped(most as u64), grouped(most as u64 / 10)];
        let names = [&*format!("{many} {name}"), &*format!("{few} of them")];
        let found = claims.compare(PACE, names, build(most), build(most / 10));
        claims.at_most(&format!("build of {many} {name} / of {few}"), found.ratio, 20.0);
    }
}
