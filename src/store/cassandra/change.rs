//! A change of one conversation: one conditional batch.

use std::sync::Arc;

use scylla::client::session::Session;
use scylla::policies::retry::FallthroughRetryPolicy;
use scylla::serialize::row::SerializeRow;
use scylla::statement::batch::{Batch, BatchType};
use scylla::statement::prepared::PreparedStatement;
use scylla::value::{CqlTimestamp, CqlValue, MaybeUnset, Row as AnyRow};
use uuid::Uuid;

use super::ask::{Consistency, Conversation, take_head};
use super::failure::Failure;
use super::rows::Head;
use crate::error::Result;
use crate::store::retry::Retry;

/// A change of a conversation: a compare-and-set on its head.
pub(super) struct HeadChange<'a> {
    /// The new version of the head; nil if the head is removed.
    pub(super) version: Uuid,
    of: Conversation<'a>,
    batch: Batch,
    values: Vec<Values<'a>>,
}

pub(super) enum Swap {
    Done,
    /// Another writer was faster; this is the head now.
    Lost(Option<Head>),
    /// The same, but an answer was lost: the change may have been made and then overtaken.
    Overtaken(Option<Head>),
}

/// The time of activity after a change.
pub(super) enum Active {
    /// Unchanged.
    Kept,
    /// The time by the clock of the coordinating node.
    Now,
    At(CqlTimestamp),
}

type Values<'a> = Box<dyn SerializeRow + Send + Sync + 'a>;

impl<'a> HeadChange<'a> {
    fn new(of: &Conversation<'a>, version: Uuid) -> Self {
        let client = of.client;
        let mut batch = Batch::new(BatchType::Unlogged); // of one partition, so it is atomic
        batch.set_consistency(client.consistency);
        batch.set_serial_consistency(Some(client.serial));
        batch.set_request_timeout(Some(client.timeout));
        batch.set_is_idempotent(false);
        batch.set_retry_policy(Some(Arc::new(FallthroughRetryPolicy::new())));
        Self { version, of: *of, batch, values: Vec::new() }
    }

    /// Replaces the head `seen` with the head `next`, which gets a new version. An unset system
    /// message stays.
    pub(super) fn set(
        of: &Conversation<'a>,
        seen: Option<&Head>,
        next: &mut Head,
        system: MaybeUnset<Option<&'a [u8]>>,
        active: &Active,
    ) -> Self {
        next.version = Uuid::new_v4();
        let mut change = Self::new(of, next.version);
        let (cql, key) = (&of.client.cql, of.key);
        let Head { version, log, start, end, sealed, .. } = *next;
        // Unchanged values are not written.
        let kept = |same: fn(&Head, &Head) -> bool| seen.is_some_and(|seen| same(seen, next));
        let swept = unset_if(kept(|seen, next| seen.swept == next.swept), next.swept);
        let ids = unset_if(kept(|seen, next| seen.ids == next.ids), next.ids);
        let ended = unset_if(!next.ended, true);
        let is_same = kept(|seen, next| seen.incarnation == next.incarnation);
        let life = unset_if(is_same, next.incarnation.to_bits().cast_signed());
        let seen = seen.map(|seen| seen.version);
        let active = match active {
            Active::Now => {
                let values =
                    (version, log, start, end, sealed, swept, ids, ended, life, system, key, seen);
                change.add(&cql.set_now, values);
                return change;
            }
            Active::Kept => MaybeUnset::Unset,
            Active::At(time) => MaybeUnset::Set(*time),
        };
        let values =
            (version, log, start, end, sealed, swept, ids, ended, life, system, active, key, seen);
        change.add(&cql.set, values);
        change
    }

    pub(super) fn remove(of: &Conversation<'a>, seen: &Head) -> Self {
        let mut change = Self::new(of, Uuid::nil());
        change.add(&of.client.cql.remove, (of.key, seen.version));
        change.add(&of.client.cql.forget_all, (of.key,));
        change
    }

    pub(super) fn add(
        &mut self,
        statement: &PreparedStatement,
        values: impl SerializeRow + Send + Sync + 'a,
    ) {
        self.batch.append_statement(statement.clone());
        self.values.push(Box::new(values));
    }

    /// Adds a message. The first message of an append carries the id of the attempt.
    ///
    /// Without a time, it gets that of the coordinating node.
    pub(super) fn keep(
        &mut self,
        position: i64,
        at: Option<CqlTimestamp>,
        payload: &'a [u8],
        is_first: bool,
    ) {
        let Conversation { client, key, .. } = self.of;
        let attempt = unset_if(!is_first, self.version);
        match at {
            Some(at) => self.add(&client.cql.keep, (key, position, payload, attempt, at)),
            None => self.add(&client.cql.keep_now, (key, position, payload, attempt)),
        }
    }

    /// Makes the change, unless another one came first.
    ///
    /// If the answer is lost, the change is sent again. That is safe, since the version that it
    /// replaces is gone forever once it is made: the retry either finds that it was made, or makes
    /// it.
    pub(super) async fn make(&self) -> Result<Swap> {
        let Conversation { client, operation, key } = self.of;
        let mut retry = Retry::within(client.timeout.saturating_mul(2));
        let mut in_doubt = false;
        loop {
            let failure = match self.send(&client.session).await {
                Ok(true) => return Ok(Swap::Done),
                Ok(false) => match client.try_look(key, &[], Consistency::Serial).await {
                    Ok(mut rows) => {
                        let now = take_head(operation, &mut rows)?;
                        let made = match &now {
                            Some(head) => head.version == self.version,
                            None => self.version.is_nil(),
                        };
                        if in_doubt && made {
                            return Ok(Swap::Done);
                        }
                        client.watch.lost_race(operation);
                        return Ok(if in_doubt { Swap::Overtaken(now) } else { Swap::Lost(now) });
                    }
                    Err(failure) => failure,
                },
                Err(failure) => {
                    in_doubt |= failure.leaves_doubt();
                    failure
                }
            };
            if !in_doubt {
                return Err(failure.during(operation));
            }
            client.watch.retried(operation, "it is not known whether the change was made");
            if !retry.pause().await {
                return Err(failure.unacknowledged(operation));
            }
        }
    }

    /// Sends the batch; returns whether the head was still the one that was seen.
    async fn send(&self, session: &Session) -> Result<bool, Failure> {
        let result = session.batch(&self.batch, &self.values).await?;
        let rows = result.into_rows_result().map_err(Failure::strange)?;
        // Servers return different numbers of columns; the first one says whether the change was
        // made.
        let row = rows.first_row::<AnyRow>().map_err(Failure::strange)?;
        Ok(matches!(row.columns.first(), Some(Some(CqlValue::Boolean(true)))))
    }
}

fn unset_if<T>(leave: bool, value: T) -> MaybeUnset<T> {
    if leave { MaybeUnset::Unset } else { MaybeUnset::Set(value) }
}
