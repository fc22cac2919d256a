//! Takes what was chosen: system message, history, temporaries, and what repairs tool groups.

use std::mem;
use std::sync::Arc;

use super::choose::Choice;
use super::system::System;
use super::{Composer, Cuts, Placement, Temporaries};
use crate::composed::{
    Draft, Item, LeftOut, Moved, Origin, Pieces, Repaired, SystemSource, Truncated, Why,
};
use crate::error::{Error, ErrorKind, Result};
use crate::message::{Message, ToolCall, ToolMessage};
use crate::record::{Cursor, Record, Snapshot};
use crate::truncate::{Truncate, Verdict};
use crate::window::{Fate, Row, ToolGroups, last_row};

/// A draft that takes the parts of a prompt one by one.
struct Taking<'a> {
    composer: &'a Composer,
    snapshot: &'a Snapshot,
    choice: Choice<'a>,
    cuts: Option<&'a mut Cuts>,
    draft: Box<Draft>,
    /// The index in the prompt at which the history begins, and that of its last user message.
    history_at: usize,
    last_user: Option<usize>,
    /// The places where that and the temporaries stand for good, in a turn that has gone on behind
    /// them.
    kept: Option<Kept>,
    /// The places of the question that is not cut.
    spared: Row,
    /// The number of records from before the window that are sent.
    earlier: u64,
    /// The group that was sent last, while nothing stands behind it: its missing results may yet be
    /// among the temporaries.
    last_group: Option<LastGroup<'a>>,
    /// The first group that is yet to be sent.
    next_group: usize,
}

/// The end of the prompt, and its last user message, when the temporaries of a turn came.
#[derive(Clone, Copy)]
struct Kept {
    end: usize,
    last_user: Option<usize>,
}

/// The tool group behind which nothing stands so far.
struct LastGroup<'a> {
    /// The index in the prompt at which its results begin.
    results_at: usize,
    waiting: Waiting<'a>,
}

/// A record that is sent, itself or a copy of it.
struct Member<'a> {
    place: usize,
    record: Record<'a>,
    copy: Option<(Arc<Message>, Truncated)>,
}

/// Calls that wait for results, each with the position of its message if it is a record.
#[derive(Default)]
struct Waiting<'a>(Vec<(Option<u64>, &'a ToolCall)>);

impl Waiting<'_> {
    /// Takes a result for the first call that it answers; false where there is none.
    fn answer(&mut self, tool: &ToolMessage) -> bool {
        let found = self.0.iter().position(|(_, call)| call.is_answered_by(tool));
        found.map(|i| self.0.remove(i)).is_some()
    }
}

/// Takes the system message, what was chosen of the history, and the temporaries.
pub(super) fn take<'a>(
    composer: &'a Composer,
    snapshot: &'a Snapshot,
    system: System,
    temporaries: Temporaries<'a>,
    choice: Choice<'a>,
    cuts: Option<&'a mut Cuts>,
) -> Result<Box<Draft>> {
    let mut taking = Taking::new(composer, snapshot, system, choice, cuts);
    taking.history(temporaries.before)?;
    taking.temporaries(temporaries.messages)?;
    if let Some(cuts) = taking.cuts {
        cuts.end();
    }
    Ok(taking.draft)
}

impl<'a> Taking<'a> {
    fn new(
        composer: &'a Composer,
        snapshot: &'a Snapshot,
        system: System,
        choice: Choice<'a>,
        mut cuts: Option<&'a mut Cuts>,
    ) -> Self {
        if let Some(cuts) = &mut cuts {
            cuts.begin();
        }
        let draft = Draft::begin(snapshot, system);
        let history_at = draft.pieces.len();
        let spares = composer.truncate.as_ref().is_some_and(Truncate::spares_question);
        let have = snapshot.records.len();
        let question = if spares { last_row(&snapshot.records, 0, have).0 } else { Row::new() };
        Self {
            composer,
            snapshot,
            choice,
            cuts,
            draft,
            history_at,
            last_user: None,
            kept: None,
            spared: question,
            earlier: 0,
            last_group: None,
            next_group: 0,
        }
    }

