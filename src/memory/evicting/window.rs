//! The window of an evicting memory: the weights of its records, and where its groups begin.
//! Arithmetic only: no lock, no I/O.
//!
//! A group is an answer with tool calls and the results directly after it, or any other message
//! alone. The application's own records, which are never sent to a model, weigh nothing, separate
//! nothing, and belong to the group before them. Windows begin with a group.

use std::collections::VecDeque;
use std::ops::Range;

use crate::message::Message;
use crate::record::{Incarnation, Snapshot};

/// The newest records of a conversation, as far as a handle has seen them.
#[derive(Debug, Default)]
pub(super) struct Window {
    /// The position of the oldest record in the window: everything before it is evicted, or about
    /// to be. It never moves back, so a limit that grows again brings nothing back.
    first: u64,
    /// The records from `first` on, without gaps. The first of them begins a group.
    records: VecDeque<Held>,
    /// The sum of their weights. It is so wide that even counts of `usize::MAX` can be subtracted
    /// again.
    total: u128,
    /// The number of groups that begin in the window.
    groups: usize,
    /// The memory inside holds nothing before this position.
    evicted: u64,
    /// The callback has received everything before this position.
    pub(super) handed_over: u64,
    /// The incarnation that was read, if the memory has them.
    incarnation: Option<Incarnation>,
    /// True once the conversation was read, so that another one under its id is noticed.
    was_seen: bool,
    /// The number of times that the conversation was found deleted and begun again.
    pub(super) beginnings: u64,
}

/// A record that has been counted.
#[derive(Clone, Copy, Debug)]
pub(super) struct Weighed {
    pub(super) weight: usize,
    kind: GroupRole,
}

/// The part that a record plays in groups.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum GroupRole {
    Calls,
    Result,
    /// A record of the application.
    Private,
    Other,
}

#[derive(Clone, Copy, Debug)]
struct Held {
    weighed: Weighed,
    begins: bool,
    /// True if a result directly after it belongs to the same group.
    open: bool,
}

impl Weighed {
    pub(super) const UNREADABLE: Self = Self { weight: 0, kind: GroupRole::Other };

    pub(super) fn new(message: &Message, weight: usize) -> Self {
        let kind = match message {
            Message::Tool(_) => GroupRole::Result,
            message if message.has_tool_calls() => GroupRole::Calls,
            message if message.is_private() => GroupRole::Private,
            _ => GroupRole::Other,
        };
        Self { weight, kind }
    }

    /// Returns whether a group begins here, independent of the records before.
    pub(super) fn surely_begins(self) -> bool {
        matches!(self.kind, GroupRole::Calls | GroupRole::Other)
    }
}

impl Window {
    pub(super) fn first(&self) -> u64 {
        self.first
    }

    /// Returns the position up to which every record is known.
    pub(super) fn end(&self) -> u64 {
        self.first + self.records.len() as u64
    }

    /// Returns the positions that have left the window but not the memory.
    pub(super) fn pending(&self) -> Option<Range<u64>> {
        (self.evicted < self.first).then_some(self.evicted..self.first)
    }

    /// Compares what is known with this snapshot. Returns false if it shows another conversation,
    /// because the known one was deleted: then nothing is known any more.
    ///
    /// It is another one if it has another incarnation, ends before what was seen, or begins before
    /// what was evicted.
    pub(super) fn observe(&mut self, shown: &Snapshot) -> bool {
        let seen = self.incarnation;
        let is_known = seen.zip(shown.incarnation).is_none_or(|(seen, shown)| seen == shown)
            && shown.end >= self.end()
            && shown.start >= self.evicted;
        if !is_known {
            self.forget_all();
        }
        self.incarnation = shown.incarnation.or(self.incarnation);
        self.was_seen |= shown.end > 0 || shown.incarnation.is_some();
        self.gone_before(shown.start);
        is_known
    }

    pub(super) fn was_seen(&self) -> bool {
        self.was_seen
    }

    /// Forgets what was known: the conversation was deleted and begun again.
    pub(super) fn forget_all(&mut self) {
        *self = Self { beginnings: self.beginnings + 1, ..Self::default() };
    }

    /// Notes that the memory holds nothing before `position` any more.
    pub(super) fn gone_before(&mut self, position: u64) {
        self.evicted = self.evicted.max(position);
        if position > self.end() {
            self.begin_at(position);
        }
        while self.first < position && self.pop() {}
        // Results whose call is gone belong to no group: each of them becomes one.
        for (i, held) in self.records.iter_mut().take_while(|held| !held.begins).enumerate() {
            held.open = false;
            if i == 0 || held.weighed.kind == GroupRole::Result {
                held.begins = true;
                self.groups += 1;
            }
        }
    }

    /// Notes that everything is gone, and that another incarnation follows.
    pub(super) fn cleared(&mut self) {
        self.gone_before(self.end());
        (self.incarnation, self.was_seen) = (None, false);
    }

    /// Empties the window, which now begins at this position.
    pub(super) fn begin_at(&mut self, position: u64) {
        self.first = position;
        self.records.clear();
        (self.total, self.groups) = (0, 0);
    }

    pub(super) fn push(&mut self, weighed: Weighed) {
        let before = self.records.back();
        let open = before.is_some_and(|before| before.open);
        let begins = match weighed.kind {
            GroupRole::Calls | GroupRole::Other => true,
            GroupRole::Result => !open,
            GroupRole::Private => before.is_none(),
        };
        self.groups += usize::from(begins);
        self.total += weighed.weight as u128;
        let open = weighed.kind == GroupRole::Calls || (!begins && open);
        self.records.push_back(Held { weighed, begins, open });
    }

    /// Moves the start of the window forward until its weight is at most `limit`, or only the
    /// newest group is left.
    pub(super) fn trim(&mut self, limit: usize) {
        while self.total > limit as u128 && self.groups > 1 {
            self.pop();
            while self.records.front().is_some_and(|held| !held.begins) {
                self.pop();
            }
        }
    }

    fn pop(&mut self) -> bool {
        let Some(held) = self.records.pop_front() else { return false };
        self.first += 1;
        self.groups -= usize::from(held.begins);
        self.total -= held.weighed.weight as u128;
        true
    }
}
