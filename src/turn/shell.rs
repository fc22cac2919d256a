//! Turns over a memory: what does their reading and writing.

use std::time::SystemTime;

use super::decision::{Decision, came_of_stored, find, read};
use super::prompts::{recall, search};
use super::state::{PREFIX, slot_of};
use super::unfinished::{note_about, unfinished_in};
use super::{Next, Step, Turn, Unfinished, Waiting};
use crate::error::{Decided, ErrorKind, Result};
#[cfg(feature = "async")]
use crate::memory::AsyncChatMemory;
use crate::memory::{Append, Appended, ChatMemory, Expected, Read};
use crate::memory_prompt::MemoryPrompt;
use crate::record::Snapshot;

impl<M: ?Sized> MemoryPrompt<M> {
    /// Begins a turn with this question. The temporaries of the prompt go with it, and its tools,
    /// unless the turn is given some of its own; nothing is stored.
    pub fn turn(&mut self, question: impl Into<Turn>) -> Turn {
        question.into().temporaries(self.take_temporaries())
    }
}

/// The methods over a memory of one kind: what is written once is done at once over a blocking one,
/// and awaited over an async one.
macro_rules! over {
    ($over:ty, [$($async:tt)*], [$($now:tt)*], $next:ident, |$search:ident, $memory:ident| $run:expr) => {
        impl MemoryPrompt<$over> {
            /// Returns the turns of this conversation that were begun and have not ended, in no
            /// order of time. They may still run.
            ///
            /// # Errors
            ///
            /// Those of [`ChatMemory::slots`](crate::ChatMemory::slots), but for a memory without
            /// slots, which keeps no turns: there are none then.
            /// [`ErrorKind::Unsupported`](crate::ErrorKind::Unsupported) if one of them is of a
            /// later version of this crate, or can't be read: it names the slot and the version.
            pub $($async)* fn unfinished(&self) -> Result<Vec<Unfinished>> {
                if !self.memory().limits().has_slots() {
                    return Ok(Vec::new());
                }
                let names = names(self.memory().slots()$($now)*?);
                let snapshot = self.memory().read_with(&Read::newest(0).slots(names))$($now)*?;
                unfinished_in(&snapshot)
            }

            /// Takes a turn over from whoever began it: to go on with it, or to
            /// [end](Turn::interrupt) it. Its tools are to be set again. It goes on from the
            /// conversation as it was when the turn began: what was said since is behind it, and
            /// its model does not read it.
            ///
            /// Nothing here tells a turn that is dead from one that still runs: only whoever starts
            /// the processes knows that. If nobody does, adopt what waits for approval, and of
            /// the others those of conversations in which nothing was
            /// [appended](crate::store::Info::active) for longer than a turn may take.
            ///
            /// The one who had it can store nothing of it from now on but late results. Where the
            /// answer of the memory gets lost, [list](Self::unfinished) the turns again and adopt
            /// what is there.
            ///
            /// # Errors
            ///
            /// [`ErrorKind::SlotConflict`](crate::ErrorKind::SlotConflict) if it has gone on or
            /// ended meanwhile, or somebody was faster, who may have been you; and as
            /// [`ChatMemory::append_with`](crate::ChatMemory::append_with).
            pub $($async)* fn adopt(&self, unfinished: &Unfinished) -> Result<Turn> {
                let memory = self.memory();
                let names = names(memory.slots()$($now)*?);
                let read = Read::newest(0).slots(names).on(unfinished.on());
                let snapshot = memory.read_with(&read)$($now)*?;
                let note = note_about(&snapshot, &slot_of(unfinished.id()));
                let mut turn = unfinished.adopted(note, None)?;
                turn.set_limits(memory.limits());
                let mut take = adoption(&mut turn)?;
                turn.saved(&memory.append_with(&mut take)$($now)*?);
                Ok(turn)
            }

            /// Returns the calls of this conversation that wait for somebody's approval.
            ///
            /// # Errors
            ///
            /// As [`unfinished`](Self::unfinished).
            pub $($async)* fn waiting(&self) -> Result<Vec<Waiting>> {
                Ok(self.unfinished()$($now)*?.iter().flat_map(Unfinished::waiting).collect())
            }

            /// Takes the turn of this call over, with the decision on it: both at once, or neither.
            pub(crate) $($async)* fn decide(&self, waiting: &Waiting, decision: Decision<'_>) -> Result<Turn> {
                let memory = self.memory();
                let mut decided = Deciding::new(waiting, decision);
                loop {
                    let names = names(memory.slots()$($now)*?);
                    let snapshot = memory.read_with(&Read::newest(0).slots(names))$($now)*?;
                    let Some(mut take) = decided.adopt(&snapshot)? else { break };
                    let appended = memory.append_with(&mut take)$($now)*;
                    if let Some(mut turn) = decided.after_append(appended)? {
                        turn.set_limits(memory.limits());
                        return Ok(turn);
                    }
                }
                let how = match read(&memory.append_with(&mut find(waiting))$($now)*?) {
                    Some(read) => came_of_stored(waiting, &memory.read_with(&read)$($now)*?),
                    None => Decided::Gone,
                };
                Err(decision.is_decided(how))
            }
        }

        impl Turn {
            /// Does what the turn wants of the memory, and says what else it wants.
            ///
            /// If it fails it can be called again: nothing is lost, and nothing is stored twice,
            /// unless so many other appends with ids came between as the memory
            /// [recognises](crate::memory::Limits::ids). Over one that recognises none, an end of
            /// the turn that may be stored is not tried again: that stays an
            /// [`ErrorKind::Unacknowledged`](crate::ErrorKind::Unacknowledged). A future that is
            /// dropped is like a call that fails.
            ///
            /// # Errors
            ///
            /// As [`step`](Self::step), and those of the memory.
            pub $($async)* fn $next(&mut self, prompt: &MemoryPrompt<$over>) -> Result<Next> {
                let $memory = prompt.memory();
                self.set_limits($memory.limits());
                self.prompts.kept_free = prompt.kept_free();
                self.look_for_requests()?;
                self.set_time(SystemTime::now());
                loop {
                    // The lock is not held while the memory is asked.
                    let step = self.step_cached(prompt.composer(), &mut prompt.cache().lock())?;
                    match step {
                        Step::Find(mut find) => self.found(&$memory.append_with(&mut find)$($now)*?),
                        Step::List => self.listed(&$memory.slots()$($now)*?),
                        Step::Read(read) => self.read($memory.read_with(&read)$($now)*?)?,
                        Step::Save(mut append) => {
                            self.appended_so($memory.append_with(&mut append)$($now)*, Self::saved)?;
                        }
                        Step::Append(mut append) => {
                            self.appended_so($memory.append_with(&mut append)$($now)*, Self::appended)?;
                        }
                        Step::Ask(ask) => {
                            let found = search(self, prompt, $memory.id(), &ask);
                            let Some(mut $search) = found else { return Ok(Next::Ask(ask)) };
                            let found = $run?;
                            return Ok(Next::Ask(recall(self, prompt, ask, found, $search.outcome())));
                        }
                        Step::Call(calls) => return Ok(Next::Call(calls)),
                        Step::Done(done) => return Ok(Next::Done(done)),
                    }
                }
            }
        }
    };
}

