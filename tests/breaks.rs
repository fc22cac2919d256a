//! The cause that is told of a break in the shared prefix, where a reader found one told that had
//! not happened.
#![allow(clippy::unwrap_used, clippy::panic, missing_docs)] // a test that panics has failed

use memory_prompt::compose::Notice;
use memory_prompt::report::Break;
use memory_prompt::summary::{Compaction, CompactionPolicy};
use memory_prompt::token::Estimate;
use memory_prompt::{
    Clear, DefaultChatMemory, MemoryPrompt, Message, Prompt, Provider, ToolCall, Truncate, Window,
};

fn asked() -> MemoryPrompt {
    MemoryPrompt::new(DefaultChatMemory::new())
}

fn talk(n: usize) -> impl Iterator<Item = Message> {
    (0..n).flat_map(|i| [Message::user(format!("question {i}")), Message::ai("answer")])
}

/// The causes of a break after a step and after the step back.
fn there_and_back(
    prompt: &mut MemoryPrompt,
    step: impl Fn(&mut MemoryPrompt),
    back: impl Fn(&mut MemoryPrompt),
) -> [Option<Break>; 2] {
    let before = prompt.build().unwrap();
    step(prompt);
    let between = prompt.build().unwrap();
    back(prompt);
    let after = prompt.build().unwrap();
    [between.shared_prefix(&before).broken_by, after.shared_prefix(&between).broken_by]
}

fn pinned_and_back(prompt: &mut MemoryPrompt, position: u64) -> [Option<Break>; 2] {
    let pin = |prompt: &mut MemoryPrompt| drop(prompt.pin(position).unwrap());
    there_and_back(prompt, pin, |prompt| assert!(prompt.unpin(position).unwrap()))
}

fn broken_by(now: &Prompt, then: &Prompt) -> Option<Break> {
    now.shared_prefix(then).broken_by
}

/// A message that was too large beside a newer one was left out alone, and the window was said to
/// have moved, though the history began where it had begun.
#[test]
fn a_message_that_is_left_out_alone_moves_no_window() {
    let mut prompt = asked().window(Window::all()).max_tokens(300, Estimate);
    let long = "long ".repeat(170);
    prompt.add_all(["one", &long, "two"].map(Message::user)).unwrap();
    let before = prompt.build().unwrap();
    prompt.add(Message::user("three ".repeat(110))).unwrap();
    let after = prompt.build().unwrap();
    assert_eq!((after.report().left_out[0].seq, after[0].text()), (1, "one".into()));
    assert_eq!(broken_by(&after, &before), Some(Break::LeftOut(1)));
    assert_eq!(broken_by(&before, &after), Some(Break::LeftOut(1)));
}

/// A message that a summary covers was pinned, and the summary was said to be another one.
#[test]
fn a_pin_before_a_summary_leaves_the_summary_as_it_is() {
    let mut prompt = asked().max_messages(4).with_pins().with_summary();
    prompt.add_all(talk(20)).unwrap();
    let policy = CompactionPolicy::messages(4, 4).unwrap();
    let notes = |_: &Compaction| Ok::<_, std::io::Error>("Notes.".to_owned());
    assert!(prompt.compact(&policy, &notes).unwrap());
    assert_eq!(pinned_and_back(&mut prompt, 2), [Some(Break::Pin(2)); 2]);
    // A summary that is another one still is, with the same pin before it.
    prompt.pin(2).unwrap();
    let before = prompt.build().unwrap();
    prompt.undo_summary().unwrap();
    assert_eq!(broken_by(&prompt.build().unwrap(), &before), Some(Break::Summary));
}

/// An older message was pinned beside a notice, which was said to tell another number.
#[test]
fn a_pin_beside_a_notice_leaves_its_number_as_it_is() {
    let mut prompt = asked().max_messages(4).with_pins().notice(Notice::new().step(10));
    prompt.add_all(talk(20)).unwrap();
    let notice = prompt.preview().unwrap().report().notice;
    assert_eq!(pinned_and_back(&mut prompt, 20), [Some(Break::Pin(20)); 2]);
    assert_eq!(prompt.preview().unwrap().report().notice, notice);
}

