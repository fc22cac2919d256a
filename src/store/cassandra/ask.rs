//! The requests to the servers: single conversations, messages, and walks over all conversations.

use std::ops::Range;
use std::sync::Arc;
use std::time::Duration;

use scylla::client::session::Session;
use scylla::deserialize::row::DeserializeRow;
use scylla::response::{PagingState, PagingStateResponse};
use scylla::serialize::row::SerializeRow;
use scylla::statement::batch::{Batch, BatchType};
use scylla::statement::prepared::PreparedStatement;
use scylla::statement::{self, SerialConsistency};
use uuid::Uuid;

use super::BUCKET;
use super::failure::{Failure, failed};
use super::options::CassandraOptions;
use super::rows::{HEAD, Head, Look, NewestRow, Pick, Row};
use super::statements::Statements;
use crate::error::Result;
use crate::store::observe::Watch;

/// The head, the system message and the newest messages in the head's partition, all of one moment.
pub(super) struct Newest {
    pub(super) head: Head,
    pub(super) system: Option<Vec<u8>>,
    pub(super) rows: Vec<Row>,
}

pub(super) struct Client {
    pub(super) session: Arc<Session>,
    pub(super) timeout: Duration,
    pub(super) consistency: statement::Consistency,
    pub(super) serial: SerialConsistency,
    pub(super) cql: Statements,
    pub(super) watch: Watch,
}

#[derive(Clone, Copy, PartialEq)]
pub(super) enum Consistency {
    /// Sees every acknowledged change.
    Quorum,
    /// Also completes or excludes every change that was begun, at the cost of one more round among
    /// the replicas.
    Serial,
}

const MOST_BYTES_AT_ONCE: usize = 1 << 18;

impl Client {
    pub(super) async fn new(session: Arc<Session>, options: &CassandraOptions) -> Result<Self> {
        Ok(Self {
            cql: Statements::prepare(&session, options).await?,
            session,
            timeout: options.timeout,
            consistency: options.consistency,
            serial: options.serial_consistency,
            watch: Watch::new("cassandra"),
        })
    }

    pub(super) async fn try_look(
        &self,
        key: &str,
        places: &[i64],
        consistency: Consistency,
    ) -> Result<Vec<Look>, Failure> {
        let statement = match consistency {
            Consistency::Quorum => &self.cql.look,
            Consistency::Serial => &self.cql.look_serial,
        };
        self.try_all(statement, (key, [&[HEAD], places].concat())).await
    }

    pub(super) async fn ping(&self) -> Result<()> {
        let said = self.session.execute_unpaged(&self.cql.ping, ()).await;
        said.map(drop).map_err(|error| failed("ping", error))
    }

    pub(super) fn connected(&self) -> usize {
        let cluster = self.session.get_cluster_state();
        cluster.get_nodes_info().iter().filter(|node| node.is_connected()).count()
    }

    pub(super) fn token(&self, operation: &'static str, key: &str) -> Result<i64> {
        match self.cql.slots.calculate_token(&(key,)) {
            Ok(token) => Ok(token.map_or(i64::MIN, |token| token.value())),
            Err(error) => Err(Failure::strange(error).during(operation)),
        }
    }

    async fn try_all<R>(
        &self,
        statement: &PreparedStatement,
        values: impl SerializeRow + Sync,
    ) -> Result<Vec<R>, Failure>
    where
        R: for<'a> DeserializeRow<'a, 'a> + Send,
    {
        let mut rows = Vec::new();
        let push = |row| {
            rows.push(row);
            true
        };
        self.each(statement, values, push).await?;
        Ok(rows)
    }

    /// Calls `each` with the rows of a statement, page by page, until it says that it has enough.
    pub(super) async fn each<R>(
        &self,
        statement: &PreparedStatement,
        values: impl SerializeRow + Sync,
        mut each: impl FnMut(R) -> bool + Send,
    ) -> Result<(), Failure>
    where
        R: for<'a> DeserializeRow<'a, 'a>,
    {
        let mut page = PagingState::start();
        loop {
            let (result, next) = self.session.execute_single_page(statement, &values, page).await?;
            let rows = result.into_rows_result().map_err(Failure::strange)?;
            for row in rows.rows::<R>().map_err(Failure::strange)? {
                if !each(row.map_err(Failure::strange)?) {
                    return Ok(());
                }
            }
            match next {
                PagingStateResponse::HasMorePages { state } => page = state,
                PagingStateResponse::NoMorePages => return Ok(()),
            }
        }
    }
}

/// One conversation, for one operation.
#[derive(Clone, Copy)]
pub(super) struct Conversation<'a> {
    pub(super) client: &'a Client,
    pub(super) operation: &'static str,
    pub(super) key: &'a str,
}

