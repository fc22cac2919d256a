//! [`MemoryPrompt`]: a memory, a composer, and messages for one use.

#[cfg(feature = "async")]
mod asynchronous;

use std::ops::Range;
use std::sync::Arc;
use std::{fmt, mem};

use parking_lot::Mutex;

use crate::compose::{Budget, Composer, ComposerCache, Composition, Placement};
use crate::composed::Prompt;
use crate::error::Result;
use crate::memory::{ChatMemory, ChatMemoryExt};
use crate::message::Message;
use crate::provider::Provider;
use crate::record::Snapshot;
use crate::token::TokenCounter;
use crate::truncate::Truncate;
use crate::window::{Reach, ToolGroups, Window};

/// Composes what a model is sent from a [`ChatMemory`], a configuration and temporary messages.
///
/// Building reads the memory and writes nothing. What it costs depends on what is sent, not on what
/// was ever said.
///
/// ```
/// use memory_prompt::{DefaultChatMemory, MemoryPrompt, Message, Truncate};
///
/// let mut prompt = MemoryPrompt::new(DefaultChatMemory::new())
///     .system("You are a terse assistant.")
///     .max_messages(10)
///     .truncate(Truncate::chars(800)?);
///
/// prompt.add(Message::user("What is the weather in Oslo?"))?;
/// prompt.add_temporary(Message::user("Today is Friday."));
///
/// assert_eq!(prompt.preview()?.len(), 3); // spends nothing
/// assert_eq!(prompt.build()?.len(), 3); // spends the temporary message
/// assert_eq!(prompt.build()?.len(), 2);
/// # Ok::<(), memory_prompt::Error>(())
/// ```
///
/// Every setting can be changed later too:
///
/// ```
/// # use memory_prompt::{DefaultChatMemory, MemoryPrompt, Truncate, Window};
/// # let mut prompt = MemoryPrompt::new(DefaultChatMemory::new());
/// prompt.configure().window(Window::turns(3)).truncate(None);
/// ```
pub struct MemoryPrompt<M: ?Sized = dyn ChatMemory> {
    memory: Arc<M>,
    composer: Composer,
    temporaries: Vec<Arc<Message>>,
    /// Held for no longer than a composition takes, and only where it is of use.
    cache: Mutex<ComposerCache>,
}

impl<M: ?Sized> MemoryPrompt<M> {
    fn over(memory: Arc<M>) -> Self {
        Self { memory, composer: Composer::new(), temporaries: Vec::new(), cache: Mutex::default() }
    }

    /// The prompt with this system message, which takes the place of the memory's.
    #[must_use]
    pub fn system(mut self, text: impl Into<String>) -> Self {
        self.configure().system(text);
        self
    }

    /// The prompt with the last `n` messages of the history; 10 unless set.
    #[must_use]
    pub fn max_messages(mut self, n: usize) -> Self {
        self.configure().max_messages(n);
        self
    }

    /// The prompt with this window on the history.
    #[must_use]
    pub fn window(mut self, window: Window) -> Self {
        self.configure().window(window);
        self
    }

    /// The prompt with at most so many tokens in all: see [`Budget`]. Where no window was set, the
    /// budget alone decides how much of the history is sent.
    #[must_use]
    pub fn max_tokens(
        mut self,
        budget: impl Into<Budget>,
        counter: impl TokenCounter + 'static,
    ) -> Self {
        self.configure().max_tokens(budget, counter);
        self
    }

    /// The prompt with long messages shortened; off unless set.
    #[must_use]
    pub fn truncate(mut self, truncate: impl Into<Option<Truncate>>) -> Self {
        self.configure().truncate(truncate);
        self
    }

    /// The prompt with tool groups treated like this.
    #[must_use]
    pub fn tool_groups(mut self, tool_groups: ToolGroups) -> Self {
        self.configure().tool_groups(tool_groups);
        self
    }

    /// The prompt with temporary messages in this place.
    #[must_use]
    pub fn temporaries_at(mut self, placement: Placement) -> Self {
        self.configure().temporaries_at(placement);
        self
    }

    /// The prompt for this provider: nothing is sent that it refuses. See [`Provider`].
    #[must_use]
    pub fn for_provider(mut self, provider: Provider) -> Self {
        self.configure().for_provider(provider);
        self
    }

    /// The prompt for no provider in particular, as it is unless one was named.
    #[must_use]
    pub fn no_provider(mut self) -> Self {
        self.configure().no_provider();
        self
    }

