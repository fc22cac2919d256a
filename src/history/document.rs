//! The branches of a conversation, as they are kept in a slot.

use std::collections::BTreeMap;

use serde::{Deserialize, Serialize};

use super::spans::{Span, Spans};
use crate::error::{Error, ErrorKind, Result};
use crate::record::{Incarnation, Slot};

/// The slot in which the branches of a conversation are kept.
pub(super) const SLOT: &str = "prompt:branches";

/// The form of the slot.
const VERSION: u32 = 1;

/// The most steps that can be undone, apart from turns.
const MOST_STEPS: usize = 256;

/// All branches of a conversation, and which one is current.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub(super) struct Document {
    version: u32,
    pub(super) current: usize,
    /// The line with the newest range, which is open: plain appends go there.
    pub(super) newest: usize,
    lines: Vec<Line>,
    undo: Vec<LeftLine>,
    redo: Vec<LeftLine>,
}

/// What a branch has of its own, behind what it shares with the one that it was made on.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
pub(super) struct Line {
    /// The life of the conversation that it is; none for the first branch, which has that of the
    /// conversation.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub(super) id: Option<Incarnation>,
    /// The line that it was made on: an earlier one.
    parent: usize,
    /// The position on the parent where it was made.
    at: u64,
    /// The number of messages behind that which it shares too, once it has messages of its own: the
    /// question that is answered anew.
    #[serde(default, skip_serializing_if = "is_zero")]
    keep: u64,
    /// True if it was made to take something back.
    #[serde(default, skip_serializing_if = "std::ops::Not::not")]
    is_cut: bool,
    ranges: Vec<(u64, u64)>,
}

/// A branch that was left, for a way back.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
struct LeftLine {
    line: usize,
    /// The position from which on turns have begun since; `None` where a turn was taken back.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    floor: Option<u64>,
}

/// One of the messages that were said in the same place.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) struct Sibling {
    /// Its position in the conversation.
    pub(super) record: u64,
    /// The newest line that has it, the current one before all others.
    pub(super) line: usize,
}

impl Document {
    /// The one branch of a conversation that ends there.
    pub(super) fn unbranched(end: u64) -> Self {
        let line = Line { ranges: vec![(0, end)], ..Line::default() };
        let (undo, redo) = (Vec::new(), Vec::new());
        Self { version: VERSION, current: 0, newest: 0, lines: vec![line], undo, redo }
    }

    /// Reads the slot.
    pub(super) fn read(slot: &Slot) -> Result<Self> {
        let no_branches = || {
            let text = format!("the slot {SLOT:?} holds no branches");
            Error::new(ErrorKind::Codec, "branches", text)
        };
        let document: Self = serde_json::from_slice(slot.content())
            .map_err(|error| no_branches().with_source(error))?;
        if document.version != VERSION {
            let text = format!("the slot {SLOT:?} is of the unknown form {}", document.version);
            return Err(Error::new(ErrorKind::Codec, "branches", text));
        }
        if document.is_sound() { Ok(document) } else { Err(no_branches()) }
    }

    /// Returns whether each line was made on an earlier one; where other numbers are wrong, less is
    /// shown.
    fn is_sound(&self) -> bool {
        self.lines.iter().enumerate().all(|(i, line)| i == 0 || line.parent < i)
    }

    /// Writes the slot.
    pub(super) fn content(&self) -> Result<Vec<u8>> {
        serde_json::to_vec(self).map_err(|error| {
            Error::new(ErrorKind::Codec, "branches", "they can't be written").with_source(error)
        })
    }

    pub(super) fn lines(&self) -> &[Line] {
        &self.lines
    }

    /// Returns the line of this id; the first one has the id of the conversation.
    pub(super) fn find(&self, id: Incarnation, conversation: Option<Incarnation>) -> Option<usize> {
        if conversation == Some(id) {
            return Some(0);
        }
        self.lines.iter().position(|line| line.id == Some(id))
    }

    /// Returns where the messages of a line lie, in a conversation that ends there.
    pub(super) fn spans(&self, line: usize, end: u64) -> Spans {
        let (mut parts, mut number, mut upto) = (Vec::new(), line, u64::MAX);
        while let Some(line) = self.lines.get(number) {
            let mut at = line.begins();
            let mut own = Vec::new();
            for (i, &(from, to)) in line.ranges.iter().enumerate() {
                let is_open = number == self.newest && i + 1 == line.ranges.len();
                let to = if is_open { end.max(from) } else { to };
                let len = to.saturating_sub(from).min(upto.saturating_sub(at));
                own.push(from..from + len);
                at += len;
            }
            parts.push(own);
            if number == 0 {
                break;
            }
            (number, upto) = (line.parent, upto.min(line.begins()));
        }
        let mut spans = Spans::default();
        parts.into_iter().rev().flatten().for_each(|range| spans.push(range));
        spans
    }

    /// Adds a branch that shares the first `at` messages of this line, and once it has messages of
    /// its own `keep` more.
    pub(super) fn fork(&mut self, line: usize, at: u64, keep: u64, id: Incarnation) -> usize {
        let parent = self.owner(line, at + keep);
        let fork = Line { id: Some(id), parent, at, keep, ..Line::default() };
        self.lines.push(fork);
        self.lines.len() - 1
    }

