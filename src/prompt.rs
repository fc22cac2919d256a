//! The prompt that a build returns: shared messages and a report.
//!
//! The module `compose` makes prompts, and `memory_prompt` reads a memory for that. This module
//! holds the result and its methods.

mod fate;
mod media;
mod pieces;
mod prefix;
mod report;

use std::ops::Index;
use std::sync::Arc;
use std::{fmt, mem};

use crate::message::{Message, Role};
use crate::record::Records;
use crate::tool::{self, Tool};
pub use fate::{Fate, Setting};
pub(crate) use media::MediaData;
pub(crate) use pieces::{Item, Iter, Pieces};
pub use prefix::{Break, Fingerprint, SharedPrefix};
pub use report::{
    Adaptation, Adapted, Cleared, Gap, LeftOut, Moved, NothingRecalled, Reason, Recalled, Repaired,
    Report, SystemSource, Tokens, Truncated,
};

/// The composed messages, in the order in which they are sent, and the [`Report`].
///
/// A prompt shares its messages with the memory, so it is cheap to keep and to clone: to retry a
/// failed request, send the same prompt again.
///
/// As JSON, a prompt is the `messages` of Chat Completions, which most servers take. If the prompt
/// is for a provider of another format, serialising it is an error: send a
/// [`Request`](crate::wire::Request) instead. To store messages, write [them](Self::to_messages),
/// in JSON or with a [`Codec`](crate::codec::Codec): that keeps the parts that are never sent to a
/// provider.
///
/// ```
/// use memory_prompt::{DefaultChatMemory, MemoryPrompt, Message};
///
/// let mut prompt = MemoryPrompt::new(DefaultChatMemory::new()).system("Be brief.");
/// prompt.add(Message::user("hi"))?;
/// let built = prompt.build()?;
/// assert_eq!(built.len(), 2);
/// assert_eq!(built[1].text(), "hi");
/// assert!(built.iter().all(|message| !message.is_tool()));
/// # Ok::<(), memory_prompt::Error>(())
/// ```
#[derive(Clone)]
pub struct Prompt {
    /// Boxed, so that it is built in place and only a pointer is moved.
    draft: Box<Draft>,
}

/// A prompt in the making; later the contents of the [`Prompt`].
#[derive(Clone, Default)]
pub(crate) struct Draft {
    /// The records that were read; empty until the prompt is done.
    records: Records,
    pub(crate) pieces: Pieces,
    pub(crate) cacheable: usize,
    pub(crate) report: Report,
    /// True if the reach of the window back to a summary decides where the history begins.
    pub(crate) by_reach: bool,
    pub(crate) system_record: Option<u64>,
    tools: Option<Arc<[Tool]>>,
}

/// The origin of a message of a prompt.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
#[non_exhaustive]
pub enum Origin {
    /// The system message.
    System,
    /// The history: the record at this position, as it is.
    History(u64),
    /// The history: a truncated copy of the record at this position.
    Truncated(u64),
    /// The history: a copy of the record at this position, with something cleared.
    Cleared(u64),
    /// The summary of earlier messages.
    Summary,
    /// The answer to a call for which no result was recorded.
    Repair,
    /// A user message, for this prompt only, that says that results have arrived further up.
    Note,
    /// A user message that says that earlier messages are not shown: see
    /// [`Notice`](crate::compose::Notice).
    Notice,
    /// A temporary message.
    Temporary,
    /// The history: a copy of the record at this position, changed to satisfy the provider.
    Adapted(u64),
    /// Several neighbouring messages joined to satisfy the provider, with the position of the first
    /// record among them; `None` if none of them is a record.
    Joined(Option<u64>),
    /// A message that the composer added because the provider needs one in this place.
    Added,
}

impl Origin {
    pub(crate) const fn is_passing(self) -> bool {
        matches!(self, Self::Temporary | Self::Note)
    }

    /// Returns the position of the record that is sent, itself or as a copy; of joined messages,
    /// that of the first record.
    pub(crate) fn position(self) -> Option<u64> {
        match self {
            Self::History(position)
            | Self::Truncated(position)
            | Self::Cleared(position)
            | Self::Adapted(position) => Some(position),
            Self::Joined(position) => position,
            Self::System
            | Self::Summary
            | Self::Repair
            | Self::Note
            | Self::Notice
            | Self::Temporary
            | Self::Added => None,
        }
    }
}

impl Prompt {
    /// Turns a draft into a prompt, and takes the records out of the snapshot.
    pub(crate) fn new(mut draft: Box<Draft>, of: &mut Records) -> Self {
        let Draft { records, pieces, .. } = &mut *draft;
        *records = mem::take(of);
        pieces.free_unsent(records);
        Self { draft }
    }

