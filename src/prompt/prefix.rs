//! The common prefix of two prompts, as a provider's cache sees it.

mod cause;

use std::fmt;

use serde::Serialize;

use super::{Origin, Prompt};
use crate::provider::Provider;
use crate::token::{Estimate, TokenCounter};
use cause::Difference;

/// The part of a prompt that a provider can serve from its cache of the previous prompt.
///
/// ```
/// use memory_prompt::report::Break;
/// use memory_prompt::{DefaultChatMemory, MemoryPrompt, Message};
///
/// let memory = DefaultChatMemory::new();
/// let mut prompt = MemoryPrompt::new(memory).system("Be brief.").max_messages(3);
/// prompt.add_all(["one", "two"].map(Message::user))?;
/// let first = prompt.build()?;
/// prompt.add(Message::user("three"))?;
/// let second = prompt.build()?;
/// assert_eq!(second.shared_prefix(&first).messages, 3); // all of it
///
/// prompt.add(Message::user("four"))?;
/// let third = prompt.build()?.compared_to(&second);
/// let shared = third.report().shared_prefix.as_ref();
/// assert_eq!(shared.and_then(|s| s.broken_by), Some(Break::Window { from: 0, to: 1 }));
/// assert!(third.report().to_string().contains("cache      1 of 4 messages"));
/// # Ok::<(), memory_prompt::Error>(())
/// ```
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize)]
#[non_exhaustive]
pub struct SharedPrefix {
    /// The number of first messages that are the same in both.
    pub messages: usize,
    /// The tokens of these messages, by the built-in [`Estimate`].
    pub tokens: usize,
    /// The number of [cacheable](Prompt::cacheable) messages of the earlier prompt.
    pub cacheable: usize,
    /// The cause of a break before the earlier prompt's cacheable boundary; `None` if everything
    /// before it is shared.
    pub broken_by: Option<Break>,
}

/// Hashes that identify the tools and options of a request.
///
/// Providers read tools and options before the messages, so a cached prefix ends if they change.
/// Equal ones have equal numbers within one version of this crate. 0 means no tools, or unknown
/// options.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize)]
#[non_exhaustive]
pub struct Fingerprint {
    /// The hash of the tool definitions, in their order.
    pub tools: u64,
    /// The hash of the options.
    pub options: u64,
}

/// The cause of a break in the common prefix of two prompts.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize)]
#[serde(rename_all = "snake_case")]
#[non_exhaustive]
pub enum Break {
    /// The prompt is for another provider, which has a cache of its own.
    Provider,
    /// Other tools are sent, or the same in another order.
    Tools,
    /// The request has other options, if its [fingerprint](Fingerprint) is known.
    Options,
    /// The system message changed.
    System,
    /// The history begins at another position.
    Window {
        /// The position that was sent in this place before; if there was none, the end.
        from: u64,
        /// The position that is sent now; if there is none, the end.
        to: u64,
    },
    /// The question at this position was sent before the window and is no longer, or the reverse.
    Question(u64),
    /// Another summary is sent, or one for the first time, or none any more.
    Summary,
    /// The message at this position was pinned or unpinned, or is a pin that the window has passed.
    Pin(u64),
    /// The result at this position came late, and is sent after its call.
    LateResult(u64),
    /// The message at this position is cut differently than before, or is no longer cut.
    Truncation(u64),
    /// The message at this position is cleared now, or no longer.
    Clearing(u64),
    /// The message at this position is left out alone, or no longer: the
    /// [report](crate::Report::left_out) says why.
    LeftOut(u64),
    /// The notice names another number of messages that are not shown.
    Notice,
    /// A temporary message came or went before what was cacheable, or was cacheable itself.
    Temporary,
    /// Another cause, for example another memory.
    Other,
}

