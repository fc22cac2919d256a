//! The part of the history that fits into a token budget.

use std::sync::Arc;

use super::CountedBudget;
use crate::compose::choose::{Fit, MessageRoom, Room, Unit};
use crate::compose::clear::Clearing;
use crate::compose::counts::{Counts, Form};
use crate::compose::sent_as::SentAs;
use crate::compose::system::System;
use crate::compose::take::no_result;
use crate::compose::{Case, Composer, Temporaries};
use crate::composed::{Item, Origin, Tokens};
use crate::error::Result;
use crate::message::Message;
use crate::pins::Pinned;
use crate::record::{Record, Records, Snapshot};
use crate::truncate::Truncate;
use crate::window::{Matches, last_question};

/// The room that a budget leaves for the history.
pub(super) struct TokenRoom<'a> {
    limit: &'a CountedBudget,
    composer: &'a Composer,
    snapshot: &'a Snapshot,
    /// The pins, which are always sent, and paid for before anything else.
    pinned: &'a Pinned,
    temporaries: &'a [Arc<Message>],
    clearing: Clearing<'a>,
    counts: &'a mut Counts,
    /// The tokens of the tools' definitions.
    tools: usize,
    /// The most room for history that there can be, whatever else is sent with this prompt. A unit
    /// of more than half of it may be left out alone.
    whole: usize,
    /// The tokens that are left for history in this prompt.
    left: usize,
    /// The tokens of the newest unit, as far as they are known.
    newest: usize,
    /// The newest turn's question, which is never left out, and the places of what is not cut.
    question: Option<usize>,
    spared: Vec<usize>,
    /// A window that counts messages holds too.
    messages: MessageRoom,
    /// The most units that may be taken.
    most: usize,
    walk: Walk,
}

/// A walk from the newest unit back.
#[derive(Default)]
struct Walk {
    units: usize,
    /// The tokens of what is taken, and of all that was met.
    sum: usize,
    met: usize,
    /// The tokens of the questions that are sent besides.
    asked: usize,
    /// For a budget in steps: the place within its range whose position can be halved most often.
    place: Option<(u32, usize)>,
    /// True where the number of units has ended the walk.
    is_counted_out: bool,
}

impl<'a> TokenRoom<'a> {
    pub(super) fn new(
        limit: &'a CountedBudget,
        case: Case<'a>,
        system: &System,
        counts: &'a mut Counts,
        most: usize,
    ) -> Result<Self> {
        let Case { composer, snapshot, beside, clearing, temporaries } = case;
        let counter = &*limit.counter;
        let available = limit.budget.available();
        let reply = counter.overhead().reply;
        let tools = composer.tools_of(temporaries);
        let tools = tools.map_or(Ok(0), |it| counts.tools(it, composer.provider, counter))?;
        let Temporaries { messages: temporaries, kept_free, still_free, .. } = temporaries;
        let mut fixed = reply.saturating_add(tools).saturating_add(still_free);
        let others = temporaries.iter().filter(|message| !message.is_system());
        for message in system.message.iter().chain(others) {
            fixed = fixed.saturating_add(counts.shared(message, counter)?);
        }
        let notice = composer.notice.as_ref().map(|it| it.message(snapshot.end));
        let notice = notice.map_or(Ok(0), |notice| counter.count(&notice))?;
        fixed = fixed.saturating_add(notice);
        let lasting = composer.system_message(snapshot, &[]);
        let lasting = lasting.message.map_or(Ok(0), |system| counts.shared(&system, counter))?;
        let high = limit.budget.range.map_or(usize::MAX, |(_, high)| high);
        let whole = available.min(high).saturating_sub(reply);
        let whole = whole.saturating_sub(tools).saturating_sub(lasting);
        let whole = whole.saturating_sub(kept_free).saturating_sub(notice);
        let records = &snapshot.records;
        let (asked, _) = last_question(records, 0, records.len());
        let question = asked.last().copied();
        let spares = composer.truncate.as_ref().is_some_and(Truncate::spares_question);
        let mut room = Self {
            limit,
            composer,
            snapshot,
            pinned: &beside.pinned,
            temporaries,
            clearing,
            counts,
            tools,
            whole,
            left: available.saturating_sub(fixed),
            newest: 0,
            question,
            spared: if spares { asked } else { Vec::new() },
            messages: composer.message_room(beside),
            most,
            walk: Walk::default(),
        };
        let summary = beside.summary.as_ref();
        let summary = summary.map_or(Ok(0), |it| room.counts.summary(&it.message, counter))?;
        let beside = room.pins()?.saturating_add(summary);
        room.whole = room.whole.saturating_sub(beside);
        room.left = room.left.saturating_sub(beside);
        Ok(room)
    }

