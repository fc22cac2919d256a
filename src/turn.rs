//! Turns: a question, all that is called and said until it is answered, and one append of the
//! whole.
//!
//! A turn stages what happens and stores it once it is done, so that a model that fails, a tab that
//! is closed and a process that dies leave no half of it in the memory. It does no I/O of its own:
//! it says what it wants next, and [`next`](Turn::next) does what concerns the memory.
//!
//! ```
//! use memory_prompt::message::AiMessage;
//! use memory_prompt::turn::{Next, Tool, ToolError, Turn};
//! use memory_prompt::{DefaultChatMemory, MemoryPrompt, Message, Prompt, ToolCall};
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
//!                 turn.result(call.id(), call.parse().and_then(&cancel))?;
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
//! Before a tool runs that is not [repeatable](Tool::repeatable), the turn is written to a slot of
//! the memory, and again with the results before the model is asked: whatever dies in between, the
//! next turn finds it, and its model is told that the call was begun. It is left to its owner, who
//! may still run: only [`adopt`](crate::MemoryPrompt::adopt) takes it over. Without such calls
//! nothing is written before the end.
//!
//! A memory without slots keeps no such note. [`Call::is_kept`] says so, and
//! [`Checkpoint::Required`] makes it an error.

mod document;
mod machine;
mod shell;
mod tool;
mod unfinished;

use std::fmt;
use std::ops::Range;
use std::sync::Arc;

use serde::{Deserialize, Deserializer, Serialize, Serializer};

use crate::codec::Codec;
use crate::compose::ComposerCache;
use crate::composed::Prompt;
use crate::error::{Error, ErrorKind, Result};
use crate::memory::Limits;
use crate::message::{AiMessage, Content, Message, ToolCall, ToolMessage, UserMessage};
use crate::record::{Records, Snapshot};
#[doc(no_inline)]
pub use crate::tool::Tool;
use document::{Document, Seen};
pub use machine::Step;
pub use tool::{Call, ToolError};
pub use unfinished::{Begun, Unfinished};

/// A question on its way to an answer.
///
/// Dropping it stores nothing but what a [checkpoint](Checkpoint) has stored. It is serialised with
/// all that was said so far, but without its tools, which are code: set them again.
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
    /// The messages that stand behind it, as records.
    staged: Records,
    temporaries: Vec<Arc<Message>>,
    cache: ComposerCache,
    /// True where somebody else may have the slot.
    is_lost: bool,
    /// True once the whole turn was to be stored.
    is_committing: bool,
    /// True where what is to be stored now was to be stored before.
    is_again: bool,
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

/// A prompt for the model, and what it can call.
#[derive(Clone, Debug)]
pub struct Ask {
    prompt: Prompt,
    tools: Arc<[Tool]>,
    round: u32,
}

impl Ask {
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
    /// The positions of its messages in the memory.
    pub positions: Range<u64>,
    /// Its messages: the question, calls and results, and the answer.
    pub messages: Vec<Message>,
    /// The way in which it ended.
    pub ended: Ended,
    /// True where the memory recognises the append, should it come again after a lost answer.
    pub recognised: bool,
}

impl fmt::Debug for Done {
    /// Says how it ended and where it stands, not what was said.
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Done")
            .field("positions", &self.positions)
            .field("messages", &self.messages.len())
            .field("ended", &self.ended)
            .field("recognised", &self.recognised)
            .finish()
    }
}

impl Done {
    /// The answer, where the model has given one.
    pub fn answer(&self) -> Option<&AiMessage> {
        self.messages.last().and_then(Message::as_ai).filter(|ai| !ai.has_tool_calls())
    }