    /// Adds the records of the window, and what is sent before them. Temporaries stand before the
    /// record at the position `temporaries`, where there is one.
    fn history(&mut self, temporaries: Option<u64>) -> Result<()> {
        let snapshot = self.snapshot;
        let records = &snapshot.records;
        let Choice { covers, start, is_full, search_ended, .. } = self.choice;
        for place in mem::take(&mut self.choice.front) {
            let Some(record) = records.get(place) else { continue };
            let group = self.choice.matches.group_at(place).filter(|_| self.checks_groups());
            if let Some(group) = group {
                self.group(group)?;
            } else {
                self.close_calls()?;
                self.draft.report.question.push(record.seq());
                self.message(place, record)?;
            }
        }
        // A window that takes more than there is covers the rows before the first record too.
        let takes_all = self.composer.effective_window().first_read() > snapshot.rows();
        let first = match records.get(covers) {
            _ if covers == 0 && takes_all && !is_full => snapshot.start,
            Some(record) => record.seq(),
            None => snapshot.end,
        };
        let report = &mut self.draft.report;
        let older = first.saturating_sub(snapshot.start).saturating_sub(self.earlier);
        *(if is_full { &mut report.over_budget } else { &mut report.older }) = older;
        report.search_ended = search_ended;
        let lost = snapshot.unreadable.iter().filter(|row| row.seq >= first);
        report.unreadable.extend(lost.map(|row| row.seq));
        let mut rest = records.cursor(covers);
        while rest.at() < start
            && let Some(record) = rest.next()
        {
            self.other(rest.at() - 1, record, Some(Why::Opening))?;
        }
        let behind = |position| records.iter().rev().take_while(|it| it.seq() >= position).count();
        let mut halt = temporaries.map(|position| records.len() - behind(position));
        loop {
            self.share_plain(&mut rest, halt.unwrap_or(records.len()))?;
            if halt.is_some_and(|halt| rest.at() >= halt) {
                let (end, last_user) = (self.draft.pieces.len(), self.last_user);
                (self.kept, halt) = (Some(Kept { end, last_user }), None);
                continue;
            }
            let place = rest.at();
            let Some(record) = rest.next() else { break };
            if let Some(why) = self.choice.omits(place) {
                self.leave_out(record, why);
                continue;
            }
            match self.choice.matches.group_at(place).filter(|_| self.checks_groups()) {
                Some(group) => self.group(group)?,
                None => self.other(place, record, None)?,
            }
        }
        Ok(())
    }

    /// Adds the temporary messages, and the results that calls at the end of the history still
    /// lack.
    fn temporaries(&mut self, temporaries: &'a [Arc<Message>]) -> Result<()> {
        let report = &mut self.draft.report;
        report.temporaries = temporaries.len();
        report.no_user_message = report.sent > 0
            && self.last_user.is_none()
            && !temporaries.iter().any(|message| message.is_user());
        // Some formats write results in the order of the calls: one that is still to come may stand
        // before those that are there, so none of them is durable yet.
        let waiting = self.last_group.as_ref().filter(|group| !group.waiting.0.is_empty());
        self.draft.durable = waiting.map_or(self.draft.pieces.len(), |group| group.results_at);
        self.note();
        if temporaries.is_empty() {
            return self.close_calls();
        }
        let mut block = Pieces::default();
        let mut asked = Waiting::default();
        for (index, temporary) in temporaries.iter().enumerate() {
            match temporary.as_ref() {
                Message::System(_) => continue,
                Message::Tool(tool) if self.checks_groups() => {
                    if asked.answer(tool) {
                        // It stays where it is, behind its call.
                    } else if self
                        .last_group
                        .as_mut()
                        .is_some_and(|group| group.waiting.answer(tool))
                    {
                        self.draft.pieces.push(Arc::clone(temporary), Origin::Temporary);
                        continue;
                    } else {
                        self.orphan_temporary(index, tool.call_id())?;
                    }
                }
                message => {
                    self.close(mem::take(&mut asked), &mut block)?;
                    if self.checks_groups() {
                        asked.0.extend(message.tool_calls().map(|call| (None, call)));
                    }
                }
            }
            block.push(Arc::clone(temporary), Origin::Temporary);
        }
        self.close(asked, &mut block)?;
        self.close_calls()?;
        if block.len() > 0 {
            let now = Kept { end: self.draft.pieces.len(), last_user: self.last_user };
            let Kept { end, last_user } = self.kept.unwrap_or(now);
            let at = match self.composer.placement {
                Placement::AfterSystem => self.history_at,
                Placement::BeforeLastUser => last_user.unwrap_or(end),
                Placement::End => end,
            };
            self.draft.durable = self.draft.durable.min(at);
            self.draft.pieces.insert(at, block);
        }
        Ok(())
    }

    fn checks_groups(&self) -> bool {
        self.composer.checks_groups()
    }

