//! Other crates' types: a [`Prompt`](crate::Prompt) as the messages of a client, and its answers as
//! [`Message`](crate::Message)s.
//!
//! A client that takes JSON needs none of this: give it a view of [`wire`](crate::wire), which
//! loses less. (async-openai does with its feature `byot`.)

#[cfg(feature = "async-openai")]
pub mod async_openai;
#[cfg(feature = "ollama-rs")]
pub mod ollama_rs;