    /// The text of the answer; empty where there is none.
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
    /// Somebody else has [adopted](crate::MemoryPrompt::adopt) it. What it found out since was
    /// appended as late results; the rest of its messages is here and nowhere else.
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

/// The rule for a turn before a tool that is not repeatable, over a memory that can't keep a note
/// of it.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
#[non_exhaustive]
pub enum Checkpoint {
    /// It goes on, and says so by [`Call::is_kept`].
    #[default]
    WherePossible,
    /// It is an [`ErrorKind::Unsupported`] before the first such call.
    Required,
}

/// The part that is kept of a turn that is interrupted.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
#[non_exhaustive]
pub enum Keep {
    /// Everything that was said so far. Calls without a result are closed: a tool that may have run
    /// has an unknown outcome, which a late result replaces.
    Said,
    /// Nothing, if nothing has happened: where a tool that is not repeatable may have run, what was
    /// said is kept all the same.
    Nothing,
}

impl Turn {
    /// A turn that begins with this question.
    ///
    /// [`MemoryPrompt::turn`](crate::MemoryPrompt::turn) makes one with the temporaries of the
    /// prompt.
    pub fn new(question: impl Into<Message>) -> Self {
        Self::of(Document::new(question.into()))
    }

    fn of(document: Document) -> Self {
        let temporaries = document.note.iter().chain(&document.temporaries);
        let temporaries = temporaries.cloned().map(Arc::new).collect();
        Self {
            document,
            tools: Arc::from([]),
            limits: Limits::default(),
            listed: None,
            base: None,
            wanted: 0,
            staged: Records::default(),
            temporaries,
            cache: ComposerCache::default(),
            is_lost: false,
            is_committing: false,
            is_again: false,
            done: None,
        }
    }

    /// The turn with what the model can call. A call of anything else is answered with an error,
    /// for the model; where no tools are set, every call is handed out.
    #[must_use]
    pub fn tools(mut self, tools: impl IntoIterator<Item = Tool>) -> Self {
        self.tools = tools.into_iter().collect();
        let repeatable = self.tools.iter().filter(|tool| tool.is_repeatable());
        self.document.repeatable = repeatable.map(|tool| tool.name().to_owned()).collect();
        self
    }

    /// The turn with more messages for its own prompts only. They stay where its first prompt has
    /// them.
    #[must_use]
    pub fn temporaries(mut self, messages: impl IntoIterator<Item = Message>) -> Self {
        for message in messages {
            self.temporaries.push(Arc::new(message.clone()));
            self.document.temporaries.push(message);
        }
        self
    }

    /// The turn with at most so many answers that call tools; 25 unless set.
    #[must_use]
    pub fn max_rounds(mut self, rounds: u32) -> Self {
        self.document.most_rounds = rounds;
        self
    }

    /// The turn with what it does where others append meanwhile.
    #[must_use]
    pub fn on_conflict(mut self, on_conflict: OnConflict) -> Self {
        self.document.on_conflict = on_conflict;
        self
    }

    /// The turn with what it does over a memory that keeps no checkpoint.
    #[must_use]
    pub fn checkpoint(mut self, checkpoint: Checkpoint) -> Self {
        self.document.checkpoint = checkpoint;
        self
    }

    /// The id by which the memory recognises the append of this turn.
    pub fn id(&self) -> &str {
        &self.document.id
    }

    /// Returns what was said so far, the question first.
    pub fn messages(&self) -> &[Message] {
        &self.document.messages
    }

    /// The temporaries of a turn that comes to nothing, for the next one.
    #[must_use]
    pub fn into_temporaries(self) -> Vec<Message> {
        self.document.temporaries
    }

    /// Takes the answer of the model.
    ///
    /// # Errors
    ///
    /// [`ErrorKind::Invalid`] where it is not the answer of a model, and where the model was not to
    /// be asked: calls wait for their results, or the turn is over.
    pub fn answer(&mut self, answer: impl Into<Message>) -> Result<()> {
        let Message::Ai(answer) = answer.into() else {
            return Err(Error::invalid("answer", "it is not the message of a model"));
        };
        if self.is_over() || self.document.messages.last().is_some_and(|it| it.as_ai().is_some()) {
            return Err(Error::invalid("answer", "the turn did not ask"));
        }
        if self.open().next().is_some() {
            return Err(Error::invalid("answer", "calls wait for their results"));
        }
        let calls = answer.has_tool_calls();
        self.document.messages.push(Message::Ai(answer));
        self.document.is_called = false;
        self.document.is_adopted = false;
        if !calls {
            if self.document.steers.is_empty() {
                self.document.ended = Some(Ended::Answered);
            }
            return Ok(());
        }
        if self.document.rounds >= self.document.most_rounds {
            let most = self.document.most_rounds;
            self.close(&format!("Not run: a turn has at most {most} rounds of calls."));
            self.document.ended = Some(Ended::Rounds);
            return Ok(());
        }
        self.document.rounds += 1;
        self.refuse_unknown();
        Ok(())
    }

