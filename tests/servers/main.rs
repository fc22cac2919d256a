//! The network backends on real servers, which the tests start themselves: the whole contract, and
//! what can happen to a server.
//!
//! Each test here is ignored unless asked for, since it needs the programs of a server:
//!
//! ```text
//! cargo test --features tokio,redis,postgres,cassandra --test servers -- --ignored
//! ```

#![cfg(all(
    feature = "conformance",
    feature = "tokio",
    any(feature = "redis", feature = "postgres", feature = "cassandra")
))]
#![allow(clippy::unwrap_used, clippy::expect_used, clippy::panic, missing_docs)] // a test that panics has failed

/// Makes a test of each of these async functions, which this runs.
macro_rules! tests {
    ($run:ident: $(#[$ignored:meta] $($name:ident),+;)+) => {
        mod tests {
            $($(
                #[test]
                #[$ignored]
                fn $name() {
                    super::$run(super::$name());
                }
            )+)+
        }
    };
}
pub(crate) use tests;

#[cfg(feature = "postgres")]
#[path = "../common/again.rs"]
mod again;
#[path = "../common/booking.rs"]
mod booking;
#[cfg(any(feature = "postgres-tls", feature = "redis-tls"))]
mod certificates;
#[cfg(all(feature = "postgres", feature = "sqlite"))]
mod clients;
#[cfg(all(feature = "postgres", feature = "sqlite"))]
#[path = "../common/counted.rs"]
mod counted;
#[cfg(feature = "postgres")]
#[path = "../common/edits.rs"]
mod edits;
mod laws;
#[cfg(feature = "tracing")]
#[path = "../common/listener.rs"]
mod listener;
mod process;
mod sending;
mod soak;
mod tasks;
mod turns;
#[cfg(any(feature = "postgres", feature = "redis"))]
mod way;

// One module a backend.
#[cfg(feature = "cassandra")]
mod cassandra;
#[cfg(feature = "postgres")]
mod postgres;
#[cfg(feature = "redis")]
mod redis;
