//! The composer: a pure function from history, temporaries and configuration to a [`Prompt`].
//!
//! The composer reads no memory: [`MemoryPrompt`](crate::MemoryPrompt) is the thin shell around it
//! that does, and both return a [`Prompt`]. Nothing here does I/O, takes a lock, reads a clock or
//! logs. An application with its own I/O can use the composer alone:
//!
//! ```
//! use memory_prompt::record::Snapshot;
//! use memory_prompt::{Composer, Message, Window};
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
mod choose;
mod clear;
mod compacted;
mod copies;
mod counts;
mod extras;
mod form;
mod notice;
mod priced;
mod sent_as;
mod shape;
mod system;

use std::fmt;
use std::sync::Arc;

use crate::error::{Error, Result};
use crate::message::Message;
use crate::prompt::{Draft, Prompt};
use crate::provider::Provider;
use crate::record::{Record, Records, Snapshot};
use crate::token::{Estimate, TokenCounter};
use crate::tool::Tool;
use crate::truncate::Truncate;
use crate::window::{NotReady, ToolGroups, Window, last_question};
pub use budget::Budget;
use budget::CountedBudget;
pub(crate) use cache::ComposerCache;
use choose::Choice;
pub use clear::Clear;
use clear::Clearing;
use copies::Copies;
use extras::Extras;
use form::Form;
pub use notice::Notice;
use priced::Priced;
use system::System;

/// The configuration of a prompt, and the function that composes it.
///
/// Every setting is a method that takes the composer and returns it, so settings are chained:
///
/// ```
/// use memory_prompt::{Composer, Window};
///
/// let composer = Composer::new().system("Be brief.").window(Window::turns(5));
/// let longer = composer.clone().window(Window::turns(20));
/// ```
#[derive(Clone, Default)]
pub struct Composer {
    system: Option<Arc<Message>>,
    /// `None`: the last 10, or with a token budget everything that fits.
    window: Option<Window>,
    limit: Option<CountedBudget>,
    truncate: Option<Truncate>,
    clear: Option<Clear>,
    notice: Option<Notice>,
    tool_groups: ToolGroups,
    placement: Placement,
    provider: Option<Provider>,
    tools: Option<Arc<[Tool]>>,
    pins: bool,
    summary: bool,
    /// `None`: four times as many as the window reads.
    reach: Option<usize>,
}

/// The place of temporary messages in a prompt.
///
/// Temporaries never split a tool group, and a temporary tool result that answers a call at the end
/// of the history is sent directly after that call.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, serde::Serialize, serde::Deserialize)]
#[serde(rename_all = "snake_case")]
#[non_exhaustive]
pub enum Placement {
    /// After everything else, so that a provider's cached prefix survives them.
    #[default]
    End,
    /// Right before the last user message; at the end if the history has none.
    BeforeLastUser,
    /// Right after the system message, before the history.
    AfterSystem,
}

#[derive(Clone, Copy, Default)]
pub(crate) struct Temporaries<'a> {
    messages: &'a [Arc<Message>],
    /// The notes of a turn about other turns, each with the position before which it is sent, in
    /// the order of these.
    notes: &'a [(u64, Arc<Message>)],
    /// The position of the first record after them; `None` if they are at the end.
    before: Option<u64>,
    /// The position at which the running turn begins. Its question is always sent.
    turn: Option<u64>,
    /// The tokens that the budget keeps free for recall, and how many of these are left.
    kept_free: usize,
    still_free: usize,
    /// The tools of a turn, which replace the composer's.
    tools: Option<&'a Arc<[Tool]>>,
}

/// The inputs of one draft.
#[derive(Clone, Copy)]
struct Case<'a> {
    composer: &'a Composer,
    snapshot: &'a Snapshot,
    /// Pins and the summary.
    extras: &'a Extras,
    clearing: Clearing<'a>,
    /// The places of the question, which is not cut.
    spared: &'a [usize],
    temporaries: Temporaries<'a>,
}

impl<'a> Temporaries<'a> {
    pub(crate) fn last(messages: &'a [Arc<Message>]) -> Self {
        Self { messages, ..Self::default() }
    }

