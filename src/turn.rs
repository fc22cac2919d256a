//! Turns: a question and everything that is called and said until it is answered, stored in one
//! append.
//!
//! A turn stages what happens and stores it when it is done. So a model that fails, a tab that is
//! closed or a process that dies leaves no half turn in the memory. The exception is a turn that
//! has run a tool that must not run twice: see [what happened is never
//! denied](self#what-happened-is-never-denied). A turn neither asks a model nor runs a tool:
//! [`next`](Turn::next) does the work on the memory and returns what the turn needs next.
//!
//! ```
//! use memory_prompt::message::AiMessage;
//! use memory_prompt::turn::{Next, ToolError, Turn};
//! use memory_prompt::{DefaultChatMemory, MemoryPrompt, Message, Prompt, Tool, ToolCall};
//!
//! fn model(prompt: &Prompt) -> AiMessage {
//!     // Your own call of a model goes here; its answer is `wire::openai::answer(&body)?`, say.
//!     match prompt.iter().last().and_then(|message| message.as_tool()) {
//!         None => AiMessage::from_parts([ToolCall::new("c1", "cancel", r#"{"booking": 7}"#)]),
//!         Some(result) => AiMessage::new(format!("Done: {}.", result.content().text())),
//!     }
//! }
//!
//! #[derive(serde::Deserialize)]
//! struct Cancel {
//!     booking: u32,
//! }
//!
//! let cancel = |Cancel { booking }: Cancel| -> Result<String, ToolError> {
//!     Ok(format!("booking {booking} is cancelled"))
//! };
//!
//! let mut prompt = MemoryPrompt::new(DefaultChatMemory::new()).system("You are a receptionist.");
//! let mut turn = prompt
//!     .turn(Message::user("Cancel my booking."))
//!     .tools([Tool::new("cancel", "Cancels a booking.")]);
//! let done = loop {
//!     match turn.next(&prompt)? {
//!         Next::Ask(ask) => turn.answer(model(ask.prompt()))?,
//!         Next::Call(calls) => {
//!             for call in calls {
//!                 // An adopted call is handed out again: to run it would cancel twice.
//!                 if call.may_have_run() {
//!                     turn.outcome_unknown(call.id(), "The process died.")?;
//!                 } else {
//!                     turn.result(call.id(), call.parse().and_then(&cancel))?;
//!                 }
//!             }
//!         }
//!         Next::Done(done) => break done,
//!     }
//! };
//! assert_eq!(done.text(), "Done: booking 7 is cancelled.");
//! assert_eq!(done.positions, 0..4); // the question, the call, its result and the answer
//! # Ok::<(), memory_prompt::Error>(())
//! ```
//!
//! # What happened is never denied
//!
//! The turn is written to a slot of the memory before it runs a tool that is not
//! [repeatable](Tool::repeatable) or [needs approval](Tool::needing_approval). It is written again
//! with the results before the model is asked. If the process dies in between, the next turn finds
//! the slot, and its model reads that the call was begun. The turn in the slot is left to its
//! owner, who may still run: only [`adopt`](crate::MemoryPrompt::adopt) takes it over. Without such
//! calls nothing is written before the end.
//!
//! A memory without slots keeps no checkpoint, and a turn that is larger than a slot has none
//! either. [`Call::is_checkpointed`] says so, and [`OnNoCheckpoint::Fail`] makes it an error.
//!
//! An earlier version of this crate can't read a turn that a later version has written, for example
//! during a deployment with both. Then the models of other turns read that a call with an unknown
//! outcome was begun, and [`unfinished`](crate::MemoryPrompt::unfinished) returns an error.
//!
//! If the memory has [limits](Limits), a turn accepts nothing that would leave no room for an
//! answer and for the closings of its calls: what it has accepted can always be stored. An eighth
//! of a batch, at most 64 KiB, is kept free for the answer; an answer that does not fit into what
//! is left is an error of [`Turn::answer`].

mod call;
mod decision;
mod inbox;
mod late;
mod look;
mod machine;
mod over;
mod owner;
mod prompts;
mod reply;
mod room;
mod shell;
mod state;
mod tools;
mod unfinished;

