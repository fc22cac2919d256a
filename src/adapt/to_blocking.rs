//! Async memories in blocking code.

use std::fmt;
use std::ops::Range;
use std::panic::resume_unwind;
use std::sync::Arc;
use std::thread;
use std::time::SystemTime;

use tokio::runtime::{Builder, Handle, Runtime};

use crate::error::{Error, ErrorKind, Result};
use crate::memory::{Append, Appended, AsyncChatMemory, ChatMemory, Limits, MemoryId, Read};
use crate::message::Message;
use crate::record::{Incarnation, Slot, SlotVersion, Snapshot};
use crate::store::{AsyncChatMemoryStore, ChatMemoryStore, Info};

/// An async memory or store as a blocking one, with a runtime of its own.
///
/// You can call it from anywhere: from a thread without async code, and from inside a runtime of
/// any kind, whose thread then waits. Connections live on this adapter's own runtime, one
/// background thread, so they are served while the caller waits, even if the caller's runtime has
/// only that one thread.
///
/// Calls from inside a runtime start a thread each, some ten microseconds: tokio forbids waiting on
/// a thread that drives tasks. In async code use the async memory itself.
///
/// ```
/// use memory_prompt::adapt::{ToAsync, ToBlocking};
/// use memory_prompt::{ChatMemoryExt, InMemoryStore, Message};
///
/// // A network backend goes here: `ToBlocking::connect(RedisStore::open("redis://localhost"))`.
/// let store = ToBlocking::connect(async { Ok(ToAsync::new(InMemoryStore::new())) })?;
/// let memory = store.memory("support:u1001:c2002")?;
/// memory.add(Message::user("hi"))?;
/// assert_eq!(memory.latest(10)?.len(), 1);
/// # Ok::<(), memory_prompt::Error>(())
/// ```
#[doc(alias = "Blocking")]
pub struct ToBlocking<T> {
    // Dropped in this order: the connections before the runtime that serves them.
    inner: T,
    engine: Arc<Engine>,
}

/// A runtime that may be dropped anywhere.
struct Engine(Option<Runtime>);

impl<T> ToBlocking<T> {
    /// Starts a runtime and connects on it.
    ///
    /// Connect inside the future that you pass in, not before: a connection that was made elsewhere
    /// is served elsewhere, and must not wait for a thread that waits here.
    ///
    /// # Errors
    ///
    /// [`ErrorKind::Storage`] if no thread can be started, and the errors of the future.
    pub fn connect(future: impl Future<Output = Result<T>> + Send) -> Result<Self>
    where
        T: Send,
    {
        let runtime = Builder::new_multi_thread()
            .worker_threads(1)
            .thread_name("memory-prompt")
            .enable_all()
            .build()
            .map_err(no_thread)?;
        let engine = Arc::new(Engine(Some(runtime)));
        let inner = engine.wait(future)??;
        Ok(Self { inner, engine })
    }

    /// Returns the memory or store that this adapter wraps.
    pub fn get_ref(&self) -> &T {
        &self.inner
    }

    /// Waits for a future on this adapter's runtime.
    ///
    /// # Errors
    ///
    /// [`ErrorKind::Storage`] if a thread is needed and can't be started.
    pub fn wait<R: Send>(&self, future: impl Future<Output = R> + Send) -> Result<R> {
        self.engine.wait(future)
    }

    pub(crate) fn on_same_runtime<U>(&self, inner: U) -> ToBlocking<U> {
        ToBlocking { inner, engine: Arc::clone(&self.engine) }
    }
}

impl<S: AsyncChatMemoryStore> ToBlocking<S> {
    /// Returns the memory of the conversation under this id, on the same runtime.
    ///
    /// # Errors
    ///
    /// As [`ChatMemoryStore::memory`].
    pub fn memory(&self, id: impl Into<MemoryId>) -> Result<ToBlocking<Arc<dyn AsyncChatMemory>>> {
        self.inner.memory(id.into()).map(|memory| self.on_same_runtime(memory))
    }
}

