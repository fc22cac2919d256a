//! Turns: a question, all that is called and said until it is answered, and one append of the
//! whole.
//!
//! A turn stages what happens and stores it once it is done, so that a model that fails, a tab that
//! is closed and a process that dies leave no half of it in the memory. It does no I/O of its own:
//! it says what it wants next, and [`next`](Turn::next) does what concerns the memory.
//!
//! ```
//! use memory_prompt::message::AiMessage;
//! use memory_prompt::turn::{Next, ToolError, Turn};
//! use memory_prompt::{DefaultChatMemory, MemoryPrompt, Message, Prompt, Tool, ToolCall};
//!
//! fn model(prompt: &Prompt) -> AiMessage {
//!     // Whoever asks a model of theirs here writes its answer so: `wire::openai::answer(&body)?`.
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
//!                 if call.may_have_run() {
//!                     turn.unknown(call.id(), "")?; // adopted: it would be cancelled twice
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
//! Before a tool runs that is not [repeatable](Tool::repeatable), or that [needs
//! approval](Tool::needing_approval), the turn is written to a slot of the memory, and again with
//! the results before the model is asked: whatever dies in between, the next turn finds it, and its
//! model is told that the call was begun. It is left to its owner, who may still run: only
//! [`adopt`](crate::MemoryPrompt::adopt) takes it over. Without such calls nothing is written
//! before the end.
//!
//! A memory without slots keeps no checkpoint, and a turn that has outgrown a slot has none either.
//! [`Call::is_kept`] says so, and [`OnNoCheckpoint::Fail`] makes it an error.
//!
//! A turn that a later version of this crate has written can't be read by an earlier one, as while
//! both are deployed: its models are told that something was begun whose outcome is not known, and
//! [`unfinished`](crate::MemoryPrompt::unfinished) is an error.
//!
//! Where the memory has [limits](Limits), a turn takes nothing that would leave no room for an
//! answer and for the closings of its calls: what it has taken can be stored. Of a batch an eighth
//! is kept free for the answer, at most 64 KiB; a larger one is an error of [`Turn::answer`].

mod call;
mod call_search;
mod document;
mod history;
mod machine;
mod owner;
mod recall;
mod recovery;
mod repeated;
mod reply;
mod shell;
mod unfinished;
mod unwritten;

use std::collections::BTreeSet;
use std::fmt;
use std::ops::Range;
use std::sync::Arc;

use serde::{Deserialize, Deserializer, Serialize, Serializer};

use crate::compose::ComposerCache;
use crate::composed::{Prompt, Recalled};
use crate::error::{Error, ErrorKind, Result};
use crate::memory::{Appended, Limits};
use crate::message::{AiMessage, Message, ToolCall};
use crate::recall::Told;
use crate::record::{Records, Snapshot};
use crate::tool::Tool;
use crate::wire::{Stop, Usage};
pub use call::{Call, ToolError};
pub(crate) use call_search::{CallSearch, WantedCall};
use document::{Document, own_id};
pub use machine::Step;
pub(crate) use owner::{NOT_RUN, excess, no_tool, too_large};
use recovery::{Hold, late_id};
pub use reply::Reply;
pub use unfinished::{Unfinished, UnfinishedCall};
pub(crate) use unwritten::Unwritten;

