//! Clearing: old tool results are replaced by a line that says where they are stored.

mod boundary;
mod placeholder;
mod settings;

use std::sync::Arc;

pub(super) use placeholder::without_parts;

use super::Composer;
use super::extras::Extras;
use super::form::ClearedPart;
use crate::error::Error;
use crate::message::{Content, Message, Part, ToolMessage, is_same_tool};
use crate::record::{Record, Snapshot};
use crate::window::NotReady;

/// The rule that replaces old tool results and media with placeholders.
///
/// In a tool loop, most of a prompt is old tool results. A placeholder gives the position and the
/// length of what it replaces, so that a model can [read it back](crate::recall::tools::ReadBack).
/// Calls and groups stay whole, and the memory does not change.
///
/// ```
/// use memory_prompt::{Clear, DefaultChatMemory, MemoryPrompt, Message, ToolCall, Window};
///
/// let mut prompt = MemoryPrompt::new(DefaultChatMemory::new())
///     .window(Window::all())
///     .clear(Clear::tool_results().keep(2).step(4));
/// prompt.add(Message::user("Which of these files is the oldest?"))?;
/// for i in 0..4 {
///     let id = format!("c{i}");
///     prompt.add(Message::ai_calls([ToolCall::new(&id, "read", "{}")]))?;
///     prompt.add(Message::tool(&id, "read", "word ".repeat(100)))?;
/// }
/// let sent = prompt.build()?;
/// assert_eq!(sent[2].text(), "[Not shown here: 500 characters in message 2.]");
/// assert_eq!(sent[4].text().len(), 500); // behind the boundary, which is 4
/// assert_eq!(sent.report().cleared[0].position, 2);
/// # Ok::<(), memory_prompt::Error>(())
/// ```
///
/// # The boundary
///
/// Everything before a position is cleared, and nothing from there on. The position is
/// `floor(p / step) * step`, where `p` is the position of the call of the [`keep`](Self::keep)th
/// newest result. That is a pure function of what is stored, the same in every process, and it
/// moves only once per `step` messages; between two moves, prompts only grow at their end. A
/// boundary that moved with each result would change the middle of every prompt, and cost more than
/// it saves if prompts are cached.
///
/// Only results directly after their call count, and only those that would be cleared. What the
/// model has not seen yet, after its newest answer, is never cleared.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Clear {
    results: bool,
    media: bool,
    keep: usize,
    step: u64,
    longer_than: usize,
    except: Vec<String>,
    read_back: bool,
    over: Option<usize>,
    placeholder: Option<String>,
}

impl Clear {
    /// Clears tool results, except the newest ones and those that are hardly longer than a
    /// placeholder.
    pub const fn tool_results() -> Self {
        Self {
            results: true,
            media: false,
            keep: KEEP,
            step: STEP,
            longer_than: LONGER_THAN,
            except: Vec::new(),
            read_back: false,
            over: None,
            placeholder: None,
        }
    }

    /// Clears images, audio, video and documents of user messages and tool results, except in the
    /// newest messages that have some. Text next to them stays.
    ///
    /// ```
    /// use memory_prompt::message::{Media, Part};
    /// use memory_prompt::{Clear, DefaultChatMemory, MemoryPrompt, Message};
    ///
    /// let mut prompt = MemoryPrompt::new(DefaultChatMemory::new())
    ///     .clear(Clear::media().keep(1).step(1));
    /// for name in ["cat", "dog"] {
    ///     let image = Part::Image(Media::url(format!("https://example.com/{name}.png")));
    ///     prompt.add(Message::user([Part::text("What is this?"), image]))?;
    ///     prompt.add(Message::ai(format!("A {name}.")))?;
    /// }
    /// let sent = prompt.build()?;
    /// assert_eq!(sent[0].text(), "What is this?[Not shown here: 1 image in message 0.]");
    /// assert_eq!(sent[2].text(), "What is this?");
    /// # Ok::<(), memory_prompt::Error>(())
    /// ```
    pub fn media() -> Self {
        Self { results: false, media: true, ..Self::tool_results() }
    }

    /// Clears media too, with a boundary of their own.
    #[must_use]
    pub fn and_media(mut self) -> Self {
        self.media = true;
        self
    }

    /// Keeps this many of the newest results, and the media of this many of the newest messages
    /// that have some. The default is 3; 0 counts as 1, since a model must see what it asked for.
    #[must_use]
    pub fn keep(mut self, n: usize) -> Self {
        self.keep = n.max(1);
        self
    }

    /// Moves the boundary only once per this many messages. The default is 32; 0 counts as 1.
    ///
    /// After each move, everything after the boundary is written to the provider's cache again.
    /// `cargo run --release --example replay` shows the cost of a step for your conversations. With
    /// a [stepped budget](crate::Budget::stepped), use a power of two, of at least as many messages
    /// as fill its `low` tokens: with a smaller step, the start of the history moves back and
    /// forth.
    #[must_use]
    pub fn step(mut self, messages: u64) -> Self {
        self.step = messages.max(1);
        self
    }

    /// Clears only results of more than this many characters. The default is 120.
    #[must_use]
    pub fn longer_than(mut self, characters: usize) -> Self {
        self.longer_than = characters;
        self
    }

    /// Never clears results of tools with these names, nor, if any are given, results without a
    /// tool name.
    #[must_use]
    pub fn except(mut self, tools: impl IntoIterator<Item = impl Into<String>>) -> Self {
        self.except.extend(tools.into_iter().map(Into::into));
        self
    }

