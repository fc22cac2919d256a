//! What is kept: codecs and their files, the memories in this process, and SQLite.

#![allow(clippy::unwrap_used, clippy::expect_used, clippy::panic, missing_docs)] // a test that panics has failed

// What tests share.
#[cfg(feature = "sqlite")]
#[path = "../common/again.rs"]
mod again;
#[path = "../common/mod.rs"]
mod common;
#[path = "../common/counted.rs"]
mod counted;
#[cfg(feature = "sqlite")]
#[path = "../common/folder.rs"]
mod folder;
#[cfg(feature = "sqlite")]
#[path = "../common/inside.rs"]
mod inside;
#[cfg(all(feature = "sqlite", feature = "tracing"))]
#[path = "../common/listener.rs"]
mod listener;

mod codec;
mod damage;
mod formats;
mod memory;
mod observed;
#[cfg(feature = "sqlite")]
mod pictures;
mod sqlite;
mod sqlite_appends;
mod sqlite_soak;
