//! Counting tokens.
//!
//! A [`TokenCounter`] counts the tokens of a text or a message. Any closure from `&str` to a number
//! is one. [`Estimate`] needs no vocabulary and is close enough to plan with; the exact counters
//! are behind features: `bpe` for OpenAI's vocabularies and `tokenizers` for a Hugging Face
//! `tokenizer.json`.
//!
//! ```
//! use memory_prompt::Message;
//! use memory_prompt::token::{Estimate, TokenCounter};
//!
//! assert_eq!(Estimate.count_text("How far is the moon?")?, 6);
//! // With the 4 of the message itself:
//! assert_eq!(Estimate.count(&Message::user("How far is the moon?"))?, 10);
//!
//! let words = |text: &str| text.split_whitespace().count();
//! assert_eq!(words.count_text("How far is the moon?")?, 5);
//! # Ok::<(), memory_prompt::Error>(())
//! ```

#[cfg(feature = "bpe")]
mod bpe;
mod estimate;
#[cfg(feature = "tokenizers")]
mod hugging_face;
mod message;

use std::sync::Arc;

#[cfg(feature = "bpe")]
pub use bpe::Bpe;
pub use estimate::Estimate;
#[cfg(feature = "tokenizers")]
pub use hugging_face::HuggingFace;
pub use message::{Overhead, media_tokens};
pub(crate) use message::{PICTURE, count_by_parts};

use crate::error::Result;
use crate::message::{Message, Part};
use crate::text::floor_char_boundary;
use crate::tool::Tool;

/// A counter of the tokens of texts and messages.
///
/// Only [`count_text`](Self::count_text) is required. A closure `Fn(&str) -> usize` is a counter,
/// and so is an `Arc` of a counter; a counter that can fail is a type of its own.
///
/// # Contract
///
/// - A text has the same count each time. A count is remembered, and the text is not counted again.
/// - The count of a text is at most [`SEAM`] less than that of its beginning: a tokenizer may cut
///   the end of a beginning in another way than within the whole text.
/// - Any number is a legal count. All sums here saturate, so `usize::MAX` means "more than any
///   budget".
///
/// # Example
///
/// A counter for a model whose messages cost more and whose images cost a fixed price:
///
/// ```
/// use memory_prompt::message::{Media, Part};
/// use memory_prompt::token::{Estimate, Overhead, TokenCounter};
/// use memory_prompt::{Message, Result};
///
/// struct House;
///
/// impl TokenCounter for House {
///     fn count_text(&self, text: &str) -> Result<usize> {
///         Estimate.count_text(text)
///     }
///
///     fn count_media(&self, _: &Part) -> Result<usize> {
///         Ok(258)
///     }
///
///     fn overhead(&self) -> Overhead {
///         let mut overhead = Overhead::default();
///         overhead.message = 10;
///         overhead
///     }
/// }
///
/// let picture = Part::Image(Media::base64("image/png", "iVBORw0KGgo="));
/// assert_eq!(House.count(&Message::user([picture]))?, 10 + 258);
/// # Ok::<(), memory_prompt::Error>(())
/// ```
pub trait TokenCounter: Send + Sync {
    /// Returns the number of tokens of this text, alone.
    ///
    /// # Errors
    ///
    /// Any error of the counter, preferably as [`ErrorKind::Count`](crate::ErrorKind::Count).
    fn count_text(&self, text: &str) -> Result<usize>;

    /// Returns the number of tokens of this text, or `None` if that is more than `limit`.
    ///
    /// It agrees with `count_text(text)? <= limit`, but its cost depends on the limit and not on
    /// the text: if the text is long for the limit, a beginning of it is counted first, and a
    /// longer one only if that does not settle it. A counter that can stop by itself overrides
    /// this.
    ///
    /// ```
    /// use memory_prompt::token::TokenCounter;
    ///
    /// let characters = |text: &str| text.chars().count();
    /// assert_eq!(characters.fits("moon", 4)?, Some(4));
    /// assert_eq!(characters.fits("moon", 3)?, None);
    /// # Ok::<(), memory_prompt::Error>(())
    /// ```
    ///
    /// # Errors
    ///
    /// Those of [`count_text`](Self::count_text).
    fn fits(&self, text: &str, limit: usize) -> Result<Option<usize>> {
        // Nearly all texts that fit have at most 8 bytes a token, and are counted at once; longer
        // ones are counted piece by piece.
        let mut len = limit.saturating_mul(8).saturating_add(256);
        while len < text.len() {
            let beginning = &text[..floor_char_boundary(text, len)];
            if self.count_text(beginning)? > limit.saturating_add(SEAM) {
                return Ok(None);
            }
            len = len.saturating_mul(4);
        }
        let tokens = self.count_text(text)?;
        Ok((tokens <= limit).then_some(tokens))
    }

