//! Conversations: the loop around a [turn](crate::turn), with a model and tools.
//!
//! ```
//! use memory_prompt::conversation::{Conversation, Scripted};
//! use memory_prompt::{DefaultChatMemory, MemoryPrompt, Tool};
//! use serde_json::json;
//!
//! #[derive(serde::Deserialize)]
//! struct Cancel {
//!     booking: u32,
//! }
//!
//! // Plays a model, in tests and in a first program.
//! let model = Scripted::new().calls("cancel", json!({"booking": 7})).says("It is cancelled.");
//! let prompt = MemoryPrompt::new(DefaultChatMemory::new()).system("You are a receptionist.");
//! let conversation = Conversation::new(prompt, model).tool(
//!     Tool::new("cancel", "Cancels a booking.").parameters(json!({
//!         "type": "object",
//!         "properties": {"booking": {"type": "integer"}},
//!         "required": ["booking"],
//!     })),
//!     |Cancel { booking }| Ok(format!("booking {booking} is cancelled")),
//! );
//!
//! let done = conversation.say("Cancel my booking, please.")?;
//! assert_eq!(done.text(), "It is cancelled.");
//! assert_eq!(done.positions, 0..4); // the question, the call, its result and the answer
//! # Ok::<(), memory_prompt::Error>(())
//! ```
//!
//! Any closure is a [`Model`]; one that streams [tells](Asking::tell) its events as they come:
//!
//! ```
//! use memory_prompt::conversation::{Asking, Conversation, ModelError};
//! use memory_prompt::wire::Event;
//! use memory_prompt::{DefaultChatMemory, MemoryPrompt};
//!
//! let model = |ask: &Asking<'_>| -> Result<String, ModelError> {
//!     let mut said = String::new();
//!     for piece in ["You said ", "something."] {
//!         ask.tell(Event::Text(piece.into()))?; // an error once the user has stopped the answer
//!         said += piece;
//!     }
//!     Ok(said) // or an answer of `wire`, with what it cost
//! };
//! let conversation = Conversation::new(MemoryPrompt::new(DefaultChatMemory::new()), model);
//!
//! let mut shown = String::new();
//! conversation.stream("hi", |event| {
//!     if let Event::Text(piece) | Event::Refusal(piece) = event {
//!         shown += &piece;
//!     }
//! })?;
//! assert_eq!(shown, "You said something.");
//! # Ok::<(), memory_prompt::Error>(())
//! ```
//!
//! # Waiting, and time limits
//!
//! Threads can share a conversation. By default two turns at the same time are both stored whole,
//! one after the other, or each on its [branch](crate::history); [`Conversation::when_busy`] makes
//! the second wait. A call can have a [time limit](Conversation::call_timeout), and the calls of
//! one answer can run [in parallel](Conversation::parallel). The result of a tool whose time was up
//! is stored when it comes: [`Conversation::finish`] waits for that before `main` returns. A call
//! that needs [approval](crate::Tool::needing_approval) asks [`Conversation::approve_by`], or parks
//! its turn.
//!
//! Over an async memory it is the same with `await`; a tool that took too long [goes
//! on](Conversation::go_on_by) as a task:
//!
//! ```
//! # #[cfg(all(feature = "async", feature = "tokio"))]
//! # tokio::runtime::Builder::new_current_thread().enable_time().build().unwrap().block_on(async {
//! use std::time::Duration;
//!
//! use memory_prompt::conversation::{Asking, Conversation, ModelError};
//! use memory_prompt::adapt::ToAsync;
//! use memory_prompt::{DefaultChatMemory, MemoryPrompt, Tool};
//!
//! let prompt = MemoryPrompt::new_async(ToAsync::new(DefaultChatMemory::new()));
//! let model = |ask: Asking<'static>| async move {
//!     Ok::<_, ModelError>(format!("I was sent {} messages.", ask.prompt().len()))
//! };
//! let conversation = Conversation::new_async(prompt, model)
//!     .tool_async(Tool::new("now", "The time.").repeatable(), |()| async { Ok("noon") })
//!     .call_timeout(Duration::from_secs(5)); // or `call_timeout_by`, on other executors
//! assert_eq!(conversation.say("hi").await?.text(), "I was sent 1 messages.");
//! # Ok::<(), memory_prompt::Error>(())
//! # })?;
//! # Ok::<(), memory_prompt::Error>(())
//! ```
//!
//! If a future is dropped, its turn is given up: only what a tool has done is kept. If you keep the
//! [`Turn`] and [run](Conversation::run) it again, it goes on where it was: it holds each result
//! that had come, even if other calls of the same answer still ran.
//!
//! # Spans
//!
//! With the feature `tracing` each turn is a span `invoke_agent` of the target
//! `memory_prompt::conversation`, with a span `chat` for each time that the model is asked and
//! `execute_tool` for each call. A late result that is lost, or that can't be stored because its
//! call is gone, is an event of level `WARN`. The fields have the names of OpenTelemetry's
//! conventions for generative AI: `gen_ai.request.model` (from the [model](Model::name) or
//! `Conversation::model_name`), `gen_ai.usage.input_tokens`, `gen_ai.response.finish_reasons`,
//! `gen_ai.tool.name`, `error.type` (the kind of an [`Error`], `ToolError` or `timeout`) and so on.
//! A span contains no text of the conversation unless `Conversation::trace_text` is set, and never
//! the id of the conversation: put your own span around it for that.
//!
//! # What goes wrong
//!
//! If a tool fails, panics, does not exist, gets arguments that it can't read or is too slow, the
//! model gets an error and the turn goes on. If the model fails, the turn is given up and nothing
//! is stored, so that you can ask the same question again. The exception: if a tool [has
//! run](crate::turn#what-happened-is-never-denied) that is not repeatable, the question, the calls
//! and their results are stored. Asking again then stores the question twice and may call the tool
//! again, unless the turn has an [id of its own](Turn::with_id) and the memory keeps checkpoints.
//! [`Error::remains`] says which case it is. To be able to try again in every case, keep the
//! [`Turn`] and [run](Conversation::run) it again: it goes on in the middle.
//!
//! If neither the turn nor its checkpoint can be written any more, the conversation keeps what its
//! tools returned, and stores it as late results once another owner has adopted and ended the turn.
//!
//! If the model, an approver or a listener panics, the turn ends as if the model had failed, and
//! then the panic goes on to the caller. If a listener panics after the model has returned an
//! answer without calls, that answer is stored; if it panics while the model still tells its
//! events, nothing of the answer is stored. Nothing stays locked: the next question is answered.
//!
//! A turn that is [adopted](MemoryPrompt::adopt) while its first owner still runs a tool has two
//! owners for a while. The result of the first owner is stored as a late result only if the adopter
//! has ended the turn by then; before that, its `say` or `run` fails with [`ErrorKind::Adopted`].
//! Adopt only turns that no process runs any more. The result of a call that [took too
//! long](Conversation::call_timeout) waits until any owner ends the turn, as long as the
//! conversation value lives: if that is dropped while its turn waits for a person, the result is
//! lost.

