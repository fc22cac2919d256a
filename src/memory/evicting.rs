//! The common part of the memories that evict.
//!
//! No lock is held while the memory inside appends or evicts, or while the callback runs: a
//! callback may append, and memories of this kind may wrap each other. The [`Ledger`] makes up for
//! the order in which concurrent appends come back, and a single thread at a time evicts for all.

mod fingerprint;
mod kinds;
mod ledger;

use std::collections::VecDeque;
use std::error::Error as StdError;
use std::fmt;
use std::ops::Range;
use std::thread::{self, ThreadId};

use parking_lot::{Mutex, MutexGuard};

use self::fingerprint::HandedOver;
pub(super) use self::kinds::evicting;
use self::ledger::{Known, Ledger, Ticket, Weighed};
use super::{Append, Appended, ChatMemory, MemoryId};
use crate::error::{Error, ErrorKind, Result};
use crate::message::Message;
use crate::record::{Record, Records, Snapshot, places};
use crate::token::TokenCounter;

pub(super) struct Evicting<M> {
    memory: M,
    limit: Limit,
    /// The counter of tokens; without one, each message weighs 1.
    counter: Option<Box<dyn TokenCounter>>,
    on_evict: Option<Box<OnEvict>>,
    state: Mutex<State>,
}

pub(super) enum Limit {
    Fixed(usize),
    Computed(Box<dyn Fn(&MemoryId) -> usize + Send + Sync>),
}

pub(super) type OnEvict =
    dyn Fn(&MemoryId, &Records) -> Result<(), Box<dyn StdError + Send + Sync>> + Send + Sync;

struct State {
    ledger: Ledger,
    /// The thread that evicts.
    evictor: Option<ThreadId>,
    /// True where another thread has left something to it meanwhile.
    asked: bool,
}

impl Limit {
    pub(super) fn fixed(limit: usize, operation: &'static str) -> Result<Self> {
        if limit == 0 {
            return Err(Error::invalid(operation, "a limit of 0 would keep nothing"));
        }
        Ok(Self::Fixed(limit))
    }
}

impl<M: ChatMemory> Evicting<M> {
    pub(super) fn new(memory: M, limit: Limit, counter: Option<Box<dyn TokenCounter>>) -> Self {
        let state = State { ledger: Ledger::new(), evictor: None, asked: false };
        Self { memory, limit, counter, on_evict: None, state: Mutex::new(state) }
    }

    pub(super) fn on_evict(&mut self, on_evict: Box<OnEvict>) {
        self.on_evict = Some(on_evict);
    }

    pub(super) fn memory(&self) -> &M {
        &self.memory
    }

    pub(super) fn append(
        &self,
        batch: &mut Vec<Message>,
        expected: Option<u64>,
    ) -> Result<Range<u64>> {
        let (limit, weighed) = (self.limit(), self.weigh_all(batch)?);
        let under_way = UnderWay::begin(&self.state);
        let range = self.memory.append(batch, expected)?;
        self.arrived(under_way, &range, weighed, limit);
        Ok(range)
    }

    pub(super) fn append_with(&self, append: &mut Append) -> Result<Appended> {
        let (limit, weighed) = (self.limit(), self.weigh_all(&append.messages)?);
        let under_way = UnderWay::begin(&self.state);
        let appended = self.memory.append_with(append)?;
        if !appended.repeated {
            self.arrived(under_way, &appended.positions, weighed, limit);
        }
        Ok(appended)
    }

    /// Weighs the messages of a batch. All that can fail comes before the append: a batch is never
    /// half done.
    fn weigh_all(&self, batch: &[Message]) -> Result<Vec<Weighed>> {
        let stored = batch.iter().filter(|message| !message.is_system());
        stored.map(|message| self.weigh(message)).collect()
    }

    /// Ends an append, and evicts what is over the limit now.
    fn arrived(&self, append: UnderWay<'_>, at: &Range<u64>, batch: Vec<Weighed>, limit: usize) {
        let (state, end) = append.arrived(at, batch);
        // An error here would say that the batch is not appended, and it is. Reads leave out what
        // could not be evicted, and the next append tries again.
        let _ = self.settle(state, end, limit);
    }

