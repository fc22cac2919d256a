//! OpenAI Responses.
//!
//! [`input`] is the `input` of a request and [`instructions`] its `instructions`; [`answer`] reads
//! a response and [`Stream`] a streamed one; [`history`] reads the items of a request that another
//! program wrote. Requests made with it carry the whole conversation: set `store` to false, use
//! [unstored](Input::unstored) input, and do not set `previous_response_id`. For a reasoning model,
//! put `reasoning.encrypted_content` into `include`: without it, no reasoning can be sent back.
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
//! # How messages are written
//!
//! - The input is a flat list of items. A system message at the front is left to `instructions`;
//!   elsewhere it is an item.
//! - One answer is several items in order: reasoning, messages and calls. They become one
//!   [`AiMessage`](crate::message::AiMessage), whose parts keep that order and the items' other
//!   fields, so that they are sent back unchanged. Reasoning is bound to its id and to what follows
//!   it: its `encrypted_content` is the [`signature`](crate::message::Reasoning::signature).
//! - A call of a custom tool (free text instead of JSON) is a [`ToolCall`](crate::ToolCall) with
//!   that text as its arguments, marked in its `extra`; its result is written as the kind that it
//!   needs.
//! - A call that is not a function call but is answered by the application (`local_shell_call`,
//!   `shell_call`, `apply_patch_call`, `computer_call`, a `tool_search_call` of the client,
//!   `mcp_approval_request`) is a [`ToolCall`](crate::ToolCall) too, named `local_shell`, `shell`,
//!   `apply_patch`, `computer`, `tool_search` or `mcp_approval`. Its result, a
//!   [`ToolMessage`](crate::message::ToolMessage) like any other, is written as the output of its
//!   kind. The result of an approval is `true`, or `false` or the reason why not; that of a
//!   computer is the picture. If the kind has no place for a result (a text of a computer, which
//!   failed or whose picture was cleared), call and result are written as those of a function,
//!   without the reasoning before the call. A call that the provider ran and answered by itself is
//!   not a tool call.
//! - The `caller` of a programmatic call is written on its output too.
//! - A picture that the model made is an image, and is sent back as its item.
//! - An item that this version does not know (a search, a call of a hosted tool) is a part of the
//!   answer, and is sent back unchanged, on whichever side it was.
//! - Other unknown fields are kept under `responses` in the `extra` of parts and calls, or for a
//!   message under [`ATTRIBUTE`] in its attributes, and only this format writes them again.
//!
//! # What is lost
//!
//! On the way to the provider:
//! - Custom messages, names, and attributes other than [`ATTRIBUTE`].
//! - Audio and video: a text such as `[audio: not supported by this format]` replaces them. Media
//!   in an answer are left out. [`strict`](Input::strict) makes each of these an error.
//! - Texts and further pictures in the result of a computer that has a picture, and media in the
//!   results of the other calls that are not function calls (`losses` lists them).
//! - The [`detail`](crate::message::Media::detail) of a picture, if it is not `auto`, `low`, `high`
//!   or `original` (`losses` lists it).
//! - Reasoning from another format: without the id that it was signed for, it is refused.
//! - Whether a tool result is an error, and the tool's name in it (reading finds it again by the
//!   call's id).
//! - Whether a single text without an id was in a list: it becomes a string.
//! - Empty arguments become `{}`; an image without a detail gets `auto`; the type or name of media,
//!   if the format has no place for it.
//!
//! On the way back, also: that two answers in a row were two; whether a system message was `system`
//! or `developer`, and its division into parts (they are joined with an empty line). The other
//! fields of a response are in its [`metadata`](crate::wire::Answer::metadata), and are not kept
//! with the message, except its sources.

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

/// The attribute in which a message keeps fields that only this format knows.
pub const ATTRIBUTE: &str = "wire:responses";

const FORMAT: &str = "responses";

/// The `instructions` of a request: the text of the system message, if the prompt begins with one.
pub fn instructions(prompt: &Prompt) -> Option<&str> {
    match prompt.get(0) {
        Some(Message::System(system)) => Some(system.text()),
        _ => None,
    }
}

/// The `input` of a request: serialise it, or put it into `json!`.
///
/// A system message at the front is not in it: send [`instructions`] too, or use
/// [`developer`](Input::developer). Nothing is copied. A placeholder replaces what the format can't
/// express; [`strict`](Input::strict) refuses it instead. Serialising fails only if a message has a
/// [reference](crate::message::MediaReference) instead of media.
pub fn input(prompt: &Prompt) -> Input<'_> {
    Input::of_prompt(prompt)
}

/// A view of messages that serialises as the `input` of a Responses request.
///
/// [`strict`](Input::strict) ignores reasoning: another format's reasoning is left out for every
/// provider.
pub type Input<'a> = View<'a, Options>;

/// The options of this format; they come from a [`Row`](crate::provider::Row).
#[derive(Clone, Copy, Debug, Default)]
pub struct Options {
    /// True if the provider stores nothing, and so can't find reasoning by its id.
    unstored: bool,
    /// True if the model does not reason, and refuses what another has thought.
    unthinking: bool,
}

impl Input<'_> {
    /// Writes every system message as a `developer` item, including the one at the front: then send
    /// no `instructions`.
    #[must_use]
    pub fn developer(mut self) -> Self {
        self.terms.row.developer = true;
        self
    }

    /// Leaves out reasoning without encrypted content, the ids of what follows it, and items that
    /// need theirs, such as a search of the provider's (`losses` lists these), for requests with
    /// `store: false`, if the provider can't find it by its id and answers 400. A server's fully
    /// visible reasoning is sent back while a tool loop runs. A [`Request`](super::Request) does
    /// this by itself.
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

    /// Leaves out all reasoning, in the same way, for a model that does not reason: "Reasoning
    /// input items can only be provided to a reasoning or computer use model."
    pub(super) fn unthinking(mut self) -> Self {
        self.options.unthinking = true;
        self
    }
}