mod action;
#[cfg(feature = "async")]
mod asynchronous;
mod blocking;
#[cfg(feature = "async")]
mod gate;
mod kind;
mod late;
mod live;
mod loops;
mod model;
mod observe;
mod scripted;
mod stops;
mod summarizer;
mod threads;
mod tools;
mod watched;

use std::fmt;
use std::panic::resume_unwind;
use std::sync::Arc;
use std::thread;
use std::time::Duration;

use parking_lot::Mutex;
use serde::de::DeserializeOwned;

use crate::error::{Error, ErrorKind, Remains, Result};
use crate::memory::ChatMemory;
use crate::memory_prompt::MemoryPrompt;
use crate::message::{Content, Message};
use crate::prompt::Prompt;
use crate::provider::Provider;
use crate::tool::Tool;
use crate::turn::{
    Call, Decision, Done, Ended, NOT_RUN, Next, OnConflict, OnInterrupt, Reply, ToolError, Turn,
    Unfinished, Waiting, no_tool,
};
pub use action::Action;
pub use kind::MemoryKind;
use late::{Late, Runs};
pub use live::{Follower, Live, Telling, Told};
#[cfg(feature = "async")]
pub use model::AsyncModel;
pub use model::{Asking, Model, ModelError, Stopped};
use observe::Watch;
pub use scripted::Scripted;
pub use stops::Stopper;
pub use summarizer::ModelSummarizer;
use tools::{Handler, Outcome, TOO_MANY};

