//! A read of one branch: what is to be read of the conversation, and what that makes.

use std::sync::Arc;

use parking_lot::Mutex;

use super::document::{Document, SLOT};
use super::spans::{Span, Spans};
use crate::codec::decode;
use crate::error::{Error, ErrorKind, Result};
use crate::memory::{Fork, Read};
use crate::pins;
use crate::record::{Incarnation, Records, Slot, SlotVersion, Snapshot, Unreadable, places};
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

/// One branch in a conversation as a read has shown it.
#[derive(Clone, Debug)]
pub(super) struct Standing {
    pub(super) known: Arc<Known>,
    pub(super) line: BranchPlace,
    /// Where its messages lie.
    pub(super) spans: Spans,
    /// The end of the conversation that holds all branches.
    pub(super) end: u64,
    /// The system message that was set on it, as it is kept.
    pub(super) system: Option<Slot>,
}

/// A branch that is there, or one in the making.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum BranchPlace {
    Line(usize),
    Fork { id: Incarnation, from: usize, at: u64, keep: u64 },
}

/// The slots that each branch has for itself.
pub(super) const OWN: [&str; 3] = [pins::SLOT, summary::SLOT, summary::EARLIER_SLOT];

/// The name under which a branch other than the first keeps its system message.
const SYSTEM: &str = "system";

/// What the slots of all branches but the first begin with.
pub(super) const PREFIX: &str = "branch:";

/// The end of a conversation of which the end is not known yet.
const FAR: u64 = u64::MAX / 4;

/// The most reads that are begun again since others have made branches meanwhile.
const TRIES: u32 = 256;

impl Known {
    pub(super) fn nothing() -> Self {
        Self { document: Document::unbranched(0), version: None, incarnation: None }
    }

    /// Returns the branch of this id; `None` if there is none.
    fn resolve(&self, id: Incarnation, fork: Option<Fork>) -> Option<BranchPlace> {
        if let Some(line) = self.document.find(id, self.incarnation) {
            return Some(BranchPlace::Line(line));
        }
        let Fork { from, at, keep } = fork?;
        let from = from.map_or(Some(0), |from| self.document.find(from, self.incarnation))?;
        Some(BranchPlace::Fork { id, from, at, keep })
    }

    /// Returns the id of a branch.
    pub(super) fn id(&self, place: BranchPlace) -> Option<Incarnation> {
        match place {
            BranchPlace::Fork { id, .. } => Some(id),
            BranchPlace::Line(0) => self.incarnation,
            BranchPlace::Line(line) => self.document.lines().get(line).and_then(|line| line.id),
        }
    }

    fn spans(&self, place: BranchPlace, end: u64) -> Spans {
        match place {
            BranchPlace::Line(line) => self.document.spans(line, end),
            BranchPlace::Fork { from, at, .. } => self.document.spans(from, end).before(at),
        }
    }
}

impl BranchPlace {
    /// Returns the line whose slots it has.
    fn slots_of(self) -> usize {
        match self {
            Self::Line(line) | Self::Fork { from: line, .. } => line,
        }
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

/// A read on its way.
pub(super) struct Reading<'a> {
    shared: &'a Mutex<Shared>,
    read: &'a Read,
    known: Arc<Known>,
    place: Option<BranchPlace>,
    tries: u32,
    newest: Option<Newest>,
}

/// What the first read of the conversation has shown.
struct Newest {
    snapshot: Snapshot,
    standing: Standing,
    /// The spans that are still to be read, the next one last, and how many rows are wanted.
    spans: Spans,
    wanted: usize,
    /// What was read, newest first.
    records: Vec<Records>,
    unreadable: Vec<Unreadable>,
}

impl<'a> Reading<'a> {
    pub(super) fn new(shared: &'a Mutex<Shared>, read: &'a Read) -> Self {
        let known = Arc::clone(&shared.lock().known);
        let mut reading = Self { shared, read, known, place: None, tries: 0, newest: None };
        reading.begin();
        reading
    }

    fn begin(&mut self) {
        self.newest = None;
        self.place = match self.read.branch {
            Some(on) => self.known.resolve(on.id, on.fork),
            None => Some(BranchPlace::Line(self.known.document.current)),
        };
    }

    /// The branch that is read; the current one in the place of one that is not there, by which
    /// whoever asks sees that it is another one.
    fn place(&self) -> BranchPlace {
        self.place.unwrap_or(BranchPlace::Line(self.known.document.current))
    }

    /// Returns what is to be read of the conversation.
    pub(super) fn next(&self) -> Read {
        if let Some(newest) = &self.newest
            && let Some(span) = newest.spans.0.last()
        {
            return Read::newest(newest.wanted.min(places(span.len))).before(span.to());
        }
        let (place, read) = (self.place(), self.read);
        let spans = self.known.spans(place, FAR);
        let upto = read.before.unwrap_or(FAR).min(spans.len());
        let mut first = Read::newest(read.n).slots([SLOT]);
        first.slots.extend(read.slots.iter().map(|name| kept_as(name, place.slots_of())));
        if self.known.version.is_some() {
            first.slots.push(system_of(place.slots_of()));
        }
        first.positions =
            read.positions.iter().filter_map(|it| spans.to_conversation(*it)).collect();
        // What lies in the open range is read up to the end, of which nobody knows where it is.
        match spans.before(upto).0.last() {
            Some(span) if span.to() < FAR => {
                first.n = read.n.min(places(span.len));
                first.before(span.to())
            }
            Some(_) => first,
            None => Read { n: 0, ..first },
        }
    }