    /// Keeps these tokens free in the budget; `used` of them are used already.
    pub(crate) fn with_free(self, kept_free: usize, used: usize) -> Self {
        Self { kept_free, still_free: kept_free.saturating_sub(used), ..self }
    }

    /// Returns the temporaries of a turn that begins at this position. They stay where the turn's
    /// first prompt had them: after the records before `before`.
    pub(crate) fn of_turn(messages: &'a [Arc<Message>], turn: u64, before: u64) -> Self {
        Self { before: Some(before), turn: Some(turn), ..Self::last(messages) }
    }

    pub(crate) const fn with_notes(self, notes: &'a [(u64, Arc<Message>)]) -> Self {
        Self { notes, ..self }
    }

    pub(crate) fn with_tools(self, tools: &'a Arc<[Tool]>) -> Self {
        Self { tools: Some(tools).filter(|tools| !tools.is_empty()), ..self }
    }
}

/// The outcome of [`Composer::compose`]: a prompt, or a request for more records.
#[derive(Clone, Debug, PartialEq)]
pub enum Composition {
    /// The prompt.
    Ready(Prompt),
    /// The snapshot is too short: read this many of the newest records, and compose again.
    ReadMore(usize),
}

impl Composer {
    /// Returns a composer with the defaults: no system message of its own, the last 10 messages,
    /// nothing truncated, tool groups repaired, temporaries at the end.
    pub fn new() -> Self {
        Self::default()
    }

    /// Sets the system message, which replaces the memory's. If it is empty, none is sent.
    #[must_use]
    pub fn system(mut self, text: impl Into<String>) -> Self {
        self.system = Some(Arc::new(Message::system(text)));
        self
    }

    /// Goes back to the memory's system message.
    #[must_use]
    pub fn no_system(mut self) -> Self {
        self.system = None;
        self
    }

    /// Sets which records are sent.
    #[must_use]
    pub fn window(mut self, window: Window) -> Self {
        self.window = Some(window);
        self
    }

    /// Sends the last `n` messages: short for `window(Window::last(n))`.
    #[must_use]
    pub fn max_messages(self, n: usize) -> Self {
        self.window(Window::last(n))
    }

    /// Bounds the tokens of the whole prompt. A window that is set bounds it too; if none is set,
    /// the budget alone decides how much of the history is sent.
    #[must_use]
    pub fn max_tokens(
        mut self,
        budget: impl Into<Budget>,
        counter: impl TokenCounter + 'static,
    ) -> Self {
        self.limit = Some(CountedBudget { budget: budget.into(), counter: Arc::new(counter) });
        self
    }

    /// Removes the token budget.
    #[must_use]
    pub fn no_max_tokens(mut self) -> Self {
        self.limit = None;
        self
    }

    /// Sets how long messages are shortened.
    #[must_use]
    pub fn truncate(mut self, truncate: Truncate) -> Self {
        self.truncate = Some(truncate);
        self
    }

    /// Sends every message at full length.
    #[must_use]
    pub fn no_truncate(mut self) -> Self {
        self.truncate = None;
        self
    }

    /// Sets what happens to tool calls without results and results without calls.
    #[must_use]
    pub fn tool_groups(mut self, tool_groups: ToolGroups) -> Self {
        self.tool_groups = tool_groups;
        self
    }

    /// Sets the place of temporary messages.
    #[must_use]
    pub fn temporaries_at(mut self, placement: Placement) -> Self {
        self.placement = placement;
        self
    }

    /// Names the provider that the prompt is for, so that nothing is sent that it refuses. See
    /// [`Provider`] for the rules of each, and how prompts are adapted to them. If an answer in the
    /// window holds the provider's own compaction, the history begins there: see
    /// [`Row::compacts`](crate::provider::Row::compacts).
    ///
    /// ```
    /// use memory_prompt::record::Snapshot;
    /// use memory_prompt::{Composer, Message, Provider};
    ///
    /// let history = Snapshot::from_messages([Message::ai("Hello! Tea?"), Message::user("yes")]);
    /// let prompt = Composer::new().for_provider(Provider::Anthropic).compose_all(&history, &[])?;
    /// assert_eq!(prompt[0], Message::user("(start of the conversation)"));
    /// assert_eq!(prompt[1].text(), "Hello! Tea?");
    /// # Ok::<(), memory_prompt::Error>(())
    /// ```
    #[must_use]
    pub fn for_provider(mut self, provider: Provider) -> Self {
        self.provider = Some(provider);
        self
    }

