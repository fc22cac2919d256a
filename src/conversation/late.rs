//! Calls on threads of their own, and results that come late.
//!
//! A call whose time is up stands in one list until its turn is over and its tool has ended. Then
//! it is looked for in the memory, and its result is appended where it is lacking: when the tool
//! ends, when a turn does, and at `finish`.

use std::fmt;
use std::mem::take;
use std::sync::mpsc::{Receiver, RecvTimeoutError, SyncSender, TryRecvError, sync_channel};
use std::sync::{Arc, Weak};
use std::thread;
use std::time::{Duration, Instant};

use parking_lot::{Condvar, Mutex};

use super::observe::Span;
use super::tools::{Handler, Outcome, panicked, run};
use crate::error::{Error, ErrorKind, Result};
use crate::memory::{ChatMemory, Limits, On};
use crate::message::{Message, ToolMessage};
use crate::record::Incarnation;
use crate::turn::{Call, Done, Ended, Lacks, LateCall, Stored, Turn, Unwritten, excess, too_large};

/// A call that runs on a thread of its own.
pub(super) struct Running {
    pub(super) call: Call,
    outcome: Receiver<Outcome>,
    alive: Weak<Alive>,
    since: Instant,
    span: Span,
}

/// A thread that runs a tool.
struct Alive(Arc<Shared>);

impl Drop for Alive {
    fn drop(&mut self) {
        drop(self.0.list.lock()); // whoever is about to wait has looked
        self.0.changed.notify_all();
    }
}

impl Running {
    /// Begins it. If the system has no thread for it, it has failed.
    pub(super) fn begin(call: Call, handler: Arc<Handler>, span: Span, late: &Late) -> Self {
        let (to, outcome) = sync_channel(1);
        let shared = Arc::clone(&late.0);
        let alive = Arc::new(Alive(Arc::clone(&late.0)));
        let is_alive = Arc::downgrade(&alive);
        let job = {
            let (call, span, to) = (call.clone(), span.clone(), to.clone());
            move || {
                send(&to, span.run(Span::tell_outcome, || run(&*handler, &call)));
                shared.settle();
                drop(alive);
            }
        };
        if let Err(error) = thread::Builder::new().name("tool".to_owned()).spawn(job) {
            send(&to, Err(error.into()));
        }
        Self { call, outcome, alive: is_alive, since: Instant::now(), span }
    }

    /// Waits for what comes of it; `None` if the time is up.
    pub(super) fn wait(&self, timeout: Option<Duration>) -> Option<Outcome> {
        let left = timeout.map(|timeout| timeout.saturating_sub(self.since.elapsed()));
        let outcome = match left {
            None => self.outcome.recv().map_err(|_| RecvTimeoutError::Disconnected),
            Some(left) => self.outcome.recv_timeout(left),
        };
        match outcome {
            Ok(outcome) => Some(outcome),
            Err(RecvTimeoutError::Disconnected) => Some(Err(panicked(&()))),
            Err(RecvTimeoutError::Timeout) => None,
        }
    }
}

fn send(to: &SyncSender<Outcome>, outcome: Outcome) {
    let _ = to.try_send(outcome); // where nobody waits any more, nobody wants it
}

/// A call whose result is to be stored.
struct Overdue {
    call: Call,
    late: LateCall,
    comes: Receiver<Outcome>,
    outcome: Option<Outcome>,
    /// The id under which its result is appended.
    id: String,
    tries: u32,
    span: Span,
    /// Its turn: the life, the slot, and the position where it began.
    life: String,
    slot: String,
    began_at: u64,
    /// The branch on which its turn was begun.
    on: Option<On>,
    memory: Arc<dyn ChatMemory>,
    /// True while its owner runs the turn, or is to run it again and nobody else knows of it.
    waits: bool,
}

impl Overdue {
    /// Stores its result, where it is lacking in the memory; `Some` where it is to be tried again.
    ///
    /// # Errors
    ///
    /// That of the memory, where it is lost.
    fn settle(mut self) -> Result<Option<Self>> {
        let is_there = |slots: Vec<(String, _)>| slots.iter().any(|it| it.0 == self.slot);
        if self.memory.limits().has_slots() && self.memory.slots().map_or(true, is_there) {
            return Ok(Some(self)); // somebody has still to end the turn
        }
        match self.appended() {
            Ok(Lacks::Call) => self.span.late_result_is_gone(),
            Ok(Lacks::Nothing) => {}
            Ok(Lacks::Result) => return Ok(Some(self)),
            Err(error) if error.kind() == ErrorKind::Forgotten => return Ok(Some(self)),
            Err(error) => {
                self.tries += 1;
                let goes_on = may_pass(&error, &self.memory.limits()) && self.tries < MOST_TRIES;
                return if goes_on { Ok(Some(self)) } else { Err(error) };
            }
        }
        Ok(None)
    }