    /// Shares the next records before the place `halt`, as far as each is sent as it is, whatever
    /// stands around it.
    fn share_plain(&mut self, rest: &mut Cursor<'_>, halt: usize) -> Result<()> {
        let start = rest.at();
        let (mut passed, mut last_user) = (0, None);
        let all_are_sent = self.choice.omitted.is_empty();
        rest.pass(|message| {
            let pass = start + passed < halt
                && self.composer.sends_as_is(message)
                && (all_are_sent || self.choice.omits(start + passed).is_none());
            if pass && message.is_user() {
                last_user = Some(passed);
            }
            passed += 1;
            pass
        });
        if rest.at() == start {
            return Ok(());
        }
        self.close_calls()?;
        if let Some(user) = last_user {
            self.last_user = Some(self.draft.pieces.len() + user);
        }
        self.draft.report.sent += rest.at() - start;
        self.draft.pieces.share(start..rest.at());
        Ok(())
    }

    /// Sends or reports a record that is no call. With `unless_sent`, results whose group is not
    /// sent are left out for that reason.
    fn other(&mut self, place: usize, record: Record<'a>, unless_sent: Option<Why>) -> Result<()> {
        match record.message() {
            message if message.is_private() => {
                self.draft.report.private += 1;
                Ok(())
            }
            Message::System(_) => self.late_system(place, record),
            Message::Tool(tool) if self.checks_groups() => {
                match (self.choice.matches.fate(place), unless_sent) {
                    (Fate::Sent { group, .. }, _) if self.choice.sends(group) => {}
                    (_, Some(why)) => self.leave_out(record, why),
                    (Fate::Sent { group, .. }, None) => {
                        let head = self.choice.matches.groups().get(group).map(|it| it.head);
                        let why = head.and_then(|head| self.choice.omits(head));
                        self.leave_out(record, why.unwrap_or(Why::NoCall));
                    }
                    (Fate::Replaced, None) => self.leave_out(record, Why::Replaced),
                    (Fate::Answered, None) => {
                        self.orphan(record, tool.call_id(), Why::Answered)?;
                    }
                    (Fate::NoCall, None) => {
                        self.orphan(record, tool.call_id(), Why::NoCall)?;
                    }
                }
                Ok(())
            }
            _ => {
                self.close_calls()?;
                self.message(place, record)
            }
        }
    }

    /// Sends a system message among the records in its place where the provider takes that; else
    /// leaves it out.
    fn late_system(&mut self, place: usize, record: Record<'a>) -> Result<()> {
        if self.composer.provider.is_some_and(|provider| provider.rules().late_system) {
            self.close_calls()?;
            self.draft.report.kept_systems.push(record.seq());
            self.message(place, record)?;
        } else {
            self.leave_out(record, Why::SecondSystem);
        }
        Ok(())
    }

    /// Sends one record that belongs to no group.
    fn message(&mut self, place: usize, record: Record<'a>) -> Result<()> {
        match self.judge(place, record)? {
            Some(member) => self.send(&member),
            None => self.leave_out(record, Why::Dropped),
        }
        Ok(())
    }

