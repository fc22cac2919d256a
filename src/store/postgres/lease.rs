//! A connection from its question to its answer, and what becomes of those that are given up in between.
//!
//! The server goes on with what nobody waits for any more, and it keeps a connection for it, closed or not.
//! So one that is given up stays the pool's, and nobody gets another in its place, until the server is done
//! with it: by itself, as nearly always, or because it was told to cancel.

use std::pin::pin;
use std::time::Duration;

use deadpool_postgres::Client;
use deadpool_postgres::tokio_postgres::NoTls;
use tokio::runtime::Handle;
use tokio::time::{sleep, timeout};

/// How long what was given up may go on by itself.
const GRACE: Duration = Duration::from_millis(100);

/// How long to wait until the server is told to cancel again.
const AGAIN: Duration = Duration::from_millis(200);

/// A connection that somebody waits for.
pub(super) struct Lease<'a> {
    client: Option<Client>,
    runtime: &'a Handle,
    patience: Duration,
}

impl<'a> Lease<'a> {
    /// For a connection which, once it is given up, is waited for as long as this.
    pub(super) fn new(runtime: &'a Handle, patience: Duration) -> Self {
        Self { client: None, runtime, patience }
    }

    pub(super) fn hold(&mut self, client: Client) -> &Client {
        self.client.insert(client)
    }

    /// The answer is there: back to the pool.
    pub(super) fn done(mut self) {
        self.client = None;
    }

    /// Nobody is to use it again.
    pub(super) fn close(mut self) {
        self.client.take().map(Client::take);
    }
}

impl Drop for Lease<'_> {
    /// The time was up, or the future was dropped.
    fn drop(&mut self) {
        if let Some(client) = self.client.take() {
            let patience = self.patience;
            // It ends as late as it may, but it ends.
            self.runtime.spawn(async move {
                let given_up = GivenUp(Some(client));
                let _ = timeout(patience, given_up.end()).await;
            });
        }
    }
}

/// A connection on which somebody waited for an answer. Where that does not come, it is closed.
struct GivenUp(Option<Client>);

impl GivenUp {
    async fn end(mut self) {
        let Some(client) = &self.0 else { return };
        // What is asked last is answered last.
        if timeout(GRACE, client.simple_query("")).await.is_ok_and(|answer| answer.is_ok()) {
            self.0 = None; // as good as before
            return;
        }
        cancel(client).await;
        self.0 = None; // the pool sees that it is closed
    }
}

/// Has the server cancel what it does for this connection, and then end it: a cancellation may come late,
/// and must not hit what somebody else asks then.
async fn cancel(client: &Client) {
    let mut ended = pin!(client.simple_query("SELECT pg_terminate_backend(pg_backend_pid())"));
    // It may come early, too, before what it is for.
    let mut again = AGAIN;
    loop {
        let _ = client.cancel_token().cancel_query(NoTls).await;
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
