//! The part of the history that fits into a token budget.

use std::mem;
use std::sync::Arc;

use super::CountedBudget;
use crate::compose::assemble::no_result;
use crate::compose::choose::{Fit, MessageRoom, Room, Unit};
use crate::compose::counts::Counts;
use crate::compose::form::Form;
use crate::compose::sent_as::SentAs;
use crate::compose::system::System;
use crate::compose::{Case, Temporaries};
use crate::error::Result;
use crate::message::{Message, ToolCall};
use crate::pins::PinnedGroup;
use crate::prompt::{Draft, Origin, Tokens};
use crate::record::Record;
use crate::window::{Matches, last_question};

pub(super) struct TokenRoom<'a> {
    limit: &'a CountedBudget,
    case: Case<'a>,
    counts: &'a mut Counts,
    tools: usize,
    /// The most room for history, independent of what else this prompt sends. A unit of more than
    /// half of it may be left out alone.
    whole: usize,
    left: usize,
    /// The newest unit, by its head, and its tokens.
    newest: Option<(usize, usize)>,
    question: Vec<usize>,
    /// A window that counts messages bounds the history too.
    messages: MessageRoom,
    /// The most units that may be taken, in addition to the last message of the newest question and
    /// the owed questions of other turns. If it is 1, only what must be sent is sent.
    most: usize,
    walk: Walk,
}

#[derive(Default)]
struct Walk {
    /// How many units are counted before the walk begins, since they leave last, and the newest
    /// position of each other one that is counted, newest first.
    first: usize,
    others: Vec<u64>,
    /// The tokens of the units taken, and of all units visited.
    sum: usize,
    met: usize,
    /// The tokens of owed units that are not visited yet.
    owed: usize,
    /// For a stepped budget: the place within its range that may begin the history for longest.
    place: Option<Start>,
    /// The last place visited there; its level depends on what comes before it.
    last: Option<(usize, u64)>,
    is_counted_out: bool,
    /// Whether a unit was left out alone.
    has_omitted: bool,
}

#[derive(Clone, Copy)]
struct Start {
    place: usize,
    /// The exponent of the largest power of two that has a multiple between this place and the
    /// place before.
    level: u32,
}

impl Walk {
    fn units(&self) -> usize {
        self.first + self.others.len()
    }

    /// Notes that a unit starts at this position, before those visited so far.
    ///
    /// The last place visited is the first after a multiple of some power of two. The larger that
    /// power, the longer the place stays the best start while the conversation grows. Every
    /// position belongs to exactly one place, so it does not matter at which positions calls are.
    fn pass(&mut self, position: u64) {
        let Some((place, newer)) = self.last.take() else { return };
        let level = (newer ^ position).checked_ilog2().unwrap_or_default();
        if self.place.is_none_or(|best| level >= best.level) {
            self.place = Some(Start { place, level });
        }
    }
}

impl<'a> TokenRoom<'a> {
    pub(super) fn new(
        limit: &'a CountedBudget,
        case: Case<'a>,
        system: &System,
        counts: &'a mut Counts,
        most: usize,
    ) -> Result<Self> {
        let Case { composer, snapshot, extras, temporaries, .. } = case;
        let counter = &*limit.counter;
        let available = limit.budget.available();
        let reply = counter.overhead().reply;
        let tools = composer.tools_of(temporaries);
        let tools = tools.map_or(Ok(0), |it| counts.tools(it, composer.provider, counter))?;
        let Temporaries { messages: temporaries, notes, kept_free, still_free, .. } = temporaries;
        let mut fixed = reply.saturating_add(tools).saturating_add(still_free);
        let notes = notes.iter().map(|(_, note)| note);
        let others = temporaries.iter().chain(notes).filter(|message| !message.is_system());
        for message in system.message.iter().chain(others) {
            fixed = fixed.saturating_add(counts.message(message, counter)?);
        }
        let lasting = composer.system_message(snapshot, &[]);
        let lasting = lasting.message.map_or(Ok(0), |system| counts.message(&system, counter))?;
        let high = limit.budget.range.map_or(usize::MAX, |(_, high)| high);
        let whole = available.min(high).saturating_sub(reply);
        let whole = whole.saturating_sub(tools).saturating_sub(lasting);
        let whole = whole.saturating_sub(kept_free);
        let records = &snapshot.records;
        // A window that is alone owes the question nothing.
        let owes = !composer.effective_window().stands_alone();
        let question = owes.then(|| last_question(records, 0, records.len()).0);
        let mut room = Self {
            limit,
            case,
            counts,
            tools,
            whole,
            left: available.saturating_sub(fixed),
            newest: None,
            question: question.unwrap_or_default(),
            messages: composer.message_room(extras),
            most,
            walk: Walk::default(),
        };
        let summary = extras.summary.as_ref();
        let mut beside = summary.map_or(Ok(0), |it| room.counts.message(&it.message, counter))?;
        for group in &extras.pinned.groups {
            beside = beside.saturating_add(room.pin(group)?);
        }
        room.whole = room.whole.saturating_sub(beside);
        room.left = room.left.saturating_sub(beside);
        Ok(room)
    }

