//! Calls on threads of their own, and results that come late.

use std::collections::VecDeque;
use std::fmt;
use std::mem::{replace, take};
use std::sync::Arc;
use std::thread;
use std::time::{Duration, Instant};

use parking_lot::{Condvar, Mutex, MutexGuard};

use super::counts::{Counts, Open, RunsOn};
use super::observe::Span;
use super::tools::{Handler, Outcome, run};
use crate::error::{Error, ErrorKind, Result};
use crate::memory::{Append, ChatMemory};
use crate::message::{Message, ToolMessage};
use crate::record::{Incarnation, Snapshot};
use crate::turn::{Call, CallSearch, Done, Ended, Turn, Unwritten, WantedCall, excess, too_large};

/// A call that runs on a thread of its own, while somebody waits for it.
pub(super) struct Running {
    call: Call,
    shared: Arc<Shared>,
    since: Instant,
    span: Span,
}

/// A call whose time is up.
pub(super) struct Overdue {
    pub(super) call: Call,
    shared: Arc<Shared>,
    /// The call as it is looked for in the memory before its result is stored.
    wanted: WantedCall,
    open: Open,
}

struct Shared {
    state: Mutex<State>,
    changed: Condvar,
    left: Arc<Left>,
}

enum State {
    /// Somebody waits for it.
    Runs,
    /// Its time is up. Where its turn is stored, its thread appends what comes of it.
    RunsOn(RunsOn, Option<Box<(Place, Open)>>),
    Ended(Outcome),
    /// Somebody has taken what came of it.
    Taken,
}

/// The conversation in which the call of a late result is stored.
#[derive(Clone)]
struct Place {
    memory: Arc<dyn ChatMemory>,
    seen: Snapshot,
}

impl Running {
    /// Begins it. Where the system has no thread for it, it has failed.
    pub(super) fn begin(call: Call, handler: Arc<Handler>, span: Span, late: &Late) -> Self {
        let left = Arc::clone(&late.left);
        let (state, changed) = (Mutex::new(State::Runs), Condvar::new());
        let shared = Arc::new(Shared { state, changed, left });
        let job = {
            let (call, shared, span) = (call.clone(), Arc::clone(&shared), span.clone());
            move || {
                let outcome = span.run(Span::tell_outcome, || run(&*handler, &call));
                shared.ended(&call, outcome);
            }
        };
        if let Err(error) = thread::Builder::new().name("tool".to_owned()).spawn(job) {
            *shared.state.lock() = State::Ended(Err(error.into()));
        }
        Self { call, shared, since: Instant::now(), span }
    }

    /// Waits for what comes of it; `Err` where the time is up.
    pub(super) fn wait(self, timeout: Option<Duration>) -> Result<(Call, Outcome), Box<Overdue>> {
        let Self { call, shared, since, span } = self;
        let until = timeout.and_then(|timeout| since.checked_add(timeout));
        let mut state = shared.state.lock();
        let runs = |state: &mut State| matches!(state, State::Runs);
        match until {
            None => shared.changed.wait_while(&mut state, runs),
            Some(until) => _ = shared.changed.wait_while_until(&mut state, runs, until),
        }
        if let State::Ended(outcome) = replace(&mut *state, State::Taken) {
            return Ok((call, outcome));
        }
        span.timed_out();
        let open = shared.left.counts.open(span);
        *state = State::RunsOn(shared.left.counts.runs_on(), None);
        drop(state);
        let wanted = WantedCall::late(&call);
        Err(Box::new(Overdue { call, shared, wanted, open }))
    }
}

impl Overdue {
    /// One that came in time, of a turn that could not be stored.
    fn of(unwritten: Unwritten, left: &Arc<Left>) -> Self {
        let Unwritten { call, outcome, wanted } = unwritten;
        let open = left.counts.open(Span::current());
        let (state, left) = (Mutex::new(State::Ended(outcome)), Arc::clone(left));
        let shared = Arc::new(Shared { state, changed: Condvar::new(), left });
        Self { call, shared, wanted, open }
    }

    /// Returns true where its result is wanted behind these messages: one of them has made the
    /// call, and neither is its result among them, nor has anybody run it again.
    fn is_wanted(&self, messages: &[Message]) -> bool {
        let mut search = CallSearch::new(vec![self.wanted.clone()], 0);
        search.look_at(messages.iter());
        search.found().any(|(_, is_open)| is_open)
    }

    /// Appends what comes of it when it comes, if the conversation is still there by then.
    fn append(self, place: Place) {
        let Self { call, shared, open, .. } = self;
        let mut state = shared.state.lock();
        match replace(&mut *state, State::Taken) {
            State::RunsOn(on, _) => *state = State::RunsOn(on, Some(Box::new((place, open)))),
            State::Ended(outcome) => {
                drop(state);
                shared.left.append(place, &call, outcome, open);
            }
            State::Runs | State::Taken => {} // nobody else has it
        }
    }
}

