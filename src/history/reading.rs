//! A read of one branch: what is to be read of the conversation, and what that makes.

use std::collections::{BTreeMap, BTreeSet};
use std::mem;
use std::sync::Arc;

use parking_lot::Mutex;

use super::document::{Document, SLOT};
use super::spans::Spans;
use crate::codec::decode;
use crate::error::{Error, ErrorKind, Result};
use crate::memory::{On, Read};
use crate::message::{Message, ToolMessage};
use crate::pins;
use crate::record::{Incarnation, Records, Slot, SlotVersion, Snapshot, places};
use crate::summary;

/// The branches as they were read last: the next read begins with what it makes of them, and looks
/// whether it still holds.
#[derive(Clone, Debug)]
pub(super) struct Known {
    pub(super) document: Document,
    /// The version of the slot; none if there is no slot, and one branch.
    pub(super) version: Option<SlotVersion>,
    pub(super) incarnation: Option<Incarnation>,
}

/// What a view shares: what it knows, and the branch that its user looks at, where that is said.
#[derive(Debug)]
pub(super) struct Shared {
    pub(super) known: Arc<Known>,
    pub(super) seen: Option<Incarnation>,
}

/// One branch in a conversation, as a read shows it.
#[derive(Clone, Debug)]
pub(super) struct Standing {
    /// A branch in the making is the last of the lines here, and of no others.
    pub(super) known: Arc<Known>,
    pub(super) line: usize,
    /// The line whose slots it has: for a branch in the making the one that it is made on.
    slots_of: usize,
    /// Where its messages lie.
    pub(super) spans: Spans,
    /// The end of the conversation that holds all branches.
    pub(super) end: u64,
    /// The system message that was set on it, as it is kept.
    pub(super) system: Option<Slot>,
}

/// The slots that each branch has for itself.
pub(super) const OWN: [&str; 3] = [pins::SLOT, summary::SLOT, summary::EARLIER_SLOT];

/// The name under which a branch other than the first keeps its system message.
const SYSTEM: &str = "system";

/// What the slots of all branches but the first begin with.
pub(super) const PREFIX: &str = "branch:";

/// The end of a conversation of which the end is not known yet.
const FAR: u64 = u64::MAX / 4;

impl Known {
    pub(super) fn nothing() -> Self {
        Self { document: Document::unbranched(), version: None, incarnation: None }
    }

    /// Returns the id of a branch.
    pub(super) fn id(&self, line: usize) -> Option<Incarnation> {
        match line {
            0 => self.incarnation,
            line => self.document.lines.get(line).and_then(|line| line.id),
        }
    }

    /// Returns the id of the current branch.
    pub(super) fn current(&self) -> Option<Incarnation> {
        self.id(self.document.current)
    }

    /// Returns the line of this id; the first one has the id of the conversation.
    pub(super) fn line(&self, id: Incarnation) -> Option<usize> {
        (0..self.document.lines.len()).find(|line| self.id(*line) == Some(id))
    }

    /// Returns what a snapshot says; `None` if that is known.
    fn renewed(&self, snapshot: &Snapshot) -> Result<Option<Self>> {
        let (slot, incarnation) = (snapshot.slot(SLOT), snapshot.incarnation);
        let version = slot.map(Slot::version);
        let document = match slot {
            _ if version == self.version && incarnation == self.incarnation => return Ok(None),
            Some(slot) => Document::read(slot)?,
            None => Document::unbranched(),
        };
        Ok(Some(Self { document, version, incarnation }))
    }
}

impl Standing {
    /// Returns where a branch stands in a conversation of which the end is not known yet: the
    /// current one if none is asked for, and in the place of one that is not there, by which
    /// whoever asks sees that it is another one.
    pub(super) fn new(mut known: Arc<Known>, asked: Option<On>) -> Self {
        let mut line = asked.and_then(|on| known.line(on.id)).unwrap_or(known.document.current);
        let mut slots_of = line;
        if let Some(On { id, fork: Some(fork) }) = asked
            && known.line(id).is_none()
            && let Some(from) = fork.from.map_or(Some(0), |from| known.line(from))
        {
            let document = &mut Arc::make_mut(&mut known).document;
            (line, slots_of) = (document.fork(from, fork.at, fork.keep, id), from);
            document.lines.last_mut().into_iter().for_each(|line| line.awaits = true);
        }
        let spans = known.document.spans(line, FAR);
        Self { known, line, slots_of, spans, end: FAR, system: None }
    }

    /// Returns true of a branch in the making.
    pub(super) fn is_new(&self) -> bool {
        self.line != self.slots_of
    }

    /// Returns true if the conversation has no other branch: all is as it is.
    pub(super) fn is_alone(&self) -> bool {
        self.known.version.is_none() && !self.is_new()
    }

    /// Returns what is to be read of the conversation first.
    pub(super) fn read(&self, read: &Read) -> Read {
        let mut first = Read::newest(read.n).slots([SLOT]);
        first.references = read.references;
        first.slots.extend(read.slots.iter().map(|name| kept_as(name, self.slots_of)));
        if self.known.version.is_some() {
            first.slots.push(system_of(self.slots_of));
        }
        let positions = read.positions.iter();
        first.positions = positions.filter_map(|it| self.spans.to_conversation(*it)).collect();
        first.positions.extend(self.late().map(|(_, at)| at));
        // What lies in the open range is read up to the end, of which nobody knows where it is.
        match self.spans.clone().before(read.before.unwrap_or(FAR)).0.last() {
            Some(span) if span.to() < FAR => {
                first.n = read.n.min(places(span.len));
                first.before(span.to())
            }
            Some(_) => first,
            None => Read { n: 0, ..first },
        }
    }

