//! A read of one branch: what must be read of the conversation, and what that yields.

use std::collections::BTreeMap;
use std::sync::Arc;

use super::document::{Document, Line, SLOT};
use super::spans::{FAR, Span, Spans};
use crate::codec::decode;
use crate::error::Result;
use crate::memory::{Fork, On, Read};
use crate::message::{Message, ToolMessage};
use crate::pins;
use crate::record::{Incarnation, Records, Replaced, Slot, Snapshot, places};
use crate::summary;

/// One branch in a conversation, as a read shows it.
#[derive(Clone, Debug)]
pub(super) struct SeenBranch {
    pub(super) document: Arc<Document>,
    /// Its line; for a branch that is being made, the one that it is made on.
    pub(super) line: usize,
    /// The branch that is being made, which has no line yet.
    pub(super) fork: Option<Line>,
    /// Where its messages are.
    pub(super) spans: Spans,
    /// The oldest position that the conversation with all branches holds.
    pub(super) start: u64,
    /// The end of the conversation with all branches.
    pub(super) end: u64,
    /// The system message that was set on it, in its stored form.
    pub(super) system: Option<Slot>,
}

/// The slots that each branch has for itself.
pub(crate) const OWN: [&str; 3] = [pins::SLOT, summary::SLOT, summary::EARLIER_SLOT];

/// The prefix of the slots of all branches but the first.
pub(super) const PREFIX: &str = "branch:";

/// Returns whether this slot belongs to the view, which does not list it and lets no others write
/// it.
pub(super) fn is_own(name: &str) -> bool {
    name == SLOT || name.starts_with(PREFIX)
}

/// Returns the name under which this slot of a branch is stored.
pub(super) fn kept_as(name: &str, line: usize) -> String {
    if line > 0 && OWN.contains(&name) { format!("{PREFIX}{line}:{name}") } else { name.to_owned() }
}

/// Returns the name under which the system message of a branch is stored, if it was set there.
pub(super) fn system_of(line: usize) -> String {
    format!("{PREFIX}{line}:system")
}

impl SeenBranch {
    /// Returns the state of a branch in a conversation that ends there. If no branch is asked for,
    /// or the branch does not exist, it is the current one; the caller sees by its id that it is
    /// another one.
    pub(super) fn new(document: Arc<Document>, asked: Option<On>, end: u64) -> Self {
        let (mut line, mut fork) = (asked.and_then(|on| document.line(on.id)), None);
        if line.is_none()
            && let Some(On { id, fork: Some(Fork { from, at, keep }) }) = asked
        {
            line = document.line(from);
            let made = Line { id, at, keep, awaits: true, ..Line::default() };
            fork = line.map(|_| made);
        }
        let line = line.unwrap_or(document.current);
        let spans = document.spans(line, end).before(fork.as_ref().map_or(FAR, |fork| fork.at));
        Self { document, line, fork, spans, start: 0, end, system: None }
    }

    /// Returns the id of the branch.
    pub(super) fn id(&self) -> Option<Incarnation> {
        self.fork.as_ref().map_or_else(|| self.document.id(self.line), |fork| fork.id)
    }

    /// Returns true if the conversation has no other branch, so that nothing has to be converted.
    pub(super) fn is_alone(&self) -> bool {
        self.document.stored.is_none() && self.fork.is_none()
    }

    /// Returns the first read of the conversation.
    pub(super) fn first_read(&self, read: &Read) -> Read {
        let own = read.slots.iter().map(|name| kept_as(name, self.line));
        let system = self.document.stored.map(|_| system_of(self.line));
        let positions = read.positions.iter().filter_map(|it| self.spans.to_conversation(*it));
        let mut first =
            Read::newest(read.n).slots([SLOT]).slots(own).slots(system).positions(positions);
        if read.n > 0 || !read.positions.is_empty() {
            first.positions.extend(self.late().map(|(_, at)| at));
        }
        first.references = read.references;
        // The open range is read up to the end, which is not known yet.
        match self.spans.clone().before(read.before.unwrap_or(FAR)).0.last() {
            Some(span) if span.to() < FAR => {
                Read { n: read.n.min(places(span.len)), ..first.before(span.to()) }
            }
            Some(_) => first,
            None => Read { n: 0, ..first },
        }
    }

    /// Returns the spans to read of a conversation that begins there, newest first, and how to read
    /// them: the first read has shown the first of them.
    pub(super) fn reads(&self, read: &Read, start: u64) -> Vec<(Span, Read)> {
        let (mut reads, mut wanted) = (Vec::new(), read.n);
        for span in self.spans.clone().before(read.before.unwrap_or(FAR)).0.into_iter().rev() {
            let n = wanted.min(places(span.len));
            if n == 0 || span.to() <= start {
                break;
            }
            wanted -= n;
            let next = Read::newest(n).before(span.to());
            reads.push((span, Read { references: read.references, ..next }));
        }
        reads
    }

    /// Returns the snapshot of the branch, made from the first read and those of its spans, newest
    /// first.
    pub(super) fn shown(
        &self,
        read: &Read,
        first: &Snapshot,
        parts: &[(Span, Snapshot)],
        late: &Records,
    ) -> Result<Snapshot> {
        let positions = self.spans.count_before(first.start)..self.spans.len();
        let mut shown = Snapshot::new(positions, Records::default());
        shown.incarnation = self.id();
        shown = shown.forked(self.line > 0 || self.fork.is_some());
        shown.system = match &self.system {
            Some(own) => Some(Arc::new(decode(own.content())?)),
            None => first.system.clone(),
        };
        for (span, part) in parts.iter().rev() {
            shown.records.extend(span.records(&part.records));
            shown.unreadable.extend(span.unreadable(&part.unreadable));
        }
        let names = read.names().filter(|name| !is_own(name));
        shown = shown.with_slots(names.filter_map(|name| {
            let slot = first.slot(&kept_as(name, self.line))?;
            Some(Slot::new(name, slot.version(), slot.content()))
        }));
        let spans = &self.spans.0;
        if !read.positions.is_empty() {
            let (mut picked, mut lost) = (Records::default(), Vec::new());
            for span in spans {
                picked.extend(span.records(first.picked()));
                lost.extend(span.unreadable(first.picked_unreadable()));
            }
            shown = shown.with_picked(picked, lost);
        }
        self.place_late(&mut shown, late);
        let may_redo = self.fork.is_none() && self.document.may_redo(self.line);
        let branches = || self.document.sharing(self.line, shown.end, self.end);
        let undone = may_redo.then(|| Replaced { at: shown.end, branches: branches() });
        Ok(shown.with_undone(undone))
    }

    /// Returns the late results that are on other branches.
    pub(super) fn late(&self) -> impl Iterator<Item = (&str, u64)> {
        let late = self.document.late.iter().map(|(tag, at)| (tag.as_str(), *at));
        late.filter(|(_, at)| self.spans.to_branch(*at).is_none())
    }

    /// Replaces stand-ins by the late results on other branches of calls that this branch has too.
    fn place_late(&self, shown: &mut Snapshot, records: &Records) {
        let found =
            self.late().filter_map(|(tag, at)| Some((tag, records.find(at)?.message().as_tool()?)));
        let late: BTreeMap<&str, &ToolMessage> = found.collect();
        if late.is_empty() {
            return;
        }
        shown.change_messages(|message| {
            let stand_in = message.as_tool()?;
            let result = late.get(stand_in.call_tag()?)?;
            let (id, name) = (stand_in.call_id(), stand_in.tool_name());
            let placed = ToolMessage::new(id, name, result.content().clone());
            Some(Message::Tool(placed.with_error(result.is_error())))
        });
    }
}