impl Shared {
    /// Takes what came of the call, on its thread.
    fn ended(&self, call: &Call, outcome: Outcome) {
        let mut state = self.state.lock();
        match replace(&mut *state, State::Taken) {
            // Whoever waits for the tools that run on waits until it is appended.
            State::RunsOn(_on, Some(place)) => {
                drop(state);
                let (place, open) = *place;
                self.left.append(place, call, outcome, open);
            }
            _ => *state = State::Ended(outcome),
        }
        self.changed.notify_all();
    }
}

/// The results still to come of calls that took too long.
#[derive(Default)]
struct Left {
    counts: Arc<Counts>,
    /// The results that the memory has refused for now.
    refused: Mutex<VecDeque<Refused>>,
}

type Refused = (Arc<dyn ChatMemory>, Append, Open);

impl Left {
    fn append(&self, place: Place, call: &Call, outcome: Outcome, open: Open) {
        let Place { memory, seen } = place;
        let error = |text: String| ToolMessage::new(call.id(), call.name(), text).with_error(true);
        let result = match outcome {
            Ok(content) => ToolMessage::new(call.id(), call.name(), content),
            Err(text) => error(text.to_string()),
        };
        let result = call.late(result);
        let result = match excess(&memory.limits(), [&result], 0) {
            None => result,
            Some(why) => call.late(error(too_large(&why))),
        };
        let mut append = Append::new([result]);
        if memory.limits().recognises_ids() {
            let own = || format!("late:{}", Incarnation::random());
            let id = call.late_id().unwrap_or_else(own);
            append = append.since(&seen).with_id(id);
        }
        self.send((memory, append, open));
    }

    /// Appends a result, or keeps it for another try. Of one that is not kept the outcome stays
    /// unknown, as the memory says.
    fn send(&self, (memory, mut append, open): Refused) {
        let Err(error) = memory.append_with(&mut append) else { return open.over() };
        if error.kind() == ErrorKind::Forgotten {
            open.gone();
        } else if may_be_sent_again(&error, &append) {
            let mut refused = self.refused.lock();
            refused.push_back((memory, append, open));
            let oldest = if refused.len() > MOST_KEPT { refused.pop_front() } else { None };
            drop(refused);
            drop(oldest); // and tells it
        }
    }

    fn send_again(&self) {
        let count = self.refused.lock().len();
        for _ in 0..count {
            let next = self.refused.lock().pop_front();
            if let Some(next) = next {
                self.send(next);
            }
        }
    }
}

fn may_be_sent_again(error: &Error, append: &Append) -> bool {
    match error.kind() {
        ErrorKind::Storage => true,
        ErrorKind::Unacknowledged => append.id.is_some(),
        _ => false,
    }
}

/// The calls that took too long, while it is not known where their results belong: a result is
/// stored behind its call or not at all.
#[derive(Default)]
pub struct Late {
    waiting: Mutex<VecDeque<Waiting>>,
    /// Held by whoever looks where they belong.
    settling: Mutex<()>,
    left: Arc<Left>,
}

/// The calls of one turn that took too long.
struct Waiting {
    slot: String,
    memory: Arc<dyn ChatMemory>,
    /// The position where the turn began.
    began_at: u64,
    until: Until,
    late: Vec<Overdue>,
}

/// The event for which the late results of a turn wait.
#[derive(Clone, Copy, PartialEq, Eq)]
enum Until {
    /// A moment in which the memory can be read: the turn is stored.
    Read,
    /// The end of the turn, which is in its slot, or is no more: whoever ends it removes that.
    Ended,
    /// The next run of the turn by its owner: it has no slot, so nobody else knows of it.
    RunAgain,
}

/// The most results that are kept for turns not yet stored, and the most for another try. Nobody
/// says when a turn is given up, so the oldest one is lost then, and that is told.
const MOST_KEPT: usize = 256;

/// The most tools that may run on; each has a thread. While there are so many, no call that could
/// run on is begun.
const MOST_RUNNING: usize = 32;

impl Waiting {
    fn new(turn: &Turn, memory: &Arc<dyn ChatMemory>, until: Until, late: Vec<Overdue>) -> Self {
        let (slot, began_at) = (turn.slot().to_owned(), turn.began_at());
        Self { slot, memory: Arc::clone(memory), began_at, until, late }
    }

