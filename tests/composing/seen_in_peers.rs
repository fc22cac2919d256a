//! What goes wrong in chat memories that people use, each as a test that opens with the story.

#![allow(clippy::unwrap_used, missing_docs)] // a test that panics has failed

use std::sync::Arc;
use std::thread;

use crate::notation::conversation;
use crate::processors::Fails;
use crate::sent::texts;
use crate::setups::holding;
use memory_prompt::message::AiMessage;
use memory_prompt::text::Unit;
use memory_prompt::{
    ChatMemory, ChatMemoryExt, Composer, DefaultChatMemory, ErrorKind, Message, ToolCall, Truncate,
    Window,
};

/// Agents-Flex 2.2.8 appends the cut text to the text it already has: "ok" truncated to 5 is sent
/// as "okok".
#[test]
fn truncating_ok_to_5_gives_ok() {
    let mut prompt = holding([Message::user("ok")]).truncate(Truncate::chars(5).unwrap());
    assert_eq!(texts(&prompt.build().unwrap()), ["ok"]);
}

/// Agents-Flex 2.0.0 to 2.2.0 cut the stored message itself: the first prompt that was built with a
/// limit destroyed the history.
#[test]
fn truncation_never_changes_what_memory_holds() {
    let long = "a long story ".repeat(100);
    let mut prompt = holding([Message::user(long.as_str())]).truncate(Truncate::chars(10).unwrap());
    assert_eq!(texts(&prompt.build().unwrap()), ["a long sto"]);
    let held = prompt.memory().all().unwrap();
    assert_eq!(held.messages().next().unwrap().text(), long);
    prompt.configure(Composer::no_truncate);
    assert_eq!(texts(&prompt.build().unwrap()), [long]);
}

/// Java counts UTF-16 units, and cuts between the two halves of an emoji: "ab😀cd" at 3 is "ab" and
/// half a character, which is no text at all.
#[test]
fn a_cut_leaves_no_half_character() {
    let cut = |truncate: Truncate| {
        texts(&holding([Message::user("ab😀cd")]).truncate(truncate).build().unwrap()).concat()
    };
    assert_eq!(cut(Truncate::chars(3).unwrap()), "ab😀");
    assert_eq!(cut(Truncate::new(3, Unit::Utf16).unwrap()), "ab");
    assert_eq!(cut(Truncate::new(4, Unit::Utf16).unwrap()), "ab😀");
    assert_eq!(cut(Truncate::new(5, Unit::Bytes).unwrap()), "ab");
}

/// A window that counts messages opens on a tool result whose call it has just lost, and every
/// provider answers 400.
#[test]
fn the_last_two_of_user_call_result_answer_do_not_open_on_the_result() {
    let said = "u:What_is_the_weather? call:1/weather t:1/weather=sunny a:It_is_sunny.";
    let mut prompt = holding(conversation(said)).max_messages(2);
    // The question comes in the place of the result.
    assert_eq!(texts(&prompt.build().unwrap()), ["What is the weather?", "It is sunny."]);
    prompt.configure(|composer| composer.window(Window::last(2).exactly()));
    assert_eq!(texts(&prompt.build().unwrap()), ["It is sunny."]);
    prompt.configure(|composer| composer.window(Window::last(3).exactly()));
    assert_eq!(texts(&prompt.build().unwrap()), ["", "sunny", "It is sunny."]);
    // Unless told otherwise, the question stays and the oldest group gives way for it.
    prompt.configure(|composer| composer.max_messages(3));
    assert_eq!(texts(&prompt.build().unwrap()), ["What is the weather?", "It is sunny."]);
}

/// LangChain4j's message window counts each parallel result: when one answer asks for more tools
/// than the window holds, the eviction eats the call and then the whole conversation.
#[test]
fn more_parallel_results_than_the_window_holds_are_sent_whole() {
    let calls = (0..20).map(|i| ToolCall::new(format!("call_{i}"), "look", "{}"));
    let results = (0..20).map(|i| Message::tool(format!("call_{i}"), "look", "a cat"));
    let mut prompt = holding([Message::user("Look!"), Message::ai_calls(calls)]).max_messages(5);
    prompt.add_all(results).unwrap();
    let built = prompt.build().unwrap();
    assert_eq!(built.len(), 22);
    assert_eq!(built[0].text(), "Look!");
    assert!(built[1].as_ai().is_some_and(AiMessage::has_tool_calls));
}

