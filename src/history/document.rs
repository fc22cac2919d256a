//! The branches of a conversation, as they are kept in a slot.

use std::collections::BTreeMap;
use std::iter;

use serde::{Deserialize, Serialize};

use super::spans::{Span, Spans};
use crate::error::{Error, ErrorKind, Result};
use crate::message::Message;
use crate::record::{Incarnation, Slot};

/// The slot in which the branches of a conversation are kept.
pub(super) const SLOT: &str = "prompt:branches";

/// The form of the slot.
const VERSION: u32 = 1;

/// The most late results that are known to other branches.
const MOST_LATE: usize = 64;

/// The most steps that can be undone, apart from turns.
const MOST_STEPS: usize = 256;

/// All branches of a conversation, and which one is current.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub(super) struct Document {
    version: u32,
    pub(super) current: usize,
    /// The line with the newest range, which is open: plain appends go there.
    pub(super) newest: usize,
    pub(super) lines: Vec<Line>,
    undo: Vec<LeftLine>,
    redo: Vec<LeftLine>,
    /// Late results, by the tags of their calls, and where they lie: a branch that has the call
    /// and not the result is shown it in the place of what stands in for it.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub(super) late: Vec<(String, u64)>,
}

/// What a branch has of its own, behind what it shares with the one that it was made on.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
pub(super) struct Line {
    /// The life of the conversation that it is; none for the first branch, which has that of the
    /// conversation.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub(super) id: Option<Incarnation>,
    /// The line that it was made on: an earlier one.
    pub(super) parent: usize,
    /// The position on the parent where it was made.
    at: u64,
    /// The number of messages behind that which it shares too, once it has messages of its own: the
    /// question that is answered anew.
    #[serde(default, skip_serializing_if = "is_zero")]
    pub(super) keep: u64,
    /// True if it was made for an answer that it has not got: until then it does not become the
    /// current one.
    #[serde(default, skip_serializing_if = "std::ops::Not::not")]
    pub(super) awaits: bool,
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

impl Document {
    /// The one branch of a conversation. Its range is open: it ends where the conversation does.
    pub(super) fn unbranched() -> Self {
        let line = Line { ranges: vec![(0, 0)], ..Line::default() };
        let (undo, redo, late) = Default::default();
        Self { version: VERSION, current: 0, newest: 0, lines: vec![line], undo, redo, late }
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

    /// Returns a line, the one that it was made on, and so on to the first.
    fn path(&self, line: usize) -> impl Iterator<Item = (usize, &Line)> {
        let mut next = Some(line);
        iter::from_fn(move || {
            let number = next?;
            let line = self.lines.get(number)?;
            next = (number > 0).then_some(line.parent);
            Some((number, line))
        })
    }

    /// Returns where the messages of a line lie, in a conversation that ends there.
    pub(super) fn spans(&self, line: usize, end: u64) -> Spans {
        let mut spans = Spans::default();
        let path: Vec<_> = self.path(line).collect();
        for (number, line) in path.into_iter().rev() {
            spans = spans.before(line.begins());
            for (i, &(from, to)) in line.ranges.iter().enumerate() {
                let is_open = number == self.newest && i + 1 == line.ranges.len();
                spans.push(from..if is_open { end.max(from) } else { to });
            }
        }
        spans
    }

    /// Adds a branch that shares the first `at` messages of this line, and once it has messages of
    /// its own `keep` more.
    pub(super) fn fork(&mut self, line: usize, at: u64, keep: u64, id: Incarnation) -> usize {
        // It is made on the line that has something of its own right before.
        let is_owner = |(number, it): &(usize, &Line)| *number == 0 || at + keep > it.begins();
        let parent = self.path(line).find(is_owner).map_or(0, |(number, _)| number);
        let fork = Line { id: Some(id), parent, at, keep, ..Line::default() };
        self.lines.push(fork);
        self.lines.len() - 1
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
        if let Some(line) = self.lines.get_mut(line) {
            line.awaits = false;
        }
    }

    /// Notes the late results among messages that lie there; returns whether there are some.
    pub(super) fn note_late<'a>(
        &mut self,
        messages: impl IntoIterator<Item = (u64, &'a Message)>,
    ) -> bool {
        let known = self.late.last().map_or(0, |(_, at)| at + 1);
        let before = self.late.len();
        let messages = messages.into_iter().filter(|(at, _)| *at >= known);
        self.late.extend(messages.filter_map(|(at, message)| {
            let result = message.as_tool().filter(|result| !result.is_stand_in())?;
            Some((result.call_tag()?.to_owned(), at))
        }));
        let is_new = self.late.len() > before;
        self.late.drain(..self.late.len().saturating_sub(MOST_LATE));
        is_new
    }

    /// Takes the newest step back: the newest turn, which begins with this question, or what was
    /// done before it, if there is anything. A branch that this makes has the id.
    pub(super) fn undo(&mut self, question: Option<u64>, id: Incarnation) {
        let floor = self.undo.last().and_then(|step| step.floor).unwrap_or(0);
        let left = self.current;
        if let Some(at) = question.filter(|at| *at >= floor) {
            self.current = self.fork(left, at, 0, id);
            self.redo.push(LeftLine { line: left, floor: None });
        } else if let Some(step) = self.undo.pop() {
            self.redo.push(LeftLine { line: left, floor: Some(floor) });
            self.current = step.line;
        }
    }

    /// Does what was undone last, if there is anything.
    pub(super) fn redo(&mut self) {
        let Some(step) = self.redo.pop() else { return };
        if step.floor.is_some() {
            self.undo.push(LeftLine { line: self.current, floor: step.floor });
        }
        self.current = step.line;
    }

    /// Returns the messages that stand on any branch where one stands on the current one, in the
    /// order in which they were said: the position of each in the conversation, and the newest line
    /// that has it, the current one before all others.
    pub(super) fn siblings(&self, position: u64, end: u64) -> impl Iterator<Item = (u64, usize)> {
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
        found.into_iter().map(|(record, (_, line))| (record, line))
    }

    /// Returns the positions of the current branch in which something else was said too.
    pub(super) fn parted(&self, end: u64) -> Vec<u64> {
        let own = self.spans(self.current, end);
        let others = (0..self.lines.len()).filter(|it| *it != self.current);
        others.map(|line| self.spans(line, end).common(&own)).collect()
    }
}

impl Line {
    /// Returns the position from which on it has messages of its own.
    pub(super) fn begins(&self) -> u64 {
        if self.ranges.is_empty() { self.at } else { self.at + self.keep }
    }

    /// Returns the number of messages that are given to it and are stored already: those of the
    /// question that it answers anew, before it has anything of its own.
    pub(super) fn kept(&self) -> u64 {
        if self.is_empty() { self.keep } else { 0 }
    }

    /// Returns the position in the conversation of the first message of its own.
    pub(super) fn first(&self) -> Option<u64> {
        self.ranges.first().map(|range| range.0)
    }

    /// Returns true if it has no message of its own.
    pub(super) fn is_empty(&self) -> bool {
        self.ranges.is_empty()
    }
}

#[expect(clippy::trivially_copy_pass_by_ref, reason = "serde asks so")]
fn is_zero(n: &u64) -> bool {
    *n == 0
}
