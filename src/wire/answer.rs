//! The answer of a provider: a message, what it cost, and why it ended.

use serde_json::Value;

use super::common::At;
use super::metadata::{Beside, Metadata};
use super::refused::quoted;
use super::usage::Usage;
use crate::error::{Code, Error, ErrorKind, Result};
use crate::message::{AiMessage, AiPart, Message, Part, TextPart};
use crate::provider::{Provider, remember_origin};

/// The message that a model said, what it cost and why it stopped.
///
/// It converts to the [`Message`] for the memory: `prompt.add(answer)`.
#[derive(Clone, Debug, PartialEq, Eq)]
#[non_exhaustive]
pub struct Answer {
    /// The message of the model, with its reasoning and its calls.
    pub message: AiMessage,
    /// The token counts, as far as the provider reports them.
    pub usage: Usage,
    /// The reason why the answer ended.
    pub stop: Stop,
    /// The provider's own word for why it ended; `None` if there was none.
    pub stop_word: Option<String>,
    /// The fields of the answer other than its message.
    pub metadata: Metadata,
    /// The provider that answered: the one that the format is named after, unless
    /// [`given_by`](Self::given_by) sets another.
    pub provider: Provider,
}

/// The reason why an answer ended. The provider's own word for it is in
/// [`stop_word`](Answer::stop_word).
///
/// If nothing was said because the answer was [`Filtered`](Self::Filtered) or
/// [`Malformed`](Self::Malformed), reading it is an error of kind
/// [`Refused`](crate::ErrorKind::Refused). So is an answer that is empty, even without reasoning,
/// for an unknown reason. If the model itself had nothing to say, or a limit left no room for it,
/// the answer is empty.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
#[non_exhaustive]
pub enum Stop {
    /// The model had finished.
    End,
    /// The model has refused, in words: the whole text, or a part of it, is
    /// [the refusal](Answer::refusal). OpenAI's formats mark it; many providers send it as normal
    /// text.
    Refused,
    /// One of the request's stop sequences was generated.
    Sequence,
    /// The model waits for the results of the calls in the message. Providers have different words
    /// for this.
    Calls,
    /// The limit of tokens or the end of the context was reached: the text may break off, and the
    /// arguments of the last call may be incomplete.
    Length,
    /// The provider, or the model itself, withheld the rest: the text may break off.
    Filtered,
    /// The model wrote a call that the provider could not parse, which is left out.
    Malformed,
    /// The provider pauses: if the answer is sent back unchanged, it continues. A
    /// [turn](crate::Turn) does this by itself. The composer sends such an answer only at the end
    /// of the prompt, with an open call of a tool that Anthropic runs; if anything else follows
    /// before the result has arrived, the call is left out.
    Paused,
    /// The stream broke off, and this is what could be kept. Only a stream's `broken` returns this.
    Broken,
    /// No reason was given, or one that this version does not know.
    Unknown,
}

impl Answer {
    pub(super) fn new(
        provider: Provider,
        message: AiMessage,
        usage: Usage,
        word: Option<String>,
    ) -> Self {
        let word = word.filter(|word| is_word(word));
        let refuses = refusals(&message).next().is_some();
        let stop = Stop::of(word.as_deref(), message.has_tool_calls(), refuses);
        let metadata = Metadata::default();
        Self { message, usage, stop, stop_word: word, metadata, provider }
    }

    /// Adds the fields outside the message.
    pub(super) fn beside(mut self, beside: Beside) -> Self {
        let (format, is_said) = (self.provider.format(), !self.is_empty());
        (self.message, self.metadata) = beside.told(self.message, format, is_said);
        self
    }

    /// Returns the answer, unless nothing was said for a reason other than the model's own, or the
    /// provider failed.
    pub(super) fn checked(self, at: At) -> Result<Self> {
        let word = self.stop_word.as_deref().unwrap_or_default();
        let is_over = match self.stop {
            Stop::Filtered | Stop::Malformed => is_silent(&self.message),
            // The reason is neither the model nor a limit.
            Stop::Unknown if is_empty(&self.message) => !word.is_empty(),
            _ => is_failure(word),
        };
        if is_over { Err(stopped(at, word, self.stop != Stop::Filtered)) } else { Ok(self) }
    }

