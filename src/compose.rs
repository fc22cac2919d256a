//! The composer: a pure function from history, temporaries and configuration to a [`Prompt`].
//!
//! Nothing here does I/O, takes a lock, reads a clock or logs. [`MemoryPrompt`](crate::MemoryPrompt)
//! is a thin shell around it; whoever brings their own I/O uses it alone:
//!
//! ```
//! use memory_prompt::{Composer, Message, Snapshot, Window};
//!
//! let history = ["one", "two", "three"].map(Message::user);
//! let prompt = Composer::new()
//!     .system("Be brief.")
//!     .window(Window::last(2))
//!     .compose_all(&Snapshot::from_messages(history), &[])?;
//! let texts: Vec<_> = prompt.iter().map(|m| m.text()).collect();
//! assert_eq!(texts, ["Be brief.", "two", "three"]);
//! # Ok::<(), memory_prompt::Error>(())
//! ```

mod assemble;
mod budget;
mod cache;
mod counts;
mod cuts;
mod plain;
mod provider;

use std::sync::Arc;

use crate::composed::{Content, Prompt};
use crate::error::Result;
use crate::message::Message;
use crate::provider::{Opens, Provider};
use crate::record::{Records, Snapshot};
use crate::token::TokenCounter;
use crate::truncate::Truncate;
use crate::window::{Opening, Reach, ToolGroups, Window, whole_groups};
use assemble::{Assembly, System};
pub use budget::Budget;
use budget::Limit;
pub use cache::ComposerCache;
use cuts::Cuts;

/// The configuration of a prompt, and the function that composes it.
///
/// Every setting is a method that returns the composer again, so settings are chained or changed
/// one by one, at any time.
#[derive(Clone, Debug, Default)]
pub struct Composer {
    system: Option<Arc<Message>>,
    /// Unset: the last 10, or with a token budget everything that fits.
    window: Option<Window>,
    limit: Option<Limit>,
    truncate: Option<Truncate>,
    tool_groups: ToolGroups,
    placement: Placement,
    provider: Option<Provider>,
}

/// Where temporary messages stand.
///
/// Wherever that is, they split no tool group, and a temporary tool result that answers a call at the
/// end of the history stands directly behind it.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, serde::Serialize)]
#[non_exhaustive]
pub enum Placement {
    /// Behind everything else, so that a provider's cached prefix survives them.
    #[default]
    End,
    /// Right before the last user message; at the end where the history sends none.
    BeforeLastUser,
    /// Right after the system message, before the history.
    AfterSystem,
}

/// What [`Composer::compose`] answers.
#[derive(Clone, Debug, PartialEq)]
pub enum Composition {
    /// The prompt.
    Ready(Prompt),
    /// The snapshot does not reach back far enough: read this many of the newest records and compose
    /// again.
    ReadMore(usize),
}

impl Composer {
    /// The defaults: no system message of its own, the last 10 messages, nothing truncated, tool
    /// groups repaired, temporaries at the end.
    pub fn new() -> Self {
        Self::default()
    }

    /// Sets the system message, which then takes the place of the memory's.
    pub fn system(&mut self, text: impl Into<String>) -> &mut Self {
        self.system = Some(Arc::new(Message::system(text)));
        self
    }

    /// Goes back to the memory's system message.
    pub fn no_system(&mut self) -> &mut Self {
        self.system = None;
        self
    }

    /// Sets which records are sent.
    pub fn window(&mut self, window: Window) -> &mut Self {
        self.window = Some(window);
        self
    }

    /// Sends the last `n` messages: short for `window(Window::last(n))`.
    pub fn max_messages(&mut self, n: usize) -> &mut Self {
        self.window(Window::last(n))
    }

    /// Bounds the tokens of the whole prompt. A window that was set holds too; where none was set, the
    /// budget alone decides how much of the history is sent.
    pub fn max_tokens(
        &mut self,
        budget: impl Into<Budget>,
        counter: impl TokenCounter + 'static,
    ) -> &mut Self {
        self.limit = Some(Limit { budget: budget.into(), counter: Arc::new(counter) });
        self
    }

    /// Takes the token budget away.
    pub fn no_max_tokens(&mut self) -> &mut Self {
        self.limit = None;
        self
    }