/// The first of two pins was unpinned, and the second was named, which was pinned before and after.
#[test]
fn the_pin_that_went_is_named() {
    for provider in [None, Some(Provider::Mistral), Some(Provider::Anthropic)] {
        let mut prompt = asked().max_messages(4).with_pins();
        if let Some(provider) = provider {
            prompt = prompt.for_provider(provider);
        }
        prompt.add_all(talk(20)).unwrap();
        prompt.add(Message::user("So?")).unwrap();
        for (stays, goes) in [(8, 2), (2, 8)] {
            prompt.pin(stays).unwrap();
            let told = pinned_and_back(&mut prompt, goes);
            assert_eq!(told, [Some(Break::Pin(goes)); 2], "{provider:?}");
            prompt.unpin(stays).unwrap();
        }
    }
}

/// A budget cut what was pinned, and the pin was said to have changed its place.
#[test]
fn a_pin_that_a_budget_cuts_is_cut() {
    let cut = Truncate::chars(200).unwrap();
    let mut prompt = asked().max_tokens(120, Estimate).truncate(cut).with_pins();
    prompt.add(Message::user("contract ".repeat(20))).unwrap();
    prompt.pin(0).unwrap();
    let words = "w ".repeat(5);
    prompt.add_all((0..8).map(|i| Message::user(format!("question {i} {words}")))).unwrap();
    let before = prompt.build().unwrap();
    prompt.add_all([Message::ai("Yes."), Message::user("z ".repeat(100))]).unwrap();
    let after = prompt.build().unwrap();
    let (was, is) = (&before.report().truncated, &after.report().truncated);
    assert_eq!((was.len(), is[0].seq), (0, 0), "{}", after.report());
    assert_eq!(broken_by(&after, &before), Some(Break::Truncation(0)));
}

/// Mistral has a pin and the question that opens the window as one message: where the window moved
/// behind the pin, the pin was said to have changed its place.
#[test]
fn a_window_that_moves_behind_a_pin_joined_to_it_has_moved() {
    let mut prompt = asked().max_messages(4).with_pins().for_provider(Provider::Mistral);
    prompt.add(Message::user("I am allergic to nuts.")).unwrap();
    prompt.pin(0).unwrap();
    prompt.add(Message::ai("Noted.")).unwrap();
    prompt.add_all(talk(4)).unwrap();
    prompt.add(Message::user("So?")).unwrap();
    let before = prompt.build().unwrap();
    prompt.add_all([Message::ai("Well."), Message::user("And?")]).unwrap();
    let after = prompt.build().unwrap();
    let cause = broken_by(&after, &before);
    assert_eq!(
        cause,
        Some(Break::Window { from: 8, to: 10 }),
        "{}{}",
        before.report(),
        after.report()
    );
}

/// Mistral was sent a result under another id: when it was cleared, the conversation was said to be
/// another one.
#[test]
fn a_result_with_another_id_is_cleared() {
    let round = |i: usize| {
        let id = format!("call_{i}");
        [
            Message::user("Look."),
            Message::ai_calls([ToolCall::new(&id, "look", "{}")]),
            Message::tool(&id, "look", "nothing to be found of it, ".repeat(9)),
            Message::ai("Nothing."),
        ]
    };
    let clear = Clear::tool_results().keep(1).step(1);
    let mut prompt = asked().window(Window::all()).clear(clear).for_provider(Provider::Mistral);
    prompt.add_all(round(0).into_iter().chain([Message::user("So?"), Message::ai("Hm.")])).unwrap();
    prompt.add(Message::user("And?")).unwrap();
    let before = prompt.build().unwrap();
    prompt.add(Message::ai("Wait.")).unwrap();
    prompt.add_all((1..3).flat_map(round).chain([Message::user("Well?")])).unwrap();
    let after = prompt.build().unwrap();
    assert_eq!(after.report().cleared[0].seq, 2, "{}", after.report());
    assert_eq!(broken_by(&after, &before), Some(Break::Clearing(2)));
}

/// A pinned answer had Claude's prompt begin with a message that nobody said: where that came or
/// went, the conversation was said to be another one.
#[test]
fn an_opening_that_a_provider_demands_comes_with_its_message() {
    let mut prompt = asked().max_messages(4).with_pins().for_provider(Provider::Anthropic);
    prompt.add(Message::ai("Hello, I am here.")).unwrap();
    prompt.add_all(talk(20)).unwrap();
    prompt.add(Message::user("So?")).unwrap();
    assert_eq!(pinned_and_back(&mut prompt, 0), [Some(Break::Pin(0)); 2]);
}
