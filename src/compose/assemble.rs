//! Assembles the choice: the system message, the history, and the temporaries.

mod groups;
mod pins;
mod temporaries;

use std::mem;
use std::ops::Range;
use std::sync::Arc;

use super::choose::Choice;
use super::copies::Change;
use super::extras::SentSummary;
use super::sent_as::SentAs;
use super::system::System;
use super::{Case, Composer, Copies, NOWHERE};
use crate::error::Result;
use crate::message::Message;
use crate::pins::PinnedGroup;
use crate::prompt::{Draft, LeftOut, Origin, Reason};
use crate::record::{Cursor, Record, Snapshot};
use crate::window::{Fate, Matches};
use groups::LastGroup;
pub(super) use groups::no_result;

/// A draft to which the parts of a prompt are added in order.
struct Assembler<'a> {
    case: Case<'a>,
    /// The summary, until it is sent.
    summary: Option<&'a SentSummary>,
    /// The positions of the pins that are sent before the window.
    passed: Vec<u64>,
    /// The pinned groups still to send, oldest last.
    pins: Vec<&'a PinnedGroup>,
    choice: Choice<'a>,
    copies: Option<&'a mut Copies>,
    draft: Box<Draft>,
    /// The index in the prompt at which the history begins, and that of its last user message.
    history_at: usize,
    last_user: Option<usize>,
    /// True if a pinned user message is sent before the window.
    has_pinned_user: bool,
    /// For a turn that has gone on after its temporaries: what were the end and `last_user` in its
    /// first prompt. They keep these places, though later rounds follow.
    temporaries_at: Option<(usize, Option<usize>)>,
    noted_at: Option<usize>,
    /// The number of records before the window that are sent or dropped.
    earlier: u64,
    /// The last group, while nothing is sent after it: its missing results may be among the
    /// temporaries.
    last_group: Option<LastGroup<'a>>,
    /// The next group to send, and the groups that were sent with a compaction before it.
    next_group: usize,
    with_compaction: Range<usize>,
}

struct Member<'a> {
    place: usize,
    record: Record<'a>,
    copy: Option<(Arc<Message>, Change)>,
}

pub(super) fn assemble<'a>(
    case: Case<'a>,
    system: System,
    choice: Choice<'a>,
    copies: Option<&'a mut Copies>,
) -> Result<(Box<Draft>, Matches<'a>)> {
    let draft = Draft::begin(case.snapshot, system);
    let history_at = draft.pieces.len();
    let mut assembler = Assembler {
        case,
        summary: case.extras.summary.as_ref(),
        passed: Vec::new(),
        pins: Vec::new(),
        choice,
        copies,
        draft,
        history_at,
        last_user: None,
        has_pinned_user: false,
        temporaries_at: None,
        noted_at: None,
        earlier: 0,
        last_group: None,
        next_group: 0,
        with_compaction: 0..0,
    };
    assembler.history()?;
    assembler.temporaries(case.temporaries.messages)?;
    if let Some(copies) = assembler.copies {
        copies.end();
    }
    Ok((assembler.draft, assembler.choice.matches))
}