    /// Takes what came of a call: of the first with this id that waits.
    ///
    /// A result that is too large for the memory becomes an error for the model that says so.
    ///
    /// # Errors
    ///
    /// [`ErrorKind::Invalid`] where no call of this id waits.
    pub fn result(
        &mut self,
        call_id: &str,
        outcome: Result<impl Into<Content>, ToolError>,
    ) -> Result<()> {
        let call = self.open().find(|call| call.id == call_id).cloned();
        let Some(call) = call.filter(|_| !self.is_over()) else {
            let text = format!("no call {call_id:?} waits for its result");
            return Err(Error::invalid("result", text));
        };
        let result = match outcome {
            Ok(content) => ToolMessage::new(&call.id, &call.name, content),
            Err(error) => {
                ToolMessage::new(&call.id, &call.name, error.into_content()).with_error(true)
            }
        };
        self.stage_result(result);
        Ok(())
    }

    /// Takes the failure of a call: [`result`](Self::result) with a [`ToolError`] of this text.
    ///
    /// # Errors
    ///
    /// [`ErrorKind::Invalid`] where no call of this id waits.
    pub fn error(&mut self, call_id: &str, text: impl Into<String>) -> Result<()> {
        self.result(call_id, Err::<&str, _>(ToolError::new(text)))
    }

    /// Adds a message of the user to the running turn. The model is told at the next place where
    /// that is possible: with the results of the calls that run, or instead of the end.
    ///
    /// # Errors
    ///
    /// [`ErrorKind::Invalid`] where the turn is over: ask again.
    pub fn steer(&mut self, content: impl Into<Content>) -> Result<()> {
        if self.is_over() {
            return Err(Error::invalid("steer", "the turn is over"));
        }
        self.document.steers.push(Message::User(UserMessage::new(content).steered()));
        Ok(())
    }

    /// Ends the turn: the next step stores what is kept of it.
    ///
    /// What a broken stream has brought of an answer can be handed to [`answer`](Self::answer)
    /// before.
    pub fn interrupt(&mut self, keep: Keep) {
        if self.is_over() {
            return;
        }
        let keeps = keep == Keep::Said || self.has_happened();
        self.document.ended = Some(Ended::Interrupted);
        if !keeps {
            self.document.messages.clear();
            return;
        }
        if self.document.is_called {
            for call in self.open().cloned().collect::<Vec<_>>() {
                let result = ToolMessage::new(&call.id, &call.name, OUTCOME_UNKNOWN);
                let result = result.with_error(true).stand_in();
                self.document.messages.push(Message::Tool(result));
            }
        } else {
            self.close("Not run: the turn was interrupted.");
        }
        self.document.messages.append(&mut self.document.steers);
    }

    /// Returns whether a tool that is not repeatable may have run.
    fn has_happened(&self) -> bool {
        let messages = &self.document.messages;
        let newest = messages.iter().rposition(Message::has_tool_calls);
        let asked =
            messages.iter().enumerate().flat_map(|(i, it)| it.tool_calls().map(move |c| (i, c)));
        let mut others = asked.filter(|(_, call)| !self.is_repeatable(call));
        self.document.kept.is_some()
            || others.any(|(i, _)| Some(i) != newest || self.document.is_called)
    }

    /// Sets what the memory takes at most: [`ChatMemory::limits`](crate::ChatMemory::limits). For
    /// those who bring their own I/O; [`next`](Self::next) asks the memory.
    pub fn set_limits(&mut self, limits: Limits) {
        self.limits = limits;
    }

    fn is_over(&self) -> bool {
        self.document.ended.is_some() || self.done.is_some()
    }

    /// The calls that wait for results.
    fn open(&self) -> impl Iterator<Item = &ToolCall> {
        waiting(&self.document.messages).into_iter()
    }

