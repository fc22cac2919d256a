//! Calls on threads of their own, and results that come late.

use std::fmt;
use std::mem::{replace, take};
use std::sync::Arc;
use std::thread;
use std::time::{Duration, Instant};

use parking_lot::{Condvar, Mutex};

use super::observe::Span;
use super::tools::{Handler, Outcome, run};
use crate::error::{Error, ErrorKind, Result};
use crate::memory::{Append, ChatMemory};
use crate::message::{Message, ToolMessage};
use crate::record::{Incarnation, Snapshot};
use crate::turn::{Call, Done, Ended, Search, Turn, Wanted, excess, too_large};

/// A call that runs on a thread of its own.
pub(super) struct Running {
    pub(super) call: Call,
    shared: Arc<Shared>,
    since: Instant,
    pub(super) span: Span,
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
    RunsOn(Option<Place>),
    Ended(Outcome),
}

/// The conversation in which the call of a late result is stored.
#[derive(Clone)]
struct Place {
    memory: Arc<dyn ChatMemory>,
    seen: Snapshot,
    /// The slot of its turn.
    slot: Arc<str>,
}

impl Running {
    /// Begins it. Where the system has no thread for it, it has failed.
    pub(super) fn begin(call: Call, handler: Arc<Handler>, span: Span, late: &Late) -> Self {
        let left = Arc::clone(&late.left);
        let (state, changed) = (Mutex::new(State::Runs), Condvar::new());
        let shared = Arc::new(Shared { state, changed, left });
        let job = {
            let (call, shared, span) = (call.clone(), Arc::clone(&shared), span.clone());
            move || shared.ended(&call, span.call(|| run(&*handler, &call)))
        };
        if let Err(error) = thread::Builder::new().name("tool".to_owned()).spawn(job) {
            *shared.state.lock() = State::Ended(Err(error.into()));
        }
        Self { call, shared, since: Instant::now(), span }
    }

    /// Waits for what comes of it; `None` where the time is up.
    pub(super) fn wait(&self, timeout: Option<Duration>) -> Option<Outcome> {
        let until = timeout.and_then(|timeout| self.since.checked_add(timeout));
        let mut state = self.shared.state.lock();
        loop {
            match replace(&mut *state, State::RunsOn(None)) {
                State::Ended(outcome) => return Some(outcome),
                other => *state = other,
            }
            match until {
                None => self.shared.changed.wait(&mut state),
                Some(until) if Instant::now() < until => {
                    let _ = self.shared.changed.wait_until(&mut state, until);
                }
                Some(_) => {
                    *state = State::RunsOn(None);
                    self.shared.left.0.lock().running += 1;
                    return None;
                }
            }
        }
    }

    /// Returns true where its result is wanted behind these messages: one of them has made the
    /// call, and nobody has run it again.
    fn is_wanted(&self, messages: &[Message]) -> bool {
        let was_run_again = || messages.iter().any(|it| self.call.is_answered_by(it));
        messages.iter().any(|it| self.call.is_of(it))
            && !(self.call.is_repeatable() && was_run_again())
    }

    /// Appends what comes of it when it comes, if the conversation is still there by then.
    fn append_late(self, place: Place) {
        let mut state = self.shared.state.lock();
        match replace(&mut *state, State::RunsOn(None)) {
            State::Ended(outcome) => {
                drop(state);
                self.shared.left.append(place, &self.call, outcome);
            }
            _ => *state = State::RunsOn(Some(place)),
        }
    }
}

impl Shared {
    /// Takes what came of the call, on its thread.
    fn ended(&self, call: &Call, outcome: Outcome) {
        let mut state = self.state.lock();
        let was_late = match replace(&mut *state, State::RunsOn(None)) {
            State::RunsOn(Some(place)) => {
                drop(state);
                self.left.append(place, call, outcome);
                true
            }
            before => {
                *state = State::Ended(outcome);
                matches!(before, State::RunsOn(None))
            }
        };
        self.changed.notify_all();
        if was_late {
            self.left.0.lock().running -= 1;
            self.left.1.notify_all();
        }
    }
}

/// What is left to come of calls that took too long.
#[derive(Default)]
struct Left(Mutex<Counted>, Condvar);

#[derive(Default)]
struct Counted {
    /// The number of tools that run on.
    running: usize,
    /// The results that the memory has refused for now.
    refused: Vec<(Arc<dyn ChatMemory>, Append)>,
}

impl Left {
    fn append(&self, place: Place, call: &Call, outcome: Outcome) {
        let Place { memory, seen, slot } = place;
        let error = |text: String| ToolMessage::new(call.id(), call.name(), text).with_error(true);
        let result = match outcome {
            Ok(content) => ToolMessage::new(call.id(), call.name(), content),
            Err(text) => error(text.to_string()),
        };
        let result = Message::Tool(result);
        let result = match excess(&memory.limits(), [&result], 0) {
            None => result,
            Some(why) => Message::Tool(error(too_large(&why))),
        };
        let mut append = Append::new([result]);
        if memory.limits().ids > 0 {
            // Two who ran a repeatable call find at the same time that its result is wanted.
            let id = format!("late:{slot}:{}", call.id());
            let is_name = id.len() <= LONGEST_ID && !id.contains(char::is_control);
            let is_shared = call.is_repeatable() && is_name;
            let id = if is_shared { id } else { format!("late:{}", Incarnation::random()) };
            append = append.since(&seen).with_id(id);
        }
        self.send(memory, append);
    }

