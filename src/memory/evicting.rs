//! What the memories that evict have in common.
//!
//! Nothing is held while the memory inside appends or evicts, or while the callback runs: a callback
//! may append, and memories of this kind may wrap each other. The [`Ledger`] makes up for the order
//! in which concurrent appends come back, and a single thread at a time evicts for all.

mod ledger;

use std::collections::VecDeque;
use std::error::Error as StdError;
use std::fmt;
use std::ops::Range;
use std::thread::{self, ThreadId};

use parking_lot::{Mutex, MutexGuard};

use self::ledger::{Ledger, Ticket, Weighed};
use super::{ChatMemory, MemoryId};
use crate::error::{Error, ErrorKind, Result};
use crate::message::Message;
use crate::record::{Records, Snapshot};
use crate::token::TokenCounter;

pub(super) struct Evicting<M> {
    memory: M,
    limit: Limit,
    /// Without one, each message weighs 1.
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
    /// Whether another thread has left something to it meanwhile.
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
        // All that can fail comes before the append: a batch is never half done.
        let limit = self.limit();
        let stored = batch.iter().filter(|message| !message.is_system());
        let weighed = stored.map(|message| self.weigh(message)).collect::<Result<Vec<_>>>()?;
        let under_way = UnderWay::begin(&self.state);
        let range = self.memory.append(batch, expected)?;
        let state = under_way.arrived(range.start, weighed);
        // The batch is appended, and an error would say that it is not. What was not evicted is out
        // of the window all the same, and the next append tries again.
        let _ = self.settle(state, range.start, limit);
        Ok(range)
    }

    pub(super) fn read(&self, before: Option<u64>, n: usize) -> Result<Snapshot> {
        let limit = self.limit();
        loop {
            let horizon = self.state.lock().ledger.horizon();
            let mut snapshot = self.memory.read(before, n)?;
            let first = {
                let ledger = &mut self.state.lock().ledger;
                ledger.observe(snapshot.start..snapshot.end, horizon);
                self.catch_up(ledger, snapshot.end, limit)?;
                ledger.trim(limit);
                ledger.first()
            };
            // Appends may have gone on, and the window with them: a later one within what was read
            // is as good. Where it has passed all of it, what was read was never all there was.
            if first < snapshot.end || snapshot.start == snapshot.end {
                if snapshot.start < first {
                    snapshot.start = first.min(snapshot.end);
                    snapshot.records = snapshot.records.split(first).1;
                    snapshot.unreadable.retain(|row| row.seq >= first);
                }
                return Ok(snapshot);
            }
        }
    }

    pub(super) fn evict(&self, before: u64) -> Result<u64> {
        // What the window owes to the callback goes there first, and is not in the answer's number.
        self.trim()?;
        let horizon = self.state.lock().ledger.horizon();
        let gone = self.memory.evict(before)?;
        // Behind the horizon may be what was appended since.
        self.state.lock().ledger.gone_before(before.min(horizon));
        Ok(gone)
    }

    pub(super) fn clear(&self) -> Result<()> {
        let horizon = self.state.lock().ledger.horizon();
        self.memory.clear()?;
        self.state.lock().ledger.gone_before(horizon);
        Ok(())
    }

    pub(super) fn trim(&self) -> Result<u64> {
        let limit = self.limit();
        let horizon = self.state.lock().ledger.horizon();
        let Snapshot { start, end, .. } = self.memory.read(None, 0)?;
        let mut state = self.state.lock();
        state.ledger.observe(start..end, horizon);
        self.settle(state, end, limit)
    }

    fn limit(&self) -> usize {
        match &self.limit {
            Limit::Fixed(limit) => *limit,
            Limit::Computed(limit) => limit(self.memory.id()),
        }
    }

    fn weigh(&self, message: &Message) -> Result<Weighed> {
        let weight = self.counter.as_ref().map_or(Ok(1), |counter| counter.count(message))?;
        Ok(Weighed::new(message, weight))
    }

    /// Looks at the records before `to` that are not known, from the newest back, until the window
    /// is full.
    ///
    /// They were there before this handle, or others have appended them. The lock is held: whoever
    /// comes meanwhile would have to look at the same records.
    fn catch_up(&self, ledger: &mut Ledger, to: u64, limit: usize) -> Result<()> {
        let from = ledger.end();
        let mut at = to;
        let mut total = ledger.early_total(to);
        let mut opens = ledger.early(to).is_some_and(Weighed::surely_opens);
        let mut seen = VecDeque::new();
        let mut page = if self.counter.is_some() { PAGE } else { limit.saturating_add(1) };
        // A window that is full on a result may yet begin with the call.
        while at > from && !(total > limit as u128 && opens) {
            let n = page.min(usize::try_from(at - from).unwrap_or(usize::MAX));
            page = page.saturating_mul(2);
            let snapshot = self.memory.read(Some(at), n)?;
            let oldest_unreadable = snapshot.unreadable.iter().map(|row| row.seq).min();
            let before = at;
            for record in snapshot.records.iter().rev().take_while(|r| r.seq() >= from) {
                if total > limit as u128 && opens {
                    break;
                }
                let weighed = match ledger.early(record.seq()) {
                    Some(known) => known,
                    None => self.weigh(record.message())?,
                };
                (record.seq() + 1..at).for_each(|_| seen.push_front(Weighed::UNREADABLE));
                seen.push_front(weighed);
                total += weighed.weight();
                opens = weighed.surely_opens();
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
            ledger.learn(at, seen);
        }
        Ok(())
    }

    /// Evicts what is out of the window, where the memory has grown to `end` at least; returns how
    /// many records.
    fn settle(&self, state: MutexGuard<'_, State>, end: u64, limit: usize) -> Result<u64> {
        let Some((mut duty, mut pending)) = self.duty(state, end, limit)? else { return Ok(0) };
        let mut gone = 0;
        loop {
            let (end, records) = self.forget(pending)?;
            gone += records;
            match duty.next(end) {
                Some(more) => pending = more,
                None => return Ok(gone),
            }
        }
    }

    /// Moves the window, and takes on to evict what is out of it, unless another thread is at it:
    /// that one then goes on.
    fn duty(
        &self,
        mut state: MutexGuard<'_, State>,
        end: u64,
        limit: usize,
    ) -> Result<Option<(Duty<'_>, Range<u64>)>> {
        let state = &mut *state;
        while let Some(to) = state.ledger.foreign_gap(end) {
            self.catch_up(&mut state.ledger, to, limit)?;
        }
        state.ledger.trim(limit);
        let Some(pending) = state.ledger.pending() else { return Ok(None) };
        let me = thread::current().id();
        if let Some(evictor) = state.evictor {
            // A callback that appends leaves what it pushes out to the next append. Else one that
            // appends a message each time would never end.
            state.asked |= evictor != me;
            return Ok(None);
        }
        (state.evictor, state.asked) = (Some(me), false);
        let duty = Duty { state: &self.state, to: pending.end, over: false };
        Ok(Some((duty, pending)))
    }

    /// Hands the oldest records of these positions to the callback and evicts them. Where that ended,
    /// and how many records there were.
    fn forget(&self, Range { start: from, end: to }: Range<u64>) -> Result<(u64, u64)> {
        let mut end = to;
        if let Some(on_evict) = &self.on_evict {
            let told = self.state.lock().ledger.told;
            if from < told {
                end = told.min(to); // it was told, but then the memory failed to evict
            } else {
                let records;
                (records, end) = self.oldest(from, to)?;
                if !records.is_empty() {
                    on_evict(self.memory.id(), &records).map_err(refused)?;
                    self.state.lock().ledger.told = end;
                }
            }
        }
        Ok((end, self.memory.evict(end)?))
    }

    /// The oldest records from `from` on, and where they end: at `to`, or where so many are enough
    /// and a unit ends.
    fn oldest(&self, mut from: u64, to: u64) -> Result<(Records, u64)> {
        let mut page = HANDED_OVER;
        loop {
            let end = to.min(from.saturating_add(page));
            let n = usize::try_from(end - from).unwrap_or(usize::MAX);
            let snapshot = self.memory.read(Some(end), n)?;
            if snapshot.start > from {
                from = snapshot.start.min(to);
                if from >= end && from < to {
                    continue; // others have evicted all of it
                }
            }
            if end == to || from == to {
                return Ok((snapshot.records, to));
            }
            let opening = snapshot.records.iter().rev().find(|r| !r.message().is_tool());
            let opening = opening.map(|record| record.seq()).filter(|seq| *seq > from);
            if let Some(opening) = opening {
                return Ok((snapshot.records.split(opening).0, opening));
            }
            page = page.saturating_mul(2);
        }
    }
}