    /// Returns the tokens of all that is pinned.
    fn pins(&mut self) -> Result<usize> {
        let (counter, pinned) = (&*self.limit.counter, self.pinned);
        let mut sum = 0_usize;
        for group in &pinned.groups {
            for record in pinned.records_of(group) {
                sum = sum.saturating_add(self.pin(record)?);
            }
            for call in &group.unanswered {
                let tokens = self.counts.repair(&call.name, &no_result(call), counter)?;
                sum = sum.saturating_add(tokens);
            }
        }
        Ok(sum)
    }

    /// Returns the tokens of a pinned record as it is sent.
    fn pin(&mut self, record: Record<'_>) -> Result<usize> {
        let place = self.snapshot.records.place(record.seq()).map(|(place, _)| place);
        let whole = place.is_some_and(|place| self.is_spared(place));
        let form = Form { whole, cleared: None };
        let count = self.count(record, form);
        if place.is_some() {
            self.counts.record(record, form, count)
        } else {
            self.counts.pinned(record, count)
        }
    }

    /// Returns the number of units that are taken.
    pub(super) fn taken(&self) -> usize {
        self.walk.units
    }

    /// Counts the whole prompt, and each of its messages.
    pub(super) fn tokens<'p>(
        &mut self,
        items: impl Iterator<Item = Item<'p, &'p Arc<Message>>>,
        budget: usize,
    ) -> Result<(Tokens, Vec<usize>)> {
        let counter = &*self.limit.counter;
        let records = &self.snapshot.records;
        let reply = counter.overhead().reply;
        let mut total = reply.saturating_add(self.tools);
        let mut messages = Vec::new();
        for item in items {
            let count = || counter.count(item.borrowed());
            let tokens = match item {
                Item::Record(place, record) => {
                    let form = Form { whole: self.is_spared(place), cleared: None };
                    self.counts.record(record, form, count)?
                }
                Item::Own(message, origin) => match origin {
                    Origin::History(seq) | Origin::Truncated(seq) => match records.find(seq) {
                        Some(record) => self.counts.record(record, Form::default(), count)?,
                        None => match self.pinned.records.find(seq) {
                            Some(record) => self.counts.pinned(record, count)?,
                            None => count()?,
                        },
                    },
                    Origin::Cleared(seq) => match records.place(seq) {
                        Some((place, record)) => {
                            let whole = self.spared.contains(&place);
                            let form = Form { whole, cleared: self.clearing.of(&record) };
                            self.counts.record(record, form, count)?
                        }
                        None => count()?,
                    },
                    Origin::Repair => {
                        let name = message.as_tool().map_or("", |tool| tool.tool_name());
                        self.counts.repair(name, message, counter)?
                    }
                    // These are made anew for each prompt, so their counts are not remembered.
                    Origin::Adapted(_)
                    | Origin::Joined(_)
                    | Origin::Added
                    | Origin::Note
                    | Origin::Notice => count()?,
                    Origin::Summary => self.counts.summary(message, counter)?,
                    Origin::System | Origin::Temporary => self.counts.shared(message, counter)?,
                },
            };
            total = total.saturating_add(tokens);
            messages.push(tokens);
        }
        let (tools, reserve) = (self.tools, self.limit.budget.reserve);
        Ok((Tokens { total, tools, reply, budget, reserve, cut_to: None }, messages))
    }

    /// Returns the tokens of a unit, with the stand-ins for its missing results.
    fn weigh(
        &mut self,
        records: &Records,
        unit: &Unit,
        is_newest: bool,
        matches: &Matches<'_>,
    ) -> Result<usize> {
        let mut sum = self.record(records, unit.head)?;
        if self.pins_unit(records, unit) {
            return Ok(0);
        }
        let Some(group) = unit.group else { return Ok(sum) };
        for place in matches.results_of(group) {
            sum = sum.saturating_add(self.record(records, place)?);
        }
        let counter = &*self.limit.counter;
        for call in matches.unanswered(group) {
            let temporary =
                |m: &Arc<Message>| m.as_tool().is_some_and(|it| call.is_answered_by(it));
            if !(is_newest && self.temporaries.iter().any(temporary)) {
                let tokens = self.counts.repair(&call.name, &no_result(call), counter)?;
                sum = sum.saturating_add(tokens);
            }
        }
        Ok(sum)
    }

    fn is_spared(&self, place: usize) -> bool {
        self.spared.binary_search(&place).is_ok()
    }

    /// Returns the tokens of a record as it is sent.
    fn record(&mut self, records: &Records, place: usize) -> Result<usize> {
        let Some(record) = records.get(place) else { return Ok(0) };
        if self.pinned.holds(record.seq()) {
            return Ok(0); // it is paid for
        }
        let form = Form { whole: self.is_spared(place), cleared: self.clearing.of(&record) };
        let count = self.count(record, form);
        self.counts.record(record, form, count)
    }

    /// Returns what counts a record as it is sent in this form.
    fn count<'r>(
        &self,
        record: Record<'r>,
        form: Form,
    ) -> impl FnOnce() -> Result<usize> + use<'a, 'r>
    where
        'a: 'r,
    {
        let (composer, clearing, counter) = (self.composer, self.clearing, &*self.limit.counter);
        move || match composer.sent_as(&clearing, &record, form)? {
            SentAs::AsItIs => counter.count(record.message()),
            SentAs::Copy(copy, _) => counter.count(&copy),
            SentAs::Nothing => Ok(0),
        }
    }

    /// Returns whether a unit is pinned.
    fn pins_unit(&self, records: &Records, unit: &Unit) -> bool {
        self.pinned.is_pinning()
            && records.get(unit.head).is_some_and(|head| self.pinned.holds(head.seq()))
    }

    /// Returns whether a unit that does not fit is left out alone: one of more than half of all
    /// room.
    ///
    /// In steps this must not depend on what else is sent with this prompt, or it would come and
    /// go: a unit is out as soon as all that was said since then, with it, is more than the room.
    fn is_out(&self, unit: &Unit, tokens: usize, fits: bool) -> bool {
        if tokens <= self.whole / 2 || self.question == Some(unit.head) {
            return false;
        }
        match self.limit.budget.range {
            Some(_) => self.walk.met > self.whole,
            None => !fits,
        }
    }
}

