//! Calls of async conversations that took too long, and go on as tasks.
//!
//! Each stands in one list from then on, whatever is dropped meanwhile, until its result is stored
//! or let go: looked for in the memory when its task ends, when its turn does, and at `finish`.

use std::fmt;
use std::sync::Arc;
use std::task::{Context, Poll, Waker};

use parking_lot::Mutex;

use super::super::gate::Gate;
use super::super::late::{MOST_KEPT, MOST_RUNNING, MOST_TRIES, may_pass, result};
use super::super::observe::Span;
use super::super::tools::Outcome;
use crate::error::{ErrorKind, Result};
use crate::memory::{AsyncChatMemory, BoxFuture, On};
use crate::message::Message;
use crate::record::Incarnation;
use crate::turn::{Call, Done, Ended, Lacks, LateCall, Stored, Turn, Unwritten};

/// A call whose result is to be stored.
struct Overdue {
    call: Call,
    late: LateCall,
    memory: Arc<dyn AsyncChatMemory>,
    /// Its turn: the life, the slot, and the position where it began.
    life: String,
    slot: String,
    began_at: u64,
    /// The branch on which its turn was begun.
    on: Option<On>,
    /// The id under which its result is appended.
    id: String,
    span: Span,
    state: Mutex<State>,
}

#[derive(Default)]
struct State {
    outcome: Option<Outcome>,
    /// True if the owner of its turn is to run that again: it has no slot, so nobody else knows
    /// of it.
    runs_again: bool,
    tries: u32,
}

impl Overdue {
    /// Looks for the call in the memory, and appends its result where that is lacking. Returns
    /// whether it is lost, and `None` if it is to be tried again.
    async fn settle(&self) -> Option<bool> {
        if self.state.lock().runs_again || self.is_unfinished().await {
            return None;
        }
        match self.appended().await {
            Ok(Lacks::Call) => {
                self.span.late_result_is_gone();
                Some(false)
            }
            Ok(Lacks::Nothing) => Some(false),
            Ok(Lacks::Result) => None,
            Err(error) if error.kind() == ErrorKind::Forgotten => None,
            Err(error) => {
                let mut state = self.state.lock();
                state.tries += 1;
                let is_lost = state.tries == MOST_TRIES || !may_pass(&error, &self.memory.limits());
                is_lost.then_some(true)
            }
        }
    }

    async fn is_unfinished(&self) -> bool {
        self.memory.limits().has_slots()
            && self.memory.slots().await.map_or(true, |all| all.iter().any(|it| it.0 == self.slot))
    }

    /// Returns what the memory lacks of it in the end: the result where its task has not ended.
    async fn appended(&self) -> Result<Lacks> {
        let mut stored = Stored::since(self.began_at, self.on);
        while let Some(page) = stored.next() {
            stored.add_page(&self.memory.read_with(&page).await?);
        }
        let lacks = stored.lacks(&self.late);
        let outcome = self.state.lock().outcome.clone();
        let (Lacks::Result, Some(outcome)) = (lacks, outcome) else { return Ok(lacks) };
        let limits = self.memory.limits();
        let result = result(&self.call, &outcome, &limits);
        let mut append = stored.append(&self.late, [result], self.id.clone());
        if !limits.recognises_ids() {
            (append.since, append.id) = (None, None);
        }
        self.memory.append_with(&mut append).await?;
        Ok(Lacks::Nothing)
    }
}

#[derive(Default)]
struct List {
    overdue: Vec<Arc<Overdue>>,
    /// The turns that somebody runs, by their lives, each with whether its owner keeps it.
    running: Vec<(String, bool)>,
    /// The results that were lost since somebody asked.
    lost: usize,
    /// Who waits for tasks to end.
    wakers: Vec<Waker>,
}

impl List {
    /// The number of tasks that go on.
    fn alive(&self) -> usize {
        self.overdue.iter().filter(|it| it.state.lock().outcome.is_none()).count()
    }
}

impl Drop for List {
    fn drop(&mut self) {
        self.overdue.iter().for_each(|it| it.span.late_result_is_lost());
    }
}

#[derive(Default)]
struct Shared {
    list: Mutex<List>,
    /// Held by whoever looks where results belong.
    settling: Gate,
}

impl Shared {
    /// Keeps this; the oldest go where there are too many.
    fn put(&self, overdue: Arc<Overdue>) {
        let mut list = self.list.lock();
        list.overdue.push(overdue);
        let too_many = list.overdue.len().saturating_sub(MOST_KEPT);
        list.lost += too_many;
        let oldest: Vec<_> = list.overdue.drain(..too_many).collect();
        drop(list); // before the loss is told
        for gone in oldest {
            gone.span.late_result_is_lost();
        }
    }

    async fn settle(&self) {
        let _settling = self.settling.enter().await;
        // What is settled leaves the list: to drop this anywhere loses nothing.
        let all = self.list.lock().overdue.clone();
        for overdue in all {
            if self.list.lock().running.iter().any(|it| it.0 == overdue.life) {
                continue;
            }
            let Some(is_lost) = overdue.settle().await else { continue };
            {
                let mut list = self.list.lock();
                list.overdue.retain(|it| !Arc::ptr_eq(it, &overdue));
                list.lost += usize::from(is_lost);
            }
            if is_lost {
                overdue.span.late_result_is_lost();
            }
        }
    }
}

