//! One conversation: the [`ChatMemory`] contract.

mod all_slots;
mod append;
#[cfg(feature = "async")]
mod asynchronous;
mod default;
mod evicting;
mod ext;
mod forward;
mod id;
mod limits;
mod message_window;
mod read;
mod slots;
mod token_window;

use std::fmt::Debug;
use std::ops::Range;
use std::sync::Arc;

pub(crate) use all_slots::read_all_slots;
#[cfg(feature = "async")]
pub(crate) use all_slots::read_all_slots_async;
#[cfg(feature = "redis")]
pub(crate) use append::conflict;
pub use append::{Append, Appended, Since};
pub(crate) use append::{LentBatch, forgotten, must_not_refer, unsupported};
#[cfg(feature = "async")]
pub use asynchronous::{AsyncChatMemory, AsyncChatMemoryExt, AsyncPages, BoxFuture};
#[cfg(feature = "async")]
pub(crate) use asynchronous::{append_and_read_by_the_larger_forms, share_async};
pub use default::DefaultChatMemory;
pub use ext::{ChatMemoryExt, Pages};
pub(crate) use forward::{forward, share};
pub use id::MemoryId;
pub use limits::Limits;
pub use message_window::MessageWindowChatMemory;
pub use read::Read;
pub(crate) use read::{Fork, On};
pub use slots::{Expected, SlotChange};
pub(crate) use slots::{MOST_NAME, check_name};
pub use token_window::TokenWindowChatMemory;

use crate::error::Result;
use crate::message::Message;
use crate::record::{SlotVersion, Snapshot};
use read::with_picked;

/// One conversation, which any number of callers can share.
///
/// Five methods are required. Four more have defaults for a memory that keeps messages and nothing
/// else. A memory with ids of appends, slots and times also implements
/// [`append_with`](Self::append_with), [`read_with`](Self::read_with), [`slots`](Self::slots) and
/// [`limits`](Self::limits). Everything else is in [`ChatMemoryExt`], which works on every memory.
///
/// # Contract
///
/// For implementers. Each sentence except the one on lost replies is a test, and the feature
/// `conformance` runs all of them on your memory with one macro. `examples/own_backend.rs` shows
/// how, and `examples/own_slots.rs` does it with all nine methods.
///
/// - **Order** is the order of append. Positions count from 0, ascend by one, and are never used
///   again, not even after [`evict`](Self::evict) or [`clear`](Self::clear).
/// - **A batch** is appended whole or not at all and stays contiguous, even if other threads,
///   processes or machines append at the same time. Nothing is lost.
/// - **A `System` message** in a batch gets no position: it goes to a slot of its own. The same
///   content changes nothing, other content replaces it, and no eviction touches it.
/// - **A read** is a consistent snapshot: no duplicates and no gaps, even if others append in the
///   meantime. `n` larger than the history returns what there is, `n = 0` returns no records, and
///   an empty memory is legal everywhere.
/// - **An error** leaves the memory as it was, and the batch with the caller. If the reply of a
///   server got lost, so that the outcome of the change is unknown, the error is
///   [`ErrorKind::Unacknowledged`](crate::ErrorKind::Unacknowledged) and nothing else; a backend
///   does not retry an append by itself unless it knows that it was not done.
/// - **A slot** is a small named document beside the records, with a version that is never used
///   again. Slots are written and removed by appends, [with them or not at all](Append), and read
///   by name in the snapshot of a read; a read that names none transfers none. Writing a slot
///   creates the conversation and is activity, like an append of messages. Removing a slot is
///   activity too; it creates the conversation only under an id. `clear` removes all slots. `evict`
///   leaves them: a summary of evicted records stays, and may refer to positions before `start`.
///   The system message is the oldest slot, and an exception: `System` messages write it, and every
///   snapshot has it.
/// - **The id of an append** is recognised if it comes again, even if records were appended,
///   evicted or cleared in the meantime. A conversation recognises at least its newest 64 ids. The
///   same id changes nothing, takes the messages and returns what the first append returned, even
///   if its expectations no longer hold.
/// - **An incarnation** is one life of a conversation. A snapshot of a conversation that exists
///   names it. After a [`clear`](Self::clear), or a delete and a new beginning, it is another one;
///   [`evict`](Self::evict) does not change it.
/// - **Debug output** and errors contain none of the text of a conversation: they end up in logs.
///   So write `Debug` by hand if a field holds messages.
/// - **A snapshot that a caller holds** keeps no reader waiting.
///
/// # What composing makes of records
///
/// A memory keeps what happened, in the order in which it happened; a prompt must satisfy a
/// provider. A memory need not repair anything for that:
///
/// - A tool result may be appended at any time. It is sent directly after its call: see
///   [`ToolGroups`](crate::window::ToolGroups).
/// - Records of the application
///   ([`CustomMessage::is_private`](crate::message::CustomMessage::is_private)) may be anywhere.
///   They are never sent, and take no place in a window.
/// - A memory without a slot for the system message may keep it as its first record: it is the
///   system message of every prompt that reaches back to it.
///
/// # Example
///
/// A complete memory of your own is no longer than `examples/custom_memory.rs`.
#[diagnostic::on_unimplemented(
    message = "`{Self}` is not a blocking chat memory",
    note = "an async memory goes into `MemoryPrompt::new_async`",
    note = "`adapt::ToBlocking` (feature `tokio`) makes an async memory a blocking one",
    note = "a store is many memories: take one of them, `store.memory(\"its id\")?`"
)]
pub trait ChatMemory: Debug + Send + Sync {
    /// Returns the id of the conversation.
    fn id(&self) -> &MemoryId;