    /// Returns the tokens of a pinned group: 0 if the processor drops a part of it.
    fn pin(&mut self, group: &PinnedGroup) -> Result<usize> {
        let mut sum = 0_usize;
        let case = self.case;
        for (place, record) in group.members.iter().filter_map(|it| case.placed(*it)) {
            let form = case.form(place, &record);
            let count = self.count(record, form);
            let Some(tokens) = self.counts.record(record, form, count)? else { return Ok(0) };
            sum = sum.saturating_add(tokens);
        }
        self.with_repairs(sum, group.unanswered.iter())
    }

    /// Adds the tokens of the repairs for these calls.
    fn with_repairs<'c>(
        &mut self,
        mut sum: usize,
        calls: impl Iterator<Item = &'c ToolCall>,
    ) -> Result<usize> {
        for call in calls {
            let tokens = self.counts.message(&no_result(call), &*self.limit.counter)?;
            sum = sum.saturating_add(tokens);
        }
        Ok(sum)
    }

    /// Returns how many units can be kept at most, if the draft has so many tokens too many: all
    /// that can leave with the others has less.
    pub(super) fn keeps(&self, draft: &Draft, excess: usize) -> usize {
        let items = draft.pieces.items(&self.case.snapshot.records).map(|item| item.origin());
        let sent: Vec<_> = items.zip(&draft.report.message_tokens).collect();
        // What has no position leaves with the record before it, or if it is in front or tells of
        // late results, with any. A late result is before records that are older.
        let (mut at, mut behind, mut with_any) = (u64::MAX, 0_usize, 0_usize);
        let mut leaving = Vec::new();
        for (origin, tokens) in sent.into_iter().rev().filter(|(origin, _)| !self.stays(*origin)) {
            let of = if origin == Origin::Note { &mut with_any } else { &mut behind };
            *of = of.saturating_add(*tokens);
            if let Some(position) = origin.position() {
                at = at.min(position);
                leaving.push((at, mem::take(&mut behind)));
            }
        }
        let mut sum = with_any.saturating_add(behind);
        let oldest = leaving.into_iter().rev().find(|(_, tokens)| {
            sum = sum.saturating_add(*tokens);
            sum >= excess
        });
        let oldest = oldest.map_or(u64::MAX, |(position, _)| position);
        self.walk.first + self.walk.others.partition_point(|newest| *newest >= oldest)
    }

    /// Returns whether a message is sent however few units are. Those of the question leave last,
    /// but for those that the walk has met.
    fn stays(&self, origin: Origin) -> bool {
        let is_asked = |at| {
            let place = self.case.placed(at).map(|(place, _)| place);
            place.is_some_and(|place| self.question.binary_search(&place).is_ok())
        };
        let is_met = |at: u64| self.walk.others.binary_search_by(|it| at.cmp(it)).is_ok();
        let stays = |at| self.case.extras.pinned.holds(at) || is_asked(at) && !is_met(at);
        match origin {
            Origin::System | Origin::Summary => true,
            Origin::Joined(_) => false,
            other => other.position().is_some_and(stays),
        }
    }

    /// Counts the whole prompt, and each of its messages, and reports it. Returns the sum.
    pub(super) fn tokens(&mut self, draft: &mut Draft) -> Result<usize> {
        let counter = &*self.limit.counter;
        let records = &self.case.snapshot.records;
        let reply = counter.overhead().reply;
        let mut total = reply.saturating_add(self.tools);
        let mut messages = Vec::new();
        for item in draft.pieces.items(records) {
            let count = || counter.count(item.borrowed()).map(Some);
            let origin = item.origin();
            let record = match origin {
                Origin::History(at) | Origin::Truncated(at) | Origin::Cleared(at) => {
                    self.case.placed(at)
                }
                _ => None,
            };
            let tokens = match (record, origin) {
                (Some((place, record)), _) => {
                    self.counts.record(record, self.case.form(place, &record), count)?
                }
                (None, Origin::System | Origin::Summary | Origin::Temporary | Origin::Repair) => {
                    Some(self.counts.message(item.borrowed(), counter)?)
                }
                // Others are made again for each prompt, so their counts are not kept.
                _ => count()?,
            };
            let tokens = tokens.unwrap_or(0);
            total = total.saturating_add(tokens);
            messages.push(tokens);
        }
        let (tools, budget) = (self.tools, self.limit.budget.available());
        let reserve = self.limit.budget.reserve;
        draft.report.tokens = Some(Tokens { total, tools, reply, budget, reserve, cut_to: None });
        draft.report.message_tokens = messages;
        Ok(total)
    }

    /// Returns the tokens of a unit, including repairs for missing results: 0 if the processor
    /// drops a part of it.
    fn weigh(&mut self, unit: &Unit, matches: &Matches<'_>) -> Result<usize> {
        if self.pins_unit(unit) {
            return Ok(0); // already counted
        }
        let results = unit.group.map_or_else(Vec::new, |group| matches.results_of(group));
        let mut sum = 0_usize;
        for place in [unit.head].into_iter().chain(results) {
            let Some(tokens) = self.record(place)? else { return Ok(0) };
            sum = sum.saturating_add(tokens);
        }
        let Some(group) = unit.group else { return Ok(sum) };
        let is_newest = self.newest.is_some_and(|(head, _)| head == unit.head);
        let temporaries = self.case.temporaries.messages;
        let comes = |call: &ToolCall| {
            let answers =
                |it: &Arc<Message>| it.as_tool().is_some_and(|it| call.is_answered_by(it));
            is_newest && temporaries.iter().any(answers)
        };
        self.with_repairs(sum, matches.unanswered(group).filter(|call| !comes(call)))
    }

    /// Returns the tokens of a record as it is sent; `None` if the processor drops it.
    fn record(&mut self, place: usize) -> Result<Option<usize>> {
        let Some(record) = self.case.snapshot.records.get(place) else { return Ok(None) };
        if self.case.extras.pinned.holds(record.position()) {
            return Ok(Some(0)); // already counted
        }
        let form = self.case.form(place, &record);
        let count = self.count(record, form);
        self.counts.record(record, form, count)
    }

    /// Returns a function that counts a record as it is sent in this form.
    fn count<'r>(
        &self,
        record: Record<'r>,
        form: Form,
    ) -> impl FnOnce() -> Result<Option<usize>> + use<'a, 'r>
    where
        'a: 'r,
    {
        let (case, counter) = (self.case, &*self.limit.counter);
        move || match case.sent_as(&record, form)? {
            SentAs::AsItIs => counter.count(record.message()).map(Some),
            SentAs::Copy(copy, _) => counter.count(&copy).map(Some),
            SentAs::Nothing => Ok(None),
        }
    }

    fn pins_unit(&self, unit: &Unit) -> bool {
        unit.is_pinned(&self.case.snapshot.records, &self.case.extras.pinned)
    }

    /// Returns whether a unit that does not fit is left out alone, if it is the first of them: one
    /// of more than half of the whole room.
    ///
    /// In a stepped budget this must not depend on what else this prompt sends, or the unit would
    /// come and go: it is left out as soon as it and everything newer have more tokens than the
    /// whole room.
    fn is_out(&self, tokens: usize, fits: bool) -> bool {
        let is_too_much = match self.limit.budget.range {
            Some(_) => self.walk.met > self.whole,
            None => !fits,
        };
        is_too_much && tokens > self.whole / 2
    }
}

