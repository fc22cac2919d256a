//! Composing prompts: windows, budgets, pins, summaries, recall, and the pages that show them.

#![allow(clippy::unwrap_used, clippy::expect_used, clippy::panic, missing_docs)] // a test that panics has failed

// What tests share.
#[path = "../common/computed.rs"]
mod computed;
#[path = "../common/conversations.rs"]
mod conversations;
#[path = "../common/counted.rs"]
mod counted;
#[cfg(feature = "sqlite")]
#[path = "../common/folder.rs"]
mod folder;
#[path = "../../examples/recall_bench/generated.rs"]
#[allow(dead_code)] // what models find is for the measurement
mod generated;
#[path = "../common/inside.rs"]
mod inside;
#[path = "../common/lives.rs"]
mod lives;
#[path = "../common/model.rs"]
mod model;
#[path = "../common/notation.rs"]
mod notation;
#[path = "../common/processors.rs"]
mod processors;
#[path = "../common/said.rs"]
mod said;
#[path = "../common/sent.rs"]
mod sent;
#[path = "../provider/setups.rs"]
mod setups;

mod again;
mod against_model;
mod anew;
mod as_sent;
mod beside;
mod breaks;
mod budget;
mod by_reading;
mod clearing;
mod compacted;
mod history;
mod imports;
mod inspect_cuts;
mod inspect_outline;
mod inspect_page;
mod laws;
mod laws_life;
mod live;
mod media;
mod owed;
mod pins;
mod reading;
mod recall;
mod recall_turns;
mod seen_in_peers;
mod settings;
mod stories;
mod summaries;
mod swap;
mod text_laws;
mod text_unicode;
mod together;
mod tokens;
mod told;