    /// Sets how long messages are shortened; `None` switches truncation off.
    pub fn truncate(&mut self, truncate: impl Into<Option<Truncate>>) -> &mut Self {
        self.truncate = truncate.into();
        self
    }

    /// Sets what happens to tool calls without results and results without calls.
    pub fn tool_groups(&mut self, tool_groups: ToolGroups) -> &mut Self {
        self.tool_groups = tool_groups;
        self
    }

    /// Sets where temporary messages stand.
    pub fn temporaries_at(&mut self, placement: Placement) -> &mut Self {
        self.placement = placement;
        self
    }

    /// Names the provider that the prompt is for: nothing is sent then that it refuses. See
    /// [`Provider`] for what that is, and for what is done about it.
    ///
    /// ```
    /// use memory_prompt::{Composer, Message, Provider, Snapshot};
    ///
    /// let history = Snapshot::from_messages([Message::ai("Hello! Tea?"), Message::user("yes")]);
    /// let prompt = Composer::new().for_provider(Provider::Anthropic).compose_all(&history, &[])?;
    /// assert_eq!(prompt[0], Message::user("(start of the conversation)"));
    /// assert_eq!(prompt[1].text(), "Hello! Tea?");
    /// # Ok::<(), memory_prompt::Error>(())
    /// ```
    pub fn for_provider(&mut self, provider: Provider) -> &mut Self {
        self.provider = Some(provider);
        self
    }

    /// Goes back to a prompt that is for no provider in particular.
    pub fn no_provider(&mut self) -> &mut Self {
        self.provider = None;
        self
    }

    /// How many of the newest records a first read should ask for.
    pub fn first_read(&self) -> usize {
        let most = self.effective_window().first_read();
        if self.limit.is_some() { most.min(FIRST_READ) } else { most }
    }

    /// Whether composing counts or cuts anything that the next prompt may send again.
    pub(crate) fn uses_cache(&self) -> bool {
        self.limit.is_some() || self.truncate.is_some()
    }

    fn effective_window(&self) -> Window {
        let unset = if self.limit.is_some() { Window::all() } else { Window::default() };
        self.window.unwrap_or(unset)
    }

    /// Composes a prompt from a snapshot of the newest records, or says how many more it takes.
    ///
    /// # Errors
    ///
    /// [`ErrorKind::Truncate`](crate::ErrorKind::Truncate) where a processor failed, and
    /// [`ErrorKind::ToolGroup`](crate::ErrorKind::ToolGroup) with [`ToolGroups::Strict`]; with a token
    /// budget also [`ErrorKind::Budget`](crate::ErrorKind::Budget), and whatever the counter returns;
    /// with a provider named also [`ErrorKind::Provider`](crate::ErrorKind::Provider).
    pub fn compose(
        &self,
        snapshot: &Snapshot,
        temporaries: &[Arc<Message>],
    ) -> Result<Composition> {
        Ok(self.draft(snapshot, temporaries, None)?.with(|| snapshot.records.clone()))
    }

    /// Does the same with what earlier prompts of the conversation counted and cut.
    ///
    /// # Errors
    ///
    /// As [`compose`](Self::compose).
    pub fn compose_cached(
        &self,
        snapshot: &Snapshot,
        temporaries: &[Arc<Message>],
        cache: &mut ComposerCache,
    ) -> Result<Composition> {
        Ok(self.draft(snapshot, temporaries, Some(cache))?.with(|| snapshot.records.clone()))
    }

    /// Composes a prompt from a snapshot that holds all there is.
    ///
    /// # Errors
    ///
    /// As [`compose`](Self::compose).
    pub fn compose_all(&self, snapshot: &Snapshot, temporaries: &[Arc<Message>]) -> Result<Prompt> {
        let content = self.draft_whole(snapshot, temporaries, None)?;
        Ok(Prompt::new(content, &mut snapshot.records.clone()))
    }

