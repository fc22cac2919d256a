//! Compose what a language model is sent.

pub mod codec;
pub mod compose;
mod composed;
pub mod error;
pub mod memory;
pub mod message;
mod prompt;
pub mod record;
pub mod text;
pub mod token;
pub mod truncate;

mod window;

pub use codec::Codec;
pub use compose::{Budget, Composer, Composition, Counts, Placement};
pub use composed::{
    Break, Iter, LeftOut, Origin, Prompt, Repaired, Report, SharedPrefix, SystemSource, Tokens,
    Truncated, Why,
};
pub use error::{Error, ErrorKind, Result};
pub use memory::{ChatMemory, ChatMemoryExt, DefaultChatMemory, MemoryId};
pub use message::{
    AiMessage, AiPart, Attributes, Content, CustomMessage, Detail, Media, Message, Part, Reasoning,
    Role, Source, SystemMessage, TextPart, ToolCall, ToolMessage, UserMessage,
};
pub use prompt::MemoryPrompt;
pub use record::{Record, Records, Snapshot, Unreadable};
pub use text::{Keep, Unit};
pub use token::TokenCounter;
pub use truncate::{Truncate, TruncateContext, TruncateProcessor, Verdict};
pub use window::{Prices, ToolGroups, Window};
