//! Where the messages of a branch are in the conversation that holds all branches.

use std::ops::Range;

use crate::record::{Records, Unreadable};

/// The end of a range whose end is not known yet: no conversation is that long.
pub(super) const FAR: u64 = i64::MAX as u64;

/// Positions of the conversation that are next to each other on a branch.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) struct Span {
    /// The first position in the conversation.
    pub(super) from: u64,
    /// The first position on the branch.
    pub(super) at: u64,
    pub(super) len: u64,
}

/// The spans of a branch, oldest first: they ascend in the conversation and have no gaps on the
/// branch.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub(super) struct Spans(pub(super) Vec<Span>);

impl Span {
    /// Returns the position after it in the conversation.
    pub(super) fn to(&self) -> u64 {
        self.from + self.len
    }

    /// Returns the position on the branch for this one of the conversation.
    fn on_branch(&self, position: u64) -> Option<u64> {
        (self.from..self.to()).contains(&position).then(|| position - self.from + self.at)
    }

    /// Converts these records of the conversation to those of the branch, without those of other
    /// branches.
    pub(super) fn records(&self, records: &Records) -> Records {
        let own = records.clone().split(self.from).1.split(self.to()).0;
        own.moved(self.from, self.at)
    }

    /// Converts the unreadable rows of the conversation to those of the branch.
    pub(super) fn unreadable(&self, rows: &[Unreadable]) -> impl Iterator<Item = Unreadable> {
        let own = |row: &Unreadable| {
            let position = self.on_branch(row.position)?;
            Some(Unreadable { position, error: row.error.clone() })
        };
        rows.iter().filter_map(own)
    }
}

impl Spans {
    /// Adds positions of the conversation after all others.
    pub(super) fn push(&mut self, positions: Range<u64>) {
        let len = positions.end.saturating_sub(positions.start);
        let (from, at) = (positions.start, self.len());
        match self.0.last_mut() {
            _ if len == 0 => {}
            Some(last) if last.to() == from => last.len += len,
            _ => self.0.push(Span { from, at, len }),
        }
    }

    /// Returns the number of messages of the branch.
    pub(super) fn len(&self) -> u64 {
        self.0.last().map_or(0, |span| span.at + span.len)
    }

    /// Returns only what is before this position of the branch.
    pub(super) fn before(mut self, position: u64) -> Self {
        self.0.truncate(self.0.partition_point(|span| span.at < position));
        if let Some(last) = self.0.last_mut() {
            last.len = last.len.min(position - last.at);
        }
        self
    }

    /// Returns the position in the conversation for this one of the branch.
    pub(super) fn to_conversation(&self, position: u64) -> Option<u64> {
        let behind = self.0.partition_point(|span| span.at + span.len <= position);
        let span = self.0.get(behind)?;
        Some(span.from + position.checked_sub(span.at)?)
    }

    /// Returns the position on the branch for this one of the conversation.
    pub(super) fn to_branch(&self, position: u64) -> Option<u64> {
        self.0.iter().find_map(|span| span.on_branch(position))
    }

    /// Returns how many messages of the branch are before this position of the conversation.
    pub(super) fn count_before(&self, position: u64) -> u64 {
        let before = |span: &Span| position.saturating_sub(span.from).min(span.len);
        self.0.iter().map(before).sum()
    }

    /// Returns the position up to which both branches have the same messages.
    pub(super) fn common(&self, other: &Self) -> u64 {
        let pairs = self.0.iter().zip(&other.0);
        let same = pairs.take_while(|(one, two)| (one.from, one.at) == (two.from, two.at));
        same.last().map_or(0, |(one, two)| one.at + one.len.min(two.len))
    }
}
