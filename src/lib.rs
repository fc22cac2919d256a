//! Composes what is sent to a language model: the last messages of any chat memory, in whole tool
//! groups, shortened without splitting a character, under one system message, with temporary
//! messages for a single use.
//!
//! ```
//! use memory_prompt::{DefaultChatMemory, MemoryPrompt, Message, ToolCall, Truncate, wire};
//!
//! let mut prompt = MemoryPrompt::new(DefaultChatMemory::with_id("support:u1001:c2002"))
//!     .system("You are a terse assistant.")
//!     .max_messages(10)
//!     .truncate(Truncate::chars(800)?);
//!
//! prompt.add(Message::user("What is the weather in Oslo?"))?;
//! prompt.add(Message::ai_calls([ToolCall::new("call_1", "weather", r#"{"city":"Oslo"}"#)]))?;
//! prompt.add(Message::tool("call_1", "weather", "sunny, 21 °C"))?;
//! prompt.add_temporary(Message::user("Today is Friday."));
//!
//! let built = prompt.build()?; // temporaries are used up here, and only if this is Ok
//! assert_eq!(built.len(), 5);
//! assert_eq!(built[0].text(), "You are a terse assistant.");
//! assert_eq!(built[4].text(), "Today is Friday.");
//! let request = wire::Request::new(&built).model("m").max_tokens(500); // the body of a request
//! println!("{}\n{}", serde_json::to_string(&request)?, built.report());
//!
//! prompt.set_memory(DefaultChatMemory::with_id("support:u1001:c2003")); // swapped at run time
//! # Ok::<(), Box<dyn std::error::Error>>(())
//! ```
//!
//! # What it does and does not do
//!
//! It decides what is sent: [windows](Window), [tool groups](window::ToolGroups),
//! [truncation](Truncate), [token budgets](Budget), the system message,
//! [temporaries](compose::Placement), and the rules of a [provider](Provider). It keeps
//! conversations in a memory of your choice, and lists in a [`Report`] what it left out and why.
//!
//! Building is a pure function: `(system, recent messages, temporaries, configuration)` to
//! [`Prompt`]. It writes nothing and changes no stored message. Its cost depends on what is sent
//! and not on the length of the conversation, except for [`recall`]. The prompt shares its messages
//! with the memory. A build that fails changes nothing.
//!
//! [`MemoryPrompt`] is a thin shell; the [`Composer`] inside it can be used alone, with your own
//! I/O.
//!
//! On top of that are the [`Turn`], which stores a question and everything that follows it as one
//! unit, and the [`Conversation`], which calls your model and runs your tools.
//!
//! It does no planning for agents, and writes no [`summary`] itself: your model writes it. Only
//! `Transport` retries failed requests.
//!
//! # Where things are
//!
//! | you want to | look at |
//! |---|---|
//! | talk to a model, with tools and a memory | [`Conversation`], and `Transport` with the feature `ureq` or `reqwest` |
//! | write a request for a client of your own, and read its answer or its stream | [`wire`] |
//! | choose a window | [windows and caches](guide::windows) |
//! | run a tool loop that stores a whole turn or nothing | [`turn`] |
//! | let a model read what its prompt does not show | [`recall::tools`] |
//! | see what was left out, cut and repaired | [`Report`] and [`report`] |
//! | keep conversations in a database | [`store`] |
//! | write a memory of your own | [`ChatMemory`], and the feature `conformance` to test it |
//! | build in async code | `MemoryPrompt::new_async`, with the feature `async` |
//! | keep settings in a configuration file | [settings](guide::settings) |
//! | store messages yourself | [`codec`] |
//! | read about one subject at a time | [`guide`] |
//!
//! # Words
//!
//! | word | meaning |
//! |---|---|
//! | [`Message`] | what was said: system, user, ai, tool or custom; plain immutable data |
//! | [`Record`](record::Record) | a message as a memory holds it: with its position and its time |
//! | [`ChatMemory`] | one conversation; [`DefaultChatMemory`] keeps it in this process |
//! | [`Window`] | which records are sent |
//! | tool group | an ai message with calls and the results that answer them: indivisible |
//! | turn | a question, which is a user message or several in a row, and everything that follows up to the next one |
//! | pin | a record that is [always sent](MemoryPrompt::with_pins) |
//! | [`summary`] | a text that replaces all records before a position |
//! | [`recall`] | which older records are quoted because they fit the question |
//! | temporary | a message for the next build, or the next turn, only; never a record |
//! | [`Prompt`] | the composed messages, and the [`Report`] of everything that was done to them |
//!
//! # Crate features
//!
//! Only `bincode` is on by default. A feature adds items and changes no other. For `reqwest`, see
//! what its [TLS](transport/index.html#two-clients) means for a reqwest of your own.
//!
//! - **`bincode`** adds [`Codec::Bincode`](codec#without-bincode): smaller than JSON, but that
//!   crate is unmaintained. Without it, messages are stored only as JSON.
//! - **`bpe`** adds [`token::Bpe`](token/struct.Bpe.html), exact token counts for OpenAI's
//!   vocabularies o200k and cl100k, which it compiles in. Without it, [`token::Estimate`] is within
//!   15 % of o200k on whole texts in eleven languages and kinds; [others](token::Estimate) are
//!   further off, as are single short messages.
//! - **`tokenizers`** adds [`token::HuggingFace`](token/struct.HuggingFace.html), exact token
//!   counts with your own `tokenizer.json`.
//! - **`schemars`** adds `Tool::takes`: a tool's parameters from a Rust type.
//! - **`sqlite`** adds [`SqliteStore`](struct.SqliteStore.html): conversations in one durable file,
//!   which any SQLite tool can query.
//! - **`postgres`** adds [`PostgresStore`](struct.PostgresStore.html): conversations in a
//!   PostgreSQL database, also through poolers; **`postgres-tls`** adds TLS.
//! - **`redis`** adds [`RedisStore`](struct.RedisStore.html): conversations on a Redis server or a
//!   Redis Cluster; **`redis-tls`** adds TLS.
//! - **`cassandra`** adds [`CassandraStore`](struct.CassandraStore.html): conversations in Apache
//!   Cassandra, on as many machines as needed.
//! - **`async`** adds [`AsyncChatMemory`](trait.AsyncChatMemory.html),
//!   [`AsyncChatMemoryStore`](trait.AsyncChatMemoryStore.html) and `MemoryPrompt::new_async`, for
//!   any executor.
//! - **`tokio`** adds [`adapt`](adapt/index.html): async memories in blocking code, and blocking
//!   ones in async code.
//! - **`tracing`** lets stores and conversations report what they do, in spans and events without
//!   text: see [`store`] and [`conversation`](conversation/index.html#spans).
//! - **`ureq`** adds [`Transport`](transport/index.html): a model behind HTTP, for blocking code;
//!   **`reqwest`** for async code on tokio.
//! - **`inspect`** adds [`Prompt::html`] and [`inspect::Inspector`]: prompts as a page to look at.
//! - **`conformance`** adds [`conformance`](conformance/index.html): the contract of memories and
//!   stores as tests for your own backends.
//!
//! Rust 1.88 or later; 1.89 with `sqlite` or `cassandra`, whose drivers require it.

