//! Conversations over async memories.

use std::future::poll_fn;
use std::panic::{AssertUnwindSafe, catch_unwind};
use std::pin::Pin;
use std::sync::Arc;
use std::sync::atomic::Ordering;
use std::task::Poll;
use std::time::Duration;

use parking_lot::Mutex;
use serde::de::DeserializeOwned;

use super::gate::{Gate, Place};
use super::kind::Kind;
use super::model::{Asking, AsyncModel, Heard};
use super::observe::Span;
use super::tools::{Outcome, panicked, timed_out};
use super::{AtOnce, Conversation, Failed, ToRun, busy_error, ended};
use crate::error::Result;
use crate::memory::{AsyncChatMemory, BoxFuture};
use crate::message::Content;
use crate::prompt::MemoryPrompt;
use crate::tool::Tool;
use crate::turn::{Call, Done, Ended, NOT_RUN, Next, ToolError, Turn};
use crate::wire::Event;

/// Ends after some time.
pub(super) type Sleep = dyn Fn(Duration) -> BoxFuture<'static, ()> + Send + Sync;

impl Kind for dyn AsyncChatMemory + '_ {
    type Model = dyn AsyncModel;
    type Handler = dyn Fn(&Call) -> BoxFuture<'static, Outcome> + Send + Sync;
    type Gate = Gate;
    type Late = (); // a future that took too long is dropped

    fn handler(run: impl Fn(&Call) -> Outcome + Send + Sync + 'static) -> Arc<Handler> {
        Arc::new(move |call| {
            let outcome = run(call);
            Box::pin(async { outcome })
        })
    }
}

/// The methods of a `Conversation` over a blocking memory, as async functions.
impl Conversation<dyn AsyncChatMemory> {
    /// A conversation of this prompt with this model. A prompt that is for no provider is for the
    /// [model's](AsyncModel::provider).
    pub fn new_async(
        prompt: MemoryPrompt<dyn AsyncChatMemory>,
        model: impl AsyncModel + 'static,
    ) -> Self {
        let (provider, name) = (model.provider(), model.name().map(str::to_owned));
        Self::over(prompt, Arc::new(model), provider, name.as_deref())
    }

    /// Lets the model call this tool, which is handed what its arguments say.
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

    /// Lets the model call this tool, which is handed the whole call.
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

    /// Bounds the time of each call by a sleep of the executor: `tokio::time::sleep`, say. There is
    /// no bound unless set.
    ///
    /// A future that took too long is dropped. Nobody knows what came of it, and the model is told
    /// so.
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

    /// Asks the model, runs what it calls until it has answered, and stores the whole. To drop the
    /// future stops it: nothing is stored then but what a tool has done.
    ///
    /// # Errors
    ///
    /// As `say` over a blocking memory.
    pub async fn say(&self, question: impl Into<Turn>) -> Result<Done> {
        self.stream(question, |_| {}).await
    }

    /// Does what [`say`](Self::say) does, and tells on the way what comes.
    ///
    /// # Errors
    ///
    /// As [`say`](Self::say).
    pub async fn stream(
        &self,
        question: impl Into<Turn>,
        on_event: impl FnMut(Event) + Send + 'static,
    ) -> Result<Done> {
        let question = question.into();
        let work = async {
            let _held = self.enter().await?;
            let mut lent = self.begin(question);
            match caught(Box::pin(self.drive(&mut lent.turn, on_event))).await {
                Ok(done) => Ok(lent.spend(done)),
                Err(failed) => {
                    let was_over = lent.turn.is_over();
                    let next = lent.fail().next_async(&self.prompt).await;
                    ended(was_over, &lent.turn, next, failed)
                }
            }
        };
        self.settings.watch.turn().run_async(Span::tell_turn, work).await
    }

    /// Goes on with a turn until it is done: one that was [adopted](MemoryPrompt::adopt), or that
    /// the caller wants to keep where this fails or is dropped.
    ///
    /// A tool that ran when this was dropped was stopped halfway: nobody knows what came of it, and
    /// the next run tells the model so instead of running it again, unless it is
    /// [repeatable](Tool::repeatable).
    ///
    /// # Errors
    ///
    /// As [`say`](Self::say). The turn stays where it was, and can be run again.
    pub async fn run(
        &self,
        turn: &mut Turn,
        on_event: impl FnMut(Event) + Send + 'static,
    ) -> Result<Done> {
        let work = async {
            let _held = self.enter().await?;
            self.drive(turn, on_event).await
        };
        self.settings.watch.turn().run_async(Span::tell_turn, work).await
    }

