//! The async twin of [`ChatMemory`](super::ChatMemory).

use std::fmt::Debug;
use std::ops::Range;
use std::pin::Pin;
use std::sync::Arc;

use super::append::{unsupported, written};
use super::ext::{NextPage, copies, kept};
use super::forward::{forward, same};
use super::read::with_picked;
use super::{Append, Appended, Expected, Limits, MemoryId, Read};
use crate::error::Result;
use crate::message::{Message, with_one_system};
use crate::record::{Records, Slot, SlotVersion, Snapshot};

/// A future on the heap, so that the traits that return one can be used as `dyn`.
pub type BoxFuture<'a, T> = Pin<Box<dyn Future<Output = T> + Send + 'a>>;

/// One conversation, which any number of callers can share, for async code.
///
/// The contract is that of [`ChatMemory`](super::ChatMemory), method by method and word by word,
/// with one more sentence:
///
/// - **A future that is dropped** before it is done leaves the operation done or not done, never
///   half done. Which of the two is unknown.
///
/// The trait needs no particular executor; an implementation may.
///
/// ```
/// use std::ops::Range;
/// use memory_prompt::memory::{BoxFuture, MemoryId};
/// use memory_prompt::record::Snapshot;
/// use memory_prompt::{
///     AsyncChatMemory, AsyncChatMemoryExt, ChatMemory, DefaultChatMemory, Message, Result,
/// };
///
/// /// A memory that never has to wait.
/// #[derive(Debug)]
/// struct Ready(DefaultChatMemory);
///
/// impl AsyncChatMemory for Ready {
///     fn id(&self) -> &MemoryId {
///         self.0.id()
///     }
///     fn append<'a>(
///         &'a self,
///         batch: &'a mut Vec<Message>,
///         expected: Option<u64>,
///     ) -> BoxFuture<'a, Result<Range<u64>>> {
///         Box::pin(async move { self.0.append(batch, expected) })
///     }
///     fn read(&self, before: Option<u64>, n: usize) -> BoxFuture<'_, Result<Snapshot>> {
///         Box::pin(async move { self.0.read(before, n) })
///     }
///     fn evict(&self, before: u64) -> BoxFuture<'_, Result<u64>> {
///         Box::pin(async move { self.0.evict(before) })
///     }
///     fn clear(&self) -> BoxFuture<'_, Result<()>> {
///         Box::pin(async move { self.0.clear() })
///     }
/// }
///
/// # fn block_on<T>(future: impl Future<Output = T>) -> T {
/// #     let mut context = std::task::Context::from_waker(std::task::Waker::noop());
/// #     let mut future = std::pin::pin!(future);
/// #     loop {
/// #         if let std::task::Poll::Ready(it) = future.as_mut().poll(&mut context) { return it; }
/// #     }
/// # }
/// # block_on(async {
/// let memory = Ready(DefaultChatMemory::with_id("support:u1001:c2002"));
/// memory.add(Message::user("hi")).await?;
/// assert_eq!(memory.latest(10).await?.len(), 1);
/// # Ok::<(), memory_prompt::Error>(())
/// # })?;
/// # Ok::<(), memory_prompt::Error>(())
/// ```
#[diagnostic::on_unimplemented(
    message = "`{Self}` is not an async chat memory",
    note = "a blocking memory goes into `MemoryPrompt::new`",
    note = "`adapt::ToAsync` (feature `tokio`) makes a blocking memory an async one",
    note = "a store is many memories: take one of them, `store.memory(\"its id\")?`"
)]
pub trait AsyncChatMemory: Debug + Send + Sync {
    /// Returns the id of the conversation.
    fn id(&self) -> &MemoryId;

