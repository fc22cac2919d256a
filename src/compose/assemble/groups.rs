//! Sends tool groups whole: each result after its call, and a repair for each missing result.

use std::mem;
use std::sync::Arc;

use super::{Assembler, Member};
use crate::compose::who;
use crate::error::{Error, ErrorKind, Result};
use crate::message::{Message, OpenCalls, ToolCall, ToolMessage};
use crate::prompt::{Moved, Origin, Pieces, Reason, Repaired};
use crate::record::{Cursor, Record};
use crate::window::{Fate, ToolGroups};

/// The last tool group, while nothing is sent after it.
pub(super) struct LastGroup<'a> {
    pub(super) results_at: usize,
    pub(super) waiting: Waiting<'a>,
}

/// Calls without a result, each with the position of its message if it is a record.
pub(super) type Waiting<'a> = OpenCalls<&'a str, (Option<u64>, &'a ToolCall)>;

impl<'a> Assembler<'a> {
    /// Sends a tool group: all of it, or nothing.
    ///
    /// If the provider joins neighbouring answers, neighbouring groups are sent together: first all
    /// calls, then all results.
    pub(super) fn group(&mut self, group: usize) -> Result<()> {
        if group < self.next_group || self.with_compaction.contains(&group) {
            return Ok(()); // already sent with another
        }
        self.close_calls()?;
        self.next_group = self.neighbours(group);
        let mut whole = Vec::new();
        for group in group..self.next_group {
            let head = self.choice.matches.groups().get(group).map(|it| it.head);
            let places = head.into_iter().chain(self.choice.matches.results_of(group));
            let records = places.filter_map(|it| Some((it, self.case.snapshot.records.get(it)?)));
            if let Some(members) = self.members(records.collect())? {
                whole.push((group, members));
            }
        }
        for (_, members) in &whole {
            members.first().into_iter().for_each(|head| self.send(head));
        }
        let results_at = self.draft.pieces.len();
        let mut waiting = Waiting::default();
        for (group, members) in &whole {
            let call = members.first().map_or(0, |head| head.record.position());
            for result in members.iter().skip(1) {
                self.send(result);
                if let Fate::Sent { direct: false, .. } = self.choice.matches.fate(result.place) {
                    let position = result.record.position();
                    self.draft.report.moved.push(Moved { position, call });
                }
            }
            for unanswered in self.choice.matches.unanswered(*group) {
                waiting.open(&unanswered.id, &unanswered.name, (Some(call), unanswered));
            }
        }
        if !whole.is_empty() {
            self.last_group = Some(LastGroup { results_at, waiting });
        }
        Ok(())
    }

    /// Returns the members of a group as they are sent; `None` if the processor dropped one of
    /// them, since then all are left out.
    pub(super) fn members(
        &mut self,
        records: Vec<(usize, Record<'a>)>,
    ) -> Result<Option<Vec<Member<'a>>>> {
        let mut members = Vec::with_capacity(records.len());
        for (place, record) in &records {
            members.push(self.judge(*place, *record)?);
        }
        if members.iter().all(Option::is_some) {
            return Ok(Some(members.into_iter().flatten().collect()));
        }
        for ((place, record), member) in records.into_iter().zip(members) {
            self.drop_at(place, record, member.map_or(Reason::Dropped, |_| Reason::GroupDropped));
        }
        Ok(None)
    }

    /// Returns the first group after this one that is not joined to it.
    fn neighbours(&self, group: usize) -> usize {
        let joins = self.case.composer.provider.is_some_and(|provider| provider.row().joins_calls);
        let groups = self.choice.matches.groups();
        let mut end = group + 1;
        while joins
            && self.choice.sends(end)
            && !self.with_compaction.contains(&end)
            && let (Some(one), Some(next)) = (groups.get(end - 1), groups.get(end))
        {
            let mut between = self.case.snapshot.records.cursor(one.head + 1);
            between.pass(Message::is_private);
            if between.at() != next.head {
                break;
            }
            end += 1;
        }
        end
    }

    /// Closes the open calls with repairs, since another message follows them.
    pub(super) fn close_calls(&mut self) -> Result<()> {
        let Some(LastGroup { waiting, .. }) = self.last_group.take() else { return Ok(()) };
        let mut pieces = mem::take(&mut self.draft.pieces);
        let closed = self.close(waiting, &mut pieces);
        self.draft.pieces = pieces;
        closed
    }

    /// The same for a message that is not a record, if the history goes on after it: else a
    /// temporary may still answer the calls.
    pub(super) fn close_before(&mut self, rest: &Cursor<'_>) -> Result<()> {
        if rest.peek().is_some() { self.close_calls() } else { Ok(()) }
    }

    /// Adds a repair to `pieces` for each open call.
    pub(super) fn close(&mut self, waiting: Waiting<'_>, pieces: &mut Pieces) -> Result<()> {
        for (position, call) in waiting.left() {
            self.may_repair(|| {
                let ToolCall { id, name, .. } = call;
                format!("{} calls {name:?} ({id:?}) and nothing answers it", who(position))
            })?;
            self.draft.report.repaired.push(Repaired { position, call_id: call.id.clone() });
            pieces.push(Arc::new(no_result(call)), Origin::Repair);
        }
        Ok(())
    }

    /// Leaves out a result without its call; an error if tool groups are strict.
    pub(super) fn orphan(&mut self, record: Record<'_>, id: &str, why: Reason) -> Result<()> {
        let position = record.position();
        self.may_repair(|| match why {
            Reason::Answered => format!("message {position} answers call {id:?} once more"),
            _ => format!("message {position} answers call {id:?}, which nothing before it made"),
        })?;
        self.leave_out(record, why);
        Ok(())
    }

    /// Returns an error that says what needs a repair, if repairs are not allowed.
    pub(super) fn may_repair(&self, what: impl FnOnce() -> String) -> Result<()> {
        if self.case.composer.tool_groups == ToolGroups::FailOnRepair {
            return Err(Error::new(ErrorKind::ToolGroup, "compose", what()));
        }
        Ok(())
    }
}

/// Returns the repair for a call without a recorded result.
pub(in crate::compose) fn no_result(call: &ToolCall) -> Message {
    let result = ToolMessage::new(&call.id, &call.name, NO_RESULT);
    Message::Tool(result.with_error(true))
}

const NO_RESULT: &str = "No result was recorded for this call.";