    /// Returns the record as it is sent: shared where it fits, else as a truncated copy; `None`
    /// where the processor dropped it.
    fn judge(&mut self, place: usize, record: Record<'a>) -> Result<Option<Member<'a>>> {
        let message = record.message();
        let truncate = self.composer.truncate.as_ref();
        let truncate = truncate.filter(|_| self.spared.binary_search(&place).is_err());
        let Some(truncate) = truncate else {
            return Ok(Some(Member { place, record, copy: None }));
        };
        if let Some(known) = self.cuts.as_mut().and_then(|cuts| cuts.of(&record)) {
            let copy = Some((Arc::clone(&known.copy), known.report));
            return Ok(Some(Member { place, record, copy }));
        }
        let copy = match truncate.judge(message, record.seq())? {
            Verdict::Keep => None,
            Verdict::Replace(copy) => {
                let report = Truncated {
                    seq: record.seq(),
                    role: message.role(),
                    from: message.texts().map(str::len).sum(),
                    to: copy.texts().map(str::len).sum(),
                };
                let copy = Arc::new(copy);
                if let Some(cuts) = &mut self.cuts {
                    cuts.keep(&record, &copy, report);
                }
                Some((copy, report))
            }
            Verdict::Drop => return Ok(None),
        };
        Ok(Some(Member { place, record, copy }))
    }

    fn send(&mut self, member: &Member<'_>) {
        let Member { place, record, copy } = member;
        self.earlier += u64::from(*place < self.choice.covers);
        match copy {
            None => self.draft.pieces.share(*place..place + 1),
            Some((copy, report)) => self.draft.replace(copy, report),
        }
        if record.message().is_user() {
            self.last_user = Some(self.draft.pieces.len() - 1);
        }
        self.draft.report.sent += 1;
    }

    /// Sends a tool group: all of it, or nothing.
    ///
    /// For a provider that takes neighbouring answers as one, those that stand side by side go
    /// together: all their calls, and then all results.
    fn group(&mut self, group: usize) -> Result<()> {
        if group < self.next_group {
            return Ok(()); // it went with the one before it
        }
        self.close_calls()?;
        self.next_group = self.neighbours(group);
        let mut whole = Vec::new();
        for group in group..self.next_group {
            if let Some(members) = self.members(group)? {
                whole.push((group, members));
            }
        }
        for (_, members) in &whole {
            members.first().into_iter().for_each(|head| self.send(head));
        }
        let results_at = self.draft.pieces.len();
        let mut waiting = Waiting::default();
        for (group, members) in &whole {
            let call = members.first().map_or(0, |head| head.record.seq());
            for result in members.iter().skip(1) {
                self.send(result);
                if let Fate::Sent { direct: false, .. } = self.choice.matches.fate(result.place) {
                    self.draft.report.moved.push(Moved { seq: result.record.seq(), call });
                }
            }
            let unanswered = self.choice.matches.unanswered(*group);
            waiting.0.extend(unanswered.map(|unanswered| (Some(call), unanswered)));
        }
        if !whole.is_empty() {
            self.last_group = Some(LastGroup { results_at, waiting });
        }
        Ok(())
    }

    /// Returns the members of a group as they are sent, its calls first; `None` where the processor
    /// dropped one of them, which leaves out all.
    fn members(&mut self, group: usize) -> Result<Option<Vec<Member<'a>>>> {
        let head = self.choice.matches.groups().get(group).map(|it| it.head);
        let places = head.into_iter().chain(self.choice.matches.results_of(group));
        let records = places.filter_map(|it| Some((it, self.snapshot.records.get(it)?)));
        let records: Vec<_> = records.collect();
        let mut members = Vec::with_capacity(records.len());
        for (place, record) in &records {
            members.push(self.judge(*place, *record)?);
        }
        if members.iter().all(Option::is_some) {
            return Ok(Some(members.into_iter().flatten().collect()));
        }
        for ((_, record), member) in records.into_iter().zip(members) {
            self.leave_out(record, member.map_or(Why::Dropped, |_| Why::GroupDropped));
        }
        Ok(None)
    }

    /// Returns the first group behind this one that is not joined to it.
    fn neighbours(&self, group: usize) -> usize {
        let joins = self.composer.provider.is_some_and(|provider| provider.rules().joins_calls);
        let groups = self.choice.matches.groups();
        let mut end = group + 1;
        while joins
            && self.choice.sends(end)
            && let (Some(one), Some(next)) = (groups.get(end - 1), groups.get(end))
        {
            let mut between = self.snapshot.records.cursor(one.head + 1);
            between.pass(Message::is_private);
            if between.at() != next.head {
                break;
            }
            end += 1;
        }
        end
    }

    /// Closes the calls that nothing has answered, since another message comes behind them.
    fn close_calls(&mut self) -> Result<()> {
        let Some(LastGroup { waiting, .. }) = self.last_group.take() else { return Ok(()) };
        let mut pieces = mem::take(&mut self.draft.pieces);
        let closed = self.close(waiting, &mut pieces);
        self.draft.pieces = pieces;
        closed
    }

    /// Adds a result to `pieces` for each call that nothing has answered.
    fn close(&mut self, waiting: Waiting<'_>, pieces: &mut Pieces) -> Result<()> {
        for (seq, call) in waiting.0 {
            if self.composer.tool_groups == ToolGroups::FailOnRepair {
                let who =
                    seq.map_or_else(|| "a temporary".to_owned(), |seq| format!("message {seq}"));
                let text =
                    format!("{who} calls {:?} ({:?}) and nothing answers it", call.name, call.id);
                return Err(Error::new(ErrorKind::ToolGroup, "compose", text));
            }
            self.draft.report.repaired.push(Repaired { seq, call_id: call.id.clone() });
            pieces.push(Arc::new(no_result(call)), Origin::Repair);
        }
        Ok(())
    }