fn refused(source: Box<dyn StdError + Send + Sync>) -> Error {
    let text = "the callback failed, so nothing more was evicted";
    Error::new(ErrorKind::Storage, "evict", text).with_source(source)
}

/// How many records are looked at first where their weights are not known. Then twice as many.
const PAGE: usize = 32;

/// How many records at least the callback is given at a time, where there are so many: a long history
/// that comes under a window for the first time is not loaded at once.
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

    fn arrived(mut self, first: u64, batch: Vec<Weighed>) -> MutexGuard<'a, State> {
        let mut state = self.state.lock();
        if let Some(ticket) = self.ticket.take() {
            state.ledger.note(ticket, first, batch);
            state.ledger.close(ticket);
        }
        state
    }
}

impl Drop for UnderWay<'_> {
    fn drop(&mut self) {
        if let Some(ticket) = self.ticket {
            self.state.lock().ledger.close(ticket);
        }
    }
}

/// What the thread that evicts has taken on, until it is done, fails or panics.
struct Duty<'a> {
    state: &'a Mutex<State>,
    /// Up to where it has taken on to evict.
    to: u64,
    over: bool,
}

impl Duty<'_> {
    /// What is still to evict when everything before `end` is, and what others have asked for
    /// meanwhile. When that is nothing, the duty is over in the same moment, so that nobody can
    /// leave anything to it that it does not see.
    fn next(&mut self, end: u64) -> Option<Range<u64>> {
        let state = &mut *self.state.lock();
        state.ledger.gone_before(end);
        if std::mem::take(&mut state.asked) {
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

/// What each public memory of this kind is: a name, its own constructors, and the rest from here.
macro_rules! evicting {
    ($name:ident) => {
        impl<M: ChatMemory> $name<M> {
            /// The same memory, with a callback that receives what is evicted: to archive it, or to
            /// summarise it.
            ///
            /// - It is called **before** the records are forgotten, with whole tool groups, in the
            ///   order of their positions, and never by two threads at once. No lock is held.
            /// - Each record is given **once**. Only if the callback fails or panics, nothing is
            ///   forgotten, and the next append offers the same records again; the append itself
            ///   is done, and [`trim`](Self::trim) tells the error. After a crash in between, or where
            ///   several processes or handles evict from the same memory, a record may be given
            ///   again: at least once in all, if each of them has a callback.
            /// - It may append here. What that pushes out waits for the next append.
            /// - It is not called for what [`evict`](ChatMemory::evict) or
            ///   [`clear`](ChatMemory::clear) is told to forget.
            #[must_use]
            pub fn on_evict(
                mut self,
                on_evict: impl Fn(
                    &MemoryId,
                    &Records,
                ) -> Result<(), Box<dyn StdError + Send + Sync>>
                + Send
                + Sync
                + 'static,
            ) -> Self {
                self.inner.on_evict(Box::new(on_evict));
                self
            }

            /// Evicts now what is over the limit, and returns how many records: after the limit
            /// shrank, or to see why an append could not.
            ///
            /// What another thread is evicting at this moment is left to it.
            ///
            /// # Errors
            ///
            /// Those of the memory inside and of the counter, and
            /// [`ErrorKind::Storage`](crate::ErrorKind::Storage) where the callback failed.
            pub fn trim(&self) -> Result<u64> {
                self.inner.trim()
            }

            /// The memory inside.
            pub fn memory(&self) -> &M {
                self.inner.memory()
            }
        }

        #[deny(clippy::missing_trait_methods)] // one that is not limited would read past the limit
        impl<M: ChatMemory> ChatMemory for $name<M> {
            fn id(&self) -> &MemoryId {
                self.inner.memory().id()
            }

            fn append(
                &self,
                batch: &mut Vec<Message>,
                expected: Option<u64>,
            ) -> Result<Range<u64>> {
                self.inner.append(batch, expected)
            }

            fn read(&self, before: Option<u64>, n: usize) -> Result<Snapshot> {
                self.inner.read(before, n)
            }

            fn evict(&self, before: u64) -> Result<u64> {
                self.inner.evict(before)
            }

            fn clear(&self) -> Result<()> {
                self.inner.clear()
            }
        }

        impl<M: ChatMemory> fmt::Debug for $name<M> {
            fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
                self.inner.debug(stringify!($name), f)
            }
        }
    };
}

pub(super) use evicting;
