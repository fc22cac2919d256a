//! Chooses the part of the history that is sent, by the places of records in the snapshot.

use std::collections::BTreeMap;

use super::extras::Extras;
use super::shape::says_nothing;
use super::{Case, Composer};
use crate::error::Result;
use crate::message::Message;
use crate::pins::Pinned;
use crate::prompt::Reason;
use crate::provider::{Opens, Provider};
use crate::record::{Record, Records, Snapshot, places};
use crate::window::{
    Fate, Matches, NotReady, ToolGroups, WindowStart, last_question, more, whole_groups,
};

/// The part of the history that is sent. Places are indexes into the records that were read.
#[derive(Default)]
pub(super) struct Choice<'a> {
    /// The place from which the window covers all records.
    pub(super) window_from: usize,
    /// The place from which it sends them. Between the two are tool results whose call is older.
    pub(super) start: usize,
    /// True if it covers everything before the first record, too.
    pub(super) takes_all: bool,
    /// The places that are sent before the window, in order: questions, and the calls of tool
    /// groups with a late result in the window.
    pub(super) front: Vec<usize>,
    /// The questions in `front`.
    pub(super) questions: Vec<usize>,
    /// Tool groups (by their calls) and messages in the window that are left out.
    pub(super) omitted: BTreeMap<usize, Reason>,
    pub(super) matches: Matches<'a>,
    /// If something was not found: the position before which nothing was searched.
    pub(super) search_ended: Option<u64>,
    /// True if the history begins with the provider's own compaction of everything before it.
    pub(super) is_compacted: bool,
    /// True if the budget, not the window, decided where the history begins.
    pub(super) is_full: bool,
}

/// A tool group, or a message outside of any group.
#[derive(Clone, Copy, Debug)]
pub(super) struct Unit {
    /// The place of the message, or of the call of the group.
    pub(super) head: usize,
    /// The place of its newest member, which decides the order of units.
    pub(super) newest: usize,
    pub(super) group: Option<usize>,
}

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Fit {
    Taken,
    /// Only this unit is left out.
    Omitted,
    /// The budget is full: this and all older units are left out.
    Ends,
    /// The window has its number of messages: this and all older units are left out.
    WindowEnds,
}

