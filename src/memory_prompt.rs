//! [`MemoryPrompt`]: a memory, a composer, and messages for one use.
//!
//! It reads the records that the composer (`compose`) needs, and returns the composed prompt
//! (`prompt`).

mod history;
mod pins;
mod reading;
mod recall;
mod summary;

use std::ops::Range;
use std::sync::Arc;
use std::{fmt, mem};

use parking_lot::Mutex;

use crate::compose::{
    Budget, Clear, Composer, ComposerCache, Composition, Notice, Placement, Temporaries,
};
use crate::error::{Error, ErrorKind, Result};
use crate::history::BranchView;
#[cfg(feature = "async")]
use crate::memory::{AsyncChatMemory, AsyncChatMemoryExt, share_async};
use crate::memory::{ChatMemory, ChatMemoryExt, Limits, Read, share, unsupported};
use crate::message::{Message, Role};
use crate::prompt::{MediaData, Prompt};
use crate::provider::Provider;
use crate::recall::Recall;
use crate::record::Snapshot;
use crate::token::TokenCounter;
use crate::tool::Tool;
use crate::truncate::Truncate;
use crate::window::{ToolGroups, Window};
pub(crate) use recall::sends_as_much;

/// Composes the messages for a model from a [`ChatMemory`], a configuration and temporary messages.
///
/// Building reads the memory and writes nothing. Its cost depends on what is sent, not on the
/// length of the history, unless most of that is never sent, like the application's own records.
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
/// prompt.configure(|composer| composer.window(Window::turns(3)).no_truncate());
/// ```
pub struct MemoryPrompt<M: ?Sized = dyn ChatMemory> {
    memory: Arc<M>,
    composer: Composer,
    temporaries: Vec<Arc<Message>>,
    /// How many of the temporaries, from the first on, a failed build has used: they belong to this
    /// memory, and are dropped if it is replaced.
    seen: usize,
    /// The roles of the temporaries that were dropped with a memory, for the next report.
    dropped: Vec<Role>,
    recall: Option<Recall>,
    /// The memory again, if it shows one branch of several.
    branches: Option<Arc<BranchView<M>>>,
    /// Never locked while the memory is asked.
    cache: Mutex<ComposerCache>,
}

impl<M: ?Sized> MemoryPrompt<M> {
    fn over(memory: Arc<M>) -> Self {
        Self {
            memory,
            composer: Composer::new(),
            temporaries: Vec::new(),
            seen: 0,
            dropped: Vec::new(),
            recall: None,
            branches: None,
            cache: Mutex::default(),
        }
    }

    /// Changes the configuration, from the next build on. Settings that `change` does not touch
    /// stay. A new composer has the defaults, so it sends neither [pins](Self::with_pins) nor
    /// [summaries](Self::with_summary) unless they are set again.
    ///
    /// ```
    /// use memory_prompt::{Composer, DefaultChatMemory, MemoryPrompt, Window};
    ///
    /// let mut prompt = MemoryPrompt::new(DefaultChatMemory::new()).system("Be brief.");
    /// prompt.configure(|composer| composer.window(Window::turns(5)).no_system());
    /// prompt.configure(|_| Composer::new().with_pins().max_messages(20)); // a new configuration
    /// ```
    pub fn configure(&mut self, change: impl FnOnce(Composer) -> Composer) {
        // With another counter or truncation the counts and cuts in the cache are wrong.
        self.cache = Mutex::default();
        // On a copy: if `change` panics, the prompt is as it was.
        self.composer = change(self.composer.clone());
    }

    fn with(mut self, change: impl FnOnce(Composer) -> Composer) -> Self {
        self.configure(change);
        self
    }

    /// Returns the configuration.
    pub fn composer(&self) -> &Composer {
        &self.composer
    }

    /// Adds a message for the next build only. It never becomes a record. If your own tool loop
    /// builds once a round, add it before each build. A turn takes the waiting messages when it
    /// begins, and sends them in the same place in each of its rounds; until it ends, its
    /// [checkpoint](crate::turn#what-happened-is-never-denied) holds them.
    ///
    /// A temporary system message does not make a second one: its text is added to that of the
    /// prompt or the memory, for one build.
    #[doc(alias = "addMessageTemporary")]
    pub fn add_temporary(&mut self, message: impl Into<Message>) -> &mut Self {
        self.temporaries.push(Arc::new(message.into()));
        self
    }

    /// Returns the messages that wait for the next build.
    pub fn temporaries(&self) -> impl ExactSizeIterator<Item = &Message> {
        self.temporaries.iter().map(AsRef::as_ref)
    }

