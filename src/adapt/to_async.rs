//! Blocking memories in async code.

use std::fmt::{self, Debug};
use std::panic::resume_unwind;
use std::sync::Arc;
use std::time::SystemTime;

use parking_lot::Mutex;
use tokio::runtime::Handle;
use tokio::sync::watch::{Receiver, channel};
use tokio::task::JoinHandle;

use crate::error::{Error, ErrorKind, Result};
use crate::memory::{
    Append, Appended, AsyncChatMemory, BoxFuture, ChatMemory, Limits, MemoryId, Read,
    append_and_read_by_the_larger_forms,
};
use crate::record::{Incarnation, Slot, SlotVersion, Snapshot};
use crate::store::given_up::CancelSource;
use crate::store::{AsyncChatMemoryStore, ChatMemoryStore, Info};

/// A blocking memory or store in async code. It works on tokio's threads for blocking work, so the
/// executor is not blocked.
///
/// A future that is dropped (by a timeout, say) does not stop the work that it has begun: an append
/// is then done or not done, and the batch is still with the caller. (For that the batch is
/// copied.) Such work is never done after a later change, though: work that no thread has started
/// is dropped with its future, and a later change of the same conversation, through this adapter or
/// another one of its store, waits until the change that was left running has ended. A read does
/// not wait: it may come before a change that was left running. A purge waits for no change, and no
/// change waits for a purge. Over a `SqliteStore` this holds among processes too: if a change is
/// dropped while another process writes, it is not made after that write.
///
/// Outside a tokio runtime every operation returns an error.
///
/// ```
/// use memory_prompt::adapt::ToAsync;
/// use memory_prompt::{AsyncChatMemoryExt, InMemoryStore, MemoryPrompt, Message};
///
/// # tokio::runtime::Builder::new_current_thread().build().unwrap().block_on(async {
/// let store = ToAsync::new(InMemoryStore::new());
/// let mut prompt = MemoryPrompt::new_async(store.memory("support:u1001:c2002")?);
/// prompt.add(Message::user("hi")).await?;
/// assert_eq!(prompt.build().await?.len(), 1);
/// # Ok::<(), memory_prompt::Error>(())
/// # })?;
/// # Ok::<(), memory_prompt::Error>(())
/// ```
#[doc(alias = "Unblock")]
#[doc(alias = "NonBlocking")]
pub struct ToAsync<T> {
    inner: Arc<T>,
    left: Arc<LeftRunning>,
}

/// Changes whose futures were dropped while threads worked on them, until the work is done.
type LeftRunning = Mutex<Vec<(Scope, Receiver<()>)>>;

/// The conversations that a change affects.
#[derive(Clone)]
enum Scope {
    One(MemoryId),
    Prefix(String),
}

impl Scope {
    /// Returns whether both may affect the same conversation.
    fn meets(&self, other: &Self) -> bool {
        match (self, other) {
            (Self::One(a), Self::One(b)) => a == b,
            (Self::One(id), Self::Prefix(prefix)) | (Self::Prefix(prefix), Self::One(id)) => {
                id.as_str().starts_with(prefix.as_str())
            }
            (Self::Prefix(a), Self::Prefix(b)) => a.starts_with(b) || b.starts_with(a),
        }
    }
}

impl<T> ToAsync<T> {
    /// Wraps this memory or store for async code.
    pub fn new(inner: T) -> Self {
        Self { inner: Arc::new(inner), left: Arc::default() }
    }

    /// Returns the memory or store that this adapter wraps.
    pub fn get_ref(&self) -> &T {
        &self.inner
    }
}

impl<T> Clone for ToAsync<T> {
    /// Returns another handle on the same memory or store.
    fn clone(&self) -> Self {
        Self { inner: Arc::clone(&self.inner), left: Arc::clone(&self.left) }
    }
}

impl<T: Debug> Debug for ToAsync<T> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("ToAsync").field("inner", &self.inner).finish_non_exhaustive()
    }
}

