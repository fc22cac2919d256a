//! Conversations over blocking memories.

use std::panic::{AssertUnwindSafe, catch_unwind};
use std::sync::Arc;
use std::time::{Duration, Instant};

use super::model::{Asking, Model, ModelError};
use super::observe::Span;
use super::threads::Running;
use super::tools::{Handler, timed_out};
use super::{Conversation, Failed};
use crate::error::Result;
use crate::memory_prompt::MemoryPrompt;
use crate::message::Content;
use crate::tool::Tool;
use crate::turn::{Call, Done, Reply, ToolError, Turn};

impl Conversation {
    /// A conversation of this prompt with this model. A prompt that is for no provider is for the
    /// [model's](Model::provider).
    pub fn new(prompt: MemoryPrompt, model: impl Model + 'static) -> Self {
        let (provider, name) = (model.provider(), model.name().map(str::to_owned));
        Self::over(prompt, Arc::new(model), provider, name)
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
        self.late.wait(Instant::now().checked_add(timeout));
        self.late.settle()
    }

    pub(super) fn ask(&self, asking: &Asking<'_>) -> Result<Reply, ModelError> {
        self.settings.watch.model(asking).run(Span::tell_reply, || self.model.ask(asking))
    }

    /// Runs a call on this thread, or begins it on one of its own where it may be too slow for this
    /// one or runs with others.
    pub(super) fn begin_call(&self, call: Call, handler: Arc<Handler>) -> Running {
        let span = self.settings.watch.tool(&call);
        if self.settings.timeout.is_none() && !self.settings.is_parallel {
            return Running::here(call, &*handler, span);
        }
        Running::begin(call, handler, span, &self.late)
    }

    /// Waits for what comes of these calls.
    pub(super) fn await_calls(&self, turn: &mut Turn, running: Vec<Running>) -> Result<()> {
        running.into_iter().try_for_each(|running| self.await_call(turn, running))
    }

    /// Waits for what comes of a call; where the time is up it becomes a late one.
    fn await_call(&self, turn: &mut Turn, running: Running) -> Result<()> {
        let timeout = self.settings.timeout;
        if let Some(outcome) = running.wait(timeout) {
            return turn.result(running.call.id(), outcome);
        }
        let why = timed_out(timeout.unwrap_or_default());
        let told = turn.outcome_unknown(running.call.id(), &why);
        let Running { call, comes, span, .. } = running;
        span.timed_out();
        self.late.add(turn, self.prompt.memory(), (call, &comes, span));
        told
    }
}

/// Catches a panic of the model, or of whoever approves or listens.
pub(super) fn caught(work: impl FnOnce() -> Result<Done>) -> Result<Done, Failed> {
    match catch_unwind(AssertUnwindSafe(work)) {
        Ok(done) => done.map_err(Failed::Error),
        Err(panic) => Err(Failed::Panic(panic)),
    }
}
