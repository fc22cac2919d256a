//! The harness of every bench but `claims`: times and allocations, side by side.

use std::time::Duration;

use divan::{AllocProfiler, Divan};

/// Counts what is allocated. The times include the counting: some nanoseconds an allocation.
#[global_allocator]
static ALLOCATIONS: AllocProfiler = AllocProfiler::system();

/// Runs what was asked for on the command line, each case for half a second at most.
pub(crate) fn run() {
    Divan::default().max_time(Duration::from_millis(500)).config_with_args().main();
}
