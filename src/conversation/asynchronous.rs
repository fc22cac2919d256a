//! Conversations over async memories.

use std::future::{poll_fn, ready};
use std::sync::Arc;
use std::task::Poll;
use std::thread;
use std::time::Duration;

use serde::de::DeserializeOwned;

use super::gate::Gate;
use super::kind::MemoryKind;
use super::late::{Late, Pending};
use super::model::{Asking, AsyncModel, ModelError};
use super::observe::Span;
use super::tools::{self, Outcome, panicked, timed_out};
use super::{Approval, Conversation};
use crate::error::Result;
use crate::memory::{AsyncChatMemory, BoxFuture};
use crate::memory_prompt::MemoryPrompt;
use crate::message::Content;
use crate::tool::Tool;
use crate::turn::{Call, Reply, ToolError, Turn};

/// Runs a task to its end, even if no caller waits for it.
pub(super) type Spawn = dyn Fn(BoxFuture<'static, ()>) + Send + Sync;

/// Ends after this time.
pub(super) type Sleep = dyn Fn(Duration) -> BoxFuture<'static, ()> + Send + Sync;

impl MemoryKind for dyn AsyncChatMemory + '_ {
    type Model = dyn AsyncModel;
    type Coming<T> = BoxFuture<'static, T>;
    type Gate = Gate;

    fn come<T: Send + 'static>(value: T) -> BoxFuture<'static, T> {
        Box::pin(ready(value))
    }
}

/// The methods of a `Conversation` over a blocking memory, as async functions.
impl Conversation<dyn AsyncChatMemory> {
    /// Creates a conversation. If the prompt has no provider, it gets the
    /// [model's](AsyncModel::provider).
    pub fn new_async(
        prompt: MemoryPrompt<dyn AsyncChatMemory>,
        model: impl AsyncModel + 'static,
    ) -> Self {
        let (provider, name) = (model.provider(), model.name().map(str::to_owned));
        Self::over(prompt, Arc::new(model), provider, name)
    }

    /// Lets the model call this tool; `run` gets the parsed arguments.
    #[must_use]
    pub fn tool_async<T, R, A>(
        self,
        tool: Tool,
        run: impl Fn(T) -> A + Send + Sync + 'static,
    ) -> Self
    where
        T: DeserializeOwned,
        R: Into<Content>,
        A: Future<Output = Result<R, ToolError>> + Send + 'static,
    {
        self.tool_call(tool, move |call| {
            let running = call.parse().map(&run);
            async { running?.await.map(Into::<Content>::into) }
        })
    }

