//! Conversations over blocking memories.

use std::panic::{AssertUnwindSafe, catch_unwind};
use std::sync::Arc;
use std::time::Duration;

use parking_lot::MutexGuard;

use super::late::Running;
use super::model::{Asking, Model, ModelError};
use super::observe::Span;
use super::tools::{Handler, TOO_MANY, run, timed_out};
use super::{Approval, Begin, Conversation, Failed, WhenBusy, busy_error, ended};
use crate::error::Result;
use crate::memory_prompt::MemoryPrompt;
use crate::message::Content;
use crate::tool::Tool;
use crate::turn::{Call, Done, NOT_RUN, Next, Reply, ToolError, Turn};
use crate::wire::Event;

impl Conversation {
    /// A conversation of this prompt with this model. A prompt that is for no provider is for the
    /// [model's](Model::provider).
    pub fn new(prompt: MemoryPrompt, model: impl Model + 'static) -> Self {
        let (provider, name) = (model.provider(), model.name().map(str::to_owned));
        Self::over(prompt, Arc::new(model), provider, name.as_deref())
    }

    /// Lets the model call this tool, which is handed the whole call: its id is a good one for a
    /// request that must not be made twice.
    #[must_use]
    pub fn tool_call<R: Into<Content>>(
        self,
        tool: Tool,
        run: impl Fn(&Call) -> Result<R, ToolError> + Send + Sync + 'static,
    ) -> Self {
        self.with_handler(tool, Arc::new(move |call: &Call| run(call).map(Into::into)))
    }

    /// Bounds the time of each call; there is no bound unless set.
    ///
    /// A closure can't be stopped, so it goes on, on its thread. The model is told that its outcome
    /// is not known, and its result, when it comes, is appended behind the turn: it takes that
    /// place in later prompts. While 32 of them go on, no other call is run, and the model is told
    /// so.
    ///
    /// A result that comes when the process is gone is lost, and its outcome stays unknown, as the
    /// memory says: [`finish`](Self::finish) waits before that.
    #[must_use]
    pub fn call_timeout(mut self, timeout: Duration) -> Self {
        self.settings.timeout = Some(timeout);
        self
    }

    pub(super) fn answer(
        &self,
        begin: Begin<'_>,
        on_event: impl FnMut(Event) + Send,
    ) -> Result<Done> {
        self.settings.watch.turn().run(Span::tell_turn, || {
            let _held = self.enter()?;
            let mut lent = self.lend(begin)?;
            match caught(|| self.drive(&mut lent.turn, on_event)) {
                Ok(done) => {
                    self.late.end(&lent.turn, &done);
                    Ok(lent.spend(done))
                }
                Err(failed) => {
                    let was_over = lent.turn.is_over();
                    let next = lent.fail().next(&self.prompt);
                    match &next {
                        Ok(Next::Done(done)) => self.late.end(&lent.turn, done),
                        _ => self.late.fail(&lent.turn, self.prompt.memory(), false),
                    }
                    ended(was_over, &lent.turn, next, failed)
                }
            }
        })
    }

    /// Goes on with a turn until it is done: one that was [adopted](MemoryPrompt::adopt), or that
    /// the caller wants to keep where this fails.
    ///
    /// # Errors
    ///
    /// As [`say`](Self::say). The turn stays where it was, and can be run again; nothing of it is
    /// stored but its slot.
    pub fn run(&self, turn: &mut Turn, on_event: impl FnMut(Event) + Send) -> Result<Done> {
        self.settings.watch.turn().run(Span::tell_turn, || {
            let _held = self.enter()?;
            let done = caught(|| self.drive(turn, on_event));
            match &done {
                Ok(done) => self.late.end(turn, done),
                Err(_) => self.late.fail(turn, self.prompt.memory(), true),
            }
            done.map_err(Failed::into_error)
        })
    }

