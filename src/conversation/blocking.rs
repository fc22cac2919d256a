//! Conversations over blocking memories.

use std::sync::Arc;
use std::time::Duration;

use super::model::{Asking, Model, ModelError};
use super::observe::Span;
use super::threads::Running;
use super::tools::{Handler, timed_out};
use super::{Approval, Conversation};
use crate::error::Result;
use crate::memory_prompt::MemoryPrompt;
use crate::message::Content;
use crate::tool::Tool;
use crate::turn::{Call, Reply, ToolError, Turn};

impl Conversation {
    /// Creates a conversation. If the prompt has no provider, it gets the
    /// [model's](Model::provider).
    pub fn new(prompt: MemoryPrompt, model: impl Model + 'static) -> Self {
        let (provider, name) = (model.provider(), model.name().map(str::to_owned));
        Self::over(prompt, Arc::new(model), provider, name)
    }

    /// Lets the model call this tool; `run` gets the whole call. Its [key](Call::key) is for a
    /// request that must not be made twice.
    #[must_use]
    pub fn tool_call<R: Into<Content>>(
        self,
        tool: Tool,
        run: impl Fn(&Call) -> Result<R, ToolError> + Send + Sync + 'static,
    ) -> Self {
        self.with_handler(tool, Arc::new(move |call: &Call| run(call).map(Into::into)))
    }

    /// Limits the time of each call; by default there is no limit.
    ///
    /// A closure can't be stopped, so it goes on, on its thread. The model reads that its outcome
    /// is unknown. When its result comes, it is appended after the turn, and later prompts show it
    /// instead of the stand-in. While 32 such calls go on, no other call is run, and the model
    /// reads that.
    ///
    /// A result that comes after the process has ended is lost, and the memory keeps its outcome as
    /// unknown: call [`finish`](Self::finish) before the end.
    #[must_use]
    pub fn call_timeout(mut self, timeout: Duration) -> Self {
        self.settings.timeout = Some(timeout);
        self
    }

    /// Waits up to this long for the tools that [took too long](Self::call_timeout) and go on.
    /// Returns the number of results that are not stored by then: of tools that still go on; of
    /// turns that still run, are parked, could not be stored or may be run again; and those that
    /// the memory refuses. Make it the last call before a process ends; it gives up none of these
    /// results.
    ///
    /// If more than 256 results wait for their turns, or for a memory that refuses them, one of the
    /// oldest is lost. A result that the memory refuses for good is lost too, and in async code
    /// that of a task that is dropped. A lost result is counted once, in the next number that this
    /// returns, and is an event (see [spans](super#spans)).
    ///
    /// It looks for turns that another owner has ended in the meantime, and stores their results. A
    /// result whose call is not in the memory is dropped and not counted: the conversation was
    /// cleared, or the turn was given up.
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
        self.late.wait(timeout);
        self.late.settle(true);
        self.late.count()
    }

    pub(super) fn ask(&self, asking: &Asking<'_>) -> Result<Reply, ModelError> {
        self.settings.watch.model(asking).run(Span::record_reply, || self.model.ask(asking))
    }

    /// Asks for the approval of a call.
    pub(super) fn approval(&self, call: &Call, _before: u64) -> Approval {
        self.approver.as_ref().map_or(Approval::Later, |approver| approver(call))
    }

    /// Runs a call on this thread; or begins it on its own thread if there is a time limit or if
    /// calls run in parallel.
    pub(super) fn begin_call(&self, call: Call, handler: Arc<Handler>) -> Running {
        let span = self.settings.watch.tool(&call);
        if self.settings.timeout.is_none() && !self.settings.is_parallel {
            return Running::here(call, &*handler, span);
        }
        Running::begin(call, handler, span, &self.late)
    }

    pub(super) fn await_calls(&self, turn: &mut Turn, running: Vec<Running>) -> Result<()> {
        running.into_iter().try_for_each(|running| self.await_call(turn, running))
    }

    /// Waits for the result of a call; if the time is up, it becomes a late one.
    fn await_call(&self, turn: &mut Turn, running: Running) -> Result<()> {
        let timeout = self.settings.timeout;
        if let Some(outcome) = running.wait(timeout) {
            return turn.result(running.call.id(), outcome);
        }
        let why = timed_out(timeout.unwrap_or_default());
        let told = turn.outcome_unknown(running.call.id(), &why);
        let Running { call, comes, span, .. } = running;
        span.failed("timeout");
        self.late.add(turn, self.prompt.memory(), (call, &comes, span));
        told
    }
}
