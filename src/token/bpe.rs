//! The exact counter of OpenAI's vocabularies.

use std::fmt;

use bpe_openai::Tokenizer;

use super::TokenCounter;
use crate::error::Result;

/// An exact counter with one of OpenAI's vocabularies. Feature `bpe`.
///
/// The vocabulary is compiled in, and unpacked when the process first uses it. A special token in a
/// text (`<|endoftext|>`) counts as ordinary text.
///
/// ```
/// use memory_prompt::token::{Bpe, TokenCounter};
///
/// assert_eq!(Bpe::o200k().count_text("你好，世界")?, 3);
/// assert_eq!(Bpe::cl100k().count_text("你好，世界")?, 6);
/// # Ok::<(), memory_prompt::Error>(())
/// ```
#[derive(Clone, Copy)]
pub struct Bpe {
    name: &'static str,
    tokenizer: &'static Tokenizer,
}

impl Bpe {
    /// Returns the counter of `o200k_base`: GPT-4o and what came after it.
    ///
    /// ```
    /// use memory_prompt::Message;
    /// use memory_prompt::token::{Bpe, TokenCounter};
    ///
    /// assert_eq!(Bpe::o200k().count(&Message::user("hello world"))?, 4 + 2);
    /// # Ok::<(), memory_prompt::Error>(())
    /// ```
    pub fn o200k() -> Self {
        Self { name: "o200k", tokenizer: bpe_openai::o200k_base() }
    }

    /// Returns the counter of `cl100k_base`: GPT-4, GPT-3.5 and the third embedding models.
    ///
    /// ```
    /// use memory_prompt::token::{Bpe, TokenCounter};
    ///
    /// assert_eq!(Bpe::cl100k().fits("hello world", 1)?, None);
    /// # Ok::<(), memory_prompt::Error>(())
    /// ```
    pub fn cl100k() -> Self {
        Self { name: "cl100k", tokenizer: bpe_openai::cl100k_base() }
    }
}

impl TokenCounter for Bpe {
    fn count_text(&self, text: &str) -> Result<usize> {
        Ok(self.tokenizer.count(text))
    }

    fn fits(&self, text: &str, limit: usize) -> Result<Option<usize>> {
        // The tokenizer stops by itself, but only between words, and a word may be megabytes.
        if text.len() / LONGEST > limit {
            return Ok(None);
        }
        Ok(self.tokenizer.count_till_limit(&self.tokenizer.normalize(text), limit))
    }
}

/// The bytes of the longest token of either vocabulary: 128 blanks.
const LONGEST: usize = 128;

impl fmt::Debug for Bpe {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_tuple("Bpe").field(&self.name).finish()
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn no_token_is_longer_than_said() {
        for Bpe { tokenizer, .. } in [Bpe::o200k(), Bpe::cl100k()] {
            let tokens = 0..u32::try_from(tokenizer.bpe.num_tokens()).unwrap();
            let longest = tokens.map(|token| tokenizer.bpe.token_len(token)).max();
            assert_eq!(longest, Some(LONGEST));
        }
    }
}
