//! The kit bites what strangers plant: faults by somebody who had read the contracts and not the laws.
//!
//! Each is what a real implementation does wrong in one sentence: a statement, a type of column, a cache,
//! a driver. None knows which law is to find it.

#![allow(clippy::unwrap_used, clippy::panic, missing_docs)] // a test that panics has failed

#[path = "kit/strangers/mod.rs"]
mod strangers;
