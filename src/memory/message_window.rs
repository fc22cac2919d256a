//! The memory that keeps a number of messages.

use std::error::Error as StdError;
use std::fmt;
use std::ops::Range;

use super::evicting::{Evicting, Limit, evicting};
use super::{Append, Appended, ChatMemory, DefaultChatMemory, LentBatch, Limits, MemoryId, Read};
use crate::error::Result;
use crate::message::Message;
use crate::record::{Records, SlotVersion, Snapshot};

/// A memory that keeps at most a number of the newest messages, and evicts older ones from the
/// memory inside for good.
///
/// Use it if the history itself must not grow: for storage that costs money, or for rules on how
/// long messages of users may be kept. If you only want to send less, use a
/// [`Window`](crate::Window): it forgets nothing, and you can change it tomorrow.
///
/// | | is sent | is kept |
/// |---|---|---|
/// | [`Window`](crate::Window), [`Budget`](crate::Budget) | the newest | everything |
/// | `MessageWindowChatMemory` | what the window on it selects | the newest messages |
/// | [`TokenWindowChatMemory`](crate::TokenWindowChatMemory) | the same | the newest tokens |
///
/// # What is kept
///
/// - The system message has a slot of its own: it stays, and does not count.
/// - A tool group, that is an answer with tool calls and the results directly after it, is evicted
///   whole or not at all. So the memory may hold less than the limit, by up to one group. A late
///   result that is not directly after its group is a message of its own here: it outlives its
///   evicted call.
/// - The newest message or tool group stays, even if it is larger than the limit by itself.
/// - The application's own [records](crate::message::CustomMessage::is_private), which are never
///   sent to a model, do not count and separate no group. They go with the message before them.
/// - What has left the window never comes back, even if the limit grows again.
///
/// # How it evicts
///
/// An append first appends, and then evicts from the memory inside what is over the limit. If the
/// eviction fails, the append is done all the same, reads stay within the limit, and the next
/// append tries again. Reads evict nothing: if others append too much to the memory inside, reads
/// leave out the rest, and the next append here evicts it. No conversation is ever read and written
/// back, so any number of threads, processes and handles may share the memory inside.
///
/// An append reads nothing, unless there is a [callback](Self::on_evict) that needs the records.
/// Only records that this handle has not seen, because they were there before or because others
/// appended them, are read once, from the newest back until the window is full. To learn which
/// conversation it is, the first append of a handle reads what it appended too, and so does the
/// first one after [`clear`](ChatMemory::clear).
///
/// Appends and reads through one handle wait for each other. If others delete the conversation and
/// begin it again, a read notices by its [incarnation](crate::record::Snapshot::incarnation), or by
/// positions that moved back, and the handle starts over. Without a callback an append reads
/// nothing: if the new conversation ends exactly where the known one did, the append may split its
/// oldest tool group.
///
/// Slots and the ids of appends are those of the memory inside; the window does not affect them. A
/// read of [single records](crate::memory::Read::positions) returns only those in the window.
///
/// # Errors
///
/// As a [`ChatMemory`], those of the memory inside. [`evict`](ChatMemory::evict) first passes to
/// the [callback](Self::on_evict) the records that have left the window and that it has not got
/// yet. It fails if the callback fails, or if another call is still passing what it would forget.
/// [`clear`](ChatMemory::clear) passes nothing.
///
/// # Example
///
/// ```
/// use memory_prompt::{ChatMemoryExt, DefaultChatMemory, MessageWindowChatMemory, Message};
///
/// let archive = std::sync::Arc::new(DefaultChatMemory::new());
/// let kept = archive.clone();
/// let memory = MessageWindowChatMemory::new(DefaultChatMemory::new(), 2)?
///     .on_evict(move |_, records| Ok(drop(kept.add_all(records.messages().cloned())?)));
///
/// memory.add(Message::system("Be brief."))?;
/// for text in ["one", "two", "three"] {
///     memory.add(Message::user(text))?;
/// }
/// assert_eq!(memory.all()?.messages().map(|m| m.text()).collect::<Vec<_>>(), ["two", "three"]);
/// assert_eq!(memory.system()?.map(|m| m.text().into_owned()).as_deref(), Some("Be brief."));
/// assert_eq!(archive.all()?.messages().map(|m| m.text()).collect::<Vec<_>>(), ["one"]);
/// # Ok::<(), memory_prompt::Error>(())
/// ```
pub struct MessageWindowChatMemory<M = DefaultChatMemory> {
    inner: Evicting<M>,
}

impl<M: ChatMemory> MessageWindowChatMemory<M> {
    /// Returns a memory that keeps at most `limit` messages of `memory`.
    ///
    /// # Errors
    ///
    /// [`ErrorKind::Invalid`](crate::ErrorKind::Invalid) if the limit is 0.
    pub fn new(memory: M, limit: usize) -> Result<Self> {
        let limit = Limit::fixed(limit, "message window")?;
        Ok(Self { inner: Evicting::new(memory, limit, None) })
    }

    /// Returns a memory that keeps at most as many messages of `memory` as `limit` returns for its
    /// id; `limit` is called at each use.
    ///
    /// A limit of 0 counts as 1: the newest message or tool group stays.
    ///
    /// ```
    /// use memory_prompt::memory::MemoryId;
    /// use memory_prompt::{DefaultChatMemory, MessageWindowChatMemory};
    ///
    /// let limit = |id: &MemoryId| if id.as_str().starts_with("gold:") { 100 } else { 20 };
    /// let memory = MessageWindowChatMemory::dynamic(DefaultChatMemory::with_id("gold:u1"), limit);
    /// # drop(memory);
    /// ```
    pub fn dynamic(memory: M, limit: impl Fn(&MemoryId) -> usize + Send + Sync + 'static) -> Self {
        let limit = Limit::Computed(Box::new(limit));
        Self { inner: Evicting::new(memory, limit, None) }
    }
}

evicting!(MessageWindowChatMemory);
