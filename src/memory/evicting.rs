//! The common part of the memories that evict.
//!
//! An append, its weighing and the eviction that follows are one step under the lock of the handle,
//! and so is a read. The callback runs without the lock: the records are read, the lock is
//! released, the callback gets them, and then they are evicted if they are still there.

mod kinds;
mod window;

use std::cell::RefCell;
use std::collections::VecDeque;
use std::error::Error as StdError;
use std::fmt;
use std::ops::Range;
use std::thread::{self, ThreadId};

use parking_lot::ReentrantMutex;

pub(super) use self::kinds::evicting;
use self::window::{Weighed, Window};
use super::{Append, Appended, ChatMemory, MemoryId, Read};
use crate::error::{Error, ErrorKind, Result};
use crate::message::Message;
use crate::record::{Records, Snapshot, places};
use crate::token::TokenCounter;

pub(super) struct Evicting<M> {
    pub(super) memory: M,
    limit: Limit,
    counter: Option<Box<dyn TokenCounter>>,
    pub(super) on_evict: Option<Box<OnEvict>>,
    state: ReentrantMutex<RefCell<State>>,
}

pub(super) enum Limit {
    Fixed(usize),
    Computed(Box<dyn Fn(&MemoryId) -> usize + Send + Sync>),
}

pub(super) type OnEvict =
    dyn Fn(&MemoryId, &Records) -> Result<(), Box<dyn StdError + Send + Sync>> + Send + Sync;

#[derive(Default)]
struct State {
    window: Window,
    /// The thread that passes records to the callback, and the position up to which it does.
    evictor: Option<(ThreadId, u64)>,
}