    /// Appends the messages of `batch` and takes them out of it; returns their positions.
    ///
    /// With `expected`, it appends only if the conversation still ends there, that is, if
    /// [`Snapshot::end`] is still what the caller saw. So if two processes answer the same message,
    /// one of them gets a conflict.
    ///
    /// An empty batch, or one of `System` messages alone, returns an empty range at the end.
    ///
    /// # Errors
    ///
    /// [`ErrorKind::Conflict`](crate::ErrorKind::Conflict) if the conversation does not end at
    /// `expected`, [`ErrorKind::Invalid`](crate::ErrorKind::Invalid) if a message is larger than
    /// the [limits](Self::limits) allow or [has references](Message::has_references), and
    /// [`ErrorKind::Storage`](crate::ErrorKind::Storage) if the memory failed. The batch is then as
    /// it was.
    fn append(&self, batch: &mut Vec<Message>, expected: Option<u64>) -> Result<Range<u64>>;

    /// Reads the system message and the newest `n` records, or the newest `n` before the position
    /// `before`.
    ///
    /// # Errors
    ///
    /// [`ErrorKind::Storage`](crate::ErrorKind::Storage) if the memory failed.
    fn read(&self, before: Option<u64>, n: usize) -> Result<Snapshot>;

    /// Forgets every record before the position `before`; returns how many there were.
    ///
    /// # Errors
    ///
    /// [`ErrorKind::Storage`](crate::ErrorKind::Storage) if the memory failed.
    fn evict(&self, before: u64) -> Result<u64>;

    /// Forgets everything, the system message included. Positions continue from where they were, in
    /// another incarnation.
    ///
    /// # Errors
    ///
    /// [`ErrorKind::Storage`](crate::ErrorKind::Storage) if the memory failed.
    fn clear(&self) -> Result<()>;

    /// Appends the messages of `append` with all that goes with them, and takes the messages out of
    /// it. Its other fields stay: make a new `Append` for each batch.
    ///
    /// An append with neither messages, slot changes nor a time of activity changes nothing. Every
    /// other append is activity. It also begins the conversation, unless it only removes slots or
    /// [closes](Append::closing) and has no id.
    ///
    /// The default calls [`append`](Self::append), reports that ids are not recognised, and refuses
    /// what needs more.
    ///
    /// # Errors
    ///
    /// Those of [`append`](Self::append), and
    /// [`ErrorKind::SlotConflict`](crate::ErrorKind::SlotConflict) if a slot is not what was
    /// expected, [`ErrorKind::Forgotten`](crate::ErrorKind::Forgotten) if the conversation that was
    /// [seen](Append::since) no longer exists, [`ErrorKind::Invalid`](crate::ErrorKind::Invalid) as
    /// [`Append::check`] says, and [`ErrorKind::Unsupported`](crate::ErrorKind::Unsupported), with
    /// the name of this method, if the memory can't do it. A failure changes nothing, and `append`
    /// is as it was. If several expectations do not hold, the error names one of them.
    fn append_with(&self, append: &mut Append) -> Result<Appended> {
        append.must_be_plain()?;
        self.append(&mut append.messages, append.expected).map(Appended::new)
    }

    /// Reads as [`read`](Self::read) does, and with it the named slots and single records: each
    /// once, even if it is named twice.
    ///
    /// The default refuses slots, and reads the single records in several reads: they are then not
    /// of one moment, and may be missing even though the snapshot's `start` is before them.
    ///
    /// # Errors
    ///
    /// Those of [`read`](Self::read), [`ErrorKind::Invalid`](crate::ErrorKind::Invalid) for a name
    /// that no slot can have, and [`ErrorKind::Unsupported`](crate::ErrorKind::Unsupported), with
    /// the name of this method, if slots are named and the memory has none.
    fn read_with(&self, read: &Read) -> Result<Snapshot> {
        read.check()?;
        if !read.slots.is_empty() {
            return Err(unsupported("read", "slots", "read_with"));
        }
        let snapshot = self.read(read.before, read.n)?;
        if read.positions.is_empty() {
            return Ok(snapshot);
        }
        Ok(with_picked!(read, snapshot, |before, n| self.read(before, n)?))
    }

    /// Returns the names of all slots with their versions, in the order of the names' bytes; the
    /// system message is not among them.
    ///
    /// # Errors
    ///
    /// [`ErrorKind::Storage`](crate::ErrorKind::Storage) if the memory failed, and
    /// [`ErrorKind::Unsupported`](crate::ErrorKind::Unsupported) if it has no slots.
    fn slots(&self) -> Result<Vec<(String, SlotVersion)>> {
        Err(unsupported("slots", "slots", "slots"))
    }

    /// Returns the largest message, batch and slot that the memory accepts, and whether it has
    /// slots and recognises ids. It asks no server.
    fn limits(&self) -> Limits {
        Limits::default()
    }

    /// Returns the memory that a pointer already shares, so that no second pointer is put around
    /// it. Only pointers have one; a memory of your own keeps the default.
    #[doc(hidden)]
    fn already_shared(&self) -> Option<Arc<dyn ChatMemory>>
    where
        Self: 'static,
    {
        None
    }

    /// Returns the memory of all branches, if this one [shows one of several](crate::history). A
    /// memory of your own keeps the default.
    #[doc(hidden)]
    fn all_branches(&self) -> Option<Arc<dyn ChatMemory>> {
        None
    }
}