    /// Appends the results whose calls are stored, and lets go of those whose calls are gone;
    /// `Some` where nobody can tell yet.
    fn settle(mut self) -> Option<Self> {
        match self.find() {
            Ok(true) => {}
            Ok(false) | Err(_) => return Some(self),
        }
        if self.late.is_empty() {
            return None;
        }
        // Where the rest can't be read now, that much is known.
        self.until = Until::Read;
        let Ok(seen) = self.memory.read(None, 0) else { return Some(self) };
        let place = Place { memory: self.memory, seen };
        self.late.into_iter().for_each(|overdue| overdue.append(place.clone()));
        None
    }

    /// Looks for the calls, and keeps those that are stored and open. Returns false where the turn
    /// has not ended.
    fn find(&mut self) -> Result<bool> {
        match self.until {
            Until::Read => return Ok(true),
            Until::RunAgain => return Ok(false),
            Until::Ended => {}
        }
        if self.memory.limits().has_slots() {
            let slots = self.memory.slots()?;
            if slots.iter().any(|(name, _)| *name == self.slot) {
                return Ok(false);
            }
        }
        let wanted = self.late.iter().map(|it| it.wanted.clone()).collect();
        let mut search = CallSearch::new(wanted, self.began_at);
        while let Some(page) = search.next() {
            search.take(&self.memory.read_with(&page)?);
        }
        for (overdue, found) in take(&mut self.late).into_iter().zip(search.found()) {
            match found {
                (_, true) => self.late.push(overdue),
                // Its result is there already.
                (true, false) => overdue.open.over(),
                (false, false) => overdue.open.gone(),
            }
        }
        Ok(true)
    }
}

impl Late {
    /// Takes the late results of a turn that has come to this.
    pub(super) fn end(
        &self,
        turn: &Turn,
        memory: &Arc<dyn ChatMemory>,
        mut late: Vec<Overdue>,
        done: &Done,
    ) {
        late.extend(self.take(turn.slot()));
        let until = match done.ended {
            Ended::Parked | Ended::Adopted => Until::Ended,
            _ => {
                let is_unwanted = |it: &mut Overdue| !it.is_wanted(&done.messages);
                late.extract_if(.., is_unwanted).for_each(|it| it.open.over());
                Until::Read
            }
        };
        self.put(Waiting::new(turn, memory, until, late));
        drop(self.settle());
    }

    /// Keeps the late results of a turn that has failed: until somebody has ended it, or until its
    /// owner runs it again. Where nobody can, those that came in time and are written nowhere are
    /// kept with them.
    pub(super) fn fail(
        &self,
        turn: &Turn,
        memory: &Arc<dyn ChatMemory>,
        mut late: Vec<Overdue>,
        may_run_again: bool,
    ) {
        if !may_run_again {
            late.extend(turn.unwritten().into_iter().map(|it| Overdue::of(it, &self.left)));
        }
        let until = if may_run_again && !turn.has_slot() { Until::RunAgain } else { Until::Ended };
        self.put(Waiting::new(turn, memory, until, late));
    }

    /// Keeps these; the oldest go where there are too many.
    fn put(&self, waiting: Waiting) {
        if waiting.late.is_empty() {
            return;
        }
        let mut kept = self.waiting.lock();
        kept.push_back(waiting);
        let mut results: usize = kept.iter().map(|it| it.late.len()).sum();
        let mut lost = Vec::new();
        while kept.len() > 1 && results > MOST_KEPT {
            let oldest = kept.pop_front();
            results -= oldest.as_ref().map_or(0, |it| it.late.len());
            lost.extend(oldest);
        }
        drop(kept); // and then what is lost is told
    }

    /// Takes out those of the turn with this slot.
    fn take(&self, slot: &str) -> Vec<Overdue> {
        let _settling = self.settling.lock();
        let mut kept = self.waiting.lock();
        let (own, others) = take(&mut *kept).into_iter().partition(|it| it.slot == slot);
        *kept = others;
        VecDeque::into_iter(own).flat_map(|it| it.late).collect()
    }

    /// Appends what can be, and tries once more what the memory has refused. While what is returned
    /// is held, nobody else does.
    fn settle(&self) -> MutexGuard<'_, ()> {
        let settling = self.settling.lock();
        self.left.send_again();
        let count = self.waiting.lock().len();
        for _ in 0..count {
            let next = self.waiting.lock().pop_front();
            if let Some(waits) = next.and_then(Waiting::settle) {
                self.put(waits);
            }
        }
        settling
    }

    /// Returns true where no other tool may be begun that could run on.
    pub(super) fn is_full(&self) -> bool {
        self.left.counts.running() >= MOST_RUNNING
    }

    /// Waits so long for the tools that run on, and returns the number of results that are not
    /// stored.
    pub(super) fn finish(&self, timeout: Duration) -> usize {
        self.left.counts.wait(timeout);
        let _settling = self.settle();
        self.left.counts.not_stored()
    }
}

impl fmt::Debug for Late {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Late").finish_non_exhaustive()
    }
}
