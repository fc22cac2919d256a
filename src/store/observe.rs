//! Reports what a store does: as figures, and with the feature `tracing` as spans and events.
//!
//! No text, id, slot name or error text is reported: only the backend, the operation, the kind of
//! error, and a reason in this crate's own words.

#![cfg_attr(not(feature = "tracing"), allow(unused_variables, reason = "nobody can listen"))]

use std::sync::atomic::{AtomicU64, AtomicUsize, Ordering};

use super::Figures;
use crate::error::Result;
#[cfg(feature = "async")]
use crate::memory::BoxFuture;

/// The counts of a store, and the name of its backend for events.
#[derive(Default)]
pub(super) struct Watch {
    backend: &'static str,
    under_way: AtomicUsize,
    retries: AtomicU64,
    reconnects: AtomicU64,
    lost_races: AtomicU64,
}

impl Watch {
    pub(super) fn new(backend: &'static str) -> Self {
        Self { backend, ..Self::default() }
    }

    /// Runs an operation in its own span, and counts it as under way until it ends or is dropped.
    #[cfg(feature = "async")]
    pub(super) fn operation<'a, T>(
        &'a self,
        operation: &'static str,
        work: impl Future<Output = Result<T>> + Send + 'a,
    ) -> BoxFuture<'a, Result<T>> {
        let watched = async move {
            let mut under_way = self.begin(operation);
            let result = work.await;
            under_way.end(&result);
            result
        };
        #[cfg(feature = "tracing")]
        let watched = tracing::Instrument::instrument(watched, span(self.backend, operation));
        Box::pin(watched)
    }

    /// Does the same for a blocking operation.
    pub(super) fn blocking<T>(
        &self,
        operation: &'static str,
        work: impl FnOnce() -> Result<T>,
    ) -> Result<T> {
        #[cfg(feature = "tracing")]
        let span = span(self.backend, operation);
        #[cfg(feature = "tracing")]
        let _entered = span.enter();
        let mut under_way = self.begin(operation);
        let result = work();
        under_way.end(&result);
        result
    }

    /// Records a retry for this reason.
    pub(super) fn retried(&self, operation: &'static str, reason: &str) {
        self.retries.fetch_add(1, Ordering::Relaxed);
        #[cfg(feature = "tracing")]
        tracing::warn!(target: TARGET, backend = self.backend, operation, reason, "retry");
    }

    /// Records that a lost connection was replaced.
    pub(super) fn reconnected(&self, operation: &'static str) {
        self.reconnects.fetch_add(1, Ordering::Relaxed);
        #[cfg(feature = "tracing")]
        tracing::warn!(target: TARGET, backend = self.backend, operation, "reconnect");
    }

    /// Records that another writer changed the conversation first, so that it is read again.
    pub(super) fn lost_race(&self, operation: &'static str) {
        self.lost_races.fetch_add(1, Ordering::Relaxed);
        #[cfg(feature = "tracing")]
        tracing::debug!(target: TARGET, backend = self.backend, operation, "lost race");
    }

    /// Returns the counts; the backend adds its connections.
    pub(super) fn figures(&self) -> Figures {
        Figures {
            under_way: self.under_way.load(Ordering::Relaxed),
            retries: self.retries.load(Ordering::Relaxed),
            reconnects: self.reconnects.load(Ordering::Relaxed),
            lost_races: self.lost_races.load(Ordering::Relaxed),
            ..Figures::default()
        }
    }

    fn begin(&self, operation: &'static str) -> UnderWay<'_> {
        self.under_way.fetch_add(1, Ordering::Relaxed);
        UnderWay { watch: self, operation, has_ended: false }
    }
}

/// An operation that counts as under way until this is dropped.
struct UnderWay<'a> {
    watch: &'a Watch,
    operation: &'static str,
    has_ended: bool,
}

impl UnderWay<'_> {
    /// Records how the operation ended. Showing the error is up to the caller.
    fn end<T>(&mut self, result: &Result<T>) {
        self.has_ended = true;
        let (backend, operation) = (self.watch.backend, self.operation);
        #[cfg(feature = "tracing")]
        match result {
            Ok(_) => tracing::debug!(target: TARGET, backend, operation, "done"),
            Err(error) => {
                let kind = error.kind();
                tracing::debug!(target: TARGET, backend, operation, ?kind, "failed");
            }
        }
    }
}

impl Drop for UnderWay<'_> {
    fn drop(&mut self) {
        let (backend, operation) = (self.watch.backend, self.operation);
        #[cfg(feature = "tracing")]
        if !self.has_ended {
            tracing::debug!(target: TARGET, backend, operation, "dropped");
        }
        self.watch.under_way.fetch_sub(1, Ordering::Relaxed);
    }
}

#[cfg(feature = "tracing")]
const TARGET: &str = "memory_prompt::store";

#[cfg(feature = "tracing")]
fn span(backend: &'static str, operation: &'static str) -> tracing::Span {
    tracing::debug_span!(target: TARGET, "store", backend, operation)
}