    /// Appends the messages of `batch` and takes them out of it; returns their positions.
    ///
    /// As [`ChatMemory::append`](super::ChatMemory::append). If the future is dropped, the batch
    /// is as it was, or empty if it is known to be appended.
    ///
    /// # Errors
    ///
    /// As [`ChatMemory::append`](super::ChatMemory::append).
    fn append<'a>(
        &'a self,
        batch: &'a mut Vec<Message>,
        expected: Option<u64>,
    ) -> BoxFuture<'a, Result<Range<u64>>>;

    /// Reads the system message and the newest `n` records, or the newest `n` before the position
    /// `before`.
    ///
    /// # Errors
    ///
    /// As [`ChatMemory::read`](super::ChatMemory::read).
    fn read(&self, before: Option<u64>, n: usize) -> BoxFuture<'_, Result<Snapshot>>;

    /// Forgets every record before the position `before`; returns how many there were.
    ///
    /// # Errors
    ///
    /// As [`ChatMemory::evict`](super::ChatMemory::evict).
    fn evict(&self, before: u64) -> BoxFuture<'_, Result<u64>>;

    /// Forgets everything, the system message included. Positions continue from where they were, in
    /// another incarnation.
    ///
    /// # Errors
    ///
    /// As [`ChatMemory::clear`](super::ChatMemory::clear).
    fn clear(&self) -> BoxFuture<'_, Result<()>>;

    /// Appends the messages of `append` with all that goes with them, and takes them out of it.
    ///
    /// As [`ChatMemory::append_with`](super::ChatMemory::append_with). If the future is dropped,
    /// `append` is as it was, or its messages are taken if they are known to be appended.
    ///
    /// # Errors
    ///
    /// As [`ChatMemory::append_with`](super::ChatMemory::append_with).
    fn append_with<'a>(&'a self, append: &'a mut Append) -> BoxFuture<'a, Result<Appended>> {
        Box::pin(async move {
            append.must_be_plain()?;
            self.append(&mut append.messages, append.expected).await.map(Appended::new)
        })
    }

    /// Reads as [`read`](Self::read) does, and with it the named slots and single records.
    ///
    /// # Errors
    ///
    /// As [`ChatMemory::read_with`](super::ChatMemory::read_with).
    fn read_with<'a>(&'a self, read: &'a Read) -> BoxFuture<'a, Result<Snapshot>> {
        Box::pin(async move {
            read.check()?;
            if !read.slots.is_empty() {
                return Err(unsupported("read", "slots", "read_with"));
            }
            let snapshot = self.read(read.before, read.n).await?;
            if read.positions.is_empty() {
                return Ok(snapshot);
            }
            Ok(with_picked!(read, snapshot, |before, n| self.read(before, n).await?))
        })
    }

    /// Returns the names of all slots with their versions, in the order of the names' bytes; the
    /// system message is not among them.
    ///
    /// # Errors
    ///
    /// As [`ChatMemory::slots`](super::ChatMemory::slots).
    fn slots(&self) -> BoxFuture<'_, Result<Vec<(String, SlotVersion)>>> {
        Box::pin(async { Err(unsupported("slots", "slots", "slots")) })
    }

    /// Returns the largest message, batch and slot that the memory accepts, and whether it has
    /// slots and recognises ids. It asks no server, so there is nothing to wait for.
    fn limits(&self) -> Limits {
        Limits::default()
    }

    /// Returns the memory that a pointer already shares, as the blocking twin does.
    #[doc(hidden)]
    fn already_shared(&self) -> Option<Arc<dyn AsyncChatMemory>>
    where
        Self: 'static,
    {
        None
    }

    /// Returns the memory of all branches, as the blocking twin does.
    #[doc(hidden)]
    fn all_branches(&self) -> Option<Arc<dyn AsyncChatMemory>> {
        None
    }
}

/// The methods `append` and `read` of a memory, made of its `append_with` and `read_with`.
macro_rules! append_and_read_by_the_larger_forms {
    () => {
        fn append<'a>(
            &'a self,
            batch: &'a mut Vec<$crate::message::Message>,
            expected: Option<u64>,
        ) -> BoxFuture<'a, Result<std::ops::Range<u64>>> {
            Box::pin(async move {
                let mut lent = $crate::memory::LentBatch::new(batch, expected);
                Ok(self.append_with(&mut lent.append).await?.positions)
            })
        }
        fn read(&self, before: Option<u64>, n: usize) -> BoxFuture<'_, Result<Snapshot>> {
            Box::pin(async move { self.read_with(&Read { before, ..Read::newest(n) }).await })
        }
    };
}
pub(crate) use append_and_read_by_the_larger_forms;

