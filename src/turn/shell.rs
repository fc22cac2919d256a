//! Turns over a memory: what does their reading and writing.

#[cfg(feature = "async")]
mod asynchronous;

use super::document::PREFIX;
use super::repeated::read_of;
use super::unfinished::unfinished_in;
use super::{Next, Step, Turn, Unfinished, adopted_error};
use crate::error::{Error, ErrorKind, Result};
use crate::memory::{Append, Appended, ChatMemory, Expected, Read};
use crate::message::Message;
use crate::prompt::MemoryPrompt;

impl<M: ?Sized> MemoryPrompt<M> {
    /// Begins a turn with this question. The temporaries of the prompt go with it, and its tools,
    /// unless the turn is given some of its own; nothing is stored.
    pub fn turn(&mut self, question: impl Into<Message>) -> Turn {
        Turn::new(question).temporaries(self.take_temporaries())
    }
}

impl MemoryPrompt<dyn ChatMemory> {
    /// Returns the turns of this conversation that were begun and have not ended, in no order of
    /// time. They may still run.
    ///
    /// # Errors
    ///
    /// Those of [`ChatMemory::slots`], but for a memory without slots, which keeps no turns: there
    /// are none then. [`ErrorKind::Unsupported`] where one of them is of a later
    /// version of this crate, or can't be read: it names the slot and the version.
    pub fn unfinished(&self) -> Result<Vec<Unfinished>> {
        if !self.memory().limits().has_slots() {
            return Ok(Vec::new());
        }
        let names = names(self.memory().slots()?);
        let snapshot = self.memory().read_with(&Read::newest(0).slots(names))?;
        unfinished_in(&snapshot)
    }

    /// Takes a turn over from whoever began it: to go on with it, or to
    /// [end](Turn::interrupt) it. Its tools are to be set again. It goes on from the conversation
    /// as it was when the turn began: what was said since is behind it, and its model does not read
    /// it.
    ///
    /// Nothing here tells a turn that is dead from one that still runs: only whoever starts the
    /// processes knows that. Where nobody does, adopt what waits for approval, and of the others
    /// those of conversations in which nothing was [appended](crate::store::Info::active) for
    /// longer than a turn may take.
    ///
    /// The one who had it can store nothing of it from now on but late results. Where the answer of
    /// the memory gets lost, [list](Self::unfinished) the turns again and adopt what is there.
    ///
    /// # Errors
    ///
    /// [`ErrorKind::SlotConflict`] where it has gone on or ended meanwhile, or somebody was faster,
    /// who may have been you; and as [`ChatMemory::append_with`].
    pub fn adopt(&self, unfinished: &Unfinished) -> Result<Turn> {
        let (mut turn, mut take) = adoption(unfinished)?;
        turn.set_limits(self.memory().limits());
        turn.saved(&self.memory().append_with(&mut take)?);
        Ok(turn)
    }
}

impl Turn {
    /// Does what the turn wants of the memory, and says what else it wants.
    ///
    /// Where it fails it can be called again: nothing is lost, and nothing is stored twice, unless
    /// so many other appends with ids came between as the memory
    /// [recognises](crate::memory::Limits::ids). Over one that recognises none, an end of the turn
    /// that may be stored is not tried again: that stays an [`ErrorKind::Unacknowledged`].
    ///
    /// # Errors
    ///
    /// As [`step`](Self::step), and those of the memory.
    pub fn next(&mut self, prompt: &MemoryPrompt) -> Result<Next> {
        let memory = prompt.memory();
        self.set_limits(memory.limits());
        self.kept_free = prompt.kept_free();
        for id in self.ids_to_look_for()? {
            // Changes nothing, and tells what is stored under this id.
            let stored = memory.append_with(&mut Append::default().with_id(id))?;
            if let Some(read) = read_of(&stored).filter(|_| stored.repeated) {
                self.found_stored(&stored, &memory.read_with(&read)?);
            }
            if !stored.repeated || self.done.is_some() {
                break;
            }
        }
        self.may_be_repeated = false;
        loop {
            // The lock is not held while the memory is asked.
            let step = self.step_cached(prompt.composer(), &mut prompt.cache().lock())?;
            match step {
                Step::List => self.listed(&memory.slots()?),
                Step::Read(read) => self.read(memory.read_with(&read)?)?,
                Step::Save(mut append) => {
                    self.wrote(memory.append_with(&mut append), Self::saved)?;
                }
                Step::Append(mut append) => {
                    self.wrote(memory.append_with(&mut append), Self::appended)?;
                }
                Step::Ask(ask) => {
                    let search = self.search(prompt, memory.id(), &ask);
                    let Some(mut search) = search else { return Ok(Next::Ask(ask)) };
                    let found = search.run(|read| memory.read_with(read))?;
                    return Ok(Next::Ask(self.recall(prompt, ask, found, search.told())));
                }
                Step::Call(calls) => return Ok(Next::Call(calls)),
                Step::Done(done) => return Ok(Next::Done(done)),
            }
        }
    }

    /// Takes what came of an append, and goes on where the slot was lost to somebody else.
    fn wrote(&mut self, outcome: Result<Appended>, take: fn(&mut Self, &Appended)) -> Result<()> {
        match outcome {
            Ok(appended) => take(self, &appended),
            Err(error) if error.kind() != ErrorKind::SlotConflict => {
                self.failed(error.kind());
                return Err(error);
            }
            Err(_) if self.is_ended_by_others() => return Err(adopted_error()),
            Err(_) => self.slot_conflict(),
        }
        Ok(())
    }
}

/// The turn in the hands of a new owner, and the append that makes it so.
fn adoption(unfinished: &Unfinished) -> Result<(Turn, Append)> {
    let version = unfinished.version;
    let turn = unfinished.adopted();
    let slot = turn.document.slot.as_str();
    let content = serde_json::to_vec(&turn.document).map_err(|error| {
        Error::new(ErrorKind::Codec, "adopt", "the turn can't be written").with_source(error)
    })?;
    let take = Append::default().set_slot(slot, content, Expected::Is(version));
    Ok((turn, take))
}

/// The names of the slots of turns.
fn names<T>(slots: Vec<(String, T)>) -> impl Iterator<Item = String> {
    slots.into_iter().map(|(name, _)| name).filter(|name| name.starts_with(PREFIX))
}