    /// Returns what is left of the answer of a broken stream.
    pub(super) fn broken(provider: Provider, message: AiMessage, usage: Usage) -> Self {
        // Unsigned reasoning can't be sent back: its end, with the signature, did not arrive.
        let is_unsigned =
            |part: &AiPart| matches!(part, AiPart::Reasoning(it) if it.signature.is_none());
        let message = message.without(is_unsigned).unwrap_or(message);
        Self { stop: Stop::Broken, ..Self::new(provider, message, usage, None) }
    }

    /// Returns the same answer, from another server with this format.
    ///
    /// ```
    /// use memory_prompt::{Provider, wire::openai};
    ///
    /// let answer = openai::answer(r#"{"role": "assistant", "content": "Bonjour."}"#)?;
    /// assert_eq!(answer.provider, Provider::OpenAi);
    /// assert_eq!(answer.given_by(Provider::Mistral).provider, Provider::Mistral);
    /// # Ok::<(), memory_prompt::Error>(())
    /// ```
    ///
    /// The message remembers the provider if it has fields that only that provider understands, so
    /// that they are sent back only to it. [`wire::answer`](fn@crate::wire::answer) does the same
    /// in one step.
    #[must_use]
    pub fn given_by(mut self, provider: Provider) -> Self {
        self.provider = provider;
        self.message = remember_origin(self.message, &provider.row());
        self
    }

    /// Returns whether nothing arrived, not even reasoning, so that there is nothing to store. The
    /// [`broken`](super::Stream::broken) answer of an HTML page, or of an empty body, is empty.
    ///
    /// ```
    /// use memory_prompt::wire::openai::Stream;
    ///
    /// let mut stream = Stream::new();
    /// assert!(stream.broken().is_empty());
    /// stream = Stream::new();
    /// stream.push(r#"{"choices": [{"delta": {"content": "Let me"}}]}"#)?;
    /// assert!(!stream.broken().is_empty());
    /// # Ok::<(), memory_prompt::Error>(())
    /// ```
    pub fn is_empty(&self) -> bool {
        is_empty(&self.message)
    }

    /// Returns the words with which the model refuses. `None` does not guarantee that it does not
    /// refuse, since many providers send a refusal as normal text.
    ///
    /// OpenAI's formats mark that text ([`Stop::Refused`]). Claude refuses with its stop reason,
    /// possibly in the middle of the text ([`Stop::Filtered`]).
    ///
    /// ```
    /// use memory_prompt::wire::{anthropic, openai};
    ///
    /// let gpt = r#"{"role": "assistant", "content": null, "refusal": "I can't help."}"#;
    /// assert_eq!(openai::answer(gpt)?.refusal().as_deref(), Some("I can't help."));
    /// let claude = r#"{"role": "assistant", "stop_reason": "refusal",
    ///     "content": [{"type": "text", "text": "I can't help."}]}"#;
    /// assert_eq!(anthropic::answer(claude)?.refusal().as_deref(), Some("I can't help."));
    /// assert_eq!(openai::answer(r#"{"role": "assistant", "content": "Hi."}"#)?.refusal(), None);
    /// # Ok::<(), memory_prompt::Error>(())
    /// ```
    pub fn refusal(&self) -> Option<String> {
        if self.stop_word.as_deref() == Some("refusal") {
            return Some(self.message.text().into_owned());
        }
        let words: Vec<_> = refusals(&self.message).collect();
        (!words.is_empty()).then(|| words.concat())
    }
}

impl From<Answer> for Message {
    fn from(answer: Answer) -> Self {
        Self::Ai(answer.message)
    }
}

impl Stop {
    pub(super) fn of(word: Option<&str>, has_calls: bool, refuses: bool) -> Self {
        let Some(word) = word else {
            return if has_calls { Self::Calls } else { Self::Unknown };
        };
        match Self::said_by(word) {
            // Many servers say `stop` even if there are calls.
            Self::End if has_calls => Self::Calls,
            Self::End if refuses => Self::Refused,
            // The intended call is missing.
            Self::Calls if !has_calls => Self::Malformed,
            stop => stop,
        }
    }

