//! What leaves for a provider and what comes from one, in each format.

#![allow(clippy::unwrap_used, clippy::expect_used, clippy::panic, missing_docs, unreachable_pub)] // a test that panics has failed

// What tests share.
#[path = "../common/computed.rs"]
mod computed;
#[path = "../common/conversations.rs"]
mod conversations;
#[path = "../common/counted.rs"]
mod counted;
#[path = "../common/golden.rs"]
mod golden;
#[path = "../provider/schemas.rs"]
mod judges;
#[path = "../common/picture_header.rs"]
mod picture_header;
#[path = "../common/private.rs"]
mod private;
#[path = "../provider/setups.rs"]
mod setups;
#[path = "../common/shown.rs"]
mod shown;
#[path = "../provider/validators.rs"]
mod validators;
#[path = "../common/wire_values.rs"]
mod values;
#[path = "../common/wire_decoding.rs"]
mod wire_decoding;
#[path = "../common/wire_json.rs"]
mod wire_json;
#[path = "../common/wire_messages.rs"]
mod wire_messages;
#[path = "../provider/wrong.rs"]
mod wrong;

mod answers;
mod anthropic;
mod ends;
mod errors;
mod events;
mod formats;
mod frames;
mod fuzz;
mod gateway;
mod gemini;
mod hosted_calls;
mod langchain4j;
mod losses;
mod media_limits;
mod ollama;
mod openai;
mod oracles;
mod picture_headers;
mod placeholders;
mod private_fields;
mod provider_rules;
mod recordings;
mod request;
mod responses;
mod rows;
mod schemas;
mod servers;
mod taken;
mod twins;
mod whole;
