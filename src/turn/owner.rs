//! The owner's side of a turn: settings, answers, results, approvals, and its end.

use std::collections::{BTreeSet, HashSet};
use std::sync::Arc;

use super::call::result_of;
use super::late::Stored;
use super::reply::Reply;
use super::room::{excess_in, is_unbounded, not_stored, refers, room_for_answer, size};
use super::state::{CallState, Doing, NOT_RUN, State, outcome_unknown};
use super::{Call, Ended, OnConflict, OnInterrupt, OnNoCheckpoint, ToolError, Turn};
use crate::error::{Error, ErrorKind, Result};
use crate::memory::{MemoryId, On};
use crate::message::{
    AiMessage, Content, Message, ToolCall, ToolMessage, UserMessage, is_same_tool,
};
use crate::record::Replaced;
use crate::tool::Tool;
use crate::wire::{Stop, Usage};

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

    /// Sets the tools that the model can call, instead of the
    /// [prompt's](crate::MemoryPrompt::tools). A call of another tool is answered with an error for
    /// the model. If neither the turn nor the prompt has tools, every call is handed out.
    #[must_use]
    pub fn tools(mut self, tools: impl IntoIterator<Item = Tool>) -> Self {
        self.set_tools(tools.into_iter().collect());
        self
    }

    pub(crate) fn set_tools(&mut self, tools: Arc<[Tool]>) {
        self.state.repeatable = names(&tools, Tool::is_repeatable);
        self.state.require_approval_of(names(&tools, Tool::needs_approval));
        self.tools = tools;
    }

    /// Uses the tools of the prompt if the turn has none of its own: the model is offered them, so
    /// their calls also need approval. A deserialised turn that had other tools waits for the
    /// approval of both, and runs again only what both allow.
    pub(super) fn take_tools(&mut self, tools: &Arc<[Tool]>) {
        let State { repeatable, needs_approval, .. } = &mut self.state;
        let had_none = repeatable.is_empty() && needs_approval.is_empty();
        let had_these = *repeatable == names(tools, Tool::is_repeatable)
            && *needs_approval == names(tools, Tool::needs_approval);
        if had_none || had_these {
            self.set_tools(Arc::clone(tools));
        } else {
            let runs_once = names(tools, |tool| !tool.is_repeatable());
            repeatable.retain(|name| !runs_once.contains(name));
            let held = &*needs_approval | &names(tools, Tool::needs_approval);
            self.state.require_approval_of(held);
        }
    }

    /// Adds messages for its own prompts only. They keep their place from its first prompt.
    #[must_use]
    pub fn temporaries(mut self, messages: impl IntoIterator<Item = Message>) -> Self {
        self.add_temporaries(messages);
        self
    }

    pub(crate) fn add_temporaries(&mut self, messages: impl IntoIterator<Item = Message>) {
        self.state.temporaries.extend(messages);
    }

    /// Replaces other messages with this turn, on this new branch.
    pub(super) fn in_place(mut self, (on, replaced): (On, Replaced)) -> Self {
        (self.state.on, self.state.replaced) = (Some(on), Some(replaced));
        self
    }

    /// Returns true if its first prompt is still to come, in this conversation.
    pub(crate) fn begins_in(&self, conversation: &MemoryId) -> bool {
        let is_here = self.conversation.as_ref().is_none_or(|known| known == conversation);
        is_here && self.state.has_not_begun() && !self.is_over()
    }

    /// Sets the number of answers that may call tools or [pause](Stop::Paused); the default is 25.
    #[must_use]
    pub fn max_rounds(mut self, rounds: u32) -> Self {
        self.state.most_rounds = rounds;
        self
    }

    /// Sets what the turn does if others append in the meantime.
    #[must_use]
    pub fn on_conflict(mut self, on_conflict: OnConflict) -> Self {
        self.state.on_conflict = on_conflict;
        self
    }

    /// Sets what the turn does before a tool that is not repeatable if no checkpoint can be
    /// written.
    #[must_use]
    pub fn on_no_checkpoint(mut self, on_no_checkpoint: OnNoCheckpoint) -> Self {
        self.state.on_no_checkpoint = on_no_checkpoint;
        self
    }

    /// Sets an id of your own, so that a repeated request is stored once. The id has 1 to 246 bytes
    /// and no control characters; any other is an error before the model is asked.
    ///
    /// Before the model is asked, [`next`](Self::next) looks for earlier requests of this id, which
    /// costs two more round trips:
    ///
    /// - The request was answered, or its answer broke off or was stopped within its text: the turn
    ///   is [`Ended::Adopted`], with the stored messages and their positions.
    /// - It is stored without an answer, or with a message after it that no model has read: the
    ///   turn continues after what is stored, and asks the model. Stored calls don't run again. Its
    ///   own messages are then stored under an id that is derived from this one.
    /// - It is pending approval: the turn is [`Ended::Parked`], with its [pending
    ///   calls](super::Done::waiting).
    /// - It runs, and has a checkpoint: [`ErrorKind::Busy`]. Without a checkpoint, nothing shows
    ///   that it runs: the model is asked, one of the two turns is stored, and both return the
    ///   stored answer.
    /// - The id belongs to another question: [`ErrorKind::Invalid`].
    /// - Nothing is stored, or it was evicted: the model is asked.
    ///
    /// A conversation recognises at least the newest 64 ids of appends: see
    /// [`Append::with_id`](crate::memory::Append::with_id). A turn that waits in its slot is found
    /// as long as it waits. A turn with a
    /// [checkpoint](crate::turn#what-happened-is-never-denied) takes two of the 64. What a retry
    /// has stored after an earlier part is found as long as the id of the first part is known.
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
        self.state.id = id.into();
        self.state.is_request = true;
        self
    }

    /// Returns the id by which the memory recognises the append of this turn.
    pub fn id(&self) -> &str {
        &self.state.id
    }

    /// Returns the text that distinguishes it from every other turn. All owners of the turn share
    /// it.
    pub(crate) fn life(&self) -> &str {
        &self.state.life
    }

    /// Returns the name of its slot, which stays the same when another owner adopts it.
    pub(crate) fn slot(&self) -> String {
        self.state.slot()
    }

    /// Returns true if it was written to that slot, as far as its owner knows.
    pub(crate) fn has_slot(&self) -> bool {
        self.state.held().is_some()
    }

    /// Returns what was said so far, the question first.
    pub fn messages(&self) -> &[Message] {
        &self.state.messages
    }

    /// Returns the sum of the usage of its answers, as far as their providers reported it.
    pub fn usage(&self) -> Usage {
        self.state.usage
    }

    /// Returns the temporaries of an abandoned turn, for the next turn.
    #[must_use]
    pub fn into_temporaries(self) -> Vec<Message> {
        self.state.temporaries
    }

    /// Returns whether a tool that is not repeatable may have run.
    pub(crate) fn may_have_acted(&self) -> bool {
        self.state.may_have_acted()
    }

    /// Returns true if only storing it remains.
    pub(crate) fn is_over(&self) -> bool {
        self.state.is_over()
    }

    /// Returns true if it has not ended here but may end elsewhere: it has a slot, or may be stored
    /// already.
    pub(crate) fn may_end_elsewhere(&self) -> bool {
        let is_done = matches!(self.state.doing, Doing::Done { .. });
        !is_done && (self.has_slot() || self.state.commits > 0)
    }

    pub(super) fn tool(&self, call: &ToolCall) -> Option<&Tool> {
        self.tools.iter().find(|tool| tool.name() == call.name)
    }

    pub(crate) fn stored(&self) -> Stored {
        Stored::behind(self.state.seen, self.state.on())
    }

    /// Takes the answer of the model, and adds up its usage.
    ///
    /// Every call of the turn gets a unique id, in [`messages`](Self::messages) and in what is
    /// handed out. A call gets a new id if it repeats one of the same answer, of an earlier call of
    /// the turn, or of a call whose result may come late, as far as the turn has read back.
    ///
    /// An answer that [paused](Stop::Paused) is sent back as it is, which counts as a round. The
    /// next answer continues it: both become one message.
    ///
    /// An answer that [broke off](Stop::Broken) ends the turn: it is stored with the attribute
    /// `turn:broken`, and its calls are not run. If an answer was [cut](Stop::Length) or
    /// [withheld](Stop::Filtered), its last call may be incomplete and is not run either; the model
    /// reads that.
    ///
    /// # Errors
    ///
    /// [`Invalid`](crate::ErrorKind::Invalid) if the message is not one of a model; if the turn did
    /// not ask, because calls wait for their results or the turn is over; or if the answer is too
    /// large for the memory. [`Model`](crate::ErrorKind::Model) if it broke off before anything was
    /// said. In all these cases the turn does not change.
    pub fn answer(&mut self, answer: impl Into<Reply>) -> Result<()> {
        let Reply { message, usage, stop, metadata } = answer.into();
        let Message::Ai(mut answer) = message else {
            return Err(Error::invalid("answer", "it is not the message of a model"));
        };
        let newest = self.state.messages.last().and_then(Message::as_ai);
        let paused = newest.filter(|_| self.state.doing == Doing::Paused).cloned();
        let is_asked = matches!(self.state.doing, Doing::Asking | Doing::Paused);
        if !is_asked || newest.is_some() && paused.is_none() {
            return Err(Error::invalid("answer", "the turn did not ask"));
        }
        let is_broken = stop == Some(Stop::Broken);
        if is_broken && answer.text().is_empty() && !answer.has_tool_calls() {
            let text = "the answer broke off before anything was said";
            return Err(Error::new(ErrorKind::Model, "answer", text));
        }
        if is_broken {
            answer = answer.broken();
        }
        let cut = match stop {
            Some(Stop::Length | Stop::Filtered) => cut_calls(&answer),
            _ => Vec::new(),
        };
        let mut answer = tell_apart(answer, self.awaited_ids());
        let goes_on = paused.is_some();
        answer = match paused {
            Some(paused) => paused.followed_by(answer),
            None => answer,
        };
        if let Some(text) = self.excess_of(&Message::Ai(answer.clone()), None) {
            return Err(Error::invalid("answer", text));
        }
        // A call under a name that a provider was sent instead of the tool's own.
        let meant = |call: &ToolCall| {
            let mut tools = self.tools.iter().filter(|_| self.tool(call).is_none());
            let tool = tools.find(|tool| is_same_tool(&call.name, tool.name()))?;
            Some(ToolCall { name: tool.name().to_owned(), ..call.clone() })
        };
        answer = answer.with_calls(meant).unwrap_or(answer);
        (self.stop, self.metadata) = (stop, Box::new(metadata));
        if goes_on {
            self.prompts.forget_messages();
            self.prompts.knows_others = false;
        }
        self.state.answered(answer, usage, stop);
        for (place, call) in self.state.open_calls() {
            if cut.contains(&place) {
                self.state.not_run(place, &call, "Not run: the answer was cut.");
            } else if !self.tools.is_empty() && self.tool(&call).is_none() {
                self.state.not_run(place, &call, &no_tool(&call.name));
            }
        }
        Ok(())
    }

    /// Approves a call that [needs approval](super::Tool::needing_approval): the next step writes
    /// that down and hands the call out again. For a call that must not run, report an
    /// [error](Self::error).
    ///
    /// # Errors
    ///
    /// [`Invalid`](crate::ErrorKind::Invalid) if no call of this id waits for approval.
    pub fn approve(&mut self, call_id: &str) -> Result<()> {
        let (place, _) = self.unapproved("approve", call_id)?;
        self.state.approve(place);
        Ok(())
    }

    /// Refuses a call that [needs approval](super::Tool::needing_approval), for this reason, which
    /// the model reads. If another owner has run it anyway, its late result replaces the refusal.
    ///
    /// # Errors
    ///
    /// [`Invalid`](crate::ErrorKind::Invalid) if no call of this id waits for approval.
    pub fn refuse(&mut self, call_id: &str, why: &str) -> Result<()> {
        let (place, call) = self.unapproved("refuse", call_id)?;
        let mut refusal = self.state.refusal(place, &call, why);
        if self.excess_of(&Message::Tool(refusal.clone()), Some(place)).is_some() {
            refusal = self.state.refusal(place, &call, "It was refused.");
        }
        self.state.close(place, refusal);
        Ok(())
    }

    fn unapproved(&mut self, operation: &'static str, call_id: &str) -> Result<(usize, ToolCall)> {
        let call = self.open_call(call_id).ok();
        call.filter(|(place, _)| self.state.call_state(*place).is_unapproved()).ok_or_else(|| {
            Error::invalid(operation, format!("no call {call_id:?} waits for approval"))
        })
    }

    /// Notes that this owner is running a call. Until its result is given, the call may have run.
    pub(crate) fn begin(&mut self, call: &Call) -> Result<()> {
        let (place, _) = self.open_call(call.id())?;
        if !call.is_repeatable {
            self.state.set_call(place, CallState::Begun);
        }
        Ok(())
    }

    /// Takes the result of a call.
    ///
    /// The id is the one that was [handed out](super::Call::id), which is unique: if the model gave
    /// one id to several calls, that id names only the first of them.
    ///
    /// If the result is too large for the memory, the model gets an error that says so instead.
    ///
    /// # Errors
    ///
    /// [`Invalid`](crate::ErrorKind::Invalid) if no call of this id waits, or if it waits for an
    /// [approval](Self::approve), unless the result is an error.
    pub fn result(
        &mut self,
        call_id: &str,
        outcome: Result<impl Into<Content>, ToolError>,
    ) -> Result<()> {
        let (place, call) = self.open_call(call_id)?;
        let result = self.fitting(place, result_of(&call, outcome));
        self.state.result(place, result)
    }

    /// Takes the failure of a call: [`result`](Self::result) with a [`ToolError`] of this text.
    ///
    /// # Errors
    ///
    /// [`Invalid`](crate::ErrorKind::Invalid) if no call of this id waits.
    pub fn error(&mut self, call_id: &str, text: impl Into<String>) -> Result<()> {
        self.result(call_id, Err::<&str, _>(ToolError::new(text)))
    }

    /// Answers a call with this error because it was not run and never will be.
    pub(crate) fn not_run(&mut self, call_id: &str, text: &str) -> Result<()> {
        let (place, call) = self.open_call(call_id)?;
        self.state.not_run(place, &call, text);
        Ok(())
    }

    /// Reports that the outcome of a call is unknown, for this reason, which may be empty: the call
    /// may be done, or may still be under way. A [late result](ToolMessage::stand_in) replaces this
    /// answer.
    ///
    /// This is the answer to a call that [may have run](super::Call::may_have_run).
    ///
    /// # Errors
    ///
    /// [`Invalid`](crate::ErrorKind::Invalid) if no call of this id waits.
    pub fn outcome_unknown(&mut self, call_id: &str, why: &str) -> Result<()> {
        let (place, call) = self.open_call(call_id)?;
        let tag = self.state.call_tag(place);
        let unknown = outcome_unknown(&call, &tag, why);
        let is_too_large = self.excess_of(&Message::Tool(unknown.clone()), Some(place)).is_some();
        let unknown = if is_too_large { outcome_unknown(&call, &tag, "") } else { unknown };
        self.state.result(place, unknown)
    }

    /// Answers each call that was handed out and has no result: its outcome is unknown.
    pub(crate) fn all_unknown(&mut self, why: &str) -> Result<()> {
        let begun = self.state.open_in(CallState::is_handed_out).into_iter();
        let ids: Vec<_> = begun.map(|(_, call)| call.id.clone()).collect();
        ids.iter().try_for_each(|id| self.outcome_unknown(id, why))
    }

    /// Closes all calls except those that wait for a person; the turn goes on waiting for these.
    /// Returns false if there are none.
    pub(crate) fn close_all_but_waiting(&mut self) -> bool {
        let waits = !self.state.open_in(CallState::is_unapproved).is_empty();
        if waits {
            self.state.close_all(|it| !it.is_unapproved(), NOT_RUN);
        }
        waits
    }

    /// Adds a message of the user to the running turn. The model reads it at the next possible
    /// point: with the results of the calls that run, or instead of the end. If the turn is
    /// interrupted before that, or its rounds are used up, the message is stored with the turn, if
    /// the turn is stored at all.
    ///
    /// # Errors
    ///
    /// [`Invalid`](crate::ErrorKind::Invalid) if the turn has ended (ask again), if the message has
    /// a [reference](crate::message::MediaReference) instead of media, or if it is too large for
    /// the memory.
    pub fn steer(&mut self, content: impl Into<Content>) -> Result<()> {
        if self.is_over() {
            return Err(Error::invalid("steer", "the turn is over"));
        }
        let message = steering(content)?;
        if let Some(text) = self.excess_of(&message, None) {
            return Err(Error::invalid("steer", text));
        }
        self.state.steers.push(message);
        self.state.outdate();
        Ok(())
    }

    /// Ends the turn: the next step stores what is to be kept of it.
    pub fn interrupt(&mut self, keep: OnInterrupt) {
        if self.is_over() {
            return;
        }
        self.state.outdate();
        if keep == OnInterrupt::Forget && !self.state.may_have_acted() {
            self.state.doing = Doing::Forgetting;
        } else {
            self.state.end(Ended::Interrupted, NOT_RUN);
        }
    }

    /// Returns the open call of this id. If it was pending approval, others may have continued in
    /// the meantime.
    fn open_call(&mut self, call_id: &str) -> Result<(usize, ToolCall)> {
        let call = self.state.open_calls().into_iter().find(|(_, call)| call.id == call_id);
        let (place, call) = call.ok_or_else(|| {
            let text = format!("no call that was handed out as {call_id:?} waits for its result");
            Error::invalid("result", text)
        })?;
        if self.state.call_state(place).is_unapproved() {
            self.prompts.knows_others = false;
        }
        Ok((place, call))
    }

    /// Returns the ids of earlier calls whose results may come late, and of all calls of the turn.
    /// A search in the stored messages distinguishes calls by these ids.
    fn awaited_ids(&self) -> HashSet<String> {
        let own = &self.state.messages;
        let results = self.prompts.read_so_far().chain(own).filter_map(Message::as_tool);
        let stand_ins = results.filter(|it| it.is_stand_in()).map(|it| it.call_id().to_owned());
        stand_ins.chain(own.iter().flat_map(Message::tool_calls).map(|it| it.id.clone())).collect()
    }

    /// Returns the result, or an error instead if it can't be stored. A late result is longer, so
    /// its size counts.
    fn fitting(&mut self, place: usize, result: ToolMessage) -> ToolMessage {
        let late = result.clone().stand_in().with_call_tag(&self.state.call_tag(place));
        match self.excess_of(&Message::Tool(late), Some(place)) {
            None => result,
            Some(why) => ToolMessage::new(result.call_id(), result.tool_name(), not_stored(&why))
                .with_error(true),
        }
    }

    /// Returns why the memory can't take this message. An answer of the model counts with the
    /// closings of its calls; a message of the user, or the result of the call at this place,
    /// counts with the closings of the other open calls and an answer.
    fn excess_of(&mut self, message: &Message, place: Option<usize>) -> Option<String> {
        let refers = refers(message);
        if refers.is_some() || is_unbounded(&self.limits) {
            return refers;
        }
        let Self { state, prompts, limits, .. } = self;
        let is_answer = message.as_ai().is_some();
        let goes_on = is_answer && state.doing == Doing::Paused; // it takes the place of its half
        let kept = state.messages.len() - usize::from(goes_on);
        let (at, calls) = if is_answer {
            (kept, message.tool_calls().cloned().enumerate().collect())
        } else {
            (state.newest_calls().unwrap_or_default(), state.open_calls())
        };
        let others = calls.iter().filter(|it| Some(it.0) != place);
        let closings = others.map(|(place, call)| {
            size(&Message::Tool(outcome_unknown(call, &state.call_tag_at(at, *place), "")))
        });
        // The other messages of the turn count only if the size of a batch is limited.
        let is_limited = limits.batch < usize::MAX;
        let known = if is_limited { prompts.sizes(&state.messages) } else { &[] };
        let steers = state.steers.iter().filter(|_| is_limited).map(size);
        let known = known.iter().take(kept).copied().chain(steers);
        let room = if is_answer { 0 } else { room_for_answer(limits) };
        excess_in(limits, known.chain(closings).chain([size(message)]), room)
    }
}