impl<'a> Assembler<'a> {
    /// Adds the records of the window, and what is sent before them. Temporaries with a position,
    /// and the notes of a turn, are sent before the record at that position.
    fn history(&mut self) -> Result<()> {
        let Case { snapshot, temporaries, .. } = self.case;
        let records = &snapshot.records;
        let Choice { window_from, start, is_compacted, .. } = self.choice;
        let first = self.first_position();
        self.pass_pins();
        let start = if is_compacted { self.compaction(start)? } else { start };
        self.front(first)?;
        self.report_unsent(first);
        let mut rest = records.cursor(if is_compacted { start } else { window_from });
        // Tool results between the two, whose call is older.
        while rest.at() < start
            && let Some(record) = rest.next()
        {
            if !self.is_passed(record) {
                self.other(rest.at() - 1, record, Some(Reason::Opening))?;
            }
        }
        let behind =
            |position| records.iter().rev().take_while(|it| it.position() >= position).count();
        let place_of = |position| records.len() - behind(position);
        let mut temporaries_from = temporaries.before.map(place_of);
        let notes = temporaries.notes.iter().map(|(position, note)| (place_of(*position), note));
        let mut notes = notes.peekable();
        loop {
            let noted_from = notes.peek().map(|(place, _)| *place);
            let next = noted_from.into_iter().chain(temporaries_from).min();
            self.share_as_is(&mut rest, next.unwrap_or(records.len()))?;
            if let Some((_, note)) = notes.next_if(|(place, _)| rest.at() >= *place) {
                self.close_before(&rest)?;
                self.noted_at.get_or_insert(self.draft.pieces.len());
                self.draft.pieces.push(Arc::clone(note), Origin::Temporary);
                continue;
            }
            if temporaries_from.is_some_and(|place| rest.at() >= place) {
                self.close_before(&rest)?;
                self.temporaries_at = Some((self.draft.pieces.len(), self.last_user));
                temporaries_from = None;
                continue;
            }
            let place = rest.at();
            let Some(record) = rest.next() else { break };
            if self.is_passed(record) {
                continue;
            }
            if let Some(why) = self.choice.omits(place) {
                self.leave_out(record, why);
                continue;
            }
            match self.choice.matches.group_at(place) {
                Some(group) => self.group(group)?,
                None => self.other(place, record, None)?,
            }
        }
        Ok(())
    }

    /// Returns the position from which the window covers everything.
    fn first_position(&self) -> u64 {
        let snapshot = self.case.snapshot;
        match snapshot.records.get(self.choice.window_from) {
            _ if self.choice.takes_all => snapshot.start.max(self.covered()),
            Some(record) => record.position(),
            None => snapshot.end,
        }
    }

    /// Adds what is sent before the window: pins, the summary, a notice, questions, and groups with
    /// a late result.
    fn front(&mut self, first: u64) -> Result<()> {
        let records = &self.case.snapshot.records;
        let front = mem::take(&mut self.choice.front);
        let opening = front.first().and_then(|place| records.get(*place));
        self.extras_before(opening.map_or(u64::MAX, |record| record.position()))?;
        self.notice(first, &front)?;
        for place in front {
            let Some(record) = records.get(place) else { continue };
            self.extras_before(record.position())?;
            if let Some(group) = self.choice.matches.group_at(place) {
                self.group(group)?;
            } else {
                self.close_calls()?;
                if self.message(place, record)? {
                    self.draft.report.question.push(record.position());
                }
            }
        }
        self.extras_before(u64::MAX)
    }

    /// Reports the records that are not sent: those before the position `first`, and unreadable
    /// ones.
    fn report_unsent(&mut self, first: u64) {
        let snapshot = self.case.snapshot;
        let covered = self.covered();
        let of_covered = self.sent_before(covered);
        let covered = covered.min(first).saturating_sub(snapshot.start).saturating_sub(of_covered);
        let pins = self.passed.partition_point(|position| *position < first) as u64;
        let before = first.saturating_sub(snapshot.start);
        let sent = self.earlier.saturating_add(pins);
        let older = before.saturating_sub(sent).saturating_sub(covered);
        self.draft.by_reach = self.case.composer.begins_by_reach(self.case.extras, first);
        let report = &mut self.draft.report;
        report.window = first;
        report.covered = covered;
        *(if self.choice.is_full { &mut report.over_budget } else { &mut report.older }) = older;
        report.search_ended = self.choice.search_ended;
        let lost = snapshot.unreadable.iter().filter(|row| row.position >= first);
        report.unreadable.extend(lost.map(|row| row.position));
    }

    /// Sends the provider's own compaction, with which the history begins, and its results.
    /// Everything sent from before it goes after it, even temporaries at the top. Returns the next
    /// place.
    fn compaction(&mut self, place: usize) -> Result<usize> {
        let Some(record) = self.case.snapshot.records.get(place) else { return Ok(place) };
        let group = self.choice.matches.group_at(place);
        if group.is_some_and(|group| self.waits(group)) {
            // Its results may be among the temporaries: nothing may come between.
            self.draft.report.compaction = Some(record.position());
            return Ok(place);
        }
        match group {
            Some(group) => {
                self.group(group)?;
                self.with_compaction = group..mem::take(&mut self.next_group);
            }
            None => drop(self.message(place, record)?),
        }
        self.close_calls()?;
        let is_sent = self.draft.pieces.len() > self.history_at;
        // If the processor dropped it, it replaces nothing.
        self.draft.report.compaction = is_sent.then_some(record.position());
        self.history_at = self.draft.pieces.len();
        Ok(place + 1)
    }