impl Conversation<'_> {
    pub(super) async fn head(&self, consistency: Consistency) -> Result<Option<Head>> {
        Ok(self.look(&[], consistency).await?.0)
    }

    /// Returns the head and the rows in these places, all of one moment.
    pub(super) async fn look(
        &self,
        places: &[i64],
        consistency: Consistency,
    ) -> Result<(Option<Head>, Vec<Look>)> {
        let rows = self.client.try_look(self.key, places, consistency).await;
        let mut rows = rows.map_err(|failure| failure.during(self.operation))?;
        Ok((take_head(self.operation, &mut rows)?, rows))
    }

    /// Returns the head, and the newest `n` messages in its partition.
    pub(super) async fn newest(&self, n: usize) -> Result<Option<Newest>> {
        let limit = i32::try_from(n).unwrap_or(i32::MAX).saturating_add(1);
        let rows: Vec<NewestRow> = self.all(&self.client.cql.newest, (self.key, limit)).await?;
        let mut rows = rows.into_iter();
        let Some(first) = rows.next().filter(|first| first.position == HEAD) else {
            return Ok(None);
        };
        let head = first.head(self.operation)?;
        let rows = rows.map(|row| Row::new(row.position, row.at, row.payload)).collect();
        Ok(Some(Newest { head, system: first.system, rows }))
    }

    /// Returns the version of the head and the rows in these places, all of one moment.
    pub(super) async fn pick(&self, places: &[i64]) -> Result<(Option<Uuid>, Vec<Pick>)> {
        let places = [&[HEAD], places].concat();
        let mut rows: Vec<Pick> = self.all(&self.client.cql.pick, (self.key, places)).await?;
        let version = match rows.first() {
            Some(first) if first.position == HEAD => rows.remove(0).version,
            _ => None,
        };
        Ok((version, rows))
    }

    /// Returns the names of the slots, with their stored versions.
    pub(super) async fn slots(&self) -> Result<Vec<(String, i64)>> {
        self.all(&self.client.cql.slots, (self.key,)).await
    }

    /// Returns the messages in the head's partition at these positions, newest first.
    pub(super) async fn beside(&self, range: Range<i64>) -> Result<Vec<Row>> {
        self.all(&self.client.cql.beside, (self.key, range.start, range.end)).await
    }

    /// Returns the messages at these positions that are in buckets, in no order.
    pub(super) async fn sealed(&self, head: &Head, range: Range<i64>) -> Result<Vec<Row>> {
        let mut rows = Vec::new();
        let range = range.start..range.end.min(head.sealed);
        for bucket in buckets(&range) {
            let values = (head.log, bucket, range.start, range.end);
            rows.append(&mut self.all(&self.client.cql.bucket, values).await?);
        }
        Ok(rows)
    }

    /// Writes messages into a bucket of a log. They are invisible until a head refers to them, and
    /// writing them twice changes nothing.
    pub(super) async fn put(&self, log: Uuid, bucket: i64, mut rows: &[Row]) -> Result<()> {
        while !rows.is_empty() {
            let mut bytes = 0;
            let fits = |row: &&Row| {
                bytes += row.payload.len();
                bytes <= MOST_BYTES_AT_ONCE
            };
            let count = rows.iter().take_while(fits).count().max(1);
            let (now, later) = rows.split_at(count);
            let mut batch = Batch::new(BatchType::Unlogged);
            batch.set_consistency(self.client.consistency);
            batch.set_request_timeout(Some(self.client.timeout));
            batch.set_is_idempotent(true);
            batch.statements.resize(count, self.client.cql.put.clone().into());
            let values = now.iter().map(|row| (log, bucket, row.position, row.at, &*row.payload));
            let sent = self.client.session.batch(&batch, values.collect::<Vec<_>>()).await;
            sent.map_err(|error| failed(self.operation, error))?;
            rows = later;
        }
        Ok(())
    }

    pub(super) async fn drop_buckets(&self, log: Uuid, buckets: Range<i64>) -> Result<()> {
        for bucket in buckets {
            self.run(&self.client.cql.drop_bucket, (log, bucket)).await?;
        }
        Ok(())
    }

    /// Removes the messages before a position from its bucket.
    pub(super) async fn drop_rows(&self, log: Uuid, before: i64) -> Result<()> {
        self.run(&self.client.cql.drop_rows, (log, before / BUCKET, before)).await
    }

    async fn run(&self, statement: &PreparedStatement, values: impl SerializeRow) -> Result<()> {
        let done = self.client.session.execute_unpaged(statement, values).await;
        done.map(drop).map_err(|error| failed(self.operation, error))
    }

    async fn all<R>(
        &self,
        statement: &PreparedStatement,
        values: impl SerializeRow + Sync,
    ) -> Result<Vec<R>>
    where
        R: for<'a> DeserializeRow<'a, 'a> + Send,
    {
        let rows = self.client.try_all(statement, values).await;
        rows.map_err(|failure| failure.during(self.operation))
    }
}

/// Takes the head out of these rows: it is the first, if there is one.
pub(super) fn take_head(operation: &'static str, rows: &mut Vec<Look>) -> Result<Option<Head>> {
    match rows.first() {
        Some(first) if first.position == HEAD => rows.remove(0).head(operation).map(Some),
        _ => Ok(None),
    }
}

pub(super) fn buckets(range: &Range<i64>) -> Range<i64> {
    if range.is_empty() {
        return 0..0;
    }
    range.start / BUCKET..(range.end - 1) / BUCKET + 1
}
