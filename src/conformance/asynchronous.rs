//! Async backends: the same laws through [`ToBlocking`], and laws about futures.

use std::future::poll_fn;
use std::sync::Arc;
use std::task::Poll;

use super::support::{ID, batches, numbered, rows};
use super::{DamageFixture, Fixture, SharedFixture, StoreFixture};
use crate::adapt::ToBlocking;
use crate::memory::{Append, AsyncChatMemory, AsyncChatMemoryExt, BoxFuture, ChatMemory, Expected};
use crate::message::Message;
use crate::store::{AsyncChatMemoryStore, ChatMemoryStore};

/// An async backend under test: the twin of [`Fixture`].
///
/// Its functions run on a tokio runtime of the kit.
pub trait AsyncFixture: Sized + Send + Sync + 'static {
    /// The backend's name, for messages and for counting.
    const BACKEND: &'static str;

    /// Returns a new, empty place.
    fn new() -> impl Future<Output = Self> + Send;

    /// Returns the conversation under this id: the same one for the same id.
    fn memory(&self, id: &str) -> Arc<dyn AsyncChatMemory>;

    /// Returns whether the backend can hold this text as an id, like [`Fixture::takes`].
    fn takes(&self, id: &str) -> bool {
        let _ = id;
        true
    }
}

/// An async backend that keeps many conversations.
pub trait AsyncStoreFixture: AsyncFixture {
    /// Returns the store in which [`AsyncFixture::memory`] keeps its conversations.
    fn store(&self) -> Arc<dyn AsyncChatMemoryStore>;
}

/// An async backend whose data outlive the process and can be used by several.
pub trait AsyncSharedFixture: AsyncFixture {
    /// Returns what another process needs to know to find this place.
    fn address(&self) -> String;

    /// Returns the place at this address, through connections of its own. The data stay when it is
    /// dropped.
    fn attach(address: &str) -> impl Future<Output = Self> + Send;
}

/// An async backend whose rows the tests can change directly.
pub trait AsyncDamageFixture: AsyncFixture {
    /// Replaces the payload of the record at `position`, or of the system message, with these
    /// bytes.
    fn damage(
        &self,
        id: &str,
        position: Option<u64>,
        payload: &[u8],
    ) -> impl Future<Output = ()> + Send;
}

/// An async fixture as a blocking one.
#[derive(Debug)]
pub struct Adapted<F>(ToBlocking<F>);

impl<F: AsyncFixture> Adapted<F> {
    fn connect(fixture: impl Future<Output = F> + Send) -> Self {
        Self(ToBlocking::connect(async { Ok(fixture.await) }).expect("a runtime starts"))
    }
}

impl<F: AsyncFixture> Fixture for Adapted<F> {
    const BACKEND: &'static str = F::BACKEND;

    fn new() -> Self {
        Self::connect(F::new())
    }

    fn memory(&self, id: &str) -> Arc<dyn ChatMemory> {
        Arc::new(self.0.on_same_runtime(self.0.get_ref().memory(id)))
    }

    fn takes(&self, id: &str) -> bool {
        self.0.get_ref().takes(id)
    }
}

impl<F: AsyncStoreFixture> StoreFixture for Adapted<F> {
    fn store(&self) -> Arc<dyn ChatMemoryStore> {
        Arc::new(self.0.on_same_runtime(self.0.get_ref().store()))
    }
}

impl<F: AsyncSharedFixture> SharedFixture for Adapted<F> {
    fn address(&self) -> String {
        self.0.get_ref().address()
    }

    fn attach(address: &str) -> Self {
        Self::connect(F::attach(address))
    }
}

impl<F: AsyncDamageFixture> DamageFixture for Adapted<F> {
    fn damage(&self, id: &str, position: Option<u64>, payload: &[u8]) {
        self.0.wait(self.0.get_ref().damage(id, position, payload)).expect("a row is damaged");
    }
}

