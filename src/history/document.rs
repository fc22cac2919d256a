//! The branches of a conversation, as they are kept in a slot.

use std::collections::BTreeMap;
use std::iter;
use std::ops::Range;

use serde::{Deserialize, Serialize};

use super::spans::{FAR, Spans};
use super::{Branch, Variant};
use crate::error::Result;
use crate::message::Message;
use crate::record::{Incarnation, Slot, SlotVersion, Snapshot, slot};

/// The slot in which the branches of a conversation are kept.
pub(super) const SLOT: &str = "prompt:branches";

/// The most late results that are noted for other branches.
const MOST_LATE: usize = 64;

/// The most steps that can be undone, apart from turns.
const MOST_STEPS: usize = 256;

/// The most branches whose calls a new answer or an edit gets to see.
const MOST_REPLACED: usize = 8;

/// All branches of a conversation, and which one is current.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
pub(super) struct Document {
    version: u32,
    pub(super) current: usize,
    pub(super) lines: Vec<Line>,
    undo: Vec<LeftLine>,
    redo: Vec<LeftLine>,
    /// Late results, by the tags of their calls, and where they are: a branch that has the call but
    /// not the result is shown it instead of its stand-in.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub(super) late: Vec<(String, u64)>,
    /// The version of the slot that was read; none if there is no slot, and one branch.
    #[serde(skip)]
    pub(super) stored: Option<SlotVersion>,
    /// The life of the conversation.
    #[serde(skip)]
    pub(super) incarnation: Option<Incarnation>,
}

/// What belongs to a branch alone, after what it shares with the one that it was made on.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
pub(super) struct Line {
    /// The life of the conversation that this branch is; `None` for the first branch, which has
    /// that of the conversation.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub(super) id: Option<Incarnation>,
    /// The line that it was made on, which is an earlier one.
    pub(super) parent: usize,
    /// The position on the parent at which it was made.
    pub(super) at: u64,
    /// The number of further messages that it shares once it has messages of its own: the question
    /// that is regenerated.
    #[serde(default, skip_serializing_if = "is_zero")]
    pub(super) keep: u64,
    /// True if it was made for an answer that has not come yet: until then it does not become the
    /// current one.
    #[serde(default, skip_serializing_if = "std::ops::Not::not")]
    pub(super) awaits: bool,
    /// Where its own messages are. The newest range of all lines ends at [`FAR`]: plain appends go
    /// there.
    pub(super) ranges: Vec<(u64, u64)>,
}

/// A branch that was left, for a way back.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
struct LeftLine {
    line: usize,
    /// The position from which on a turn is newer than this step; `None` if a turn was undone.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    floor: Option<u64>,
}

impl Document {
    /// The one branch of a conversation.
    pub(super) fn unbranched() -> Self {
        let line = Line { ranges: vec![(0, FAR)], ..Line::default() };
        Self { version: slot::VERSION, lines: vec![line], ..Self::default() }
    }

    /// Reads the slot.
    pub(super) fn of(conversation: &Snapshot) -> Result<Self> {
        let slot = conversation.slot(SLOT);
        let document = slot.map_or_else(|| Ok(Self::unbranched()), Self::read)?;
        let (stored, incarnation) = (slot.map(Slot::version), conversation.incarnation);
        Ok(Self { stored, incarnation, ..document })
    }

    fn read(slot: &Slot) -> Result<Self> {
        let document = slot.read("branches", |it: &Self| it.version)?;
        // If other positions are wrong, less is shown.
        if document.is_sound() {
            Ok(document)
        } else {
            Err(slot.damaged("branches", "holds no branches"))
        }
    }

    /// Returns whether all lines that it names exist, and all its positions are possible.
    fn is_sound(&self) -> bool {
        let is_made = |(number, line): (usize, &Line)| line.parent < number.max(1);
        let left = self.undo.iter().chain(&self.redo).map(|step| step.line);
        let positions = self
            .lines
            .iter()
            .flat_map(|line| line.ranges.iter().map(|range| range.0).chain([line.at, line.keep]));
        self.lines.iter().enumerate().all(is_made)
            && left.chain([self.current]).all(|line| line < self.lines.len())
            && positions.chain(self.late.iter().map(|(_, at)| *at)).all(|at| at <= FAR)
    }

    /// Writes the slot.
    pub(super) fn content(&self) -> Result<Vec<u8>> {
        slot::written("branches", self)
    }

    /// Returns the id of a branch.
    pub(super) fn id(&self, line: usize) -> Option<Incarnation> {
        if line == 0 { self.incarnation } else { self.lines.get(line)?.id }
    }