use std::fmt;
use std::ops::Range;
use std::sync::Arc;

use serde::{Deserialize, Deserializer, Serialize, Serializer};

use crate::memory::{Limits, MemoryId};
use crate::message::{AiMessage, Message};
use crate::prompt::{Prompt, Report};
use crate::tool::Tool;
use crate::wire::{Metadata, Stop, Usage};
pub use call::{Call, ToolError};
pub(crate) use decision::Decision;
#[cfg(feature = "async")]
pub use inbox::AsyncInbox;
pub use inbox::Inbox;
pub(crate) use late::{Lacks, LateCall, Stored};
use look::Look;
pub(crate) use owner::{no_tool, steering};
use prompts::Prompts;
pub use reply::Reply;
pub(crate) use room::{excess, not_stored};
pub(crate) use state::NOT_RUN;
use state::{State, Written, random_id};
pub(crate) use unfinished::turns_in;
pub use unfinished::{Unfinished, UnfinishedCall, Waiting};

/// A question and everything that is said until its answer is stored.
///
/// Dropping it stores nothing beyond its last [checkpoint](self#what-happened-is-never-denied).
/// When serialised, it contains all that was said so far and the names of the tools that need
/// approval, but not the tools, which are code: [set](Self::tools) them again.
pub struct Turn {
    state: State,
    tools: Arc<[Tool]>,
    limits: Limits,
    prompts: Prompts,
    look: Look,
    /// The conversation, once it has begun: what was seen of another one says nothing about it.
    conversation: Option<MemoryId>,
    /// True if it is a copy of a turn that was over: its append may have been made.
    was_over: bool,
    /// The id of its append, if the derived one is already used by another append.
    commit_id: Option<String>,
    /// The calls that wait for approval in an earlier request of the same id.
    waiting: Vec<Waiting>,
    /// The reason why the newest answer ended, if its provider gave one.
    stop: Option<Stop>,
    metadata: Box<Metadata>,
}

/// What a turn needs its owner to do next.
#[derive(Debug)]
pub enum Next {
    /// Ask the model; its answer goes to [`Turn::answer`].
    Ask(Ask),
    /// Run these tools, in any order or in parallel, and call [`Turn::result`] for each.
    Call(Vec<Call>),
    /// The turn has ended, and everything is stored.
    Done(Done),
}

impl Next {
    /// Returns true if this call is to be run and can't have run before.
    pub(crate) fn still_calls(&self, id: &str) -> bool {
        let Self::Call(calls) = self else { return false };
        calls.iter().any(|call| call.id() == id && !call.may_have_run())
    }
}

/// A prompt for the model, and the tools that it can call.
#[derive(Clone, Debug)]
pub struct Ask {
    prompt: Arc<Prompt>,
    tools: Arc<[Tool]>,
    round: u32,
}

impl Ask {
    /// Returns a question that belongs to no turn, without tools.
    pub(crate) fn plain(prompt: Prompt) -> Self {
        Self { prompt: Arc::new(prompt), tools: Arc::from([]), round: 0 }
    }

    /// Returns the prompt to send to the model.
    pub fn prompt(&self) -> &Prompt {
        &self.prompt
    }

    /// Returns the tools that the model can call.
    pub fn tools(&self) -> &[Tool] {
        &self.tools
    }

    /// Returns how many answers of this turn came before this prompt: those that called tools, and
    /// those that [paused](Stop::Paused). Answers of earlier turns of its [id](Turn::with_id),
    /// which are stored already, are not counted.
    pub fn round(&self) -> u32 {
        self.round
    }
}

