//! Tasks that run at once.

use tokio::task::JoinHandle;

/// Waits for a future on a runtime of two threads.
#[cfg(any(feature = "cassandra", feature = "postgres"))]
pub(crate) fn block_on<T>(future: impl Future<Output = T>) -> T {
    let mut runtime = tokio::runtime::Builder::new_multi_thread();
    runtime.worker_threads(2).enable_all().build().unwrap().block_on(future)
}

/// Begins so many, each by its number.
pub(crate) fn begin<F>(n: u64, task: impl Fn(u64) -> F) -> Vec<JoinHandle<F::Output>>
where
    F: Future<Output: Send + 'static> + Send + 'static,
{
    (0..n).map(|i| tokio::spawn(task(i))).collect()
}

/// Waits for all of them; returns what they came to.
pub(crate) async fn end<T>(tasks: Vec<JoinHandle<T>>) -> Vec<T> {
    let mut ended = Vec::new();
    for task in tasks {
        ended.push(task.await.unwrap());
    }
    ended
}