    /// Returns the line with this id; without an id the first one.
    pub(super) fn line(&self, id: Option<Incarnation>) -> Option<usize> {
        (0..self.lines.len()).find(|line| id.is_none() || self.id(*line) == id)
    }

    /// Returns a line, its parent, and so on to the first.
    fn path(&self, line: usize) -> impl Iterator<Item = (usize, &Line)> {
        let at = |number: usize| Some((number, self.lines.get(number)?));
        iter::successors(at(line), move |(number, line)| at(line.parent).filter(|_| *number > 0))
    }

    /// Returns where the messages of a line are, in a conversation that ends there.
    pub(super) fn spans(&self, line: usize, end: u64) -> Spans {
        let mut spans = Spans::default();
        let path: Vec<_> = self.path(line).collect();
        for (_, line) in path.into_iter().rev() {
            spans = spans.before(line.begins());
            line.own(end).for_each(|range| spans.push(range));
        }
        spans
    }

    /// Adds a branch that is made on this line; returns its number.
    pub(super) fn fork(&mut self, on: usize, fork: Line) -> usize {
        self.lines.push(self.made_on(on, fork));
        self.lines.len() - 1
    }

    /// Returns the branch with its parent: the nearest line before it that has something of its
    /// own.
    fn made_on(&self, on: usize, fork: Line) -> Line {
        let is_owner = |(number, it): &(usize, &Line)| *number == 0 || fork.shares() > it.begins();
        let parent = self.path(on).find(is_owner).map_or(0, |(number, _)| number);
        Line { parent, ..fork }
    }

    /// Assigns everything that is appended from now on to a line, in a conversation that ends
    /// there. If that is already so and there is nothing to redo, nothing changes.
    pub(super) fn open(&mut self, line: usize, end: u64) {
        let open = self.lines.iter_mut().filter_map(|line| line.ranges.last_mut());
        open.for_each(|range| range.1 = range.1.min(end));
        if line == self.current {
            self.redo.clear();
        }
        let Some(line) = self.lines.get_mut(line) else { return };
        match line.ranges.last_mut() {
            Some(last) if last.1 == end => last.1 = FAR,
            _ => line.ranges.push((end, FAR)),
        }
    }

    /// Makes this line the current one. Turns that begin at `floor` or after it are new there.
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