impl Engine {
    fn wait<R: Send>(&self, future: impl Future<Output = R> + Send) -> Result<R> {
        let Some(runtime) = &self.0 else {
            return Err(Error::new(ErrorKind::Storage, "wait", "the runtime is shut down"));
        };
        if Handle::try_current().is_err() {
            return Ok(runtime.block_on(future));
        }
        thread::scope(|scope| {
            let waiter = thread::Builder::new()
                .name("memory-prompt".to_owned())
                .spawn_scoped(scope, || runtime.block_on(future))
                .map_err(no_thread)?;
            // A panic in the memory is a panic here, as if it had been called directly.
            waiter.join().or_else(|panic| resume_unwind(panic))
        })
    }
}

fn no_thread(error: std::io::Error) -> Error {
    Error::new(ErrorKind::Storage, "wait", "no thread could be started").with_source(error)
}

impl Drop for Engine {
    /// Shuts the runtime down without waiting: tokio panics if a runtime that waits for its threads
    /// is dropped inside another one.
    fn drop(&mut self) {
        if let Some(runtime) = self.0.take() {
            runtime.shutdown_background();
        }
    }
}

/// Methods that wait for those of the same names of the value inside.
macro_rules! waits {
    ($(fn $name:ident(&self $(, $argument:ident: $type:ty)* $(,)?) -> $returned:ty;)*) => {$(
        fn $name(&self $(, $argument: $type)*) -> $returned {
            self.engine.wait(self.inner.$name($($argument),*))?
        }
    )*};
}

#[deny(clippy::missing_trait_methods)] // a default would hide the methods of the memory inside
impl<M: AsyncChatMemory> ChatMemory for ToBlocking<M> {
    fn id(&self) -> &MemoryId {
        self.inner.id()
    }
    waits! {
        fn append(&self, batch: &mut Vec<Message>, expected: Option<u64>) -> Result<Range<u64>>;
        fn read(&self, before: Option<u64>, n: usize) -> Result<Snapshot>;
        fn evict(&self, before: u64) -> Result<u64>;
        fn clear(&self) -> Result<()>;
        fn append_with(&self, append: &mut Append) -> Result<Appended>;
        fn read_with(&self, read: &Read) -> Result<Snapshot>;
        fn slots(&self) -> Result<Vec<(String, SlotVersion)>>;
    }
    fn limits(&self) -> Limits {
        self.inner.limits()
    }
    fn already_shared(&self) -> Option<Arc<dyn ChatMemory>>
    where
        Self: 'static,
    {
        None // the memory inside is not blocking
    }
    fn all_branches(&self) -> Option<Arc<dyn ChatMemory>> {
        None // nor is what that shows
    }
}

#[deny(clippy::missing_trait_methods)]
impl<S: AsyncChatMemoryStore> ChatMemoryStore for ToBlocking<S> {
    fn memory(&self, id: MemoryId) -> Result<Arc<dyn ChatMemory>> {
        self.memory(id).map(|memory| Arc::new(memory) as Arc<dyn ChatMemory>)
    }
    waits! {
        fn ids(&self, after: Option<&MemoryId>, n: usize) -> Result<Vec<MemoryId>>;
        fn delete(&self, id: &MemoryId) -> Result<bool>;
        fn purge_inactive(&self, older_than: SystemTime) -> Result<u64>;
        fn ids_with_prefix(
            &self,
            prefix: &str,
            after: Option<&MemoryId>,
            n: usize,
        ) -> Result<Vec<MemoryId>>;
        fn info(&self, id: &MemoryId) -> Result<Option<Info>>;
        fn slots_with_prefix(
            &self,
            prefix: &str,
            names: &str,
            after: Option<(&MemoryId, &str)>,
            n: usize,
        ) -> Result<Vec<(MemoryId, Slot)>>;
        fn delete_prefix(&self, prefix: &str) -> Result<u64>;
        fn restore(
            &self,
            id: &MemoryId,
            start: u64,
            incarnation: Option<Incarnation>,
        ) -> Result<()>;
    }
}

impl<T: fmt::Debug> fmt::Debug for ToBlocking<T> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_tuple("ToBlocking").field(&self.inner).finish()
    }
}
