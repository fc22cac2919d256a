//! How long something computes, however busy the machine is with others.

use std::time::{Duration, Instant};

/// Returns what this gives, and the time that this thread has computed for it; the time that has
/// passed, where the system does not tell.
pub(crate) fn computed<T>(work: impl FnOnce() -> T) -> (T, Duration) {
    let nanos = || {
        let told = std::fs::read_to_string("/proc/thread-self/schedstat").ok()?;
        told.split_whitespace().next()?.parse().ok().map(Duration::from_nanos)
    };
    let (before, since) = (nanos(), Instant::now());
    let given = work();
    let took = nanos().zip(before).map(|(now, before)| now.saturating_sub(before));
    (given, took.unwrap_or_else(|| since.elapsed()))
}