forward! {
    AsyncChatMemory for
        [M: AsyncChatMemory + ?Sized] &M,
        [M: AsyncChatMemory + ?Sized] Box<M>,
        [M: AsyncChatMemory + ?Sized] Arc<M>;
    {
        fn id(&self) -> &MemoryId;
        fn append<'a>(&'a self, batch: &'a mut Vec<Message>, expected: Option<u64>)
            -> BoxFuture<'a, Result<Range<u64>>>;
        fn read(&self, before: Option<u64>, n: usize) -> BoxFuture<'_, Result<Snapshot>>;
        fn evict(&self, before: u64) -> BoxFuture<'_, Result<u64>>;
        fn clear(&self) -> BoxFuture<'_, Result<()>>;
        fn append_with<'a>(&'a self, append: &'a mut Append) -> BoxFuture<'a, Result<Appended>>;
        fn read_with<'a>(&'a self, read: &'a Read) -> BoxFuture<'a, Result<Snapshot>>;
        fn slots(&self) -> BoxFuture<'_, Result<Vec<(String, SlotVersion)>>>;
        fn limits(&self) -> Limits;
        fn all_branches(&self) -> Option<Arc<dyn AsyncChatMemory>>;
    } {
        fn already_shared(&self) -> Option<Arc<dyn AsyncChatMemory>>
        where
            Self: 'static,
        {
            (**self).already_shared().or_else(|| same(self))
        }
    }
}

/// Returns the memory as a shared one, never wrapped twice, as for the blocking twin.
pub(crate) fn share_async(memory: impl AsyncChatMemory + 'static) -> Arc<dyn AsyncChatMemory> {
    memory.already_shared().unwrap_or_else(|| Arc::new(memory))
}

/// Convenience methods for users of an [`AsyncChatMemory`]: the twin of
/// [`ChatMemoryExt`](super::ChatMemoryExt). It is implemented for every async memory; do not
/// implement it yourself.
pub trait AsyncChatMemoryExt: AsyncChatMemory {
    /// Appends one message; returns its position (for a `System` message, where the next one goes).
    ///
    /// # Errors
    ///
    /// As [`AsyncChatMemory::append`]. The message is then lost: append a batch if it must survive.
    fn add(&self, message: impl Into<Message>) -> impl Future<Output = Result<u64>> + Send {
        let mut batch = vec![message.into()];
        async move { self.append(&mut batch, None).await.map(|range| range.start) }
    }

    /// Appends messages in one batch; returns their positions.
    ///
    /// # Errors
    ///
    /// As [`AsyncChatMemory::append`].
    fn add_all(
        &self,
        messages: impl IntoIterator<Item = Message>,
    ) -> impl Future<Output = Result<Range<u64>>> + Send {
        let mut batch: Vec<Message> = messages.into_iter().collect();
        async move { self.append(&mut batch, None).await }
    }

    /// Appends a history that was written elsewhere, and joins its system messages in their order:
    /// see [`ChatMemoryExt::import`](super::ChatMemoryExt::import).
    ///
    /// # Errors
    ///
    /// As [`AsyncChatMemory::append`].
    fn import(
        &self,
        history: impl IntoIterator<Item = Message>,
    ) -> impl Future<Output = Result<Range<u64>>> + Send {
        let mut batch = with_one_system(history);
        async move { self.append(&mut batch, None).await }
    }

    /// Returns the newest `n` records.
    ///
    /// # Errors
    ///
    /// As [`AsyncChatMemory::read`].
    fn latest(&self, n: usize) -> impl Future<Output = Result<Records>> + Send {
        async move { self.read(None, n).await.map(|snapshot| snapshot.records) }
    }

    /// Returns every record.
    ///
    /// # Errors
    ///
    /// As [`AsyncChatMemory::read`].
    fn all(&self) -> impl Future<Output = Result<Records>> + Send {
        self.latest(usize::MAX)
    }

