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

use std::sync::Arc;

use crate::composed::Prompt;
use crate::error::Result;
use crate::message::Message;
use crate::record::Snapshot;
use crate::truncate::Truncate;
use crate::window::{Opening, Reach, ToolGroups, Window, whole_groups};
use assemble::Assembly;

/// The configuration of a prompt, and the function that composes it.
///
/// Every setting is a method that returns the composer again, so settings are chained or changed
/// one by one, at any time.
#[derive(Clone, Debug, Default)]
pub struct Composer {
    system: Option<Arc<Message>>,
    window: Window,
    truncate: Option<Truncate>,
    tool_groups: ToolGroups,
    placement: Placement,
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
        self.window = window;
        self
    }

    /// Sends the last `n` messages: short for `window(Window::last(n))`.
    pub fn max_messages(&mut self, n: usize) -> &mut Self {
        self.window(Window::last(n))
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

    /// How many of the newest records a first read should ask for.
    pub fn first_read(&self) -> usize {
        self.window.first_read()
    }

    /// Composes a prompt from a snapshot of the newest records, or says how many more it takes.
    ///
    /// # Errors
    ///
    /// [`ErrorKind::Truncate`](crate::ErrorKind::Truncate) where a processor failed, and
    /// [`ErrorKind::ToolGroup`](crate::ErrorKind::ToolGroup) with [`ToolGroups::Strict`].
    pub fn compose(
        &self,
        snapshot: &Snapshot,
        temporaries: &[Arc<Message>],
    ) -> Result<Composition> {
        let opening = match self.opening(snapshot) {
            Reach::Found(opening) => opening,
            Reach::ReadMore(n) => return Ok(Composition::ReadMore(n)),
        };
        let mut assembly = Assembly::new(self, snapshot);
        assembly.system(temporaries);
        assembly.history(opening)?;
        assembly.temporaries(temporaries)?;
        Ok(Composition::Ready(assembly.finish()))
    }

    /// Composes a prompt from a snapshot that holds all there is.
    ///
    /// # Errors
    ///
    /// As [`compose`](Self::compose).
    pub fn compose_all(&self, snapshot: &Snapshot, temporaries: &[Arc<Message>]) -> Result<Prompt> {
        match self.compose(snapshot, temporaries)? {
            Composition::Ready(prompt) => Ok(prompt),
            Composition::ReadMore(_) => {
                let whole = Snapshot { start: snapshot.oldest(), ..snapshot.clone() };
                self.compose_all(&whole, temporaries)
            }
        }
    }

    fn opening(&self, snapshot: &Snapshot) -> Reach<Opening> {
        let opening = match self.window.opening(snapshot) {
            Reach::Found(opening) if self.tool_groups != ToolGroups::Off => opening,
            other => return other,
        };
        match whole_groups(snapshot, opening.start, self.window.is_stable()) {
            Reach::Found(start) => {
                let parted = start.saturating_sub(opening.start);
                Reach::Found(Opening { start, parted, ..opening })
            }
            Reach::ReadMore(n) => Reach::ReadMore(n),
        }
    }
}
