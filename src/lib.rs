//! Compose what a language model is sent.

#[cfg(feature = "tokio")]
pub mod adapt;
pub mod codec;
pub mod compose;
mod composed;
#[cfg(feature = "conformance")]
pub mod conformance;
pub mod error;
pub mod memory;
pub mod message;
mod prompt;
pub mod record;
pub mod store;
pub mod text;
pub mod truncate;

mod window;

#[cfg(feature = "tokio")]
pub use adapt::{Blocking, Unblock};
pub use codec::Codec;
pub use compose::{Composer, Composition, Placement};
pub use composed::{Iter, LeftOut, Origin, Prompt, Repaired, Report, SystemSource, Truncated, Why};
pub use error::{Error, ErrorKind, Result};
#[cfg(feature = "async")]
pub use memory::{AsyncChatMemory, AsyncChatMemoryExt, BoxFuture};
pub use memory::{ChatMemory, ChatMemoryExt, DefaultChatMemory, MemoryId};
pub use message::{
    AiMessage, AiPart, Attributes, Content, CustomMessage, Detail, Media, Message, Part, Reasoning,
    Role, Source, SystemMessage, TextPart, ToolCall, ToolMessage, UserMessage,
};
pub use prompt::MemoryPrompt;
pub use record::{Record, Records, Snapshot, Unreadable};
#[cfg(feature = "async")]
pub use store::AsyncChatMemoryStore;
pub use store::{ChatMemoryStore, InMemoryStore};
#[cfg(feature = "sqlite")]
pub use store::{Durability, SqliteOptions, SqliteStore};
pub use text::{Keep, Unit};
pub use truncate::{Truncate, TruncateContext, TruncateProcessor, Verdict};
pub use window::{Prices, ToolGroups, Window};
