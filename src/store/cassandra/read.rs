//! Reads one conversation.

use std::ops::Range;

use super::ask::{Consistency, Conversation, Newest};
use super::attempts::Attempts;
use super::rows::{Head, Pick, Row, slot_place};
use crate::codec;
use crate::error::{Error, ErrorKind, Result};
use crate::memory::Read;
use crate::record::{Slot, Snapshot};
use crate::store::common::{self, Rows, signed, unsigned};
use crate::store::join::join_in_order;
use crate::store::media::Found;
use crate::store::read_rows::ReadRows;

impl Conversation<'_> {
    pub(super) async fn read(&self, read: &Read) -> Result<Snapshot> {
        read.check()?;
        // Without `before`, the messages in the head's partition come with it.
        let beside = if read.before.is_none() { read.n } else { 0 };
        let n = read.n.try_into().unwrap_or(i64::MAX);
        let places = places(read);
        let (mut seen, mut confirms) = (None, false);
        let mut attempts = Attempts::of(self);
        loop {
            let confirming = std::mem::take(&mut confirms);
            // A second look at a row that seems to be gone is not a lost race, and does not count
            // as an attempt.
            if !confirming {
                attempts.next().await?;
            }
            let newest = self.newest(beside);
            let (newest, (version, picked)) = if read.is_plain() {
                (newest.await?, (None, Vec::new()))
            } else {
                let (newest, picked) =
                    join_in_order(Box::pin(newest), Box::pin(self.pick(&places))).await;
                (newest?, picked?)
            };
            let Some(Newest { head, system, mut rows }) = newest.filter(|it| !it.head.ended) else {
                return Ok(Snapshot::default());
            };
            if !read.is_plain() && version != Some(head.version) {
                continue; // it was changed between the two
            }
            let end = read.before.map_or(head.end, signed).min(head.end);
            let wanted = end.saturating_sub(n).max(head.start)..end;
            rows.retain(|row| row.position >= head.sealed && wanted.contains(&row.position));
            if read.before.is_none() {
                rows.append(&mut self.sealed(&head, wanted.clone()).await?);
            } else {
                rows.append(&mut self.rows(&head, wanted.clone()).await?);
            }
            let (slots, picked) = part(picked, &read.slots);
            let mut single = Vec::new();
            let stretches = read.stretches(unsigned(head.start)..unsigned(head.end));
            for stretch in &stretches {
                single.append(&mut self.stretch(&head, stretch, &picked).await?);
            }
            // Messages never change, and positions have no gaps: if all are there, the rows are of
            // the same moment as the head. If one is missing, it was moved or evicted meanwhile,
            // and the head has changed; or the change that added it has not reached every replica,
            // which a serial read of the head completes; or it is lost.
            let asked: u64 = stretches.iter().map(|stretch| stretch.end - stretch.start).sum();
            let complete = rows.len() as u64 == unsigned(wanted.end - wanted.start)
                && single.len() as u64 == asked
                && (read.before.is_none() || self.is_same_life(&head).await?);
            if complete || seen == Some(head.version) {
                let stretches = stretches.into_iter().map(|it| signed(it.start)..signed(it.end));
                let snapshot = Snapshot {
                    system: common::system("cassandra", system.as_deref().map(codec::decode))?,
                    start: unsigned(head.start),
                    end: unsigned(head.end),
                    incarnation: Some(head.incarnation),
                    ..Snapshot::default()
                };
                let answer = ReadRows {
                    snapshot,
                    newest: decoded(rows, [wanted]),
                    picked: decoded(single, stretches),
                    slots,
                };
                return Ok(answer.into_snapshot(read, &Found::new()));
            }
            seen = self.head(Consistency::Serial).await?.map(|head| head.version);
            confirms = !confirming && seen == Some(head.version);
        }
    }

    /// Returns whether the conversation was not deleted and begun again since: another life has
    /// other messages at the same positions.
    async fn is_same_life(&self, head: &Head) -> Result<bool> {
        let now = self.head(Consistency::Quorum).await?;
        Ok(now.is_some_and(|now| now.log == head.log))
    }

    /// Returns the messages at these positions, in no order: the picked ones, if they are all
    /// there.
    async fn stretch(&self, head: &Head, stretch: &Range<u64>, picked: &[Row]) -> Result<Vec<Row>> {
        let range = signed(stretch.start)..signed(stretch.end);
        let picked = picked
            .iter()
            .filter(|row| range.contains(&row.position) && row.position >= head.sealed);
        let picked: Vec<Row> = picked.cloned().collect();
        if picked.len() as u64 == stretch.end - stretch.start {
            return Ok(picked);
        }
        self.rows(head, range).await
    }

    pub(super) async fn rows(&self, head: &Head, range: Range<i64>) -> Result<Vec<Row>> {
        let mut rows = self.sealed(head, range.clone()).await?;
        let beside = range.start.max(head.sealed)..range.end;
        if !beside.is_empty() {
            rows.append(&mut self.beside(beside).await?);
        }
        Ok(rows)
    }
}

/// Returns the places, in the head's partition, of the slots and single messages that a read asks
/// for.
fn places(read: &Read) -> Vec<i64> {
    let slots = read.slots.iter().map(|name| slot_place(name));
    let positions = read.stretches(0..i64::MAX.cast_unsigned()).into_iter().flatten().map(signed);
    let mut places: Vec<i64> = slots.chain(positions.take(MOST_PICKED)).collect();
    places.sort_unstable();
    places.dedup();
    places
}

/// Splits picked rows into the slots with these names, and messages.
fn part(picked: Vec<Pick>, names: &[String]) -> (Vec<Slot>, Vec<Row>) {
    let (slots, rows): (Vec<_>, Vec<_>) = picked.into_iter().partition(|pick| pick.position < 0);
    let slots = slots.into_iter().filter_map(Pick::slot);
    let slots = slots.filter(|slot| names.iter().any(|name| name == slot.name()));
    (slots.collect(), rows.into_iter().map(Pick::row).collect())
}

/// Decodes the messages at these positions; a position without a row is an error.
fn decoded(mut rows: Vec<Row>, wanted: impl IntoIterator<Item = Range<i64>>) -> Rows {
    rows.sort_unstable_by_key(|row| row.position);
    let (mut rows, mut read) = (rows.into_iter().peekable(), Rows::default());
    for position in wanted.into_iter().flatten() {
        match rows.next_if(|row| row.position == position) {
            Some(row) => read.push_signed(position, row.at.0, codec::decode(&row.payload)),
            None => read.push_signed(position, 0, Err(missing_row())),
        }
    }
    read
}

fn missing_row() -> Error {
    Error::new(ErrorKind::Storage, "read", "cassandra: the row is gone, and nobody has evicted it")
}

/// The most single messages that a read looks for before it knows which are in the head's
/// partition.
const MOST_PICKED: usize = 1000;
