//! The contract as tests: whether it finds the faults of implementations.

#![allow(clippy::unwrap_used, clippy::expect_used, clippy::panic, missing_docs)] // a test that panics has failed

mod few_ids;
mod no_slots;
mod strangers;
