//! Appends messages, slots and an id in one conditional batch; also begins conversations that were
//! kept elsewhere.

use scylla::value::{CqlTimestamp, MaybeUnset};
use uuid::Uuid;

use super::ask::{Consistency, Conversation};
use super::attempts::Attempts;
use super::change::{Active, HeadChange, Swap};
use super::failure::overtaken;
use super::rows::{Head, IDS, Look, id_place, slot_place};
use crate::error::{Error, Result};
use crate::memory::{Append, Appended, SlotChange};
use crate::record::{Incarnation, millis};
use crate::store::common::{appended, signed, slot_version, times_of_records, unsigned};
use crate::store::payloads::Payloads;

#[derive(Clone, Copy)]
pub(super) struct Batch<'a> {
    pub(super) payloads: &'a Payloads,
    pub(super) append: &'a Append,
}

/// A conversation before an append, all of one moment.
struct Seen {
    head: Option<Head>,
    /// The ids and slots that were asked for.
    rows: Vec<Look>,
    consistency: Consistency,
}

struct Attempt {
    version: Uuid,
    log: Uuid,
    first: i64,
    /// The number of ids before it.
    ids: i64,
}

impl<'a> Batch<'a> {
    fn id(&self) -> Option<&'a str> {
        self.append.id.as_deref()
    }

    /// Returns the places of its slots and, if it has an id, of all ids.
    fn places(&self) -> Vec<i64> {
        let ids = self.id().map_or(0..0, |_| 0..IDS).map(id_place);
        ids.chain(self.append.slots.iter().map(|change| slot_place(&change.name))).collect()
    }

    fn check(&self, seen: &Seen) -> Result<()> {
        let head = seen.head.as_ref();
        let positions = head.map_or(0..0, |head| unsigned(head.start)..unsigned(head.end));
        let incarnation = head.map(|head| head.incarnation);
        self.append.check_conversation("cassandra: ", incarnation, &positions)?;
        self.append.slots.iter().enumerate().try_for_each(|(i, change)| {
            let place = slot_place(&change.name);
            let mut before = self.append.slots[..i].iter();
            let other = seen.slot(place).and_then(|row| row.name.as_deref());
            let taken = other.is_some_and(|other| other != change.name);
            if taken || before.any(|before| slot_place(&before.name) == place) {
                let text = format!("cassandra: another slot lies where {:?} would", change.name);
                return Err(Error::invalid("append", text));
            }
            let stamp = seen.slot(place).and_then(|row| row.stamp);
            change.holds(stamp.map(slot_version))
        })
    }
}

impl Seen {
    fn slot(&self, place: i64) -> Option<&Look> {
        self.rows.iter().find(|row| row.position == place)
    }

    fn known(&self, id: &str) -> Option<&Look> {
        let mut ids = self.rows.iter().filter(|row| (-IDS..0).contains(&row.position));
        ids.find(|row| row.name.as_deref() == Some(id))
    }
}