/// The oldest records outside the window, and where they end.
struct Piece {
    records: Records,
    end: u64,
    /// The count of beginnings when they were read: it identifies their conversation.
    beginnings: u64,
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
        Self { memory, limit, counter, on_evict: None, state: ReentrantMutex::default() }
    }

    /// Appends, and evicts what is over the limit then.
    pub(super) fn append_with(&self, append: &mut Append) -> Result<Appended> {
        let limit = self.limit();
        // Before the append, since a batch is never half done.
        let stored = append.messages.iter().filter(|message| !message.is_system());
        let weighed = stored.map(|message| self.weigh(message)).collect::<Result<_>>()?;
        // An error after the append would say that the batch was not appended, although it was.
        // Reads leave out what could not be evicted, and the next append tries again.
        let appended = self.locked(|state| {
            let appended = self.memory.append_with(append)?;
            if !appended.repeated {
                let _ = self.appended(state, &appended.positions, weighed, limit);
            }
            Ok(appended)
        })?;
        let _ = self.hand_over(limit);
        Ok(appended)
    }

    /// Adds a batch that was appended to the window.
    fn appended(
        &self,
        state: &mut State,
        at: &Range<u64>,
        batch: Vec<Weighed>,
        limit: usize,
    ) -> Result<()> {
        let window = &mut state.window;
        if at.start < window.end() {
            window.forget_all(); // positions never move back within one conversation
            self.refresh(window, limit)?;
        } else if !window.was_seen() {
            // What was appended is read back too: another conversation may have replaced it by now,
            // and later nothing would reveal that.
            if self.catch_up(window, at.end, &[], limit)? {
                window.trim(limit);
            } else {
                self.refresh(window, limit)?;
            }
        } else if self.catch_up(window, at.start, &batch, limit)? {
            // Others may have evicted some of it already.
            let gone = places(window.end().saturating_sub(at.start));
            batch.into_iter().skip(gone).for_each(|weighed| window.push(weighed));
            window.trim(limit);
        } else {
            self.refresh(window, limit)?;
        }
        self.evict_now(state).map(drop)
    }

    /// Reads the memory inside with `look`, and leaves out the records before the window.
    pub(super) fn read(&self, look: impl Fn(&M) -> Result<Snapshot>) -> Result<Snapshot> {
        let limit = self.limit();
        self.locked(|State { window, .. }| {
            for _ in 0..TRIES {
                let mut snapshot = look(&self.memory)?;
                window.observe(&snapshot);
                if !self.catch_up(window, snapshot.end, &[], limit)? {
                    continue;
                }
                window.trim(limit);
                let first = window.first();
                if first >= snapshot.end && snapshot.start < snapshot.end {
                    continue; // others have evicted all that was read
                }
                if snapshot.start < first {
                    snapshot.start = first.min(snapshot.end);
                    snapshot.records = snapshot.records.split(first).1;
                    snapshot.unreadable.retain(|row| row.position >= first);
                    snapshot.drop_picked_before(first);
                }
                return Ok(snapshot);
            }
            Err(began_again("read"))
        })
    }

    pub(super) fn evict(&self, before: u64) -> Result<u64> {
        // Records that have left the window go to the callback first, and are not counted in the
        // number that is returned.
        let (_, first) = self.trim_to()?;
        self.locked(|State { window, .. }| {
            if window.pending().is_some_and(|pending| pending.start < first.min(before)) {
                let text = "the callback has not been given all that was evicted before";
                return Err(Error::new(ErrorKind::Storage, "evict", text));
            }
            let gone = self.memory.evict(before)?;
            window.gone_before(before.min(window.end()));
            Ok(gone)
        })
    }

    pub(super) fn clear(&self) -> Result<()> {
        self.locked(|State { window, .. }| {
            self.memory.clear()?;
            window.cleared();
            Ok(())
        })
    }

    pub(super) fn trim(&self) -> Result<u64> {
        self.trim_to().map(|(gone, _)| gone)
    }

    /// Evicts what is outside the window; returns how many records, and where the window begins.
    fn trim_to(&self) -> Result<(u64, u64)> {
        let limit = self.limit();
        let (gone, first) = self.locked(|state| {
            self.refresh(&mut state.window, limit)?;
            Ok((self.evict_now(state)?, state.window.first()))
        })?;
        Ok((gone + self.hand_over(limit)?, first))
    }

    /// Works on the window under the lock. A callback of the memory inside may use this memory
    /// while an append runs; it then sees the window as another handle would.
    fn locked<T>(&self, work: impl FnOnce(&mut State) -> T) -> T {
        let state = self.state.lock();
        match state.try_borrow_mut() {
            Ok(mut state) => work(&mut state),
            Err(_) => work(&mut State::default()),
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
            _ if message.is_private() => 0, // it is sent to no model
            Some(counter) => counter.count(message)?,
            None => 1,
        };
        Ok(Weighed::new(message, weight))
    }

    /// Brings the window up to date with the memory.
    fn refresh(&self, window: &mut Window, limit: usize) -> Result<()> {
        for _ in 0..TRIES {
            let snapshot = self.memory.read(None, 0)?;
            window.observe(&snapshot);
            if self.catch_up(window, snapshot.end, &[], limit)? {
                window.trim(limit);
                return Ok(());
            }
        }
        Err(began_again("evict"))
    }

    /// Reads the unknown records before `to`, which were there before this handle or which others
    /// have appended: from the newest back, until they and the `batch` after them fill the window.
    /// Returns false if they are of another conversation.
    fn catch_up(
        &self,
        window: &mut Window,
        to: u64,
        batch: &[Weighed],
        limit: usize,
    ) -> Result<bool> {
        let mut total: u128 = batch.iter().map(|weighed| weighed.weight as u128).sum();
        let mut begins = batch.first().is_some_and(|first| first.surely_begins());
        let (mut at, mut seen) = (to, VecDeque::new());
        let mut page = if self.counter.is_some() { PAGE } else { limit.saturating_add(1) };
        // A window that begins with a result may still have to include its call.
        let is_full = |total, begins| begins && total > limit as u128;
        while at > window.end() && !is_full(total, begins) {
            let n = places(at - window.end()).min(page);
            page = page.saturating_mul(2);
            let snapshot = self.memory.read_with(&Read::newest(n).before(at).references())?;
            if snapshot.end < to || !window.observe(&snapshot) {
                window.forget_all();
                return Ok(false);
            }
            let oldest_unreadable = snapshot.unreadable.iter().map(|row| row.position).min();
            let before = at;
            let new = |position: u64| position >= window.end();
            for record in snapshot.records.iter().rev().take_while(|it| new(it.position())) {
                if is_full(total, begins) {
                    break;
                }
                let weighed = self.weigh(record.message())?;
                (record.position() + 1..at).for_each(|_| seen.push_front(Weighed::UNREADABLE));
                seen.push_front(weighed);
                total += weighed.weight as u128;
                begins = weighed.surely_begins();
                at = record.position();
            }
            if at == before {
                // Only rows that can't be read, or nothing at all.
                let Some(row) = oldest_unreadable.filter(|row| *row < at) else { break };
                let row = row.max(window.end());
                (row..at).for_each(|_| seen.push_front(Weighed::UNREADABLE));
                at = row;
            }
        }
        // Others may have evicted some of it in the meantime, or it is before a full window.
        let gone = window.end().saturating_sub(at);
        if at > window.end() && to > window.end() {
            window.begin_at(at);
        }
        seen.into_iter().skip(places(gone)).for_each(|weighed| window.push(weighed));
        Ok(true)
    }

    /// Evicts what is outside the window if there is no callback; returns how many records.
    fn evict_now(&self, State { window, .. }: &mut State) -> Result<u64> {
        let pending = window.pending().filter(|_| self.on_evict.is_none());
        let Some(pending) = pending else { return Ok(0) };
        let gone = self.memory.evict(pending.end)?;
        window.gone_before(pending.end);
        Ok(gone)
    }

    /// Passes what is outside the window to the callback, and evicts it; returns how many records.
    /// If another thread is doing that, that thread does it for both.
    fn hand_over(&self, limit: usize) -> Result<u64> {
        let Some(on_evict) = &self.on_evict else { return Ok(0) };
        let me = thread::current().id();
        let begun = self.locked(|State { window, evictor }| {
            match evictor {
                // Records that a callback pushes out by an append wait for the next append.
                // Otherwise a callback that appends a message each time would never end.
                Some((other, until)) if *other != me => *until = window.first(),
                Some(_) => {}
                None => {
                    *evictor = Some((me, window.first()));
                    return true;
                }
            }
            false
        });
        if !begun {
            return Ok(0);
        }
        let evicts = Evicts(&self.state);
        let mut gone = 0;
        while let Some(piece) = self.locked(|state| self.oldest(state, limit))? {
            if !piece.records.is_empty() {
                on_evict(self.memory.id(), &piece.records).map_err(refused)?;
            }
            gone += self.locked(|state| self.forget(state, &piece, limit))?;
        }
        drop(evicts);
        Ok(gone)
    }

    /// Returns the next piece for the callback. If there is none, the duty to evict ends under the
    /// same lock, so that no other thread can leave it work that it does not see.
    fn oldest(&self, State { window, evictor }: &mut State, limit: usize) -> Result<Option<Piece>> {
        for _ in 0..TRIES {
            let until = evictor.map_or(0, |(_, until)| until);
            let pending = window.pending().filter(|pending| pending.start < until);
            let Some(Range { start, end }) = pending else { break };
            if let Some(piece) = self.piece(window, start..end.min(until))? {
                return Ok(Some(piece));
            }
            self.begin_again(window, evictor, limit)?;
        }
        *evictor = None;
        Ok(None)
    }

    /// Goes on with the window of the conversation that has replaced the known one.
    fn begin_again(
        &self,
        window: &mut Window,
        evictor: &mut Option<(ThreadId, u64)>,
        limit: usize,
    ) -> Result<()> {
        self.refresh(window, limit)?;
        if let Some((_, until)) = evictor {
            *until = window.first();
        }
        Ok(())
    }

    /// Returns the oldest of these records, up to the end of a group once they are enough. `None`
    /// if they are of another conversation than the known one.
    fn piece(
        &self,
        window: &mut Window,
        Range { start: mut from, end: to }: Range<u64>,
    ) -> Result<Option<Piece>> {
        let beginnings = window.beginnings;
        let piece = |records, end| Ok(Some(Piece { records, end, beginnings }));
        if from < window.handed_over {
            // The callback has received it, but then the memory failed to evict.
            return piece(Records::default(), window.handed_over.min(to));
        }
        let mut page = HANDED_OVER;
        loop {
            let end = to.min(from.saturating_add(page));
            let snapshot = self.memory.read(Some(end), places(end - from))?;
            if !window.observe(&snapshot) || snapshot.end < to {
                return Ok(None);
            }
            from = from.max(snapshot.start).min(to);
            if from >= end && from < to {
                continue; // others have evicted all of it
            }
            if end == to {
                return piece(snapshot.records, to);
            }
            let surely_begins = |message: &Message| !message.is_tool() && !message.is_private();
            let group = snapshot.records.iter().rev().find(|it| surely_begins(it.message()));
            if let Some(begins) = group.map(|it| it.position()).filter(|position| *position > from)
            {
                return piece(snapshot.records.split(begins).0, begins);
            }
            page = page.saturating_mul(2);
        }
    }

    /// Evicts what the callback has received; returns how many records. Time has passed, so it
    /// first checks whether the conversation is still the same.
    fn forget(
        &self,
        State { window, evictor }: &mut State,
        piece: &Piece,
        limit: usize,
    ) -> Result<u64> {
        if window.beginnings == piece.beginnings {
            window.handed_over = window.handed_over.max(piece.end);
            let snapshot = self.memory.read(None, 0)?;
            if window.observe(&snapshot) {
                let gone = self.memory.evict(piece.end)?;
                window.gone_before(piece.end);
                return Ok(gone);
            }
        }
        self.begin_again(window, evictor, limit)?;
        Ok(0)
    }
}

/// Ends the duty of the thread that evicts, even if it fails or panics.
struct Evicts<'a>(&'a ReentrantMutex<RefCell<State>>);

impl Drop for Evicts<'_> {
    fn drop(&mut self) {
        let state = self.0.lock();
        if let Ok(mut state) = state.try_borrow_mut()
            && state.evictor.is_some_and(|(thread, _)| thread == thread::current().id())
        {
            state.evictor = None;
        }
    }
}

fn refused(source: Box<dyn StdError + Send + Sync>) -> Error {
    let text = "the callback failed, so nothing more was evicted";
    Error::new(ErrorKind::Storage, "evict", text).with_source(source)
}

fn began_again(operation: &'static str) -> Error {
    let text = "the conversation was deleted and begun again each time that it was looked at";
    Error::new(ErrorKind::Storage, operation, text)
}

/// The number of attempts of an operation if the conversation is deleted and begun again each time.
const TRIES: usize = 100;

/// The size of the first page of records with unknown weights. Each further page is twice as large.
const PAGE: usize = 32;

/// The least number of records that the callback gets at a time, if there are as many. It keeps a
/// long history that comes under a window for the first time from being loaded at once: few, since
/// each may hold pictures.
const HANDED_OVER: u64 = 16;

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
