//! OpenAI Chat Completions, and compatible servers.
//!
//! [`messages`] is the `messages` of a request; [`answer`] reads a response and [`Stream`] a
//! streamed one; [`history`] reads the messages of a request that another program wrote.
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
//! A prompt that was composed [for a provider](crate::Provider) of this format is automatically
//! written as that provider wants it; other messages are with
//! [`for_provider`](Messages::for_provider). Other options for servers:
//!
//! | server | option |
//! |---|---|
//! | OpenAI's reasoning models | [`developer`](Messages::developer) |
//! | OpenRouter, `LiteLLM`, OpenAI's models with explicit caching | [`cache_prefix`](Messages::cache_prefix) |
//! | DeepSeek, Qwen, Moonshot, llama.cpp | [`reasoning_content`](Messages::reasoning_content) |
//! | vLLM, OpenRouter, Groq | [`reasoning`](Messages::reasoning) |
//! | servers whose `content` is always a string | [`flat_text`](Messages::flat_text) |
//! | Mistral's models up to Large 2407 | [`calls_alone`](Messages::calls_alone) |
//!
//! When reading, all of these are recognised without options.
//!
//! # How messages are written
//!
//! - A user message of plain text is a string, parts are a list. Base64 data become a `data:` URL;
//!   a file stored at the provider is named by its id. OpenAI takes only PDF as data: any other
//!   text file is sent as text, and a placeholder replaces the others. The
//!   [row](crate::provider::Row::files) of another server says what that takes.
//! - Audio is `wav` or `mp3`; audio that the model spoke (a part with an id) becomes its
//!   transcript, and is left out without one, unless the server lists
//!   [`Audio`](crate::provider::PrivateField::Audio): then it is named by its id.
//! - Several texts of an answer or a result are a list for a server that takes cache marks, and one
//!   string with line breaks for any other, since many take no list there.
//! - A refusal is a text, so that it is seen; it is marked in the part's `extra` and is sent back
//!   as a refusal.
//! - A call of a custom tool (free text instead of JSON) is a [`ToolCall`](crate::ToolCall) with
//!   that text as its arguments, marked in its `extra`. It becomes a function's call for a server
//!   that does not list [`Custom`](crate::provider::PrivateField::Custom). The deprecated
//!   `function_call` and its `function` messages become tool calls and results with an id made from
//!   their position.
//! - Fields unknown to this version are kept under `openai` in the part's or the call's `extra`, or
//!   for a message under [`ATTRIBUTE`] in its attributes. Only this format writes them again, for a
//!   provider that lists them ([`PrivateFields`](crate::provider::PrivateFields)), or for any
//!   provider in a [verbatim](Messages::verbatim) view. `annotations` are kept and not written,
//!   since no request takes them.
//! - A message of an unknown role becomes a [`CustomMessage`](crate::message::CustomMessage).
//!
//! # What is lost
//!
//! On the way to the provider:
//! - Custom messages, and attributes other than [`ATTRIBUTE`].
//! - Video, images by file id, files by URL, audio in other encodings and media in a tool result: a
//!   text such as `[video: not supported by this format]` replaces them. Media in an answer are
//!   left out. [`strict`](Messages::strict) makes each of these an error.
//! - Reasoning, unless an option asks for it. Several reasoning parts become one, and there is no
//!   place for signatures.
//! - The order of text and tool calls within one answer: the text comes first.
//! - Whether a tool result is an error, the tool's name in it (reading finds it again by the call's
//!   id), and the type or name of media, if the format has no place for it.
//! - The [`detail`](crate::message::Media::detail) of a picture, if it is not `auto`, `low`, `high`
//!   or `original` (`losses` lists it).
//! - Empty arguments become `{}`, and a file without a name is called `file.pdf`.
//! - Characters that OpenAI refuses in a `name` (spaces, `<`, `|`, `\`, `/`, `>`): each becomes
//!   `_`.
//!
//! On the way back, also: whether a system message was `system` or `developer`, and its division
//! into parts (they are joined with an empty line); an empty list of parts. The other fields of a
//! response are in its [`metadata`](crate::wire::Answer::metadata), and are not kept with the
//! message, except its sources.

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

/// The attribute in which a message keeps fields that only this format knows.
pub const ATTRIBUTE: &str = "wire:openai";

const FORMAT: &str = "openai";

/// The `messages` of a request: serialise it, or put it into `json!`.
///
/// Nothing is copied. A placeholder replaces what the format can't express;
/// [`strict`](Messages::strict) refuses it instead. Serialising fails only if a message has a
/// [reference](crate::message::MediaReference) instead of media.
pub fn messages(prompt: &Prompt) -> Messages<'_> {
    Messages::of_prompt(prompt)
}

/// A view of messages that serialises as the `messages` of a Chat Completions request.
///
/// [`strict`](Messages::strict) ignores reasoning, which is sent only if an option asks for it, and
/// text that [`calls_alone`](Messages::calls_alone) leaves out; `losses` lists both.
pub type Messages<'a> = View<'a, Options>;

/// The options of this format; they come from a [`Row`](crate::provider::Row).
#[derive(Clone, Copy, Debug, Default)]
pub struct Options(());

impl Messages<'_> {
    /// Calls the system message `developer`, like OpenAI's reasoning models. Other servers often
    /// know only `system`.
    #[must_use]
    pub fn developer(mut self) -> Self {
        self.terms.row.developer = true;
        self
    }

    /// Writes reasoning as `reasoning_content`, as DeepSeek and many others do.
    ///
    /// DeepSeek answers 400 if an answer with tool calls comes back without the field, so such an
    /// answer always has it, even if its reasoning is empty.
    #[must_use]
    pub fn reasoning_content(mut self) -> Self {
        self.terms.row.reasoning = Some(ReasoningField::ReasoningContent);
        self
    }

    /// Writes reasoning as `reasoning`, as vLLM and OpenRouter do, and OpenRouter's
    /// `reasoning_details` as they were read.
    #[must_use]
    pub fn reasoning(mut self) -> Self {
        self.terms.row.reasoning = Some(ReasoningField::Reasoning);
        self
    }

    /// Joins a list of only texts into one string, with line breaks, for servers that take no list.
    /// Other fields of these texts are left out.
    #[must_use]
    pub fn flat_text(mut self) -> Self {
        self.terms.row.flat_text = true;
        self
    }

    /// Leaves out the text of an answer with calls, for models that refuse it.
    ///
    /// `mistral-common`, which Mistral's servers use to check requests, wants "either content or
    /// `tool_calls`, but not both" for models with a tokenizer of version 3 or earlier: the first
    /// 7B, Nemo, Small 2409, Large 2407. Their later models take both.
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
