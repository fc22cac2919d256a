//! The kit bites what strangers plant: faults by somebody who had read the contracts and not the
//! laws.
//!
//! Each is what a real implementation does wrong in one sentence: a statement, a type of column, a
//! cache, a driver. None knows which law is to find it.

#![allow(clippy::unwrap_used, clippy::panic, missing_docs)] // a test that panics has failed
#![allow(clippy::unnecessary_wraps, clippy::cast_possible_truncation, clippy::or_fun_call)]
#![allow(clippy::redundant_closure_for_method_calls, clippy::duration_suboptimal_units)]
// What is done honestly has the form of what is done otherwise, and some faults are just that: a
// cast.

#[path = "kit/strangers/mod.rs"]
mod strangers;
