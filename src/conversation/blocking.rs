//! Conversations over blocking memories.

use std::panic::{AssertUnwindSafe, catch_unwind};
use std::sync::Arc;
use std::sync::atomic::Ordering;
use std::time::Duration;

use parking_lot::{Mutex, MutexGuard};

use super::late::{Overdue, Running};
use super::model::{Asking, Heard, Model};
use super::observe::Span;
use super::tools::{Handler, run, timed_out};
use super::{AtOnce, Conversation, Failed, ToRun, busy_error, ended};
use crate::error::Result;
use crate::message::Content;
use crate::prompt::MemoryPrompt;
use crate::tool::Tool;
use crate::turn::{Call, Done, Ended, NOT_RUN, Next, ToolError, Turn};
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

    /// Asks the model, runs what it calls until it has answered, and stores the whole.
    ///
    /// A text is a question of the user; a [`Turn`] brings settings of its own.
    ///
    /// # Errors
    ///
    /// [`Model`](crate::ErrorKind::Model), or the model's own where that is an
    /// [`Error`](crate::Error): nothing is stored then, unless a tool has run that is not
    /// repeatable. [`Error::remains`](crate::Error::remains) says which.
    /// [`Busy`](crate::ErrorKind::Busy), if so [set](Self::at_once). And those of
    /// [`Turn::next`].
    pub fn say(&self, question: impl Into<Turn>) -> Result<Done> {
        self.stream(question, |_| {})
    }

    /// Does what [`say`](Self::say) does, and tells on the way what comes.
    ///
    /// ```
    /// use memory_prompt::conversation::{Conversation, Scripted};
    /// use memory_prompt::wire::Event;
    /// use memory_prompt::{DefaultChatMemory, MemoryPrompt};
    ///
    /// let prompt = MemoryPrompt::new(DefaultChatMemory::new());
    /// let conversation = Conversation::new(prompt, Scripted::new().says("In Norway."));
    /// let done = conversation.stream("Where is Oslo?", |event| match event {
    ///     Event::Text(piece) => print!("{piece}"),
    ///     Event::Call { name, .. } => println!("({name})"),
    ///     _ => {}
    /// })?;
    /// assert_eq!(done.text(), "In Norway.");
    /// # Ok::<(), memory_prompt::Error>(())
    /// ```
    ///
    /// # Errors
    ///
    /// As [`say`](Self::say).
    pub fn stream(
        &self,
        question: impl Into<Turn>,
        on_event: impl FnMut(Event) + Send,
    ) -> Result<Done> {
        let question = question.into();
        self.settings.watch.turn().run(Span::tell_turn, || {
            let _held = self.enter()?;
            let mut lent = self.begin(question);
            let mut late = Vec::new();
            match caught(|| self.drive(&mut lent.turn, on_event, &mut late)) {
                Ok(done) => {
                    self.late.end(&lent.turn, self.prompt.memory(), late, &done);
                    Ok(lent.spend(done))
                }
                Err(failed) => {
                    let was_over = lent.turn.is_over();
                    let next = lent.fail().next(&self.prompt);
                    let (turn, memory) = (&lent.turn, self.prompt.memory());
                    match &next {
                        Ok(Next::Done(done)) => self.late.end(turn, memory, late, done),
                        _ => self.late.fail(turn, memory, late, false),
                    }
                    ended(was_over, turn, next, failed)
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
            let mut late = Vec::new();
            let done = caught(|| self.drive(turn, on_event, &mut late));
            let memory = self.prompt.memory();
            match &done {
                Ok(done) => self.late.end(turn, memory, late, done),
                Err(_) => self.late.fail(turn, memory, late, true),
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

    fn enter(&self) -> Result<Option<MutexGuard<'_, ()>>> {
        match self.settings.at_once {
            AtOnce::Behind => Ok(None),
            AtOnce::Wait => Ok(Some(self.gate.lock())),
            AtOnce::Busy => self.gate.try_lock().map(Some).ok_or_else(busy_error),
        }
    }

    fn drive(
        &self,
        turn: &mut Turn,
        on_event: impl FnMut(Event) + Send,
        late: &mut Vec<Overdue>,
    ) -> Result<Done> {
        self.equip(turn);
        let heard: Arc<Mutex<Heard<'_>>> = Heard::by(on_event);
        let before = self.stops.load(Ordering::Relaxed);
        loop {
            self.stop(turn, before);
            match turn.next(&self.prompt)? {
                Next::Ask(ask) => {
                    let asking = Asking::new(ask, &heard, &self.stops, before);
                    if asking.is_stopped() {
                        continue;
                    }
                    let span = self.settings.watch.model(&asking);
                    let reply = span.run(Span::tell_reply, || self.model.ask(&asking));
                    self.asked(turn, &asking, reply)?;
                }
                Next::Call(calls) => match self.to_run(turn, calls, before)? {
                    ToRun::Parked => return Ok(turn.outcome(Ended::Parked)),
                    ToRun::Jobs(jobs) => self.call(turn, jobs, before, late)?,
                },
                Next::Done(done) => return Ok(done),
            }
        }
    }

    /// Runs these calls: on this thread, or on threads of their own where they may be too slow for
    /// this one or run at once.
    fn call(
        &self,
        turn: &mut Turn,
        jobs: Jobs,
        before: u64,
        late: &mut Vec<Overdue>,
    ) -> Result<()> {
        let (timeout, is_parallel) = (self.settings.timeout, self.settings.is_parallel);
        let mut all = Vec::new();
        for (place, (call, handler)) in jobs.into_iter().enumerate() {
            if self.is_stopped(before) {
                turn.refuse(call.id(), NOT_RUN)?;
                continue;
            }
            // Writes the result of the one before down, and looks whether this one is still to run.
            if place > 0 && !is_parallel && !turn.next(&self.prompt)?.still_calls(call.id()) {
                return Ok(());
            }
            let span = self.settings.watch.tool(&call);
            if timeout.is_none() && !is_parallel {
                turn.begin(&call);
                let outcome = span.run(Span::tell_outcome, || run(&*handler, &call));
                turn.result(call.id(), outcome)?;
                continue;
            }
            if timeout.is_some() && self.late.is_full() {
                turn.refuse(call.id(), TOO_MANY)?;
                continue;
            }
            turn.begin(&call);
            let running = Running::begin(call, handler, span, &self.late);
            if is_parallel {
                all.push(running);
            } else {
                take(turn, running, timeout, late)?;
            }
        }
        all.into_iter().try_for_each(|running| take(turn, running, timeout, late))
    }
}

/// The text for the model about a call while too many others go on.
const TOO_MANY: &str = "Not run: too many earlier calls took too long and still run.";

/// Catches a panic of the model, or of whoever approves or listens.
fn caught(work: impl FnOnce() -> Result<Done>) -> Result<Done, Failed> {
    match catch_unwind(AssertUnwindSafe(work)) {
        Ok(done) => done.map_err(Failed::Error),
        Err(panic) => Err(Failed::Panic(panic)),
    }
}

type Jobs = Vec<(Call, Arc<Handler>)>;

/// Waits for what comes of a call; where the time is up it becomes a late one.
fn take(
    turn: &mut Turn,
    running: Running,
    timeout: Option<Duration>,
    late: &mut Vec<Overdue>,
) -> Result<()> {
    match running.wait(timeout) {
        Ok((call, outcome)) => turn.result(call.id(), outcome),
        Err(overdue) => {
            let told = turn.unknown(overdue.call.id(), &timed_out(timeout.unwrap_or_default()));
            late.push(*overdue);
            told
        }
    }
}