    fn said_by(word: &str) -> Self {
        let word = word.to_ascii_lowercase();
        // Google's OpenAI-compatible server adds a detail: `content_filter: SAFETY`.
        match word.split_once(": ").map_or(&*word, |(kind, _)| kind) {
            "stop" | "end_turn" | "completed" | "complete" | "eos" | "eos_token" => Self::End,
            "stop_sequence" => Self::Sequence,
            "tool_calls" | "tool_call" | "tool_use" | "function_call" => Self::Calls,
            "length"
            | "max_tokens"
            | "max_output_tokens"
            | "model_length"
            | "model_context_window_exceeded" => Self::Length,
            "content_filter"
            | "refusal"
            | "sensitive"
            | "guardrail_intervened"
            | "safety"
            | "model_armor"
            | "blocklist"
            | "prohibited_content"
            | "recitation"
            | "spii"
            | "language"
            | "image_safety"
            | "image_prohibited_content"
            | "image_recitation"
            | "image_other" => Self::Filtered,
            "function_call_filter"
            | "malformed_function_call"
            | "malformed_response"
            | "unexpected_tool_call"
            | "too_many_tool_calls"
            | "missing_thought_signature" => Self::Malformed,
            "pause_turn" | "compaction" => Self::Paused,
            _ => Self::Unknown,
        }
    }
}

/// Returns how severe a stop word is, if a provider sends several: nothing wrong, to be continued,
/// cut off, incomplete, failed.
pub(super) fn weight(word: &str) -> usize {
    const ASCENDING: [Stop; 8] = [
        Stop::End,
        Stop::Sequence,
        Stop::Calls,
        // An unknown word may mean that something is wrong.
        Stop::Unknown,
        Stop::Paused,
        Stop::Length,
        Stop::Malformed,
        Stop::Filtered,
    ];
    let stop = Stop::said_by(word);
    let failure = is_failure(word).then_some(ASCENDING.len());
    failure.or_else(|| ASCENDING.iter().position(|known| *known == stop)).unwrap_or_default()
}

/// Returns whether this is a stop word. Some servers write `""` or `"null"` into each chunk
/// (`SenseNova`, `MiniMax`, Hunyuan), and Google has a word for no reason.
pub(super) fn is_word(word: &str) -> bool {
    !matches!(word, "" | "null" | "FINISH_REASON_UNSPECIFIED")
}

/// Returns the stop word in a field, if there is one.
pub(super) fn stop_word(value: Option<Value>) -> Option<String> {
    match value {
        Some(Value::String(word)) if is_word(&word) => Some(word),
        _ => None,
    }
}

/// Returns the error of an answer that was stopped, or never begun, because of this word, which is
/// named if it is known.
pub(super) fn stopped(at: At, word: &str, retryable: bool) -> Error {
    const TOLD_AS_WELL: [&str; 5] =
        ["failed", "OTHER", "JAILBREAK", "NO_IMAGE", "BLOCK_REASON_UNSPECIFIED"];
    let is_known =
        Stop::said_by(word) != Stop::Unknown || is_failure(word) || TOLD_AS_WELL.contains(&word);
    let word = word.rsplit(": ").next().filter(|_| is_known).unwrap_or_default();
    let kind = ErrorKind::Refused { code: Code::of(word), status: None, retryable };
    at.of_kind(kind, format_args!("nothing was answered{}", quoted([word], None)))
}

/// Returns whether this word means that the provider failed: what it had said by then is
/// incomplete.
pub(super) fn is_failure(word: &str) -> bool {
    const WORDS: [&str; 6] =
        ["error", "network_error", "insufficient_system_resource", "abort", "aborted", "cancelled"];
    WORDS.contains(&word)
}

/// Returns the texts that are marked as a refusal.
fn refusals(message: &AiMessage) -> impl Iterator<Item = &str> {
    message.parts().iter().filter_map(|part| match part {
        AiPart::Content(Part::Text(text)) if is_refusal_text(text) => Some(&*text.text),
        _ => None,
    })
}

pub(super) fn is_refusal_text(text: &TextPart) -> bool {
    text.extra.values().any(|kept| kept["type"] == *"refusal")
}

/// Returns whether nothing at all has arrived, not even reasoning.
fn is_empty(message: &AiMessage) -> bool {
    message.as_text() == Some("") && message.attributes().is_empty()
}

/// Returns whether an answer has neither text nor calls.
fn is_silent(message: &AiMessage) -> bool {
    message.as_text().is_none_or(str::is_empty)
        && message.parts().iter().all(|part| matches!(part, AiPart::Reasoning(_)))
}