    /// Returns the line that has something of its own right before this position.
    fn owner(&self, line: usize, at: u64) -> usize {
        let mut number = line;
        while let Some(line) = self.lines.get(number).filter(|it| number > 0 && at <= it.begins()) {
            number = line.parent;
        }
        number
    }

    /// Returns whether messages can't be appended to this line without writing the slot.
    pub(super) fn must_change(&self, line: usize) -> bool {
        line != self.newest || line == self.current && !self.redo.is_empty()
    }

    /// Gives `n` messages to a line, which are appended where the conversation ends.
    pub(super) fn extend(&mut self, line: usize, end: u64, n: u64) {
        if let Some(open) = self.lines.get_mut(self.newest).and_then(|it| it.ranges.last_mut()) {
            open.1 = end.max(open.0);
        }
        if line == self.current {
            self.redo.clear();
        }
        self.newest = line;
        let Some(line) = self.lines.get_mut(line) else { return };
        match line.ranges.last_mut() {
            Some(last) if last.1 == end => last.1 = end + n,
            _ => line.ranges.push((end, end + n)),
        }
    }

    /// Makes this line the current one. Turns that begin at `floor` or behind it are new there.
    pub(super) fn make_current(&mut self, line: usize, floor: u64) {
        self.undo.push(LeftLine { line: self.current, floor: Some(floor) });
        let oldest = self.undo.len().saturating_sub(MOST_STEPS);
        self.undo.drain(..oldest);
        self.redo.clear();
        self.current = line;
    }

    /// Takes the newest step back: the newest turn, which begins with this question, or what was
    /// done before it; returns false if there is nothing. A branch that this makes has the id.
    pub(super) fn undo(&mut self, question: Option<u64>, id: Incarnation) -> bool {
        let floor = self.undo.last().and_then(|step| step.floor).unwrap_or(0);
        let left = self.current;
        if let Some(at) = question.filter(|at| *at >= floor) {
            self.current = self.cut(at, id);
            self.redo.push(LeftLine { line: left, floor: None });
            return true;
        }
        let Some(step) = self.undo.pop() else { return false };
        self.redo.push(LeftLine { line: left, floor: Some(floor) });
        self.current = step.line;
        true
    }

    /// Does what was undone last; returns false if there is nothing.
    pub(super) fn redo(&mut self) -> bool {
        let Some(step) = self.redo.pop() else { return false };
        if step.floor.is_some() {
            self.undo.push(LeftLine { line: self.current, floor: step.floor });
        }
        self.current = step.line;
        true
    }

    /// Adds a branch that ends before this position of the current one.
    fn cut(&mut self, at: u64, id: Incarnation) -> usize {
        let number = self.fork(self.current, at, 0, id);
        if let Some(line) = self.lines.get_mut(number) {
            line.is_cut = true;
        }
        number
    }

    /// Returns the messages that stand on any branch where one stands on the current one, in the
    /// order in which they were said.
    pub(super) fn siblings(&self, position: u64, end: u64) -> Vec<Sibling> {
        let own = self.spans(self.current, end);
        let before =
            |spans: &Spans| position.checked_sub(1).and_then(|it| spans.to_conversation(it));
        let mut found: BTreeMap<u64, (u64, usize)> = BTreeMap::new();
        for (number, line) in self.lines.iter().enumerate() {
            let is_current = number == self.current;
            let spans = self.spans(number, end);
            if line.ranges.is_empty() && !is_current || before(&spans) != before(&own) {
                continue;
            }
            let Some(record) = spans.to_conversation(position) else { continue };
            let newest = spans.0.last().map_or(0, Span::to);
            let rank = (if is_current { u64::MAX } else { newest }, number);
            let best = found.entry(record).or_insert(rank);
            *best = rank.max(*best);
        }
        found.into_iter().map(|(record, (_, line))| Sibling { record, line }).collect()
    }

    /// Returns the positions of the current branch in which something else was said too.
    pub(super) fn parted(&self, end: u64) -> Vec<u64> {
        let own = self.spans(self.current, end);
        let others = (0..self.lines.len()).filter(|it| *it != self.current);
        others.map(|line| self.spans(line, end).common(&own)).collect()
    }
}

impl Line {
    /// Returns the line that it was made on.
    pub(super) fn parent(&self) -> usize {
        self.parent
    }

    /// Returns the position from which on it has messages of its own.
    pub(super) fn begins(&self) -> u64 {
        if self.ranges.is_empty() { self.at } else { self.at + self.keep }
    }

    /// Returns the number of messages that were given to it and are stored already: those of the
    /// question that it answers anew, before it has anything of its own.
    pub(super) fn kept(&self) -> u64 {
        self.keep
    }

    /// Returns the position in the conversation of the first message of its own.
    pub(super) fn first(&self) -> Option<u64> {
        self.ranges.first().map(|range| range.0)
    }

    /// Returns true if it has no message of its own.
    pub(super) fn is_empty(&self) -> bool {
        self.ranges.is_empty()
    }

    /// Returns true if it was made for a message that takes another one's place.
    pub(super) fn awaits(&self) -> bool {
        self.is_empty() && !self.is_cut && self.id.is_some()
    }
}

#[expect(clippy::trivially_copy_pass_by_ref, reason = "serde asks so")]
fn is_zero(n: &u64) -> bool {
    *n == 0
}