    /// What is to become a prompt as soon as it is given the records of the snapshot.
    pub(crate) fn draft(
        &self,
        snapshot: &Snapshot,
        temporaries: &[Arc<Message>],
        cache: Option<&mut ComposerCache>,
    ) -> Result<Reach<Box<Content>>> {
        if let Some(limit) = &self.limit {
            return match cache {
                Some(cache) => limit.compose(self, snapshot, temporaries, cache),
                None => limit.compose(self, snapshot, temporaries, &mut ComposerCache::new()),
            };
        }
        if temporaries.is_empty()
            && let Some(content) = self.plain(snapshot)
        {
            if let Some(cache) = cache {
                cache.cuts = Cuts::default();
            }
            return Ok(Reach::Found(content));
        }
        match self.opening(snapshot) {
            Reach::Found(opening) => {
                let system = self.system_message(snapshot, temporaries);
                let cuts = cache.map(|cache| &mut cache.cuts);
                self.assemble(snapshot, system, temporaries, opening, cuts).map(Reach::Found)
            }
            Reach::ReadMore(n) => Ok(Reach::ReadMore(n)),
        }
    }

    /// The same from a snapshot that holds all there is, even where its oldest rows could not be read.
    pub(crate) fn draft_whole(
        &self,
        snapshot: &Snapshot,
        temporaries: &[Arc<Message>],
        mut cache: Option<&mut ComposerCache>,
    ) -> Result<Box<Content>> {
        match self.draft(snapshot, temporaries, cache.as_deref_mut())? {
            Reach::Found(content) => Ok(content),
            Reach::ReadMore(_) => {
                let whole = Snapshot { start: snapshot.oldest(), ..snapshot.clone() };
                self.draft_whole(&whole, temporaries, cache)
            }
        }
    }

    fn system_message(&self, snapshot: &Snapshot, temporaries: &[Arc<Message>]) -> System {
        System::choose(self.system.as_ref(), snapshot.system.as_ref(), temporaries)
    }

    fn assemble(
        &self,
        snapshot: &Snapshot,
        system: System,
        temporaries: &[Arc<Message>],
        opening: Opening,
        cuts: Option<&mut Cuts>,
    ) -> Result<Box<Content>> {
        // What a processor decides is its own affair each time.
        let cuts_alone = self.truncate.as_ref().is_some_and(|truncate| !truncate.has_processor());
        let cuts = cuts.filter(|_| cuts_alone);
        let mut assembly = Assembly::new(self, snapshot, system, cuts);
        assembly.history(opening)?;
        assembly.temporaries(temporaries)?;
        assembly.finish(temporaries)?;
        Ok(assembly.content)
    }

    fn opening(&self, snapshot: &Snapshot) -> Reach<Opening> {
        let window = self.effective_window();
        let opening = match self.window_opening(snapshot) {
            Reach::Found(opening) if self.tool_groups != ToolGroups::Off => opening,
            other => return other,
        };
        match whole_groups(snapshot, opening.start, window.is_stable()) {
            Reach::Found(start) => {
                let parted = start.saturating_sub(opening.start);
                Reach::Found(Opening { start, parted, ..opening })
            }
            Reach::ReadMore(n) => Reach::ReadMore(n),
        }
    }

    /// Where the window opens, before tool groups are looked at.
    ///
    /// Where the provider wants the user first, a window that has cut something off opens on a user
    /// message; one that sends all there is leaves nothing out for that.
    fn window_opening(&self, snapshot: &Snapshot) -> Reach<Opening> {
        let window = self.effective_window();
        match window.opening(snapshot) {
            Reach::Found(opening) if self.opens_with_user(snapshot, opening.start) => {
                window.starting_with_user().opening(snapshot)
            }
            other => other,
        }
    }

    /// Whether the history, cut at `start`, must open on a user message.
    fn opens_with_user(&self, snapshot: &Snapshot, start: usize) -> bool {
        self.provider.is_some_and(|provider| provider.rules().opens == Opens::WithUser)
            && !(start == 0 && snapshot.is_complete())
    }
}

impl Reach<Box<Content>> {
    fn with(self, records: impl FnOnce() -> Records) -> Composition {
        match self {
            Self::Found(content) => Composition::Ready(Prompt::new(content, &mut records())),
            Self::ReadMore(n) => Composition::ReadMore(n),
        }
    }
}

/// How many records a prompt with a token budget reads at first.
const FIRST_READ: usize = 64;