    /// Takes what was read; returns the branch once all of it is there.
    pub(super) fn take_read(&mut self, snapshot: Snapshot) -> Result<Option<(Snapshot, Standing)>> {
        let Some(newest) = &mut self.newest else { return self.take_newest(snapshot) };
        if snapshot.incarnation != newest.standing.known.incarnation {
            self.begin();
            return self.once_more();
        }
        if let Some(span) = newest.spans.0.pop() {
            newest.wanted = further(newest.wanted, span, &snapshot);
            newest.records.push(span.records(&snapshot.records));
            newest.unreadable.splice(0..0, span.unreadable(&snapshot.unreadable));
        }
        self.finished()
    }

    fn take_newest(&mut self, snapshot: Snapshot) -> Result<Option<(Snapshot, Standing)>> {
        let slot = snapshot.slot(SLOT);
        let (version, incarnation) = (slot.map(Slot::version), snapshot.incarnation);
        if version != self.known.version || incarnation != self.known.incarnation {
            let document = match slot {
                Some(_) if version == self.known.version => self.known.document.clone(),
                Some(slot) => Document::read(slot)?,
                None => Document::unbranched(0),
            };
            let known = Arc::new(Known { document, version, incarnation });
            let (before, is_same) = (self.place(), version == self.known.version);
            self.shared.lock().known = Arc::clone(&known);
            self.known = known;
            self.begin();
            // Another incarnation alone tells of no other branch, unless one was asked for.
            if !is_same || self.place() != before {
                return self.once_more();
            }
        }
        let (place, end) = (self.place(), snapshot.end);
        if self.read.branch.is_none()
            && let Some(seen) = self.shared.lock().seen
            && self.known.id(place).is_some_and(|current| current != seen)
        {
            return Err(another_branch());
        }
        let known = Arc::clone(&self.known);
        let spans = known.spans(place, end);
        let system = snapshot.slot(&system_of(place.slots_of())).cloned();
        let standing = Standing { known, line: place, spans, end, system };
        if self.known.version.is_none() && place == BranchPlace::Line(0) {
            return Ok(Some((snapshot, standing))); // all is as it is
        }
        let mut spans = standing.spans.clone().before(self.read.before.unwrap_or(u64::MAX));
        let (mut records, mut unreadable, mut wanted) = (Vec::new(), Vec::new(), self.read.n);
        if let Some(span) = spans.0.pop() {
            wanted = further(wanted, span, &snapshot);
            records.push(span.records(&snapshot.records));
            unreadable.extend(span.unreadable(&snapshot.unreadable));
        }
        self.newest = Some(Newest { snapshot, standing, spans, wanted, records, unreadable });
        self.finished()
    }

    /// Begins again, unless that has come to nothing too often.
    fn once_more(&mut self) -> Result<Option<(Snapshot, Standing)>> {
        self.tries += 1;
        if self.tries < TRIES {
            return Ok(None);
        }
        let text = "others make branches all the time";
        Err(Error::new(ErrorKind::Storage, "read", text))
    }

    fn finished(&mut self) -> Result<Option<(Snapshot, Standing)>> {
        let is_over = |newest: &mut Newest| newest.wanted == 0 || newest.spans.0.is_empty();
        let Some(newest) = self.newest.take_if(is_over) else { return Ok(None) };
        let Newest { snapshot, standing, records, unreadable, .. } = newest;
        let spans = &standing.spans;
        let mut all = Records::default();
        records.into_iter().rev().for_each(|records| all.extend(records));
        let (start, end) = (spans.count_before(snapshot.start), spans.len());
        let mut shown = Snapshot::new(start..end, all);
        shown.unreadable = unreadable;
        shown.incarnation = standing.known.id(standing.line);
        shown.system = match &standing.system {
            Some(own) => Some(Arc::new(decode(own.content())?)),
            None => snapshot.system.clone(),
        };
        let line = standing.line.slots_of();
        let named = self.read.slots.iter().filter_map(|name| {
            let slot = snapshot.slot(&kept_as(name, line))?;
            Some(Slot::new(name.as_str(), slot.version(), slot.content()))
        });
        let mut named: Vec<Slot> = named.collect();
        named.sort_by(|a, b| a.name().cmp(b.name()));
        named.dedup_by(|a, b| a.name() == b.name());
        if !named.is_empty() {
            shown = shown.with_slots(named);
        }
        if !self.read.positions.is_empty() {
            let (mut picked, mut lost) = (Records::default(), Vec::new());
            for span in &spans.0 {
                picked.extend(span.records(snapshot.picked()));
                lost.extend(span.unreadable(snapshot.picked_unreadable()));
            }
            shown = shown.with_picked(picked, lost);
        }
        Ok(Some((shown, standing)))
    }
}

/// Returns how many rows are wanted of what stands before this span, of which so many were: none
/// where these are gone in part, for older ones are then too.
fn further(wanted: usize, span: Span, snapshot: &Snapshot) -> usize {
    if snapshot.start > span.from { 0 } else { wanted.saturating_sub(places(span.len)) }
}

/// Returns the error for who looks at a branch that is not the current one any more.
pub(super) fn another_branch() -> Error {
    let text = "the conversation is on another branch than the one that was seen";
    Error::new(ErrorKind::SlotConflict, "branches", text)
}
