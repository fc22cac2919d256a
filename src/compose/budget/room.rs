//! The part of the history that fits into a token budget.

use std::sync::Arc;

use super::CountedBudget;
use crate::compose::assemble::no_result;
use crate::compose::choose::{Fit, MessageRoom, Room, Unit};
use crate::compose::clear::Clearing;
use crate::compose::counts::{Counts, Form};
use crate::compose::sent_as::SentAs;
use crate::compose::system::System;
use crate::compose::{Case, Composer, Temporaries};
use crate::error::Result;
use crate::message::Message;
use crate::pins::Pinned;
use crate::prompt::{Item, Origin, Tokens};
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
    /// The newest unit, by its head, and its tokens.
    newest: Option<(usize, usize)>,
    /// The places of the newest turn's question, and whether it is not cut.
    question: Vec<usize>,
    is_spared: bool,
    /// A window that counts messages holds too.
    messages: MessageRoom,
    /// The most units that may be taken, beside the end of the newest question and the questions
    /// of other turns that are owed a place. With one alone nothing is sent but what must be.
    most: usize,
    walk: Walk,
}

/// A walk from the newest unit back.
#[derive(Default)]
struct Walk {
    /// The units that count.
    units: usize,
    /// The tokens of what is taken, and of all that was met.
    sum: usize,
    met: usize,
    /// The tokens of what is owed a place and was not met yet.
    owed: usize,
    /// For a budget in steps: the place within its range that may begin the history longest.
    place: Option<Start>,
    /// The last place that was met there, whose level depends on what stands before it.
    last: Option<(usize, u64)>,
    /// True if the number of units has ended the walk.
    is_counted_out: bool,
}

/// A place where the history may begin.
#[derive(Clone, Copy)]
struct Start {
    place: usize,
    /// The exponent of the power of two whose multiples it is behind.
    level: u32,
}

impl Walk {
    /// Notes that a unit starts at this position, before those that were met.
    ///
    /// The place that was met last is the first behind a multiple of some power of two: the higher
    /// that is, the longer it stays the best start while the conversation moves past it. Every
    /// position counts for one place, so that it does not matter at which ones the calls stand.
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
        let Case { composer, snapshot, extras, clearing, temporaries } = case;
        let counter = &*limit.counter;
        let available = limit.budget.available();
        let reply = counter.overhead().reply;
        let tools = composer.tools_of(temporaries);
        let tools = tools.map_or(Ok(0), |it| counts.tools(it, composer.provider, counter))?;
        let Temporaries { messages: temporaries, note, kept_free, still_free, .. } = temporaries;
        let mut fixed = reply.saturating_add(tools).saturating_add(still_free);
        let note = note.iter().map(|(note, _)| *note);
        let others = temporaries.iter().chain(note).filter(|message| !message.is_system());
        for message in system.message.iter().chain(others) {
            fixed = fixed.saturating_add(counts.shared(message, counter)?);
        }
        let lasting = composer.system_message(snapshot, &[]);
        let lasting = lasting.message.map_or(Ok(0), |system| counts.shared(&system, counter))?;
        let high = limit.budget.range.map_or(usize::MAX, |(_, high)| high);
        let whole = available.min(high).saturating_sub(reply);
        let whole = whole.saturating_sub(tools).saturating_sub(lasting);
        let whole = whole.saturating_sub(kept_free);
        let records = &snapshot.records;
        let is_spared = composer.truncate.as_ref().is_some_and(Truncate::spares_question);
        let mut room = Self {
            limit,
            composer,
            snapshot,
            pinned: &extras.pinned,
            temporaries,
            clearing,
            counts,
            tools,
            whole,
            left: available.saturating_sub(fixed),
            newest: None,
            question: last_question(records, 0, records.len()).0,
            is_spared,
            messages: composer.message_room(extras),
            most,
            walk: Walk::default(),
        };
        let summary = extras.summary.as_ref();
        let summary = summary.map_or(Ok(0), |it| room.counts.summary(&it.message, counter))?;
        let extras = room.pins()?.saturating_add(summary);
        room.whole = room.whole.saturating_sub(extras);
        room.left = room.left.saturating_sub(extras);
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

