//! Tells what a store does: to whoever asks for its figures, and with the feature `tracing` to
//! whoever listens.
//!
//! Neither a text, an id, a slot's name nor the words of an error are told: only the backend, the
//! operation, the kind of error, and a reason that is one of this crate's own words.

use std::sync::atomic::{AtomicU64, AtomicUsize, Ordering};

use super::Figures;
use crate::error::Result;
#[cfg(any(feature = "cassandra", feature = "postgres", feature = "redis"))]
use crate::memory::BoxFuture;

/// The one who watches over a store.
pub(super) struct Watch {
    backend: &'static str,
    under_way: AtomicUsize,
    retries: AtomicU64,
    reconnects: AtomicU64,
    lost_races: AtomicU64,
}

impl Watch {
    pub(super) const fn new(backend: &'static str) -> Self {
        Self {
            backend,
            under_way: AtomicUsize::new(0),
            retries: AtomicU64::new(0),
            reconnects: AtomicU64::new(0),
            lost_races: AtomicU64::new(0),
        }
    }

    /// Does an operation in a span of its own, and counts it as under way until it is done or
    /// dropped.
    #[cfg(any(feature = "cassandra", feature = "postgres", feature = "redis"))]
    pub(super) fn operation<'a, T>(
        &'a self,
        operation: &'static str,
        work: impl Future<Output = Result<T>> + Send + 'a,
    ) -> BoxFuture<'a, Result<T>> {
        let watched = async move {
            let _under_way = self.begin();
            let mut dropped = Dropped::new(self.backend, operation);
            let result = work.await;
            dropped.over();
            ended(self.backend, operation, &result);
            result
        };
        #[cfg(feature = "tracing")]
        let watched = tracing::Instrument::instrument(watched, span(self.backend, operation));
        Box::pin(watched)
    }

    /// The same where the caller waits.
    #[cfg(feature = "sqlite")]
    pub(super) fn blocking<T>(
        &self,
        operation: &'static str,
        work: impl FnOnce() -> Result<T>,
    ) -> Result<T> {
        let _under_way = self.begin();
        #[cfg(feature = "tracing")]
        let span = span(self.backend, operation);
        #[cfg(feature = "tracing")]
        let _entered = span.enter();
        let result = work();
        ended(self.backend, operation, &result);
        result
    }

    /// Something is asked for once more, for this reason.
    #[cfg(any(feature = "cassandra", feature = "postgres", feature = "redis"))]
    pub(super) fn retried(&self, operation: &'static str, reason: &str) {
        self.retries.fetch_add(1, Ordering::Relaxed);
        #[cfg(feature = "tracing")]
        tracing::warn!(target: TARGET, backend = self.backend, operation, reason, "retry");
        #[cfg(not(feature = "tracing"))]
        let _ = (operation, reason);
    }

    /// A connection was lost, and another one takes its place.
    #[cfg(any(feature = "postgres", feature = "redis"))]
    pub(super) fn reconnected(&self, operation: &'static str) {
        self.reconnects.fetch_add(1, Ordering::Relaxed);
        #[cfg(feature = "tracing")]
        tracing::warn!(target: TARGET, backend = self.backend, operation, "reconnect");
        #[cfg(not(feature = "tracing"))]
        let _ = operation;
    }

    /// Somebody else changed the conversation first, so it is looked at anew.
    #[cfg(any(feature = "cassandra", feature = "postgres"))]
    pub(super) fn lost_race(&self, operation: &'static str) {
        self.lost_races.fetch_add(1, Ordering::Relaxed);
        #[cfg(feature = "tracing")]
        tracing::debug!(target: TARGET, backend = self.backend, operation, "lost race");
        #[cfg(not(feature = "tracing"))]
        let _ = operation;
    }

    /// Returns what was counted; of connections the backend knows.
    pub(super) fn figures(&self) -> Figures {
        Figures {
            under_way: self.under_way.load(Ordering::Relaxed),
            retries: self.retries.load(Ordering::Relaxed),
            reconnects: self.reconnects.load(Ordering::Relaxed),
            lost_races: self.lost_races.load(Ordering::Relaxed),
            ..Figures::default()
        }
    }

    fn begin(&self) -> UnderWay<'_> {
        self.under_way.fetch_add(1, Ordering::Relaxed);
        UnderWay(self)
    }
}

/// An operation that is not over.
struct UnderWay<'a>(&'a Watch);

impl Drop for UnderWay<'_> {
    fn drop(&mut self) {
        self.0.under_way.fetch_sub(1, Ordering::Relaxed);
    }
}

/// Tells that an operation was dropped before it was over.
#[cfg(any(feature = "cassandra", feature = "postgres", feature = "redis"))]
struct Dropped(Option<(&'static str, &'static str)>);

#[cfg(any(feature = "cassandra", feature = "postgres", feature = "redis"))]
impl Dropped {
    fn new(backend: &'static str, operation: &'static str) -> Self {
        Self(Some((backend, operation)))
    }

    fn over(&mut self) {
        self.0 = None;
    }
}

#[cfg(any(feature = "cassandra", feature = "postgres", feature = "redis"))]
impl Drop for Dropped {
    fn drop(&mut self) {
        let Some((backend, operation)) = self.0 else { return };
        #[cfg(feature = "tracing")]
        tracing::debug!(target: TARGET, backend, operation, "dropped");
        #[cfg(not(feature = "tracing"))]
        let _ = (backend, operation);
    }
}

/// Tells how an operation ended. The error itself is the caller's to show.
fn ended<T>(backend: &'static str, operation: &'static str, result: &Result<T>) {
    #[cfg(feature = "tracing")]
    match result {
        Ok(_) => tracing::debug!(target: TARGET, backend, operation, "done"),
        Err(error) => {
            let kind = error.kind();
            tracing::debug!(target: TARGET, backend, operation, ?kind, "failed");
        }
    }
    #[cfg(not(feature = "tracing"))]
    let _ = (backend, operation, result);
}

#[cfg(feature = "tracing")]
const TARGET: &str = "memory_prompt::store";

#[cfg(feature = "tracing")]
fn span(backend: &'static str, operation: &'static str) -> tracing::Span {
    tracing::debug_span!(target: TARGET, "store", backend, operation)
}
