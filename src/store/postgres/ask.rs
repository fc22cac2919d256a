//! Requests: what is sent to the server at once, and its answer.

use std::time::Duration;

use deadpool_postgres::Client;
use deadpool_postgres::tokio_postgres::types::{FromSql, ToSql, Type};
use deadpool_postgres::tokio_postgres::{self as driver, Row, SimpleQueryMessage, Statement};

use super::failure::fail;
use crate::error::Result as StoreResult;
use crate::store::join::join_in_order;

type Result<T> = std::result::Result<T, driver::Error>;

/// One request on a connection, and the server's time for it.
pub(super) struct Exchange<'a> {
    client: &'a Client,
    /// True if statements may be prepared on this connection.
    prepares: bool,
    /// The server's time limit. It must finish, or report that it did nothing, while the caller
    /// still waits.
    millis: u128,
}

pub(super) trait Request: Sync {
    type Answer;
    /// True if it changes something, and so must not be repeated while its outcome is unknown.
    const CHANGES: bool;
    fn ask(&self, exchange: &Exchange<'_>) -> impl Future<Output = Result<Self::Answer>> + Send;
}

/// A parameter with its type, so that the server need not be asked for the type.
pub(super) type Parameter<'a> = (&'a (dyn ToSql + Sync), Type);

pub(super) struct Query<'a> {
    pub(super) sql: String,
    pub(super) parameters: &'a [Parameter<'a>],
    /// True if each connection prepares it once. False if planning needs the values of its
    /// parameters, or if it is rare.
    pub(super) often: bool,
}

/// A statement that changes something; the answer is its rows.
pub(super) struct LockedQuery<'a> {
    /// A statement before it, which locks what it depends on. The change then sees everything
    /// committed before it had the lock.
    pub(super) lock: Option<String>,
    pub(super) query: Query<'a>,
}

/// Statements that change something; the answer is the number of rows that each of them changed.
///
/// Each statement takes a new snapshot of the database when it begins. So if the first one waited
/// for another transaction's lock, the next ones see what that transaction committed. Parts of one
/// statement would not: they share the snapshot taken before the wait.
pub(super) struct Transaction {
    /// The one that takes the locks.
    pub(super) first: String,
    pub(super) then: Vec<String>,
}

impl<'a> Query<'a> {
    pub(super) fn often(sql: String, parameters: &'a [Parameter<'a>]) -> Self {
        Self { sql, parameters, often: true }
    }

    pub(super) fn seldom(sql: String, parameters: &'a [Parameter<'a>]) -> Self {
        Self { sql, parameters, often: false }
    }
}

impl Request for Query<'_> {
    type Answer = Vec<Row>;
    const CHANGES: bool = false;
    async fn ask(&self, exchange: &Exchange<'_>) -> Result<Vec<Row>> {
        let prepared = exchange.prepared(self).await?;
        exchange.rows(prepared, self).await
    }
}

impl Request for LockedQuery<'_> {
    type Answer = Vec<Row>;
    const CHANGES: bool = true;
    async fn ask(&self, exchange: &Exchange<'_>) -> Result<Vec<Row>> {
        let prepared = exchange.prepared(&self.query).await?;
        let rows = exchange.rows(prepared, &self.query);
        Ok(exchange.transaction(self.lock.as_deref(), rows).await?.1)
    }
}

impl Request for Transaction {
    type Answer = Vec<u64>;
    const CHANGES: bool = true;
    async fn ask(&self, exchange: &Exchange<'_>) -> Result<Vec<u64>> {
        // The logical message has no reader. It makes the transaction write something even if there
        // was nothing to do: if an earlier attempt made the change, and it is on no standby yet,
        // this commit waits for the standby too.
        let first =
            format!("{}; SELECT pg_logical_emit_message(true, 'memory_prompt', '')", self.first);
        let then = self.then.join("; ");
        let then = exchange.client.simple_query(&then);
        let (first, then) = exchange.transaction(Some(&first), then).await?;
        Ok(counts(&first).nth(BEGIN).into_iter().chain(counts(&then)).collect())
    }
}

const BEGIN: usize = 3;

fn counts(messages: &[SimpleQueryMessage]) -> impl Iterator<Item = u64> {
    messages.iter().filter_map(|message| match message {
        SimpleQueryMessage::CommandComplete(count) => Some(*count),
        _ => None,
    })
}

impl<'a> Exchange<'a> {
    /// Creates an exchange with this much time. The server gets nine tenths of it.
    pub(super) fn new(client: &'a Client, prepares: bool, left: Duration) -> Self {
        let millis = (left.as_millis() * 9 / 10).clamp(1, i32::MAX as u128 / 2);
        Self { client, prepares, millis }
    }

    async fn prepared(&self, query: &Query<'_>) -> Result<Option<Statement>> {
        if !self.prepares || !query.often {
            return Ok(None);
        }
        let types: Vec<Type> = query.parameters.iter().map(|(_, kind)| kind.clone()).collect();
        self.client.prepare_typed_cached(&query.sql, &types).await.map(Some)
    }

    async fn rows(&self, prepared: Option<Statement>, query: &Query<'_>) -> Result<Vec<Row>> {
        let Some(prepared) = prepared else {
            return self.client.query_typed(&query.sql, query.parameters).await;
        };
        let values: Vec<_> = query.parameters.iter().map(|(value, _)| *value).collect();
        self.client.query(&prepared, &values).await
    }

    /// Runs a transaction that the server aborts when the time is up. Everything is sent at once,
    /// so that no lock is held during a round trip.
    async fn transaction<T>(
        &self,
        first: Option<&str>,
        then: impl Future<Output = Result<T>>,
    ) -> Result<(Vec<SimpleQueryMessage>, T)> {
        // The whole gets slightly more time than a lock, so that the server reports a lock timeout.
        let (lock, whole) = (self.millis, self.millis * 21 / 20);
        // Each statement must see what was committed before it began, even if the default level is
        // another one.
        let mut start = format!(
            "BEGIN ISOLATION LEVEL READ COMMITTED; SET LOCAL lock_timeout = {lock}; \
             SET LOCAL statement_timeout = {whole}"
        );
        if let Some(first) = first {
            // The first statement and the rest share one time limit. (0 would be no limit.)
            start = format!(
                "{start}; {first}; SELECT set_config('statement_timeout', greatest(1, {whole} - \
                 1000 * extract(epoch FROM clock_timestamp() - now()))::int::text, true)"
            );
        }
        let begun = join_in_order(self.client.simple_query(&start), then);
        let ((begun, done), ended) =
            join_in_order(begun, self.client.batch_execute("COMMIT")).await;
        let (begun, done) = (begun?, done?);
        ended?;
        Ok((begun, done))
    }
}

/// Returns a column of a row. The type can differ only in a foreign table.
pub(super) fn value<'a, T: FromSql<'a>>(row: &'a Row, column: usize) -> StoreResult<T> {
    row.try_get(column).map_err(|error| fail("read", error))
}
