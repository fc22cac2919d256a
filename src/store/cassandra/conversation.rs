//! One conversation: what is done with its head and its messages.

use std::ops::Range;
use std::sync::Arc;
use std::time::SystemTime;

use scylla::value::{CqlTimestamp, MaybeUnset};
use uuid::Uuid;

use super::BUCKET;
use super::client::{Client, Garbage, Head, Newest, Row, Swap, buckets};
use super::failure::overtaken;
use crate::codec;
use crate::error::{Error, ErrorKind, Result};
use crate::record::{Records, Snapshot, Unreadable, millis};
use crate::store::common::{Payloads, at, conflict, no_system, signed, unsigned};

/// A larger batch is not sent through the replicas' agreement, but put aside first.
const MOST_BYTES_INLINE: usize = 1 << 20;
const MOST_ROWS_INLINE: usize = 1000;

pub(super) struct Conversation<'a> {
    pub(super) client: &'a Client,
    pub(super) key: &'a str,
}

impl Conversation<'_> {
    // ---- reading -----------------------------------------------------------------------------------

    pub(super) async fn read(&self, before: Option<u64>, n: usize) -> Result<Snapshot> {
        // Without `before`, what lies beside the head comes with it.
        let beside = if before.is_none() { n } else { 0 };
        let n = n.try_into().unwrap_or(i64::MAX);
        let mut seen = None;
        loop {
            let newest = self.client.newest(self.key, beside).await?;
            let Some(Newest { head, system, mut rows }) = newest else {
                return Ok(Snapshot::default());
            };
            let end = before.map_or(head.end, signed).min(head.end);
            let wanted = end.saturating_sub(n).max(head.start)..end;
            rows.retain(|row| row.seq >= head.sealed && wanted.contains(&row.seq));
            if before.is_none() {
                rows.append(&mut self.apart("read", &head, wanted.clone()).await?);
            } else {
                rows.append(&mut self.rows("read", &head, wanted.clone()).await?);
            }
            // Messages never change, and positions have no gaps: where all are there, the rows are of
            // the same moment as the head. Where one is missing it was moved or evicted meanwhile,
            // and the head has changed; or the change that added it has not come to every replica, which
            // it has once the head is known for sure; or it is lost.
            let complete = rows.len() as u64 == unsigned(wanted.end - wanted.start);
            if complete || seen == Some(head.version) {
                return snapshot(&head, system.as_deref(), rows, wanted);
            }
            seen = self.client.head_for_sure("read", self.key).await?.map(|head| head.version);
        }
    }

    /// The messages at these positions, in no order.
    async fn rows(
        &self,
        operation: &'static str,
        head: &Head,
        range: Range<i64>,
    ) -> Result<Vec<Row>> {
        let mut rows = self.apart(operation, head, range.clone()).await?;
        let beside = range.start.max(head.sealed)..range.end;
        if !beside.is_empty() {
            rows.append(&mut self.client.beside(operation, self.key, beside).await?);
        }
        Ok(rows)
    }

    /// Those that do not lie beside the head.
    async fn apart(
        &self,
        operation: &'static str,
        head: &Head,
        range: Range<i64>,
    ) -> Result<Vec<Row>> {
        let sealed = range.start..range.end.min(head.sealed);
        let mut rows = self.client.of_log(operation, head.log, sealed).await?;
        if let Some((log, first, past)) = head.large {
            let large = range.start.max(first) - first..range.end.min(past) - first;
            let large = self.client.of_log(operation, log, large).await?;
            rows.extend(large.into_iter().map(|row| Row { seq: row.seq + first, ..row }));
        }
        Ok(rows)
    }

    // ---- appending ---------------------------------------------------------------------------------

    /// Appends, and returns the head as it is then.
    pub(super) async fn append(
        &self,
        batch: &Payloads,
        expected: Option<u64>,
    ) -> Result<(Range<u64>, Head)> {
        let large = batch.messages.len() > MOST_ROWS_INLINE
            || batch.messages.iter().map(Vec::len).sum::<usize>() > MOST_BYTES_INLINE;
        if !large {
            return self.append_as(batch, expected, None).await;
        }
        let log = Uuid::new_v4();
        let appended = match self.put_aside(log, &batch.messages).await {
            Ok(()) => self.append_as(batch, expected, Some(log)).await,
            Err(error) => Err(error),
        };
        if let Err(error) = &appended
            && error.kind() != ErrorKind::Unacknowledged
        {
            // What fails here is on the list of garbage.
            let _ =
                self.clean("append", log, buckets(&(0..signed(batch.messages.len()))), log).await;
        }
        appended
    }

    /// Puts a batch where no head leads to it yet.
    async fn put_aside(&self, log: Uuid, payloads: &[Vec<u8>]) -> Result<()> {
        let rows: Vec<_> = (0..).zip(payloads).map(|(i, payload)| (i, now(), &**payload)).collect();
        let all = 0..rows.len().try_into().unwrap_or(i64::MAX);
        self.note("append", log, buckets(&all), log).await?;
        self.client.put("append", log, &rows).await
    }

    async fn append_as(
        &self,
        batch: &Payloads,
        expected: Option<u64>,
        aside: Option<Uuid>,
    ) -> Result<(Range<u64>, Head)> {
        let mut seen = self.client.head("append", self.key).await?;
        let mut for_sure = false;
        loop {
            let end = seen.as_ref().map_or(0, |head| head.end);
            if let Some(expected) = expected.filter(|expected| *expected != unsigned(end)) {
                if for_sure {
                    return Err(conflict("cassandra", expected, unsigned(end)));
                }
                (seen, for_sure) = (self.client.head_for_sure("append", self.key).await?, true);
                continue;
            }
            if let (Some(_), Some(head @ Head { large: Some(_), .. })) = (aside, &seen) {
                (seen, for_sure) = (self.move_all("append", head).await?, true); // there is room for one
                continue;
            }
            let mut next = seen.clone().unwrap_or_else(Head::new);
            next.end += signed(batch.messages.len());
            next.active.0 = next.active.0.max(now().0);
            if let Some(log) = aside {
                next.large = Some((log, end, next.end));
            }
            let beside = if aside.is_some() { &[][..] } else { &batch.messages };
            let rows = (end..).zip(beside.iter().map(Vec::as_slice));
            let system = batch.system.as_deref();
            let system = system.map_or(MaybeUnset::Unset, |system| MaybeUnset::Set(Some(system)));
            let change = self.client.set(self.key, seen.as_ref(), &next, system, rows, None);
            next.version = change.version;
            let now = match self.client.swap("append", self.key, &change).await? {
                Swap::Done => return Ok((unsigned(end)..unsigned(next.end), next)),
                Swap::Lost(now) => now,
                Swap::Overtaken(now) => {
                    if self.is_there(&next, end, now.as_ref()).await? {
                        return Ok((unsigned(end)..unsigned(next.end), next));
                    }
                    now
                }
            };
            (seen, for_sure) = (now, true);
        }
    }

    /// Whether an append from this position on led to the head `made`, though others have changed it
    /// since.
    async fn is_there(&self, made: &Head, first: i64, now: Option<&Head>) -> Result<bool> {
        let Some(now) = now.filter(|now| now.log == made.log) else {
            return Err(overtaken("append"));
        };
        if made.end == first {
            // A system message alone leaves no trace that lasts.
            return Err(overtaken("append"));
        }
        if now.end <= first {
            return Ok(false);
        }
        if made.large.is_some() && now.large == made.large {
            return Ok(true);
        }
        match self.client.attempt(self.key, first).await? {
            Some(attempt) => Ok(attempt == Some(made.version)),
            None => Err(overtaken("append")),
        }
    }

    // ---- moving ------------------------------------------------------------------------------------

    /// Moves messages that are no longer new from beside the head into buckets, if there are enough of
    /// them or if a large batch lies aside.
    pub(super) async fn tidy(&self, head: &Head) -> Result<()> {
        if head.large.is_some() {
            self.move_all("append", head).await?;
        } else if head.end - head.sealed.max(head.start) >= 2 * BUCKET {
            self.move_before("append", head, (head.end - BUCKET) / BUCKET * BUCKET).await?;
        }
        Ok(())
    }

    /// Moves what comes before the end of the large batch, and that with it.
    async fn move_all(&self, operation: &'static str, head: &Head) -> Result<Option<Head>> {
        match head.large {
            Some((_, _, past)) => self.move_before(operation, head, past).await,
            None => Ok(Some(head.clone())),
        }
    }

    /// Copies messages to where they shall lie, and then tells the head. Whoever dies in between has
    /// copied in vain, and whoever does it at the same time copies the same.
    async fn move_before(
        &self,
        operation: &'static str,
        head: &Head,
        to: i64,
    ) -> Result<Option<Head>> {
        // What is copied must be all there is: every message has come to every replica that is asked.
        let sure = self.client.head_for_sure(operation, self.key).await?;
        if sure.as_ref().map(|sure| sure.version) != Some(head.version) {
            return Ok(sure);
        }
        let from = head.sealed.max(head.start);
        for bucket in buckets(&(from..to)) {
            let range = from.max(bucket * BUCKET)..to.min((bucket + 1) * BUCKET);
            let mut rows = self.rows(operation, head, range).await?;
            rows.sort_unstable_by_key(|row| row.seq);
            let rows: Vec<_> = rows.iter().map(|row| (row.seq, row.at, &*row.payload)).collect();
            self.client.put(operation, head.log, &rows).await?;
        }
        let next = Head { sealed: to, large: None, ..head.clone() };
        let change = self.client.set(self.key, Some(head), &next, MaybeUnset::Unset, [], Some(to));
        let next = Head { version: change.version, ..next };
        let now = match self.client.swap(operation, self.key, &change).await? {
            Swap::Done => Some(next),
            Swap::Lost(now) | Swap::Overtaken(now) => now,
        };
        if let Some((log, first, past)) = head.large
            && now.as_ref().is_none_or(|now| now.large != head.large)
        {
            self.clean(operation, log, buckets(&(0..past - first)), log).await?;
        }
        Ok(now)
    }

    // ---- forgetting --------------------------------------------------------------------------------

    /// Forgets the messages before a position, or everything; returns how many messages there were.
    pub(super) async fn forget(&self, operation: &'static str, before: Option<u64>) -> Result<u64> {
        let mut seen = self.client.head(operation, self.key).await?;
        loop {
            let Some(head) = &seen else { return Ok(0) };
            let to = before.map_or(head.end, signed).min(head.end);
            if before.is_some() && to <= head.start {
                return Ok(0);
            }
            if head.large.is_some() {
                seen = self.move_all(operation, head).await?;
                continue;
            }
            let next = Head { start: to, ..head.clone() };
            let system = if before.is_none() { MaybeUnset::Set(None) } else { MaybeUnset::Unset };
            let beside = Some(to).filter(|to| *to > head.sealed);
            let change = self.client.set(self.key, Some(head), &next, system, [], beside);
            let sealed = head.start..to.min(head.sealed);
            // A bucket in which something stays is not removed, and none that may yet be filled.
            let whole = head.start.min(head.sealed) / BUCKET..sealed.end / BUCKET;
            let note = self.note_some(operation, head.log, &whole).await?;
            match self.client.swap(operation, self.key, &change).await? {
                Swap::Done => {
                    // From here on it is forgotten. What can't be removed now is on the list.
                    if !sealed.is_empty() && sealed.end % BUCKET > 0 {
                        let _ = self.client.drop_rows(operation, head.log, sealed.end).await;
                    }
                    if let Some(note) = note {
                        let _ = self.clean(operation, head.log, whole, note).await;
                    }
                    return Ok(unsigned(to - head.start));
                }
                Swap::Lost(now) => {
                    if let Some(note) = note {
                        self.client.unnote(operation, note).await?;
                    }
                    seen = now;
                }
                Swap::Overtaken(_) => return Err(overtaken(operation)),
            }
        }
    }

    /// Ends the conversation; returns whether there was one. With `active_before`, only one to which
    /// nothing was appended since.
    pub(super) async fn remove(
        &self,
        operation: &'static str,
        active_before: Option<i64>,
    ) -> Result<bool> {
        let mut seen = self.client.head(operation, self.key).await?;
        loop {
            let Some(head) = &seen else { return Ok(false) };
            if active_before.is_some_and(|time| head.active.0 >= time) {
                return Ok(false);
            }
            if head.large.is_some() {
                seen = self.move_all(operation, head).await?;
                continue;
            }
            let all = head.start.min(head.sealed) / BUCKET..(head.sealed + BUCKET - 1) / BUCKET;
            let note = self.note_some(operation, head.log, &all).await?;
            let change = self.client.remove(self.key, head);
            match self.client.swap(operation, self.key, &change).await? {
                Swap::Done => {
                    if let Some(note) = note {
                        let _ = self.clean(operation, head.log, all, note).await;
                    }
                    return Ok(true);
                }
                Swap::Lost(now) => {
                    if let Some(note) = note {
                        self.client.unnote(operation, note).await?;
                    }
                    seen = now;
                }
                Swap::Overtaken(_) => return Err(overtaken(operation)),
            }
        }
    }

    // ---- garbage -----------------------------------------------------------------------------------

    /// Writes down which buckets nobody will need, before that is so.
    async fn note(
        &self,
        operation: &'static str,
        log: Uuid,
        buckets: Range<i64>,
        note: Uuid,
    ) -> Result<()> {
        let id = self.key.to_owned();
        let Range { start: first, end: past } = buckets;
        let garbage = Garbage { note, id, log, first, past, noted: now() };
        self.client.note(operation, &garbage).await
    }

    async fn note_some(
        &self,
        operation: &'static str,
        log: Uuid,
        buckets: &Range<i64>,
    ) -> Result<Option<Uuid>> {
        if buckets.is_empty() {
            return Ok(None);
        }
        let note = Uuid::new_v4();
        self.note(operation, log, buckets.clone(), note).await?;
        Ok(Some(note))
    }

    async fn clean(
        &self,
        operation: &'static str,
        log: Uuid,
        buckets: Range<i64>,
        note: Uuid,
    ) -> Result<()> {
        self.client.drop_buckets(operation, log, buckets).await?;
        self.client.unnote(operation, note).await
    }

    /// Removes what somebody has left who died before it could, unless it is in use after all.
    pub(super) async fn sweep(&self, garbage: &Garbage) -> Result<()> {
        let Garbage { note, log, first, past, .. } = *garbage;
        let unused = match self.client.head_for_sure("purge_inactive", self.key).await? {
            Some(head) if head.large.is_some_and(|large| large.0 == log) => return Ok(()),
            Some(head) if head.log == log => past.min(head.start / BUCKET),
            _ => past,
        };
        self.clean("purge_inactive", log, first..unused, note).await
    }
}