impl<S: ChatMemoryStore> ToAsync<S> {
    /// Returns the memory of the conversation under this id, for async code.
    ///
    /// # Errors
    ///
    /// As [`ChatMemoryStore::memory`].
    pub fn memory(&self, id: impl Into<MemoryId>) -> Result<ToAsync<Arc<dyn ChatMemory>>> {
        let memory = self.inner.memory(id.into())?;
        Ok(ToAsync { inner: Arc::new(memory), left: Arc::clone(&self.left) })
    }
}

impl<T: Send + Sync + 'static> ToAsync<T> {
    fn run<R: Send + 'static>(
        &self,
        operation: &'static str,
        work: impl FnOnce(&T) -> Result<R> + Send + 'static,
    ) -> BoxFuture<'_, Result<R>> {
        Box::pin(async move {
            let runtime = Handle::try_current().map_err(|error| {
                let text = "a blocking memory in async code needs a tokio runtime";
                Error::new(ErrorKind::Storage, operation, text).with_source(error)
            })?;
            let inner = Arc::clone(&self.inner);
            let cancel = CancelSource::default(); // until this future is done or dropped
            let work = cancel.for_work(move || work(&inner));
            let mut task = AbortOnDrop(runtime.spawn_blocking(work));
            match (&mut task.0).await {
                Ok(result) => result,
                // A panic in the memory is a panic here, as if it had been called directly.
                Err(error) if error.is_panic() => resume_unwind(error.into_panic()),
                Err(error) => {
                    let text = "the runtime was shut down meanwhile";
                    Err(Error::new(ErrorKind::Storage, operation, text).with_source(error))
                }
            }
        })
    }

    /// Runs a change of these conversations after all changes of them that were left running.
    fn change<'a, R: Send + 'static>(
        &'a self,
        operation: &'static str,
        scope: Scope,
        work: impl FnOnce(&T) -> Result<R> + Send + 'static,
    ) -> BoxFuture<'a, Result<R>> {
        Box::pin(async move {
            let before: Vec<_> = {
                let mut left = self.left.lock();
                left.retain(|(_, running)| is_running(running));
                left.iter().filter(|(left, _)| left.meets(&scope)).map(|(_, r)| r.clone()).collect()
            };
            for mut running in before {
                while running.changed().await.is_ok() {}
            }
            let (runs, running) = channel(());
            let _change = UnderWay { left: &self.left, scope, running };
            let work = move |inner: &T| {
                let _runs = runs; // until this is dropped, even by a panic
                work(inner)
            };
            self.run(operation, work).await
        })
    }
}

/// A change that is left running if its work is not done when this is dropped.
struct UnderWay<'a> {
    left: &'a LeftRunning,
    scope: Scope,
    running: Receiver<()>,
}

impl Drop for UnderWay<'_> {
    fn drop(&mut self) {
        if is_running(&self.running) {
            self.left.lock().push((self.scope.clone(), self.running.clone()));
        }
    }
}

/// Returns whether the work is not done. No value is ever sent: the sender is dropped when the work
/// is done.
fn is_running(running: &Receiver<()>) -> bool {
    running.has_changed().is_ok()
}

/// A task that is not started any more once its future is dropped.
struct AbortOnDrop<R>(JoinHandle<R>);

impl<R> Drop for AbortOnDrop<R> {
    fn drop(&mut self) {
        self.0.abort();
    }
}

impl<M: ChatMemory> ToAsync<M> {
    fn scope(&self) -> Scope {
        Scope::One(self.inner.id().clone())
    }
}