    /// Takes back the messages that wait for the next build, for example those of a build that
    /// failed.
    ///
    /// ```
    /// use memory_prompt::{DefaultChatMemory, MemoryPrompt, Message};
    ///
    /// let mut prompt = MemoryPrompt::new(DefaultChatMemory::new());
    /// prompt.add_temporary(Message::user("Today is Friday."));
    /// assert_eq!(prompt.take_temporaries(), [Message::user("Today is Friday.")]);
    /// assert_eq!(prompt.build()?.len(), 0);
    /// # Ok::<(), memory_prompt::Error>(())
    /// ```
    pub fn take_temporaries(&mut self) -> Vec<Message> {
        self.seen = 0;
        let taken = mem::take(&mut self.temporaries);
        taken.into_iter().map(Arc::unwrap_or_clone).collect()
    }

    /// Drops the messages that wait for the next build.
    pub fn clear_temporaries(&mut self) {
        self.seen = 0;
        self.temporaries.clear();
    }

    pub(crate) fn cache(&self) -> &Mutex<ComposerCache> {
        &self.cache
    }

    #[inline]
    fn compose_with(
        &self,
        snapshot: &mut Snapshot,
        temporaries: Temporaries<'_>,
    ) -> Result<Composition> {
        let mut cache = self.composer.uses_cache().then(|| self.cache.lock());
        self.composer.compose_with(snapshot, temporaries, cache.as_deref_mut())
    }

    fn replace_memory(&mut self, memory: Arc<M>) -> Arc<M> {
        let dropped = self.temporaries.drain(..mem::take(&mut self.seen));
        self.dropped.extend(dropped.map(|message| message.role()));
        self.cache = Mutex::default();
        mem::replace(&mut self.memory, memory)
    }

    /// Returns the memory.
    #[doc(alias = "getMemory")]
    pub fn memory(&self) -> &Arc<M> {
        &self.memory
    }
}

