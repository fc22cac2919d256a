//! The loop of a conversation, over either kind of memory.

use std::mem::take;
use std::sync::Arc;
use std::time::Duration;

use parking_lot::Mutex;

use super::live::{Follower, Live, Telling, place};
use super::model::{Asking, Heard};
use super::observe::Span;
use super::tools::caught;
use super::{
    Action, Approval, Begin, Conversation, KeptTurn, Steers, WhenBusy, bury, busy_error, ended,
    is_dead, settled, take_decision,
};
use crate::error::{Error, ErrorKind, Result};
use crate::history::{Branch, Page, Variant};
use crate::memory::{ChatMemory, MemoryId};
use crate::message::Content;
use crate::record::Incarnation;
use crate::turn::{Call, Decision, Done, Next, Turn, Unfinished, Waiting, excess, steering};
use crate::wire::Event;

/// The methods over a memory of one kind. Their code is written once: done at once over a blocking
/// memory, and awaited over an async one.
macro_rules! over {
    (
        $over:ty, [$($async:tt)*], [$($now:tt)*], $next:ident, $life:lifetime, [$($long:tt)*],
        $in_span:ident, [$($work:tt)*], $caught:path
    ) => {
        impl Conversation<$over> {
            /// Asks the model, runs the tools that it calls until it has answered, and stores the
            /// whole turn. If its future is dropped, only what a tool has done is stored.
            ///
            /// A text is a question of the user; a [`Turn`] has settings of its own. But only the
            /// tools of the conversation are run, not [those of the turn](Turn::tools).
            ///
            /// # Errors
            ///
            /// [`Model`](crate::ErrorKind::Model), or the model's own error if that is an
            /// [`Error`](crate::Error): nothing is stored then, unless a tool has run that is not
            /// repeatable. [`Error::remains`](crate::Error::remains) says which case it is.
            /// [`Busy`](crate::ErrorKind::Busy), if that is [set](Self::when_busy). And those of
            /// [`Turn::next`].
            pub $($async)* fn say(&self, question: impl Into<Turn>) -> Result<Done> {
                self.stream(question, |_| {})$($now)*
            }

            /// Does what [`say`](Self::say) does, and passes each event to `on_event` as it comes.
            ///
            /// ```
            /// use memory_prompt::conversation::{Conversation, Scripted};
            /// use memory_prompt::wire::Event;
            /// use memory_prompt::{DefaultChatMemory, MemoryPrompt};
            ///
            /// let prompt = MemoryPrompt::new(DefaultChatMemory::new());
            /// let conversation = Conversation::new(prompt, Scripted::new().says("In Norway."));
            /// let done = conversation.stream("Where is Oslo?", |event| match event {
            ///     Event::Text(piece) | Event::Refusal(piece) => print!("{piece}"),
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
            pub $($async)* fn stream(
                &self,
                question: impl Into<Turn>,
                on_event: impl FnMut(Event) + Send $($long)*,
            ) -> Result<Done> {
                let question = question.into();
                self.answer(Begin::Asked(Box::new(question)), on_event)$($now)*
            }

            /// Runs a turn and streams it to its followers. Call it on a thread or task of its own,
            /// so that a page that is closed loses no answer.
            ///
            /// # Errors
            ///
            /// As [`stream`](Self::stream). The followers of the turn get the error too.
            pub $($async)* fn tell(&self, telling: Telling) -> Result<Done> {
                let Telling { broadcast, turn } = telling;
                let done = self.stream(turn, broadcast.listener())$($now)*;
                broadcast.end(&done);
                done
            }

            /// Follows a turn of this conversation after the event of this id, whether it still
            /// runs here or is [stored](crate::MemoryPrompt::stored_turn). Without an id it follows
            /// the newest running turn from its beginning. If the turn says something else than
            /// what was seen, because another process said that and died, it also follows from the
            /// beginning: the first event is then a `question`. `None` if there is nothing to tell
            /// now: everything was seen, the turn failed, or no turn runs. `None` also while the
            /// turn runs in another process, waits for approval, or continues after an approval:
            /// once it is stored, the rest can be followed. So a page that has seen no end, or only
            /// that the turn was [parked](crate::turn::Ended::Parked), asks again.
            ///
            /// # Errors
            ///
            /// Those of the memory.
            pub $($async)* fn follow(
                &self,
                live: &Live,
                of: &MemoryId,
                last: Option<&str>,
            ) -> Result<Option<Follower>> {
                let running = live.running(of, last);
                let Some(last) = last.filter(|_| running.is_none()) else { return Ok(running) };
                let Some((turn, _)) = place(last) else { return Ok(None) };
                let stored = self.prompt.stored_turn(turn)$($now)*?;
                Ok(stored.and_then(|it| Follower::of_stored(of, turn, last, &it)))
            }

            /// Adds a message of the user to the running turn of this value, or to the newest one
            /// if several run. A service that makes a value for each request keeps it while its
            /// turn runs: another value over the same memory knows nothing of that turn.
            ///
            /// The model reads the message with the results of the calls that run, or instead of
            /// ending the turn. If the turn ends in another way, the message is stored with it. The
            /// message is dropped if the turn has no room for it any more, or if nothing of the
            /// turn is stored.
            ///
            /// # Errors
            ///
            /// [`Invalid`](crate::ErrorKind::Invalid) if none runs (ask a question), and as
            /// [`Turn::steer`].
            pub fn steer(&self, content: impl Into<Content>) -> Result<()> {
                let content = content.into();
                let message = steering(content.clone())?;
                if let Some(text) = excess(&self.prompt.memory().limits(), [&message], 0) {
                    return Err(Error::invalid("steer", text));
                }
                for runs in self.late.running().iter().rev() {
                    if let Some(open) = &mut *runs.steers.0.lock() {
                        open.push(content);
                        return Ok(());
                    }
                }
                Err(Error::invalid("steer", "no turn runs"))
            }

            /// Returns the calls of this conversation that wait for approval, in all its turns:
            /// show these to a person. The [inbox](crate::turn::Inbox) has those of many
            /// conversations.
            ///
            /// # Errors
            ///
            /// As `unfinished` of [`MemoryPrompt`](crate::MemoryPrompt).
            pub $($async)* fn waiting(&self) -> Result<Vec<Waiting>> {
                self.prompt.waiting()$($now)*
            }

            /// Approves a call that waits, and goes on with its turn. This works from any process
            /// and at any time, with the [`Waiting`] that the person was shown. If further calls of
            /// the turn wait, it is [parked](crate::turn::Ended::Parked) again.
            ///
            /// ```
            /// use memory_prompt::conversation::{Conversation, Scripted};
            /// use memory_prompt::{DefaultChatMemory, ErrorKind, MemoryPrompt, Tool};
            ///
            /// let model = Scripted::new().calls("pay", serde_json::json!({})).says("It is paid.");
            /// let conversation = Conversation::new(MemoryPrompt::new(DefaultChatMemory::new()), model)
            ///     .tool(Tool::new("pay", "Pays.").needing_approval(), |()| Ok("paid"));
            /// let parked = conversation.say("Pay.")?;
            /// let waiting = &parked.waiting()[0]; // or conversation.waiting()?, after a restart
            /// assert_eq!(conversation.approve(waiting)?.text(), "It is paid.");
            ///
            /// let late = conversation.refuse(waiting, "The user said no.").unwrap_err();
            /// assert!(matches!(late.kind(), ErrorKind::Decided(_)));
            /// # Ok::<(), memory_prompt::Error>(())
            /// ```
            ///
            /// # Errors
            ///
            /// [`Invalid`](crate::ErrorKind::Invalid) if this conversation has no such tool;
            /// nothing is decided then. [`Decided`](crate::ErrorKind::Decided) if another decision
            /// came first; [`Busy`](crate::ErrorKind::Busy) while another call of the turn is run;
            /// [`Unacknowledged`](crate::ErrorKind::Unacknowledged) without
            /// [remains](crate::Error::remains) if the outcome of the decision is unknown: try
            /// again, and [`recover`](Self::recover) if it was made; and as [`say`](Self::say),
            /// after the decision was made.
            pub $($async)* fn approve(&self, waiting: &Waiting) -> Result<Done> {
                self.must_have(waiting)?;
                self.answer(Begin::Decided(waiting, Decision::Approve), |_| {})$($now)*
            }

            /// Refuses a call that waits, for this reason, and goes on with its turn: the model
            /// reads the reason.
            ///
            /// # Errors
            ///
            /// As [`approve`](Self::approve), except that the tool may be missing.
            pub $($async)* fn refuse(&self, waiting: &Waiting, why: &str) -> Result<Done> {
                self.answer(Begin::Decided(waiting, Decision::Refuse(why)), |_| {})$($now)*
            }

            /// Regenerates the answer to the newest question, on a branch of its own: see
            /// [`history`](crate::history). If that fails, or there is no answer, the former answer
            /// stays current. Redraw a page from the first of the [positions](Done::positions) on.
            ///
            /// To show the answer as it comes, [`stream`](Self::stream) the turn that
            /// `prompt().regenerate()` begins.
            ///
            /// # Errors
            ///
            /// [`Busy`](crate::ErrorKind::Busy) while a turn runs, unless the conversation
            /// [waits](super::WhenBusy::Wait); as `regenerate` of
            /// [`MemoryPrompt`](crate::MemoryPrompt); and as [`say`](Self::say).
            pub $($async)* fn regenerate(&self) -> Result<Done> {
                self.answer(Begin::Regenerate, |_| {})$($now)*
            }

            /// Asks something else instead of the message at this position, on a branch of its own:
            /// see [`history`](crate::history). If that fails, or there is no answer, the former
            /// message stays current. Redraw a page from the first of the
            /// [positions](Done::positions) on.
            ///
            /// To show the answer as it comes, [`stream`](Self::stream) the turn that
            /// `prompt().edit_turn(..)` begins.
            ///
            /// # Errors
            ///
            /// As [`regenerate`](Self::regenerate), and as `edit` of
            /// [`MemoryPrompt`](crate::MemoryPrompt).
            pub $($async)* fn edit(&self, position: u64, question: impl Into<Turn>) -> Result<Done> {
                let question = Box::new(question.into());
                self.answer(Begin::Edit(position, question), |_| {})$($now)*
            }

            /// Carries out an action of a page. An action that needs an answer returns the turn
            /// that brings it: [stream](Self::stream) it, and [find it
            /// again](crate::MemoryPrompt::stored_turn) by its id. Every other action is done at
            /// once: redraw the page. All but [`Action::Say`] need a prompt with
            /// [branches](crate::history). If the conversation [waits](super::WhenBusy::Wait),
            /// another question may begin before that turn: it stays on the branch that the turn
            /// leaves.
            ///
            /// ```
            /// use memory_prompt::conversation::{Action, Conversation, Scripted};
            /// use memory_prompt::{DefaultChatMemory, MemoryPrompt};
            ///
            /// let prompt = MemoryPrompt::new(DefaultChatMemory::new()).with_branches();
            /// let model = Scripted::new().says("In Sweden.").says("In Norway.");
            /// let chat = Conversation::new(prompt, model);
            /// for action in [r#"{"say": "Where is Oslo?"}"#, r#""regenerate""#] {
            ///     let action: Action = serde_json::from_str(action)?;
            ///     if let Some(turn) = chat.act(action)? {
            ///         chat.stream(turn, |event| println!("{event:?}"))?;
            ///     }
            /// }
            /// let answer = &chat.page(None, 1)?.entries[0];
            /// assert_eq!((answer.message.text(), answer.variant), ("In Norway.".into(), 2));
            /// assert!(chat.act(Action::Switch(answer.branches[0]))?.is_none());
            /// assert_eq!(chat.page(None, 1)?.entries[0].message.text(), "In Sweden.");
            /// # Ok::<(), Box<dyn std::error::Error>>(())
            /// ```
            ///
            /// # Errors
            ///
            /// [`Invalid`](crate::ErrorKind::Invalid) if the question is blank; that of the message
            /// that is edited, if it can't be read; as [`edit`](Self::edit) and
            /// [`regenerate`](Self::regenerate) before they ask the model; as [`undo`](Self::undo),
            /// and as [`switch`](Self::switch).
            pub $($async)* fn act(&self, action: Action) -> Result<Option<Turn>> {
                if matches!(&action, Action::Say(it) | Action::Edit(_, it) if it.trim().is_empty()) {
                    return Err(Error::invalid("act", "there is no question"));
                }
                // If the conversation waits, the turn before must end: the question is its own.
                let _held = match action {
                    Action::Edit(..) | Action::Regenerate => self.enter(true)$($now)*?,
                    _ => None,
                };
                match action {
                    Action::Say(text) => return Ok(Some(text.into())),
                    Action::Edit(at, text) => {
                        let question = self.prompt.view()?.reworded(at, text)$($now)*?;
                        return self.prompt.edit_turn(at, question)$($now)*.map(Some);
                    }
                    Action::Regenerate => return self.prompt.regenerate()$($now)*.map(Some),
                    Action::Switch(to) => self.switch(to)$($now)*?,
                    Action::Undo => self.undo()$($now)*?,
                    Action::Redo => self.redo()$($now)*?,
                };
                Ok(None)
            }

            /// Undoes the newest turn or change: see
            /// [`BranchView::undo`](crate::history::BranchView::undo).
            ///
            /// # Errors
            ///
            /// [`Busy`](crate::ErrorKind::Busy) while a turn runs, unless the conversation
            /// [waits](super::WhenBusy::Wait); and as [`undo`](crate::MemoryPrompt::undo) of the
            /// prompt.
            pub $($async)* fn undo(&self) -> Result<Option<u64>> {
                let _held = self.enter(true)$($now)*?;
                self.prompt.undo()$($now)*
            }

            /// Redoes what was undone last: see
            /// [`BranchView::redo`](crate::history::BranchView::redo).
            ///
            /// # Errors
            ///
            /// As [`undo`](Self::undo).
            pub $($async)* fn redo(&self) -> Result<Option<u64>> {
                let _held = self.enter(true)$($now)*?;
                self.prompt.redo()$($now)*
            }

            /// Makes the branch of a variant the current one: see
            /// [`BranchView::switch`](crate::history::BranchView::switch).
            ///
            /// # Errors
            ///
            /// As [`undo`](Self::undo).
            pub $($async)* fn switch(&self, to: impl Into<Incarnation> + Send) -> Result<Option<u64>> {
                let _held = self.enter(true)$($now)*?;
                self.prompt.switch(to)$($now)*
            }

            /// Returns the variants of the message at this position.
            ///
            /// # Errors
            ///
            /// Those of the memory, and [`ErrorKind::Invalid`](crate::ErrorKind::Invalid) for a
            /// prompt that is not built `with_branches`.
            pub $($async)* fn variants(&self, position: u64) -> Result<Vec<Variant>> {
                self.prompt.variants(position)$($now)*
            }

            /// Returns the branches on which something was said, oldest first.
            ///
            /// # Errors
            ///
            /// Those of the memory, and [`ErrorKind::Invalid`](crate::ErrorKind::Invalid) for a
            /// prompt that is not built `with_branches`.
            pub $($async)* fn branches(&self) -> Result<Vec<Branch>> {
                self.prompt.branches()$($now)*
            }

            /// Returns the newest `n` messages of the current branch before this position, or at
            /// its end, newest first: see [`BranchView::page`](crate::history::BranchView::page).
            ///
            /// # Errors
            ///
            /// Those of the memory, and [`ErrorKind::Invalid`](crate::ErrorKind::Invalid) for a
            /// prompt that is not built `with_branches`.
            pub $($async)* fn page(&self, before: Option<u64>, n: usize) -> Result<Page> {
                self.prompt.page(before, n)$($now)*
            }

            /// Ends the turns of this conversation whose processes have died, and returns how many.
            /// A turn counts as dead if its slot was not written for longer than `silent_for`; pass
            /// more time than a turn may take. What the dead turns have done is kept; the outcome
            /// of what they had begun is unknown. A turn that only waits for approval is left
            /// alone. One that had also begun a call is counted, and goes on waiting.
            ///
            /// # Errors
            ///
            /// Those of the memory, and [`Unsupported`](crate::ErrorKind::Unsupported) if a slot
            /// can't be read: the first one, after each of the other turns was tried. Some may have
            /// been ended then.
            pub $($async)* fn recover(&self, silent_for: Duration) -> Result<usize> {
                let (mut ended, mut failed) = (0, Ok(()));
                for listed in self.prompt.listed()$($now)*? {
                    let outcome = match listed {
                        Ok(turn) if is_dead(&turn, silent_for) => self.end_dead(&turn)$($now)*,
                        other => other.map(|_| false),
                    };
                    match outcome {
                        Ok(is_ended) => ended += usize::from(is_ended),
                        Err(error) => failed = failed.and(Err(error)),
                    }
                }
                failed.map(|()| ended)
            }

            /// Ends a turn of a dead process; returns false if another owner was faster.
            $($async)* fn end_dead(&self, dead: &Unfinished) -> Result<bool> {
                let turn = match self.prompt.adopt(dead)$($now)* {
                    Err(error) if error.kind() == ErrorKind::SlotConflict => return Ok(false),
                    adopted => adopted?,
                };
                bury(turn, dead)?.$next(&self.prompt)$($now)*.map(|_| true)
            }

            $($async)* fn answer(
                &self,
                begin: Begin<'_>,
                on_event: impl FnMut(Event) + Send $($long)*,
            ) -> Result<Done> {
                self.settings.watch.turn().$in_span(Span::record_turn, $($work)* {
                    let changes = matches!(begin, Begin::Regenerate | Begin::Edit(..));
                    let _held = self.enter(changes)$($now)*?;
                    let before = self.stops.count();
                    let is_decided = matches!(begin, Begin::Decided(..));
                    let turn = match begin {
                        Begin::Asked(turn) => *turn,
                        Begin::Regenerate => self.prompt.regenerate()$($now)*?,
                        Begin::Edit(at, turn) => self.prompt.edit_turn(at, *turn)$($now)*?,
                        Begin::Decided(waiting, how) => self.prompt.decide(waiting, how)$($now)*?,
                    };
                    let mut lent = self.begin(turn, is_decided);
                    let runs = self.late.begin(&lent.turn, false);
                    let done = $caught($($work)* {
                        self.drive(&mut lent.turn, &runs.steers, before, on_event)$($now)*
                    });
                    match done$($now)* {
                        Ok(Ok(done)) => {
                            self.late.end(&lent.turn, &runs, &done)$($now)*;
                            lent.lent.clear();
                            Ok(done)
                        }
                        failed => {
                            let was_over = lent.turn.is_over();
                            let failing = lent.fail(&runs.steers, is_decided);
                            let next = failing.$next(&self.prompt)$($now)*;
                            if let Ok(Next::Done(done)) = &next {
                                self.late.end(&lent.turn, &runs, done)$($now)*;
                            }
                            settled(failed)
                                .or_else(|error| ended(was_over, &lent.turn, next, error))
                        }
                    }
                })$($now)*
            }

            /// Goes on with a turn until it is done: one that was
            /// [adopted](crate::MemoryPrompt::adopt), or one that the caller wants to keep if this
            /// fails or its future is dropped. A turn that has not begun takes the
            /// [temporaries](Self::add_temporary) that wait, and keeps them.
            ///
            /// A tool that ran when the future was dropped was stopped halfway. Its outcome is
            /// unknown: the next run says so to the model and does not run the tool again, unless
            /// it is [repeatable](crate::Tool::repeatable).
            ///
            /// # Errors
            ///
            /// As [`say`](Self::say). The turn stays where it was, and can be run again; nothing of
            /// it is stored except its slot.
            pub $($async)* fn run(
                &self,
                turn: &mut Turn,
                on_event: impl FnMut(Event) + Send $($long)*,
            ) -> Result<Done> {
                self.settings.watch.turn().$in_span(Span::record_turn, $($work)* {
                    let _held = self.enter(false)$($now)*?;
                    let before = self.stops.count();
                    if turn.begins_in(self.prompt.memory().id()) {
                        turn.add_temporaries(self.take_temporaries());
                    }
                    let runs = self.late.begin(turn, true);
                    let kept = KeptTurn { turn, runs };
                    let (turn, runs) = (&mut *kept.turn, &*kept.runs);
                    let done = $caught($($work)* {
                        self.drive(turn, &runs.steers, before, on_event)$($now)*
                    });
                    let done = done$($now)*;
                    match &done {
                        Ok(Ok(done)) => self.late.end(turn, runs, done)$($now)*,
                        failed => {
                            // If the conversation is gone, nothing more of the turn can be stored.
                            let why = match failed { Ok(Err(it)) => Some(it.kind()), _ => None };
                            let may_go_on = why != Some(ErrorKind::Forgotten);
                            self.late.fail(turn, self.prompt.memory(), may_go_on);
                        }
                    }
                    settled(done)
                })$($now)*
            }

            /// Waits until it may begin, or fails, as the conversation is set. What is current
            /// changes only while no turn runs.
            $($async)* fn enter(&self, changes: bool) -> Result<Option<impl Sized>> {
                match self.settings.when_busy {
                    WhenBusy::Wait => Ok(Some(self.gate.lock()$($now)*)),
                    _ if changes && !self.late.running().is_empty() => Err(busy_error()),
                    WhenBusy::Proceed => Ok(None),
                    WhenBusy::Fail => self.gate.try_lock().map(Some).ok_or_else(busy_error),
                }
            }

            /// Goes on with a turn until it is done, or until it must wait for an approval.
            /// `before` is the number of stops before it began.
            $($async)* fn drive(
                &self,
                turn: &mut Turn,
                steers: &Steers,
                before: u64,
                on_event: impl FnMut(Event) + Send $($long)*,
            ) -> Result<Done> {
                if !self.tools.is_empty() {
                    turn.set_tools(Arc::clone(&self.tools));
                }
                let heard: Arc<Mutex<Heard<$life>>> = Heard::by(on_event);
                loop {
                    steers.then(turn, |turn| self.stop(turn, before));
                    match turn.$next(&self.prompt)$($now)*? {
                        Next::Ask(ask) => {
                            let asking = Asking::new(ask, &heard, &self.stops, before);
                            if asking.is_stopped() {
                                continue;
                            }
                            self.settings.on_prompt.iter().for_each(|show| show(asking.prompt()));
                            let reply = self.ask(&asking)$($now)*;
                            self.take_reply(turn, &asking, steers, reply)?;
                        }
                        Next::Call(calls) => {
                            let (waiting, ready): (Vec<_>, Vec<_>) =
                                calls.into_iter().partition(Call::needs_approval);
                            if !ready.is_empty() {
                                self.call(turn, ready, before)$($now)*?;
                            } else if self.ask_approval(turn, &waiting, before)$($now)*?
                                && steers.close()
                            {
                                return Ok(turn.park());
                            }
                        }
                        Next::Done(done) => return Ok(done),
                    }
                }
            }

            /// Runs these calls, one after the other or in parallel.
            $($async)* fn call(
                &self,
                turn: &mut Turn,
                calls: Vec<Call>,
                before: u64,
            ) -> Result<()> {
                let (mut running, mut has_run) = (Vec::new(), false);
                for call in calls {
                    let Some(job) = self.to_run(turn, &call, before)? else { continue };
                    // Writes the result of the call before, and checks whether this call is still
                    // to be run.
                    if has_run && !turn.$next(&self.prompt)$($now)*?.still_calls(call.id()) {
                        return Ok(());
                    }
                    turn.begin(&call)?;
                    running.push(self.begin_call(call, job));
                    if !self.settings.is_parallel {
                        self.await_calls(turn, take(&mut running))$($now)*?;
                        has_run = true;
                    }
                }
                self.await_calls(turn, running)$($now)*
            }

            /// Asks the approver; returns true if all decisions are left for later. After a stop
            /// the approver is not asked.
            $($async)* fn ask_approval(
                &self,
                turn: &mut Turn,
                waiting: &[Call],
                before: u64,
            ) -> Result<bool> {
                let mut is_parked = true;
                for call in waiting {
                    if self.is_stopped(before) {
                        return Ok(false);
                    }
                    let approval = self.approval(call, before)$($now)*;
                    // It may have been stopped while the approver was asked.
                    if approval == Approval::Later && self.is_stopped(before) {
                        return Ok(false);
                    }
                    is_parked &= take_decision(turn, call, approval)?;
                }
                Ok(is_parked)
            }
        }
    };
}

over!(
    dyn ChatMemory, [], [], next, '_, [],
    run, [||], caught
);
#[cfg(feature = "async")]
over!(
    dyn crate::memory::AsyncChatMemory, [async], [.await], next_async, 'static, [+ 'static],
    run_async, [async], super::asynchronous::caught
);