#[deny(clippy::missing_trait_methods)] // a default would hide the methods of the memory inside
impl<M: ChatMemory + 'static> AsyncChatMemory for ToAsync<M> {
    fn id(&self) -> &MemoryId {
        self.inner.id()
    }
    append_and_read_by_the_larger_forms!();
    fn evict(&self, before: u64) -> BoxFuture<'_, Result<u64>> {
        self.change("evict", self.scope(), move |memory| memory.evict(before))
    }
    fn clear(&self) -> BoxFuture<'_, Result<()>> {
        self.change("clear", self.scope(), ChatMemory::clear)
    }
    fn append_with<'a>(&'a self, append: &'a mut Append) -> BoxFuture<'a, Result<Appended>> {
        Box::pin(async move {
            let mut copy = append.clone();
            let work = move |memory: &M| memory.append_with(&mut copy);
            let appended = self.change("append", self.scope(), work).await?;
            append.messages.clear();
            Ok(appended)
        })
    }
    fn read_with<'a>(&'a self, read: &'a Read) -> BoxFuture<'a, Result<Snapshot>> {
        let read = read.clone();
        self.run("read", move |memory| memory.read_with(&read))
    }
    fn slots(&self) -> BoxFuture<'_, Result<Vec<(String, SlotVersion)>>> {
        self.run("slots", ChatMemory::slots)
    }
    fn limits(&self) -> Limits {
        self.inner.limits()
    }
    fn already_shared(&self) -> Option<Arc<dyn AsyncChatMemory>>
    where
        Self: 'static,
    {
        None // the memory inside is not async
    }
    fn all_branches(&self) -> Option<Arc<dyn AsyncChatMemory>> {
        None // nor is what that shows
    }
}

#[deny(clippy::missing_trait_methods)]
impl<S: ChatMemoryStore + 'static> AsyncChatMemoryStore for ToAsync<S> {
    fn memory(&self, id: MemoryId) -> Result<Arc<dyn AsyncChatMemory>> {
        self.memory(id).map(|memory| Arc::new(memory) as Arc<dyn AsyncChatMemory>)
    }
    fn ids<'a>(
        &'a self,
        after: Option<&'a MemoryId>,
        n: usize,
    ) -> BoxFuture<'a, Result<Vec<MemoryId>>> {
        let after = after.cloned();
        self.run("ids", move |store| store.ids(after.as_ref(), n))
    }
    fn delete<'a>(&'a self, id: &'a MemoryId) -> BoxFuture<'a, Result<bool>> {
        let id = id.clone();
        self.change("delete", Scope::One(id.clone()), move |store| store.delete(&id))
    }
    fn purge_inactive(&self, older_than: SystemTime) -> BoxFuture<'_, Result<u64>> {
        self.run("purge_inactive", move |store| store.purge_inactive(older_than))
    }
    fn ids_with_prefix<'a>(
        &'a self,
        prefix: &'a str,
        after: Option<&'a MemoryId>,
        n: usize,
    ) -> BoxFuture<'a, Result<Vec<MemoryId>>> {
        let (prefix, after) = (prefix.to_owned(), after.cloned());
        self.run("ids", move |store| store.ids_with_prefix(&prefix, after.as_ref(), n))
    }
    fn info<'a>(&'a self, id: &'a MemoryId) -> BoxFuture<'a, Result<Option<Info>>> {
        let id = id.clone();
        self.run("info", move |store| store.info(&id))
    }
    fn slots_with_prefix<'a>(
        &'a self,
        prefix: &'a str,
        names: &'a str,
        after: Option<(&'a MemoryId, &'a str)>,
        n: usize,
    ) -> BoxFuture<'a, Result<Vec<(MemoryId, Slot)>>> {
        let (prefix, names) = (prefix.to_owned(), names.to_owned());
        let after = after.map(|(id, name)| (id.clone(), name.to_owned()));
        self.run("slots", move |store| {
            let after = after.as_ref().map(|(id, name)| (id, name.as_str()));
            store.slots_with_prefix(&prefix, &names, after, n)
        })
    }
    fn delete_prefix<'a>(&'a self, prefix: &'a str) -> BoxFuture<'a, Result<u64>> {
        let prefix = prefix.to_owned();
        let scope = Scope::Prefix(prefix.clone());
        self.change("delete_prefix", scope, move |store| store.delete_prefix(&prefix))
    }
    fn restore<'a>(
        &'a self,
        id: &'a MemoryId,
        start: u64,
        incarnation: Option<Incarnation>,
    ) -> BoxFuture<'a, Result<()>> {
        let id = id.clone();
        let scope = Scope::One(id.clone());
        self.change("restore", scope, move |store| store.restore(&id, start, incarnation))
    }
}
