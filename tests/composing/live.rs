//! What stays in memory of messages that are gone: what the window and kept prompts show, and
//! little more. Bytes are counted by the allocator.

#![allow(clippy::unwrap_used, missing_docs)] // a test that panics has failed

use std::collections::HashMap;
use std::hint::black_box;
use std::sync::Arc;
use std::time::UNIX_EPOCH;

use crate::counted::counted;
use crate::lives::Kept as Rows;
use crate::setups::remembering;
use memory_prompt::message::{AiMessage, Media, Part, Reasoning, UserMessage};
use memory_prompt::record::Records;
use memory_prompt::report::Origin;
use memory_prompt::{
    ChatMemory, ChatMemoryExt, DefaultChatMemory, InMemoryStore, MemoryPrompt, Message,
    MessageWindowChatMemory, Prompt, ToolCall, Truncate,
};
use proptest::prelude::*;

const MIB: u64 = 1024 * 1024;

/// The bytes that are live when `work` is done and what it returns is still held. What was made
/// before is not to be freed in it.
fn live<T>(work: impl FnOnce() -> T) -> (T, u64) {
    let mut held = None;
    let cost = allocation_counter::measure(|| held = Some(work()));
    (held.unwrap(), u64::try_from(cost.bytes_current).unwrap())
}

fn text(bytes: usize) -> String {
    "a".repeat(bytes)
}

fn prompt(memory: &Arc<DefaultChatMemory>, n: usize) -> Prompt {
    MemoryPrompt::new(Arc::clone(memory)).max_messages(n).preview().unwrap()
}

/// A window of two over 300 documents of 4 MB held 192 MB where 8 belong: messages lived in blocks
/// of up to 64, and a block lives as long as one of its messages.
#[test]
fn a_window_of_two_large_messages_holds_two() {
    let (memory, bytes) = live(|| {
        let memory = MessageWindowChatMemory::new(DefaultChatMemory::new(), 2).unwrap();
        (0..300).for_each(|_| _ = memory.add(Message::user(text(4 << 20))).unwrap());
        memory
    });
    assert_eq!(memory.all().unwrap().len(), 2);
    assert!(bytes <= 9 * MIB, "{bytes}");
}

/// A prompt of one message that was kept held 252 MB when its conversation was long cleared.
#[test]
fn a_kept_prompt_of_one_message_holds_one() {
    let (kept, bytes) = live(|| {
        let memory = remembering((0..63).map(|_| Message::user(text(4 << 20))));
        memory.add(Message::user("the one")).unwrap();
        let kept = prompt(&memory, 1);
        memory.clear().unwrap();
        kept
    });
    assert_eq!(kept.len(), 1);
    assert!(bytes <= MIB / 4, "{bytes}");
}

/// A prompt remembers what it has cut, for the next build; beside the copies it kept the documents
/// that were cut, long after their conversation was cleared.
#[test]
fn what_was_cut_does_not_hold_what_it_was_cut_from() {
    let (prompt, bytes) = live(|| {
        let memory = remembering((0..10).map(|_| Message::user(text(4 << 20))));
        let mut prompt = MemoryPrompt::new(Arc::clone(&memory)).truncate(Truncate::default());
        assert_eq!(prompt.build().unwrap().report().truncated.len(), 10);
        assert_eq!(prompt.build().unwrap().report().truncated.len(), 10);
        memory.clear().unwrap();
        prompt
    });
    assert!(bytes <= MIB / 4, "{bytes}");
    drop(prompt);
}

/// A database reads rows, which all went into one block: a prompt that sends one of them held them
/// all.
#[test]
fn a_kept_prompt_of_one_row_holds_one() {
    let (kept, bytes) = live(|| {
        let memory = Rows::new("rows");
        memory.add_all((0..30).map(|_| Message::user(text(4 << 20)))).unwrap();
        memory.add(Message::user("the one")).unwrap();
        let words = |text: &str| text.len();
        MemoryPrompt::new(memory).max_tokens(100, words).preview().unwrap()
    });
    assert_eq!(kept.len(), 1);
    assert!(bytes <= MIB / 4, "{bytes}");
}

