//! OpenAI Responses.
//!
//! [`input`] is the `input` of a request and [`instructions`] its `instructions`; [`answer`] reads
//! a response and [`Stream`] a streamed one; [`history`] reads the items of a request that somebody
//! else wrote. Requests made with it carry the whole conversation: set `store` to false, ask for
//! [unstored](Input::unstored) input, and set no `previous_response_id`. Of a reasoning model
//! `include` `reasoning.encrypted_content`: without it no reasoning can go back.
//!
//! ```
//! use memory_prompt::{DefaultChatMemory, MemoryPrompt, Message, wire::responses};
//! use serde_json::json;
//!
//! let mut prompt = MemoryPrompt::new(DefaultChatMemory::new()).system("Be brief.");
//! prompt.add(Message::user("hi"))?;
//! let built = prompt.build()?;
//!
//! let body = json!({
//!     "model": "m",
//!     "instructions": responses::instructions(&built),
//!     "input": responses::input(&built).unstored(),
//!     "store": false,
//! });
//! assert_eq!(body["instructions"], "Be brief.");
//! assert_eq!(body["input"], json!([{"type": "message", "role": "user", "content": "hi"}]));
//!
//! let answer = r#"{"output": [{"type": "message", "id": "msg_1", "role": "assistant",
//!     "status": "completed", "content": [{"type": "output_text", "text": "Hello.", "annotations": []}]}]}"#;
//! prompt.add(responses::answer(answer)?)?;
//! # Ok::<(), memory_prompt::Error>(())
//! ```
//!
//! # What stands for what
//!
//! - The input is a flat list of items. A system message at the front is left to `instructions`;
//!   anywhere else it is an item.
//! - One answer is several items: reasoning, messages and calls, in their order. They are one
//!   [`AiMessage`](crate::message::AiMessage), whose parts keep that order and what stood beside
//!   them, so that they go back as they came. Reasoning is bound to its id and to what follows it:
//!   its `encrypted_content` is the [`signature`](crate::message::Reasoning::signature).
//! - A call of a custom tool (free text in place of JSON) is a [`ToolCall`](crate::ToolCall) with
//!   that text as its arguments, marked in its `extra`; its result is written as the kind that it
//!   needs.
//! - A call that is no function but that the application answers (`local_shell_call`, `shell_call`,
//!   `apply_patch_call`, `computer_call`, a `tool_search_call` of the client,
//!   `mcp_approval_request`) is a [`ToolCall`](crate::ToolCall) too, named `local_shell`, `shell`,
//!   `apply_patch`, `computer`, `tool_search` or `mcp_approval`; its result, a
//!   [`ToolMessage`](crate::message::ToolMessage) like any other, is written as the output of its
//!   kind. An approval says `true` or `false`, a computer's result holds the picture. What the
//!   provider ran by itself, and answered, is none.
//! - The `caller` of a programmatic call comes back on its output.
//! - A picture that the model made is an image, and goes back as its item.
//! - An item that this version does not know (a search, a call of a hosted tool) is a part of the
//!   answer and goes back as it came, from whichever side it was.
//! - What else is not known is kept under `responses` in the `extra` of parts and calls, or for a
//!   message under [`ATTRIBUTE`] in its attributes, and is written again by this format alone.
//!
//! # What is lost
//!
//! On the way to the provider:
//! - Custom messages, names, and attributes other than [`ATTRIBUTE`].
//! - Audio and video: a text such as `[audio: not supported by this format]` stands for them. Media
//!   in an answer are left out. [`strict`](Input::strict) makes each of these an error.
//! - Reasoning that did not come from this format: without the id that it was signed for it is
//!   refused.
//! - Whether a tool result is an error, and the tool's name in it (it is found again by the call's
//!   id).
//! - What stood in a list of one text without an id becomes a string.
//! - Arguments that are empty become `{}`; an image without a detail has `auto`; a media's type or
//!   name where it has none in the format.
//!
//! On the way back, besides: that two answers in a row were two; whether a system message was
//! `system` or `developer`, and its division into parts (they are joined with an empty line). What
//! else a response says is told by its [`metadata`](crate::wire::Answer::metadata), and not kept
//! with the message, but for its sources.

mod decode;
mod encode;
mod item;
mod kinds;
mod stream;

use crate::message::Message;
use crate::prompt::Prompt;

pub use decode::{answer, history};
pub use stream::Stream;

use super::view::View;

/// The attribute under which a message keeps fields that only this format knows.
pub const ATTRIBUTE: &str = "wire:responses";

const FORMAT: &str = "responses";

/// The `instructions` of a request: the system message's text, where the prompt begins with one.
pub fn instructions(prompt: &Prompt) -> Option<&str> {
    match prompt.get(0) {
        Some(Message::System(system)) => Some(system.text()),
        _ => None,
    }
}

/// The `input` of a request: serialise it, or put it into `json!`.
///
/// A system message at the front is not in it: send [`instructions`] beside it, or ask for
/// [`developer`](Input::developer). Nothing is copied and serialising never fails: a placeholder
/// stands for what the format can't express. [`strict`](Input::strict) refuses it instead.
pub fn input(prompt: &Prompt) -> Input<'_> {
    Input::of_prompt(prompt)
}

/// A view of messages that serialises as the `input` of a Responses request.
///
/// [`strict`](Input::strict) does not look at reasoning: another format's is left out, as every
/// provider does it.
pub type Input<'a> = View<'a, Options>;

/// The options that are this format's alone: they are those of a [`Row`](crate::provider::Row).
#[derive(Clone, Copy, Debug, Default)]
pub struct Options {
    unstored: bool,
}

impl Input<'_> {
    /// Writes every system message as a `developer` item, the one at the front too: then send no
    /// `instructions`.
    #[must_use]
    pub fn developer(mut self) -> Self {
        self.terms.row.developer = true;
        self
    }

    /// Leaves out reasoning that came without its encrypted content, and the ids of what follows
    /// it: for requests with `store: false`, where the provider can't find it by its id and answers
    /// 400. What a server shows whole goes back while a tool loop runs. A
    /// [`Request`](super::Request) does so by itself.
    ///
    /// ```
    /// use memory_prompt::wire::responses;
    ///
    /// let answer = responses::answer(r#"{"output": [
    ///     {"type": "reasoning", "id": "rs_1", "summary": []},
    ///     {"type": "function_call", "id": "fc_1", "call_id": "a", "name": "look",
    ///      "arguments": "{}"}]}"#)?;
    /// let messages = [answer.into()];
    /// let input = responses::Input::of(&messages).unstored();
    /// assert_eq!(
    ///     serde_json::to_string(&input)?,
    ///     r#"[{"type":"function_call","call_id":"a","name":"look","arguments":"{}"}]"#,
    /// );
    /// # Ok::<(), Box<dyn std::error::Error>>(())
    /// ```
    #[must_use]
    pub fn unstored(mut self) -> Self {
        self.options.unstored = true;
        self
    }
}