    fn is_repeatable(&self, call: &ToolCall) -> bool {
        self.document.repeatable.contains(&call.name)
    }

    fn tool(&self, call: &ToolCall) -> Option<&Tool> {
        self.tools.iter().find(|tool| tool.name() == call.name)
    }

    /// Answers the calls of tools that there are not.
    fn refuse_unknown(&mut self) {
        if self.tools.is_empty() {
            return;
        }
        let unknown = self.open().filter(|call| self.tool(call).is_none());
        for call in unknown.cloned().collect::<Vec<_>>() {
            let text = format!("There is no tool {:?}.", call.name);
            self.stage_result(ToolMessage::new(&call.id, &call.name, text).with_error(true));
        }
    }

    /// Answers all calls that wait with this error.
    fn close(&mut self, text: &str) {
        for call in self.open().cloned().collect::<Vec<_>>() {
            let result = ToolMessage::new(&call.id, &call.name, text).with_error(true);
            self.document.messages.push(Message::Tool(result));
        }
    }

    /// Stages a result, or says in its place that it is too large.
    fn stage_result(&mut self, result: ToolMessage) {
        let (id, name) = (result.call_id().to_owned(), result.tool_name().to_owned());
        let message = Message::Tool(result);
        let message = match self.excess_of(self.document.messages.iter().chain([&message])) {
            None => message,
            Some(text) => {
                let text = format!("The result is too large: {text}.");
                Message::Tool(ToolMessage::new(id, name, text).with_error(true))
            }
        };
        self.document.messages.push(message);
    }

    /// Says why the memory can't take these messages at once; `None` where it can.
    fn excess_of<'a>(&self, messages: impl IntoIterator<Item = &'a Message>) -> Option<String> {
        let Limits { message: most, batch, .. } = self.limits;
        if most == usize::MAX && batch == usize::MAX {
            return None;
        }
        let size = |message| Codec::Json.encode(message).map_or(0, |bytes| bytes.len());
        let (mut largest, mut all) = (0, 0_usize);
        for bytes in messages.into_iter().map(size) {
            largest = bytes.max(largest);
            all = all.saturating_add(bytes);
        }
        if largest > most {
            return Some(format!("a message has {largest} bytes, and the memory takes {most}"));
        }
        (all > batch).then(|| format!("the turn has {all} bytes, and the memory takes {batch}"))
    }

    fn seen(&self) -> Option<Seen> {
        self.document.seen
    }
}

/// The calls without results among these messages.
fn waiting(messages: &[Message]) -> Vec<&ToolCall> {
    let Some(last) = messages.iter().rposition(Message::has_tool_calls) else { return Vec::new() };
    let mut calls: Vec<&ToolCall> = messages[last].tool_calls().collect();
    for result in messages[last + 1..].iter().filter_map(Message::as_tool) {
        if let Some(i) = calls.iter().position(|call| call.is_answered_by(result)) {
            calls.remove(i);
        }
    }
    calls
}

const OUTCOME_UNKNOWN: &str =
    "The outcome of this call is not known: it may have been done, and may still be under way.";

impl Serialize for Turn {
    fn serialize<S: Serializer>(&self, to: S) -> Result<S::Ok, S::Error> {
        self.document.serialize(to)
    }
}

/// A turn that somebody has kept goes on where it was, for the same owner.
///
/// Where it is given to two owners all the same, the second one finds the slot or the messages of the
/// first: its calls [may have run](Call::may_have_run), and of what it finds out only late results are
/// stored.
impl<'de> Deserialize<'de> for Turn {
    fn deserialize<D: Deserializer<'de>>(from: D) -> Result<Self, D::Error> {
        let mut document = Document::deserialize(from)?;
        // Whoever wrote it may have run what it was handed.
        document.is_adopted |= document.is_called || document.is_saving;
        let is_committing = document.ended.is_some();
        Ok(Self { is_committing, ..Self::of(document) })
    }
}

impl fmt::Debug for Turn {
    /// Says how far it is, not what was said.
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Turn")
            .field("id", &self.document.id)
            .field("messages", &self.document.messages.len())
            .field("waiting", &self.open().count())
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
