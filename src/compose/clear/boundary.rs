//! The positions before which results and media are cleared: a function of what is stored.

use super::Clear;
use crate::compose::Composer;
use crate::compose::extras::Extras;
use crate::compose::form::ClearedPart;
use crate::error::Result;
use crate::message::{Message, OpenCalls, ToolCall, ToolMessage};
use crate::record::{Record, Records, Snapshot};
use crate::window::{NotReady, more};

/// A message or group that is cleared once it is old, and that counts for `keep`.
struct Clearable {
    /// The position of the message, or of the call of its group. While this one is kept, nothing
    /// from there on is cleared.
    head: u64,
    newest: u64,
    results: usize,
}

impl Composer {
    /// Returns the position before which results or media are cleared.
    ///
    /// For the records that were read, the result does not depend on how many were read: with too
    /// few to fill `keep`, nothing is cleared.
    pub(super) fn boundary(
        &self,
        clear: &Clear,
        snapshot: &Snapshot,
        extras: &Extras,
        what: ClearedPart,
        count: &mut dyn FnMut(Record<'_>) -> Result<usize>,
    ) -> Result<u64, NotReady> {
        let records = &snapshot.records;
        let is_on = if what == ClearedPart::Result { clear.results } else { clear.media };
        if !is_on {
            return Ok(0);
        }
        let seen = if what == ClearedPart::Media { newest_answer(records) } else { u64::MAX };
        let Found { items, position, .. } = Found::among(clear, records, what, seen);
        let Some(position) = position else { return Ok(0) };
        let boundary = position / clear.step * clear.step;
        if boundary <= snapshot.oldest() {
            return Ok(0); // nothing is before it
        }
        let Some(over) = clear.over else { return Ok(boundary) };
        let moved_at = moved_at(clear, &items, boundary);
        let is_over = self.is_over(over, snapshot, extras, moved_at, count)?;
        Ok(if is_over { boundary } else { 0 })
    }

    /// Returns whether the messages that the window covered had more than this many tokens when the
    /// record at this position was the newest.
    fn is_over(
        &self,
        tokens: usize,
        snapshot: &Snapshot,
        extras: &Extras,
        at: u64,
        count: &mut dyn FnMut(Record<'_>) -> Result<usize>,
    ) -> Result<bool, NotReady> {
        // The window as it was then, since the start of today's window moves with each message.
        let past = &as_of(snapshot, at);
        let extras = self.summary_as_of(extras, past.end);
        let records = &past.records;
        let since = snapshot.records.len() - records.len();
        let (window_from, is_whole) = match self.window_start(past, &extras) {
            Ok(window) => (window.window_from, true),
            // A budget does not wait until everything that a window covers is read.
            Err(NotReady::ReadMore(_)) if self.limit.is_some() => (0, past.is_complete()),
            Err(NotReady::ReadMore(n)) => return Err(NotReady::ReadMore(n.saturating_add(since))),
            Err(stop) => return Err(stop),
        };
        let newest_first = records.iter().rev().take(records.len() - window_from);
        let mut sum = 0_usize;
        for record in newest_first {
            if !self.never_sends(record.message()) {
                sum = sum.saturating_add(count(record)?);
            }
            if sum > tokens {
                return Ok(true);
            }
        }
        if is_whole { Ok(false) } else { Err(NotReady::ReadMore(more(snapshot.records.len()))) }
    }
}

/// Returns the snapshot as it was when the record at this position was the newest.
fn as_of(snapshot: &Snapshot, at: u64) -> Snapshot {
    let end = snapshot.end.min(at.saturating_add(1));
    let unreadable = snapshot.unreadable.iter().filter(|row| row.position < end).cloned();
    Snapshot {
        unreadable: unreadable.collect(),
        ..Snapshot::new(snapshot.start.min(end)..end, snapshot.records.clone().split(end).0)
    }
}

/// Returns the position of the record that moved the boundary to its place.
fn moved_at(clear: &Clear, items: &[Clearable], boundary: u64) -> u64 {
    let mut kept = 0_usize;
    let behind = items.iter().rev().filter(|item| item.head >= boundary);
    let mut reached = behind.skip_while(|item| {
        kept = kept.saturating_add(item.results);
        kept < clear.keep
    });
    reached.next().map_or(boundary, |item| item.newest)
}

/// Returns the position of the newest answer: the model has not seen anything after it yet.
fn newest_answer(records: &Records) -> u64 {
    let mut newest = records.iter().rev();
    newest.find(|record| record.message().as_ai().is_some()).map_or(0, |record| record.position())
}

/// The items from the newest record back that decide where the boundary is, and when it moved
/// there.
struct Found<'a> {
    clear: &'a Clear,
    /// Newest first.
    items: Vec<Clearable>,
    kept: usize,
    /// The limit of the boundary, and the position from which it is computed.
    most: u64,
    position: Option<u64>,
}

impl<'a> Found<'a> {
    fn among(clear: &'a Clear, records: &Records, what: ClearedPart, most: u64) -> Self {
        let mut found = Self { clear, items: Vec::new(), kept: 0, most, position: None };
        let mut group = Group::default();
        for record in records.iter().rev() {
            let position = record.position();
            if found.is_enough(position) {
                return found;
            }
            if what == ClearedPart::Result {
                group.add(record, &mut found);
            } else if clear.clears(record.message(), ClearedPart::Media) {
                found.add(Clearable { head: position, newest: position, results: 1 });
            }
        }
        group.end(&mut found);
        found
    }

