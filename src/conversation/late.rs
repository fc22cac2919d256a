//! Calls that took too long, and their late results.
//!
//! Each call stays in one list until its result is stored or dropped, even if something else is
//! dropped or panics in the meantime. The memory is searched once its tool and its turn have ended,
//! and in `finish`.

use std::mem::take;
use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::{Arc, Weak};
#[cfg(feature = "async")]
use std::task::Poll;
use std::time::Duration;

use super::Steers;
use super::kind::MemoryKind;
use super::observe::Span;
use super::tools::Outcome;
use super::watched::Watched;
use crate::error::{ErrorKind, Result};
#[cfg(feature = "async")]
use crate::memory::BoxFuture;
use crate::memory::{ChatMemory, Read};
use crate::message::Message;
use crate::record::Incarnation;
use crate::turn::{
    Call, Done, Ended, Lacks, LateCall, Stored, ToolError, Turn, excess, not_stored, turns_in,
};

/// The outcome of a tool that runs, once it is there.
pub(super) type Pending = Watched<Option<Outcome>>;

struct Overdue<M: ?Sized> {
    call: LateCall,
    comes: Arc<Pending>,
    memory: Arc<M>,
    /// Its turn: the life, the slot, and the search in the stored messages of the turn.
    life: String,
    slot: String,
    stored: Stored,
    id: String,
    span: Span,
    /// True if the owner of its turn is to run the turn again: the turn has no slot, so no other
    /// owner can find it.
    runs_again: AtomicBool,
}

struct List<M: ?Sized> {
    overdue: Vec<Arc<Overdue<M>>>,
    /// The tools that run on, including those of dropped calls.
    alive: Vec<Arc<Pending>>,
    /// The turns that run, and perhaps some that ran.
    running: Vec<Weak<Runs>>,
    /// The number of results lost since the last `finish`.
    lost: usize,
}

impl<M: ?Sized> List<M> {
    /// Returns the owners that run the turn of this life.
    fn runs(&self, life: &str) -> impl Iterator<Item = Arc<Runs>> {
        self.running.iter().filter_map(Weak::upgrade).filter(move |it| it.life == life)
    }

    /// The number of tools that run on.
    fn alive(&mut self) -> usize {
        self.alive.retain(|it| it.lock().is_none());
        self.alive.len()
    }

    /// Returns true if another result may come that is to be stored.
    fn goes_on(&mut self) -> bool {
        !self.overdue.is_empty() && self.alive() > 0
    }
}

impl<M: ?Sized> Drop for List<M> {
    fn drop(&mut self) {
        self.overdue.iter().for_each(|it| it.span.warn(LOST));
    }
}

/// The calls that took too long, of turns that are not stored yet or whose tools run on.
pub(super) struct Late<M: ?Sized + MemoryKind> {
    list: Watched<List<M>>,
    /// Held while the place of results is looked for.
    settling: M::Gate,
}

/// The most results that are kept. There is no event when a turn is given up, so a list that is
/// full loses one of its oldest results, and reports that.
const MOST_KEPT: usize = 256;

/// The most tools that may run on, each on a thread or as a task. At this number no call is begun
/// that could run on.
const MOST_RUNNING: usize = 32;

/// The text of the event for a result that is given up.
const LOST: &str = "a late result is lost: too many wait, the memory refuses it, its task was \
                    dropped, or the conversation was";

/// A turn that runs: its late results wait until it has ended or this is dropped.
pub(super) struct Runs {
    life: String,
    /// True if its owner keeps the turn and may run it again.
    is_kept: bool,
    /// The messages that the user adds to it.
    pub(super) steers: Steers,
}

impl<M: ?Sized + MemoryKind> Late<M> {
    /// Marks this turn as running; `is_kept` says whether its owner keeps it and may run it again.
    pub(super) fn begin(&self, turn: &Turn, is_kept: bool) -> Arc<Runs> {
        let (life, steers) = (turn.life().to_owned(), Steers::of(turn));
        let runs = Arc::new(Runs { life, is_kept, steers });
        let mut list = self.list.lock();
        list.running.retain(|it| it.strong_count() > 0);
        list.running.push(Arc::downgrade(&runs));
        runs
    }

    /// Returns the turns that run, the newest last.
    pub(super) fn running(&self) -> Vec<Arc<Runs>> {
        self.list.lock().running.iter().filter_map(Weak::upgrade).collect()
    }

    /// Wakes the waiters: a tool has ended, or a result is settled.
    pub(super) fn wake_all(&self) {
        self.list.wake_all();
    }

    /// Adds a call of this turn whose time is up.
    pub(super) fn add(
        &self,
        turn: &Turn,
        memory: &Arc<M>,
        (call, comes, span): (Call, &Arc<Pending>, Span),
    ) {
        let mut list = self.list.lock();
        list.alive.push(Arc::clone(comes));
        let runs_again = list.runs(turn.life()).any(|it| it.is_kept) && !turn.has_slot();
        drop(list);
        self.keep(turn, memory, (LateCall::of(&call), Arc::clone(comes), span), runs_again);
    }