    /// Waits so long for the tools that [took too long](Self::call_timeout) and go on, and returns
    /// the number of results that are not stored by then: of tools that still go on, of turns that
    /// still run, are parked, could not be stored or may be run again, and those that the memory
    /// refuses. Before a process ends it is the last thing to do; none of them is given up by it.
    ///
    /// Where more than 256 results wait for their turns, or for a memory that refuses them, the
    /// oldest one is lost; so is one that the memory refuses for good. It is counted once, in the
    /// next number that this returns, and is an event (see [spans](super#spans)).
    ///
    /// It looks for turns that others have ended meanwhile, and stores what belongs there. A result
    /// whose call is in the memory no more, or never was, is let go and not counted: its
    /// conversation was cleared, or its turn came to nothing.
    ///
    /// ```
    /// use std::time::Duration;
    ///
    /// use memory_prompt::conversation::{Conversation, Scripted};
    /// use memory_prompt::{ChatMemory, ChatMemoryExt, DefaultChatMemory, MemoryPrompt, Tool};
    ///
    /// let model = Scripted::new().calls("pay", serde_json::json!({})).says("I don't know yet.");
    /// let conversation = Conversation::new(MemoryPrompt::new(DefaultChatMemory::new()), model)
    ///     .call_timeout(Duration::from_millis(5))
    ///     .tool(Tool::new("pay", "Pays."), |()| {
    ///         std::thread::sleep(Duration::from_millis(50));
    ///         Ok("paid")
    ///     });
    /// conversation.say("Pay.")?;
    /// assert_eq!(conversation.finish(Duration::from_secs(30)), 0);
    /// let stored = conversation.prompt().memory().all()?;
    /// assert_eq!(stored.messages().last().unwrap().text(), "paid"); // behind the answer
    /// assert_eq!(conversation.prompt().preview()?[2].text(), "paid"); // behind its call
    /// # Ok::<(), memory_prompt::Error>(())
    /// ```
    pub fn finish(&self, timeout: Duration) -> usize {
        self.late.finish(timeout)
    }

    pub(super) fn enter(&self) -> Result<Option<MutexGuard<'_, ()>>> {
        match self.settings.when_busy {
            WhenBusy::Proceed => Ok(None),
            WhenBusy::Wait => Ok(Some(self.gate.lock())),
            WhenBusy::Fail => self.gate.try_lock().map(Some).ok_or_else(busy_error),
        }
    }

    pub(super) fn ask(&self, asking: &Asking<'_>) -> Result<Reply, ModelError> {
        self.settings.watch.model(asking).run(Span::tell_reply, || self.model.ask(asking))
    }

    /// Asks whoever approves.
    pub(super) fn approval(&self, call: &Call) -> Approval {
        self.settings.approver.as_ref().map_or(Approval::Later, |approver| approver(call))
    }

    /// Runs these calls: on this thread, or on threads of their own where they may be too slow for
    /// this one or run at once.
    pub(super) fn call(&self, turn: &mut Turn, jobs: Jobs, before: u64) -> Result<()> {
        let (timeout, is_parallel) = (self.settings.timeout, self.settings.is_parallel);
        let mut all = Vec::new();
        for (place, (call, handler)) in jobs.into_iter().enumerate() {
            if self.is_stopped(before) {
                turn.not_run(call.id(), NOT_RUN)?;
                continue;
            }
            // Writes the result of the one before down, and looks whether this one is still to run.
            if place > 0 && !is_parallel && !turn.next(&self.prompt)?.still_calls(call.id()) {
                return Ok(());
            }
            let span = self.settings.watch.tool(&call);
            if timeout.is_none() && !is_parallel {
                turn.begin(&call)?;
                let outcome = span.run(Span::tell_outcome, || run(&*handler, &call));
                turn.result(call.id(), outcome)?;
                continue;
            }
            if timeout.is_some() && self.late.is_full() {
                turn.not_run(call.id(), TOO_MANY)?;
                continue;
            }
            turn.begin(&call)?;
            let running = Running::begin(call, handler, span, &self.late);
            if is_parallel {
                all.push(running);
            } else {
                self.await_call(turn, running)?;
            }
        }
        all.into_iter().try_for_each(|running| self.await_call(turn, running))
    }

    /// Waits for what comes of a call; where the time is up it becomes a late one.
    fn await_call(&self, turn: &mut Turn, running: Running) -> Result<()> {
        let timeout = self.settings.timeout;
        if let Some(outcome) = running.wait(timeout) {
            return turn.result(running.call.id(), outcome);
        }
        let why = timed_out(timeout.unwrap_or_default());
        let told = turn.outcome_unknown(running.call.id(), &why);
        self.late.add(turn, self.prompt.memory(), running);
        told
    }
}

/// Catches a panic of the model, or of whoever approves or listens.
fn caught(work: impl FnOnce() -> Result<Done>) -> Result<Done, Failed> {
    match catch_unwind(AssertUnwindSafe(work)) {
        Ok(done) => done.map_err(Failed::Error),
        Err(panic) => Err(Failed::Panic(panic)),
    }
}

type Jobs = Vec<(Call, Arc<Handler>)>;