/// A memory that keeps its system message among the others sends it twice as soon as the prompt has
/// one too, and strict servers answer 400.
#[test]
fn two_system_messages_never_leave() {
    let mut prompt = holding(conversation("s:You_are_a_pirate. u:hi s:You_are_a_poet."));
    assert_eq!(texts(&prompt.build().unwrap()), ["You are a poet.", "hi"]);
    prompt.configure(|composer| composer.system("Be brief."));
    let built = prompt.build().unwrap();
    assert_eq!(texts(&built), ["Be brief.", "hi"]);
    assert!(built.report().system_overridden);
    prompt.add_temporary(Message::system("Answer in French."));
    assert_eq!(texts(&prompt.build().unwrap()), ["Be brief.\n\nAnswer in French.", "hi"]);
    prompt.configure(Composer::no_system);
    assert_eq!(texts(&prompt.build().unwrap()), ["You are a poet.", "hi"]);
}

/// In Agents-Flex a token count builds the prompt, and building clears the temporaries: the request
/// that follows goes out without them.
#[test]
fn counting_or_previewing_never_loses_temporaries() {
    let mut prompt = holding([Message::user("hi")]);
    prompt.add_temporary(Message::user("Today is Friday."));
    for _ in 0..3 {
        let size: usize = prompt.preview().unwrap().iter().map(|m| m.text().len()).sum();
        assert_eq!(size, "hi".len() + "Today is Friday.".len());
    }
    assert_eq!(texts(&prompt.build().unwrap()), ["hi", "Today is Friday."]);
    assert_eq!(texts(&prompt.build().unwrap()), ["hi"]);
}

/// A processor that fails half way through a build must not cost the temporaries, which exist
/// nowhere else.
#[test]
fn a_processor_that_fails_keeps_the_temporaries() {
    let offline = Truncate::default().processor(Fails("the summariser is offline"));
    let mut prompt = holding([Message::user("hi")]).truncate(offline);
    prompt.add_temporary(Message::user("Today is Friday."));
    let error = prompt.build().unwrap_err();
    assert_eq!(error.kind(), ErrorKind::Truncate);
    assert_eq!(error.to_string(), "truncate: the processor failed on message 0 (user)");
    let cause = std::error::Error::source(&error).unwrap();
    assert_eq!(cause.to_string(), "the summariser is offline");
    prompt.configure(Composer::no_truncate);
    assert_eq!(texts(&prompt.build().unwrap()), ["hi", "Today is Friday."]);
}

/// Agents-Flex threw a null pointer exception here.
#[test]
fn clearing_temporaries_when_there_are_none_is_fine() {
    let mut prompt = holding([]);
    prompt.clear_temporaries();
    prompt.add_temporary(Message::user("Today is Friday."));
    prompt.clear_temporaries();
    assert_eq!(prompt.build().unwrap().len(), 0);
}

/// A memory that reads a list, adds to it and writes it back loses what another thread wrote in
/// between.
#[test]
fn appends_from_eight_threads_are_all_there_in_one_order_with_whole_batches() {
    const THREADS: usize = 8;
    const BATCHES: usize = 5_000;
    const BATCH: usize = 4;
    let memory = Arc::new(DefaultChatMemory::new());
    thread::scope(|scope| {
        for thread in 0..THREADS {
            let memory = Arc::clone(&memory);
            scope.spawn(move || {
                for batch in 0..BATCHES {
                    let texts = (0..BATCH).map(|i| Message::user(format!("{thread} {batch} {i}")));
                    let range = memory.add_all(texts).unwrap();
                    assert_eq!(range.end - range.start, BATCH as u64);
                }
            });
        }
        // Readers meanwhile see whole batches, and nothing twice.
        for _ in 0..200 {
            let seen = memory.latest(1000).unwrap();
            assert_eq!(seen.len() % BATCH, 0);
            let positions: Vec<u64> = seen.iter().map(|r| r.position()).collect();
            assert!(positions.windows(2).all(|pair| pair[0] + 1 == pair[1]));
        }
    });
    let all = memory.all().unwrap();
    assert_eq!(all.len(), THREADS * BATCHES * BATCH);
    let mut next = [0; THREADS];
    let messages: Vec<String> = all.messages().map(|m| m.text().into_owned()).collect();
    for batch in messages.chunks(BATCH) {
        let mut words = batch[0].split(' ').map(|word| word.parse::<usize>().unwrap());
        let (thread, number) = (words.next().unwrap(), words.next().unwrap());
        assert_eq!(number, next[thread], "batches of thread {thread} in the order of append");
        next[thread] += 1;
        for (i, text) in batch.iter().enumerate() {
            assert_eq!(*text, format!("{thread} {number} {i}"), "a batch is contiguous");
        }
    }
    assert_eq!(memory.read(None, 0).unwrap().end, all.len() as u64);
}