/// A conversation with a model that can call tools, over any memory.
///
/// Threads can share it. Over an async memory it is made by [`new_async`](Conversation::new_async),
/// and `say`, `stream` and `run` are async functions.
pub struct Conversation<M: ?Sized + MemoryKind = dyn ChatMemory> {
    prompt: MemoryPrompt<M>,
    model: Arc<M::Model>,
    tools: Arc<[Tool]>,
    handlers: Vec<Job<M>>,
    /// The temporaries that wait. Those that a failed turn has used come with the memory of that
    /// turn: the memory of the prompt may be another user's by now.
    temporaries: Mutex<Vec<(Message, Option<Arc<M>>)>>,
    settings: Settings,
    approver: Option<Box<Handler<M::Coming<Approval>>>>,
    stops: Stopper,
    /// The turns that run, and the calls that run on, of turns that are not stored yet.
    late: Arc<Late<M>>,
    gate: M::Gate,
}

type OnPrompt = dyn Fn(&Prompt) + Send + Sync;
/// What runs the calls of a tool.
type Job<M> = Arc<Handler<<M as MemoryKind>::Coming<Outcome>>>;

#[derive(Default)]
struct Settings {
    when_busy: WhenBusy,
    is_parallel: bool,
    timeout: Option<Duration>,
    #[cfg(feature = "async")]
    sleep: Option<Box<asynchronous::Sleep>>,
    #[cfg(feature = "async")]
    spawn: Option<Box<asynchronous::Spawn>>,
    on_interrupt: OnInterrupt,
    on_prompt: Option<Box<OnPrompt>>,
    watch: Watch,
}

/// The rule for a question that comes while another one of the same [`Conversation`] is answered.
///
/// It holds within one `Conversation` value: between two values or two processes it is always
/// [`Proceed`](Self::Proceed).
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
#[non_exhaustive]
pub enum WhenBusy {
    /// Both are answered at the same time, neither sees the other, and both are stored whole, one
    /// after the other. If one of them regenerates or edits, each is on its own
    /// [branch](crate::history), and the branch of that one becomes current, whichever is stored
    /// first.
    #[default]
    Proceed,
    /// The second one waits until the first is stored, and sees it. A tool that asks its own
    /// conversation gets no answer until the turn that runs the tool ends: without a [time
    /// limit](Conversation::call_timeout) both wait forever.
    Wait,
    /// The second one fails with an [`ErrorKind::Busy`].
    Fail,
}

/// The decision on a call that needs approval.
#[derive(Clone, Debug, PartialEq, Eq)]
#[non_exhaustive]
pub enum Approval {
    /// It may run.
    Yes,
    /// The call may not run; the model reads this reason.
    No(String),
    /// There is no decision yet. The turn is [parked](crate::turn::Ended::Parked), and its calls
    /// are among those that [wait](crate::turn::Done::waiting) for an `approve` or a `refuse`.
    Later,
}