    /// Notes the late results among messages at these positions.
    pub(super) fn note_late<'a>(&mut self, messages: impl IntoIterator<Item = (u64, &'a Message)>) {
        let known = self.late.last().map_or(0, |(_, at)| at + 1);
        let messages = messages.into_iter().filter(|(at, _)| *at >= known);
        self.late.extend(messages.filter_map(|(at, message)| {
            let result = message.as_tool().filter(|result| !result.is_stand_in())?;
            Some((result.call_tag()?.to_owned(), at))
        }));
        self.late.drain(..self.late.len().saturating_sub(MOST_LATE));
    }

    /// Undoes the newest step: the newest turn, which begins with this question, or the edit, the
    /// answer or the switch after it. If a turn may have begun since whose question is evicted (the
    /// oldest message that is left is at `start`), nothing is undone. If a turn is undone, returns
    /// the branch that ends before it: a new one with this id, or one that an earlier undo has made
    /// and on which nothing was said since.
    pub(super) fn undo(
        &mut self,
        question: Option<u64>,
        start: u64,
        id: Incarnation,
    ) -> Option<usize> {
        let floor = self.undo.last().and_then(|step| step.floor).unwrap_or(0);
        if question.is_none() && start > floor {
            return None;
        }
        let left = self.current;
        if let Some(at) = question.filter(|at| *at >= floor) {
            let made = self.made_on(left, Line { id: Some(id), at, ..Line::default() });
            let is_left = |line| self.undo.iter().chain(&self.redo).any(|step| step.line == line);
            let is_same = |it: &Line| Line { id: made.id, ..it.clone() } == made;
            let mut lines = self.lines.iter().enumerate();
            let same = lines.position(|(number, it)| is_same(it) && !is_left(number));
            self.current = same.unwrap_or_else(|| self.fork(left, made));
            self.redo.push(LeftLine { line: left, floor: None });
            return Some(self.current);
        }
        if let Some(step) = self.undo.pop() {
            self.redo.push(LeftLine { line: left, floor: Some(floor) });
            self.current = step.line;
        }
        None
    }

    /// Redoes what was undone last, if there is anything.
    pub(super) fn redo(&mut self) {
        let Some(step) = self.redo.pop() else { return };
        if step.floor.is_some() {
            self.undo.push(LeftLine { line: self.current, floor: step.floor });
        }
        self.current = step.line;
    }

    /// Returns whether something was undone on this line, and nothing said since.
    pub(super) fn may_redo(&self, line: usize) -> bool {
        line == self.current && !self.redo.is_empty()
    }

    /// Returns the lines on which something was said, and the current one, oldest first.
    fn spoken(&self, end: u64) -> impl Iterator<Item = (usize, &Line, Spans)> {
        let lines = self.lines.iter().enumerate();
        let spoken = lines.filter(|(i, line)| *i == self.current || !line.ranges.is_empty());
        spoken.map(move |(i, line)| (i, line, self.spans(i, end)))
    }

    /// Returns the branches on which something was said, and the current one.
    pub(super) fn branches(&self, end: u64) -> Vec<Branch> {
        let branch = |(i, line, spans): (usize, &Line, Spans)| {
            Some(Branch {
                id: self.id(i)?,
                parent: self.id(line.parent).filter(|_| i > 0),
                own: line.begins()..spans.len(),
                records: line.own(end).filter(|range| !range.is_empty()).collect(),
                is_current: i == self.current,
            })
        };
        self.spoken(end).filter_map(branch).collect()
    }

    /// Returns the branches that share the first `at` messages with this line, which comes last,
    /// and how many messages each has after them. Left out are those with fewer than three there (a
    /// question, a call and its result), and the oldest if there are too many.
    pub(super) fn sharing(
        &self,
        line: usize,
        at: u64,
        end: u64,
    ) -> Vec<(Option<Incarnation>, u64)> {
        let own = self.spans(line, end);
        let others =
            self.spoken(end).filter(|(i, _, spans)| *i != line && spans.common(&own) >= at);
        let others = others.map(|(i, _, spans)| (self.id(i), spans.len()));
        let all = others.chain([(self.id(line), own.len())]);
        let all = all.map(|(id, len)| (id, len.saturating_sub(at)));
        let mut sharing: Vec<_> = all.filter(|(_, n)| *n > 2).collect();
        sharing.drain(..sharing.len().saturating_sub(MOST_REPLACED));
        sharing
    }

    /// Returns a function from a position of the current branch to the messages that were said
    /// there on any branch, in the order in which they were said. What the conversation no longer
    /// holds is left out.
    pub(super) fn variants(&self, held: Range<u64>) -> impl Fn(u64) -> Vec<Variant> {
        let own = self.spans(self.current, held.end);
        // Another branch has a different message at the point where it leaves the current one, and
        // nowhere else.
        let parted = self.spoken(held.end).filter_map(|(i, _, spans)| {
            let at = spans.common(&own);
            Some((spans.0.last()?.to(), at, spans.to_conversation(at)?, self.id(i)?))
        });
        let mut parted: Vec<_> = parted.collect();
        parted.sort_unstable_by_key(|(newest, ..)| *newest);
        let current = self.id(self.current);
        move |position| {
            let here = parted.iter().filter(|(_, at, ..)| *at == position);
            let others = here.map(|(.., record, branch)| (*record, *branch, false));
            let shown = own.to_conversation(position).zip(current).map(|(at, id)| (at, id, true));
            let held = others.chain(shown).filter(|(record, ..)| held.contains(record));
            let variant = |(record, branch, is_current)| {
                (record, Variant { position, branch, record, is_current })
            };
            // If several branches have the same message, the last one counts.
            held.map(variant).collect::<BTreeMap<_, _>>().into_values().collect()
        }
    }
}

impl Line {
    /// Returns the number of messages that it shares with the line that it was made on.
    pub(super) fn shares(&self) -> u64 {
        self.at + self.keep
    }

    /// Returns the position from which on it has messages of its own.
    fn begins(&self) -> u64 {
        self.shares() - self.kept()
    }

    /// Returns how many of the messages that it is given are stored already: those of the question
    /// that it regenerates, while it has nothing of its own.
    pub(super) fn kept(&self) -> u64 {
        if self.ranges.is_empty() { self.keep } else { 0 }
    }

    /// Returns where its own messages are, in a conversation that ends there.
    fn own(&self, end: u64) -> impl Iterator<Item = Range<u64>> {
        self.ranges.iter().map(move |(from, to)| *from..end.min(*to))
    }

    /// Returns whether the first message of its own is there.
    pub(super) fn begins_at(&self, position: u64) -> bool {
        self.ranges.first().is_some_and(|range| range.0 == position)
    }
}

#[expect(clippy::trivially_copy_pass_by_ref, reason = "serde asks so")]
fn is_zero(n: &u64) -> bool {
    *n == 0
}