    /// Reads the memory inside with `look`, and leaves out the records before the window.
    pub(super) fn read(&self, look: impl Fn(&M) -> Result<Snapshot>) -> Result<Snapshot> {
        let limit = self.limit();
        let mut beginnings = 0;
        loop {
            let known = self.state.lock().ledger.known();
            let mut snapshot = look(&self.memory)?;
            let first = {
                let ledger = &mut self.state.lock().ledger;
                if !ledger.observe(known, snapshot.start..snapshot.end)
                    || !self.catch_up(ledger, snapshot.end, limit)?
                    || !self.recognise(ledger, &snapshot, limit)?
                {
                    beginnings += 1;
                    if beginnings > MOST_BEGINNINGS {
                        let text = "the conversation began anew each time that it was looked at";
                        return Err(Error::new(ErrorKind::Storage, "read", text));
                    }
                    continue;
                }
                ledger.trim(limit);
                ledger.first()
            };
            // Meanwhile appends may have moved the window on. A later start within what was read is
            // as good; where the window has passed all of it, look again.
            if first < snapshot.end || snapshot.start == snapshot.end {
                if snapshot.start < first {
                    snapshot.start = first.min(snapshot.end);
                    snapshot.records = snapshot.records.split(first).1;
                    snapshot.unreadable.retain(|row| row.seq >= first);
                    snapshot.drop_picked_before(first);
                }
                return Ok(snapshot);
            }
        }
    }

    pub(super) fn evict(&self, before: u64) -> Result<u64> {
        // Records that have left the window go to the callback first, and are not in the number
        // that is returned.
        self.trim()?;
        let known = self.state.lock().ledger.known();
        let gone = self.memory.evict(before)?;
        // Records behind the horizon may have been appended since.
        self.state.lock().ledger.forgotten(known, before.min(known.horizon));
        Ok(gone)
    }

    pub(super) fn clear(&self) -> Result<()> {
        let known = self.state.lock().ledger.known();
        self.memory.clear()?;
        self.state.lock().ledger.forgotten(known, known.horizon);
        Ok(())
    }

    pub(super) fn trim(&self) -> Result<u64> {
        let limit = self.limit();
        let (state, end) = self.look()?;
        self.settle(state, end, limit)
    }

    /// Looks where the memory ends now.
    fn look(&self) -> Result<(MutexGuard<'_, State>, u64)> {
        loop {
            let known = self.state.lock().ledger.known();
            let Snapshot { start, end, .. } = self.memory.read(None, 0)?;
            let mut state = self.state.lock();
            if state.ledger.observe(known, start..end) {
                return Ok((state, end));
            }
        }
    }

    fn limit(&self) -> usize {
        match &self.limit {
            Limit::Fixed(limit) => *limit,
            Limit::Computed(limit) => limit(self.memory.id()),
        }
    }

    fn weigh(&self, message: &Message) -> Result<Weighed> {
        let weight = match &self.counter {
            _ if message.is_private() => 0, // nobody is ever sent it
            Some(counter) => counter.count(message)?,
            None => 1,
        };
        Ok(Weighed::new(message, weight))
    }

