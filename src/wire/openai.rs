//! OpenAI Chat Completions, and the servers that speak it.
//!
//! [`messages`] is the `messages` of a request; [`answer`] reads a response and [`Stream`] a
//! streamed one; [`history`] reads the messages of a request that somebody else wrote.
//!
//! ```
//! use memory_prompt::{DefaultChatMemory, MemoryPrompt, Message, wire};
//! use serde_json::json;
//!
//! let mut prompt = MemoryPrompt::new(DefaultChatMemory::new()).system("Be brief.");
//! prompt.add(Message::user("hi"))?;
//! let built = prompt.build()?;
//!
//! let body = json!({"model": "m", "messages": wire::openai::messages(&built)});
//! assert_eq!(body["messages"], json!([
//!     {"role": "system", "content": "Be brief."},
//!     {"role": "user", "content": "hi"},
//! ]));
//!
//! let answer = r#"{"choices": [{"message": {"role": "assistant", "content": "Hello."}}]}"#;
//! prompt.add(wire::openai::answer(answer)?)?;
//! # Ok::<(), memory_prompt::Error>(())
//! ```
//!
//! # Compatible servers
//!
//! A prompt that was composed [for a provider](crate::Provider) of this format is written as that
//! one takes it, without being asked; so are other messages with
//! [`for_provider`](Messages::for_provider). What else a server may want:
//!
//! | server | what to ask for |
//! |---|---|
//! | OpenAI's reasoning models | [`developer`](Messages::developer) |
//! | OpenAI's models with explicit prompt caching | [`cache_prefix`](Messages::cache_prefix) |
//! | DeepSeek, Qwen, Moonshot, llama.cpp | [`reasoning_content`](Messages::reasoning_content) |
//! | vLLM, OpenRouter, Groq | [`reasoning`](Messages::reasoning) |
//! | servers whose `content` is always a string | [`flat_text`](Messages::flat_text) |
//! | Mistral's models up to Large 2407 | [`calls_alone`](Messages::calls_alone) |
//!
//! All of these are read without being asked for.
//!
//! # What stands for what
//!
//! - A user message of plain text is a string, parts are a list. Base64 data becomes a `data:` URL;
//!   a file that the provider holds is named by its id. OpenAI reads PDF alone here; the format
//!   could carry any file, so any is sent.
//! - Audio is `wav` or `mp3`; audio that the model spoke (a part with an id) is named by its id.
//! - Several texts of an answer or a result are a list for a server that takes cache marks, and one
//!   string, with line breaks, for any other: many take no list there.
//! - A refusal is a text, so that it is seen; it is marked in the part's `extra` and goes back as a
//!   refusal.
//! - A call of a custom tool (free text in place of JSON) is a [`ToolCall`](crate::ToolCall) with
//!   that text as its arguments, marked in its `extra`. The deprecated `function_call` and its
//!   `function` messages become tool calls and results under an id made up from their position.
//! - What this version does not know is kept under `openai` in the part's or the call's `extra`, or
//!   for a message under [`ATTRIBUTE`] in its attributes, and is written again by this format
//!   alone, for a provider that lists it ([`PrivateFields`](crate::provider::PrivateFields)), or
//!   for any that a [verbatim](Messages::verbatim) view is for; `annotations` are kept and not
//!   written, since no request takes them.
//! - A message of a role that is not known becomes a
//!   [`CustomMessage`](crate::message::CustomMessage).
//!
//! # What is lost
//!
//! On the way to the provider:
//! - Custom messages, and attributes other than [`ATTRIBUTE`].
//! - Video, images by file id, files by URL, audio in other encodings and media in a tool result: a
//!   text such as `[video: not supported by this format]` stands for them. Media in an answer are
//!   left out. [`strict`](Messages::strict) makes each of these an error.
//! - Reasoning, unless asked for. Several stretches of it become one, and signatures have no place.
//! - The order of text and tool calls within one answer: the text comes first.
//! - Whether a tool result is an error, the tool's name in it (it is found again by the call's id),
//!   and a media's type or name where it has none in the format.
//! - Arguments that are empty become `{}`, and a file without a name is called `file.pdf`.
//! - Characters that OpenAI refuses in a `name` (blanks, `<`, `|`, `\`, `/`, `>`): `_` stands for
//!   each.
//!
//! On the way back, besides: whether a system message was `system` or `developer`, and its division
//! into parts (they are joined with an empty line); the parts of a list without any. What
//! else a response says is told by its [`metadata`](crate::wire::Answer::metadata), and not kept
//! with the message, but for its sources.

