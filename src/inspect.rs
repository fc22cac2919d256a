//! Shows prompts: each message with its position, origin and tokens, all that was left out and why,
//! and the part that a provider's cache holds.
//!
//! An [outline](Outline) is for a terminal, and shows the beginnings of the texts. A page, with the
//! feature `inspect`, shows all of them; of one that was cut both ends, and between them a mark in
//! the place where so many bytes are not sent. It is one file, which fetches no address, runs no
//! script, and reads well in print, in the dark, with a keyboard and with a screen reader.
//!
//! ```
//! # #[cfg(feature = "inspect")]
//! # {
//! use memory_prompt::{DefaultChatMemory, MemoryPrompt, Message};
//!
//! let mut prompt = MemoryPrompt::new(DefaultChatMemory::new()).system("Be brief.");
//! prompt.add(Message::user("What is <b>bold</b>?"))?;
//! let page = prompt.build()?.html();
//! assert!(page.contains("What is &lt;b&gt;bold&lt;/b&gt;?"));
//! # }
//! # Ok::<(), memory_prompt::Error>(())
//! ```

#[cfg(feature = "inspect")]
mod page;
mod rows;
mod terminal;
#[cfg(feature = "inspect")]
mod text;

#[cfg(feature = "inspect")]
use crate::prompt::Prompt;
#[cfg(feature = "inspect")]
use crate::wire::Usage;
#[cfg(feature = "inspect")]
use page::Page;

pub use terminal::Outline;

/// Collects the prompts of a conversation and shows them on one page, each beside the one before:
/// what a cache held of it, what was new, and what broke the prefix.
///
/// ```
/// use memory_prompt::inspect::Inspector;
/// use memory_prompt::{DefaultChatMemory, MemoryPrompt, Message};
///
/// let mut prompt = MemoryPrompt::new(DefaultChatMemory::new());
/// let mut inspector = Inspector::new();
/// for question in ["Where is Oslo?", "And Bergen?"] {
///     prompt.add(Message::user(question))?;
///     inspector.push(&prompt.build()?, None);
///     prompt.add(Message::ai("In Norway."))?;
/// }
/// std::fs::write(std::env::temp_dir().join("prompts.html"), inspector.html())?;
/// # Ok::<(), Box<dyn std::error::Error>>(())
/// ```
#[cfg(feature = "inspect")]
#[derive(Clone, Debug, Default)]
pub struct Inspector {
    prompts: Vec<(Prompt, Option<Usage>)>,
}

#[cfg(feature = "inspect")]
impl Inspector {
    /// Returns an inspector that has seen no prompt.
    #[must_use]
    pub fn new() -> Self {
        Self::default()
    }

    /// Adds a prompt that was sent, and what the provider counted for it where that is known.
    ///
    /// The prompt is shared, not copied.
    pub fn push(&mut self, prompt: &Prompt, usage: Option<&Usage>) -> &mut Self {
        self.prompts.push((prompt.clone(), usage.copied()));
        self
    }

    /// Writes the page.
    ///
    /// Tokens of single messages are [estimated](crate::token::Estimate); the total is that of the
    /// prompt's own budget where it has one.
    pub fn html(&self) -> String {
        let prompts = self.prompts.iter().map(|(prompt, usage)| (prompt, usage.as_ref()));
        Page::of(prompts).finish()
    }
}

#[cfg(feature = "inspect")]
impl Prompt {
    /// Writes a page that shows this prompt; [`Inspector`] shows several.
    pub fn html(&self) -> String {
        Page::of([(self, None)].into_iter()).finish()
    }
}