/// The outcome of a turn.
#[derive(Clone)]
#[non_exhaustive]
pub struct Done {
    /// The positions of its messages in the memory, as far as they are known: empty if it is
    /// parked, if nothing of it is stored, or if another owner has ended it after its checkpoint.
    pub positions: Range<u64>,
    /// Its messages: the question, calls and results, and the answer. If the turn continued after
    /// stored messages of its [id](Turn::with_id), only the messages after those.
    pub messages: Vec<Message>,
    /// How the turn ended.
    pub ended: Ended,
    /// The sum of the usage of its answers, as far as their providers reported it.
    pub usage: Usage,
    /// The reason why the last answer ended, if its provider gave one and this owner received it.
    pub stop: Option<Stop>,
    /// What else the provider reported with the last answer, if this owner received it.
    pub metadata: Box<Metadata>,
    waiting: Vec<Waiting>,
    prompt: Option<Arc<Prompt>>,
}

impl fmt::Debug for Done {
    /// Shows how it ended and where it is stored, not what was said.
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Done")
            .field("positions", &self.positions)
            .field("messages", &self.messages.len())
            .field("ended", &self.ended)
            .field("usage", &self.usage)
            .field("stop", &self.stop)
            .field("waiting", &self.waiting.len())
            .field("prompt", &self.prompt().map(Prompt::len))
            .finish_non_exhaustive()
    }
}

impl Done {
    /// Returns the calls that wait for approval, if the turn is [parked](Ended::Parked).
    pub fn waiting(&self) -> &[Waiting] {
        &self.waiting
    }

    /// Returns the last prompt with which this owner asked the model. `None` if it never asked:
    /// another owner had answered, or the turn ended before.
    ///
    /// ```
    /// use memory_prompt::conversation::Scripted;
    /// use memory_prompt::{Conversation, DefaultChatMemory, MemoryPrompt};
    ///
    /// let prompt = MemoryPrompt::new(DefaultChatMemory::new()).max_messages(2);
    /// let model = Scripted::new().says("One.").says("Two.");
    /// let conversation = Conversation::new(prompt, model);
    /// conversation.say("Count.")?;
    /// let done = conversation.say("And?")?;
    /// let report = done.report().unwrap();
    /// assert_eq!((report.sent, report.older), (2, 1));
    /// assert_eq!(done.prompt().unwrap().fate(0).word(), "before the window");
    /// # Ok::<(), memory_prompt::Error>(())
    /// ```
    pub fn prompt(&self) -> Option<&Prompt> {
        self.prompt.as_deref()
    }

    /// Returns the report of its [last prompt](Self::prompt).
    pub fn report(&self) -> Option<&Report> {
        self.prompt().map(Prompt::report)
    }

    /// Returns the answer, if the model has given one.
    pub fn answer(&self) -> Option<&AiMessage> {
        self.messages.last().and_then(Message::as_ai).filter(|ai| !ai.has_tool_calls())
    }

    /// Returns true if its answer broke off, or if it has no answer.
    pub(crate) fn is_broken(&self) -> bool {
        self.answer().is_none_or(AiMessage::is_broken)
    }

    /// Returns the text of the answer; empty if there is none.
    pub fn text(&self) -> String {
        self.answer().map(|answer| answer.text().into_owned()).unwrap_or_default()
    }
}

/// How a turn ended.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
#[non_exhaustive]
pub enum Ended {
    /// The model has answered.
    Answered,
    /// The model has called tools or [paused](Stop::Paused) as often as
    /// [allowed](Turn::max_rounds). The last calls were not run.
    Rounds,
    /// It was [interrupted](Turn::interrupt).
    Interrupted,
    /// The turn has not ended: a [`Conversation`](crate::Conversation) has left it in its slot
    /// because calls are [pending approval](Done::waiting).
    Parked,
    /// Another owner has finished it. Either a request was repeated, and its stored answer is here;
    /// or another owner has [adopted](crate::MemoryPrompt::adopt) the turn or stored one of the
    /// same [id](Turn::with_id). Results that only this owner knew were appended as late results;
    /// the rest of its messages is only here.
    Adopted,
}

/// What a turn does if others have appended since its first prompt.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
#[non_exhaustive]
pub enum OnConflict {
    /// The whole turn is appended after their messages, even if an evicting memory no longer holds
    /// anything that the turn has seen.
    #[default]
    Behind,
    /// The turn fails with an [`ErrorKind::Conflict`](crate::ErrorKind::Conflict), and nothing is
    /// stored. It keeps its messages: with [`Behind`](Self::Behind) it can still be stored.
    Fail,
}