impl<M: ?Sized + MemoryKind> Conversation<M> {
    /// Creates a conversation. `provider` and `name` are those of the model, if it knows them.
    fn over(
        mut prompt: MemoryPrompt<M>,
        model: Arc<M::Model>,
        provider: Option<Provider>,
        name: Option<String>,
    ) -> Self {
        if let Some(provider) = provider.filter(|_| prompt.composer().provider().is_none()) {
            prompt = prompt.for_provider(provider);
        }
        let temporaries = prompt.take_temporaries().into_iter().map(|it| (it, None)).collect();
        Self {
            prompt,
            model,
            tools: Arc::from([]),
            handlers: Vec::new(),
            temporaries: Mutex::new(temporaries),
            settings: Settings {
                watch: Watch { model: name, is_with_text: false },
                ..Settings::default()
            },
            approver: None,
            stops: Stopper(Arc::default()),
            late: Arc::default(),
            gate: M::Gate::default(),
        }
    }

    /// Lets the model call this tool; `run` gets the parsed arguments. Over an async memory it runs
    /// on the executor, so it must not take long.
    #[must_use]
    pub fn tool<T, R>(
        self,
        tool: Tool,
        run: impl Fn(T) -> Result<R, ToolError> + Send + Sync + 'static,
    ) -> Self
    where
        T: DeserializeOwned,
        R: Into<Content>,
    {
        let run = move |call: &Call| run(call.parse()?).map(Into::into);
        self.with_handler(tool, Arc::new(move |call: &Call| M::come(run(call))))
    }

    fn with_handler(mut self, tool: Tool, handler: Job<M>) -> Self {
        self.tools = self.tools.iter().cloned().chain([tool]).collect();
        self.handlers.push(handler);
        self
    }

    /// Sets what happens to a question that comes while another one is answered.
    #[must_use]
    pub fn when_busy(mut self, when_busy: WhenBusy) -> Self {
        self.settings.when_busy = when_busy;
        self
    }

    /// Runs the calls of one answer in parallel; by default they run one after the other.
    #[must_use]
    pub fn parallel(mut self) -> Self {
        self.settings.is_parallel = true;
        self
    }

    /// Sets what happens to a turn that is [stopped](Self::stopper).
    #[must_use]
    pub fn on_interrupt(mut self, on_interrupt: OnInterrupt) -> Self {
        self.settings.on_interrupt = on_interrupt;
        self
    }

    /// Asks this function about each call that [needs approval](Tool::needing_approval). The
    /// default answer is [`Later`](Approval::Later).
    #[must_use]
    pub fn approve_by(
        mut self,
        approver: impl Fn(&Call) -> Approval + Send + Sync + 'static,
    ) -> Self {
        self.approver = Some(Box::new(move |call| M::come(approver(call))));
        self
    }

    /// Shows each prompt to this function, right before it is sent to the model.
    ///
    /// ```
    /// use std::sync::{Arc, Mutex};
    ///
    /// use memory_prompt::conversation::{Conversation, Scripted};
    /// use memory_prompt::{DefaultChatMemory, MemoryPrompt, Tool};
    ///
    /// let model = Scripted::new().calls("now", serde_json::json!({})).says("It is noon.");
    /// let shown = Arc::new(Mutex::new(Vec::new()));
    /// let prompts = Arc::clone(&shown);
    /// let conversation = Conversation::new(MemoryPrompt::new(DefaultChatMemory::new()), model)
    ///     .tool(Tool::new("now", "The time."), |()| Ok("12:00"))
    ///     .on_prompt(move |prompt| prompts.lock().unwrap().push(prompt.clone()));
    /// conversation.say("What time is it?")?;
    ///
    /// let shown = shown.lock().unwrap();
    /// assert_eq!(shown.iter().map(|prompt| prompt.len()).collect::<Vec<_>>(), [1, 3]);
    /// println!("{}", shown[1].outline().for_stdout());
    /// println!("{}", shown[1].fate(0)); // of any position
    /// # Ok::<(), memory_prompt::Error>(())
    /// ```
    #[must_use]
    pub fn on_prompt(mut self, show: impl Fn(&Prompt) + Send + Sync + 'static) -> Self {
        self.settings.on_prompt = Some(Box::new(show));
        self
    }