    /// Says at the end which results have arrived, where they were sent further up and an answer of
    /// the model would be last: the model has not seen them, and many refuse to go on from their
    /// own words.
    fn note(&mut self) {
        if !self.checks_groups() {
            return;
        }
        let records = &self.snapshot.records;
        let matches = &self.choice.matches;
        let newest = (0..records.len()).rev().zip(records.iter().rev());
        // Messages that are never sent part nothing.
        let newest = newest.filter(|(place, record)| match record.message() {
            Message::Tool(_) => matches!(matches.fate(*place), Fate::Sent { .. }),
            message => !self.composer.never_sends(message),
        });
        let late = newest.map_while(|(place, record)| match matches.fate(place) {
            Fate::Sent { group, direct: false } if self.choice.sends(group) => {
                record.message().as_tool().map(|tool| (record.seq(), tool))
            }
            _ => None,
        });
        let mut late = late.peekable();
        if late.peek().is_none() {
            return;
        }
        let sent = self.draft.pieces.walk(records).map(Item::borrowed);
        let last = sent.filter(|message| !self.composer.never_sends(message)).last();
        if !last.is_some_and(|last| last.as_ai().is_some() && !last.has_tool_calls()) {
            return;
        }
        let mut late: Vec<_> = late.collect();
        late.reverse();
        let names: Vec<String> = late.iter().map(|(_, tool)| called(tool)).collect();
        let text = match names.as_slice() {
            [] => return,
            [one] => format!("The result of {one} has arrived, see above."),
            several => format!("The results of {} have arrived, see above.", several.join(", ")),
        };
        self.draft.report.note = late.iter().map(|(seq, _)| *seq).collect();
        self.draft.pieces.push(Arc::new(Message::user(text)), Origin::Note);
    }

    /// Leaves out a result without its call; an error where tool groups are strict.
    fn orphan(&mut self, record: Record<'_>, id: &str, why: Why) -> Result<()> {
        if self.composer.tool_groups == ToolGroups::FailOnRepair {
            let seq = record.seq();
            let text = match why {
                Why::Answered => format!("message {seq} answers call {id:?} once more"),
                _ => format!("message {seq} answers call {id:?}, which nothing before it made"),
            };
            return Err(Error::new(ErrorKind::ToolGroup, "compose", text));
        }
        self.leave_out(record, why);
        Ok(())
    }

    /// Reports a temporary result without its call; an error where tool groups are strict or a
    /// provider is named.
    fn orphan_temporary(&mut self, index: usize, id: &str) -> Result<()> {
        let text = format!("temporary {index} answers call {id:?}, which nothing made");
        if self.composer.tool_groups == ToolGroups::FailOnRepair {
            return Err(Error::new(ErrorKind::ToolGroup, "compose", text));
        }
        if let Some(provider) = self.composer.provider {
            let text = format!("{text}: {provider} refuses it");
            return Err(Error::new(ErrorKind::Provider, "compose", text));
        }
        self.draft.report.orphan_temporaries.push(index);
        Ok(())
    }

    fn leave_out(&mut self, record: Record<'_>, why: Why) {
        let (seq, role) = (record.seq(), record.message().role());
        self.draft.report.left_out.push(LeftOut { seq, role, why });
    }
}

impl Draft {
    /// Begins a prompt with its system message.
    pub(super) fn begin(snapshot: &Snapshot, system: System) -> Box<Self> {
        let mut draft = Box::<Self>::default();
        draft.report.stored = snapshot.end.saturating_sub(snapshot.start);
        draft.report.system = system.source;
        draft.report.system_overridden = system.overridden;
        if let Some(message) = system.message {
            draft.pieces.push(message, Origin::System);
        }
        draft
    }

    /// Completes the report of a prompt that holds all its messages.
    pub(super) fn finished(mut self: Box<Self>) -> Box<Self> {
        if self.report.system == SystemSource::Temporary {
            self.durable = 0;
        }
        self.report.messages = self.pieces.len();
        self
    }

    /// Sends a copy in the place of a record.
    fn replace(&mut self, copy: &Arc<Message>, report: &Truncated) {
        let truncated = &mut self.report.truncated;
        if truncated.is_empty() {
            // Where one message is too long, others often are too.
            truncated.reserve(MORE);
            self.pieces.reserve(MORE);
        }
        truncated.push(*report);
        self.pieces.push(Arc::clone(copy), Origin::Truncated(report.seq));
    }
}

/// Returns the stand-in for a result that nobody recorded.
pub(super) fn no_result(call: &ToolCall) -> Message {
    let result = ToolMessage::new(&call.id, &call.name, NO_RESULT);
    Message::Tool(result.with_error(true))
}

/// Returns the name of a result in a note: that of its tool, else the id of its call.
fn called(tool: &ToolMessage) -> String {
    match tool.tool_name() {
        "" => format!("{:?}", tool.call_id()),
        name => name.to_owned(),
    }
}

/// The number of truncated messages for which room is made with the first one.
const MORE: usize = 16;

const NO_RESULT: &str = "No result was recorded for this call.";
