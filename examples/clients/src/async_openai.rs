//! async-openai's types, of version 0.43.
//!
//! ```
//! use async_openai::types::chat::{ChatCompletionResponseMessage, CreateChatCompletionRequest};
//! use memory_prompt::{DefaultChatMemory, MemoryPrompt, Message, wire};
//!
//! let mut prompt = MemoryPrompt::new(DefaultChatMemory::new());
//! prompt.add(Message::user("hi"))?;
//! let built = prompt.build()?;
//!
//! let request = CreateChatCompletionRequest {
//!     model: "m".to_owned(),
//!     messages: memory_prompt_clients::async_openai::messages(&wire::openai::messages(&built))?,
//!     ..CreateChatCompletionRequest::default()
//! };
//!
//! // One of the choices of its response.
//! let content = Some("Hello.".to_owned());
//! let answer = ChatCompletionResponseMessage { content, ..Default::default() };
//! # let mut answer = answer;
//! # answer.role = async_openai::types::chat::Role::Assistant;
//! prompt.add(memory_prompt_clients::async_openai::answer(&answer)?)?;
//! # Ok::<(), memory_prompt::Error>(())
//! ```
//!
//! # What is lost
//!
//! What [`wire::openai`](memory_prompt::wire::openai) loses, and what these types have no field
//! for: `reasoning_content` and its like, and whatever one server alone knows. Calls of custom
//! tools, which these types name otherwise than OpenAI does, and levels of detail and kinds of
//! blocks that they do not know are an error. With the crate's feature `byot` the view itself is
//! sent, and nothing of this is lost.

use async_openai::types::chat::{ChatCompletionRequestMessage, ChatCompletionResponseMessage};

use memory_prompt::error::{Error, ErrorKind, Result};
use memory_prompt::message::Message;
use memory_prompt::wire::openai;

/// Returns a view of messages as the messages of a request.
///
/// # Errors
///
/// [`ErrorKind::Unsupported`] where these types have no place for something.
pub fn messages(view: &openai::Messages<'_>) -> Result<Vec<ChatCompletionRequestMessage>> {
    // Without the cause, which quotes what was said.
    let refused = |_| {
        let text = "something has no place in its types";
        Error::new(ErrorKind::Unsupported, "write async-openai messages", text)
    };
    let value = serde_json::to_value(view).map_err(refused)?;
    serde_json::from_value(value).map_err(refused)
}

/// Returns the message of a response, to be remembered.
///
/// # Errors
///
/// [`ErrorKind::Codec`] where it is none, as for [`openai::answer`].
pub fn answer(message: &ChatCompletionResponseMessage) -> Result<Message> {
    openai::answer(&json(message)?).map(Message::from)
}

/// Returns the messages of a request that somebody else made.
///
/// # Errors
///
/// [`ErrorKind::Codec`] where something can't be read, as for [`openai::history`].
pub fn history(messages: &[ChatCompletionRequestMessage]) -> Result<Vec<Message>> {
    openai::history(&json(messages)?)
}

fn json(value: &(impl serde::Serialize + ?Sized)) -> Result<String> {
    serde_json::to_string(value).map_err(|e| {
        let text = "its types can't be written as JSON";
        Error::new(ErrorKind::Codec, "read async-openai messages", text).with_source(e)
    })
}
