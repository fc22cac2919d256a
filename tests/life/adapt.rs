//! The adapters between blocking and async memories, in every place they can be called from.

#![cfg(feature = "tokio")]

use std::ops::Range;
use std::panic::{AssertUnwindSafe, catch_unwind};
use std::sync::Arc;
use std::time::{Duration, Instant};

use crate::inside::inside;
use memory_prompt::adapt::{ToAsync, ToBlocking};
use memory_prompt::memory::{Append, BoxFuture, MemoryId};
use memory_prompt::record::Snapshot;
use memory_prompt::{
    AsyncChatMemory, AsyncChatMemoryExt, AsyncChatMemoryStore, ChatMemory, ChatMemoryExt,
    ChatMemoryStore, DefaultChatMemory, Error, ErrorKind, InMemoryStore, MemoryPrompt, Message,
    Result,
};
use tokio::runtime::{Builder, Runtime};

/// A memory that answers only if its runtime's timer runs meanwhile, as a network backend would.
#[derive(Debug, Default)]
struct Remote(DefaultChatMemory);

async fn network() {
    let wait = tokio::time::sleep(Duration::from_millis(2));
    tokio::spawn(wait).await.unwrap();
}

impl AsyncChatMemory for Remote {
    fn id(&self) -> &MemoryId {
        self.0.id()
    }
    fn append<'a>(
        &'a self,
        batch: &'a mut Vec<Message>,
        expected: Option<u64>,
    ) -> BoxFuture<'a, Result<Range<u64>>> {
        Box::pin(async move {
            network().await;
            assert_ne!(batch.len(), 13, "an unlucky number");
            self.0.append(batch, expected)
        })
    }
    fn read(&self, before: Option<u64>, n: usize) -> BoxFuture<'_, Result<Snapshot>> {
        Box::pin(async move {
            network().await;
            self.0.read(before, n)
        })
    }
    fn evict(&self, before: u64) -> BoxFuture<'_, Result<u64>> {
        Box::pin(async move { self.0.evict(before) })
    }
    fn clear(&self) -> BoxFuture<'_, Result<()>> {
        Box::pin(async move { self.0.clear() })
    }
}

fn remote() -> ToBlocking<Remote> {
    ToBlocking::connect(async {
        network().await;
        Ok(Remote::default())
    })
    .unwrap()
}

fn current_thread() -> Runtime {
    Builder::new_current_thread().enable_all().build().unwrap()
}

fn multi_thread() -> Runtime {
    Builder::new_multi_thread().worker_threads(1).enable_all().build().unwrap()
}

/// Everything a blocking memory is used for, its end included.
fn talk(memory: ToBlocking<Remote>) {
    let mut prompt = MemoryPrompt::new(memory);
    prompt.add(Message::user("hi")).unwrap();
    prompt.add_temporary(Message::user("once"));
    assert_eq!(prompt.build().unwrap().len(), 2);
    let memory = prompt.memory();
    let mut late = vec![Message::user("late")];
    let error = memory.append(&mut late, Some(7)).unwrap_err();
    assert_eq!(error.kind(), ErrorKind::Conflict { expected: 7, actual: 1 });
    assert_eq!(late.len(), 1);
    assert_eq!(memory.evict(1).unwrap(), 1);
    memory.clear().unwrap();
}

#[test]
fn an_async_memory_blocks_wherever_it_is() {
    // Outside a runtime.
    talk(remote());
    for runtime in [current_thread(), multi_thread()] {
        // On its thread, on a task of it, made there or elsewhere, and on a thread for such work.
        runtime.block_on(async { talk(remote()) });
        runtime.block_on(async { tokio::spawn(async { talk(remote()) }).await.unwrap() });
        let made_outside = remote();
        runtime.block_on(async { tokio::spawn(async { talk(made_outside) }).await.unwrap() });
        runtime.block_on(async { tokio::task::spawn_blocking(|| talk(remote())).await.unwrap() });
    }
}

#[test]
fn a_blocked_memory_serves_many_threads() {
    let memory = remote();
    std::thread::scope(|scope| {
        for _ in 0..8 {
            scope.spawn(|| {
                for _ in 0..10 {
                    memory.add(Message::user("hi")).unwrap();
                }
            });
        }
    });
    assert_eq!(memory.next_position().unwrap(), 80);
}