/// A question on its way to an answer.
///
/// Dropping it stores nothing but what a [checkpoint](self#what-happened-is-never-denied) has
/// stored. It is serialised with all that was said so far and the names of the tools that need
/// approval, but without the tools, which are code: [set](Self::tools) them again. A turn written
/// in format version 1 doesn't say which tools need approval, so each call of its next answer needs
/// it until [`tools`](Self::tools) is called, if only with an empty list.
pub struct Turn {
    document: Document,
    tools: Arc<[Tool]>,
    limits: Limits,
    /// The slots of the conversation, once they were listed.
    listed: Option<Vec<String>>,
    /// The snapshot that the first prompt of the turn has read, and the number of records that were
    /// asked for.
    base: Option<Snapshot>,
    wanted: usize,
    /// The single records that were asked for besides.
    single: Vec<u64>,
    /// The messages that stand behind it, as records.
    staged: Records,
    cache: ComposerCache,
    /// The tokens that are kept free for recall, and the positions of what is recalled.
    kept_free: usize,
    recalled: Vec<Recalled>,
    /// The outcome of the search for it, where there was one.
    told: Option<Told>,
    hold: Hold,
    /// The number of times that the whole turn was to be stored.
    tries: u32,
    /// True where the whole turn may have been stored by a try whose answer got lost.
    may_be_stored: bool,
    /// True where another try could store it twice.
    may_not_be_tried_again: bool,
    /// The append under the id of the turn that was made before, where one was.
    stored: Option<Appended>,
    /// True where a turn of its id may have been stored, and nobody has looked.
    may_be_repeated: bool,
    /// The reason why the newest answer ended, where its provider told.
    stop: Option<Stop>,
    done: Option<Done>,
}

/// The next thing that a turn wants of its owner.
#[derive(Debug)]
pub enum Next {
    /// The model is to be asked: [`Turn::answer`].
    Ask(Ask),
    /// These tools are to be run, in any order or at once: [`Turn::result`] for each.
    Call(Vec<Call>),
    /// All is said, and stored.
    Done(Done),
}

impl Next {
    /// Returns true where this call is to be run, and nobody may have run it.
    pub(crate) fn still_calls(&self, id: &str) -> bool {
        let Self::Call(calls) = self else { return false };
        calls.iter().any(|call| call.id() == id && !call.may_have_run())
    }
}

/// A prompt for the model, and what it can call.
#[derive(Clone, Debug)]
pub struct Ask {
    prompt: Prompt,
    tools: Arc<[Tool]>,
    round: u32,
}

impl Ask {
    /// Returns the same, whose report says why nothing is recalled.
    fn with_recall_outcome(mut self, told: Told) -> Self {
        self.prompt = self.prompt.with_recall_outcome(told.nothing, told.failed);
        self
    }

    /// Returns a question beside all turns, without tools.
    pub(crate) fn plain(prompt: Prompt) -> Self {
        Self { prompt, tools: Arc::from([]), round: 0 }
    }

    /// Returns the prompt that the model is sent.
    pub fn prompt(&self) -> &Prompt {
        &self.prompt
    }

    /// Returns the tools that it can call.
    pub fn tools(&self) -> &[Tool] {
        &self.tools
    }

    /// Returns how often the model has called tools in this turn.
    pub fn round(&self) -> u32 {
        self.round
    }
}

/// The outcome of a turn.
#[derive(Clone)]
#[non_exhaustive]
pub struct Done {
    /// The positions of its messages in the memory, as far as they are known: none where others
    /// have ended the turn, or one of its [id](Turn::with_id) was begun before and not stored when
    /// this one began.
    pub positions: Range<u64>,
    /// Its messages: the question, calls and results, and the answer.
    pub messages: Vec<Message>,
    /// The way in which it ended.
    pub ended: Ended,
    /// True where the memory recognises the append, should it come again after a lost answer.
    pub recognised: bool,
    /// The sum of what its answers cost, as far as their providers told.
    pub usage: Usage,
    /// The reason why the last answer ended, where its provider told and this owner took it.
    pub stop: Option<Stop>,
}

impl fmt::Debug for Done {
    /// Says how it ended and where it stands, not what was said.
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Done")
            .field("positions", &self.positions)
            .field("messages", &self.messages.len())
            .field("ended", &self.ended)
            .field("recognised", &self.recognised)
            .field("usage", &self.usage)
            .field("stop", &self.stop)
            .finish()
    }
}

impl Done {
    /// Returns the answer, where the model has given one.
    pub fn answer(&self) -> Option<&AiMessage> {
        self.messages.last().and_then(Message::as_ai).filter(|ai| !ai.has_tool_calls())
    }

    /// Returns the text of the answer; empty where there is none.
    pub fn text(&self) -> String {
        self.answer().map(|answer| answer.text().into_owned()).unwrap_or_default()
    }
}

