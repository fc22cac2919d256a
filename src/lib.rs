//! Compose what a language model is sent.

pub mod compose;
mod composed;
pub mod error;
mod group;
pub mod memory;
pub mod message;
mod prompt;
pub mod record;
pub mod report;
pub mod text;
pub mod truncate;
mod window;
pub mod wire;

pub use compose::{Composer, Composition, Placement};
pub use composed::{Iter, Origin, Prompt};
pub use error::{Error, ErrorKind, Result};
pub use group::ToolGroups;
pub use memory::{ChatMemory, ChatMemoryExt, DefaultChatMemory, MemoryId};
pub use message::{
    AiMessage, AiPart, Attributes, Content, CustomMessage, Detail, Media, Message, Part, Reasoning,
    Role, Source, SystemMessage, TextPart, ToolCall, ToolMessage, UserMessage,
};
pub use prompt::MemoryPrompt;
pub use record::{Record, Records, Snapshot};
pub use report::Report;
pub use text::{Keep, Unit};
pub use truncate::{Truncate, TruncateContext, TruncateProcessor, Verdict};
pub use window::Window;