    /// Sets the name of the model in the spans of the turns, instead of the [model's
    /// own](Model::name): see [spans](self#spans).
    #[cfg(feature = "tracing")]
    #[must_use]
    pub fn model_name(mut self, name: impl Into<String>) -> Self {
        self.settings.watch.model = Some(name.into());
        self
    }

    /// Adds text to the spans: what is sent to the model, its answers, and the arguments and
    /// results of tools. By default the spans contain no text.
    #[cfg(feature = "tracing")]
    #[must_use]
    pub fn trace_text(mut self) -> Self {
        self.settings.watch.is_with_text = true;
        self
    }

    /// Adds a message for the next turn only: see [`MemoryPrompt::add_temporary`]. If that turn
    /// fails before the model has answered, the message waits for the next one; with the [memory
    /// replaced](Self::prompt_mut) meanwhile, it is dropped.
    pub fn add_temporary(&self, message: impl Into<Message>) {
        self.temporaries.lock().push((message.into(), None));
    }

    /// Takes the temporaries that wait, without those of turns over another memory.
    fn take_temporaries(&self) -> Vec<Message> {
        let own = |used_in: &Arc<M>| Arc::ptr_eq(used_in, self.prompt.memory());
        let waiting = std::mem::take(&mut *self.temporaries.lock()).into_iter();
        waiting.filter(|(_, used_in)| used_in.as_ref().is_none_or(own)).map(|it| it.0).collect()
    }

    /// Returns the prompt: for a preview, its memory or its unfinished turns. A preview lacks the
    /// note about other turns, which a turn adds itself.
    pub fn prompt(&self) -> &MemoryPrompt<M> {
        &self.prompt
    }

    /// Returns the prompt, to configure it or to replace its memory. Temporaries that are added to
    /// it are for its own builds; those of turns are [added here](Self::add_temporary).
    pub fn prompt_mut(&mut self) -> &mut MemoryPrompt<M> {
        &mut self.prompt
    }

    /// Returns a handle that stops the turns of this value from another thread. A service that
    /// makes a value for each request keeps the handle while the turn runs.
    pub fn stopper(&self) -> Stopper {
        self.stops.clone()
    }

    /// Adds the waiting temporaries to the turn, unless it goes on with the decision of a person.
    fn begin(&self, turn: Turn, is_decided: bool) -> LentTurn<'_, M> {
        let lent = if is_decided { Vec::new() } else { self.take_temporaries() };
        let turn = turn.temporaries(lent.iter().cloned());
        LentTurn { turn, lent, of: self }
    }

    /// Returns true if there was a stop since there were this many.
    fn is_stopped(&self, before: u64) -> bool {
        self.stops.count() != before
    }

    /// Ends the turn if it was stopped: calls that were not begun are not run.
    fn stop(&self, turn: &mut Turn, before: u64) {
        if self.is_stopped(before) {
            turn.interrupt(self.settings.on_interrupt);
        }
    }

    fn handler(&self, tool: &str) -> Option<&Job<M>> {
        let place = self.tools.iter().position(|it| it.name() == tool)?;
        self.handlers.get(place)
    }

    /// Refuses to approve a call whose tool is missing here: another process has it.
    fn must_have(&self, waiting: &Waiting) -> Result<()> {
        let has_it = self.handler(&waiting.tool).map(drop);
        has_it.ok_or_else(|| Error::invalid("approve", no_tool(&waiting.tool)))
    }

    /// Returns what runs this call. `None` if it is not to be run: then it is answered here. After
    /// a stop none is run.
    fn to_run(&self, turn: &mut Turn, call: &Call, before: u64) -> Result<Option<Job<M>>> {
        if call.may_have_run() {
            return turn.outcome_unknown(call.id(), "").map(|()| None);
        }
        let why = match self.handler(call.name()) {
            _ if self.is_stopped(before) => NOT_RUN.to_owned(),
            None => no_tool(call.name()),
            Some(_) if self.late.is_full() => TOO_MANY.to_owned(),
            Some(handler) => return Ok(Some(Arc::clone(handler))),
        };
        turn.not_run(call.id(), &why).map(|()| None)
    }

    fn take_reply(
        &self,
        turn: &mut Turn,
        asking: &Asking<'_>,
        steers: &Steers,
        reply: Result<Reply, ModelError>,
    ) -> Result<()> {
        let keep = self.settings.on_interrupt;
        let forgets = keep == OnInterrupt::Forget && !turn.may_have_acted();
        match reply {
            // A blocking model may have answered all the same.
            _ if asking.is_stopped() && (forgets || reply.is_err()) => steers.then(turn, |turn| {
                if let Some(said) = asking.said().filter(|_| !forgets) {
                    turn.answer(said)?;
                }
                turn.interrupt(keep);
                Ok(())
            }),
            Ok(reply) => {
                // The turn takes it before it is shown: a listener may panic.
                let untold = asking.untold(&reply);
                steers.then(turn, |turn| turn.answer(reply))?;
                asking.tell_rest(untold);
                Ok(())
            }
            Err(error) => Err(match error.downcast::<Error>() {
                Ok(error) => error.with_remains(None), // of a turn that the model had run itself
                Err(error) => {
                    Error::new(ErrorKind::Model, "say", "the model failed").with_source(error)
                }
            }),
        }
    }
}