    /// Looks at the records before `to` that are not known, from the newest back, until the window
    /// is full. Returns whether they are still there: not where the conversation began anew.
    ///
    /// They were there before this handle, or others have appended them. The lock is held: whoever
    /// comes meanwhile would have to look at the same records.
    fn catch_up(&self, ledger: &mut Ledger, to: u64, limit: usize) -> Result<bool> {
        let known = ledger.known();
        let from = ledger.end();
        let mut at = to;
        let mut total = ledger.early_total(to);
        let mut begins = ledger.early(to).is_some_and(Weighed::surely_begins);
        let mut seen = VecDeque::new();
        let mut page = if self.counter.is_some() { PAGE } else { limit.saturating_add(1) };
        // A window that is full on a result may yet begin with the call.
        while at > from && !(total > limit as u128 && begins) {
            // One more: the last record that is known, to see that these stand behind it.
            let n = places(at - from);
            let n = if n > page { page } else { n.saturating_add(1) };
            page = page.saturating_mul(2);
            let snapshot = self.memory.read(Some(at), n)?;
            if known.refuted_by(&snapshot, to) || ledger.is_refuted_by(&snapshot.records) {
                ledger.refute(known);
                return Ok(false);
            }
            ledger.gone_before(snapshot.start);
            let oldest_unreadable = snapshot.unreadable.iter().map(|row| row.seq).min();
            let before = at;
            for record in snapshot.records.iter().rev().take_while(|r| r.seq() >= from) {
                if total > limit as u128 && begins {
                    break;
                }
                let weighed = match ledger.early(record.seq()) {
                    Some(early) if early.is(record.message()) => early,
                    _ => self.weigh(record.message())?,
                };
                (record.seq() + 1..at).for_each(|_| seen.push_front(Weighed::UNREADABLE));
                seen.push_front(weighed);
                total += weighed.weight();
                begins = weighed.surely_begins();
                at = record.seq();
            }
            if at == before {
                // Nothing but rows that can't be read, or nothing at all.
                let Some(row) = oldest_unreadable.filter(|row| *row < at) else { break };
                (row.max(from)..at).for_each(|_| seen.push_front(Weighed::UNREADABLE));
                at = row.max(from);
            }
        }
        if to > from {
            // Meanwhile others may have evicted some of it.
            let gone = ledger.end().saturating_sub(at);
            ledger.learn(at + gone, seen.into_iter().skip(places(gone)));
        }
        Ok(true)
    }

    /// Weighs records again that a read shows otherwise than they are known. Returns whether that
    /// made sense of the read: not where the conversation began anew once more.
    ///
    /// Another conversation that has grown as far as the one that was known is told by its
    /// messages.
    fn recognise(&self, ledger: &mut Ledger, read: &Snapshot, limit: usize) -> Result<bool> {
        let mut strangers = ledger.strangers(&read.records);
        if strangers.is_empty() {
            return Ok(true);
        }
        if ledger.is_refuted_by(&read.records) {
            ledger.refute(ledger.known());
            if !self.catch_up(ledger, read.end, limit)? {
                return Ok(false);
            }
            strangers = ledger.strangers(&read.records);
        }
        if !strangers.is_empty() {
            let weigh = |record: Record<'_>| Ok((record.seq(), self.weigh(record.message())?));
            let right = strangers.into_iter().map(weigh).collect::<Result<Vec<_>>>()?;
            ledger.correct(right);
        }
        Ok(true)
    }

    /// Evicts what is out of the window, where the memory has grown to `end` at least; returns how
    /// many records.
    fn settle(&self, state: MutexGuard<'_, State>, end: u64, limit: usize) -> Result<u64> {
        let (mut seen, mut gone) = ((state, end), 0);
        for _ in 0..TRIES {
            let (mut state, end) = seen;
            if self.fill(&mut state.ledger, end, limit)? {
                let Some((mut duty, mut pending)) = self.duty(state, limit) else { break };
                while let Some(end) = self.forget(duty.known, pending, &mut gone)? {
                    match duty.next(end) {
                        Some(more) => pending = more,
                        None => return Ok(gone),
                    }
                }
            } else {
                drop(state);
            }
            // The conversation began anew, and its window is another one.
            seen = self.look()?;
        }
        Ok(gone)
    }

    /// Looks at what others have appended before `end`. Returns whether it is still there.
    fn fill(&self, ledger: &mut Ledger, end: u64, limit: usize) -> Result<bool> {
        while let Some(to) = ledger.foreign_gap(end) {
            if !self.catch_up(ledger, to, limit)? {
                return Ok(false);
            }
        }
        Ok(true)
    }

