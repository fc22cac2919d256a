//! What happens in the life of a conversation: turns, tools, stops, evictions, and HTTP.

#![allow(clippy::unwrap_used, clippy::expect_used, clippy::panic, missing_docs)] // a test that panics has failed
#![allow(clippy::duplicate_mod)] // the tests of the transport are run over each of its clients

// What tests share.
#[cfg(feature = "sqlite")]
#[path = "../common/again.rs"]
mod again;
#[path = "../common/booking.rs"]
mod booking;
#[path = "../common/conversations.rs"]
mod conversations;
#[path = "../common/counted.rs"]
mod counted;
#[cfg(feature = "sqlite")]
#[path = "../common/edits.rs"]
mod edits;
#[cfg(any(feature = "reqwest", feature = "sqlite", feature = "ureq"))]
#[path = "../common/folder.rs"]
mod folder;
#[path = "../common/inside.rs"]
mod inside;
#[cfg(feature = "tracing")]
#[path = "../common/listener.rs"]
#[allow(dead_code)] // not all of it is needed here
mod listener;
#[path = "../common/odd.rs"]
mod odd;
#[cfg(any(feature = "reqwest", feature = "ureq"))]
#[path = "../common/port.rs"]
mod port;
#[path = "../provider/setups.rs"]
mod setups;
#[cfg(any(feature = "reqwest", feature = "ureq"))]
#[path = "../common/stub.rs"]
mod stub;
#[cfg(any(feature = "reqwest", feature = "ureq"))]
#[path = "../common/stub_protocols.rs"]
mod stub_protocols;
#[path = "../provider/validators.rs"]
mod validators;
#[cfg_attr(not(feature = "async"), allow(dead_code))]
#[path = "../provider/wrong.rs"]
mod wrong;

mod adapt;
mod asynchronous;
mod conversation;
mod conversation_spans;
mod evicting;
mod history;
mod memory;
mod transport;
mod turn;