/// A history of a million short messages is evicted but for two: the list of its blocks is memory
/// too.
#[test]
fn a_long_history_that_is_evicted_leaves_no_list_behind() {
    let (memory, bytes) = live(|| {
        let memory = DefaultChatMemory::new();
        for _ in 0..1000 {
            memory.add_all((0..1000).map(|_| Message::user(""))).unwrap();
        }
        memory.evict(999_998).unwrap();
        memory
    });
    assert_eq!(memory.all().unwrap().len(), 2);
    assert!(bytes <= MIB / 32, "{bytes}");
}

/// Where a message may hold what makes it large.
type Place = (&'static str, fn(String) -> Message);

const PLACES: [Place; 10] = [
    ("user", Message::user),
    ("ai", Message::ai),
    ("tool", |large| Message::tool("c", "look", large)),
    ("part", |large| Message::user([Part::text("see"), Part::text(large)])),
    ("media", |large| Message::user([Part::Image(Media::base64("image/png", large))])),
    ("arguments", |large| Message::ai_calls([ToolCall::new("c", "look", large)])),
    ("signature", |large| {
        AiMessage::new("so").with_reasoning(Reasoning::new("").with_signature(large)).into()
    }),
    ("attribute", |large| AiMessage::new("so").with_attribute("large", large).into()),
    ("nested", |large| {
        let nested = serde_json::json!({ "a": [1, { "b": [large] }] });
        Message::custom([("large".to_owned(), nested)])
    }),
    ("name", |large| UserMessage::new("so").with_name(large).into()),
];

#[derive(Clone, Debug)]
enum Op {
    Append(Vec<(Place, usize)>),
    Evict(u64),
    Clear,
    /// Keeps the newest records.
    Read(usize),
    /// Keeps records from the middle.
    ReadBefore(u64, usize),
    /// Keeps a prompt of so many messages.
    Build(usize),
    Drop(usize),
}

fn bytes() -> impl Strategy<Value = usize> {
    prop_oneof![8 => 0usize..600, 4 => 600usize..40_000, 1 => 40_000usize..1_000_000]
}

fn ops() -> impl Strategy<Value = Vec<Op>> {
    let message = (proptest::sample::select(PLACES.as_slice()), bytes());
    let op = prop_oneof![
        8 => proptest::collection::vec(message, 1..20).prop_map(Op::Append),
        3 => (0u64..200).prop_map(Op::Evict),
        1 => Just(Op::Clear),
        2 => (0usize..20).prop_map(Op::Read),
        2 => (0u64..200, 0usize..20).prop_map(|(before, n)| Op::ReadBefore(before, n)),
        2 => (0usize..20).prop_map(Op::Build),
        1 => (0usize..8).prop_map(Op::Drop),
    ];
    proptest::collection::vec(op, 1..25)
}

#[derive(Clone, Copy, Debug)]
enum Kind {
    Default,
    Window(usize),
    Store,
}

fn kinds() -> impl Strategy<Value = Kind> {
    prop_oneof![Just(Kind::Default), (1usize..20).prop_map(Kind::Window), Just(Kind::Store)]
}

impl Kind {
    fn memory(self) -> Arc<dyn ChatMemory> {
        let memory = DefaultChatMemory::new();
        match self {
            Self::Default => Arc::new(memory),
            Self::Window(limit) => Arc::new(MessageWindowChatMemory::new(memory, limit).unwrap()),
            Self::Store => Arc::new(InMemoryStore::new().memory("a").unwrap()),
        }
    }
}

enum Kept {
    Records(Records),
    Prompt(Prompt),
}

impl Kept {
    fn messages(&self) -> Vec<&Message> {
        match self {
            Self::Records(records) => records.messages().collect(),
            Self::Prompt(prompt) => prompt.iter().collect(),
        }
    }
}

/// How many views are kept at most: each may hold a block more at either end than it shows.
const MOST_KEPT: usize = 8;

fn run(memory: &Arc<dyn ChatMemory>, ops: &[Op]) -> Vec<Kept> {
    let mut kept = Vec::with_capacity(2 * MOST_KEPT);
    for op in ops {
        match *op {
            Op::Append(ref batch) => {
                let batch = batch.iter().map(|(place, bytes)| (place.1)(text(*bytes)));
                memory.add_all(batch).unwrap();
            }
            Op::Evict(before) => _ = memory.evict(before).unwrap(),
            Op::Clear => memory.clear().unwrap(),
            Op::Read(n) => kept.push(Kept::Records(memory.latest(n).unwrap())),
            Op::ReadBefore(before, n) => {
                kept.push(Kept::Records(memory.read(Some(before), n).unwrap().records));
            }
            Op::Build(n) => {
                let prompt = MemoryPrompt::new(Arc::clone(memory)).max_messages(n);
                kept.push(Kept::Prompt(prompt.preview().unwrap()));
            }
            Op::Drop(i) => drop((i < kept.len()).then(|| kept.swap_remove(i))),
        }
        if kept.len() > MOST_KEPT {
            kept.remove(0);
        }
    }
    kept
}

/// What these messages take, each counted once however many show it. A copy tells without asking
/// the library.
fn shown<'a>(messages: impl Iterator<Item = &'a Message>) -> u64 {
    let distinct: HashMap<_, _> = messages.map(|m| (std::ptr::from_ref(m), m)).collect();
    let (_copies, bytes) = live(|| distinct.into_values().cloned().collect::<Vec<_>>());
    bytes
}