impl Conversation<'_> {
    /// Appends; returns the outcome and, if something was appended, the new head.
    pub(super) async fn append(&self, batch: Batch<'_>) -> Result<(Appended, Option<Head>)> {
        let places = batch.places();
        let mut seen = self.see(&places, Consistency::Quorum).await?;
        let mut tried: Option<Attempt> = None;
        let mut attempts = Attempts::of(self);
        loop {
            if let Some(known) = batch.id().and_then(|id| seen.known(id)) {
                let mut appended = appended(known.positions(), known.stamp.map(slot_version));
                let attempt = tried.map(|tried| tried.version);
                appended.repeated = attempt.is_none() || known.attempt != attempt;
                return Ok((appended, None));
            }
            if let Some(tried) = tried.take()
                && self.is_there(batch, &tried, &seen).await?
            {
                return Ok((outcome(batch, &tried), None));
            }
            if let Err(error) = batch.check(&seen) {
                if seen.consistency == Consistency::Serial {
                    return Err(error);
                }
                seen = self.see(&places, Consistency::Serial).await?;
                continue;
            }
            let end = seen.head.as_ref().map_or(0, |head| head.end);
            if batch.append.is_empty() || seen.head.is_none() && !batch.append.creates() {
                return Ok((appended(unsigned(end)..unsigned(end), None), None));
            }
            attempts.next().await?; // an error here leaves no doubt: nothing is under way
            let (change, next) = self.plan(batch, &seen);
            let attempt = Attempt {
                version: change.version,
                log: next.log,
                first: end,
                ids: seen.head.as_ref().map_or(0, |head| head.ids),
            };
            let now = match change.make().await? {
                Swap::Done => return Ok((outcome(batch, &attempt), Some(next))),
                Swap::Lost(now) => now,
                Swap::Overtaken(now) => {
                    tried = Some(attempt);
                    now
                }
            };
            seen = match now {
                // The answer of the swap contains the head, and nothing else is needed.
                Some(head) if places.is_empty() && !head.ended => {
                    Seen { head: Some(head), rows: Vec::new(), consistency: Consistency::Serial }
                }
                _ => {
                    let seen = self.see(&places, Consistency::Serial).await;
                    seen.map_err(|error| self.in_doubt_if(tried.is_some(), error))?
                }
            };
        }
    }

    /// Reads the conversation, after finishing the removal of one that has ended.
    async fn see(&self, places: &[i64], consistency: Consistency) -> Result<Seen> {
        let mut attempts = Attempts::of(self);
        loop {
            attempts.next().await?;
            let (head, rows) = self.look(places, consistency).await?;
            match head {
                Some(head) if head.ended => self.finish(&head).await?,
                head => return Ok(Seen { head, rows, consistency }),
            }
        }
    }

    /// Begins a conversation at this position; returns whether there was none.
    pub(super) async fn restore(
        &self,
        start: i64,
        incarnation: Option<Incarnation>,
    ) -> Result<bool> {
        let mut seen = self.head(Consistency::Quorum).await?;
        let mut attempts = Attempts::of(self);
        loop {
            attempts.next().await?;
            match &seen {
                Some(head) if head.ended => self.finish(head).await?,
                Some(_) => return Ok(false),
                None => {}
            }
            let mut next = Head::new(incarnation, start);
            let change = HeadChange::set(self, None, &mut next, MaybeUnset::Unset, &Active::Now);
            match change.make().await? {
                Swap::Done => return Ok(true),
                Swap::Lost(now) => seen = now,
                Swap::Overtaken(_) => return Err(overtaken(self.operation)),
            }
        }
    }

    /// Returns the error of a look: if an attempt may have been made, its outcome stays unknown.
    fn in_doubt_if(&self, is_in_doubt: bool, error: Error) -> Error {
        if is_in_doubt { overtaken(self.operation).with_source(error) } else { error }
    }

    /// Returns whether an attempt was made after all, although others have changed the conversation
    /// since.
    async fn is_there(&self, batch: Batch<'_>, tried: &Attempt, seen: &Seen) -> Result<bool> {
        let Some(head) = seen.head.as_ref().filter(|head| head.log == tried.log) else {
            return Err(overtaken(self.operation));
        };
        if batch.id().is_some() && head.ids - tried.ids <= IDS {
            return Ok(false); // otherwise its id would be there
        }
        if !batch.payloads.messages.is_empty() {
            if head.end <= tried.first {
                return Ok(false);
            }
            let places = [tried.first];
            let looked = self.look(&places, Consistency::Serial).await;
            let (_, rows) = looked.map_err(|error| self.in_doubt_if(true, error))?;
            let first = rows.first().ok_or_else(|| overtaken(self.operation))?;
            return Ok(first.attempt == Some(tried.version));
        }
        // A system message alone leaves no lasting trace, nor does a removed slot.
        let stamp = Some(stamp(tried.version));
        let there = seen.rows.iter().any(|row| row.stamp == stamp);
        if there { Ok(true) } else { Err(overtaken(self.operation)) }
    }
}

impl<'a> Conversation<'a> {
    /// Returns the change that appends, and the head that it leads to.
    fn plan(&self, batch: Batch<'a>, seen: &Seen) -> (HeadChange<'a>, Head) {
        let mut next = seen.head.clone().unwrap_or_else(|| Head::new(None, 0));
        let first = next.end;
        next.end += signed(batch.payloads.messages.len());
        let active = batch.append.active;
        let active = active.map_or(Active::Now, |at| Active::At(CqlTimestamp(signed(millis(at)))));
        let ids = next.ids;
        next.ids += i64::from(batch.id().is_some());
        let system = batch.payloads.system.as_deref();
        let system = system.map_or(MaybeUnset::Unset, |system| MaybeUnset::Set(Some(system)));
        let mut change = HeadChange::set(self, seen.head.as_ref(), &mut next, system, &active);
        let times = times_of_records(batch.append).map(|at| Some(CqlTimestamp(signed(at))));
        let times = times.chain(std::iter::repeat(None));
        for ((position, payload), at) in (first..).zip(&batch.payloads.messages).zip(times) {
            change.keep(position, at, payload, position == first);
        }
        let (cql, key, stamp) = (&self.client.cql, self.key, stamp(change.version));
        for SlotChange { name, content, .. } in &batch.append.slots {
            let place = slot_place(name);
            match content {
                Some(content) => change.add(&cql.write, (key, place, name, stamp, content)),
                // Without a slot, a tombstone would be useless.
                None if seen.slot(place).is_none() => {}
                None => change.add(&cql.erase, (key, place)),
            }
        }
        if let Some(id) = batch.id() {
            let (place, attempt) = (id_place(ids), change.version);
            let stamp = batch.append.writes_slots().then_some(stamp);
            change.add(&cql.remember, (key, place, id, first, next.end, stamp, attempt));
        }
        (change, next)
    }
}

fn outcome(batch: Batch<'_>, attempt: &Attempt) -> Appended {
    let first = unsigned(attempt.first);
    let past = first + batch.payloads.messages.len() as u64;
    let version = batch.append.writes_slots().then(|| slot_version(stamp(attempt.version)));
    appended(first..past, version)
}

/// Returns the slot version of an attempt, which is random like the attempt's own.
fn stamp(attempt: Uuid) -> i64 {
    attempt.as_u64_pair().1.cast_signed()
}