    /// The configuration, to be changed from the next build on.
    pub fn configure(&mut self) -> &mut Composer {
        // With another counter or truncation it would be counted and cut otherwise.
        self.cache = Mutex::default();
        &mut self.composer
    }

    /// The configuration.
    pub fn composer(&self) -> &Composer {
        &self.composer
    }

    /// Adds a message for the next build only. It is stored nowhere.
    ///
    /// A temporary system message does not make a second one: its text is added to that of the
    /// prompt or the memory, for one build.
    pub fn add_temporary(&mut self, message: impl Into<Message>) -> &mut Self {
        self.temporaries.push(Arc::new(message.into()));
        self
    }

    /// The messages that wait for the next build.
    pub fn temporaries(&self) -> impl ExactSizeIterator<Item = &Message> {
        self.temporaries.iter().map(AsRef::as_ref)
    }

    /// Forgets the messages that wait for the next build.
    pub fn clear_temporaries(&mut self) {
        self.temporaries.clear();
    }

    /// What all shells do with what they read; a prompt takes its records.
    fn compose(&self, snapshot: &mut Snapshot, n: usize) -> Result<Composition> {
        let mut cache = self.composer.uses_cache().then(|| self.cache.lock());
        let cache = cache.as_deref_mut();
        let content = if snapshot.rows() < n {
            // All that the memory has, even where it could not read its oldest rows.
            self.composer.draft_whole(snapshot, &self.temporaries, cache)?
        } else {
            match self.composer.draft(snapshot, &self.temporaries, cache)? {
                Reach::Found(content) => content,
                Reach::ReadMore(more) => return Ok(Composition::ReadMore(more)),
            }
        };
        Ok(Composition::Ready(Prompt::new(content, &mut snapshot.records)))
    }

    fn replace_memory(&mut self, memory: Arc<M>) -> Arc<M> {
        self.cache = Mutex::default();
        mem::replace(&mut self.memory, memory)
    }

    /// The memory.
    pub fn memory(&self) -> &Arc<M> {
        &self.memory
    }
}

impl MemoryPrompt<dyn ChatMemory> {
    /// A prompt over this memory, with the defaults of [`Composer::new`].
    ///
    /// To keep a handle on the memory, hand in an `Arc` of it, or ask for it with
    /// [`memory`](Self::memory).
    pub fn new(memory: impl ChatMemory + 'static) -> Self {
        Self::over(Arc::new(memory))
    }

    /// Appends a message to the memory; returns its position.
    ///
    /// # Errors
    ///
    /// As [`ChatMemory::append`].
    pub fn add(&self, message: impl Into<Message>) -> Result<u64> {
        self.memory.add(message)
    }

    /// Appends messages to the memory in one batch; returns their positions.
    ///
    /// # Errors
    ///
    /// As [`ChatMemory::append`].
    pub fn add_all(&self, messages: impl IntoIterator<Item = Message>) -> Result<Range<u64>> {
        self.memory.add_all(messages)
    }

    /// Composes the prompt and spends the temporary messages.
    ///
    /// # Errors
    ///
    /// As [`Composer::compose`] and [`ChatMemory::read`]. A build that fails changes nothing:
    /// temporaries wait for the next one.
    pub fn build(&mut self) -> Result<Prompt> {
        let prompt = self.preview()?;
        self.temporaries.clear();
        Ok(prompt)
    }

    /// Composes the same prompt and spends nothing: for counting, or for choosing a model by it.
    ///
    /// # Errors
    ///
    /// As [`build`](Self::build).
    pub fn preview(&self) -> Result<Prompt> {
        let mut n = self.composer.first_read();
        loop {
            // By reference: what was read stays where it was written.
            let composition = match self.memory.read(None, n) {
                Ok(ref mut snapshot) => self.compose(snapshot, n)?,
                Err(error) => return Err(error),
            };
            match composition {
                Composition::Ready(prompt) => return Ok(prompt),
                Composition::ReadMore(more) => n = more.max(n.saturating_add(1)),
            }
        }
    }

    /// Puts another memory in the place of this one and returns the old one. Configuration and
    /// temporaries stay.
    pub fn set_memory(&mut self, memory: impl ChatMemory + 'static) -> Arc<dyn ChatMemory> {
        self.replace_memory(Arc::new(memory))
    }
}

#[expect(clippy::missing_fields_in_debug, reason = "the cache changes nothing")]
impl<M: fmt::Debug + ?Sized> fmt::Debug for MemoryPrompt<M> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("MemoryPrompt")
            .field("memory", &&*self.memory)
            .field("composer", &self.composer)
            .field("temporaries", &self.temporaries.len())
            .finish()
    }
}
