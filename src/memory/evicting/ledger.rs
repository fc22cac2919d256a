//! The window of an evicting memory, as far as it is known without looking: what each record
//! weighs, where its units begin, and which appends are under way. Arithmetic only: no lock, no
//! I/O.
//!
//! A unit is a tool group, that is an answer with tool calls and the results directly behind it, or
//! any other message alone. The application's own records, which nobody is sent, weigh nothing,
//! part nothing, and go with the unit that they stand behind. Windows begin with a unit.

use std::collections::{BTreeMap, VecDeque};
use std::ops::Range;

use super::fingerprint::{HandedOver, fingerprint};
use crate::message::Message;
use crate::record::{Record, Records, Snapshot, places};

#[derive(Debug)]
pub(super) struct Ledger {
    /// The position of the oldest record in the window: what is before it is evicted, or is about
    /// to be. It never moves back, so a limit that grows again brings nothing back.
    first: u64,
    /// The records from `first` on, without gaps. The first of them begins a unit.
    window: VecDeque<Held>,
    /// The sum of the weights in `window`. So wide that even counts of `usize::MAX` can be taken
    /// out again.
    total: u128,
    /// The number of units that begin in `window`.
    units: usize,
    /// Records behind a gap: appended here, after others that are not yet known.
    early: BTreeMap<u64, Weighed>,
    /// The position where the gap began when it was first seen, and the ticket that was next then.
    gap: (u64, u64),
    /// The tickets of the appends that are under way, in ascending order.
    under_way: Vec<u64>,
    next_ticket: u64,
    /// The memory inside holds nothing before this position.
    evicted: u64,
    /// The number of times that the conversation was found to have begun anew.
    beginnings: u64,
    /// The records that the callback was given and the memory has not yet forgotten.
    pub(super) handed_over: HandedOver,
}

/// The conversation as it was known when an operation began, to compare with what the operation
/// shows.
#[derive(Clone, Copy, Debug)]
pub(super) struct Known {
    beginnings: u64,
    /// Every position before this one was taken.
    pub(super) horizon: u64,
    evicted: u64,
}

/// A record that has been looked at.
#[derive(Clone, Copy, Debug)]
pub(super) struct Weighed {
    weight: usize,
    /// The number that tells it from a message that another conversation has at the same position.
    fingerprint: u64,
    kind: Kind,
}

/// The part that a record plays in units.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Kind {
    Calls,
    Result,
    /// A record of the application.
    Private,
    Other,
}

#[derive(Clone, Copy, Debug)]
struct Held {
    weighed: Weighed,
    /// True where a unit begins here.
    begins: bool,
    /// True where a result that comes directly behind belongs to the same unit.
    group: bool,
}

/// An append that is under way.
#[derive(Clone, Copy, Debug)]
pub(super) struct Ticket {
    number: u64,
    known: Known,
}

impl Weighed {
    pub(super) fn new(message: &Message, weight: usize) -> Self {
        let kind = match message {
            Message::Tool(_) => Kind::Result,
            message if message.has_tool_calls() => Kind::Calls,
            message if message.is_private() => Kind::Private,
            _ => Kind::Other,
        };
        Self { weight, fingerprint: fingerprint(message), kind }
    }

    /// A row that can't be read.
    pub(super) const UNREADABLE: Self = Self { weight: 0, fingerprint: 0, kind: Kind::Other };

    pub(super) fn weight(self) -> u128 {
        self.weight as u128
    }

    /// Returns whether this is the message that was weighed, as far as its [`fingerprint`] tells.
    pub(super) fn is(self, message: &Message) -> bool {
        self.fingerprint == fingerprint(message)
    }

    /// Returns whether a unit begins here, whatever stands before.
    pub(super) fn surely_begins(self) -> bool {
        matches!(self.kind, Kind::Calls | Kind::Other)
    }
}

impl Known {
    /// Returns whether these positions can't be those of the conversation that was known. Its end
    /// never moves back, and what was evicted never returns: where either happens, the conversation
    /// was deleted and began anew.
    fn is_void(self, shown: &Range<u64>) -> bool {
        shown.end < self.horizon || shown.start < self.evicted
    }