pub(super) trait Room {
    /// Begins a walk from the newest unit back, and keeps room for the units that must be sent: the
    /// newest unit, which comes first in `owed`, and questions.
    fn begin(&mut self, owed: &[Unit], matches: &Matches<'_>) -> Result<()>;

    /// Decides on the next older unit. Owed units are always taken.
    fn fit(&mut self, unit: &Unit, is_owed: bool, matches: &Matches<'_>) -> Result<Fit>;

    /// Returns the place where the history begins, if the budget is full and no unit that ends
    /// before `end` fits.
    fn start(&self, end: usize) -> usize {
        end
    }

    /// Returns how many messages of a question in several pieces are sent besides the newest unit
    /// and the questions `owed`. If there are none of those, the question itself is owed a place,
    /// with at least one message.
    fn pieces(&mut self, question: &[usize], owed: &[usize]) -> Result<usize>;
}

/// A maximum number of messages, or no bound.
pub(super) struct MessageRoom {
    most: Option<usize>,
    half: usize,
    taken: usize,
}

impl MessageRoom {
    /// Gives back the room of a unit that had been taken and is left out for another reason.
    pub(super) fn put_back(&mut self, unit: &Unit, matches: &Matches<'_>) {
        self.taken -= unit.members(matches);
    }
}

impl Room for MessageRoom {
    fn begin(&mut self, owed: &[Unit], matches: &Matches<'_>) -> Result<()> {
        self.taken = owed.iter().map(|unit| unit.members(matches)).sum();
        Ok(())
    }

    fn fit(&mut self, unit: &Unit, is_owed: bool, matches: &Matches<'_>) -> Result<Fit> {
        if is_owed {
            return Ok(Fit::Taken);
        }
        self.taken += unit.members(matches);
        let is_full = self.most.is_some_and(|most| self.taken > most);
        Ok(if is_full { Fit::WindowEnds } else { Fit::Taken })
    }

    fn pieces(&mut self, question: &[usize], _: &[usize]) -> Result<usize> {
        Ok(question.len().min(self.half))
    }
}

struct Choosing<'a, 'r> {
    composer: &'a Composer,
    snapshot: &'a Snapshot,
    extras: &'a Extras,
    room: &'r mut dyn Room,
    choice: Choice<'a>,
    /// The places of the newest turn's question, which is always sent.
    owed: Vec<usize>,
    /// The position where the running turn begins; its question is searched for back to there.
    turn: Option<u64>,
    /// The start of the window, if the room suffices.
    window: WindowStart,
    /// If the window starts before the snapshot: how many records to read.
    unread: Option<usize>,
    /// How many records before `base` are searched for questions and calls.
    bound: usize,
    /// The place from which `bound` counts: the start of the window, or under a budget where it
    /// first started.
    base: Option<usize>,
    /// The place from which late results were matched; `None` if only results directly after their
    /// calls were.
    matched: Option<usize>,
}

impl<'a> Case<'a> {
    pub(super) fn choose(self, room: &mut dyn Room) -> Result<Choice<'a>, NotReady> {
        let Case { composer, snapshot, extras, temporaries, .. } = self;
        let have = snapshot.records.len();
        let (window, unread) = match composer.window_start(snapshot, extras) {
            Ok(window) => (window, None),
            // The window starts before what was read or, if it counts turns, perhaps at the first
            // turn that was read. Only a budget that is full by then settles it.
            Err(NotReady::ReadMore(n)) if composer.limit.is_some() => {
                let mut messages = snapshot.records.messages();
                let turn = messages.position(Message::begins_turn).unwrap_or(have);
                let start = if composer.effective_window().is_turns() { turn } else { 0 };
                (WindowStart { window_from: start, start, ..WindowStart::default() }, Some(n))
            }
            Err(stop) => return Err(stop),
        };
        let WindowStart { window_from, start, ended, takes_all } = window;
        let mut choice = Choice { window_from, start, takes_all, ..Choice::default() };
        if ended && (window_from > 0 || !snapshot.is_complete()) {
            choice.search_ended = snapshot.records.get(window_from).map(|record| record.position());
        }
        let base = composer.limit.is_none().then_some(start);
        Choosing {
            composer,
            snapshot,
            extras,
            room,
            choice,
            owed: Vec::new(),
            turn: temporaries.turn.filter(|position| *position >= snapshot.start),
            window,
            unread,
            bound: composer.search_bound(),
            base,
            matched: None,
        }
        .run()
    }
}

impl Composer {
    /// Returns the bound on the number of messages. With a summary there is none, since the window
    /// then reaches back to the summary.
    pub(super) fn message_room(&self, extras: &Extras) -> MessageRoom {
        let window = self.effective_window();
        let most = window.most().filter(|_| extras.summary.is_none());
        MessageRoom { most, half: window.half(), taken: 0 }
    }

    /// Returns how many records before the window are searched for the question and for the calls
    /// of late results.
    pub(super) fn search_bound(&self) -> usize {
        self.first_read().saturating_mul(4).saturating_add(64)
    }

    pub(super) fn window_start(
        &self,
        snapshot: &Snapshot,
        extras: &Extras,
    ) -> Result<WindowStart, NotReady> {
        let window = self.effective_window();
        let by_itself = match &extras.summary {
            Some(summary) => self.start_behind(snapshot, summary),
            None => window.start(snapshot, self.search_bound()).map(|start| (start, true)),
        };
        if let Some(compacted) = self.compacted(&snapshot.records, &by_itself) {
            return Ok(compacted);
        }
        let (start, is_free) = by_itself?;
        if !self.checks_groups() {
            return Ok(start);
        }
        let whole = whole_groups(snapshot, start, is_free && window.is_stable())?;
        // Covered records are not sent again because of results after them that have no call.
        let first = snapshot.position(whole.start);
        let covered = extras.summary.as_ref().map_or(0, |summary| summary.covers);
        Ok(if first < covered { start } else { whole })
    }

    pub(super) fn checks_groups(&self) -> bool {
        self.tool_groups != ToolGroups::Off
    }

