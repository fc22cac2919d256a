//! A connection from its question to its answer, and what becomes of those that are given up in between.
//!
//! The server goes on with what nobody waits for any more, and it keeps a connection for it, closed or not.
//! So one that is given up stays the pool's, and nobody gets another in its place, until the server is done
//! with it: by itself, as nearly always, or because it was told to cancel.

use std::pin::pin;
use std::sync::Arc;
use std::time::Duration;

use deadpool_postgres::Client;
use tokio::runtime::Handle;
use tokio::time::{sleep, timeout};

use super::settling::Settling;
use super::tls::Security;
use crate::memory::MemoryId;

/// The time for which what was given up may go on by itself.
const GRACE: Duration = Duration::from_millis(100);

/// The time to wait until the server is told to cancel again.
const AGAIN: Duration = Duration::from_millis(200);

/// A connection that somebody waits for.
pub(super) struct Lease<'a> {
    client: Option<Client>,
    /// Nothing is known about it yet.
    new: bool,
    runtime: &'a Handle,
    security: &'a Security,
    patience: Duration,
    /// The conversations that are changed, and who keeps others from them where it is given up.
    changes: Option<(&'a Arc<Settling>, &'a [&'a MemoryId])>,
}

impl<'a> Lease<'a> {
    /// For a connection which, once it is given up, is waited for as long as this.
    pub(super) fn new(runtime: &'a Handle, security: &'a Security, patience: Duration) -> Self {
        Self { client: None, new: false, runtime, security, patience, changes: None }
    }

    /// From now on these conversations may be changed.
    pub(super) fn changes(&mut self, settling: &'a Arc<Settling>, ids: &'a [&'a MemoryId]) {
        self.changes = Some((settling, ids));
    }

    /// Holds a connection. While it is new it is looked at in more than one step, and is closed where
    /// that breaks off.
    pub(super) fn hold(&mut self, client: Client, new: bool) -> (&Client, &mut bool) {
        self.new = new;
        (self.client.insert(client), &mut self.new)
    }

    /// The answer is there: back to the pool.
    pub(super) fn done(mut self) {
        self.client = None;
    }
}

impl Drop for Lease<'_> {
    /// The time was up, or the future was dropped.
    fn drop(&mut self) {
        if let Some(client) = self.client.take() {
            if self.new {
                drop(Client::take(client));
                return;
            }
            let (patience, security) = (self.patience, self.security.clone());
            let unsettled = self.changes.map(|(settling, ids)| settling.begin(ids));
            // It ends as late as it may, but it ends.
            self.runtime.spawn(async move {
                let given_up = GivenUp(Some(client));
                let _ = timeout(patience, given_up.end(&security)).await;
                drop(unsettled);
            });
        }
    }
}

/// A connection on which somebody waited for an answer. Where that does not come, it is closed.
struct GivenUp(Option<Client>);

impl GivenUp {
    async fn end(mut self, security: &Security) {
        let Some(client) = &self.0 else { return };
        // What is asked last is answered last.
        if timeout(GRACE, client.simple_query("")).await.is_ok_and(|answer| answer.is_ok()) {
            self.0 = None; // as good as before
            return;
        }
        cancel(client, security).await;
        self.0 = None; // the pool sees that it is closed
    }
}

/// Has the server cancel what it does for this connection, and then end it: a cancellation may come late,
/// and must not hit what somebody else asks then.
async fn cancel(client: &Client, security: &Security) {
    let mut ended = pin!(client.simple_query("SELECT pg_terminate_backend(pg_backend_pid())"));
    // It may come early, too, before what it is for.
    let mut again = AGAIN;
    loop {
        security.cancel(&client.cancel_token()).await;
        if timeout(again, ended.as_mut()).await.is_ok() {
            break;
        }
        again *= 2; // a server that stands still shall not find hundreds of these
    }
    while !client.is_closed() {
        sleep(Duration::from_millis(1)).await;
    }
}

impl Drop for GivenUp {
    fn drop(&mut self) {
        self.0.take().map(Client::take);
    }
}
