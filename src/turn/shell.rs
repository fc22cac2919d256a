//! Turns over a memory: what does their reading and writing.

use std::time::SystemTime;

use super::decision::{self, Decision, came_of_stored, find};
use super::prompts::{recall, search};
use super::state::{PREFIX, slot_of};
use super::unfinished::unfinished_in;
use super::{Done, Ended, Next, Step, Turn, Unfinished, Waiting};
use crate::error::{Decided, Error, ErrorKind, Result};
#[cfg(feature = "async")]
use crate::memory::AsyncChatMemory;
use crate::memory::{Append, Appended, ChatMemory, Expected, Read};
use crate::memory_prompt::MemoryPrompt;
use crate::record::{Snapshot, places};

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
                unfinished_in(&self.turns()$($now)*?)
            }

            /// Reads the slots of turns.
            $($async)* fn turns(&self) -> Result<Snapshot> {
                let slots = self.memory().slots()$($now)*?.into_iter().map(|(name, _)| name);
                let names = slots.filter(|name| name.starts_with(PREFIX));
                self.memory().read_with(&Read::newest(0).slots(names))$($now)*
            }

            /// Takes a turn over from whoever began it: to go on with it, or to
            /// [end](Turn::interrupt) it. Its tools are to be set again. It goes on from the
            /// conversation as it was when the turn began: what was said since is behind it. Its
            /// model does not read that, and is told which calls other turns have made.
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
                let mut turn = unfinished.adopted(None)?;
                turn.set_limits(self.memory().limits());
                let mut take = adoption(&mut turn)?;
                turn.saved(&self.memory().append_with(&mut take)$($now)*?);
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

            /// Returns the turn of this [id](Turn::id) as it is stored, on whichever branch: for
            /// who was being told its answer and lost the connection, in any process. `None` if
            /// nothing is stored of it: it failed, or still runs, or so many others were stored
            /// since that the memory [knows](crate::memory::Limits::ids) its id no more.
            ///
            /// What a conversation has [told](crate::Conversation::stream) of it are the texts of
            /// all its ai messages, in a row. How it ended is not stored: it is
            /// [`Ended::Adopted`]. Messages that were evicted since are lacking.
            ///
            /// ```
            /// use memory_prompt::conversation::Scripted;
            /// use memory_prompt::{Conversation, DefaultChatMemory, MemoryPrompt, Turn};
            ///
            /// let prompt = MemoryPrompt::new(DefaultChatMemory::new());
            /// let conversation = Conversation::new(prompt, Scripted::new().says("In Norway."));
            /// let turn = Turn::from("Where is Oslo?");
            /// let id = turn.id().to_owned(); // told with the events of its answer
            /// assert!(conversation.prompt().stored_turn(&id)?.is_none());
            ///
            /// conversation.say(turn)?;
            /// let stored = conversation.prompt().stored_turn(&id)?.unwrap();
            /// assert_eq!((stored.text(), stored.positions), ("In Norway.".into(), 0..2));
            /// # Ok::<(), memory_prompt::Error>(())
            /// ```
            ///
            /// # Errors
            ///
            /// Those of the memory.
            pub $($async)* fn stored_turn(&self, id: &str) -> Result<Option<Done>> {
                let (memory, mut newest) = (self.memory(), None);
                for part in 1.. {
                    let mut stored = memory.append_with(&mut find(id, part, false))$($now)*?;
                    if stored.positions.is_empty() {
                        stored = memory.append_with(&mut find(id, part, true))$($now)*?;
                    }
                    if stored.positions.is_empty() {
                        break;
                    }
                    newest = Some(stored);
                }
                let Some(Appended { positions, branch, .. }) = newest else { return Ok(None) };
                let read = Read::newest(places(positions.end - positions.start)).on(branch);
                let seen = memory.read_with(&read.before(positions.end))$($now)*?;
                let messages = seen.records.messages().cloned().collect();
                Ok(Some(Done { positions, messages, ..Turn::from("").outcome(Ended::Adopted) }))
            }

            /// Takes the turn of this call over, with the decision on it: both at once, or neither.
            pub(crate) $($async)* fn decide(&self, waiting: &Waiting, decision: Decision<'_>) -> Result<Turn> {
                let memory = self.memory();
                let mut decided = Deciding { waiting, decision, tries: 0, turn: None };
                loop {
                    let snapshot = self.turns()$($now)*.map_err(|error| decided.unread(error))?;
                    let Some(mut take) = decided.adopt(&snapshot)? else { break };
                    let appended = memory.append_with(&mut take)$($now)*;
                    if let Some(mut turn) = decided.after_append(appended)? {
                        turn.set_limits(memory.limits());
                        return Ok(turn);
                    }
                }
                let found = memory.append_with(&mut find(&waiting.turn, waiting.part, true))$($now)*;
                let found = found.map_err(|error| decided.unread(error))?;
                let Some(mut stored) = decision::search(&found) else {
                    return Err(decision.is_decided(Decided::Gone));
                };
                while let Some(page) = stored.next() {
                    let page = memory.read_with(&page)$($now)*;
                    stored.add_page(&page.map_err(|error| decided.unread(error))?);
                }
                Err(decision.is_decided(came_of_stored(waiting, &stored)))
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
            /// Those of the memory, and those of
            /// [`Composer::compose`](crate::compose::Composer::compose);
            /// [`ErrorKind::Unsupported`](crate::ErrorKind::Unsupported) with
            /// [`OnNoCheckpoint::Fail`](super::OnNoCheckpoint::Fail);
            /// [`ErrorKind::Forgotten`](crate::ErrorKind::Forgotten) where the conversation was
            /// begun again; [`ErrorKind::Adopted`](crate::ErrorKind::Adopted) while somebody else
            /// runs the turn; [`ErrorKind::Busy`](crate::ErrorKind::Busy) where a request of its
            /// [id](Self::with_id) runs; and [`ErrorKind::Invalid`](crate::ErrorKind::Invalid)
            /// where another question has that id.
            pub $($async)* fn $next(&mut self, prompt: &MemoryPrompt<$over>) -> Result<Next> {
                let $memory = prompt.memory();
                self.set_limits($memory.limits());
                self.prompts.kept_free = prompt.kept_free();
                self.look_for_requests()?;
                if self.prompts.looks_at_others() {
                    self.look_at_others(); // from the start, where a call before this one failed
                }
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
            Err(error) => {
                self.failed(error.kind());
                if error.kind() != ErrorKind::SlotConflict {
                    return Err(error);
                }
                self.slot_conflict();
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

impl Deciding<'_> {
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
            unfinished.adopted(Some(event))?
        };
        adoption(self.turn.insert(turn)).map(Some)
    }

    /// The error of a read: it leaves open whether a decision stands that may be written.
    fn unread(&self, error: Error) -> Error {
        if self.turn.is_none() {
            return error;
        }
        let text = "the decision may be written, and the memory can't be read";
        Error::new(ErrorKind::Unacknowledged, self.decision.operation(), text).with_source(error)
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