/// The way in which a turn ended.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
#[non_exhaustive]
pub enum Ended {
    /// The model has answered.
    Answered,
    /// The model has called tools as often as it may. The last calls were not run.
    Rounds,
    /// It was [interrupted](Turn::interrupt).
    Interrupted,
    /// It has not: a [`Conversation`](crate::Conversation) has left it in its slot, where it waits
    /// for [approval](Turn::approve).
    Parked,
    /// Somebody else has [adopted](crate::MemoryPrompt::adopt) it, or has stored a turn of the same
    /// [id](Turn::with_id). What it found out since was appended as late results; the rest of its
    /// messages is here and nowhere else.
    Adopted,
}

/// The rule for a turn where others have appended since its first prompt.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
#[non_exhaustive]
pub enum OnConflict {
    /// It goes behind them as a whole. Where so much was appended that a memory which evicts holds
    /// nothing any more of what the turn has seen, it can't be told from one that was cleared: that
    /// is an [`ErrorKind::Forgotten`], unless the turn was written to a slot.
    #[default]
    Behind,
    /// It is an [`ErrorKind::Conflict`], and nothing is stored. The turn keeps its messages: with
    /// [`Behind`](Self::Behind) it can still be stored.
    Fail,
}

/// The rule for a turn before a tool that is not repeatable or needs approval, where no checkpoint
/// can be written: its memory has no slots, or it has outgrown one.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
#[non_exhaustive]
pub enum OnNoCheckpoint {
    /// It goes on, and says so by [`Call::is_kept`].
    #[default]
    #[serde(rename = "where_possible")] // as it was called first
    GoOn,
    /// It is an [`ErrorKind::Unsupported`] before any call of an answer with such a call. The turn
    /// can go on: with [`Turn::error`] in place of the result of each such call, or with
    /// [`GoOn`](Self::GoOn) after all.
    #[serde(rename = "required")]
    Fail,
}

/// The rule for a turn that is [interrupted](Turn::interrupt).
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
#[non_exhaustive]
pub enum OnInterrupt {
    /// Everything that was said so far is stored. Calls without a result are closed: a tool that
    /// may have run has an unknown outcome, which a late result replaces.
    #[default]
    Keep,
    /// Nothing is stored, if nothing has happened: where a tool that is not repeatable may have
    /// run, what was said is kept all the same.
    Forget,
}

/// Returns the names of those tools of which this is true.
fn names(tools: &[Tool], which: fn(&Tool) -> bool) -> BTreeSet<String> {
    tools.iter().filter(|it| which(it)).map(|it| it.name().to_owned()).collect()
}

impl Turn {
    /// Returns a turn that begins with this question: a message, or a text of the user.
    ///
    /// [`MemoryPrompt::turn`](crate::MemoryPrompt::turn) makes one with the temporaries of the
    /// prompt.
    pub fn new(question: impl Into<Self>) -> Self {
        question.into()
    }

    fn of(document: Document) -> Self {
        Self {
            document,
            tools: Arc::from([]),
            limits: Limits::default(),
            listed: None,
            base: None,
            wanted: 0,
            single: Vec::new(),
            staged: Records::default(),
            cache: ComposerCache::default(),
            kept_free: 0,
            recalled: Vec::new(),
            told: None,
            hold: Hold::Own,
            tries: 0,
            may_be_stored: false,
            may_not_be_tried_again: false,
            stored: None,
            may_be_repeated: false,
            stop: None,
            done: None,
        }
    }

    /// Sets what the model can call, in place of the [prompt's](crate::MemoryPrompt::tools). A call
    /// of anything else is answered with an error, for the model; where neither has tools, every
    /// call is handed out.
    #[must_use]
    pub fn tools(mut self, tools: impl IntoIterator<Item = Tool>) -> Self {
        self.set_tools(tools.into_iter().collect());
        self
    }

    pub(crate) fn set_tools(&mut self, tools: Arc<[Tool]>) {
        self.document.repeatable = names(&tools, Tool::is_repeatable);
        self.document.needs_approval = Some(names(&tools, Tool::needs_approval));
        self.tools = tools;
    }

