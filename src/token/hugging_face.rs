//! The exact counter of any tokenizer in a `tokenizer.json`.

use std::fmt;
use std::path::Path;

use tokenizers::Tokenizer;

use super::TokenCounter;
use crate::error::{Error, ErrorKind, Result};

/// An exact counter with a Hugging Face `tokenizer.json`, which most open models have. Feature
/// `tokenizers`.
///
/// It counts the text itself: special tokens that a template would add around it are not counted
/// (they are [`Overhead`](super::Overhead)), and truncation and padding of the file are switched
/// off. Nothing is downloaded.
///
/// ```
/// use memory_prompt::token::{HuggingFace, TokenCounter};
///
/// let json = br#"{
///     "pre_tokenizer": {"type": "Whitespace"},
///     "model": {"type": "WordLevel", "vocab": {"[UNK]": 0, "hello": 1}, "unk_token": "[UNK]"}
/// }"#;
/// let counter = HuggingFace::from_bytes(json)?;
/// assert_eq!(counter.count_text("hello, moon")?, 3);
/// # Ok::<(), memory_prompt::Error>(())
/// ```
#[derive(Clone)]
pub struct HuggingFace(Tokenizer);

impl HuggingFace {
    /// Reads a `tokenizer.json`.
    ///
    /// ```
    /// use memory_prompt::ErrorKind;
    /// use memory_prompt::token::HuggingFace;
    ///
    /// let error = HuggingFace::from_file("no/such/tokenizer.json").unwrap_err();
    /// assert_eq!(error.kind(), ErrorKind::Invalid);
    /// let text = "tokenizer: can't read a tokenizer from no/such/tokenizer.json";
    /// assert_eq!(error.to_string(), text);
    /// ```
    ///
    /// # Errors
    ///
    /// [`ErrorKind::Invalid`] if the file can't be read, or is not a tokenizer.
    pub fn from_file(path: impl AsRef<Path>) -> Result<Self> {
        let path = path.as_ref();
        let tokenizer = Tokenizer::from_file(path).map_err(|e| {
            let message = format!("can't read a tokenizer from {}", path.display());
            Error::invalid("tokenizer", message).with_source(e)
        })?;
        Self::whole(tokenizer)
    }

    /// Reads the content of a `tokenizer.json`.
    ///
    /// ```
    /// use memory_prompt::token::HuggingFace;
    ///
    /// let error = HuggingFace::from_bytes(b"{}").unwrap_err();
    /// assert_eq!(error.to_string(), "tokenizer: this is not a tokenizer.json");
    /// ```
    ///
    /// # Errors
    ///
    /// [`ErrorKind::Invalid`] if this is not a tokenizer.
    pub fn from_bytes(json: &[u8]) -> Result<Self> {
        let tokenizer = Tokenizer::from_bytes(json).map_err(|e| {
            Error::invalid("tokenizer", "this is not a tokenizer.json").with_source(e)
        })?;
        Self::whole(tokenizer)
    }

    /// Switches truncation and padding off. Many files ask for at most 512 tokens, and for padding
    /// up to them: then the count is always 512.
    fn whole(mut tokenizer: Tokenizer) -> Result<Self> {
        tokenizer.with_truncation(None).map_err(|e| {
            Error::invalid("tokenizer", "truncation can't be switched off").with_source(e)
        })?;
        tokenizer.with_padding(None);
        Ok(Self(tokenizer))
    }
}

impl TokenCounter for HuggingFace {
    fn count_text(&self, text: &str) -> Result<usize> {
        let encoding = self.0.encode_fast(text, false).map_err(|e| {
            Error::new(ErrorKind::Count, "tokenizer", "the text could not be cut into tokens")
                .with_source(e)
        })?;
        Ok(encoding.len())
    }
}

impl fmt::Debug for HuggingFace {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("HuggingFace").field("vocabulary", &self.0.get_vocab_size(true)).finish()
    }
}