impl Room for TokenRoom<'_> {
    fn begin(&mut self, records: &Records, questions: &[usize]) -> Result<()> {
        self.messages.begin(records, questions)?;
        self.walk = Walk::default();
        for place in questions {
            let tokens = self.record(records, *place)?;
            self.walk.asked = self.walk.asked.saturating_add(tokens);
        }
        Ok(())
    }

    fn fit(
        &mut self,
        records: &Records,
        unit: &Unit,
        is_newest: bool,
        matches: &Matches<'_>,
    ) -> Result<Fit> {
        let tokens = self.weigh(records, unit, is_newest, matches)?;
        let (low, high) = self.limit.budget.range.unwrap_or((usize::MAX, usize::MAX));
        let most = self.left.saturating_sub(self.walk.asked).min(high);
        let sum = self.walk.sum.saturating_add(tokens);
        self.walk.met = self.walk.met.saturating_add(tokens);
        if is_newest {
            self.newest = tokens;
        }
        if !is_newest && self.walk.units >= self.most {
            self.walk.is_counted_out = true;
            return Ok(Fit::Ends);
        }
        if self.messages.fit(records, unit, is_newest, matches)? == Fit::Ends {
            return Ok(Fit::Ends);
        }
        let may_give_way = !is_newest && !self.pins_unit(records, unit);
        if may_give_way && self.is_out(unit, tokens, sum <= most) {
            self.messages.put_back(unit, matches);
            return Ok(Fit::Omitted);
        }
        if may_give_way && sum > most {
            return Ok(Fit::Ends);
        }
        self.walk.units += 1;
        self.walk.sum = sum;
        // The history can't begin at a late result, since its call stands elsewhere. The more often
        // a position can be halved (its trailing zeros), the longer it stays the best start while
        // the conversation moves past it.
        if sum >= low
            && unit.start(matches) == unit.head
            && let Some(record) = records.get(unit.head)
        {
            let halvings = record.seq().trailing_zeros();
            if self.walk.place.is_none_or(|(most, _)| halvings >= most) {
                self.walk.place = Some((halvings, unit.head));
            }
        }
        Ok(Fit::Taken)
    }

    fn start(&self, end: usize) -> usize {
        let place = self.walk.place.filter(|_| !self.walk.is_counted_out);
        place.map_or(end, |(_, place)| place)
    }

    fn pieces(&mut self, records: &Records, question: &[usize]) -> Result<usize> {
        let most = self.messages.pieces(records, question)?;
        let mut sum = 0_usize;
        for (i, place) in question.iter().rev().take(most).enumerate() {
            sum = sum.saturating_add(self.record(records, *place)?);
            let beside = sum.saturating_add(self.newest);
            if i > 0 && (sum > self.whole / 2 || beside > self.left) {
                return Ok(i);
            }
        }
        Ok(most)
    }

    fn is_budget(&self) -> bool {
        true
    }
}