    /// Takes the tools of the prompt where it was given none of its own: the model is offered them,
    /// so their calls are held for approval too. One that was read back, and had others, waits for
    /// those.
    fn take_tools(&mut self, tools: &Arc<[Tool]>) {
        let Document { repeatable, needs_approval, .. } = &self.document;
        let had_none =
            repeatable.is_empty() && needs_approval.as_ref().is_some_and(BTreeSet::is_empty);
        let had_these = *repeatable == names(tools, Tool::is_repeatable)
            && *needs_approval == Some(names(tools, Tool::needs_approval));
        if had_none || had_these {
            self.set_tools(Arc::clone(tools));
        }
    }

    /// Adds messages for its own prompts only. They stay where its first prompt has
    /// them.
    #[must_use]
    pub fn temporaries(mut self, messages: impl IntoIterator<Item = Message>) -> Self {
        self.document.temporaries.extend(messages);
        self
    }

    /// Sets the number of answers that may call tools; 25 unless set.
    #[must_use]
    pub fn max_rounds(mut self, rounds: u32) -> Self {
        self.document.most_rounds = rounds;
        self
    }

    /// Sets what it does where others append meanwhile.
    #[must_use]
    pub fn on_conflict(mut self, on_conflict: OnConflict) -> Self {
        self.document.on_conflict = on_conflict;
        self
    }

    /// Sets what it does before a tool that is not repeatable where no checkpoint can be written.
    #[must_use]
    pub fn on_no_checkpoint(mut self, on_no_checkpoint: OnNoCheckpoint) -> Self {
        self.document.on_no_checkpoint = on_no_checkpoint;
        self
    }

    /// Sets an id of your own, so that a request which comes twice is stored once. It has
    /// 1 to 246 bytes and no control characters; any other one is an error before the model is
    /// asked.
    ///
    /// Ids are recognised within a conversation: see
    /// [`Append::with_id`](crate::memory::Append::with_id). A turn of an id that was stored before
    /// says [`Ended::Adopted`], with the messages and positions of the first one: the model is not
    /// asked again. [`next`](Self::next) looks for that first, at the price of one more round trip.
    ///
    /// Where the first one still runs, was evicted, or was ended by others or without an answer,
    /// the model is asked: the turn stores nothing then and says the same, but its messages are its
    /// own. No call of a tool that is not repeatable is handed out where one was begun under this
    /// id: a request that comes twice books once, over a memory that keeps a checkpoint. The first
    /// turn is in the conversation, or among the [unfinished](crate::MemoryPrompt::unfinished)
    /// ones.
    ///
    /// ```
    /// use memory_prompt::turn::{Ended, Next, Turn};
    /// use memory_prompt::{ChatMemoryExt, DefaultChatMemory, MemoryPrompt, Message};
    ///
    /// let prompt = MemoryPrompt::new(DefaultChatMemory::new());
    /// let mut turn = Turn::new(Message::user("Hi.")).with_id("update 4711");
    /// turn.next(&prompt)?;
    /// turn.answer("Hello.")?;
    /// let Next::Done(first) = turn.next(&prompt)? else { unreachable!() };
    ///
    /// let mut again = Turn::new(Message::user("Hi.")).with_id("update 4711");
    /// let Next::Done(done) = again.next(&prompt)? else { unreachable!() };
    /// assert_eq!((done.text(), done.positions), (first.text(), first.positions));
    /// assert_eq!((first.ended, done.ended), (Ended::Answered, Ended::Adopted));
    /// assert_eq!(prompt.memory().next_position()?, 2);
    /// # Ok::<(), memory_prompt::Error>(())
    /// ```
    #[must_use]
    pub fn with_id(mut self, id: impl Into<String>) -> Self {
        self.document.id = id.into();
        self.may_be_repeated = true;
        self
    }

    /// Returns the id by which the memory recognises the append of this turn.
    pub fn id(&self) -> &str {
        &self.document.id
    }

    /// Returns the name of its slot, which it keeps in the hands of whoever adopts it.
    pub(crate) fn slot(&self) -> &str {
        &self.document.slot
    }