    /// Adds a call to the list; the first ones are lost if there are too many.
    fn keep(
        &self,
        turn: &Turn,
        memory: &Arc<M>,
        (call, comes, span): (LateCall, Arc<Pending>, Span),
        runs_again: bool,
    ) {
        let overdue = Overdue {
            call,
            comes,
            memory: Arc::clone(memory),
            life: turn.life().to_owned(),
            slot: turn.slot(),
            stored: turn.stored(),
            id: format!("late:{}", Incarnation::random()),
            span,
            runs_again: AtomicBool::new(runs_again),
        };
        self.lose(|all| {
            all.push(Arc::new(overdue));
            let too_many = all.len().saturating_sub(MOST_KEPT);
            all.drain(..too_many).collect()
        });
    }

    /// Loses the result of a tool that was dropped before its end.
    #[cfg(feature = "async")]
    pub(super) fn give_up(&self, comes: &Arc<Pending>) {
        self.list.lock().alive.retain(|it| !Arc::ptr_eq(it, comes));
        self.lose(|all| all.extract_if(.., |it| Arc::ptr_eq(&it.comes, comes)).collect());
        self.wake_all();
    }

    /// Counts and reports the results that this takes from the list.
    fn lose(&self, take: impl FnOnce(&mut Vec<Arc<Overdue<M>>>) -> Vec<Arc<Overdue<M>>>) {
        let mut list = self.list.lock();
        let gone = take(&mut list.overdue);
        list.lost += gone.len();
        drop(list); // before the loss is reported
        for it in gone {
            it.span.warn(LOST);
        }
    }

    /// Notes for the results of a turn that are still to come whether its owner is to run it again.
    fn runs_again(&self, turn: &Turn, runs_again: bool) {
        let list = self.list.lock();
        let of_turn =
            list.overdue.iter().filter(|it| it.life == turn.life() && it.call.result.is_none());
        of_turn.for_each(|it| it.runs_again.store(runs_again, Ordering::Relaxed));
    }

    /// Drops the calls that are not in the outcome of their turn.
    fn let_go(&self, turn: &Turn, done: &Done) {
        if !matches!(done.ended, Ended::Parked | Ended::Adopted) {
            let calls = || done.messages.iter().flat_map(Message::tool_calls);
            let is_there = |it: &Overdue<M>| calls().any(|call| it.call.made.id == call.id);
            let mut list = self.list.lock();
            list.overdue.retain(|it| it.life != turn.life() || is_there(it));
        }
        self.runs_again(turn, false);
    }

    /// Keeps the late results of a failed turn until another owner has ended it, or until its owner
    /// runs it again. If the owner does not keep the turn, results that came in time and are
    /// written nowhere are kept with them.
    pub(super) fn fail(&self, turn: &Turn, memory: &Arc<M>, is_kept: bool) {
        self.runs_again(turn, is_kept && !turn.has_slot());
        let unwritten = if is_kept { Vec::new() } else { turn.unwritten() };
        for call in unwritten {
            let is_there = |it: &Arc<Overdue<M>>| it.life == turn.life() && it.call.tag == call.tag;
            if self.list.lock().overdue.iter().any(is_there) {
                continue; // the turn was run again
            }
            self.keep(turn, memory, (call, Arc::default(), Span::current()), false);
        }
    }

    /// Returns true if no other tool may be begun that could run on.
    pub(super) fn is_full(&self) -> bool {
        self.list.lock().alive() >= MOST_RUNNING
    }

    /// Returns the number of results that are not stored. A lost result is counted in the next
    /// number that is returned, and in no later one.
    pub(super) fn count(&self) -> usize {
        let mut list = self.list.lock();
        list.overdue.len() + take(&mut list.lost)
    }

    /// Waits up to this long, or until nothing more can come.
    pub(super) fn wait(&self, timeout: Duration) {
        drop(self.list.wait(timeout, List::goes_on));
    }

    /// Waits until this time has passed, if it ever does, or until nothing more can come.
    #[cfg(feature = "async")]
    pub(super) async fn wait_async(&self, mut time: Option<BoxFuture<'static, ()>>) {
        let watched = self.list.watch(|context| match &mut time {
            _ if !self.list.lock().goes_on() => Poll::Ready(()),
            Some(time) => time.as_mut().poll(context),
            None => Poll::Pending,
        });
        watched.await;
    }
}

/// Takes a call off the list, if it is still there.
fn taken<T>(all: &mut Vec<Arc<T>>, one: &Arc<T>) -> Vec<Arc<T>> {
    all.extract_if(.., |it| Arc::ptr_eq(it, one)).collect()
}

