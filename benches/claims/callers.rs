//! Many callers at once, on a runtime of two threads.

use tokio::runtime::{Builder, Runtime};

/// How many there are, and how many turns each of them takes.
pub(crate) const CALLERS: usize = 64;
pub(crate) const TURNS: u64 = 8;

pub(crate) fn runtime() -> Runtime {
    Builder::new_multi_thread().worker_threads(2).enable_all().build().unwrap()
}

/// Lets each of them work, and waits for all.
pub(crate) fn on_all<F>(runtime: &Runtime, work: impl Fn(usize) -> F)
where
    F: Future<Output = ()> + Send + 'static,
{
    runtime.block_on(async {
        let all: Vec<_> = (0..CALLERS).map(|i| tokio::spawn(work(i))).collect();
        for one in all {
            one.await.unwrap();
        }
    });
}