mod calls;
mod decode;
mod encode;
mod merge;
mod stream;

use crate::prompt::Prompt;
use crate::provider::ReasoningField;

pub use decode::{answer, history};
pub use stream::Stream;

use super::view::View;

/// The attribute under which a message keeps fields that only this format knows.
pub const ATTRIBUTE: &str = "wire:openai";

const FORMAT: &str = "openai";

/// The `messages` of a request: serialise it, or put it into `json!`.
///
/// Nothing is copied and serialising never fails: a placeholder stands for what the format can't
/// express. [`strict`](Messages::strict) refuses it instead.
pub fn messages(prompt: &Prompt) -> Messages<'_> {
    Messages::of_prompt(prompt)
}

/// A view of messages that serialises as the `messages` of a Chat Completions request.
///
/// [`strict`](Messages::strict) looks neither at reasoning, which is sent where it was asked for,
/// nor at what [`calls_alone`](Messages::calls_alone) leaves out: `losses` tells both.
pub type Messages<'a> = View<'a, Options>;

/// The options that are this format's alone: they are those of a [`Row`](crate::provider::Row).
#[derive(Clone, Copy, Debug, Default)]
pub struct Options(());

impl Messages<'_> {
    /// Calls the system message `developer`, as OpenAI's reasoning models do. Other servers often
    /// know only `system`.
    #[must_use]
    pub fn developer(mut self) -> Self {
        self.terms.row.developer = true;
        self
    }

    /// Writes reasoning as `reasoning_content`, as DeepSeek and many others call it.
    ///
    /// DeepSeek answers 400 where an answer with tool calls comes back without the field, so such
    /// an answer has it even when its reasoning is empty.
    #[must_use]
    pub fn reasoning_content(mut self) -> Self {
        self.terms.row.reasoning = Some(ReasoningField::ReasoningContent);
        self
    }

    /// Writes reasoning as `reasoning`, as vLLM and OpenRouter call it, and OpenRouter's
    /// `reasoning_details` as they were read.
    #[must_use]
    pub fn reasoning(mut self) -> Self {
        self.terms.row.reasoning = Some(ReasoningField::Reasoning);
        self
    }

    /// Joins a list that holds nothing but texts into one string, with line breaks, for servers
    /// that take no list. What stood beside these texts is left out.
    #[must_use]
    pub fn flat_text(mut self) -> Self {
        self.terms.row.flat_text = true;
        self
    }

    /// Leaves out what the model says beside its calls, for models that refuse it.
    ///
    /// `mistral-common`, by which Mistral's servers check a request, wants "either content or
    /// `tool_calls`, but not both" for models whose tokenizer is of version 3 or earlier:
    /// the first 7B, Nemo, Small 2409, Large 2407. Their later models take both.
    ///
    /// ```
    /// use memory_prompt::message::AiMessage;
    /// use memory_prompt::wire::openai::Messages;
    /// use memory_prompt::{Message, ToolCall};
    ///
    /// let answer = AiMessage::new("Let me see.").with_tool_call(ToolCall::new("c1", "look", "{}"));
    /// let messages = [Message::from(answer)];
    /// let sent = serde_json::to_value(Messages::of(&messages).calls_alone())?;
    /// assert!(sent[0]["content"].is_null());
    /// assert_eq!(sent[0]["tool_calls"][0]["id"], "c1");
    /// # Ok::<(), serde_json::Error>(())
    /// ```
    #[must_use]
    pub fn calls_alone(mut self) -> Self {
        self.terms.row.calls_alone = true;
        self
    }
}