    /// Returns whether no prompt of this composer ever sends this message, so that it takes no
    /// place.
    pub(super) fn never_sends(&self, message: &Message) -> bool {
        let rules = self.provider.map(Provider::row);
        match message {
            Message::System(_) => !rules.is_some_and(|row| row.takes_late_system()),
            Message::Ai(_) => rules.is_some_and(|row| says_nothing(message, &row)),
            message => message.is_private(),
        }
    }

    /// Returns whether the window or the provider wants a user message first.
    fn wants_user_first(&self) -> bool {
        self.effective_window().wants_user_first()
            || self.provider.is_some_and(|provider| provider.row().opens == Opens::WithUser)
    }
}

impl<'a> Choosing<'a, '_> {
    fn run(mut self) -> Result<Choice<'a>, NotReady> {
        self.choose_window()?;
        let window = self.composer.effective_window();
        if self.composer.checks_groups() && !window.stands_alone() {
            self.question()?;
            // A summary is a message of the user, and a compaction may open a prompt.
            let is_opened = self.is_compaction(self.choice.start);
            if self.extras.summary.is_none() && !is_opened && self.composer.wants_user_first() {
                self.user_first()?;
            }
        }
        self.choice.is_compacted = self.is_compaction(self.choice.start);
        self.choice.front = self.front();
        Ok(self.choice)
    }

    /// Chooses the window, with the calls of the late results in it.
    fn choose_window(&mut self) -> Result<(), NotReady> {
        let records = &self.snapshot.records;
        if self.composer.checks_groups() && self.composer.limit.is_some() {
            // A late result may answer any call, and the start of the window must not depend on how
            // much was read.
            self.choice.matches = Matches::directly_among(records);
        } else if self.composer.checks_groups() {
            self.choice.matches = Matches::among(records, self.window.start);
            self.matched = Some(self.window.start);
        }
        self.fill(&[])?;
        self.base.get_or_insert(self.choice.start);
        Ok(())
    }

    /// Takes as much as fits, next to the owed questions and `more_questions`.
    ///
    /// It walks back with the late results that are matched so far. If the walk goes further back
    /// than they were matched, or meets a result whose call is further back, they are matched again
    /// from the end of the search bound, and it walks again. Each round begins further back than
    /// the last, so the loop ends.
    fn fill(&mut self, more_questions: &[usize]) -> Result<(), NotReady> {
        let mut questions = [more_questions, &self.owed].concat();
        questions.sort_unstable();
        questions.dedup();
        loop {
            let refused = self.walk(&questions)?;
            if let Some(n) = self.unread.filter(|_| refused.is_none()) {
                return Err(NotReady::ReadMore(n.min(more(self.snapshot.records.len()))));
            }
            let (start, reached) = (self.choice.start, refused.unwrap_or(self.window.start));
            if self.matched.is_some_and(|matched| reached < matched) {
                self.base = Some(reached); // there is much more room than at first
            } else if !self.choice.matches.looks_back(reached) {
                return Ok(());
            }
            self.base.get_or_insert(start);
            self.search_before()?;
            // A call too far away is not found, however much was read.
            let searched = self.searched();
            if self.matched == Some(searched) {
                if self.choice.matches.misses_a_call(start) {
                    self.missed()?;
                }
                return Ok(());
            }
            self.matched = Some(searched);
            self.choice.matches = Matches::among(&self.snapshot.records, searched);
        }
    }

    /// Makes sure that the question of the newest turn is sent, if the window has lost it.
    fn question(&mut self) -> Result<(), NotReady> {
        let records = &self.snapshot.records;
        let have = records.len();
        let from = |place: usize| records.messages().rev().take(have - place);
        let is_work = |message: &Message| message.is_tool() || message.has_tool_calls();
        let is_sent = |choice: &Choice<'_>, place: usize| {
            place >= choice.start && choice.omits(place).is_none()
        };
        let held = from(self.choice.start).position(Message::begins_turn);
        let held = held.map(|newer| have - 1 - newer).filter(|it| is_sent(&self.choice, *it));
        // A full budget may have split a question of several messages.
        if let Some(place) = held.filter(|_| !self.choice.is_full) {
            self.owed = vec![place];
            return Ok(());
        }
        // A conversation without tools sends the last n messages and nothing else, unless none of
        // them is sent at all, or a turn runs, since the user messages among them may then be ones
        // that steer it.
        let counts_messages = self.turn.is_none()
            && self.composer.limit.is_none()
            && self.extras.summary.is_none()
            && self.composer.effective_window().most().is_some();
        if counts_messages
            && !from(self.window.window_from).any(is_work)
            && self.sent_units().next().is_some()
        {
            return Ok(());
        }
        self.owed = self.question_before(have, &[])?;
        if self.composer.limit.is_some() {
            self.cut_question_to_window()?;
        }
        let is_whole = self.owed.iter().all(|place| is_sent(&self.choice, *place));
        if is_whole { Ok(()) } else { self.fill(&[]) }
    }

    /// Drops the older messages of the question that the window would leave out even with an
    /// unlimited budget.
    fn cut_question_to_window(&mut self) -> Result<()> {
        let [first, .., last] = *self.owed else { return Ok(()) };
        let (records, matches) = (&self.snapshot.records, &self.choice.matches);
        let mut room = self.composer.message_room(self.extras);
        let mut units = units(self.composer, records, matches, self.window.start);
        room.begin(units.next().as_slice(), matches)?;
        let mut start = self.window.start;
        for unit in units.take_while(|unit| unit.newest >= first) {
            if room.fit(&unit, false, matches)? == Fit::WindowEnds {
                start = unit.newest + 1;
                break;
            }
        }
        if last >= start {
            self.owed.retain(|place| *place >= start);
        }
        Ok(())
    }

    /// If the user must come first: adds the question of the turn in which the window starts, or
    /// leaves out everything before the first user message that is sent.
    fn user_first(&mut self) -> Result<(), NotReady> {
        let records = &self.snapshot.records;
        let is_user = |place| records.get(place).is_some_and(|it| it.message().is_user());
        // The turns before `from` are sent without their questions: none was found, or none fits.
        let (mut asked, mut from) = (Vec::new(), 0);
        // A question that needs room may push out another unit, so that the window begins in an
        // older turn.
        while let Some(first) = self.first_sent(from).filter(|first| !is_user(*first)) {
            if !self.leaves_out_before(first) {
                return self.search_before();
            }
            let next = records.cursor(first + 1).position(|it| it.message().begins_turn());
            let next = next.map_or(records.len(), |passed| first + 1 + passed);
            let question = self.question_before(first, &asked)?;
            let Some(last) = question.last() else {
                from = next;
                continue;
            };
            let turn = last + 1..next;
            let with_it = [&*question, &asked].concat();
            self.fill(&with_it)?;
            if self.sent_units().any(|unit| turn.contains(&unit.head)) {
                asked = with_it;
            } else {
                self.fill(&asked)?;
                from = next;
            }
        }
        if self.first_sent(0).is_some_and(|first| !is_user(first)) {
            self.begin_at_user();
        }
        Ok(())
    }

    /// Returns the newest question before this place, if it is found, and as many of its messages
    /// as fit next to the newest question and those `asked`.
    fn question_before(&mut self, place: usize, asked: &[usize]) -> Result<Vec<usize>, NotReady> {
        let records = &self.snapshot.records;
        let (mut question, is_whole) = last_question(records, self.searched(), place);
        if question.is_empty() {
            self.missed()?;
        } else if !is_whole {
            self.search_before()?;
        }
        let others = [asked, &self.owed].concat();
        let pieces = self.room.pieces(&question, &others)?;
        Ok(question.split_off(question.len() - pieces))
    }

    /// Leaves out everything before the first user message that is sent, except pins. Does nothing
    /// if no question is sent.
    fn begin_at_user(&mut self) {
        let records = &self.snapshot.records;
        let first = |is: fn(&Message) -> bool| {
            let is = |unit: &Unit| records.get(unit.head).is_some_and(|it| is(it.message()));
            let heads = self.sent_units().filter(is).map(|unit| unit.head);
            heads.chain(self.choice.questions.iter().copied()).min()
        };
        let asked = first(Message::begins_turn);
        let (Some(asked), Some(opens)) = (asked, first(Message::is_user)) else { return };
        let pinned = &self.extras.pinned;
        // A group whose late result is after the first question is part of that turn.
        let is_older = |unit: &Unit| unit.head < opens && unit.newest < asked;
        let rest =
            self.sent_units().filter(|unit| is_older(unit) && !unit.is_pinned(records, pinned));
        let rest: Vec<_> = rest.map(|unit| (unit.head, Reason::RestOfTurn)).collect();
        self.choice.omitted.extend(rest);
    }

    /// Returns whether a message that could be sent is left out before this place, as far as is
    /// known.
    fn leaves_out_before(&self, place: usize) -> bool {
        let records = &self.snapshot.records;
        let (searched, window_from) = (self.searched(), self.choice.window_from);
        let before = records.messages().rev().skip(records.len() - window_from);
        before.take(window_from.saturating_sub(searched)).any(|it| !it.is_private())
            || self.choice.omitted.range(..place).next().is_some()
            || (self.is_searched() && (searched > 0 || !self.snapshot.is_complete()))
    }

    /// Walks from the newest unit back while there is room next to these questions, in their order.
    /// Returns the place after the newest member of the first refused unit.
    fn walk(&mut self, questions: &[usize]) -> Result<Option<usize>> {
        let records = &self.snapshot.records;
        let Choice { matches, .. } = &self.choice;
        let none_before =
            matches.groups().first().is_none_or(|group| group.head >= self.window.start);
        let mut omitted = Vec::new();
        let (mut refused, mut start, mut is_full) = (None, None, false);
        // Otherwise the window has its full size, and no walk is needed.
        if self.composer.limit.is_some() || !questions.is_empty() || !none_before {
            let units = || units(self.composer, records, matches, self.window.start);
            let newest = units().next();
            let asked = questions.iter().filter(|place| newest.is_none_or(|it| it.head != **place));
            let asked = asked.map(|place| Unit { head: *place, newest: *place, group: None });
            let owed: Vec<Unit> = newest.into_iter().chain(asked).collect();
            self.room.begin(&owed, matches)?;
            let mut end = records.len();
            for unit in units() {
                let is_owed = newest.is_some_and(|it| it.head == unit.head)
                    || questions.binary_search(&unit.head).is_ok();
                match self.room.fit(&unit, is_owed, matches)? {
                    Fit::Taken => {}
                    // Without the compaction, nothing would replace what is before it.
                    Fit::Omitted if !self.is_compaction(unit.head) => omitted.push(unit),
                    fit => {
                        // Results of a newer group may be before the newest member of this unit.
                        let reached = unit.newest + 1;
                        is_full = fit != Fit::WindowEnds;
                        let begins = if is_full { self.room.start(end) } else { end };
                        (refused, start) = (Some(reached), Some(begins.max(reached)));
                        break;
                    }
                }
                end = end.min(unit.start(matches));
            }
        }
        let choice = &mut self.choice;
        let WindowStart { window_from, start: of_window, takes_all, .. } = self.window;
        (choice.window_from, choice.start) = start.map_or((window_from, of_window), |it| (it, it));
        choice.takes_all = takes_all && start.is_none();
        omitted.retain(|unit: &Unit| unit.newest >= choice.start);
        choice.omitted = omitted.iter().map(|unit| (unit.head, Reason::OverBudget)).collect();
        choice.questions = questions.iter().copied().filter(|q| *q < choice.start).collect();
        choice.is_full = is_full;
        Ok(refused)
    }

    /// Returns whether this record is a compaction, with which the history may begin.
    fn is_compaction(&self, place: usize) -> bool {
        let record = self.snapshot.records.get(place);
        record.is_some_and(|record| self.composer.is_compaction(record.message()))
    }

    fn sent_units(&self) -> impl Iterator<Item = Unit> {
        let Choice { matches, start, .. } = &self.choice;
        let units = units(self.composer, &self.snapshot.records, matches, *start);
        units.filter(|unit| self.choice.omits(unit.head).is_none())
    }

    /// Returns the place of the first sent question or unit from `from` on.
    fn first_sent(&self, from: usize) -> Option<usize> {
        let questions = self.choice.questions.iter().copied();
        let all = questions.chain(self.sent_units().map(|unit| unit.head));
        all.filter(|place| *place >= from).min()
    }

    fn front(&self) -> Vec<usize> {
        let Choice { start, questions, matches, .. } = &self.choice;
        let groups = matches.groups().iter().enumerate();
        let older = groups.take_while(|(_, it)| it.head < *start);
        let taken = older.filter(|(group, _)| self.choice.sends(*group)).map(|(_, it)| it.head);
        let mut front: Vec<usize> = taken.chain(questions.iter().copied()).collect();
        front.sort_unstable();
        front
    }

    fn base(&self) -> usize {
        self.base.unwrap_or(self.choice.start)
    }

    /// Returns the place where the search before the window ends.
    fn searched(&self) -> usize {
        let turn = self.turn.and_then(|position| self.snapshot.records.place(position));
        self.base().saturating_sub(self.bound).min(turn.map_or(usize::MAX, |(place, _)| place))
    }

    /// If the running turn begins before the snapshot, returns how many records to read.
    fn unread_turn(&self) -> Option<usize> {
        let unread = self.turn.filter(|position| *position < self.snapshot.oldest_row())?;
        Some(places(self.snapshot.end - unread))
    }

    /// Returns whether everything within the search bound was read.
    fn is_searched(&self) -> bool {
        (self.base() >= self.bound && self.unread_turn().is_none()) || self.snapshot.is_complete()
    }

    /// Asks for more records unless everything within the search bound was read.
    fn search_before(&self) -> Result<(), NotReady> {
        if self.is_searched() {
            return Ok(());
        }
        let behind = self.snapshot.records.len() - self.base();
        let unread = behind.saturating_add(self.bound);
        Err(NotReady::ReadMore(unread.max(self.unread_turn().unwrap_or(0))))
    }

    /// Asks for more records if that may help; else notes where the search ended, if there are
    /// older records.
    fn missed(&mut self) -> Result<(), NotReady> {
        self.search_before()?;
        let searched = self.searched();
        if searched > 0 || !self.snapshot.is_complete() {
            let record = self.snapshot.records.get(searched);
            self.choice.search_ended = record.map(|record| record.position());
        }
        Ok(())
    }
}