#![cfg_attr(docsrs, feature(doc_cfg))] // each item's features, in the documentation

#[cfg(feature = "tokio")]
pub mod adapt;
pub mod codec;
pub mod compose;
#[cfg(feature = "conformance")]
pub mod conformance;
pub mod conversation;
pub mod error;
pub mod export;
pub mod history;
pub mod inspect;
pub mod memory;
mod memory_prompt;
pub mod message;
mod pins;
mod prompt;
pub mod provider;
pub mod recall;
pub mod record;
pub mod store;
pub mod summary;
pub mod text;
pub mod token;
mod tool;
#[cfg(any(feature = "reqwest", feature = "ureq"))]
pub mod transport;
pub mod truncate;
pub mod turn;
pub mod window;
pub mod wire;

#[doc(inline)]
pub use self::memory_prompt::MemoryPrompt;
#[doc(inline)]
pub use compose::{Budget, Clear, Composer};
#[doc(inline)]
pub use conversation::Conversation;
#[doc(inline)]
pub use error::{Error, ErrorKind, Result};
#[cfg(feature = "async")]
#[doc(inline)]
pub use memory::{AsyncChatMemory, AsyncChatMemoryExt};
#[doc(inline)]
pub use memory::{
    ChatMemory, ChatMemoryExt, DefaultChatMemory, MessageWindowChatMemory, TokenWindowChatMemory,
};
#[doc(inline)]
pub use message::{Message, ToolCall};
#[doc(inline)]
pub use prompt::{Prompt, Report};
#[doc(inline)]
pub use provider::Provider;
#[doc(inline)]
pub use recall::Recall;
#[cfg(feature = "cassandra")]
#[doc(inline)]
pub use store::CassandraStore;
#[cfg(feature = "postgres")]
#[doc(inline)]
pub use store::PostgresStore;
#[cfg(feature = "redis")]
#[doc(inline)]
pub use store::RedisStore;
#[cfg(feature = "sqlite")]
#[doc(inline)]
pub use store::SqliteStore;
#[cfg(feature = "async")]
#[doc(inline)]
pub use store::{AsyncChatMemoryStore, AsyncChatMemoryStoreExt};
#[doc(inline)]
pub use store::{ChatMemoryStore, ChatMemoryStoreExt, InMemoryStore};
#[doc(inline)]
pub use tool::Tool;
#[cfg(any(feature = "reqwest", feature = "ureq"))]
#[doc(inline)]
pub use transport::Transport;
#[doc(inline)]
pub use truncate::Truncate;
#[doc(inline)]
pub use turn::Turn;
#[doc(inline)]
pub use window::Window;