counted! {
    #![cases(128)]

    #[test]
    fn what_is_live_is_what_is_shown_and_a_mebibyte(ops in ops(), kind in kinds()) {
        let ((memory, kept), bytes) = live(|| {
            let memory = kind.memory();
            let kept = run(&memory, &ops);
            (memory, kept)
        });
        let all = memory.all().unwrap();
        let views = kept.iter().flat_map(Kept::messages);
        let shown = shown(all.messages().chain(views));
        prop_assert!(bytes <= shown + MIB, "{bytes} bytes are live, {shown} are shown");
    }

    #[test]
    fn rows_are_held_by_those_who_show_them(
        messages in proptest::collection::vec((proptest::sample::select(PLACES.as_slice()), bytes()), 1..60),
        gaps in any::<u64>(), budgets in proptest::collection::vec(1usize..100_000, 1..6),
    ) {
        let messages: Vec<Message> = messages.into_iter().map(|(p, bytes)| (p.1)(text(bytes))).collect();
        let rows = |(i, message): (usize, &Message)| {
            let position = i as u64 + u64::from((gaps >> (i % 64)).count_ones());
            (position, UNIX_EPOCH, message.clone())
        };
        let (records, bytes) = live(|| Records::from_rows(messages.iter().enumerate().map(rows)));
        prop_assert_eq!(records.len(), messages.len());
        let mut expected: Vec<_> = messages.iter().enumerate().map(rows).collect();
        expected.sort_by_key(|row| row.0);
        for (record, (position, _, message)) in records.iter().zip(&expected) {
            prop_assert_eq!(record.position(), *position);
            prop_assert_eq!(record.message(), message);
        }
        prop_assert!(bytes <= shown(messages.iter()) + MIB);
        drop(records);

        let memory = Rows::new("rows");
        memory.add_all(messages).unwrap();
        let all: Vec<_> = memory.all().unwrap().messages().cloned().collect();
        let memory: Arc<dyn ChatMemory> = Arc::new(memory);
        let letters = |text: &str| text.len();
        let (kept, bytes) = live(|| {
            let build = |budget| {
                let prompt = MemoryPrompt::new(Arc::clone(&memory)).max_tokens(budget, letters);
                prompt.preview().ok() // the newest message may be too large
            };
            budgets.iter().copied().filter_map(build).collect::<Vec<_>>()
        });
        // What a budget leaves out between others is held with them.
        let oldest = |prompt: &Prompt| prompt.with_origins().find_map(|(origin, _)| match origin {
            Origin::History(position) => usize::try_from(position).ok(),
            _ => None,
        });
        let firsts = kept.iter().filter_map(oldest);
        let shown: u64 = firsts.map(|first| shown(all[first..].iter())).sum();
        prop_assert!(bytes <= shown + MIB, "{bytes} bytes are live, {shown} are shown");
        black_box(kept);
    }
}