    /// Returns whether both were known of one conversation.
    pub(super) fn is_of(self, other: Self) -> bool {
        self.beginnings == other.beginnings
    }

    /// Returns whether a snapshot can't be of the conversation that was known, and that had grown
    /// to `end`.
    pub(super) fn refuted_by(self, snapshot: &Snapshot, end: u64) -> bool {
        self.is_void(&(snapshot.start..snapshot.end)) || snapshot.end < end
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
            beginnings: 0,
            handed_over: HandedOver::default(),
        }
    }

    pub(super) fn known(&self) -> Known {
        let (beginnings, horizon, evicted) = (self.beginnings, self.horizon(), self.evicted);
        Known { beginnings, horizon, evicted }
    }

    pub(super) fn first(&self) -> u64 {
        self.first
    }

    /// Returns the position up to which every record is known, from `first` on.
    pub(super) fn end(&self) -> u64 {
        self.first + self.window.len() as u64
    }

    /// Returns the horizon: every position before it was taken, for something was seen there.
    fn horizon(&self) -> u64 {
        self.early.last_key_value().map_or_else(|| self.end(), |(last, _)| last + 1)
    }

    /// Returns the record at a position behind a gap.
    pub(super) fn early(&self, position: u64) -> Option<Weighed> {
        self.early.get(&position).copied()
    }

    /// Returns the weight of the known records from a position on that lies behind a gap.
    pub(super) fn early_total(&self, from: u64) -> u128 {
        self.early.range(from..).map(|(_, weighed)| weighed.weight()).sum()
    }

    /// Begins an append.
    pub(super) fn begin(&mut self) -> Ticket {
        let number = self.next_ticket;
        self.next_ticket += 1;
        self.under_way.push(number);
        Ticket { number, known: self.known() }
    }

    /// Ends an append, whether it came to anything or not.
    pub(super) fn close(&mut self, ticket: Ticket) {
        self.under_way.retain(|number| *number != ticket.number);
    }

    /// Takes in what an append has put at the positions from `first` on. Returns whether that is of
    /// use: where the conversation began anew meanwhile, nobody knows to which of the two it went.
    pub(super) fn note(&mut self, ticket: Ticket, first: u64, batch: Vec<Weighed>) -> bool {
        if ticket.known.beginnings != self.beginnings {
            return false;
        }
        if first < ticket.known.horizon {
            self.begin_anew();
        }
        for (position, weighed) in (first..).zip(batch) {
            if position == self.end() {
                self.push(weighed);
            } else if position > self.end() {
                self.early.insert(position, weighed);
            } // else a read has overtaken the append and has learnt it already
        }
        self.absorb();
        true
    }

    /// Returns the end of a gap before `to` that no append under way is going to fill: somebody
    /// else has appended.
    ///
    /// An append of our own that fills the gap took its positions before those that are seen behind
    /// it. So once all appends are over that were under way when the gap was first seen, others
    /// have filled it.
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

    /// Takes in what a read has shown of the memory: where it starts and ends. Returns whether that
    /// is of use: where the conversation began anew since the read did, nobody knows which of the
    /// two it has read.
    pub(super) fn observe(&mut self, known: Known, shown: Range<u64>) -> bool {
        if known.beginnings != self.beginnings {
            return false;
        }
        if known.is_void(&shown) {
            self.begin_anew();
        }
        self.gone_before(shown.start);
        true
    }

    /// Notes that this is not the conversation of which all this was known, unless that was noticed
    /// meanwhile.
    pub(super) fn refute(&mut self, known: Known) {
        if known.beginnings == self.beginnings {
            self.begin_anew();
        }
    }

    /// Notes that the memory was told to forget what is before `position`. Returns whether it is
    /// the conversation that was known then.
    pub(super) fn forgotten(&mut self, known: Known, position: u64) -> bool {
        let same = known.beginnings == self.beginnings;
        if same {
            self.gone_before(position);
        }
        same
    }

    /// Notes that the callback was given these records. Returns whether they are of the
    /// conversation that is known now.
    pub(super) fn hands_over(&mut self, known: Known, handed_over: &HandedOver) -> bool {
        let same = known.beginnings == self.beginnings;
        if same {
            self.handed_over.clone_from(handed_over);
        }
        same
    }

    /// Returns the records in the window that a read shows otherwise than they are known here.
    pub(super) fn strangers<'a>(&self, records: &'a Records) -> Vec<Record<'a>> {
        let strange = |record: &Record<'_>| {
            let held = self.held(record.seq());
            held.is_some_and(|held| !held.weighed.is(record.message()))
        };
        records.iter().filter(strange).collect()
    }

    /// Returns whether a read shows another message in the window than was seen there.
    pub(super) fn is_refuted_by(&self, records: &Records) -> bool {
        let unreadable = |held: &Held| held.weighed.fingerprint == Weighed::UNREADABLE.fingerprint;
        let was_seen = |record: &Record<'_>| !self.held(record.seq()).is_none_or(unreadable);
        self.strangers(records).iter().any(was_seen)
    }

    /// Replaces what is known of these records in the window, and counts all of it again.
    pub(super) fn correct(&mut self, right: impl IntoIterator<Item = (u64, Weighed)>) {
        for (position, weighed) in right {
            if let Some(held) = self.window.get_mut(places(position - self.first)) {
                held.weighed = weighed;
            }
        }
        let window = std::mem::take(&mut self.window);
        (self.total, self.units) = (0, 0);
        for held in window {
            self.push(held.weighed);
        }
    }

    fn held(&self, position: u64) -> Option<&Held> {
        self.window.get(places(position.checked_sub(self.first)?))
    }

    /// Notes that the memory holds nothing before `position` any more.
    pub(super) fn gone_before(&mut self, position: u64) {
        self.evicted = self.evicted.max(position);
        if self.handed_over.end <= self.evicted {
            self.handed_over = HandedOver::default();
        }
        if position > self.end() {
            self.leave(position);
            self.absorb();
        }
        while self.first < position && self.pop() {}
        // Results whose call is gone belong to no group: each is a unit alone.
        for (i, held) in self.window.iter_mut().take_while(|held| !held.begins).enumerate() {
            held.group = false;
            if i == 0 || held.weighed.kind == Kind::Result {
                held.begins = true;
                self.units += 1;
            }
        }
    }

    /// Moves the start of the window forward until it weighs no more than `limit`, or only the
    /// newest unit is left.
    pub(super) fn trim(&mut self, limit: usize) {
        while self.total > limit as u128 && self.units > 1 {
            self.pop();
            while self.window.front().is_some_and(|held| !held.begins) {
                self.pop();
            }
        }
    }

    /// Returns the positions that have left the window and not the memory.
    pub(super) fn pending(&self) -> Option<Range<u64>> {
        (self.evicted < self.first).then_some(self.evicted..self.first)
    }

    /// Forgets all that was known, for the conversation was deleted and began anew.
    fn begin_anew(&mut self) {
        let under_way = std::mem::take(&mut self.under_way);
        let (next_ticket, beginnings) = (self.next_ticket, self.beginnings + 1);
        *self = Self { under_way, next_ticket, beginnings, ..Self::new() };
    }

    fn push(&mut self, weighed: Weighed) {
        let before = self.window.back();
        let group = before.is_some_and(|before| before.group);
        let begins = match weighed.kind {
            Kind::Calls | Kind::Other => true,
            Kind::Result => !group,
            Kind::Private => before.is_none(),
        };
        self.units += usize::from(begins);
        self.total += weighed.weight();
        let group = weighed.kind == Kind::Calls || (!begins && group);
        self.window.push_back(Held { weighed, begins, group });
    }

    fn pop(&mut self) -> bool {
        let Some(held) = self.window.pop_front() else { return false };
        self.first += 1;
        self.units -= usize::from(held.begins);
        self.total -= held.weighed.weight();
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