/// The parts of a [`Report`]: everything that a build did to the history.
pub mod report {
    pub use crate::prompt::{
        Adaptation, Adapted, Break, Cleared, Fate, Fingerprint, Gap, LeftOut, Moved,
        NothingRecalled, Origin, Reason, Recalled, Repaired, Setting, SharedPrefix, SystemSource,
        Tokens, Truncated,
    };
}

/// Guides: one page per subject, with code that is compiled and run.
#[cfg(any(doc, doctest))]
pub mod guide {
    #[doc = include_str!("../docs/architecture.md")]
    pub mod architecture {}
    #[doc = include_str!("../docs/benchmarks.md")]
    pub mod benchmarks {}
    // The first definition of a link counts: here the module, elsewhere the file that it names.
    #[doc = "[recall]: crate::guide::recall\n[summaries]: crate::guide::pins#summaries\n"]
    #[doc = include_str!("../docs/budgets.md")]
    pub mod budgets {}
    #[doc = include_str!("../docs/coming-from.md")]
    pub mod coming_from {}
    #[doc = include_str!("../docs/comparison.md")]
    pub mod comparison {}
    #[doc = include_str!("../docs/crashes-and-approval.md")]
    pub mod crashes_and_approval {}
    #[doc = "[request twice]: crate::guide::turns#a-request-that-comes-twice\n"]
    #[doc = include_str!("../docs/history.md")]
    pub mod history {}
    #[cfg(feature = "ureq")]
    #[doc = include_str!("../docs/http.md")]
    pub mod http {}
    #[doc = "[recall]: crate::guide::recall\n"]
    #[doc = include_str!("../docs/pins.md")]
    pub mod pins {}
    #[doc = include_str!("../docs/providers.md")]
    pub mod providers {}
    #[doc = "[placed elsewhere]: crate::guide::windows#temporaries\n[stores]: crate::guide::stores\n"]
    #[doc = include_str!("../docs/recall.md")]
    pub mod recall {}
    #[doc = include_str!("../docs/settings.md")]
    pub mod settings {}
    #[doc = include_str!("../docs/stores.md")]
    pub mod stores {}
    #[doc = "[crashes and approval]: crate::guide::crashes_and_approval\n[turns]: crate::guide::turns\n"]
    #[doc = include_str!("../docs/tools.md")]
    pub mod tools {}
    #[doc = "[after a crash]: crate::guide::crashes_and_approval#after-a-crash\n[two tabs]: crate::guide::history#two-tabs\n"]
    #[doc = include_str!("../docs/turns.md")]
    pub mod turns {}
    #[doc = "[old results]: crate::guide::tools#old-results\n"]
    #[doc = include_str!("../docs/windows.md")]
    pub mod windows {}
}