/// The calls that took too long, of turns that are not stored yet or whose tasks go on.
#[derive(Default)]
pub struct Late(Arc<Shared>);

/// A turn that somebody runs: what is overdue of it waits until this is dropped.
pub(super) struct Runs<'a> {
    late: &'a Late,
    turn: (String, bool),
}

impl Drop for Runs<'_> {
    fn drop(&mut self) {
        let mut list = self.late.0.list.lock();
        if let Some(at) = list.running.iter().position(|it| *it == self.turn) {
            list.running.swap_remove(at);
        }
    }
}

impl Late {
    /// Says that somebody runs this turn, and whether its owner keeps it and may run it again.
    pub(super) fn runs(&self, turn: &Turn, is_kept: bool) -> Runs<'_> {
        let turn = (turn.life().to_owned(), is_kept);
        self.0.list.lock().running.push(turn.clone());
        Runs { late: self, turn }
    }

    /// Returns the task in which a call goes on that took too long.
    pub(super) fn go_on(
        &self,
        turn: &Turn,
        memory: &Arc<dyn AsyncChatMemory>,
        (call, running, span): (Call, BoxFuture<'static, Outcome>, Span),
    ) -> BoxFuture<'static, ()> {
        let is_kept = (turn.life().to_owned(), true);
        let is_kept = self.0.list.lock().running.contains(&is_kept);
        let runs_again = is_kept && !turn.has_slot();
        let (state, late) = (State { runs_again, ..State::default() }, LateCall::of(&call));
        let overdue = self.keep(turn, memory, (call, late, span), state);
        let shared = Arc::clone(&self.0);
        Box::pin(async move {
            let outcome = running.await;
            overdue.state.lock().outcome = Some(outcome);
            let wakers = std::mem::take(&mut shared.list.lock().wakers);
            wakers.into_iter().for_each(Waker::wake);
            shared.settle().await;
        })
    }

    fn keep(
        &self,
        turn: &Turn,
        memory: &Arc<dyn AsyncChatMemory>,
        (call, late, span): (Call, LateCall, Span),
        state: State,
    ) -> Arc<Overdue> {
        let (life, slot, began_at) = (turn.life().to_owned(), turn.slot(), turn.began_at());
        let memory = Arc::clone(memory);
        let (id, state) = (format!("late:{}", Incarnation::random()), Mutex::new(state));
        let on = turn.on();
        let overdue = Overdue { call, late, memory, life, slot, began_at, on, id, span, state };
        let overdue = Arc::new(overdue);
        self.0.put(Arc::clone(&overdue));
        overdue
    }

    /// Says of what is overdue of a turn whether its owner is to run that again.
    fn runs_again(&self, turn: &Turn, runs_again: bool) {
        let list = self.0.list.lock();
        let of_turn = list.overdue.iter().filter(|it| it.life == turn.life());
        of_turn.for_each(|it| it.state.lock().runs_again = runs_again);
    }

    /// Stores the late results of a turn that has come to this.
    pub(super) async fn end(&self, turn: &Turn, runs: Runs<'_>, done: &Done) {
        drop(runs);
        if !matches!(done.ended, Ended::Parked | Ended::Adopted) {
            let calls = || done.messages.iter().flat_map(Message::tool_calls);
            let is_there = |it: &Overdue| calls().any(|call| call.id == it.call.id());
            let mut list = self.0.list.lock();
            list.overdue.retain(|it| it.life != turn.life() || is_there(it));
        }
        self.runs_again(turn, false);
        self.0.settle().await;
    }

    /// Keeps the late results of a turn that has failed: until somebody has ended it, or until its
    /// owner runs it again. If nobody can, those that came in time and are written nowhere are
    /// kept with them.
    pub(super) fn fail(&self, turn: &Turn, memory: &Arc<dyn AsyncChatMemory>, is_kept: bool) {
        self.runs_again(turn, is_kept && !turn.has_slot());
        let unwritten = if is_kept { Vec::new() } else { turn.unwritten() };
        for Unwritten { call, outcome, late } in unwritten {
            let state = State { outcome: Some(outcome), ..State::default() };
            self.keep(turn, memory, (call, late, Span::current()), state);
        }
    }

    /// Returns true if no other tool may be begun that could go on.
    pub(super) fn is_full(&self) -> bool {
        self.0.list.lock().alive() >= MOST_RUNNING
    }

    /// Waits until no task goes on.
    pub(super) fn poll_ended(&self, context: &Context<'_>) -> Poll<()> {
        let mut list = self.0.list.lock();
        if list.alive() == 0 {
            return Poll::Ready(());
        }
        list.wakers.retain(|it| !it.will_wake(context.waker()));
        list.wakers.push(context.waker().clone());
        Poll::Pending
    }

    /// Stores what can be, and returns the number of results that are not stored. A lost result is
    /// in the next number that is returned, and in no later one.
    pub(super) async fn settle(&self) -> usize {
        self.0.settle().await;
        let mut list = self.0.list.lock();
        list.overdue.len() + std::mem::take(&mut list.lost)
    }
}

impl fmt::Debug for Late {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Late").finish_non_exhaustive()
    }
}
