//! Async backends: the same laws through [`ToBlocking`], and laws about futures.

use std::future::poll_fn;
use std::sync::Arc;
use std::task::{Context, Poll};
use std::time::Duration;

use tokio::task::JoinSet;

use super::prelude::*;
use super::{DamageFixture, SharedFixture};
use crate::adapt::ToBlocking;
use crate::memory::{AsyncChatMemory, AsyncChatMemoryExt, BoxFuture};
use crate::store::{AsyncChatMemoryStore, ChatMemoryStore};

/// An async backend under test: the twin of [`Fixture`].
///
/// Its functions run on a tokio runtime of the kit.
pub trait AsyncFixture: Sized + Send + Sync + 'static {
    /// The backend's name, for messages and for counting.
    const BACKEND: &'static str;

    /// The most by which the clocks may differ, like [`Fixture::CLOCK_SKEW`].
    const CLOCK_SKEW: Duration = Duration::from_millis(5);

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
        Self(ToBlocking::connect(async { Ok(fixture.await) }).expect("a runtime should start"))
    }
}

impl<F: AsyncFixture> Fixture for Adapted<F> {
    const BACKEND: &'static str = F::BACKEND;
    const CLOCK_SKEW: Duration = F::CLOCK_SKEW;

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
        self.0
            .wait(self.0.get_ref().damage(id, position, payload))
            .expect("a row should take damage");
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

/// Does the work on the conversation of the test; returns its result, and the rows that are there
/// afterwards.
fn run<F: AsyncFixture, T: Send, W: Future<Output = T> + Send>(
    fixture: &Adapted<F>,
    work: impl FnOnce(Arc<dyn AsyncChatMemory>) -> W,
) -> (T, Vec<(u64, String)>) {
    let memory = fixture.0.get_ref().memory(ID);
    let work = work(Arc::clone(&memory));
    let run = async {
        let done = work.await;
        // By now, everything that was under way has arrived, or never will.
        tokio::time::sleep(Duration::from_millis(100)).await;
        (done, rows(&memory.all().await.unwrap()))
    };
    fixture.0.wait(run).unwrap()
}

/// Polls a future at most this many times, and drops it.
async fn polled<T>(mut future: BoxFuture<'_, T>, polls: u64) -> Option<T> {
    let mut polls = 0..polls;
    let poll = |context: &mut Context<'_>| match polls.next() {
        Some(_) => future.as_mut().poll(context).map(Some),
        None => Poll::Ready(None),
    };
    poll_fn(poll).await
}

/// Batches of many tasks on one runtime stay contiguous, and none is lost.
pub fn appends_of_many_tasks_stay_contiguous<F: AsyncFixture>(fixture: &Adapted<F>) {
    let write = |writer: u64| {
        let memory = fixture.0.get_ref().memory(ID);
        async move {
            for i in 0..10 {
                memory.add_all(batch(&format!("{writer} {i}"), 3)).await.unwrap();
            }
        }
    };
    let tasks = async { (0..16).map(write).collect::<JoinSet<_>>().join_all().await };
    let (_, all) = run(fixture, |_| tasks);
    let written = (0..16).map(|writer| (writer.to_string(), 10));
    assert_eq!(batches(&all, 3), written.collect(), "nothing is lost");
}

/// An append whose future is dropped is made or not made, and the memory stays usable.
pub fn an_append_that_is_dropped_is_done_or_not_done<F: AsyncFixture>(fixture: &Adapted<F>) {
    let (acknowledged, rows) = run(fixture, |memory| async move {
        let mut acknowledged = 0;
        for polls in 0..40 {
            // The system message is in the same append as the batch, so it shows whether the batch
            // was made.
            let name = format!("dropped {polls}");
            let mut batch = vec![Message::user(name.as_str()); 5];
            batch.push(Message::system(name));
            let done = polled(memory.append(&mut batch, None), polls).await;
            assert!(batch.is_empty() || batch.len() == 6, "the batch is whole or taken");
            acknowledged += usize::from(matches!(done, Some(Ok(_))));
            memory.add_all([numbered(polls)]).await.unwrap();
        }
        acknowledged
    });
    assert!(rows.iter().map(|row| row.0).eq(0..rows.len() as u64), "positions have no gaps");
    let (dropped, numbers): (Vec<_>, Vec<_>) = rows
        .chunk_by(|one, other| one.1 == other.1)
        .partition(|equal| equal[0].1.starts_with("dropped"));
    assert!(dropped.iter().all(|batch| batch.len() == 5), "batches are whole: {dropped:?}");
    assert_eq!(numbers.len(), 40, "what was acknowledged afterwards is there");
    assert!(dropped.len() >= acknowledged, "{acknowledged} were acknowledged: {dropped:?}");
}

/// An append with an id whose future is dropped is made once, however often it is retried.
pub fn an_append_that_is_dropped_can_be_done_again<F: AsyncFixture>(fixture: &Adapted<F>) {
    let ((), rows) = run(fixture, |memory| async move {
        for polls in 0..30u64 {
            let name = format!("turn {polls}");
            let append = Append::new(batch(&format!("{polls} 0"), 3)).with_id(name.as_str());
            let mut append = append.set_slot("last", name, Any);
            for left in [polls, 0, polls / 2] {
                drop(polled(memory.append_with(&mut append), left).await);
                assert!([0, 3].contains(&append.messages.len()), "the batch is whole or taken");
            }
            memory.append_with(&mut append).await.unwrap();
        }
    });
    let once = (0..30).map(|polls| (polls.to_string(), 1));
    assert_eq!(batches(&rows, 3), once.collect(), "each is there once");
}
