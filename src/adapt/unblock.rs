//! Blocking memories in async code.

use std::ops::Range;
use std::panic::resume_unwind;
use std::sync::Arc;
use std::time::SystemTime;

use tokio::runtime::Handle;

use crate::error::{Error, ErrorKind, Result};
use crate::memory::{AsyncChatMemory, BoxFuture, ChatMemory, MemoryId};
use crate::message::Message;
use crate::record::Snapshot;
use crate::store::{AsyncChatMemoryStore, ChatMemoryStore};

/// A blocking memory or store in async code: its work is done on tokio's threads for blocking work,
/// so the executor goes on meanwhile.
///
/// A future that is dropped does not stop the work it has begun: an append is then done or not done,
/// and the batch is still with the caller. (So that it can be, the batch is copied.)
///
/// Outside a tokio runtime every operation is an error.
///
/// ```
/// use memory_prompt::{AsyncChatMemoryExt, InMemoryStore, MemoryPrompt, Message, Unblock};
///
/// # tokio::runtime::Builder::new_current_thread().build().unwrap().block_on(async {
/// let store = Unblock::new(InMemoryStore::new());
/// let mut prompt = MemoryPrompt::new_async(store.memory("support:u1001:c2002")?);
/// prompt.add(Message::user("hi")).await?;
/// assert_eq!(prompt.build().await?.len(), 1);
/// # Ok::<(), memory_prompt::Error>(())
/// # })?;
/// # Ok::<(), memory_prompt::Error>(())
/// ```
#[derive(Debug)]
pub struct Unblock<T> {
    inner: Arc<T>,
}

impl<T> Unblock<T> {
    /// This memory or store, for async code.
    pub fn new(inner: T) -> Self {
        Self { inner: Arc::new(inner) }
    }

    /// What this adapter wraps.
    pub fn get_ref(&self) -> &T {
        &self.inner
    }
}

impl<T> Clone for Unblock<T> {
    /// Another handle on the same memory or store.
    fn clone(&self) -> Self {
        Self { inner: Arc::clone(&self.inner) }
    }
}

impl<S: ChatMemoryStore> Unblock<S> {
    /// The memory of the conversation under this id, for async code.
    ///
    /// # Errors
    ///
    /// As [`ChatMemoryStore::memory`].
    pub fn memory(&self, id: impl Into<MemoryId>) -> Result<Unblock<Arc<dyn ChatMemory>>> {
        self.inner.memory(id.into()).map(Unblock::new)
    }
}

impl<T: Send + Sync + 'static> Unblock<T> {
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
            match runtime.spawn_blocking(move || work(&inner)).await {
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
}

impl<M: ChatMemory + 'static> AsyncChatMemory for Unblock<M> {
    fn id(&self) -> &MemoryId {
        self.inner.id()
    }
    fn append<'a>(
        &'a self,
        batch: &'a mut Vec<Message>,
        expected: Option<u64>,
    ) -> BoxFuture<'a, Result<Range<u64>>> {
        Box::pin(async move {
            let mut copy = batch.clone();
            let work = move |memory: &M| memory.append(&mut copy, expected);
            let positions = self.run("append", work).await?;
            batch.clear();
            Ok(positions)
        })
    }
    fn read(&self, before: Option<u64>, n: usize) -> BoxFuture<'_, Result<Snapshot>> {
        self.run("read", move |memory| memory.read(before, n))
    }
    fn evict(&self, before: u64) -> BoxFuture<'_, Result<u64>> {
        self.run("evict", move |memory| memory.evict(before))
    }
    fn clear(&self) -> BoxFuture<'_, Result<()>> {
        self.run("clear", ChatMemory::clear)
    }
}

impl<S: ChatMemoryStore + 'static> AsyncChatMemoryStore for Unblock<S> {
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
        self.run("delete", move |store| store.delete(&id))
    }
    fn purge_inactive(&self, older_than: SystemTime) -> BoxFuture<'_, Result<u64>> {
        self.run("purge_inactive", move |store| store.purge_inactive(older_than))
    }
}