impl Prompt {
    /// Returns the prefix that this prompt shares with the one sent before it.
    pub fn shared_prefix(&self, previous: &Self) -> SharedPrefix {
        let before = self.difference_before(previous);
        let (mut messages, mut tokens) = (0, 0);
        if before.is_none() {
            for (now, _) in self.iter().zip(previous).take_while(|(now, then)| now == then) {
                messages += 1;
                tokens += Estimate.count(now).unwrap_or(0); // the estimate does not fail
            }
        }
        let whole = messages >= previous.cacheable();
        let cause = || match Difference::new(self, previous, messages).cause() {
            // Equal messages may have taken the places of others before the break.
            Break::Other => {
                let pairs = self.with_origins().zip(previous.with_origins()).take(messages);
                let is_same = |((now, _), (then, _)): &((Origin, _), (Origin, _))| {
                    now.position() == then.position()
                };
                Difference::new(self, previous, pairs.take_while(is_same).count()).cause()
            }
            cause => cause,
        };
        let broken_by = (!whole).then(|| before.unwrap_or_else(cause));
        SharedPrefix { messages, tokens, cacheable: previous.cacheable(), broken_by }
    }

    /// Returns this prompt with a [`Report`](crate::Report) that includes the prefix shared with
    /// the previous prompt.
    #[doc(alias = "after")]
    #[doc(alias = "diff")]
    #[must_use]
    pub fn compared_to(mut self, previous: &Self) -> Self {
        self.draft.report.shared_prefix = Some(self.shared_prefix(previous));
        self
    }

    /// Returns this prompt with a [`Report`](crate::Report) that includes the tools and options it
    /// is sent with, as returned by [`Request::fingerprint`](crate::wire::Request::fingerprint).
    #[must_use]
    pub fn sent_as(mut self, fingerprint: Fingerprint) -> Self {
        self.draft.report.fingerprint = Some(fingerprint);
        self
    }

    /// Returns a break before the first message: in provider, tools or options.
    fn difference_before(&self, previous: &Self) -> Option<Break> {
        let [now, then] =
            [self, previous].map(|prompt| prompt.report().fingerprint.unwrap_or_default());
        let [to, from] = [self, previous].map(|prompt| prompt.report().provider.map(Provider::row));
        if to.zip(from).is_some_and(|(to, from)| to.name() != from.name()) {
            Some(Break::Provider)
        } else if now.tools != then.tools {
            Some(Break::Tools)
        } else {
            let are_known = now.options != 0 && then.options != 0;
            (are_known && now.options != then.options).then_some(Break::Options)
        }
    }
}

impl fmt::Display for SharedPrefix {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let Self { messages: same, cacheable: all, tokens, broken_by } = self;
        write!(f, "{same} of {all} messages, about {tokens} tokens, are the prompt before's")?;
        match broken_by {
            None => Ok(()),
            Some(reason) => write!(f, "; {reason}"),
        }
    }
}

impl fmt::Display for Break {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Provider => f.write_str("another provider is asked"),
            Self::Tools => f.write_str("other tools are sent"),
            Self::Options => f.write_str("other options are sent"),
            Self::System => f.write_str("the system message changed"),
            Self::Window { from, to } => write!(f, "the window moved from {from} to {to}"),
            Self::Question(position) => {
                write!(f, "the question {position}, before the window, came or went")
            }
            Self::Summary => f.write_str("the summary is another one"),
            Self::Pin(position) => write!(f, "the pin {position} has changed its place"),
            Self::LateResult(position) => write!(f, "the result {position} came late"),
            Self::Truncation(position) => write!(f, "message {position} is cut otherwise"),
            Self::Clearing(position) => write!(f, "message {position} is cleared, or not any more"),
            Self::LeftOut(position) => write!(f, "message {position} is left out, or not any more"),
            Self::Notice => f.write_str("the notice tells another number"),
            Self::Temporary => f.write_str("a temporary message came or went"),
            Self::Other => f.write_str("something else changed"),
        }
    }
}
