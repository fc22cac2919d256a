//! The same over an async memory.

use super::super::repeated::read_of;
use super::super::unfinished::unfinished_in;
use super::super::{Next, Step, Turn, Unfinished};
use super::{adoption, names};
use crate::error::Result;
use crate::memory::{Append, AsyncChatMemory, Read};
use crate::prompt::MemoryPrompt;

/// The methods of `MemoryPrompt<dyn ChatMemory>`, as async functions.
impl MemoryPrompt<dyn AsyncChatMemory> {
    /// The turns of this conversation that were begun and have not ended. They may still run.
    ///
    /// # Errors
    ///
    /// As [`AsyncChatMemory::slots`]; and
    /// [`ErrorKind::Unsupported`](crate::ErrorKind::Unsupported) where one of them is of a later
    /// version of this crate, or can't be read: it names the slot and the version.
    pub async fn unfinished(&self) -> Result<Vec<Unfinished>> {
        if !self.memory().limits().has_slots() {
            return Ok(Vec::new());
        }
        let names = names(self.memory().slots().await?);
        let snapshot = self.memory().read_with(&Read::newest(0).slots(names)).await?;
        unfinished_in(&snapshot)
    }

    /// Takes a turn over from whoever began it: to go on with it, or to
    /// [end](Turn::interrupt) it. Its tools are to be set again.
    ///
    /// # Errors
    ///
    /// [`ErrorKind::SlotConflict`](crate::ErrorKind::SlotConflict) where it has gone on or ended
    /// meanwhile, or somebody else was faster; and as [`AsyncChatMemory::append_with`].
    pub async fn adopt(&self, unfinished: &Unfinished) -> Result<Turn> {
        let (mut turn, mut take) = adoption(unfinished)?;
        turn.set_limits(self.memory().limits());
        turn.saved(&self.memory().append_with(&mut take).await?);
        Ok(turn)
    }
}

impl Turn {
    /// Does what the turn wants of the async memory, and says what else it wants. A future that is
    /// dropped is like a call that fails: it can be made again.
    ///
    /// # Errors
    ///
    /// As [`next`](Self::next).
    pub async fn next_async(&mut self, prompt: &MemoryPrompt<dyn AsyncChatMemory>) -> Result<Next> {
        let memory = prompt.memory();
        self.set_limits(memory.limits());
        self.kept_free = prompt.kept_free();
        for id in self.ids_to_look_for()? {
            let stored = memory.append_with(&mut Append::default().with_id(id)).await?;
            if let Some(read) = read_of(&stored).filter(|_| stored.repeated) {
                self.found_stored(&stored, &memory.read_with(&read).await?);
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
                Step::List => self.listed(&memory.slots().await?),
                Step::Read(read) => self.read(memory.read_with(&read).await?)?,
                Step::Save(mut append) => {
                    self.wrote(memory.append_with(&mut append).await, Self::saved)?;
                }
                Step::Append(mut append) => {
                    self.wrote(memory.append_with(&mut append).await, Self::appended)?;
                }
                Step::Ask(ask) => {
                    let search = self.search(prompt, memory.id(), &ask);
                    let Some(mut search) = search else { return Ok(Next::Ask(ask)) };
                    let found = search.run_async(memory).await?;
                    return Ok(Next::Ask(self.recall(prompt, ask, found, search.told())));
                }
                Step::Call(calls) => return Ok(Next::Call(calls)),
                Step::Done(done) => return Ok(Next::Done(done)),
            }
        }
    }
}