    /// Moves the window, and takes on the duty to evict what is out of it, unless another thread
    /// has that duty: that one then goes on.
    fn duty(
        &self,
        mut state: MutexGuard<'_, State>,
        limit: usize,
    ) -> Option<(Duty<'_>, Range<u64>)> {
        state.ledger.trim(limit);
        let pending = state.ledger.pending()?;
        let me = thread::current().id();
        if let Some(evictor) = state.evictor {
            // A callback that appends leaves what it pushes out to the next append. Else one that
            // appends a message each time would never end.
            state.asked |= evictor != me;
            return None;
        }
        (state.evictor, state.asked) = (Some(me), false);
        let known = state.ledger.known();
        let duty = Duty { state: &self.state, known, to: pending.end, over: false };
        Some((duty, pending))
    }

    /// Hands the oldest records of these positions to the callback and evicts them, which adds to
    /// `gone`. Returns where that ended; `None` where the conversation has begun anew.
    fn forget(
        &self,
        of: Known,
        Range { start: from, end: to }: Range<u64>,
        gone: &mut u64,
    ) -> Result<Option<u64>> {
        let mut end = to;
        if let Some(on_evict) = &self.on_evict {
            let (known, mut handed_over) = {
                let ledger = &self.state.lock().ledger;
                (ledger.known(), ledger.handed_over.clone())
            };
            if !known.is_of(of) {
                return Ok(None);
            }
            if from < handed_over.end {
                // It was handed over, but then the memory failed to evict.
                end = handed_over.end.min(to);
            } else {
                let Some((records, till)) = self.oldest(known, from, to)? else {
                    return Ok(self.refuted(known));
                };
                end = till;
                handed_over = HandedOver::new(&records, end);
                if !records.is_empty() {
                    on_evict(self.memory.id(), &records).map_err(refused)?;
                    if !self.state.lock().ledger.hands_over(known, &handed_over) {
                        return Ok(None);
                    }
                }
            }
            // Time has passed, and what is there now may be another conversation's.
            let snapshot = self.memory.read(Some(end), places(end - from))?;
            if known.refuted_by(&snapshot, 0) || !handed_over.covers(&snapshot.records) {
                return Ok(self.refuted(known));
            }
        }
        let evicted = self.memory.evict(end)?;
        *gone += evicted;
        if evicted > end - from {
            return Ok(self.refuted(of)); // more than there can have been
        }
        Ok(Some(end))
    }

    /// Ends an eviction that finds that the conversation began anew.
    fn refuted<T>(&self, known: Known) -> Option<T> {
        self.state.lock().ledger.refute(known);
        None
    }

    /// Returns the oldest records from `from` on, and where they end: at `to`, or at the end of a
    /// unit once they are enough. `None` where these are not of the conversation that is known.
    fn oldest(&self, known: Known, mut from: u64, to: u64) -> Result<Option<(Records, u64)>> {
        let mut page = HANDED_OVER;
        loop {
            let end = to.min(from.saturating_add(page));
            // One more: a window begins with a unit, so where a tool group goes on behind `to`,
            // this is another conversation.
            let n = places(end - from).saturating_add(1);
            let mut snapshot = self.memory.read(Some(end.saturating_add(1)), n)?;
            let refuted = self.state.lock().ledger.is_refuted_by(&snapshot.records);
            if refuted || known.refuted_by(&snapshot, to) {
                return Ok(None);
            }
            let (records, behind) = snapshot.records.split(end);
            if end == to && continues(&records, &behind) {
                return Ok(None);
            }
            snapshot.records = records;
            if snapshot.start > from {
                from = snapshot.start.min(to);
                if from >= end && from < to {
                    continue; // others have evicted all of it
                }
            }
            if end == to || from == to {
                return Ok(Some((snapshot.records, to)));
            }
            let unit = snapshot.records.iter().rev().find(|it| surely_begins(it.message()));
            if let Some(begins) = unit.map(|it| it.seq()).filter(|seq| *seq > from) {
                return Ok(Some((snapshot.records.split(begins).0, begins)));
            }
            page = page.saturating_mul(2);
        }
    }
}

