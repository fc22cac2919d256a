//! The prompt that a build returns: the messages, shared, beside the report.
//!
//! The module `compose` makes it, and `prompt` reads a memory for that. Here is what comes out, and
//! what can be asked of it.

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
/// A prompt shares its messages with the memory, so it is cheap to keep and to clone: a request
/// that failed is sent again with the same prompt.
///
/// As JSON it is the `messages` of Chat Completions, which most servers speak; for a prompt that is
/// for a provider of another format that is an error, and a [`Request`](crate::wire::Request) is
/// what it is sent.
/// To store messages write [them](Self::to_messages), in JSON or with a
/// [`Codec`](crate::codec::Codec): that keeps what no provider is sent.
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
    /// Boxed, so that it is made in its place and moved as a pointer from then on.
    draft: Box<Draft>,
}

/// A prompt in the making, and then what it holds.
#[derive(Clone, Default)]
pub(crate) struct Draft {
    /// The records that were read; none until the prompt is done.
    records: Records,
    pub(crate) pieces: Pieces,
    pub(crate) cacheable: usize,
    pub(crate) report: Report,
    /// True if the reach of the window back to a summary decides where the history begins.
    pub(crate) by_reach: bool,
    /// The position of the record that is the system message.
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
    /// The history: a copy of the record at this position, in which something is cleared.
    Cleared(u64),
    /// The summary of what was said before.
    Summary,
    /// The answer to a call whose result nobody recorded.
    Repair,
    /// A note of the user, for this prompt alone, that results have arrived further up.
    Note,
    /// A notice, in the user's name, that earlier messages are not shown: see
    /// [`Notice`](crate::compose::Notice).
    Notice,
    /// A temporary message.
    Temporary,
    /// The history: a copy of the record at this position, changed as the provider demands.
    Adapted(u64),
    /// Several neighbours as one message, as the provider demands, with the position of the first
    /// record among them; `None` if none of them is one.
    Joined(Option<u64>),
    /// A message that the provider demands in this place, and that nobody said.
    Added,
}

impl Origin {
    /// Returns whether it is for this prompt only.
    pub(crate) const fn is_passing(self) -> bool {
        matches!(self, Self::Temporary | Self::Note)
    }

    /// Returns the position of the record that is sent, itself or a copy of it; of several that
    /// were joined, that of the first.
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
    /// Returns the prompt of this draft; takes the records of which it was made.
    pub(crate) fn new(mut draft: Box<Draft>, of: &mut Records) -> Self {
        let Draft { records, pieces, .. } = &mut *draft;
        *records = mem::take(of);
        pieces.free_unsent(records);
        Self { draft }
    }

    /// Returns the same prompt, whose report names what a temporary message quotes.
    pub(crate) fn with_recalled(mut self, recalled: Vec<Recalled>) -> Self {
        self.draft.report.recalled = recalled;
        self
    }

    /// Returns the same prompt, whose report says why nothing is recalled, and what failed.
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

    /// Returns the same prompt, whose report names temporaries that were dropped before it.
    pub(crate) fn with_dropped(mut self, roles: Vec<Role>) -> Self {
        self.draft.report.dropped_temporaries = roles;
        self
    }

    /// Returns the same prompt, for a model that can call these tools.
    #[inline]
    pub(crate) fn with_tools(mut self, tools: Option<&Arc<[Tool]>>) -> Self {
        if let Some(tools) = tools {
            let fingerprint = Fingerprint { tools: tool::fingerprint(tools), options: 0 };
            self.draft.report.fingerprint = Some(fingerprint);
            self.draft.tools = Some(Arc::clone(tools));
        }
        self
    }

    /// Returns the tools that the prompt was composed for: those that a model can call, and whose
    /// definitions its tokens count.
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

    /// Returns the messages, in order. It goes forward only: who wants them from the end takes
    /// [`get`](Self::get), or collects the references.
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

    /// Returns the system message, which is the first where there is one.
    pub fn system(&self) -> Option<&Message> {
        self.get(0).filter(|message| message.is_system())
    }

    /// Returns the cacheable boundary: the number of first messages that the next prompt will send
    /// again, in the same place and byte for byte, as long as neither the window moves nor the
    /// boundary of what is [cleared](crate::Clear).
    ///
    /// Temporaries, and results of the newest calls of which some may still come, are not
    /// cacheable, nor is what stands behind them. Once something else was said behind a call, a
    /// result that comes all the same changes the prompt where the call stands, once:
    /// [`Break::LateResult`]. For a [`Provider`](crate::Provider) that wants user and model to
    /// alternate, a message at the end that a later one may be joined to is not cacheable either. A
    /// provider's cache mark belongs at this boundary.
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
    /// If there is no such message, as a slice does; [`Prompt::get`] does not.
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
    /// Returns whether equal messages stand in equal places with equal reports, whatever they
    /// share.
    fn eq(&self, other: &Self) -> bool {
        self.cacheable() == other.cacheable()
            && self.report() == other.report()
            && self.with_origins().eq(other.with_origins())
    }
}

impl fmt::Debug for Prompt {
    /// Says what was done, not what was said: logs are no place for conversations.
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Prompt")
            .field("messages", &self.len())
            .field("cacheable", &self.cacheable())
            .field("report", self.report())
            .finish()
    }
}
