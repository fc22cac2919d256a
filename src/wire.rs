//! Wire formats: a [`Prompt`](crate::Prompt) as the JSON that a provider takes, and a provider's
//! answer as a [`Message`](crate::Message).

pub mod anthropic;
mod common;
pub mod gemini;
pub mod langchain4j;
pub mod openai;
pub mod responses;

/// The names of the formats. What a format reads and no other understands is kept under its name,
/// in `extra` or in the message's attributes.
const FORMATS: [&str; 6] = ["openai", "responses", "anthropic", "gemini", "ollama", "langchain4j"];