/// The methods over a memory of one kind. Their code is written once: done at once over a blocking
/// memory, and awaited over an async one.
macro_rules! over {
    ($over:ty, [$($async:tt)*], [$($now:tt)*]) => {
        impl Overdue<$over> {
            /// Looks for the call in the memory, and appends its result if that is missing. Returns
            /// whether the result is lost; `None` if it is to be tried again; an error if the
            /// memory does not answer.
            $($async)* fn settle(&self) -> Result<Option<bool>> {
                if self.is_unfinished()$($now)*? {
                    return Ok(None);
                }
                match self.appended()$($now)* {
                    Ok(Lacks::Call) if self.runs_again.load(Ordering::Relaxed) => Ok(None),
                    Ok(Lacks::Call) => {
                        self.span.warn("a late result is not stored: its call is not in the memory");
                        Ok(Some(false))
                    }
                    Ok(Lacks::Nothing) => Ok(Some(false)),
                    Ok(Lacks::Result) => Ok(None),
                    Err(error) => match error.kind() {
                        ErrorKind::Forgotten => Ok(None),
                        ErrorKind::Storage => Err(error),
                        ErrorKind::Unacknowledged if self.memory.limits().recognises_ids() => {
                            Err(error)
                        }
                        _ => Ok(Some(true)),
                    },
                }
            }

            /// Returns true while the turn has a slot, so that an owner still has to end it.
            $($async)* fn is_unfinished(&self) -> Result<bool> {
                if !self.memory.limits().has_slots() {
                    return Ok(false);
                }
                let slot = Read { n: 0, ..self.stored.page().slots([&self.slot]) };
                let seen = match self.memory.read_with(&slot)$($now)* {
                    Err(error) if error.kind() != ErrorKind::Storage => return Ok(true),
                    seen => seen?,
                };
                // A later request of its id has a slot of that name too.
                Ok(turns_in(&seen).any(|turn| turn.map_or(true, |it| it.life() == self.life)))
            }

            /// Appends the result if the memory lacks it, and returns what is still missing:
            /// `Result` if its tool has not ended.
            $($async)* fn appended(&self) -> Result<Lacks> {
                let mut stored = self.stored.clone();
                while let Some(mut page) = stored.next() {
                    page.references = self.call.result.is_none(); // else it is compared
                    stored.add_page(&self.memory.read_with(&page)$($now)*?);
                }
                let lacks = stored.lacks(&self.call);
                let came = || self.comes.lock().clone().map(|it| self.call.came(it));
                let result = self.call.message().or_else(came);
                let (Lacks::Result, Some(result)) = (lacks, result) else { return Ok(lacks) };
                let limits = self.memory.limits();
                let result = match excess(&limits, [&result], 0) {
                    Some(why) => self.call.came(Err(ToolError::new(not_stored(&why)))),
                    None => result,
                };
                let mut append = stored.append(&self.call, result, self.id.clone());
                if !limits.recognises_ids() {
                    (append.since, append.id) = (None, None);
                }
                self.memory.append_with(&mut append)$($now)*?;
                Ok(Lacks::Nothing)
            }
        }

        impl Late<$over> {
            /// Stores what is possible. If `searches_all`, it also drops the calls of running tools
            /// that are not in the memory, or whose results another owner has stored. A memory that
            /// fails twice in a row is not asked again: each time may take as long as it has.
            pub(super) $($async)* fn settle(&self, searches_all: bool) {
                let _settling = self.settling.lock()$($now)*;
                // A settled call leaves the list immediately, so an end anywhere in between loses
                // nothing.
                let all = self.list.lock().overdue.clone();
                let mut failed: Vec<Arc<$over>> = Vec::new();
                for overdue in all {
                    let Overdue { call, comes, memory, .. } = &*overdue;
                    let runs_on = call.result.is_none() && comes.lock().is_none();
                    let is_early = runs_on && !searches_all;
                    let is_silent = failed.iter().filter(|it| Arc::ptr_eq(it, memory)).count() > 1;
                    if is_early
                        || is_silent
                        || self.list.lock().runs(&overdue.life).next().is_some()
                    {
                        continue;
                    }
                    let settled = overdue.settle()$($now)*;
                    if settled.is_ok() {
                        failed.retain(|it| !Arc::ptr_eq(it, memory));
                    }
                    match settled {
                        Ok(None) => {}
                        Ok(Some(true)) => self.lose(|all| taken(all, &overdue)),
                        Ok(Some(false)) => drop(taken(&mut self.list.lock().overdue, &overdue)),
                        Err(_) => {
                            failed.push(Arc::clone(memory));
                            let mut list = self.list.lock();
                            // After the others, which it does not hold up the next time.
                            let own = taken(&mut list.overdue, &overdue);
                            list.overdue.extend(own);
                        }
                    }
                }
                self.wake_all();
            }

            /// Stores the late results of a turn that has ended like this.
            pub(super) $($async)* fn end(&self, turn: &Turn, runs: &Runs, done: &Done) {
                self.list.lock().running.retain(|it| !std::ptr::eq(it.as_ptr(), runs));
                self.let_go(turn, done);
                self.settle(false)$($now)*;
            }
        }
    };
}

over!(dyn ChatMemory, [], []);
#[cfg(feature = "async")]
over!(dyn crate::memory::AsyncChatMemory, [async], [.await]);

impl<M: ?Sized + MemoryKind> Default for Late<M> {
    fn default() -> Self {
        let (overdue, alive, running) = Default::default();
        let list = Watched::new(List { overdue, alive, running, lost: 0 });
        Self { list, settling: M::Gate::default() }
    }
}
