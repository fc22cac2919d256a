//! The differences between blocking and async conversations, and the run of blocking tools.

use std::any::Any;
use std::fmt;
use std::panic::{AssertUnwindSafe, catch_unwind};
use std::sync::Arc;
use std::sync::mpsc::{Receiver, RecvTimeoutError, channel};
use std::thread;
use std::time::{Duration, Instant};

use super::model::Model;
use super::observe::Span;
use crate::memory::{Append, ChatMemory};
use crate::message::{Content, Message, ToolMessage};
use crate::turn::{Call, ToolError};

/// The kind of a conversation: over a blocking memory or over an async one. There are no others.
pub trait Kind: sealed::Sealed {
    /// The type of its models.
    #[doc(hidden)]
    type Model: ?Sized;
    /// The type that runs a tool of it.
    #[doc(hidden)]
    type Handler: ?Sized;
    /// The lock that lets one turn run at a time.
    #[doc(hidden)]
    type Gate: Default;
    /// The calls that took too long, while their turns are not stored.
    #[doc(hidden)]
    type Late: Default;
}

mod sealed {
    pub trait Sealed {}
    impl Sealed for dyn crate::memory::ChatMemory + '_ {}
    #[cfg(feature = "async")]
    impl Sealed for dyn crate::memory::AsyncChatMemory + '_ {}
}

/// The outcome of a call.
pub(super) type Outcome = Result<Content, ToolError>;

impl Kind for dyn ChatMemory + '_ {
    type Model = dyn Model;
    type Handler = dyn Fn(&Call) -> Outcome + Send + Sync;
    type Gate = parking_lot::Mutex<()>;
    type Late = Late;
}

type Handler = <dyn ChatMemory as Kind>::Handler;

/// Runs a tool here and now. One that panics has failed.
pub(super) fn run(handler: &Handler, call: &Call) -> Outcome {
    catch_unwind(AssertUnwindSafe(|| handler(call))).unwrap_or_else(|panic| Err(panicked(&*panic)))
}

/// The error of a tool that panicked. Its words may be about anything, so they are not repeated.
pub(super) fn panicked(_: &dyn Any) -> ToolError {
    ToolError::new("the tool panicked")
}

/// A call that runs on a thread of its own.
pub(super) struct Running {
    pub(super) call: Call,
    outcome: Receiver<Outcome>,
    since: Instant,
    pub(super) span: Span,
}

impl Running {
    /// Begins it. Where the system has no thread for it, it has failed.
    pub(super) fn begin(call: Call, handler: Arc<Handler>, span: Span) -> Self {
        let (to, outcome) = channel();
        let job = {
            let (call, to, span) = (call.clone(), to.clone(), span.clone());
            move || {
                // Nobody may listen any more.
                let _ = to.send(span.call(|| run(&*handler, &call)));
            }
        };
        if let Err(error) = thread::Builder::new().name("tool".to_owned()).spawn(job) {
            let _ = to.send(Err(error.into()));
        }
        Self { call, outcome, since: Instant::now(), span }
    }

    /// Waits for what comes of it; `None` where the time is up.
    pub(super) fn wait(&self, timeout: Option<Duration>) -> Option<Outcome> {
        let outcome = match timeout {
            None => self.outcome.recv().map_err(|_| RecvTimeoutError::Disconnected),
            Some(timeout) => {
                self.outcome.recv_timeout(timeout.saturating_sub(self.since.elapsed()))
            }
        };
        match outcome {
            Ok(outcome) => Some(outcome),
            Err(RecvTimeoutError::Timeout) => None,
            Err(RecvTimeoutError::Disconnected) => Some(Err(ToolError::new("the tool ended"))),
        }
    }

    /// Returns true where one of these messages has made the call.
    pub(super) fn is_of(&self, messages: &[Message]) -> bool {
        let mut calls = messages.iter().flat_map(Message::tool_calls);
        calls.any(|it| it.id == self.call.id() && it.name == self.call.name())
    }

    /// Appends what comes of it when it comes, if the conversation is still there by then.
    pub(super) fn append_late(self, memory: Arc<dyn ChatMemory>) {
        let Ok(seen) = memory.read(None, 0) else { return };
        let wait = move || {
            let Ok(outcome) = self.outcome.recv() else { return };
            let (id, name) = (self.call.id(), self.call.name());
            let result = match outcome {
                Ok(content) => ToolMessage::new(id, name, content),
                Err(error) => ToolMessage::new(id, name, error.to_string()).with_error(true),
            };
            let mut append = Append::new([Message::Tool(result)]);
            if memory.limits().ids > 0 {
                append = append.since(&seen);
            }
            // Where this fails its outcome stays unknown, as the memory says.
            let _ = memory.append_with(&mut append);
        };
        // Without a thread for it the outcome stays unknown too.
        let _ = thread::Builder::new().name("late result".to_owned()).spawn(wait);
    }
}

/// The calls that took too long, of turns that are parked or may be run again, with the slots of
/// those: a result is stored behind its call or not at all.
#[derive(Default)]
pub struct Late(parking_lot::Mutex<Vec<(String, Running)>>);

/// So many are kept. Nobody says when a turn is given up.
const MOST_LATE: usize = 256;

impl Late {
    /// Keeps these; the oldest go where there are too many.
    pub(super) fn put(&self, slot: &str, late: Vec<Running>) {
        let mut kept = self.0.lock();
        kept.extend(late.into_iter().map(|running| (slot.to_owned(), running)));
        let too_many = kept.len().saturating_sub(MOST_LATE);
        kept.drain(..too_many);
    }

    /// Takes out those of the turn with this slot.
    pub(super) fn take(&self, slot: &str) -> Vec<Running> {
        let mut kept = self.0.lock();
        kept.extract_if(.., |(it, _)| it == slot).map(|(_, running)| running).collect()
    }
}

impl fmt::Debug for Late {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Late").finish_non_exhaustive()
    }
}

/// The text for the model about a call that took too long.
pub(super) fn timed_out(timeout: Duration) -> String {
    format!("It took longer than {timeout:?}.")
}