#[test]
fn a_panic_of_the_memory_reaches_the_caller() {
    let memory = remote();
    let unlucky = || memory.add_all((0..13).map(|_| Message::user("x")));
    assert!(catch_unwind(AssertUnwindSafe(unlucky)).is_err());
    current_thread().block_on(async {
        assert!(catch_unwind(AssertUnwindSafe(unlucky)).is_err());
    });
    assert_eq!(memory.add(Message::user("still here")).unwrap(), 0);
}

#[test]
fn a_connection_that_fails_says_why() {
    let error = ToBlocking::<Remote>::connect(async {
        Err(Error::new(ErrorKind::Storage, "open", "remote: nobody is there"))
    })
    .unwrap_err();
    assert_eq!(error.to_string(), "open: remote: nobody is there");
}

/// A memory that takes its time.
#[derive(Debug)]
struct Slow(DefaultChatMemory);

const NAP: Duration = Duration::from_millis(500);

impl ChatMemory for Slow {
    inside!(0: id read evict);
    fn append(&self, batch: &mut Vec<Message>, expected: Option<u64>) -> Result<Range<u64>> {
        std::thread::sleep(NAP);
        self.0.append(batch, expected)
    }
    fn clear(&self) -> Result<()> {
        panic!("out of order")
    }
}

#[test]
fn a_blocking_memory_does_not_block_the_executor() {
    for runtime in [current_thread(), multi_thread()] {
        runtime.block_on(async {
            let memory = Arc::new(ToAsync::new(Slow(DefaultChatMemory::new())));
            let started = Instant::now();
            let work = tokio::spawn({
                let memory = Arc::clone(&memory);
                async move { memory.add(Message::user("hi")).await }
            });
            let mut ticks = 0;
            while !work.is_finished() {
                tokio::time::sleep(Duration::from_millis(1)).await;
                ticks += 1;
            }
            assert_eq!(work.await.unwrap().unwrap(), 0);
            assert!(started.elapsed() >= NAP);
            assert!(ticks > 5, "the executor went on meanwhile: {ticks}");
        });
    }
}

#[test]
fn an_append_whose_future_is_dropped_leaves_the_batch() {
    current_thread().block_on(async {
        let memory = ToAsync::new(Slow(DefaultChatMemory::new()));
        let mut batch = vec![Message::user("a"), Message::user("b")];
        let dropped = tokio::time::timeout(NAP / 5, memory.append(&mut batch, None)).await;
        assert!(dropped.is_err());
        assert_eq!(batch.len(), 2);
        tokio::time::sleep(NAP * 3).await;
        assert!([0, 2].contains(&memory.next_position().await.unwrap()));

        let error = memory.append(&mut batch, Some(9)).await.unwrap_err();
        assert!(matches!(error.kind(), ErrorKind::Conflict { expected: 9, .. }));
        assert_eq!(batch.len(), 2);
        memory.append(&mut batch, None).await.unwrap();
        assert!(batch.is_empty());
    });
}

/// A memory whose appends take their text's number of milliseconds.
#[derive(Debug)]
struct Delayed(Arc<dyn ChatMemory>);

impl ChatMemory for Delayed {
    inside!(0: id read evict clear);
    fn append(&self, batch: &mut Vec<Message>, expected: Option<u64>) -> Result<Range<u64>> {
        let text = batch[0].text().into_owned();
        let millis = text.split(' ').next().unwrap().parse().unwrap();
        std::thread::sleep(Duration::from_millis(millis));
        self.0.append(batch, expected)
    }
}

/// A store of such memories.
#[derive(Debug)]
struct DelayedStore(InMemoryStore);

impl ChatMemoryStore for DelayedStore {
    fn memory(&self, id: MemoryId) -> Result<Arc<dyn ChatMemory>> {
        Ok(Arc::new(Delayed(Arc::new(self.0.memory(id)?))))
    }
    fn ids(&self, after: Option<&MemoryId>, n: usize) -> Result<Vec<MemoryId>> {
        self.0.ids(after, n)
    }
    fn delete(&self, id: &MemoryId) -> Result<bool> {
        self.0.delete(id)
    }
    fn purge_inactive(&self, older_than: std::time::SystemTime) -> Result<u64> {
        self.0.purge_inactive(older_than)
    }
}

