//! Calls on threads of their own, and results that come late.

use std::fmt;
use std::mem::{replace, take};
use std::sync::Arc;
use std::thread;
use std::time::{Duration, Instant};

use parking_lot::{Condvar, Mutex};

use super::observe::Span;
use super::tools::{Handler, Outcome, run};
use crate::error::{Error, ErrorKind};
use crate::memory::{Append, ChatMemory};
use crate::message::{Message, ToolMessage};
use crate::record::{Incarnation, Snapshot};
use crate::turn::Call;

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

    /// Returns true where one of these messages has made the call.
    pub(super) fn is_of(&self, messages: &[Message]) -> bool {
        let mut calls = messages.iter().flat_map(Message::tool_calls);
        calls.any(|it| it.id == self.call.id() && it.name == self.call.name())
    }

    /// Appends what comes of it when it comes, if the conversation is still there by then.
    pub(super) fn append_late(self, memory: Arc<dyn ChatMemory>) {
        // Where it can't be read its outcome stays unknown, as the memory says.
        let Ok(seen) = memory.read(None, 0) else { return };
        let place = Place { memory, seen };
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
        let Place { memory, seen } = place;
        let (id, name) = (call.id(), call.name());
        let result = match outcome {
            Ok(content) => ToolMessage::new(id, name, content),
            Err(error) => ToolMessage::new(id, name, error.to_string()).with_error(true),
        };
        let mut append = Append::new([Message::Tool(result)]);
        if memory.limits().ids > 0 {
            let id = Incarnation::random();
            append = append.since(&seen).with_id(format!("late:{id}"));
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

/// The calls that took too long, of turns that are parked or may be run again, with the slots of
/// those: a result is stored behind its call or not at all.
#[derive(Default)]
pub struct Late {
    waiting: Mutex<Vec<(String, Running)>>,
    left: Arc<Left>,
}

/// So many results are kept for turns that may be stored yet, and so many for another try. Nobody
/// says when a turn is given up.
const MOST_KEPT: usize = 256;

/// While so many tools run on, no other one is begun that could: each has a thread.
const MOST_RUNNING: usize = 32;

impl Late {
    /// Keeps these; the oldest go where there are too many.
    pub(super) fn put(&self, slot: &str, late: Vec<Running>) {
        let mut kept = self.waiting.lock();
        kept.extend(late.into_iter().map(|running| (slot.to_owned(), running)));
        let too_many = kept.len().saturating_sub(MOST_KEPT);
        kept.drain(..too_many);
    }

    /// Takes out those of the turn with this slot.
    pub(super) fn take(&self, slot: &str) -> Vec<Running> {
        let mut kept = self.waiting.lock();
        kept.extract_if(.., |(it, _)| it == slot).map(|(_, running)| running).collect()
    }

    /// Returns true where no other tool may be begun that could run on.
    pub(super) fn is_full(&self) -> bool {
        self.left.0.lock().running >= MOST_RUNNING
    }

    /// Tries once more what the memory has refused.
    pub(super) fn send_again(&self) {
        self.left.send_again();
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
        self.left.send_again();
        // Those of a turn that waits may run on too.
        let ended =
            |(_, it): &&(String, Running)| matches!(*it.shared.state.lock(), State::Ended(_));
        let waiting = self.waiting.lock().iter().filter(ended).count();
        let counted = self.left.0.lock();
        counted.running + counted.refused.len() + waiting
    }
}

impl fmt::Debug for Late {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Late").finish_non_exhaustive()
    }
}
