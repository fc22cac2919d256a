//! The async twins, without a runtime: futures by hand.

#![cfg(feature = "async")]
#![allow(clippy::unwrap_used, missing_docs)] // a test that panics has failed

use std::ops::Range;
use std::pin::{Pin, pin};
use std::sync::Arc;
use std::sync::atomic::{AtomicUsize, Ordering};
use std::task::{Context, Poll, Waker};

use memory_prompt::memory::{BoxFuture, MemoryId};
use memory_prompt::record::Snapshot;
use memory_prompt::{
    AsyncChatMemory, AsyncChatMemoryExt, ChatMemory, DefaultChatMemory, Error, ErrorKind,
    MemoryPrompt, Message, Result, Window,
};

/// A memory that is pending once before each answer, and fails reads while told to.
#[derive(Debug, Default)]
struct Slow {
    inner: DefaultChatMemory,
    failures: AtomicUsize,
}

/// Pending once.
#[derive(Default)]
struct Once(bool);

impl Future for Once {
    type Output = ();
    fn poll(mut self: Pin<&mut Self>, context: &mut Context<'_>) -> Poll<()> {
        if std::mem::replace(&mut self.0, true) {
            return Poll::Ready(());
        }
        context.waker().wake_by_ref();
        Poll::Pending
    }
}

impl AsyncChatMemory for Slow {
    fn id(&self) -> &MemoryId {
        self.inner.id()
    }
    fn append<'a>(
        &'a self,
        batch: &'a mut Vec<Message>,
        expected: Option<u64>,
    ) -> BoxFuture<'a, Result<Range<u64>>> {
        Box::pin(async move {
            Once::default().await;
            self.inner.append(batch, expected)
        })
    }
    fn read(&self, before: Option<u64>, n: usize) -> BoxFuture<'_, Result<Snapshot>> {
        Box::pin(async move {
            Once::default().await;
            let left = self.failures.load(Ordering::Relaxed);
            if left > 0 {
                self.failures.store(left - 1, Ordering::Relaxed);
                return Err(Error::new(ErrorKind::Storage, "read", "slow: told to fail"));
            }
            self.inner.read(before, n)
        })
    }
    fn evict(&self, before: u64) -> BoxFuture<'_, Result<u64>> {
        Box::pin(async move { self.inner.evict(before) })
    }
    fn clear(&self) -> BoxFuture<'_, Result<()>> {
        Box::pin(async move { self.inner.clear() })
    }
}

fn block_on<T>(future: impl Future<Output = T>) -> T {
    let mut future = pin!(future);
    loop {
        if let Poll::Ready(value) = poll(future.as_mut()) {
            return value;
        }
    }
}

fn poll<T>(future: Pin<&mut impl Future<Output = T>>) -> Poll<T> {
    future.poll(&mut Context::from_waker(Waker::noop()))
}

fn texts(prompt: &memory_prompt::Prompt) -> Vec<String> {
    prompt.iter().map(|message| message.text().into_owned()).collect()
}

#[test]
fn an_async_prompt_builds_what_a_blocking_one_builds() {
    let inner = Arc::new(DefaultChatMemory::new());
    let slow = Arc::new(Slow { inner: DefaultChatMemory::new(), ..Slow::default() });
    let mut blocking = MemoryPrompt::new(Arc::clone(&inner)).window(Window::turns(2));
    let mut asynchronous = MemoryPrompt::new_async(Arc::clone(&slow)).window(Window::turns(2));
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
        let old = asynchronous.set_memory(Slow::default());
        assert_eq!(old.next_position().await.unwrap(), 101);
        assert!(asynchronous.build().await.unwrap().is_empty());
    });
}

#[test]
fn a_build_that_is_dropped_half_way_keeps_temporaries() {
    let mut prompt = MemoryPrompt::new_async(Slow::default());
    prompt.add_temporary(Message::user("once"));
    {
        let mut build = pin!(prompt.build());
        assert!(poll(build.as_mut()).is_pending());
    }
    assert_eq!(prompt.temporaries().len(), 1);
    assert_eq!(texts(&block_on(prompt.build()).unwrap()), ["once"]);
    assert_eq!(prompt.temporaries().len(), 0);
}

#[test]
fn a_build_that_fails_keeps_temporaries() {
    let slow = Arc::new(Slow::default());
    let mut prompt = MemoryPrompt::new_async(Arc::clone(&slow));
    prompt.add_temporary(Message::user("once"));
    slow.failures.store(1, Ordering::Relaxed);
    assert_eq!(block_on(prompt.build()).unwrap_err().to_string(), "read: slow: told to fail");
    assert_eq!(texts(&block_on(prompt.build()).unwrap()), ["once"]);
}

#[test]
fn pages_go_by_position() {
    let memory = Slow::default();
    block_on(async {
        memory.add_all((0..25).map(|i| Message::user(i.to_string()))).await.unwrap();
        let mut pages = memory.pages(10);
        let mut seen = Vec::new();
        while let Some(page) = pages.next().await {
            seen.splice(0..0, page.unwrap().iter().map(|record| record.position()));
            memory.add(Message::ai("meanwhile")).await.unwrap();
        }
        assert_eq!(seen, (0..25).collect::<Vec<_>>());

        memory.failures.store(1, Ordering::Relaxed);
        let mut pages = memory.pages(10);
        assert!(pages.next().await.unwrap().is_err());
        assert!(pages.next().await.is_none(), "an error is the last page");
    });
}

#[test]
fn futures_cross_threads_and_pointers_are_memories() {
    fn check<T: Send>(_: &T) {}
    let memory: Arc<dyn AsyncChatMemory> = Arc::new(Slow::default());
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
