//! The same prompt over an async memory.

use std::ops::Range;
use std::sync::Arc;

use super::MemoryPrompt;
use crate::compose::Composition;
use crate::composed::Prompt;
use crate::error::Result;
use crate::memory::{AsyncChatMemory, AsyncChatMemoryExt, share_async};
use crate::message::Message;
use crate::recall::Wants;
use crate::record::Snapshot;

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
        let mut n = self.composer.first_read();
        loop {
            let snapshot = self.memory.read(None, n).await?;
            let read = self.for_recall(&snapshot, n);
            match self.compose(snapshot, n)? {
                Composition::Ready(prompt) => return self.recalled(prompt, read).await,
                Composition::ReadMore(more) => n = more,
            }
        }
    }

    /// Adds what is recalled for a prompt.
    async fn recalled(&self, prompt: Prompt, snapshot: Option<Snapshot>) -> Result<Prompt> {
        let Some(snapshot) = snapshot else { return Ok(prompt) };
        let search = self.search(self.memory.id(), &prompt, &snapshot, &[]);
        let Some(mut search) = search else { return Ok(prompt) };
        let found = loop {
            match search.next()? {
                Wants::Read(read) => search.read(&self.memory.read_with(&read).await?)?,
                Wants::Done(found) => break found,
            }
        };
        self.with_found(prompt, snapshot, found)
    }

    /// Puts another memory in the place of this one and returns the old one. The configuration
    /// stays, and so do temporaries that no build has seen; those of a build that failed, or whose
    /// future was dropped, are dropped.
    pub fn set_memory(
        &mut self,
        memory: impl AsyncChatMemory + 'static,
    ) -> Arc<dyn AsyncChatMemory> {
        self.replace_memory(share_async(memory))
    }
}