/// Returns whether a unit begins with this message, whatever stands before it.
fn surely_begins(message: &Message) -> bool {
    !message.is_tool() && !message.is_private()
}

/// Returns whether a tool group goes on behind these records.
fn continues(records: &Records, behind: &Records) -> bool {
    let newest_unit = || records.messages().rev().find(|message| surely_begins(message));
    behind.messages().next().is_some_and(Message::is_tool)
        && newest_unit().is_some_and(Message::has_tool_calls)
}

fn refused(source: Box<dyn StdError + Send + Sync>) -> Error {
    let text = "the callback failed, so nothing more was evicted";
    Error::new(ErrorKind::Storage, "evict", text).with_source(source)
}

/// The number of times that an append tries to evict while the conversation begins anew under its
/// hands. Then the next one goes on.
const TRIES: usize = 3;

/// The number of times that a read looks again while the conversation begins anew under its hands.
/// No conversation begins so often: such a memory does not say where it ends.
const MOST_BEGINNINGS: usize = 1000;

/// The number of records that are looked at first where their weights are not known. Then twice as
/// many.
const PAGE: usize = 32;

/// The least number of records that the callback is given at a time, where there are as many: a
/// long history that comes under a window for the first time is not loaded at once.
const HANDED_OVER: u64 = 256;

/// An append that is under way, until it arrives, fails or panics.
struct UnderWay<'a> {
    state: &'a Mutex<State>,
    ticket: Option<Ticket>,
}

impl<'a> UnderWay<'a> {
    fn begin(state: &'a Mutex<State>) -> Self {
        Self { state, ticket: Some(state.lock().ledger.begin()) }
    }

    /// Ends the append; returns the position before which others may have appended. Its own records
    /// are known, unless the conversation began anew meanwhile.
    fn arrived(mut self, at: &Range<u64>, batch: Vec<Weighed>) -> (MutexGuard<'a, State>, u64) {
        let (mut state, mut end) = (self.state.lock(), at.start);
        if let Some(ticket) = self.ticket.take() {
            if !state.ledger.note(ticket, at.start, batch) {
                end = at.end;
            }
            state.ledger.close(ticket);
        }
        (state, end)
    }
}

impl Drop for UnderWay<'_> {
    fn drop(&mut self) {
        if let Some(ticket) = self.ticket {
            self.state.lock().ledger.close(ticket);
        }
    }
}

/// The duty of the thread that evicts, until it is done, fails or panics.
struct Duty<'a> {
    state: &'a Mutex<State>,
    /// The conversation as it was known when it began.
    known: Known,
    /// The position up to which it has taken on to evict.
    to: u64,
    over: bool,
}

impl Duty<'_> {
    /// Returns what is still to evict when everything before `end` is, with what others have asked
    /// for meanwhile. Where that is nothing, the duty ends under the same lock, so that nobody can
    /// leave anything to it that it does not see.
    fn next(&mut self, end: u64) -> Option<Range<u64>> {
        let state = &mut *self.state.lock();
        let asked = std::mem::take(&mut state.asked);
        if !state.ledger.forgotten(self.known, end) || asked {
            self.known = state.ledger.known();
            self.to = state.ledger.first();
        }
        let pending = state.ledger.pending().filter(|pending| pending.start < self.to);
        if pending.is_none() {
            state.evictor = None;
            self.over = true;
        }
        pending.map(|pending| pending.start..pending.end.min(self.to))
    }
}

impl Drop for Duty<'_> {
    fn drop(&mut self) {
        if !self.over {
            self.state.lock().evictor = None;
        }
    }
}

impl fmt::Debug for Limit {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Fixed(limit) => limit.fmt(f),
            Self::Computed(_) => f.write_str("computed"),
        }
    }
}

impl<M: fmt::Debug> Evicting<M> {
    pub(super) fn debug(&self, name: &str, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct(name).field("memory", &self.memory).field("limit", &self.limit).finish()
    }
}