    /// Returns what the memory lacks of it in the end: the result where its tool has not ended.
    fn appended(&mut self) -> Result<Lacks> {
        let mut stored = Stored::since(self.began_at, self.on);
        while let Some(page) = stored.next() {
            stored.add_page(&self.memory.read_with(&page)?);
        }
        let lacks = stored.lacks(&self.late);
        if lacks != Lacks::Result {
            return Ok(lacks);
        }
        match self.comes.try_recv() {
            Ok(outcome) => self.outcome = Some(outcome),
            Err(TryRecvError::Disconnected) if self.outcome.is_none() => {
                self.outcome = Some(Err(panicked(&())));
            }
            Err(_) => {}
        }
        let Some(outcome) = &self.outcome else { return Ok(Lacks::Result) };
        let limits = self.memory.limits();
        let result = result(&self.call, outcome, &limits);
        let mut append = stored.append(&self.late, [result], self.id.clone());
        if !limits.recognises_ids() {
            (append.since, append.id) = (None, None);
        }
        self.memory.append_with(&mut append)?;
        Ok(Lacks::Nothing)
    }
}

/// Returns what a memory of these limits is given of what came of a call.
pub(super) fn result(call: &Call, outcome: &Outcome, limits: &Limits) -> Message {
    let (id, name) = (call.id(), call.name());
    let error = |text: String| ToolMessage::new(id, name, text).with_error(true);
    let result = match outcome {
        Ok(content) => ToolMessage::new(id, name, content.clone()),
        Err(text) => error(text.to_string()),
    };
    let result = call.late(result);
    match excess(limits, [&result], 0) {
        Some(why) => call.late(error(too_large(&why))),
        None => result,
    }
}

pub(super) fn may_pass(error: &Error, limits: &Limits) -> bool {
    match error.kind() {
        ErrorKind::Storage => true,
        ErrorKind::Unacknowledged => limits.recognises_ids(),
        _ => false,
    }
}

#[derive(Default)]
struct List {
    overdue: Vec<Overdue>,
    /// True while one of them is taken out, to be looked for.
    is_looking: bool,
    /// The threads of tools whose time was up.
    alive: Vec<Weak<Alive>>,
    /// The results that were lost since somebody asked.
    lost: usize,
}

impl List {
    /// The number of tools that run on.
    fn alive(&mut self) -> usize {
        self.alive.retain(|it| it.strong_count() > 0);
        self.alive.len()
    }

    /// The number of results that are neither stored nor let go.
    fn open(&self) -> usize {
        self.overdue.len() + usize::from(self.is_looking)
    }

    /// Keeps it; returns the span of the oldest one where there are too many.
    fn put(&mut self, overdue: Overdue) -> Option<Span> {
        self.overdue.push(overdue);
        let oldest = (self.overdue.len() > MOST_KEPT).then(|| self.overdue.remove(0).span);
        self.lost += usize::from(oldest.is_some());
        oldest
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
    changed: Condvar,
    /// Held by whoever looks where results belong.
    settling: Mutex<()>,
}

impl Shared {
    fn settle(&self) {
        let _settling = self.settling.lock();
        let mut left = self.list.lock().overdue.iter().filter(|it| !it.waits).count();
        while left > 0 {
            left -= 1;
            let mut list = self.list.lock();
            let Some(at) = list.overdue.iter().position(|it| !it.waits) else { break };
            let overdue = list.overdue.remove(at);
            list.is_looking = true;
            drop(list);
            // Where the memory panics it is lost.
            let mut looked =
                LookedFor { shared: self, again: None, lost: Some(overdue.span.clone()) };
            if let Ok(again) = overdue.settle() {
                (looked.again, looked.lost) = (again, None);
            }
        }
        self.changed.notify_all();
    }
}

/// A late result that was looked for: it goes back to the list, or is lost, or is over.
struct LookedFor<'a> {
    shared: &'a Shared,
    again: Option<Overdue>,
    lost: Option<Span>,
}