over!(dyn ChatMemory, [], [], next, |search, memory| search.run(|read| memory.read_with(read)));
#[cfg(feature = "async")]
over!(dyn AsyncChatMemory, [async], [.await], next_async, |search, memory| {
    search.run_async(memory).await
});

impl Turn {
    /// Takes what came of an append, and goes on where the slot was lost to somebody else.
    fn appended_so(
        &mut self,
        outcome: Result<Appended>,
        take: fn(&mut Self, &Appended),
    ) -> Result<()> {
        match outcome {
            Ok(appended) => take(self, &appended),
            Err(error) if error.kind() == ErrorKind::SlotConflict => self.slot_conflict(),
            Err(error) => {
                self.failed(error.kind());
                return Err(error);
            }
        }
        Ok(())
    }
}

/// A decision on its way to the slot of its turn.
struct Deciding<'a> {
    waiting: &'a Waiting,
    decision: Decision<'a>,
    tries: u32,
    /// The turn with the decision, which may be written though its answer got lost.
    turn: Option<Turn>,
}

impl<'a> Deciding<'a> {
    fn new(waiting: &'a Waiting, decision: Decision<'a>) -> Self {
        Self { waiting, decision, tries: 0, turn: None }
    }

    /// Returns the append with the decision; `None` if the turn is in its slot no more.
    fn adopt(&mut self, snapshot: &Snapshot) -> Result<Option<Append>> {
        let slot = snapshot.slot(&slot_of(&self.waiting.turn));
        let Some(slot) = slot else { return Ok(None) };
        let unfinished = Unfinished::of(slot).map_err(|unread| unread.error())?;
        let is_written = |turn: &mut Turn| turn.state.owner == unfinished.state.owner;
        let turn = if let Some(mut turn) = self.turn.take_if(is_written) {
            turn.wrote(slot.version()); // and it is written once more
            turn
        } else {
            let event = self.decision.on(&unfinished, self.waiting)?;
            unfinished.adopted(note_about(snapshot, slot.name()), Some(event))?
        };
        adoption(self.turn.insert(turn)).map(Some)
    }

    /// Takes what came of it: the turn, or `None` if the slot is to be looked at again.
    fn after_append(&mut self, outcome: Result<Appended>) -> Result<Option<Turn>> {
        self.tries += 1;
        match outcome {
            Ok(appended) => {
                let turn = self.turn.take();
                Ok(turn.map(|mut turn| {
                    turn.saved(&appended);
                    turn
                }))
            }
            Err(error) => match error.kind() {
                ErrorKind::SlotConflict | ErrorKind::Unacknowledged if self.tries < MOST_TRIES => {
                    Ok(None)
                }
                _ => Err(error),
            },
        }
    }
}

/// The number of times that a decision is tried, while others write to the same turn.
const MOST_TRIES: u32 = 8;

/// The append by which a turn is adopted.
fn adoption(turn: &mut Turn) -> Result<Append> {
    turn.set_time(SystemTime::now());
    let version = turn.state.held().map_or(Expected::Absent, |held| Expected::Is(held.version));
    Ok(Append::default().set_slot(turn.state.slot(), turn.state.checkpoint()?, version))
}

/// The names of the slots of turns.
fn names<T>(slots: Vec<(String, T)>) -> impl Iterator<Item = String> {
    slots.into_iter().map(|(name, _)| name).filter(|name| name.starts_with(PREFIX))
}
