//! A connection from its question to its answer, and what becomes of those that are given up in
//! between.
//!
//! The server goes on with what nobody waits for any more, and it keeps a connection for it, closed
//! or not. So one that is given up stays the pool's, and nobody gets another in its place, until
//! the server is done with it: by itself, as nearly always, or because it was told to cancel.

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
    /// True while it is looked at in more than one step: it is of no use where that breaks off.
    new: bool,
    runtime: &'a Handle,
    security: &'a Security,
    patience: Duration,
    /// The conversations that are changed, and who keeps others from them where it is given up.
    changes: Option<(&'a Arc<Settling>, &'a [&'a MemoryId])>,
}

impl<'a> Lease<'a> {
    /// Makes room for a connection which, once it is given up, is waited for as long as this.
    pub(super) fn new(runtime: &'a Handle, security: &'a Security, patience: Duration) -> Self {
        Self { client: None, new: false, runtime, security, patience, changes: None }
    }

    /// Notes that these conversations may be changed from now on.
    pub(super) fn changes(&mut self, settling: &'a Arc<Settling>, ids: &'a [&'a MemoryId]) {
        self.changes = Some((settling, ids));
    }

    /// Holds a connection. While it is new it is looked at in more than one step, and nothing is
    /// changed.
    pub(super) fn hold(&mut self, client: Client, new: bool) -> (&mut Client, &mut bool) {
        self.new = new;
        (self.client.insert(client), &mut self.new)
    }

    /// Gives the connection back to the pool: the answer is there.
    pub(super) fn done(mut self) {
        self.client = None;
    }

    /// Closes the connection: the answer is there, and it is the last one.
    pub(super) fn close(mut self) {
        self.client.take().map(Client::take);
    }
}

impl Drop for Lease<'_> {
    /// Gives the connection up: the time was up, or the future was dropped.
    fn drop(&mut self) {
        if let Some(client) = self.client.take() {
            let (patience, security, new) = (self.patience, self.security.clone(), self.new);
            let changes = self.changes.filter(|_| !new);
            let unsettled = changes.map(|(settling, ids)| settling.begin(ids));
            // This has an end, however late.
            self.runtime.spawn(async move {
                let given_up = GivenUp(Some(client));
                let _ = timeout(patience, given_up.end(&security, new)).await;
                drop(unsettled);
            });
        }
    }
}

/// A connection on which somebody waited for an answer. Where that does not come, it is closed.
struct GivenUp(Option<Client>);

impl GivenUp {
    async fn end(mut self, security: &Security, new: bool) {
        let Some(client) = &self.0 else { return };
        // Answers come in the order of the questions: behind this one, all are there.
        let idle = timeout(GRACE, client.simple_query("")).await.is_ok_and(|answer| answer.is_ok());
        if idle && !new {
            self.0 = None; // as good as before
            return;
        }
        cancel(client, security).await;
        self.0 = None; // the pool sees that it is closed
    }
}

/// Ends a session, whatever state a transaction was left in.
const END: &str = "ROLLBACK; SELECT pg_terminate_backend(pg_backend_pid())";

/// Has the server cancel what it does for this connection, and then end it: a cancellation may come
/// late, and must not hit what somebody else asks then.
async fn cancel(client: &Client, security: &Security) {
    let (mut patience, mut pause) = (AGAIN, Duration::from_millis(1));
    security.cancel(&client.cancel_token()).await;
    while !client.is_closed() {
        if timeout(patience, client.simple_query(END)).await.is_err() {
            // The cancellation came before the statement that it was for.
            security.cancel(&client.cancel_token()).await;
            patience *= 2; // a server that stands still shall not find hundreds of these
            continue;
        }
        // The session ends in a moment, unless a cancellation came late and hit this very
        // statement.
        sleep(pause).await;
        pause = (pause * 2).min(AGAIN);
    }
}

impl Drop for GivenUp {
    fn drop(&mut self) {
        self.0.take().map(Client::take);
    }
}