impl Room for TokenRoom<'_> {
    fn begin(&mut self, owed: &[Unit], matches: &Matches<'_>) -> Result<()> {
        self.messages.begin(owed, matches)?;
        // The same number, whether the question is owed its place or is met during the walk.
        let begins = self.question.split_last().map_or(&[][..], |(_, begins)| begins);
        let pieces = owed.iter().skip(1).filter(|unit| begins.binary_search(&unit.head).is_ok());
        self.walk = Walk { first: 1 + pieces.count(), ..Walk::default() };
        self.newest = owed.first().map(|unit| (unit.head, 0));
        for unit in owed {
            let tokens = self.weigh(unit, matches)?;
            self.walk.owed = self.walk.owed.saturating_add(tokens);
            if let Some((head, of_it)) = &mut self.newest
                && *head == unit.head
            {
                *of_it = tokens;
            }
        }
        Ok(())
    }

    fn fit(&mut self, unit: &Unit, is_owed: bool, matches: &Matches<'_>) -> Result<Fit> {
        let tokens = self.weigh(unit, matches)?;
        let (low, high) = self.limit.budget.range.unwrap_or((usize::MAX, usize::MAX));
        let start = unit.start(matches);
        let position = self.case.snapshot.position(start);
        self.walk.pass(position);
        self.walk.met = self.walk.met.saturating_add(tokens);
        let sum = self.walk.sum.saturating_add(tokens);
        if is_owed {
            self.walk.owed = self.walk.owed.saturating_sub(tokens);
        }
        let is_counted_out = !is_owed && self.walk.units() >= self.most;
        self.walk.is_counted_out |= is_counted_out;
        if self.messages.fit(unit, is_owed, matches)? == Fit::WindowEnds {
            return Ok(Fit::WindowEnds);
        }
        if is_counted_out {
            self.messages.put_back(unit, matches);
            return Ok(Fit::Ends);
        }
        if !is_owed && !self.pins_unit(unit) {
            let most = self.left.saturating_sub(self.walk.owed).min(high);
            if self.is_out(tokens, sum <= most) {
                self.messages.put_back(unit, matches);
                // Where most units are that large, the walk would collect the small ones between
                // them, as questions without their answers, from the whole history.
                let is_second = mem::replace(&mut self.walk.has_omitted, true);
                return Ok(if is_second { Fit::Ends } else { Fit::Omitted });
            }
            if sum > most {
                return Ok(Fit::Ends);
            }
        }
        if !is_owed && self.question.last() != Some(&unit.head) {
            self.walk.others.push(self.case.snapshot.position(unit.newest));
        }
        self.walk.sum = sum;
        // The history can't begin at a late result, since its call is elsewhere.
        if sum >= low && start == unit.head {
            self.walk.last = Some((start, position));
        }
        Ok(Fit::Taken)
    }

    fn start(&self, end: usize) -> usize {
        let best = self.walk.place.filter(|_| !self.walk.is_counted_out);
        best.map_or(end, |best| best.place)
    }

    fn pieces(&mut self, question: &[usize], owed: &[usize]) -> Result<usize> {
        let most = self.messages.pieces(question, owed)?;
        let newest = self.newest.filter(|(head, _)| !owed.contains(head));
        let mut others = newest.map_or(0, |(_, tokens)| tokens);
        for place in owed {
            others = others.saturating_add(self.record(*place)?.unwrap_or(0));
        }
        let mut sum = 0_usize;
        for (i, place) in question.iter().rev().take(most).enumerate() {
            sum = sum.saturating_add(self.record(*place)?.unwrap_or(0));
            let units = if owed.is_empty() { i.max(1) } else { 1 };
            let fits = self.most > units
                && sum.saturating_add(others) <= self.left
                && (i == 0 || sum <= self.whole / 2);
            let is_owed = i == 0 && owed.is_empty();
            if !fits && !is_owed {
                return Ok(i);
            }
        }
        Ok(most)
    }
}