    /// Appends a result, or keeps it for another try.
    fn send(&self, memory: Arc<dyn ChatMemory>, mut append: Append) {
        let Err(error) = memory.append_with(&mut append) else { return };
        // Of one that is not kept the outcome stays unknown, as the memory says.
        if may_be_sent_again(&error, &append) {
            let refused = &mut self.0.lock().refused;
            refused.push((memory, append));
            let too_many = refused.len().saturating_sub(MOST_KEPT);
            refused.drain(..too_many);
        }
    }

    fn send_again(&self) {
        let refused = take(&mut self.0.lock().refused);
        for (memory, append) in refused {
            self.send(memory, append);
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
    waiting: Mutex<Vec<Waiting>>,
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
    late: Vec<Running>,
}

/// The thing for which the late results of a turn wait.
#[derive(Clone, Copy, PartialEq, Eq)]
enum Until {
    /// A moment in which the memory can be read: the turn is stored.
    Read,
    /// The end of the turn, which is in its slot, or is no more: whoever ends it removes that.
    Ended,
    /// Its owner, who may run it again, and has all that there is of it.
    RunAgain,
}

/// So many results are kept for turns that may be stored yet, and so many for another try. Nobody
/// says when a turn is given up.
const MOST_KEPT: usize = 256;

/// The longest id of an append, which holds no control characters either.
const LONGEST_ID: usize = 256;

/// While so many tools run on, no other one is begun that could: each has a thread.
const MOST_RUNNING: usize = 32;

impl Waiting {
    fn new(turn: &Turn, memory: &Arc<dyn ChatMemory>, until: Until, late: Vec<Running>) -> Self {
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
        let place = Place { memory: self.memory, seen, slot: self.slot.into() };
        self.late.into_iter().for_each(|running| running.append_late(place.clone()));
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
        let wanted = self.late.iter().map(|it| Wanted::late(&it.call)).collect();
        let mut search = Search::new(wanted, self.began_at);
        while let Some(page) = search.next() {
            search.take(&self.memory.read_with(&page)?);
        }
        let (open, gone): (Vec<_>, Vec<_>) =
            take(&mut self.late).into_iter().zip(search.are_open()).partition(|(_, open)| *open);
        for (running, _) in &gone {
            running.span.dropped();
        }
        self.late = open.into_iter().map(|(running, _)| running).collect();
        Ok(true)
    }
}

impl Late {
    /// Takes the late results of a turn that has come to this.
    pub(super) fn end(
        &self,
        turn: &Turn,
        memory: &Arc<dyn ChatMemory>,
        mut late: Vec<Running>,
        done: &Done,
    ) {
        late.extend(self.take(turn.slot()));
        let until = match done.ended {
            Ended::Parked | Ended::Adopted => Until::Ended,
            _ => {
                late.retain(|running| running.is_wanted(&done.messages));
                Until::Read
            }
        };
        self.put(Waiting::new(turn, memory, until, late));
        self.settle();
    }

    /// Keeps the late results of a turn that has failed: until somebody has ended it, or until its
    /// owner runs it again.
    pub(super) fn fail(
        &self,
        turn: &Turn,
        memory: &Arc<dyn ChatMemory>,
        late: Vec<Running>,
        may_run_again: bool,
    ) {
        let until = if may_run_again && !turn.has_slot() { Until::RunAgain } else { Until::Ended };
        self.put(Waiting::new(turn, memory, until, late));
    }

    /// Keeps these; the oldest go where there are too many.
    fn put(&self, waiting: Waiting) {
        if waiting.late.is_empty() {
            return;
        }
        let mut kept = self.waiting.lock();
        kept.push(waiting);
        let results = |kept: &[Waiting]| kept.iter().map(|it| it.late.len()).sum::<usize>();
        while kept.len() > 1 && results(&kept) > MOST_KEPT {
            kept.remove(0);
        }
    }

    /// Takes out those of the turn with this slot.
    fn take(&self, slot: &str) -> Vec<Running> {
        let _settling = self.settling.lock();
        let mut kept = self.waiting.lock();
        kept.extract_if(.., |it| it.slot == slot).flat_map(|it| it.late).collect()
    }

    /// Appends what can be, and tries once more what the memory has refused.
    fn settle(&self) {
        let _settling = self.settling.lock();
        self.left.send_again();
        let waiting = take(&mut *self.waiting.lock());
        waiting.into_iter().filter_map(Waiting::settle).for_each(|it| self.put(it));
    }

    /// Returns true where no other tool may be begun that could run on.
    pub(super) fn is_full(&self) -> bool {
        self.left.0.lock().running >= MOST_RUNNING
    }

    /// Waits so long for the tools that run on, and returns the number of results that are not
    /// stored.
    pub(super) fn finish(&self, timeout: Duration) -> usize {
        let until = Instant::now().checked_add(timeout);
        let mut counted = self.left.0.lock();
        while counted.running > 0 && until.is_none_or(|until| Instant::now() < until) {
            match until {
                None => self.left.1.wait(&mut counted),
                Some(until) => drop(self.left.1.wait_until(&mut counted, until)),
            }
        }
        drop(counted);
        self.settle();
        // Those of a turn that waits may run on too.
        let has_come = |it: &&Running| matches!(*it.shared.state.lock(), State::Ended(_));
        let waiting = self.waiting.lock();
        let waiting = waiting.iter().flat_map(|it| &it.late).filter(has_come).count();
        let counted = self.left.0.lock();
        counted.running + counted.refused.len() + waiting
    }
}

impl fmt::Debug for Late {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Late").finish_non_exhaustive()
    }
}