    async fn enter(&self) -> Result<Option<Place<'_>>> {
        match self.settings.at_once {
            AtOnce::Behind => Ok(None),
            AtOnce::Wait => Ok(Some(self.gate.enter().await)),
            AtOnce::Busy => self.gate.try_enter().map(Some).ok_or_else(busy_error),
        }
    }

    async fn drive(
        &self,
        turn: &mut Turn,
        on_event: impl FnMut(Event) + Send + 'static,
    ) -> Result<Done> {
        self.equip(turn);
        let heard: Arc<Mutex<Heard<'static>>> = Heard::by(on_event);
        let before = self.stops.load(Ordering::Relaxed);
        loop {
            self.stop(turn, before);
            match turn.next_async(&self.prompt).await? {
                Next::Ask(ask) => {
                    let asking = Asking::new(ask, &heard, &self.stops, before);
                    if asking.is_stopped() {
                        continue;
                    }
                    let span = self.settings.watch.model(&asking);
                    let reply = self.model.ask(asking.clone());
                    let reply = span.run_async(Span::tell_reply, reply).await;
                    self.asked(turn, &asking, reply)?;
                }
                Next::Call(calls) => match self.to_run(turn, calls, before)? {
                    ToRun::Parked => return Ok(turn.outcome(Ended::Parked)),
                    ToRun::Jobs(jobs) => self.call(turn, jobs, before).await?,
                },
                Next::Done(done) => return Ok(done),
            }
        }
    }

    async fn call(&self, turn: &mut Turn, jobs: Jobs, before: u64) -> Result<()> {
        if self.settings.is_parallel {
            return self.call_at_once(turn, jobs).await;
        }
        for (place, (call, handler)) in jobs.into_iter().enumerate() {
            if self.is_stopped(before) {
                turn.refuse(call.id(), NOT_RUN)?;
                continue;
            }
            // Writes the result of the one before down, and looks whether this one is still to run.
            if place > 0 && !turn.next_async(&self.prompt).await?.still_calls(call.id()) {
                return Ok(());
            }
            turn.begin(&call);
            let (call, outcome) = self.run_one(call, handler).await;
            take(turn, &call, outcome)?;
        }
        Ok(())
    }

    /// Runs them at once. What comes of each is the turn's as soon as it is there: where this is
    /// dropped while others run, whoever keeps the turn keeps it.
    async fn call_at_once(&self, turn: &mut Turn, jobs: Jobs) -> Result<()> {
        for (call, _) in &jobs {
            turn.begin(call);
        }
        let runs = jobs.into_iter().map(|(call, handler)| Box::pin(self.run_one(call, handler)));
        let mut running: Vec<_> = runs.collect();
        let mut taken = Ok(());
        poll_fn(|context| {
            running.retain_mut(|run| {
                let Poll::Ready((call, outcome)) = run.as_mut().poll(context) else { return true };
                if let Err(error) = take(turn, &call, outcome) {
                    taken = Err(error);
                }
                false
            });
            if running.is_empty() { Poll::Ready(()) } else { Poll::Pending }
        })
        .await;
        taken
    }

    async fn run_one(&self, call: Call, handler: Arc<Handler>) -> (Call, Result<Outcome, String>) {
        let span = self.settings.watch.tool(&call);
        let outcome = self.run_handler(&call, &*handler);
        let outcome = span.run_async(Span::tell_timed, outcome).await;
        (call, outcome)
    }

    /// Runs a tool; `Err` with what the model is told where it took too long.
    async fn run_handler(&self, call: &Call, handler: &Handler) -> Result<Outcome, String> {
        let time = self.settings.timeout.zip(self.settings.sleep.as_ref());
        let mut time = time.map(|(timeout, sleep)| (timeout, sleep(timeout)));
        let begin = || catch_unwind(AssertUnwindSafe(|| handler(call)));
        let mut running = match begin() {
            Ok(running) => running,
            Err(panic) => return Ok(Err(panicked(&*panic))),
        };
        poll_fn(|context| {
            let poll = || running.as_mut().poll(context);
            match catch_unwind(AssertUnwindSafe(poll)) {
                Ok(Poll::Ready(outcome)) => return Poll::Ready(Ok(outcome)),
                Err(panic) => return Poll::Ready(Ok(Err(panicked(&*panic)))),
                Ok(Poll::Pending) => {}
            }
            let Some((timeout, sleep)) = &mut time else { return Poll::Pending };
            sleep.as_mut().poll(context).map(|()| Err(timed_out(*timeout)))
        })
        .await
    }
}

/// Catches a panic of the model, or of whoever approves or listens.
async fn caught<W>(mut work: Pin<Box<W>>) -> Result<Done, Failed>
where
    W: Future<Output = Result<Done>>,
{
    poll_fn(|context| match catch_unwind(AssertUnwindSafe(|| work.as_mut().poll(context))) {
        Ok(done) => done.map_err(Failed::Error),
        Err(panic) => Poll::Ready(Err(Failed::Panic(panic))),
    })
    .await
}

type Handler = <dyn AsyncChatMemory as Kind>::Handler;
type Jobs = Vec<(Call, Arc<Handler>)>;

fn take(turn: &mut Turn, call: &Call, outcome: Result<Outcome, String>) -> Result<()> {
    match outcome {
        Ok(outcome) => turn.result(call.id(), outcome),
        Err(why) => turn.unknown(call.id(), &why),
    }
}