    /// Clears results of [`read_back`](crate::recall::tools::ReadBack) too. By default they stay:
    /// the model would otherwise ask for them again. So do those of a `tool_search`, which are the
    /// tools that it has loaded.
    #[must_use]
    pub fn and_read_back(mut self) -> Self {
        self.read_back = true;
        self
    }

    /// Clears only if the messages that the window covers have more than this many tokens, each
    /// counted whole, by the prompt's counter or by [`Estimate`](crate::token::Estimate).
    ///
    /// This is checked when the boundary moves, and holds until it moves again.
    #[must_use]
    pub fn over(mut self, tokens: usize) -> Self {
        self.over = Some(tokens);
        self
    }

    /// Sets the placeholder text, in which `{length}` is the length of what is cleared and
    /// `{position}` its position. The default is
    /// `[Not shown here: {length} in message {position}.]`.
    #[must_use]
    pub fn placeholder(mut self, text: impl Into<String>) -> Self {
        self.placeholder = Some(text.into());
        self
    }

    pub(super) fn template(&self) -> Option<&str> {
        self.placeholder.as_deref()
    }

    /// Returns whether this message is cleared once it is old enough.
    pub(super) fn may_clear(&self, message: &Message) -> bool {
        [ClearedPart::Result, ClearedPart::Media].iter().any(|part| self.clears(message, *part))
    }

    fn clears(&self, message: &Message, part: ClearedPart) -> bool {
        match (message, part) {
            (Message::Tool(tool), _) if self.spares_tool(tool) => false,
            (Message::Tool(tool), ClearedPart::Result) => self.clears_result(tool),
            (Message::Tool(tool), ClearedPart::Media) => self.clears_media(&tool.content),
            (Message::User(user), ClearedPart::Media) => self.clears_media(&user.content),
            _ => false,
        }
    }

    fn spares_tool(&self, tool: &ToolMessage) -> bool {
        // A result without a name may be of any tool.
        let is_it =
            |name: &String| tool.tool_name().is_empty() || is_same_tool(tool.tool_name(), name);
        // The model would ask for the one again, and the other is the tools that it has loaded.
        let stays = !self.read_back && [READ_BACK, TOOL_SEARCH].contains(&tool.tool_name());
        stays || self.except.iter().any(is_it)
    }

    fn clears_result(&self, tool: &ToolMessage) -> bool {
        self.results && (is_longer(&tool.content, self.longer_than) || has_others(&tool.content))
    }

    fn clears_media(&self, content: &Content) -> bool {
        self.media && content.parts().iter().any(|part| part.as_media().is_some())
    }
}

fn is_longer(content: &Content, characters: usize) -> bool {
    // Few texts are long enough to need counting, and those are not counted to their end.
    content.bytes() > characters && content.texts().flat_map(str::chars).nth(characters).is_some()
}

fn has_others(content: &Content) -> bool {
    content.parts().iter().any(|part| !matches!(part, Part::Text(_)))
}

#[derive(Clone, Copy, Default)]
pub(super) struct Clearing<'a> {
    clear: Option<&'a Clear>,
    results: u64,
    media: u64,
    pinned: &'a [u64],
}

impl Clearing<'_> {
    /// Returns which part of this record is cleared.
    pub(super) fn of(&self, record: &Record<'_>) -> Option<ClearedPart> {
        let (clear, position) = (self.clear?, record.position());
        if position >= self.results.max(self.media) || self.pinned.binary_search(&position).is_ok()
        {
            return None;
        }
        if position < self.results && clear.clears(record.message(), ClearedPart::Result) {
            return Some(ClearedPart::Result);
        }
        (position < self.media && clear.clears(record.message(), ClearedPart::Media))
            .then_some(ClearedPart::Media)
    }

    pub(super) fn copy(&self, record: &Record<'_>, what: ClearedPart) -> Arc<Message> {
        let template = self.clear.and_then(Clear::template);
        Arc::new(placeholder::copy(record.message(), record.position(), what, template))
    }
}

impl Composer {
    /// Clears old tool results: see [`Clear`]. Off by default.
    #[must_use]
    pub fn clear(mut self, clear: Clear) -> Self {
        self.clear = Some(clear);
        self
    }

    /// Sends tool results in full.
    #[must_use]
    pub fn no_clear(mut self) -> Self {
        self.clear = None;
        self
    }

    /// Returns what is cleared in a prompt of this snapshot. Pins are never cleared.
    pub(super) fn clearing<'a>(
        &'a self,
        snapshot: &Snapshot,
        extras: &'a Extras,
        count: &mut dyn FnMut(Record<'_>) -> Result<usize, Error>,
    ) -> Result<Clearing<'a>, NotReady> {
        let Some(clear) = &self.clear else { return Ok(Clearing::default()) };
        let mut before = |what| self.boundary(clear, snapshot, extras, what, count);
        let results = before(ClearedPart::Result)?;
        let media = before(ClearedPart::Media)?;
        let pinned = extras.pinned.members();
        Ok(Clearing { clear: Some(clear), results, media, pinned })
    }
}

const READ_BACK: &str = "read_back";

/// The tool of OpenAI's Responses that loads definitions of tools.
const TOOL_SEARCH: &str = "tool_search";
const KEEP: usize = 3;
/// See `examples/replay.rs` for what other steps cost.
const STEP: u64 = 32;
/// A placeholder for a shorter result would hardly save anything.
const LONGER_THAN: usize = 120;
