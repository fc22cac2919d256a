//! What an evicting memory knows of its window without looking: what each record weighs, where its
//! units begin, and which appends are under way. Arithmetic only: no lock, no I/O.
//!
//! A unit is a tool group, that is an answer with tool calls and the results directly behind it, or
//! any other message alone. Windows begin with a unit.

use std::collections::{BTreeMap, VecDeque};
use std::ops::Range;

use crate::message::Message;

#[derive(Debug)]
pub(super) struct Ledger {
    /// The position of the oldest record in the window: what is before it is evicted, or is about to
    /// be. It never moves back, so a limit that grows again brings nothing back.
    first: u64,
    /// The records from `first` on, without gaps. The first of them opens a unit.
    window: VecDeque<Slot>,
    /// The sum of the weights in `window`. So wide that even counts of `usize::MAX` can be taken out
    /// again.
    total: u128,
    /// How many units begin in `window`.
    units: usize,
    /// Records behind a gap: appended here, after others that are not yet known.
    early: BTreeMap<u64, Weighed>,
    /// Where the gap began when it was first seen, and the ticket that was next then.
    gap: (u64, u64),
    /// The tickets of the appends that are under way, in ascending order.
    under_way: Vec<u64>,
    next_ticket: u64,
    /// The memory inside holds nothing before this position.
    evicted: u64,
    /// The callback was given everything before this position.
    pub(super) told: u64,
}

/// A record that has been looked at.
#[derive(Clone, Copy, Debug)]
pub(super) struct Weighed {
    weight: usize,
    result: bool,
    calls: bool,
}

#[derive(Clone, Copy, Debug)]
struct Slot {
    weight: usize,
    /// Whether a unit begins here.
    opens: bool,
    /// Whether a result that comes directly behind belongs to the same unit.
    group: bool,
}

/// An append that is under way.
#[derive(Clone, Copy, Debug)]
pub(super) struct Ticket {
    number: u64,
    /// Every position before this one was taken when the append began.
    horizon: u64,
}

impl Weighed {
    pub(super) fn new(message: &Message, weight: usize) -> Self {
        Self { weight, result: message.is_tool(), calls: message.has_tool_calls() }
    }

    /// A row that can't be read.
    pub(super) const UNREADABLE: Self = Self { weight: 0, result: false, calls: false };

    pub(super) fn weight(self) -> u128 {
        self.weight as u128
    }

    /// Whether a unit begins here, whatever stands before.
    pub(super) fn surely_opens(self) -> bool {
        !self.result
    }
}

impl Ledger {
    pub(super) fn new() -> Self {
        Self {
            first: 0,
            window: VecDeque::new(),
            total: 0,
            units: 0,
            early: BTreeMap::new(),
            gap: (u64::MAX, 0),
            under_way: Vec::new(),
            next_ticket: 0,
            evicted: 0,
            told: 0,
        }
    }

    pub(super) fn first(&self) -> u64 {
        self.first
    }

    /// Up to where every record is known, from `first` on.
    pub(super) fn end(&self) -> u64 {
        self.first + self.window.len() as u64
    }

    /// Every position before this one was taken: something was seen at or behind it.
    pub(super) fn horizon(&self) -> u64 {
        self.early.last_key_value().map_or_else(|| self.end(), |(last, _)| last + 1)
    }

    /// The record at a position behind a gap.
    pub(super) fn early(&self, position: u64) -> Option<Weighed> {
        self.early.get(&position).copied()
    }

    /// What is known to weigh from a position on that lies behind a gap.
    pub(super) fn early_total(&self, from: u64) -> u128 {
        self.early.range(from..).map(|(_, weighed)| weighed.weight()).sum()
    }

    /// An append begins.
    pub(super) fn begin(&mut self) -> Ticket {
        let number = self.next_ticket;
        self.next_ticket += 1;
        self.under_way.push(number);
        Ticket { number, horizon: self.horizon() }
    }

    /// An append is over, whether it came to anything or not.
    pub(super) fn close(&mut self, ticket: Ticket) {
        self.under_way.retain(|number| *number != ticket.number);
    }

