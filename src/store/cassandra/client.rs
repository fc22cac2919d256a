//! The statements, and how each of them is sent.

use std::ops::Range;
use std::sync::Arc;
use std::time::{Duration, Instant};

use scylla::client::session::Session;
use scylla::deserialize::row::DeserializeRow;
use scylla::policies::retry::FallthroughRetryPolicy;
use scylla::response::{PagingState, PagingStateResponse};
use scylla::serialize::row::SerializeRow;
use scylla::statement::batch::{Batch, BatchType};
use scylla::statement::prepared::PreparedStatement;
use scylla::statement::{Consistency, SerialConsistency};
use scylla::value::{CqlTimestamp, CqlValue, MaybeUnset, Row as AnyRow};
use uuid::Uuid;

use super::failure::{Failure, failed, strange};
use super::statements::Statements;
use super::{BUCKET, CassandraOptions};
use crate::error::{Error, ErrorKind, Result};

/// What is known of a conversation apart from its messages: one row, which every change replaces.
#[derive(Clone, Debug, PartialEq, scylla::DeserializeRow)]
pub(super) struct Head {
    /// Another one after each change. A change is made only if this is still what its maker saw.
    pub(super) version: Uuid,
    /// Under which name its moved messages lie in `message`; a conversation's own.
    pub(super) log: Uuid,
    pub(super) start: i64,
    pub(super) end: i64,
    /// The messages before this position lie in buckets, and those from it on beside the head.
    pub(super) sealed: i64,
    /// A batch that was too large to lie beside the head: its log, its first position and the one
    /// behind its last.
    pub(super) large: Option<(Uuid, i64, i64)>,
    pub(super) active: CqlTimestamp,
}

impl Head {
    /// The head of a conversation that nobody has begun.
    pub(super) fn new() -> Self {
        Self {
            version: Uuid::nil(),
            log: Uuid::new_v4(),
            start: 0,
            end: 0,
            sealed: 0,
            large: None,
            active: CqlTimestamp(0),
        }
    }
}

/// A message as a table holds it.
#[derive(Clone, Debug, scylla::DeserializeRow)]
pub(super) struct Row {
    pub(super) seq: i64,
    pub(super) at: CqlTimestamp,
    pub(super) payload: Vec<u8>,
}

/// A row of `conversation`: the head or a message.
#[derive(scylla::DeserializeRow)]
struct Line {
    seq: i64,
    version: Option<Uuid>,
    log: Option<Uuid>,
    start: Option<i64>,
    end: Option<i64>,
    sealed: Option<i64>,
    large: Option<(Uuid, i64, i64)>,
    active: Option<CqlTimestamp>,
    system: Option<Vec<u8>>,
    at: Option<CqlTimestamp>,
    payload: Option<Vec<u8>>,
}

/// The head, the system message and the newest of the messages beside it, all of one moment.
pub(super) struct Newest {
    pub(super) head: Head,
    pub(super) system: Option<Vec<u8>>,
    pub(super) rows: Vec<Row>,
}

/// A conversation where it lies in the ring.
#[derive(scylla::DeserializeRow)]
pub(super) struct Found {
    pub(super) id: String,
    pub(super) place: i64,
    pub(super) active: CqlTimestamp,
}

/// Buckets that nobody will need once a change is made.
#[derive(Clone, scylla::DeserializeRow)]
pub(super) struct Garbage {
    pub(super) note: Uuid,
    pub(super) id: String,
    pub(super) log: Uuid,
    pub(super) first: i64,
    pub(super) past: i64,
    pub(super) noted: CqlTimestamp,
}

pub(super) struct Client {
    pub(super) session: Arc<Session>,
    pub(super) timeout: Duration,
    consistency: Consistency,
    serial: SerialConsistency,
    cql: Statements,
}

/// A change of one conversation: all of it is made, or nothing of it.
pub(super) struct Change<'a> {
    /// The head's once the change is made.
    pub(super) version: Uuid,
    batch: Batch,
    values: Vec<Values<'a>>,
}

type Values<'a> = Box<dyn SerializeRow + Send + Sync + 'a>;

/// What became of a change.
pub(super) enum Swap {
    Done,
    /// Somebody else was faster, and this is how things are now.
    Lost(Option<Head>),
    /// The same, and an answer got lost on the way: the change may have been made and overtaken.
    Overtaken(Option<Head>),
}