/// Generates every law of the named groups as a test for an async backend:
/// [`conformance!`](crate::conformance!) with an [`AsyncFixture`].
#[macro_export]
macro_rules! conformance_async {
    ($(#[$attribute:meta])* $name:ident: $fixture:ty, [$($group:ident),+ $(,)?]) => {
        $crate::conformance!(
            $(#[$attribute])* $name: $crate::conformance::Adapted<$fixture>, [$($group),+]
        );
    };
}

/// Batches of many tasks on one runtime stay contiguous, and none is lost.
pub fn appends_of_many_tasks_stay_contiguous<F: AsyncFixture>(fixture: &Adapted<F>) {
    let fixture = &fixture.0;
    let all = fixture.wait(async {
        let tasks: Vec<_> = (0..16u64)
            .map(|writer| {
                let memory = fixture.get_ref().memory(ID);
                tokio::spawn(async move {
                    for batch in 0..10 {
                        let texts = (0..3).map(|i| Message::user(format!("{writer} {batch} {i}")));
                        memory.add_all(texts).await.unwrap();
                    }
                })
            })
            .collect();
        for task in tasks {
            task.await.unwrap();
        }
        rows(&fixture.get_ref().memory(ID).all().await.unwrap())
    });
    let written = (0..16).map(|writer| (writer.to_string(), 10));
    assert_eq!(batches(&all.unwrap(), 3), written.collect(), "nothing is lost");
}

/// Polls a future at most this many times, and drops it.
async fn polled<T>(mut future: BoxFuture<'_, T>, polls: u64) -> Option<T> {
    let mut left = polls;
    poll_fn(|context| {
        if left == 0 {
            return Poll::Ready(None);
        }
        left -= 1;
        future.as_mut().poll(context).map(Some)
    })
    .await
}

/// An append whose future is dropped is made or not made, and the memory stays usable.
pub fn an_append_that_is_dropped_is_done_or_not_done<F: AsyncFixture>(fixture: &Adapted<F>) {
    let fixture = &fixture.0;
    let run = async {
        let memory = fixture.get_ref().memory(ID);
        // The system message is in the same append as the batch, so it shows whether the batch was
        // made.
        let mut acknowledged = 0;
        for polls in 0..40 {
            let name = format!("dropped {polls}");
            let mut batch: Vec<Message> = (0..5)
                .map(|_| Message::user(name.as_str()))
                .chain([Message::system(name.as_str())])
                .collect();
            let done = polled(memory.append(&mut batch, None), polls).await;
            assert!(batch.is_empty() || batch.len() == 6, "the batch is whole or taken");
            acknowledged += u32::from(matches!(done, Some(Ok(_))));
            let number: Vec<Message> = vec![numbered(polls)];
            memory.add_all(number).await.unwrap();
        }
        // By now, everything that was under way has arrived, or never will.
        tokio::time::sleep(std::time::Duration::from_millis(100)).await;
        (acknowledged, memory.all().await.unwrap())
    };
    let (acknowledged, records) = fixture.wait(run).unwrap();
    let rows = rows(&records);
    assert!(rows.iter().map(|row| row.0).eq(0..rows.len() as u64), "positions have no gaps");
    let mut whole = 0;
    let mut numbers = 0;
    let mut i = 0;
    while let Some((_, text)) = rows.get(i) {
        if text.starts_with("dropped") {
            assert!(rows[i..].len() >= 5 && rows[i..i + 5].iter().all(|row| row.1 == *text));
            whole += 1;
            i += 5;
        } else {
            numbers += 1;
            i += 1;
        }
    }
    assert_eq!(numbers, 40, "what was acknowledged afterwards is there");
    assert!(whole >= acknowledged, "{acknowledged} appends were acknowledged, {whole} are there");
}

/// An append with an id whose future is dropped is made once, however often it is retried.
pub fn an_append_that_is_dropped_can_be_done_again<F: AsyncFixture>(fixture: &Adapted<F>) {
    let fixture = &fixture.0;
    let run = async {
        let memory = fixture.get_ref().memory(ID);
        for polls in 0..30u64 {
            let name = format!("turn {polls}");
            let texts = (0..3).map(|i| Message::user(format!("{polls} {i}")));
            let mut append = Append::new(texts).with_id(name.as_str());
            append = append.set_slot("last", name.as_str(), Expected::Any);
            for left in [polls, 0, polls / 2] {
                drop(polled(memory.append_with(&mut append), left).await);
                assert!([0, 3].contains(&append.messages.len()), "the batch is whole or taken");
            }
            memory.append_with(&mut append).await.unwrap();
        }
        tokio::time::sleep(std::time::Duration::from_millis(100)).await;
        memory.all().await.unwrap()
    };
    let records = fixture.wait(run).unwrap();
    let mut texts: Vec<_> = rows(&records).into_iter().map(|row| row.1).collect();
    for batch in texts.chunks(3) {
        let turn = batch[0].split(' ').next().unwrap();
        assert!((0..3).all(|i| batch[i] == format!("{turn} {i}")), "{batch:?}");
    }
    texts.sort();
    texts.dedup();
    assert_eq!((texts.len(), records.len()), (90, 90), "each is there once");
}