    pub(crate) fn with_recalled(mut self, recalled: Vec<Recalled>) -> Self {
        self.draft.report.recalled = recalled;
        self
    }

    pub(crate) fn with_recall_outcome(
        mut self,
        nothing: Option<NothingRecalled>,
        failed: Option<String>,
    ) -> Self {
        let report = &mut self.draft.report;
        let gave_way = report.recalled.is_empty().then_some(NothingRecalled::GaveWay);
        report.nothing_recalled = nothing.or(gave_way);
        report.candidates_failed = failed;
        self
    }

    pub(crate) fn with_dropped(mut self, roles: Vec<Role>) -> Self {
        self.draft.report.dropped_temporaries = roles;
        self
    }

    #[inline]
    pub(crate) fn with_tools(mut self, tools: Option<&Arc<[Tool]>>) -> Self {
        if let Some(tools) = tools {
            let fingerprint = Fingerprint { tools: tool::fingerprint(tools), options: 0 };
            self.draft.report.fingerprint = Some(fingerprint);
            self.draft.tools = Some(Arc::clone(tools));
        }
        self
    }

    /// Returns the tools that the prompt was composed for: the model can call them, and the
    /// prompt's tokens include their definitions.
    pub fn tools(&self) -> &[Tool] {
        self.draft.tools.as_deref().unwrap_or_default()
    }

    /// Returns the number of messages.
    pub fn len(&self) -> usize {
        self.draft.pieces.len()
    }

    /// Returns whether there are no messages.
    pub fn is_empty(&self) -> bool {
        self.len() == 0
    }

    /// Returns an iterator over the messages, in order. It only goes forward: to go backward, use
    /// [`get`](Self::get), or collect the references.
    #[inline]
    pub fn iter(&self) -> Iter<'_> {
        self.draft.pieces.iter(&self.draft.records)
    }

    /// Returns the `i`th message.
    pub fn get(&self, i: usize) -> Option<&Message> {
        self.iter().nth(i)
    }

    /// Returns the messages, each with its origin.
    pub fn with_origins(&self) -> impl Iterator<Item = (Origin, &Message)> {
        let items = self.draft.pieces.items(&self.draft.records);
        items.map(|item| (item.origin(), item.borrowed()))
    }

    /// Returns the system message, which is always the first message, if there is one.
    pub fn system(&self) -> Option<&Message> {
        self.get(0).filter(|message| message.is_system())
    }

    /// Returns the cacheable boundary: how many of the first messages the next prompt will send
    /// again, in the same place and byte for byte, unless the window or the boundary of
    /// [clearing](crate::Clear) moves.
    ///
    /// Results of the newest calls are not cacheable while some are missing, nor is anything after
    /// these. Temporaries and what is after them are cacheable only once a [turn](crate::turn) has
    /// gone on after them: its next prompt sends them again, but not the next turn. If a result
    /// arrives after other messages have followed its call, the prompt changes at the call, once:
    /// [`Break::LateResult`]. For a [`Provider`](crate::Provider) that wants user and model to
    /// alternate, a last message that a later one may be joined to is not cacheable either. Put a
    /// provider's cache mark at this boundary.
    #[doc(alias = "durable")]
    pub fn cacheable(&self) -> usize {
        self.draft.cacheable
    }

    /// Returns the report of what the build did.
    pub fn report(&self) -> &Report {
        &self.draft.report
    }

    /// Returns copies of the messages.
    pub fn to_messages(&self) -> Vec<Message> {
        self.iter().cloned().collect()
    }
}

impl Index<usize> for Prompt {
    type Output = Message;

    /// Returns the `i`th message.
    ///
    /// # Panics
    ///
    /// If there is no such message, like a slice; [`Prompt::get`] does not panic.
    #[expect(clippy::panic, reason = "the contract of Index")]
    fn index(&self, i: usize) -> &Message {
        match self.get(i) {
            Some(message) => message,
            None => panic!("message {i} of a prompt of {}", self.len()),
        }
    }
}

impl<'a> IntoIterator for &'a Prompt {
    type Item = &'a Message;
    type IntoIter = Iter<'a>;

    #[inline]
    fn into_iter(self) -> Iter<'a> {
        self.iter()
    }
}

impl PartialEq for Prompt {
    /// Compares messages, places and reports, but not what is shared.
    fn eq(&self, other: &Self) -> bool {
        self.cacheable() == other.cacheable()
            && self.report() == other.report()
            && self.with_origins().eq(other.with_origins())
    }
}

impl fmt::Debug for Prompt {
    /// Shows what was done, not what was said, since conversations don't belong in logs.
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Prompt")
            .field("messages", &self.len())
            .field("cacheable", &self.cacheable())
            .field("report", self.report())
            .finish()
    }
}