    /// Returns the number of tokens of this message: its text, names, tool calls, reasoning and
    /// media, and the [overhead](Self::overhead) of a message.
    ///
    /// - A tool call counts its name and its arguments, as they are written; a result its tool's
    ///   name. Call ids, attributes and fields that this version does not know count nothing.
    /// - Reasoning counts its text. If a provider shows none, its signature counts instead, a token
    ///   for every 5 bytes.
    /// - Media count what [`count_media`](Self::count_media) says, and never as text.
    /// - A [custom](Message::Custom) message counts the JSON of its fields; one that has only
    ///   attributes is not sent and counts nothing.
    ///
    /// ```
    /// use memory_prompt::token::TokenCounter;
    /// use memory_prompt::{Message, ToolCall};
    ///
    /// let words = |text: &str| text.split_whitespace().count();
    /// assert_eq!(words.count(&Message::user("good morning"))?, 4 + 2);
    ///
    /// let call = ToolCall::new("call_1", "weather", r#"{"city": "Oslo"}"#);
    /// assert_eq!(words.count(&Message::ai_calls([call]))?, 4 + 8 + 1 + 2);
    /// # Ok::<(), memory_prompt::Error>(())
    /// ```
    ///
    /// # Errors
    ///
    /// Those of [`count_text`](Self::count_text) and [`count_media`](Self::count_media).
    fn count(&self, message: &Message) -> Result<usize> {
        count_by_parts(self, message)
    }

    /// Returns the number of tokens of a part that is not text: [`media_tokens`], unless
    /// overridden. Once stored, media that the memory keeps beside its records come as
    /// [`Source::Reference`](crate::message::Source::Reference), with their size and no bytes.
    ///
    /// ```
    /// use memory_prompt::message::{Media, Part};
    /// use memory_prompt::token::{Estimate, TokenCounter};
    ///
    /// let picture = Part::Image(Media::url("https://example.org/cat.png"));
    /// assert_eq!(Estimate.count_media(&picture)?, 1_600);
    /// # Ok::<(), memory_prompt::Error>(())
    /// ```
    ///
    /// # Errors
    ///
    /// Any error of the counter.
    fn count_media(&self, part: &Part) -> Result<usize> {
        Ok(media_tokens(part))
    }

    /// Returns the number of tokens of the definitions of these tools. The default counts their
    /// JSON in the form that most providers use.
    ///
    /// For a budget the composer passes in the tools as they are sent: with the names and the JSON
    /// of the [provider of the prompt](crate::MemoryPrompt::for_provider).
    ///
    /// ```
    /// use memory_prompt::Tool;
    /// use memory_prompt::token::{Estimate, TokenCounter};
    ///
    /// let weather = Tool::new("weather", "The weather of a city.");
    /// assert_eq!(Estimate.count_tools(&[weather])?, 32);
    /// # Ok::<(), memory_prompt::Error>(())
    /// ```
    ///
    /// # Errors
    ///
    /// Those of [`count_text`](Self::count_text).
    fn count_tools(&self, tools: &[Tool]) -> Result<usize> {
        tools.iter().try_fold(0_usize, |sum, tool| {
            Ok(sum.saturating_add(self.count_text(&tool.to_json())?))
        })
    }

    /// Returns the tokens that messages cost in addition to their content; by default
    /// [this](Overhead::default).
    ///
    /// ```
    /// use memory_prompt::token::{Estimate, TokenCounter};
    ///
    /// assert_eq!(Estimate.overhead().message, 4);
    /// ```
    fn overhead(&self) -> Overhead {
        Overhead::default()
    }
}

/// The number of tokens by which the beginning of a text may count more than the whole text.
///
/// Byte-pair encoding needs a handful; see the [contract](TokenCounter#contract).
///
/// ```
/// assert_eq!(memory_prompt::token::SEAM, 16);
/// ```
pub const SEAM: usize = 16;

impl<F> TokenCounter for F
where
    F: Fn(&str) -> usize + Send + Sync,
{
    fn count_text(&self, text: &str) -> Result<usize> {
        Ok(self(text))
    }
}

/// There are no impls for `&T` and `Box<T>`: those of closures are closures, and so are counters
/// already.
#[deny(clippy::missing_trait_methods)] // keeps the early stop of the counter inside
impl<T: TokenCounter + ?Sized> TokenCounter for Arc<T> {
    fn count_text(&self, text: &str) -> Result<usize> {
        T::count_text(self, text)
    }

    fn fits(&self, text: &str, limit: usize) -> Result<Option<usize>> {
        T::fits(self, text, limit)
    }

    fn count(&self, message: &Message) -> Result<usize> {
        T::count(self, message)
    }

    fn count_media(&self, part: &Part) -> Result<usize> {
        T::count_media(self, part)
    }

    fn count_tools(&self, tools: &[Tool]) -> Result<usize> {
        T::count_tools(self, tools)
    }

    fn overhead(&self) -> Overhead {
        T::overhead(self)
    }
}