/// What a client sends at once.
const MOST_BYTES_AT_ONCE: usize = 1 << 18;

impl Client {
    pub(super) async fn new(session: Arc<Session>, options: &CassandraOptions) -> Result<Self> {
        Ok(Self {
            cql: Statements::prepare(&session, options).await?,
            session,
            timeout: options.timeout,
            consistency: options.consistency,
            serial: options.serial_consistency,
        })
    }

    // ---- the head ----------------------------------------------------------------------------------

    /// The head as the replicas know it: every change that was acknowledged is in it.
    pub(super) async fn head(&self, operation: &'static str, key: &str) -> Result<Option<Head>> {
        let head = self.first(&self.cql.head, (key,)).await;
        head.map_err(|error| error.during(operation))
    }

    /// The head once every change that was begun is either made or will never be: that costs a round
    /// more among the replicas.
    pub(super) async fn head_for_sure(
        &self,
        operation: &'static str,
        key: &str,
    ) -> Result<Option<Head>> {
        let head = self.first(&self.cql.head_for_sure, (key,)).await;
        head.map_err(|error| error.during(operation))
    }

    /// The head, and the newest `n` of the messages beside it.
    pub(super) async fn newest(&self, key: &str, n: usize) -> Result<Option<Newest>> {
        let limit = i32::try_from(n).unwrap_or(i32::MAX).saturating_add(1);
        let mut lines = self.all::<Line>("read", &self.cql.newest, (key, limit)).await?.into_iter();
        let Some(Line {
            seq: HEAD_SEQ,
            system,
            version,
            log,
            start,
            end,
            sealed,
            large,
            active,
            ..
        }) = lines.next()
        else {
            return Ok(None);
        };
        let head = || {
            Some(Head {
                version: version?,
                log: log?,
                start: start?,
                end: end?,
                sealed: sealed?,
                large,
                active: active?,
            })
        };
        let head = head().ok_or_else(|| {
            Error::new(ErrorKind::Storage, "read", "cassandra: the conversation's head is damaged")
        })?;
        let rows = lines.map(|line| Row {
            seq: line.seq,
            at: line.at.unwrap_or(CqlTimestamp(0)),
            payload: line.payload.unwrap_or_default(),
        });
        Ok(Some(Newest { head, system, rows: rows.collect() }))
    }

    /// Which attempt put its first message at this position; `None` where that is not beside the head.
    pub(super) async fn attempt(&self, key: &str, seq: i64) -> Result<Option<Option<Uuid>>> {
        let row = self.first::<(Option<Uuid>,)>(&self.cql.attempt, (key, seq)).await;
        Ok(row.map_err(|error| error.during("append"))?.map(|(attempt,)| attempt))
    }

    // ---- changes -----------------------------------------------------------------------------------