    pub(crate) fn provider(&self) -> Option<Provider> {
        self.provider
    }

    /// Goes back to a prompt for no particular provider.
    #[must_use]
    pub fn no_provider(mut self) -> Self {
        self.provider = None;
        self
    }

    /// Sets the tools that the model can call. A token budget counts their definitions, the report
    /// says if they broke the cached prefix, and a [`Request`](crate::wire::Request) of the prompt
    /// sends them.
    ///
    /// ```
    /// use memory_prompt::record::Snapshot;
    /// use memory_prompt::token::Estimate;
    /// use memory_prompt::{Composer, Message, Tool};
    ///
    /// let history = Snapshot::from_messages([Message::user("hi")]);
    /// let prompt = Composer::new()
    ///     .max_tokens(1_000, Estimate)
    ///     .tools([Tool::new("weather", "The weather of a city.")])
    ///     .compose_all(&history, &[])?;
    /// let report = prompt.report();
    /// let tokens = report.tokens.unwrap();
    /// assert!(tokens.tools > 20);
    /// assert_eq!(tokens.total, tokens.tools + report.message_tokens[0] + tokens.reply);
    /// # Ok::<(), memory_prompt::Error>(())
    /// ```
    #[must_use]
    pub fn tools(mut self, tools: impl IntoIterator<Item = Tool>) -> Self {
        self.tools = Some(tools.into_iter().collect());
        self
    }

    /// Returns the number of newest records that a first read should ask for.
    pub fn first_read(&self) -> usize {
        let most = self.effective_window().first_read();
        let most = if self.summary { most.max(self.reach()) } else { most };
        let is_less = self.limit.is_some() || (self.summary && most == usize::MAX);
        if is_less { most.min(FIRST_READ) } else { most }
    }

    /// Returns whether composing counts or cuts anything that the next prompt may send again.
    pub(crate) fn uses_cache(&self) -> bool {
        self.limit.is_some() || self.truncate.is_some() || self.clear.is_some()
    }

    /// Returns the budget, which counts what the named provider is sent, by its rule.
    fn counted_budget(&self) -> Option<CountedBudget> {
        let limit = self.limit.clone()?;
        let Some(provider) = self.provider else { return Some(limit) };
        let counter = Arc::new(Priced { counter: limit.counter, row: provider.row() });
        Some(CountedBudget { counter, ..limit })
    }

    /// Returns the counter of the budget, and its tokens for the prompt.
    pub(crate) fn budget(&self) -> Option<(&Arc<dyn TokenCounter>, usize)> {
        self.limit.as_ref().map(|limit| (&limit.counter, limit.budget.available()))
    }

    fn effective_window(&self) -> Window {
        let unset = if self.limit.is_some() { Window::all() } else { Window::default() };
        self.window.unwrap_or(unset)
    }

    /// Composes a prompt from a snapshot of the newest records, or asks for more of them.
    ///
    /// ```
    /// use memory_prompt::compose::Composition;
    /// use memory_prompt::{
    ///     ChatMemory, ChatMemoryExt, Composer, DefaultChatMemory, Message, Window,
    /// };
    ///
    /// let memory = DefaultChatMemory::new();
    /// memory.add_all(["one", "two", "three"].map(Message::user))?;
    /// let composer = Composer::new().window(Window::turns(1));
    ///
    /// let mut n = composer.first_read();
    /// let prompt = loop {
    ///     match composer.compose(memory.read(None, n)?, &[])? {
    ///         Composition::Ready(prompt) => break prompt,
    ///         Composition::ReadMore(more) => n = more,
    ///     }
    /// };
    /// assert_eq!(prompt.len(), 3); // three messages in a row are one turn
    /// # Ok::<(), memory_prompt::Error>(())
    /// ```
    ///
    /// # Errors
    ///
    /// [`ErrorKind::Invalid`](crate::ErrorKind::Invalid) for positions after the snapshot's end,
    /// [`ErrorKind::Truncate`](crate::ErrorKind::Truncate) if a processor failed, and
    /// [`ErrorKind::ToolGroup`](crate::ErrorKind::ToolGroup) with [`ToolGroups::FailOnRepair`];
    /// with a token budget also [`ErrorKind::Budget`](crate::ErrorKind::Budget), and any error of
    /// the counter; with a provider named also [`ErrorKind::Provider`](crate::ErrorKind::Provider).
    pub fn compose(
        &self,
        mut snapshot: Snapshot,
        temporaries: &[Arc<Message>],
    ) -> Result<Composition> {
        self.compose_with(&mut snapshot, Temporaries::last(temporaries), None)
    }