/// The messages that the user adds to a running turn; `None` once the turn takes no more.
struct Steers(Mutex<Option<Vec<Content>>>);

impl Steers {
    fn of(turn: &Turn) -> Self {
        Self(Mutex::new((!turn.is_over()).then(Vec::new)))
    }

    /// Passes the messages to the turn, and then runs `act` on it. If that ends the turn, no more
    /// messages are taken.
    fn then<T>(&self, turn: &mut Turn, act: impl FnOnce(&mut Turn) -> T) -> T {
        let mut open = self.0.lock();
        for content in open.iter_mut().flat_map(std::mem::take) {
            let _ = turn.steer(content); // dropped if the turn has no room for it
        }
        let done = act(turn);
        if turn.is_over() {
            *open = None;
        }
        done
    }

    /// Passes the messages to the turn until it takes no more.
    fn keep_in(&self, turn: &mut Turn) {
        while !self.close() {
            self.then(turn, |_| ());
        }
    }

    /// Closes the list if it is empty; returns whether it is closed.
    fn close(&self) -> bool {
        let mut open = self.0.lock();
        open.take_if(|it| it.is_empty());
        open.is_none()
    }
}

/// Takes the decision on a call; returns true if the decision is still open.
fn take_decision(turn: &mut Turn, call: &Call, approval: Approval) -> Result<bool> {
    match approval {
        Approval::Yes => turn.approve(call.id())?,
        Approval::No(why) => turn.refuse(call.id(), &why)?,
        Approval::Later if call.is_checkpointed() => return Ok(true),
        Approval::Later => {
            let text = "this memory can't keep a call that waits for approval";
            return Err(Error::new(ErrorKind::Unsupported, "say", text));
        }
    }
    Ok(false)
}

/// Returns true if this is the turn of a dead process: its slot was not written for this long, and
/// it waits for no person.
fn is_dead(turn: &Unfinished, silent_for: Duration) -> bool {
    let elapsed = turn.since().map(|since| since.elapsed().unwrap_or_default());
    let is_silent = elapsed.is_none_or(|elapsed| elapsed >= silent_for);
    is_silent && (turn.runs() || turn.waiting().is_empty())
}

/// Ends a turn of a dead process. If a person still has to decide on another call, it only marks
/// the outcome of its begun calls as unknown.
fn bury(mut turn: Turn, dead: &Unfinished) -> Result<Turn> {
    if dead.waiting().is_empty() {
        turn = turn.on_conflict(OnConflict::Behind); // no caller is left to report a conflict to
        turn.interrupt(OnInterrupt::Keep);
    } else {
        turn.all_unknown("The process died.")?;
    }
    Ok(turn)
}

