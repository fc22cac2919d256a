//! The async twins, without a runtime: futures by hand.

#![cfg(feature = "async")]

use std::sync::Arc;
use std::sync::atomic::Ordering;

use memory_prompt::{
    AsyncChatMemory, AsyncChatMemoryExt, ChatMemory, DefaultChatMemory, MemoryPrompt, Message,
    Window,
};

use crate::conversation::faults::{Slow, polled};
use crate::odd::Odd;

/// A memory that is pending before and behind each answer, and fails as it is told.
fn slow() -> Slow<Odd> {
    Slow(Odd::new(DefaultChatMemory::new().limits()))
}

fn block_on<T>(future: impl Future<Output = T>) -> T {
    polled(future, usize::MAX).unwrap()
}

fn texts(prompt: &memory_prompt::Prompt) -> Vec<String> {
    prompt.iter().map(|message| message.text().into_owned()).collect()
}

#[test]
fn an_async_prompt_builds_what_a_blocking_one_builds() {
    let inner = Arc::new(DefaultChatMemory::new());
    let mut blocking = MemoryPrompt::new(Arc::clone(&inner)).window(Window::turns(2));
    let mut asynchronous = MemoryPrompt::new_async(slow()).window(Window::turns(2));
    let messages =
        || (0..100).map(|i| if i % 40 == 0 { Message::user("q") } else { Message::ai("a") });
    block_on(async {
        blocking.add_all(messages()).unwrap();
        asynchronous.add_all(messages()).await.unwrap();
        assert_eq!(blocking.add(Message::user("now")).unwrap(), 100);
        assert_eq!(asynchronous.add(Message::user("now")).await.unwrap(), 100);
        blocking.add_temporary(Message::user("once"));
        asynchronous.add_temporary(Message::user("once"));
        let expected = blocking.preview().unwrap();
        assert_eq!(asynchronous.preview().await.unwrap(), expected);
        assert_eq!(expected.len(), 22);
        assert_eq!(asynchronous.build().await.unwrap(), expected);
        assert_eq!(asynchronous.build().await.unwrap().len(), 21);
        let old = asynchronous.set_memory(slow());
        assert_eq!(old.next_position().await.unwrap(), 101);
        assert!(asynchronous.build().await.unwrap().is_empty());
    });
}

#[test]
fn a_build_that_is_dropped_half_way_keeps_temporaries() {
    let mut prompt = MemoryPrompt::new_async(slow());
    prompt.add_temporary(Message::user("once"));
    assert!(polled(prompt.build(), 1).is_none(), "it is dropped");
    assert_eq!(prompt.temporaries().len(), 1);
    assert_eq!(texts(&block_on(prompt.build()).unwrap()), ["once"]);
    assert_eq!(prompt.temporaries().len(), 0);
}

#[test]
fn a_build_that_fails_keeps_temporaries() {
    let slow = slow();
    let odd = Arc::clone(&slow.0);
    let mut prompt = MemoryPrompt::new_async(slow);
    prompt.add_temporary(Message::user("once"));
    odd.is_unreadable.store(true, Ordering::Relaxed);
    assert_eq!(block_on(prompt.build()).unwrap_err().to_string(), "read: the disk is gone");
    assert_eq!(texts(&block_on(prompt.build()).unwrap()), ["once"]);
}

#[test]
fn pages_go_by_position() {
    let memory = slow();
    block_on(async {
        memory.add_all((0..25).map(|i| Message::user(i.to_string()))).await.unwrap();
        let mut pages = memory.pages(10);
        let mut seen = Vec::new();
        while let Some(page) = pages.next().await {
            seen.splice(0..0, page.unwrap().iter().map(|record| record.position()));
            memory.add(Message::ai("meanwhile")).await.unwrap();
        }
        assert_eq!(seen, (0..25).collect::<Vec<_>>());

        memory.0.is_unreadable.store(true, Ordering::Relaxed);
        let mut pages = memory.pages(10);
        assert!(pages.next().await.unwrap().is_err());
        assert!(pages.next().await.is_none(), "an error is the last page");
    });
}

#[test]
fn futures_cross_threads_and_pointers_are_memories() {
    fn check<T: Send>(_: &T) {}
    let memory: Arc<dyn AsyncChatMemory> = Arc::new(slow());
    let boxed: Box<dyn AsyncChatMemory> = Box::new(Arc::clone(&memory));
    check(&boxed.add(Message::user("hi")));
    check(&memory.add_all([Message::user("hi")]));
    let mut prompt = MemoryPrompt::new_async(Arc::clone(&memory));
    check(&prompt.build());
    check(&prompt.preview());
    check(&prompt.add(Message::user("hi")));
    block_on(boxed.add(Message::user("hi"))).unwrap();
    assert_eq!(block_on((*memory).latest(5)).unwrap().len(), 1);
}