    /// From `seen` to `next`, with these messages added and those before `forget` removed.
    pub(super) fn set<'a>(
        &self,
        key: &'a str,
        seen: Option<&Head>,
        next: &Head,
        system: MaybeUnset<Option<&'a [u8]>>,
        rows: impl IntoIterator<Item = (i64, &'a [u8])>,
        forget: Option<i64>,
    ) -> Change<'a> {
        let version = Uuid::new_v4();
        // A column that keeps its value is left alone: null would leave a tombstone.
        let large = match seen.and_then(|seen| seen.large) {
            before if before == next.large => MaybeUnset::Unset,
            _ => MaybeUnset::Set(next.large),
        };
        let seen = seen.map(|seen| seen.version);
        let mut batch = self.batch(&self.cql.set);
        let mut values: Vec<Values<'a>> = vec![Box::new((
            version,
            next.log,
            next.start,
            next.end,
            next.sealed,
            large,
            next.active,
            system,
            key,
            seen,
        ))];
        if let Some(before) = forget {
            batch.append_statement(self.cql.forget.clone());
            values.push(Box::new((key, before)));
        }
        let mut attempt = MaybeUnset::Set(version);
        for (seq, payload) in rows {
            batch.append_statement(self.cql.keep.clone());
            values.push(Box::new((key, seq, next.active, payload, attempt)));
            attempt = MaybeUnset::Unset;
        }
        Change { version, batch, values }
    }

    /// The end of a conversation.
    pub(super) fn remove<'a>(&self, key: &'a str, seen: &Head) -> Change<'a> {
        let mut batch = self.batch(&self.cql.remove);
        batch.append_statement(self.cql.forget.clone());
        let values: Vec<Values<'a>> =
            vec![Box::new((key, seen.version)), Box::new((key, HEAD_SEQ))];
        Change { version: Uuid::nil(), batch, values }
    }

    fn batch(&self, first: &PreparedStatement) -> Batch {
        let mut batch = Batch::new(BatchType::Unlogged); // of one partition, so it is atomic
        batch.set_consistency(self.consistency);
        batch.set_serial_consistency(Some(self.serial));
        batch.set_request_timeout(Some(self.timeout));
        batch.set_is_idempotent(false);
        batch.set_retry_policy(Some(Arc::new(FallthroughRetryPolicy::new())));
        batch.append_statement(first.clone());
        batch
    }

    /// Makes a change, if nobody made another one since.
    ///
    /// Where the answer gets lost the change is sent again, and that is safe: the version which it
    /// replaces is gone for ever once it is made. Either it turns out to be made, or it is made now.
    pub(super) async fn swap(
        &self,
        operation: &'static str,
        key: &str,
        change: &Change<'_>,
    ) -> Result<Swap> {
        let patience = Instant::now() + 2 * self.timeout;
        let mut doubt = false;
        loop {
            let failure = match self.try_swap(change).await {
                Ok(true) => return Ok(Swap::Done),
                Ok(false) => match self.first::<Head>(&self.cql.head_for_sure, (key,)).await {
                    Ok(now) => {
                        let made = match &now {
                            Some(head) => head.version == change.version,
                            None => change.version.is_nil(),
                        };
                        return Ok(match (doubt, made) {
                            (false, _) => Swap::Lost(now),
                            (true, true) => Swap::Done,
                            (true, false) => Swap::Overtaken(now),
                        });
                    }
                    Err(failure) => failure,
                },
                Err(failure) => {
                    doubt |= failure.leaves_doubt();
                    failure
                }
            };
            if !doubt {
                return Err(failure.during(operation));
            }
            if Instant::now() >= patience {
                return Err(failure.unacknowledged(operation));
            }
            tokio::time::sleep(PAUSE).await;
        }
    }

    async fn try_swap(&self, change: &Change<'_>) -> Result<bool, Failure> {
        let result = self.session.batch(&change.batch, &change.values).await?;
        let rows = result.into_rows_result().map_err(Failure::strange)?;
        // How many columns there are is the server's business; the first one says whether.
        let row = rows.first_row::<AnyRow>().map_err(Failure::strange)?;
        Ok(matches!(row.columns.first(), Some(Some(CqlValue::Boolean(true)))))
    }

    // ---- messages ----------------------------------------------------------------------------------

    /// The messages beside the head at these positions, newest first.
    pub(super) async fn beside(
        &self,
        operation: &'static str,
        key: &str,
        range: Range<i64>,
    ) -> Result<Vec<Row>> {
        self.all(operation, &self.cql.beside, (key, range.start, range.end)).await
    }

    /// The messages of a log at these positions, in no order.
    pub(super) async fn of_log(
        &self,
        operation: &'static str,
        log: Uuid,
        range: Range<i64>,
    ) -> Result<Vec<Row>> {
        let mut rows = Vec::new();
        for bucket in buckets(&range) {
            let values = (log, bucket, range.start, range.end);
            rows.append(&mut self.all(operation, &self.cql.bucket, values).await?);
        }
        Ok(rows)
    }

    /// Puts messages into a log. Nobody sees them before a head says so, and to put them twice is to
    /// put them once.
    pub(super) async fn put(
        &self,
        operation: &'static str,
        log: Uuid,
        rows: &[(i64, CqlTimestamp, &[u8])],
    ) -> Result<()> {
        for rows in rows.chunk_by(|a, b| a.0 / BUCKET == b.0 / BUCKET) {
            let mut rest = rows;
            while !rest.is_empty() {
                let mut bytes = 0;
                let fits = |row: &&(i64, CqlTimestamp, &[u8])| {
                    bytes += row.2.len();
                    bytes <= MOST_BYTES_AT_ONCE
                };
                let count = rest.iter().take_while(fits).count().max(1);
                let (now, later) = rest.split_at(count);
                let mut batch = Batch::new(BatchType::Unlogged);
                batch.set_consistency(self.consistency);
                batch.set_request_timeout(Some(self.timeout));
                batch.set_is_idempotent(true);
                batch.statements.resize(count, self.cql.put.clone().into());
                let values: Vec<_> = now
                    .iter()
                    .map(|(seq, at, payload)| (log, seq / BUCKET, seq, at, payload))
                    .collect();
                let sent = self.session.batch(&batch, values).await;
                sent.map_err(|error| failed(operation, error))?;
                rest = later;
            }
        }
        Ok(())
    }

    /// Removes whole buckets of a log.
    pub(super) async fn drop_buckets(
        &self,
        operation: &'static str,
        log: Uuid,
        buckets: Range<i64>,
    ) -> Result<()> {
        for bucket in buckets {
            self.run(operation, &self.cql.drop_bucket, (log, bucket)).await?;
        }
        Ok(())
    }

    /// Removes the messages before a position from its bucket.
    pub(super) async fn drop_rows(
        &self,
        operation: &'static str,
        log: Uuid,
        before: i64,
    ) -> Result<()> {
        self.run(operation, &self.cql.drop_rows, (log, before / BUCKET, before)).await
    }

    // ---- all conversations -------------------------------------------------------------------------

    /// Calls `each` with the conversations from a place in the ring on, until it says that it has
    /// enough.
    pub(super) async fn each_from(
        &self,
        operation: &'static str,
        token: i64,
        each: impl FnMut(Found) -> bool + Send,
    ) -> Result<()> {
        self.each(&self.cql.ids, (token,), each).await.map_err(|failure| failure.during(operation))
    }

    /// The place of a conversation in the ring.
    pub(super) fn token(&self, operation: &'static str, key: &str) -> Result<i64> {
        let token =
            self.cql.head.calculate_token(&(key,)).map_err(|error| strange(operation, error))?;
        Ok(token.map_or(i64::MIN, |token| token.value()))
    }

    // ---- garbage -----------------------------------------------------------------------------------

    pub(super) async fn note(&self, operation: &'static str, garbage: &Garbage) -> Result<()> {
        let Garbage { note, id, log, first, past, noted } = garbage;
        self.run(operation, &self.cql.note, (note, id, log, first, past, noted)).await
    }

    pub(super) async fn notes(&self, operation: &'static str) -> Result<Vec<Garbage>> {
        self.all(operation, &self.cql.notes, ()).await
    }

    pub(super) async fn unnote(&self, operation: &'static str, note: Uuid) -> Result<()> {
        self.run(operation, &self.cql.unnote, (note,)).await
    }

    // ---- requests ----------------------------------------------------------------------------------

    async fn run(
        &self,
        operation: &'static str,
        statement: &PreparedStatement,
        values: impl SerializeRow,
    ) -> Result<()> {
        let done = self.session.execute_unpaged(statement, values).await;
        done.map(drop).map_err(|error| failed(operation, error))
    }

    async fn first<R>(
        &self,
        statement: &PreparedStatement,
        values: impl SerializeRow,
    ) -> Result<Option<R>, Failure>
    where
        R: for<'a> DeserializeRow<'a, 'a>,
    {
        let result = self.session.execute_unpaged(statement, values).await?;
        let rows = result.into_rows_result().map_err(Failure::strange)?;
        rows.maybe_first_row().map_err(Failure::strange)
    }

    async fn all<R>(
        &self,
        operation: &'static str,
        statement: &PreparedStatement,
        values: impl SerializeRow + Sync,
    ) -> Result<Vec<R>>
    where
        R: for<'a> DeserializeRow<'a, 'a> + Send,
    {
        let mut rows = Vec::new();
        let push = |row| {
            rows.push(row);
            true
        };
        self.each(statement, values, push).await.map_err(|failure| failure.during(operation))?;
        Ok(rows)
    }

    /// Page by page, as long as `each` wants more.
    async fn each<R>(
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

/// The buckets in which these positions lie.
pub(super) fn buckets(range: &Range<i64>) -> Range<i64> {
    if range.is_empty() {
        return 0..0;
    }
    range.start / BUCKET..(range.end - 1) / BUCKET + 1
}

/// Between two tries of the same change.
const PAUSE: Duration = Duration::from_millis(100);

/// The position of a head: in front of every message, since the newest come first.
pub(super) const HEAD_SEQ: i64 = i64::MAX;
