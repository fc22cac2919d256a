//! The same prompt over an async memory.

use std::ops::ControlFlow::Break;
use std::ops::Range;
use std::sync::Arc;

use super::MemoryPrompt;
use super::pins::{PinChange, Pinning, pinned, read_pins};
use super::summary::{current, failed, newest, shorter};
use crate::error::{ErrorKind, Result};
use crate::memory::{AsyncChatMemory, AsyncChatMemoryExt, Read, share_async};
use crate::message::Message;
use crate::prompt::Prompt;
use crate::record::Snapshot;
use crate::summary::{Compaction, CompactionPolicy, Summary};

/// The methods of `MemoryPrompt<dyn ChatMemory>`, as async functions over the same composer.
impl MemoryPrompt<dyn AsyncChatMemory> {
    /// Returns a prompt over this async memory, with the defaults of
    /// [`Composer::new`](crate::Composer::new).
    pub fn new_async(memory: impl AsyncChatMemory + 'static) -> Self {
        Self::over(share_async(memory))
    }

    /// Appends a message to the memory; returns its position.
    ///
    /// # Errors
    ///
    /// As [`AsyncChatMemory::append`].
    pub async fn add(&self, message: impl Into<Message>) -> Result<u64> {
        let message: Message = message.into();
        self.memory.add(message).await
    }

    /// Appends messages to the memory in one batch; returns their positions.
    ///
    /// # Errors
    ///
    /// As [`AsyncChatMemory::append`].
    pub async fn add_all(&self, messages: impl IntoIterator<Item = Message>) -> Result<Range<u64>> {
        let mut batch: Vec<Message> = messages.into_iter().collect();
        self.memory.append(&mut batch, None).await
    }

    /// Composes the prompt and spends the temporary messages.
    ///
    /// # Errors
    ///
    /// As [`Composer::compose`](crate::Composer::compose) and [`AsyncChatMemory::read`]. A build
    /// that fails, or whose future is dropped, changes nothing: temporaries wait for the next one.
    pub async fn build(&mut self) -> Result<Prompt> {
        self.begin_build();
        let prompt = self.preview().await?;
        Ok(self.spend(prompt))
    }

    /// Composes the same prompt and spends nothing: for counting, or for choosing a model by it.
    ///
    /// # Errors
    ///
    /// As [`build`](Self::build).
    pub async fn preview(&self) -> Result<Prompt> {
        let mut read = Read::newest(self.composer.first_read());
        if self.composer.reads_slots() && self.memory.limits().has_slots() {
            self.name_slots(&mut read);
        }
        loop {
            let mut snapshot = if read.is_plain() {
                self.memory.read(None, read.n).await?
            } else {
                self.memory.read_with(&read).await?
            };
            match self.composed(&mut read, &mut snapshot)? {
                Some((prompt, Some(seen))) => return self.recalled(prompt, seen).await,
                Some((prompt, None)) => return Ok(prompt),
                None => {}
            }
        }
    }

    /// Adds what is recalled for a prompt.
    async fn recalled(&self, prompt: Prompt, snapshot: Box<Snapshot>) -> Result<Prompt> {
        let search = self.search(self.memory.id(), &prompt, &snapshot, &[]);
        let Some(mut search) = search else { return Ok(prompt) };
        let found = search.run_async(&*self.memory).await?;
        let outcome = search.outcome();
        Ok(self
            .with_found(prompt, *snapshot, found)?
            .with_recall_outcome(outcome.nothing, outcome.failed))
    }

    /// Pins the message at this position, and with it the whole of its tool group; the positions of
    /// what is pinned by it are returned.
    ///
    /// # Errors
    ///
    /// As `pin` over a blocking memory.
    pub async fn pin(&self, position: u64) -> Result<Vec<u64>> {
        Ok(self.changed(PinChange::Pin(position)).await?.members)
    }

    /// Unpins the message at this position, and with it the whole of its tool group; returns false
    /// where it was not pinned.
    ///
    /// # Errors
    ///
    /// As `pin` over a blocking memory.
    pub async fn unpin(&self, position: u64) -> Result<bool> {
        Ok(self.changed(PinChange::Unpin(position)).await?.is_written)
    }