impl Drop for LookedFor<'_> {
    fn drop(&mut self) {
        let mut list = self.shared.list.lock();
        list.is_looking = false;
        list.lost += usize::from(self.lost.is_some());
        let oldest = self.again.take().and_then(|again| list.put(again));
        drop(list);
        self.lost.iter().chain(&oldest).for_each(Span::late_result_is_lost);
    }
}

/// The calls that took too long, of turns that are not stored yet or whose tools run on.
#[derive(Default)]
pub struct Late(Arc<Shared>);

/// The most results that are kept. Nobody says when a turn is given up, so the oldest one is lost
/// then, and that is told.
pub(super) const MOST_KEPT: usize = 256;

/// The most tools that may run on; each has a thread. While there are so many, no call that could
/// run on is begun.
pub(super) const MOST_RUNNING: usize = 32;

/// The number of times that a result is tried to be stored.
pub(super) const MOST_TRIES: u32 = 8;

impl Late {
    /// Takes a call of this turn whose time is up.
    pub(super) fn add(&self, turn: &Turn, memory: &Arc<dyn ChatMemory>, running: Running) {
        let Running { call, outcome: comes, alive, span, .. } = running;
        span.timed_out();
        self.0.list.lock().alive.push(alive);
        let late = LateCall::of(&call);
        self.put(turn, memory, (call, late, comes, span), true);
    }

    /// The turn has come to this: its late results are looked for.
    pub(super) fn end(&self, turn: &Turn, done: &Done) {
        let is_whole = !matches!(done.ended, Ended::Parked | Ended::Adopted);
        let calls = || done.messages.iter().flat_map(Message::tool_calls);
        self.0.list.lock().overdue.retain_mut(|it| {
            let is_own = it.life == turn.life();
            it.waits &= !is_own;
            // What is not in it has come to nothing.
            !is_own || !is_whole || calls().any(|call| call.id == it.call.id())
        });
        self.0.settle();
    }

    /// The turn has failed: its late results are kept until somebody has ended it, or until its
    /// owner runs it again. If nobody can, those that came in time and are written nowhere are
    /// kept with them.
    pub(super) fn fail(&self, turn: &Turn, memory: &Arc<dyn ChatMemory>, may_run_again: bool) {
        let waits = may_run_again && !turn.has_slot();
        let mut list = self.0.list.lock();
        list.overdue.iter_mut().filter(|it| it.life == turn.life()).for_each(|it| it.waits = waits);
        drop(list);
        let unwritten = if may_run_again { Vec::new() } else { turn.unwritten() };
        for Unwritten { call, outcome, late } in unwritten {
            let (to, comes) = sync_channel(1);
            send(&to, outcome);
            self.put(turn, memory, (call, late, comes, Span::current()), false);
        }
    }

    fn put(
        &self,
        turn: &Turn,
        memory: &Arc<dyn ChatMemory>,
        (call, late, comes, span): (Call, LateCall, Receiver<Outcome>, Span),
        waits: bool,
    ) {
        let overdue = Overdue {
            call,
            late,
            comes,
            outcome: None,
            id: format!("late:{}", Incarnation::random()),
            tries: 0,
            span,
            life: turn.life().to_owned(),
            slot: turn.slot(),
            began_at: turn.began_at(),
            on: turn.on(),
            memory: Arc::clone(memory),
            waits,
        };
        let lost = self.0.list.lock().put(overdue);
        lost.iter().for_each(Span::late_result_is_lost);
    }

    /// Returns true if no other tool may be begun that could run on.
    pub(super) fn is_full(&self) -> bool {
        self.0.list.lock().alive() >= MOST_RUNNING
    }

    /// Waits so long for the tools that run on, and returns the number of results that are not
    /// stored. A lost result is in the next number that is returned, and in no later one.
    pub(super) fn finish(&self, timeout: Duration) -> usize {
        let until = Instant::now().checked_add(timeout);
        let mut list = self.0.list.lock();
        let goes_on = |list: &mut List| list.alive() > 0 && list.open() > 0;
        match until {
            None => self.0.changed.wait_while(&mut list, goes_on),
            Some(until) => _ = self.0.changed.wait_while_until(&mut list, goes_on, until),
        }
        drop(list);
        self.0.settle();
        let mut list = self.0.list.lock();
        list.open() + take(&mut list.lost)
    }
}

impl fmt::Debug for Late {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Late").finish_non_exhaustive()
    }
}