/// An append that had timed out was done after later ones were acknowledged, and stood behind them.
#[test]
fn what_was_dropped_is_not_done_after_what_came_later() {
    multi_thread().block_on(async {
        let store = ToAsync::new(DelayedStore(InMemoryStore::new()));
        let memory = || store.memory("a:b:c").unwrap();
        let mut numbers = 1_u64;
        let mut random = |below: u64| {
            numbers = numbers.wrapping_mul(6_364_136_223_846_793_005).wrapping_add(1);
            (numbers >> 33) % below
        };
        let mut dropped = 0;
        for i in 0..200 {
            let message = Message::user(format!("{} {i}", random(4)));
            let memory = memory();
            let timeout = Duration::from_micros(random(4000));
            let gave_up = if random(2) == 0 {
                tokio::time::timeout(timeout, memory.add(message)).await.is_err()
            } else {
                let mut append = Append::new([message]);
                tokio::time::timeout(timeout, memory.append_with(&mut append)).await.is_err()
            };
            dropped += u64::from(gave_up);
        }
        memory().add(Message::user("0 200")).await.unwrap();
        let records = memory().all().await.unwrap();
        let order: Vec<u64> = records
            .messages()
            .map(|message| message.text().split(' ').nth(1).unwrap().parse().unwrap())
            .collect();
        assert!(order.is_sorted(), "{order:?}");
        assert!(order.contains(&200) && dropped > 20 && order.len() > 20, "{dropped} {order:?}");
        // Another conversation waits for none of this.
        let slow = Message::user("3000 last");
        let late = tokio::time::timeout(Duration::from_millis(100), memory().add(slow)).await;
        late.unwrap_err();
        let started = Instant::now();
        store.memory("d:e:f").unwrap().add(Message::user("0 other")).await.unwrap();
        assert!(started.elapsed() < Duration::from_millis(1_500), "{:?}", started.elapsed());
        // And a delete is a change too: what was dropped before it does not come back.
        assert!(store.delete(&"a:b:c".into()).await.unwrap());
        tokio::time::sleep(Duration::from_millis(3_100)).await;
        assert_eq!(memory().next_position().await.unwrap(), 0);
        // So is a delete of many.
        let slow = Message::user("1000 last");
        let late = tokio::time::timeout(Duration::from_millis(50), memory().add(slow)).await;
        late.unwrap_err();
        assert_eq!(store.delete_prefix("d:").await.unwrap(), 1); // which waits for none of this
        assert_eq!(memory().next_position().await.unwrap(), 0);
        assert_eq!(store.delete_prefix("a:b:").await.unwrap(), 1);
        assert_eq!(memory().next_position().await.unwrap(), 0);
        println!("{dropped} of 200 appends were dropped");
    });
}

/// A thread can't be stopped: a change of a file that waited for another process was done when that
/// had finished, though its future was dropped long before, and so over what this process and
/// others were told meanwhile.
#[cfg(feature = "sqlite")]
#[test]
fn what_was_dropped_while_another_process_wrote_is_never_done() {
    use memory_prompt::SqliteStore;
    use memory_prompt::store::sqlite::driver::Connection;

    let folder = crate::folder::Folder::new();
    let path = folder.file("chat.db");
    let ours = ToAsync::new(SqliteStore::open(&path).unwrap());
    let theirs = SqliteStore::open(&path).unwrap();
    let (memory, their_memory) = (ours.memory("a").unwrap(), theirs.memory("a").unwrap());
    their_memory.add(Message::user("kept")).unwrap();
    let other = Connection::open(&path).unwrap();
    multi_thread().block_on(async {
        for clears in [false, true, false] {
            other.execute_batch("BEGIN IMMEDIATE").unwrap();
            let change = async {
                if clears {
                    memory.clear().await
                } else {
                    memory.add(Message::user("late")).await.map(drop)
                }
            };
            let dropped = tokio::time::timeout(Duration::from_millis(200), change).await;
            assert!(dropped.is_err(), "it waits for who writes");
            other.execute_batch("COMMIT").unwrap();
            their_memory.add(Message::user("theirs")).unwrap();
            // Whoever comes behind it waits until it has ended.
            memory.add(Message::user("ours")).await.unwrap();
        }
    });
    let all = their_memory.all().unwrap();
    let texts = all.messages().map(|message| message.text().into_owned());
    let told = ["kept", "theirs", "ours", "theirs", "ours", "theirs", "ours"];
    assert!(texts.eq(told.map(str::to_owned)), "{all:?}");
}