    /// What an append has put at the positions from `first` on.
    pub(super) fn note(&mut self, ticket: Ticket, first: u64, batch: Vec<Weighed>) {
        self.check(first, ticket.horizon);
        for (position, weighed) in (first..).zip(batch) {
            if position == self.end() {
                self.push(weighed);
            } else if position > self.end() {
                self.early.insert(position, weighed);
            } // else a read has overtaken the append and has learnt it already
        }
        self.absorb();
    }

    /// The end of a gap before `to` that no append under way is going to fill: somebody else has
    /// appended.
    ///
    /// Whoever fills it took its position before those that are seen behind it, so once all appends
    /// of that time are over, it was nobody here.
    pub(super) fn foreign_gap(&mut self, to: u64) -> Option<u64> {
        let behind = self.early.keys().next().map_or(to, |first| *first);
        if behind <= self.end() {
            return None;
        }
        if self.gap.0 != self.end() {
            self.gap = (self.end(), self.next_ticket);
        }
        let ours = self.under_way.first().is_some_and(|oldest| *oldest < self.gap.1);
        (!ours).then_some(behind)
    }

    /// Takes in what a look at the records from `from` on has shown. Where that leaves out some
    /// behind the end of the window, they are no part of it, and nothing before them is.
    pub(super) fn learn(&mut self, from: u64, records: impl IntoIterator<Item = Weighed>) {
        if from > self.end() {
            self.leave(from);
        }
        records.into_iter().for_each(|weighed| self.push(weighed));
        self.absorb();
    }

    /// What a read has shown of the memory: its start, and its end, which had passed `horizon`
    /// before the read began.
    pub(super) fn observe(&mut self, positions: Range<u64>, horizon: u64) {
        self.check(positions.end, horizon);
        self.gone_before(positions.start);
    }

    /// The memory holds nothing before `position` any more.
    pub(super) fn gone_before(&mut self, position: u64) {
        self.evicted = self.evicted.max(position);
        if position > self.end() {
            self.leave(position);
            self.absorb();
        }
        while self.first < position && self.pop() {}
        // Results whose call is gone are results of nothing, each alone.
        for slot in self.window.iter_mut().take_while(|slot| !slot.opens) {
            (slot.opens, slot.group) = (true, false);
            self.units += 1;
        }
    }

    /// Moves the start of the window forward until it weighs no more than `limit`, or only the
    /// newest unit is left.
    pub(super) fn trim(&mut self, limit: usize) {
        while self.total > limit as u128 && self.units > 1 {
            self.pop();
            while self.window.front().is_some_and(|slot| !slot.opens) {
                self.pop();
            }
        }
    }

    /// What has left the window and not the memory.
    pub(super) fn pending(&self) -> Option<Range<u64>> {
        (self.evicted < self.first).then_some(self.evicted..self.first)
    }

    /// Positions never go back. Where they do, the conversation was deleted and began anew, and all
    /// that was known of it is void.
    fn check(&mut self, end: u64, horizon: u64) {
        if end < horizon {
            let under_way = std::mem::take(&mut self.under_way);
            *self = Self { under_way, next_ticket: self.next_ticket, ..Self::new() };
        }
    }

    fn push(&mut self, weighed: Weighed) {
        let group = self.window.back().is_some_and(|before| before.group);
        let opens = !(weighed.result && group);
        self.units += usize::from(opens);
        self.total += weighed.weight();
        let group = weighed.calls || !opens;
        self.window.push_back(Slot { weight: weighed.weight, opens, group });
    }

    fn pop(&mut self) -> bool {
        let Some(slot) = self.window.pop_front() else { return false };
        self.first += 1;
        self.units -= usize::from(slot.opens);
        self.total -= slot.weight as u128;
        true
    }

    /// Forgets the window, for it begins at `first` or later.
    fn leave(&mut self, first: u64) {
        self.first = first;
        self.window.clear();
        (self.total, self.units) = (0, 0);
    }

    /// Moves what no gap separates any more into the window.
    fn absorb(&mut self) {
        while let Some(entry) = self.early.first_entry() {
            if *entry.key() > self.first + self.window.len() as u64 {
                break;
            }
            let (position, weighed) = entry.remove_entry();
            if position == self.end() {
                self.push(weighed);
            }
        }
    }
}