    /// Composes a prompt from a snapshot that holds the whole conversation.
    ///
    /// # Errors
    ///
    /// Same as [`compose`](Self::compose).
    pub fn compose_all(&self, snapshot: &Snapshot, temporaries: &[Arc<Message>]) -> Result<Prompt> {
        let whole = Snapshot { start: snapshot.oldest_row(), ..snapshot.clone() };
        match self.compose(whole, temporaries)? {
            Composition::Ready(prompt) => Ok(prompt),
            // A complete snapshot never needs more.
            Composition::ReadMore(_) => Err(Error::invalid("compose", "the snapshot has a gap")),
        }
    }

    /// Composes a prompt with the counts and copies of earlier prompts of the conversation. The
    /// prompt takes the records out of the snapshot.
    pub(crate) fn compose_with(
        &self,
        snapshot: &mut Snapshot,
        temporaries: Temporaries<'_>,
        mut cache: Option<&mut ComposerCache>,
    ) -> Result<Composition> {
        snapshot.check()?;
        // The number of unsent records before the history.
        let before = |draft: &Draft| draft.report.older + draft.report.over_budget;
        let ready = |draft, records: &mut Records| {
            let prompt = Prompt::new(draft, records);
            Composition::Ready(prompt.with_tools(self.tools_of(temporaries)))
        };
        let draft = self.draft(snapshot, temporaries, cache.as_deref_mut());
        let reaches_back = || match &draft {
            Ok(draft) => before(draft) < 2,
            Err(NotReady::ReadMore(_)) => false,
            Err(NotReady::Failed(_)) => true,
        };
        // If a system record begins the history and the prompt reaches back to it, it is the system
        // message. So a prompt that leaves out at most this one record is drafted again without it
        // among the records.
        if self.system.is_none() && snapshot.system.is_none() && reaches_back() {
            if snapshot.oldest_row().checked_sub(1) == Some(snapshot.start) {
                // Only the first row is unread, and it may be that record.
                return Ok(Composition::ReadMore(snapshot.rows().saturating_add(1)));
            }
            if let Some(mut with_system) = system::first_as_system(snapshot) {
                match self.draft(&with_system, temporaries, cache) {
                    Ok(mut draft) if before(&draft) == 0 => {
                        draft.report.held.start = snapshot.start;
                        draft.report.stored += 1;
                        draft.report.sent += 1;
                        draft.system_record = Some(snapshot.start);
                        return Ok(ready(draft, &mut with_system.records));
                    }
                    Err(NotReady::Failed(error)) if draft.is_ok() => return Err(error),
                    _ => {}
                }
            }
        }
        match draft {
            Ok(draft) => Ok(ready(draft, &mut snapshot.records)),
            // `n` counts records. A read also counts rows that can't be parsed, so they are added.
            Err(NotReady::ReadMore(n)) => {
                let missing = n.saturating_sub(snapshot.records.len()).max(1);
                Ok(Composition::ReadMore(snapshot.rows().saturating_add(missing)))
            }
            Err(NotReady::Failed(error)) => Err(error),
        }
    }