#[test]
fn a_panic_of_a_blocking_memory_reaches_the_awaiter() {
    current_thread().block_on(async {
        let memory = Arc::new(ToAsync::new(Slow(DefaultChatMemory::new())));
        let shared = Arc::clone(&memory);
        let panic = tokio::spawn(async move { shared.clear().await }).await.unwrap_err();
        assert!(panic.is_panic());
        assert_eq!(memory.next_position().await.unwrap(), 0);
    });
}

#[test]
fn a_blocking_memory_in_async_code_wants_a_runtime() {
    let memory = ToAsync::new(DefaultChatMemory::new());
    let mut read = memory.read(None, 1);
    let mut context = std::task::Context::from_waker(std::task::Waker::noop());
    let std::task::Poll::Ready(Err(error)) = read.as_mut().poll(&mut context) else {
        panic!("there is nothing to wait for")
    };
    assert_eq!(error.to_string(), "read: a blocking memory in async code needs a tokio runtime");
}

#[test]
fn stores_go_both_ways() {
    // Blocking over async over blocking: what goes in comes out.
    let store = ToBlocking::connect(async { Ok(ToAsync::new(InMemoryStore::new())) }).unwrap();
    let memory = store.memory("a:b:c").unwrap();
    memory.add(Message::user("hi")).unwrap();
    let store: &dyn ChatMemoryStore = &store;
    assert_eq!(store.ids(None, 10).unwrap(), ["a:b:c".into()]);
    assert_eq!(store.memory("a:b:c".into()).unwrap().all().unwrap().len(), 1);
    let long_ago = std::time::SystemTime::UNIX_EPOCH;
    assert_eq!(store.purge_inactive(long_ago).unwrap(), 0);
    assert!(store.delete(&"a:b:c".into()).unwrap());
    assert!(memory.all().unwrap().is_empty());

    let asynchronous: Box<dyn AsyncChatMemoryStore> = Box::new(ToAsync::new(InMemoryStore::new()));
    let ids = current_thread().block_on(async { asynchronous.ids(None, 10).await });
    assert!(ids.unwrap().is_empty());
}

#[test]
fn debug_output_is_that_of_what_is_inside() {
    let memory = remote();
    memory.add(Message::user("my secret")).unwrap();
    let text = format!("{memory:?} {:?}", ToAsync::new(DefaultChatMemory::with_id("a:b:c")));
    assert!(text.starts_with("ToBlocking(Remote(DefaultChatMemory {"), "{text}");
    assert!(!text.contains("secret"), "{text}");
}

/// A memory behind an adapter is swapped as any other: it came back in one more `Arc` each time,
/// and a build ended in a stack overflow. What a store hands out behind `dyn` is shared already as
/// well.
#[test]
fn adapters_that_go_in_and_out_do_not_nest() {
    let swaps = || {
        let blocking: Arc<dyn ChatMemoryStore> = Arc::new(
            ToBlocking::connect(async { Ok(ToAsync::new(InMemoryStore::new())) }).unwrap(),
        );
        let mut prompt = MemoryPrompt::new(blocking.memory("a".into()).unwrap());
        let first = Arc::clone(prompt.memory());
        for _ in 0..100_000 {
            let old = prompt.set_memory(Arc::clone(&first));
            prompt.set_memory(old);
        }
        assert!(Arc::ptr_eq(prompt.memory(), &first));
        prompt.add(Message::user("hi")).unwrap();
        assert_eq!(prompt.build().unwrap().len(), 1);

        let unblock: Arc<dyn AsyncChatMemoryStore> = Arc::new(ToAsync::new(InMemoryStore::new()));
        let mut prompt = MemoryPrompt::new_async(unblock.memory("a".into()).unwrap());
        let first = Arc::clone(prompt.memory());
        for _ in 0..100_000 {
            let old = prompt.set_memory(ToAsync::new(DefaultChatMemory::new()));
            prompt.set_memory(old);
        }
        assert!(Arc::ptr_eq(prompt.memory(), &first));
        current_thread().block_on(async {
            prompt.add(Message::user("hi")).await.unwrap();
            assert_eq!(prompt.build().await.unwrap().len(), 1);
        });
    };
    let small = std::thread::Builder::new().stack_size(256 * 1024);
    small.spawn(swaps).unwrap().join().unwrap();
}