    /// Returns whether a group at the end of the history has calls without results.
    fn waits(&self, group: usize) -> bool {
        let Some(group_of) = self.choice.matches.groups().get(group) else { return false };
        let mut behind = self.case.snapshot.records.cursor(group_of.head + 1);
        behind.pass(|message| message.is_tool() || message.is_private());
        behind.peek().is_none() && self.choice.matches.unanswered(group).next().is_some()
    }

    /// Adds the notice, if messages before the window (which opens at this position) are not shown.
    fn notice(&mut self, first: u64, front: &[usize]) -> Result<()> {
        let oldest = self.case.snapshot.start.max(self.covered());
        let pins = &self.passed;
        let pins = pins.partition_point(|it| *it < first) - pins.partition_point(|it| *it < oldest);
        let not_shown = first.saturating_sub(oldest).saturating_sub(pins as u64);
        let matches = &self.choice.matches;
        let chosen = |place: &usize| {
            1 + matches.group_at(*place).map_or(0, |group| matches.answered(group) as u64)
        };
        let in_front: u64 = front.iter().map(chosen).sum(); // at most
        let notice = self.case.composer.notice_of(not_shown.saturating_sub(in_front));
        if let Some((count, message)) = notice {
            self.close_calls()?;
            self.draft.report.notice = Some(count);
            self.draft.pieces.push(Arc::new(message), Origin::Notice);
        }
        Ok(())
    }

    fn checks_groups(&self) -> bool {
        self.case.composer.checks_groups()
    }