/// What an answer begins with: a question, or the decision on a waiting call.
enum Begin<'a> {
    Asked(Box<Turn>),
    /// The newest question, to be regenerated.
    Regenerate,
    /// A question that replaces the message at this position.
    Edit(u64, Box<Turn>),
    Decided(&'a Waiting, Decision<'a>),
}

/// A turn that its owner keeps: what was added while it ran stays in it, even if its future is
/// dropped.
struct KeptTurn<'a> {
    turn: &'a mut Turn,
    runs: Arc<Runs>,
}

impl Drop for KeptTurn<'_> {
    fn drop(&mut self) {
        self.runs.steers.keep_in(self.turn);
    }
}

/// A turn that no caller holds, with the temporaries of the conversation that were moved into it.
/// If the turn is given up before the model has answered, they go back to the conversation; results
/// of its tools are stored once another owner has ended it.
struct LentTurn<'a, M: ?Sized + MemoryKind> {
    turn: Turn,
    lent: Vec<Message>,
    of: &'a Conversation<M>,
}

impl<M: ?Sized + MemoryKind> LentTurn<'_, M> {
    /// Prepares a failed turn for its end. What has happened in it, and a decision, stay to be
    /// stored. If other calls wait for a person, the turn goes on waiting for them.
    fn fail(&mut self, steers: &Steers, is_decided: bool) -> &mut Turn {
        self.give_back();
        steers.then(&mut self.turn, |turn| {
            if !is_decided {
                turn.interrupt(OnInterrupt::Forget);
            } else if !turn.close_all_but_waiting() {
                turn.interrupt(OnInterrupt::Keep);
            }
        });
        steers.keep_in(&mut self.turn);
        &mut self.turn
    }

    fn give_back(&mut self) {
        let lent = std::mem::take(&mut self.lent);
        if !self.turn.messages().iter().any(|message| message.as_ai().is_some()) {
            let memory = self.of.prompt.memory();
            let lent = lent.into_iter().map(|message| (message, Some(Arc::clone(memory))));
            self.of.temporaries.lock().splice(0..0, lent);
        }
    }
}

impl<M: ?Sized + MemoryKind> Drop for LentTurn<'_, M> {
    fn drop(&mut self) {
        self.give_back();
        if self.turn.may_end_elsewhere() {
            self.of.late.fail(&self.turn, self.of.prompt.memory(), false);
        }
    }
}

/// Returns the outcome of a turn that is settled. A panic continues here.
fn settled(done: thread::Result<Result<Done>>) -> Result<Done> {
    done.unwrap_or_else(|panic| resume_unwind(panic))
}

/// Returns the outcome of a turn that was ended because its loop failed, unless it was over before.
fn ended(was_over: bool, turn: &Turn, next: Result<Next>, error: Error) -> Result<Done> {
    let remains = match next {
        // Only its last append had failed, and now it is stored.
        Ok(Next::Done(done)) if was_over => return Ok(done),
        // The owner who adopted it has stored it.
        Ok(Next::Done(done)) if done.ended == Ended::Adopted => Remains::Stored,
        Ok(Next::Done(done)) if done.positions.is_empty() && !turn.goes_on_behind_others() => {
            Remains::Nothing
        }
        Ok(Next::Done(_)) => Remains::Stored,
        Ok(_) => turn.remains(None),
        Err(failed) => turn.remains(Some(failed.kind())),
    };
    Err(error.with_remains(Some(remains)))
}

fn busy_error() -> Error {
    let text = "another question of this conversation is being answered";
    Error::new(ErrorKind::Busy { since: None }, "say", text).with_remains(Some(Remains::Nothing))
}

impl<M: ?Sized + MemoryKind> fmt::Debug for Conversation<M> {
    /// Shows its tools, not what was said.
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let names: Vec<_> = self.tools.iter().map(Tool::name).collect();
        f.debug_struct("Conversation").field("tools", &names).finish_non_exhaustive()
    }
}