    /// Returns the number of units that are taken and count.
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
                            let whole = self.is_spared(place);
                            let form = Form { whole, cleared: self.clearing.of(&record) };
                            self.counts.record(record, form, count)?
                        }
                        None => count()?,
                    },
                    Origin::Repair => {
                        let name = message.as_tool().map_or("", |tool| tool.tool_name());
                        self.counts.repair(name, message, counter)?
                    }
                    // These are made again for each prompt, so their counts are not remembered.
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
    fn weigh(&mut self, records: &Records, unit: &Unit, matches: &Matches<'_>) -> Result<usize> {
        let is_newest = self.newest.is_some_and(|(head, _)| head == unit.head);
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
        self.is_spared && self.question.binary_search(&place).is_ok()
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
    fn is_out(&self, tokens: usize, fits: bool) -> bool {
        let is_too_much = match self.limit.budget.range {
            Some(_) => self.walk.met > self.whole,
            None => !fits,
        };
        is_too_much && tokens > self.whole / 2
    }
}

impl Room for TokenRoom<'_> {
    fn begin(&mut self, records: &Records, owed: &[Unit], matches: &Matches<'_>) -> Result<()> {
        self.messages.begin(records, owed, matches)?;
        let pieces = owed.iter().skip(1).filter(|unit| self.question.contains(&unit.head)).count();
        self.walk = Walk { units: pieces.max(1), ..Walk::default() };
        self.newest = owed.first().map(|unit| (unit.head, 0));
        for unit in owed {
            let tokens = self.weigh(records, unit, matches)?;
            self.walk.owed = self.walk.owed.saturating_add(tokens);
            if let Some((head, of_it)) = &mut self.newest
                && *head == unit.head
            {
                *of_it = tokens;
            }
        }
        Ok(())
    }

    fn fit(
        &mut self,
        records: &Records,
        unit: &Unit,
        is_owed: bool,
        matches: &Matches<'_>,
    ) -> Result<Fit> {
        let tokens = self.weigh(records, unit, matches)?;
        let (low, high) = self.limit.budget.range.unwrap_or((usize::MAX, usize::MAX));
        let start = unit.start(matches);
        let position = self.snapshot.position(start);
        self.walk.pass(position);
        self.walk.met = self.walk.met.saturating_add(tokens);
        let sum = self.walk.sum.saturating_add(tokens);
        if is_owed {
            self.walk.owed = self.walk.owed.saturating_sub(tokens);
        } else if self.walk.units >= self.most {
            self.walk.is_counted_out = true;
            return Ok(Fit::Ends);
        }
        if self.messages.fit(records, unit, is_owed, matches)? == Fit::Ends {
            return Ok(Fit::Ends);
        }
        if !is_owed && !self.pins_unit(records, unit) {
            let most = self.left.saturating_sub(self.walk.owed).min(high);
            if self.is_out(tokens, sum <= most) {
                self.messages.put_back(unit, matches);
                return Ok(Fit::Omitted);
            }
            if sum > most {
                return Ok(Fit::Ends);
            }
        }
        self.walk.units += usize::from(!is_owed && self.question.last() != Some(&unit.head));
        self.walk.sum = sum;
        // The history can't begin at a late result, since its call stands elsewhere.
        if sum >= low && start == unit.head {
            self.walk.last = Some((start, position));
        }
        Ok(Fit::Taken)
    }

    fn start(&self, end: usize) -> usize {
        let best = self.walk.place.filter(|_| !self.walk.is_counted_out);
        best.map_or(end, |best| best.place)
    }

    fn pieces(&mut self, records: &Records, question: &[usize], owed: &[usize]) -> Result<usize> {
        let most = self.messages.pieces(records, question, owed)?;
        let newest = self.newest.filter(|(head, _)| !owed.contains(head));
        let mut others = newest.map_or(0, |(_, tokens)| tokens);
        for place in owed {
            others = others.saturating_add(self.record(records, *place)?);
        }
        let mut sum = 0_usize;
        for (i, place) in question.iter().rev().take(most).enumerate() {
            sum = sum.saturating_add(self.record(records, *place)?);
            let fits = self.most > 1
                && sum.saturating_add(others) <= self.left
                && (i == 0 || sum <= self.whole / 2);
            let is_owed = i == 0 && owed.is_empty();
            if !fits && !is_owed {
                return Ok(i);
            }
        }
        Ok(most)
    }

    fn is_budget(&self) -> bool {
        true
    }
}
