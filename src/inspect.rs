//! Shows prompts: each message with its position, origin and tokens, everything that was left out
//! and why, and the part that a provider's cache has.
//!
//! An [outline](Outline) is for a terminal, and shows the beginnings of the texts. A page, with the
//! feature `inspect`, shows whole texts; for a cut text, both ends with a mark that says how many
//! bytes were not sent. The page is one file without scripts or external addresses, and works in
//! print, in dark mode, with a keyboard and with a screen reader.
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
mod inspector;
#[cfg(feature = "inspect")]
mod page;
mod rows;
mod terminal;

#[cfg(feature = "inspect")]
pub use inspector::Inspector;
pub use terminal::Outline;