    /// Returns the late results that lie on other branches.
    fn late(&self) -> impl Iterator<Item = (&str, u64)> {
        let late = self.known.document.late.iter().map(|(tag, at)| (tag.as_str(), *at));
        late.filter(|(_, at)| self.spans.to_branch(*at).is_none())
    }

    /// Returns what is shown with the late results of other branches, of calls that this one has
    /// too, in the place of what stands in for them.
    pub(super) fn with_late(&self, mut shown: Snapshot, first: &Snapshot) -> Snapshot {
        let found = self.late().filter_map(|(tag, at)| {
            let record = first.picked().find(at)?;
            Some((tag, record.message().as_tool()?.clone()))
        });
        let late: BTreeMap<&str, ToolMessage> = found.collect();
        let in_place = |message: &Message| {
            let stands = message.as_tool()?;
            let result = late.get(stands.call_tag()?)?;
            let (id, name) = (stands.call_id(), stands.tool_name());
            let placed = ToolMessage::new(id, name, result.content().clone());
            Some(Message::Tool(placed.with_error(result.is_error())))
        };
        if !late.is_empty() {
            shown.change_messages(in_place);
        }
        shown
    }

    /// Takes what the first read has shown. Returns false if it was of another branch, and is to be
    /// made again on what is known now.
    pub(super) fn is_shown_by(
        &mut self,
        snapshot: &Snapshot,
        asked: Option<On>,
        shared: &Mutex<Shared>,
    ) -> Result<bool> {
        if let Some(renewed) = self.known.renewed(snapshot)? {
            let known = Arc::new(renewed);
            shared.lock().known = Arc::clone(&known);
            let before = mem::replace(self, Self::new(known, asked));
            // Another incarnation alone tells of no other branch, unless one was asked for.
            if self.known.version != before.known.version
                || (self.line, self.slots_of) != (before.line, before.slots_of)
            {
                return Ok(false);
            }
        }
        if asked.is_none()
            && let Some(seen) = shared.lock().seen
            && self.known.id(self.line).is_some_and(|current| current != seen)
        {
            let text = "the conversation is on another branch than the one that was seen";
            return Err(Error::new(ErrorKind::SlotConflict, "branches", text));
        }
        self.end = snapshot.end;
        self.spans = self.known.document.spans(self.line, self.end);
        self.system = snapshot.slot(&system_of(self.slots_of)).cloned();
        Ok(true)
    }
}

/// Returns the name under which this slot of a branch is kept.
pub(super) fn kept_as(name: &str, line: usize) -> String {
    if line > 0 && OWN.contains(&name) { format!("{PREFIX}{line}:{name}") } else { name.to_owned() }
}

/// Returns the name under which the system message of a branch is kept, which was set there.
pub(super) fn system_of(line: usize) -> String {
    format!("{PREFIX}{line}:{SYSTEM}")
}

/// A read of a branch on its way, of which the first read has shown where it stands.
pub(super) struct Reading<'a> {
    read: &'a Read,
    at: &'a Standing,
    /// What is shown of the branch so far.
    pub(super) shown: Snapshot,
    /// The spans that are still to be read, the next one last, and how many rows are wanted.
    left: Spans,
    wanted: usize,
}

impl<'a> Reading<'a> {
    pub(super) fn new(read: &'a Read, at: &'a Standing, first: &Snapshot) -> Result<Self> {
        let spans = &at.spans;
        let positions = spans.count_before(first.start)..spans.len();
        let mut shown = Snapshot::new(positions, Records::default());
        shown.incarnation = at.known.id(at.line);
        shown.system = match &at.system {
            Some(own) => Some(Arc::new(decode(own.content())?)),
            None => first.system.clone(),
        };
        let names: BTreeSet<_> = read.slots.iter().collect();
        let slots = names.into_iter().filter_map(|name| {
            let slot = first.slot(&kept_as(name, at.slots_of))?;
            Some(Slot::new(name.as_str(), slot.version(), slot.content()))
        });
        shown = shown.with_slots(slots);
        if !read.positions.is_empty() {
            let (mut picked, mut lost) = (Records::default(), Vec::new());
            for span in &spans.0 {
                picked.extend(span.records(first.picked()));
                lost.extend(span.unreadable(first.picked_unreadable()));
            }
            shown = shown.with_picked(picked, lost);
        }
        let left = spans.clone().before(read.before.unwrap_or(u64::MAX));
        let mut reading = Self { read, at, shown, left, wanted: read.n };
        reading.take(first);
        Ok(reading)
    }

    /// Returns what is to be read next; `None` if all is there.
    pub(super) fn next(&self) -> Option<Read> {
        let span = self.left.0.last().filter(|_| self.wanted > 0)?;
        let next = Read::newest(self.wanted.min(places(span.len))).before(span.to());
        Some(Read { references: self.read.references, ..next })
    }

    /// Takes what was read; returns false if that is of another conversation.
    pub(super) fn take(&mut self, read: &Snapshot) -> bool {
        let mut shown = mem::take(&mut self.shown);
        if let Some(span) = self.left.0.pop() {
            let newer = mem::replace(&mut shown.records, span.records(&read.records));
            shown.records.extend(newer);
            shown.unreadable.splice(0..0, span.unreadable(&read.unreadable));
            // Where these are gone in part, older ones are too.
            let is_whole = read.start <= span.from;
            self.wanted = if is_whole { self.wanted.saturating_sub(places(span.len)) } else { 0 };
        }
        self.shown = shown.with_references(read.has_references());
        read.incarnation == self.at.known.incarnation
    }
}
