//! Wire formats: a [`Prompt`](crate::Prompt) as the JSON that a provider takes, and a provider's
//! answer as a [`Message`].
//!
//! | module | format | a request's |
//! |---|---|---|
//! | [`openai`] | OpenAI Chat Completions and compatible servers | `messages` |
//! | [`responses`] | OpenAI Responses | `instructions`, `input` |
//! | [`anthropic`] | Anthropic's Messages | `system`, `messages` |
//! | [`gemini`] | Google's `generateContent` | `systemInstruction`, `contents` |
//! | [`ollama`] | Ollama's `/api/chat` | `messages` |
//! | [`langchain4j`] | what LangChain4j stores for a Java application | (a stored history) |
//!
//! A [`Request`] is the whole body in the format of the provider that the prompt is for. It is
//! built from the parts of these modules, which all have the same parts (except that a stored
//! history has no answer and no stream):
//!
//! - a view that borrows from the prompt and serialises as the provider's list, so that it can be
//!   put into `json!` or a request's body without copying any text. The provider's options are
//!   methods of the view. [`Messages::of`](openai::Messages::of) makes a view of messages that are
//!   not in a prompt;
//! - `answer`, which reads a response into an [`Answer`]: the message for the memory, its cost, and
//!   the reason why it ended;
//! - `Stream`, which assembles a streamed response into that same answer, without a runtime, and
//!   returns events to show on the way;
//! - `history`, which reads the messages of a request that another program wrote. System messages
//!   at its beginning are joined into one; a later one stays in its place, and a memory to which
//!   all of them are appended keeps the last.
//!
//! ```
//! use memory_prompt::{DefaultChatMemory, MemoryPrompt, Message, wire};
//! use serde_json::json;
//!
//! let mut prompt = MemoryPrompt::new(DefaultChatMemory::new());
//! prompt.add(Message::user("What is the weather in Oslo?"))?;
//! let built = prompt.build()?;
//! let body = json!({"model": "m", "messages": wire::openai::messages(&built)});
//!
//! // The provider's answer goes into memory unchanged.
//! let response = r#"{"choices": [{"message": {"role": "assistant", "content": null, "tool_calls": [
//!     {"id": "call_1", "type": "function", "function": {"name": "weather", "arguments": "{}"}}]}}]}"#;
//! prompt.add(wire::openai::answer(response)?)?;
//! prompt.add(Message::tool("call_1", "weather", "sunny, 21 °C"))?;
//!
//! // The next model may be a different one.
//! let built = prompt.build()?;
//! let body = json!({"model": "n", "messages": wire::ollama::messages(&built)});
//! assert_eq!(body["messages"][2]["content"], "sunny, 21 °C");
//! # Ok::<(), memory_prompt::Error>(())
//! ```
//!
//! # Answers
//!
//! ```
//! use memory_prompt::{ErrorKind, wire::{Stop, anthropic}};
//!
//! let body = r#"{"role": "assistant", "content": [{"type": "text", "text": "Once upon a"}],
//!     "stop_reason": "max_tokens", "usage": {"input_tokens": 12, "output_tokens": 4}}"#;
//! let answer = anthropic::answer(body)?;
//! assert_eq!(answer.message.text(), "Once upon a");
//! assert_eq!((answer.stop, answer.stop_word.as_deref()), (Stop::Length, Some("max_tokens")));
//! assert_eq!(answer.usage.output, Some(4));
//!
//! // An error is not an answer, even with status 200.
//! let body = r#"{"type": "error", "error": {"type": "overloaded_error", "message": "Overloaded"}}"#;
//! let error = anthropic::answer(body).unwrap_err();
//! assert!(matches!(error.kind(), ErrorKind::Refused { retryable: true, .. }));
//! # Ok::<(), memory_prompt::Error>(())
//! ```
//!
//! Anything that is not an answer is an error, never an empty message: of kind
//! [`Refused`](crate::ErrorKind::Refused) if the provider answered with an error, failed, or
//! stopped before anything was said; [`Unfinished`](crate::ErrorKind::Unfinished) if the answer is
//! not there yet; [`Codec`](crate::ErrorKind::Codec) if it can't be read. An answer that was cut
//! short is still an answer, and its [`stop`](Answer::stop) says so. So is one in which the model
//! had nothing to say, as Claude ends some turns after a tool result, or for which a limit left no
//! room: it is empty, and its `stop` is [`Stop::End`] or [`Stop::Length`].
//!
//! # Streams
//!
//! [`Frames`] splits the bytes of a body into texts; `Stream` turns these into [`Event`]s to show,
//! and finally into the answer. Neither does I/O, so they fit into any loop that reads a body.
//!
//! ```
//! use memory_prompt::wire::{Event, Frames, Stop, openai};
//!
//! # let body: [&[u8]; 3] = [
//! #     b"data: {\"choices\":[{\"delta\":{\"content\":\"Hel\"}}]}\n",
//! #     b"\n: keep-alive\n\ndata: {\"choices\":[{\"delta\":{\"content\":\"lo.\"},\"finish_reason\":",
//! #     b"\"stop\"}]}\n\ndata: [DONE]\n\n"];
//! let mut frames = Frames::sse(); // or of a provider, like a `wire::Stream`
//! let mut stream = openai::Stream::new();
//! let mut shown = String::new();
//! for bytes in body {
//!     for data in frames.push(bytes) {
//!         for event in stream.push(&data?)? {
//!             if let Event::Text(piece) | Event::Refusal(piece) = event {
//!                 shown += &piece; // What was shown is what is stored.
//!             }
//!         }
//!     }
//! }
//! if let Some(data) = frames.finish()? {
//!     stream.push(&data)?;
//! }
//! let answer = stream.finish()?;
//! assert_eq!((shown.as_str(), &*answer.message.text()), ("Hello.", "Hello."));
//! # Ok::<(), memory_prompt::Error>(())
//! ```
//!
//! A stream ends only when its format says so; a stream that breaks off earlier is never treated as
//! complete. `broken` returns what can be kept of it: all text and the complete calls, but no
//! partial call, and no reasoning without its signature.
//!
//! ```
//! use memory_prompt::wire::{Stop, ollama};
//!
//! let mut stream = ollama::Stream::new();
//! stream.push(r#"{"message": {"content": "Hel"}, "done": false}"#)?;
//! let answer = if stream.has_ended() { stream.finish()? } else { stream.broken() };
//! assert_eq!((&*answer.message.text(), answer.stop), ("Hel", Stop::Broken));
//! assert!(!answer.is_empty()); // otherwise it is not an answer, and there is nothing to store
//! # Ok::<(), memory_prompt::Error>(())
//! ```
//!
//! If a proxy sends an HTML page or an empty body with status 200, nothing has arrived: then
//! [`is_empty`](Answer::is_empty) is true for the answer that `broken` returns.
//!
//! # What a format can't express
//!
//! Serialising never fails. A part that a provider has no place for (mostly video) becomes a text
//! such as `[video: not supported by this format]`. In an answer it is left out instead, since the
//! text would look like the model's own words; a [`CustomMessage`](crate::message::CustomMessage)
//! is left out too. `strict` on a view refuses all of this in advance, with an error of kind
//! [`Unsupported`](crate::ErrorKind::Unsupported) that names the message and the part. Each module
//! lists under *What is lost* what does not come back. Everything else does: `history` of a view's
//! JSON equals the messages.
//!
//! # Fields that only one provider understands
//!
//! Nothing that is read is lost silently. Signatures, ids, cache marks and fields unknown to a
//! format are kept next to what they came with: under the format's own name in `extra`
//! ([`ToolCall::extra`](crate::ToolCall::extra) and the like), in a
//! [`Part::Other`](crate::message::Part::Other) of that name, and for a whole message under the
//! module's `ATTRIBUTE` in its attributes, the only attribute that is sent to a provider. Only that
//! format writes them again, and only for the [`Provider`] that gave them and takes them back: a
//! conversation may outlive its first model, and another provider answers 400 to a foreign
//! signature. [`answer`](fn@answer) and [`history`] take the provider; a format's own `answer`
//! leaves it open, and [`Answer::given_by`] adds it. A part of an answer that only another provider
//! understands is left out.
//!
//! Decoders accept any input: they return an error that names the place, such as
//! `messages[3].content[1].type: missing`, and never panic, recurse without bound, or allocate more
//! than in proportion to the input. Errors never quote the input, except the [`Code`] of a
//! provider's error, such as `overloaded_error`. The rest of a provider's error is in the body,
//! which the caller has, and may quote the request.