    fn add(&mut self, item: Clearable) {
        self.kept = self.kept.saturating_add(item.results);
        if self.kept >= self.clear.keep && self.position.is_none() {
            self.position = Some(item.head.min(self.most));
        }
        self.items.push(item);
    }

    /// Returns whether neither this record nor older ones can change the result.
    fn is_enough(&self, next: u64) -> bool {
        // If tokens decide too, it also matters when the boundary moved to its place.
        let step = self.clear.step;
        let decides = |position| self.clear.over.is_some() && next >= position / step * step;
        self.position.is_some_and(|position| !decides(position))
    }
}

/// Calls with the results directly after them, visited from the newest record back. Calls of
/// several answers in a row form one group.
#[derive(Default)]
struct Group<'a> {
    newest: u64,
    results: Vec<&'a ToolMessage>,
    head: u64,
    calls: Vec<&'a ToolCall>,
}

impl<'a> Group<'a> {
    fn add(&mut self, record: Record<'a>, found: &mut Found<'_>) {
        match record.message() {
            message if message.is_private() => {}
            Message::Tool(tool) => {
                if !self.calls.is_empty() {
                    self.end(found);
                }
                if self.results.is_empty() {
                    self.newest = record.position();
                }
                self.results.push(tool);
            }
            message if message.has_tool_calls() => {
                self.head = record.position();
                self.calls.extend(message.tool_calls());
            }
            _ => self.end(found),
        }
    }

    /// Adds the group, counting the results that answer one of its calls and would be cleared:
    /// others are sent elsewhere or not at all.
    fn end(&mut self, found: &mut Found<'_>) {
        let Self { newest, results, head, calls } = std::mem::take(self);
        if results.is_empty() || calls.is_empty() {
            return;
        }
        let mut open = OpenCalls::default();
        for call in calls {
            open.open(call.id.as_str(), call.name.as_str(), ());
        }
        let clears = |tool: &ToolMessage| {
            open.answer(tool).is_some()
                && !found.clear.spares_tool(tool)
                && found.clear.clears_result(tool)
        };
        let cleared = results.into_iter().rev().map(clears).filter(|it| *it).count();
        if cleared > 0 {
            found.add(Clearable { head, newest, results: cleared });
        }
    }
}
