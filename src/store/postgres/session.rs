//! The knowledge about a connection: whether statements can be prepared on it, which ones are, and
//! the time on the server.
//!
//! A prepared statement belongs to a session of the server. A pooler gives each transaction another
//! session, and there its name means nothing, or a statement of somebody else. So nothing is
//! prepared before it is known that this is safe: the number of the session that answers is the one
//! that the connection began with, or it is a pooler that gives statements names of its own, and
//! prepares them wherever they are asked for.

use std::collections::HashMap;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};
use std::time::{Duration, Instant, SystemTime};

use deadpool_postgres::tokio_postgres::{self as driver, SimpleQueryMessage};
use deadpool_postgres::{Client, ObjectId};
use parking_lot::Mutex;

use super::backend;
use super::statements::Statement;
use crate::store::both::both;

/// The knowledge about one connection.
pub(super) struct Session {
    prepares: AtomicBool,
    prepared: Mutex<HashMap<usize, driver::Statement>>,
    clock: Clock,
}

/// The server's words about itself and its clock, which it says beside the version of the tables.
pub(super) struct Said {
    pub(super) backend: Option<i32>,
    pub(super) clock: Clock,
}

/// The time on the server at an instant of this process, which came later by what the answer took.
#[derive(Clone, Copy)]
pub(super) struct Clock {
    pub(super) there: SystemTime,
    pub(super) here: Instant,
}

impl Session {
    /// Finds out about a connection.
    pub(super) async fn of(client: &Client, said: &Said, prepare: bool) -> Self {
        let direct = said.backend.is_some() && said.backend == backend::number(client).await;
        let prepares = prepare && (direct || renames(client).await.unwrap_or(false));
        Self { prepares: AtomicBool::new(prepares), prepared: Mutex::default(), clock: said.clock }
    }

    /// Returns the time on the server when so much time is over. It is early rather than late.
    pub(super) fn after(&self, left: Duration) -> SystemTime {
        let Clock { there, here } = self.clock;
        there + here.elapsed() + left
    }

    /// Tells whether the connection was made before this, as far as is known.
    pub(super) fn was_before(&self, instant: Instant) -> bool {
        self.clock.here < instant
    }

    /// Tells whether this statement is to be prepared.
    pub(super) fn prepares(&self, statement: &Statement) -> bool {
        statement.number.is_some() && self.prepares.load(Ordering::Relaxed)
    }

    pub(super) fn prepared(&self, statement: &Statement) -> Option<driver::Statement> {
        self.prepared.lock().get(&statement.number?).cloned()
    }

    pub(super) fn keep(&self, statement: &Statement, prepared: driver::Statement) {
        if let Some(number) = statement.number {
            self.prepared.lock().insert(number, prepared);
        }
    }

    /// Notes that nothing is to be prepared on this connection any more: what was prepared is not
    /// there.
    pub(super) fn prepare_no_more(&self) {
        self.prepares.store(false, Ordering::Relaxed);
        self.prepared.lock().clear();
    }
}

/// Tells whether this is a pooler that gives prepared statements names of its own. All of it is one
/// transaction, so that it meets one session, and leaves nothing there.
async fn renames(client: &Client) -> Result<bool, driver::Error> {
    let begun = client.batch_execute("BEGIN READ ONLY");
    let (begun, prepared) = both(begun, client.prepare_typed(PROBE, &[])).await;
    begun?;
    let found = match prepared {
        Ok(prepared) => {
            let found = client.simple_query(PROBE).await;
            // It is closed where it was prepared.
            drop(prepared);
            found
        }
        Err(error) => Err(error),
    };
    client.batch_execute("ROLLBACK").await?;
    let names: Vec<String> = found?
        .iter()
        .filter_map(|message| match message {
            SimpleQueryMessage::Row(row) => row.get(0).map(str::to_owned),
            _ => None,
        })
        .collect();
    Ok(!names.is_empty() && names.iter().all(|name| !is_of_the_driver(name)))
}

/// Finds itself among what is prepared.
const PROBE: &str = "SELECT name FROM pg_prepared_statements
    WHERE statement LIKE '%memory-prompt looks for its own statement%'";

/// Returns whether a statement is one of the driver's, which calls them `s1`, `s2` and so on.
fn is_of_the_driver(name: &str) -> bool {
    name.strip_prefix('s').is_some_and(|number| number.bytes().all(|it| it.is_ascii_digit()))
}

/// The knowledge about the connections of a pool.
#[derive(Default)]
pub(super) struct Sessions(Mutex<HashMap<ObjectId, Arc<Session>>>);

impl Sessions {
    pub(super) fn of(&self, client: &Client) -> Option<Arc<Session>> {
        self.0.lock().get(&Client::id(client)).cloned()
    }

    /// Keeps what was found out. Nobody says when a connection is gone, so all is forgotten now and
    /// then, and found out again.
    pub(super) fn keep(
        &self,
        client: &Client,
        session: Session,
        connections: usize,
    ) -> Arc<Session> {
        let session = Arc::new(session);
        let mut all = self.0.lock();
        if all.len() >= connections.saturating_mul(4).max(64) {
            all.clear();
        }
        all.insert(Client::id(client), Arc::clone(&session));
        session
    }

    pub(super) fn forget(&self, client: &Client) {
        self.0.lock().remove(&Client::id(client));
    }
}
