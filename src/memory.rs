//! One conversation: the [`ChatMemory`] contract.

#[cfg(feature = "async")]
mod asynchronous;
mod default;
mod evicting;
mod ext;
mod forward;
mod id;
mod message_window;
mod token_window;

use std::fmt::Debug;
use std::ops::Range;

#[cfg(feature = "async")]
pub use asynchronous::{AsyncChatMemory, AsyncChatMemoryExt, AsyncPages, BoxFuture};
pub use default::DefaultChatMemory;
pub use ext::{ChatMemoryExt, Pages};
pub use id::MemoryId;
pub use message_window::MessageWindowChatMemory;
pub use token_window::TokenWindowChatMemory;

use crate::error::Result;
use crate::message::Message;
use crate::record::Snapshot;

/// One conversation, shared by whoever talks in it.
///
/// Five methods are required; everything else is in [`ChatMemoryExt`], which works on every memory.
///
/// # Contract
///
/// For those who implement it. Each sentence is a test, and the feature `conformance` runs all of them
/// on your memory by one macro; `examples/own_backend.rs` shows how.
///
/// - **Order** is the order of append. Positions (`seq`) count from 0, ascend by one, and are never
///   used again, not even after [`evict`](Self::evict) or [`clear`](Self::clear).
/// - **A batch** is appended whole or not at all and stays contiguous, whatever other threads,
///   processes or machines append at the same time. Nothing is lost.
/// - **A `System` message** in a batch gets no position: it goes to a slot of its own. The same
///   content changes nothing, other content replaces it, and no eviction touches it.
/// - **A read** is a consistent snapshot: no duplicates and no gaps, whatever is appended
///   meanwhile. `n` larger than the history returns what there is, `n = 0` returns no records, and
///   an empty memory is legal everywhere.
/// - **An error** leaves the memory as it was, and the batch with the caller. Where the answer of a
///   server got lost, and with it the knowledge whether the change was made, the error is
///   [`ErrorKind::Unacknowledged`](crate::ErrorKind::Unacknowledged) and nothing else; a backend does not
///   repeat an append by itself unless it knows that it was not done.
/// - **Never** blocks a reader for as long as somebody holds what an earlier read returned.
///
/// # Example
///
/// A memory of your own is as long as `examples/custom_memory.rs`.
pub trait ChatMemory: Debug + Send + Sync {
    /// The id of the conversation.
    fn id(&self) -> &MemoryId;

    /// Appends the messages of `batch` and takes them out of it; returns their positions.
    ///
    /// With `expected`, only if the conversation still ends there, that is, if
    /// [`Snapshot::end`] is still what the caller saw. This is how two processes that both answer
    /// the same message find out.
    ///
    /// An empty batch, or one of `System` messages alone, returns an empty range at the end.
    ///
    /// # Errors
    ///
    /// [`ErrorKind::Conflict`](crate::ErrorKind::Conflict) where the conversation does not end at
    /// `expected`, and [`ErrorKind::Storage`](crate::ErrorKind::Storage) where the memory failed. The
    /// batch is then as it was.
    fn append(&self, batch: &mut Vec<Message>, expected: Option<u64>) -> Result<Range<u64>>;

    /// The system message and the newest `n` records, or the newest `n` before the position `before`.
    ///
    /// # Errors
    ///
    /// [`ErrorKind::Storage`](crate::ErrorKind::Storage) where the memory failed.
    fn read(&self, before: Option<u64>, n: usize) -> Result<Snapshot>;

    /// Forgets every record before the position `before`; returns how many there were.
    ///
    /// # Errors
    ///
    /// [`ErrorKind::Storage`](crate::ErrorKind::Storage) where the memory failed.
    fn evict(&self, before: u64) -> Result<u64>;

    /// Forgets everything, the system message included. Positions go on from where they were.
    ///
    /// # Errors
    ///
    /// [`ErrorKind::Storage`](crate::ErrorKind::Storage) where the memory failed.
    fn clear(&self) -> Result<()>;
}