    /// Returns true where it was written to that slot, as far as its owner knows.
    pub(crate) fn has_slot(&self) -> bool {
        self.document.kept.is_some()
    }

    /// Returns what was said so far, the question first.
    pub fn messages(&self) -> &[Message] {
        &self.document.messages
    }

    /// Returns the sum of what its answers cost, as far as their providers told.
    pub fn usage(&self) -> Usage {
        self.document.usage
    }

    /// Returns the temporaries of a turn that comes to nothing, for the next one.
    #[must_use]
    pub fn into_temporaries(self) -> Vec<Message> {
        self.document.temporaries
    }

    /// Sets what the memory takes at most: [`ChatMemory::limits`](crate::ChatMemory::limits). For
    /// those who bring their own I/O; [`next`](Self::next) asks the memory.
    pub fn set_limits(&mut self, limits: Limits) {
        self.limits = limits;
    }

    /// Returns true where nothing is left but to store it.
    pub(crate) fn is_over(&self) -> bool {
        self.document.ended.is_some() || self.done.is_some()
    }

    /// Returns the calls that wait for results, with their places among the newest calls.
    fn waiting(&self) -> impl Iterator<Item = (usize, &ToolCall)> {
        self.document.waiting().into_iter()
    }

    fn is_unapproved(&self, place: usize) -> bool {
        self.document.unapproved.contains(&place)
    }

    /// Returns the temporaries as they are sent: behind the note about other turns, and before what
    /// is recalled.
    fn sent_temporaries(&self) -> Vec<Arc<Message>> {
        let Document { note, temporaries, recalled, .. } = &self.document;
        let messages = note.iter().chain(temporaries).chain(recalled);
        messages.cloned().map(Arc::new).collect()
    }

    fn tool(&self, call: &ToolCall) -> Option<&Tool> {
        self.tools.iter().find(|tool| tool.name() == call.name)
    }

    /// Returns the position behind which whatever is stored of the turn stands.
    pub(crate) fn began_at(&self) -> u64 {
        self.document.seen.map_or(0, |seen| seen.end)
    }
}

impl<Q: Into<Message>> From<Q> for Turn {
    fn from(question: Q) -> Self {
        Self::of(Document::new(question.into()))
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
        self.document.serialize(to)
    }
}

/// A turn that somebody has kept goes on where it was, for the same owner.
///
/// Where it is given to two owners all the same, the second one finds what the first has written.
/// While the first goes on, calls of the second [may have run](Call::may_have_run), and where the
/// two have gone different ways that is [`ErrorKind::Adopted`]. Once the first has ended, the
/// second ends as [`Ended::Adopted`] before it is handed a call that the first was handed; of what
/// it was handed before, late results are stored.
impl<'de> Deserialize<'de> for Turn {
    fn deserialize<D: Deserializer<'de>>(from: D) -> Result<Self, D::Error> {
        let mut document = Document::deserialize(from)?;
        // Whoever wrote it may have run what it was handed, or was about to be.
        if document.is_saving {
            document.note_handed_out();
        }
        document.note_handed_out_may_have_run();
        document.owner = own_id();
        let tries = u32::from(document.ended.is_some()); // nobody knows
        // Another one may have written the first checkpoint, and ended the turn long ago.
        let calls = document.waiting().into_iter().any(|(_, it)| !document.is_repeatable(it));
        let hold = if calls && document.kept.is_none() { Hold::Unsure } else { Hold::Own };
        let may_be_stored = tries > 0;
        Ok(Self { hold, tries, may_be_stored, ..Self::of(document) })
    }
}

impl fmt::Debug for Turn {
    /// Says how far it is, not what was said.
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Turn")
            .field("id", &self.document.id)
            .field("messages", &self.document.messages.len())
            .field("waiting", &self.waiting().count())
            .field("rounds", &self.document.rounds)
            .field("ended", &self.document.ended)
            .finish_non_exhaustive()
    }
}

/// The error of a turn that somebody else has adopted and not yet ended.
fn adopted_error() -> Error {
    let text = "somebody else has adopted the turn, and has not ended it yet";
    Error::new(ErrorKind::Adopted, "turn", text)
}