/// What a turn does before a tool that is not repeatable or needs approval, if no checkpoint can be
/// written: its memory has no slots, or the turn is larger than a slot.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
#[non_exhaustive]
pub enum OnNoCheckpoint {
    /// The turn continues, and [`Call::is_checkpointed`] returns false. It fails as with
    /// [`Fail`](Self::Fail) in one case: it has outgrown its slot, and the slot still says that an
    /// approved call is pending, so that another person could approve it again.
    #[default]
    GoOn,
    /// The turn fails with an [`ErrorKind::Unsupported`](crate::ErrorKind::Unsupported) before any
    /// call of an answer that contains such a call. It can continue: with [`Turn::error`] instead
    /// of the result of each such call, or with [`GoOn`](Self::GoOn) after all.
    Fail,
}

/// What a turn stores if it is [interrupted](Turn::interrupt).
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
#[non_exhaustive]
pub enum OnInterrupt {
    /// Everything that was said so far is stored. Calls without a result are closed: the outcome of
    /// a tool that may have run is unknown, and a late result replaces that.
    #[default]
    Keep,
    /// Nothing is stored, and the checkpoint is removed. If a tool that is not repeatable may have
    /// run, this is the same as [`Keep`](Self::Keep).
    Forget,
}

impl Turn {
    fn of(state: State) -> Self {
        Self {
            prompts: Prompts::default(),
            state,
            tools: Arc::from([]),
            limits: Limits::default(),
            look: Look::No,
            conversation: None,
            was_over: false,
            commit_id: None,
            waiting: Vec::new(),
            stop: None,
            metadata: Box::default(),
        }
    }
}

impl<Q: Into<Message>> From<Q> for Turn {
    fn from(question: Q) -> Self {
        Self::of(State::new(question.into()))
    }
}

impl From<&str> for Turn {
    fn from(question: &str) -> Self {
        Message::user(question).into()
    }
}

impl From<String> for Turn {
    fn from(question: String) -> Self {
        Message::user(question).into()
    }
}

impl Serialize for Turn {
    fn serialize<S: Serializer>(&self, to: S) -> Result<S::Ok, S::Error> {
        self.state.serialize(to)
    }
}

/// Restores a turn that continues where it was, for the same owner.
///
/// If two owners get a copy, the second one finds what the first has written. While the first
/// continues, calls of the second [may have run](Call::may_have_run). If the two have gone
/// different ways, the second gets [`ErrorKind::Adopted`](crate::ErrorKind::Adopted). Once the
/// first has ended, the second ends as [`Ended::Adopted`] before it is handed a call that the first
/// was handed; late results of what it was handed before are stored.
impl<'de> Deserialize<'de> for Turn {
    fn deserialize<D: Deserializer<'de>>(from: D) -> Result<Self, D::Error> {
        let mut state = State::deserialize(from)?;
        // Its earlier owner may have run the calls that it was handed, or was about to be handed.
        state.hand_over();
        if state.has_not_begun() {
            state.life = random_id();
        }
        state.doubt_decisions();
        // Another owner may have written the first checkpoint, and ended the turn long ago.
        let mut calls = state.open().into_iter();
        if state.written == Written::Not && calls.any(|(_, call)| !state.is_repeatable(call)) {
            state.written = Written::InDoubt(None);
        }
        let (message, batch) = state.bounds.unwrap_or((usize::MAX, usize::MAX));
        let limits = Limits::default().with_message(message).with_batch(batch);
        Ok(Self { was_over: state.is_over(), limits, ..Self::of(state) })
    }
}

impl fmt::Debug for Turn {
    /// Shows how far it is, not what was said.
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Turn")
            .field("id", &self.state.id)
            .field("messages", &self.state.messages.len())
            .field("waiting", &self.state.open().len())
            .field("rounds", &self.state.rounds)
            .field("is_over", &self.is_over())
            .finish_non_exhaustive()
    }
}