    /// Chooses what is sent, and drafts the prompt.
    fn draft(
        &self,
        snapshot: &Snapshot,
        temporaries: Temporaries<'_>,
        mut cache: Option<&mut ComposerCache>,
    ) -> Result<Box<Draft>, NotReady> {
        let extras = self.extras(snapshot)?;
        let limit = self.counted_budget();
        let counter = limit.as_ref().map_or(&Estimate as &dyn TokenCounter, |it| &*it.counter);
        // The tokens of whole messages decide what is cleared.
        let count = &mut |record: Record<'_>| match cache.as_deref_mut() {
            Some(cache) => cache.counts.message(record.message(), counter),
            None => counter.count(record.message()),
        };
        let clearing = self.clearing(snapshot, &extras, count)?;
        // A budget forgets once it has counted what is sent.
        if let Some(cache) = cache.as_deref_mut().filter(|_| limit.is_none()) {
            cache.counts.forget_unasked();
        }
        let records = &snapshot.records;
        let leaves_whole = self.truncate.as_ref().is_some_and(Truncate::spares_question);
        let question = leaves_whole.then(|| last_question(records, 0, records.len()).0);
        let question = question.unwrap_or_default();
        let (extras, spared) = (&extras, &*question);
        let case = Case { composer: self, snapshot, extras, clearing, spared, temporaries };
        if let Some(limit) = limit {
            let mut nothing = ComposerCache::default();
            return limit.fit(case, cache.unwrap_or(&mut nothing));
        }
        let choice = case.choose(&mut self.message_room(extras))?;
        let system = self.system_message(snapshot, temporaries.messages);
        Ok(case.drafted(system, choice, cache.map(|cache| &mut cache.copies))?)
    }

    pub(crate) fn own_tools(&self) -> Option<&Arc<[Tool]>> {
        self.tools.as_ref()
    }

    fn tools_of<'a>(&'a self, temporaries: Temporaries<'a>) -> Option<&'a Arc<[Tool]>> {
        temporaries.tools.or(self.tools.as_ref())
    }

    #[inline]
    fn system_message(&self, snapshot: &Snapshot, temporaries: &[Arc<Message>]) -> System {
        System::choose(self.system.as_ref(), snapshot.system.as_ref(), temporaries)
    }
}

impl<'a> Case<'a> {
    /// Returns the record at this position, with its place; a pinned one may have none.
    fn placed(self, position: u64) -> Option<(usize, Record<'a>)> {
        let pinned = || Some((NOWHERE, self.extras.pinned.records.find(position)?));
        self.snapshot.records.place(position).or_else(pinned)
    }

    fn form(&self, place: usize, record: &Record<'_>) -> Form {
        let whole = self.spared.binary_search(&place).is_ok();
        Form { whole, cleared: self.clearing.of(record) }
    }

    /// Assembles the choice, and shapes the draft for the provider.
    fn drafted(
        self,
        system: System,
        choice: Choice<'_>,
        copies: Option<&mut Copies>,
    ) -> Result<Box<Draft>> {
        let composer = self.composer;
        // A processor may decide differently next time, so its copies are not kept.
        let truncate = composer.truncate.as_ref();
        let remembers = truncate.map_or_else(|| composer.clear.is_some(), |it| !it.has_processor());
        let copies = copies.filter(|_| remembers);
        let (mut draft, matches) = assemble::assemble(self, system, choice, copies)?;
        if let Some(provider) = composer.provider {
            shape::shape(self, provider, &matches, &mut draft)?;
        }
        draft.report.messages = draft.pieces.len();
        Ok(draft)
    }
}

impl fmt::Debug for Composer {
    /// Shows the settings, but of the system message only its length.
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Composer")
            .field("system_bytes", &self.system.as_ref().map(|system| system.text().len()))
            .field("window", &self.window)
            .field("limit", &self.limit.as_ref().map(|limit| limit.budget))
            .field("truncate", &self.truncate)
            .field("clear", &self.clear)
            .field("notice", &self.notice)
            .field("tool_groups", &self.tool_groups)
            .field("placement", &self.placement)
            .field("provider", &self.provider)
            .field("tools", &self.tools.as_ref().map_or(0, |tools| tools.len()))
            .field("pins", &self.pins)
            .field("summary", &self.summary)
            .field("reach", &self.reach)
            .finish()
    }
}

/// Returns what an error calls a message: a record by its position.
fn who(position: Option<u64>) -> String {
    position.map_or_else(|| "a temporary".to_owned(), |position| format!("message {position}"))
}

/// The place of a record that is not among the newest ones.
const NOWHERE: usize = usize::MAX;

/// How many records a prompt with a token budget reads at first.
const FIRST_READ: usize = 64;