fn snapshot(
    head: &Head,
    system: Option<&[u8]>,
    mut rows: Vec<Row>,
    wanted: Range<i64>,
) -> Result<Snapshot> {
    let system = system.map(codec::decode).transpose();
    let mut snapshot = Snapshot {
        system: system.map_err(|error| no_system("cassandra", error))?.map(Arc::new),
        start: unsigned(head.start),
        end: unsigned(head.end),
        ..Snapshot::default()
    };
    let mut unreadable = |seq, error| {
        snapshot.unreadable.push(Unreadable { seq: unsigned(seq), error: Arc::new(error) });
    };
    rows.sort_unstable_by_key(|row| row.seq);
    let mut next = wanted.start;
    let mut read = Vec::with_capacity(rows.len());
    for row in rows {
        (next..row.seq).for_each(|seq| unreadable(seq, lost()));
        next = row.seq + 1;
        let at = at(unsigned(row.at.0));
        match codec::decode(&row.payload) {
            Ok(message) => read.push((unsigned(row.seq), at, message)),
            Err(error) => unreadable(row.seq, error),
        }
    }
    (next..wanted.end).for_each(|seq| unreadable(seq, lost()));
    snapshot.records = Records::from_rows(read);
    Ok(snapshot)
}

fn lost() -> Error {
    Error::new(ErrorKind::Storage, "read", "cassandra: the row is gone, and nobody has evicted it")
}

pub(super) fn now() -> CqlTimestamp {
    CqlTimestamp(signed(millis(SystemTime::now())))
}