    /// Returns a copy of every message, oldest first. [`all`](Self::all) copies nothing, and also
    /// has positions and times.
    ///
    /// # Errors
    ///
    /// As [`AsyncChatMemory::read`].
    fn messages(&self) -> impl Future<Output = Result<Vec<Message>>> + Send {
        async move { self.all().await.map(|records| copies(&records)) }
    }

    /// Returns the number of records that are kept, those that can't be read included. The system
    /// message is not among them.
    ///
    /// # Errors
    ///
    /// As [`AsyncChatMemory::read`].
    #[doc(alias = "count")]
    fn len(&self) -> impl Future<Output = Result<u64>> + Send {
        async move { self.read(None, 0).await.map(|snapshot| kept(&snapshot)) }
    }

    /// Returns whether no record is kept.
    ///
    /// # Errors
    ///
    /// As [`AsyncChatMemory::read`].
    fn is_empty(&self) -> impl Future<Output = Result<bool>> + Send {
        async move { self.len().await.map(|len| len == 0) }
    }

    /// Returns the system message, if there is one.
    ///
    /// # Errors
    ///
    /// As [`AsyncChatMemory::read`].
    fn system(&self) -> impl Future<Output = Result<Option<Arc<Message>>>> + Send {
        async move { self.read(None, 0).await.map(|snapshot| snapshot.system) }
    }

    /// Returns the position that the next record will have. It also counts records that were
    /// evicted; [`len`](Self::len) returns the number of those that are kept.
    ///
    /// # Errors
    ///
    /// As [`AsyncChatMemory::read`].
    #[doc(alias = "end")]
    fn next_position(&self) -> impl Future<Output = Result<u64>> + Send {
        async move { self.read(None, 0).await.map(|snapshot| snapshot.end) }
    }

    /// Returns the slot of this name, if there is one.
    ///
    /// # Errors
    ///
    /// As [`AsyncChatMemory::read_with`].
    fn slot(&self, name: impl Into<String>) -> impl Future<Output = Result<Option<Slot>>> + Send {
        let read = Read::newest(0).slots([name]);
        async move { self.read_with(&read).await.map(|snapshot| snapshot.slots().first().cloned()) }
    }

    /// Writes a slot; returns its version.
    ///
    /// # Errors
    ///
    /// As [`AsyncChatMemory::append_with`].
    fn set_slot(
        &self,
        name: impl Into<String>,
        content: impl Into<Vec<u8>>,
        expected: Expected,
    ) -> impl Future<Output = Result<SlotVersion>> + Send {
        let mut append = Append::default().set_slot(name, content, expected);
        async move { written(&self.append_with(&mut append).await?) }
    }

    /// Removes a slot, if there is one.
    ///
    /// # Errors
    ///
    /// As [`AsyncChatMemory::append_with`].
    fn remove_slot(
        &self,
        name: impl Into<String>,
        expected: Expected,
    ) -> impl Future<Output = Result<()>> + Send {
        let mut append = Append::default().remove_slot(name, expected);
        async move { self.append_with(&mut append).await.map(drop) }
    }

    /// Returns the history in pages of `size` records, from the newest page to the oldest.
    ///
    /// As [`ChatMemoryExt::pages`](super::ChatMemoryExt::pages), with `next().await`.
    fn pages(&self, size: usize) -> AsyncPages<'_, Self> {
        AsyncPages { memory: self, next: NextPage::of(size) }
    }
}

impl<M: AsyncChatMemory + ?Sized> AsyncChatMemoryExt for M {}

/// The pages of [`AsyncChatMemoryExt::pages`].
#[derive(Debug)]
pub struct AsyncPages<'a, M: ?Sized> {
    memory: &'a M,
    next: NextPage,
}

impl<M: AsyncChatMemory + ?Sized> AsyncPages<'_, M> {
    /// Returns the next page, or `None` after the last one. An error ends the pages.
    pub async fn next(&mut self) -> Option<Result<Records>> {
        let (before, size) = self.next.begin()?;
        self.next.read(self.memory.read(before, size).await).transpose()
    }
}
