//! Compose what a language model is sent.

pub mod error;
pub mod message;
pub mod text;

pub use error::{Error, ErrorKind, Result};
pub use message::{
    AiMessage, AiPart, Attributes, Content, CustomMessage, Detail, Media, Message, Part, Reasoning,
    Role, Source, SystemMessage, TextPart, ToolCall, ToolMessage, UserMessage,
};
