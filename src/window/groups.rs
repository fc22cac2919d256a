//! Tool groups: an `Ai` message with tool calls and the `Tool` messages that answer it.
//!
//! Results belong to a group when they follow its calls directly, in any order. What comes after
//! another message answers nothing: every provider refuses something between a call and its results,
//! and a call that was once sent as unanswered must look the same in every later prompt.

use super::{Reach, more};
use crate::message::{AiMessage, Message, ToolCall};
use crate::record::Snapshot;

/// What to do about tool calls without results, and results without calls.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, serde::Serialize)]
#[non_exhaustive]
pub enum ToolGroups {
    /// Results that answer no call are left out, and calls without a result are answered with an
    /// error result that says that none was recorded. The report tells.
    #[default]
    Repair,
    /// An error of kind [`ToolGroup`](crate::ErrorKind::ToolGroup) that names the message. Where a
    /// [`Provider`](crate::Provider) is named, what it refuses is an error too.
    Strict,
    /// The window is sent as it is, but for what a named [`Provider`](crate::Provider) demands beyond
    /// calls and results.
    Off,
}

/// The calls of one `Ai` message that wait for a result.
///
/// Ids may repeat, in one message too: then as many results are taken as there are calls.
#[derive(Debug)]
pub(crate) struct OpenCalls<'a> {
    /// Sorted by id, then by place in the message.
    waiting: Vec<Waiting<'a>>,
}

#[derive(Debug)]
struct Waiting<'a> {
    call: &'a ToolCall,
    place: usize,
    answered: bool,
}

impl<'a> OpenCalls<'a> {
    pub(crate) fn of(message: &'a AiMessage) -> Self {
        let calls = message.tool_calls().enumerate();
        let mut waiting: Vec<_> =
            calls.map(|(place, call)| Waiting { call, place, answered: false }).collect();
        waiting.sort_by(|a, b| a.call.id.cmp(&b.call.id).then(a.place.cmp(&b.place)));
        Self { waiting }
    }

    /// Takes a result for the call `id`; false where no call of that id waits for one.
    pub(crate) fn answer(&mut self, id: &str) -> bool {
        let first = self.waiting.partition_point(|w| w.call.id.as_str() < id);
        let same = self.waiting[first..].iter_mut().take_while(|w| w.call.id == id);
        match same.into_iter().find(|w| !w.answered) {
            Some(waiting) => {
                waiting.answered = true;
                true
            }
            None => false,
        }
    }

    /// The calls that nothing answered, in the order of the message.
    pub(crate) fn unanswered(&self) -> Vec<&'a ToolCall> {
        let mut open: Vec<_> = self.waiting.iter().filter(|w| !w.answered).collect();
        open.sort_by_key(|w| w.place);
        open.into_iter().map(|w| w.call).collect()
    }
}

/// Moves the start of a window out of a tool group.
///
/// A sliding window leaves the group out: the start moves forward past its results, or back to its
/// call where the history ends in that group, so that the newest group is sent whole even when it
/// alone exceeds the window. A `stable` window always moves back.
pub(crate) fn whole_groups(snapshot: &Snapshot, start: usize, stable: bool) -> Reach<usize> {
    let records = &snapshot.records;
    if start == 0 && snapshot.is_complete() {
        return Reach::Found(0); // nothing was cut, so nothing was parted
    }
    if !records.get(start).is_some_and(|record| record.message().is_tool()) {
        return Reach::Found(start);
    }
    let mut from = records.cursor(start);
    from.pass(Message::is_tool);
    let forward = from.at();
    if forward < records.len() && !stable {
        return Reach::Found(forward);
    }
    // Back over the results to what stands before them.
    let mut back = records.messages().rev().skip(records.len() - start);
    let mut call = start;
    loop {
        call = call.wrapping_sub(1);
        match back.next() {
            Some(message) if message.is_tool() => {}
            Some(message) if message.has_tool_calls() => return Reach::Found(call),
            None if !snapshot.is_complete() => return Reach::ReadMore(more(records.len())),
            _ => return Reach::Found(forward),
        }
    }
}
