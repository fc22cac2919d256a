//! Requests: what is sent to the server at once, and its answer.

use std::time::Duration;

use deadpool_postgres::Client;
use deadpool_postgres::tokio_postgres::types::{FromSql, ToSql, Type};
use deadpool_postgres::tokio_postgres::{self as driver, Row, SimpleQueryMessage, Statement};

use super::failure::fail;
use crate::error::Result as StoreResult;
use crate::store::join::join_in_order;

type Result<T> = std::result::Result<T, driver::Error>;

/// One request on a connection, and the time that the server has for it.
pub(super) struct Exchange<'a> {
    client: &'a Client,
    /// True if statements may be prepared on this connection.
    prepares: bool,
    /// The time in which the server is to be done, or to say that it did nothing, while the caller
    /// waits.
    millis: u128,
}

/// A request, and its answer.
pub(super) trait Request: Sync {
    type Answer;
    /// True if it changes something: then it must not be repeated while it may be done.
    const CHANGES: bool;
    fn ask(&self, exchange: &Exchange<'_>) -> impl Future<Output = Result<Self::Answer>> + Send;
}

/// A parameter of a statement with its type, so that the server need not be asked for it.
pub(super) type Parameter<'a> = (&'a (dyn ToSql + Sync), Type);

/// A statement that reads; the answer is its rows.
pub(super) struct Query<'a> {
    pub(super) sql: String,
    pub(super) parameters: &'a [Parameter<'a>],
    /// True if each connection prepares it once. False if the values of its parameters are needed
    /// to plan it well, or if it is seldom asked.
    pub(super) often: bool,
}

/// A statement that changes something; the answer is its rows.
pub(super) struct LockedQuery<'a> {
    /// A statement before it, which locks what it depends on. The change sees what was committed
    /// until it had the lock.
    pub(super) lock: Option<String>,
    pub(super) query: Query<'a>,
}

/// Statements that change something; the answer is how many rows each of them did.
///
/// Each statement takes its own look at the database when it begins. So if the first one had to
/// wait for another transaction's lock, the next ones see what that transaction committed. Parts of
/// one statement would not: they share the look that was taken before the wait.
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
        // The message in the log is for no reader: with it there is something to commit, even if
        // there was nothing to do. So if an earlier attempt did it, and it is on no standby yet,
        // this one waits for the standby, too.
        let first =
            format!("{}; SELECT pg_logical_emit_message(true, 'memory_prompt', '')", self.first);
        let then = self.then.join("; ");
        let then = exchange.client.simple_query(&then);
        let (first, then) = exchange.transaction(Some(&first), then).await?;
        Ok(counts(&first).nth(BEGIN).into_iter().chain(counts(&then)).collect())
    }
}

/// The number of statements that begin a transaction.
const BEGIN: usize = 3;

fn counts(messages: &[SimpleQueryMessage]) -> impl Iterator<Item = u64> {
    messages.iter().filter_map(|message| match message {
        SimpleQueryMessage::CommandComplete(count) => Some(*count),
        _ => None,
    })
}

impl<'a> Exchange<'a> {
    /// Makes an exchange whose answer is waited for so long: the server has nine tenths of it.
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

    /// Does something in a transaction that the server gives up when the time is over. All of it is
    /// sent at once, so that no lock is held for as long as a message is on its way.
    async fn transaction<T>(
        &self,
        first: Option<&str>,
        then: impl Future<Output = Result<T>>,
    ) -> Result<(Vec<SimpleQueryMessage>, T)> {
        // A little more for the whole, so that the server says that it waited for a lock.
        let (lock, whole) = (self.millis, self.millis * 21 / 20);
        // Whatever the default is, each statement is to see what was committed until it began.
        let mut start = format!(
            "BEGIN ISOLATION LEVEL READ COMMITTED; SET LOCAL lock_timeout = {lock}; \
             SET LOCAL statement_timeout = {whole}"
        );
        if let Some(first) = first {
            // The first statement and the rest have one time between them. (0 is no limit at all.)
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

/// Returns a column of a row. Only a table of something else could hold another type.
pub(super) fn value<'a, T: FromSql<'a>>(row: &'a Row, column: usize) -> StoreResult<T> {
    row.try_get(column).map_err(|error| fail("read", error))
}