    /// Makes a change of pins, again where others were faster.
    async fn changed(&self, change: PinChange) -> Result<Pinning> {
        let mut pinning = self.pinning(&self.memory.limits(), change)?;
        while !pinning.is_written {
            let snapshot = self.memory.read_with(&pinning.read()).await?;
            let Some(mut append) = pinning.append(&snapshot)? else { break };
            pinning.wrote(self.memory.append_with(&mut append).await)?;
        }
        Ok(pinning)
    }

    /// Returns the positions of all pinned messages that the memory still holds, ascending, tool
    /// groups whole.
    ///
    /// # Errors
    ///
    /// As `pins` over a blocking memory.
    pub async fn pins(&self) -> Result<Vec<u64>> {
        let mut read = read_pins(&self.memory.limits());
        loop {
            let snapshot = self.memory.read_with(&read).await?;
            if let Some(pinned) = pinned(&mut read, &snapshot)? {
                return Ok(pinned);
            }
        }
    }

    /// Returns what is due to be summarised by this policy; `None` if nothing is.
    ///
    /// # Errors
    ///
    /// As `compaction` over a blocking memory.
    pub async fn compaction(&self, policy: &CompactionPolicy) -> Result<Option<Compaction>> {
        let mut looking = self.looking(&self.memory.limits())?;
        loop {
            let snapshot = self.memory.read_with(&looking.read()).await?;
            if let Break(due) = looking.after_read(policy, snapshot)? {
                return Ok(due);
            }
        }
    }

    /// Stores a summary of what was due, if it is still due.
    ///
    /// # Errors
    ///
    /// As `commit` over a blocking memory.
    pub async fn commit(&self, due: &Compaction, text: impl Into<String>) -> Result<()> {
        let mut append = self.commitment(&self.memory.limits(), due, text.into())?;
        self.memory.append_with(&mut append).await.map(drop)
    }

    /// Summarises what is due, if anything is; returns whether a summary was stored. Where somebody
    /// else was faster, theirs holds. A future that is dropped changes nothing.
    ///
    /// # Errors
    ///
    /// As `compact` over a blocking memory.
    pub async fn compact<A, E>(
        &self,
        policy: &CompactionPolicy,
        summarize: impl Fn(Compaction) -> A,
    ) -> Result<bool>
    where
        A: Future<Output = Result<String, E>>,
        E: Into<Box<dyn std::error::Error + Send + Sync>>,
    {
        let Some(due) = self.compaction(policy).await? else { return Ok(false) };
        let mut text = summarize(due.clone()).await.map_err(|error| failed(error.into()))?;
        if let Some(again) = due.again(&text) {
            text = shorter(text, summarize(again).await);
        }
        match self.commit(&due, text).await {
            Err(error) if error.kind() == ErrorKind::SlotConflict => Ok(false),
            outcome => outcome.map(|()| true),
        }
    }

    /// Returns the summary that holds.
    ///
    /// # Errors
    ///
    /// As `summary` over a blocking memory.
    pub async fn summary(&self) -> Result<Option<Summary>> {
        if !self.memory.limits().has_slots() {
            return Ok(None);
        }
        current(&self.memory.read_with(&newest()).await?)
    }

    /// Takes the newest summary back: the one before it holds again, or none. Returns false if
    /// there is none.
    ///
    /// # Errors
    ///
    /// As `undo_summary` over a blocking memory.
    pub async fn undo_summary(&self) -> Result<bool> {
        let (limits, seen) = (self.memory.limits(), self.memory.read_with(&newest()).await?);
        let Some(mut append) = self.undoing(&limits, &seen)? else { return Ok(false) };
        self.memory.append_with(&mut append).await.map(|_| true)
    }

    /// Puts another memory in the place of this one and returns the old one. The configuration
    /// stays, and so do temporaries that no build has seen; those of a build that failed, or whose
    /// future was dropped, are dropped.
    pub fn set_memory(
        &mut self,
        memory: impl AsyncChatMemory + 'static,
    ) -> Arc<dyn AsyncChatMemory> {
        let memory = share_async(memory);
        let Some(before) = self.branches.take() else { return self.replace_memory(memory) };
        self.show(before.anew(memory));
        Arc::clone(before.memory())
    }
}