    /// Shares the next records before the place `until`, while each is sent unchanged, regardless
    /// of its neighbours.
    fn share_as_is(&mut self, rest: &mut Cursor<'_>, until: usize) -> Result<()> {
        let start = rest.at();
        let (mut passed, mut last_user) = (0, None);
        let all_are_sent = self.choice.omitted.is_empty();
        rest.pass(|message| {
            let pass = start + passed < until
                && sends_as_is(self.case.composer, message)
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

    /// Sends or reports a record that has no calls. Results whose group is not sent are left out
    /// for the reason `unless_sent`, if given.
    fn other(
        &mut self,
        place: usize,
        record: Record<'a>,
        unless_sent: Option<Reason>,
    ) -> Result<()> {
        match record.message() {
            message if message.is_private() => {
                self.draft.report.private += 1;
                Ok(())
            }
            Message::System(_) => self.late_system(place, record),
            Message::Tool(tool) if self.checks_groups() => {
                let id = tool.call_id();
                match (self.choice.matches.fate(place), unless_sent) {
                    (Fate::Sent { group, .. }, _) if self.choice.sends(group) => {}
                    (_, Some(why)) => self.leave_out(record, why),
                    (Fate::Sent { group, .. }, None) => {
                        let head = self.choice.matches.groups().get(group).map(|it| it.head);
                        let why = head.and_then(|head| self.choice.omits(head));
                        self.leave_out(record, why.unwrap_or(Reason::NoCall));
                    }
                    (Fate::Replaced, None) => self.leave_out(record, Reason::Replaced),
                    (Fate::Answered, None) => self.orphan(record, id, Reason::Answered)?,
                    (Fate::NoCall, None) => self.orphan(record, id, Reason::NoCall)?,
                }
                Ok(())
            }
            _ => {
                self.close_calls()?;
                self.message(place, record).map(drop)
            }
        }
    }

    /// Sends a system message among the records in its place if the provider takes that; else
    /// leaves it out.
    fn late_system(&mut self, place: usize, record: Record<'a>) -> Result<()> {
        if self.case.composer.provider.is_some_and(|provider| provider.row().takes_late_system()) {
            self.close_calls()?;
            if self.message(place, record)? {
                self.draft.report.kept_systems.push(record.position());
            }
        } else {
            self.leave_out(record, Reason::SecondSystem);
        }
        Ok(())
    }

    /// Sends one record outside of any group; `false` if the processor dropped it.
    fn message(&mut self, place: usize, record: Record<'a>) -> Result<bool> {
        let member = self.judge(place, record)?;
        match &member {
            Some(member) => self.send(member),
            None => self.drop_at(place, record, Reason::Dropped),
        }
        Ok(member.is_some())
    }

    /// Returns the record as it is sent: shared if unchanged, else a truncated or cleared copy;
    /// `None` if the processor dropped it.
    fn judge(&mut self, place: usize, record: Record<'a>) -> Result<Option<Member<'a>>> {
        let form = self.case.form(place, &record);
        // A message that is spared this time is cut the next time.
        let remembers = !form.whole;
        if remembers
            && let Some(known) = self.copies.as_mut().and_then(|copies| copies.of(&record, form))
        {
            let copy = Some((Arc::clone(&known.copy), known.change));
            return Ok(Some(Member { place, record, copy }));
        }
        let copy = match self.case.sent_as(&record, form)? {
            SentAs::AsItIs => None,
            SentAs::Copy(copy, change) => Some((copy, change)),
            SentAs::Nothing => return Ok(None),
        };
        if let (Some((copy, change)), Some(copies), true) = (&copy, &mut self.copies, remembers) {
            copies.keep(&record, form, copy, *change);
        }
        Ok(Some(Member { place, record, copy }))
    }

    fn send(&mut self, member: &Member<'_>) {
        self.earlier += u64::from(member.place < self.choice.window_from);
        self.put(member);
        if member.record.message().is_user() {
            self.last_user = Some(self.draft.pieces.len() - 1);
        }
    }

    /// Adds a record in the form in which it is sent.
    fn put(&mut self, Member { place, record, copy }: &Member<'_>) {
        let Draft { pieces, report, .. } = &mut *self.draft;
        report.sent += 1;
        match copy {
            Some((copy, Change::Cut(cut))) => {
                report.truncated.push(*cut);
                pieces.push(Arc::clone(copy), Origin::Truncated(cut.position));
            }
            Some((copy, Change::Cleared(cleared))) => {
                report.cleared.push(*cleared);
                pieces.push(Arc::clone(copy), Origin::Cleared(cleared.position));
            }
            None if *place == NOWHERE => {
                let message = Arc::new(record.message().clone());
                pieces.push(message, Origin::History(record.position()));
            }
            None => pieces.share(*place..place + 1),
        }
    }

    /// Leaves out a chosen record, since the processor dropped it or a part of its group. A record
    /// before the window is counted in `earlier`, so that the report does not count it as `older`
    /// too; a pinned one is among the `passed`.
    fn drop_at(&mut self, place: usize, record: Record<'_>, why: Reason) {
        self.earlier += u64::from(place < self.choice.window_from && !self.is_passed(record));
        self.leave_out(record, why);
    }

    fn leave_out(&mut self, record: Record<'_>, why: Reason) {
        let (position, role) = (record.position(), record.message().role());
        self.draft.report.left_out.push(LeftOut { position, role, why });
    }
}

impl Draft {
    #[inline]
    pub(super) fn begin(snapshot: &Snapshot, system: System) -> Box<Self> {
        let mut draft = Box::<Self>::default();
        draft.report.held = snapshot.start..snapshot.end;
        draft.report.stored = snapshot.end.saturating_sub(snapshot.start);
        draft.report.system = system.source;
        draft.report.system_overridden = system.overridden;
        if let Some(message) = system.message {
            draft.pieces.push(message, Origin::System);
        }
        draft
    }
}

/// Returns whether a record is sent unchanged, regardless of its neighbours.
fn sends_as_is(composer: &Composer, message: &Message) -> bool {
    let alone = match message {
        Message::User(_) => true,
        Message::Ai(ai) => !composer.checks_groups() || !ai.has_tool_calls(),
        Message::Tool(_) => !composer.checks_groups(),
        other => !other.is_system() && !other.is_private(),
    };
    alone
        && composer.clear.as_ref().is_none_or(|clear| !clear.may_clear(message))
        && composer.truncate.as_ref().is_none_or(|truncate| truncate.surely_keeps(message))
}