/// The settings of the composer, under the same names.
macro_rules! settings {
    ($($(#[$said:meta])* fn $name:ident($($value:ident: $type:ty),*);)*) => {
        impl<M: ?Sized> MemoryPrompt<M> {
            $(
                $(#[$said])*
                #[must_use]
                pub fn $name(self, $($value: $type),*) -> Self {
                    self.with(|composer| composer.$name($($value),*))
                }
            )*
        }
    };
}
use settings;

settings! {
    /// Sets the system message, which replaces that of the memory.
    #[doc(alias = "setSystemMessage")]
    fn system(text: impl Into<String>);

    /// Sends the last `n` messages of the history; the default is 10.
    #[doc(alias = "maxAttachedMessageCount")]
    #[doc(alias = "setMaxAttachedMessageCount")]
    #[doc(alias = "maxMessages")]
    #[doc(alias = "last")]
    fn max_messages(n: usize);

    /// Sets the window on the history.
    fn window(window: Window);

    /// Limits the tokens of the whole prompt: see [`Budget`]. If no window was set, the budget
    /// alone decides how much of the history is sent.
    #[doc(alias = "maxTokens")]
    fn max_tokens(budget: impl Into<Budget>, counter: impl TokenCounter + 'static);

    /// Shortens long messages; off by default.
    #[doc(alias = "historyMessageTruncateEnable")]
    #[doc(alias = "historyMessageTruncateLength")]
    #[doc(alias = "historyMessageTruncateProcessor")]
    fn truncate(truncate: Truncate);

    /// Sends placeholders instead of old tool results; off by default. See [`Clear`].
    fn clear(clear: Clear);

    /// Says how many earlier messages are not shown; off by default. See [`Notice`].
    fn notice(notice: Notice);

    /// Sets how tool groups are treated.
    fn tool_groups(tool_groups: ToolGroups);

    /// Sets the place of temporary messages.
    fn temporaries_at(placement: Placement);

    /// Sets the tools that the model can call; see [`Composer::tools`].
    fn tools(tools: impl IntoIterator<Item = Tool>);

    /// Names the provider that the prompt is for, so that nothing is sent that the provider
    /// refuses. See [`Provider`].
    fn for_provider(provider: Provider);
}

/// The methods over a memory of one kind. Their code is written once: done at once over a blocking
/// memory, and awaited over an async one.
macro_rules! over {
    ($memory:ident, $new:ident, $share:ident, [$($async:tt)*], [$($now:tt)*]) => {
        impl MemoryPrompt<dyn $memory> {
            /// Returns a prompt over this memory, with the defaults of [`Composer::new`].
            ///
            /// To keep a handle on the memory, pass an `Arc` of it, or get it with
            /// [`memory`](Self::memory).
            pub fn $new(memory: impl $memory + 'static) -> Self {
                Self::over($share(memory))
            }

            /// Appends a message to the memory; returns its position.
            ///
            /// # Errors
            ///
            /// As [`ChatMemory::append`].
            #[doc(alias = "addMessage")]
            pub $($async)* fn add(&self, message: impl Into<Message>) -> Result<u64> {
                self.memory.add(message)$($now)*
            }

            /// Appends messages to the memory in one batch; returns their positions.
            ///
            /// # Errors
            ///
            /// As [`ChatMemory::append`].
            #[doc(alias = "addMessages")]
            pub $($async)* fn add_all(
                &self,
                messages: impl IntoIterator<Item = Message>,
            ) -> Result<Range<u64>> {
                self.memory.add_all(messages)$($now)*
            }

            /// Composes the prompt and spends the temporary messages.
            ///
            /// # Errors
            ///
            /// As [`Composer::compose`] and [`ChatMemory::read`]. A build that fails, or whose
            /// future is dropped, changes nothing: temporaries wait for the next one, unless the
            /// memory is [replaced](Self::set_memory) before.
            #[doc(alias = "messages()")]
            #[doc(alias = "getMessages")]
            #[doc(alias = "toMessages")]
            pub $($async)* fn build(&mut self) -> Result<Prompt> {
                // Temporaries that this build does not spend belong to this memory from now on.
                self.seen = self.temporaries.len();
                let prompt = self.preview()$($now)*?;
                self.clear_temporaries();
                Ok(prompt.with_dropped(mem::take(&mut self.dropped)))
            }

            /// Composes the same prompt and spends nothing: for counting, or for choosing a model
            /// by the result.
            ///
            /// # Errors
            ///
            /// As [`build`](Self::build).
            pub $($async)* fn preview(&self) -> Result<Prompt> {
                let has_slots = self.composer.reads_slots() && self.memory.limits().has_slots();
                let mut read = self.first_read(has_slots);
                loop {
                    let snapshot = self.memory.read_with(&read)$($now)*?;
                    let composed = self.composed(&mut read, snapshot)?;
                    let Some((mut prompt, seen)) = composed else { continue };
                    let Some(seen) = seen else { return Ok(prompt) };
                    if self.recall.is_some() {
                        prompt = self.recalled(prompt, &seen)$($now)*?;
                    }
                    let mut media = MediaData::default();
                    let mut lacking = media.fill(&mut prompt, &seen);
                    if !lacking.is_empty() {
                        let whole = Read::newest(0).positions(lacking);
                        media.add(&self.memory.read_with(&whole)$($now)*?, &seen);
                        lacking = media.fill(&mut prompt, &seen);
                    }
                    let Some(lacks) = lacking.first() else { return Ok(prompt) };
                    // They were evicted meanwhile.
                    if !mem::replace(&mut read.references, false) {
                        return Err(unasked_reference(*lacks));
                    }
                }
            }

            /// Replaces the memory and returns the old one. The configuration stays, and so do
            /// temporaries that no build has seen.
            ///
            /// Temporaries of a build that failed, or whose future was dropped, were meant for the
            /// former conversation, perhaps another user's: they are dropped, and the
            /// [report](crate::Report::dropped_temporaries) of the next build says so. To keep
            /// them, [take](Self::take_temporaries) them first.
            #[doc(alias = "setMemory")]
            pub fn set_memory(&mut self, memory: impl $memory + 'static) -> Arc<dyn $memory> {
                let memory = $share(memory);
                match self.branches.take() {
                    None => self.replace_memory(memory),
                    Some(before) => {
                        self.show(before.over_another(memory));
                        Arc::clone(before.memory())
                    }
                }
            }
        }
    };
}

over!(ChatMemory, new, share, [], []);
#[cfg(feature = "async")]
over!(AsyncChatMemory, new_async, share_async, [async], [.await]);

/// Returns the error of a memory that returns a reference though the read asked for none, and would
/// on each further read.
pub(crate) fn unasked_reference(at: u64) -> Error {
    Error::new(ErrorKind::Storage, "read", format!("unasked reference to media at position {at}"))
}

/// Returns the error of a prompt that lacks a required setting.
fn not_built(operation: &'static str, lacks: &str, with: &str) -> Error {
    let text =
        format!("this prompt {lacks}: build it, and all others of the conversation, `{with}`");
    Error::invalid(operation, text)
}

fn must_keep_slots(operation: &'static str, limits: &Limits) -> Result<()> {
    if limits.has_slots() { Ok(()) } else { Err(unsupported(operation, "slots", "append_with")) }
}

#[expect(clippy::missing_fields_in_debug, reason = "the cache changes nothing")]
impl<M: fmt::Debug + ?Sized> fmt::Debug for MemoryPrompt<M> {
    /// Shows how it is configured and how many temporaries wait, not what was said: logs are no
    /// place for that.
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("MemoryPrompt")
            .field("memory", &&*self.memory)
            .field("composer", &self.composer)
            .field("recall", &self.recall)
            .field("temporaries", &self.temporaries.len())
            .finish()
    }
}