mod answer;
pub mod anthropic;
mod any;
mod blocks;
mod borrowed;
mod common;
mod event;
mod frames;
pub mod gemini;
mod json;
pub mod langchain4j;
mod losses;
mod media;
mod metadata;
pub mod ollama;
pub mod openai;
mod refused;
mod request;
pub mod responses;
mod stream;
mod terms;
mod usage;
mod view;

pub use self::answer::{Answer, Stop};
pub use crate::error::Code;
use crate::error::Result;
use crate::message::Message;
use crate::provider::{Format, Provider, remember_origins};
pub use any::Stream;
pub use event::Event;
pub(crate) use event::events_of;
pub use frames::{Frames, Texts};
pub use json::Json;
#[cfg(any(feature = "reqwest", feature = "ureq"))]
pub(crate) use json::{is_json, without_mark};
pub use losses::Loss;
pub use metadata::{Citation, Metadata};
#[cfg(any(feature = "reqwest", feature = "ureq"))]
pub(crate) use refused::{is_refusal, refused_with};
pub use request::{Request, ToolChoice};
pub use stream::FormatStream;
pub use usage::Usage;
pub use view::View;

/// Reads a response of this provider, in its format.
///
/// The answer remembers its provider: fields that only that provider understands are sent back only
/// to it.
///
/// ```
/// use memory_prompt::{Provider, wire};
///
/// let body = r#"{"choices": [{"finish_reason": "stop", "message": {
///     "role": "assistant", "content": "4", "channel": "final"}}]}"#;
/// let answer = wire::answer(Provider::Groq, body)?;
/// assert_eq!((answer.provider, &*answer.message.text()), (Provider::Groq, "4"));
///
/// // Groq itself refuses its `channel` in a request.
/// let list = [memory_prompt::Message::from(answer)];
/// let sent = wire::openai::Messages::of(&list).for_provider(Provider::Groq);
/// assert_eq!(serde_json::to_string(&sent)?, r#"[{"role":"assistant","content":"4"}]"#);
/// # Ok::<(), Box<dyn std::error::Error>>(())
/// ```
///
/// # Errors
///
/// The same as for the format's own `answer`.
pub fn answer<'a>(provider: Provider, json: impl Into<Json<'a>>) -> Result<Answer> {
    let answer = match provider.format() {
        Format::OpenAi => openai::answer(json),
        Format::Responses => responses::answer(json),
        Format::Anthropic => anthropic::answer(json),
        Format::Gemini => gemini::answer(json),
        Format::Ollama => ollama::answer(json),
    }?;
    Ok(answer.given_by(provider))
}

/// Reads the messages of a request to this provider that another program wrote.
///
/// They remember that provider, like the answers of [`answer`](fn@answer).
///
/// # Errors
///
/// The same as for the format's own `history`.
pub fn history<'a>(provider: Provider, json: impl Into<Json<'a>>) -> Result<Vec<Message>> {
    let mut messages = match provider.format() {
        Format::OpenAi => openai::history(json),
        Format::Responses => responses::history(json),
        Format::Anthropic => anthropic::history(json),
        Format::Gemini => gemini::history(json),
        Format::Ollama => ollama::history(json),
    }?;
    remember_origins(&mut messages, &provider.row());
    Ok(messages)
}

/// The names of the formats, under which each keeps its private fields.
const FORMATS: [&str; 6] = ["openai", "responses", "anthropic", "gemini", "ollama", "langchain4j"];
