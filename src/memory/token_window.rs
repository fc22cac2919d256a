//! The memory that keeps a number of tokens.

use std::error::Error as StdError;
use std::fmt;
use std::ops::Range;

use super::evicting::{Evicting, Limit, evicting};
use super::{Append, Appended, ChatMemory, DefaultChatMemory, LentBatch, Limits, MemoryId, Read};
use crate::error::Result;
use crate::message::Message;
use crate::record::{Records, SlotVersion, Snapshot};
use crate::token::TokenCounter;

/// A memory that keeps the newest messages up to a number of tokens, and evicts older ones from the
/// memory inside for good.
///
/// It does for tokens what [`MessageWindowChatMemory`](crate::MessageWindowChatMemory) does for
/// messages; see there what is kept, how it evicts, its errors, and when to use a window instead.
/// To keep requests within a model's limit, use
/// [`MemoryPrompt::max_tokens`](crate::MemoryPrompt::max_tokens): it counts everything that is
/// sent, the system message included, and forgets nothing.
///
/// Each message is counted before it is appended, and its count is remembered. If the counter
/// fails, the append fails and nothing is appended. A read counts messages that others have
/// appended since, and fails if the counter fails. What the first append of a handle reads back is
/// counted once more. Messages that are read may have [references](crate::message::MediaReference)
/// instead of media.
///
/// # Example
///
/// ```
/// use memory_prompt::{ChatMemoryExt, DefaultChatMemory, Message, TokenWindowChatMemory};
///
/// let words = |text: &str| text.split_whitespace().count(); // and 4 more for each message
/// let memory = TokenWindowChatMemory::new(DefaultChatMemory::new(), 12, words)?;
/// memory.add(Message::user("What is a moon?"))?; // 8
/// memory.add(Message::ai("A satellite."))?; // 6, and 14 are too many
/// assert_eq!(memory.all()?.len(), 1);
///
/// let long = "word ".repeat(1000);
/// memory.add(Message::user(long.as_str()))?; // too long by itself: it stays, and alone
/// assert_eq!(memory.all()?.messages().map(|m| m.text()).collect::<Vec<_>>(), [long]);
/// # Ok::<(), memory_prompt::Error>(())
/// ```
pub struct TokenWindowChatMemory<M = DefaultChatMemory> {
    inner: Evicting<M>,
}

impl<M: ChatMemory> TokenWindowChatMemory<M> {
    /// Returns a memory that keeps at most `limit` tokens of `memory`, counted by `counter`.
    ///
    /// # Errors
    ///
    /// [`ErrorKind::Invalid`](crate::ErrorKind::Invalid) if the limit is 0.
    pub fn new(memory: M, limit: usize, counter: impl TokenCounter + 'static) -> Result<Self> {
        let limit = Limit::fixed(limit, "token window")?;
        Ok(Self { inner: Evicting::new(memory, limit, Some(Box::new(counter))) })
    }

    /// Returns a memory that keeps at most as many tokens of `memory` as `limit` returns for its
    /// id; `limit` is called at each use.
    ///
    /// With a limit of 0, or another limit that is too small for it, the newest message or tool
    /// group stays.
    ///
    /// ```
    /// use memory_prompt::memory::MemoryId;
    /// use memory_prompt::token::Estimate;
    /// use memory_prompt::{DefaultChatMemory, TokenWindowChatMemory};
    ///
    /// let limit = |id: &MemoryId| if id.as_str().starts_with("gold:") { 32_000 } else { 4_000 };
    /// let memory = DefaultChatMemory::with_id("gold:u1");
    /// let memory = TokenWindowChatMemory::dynamic(memory, limit, Estimate);
    /// # drop(memory);
    /// ```
    pub fn dynamic(
        memory: M,
        limit: impl Fn(&MemoryId) -> usize + Send + Sync + 'static,
        counter: impl TokenCounter + 'static,
    ) -> Self {
        let limit = Limit::Computed(Box::new(limit));
        Self { inner: Evicting::new(memory, limit, Some(Box::new(counter))) }
    }
}

evicting!(TokenWindowChatMemory);