    /// Lets the model call this tool; `run` gets the whole call.
    #[must_use]
    pub fn tool_call<R, A>(
        self,
        tool: Tool,
        run: impl Fn(&Call) -> A + Send + Sync + 'static,
    ) -> Self
    where
        R: Into<Content>,
        A: Future<Output = Result<R, ToolError>> + Send + 'static,
    {
        let handler = move |call: &Call| -> BoxFuture<'static, Outcome> {
            let running = run(call);
            Box::pin(async { running.await.map(Into::into) })
        };
        self.with_handler(tool, Arc::new(handler))
    }

    /// Limits the time of each call by a sleep of the executor, such as `tokio::time::sleep`. By
    /// default there is no limit.
    ///
    /// The outcome of a future that took too long is unknown, and the model reads that. The future
    /// is dropped, unless it may [go on](Self::go_on_by).
    #[must_use]
    pub fn call_timeout_by<S>(
        mut self,
        timeout: Duration,
        sleep: impl Fn(Duration) -> S + Send + Sync + 'static,
    ) -> Self
    where
        S: Future<Output = ()> + Send + 'static,
    {
        self.settings.timeout = Some(timeout);
        self.settings.sleep = Some(Box::new(move |time| Box::pin(sleep(time))));
        self
    }

    /// Lets a call that took too long go on, as a task of the executor. When its result comes, even
    /// after the conversation was dropped, it is appended after the turn, and later prompts show it
    /// instead of the stand-in. While 32 such calls go on, no other call is run, and the model
    /// reads that. The result of a task that is dropped before its end is lost. So is one that
    /// comes while its turn waits for a person, if the conversation was dropped.
    ///
    /// ```
    /// # #[cfg(feature = "tokio")]
    /// # tokio::runtime::Builder::new_current_thread().enable_time().build().unwrap().block_on(async {
    /// use std::time::Duration;
    ///
    /// use memory_prompt::adapt::ToAsync;
    /// use memory_prompt::conversation::{Conversation, Scripted};
    /// use memory_prompt::{DefaultChatMemory, MemoryPrompt, Tool};
    /// use tokio::time::sleep;
    ///
    /// let model = Scripted::new().calls("pay", serde_json::json!({})).says("I don't know yet.");
    /// let prompt = MemoryPrompt::new_async(ToAsync::new(DefaultChatMemory::new()));
    /// let conversation = Conversation::new_async(prompt, model)
    ///     .call_timeout_by(Duration::from_millis(5), sleep)
    ///     .go_on_by(|task| drop(tokio::spawn(task)))
    ///     .tool_async(Tool::new("pay", "Pays."), |()| async {
    ///         sleep(Duration::from_millis(50)).await;
    ///         Ok("paid")
    ///     });
    /// conversation.say("Pay.").await?;
    /// assert_eq!(conversation.finish(Duration::from_secs(30)).await, 0);
    /// assert_eq!(conversation.prompt().preview().await?[2].text(), "paid"); // behind its call
    /// # Ok::<(), memory_prompt::Error>(())
    /// # })?;
    /// # Ok::<(), memory_prompt::Error>(())
    /// ```
    #[must_use]
    pub fn go_on_by(
        mut self,
        spawn: impl Fn(BoxFuture<'static, ()>) + Send + Sync + 'static,
    ) -> Self {
        self.settings.spawn = Some(Box::new(spawn));
        self
    }

    /// Limits the time of each call by tokio; a call that took too long [goes on](Self::go_on_by).
    #[cfg(feature = "tokio")]
    #[must_use]
    pub fn call_timeout(self, timeout: Duration) -> Self {
        self.call_timeout_by(timeout, tokio::time::sleep).go_on_by(|task| drop(tokio::spawn(task)))
    }

    /// Waits up to this long for the tools that [took too long](Self::go_on_by) and go on. Returns
    /// the number of results that are not stored by then, as `finish` of a conversation over a
    /// blocking memory does.
    pub async fn finish(&self, timeout: Duration) -> usize {
        let time = self.settings.sleep.as_ref().map(|sleep| sleep(timeout));
        self.late.wait_async(time).await;
        self.late.settle(true).await;
        self.late.count()
    }

    /// Asks this function about each call that [needs approval](Tool::needing_approval), instead of
    /// [`approve_by`](Self::approve_by).
    #[must_use]
    pub fn approve_by_async<A>(
        mut self,
        approver: impl Fn(&Call) -> A + Send + Sync + 'static,
    ) -> Self
    where
        A: Future<Output = Approval> + Send + 'static,
    {
        self.approver = Some(Box::new(move |call| Box::pin(approver(call))));
        self
    }

    pub(super) async fn ask(&self, asking: &Asking<'static>) -> Result<Reply, ModelError> {
        let reply = asking.unless_stopped(self.model.ask(asking.clone()));
        self.settings.watch.model(asking).run_async(Span::record_reply, reply).await
    }

    /// Asks for the approval of a call, until a stop comes.
    pub(super) async fn approval(&self, call: &Call, before: u64) -> Approval {
        let Some(approver) = &self.approver else { return Approval::Later };
        self.stops.unless(before, approver(call)).await.unwrap_or(Approval::Later)
    }

    /// Begins a call, which runs while it is awaited.
    pub(super) fn begin_call(&self, call: Call, handler: Arc<Handler>) -> Running<'_> {
        Box::pin(self.run_one(call, handler))
    }

    /// Awaits these calls. The turn takes each result as soon as it is there, so that a caller who
    /// drops this future and keeps the turn keeps these results.
    pub(super) async fn await_calls(
        &self,
        turn: &mut Turn,
        mut running: Vec<Running<'_>>,
    ) -> Result<()> {
        let mut taken = Ok(());
        poll_fn(|context| {
            running.retain_mut(|run| {
                let Poll::Ready(came) = run.as_mut().poll(context) else { return true };
                if let Err(error) = self.finish_call(turn, came) {
                    taken = Err(error);
                }
                false
            });
            if running.is_empty() { Poll::Ready(()) } else { Poll::Pending }
        })
        .await;
        taken
    }

    /// Runs a tool. If it takes too long, the error holds the running tool.
    async fn run_one(&self, call: Call, handler: Arc<Handler>) -> (Call, Result<Outcome, Slow>) {
        let span = self.settings.watch.tool(&call);
        let begun = tools::caught(|| handler(&call));
        let mut running: BoxFuture<'static, _> = Box::pin(async {
            let Ok(running) = begun else { return Err(panicked()) };
            caught(running).await.unwrap_or_else(|_| Err(panicked()))
        });
        let time = self.settings.timeout.zip(self.settings.sleep.as_ref());
        let mut time = time.map(|(timeout, sleep)| sleep(timeout));
        let outcome = poll_fn(|context| match (running.as_mut().poll(context), &mut time) {
            (Poll::Ready(outcome), _) => Poll::Ready(Ok(outcome)),
            (Poll::Pending, None) => Poll::Pending,
            (Poll::Pending, Some(time)) => time.as_mut().poll(context).map(Err),
        });
        let outcome = span.run_async(Span::record_timed, outcome).await;
        (call, outcome.map_err(|()| (running, span)))
    }

    /// Takes the outcome of a call; one that took too long goes on if it may.
    fn finish_call(
        &self,
        turn: &mut Turn,
        (call, outcome): (Call, Result<Outcome, Slow>),
    ) -> Result<()> {
        match outcome {
            Ok(outcome) => turn.result(call.id(), outcome),
            Err((running, span)) => {
                let why = timed_out(self.settings.timeout.unwrap_or_default());
                let told = turn.outcome_unknown(call.id(), &why);
                if let Some(spawn) = &self.settings.spawn {
                    let runs = RunsOn { late: Arc::clone(&self.late), comes: Arc::default() };
                    self.late.add(turn, self.prompt.memory(), (call, &runs.comes, span));
                    spawn(Box::pin(async move {
                        let outcome = running.await;
                        runs.comes.change(|it| *it = Some(outcome));
                        runs.late.wake_all();
                        runs.late.settle(false).await;
                    }));
                }
                told
            }
        }
    }
}

/// A tool that goes on as a task. Its executor may drop it before its end: then nothing comes.
struct RunsOn {
    late: Arc<Late<dyn AsyncChatMemory>>,
    comes: Arc<Pending>,
}

impl Drop for RunsOn {
    fn drop(&mut self) {
        if self.comes.lock().is_none() {
            self.late.give_up(&self.comes);
        }
    }
}

/// The tool of a call whose time was up, which still runs, and its span.
type Slow = (BoxFuture<'static, Outcome>, Span);

/// Catches a panic of a tool, the model, an approver or a listener.
pub(super) async fn caught<T>(work: impl Future<Output = T>) -> thread::Result<T> {
    let mut work = Box::pin(work);
    poll_fn(|context| match tools::caught(|| work.as_mut().poll(context)) {
        Ok(done) => done.map(Ok),
        Err(panic) => Poll::Ready(Err(panic)),
    })
    .await
}

type Handler = tools::Handler<BoxFuture<'static, Outcome>>;
type Running<'a> = BoxFuture<'a, (Call, Result<Outcome, Slow>)>;