/// Returns the message with which the user steers a turn.
pub(crate) fn steering(content: impl Into<Content>) -> Result<Message> {
    let message = Message::User(UserMessage::new(content).steered());
    if message.has_references() {
        return Err(Error::invalid("steer", "it has a reference in the place of media"));
    }
    Ok(message)
}

/// Returns the places of the calls that may be incomplete because the answer was cut: the last one,
/// and those that share its id. Incomplete arguments may look complete, and empty ones may look
/// like none.
fn cut_calls(answer: &AiMessage) -> Vec<usize> {
    let last = answer.tool_calls().last().map(|call| &call.id);
    let calls = answer.tool_calls().enumerate().filter(|(_, call)| Some(&call.id) == last);
    calls.map(|(place, _)| place).collect()
}

/// Returns the answer with a unique, unused id for each of its calls. Approvals and results name a
/// call by its id, and the model chooses the ids.
fn tell_apart(answer: AiMessage, mut taken: HashSet<String>) -> AiMessage {
    let mut free: HashSet<String> = answer.tool_calls().map(|call| call.id.clone()).collect();
    free.retain(|id| !taken.contains(id));
    taken.extend(free.iter().cloned());
    let told_apart = answer.with_calls(|call| {
        if free.remove(&call.id) {
            return None;
        }
        let base = if call.id.is_empty() { "call" } else { &call.id };
        let mut names = (2..).map(|n: u64| format!("{base}_{n}"));
        let id = names.find(|name| taken.insert(name.clone()))?;
        Some(ToolCall { id, ..call.clone() })
    });
    told_apart.unwrap_or(answer)
}

/// Returns the text for the model about a call of a tool that does not exist.
pub(crate) fn no_tool(name: &str) -> String {
    format!("There is no tool {name:?}.")
}