/// Returns the units that may be sent and have a member at or after `from`, newest first.
fn units<'a>(
    composer: &'a Composer,
    records: &'a Records,
    matches: &'a Matches<'_>,
    from: usize,
) -> impl Iterator<Item = Unit> + use<'a> {
    let checked = composer.checks_groups();
    let places = (from..records.len()).rev();
    places.zip(records.messages().rev()).filter_map(move |(place, message)| {
        let group = match message {
            Message::Tool(_) if checked => match matches.fate(place) {
                Fate::Sent { group, .. } => Some(group),
                _ => return None,
            },
            Message::Ai(ai) if checked && ai.has_tool_calls() => matches.group_at(place),
            message if composer.never_sends(message) => return None,
            _ => None,
        };
        let Some(group) = group else {
            return Some(Unit { head: place, newest: place, group: None });
        };
        let it = matches.groups().get(group).filter(|it| it.newest == place)?;
        Some(Unit { head: it.head, newest: it.newest, group: Some(group) })
    })
}

impl Unit {
    pub(super) fn is_pinned(&self, records: &Records, pinned: &Pinned) -> bool {
        let holds = |head: Record<'_>| pinned.holds(head.position());
        !pinned.members().is_empty() && records.get(self.head).is_some_and(holds)
    }

    fn members(&self, matches: &Matches<'_>) -> usize {
        1 + self.group.map_or(0, |group| matches.answered(group))
    }

    /// Returns the place where a window that sends the unit starts: its call if all its members are
    /// in a row, else its newest member.
    pub(super) fn start(&self, matches: &Matches<'_>) -> usize {
        let direct = matches!(matches.fate(self.newest), Fate::Sent { direct: true, .. });
        if direct { self.head } else { self.newest }
    }
}

impl Choice<'_> {
    /// Returns whether a group is sent: it has a member in the window and is not left out.
    pub(super) fn sends(&self, group: usize) -> bool {
        let group = self.matches.groups().get(group);
        group.is_some_and(|it| it.newest >= self.start && !self.omitted.contains_key(&it.head))
    }

    /// Returns why a message in the window, or the group of this call, is left out.
    pub(super) fn omits(&self, head: usize) -> Option<Reason> {
        self.omitted.get(&head).copied()
    }
}
