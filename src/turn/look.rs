//! What the owner of a turn looks at where it is in doubt, before it goes on.
//!
//! An append whose answer gets lost, a slot that was written by somebody else, an id that was used
//! before: each leaves the owner in doubt, and it looks before it does anything else.
//!
//! | it knows that | it looks at | and finds |
//! |---|---|---|
//! | requests of its id may have come before | the appends of that id, and the slot | nothing, an answer, a turn without one, calls that wait, or a turn that runs |
//! | a checkpoint was to be written, or was overtaken | the slot | a checkpoint that it can go on from, one of others, or none |
//! | the first checkpoint is not there | what was stored since the turn began | that somebody may have run its calls, or that there never was one |
//! | the whole was stored, perhaps by itself | those records | that it is done, or what others have stored |
//! | others have appended since a request of its id | what they appended | nothing of its own, or a late result, behind which it goes on |
//! | others have ended the turn | what was stored since it began | the results that are lacking there: they are appended |

use std::time::SystemTime;

use super::late::{Lacks, LateCall, Stored, Unwritten};
use super::state::{
    CallState, Doing, Event, Held, Seen, State, Written, append_id, outcome_unknown, random_id,
    was_not_run,
};
use super::unfinished::Unfinished;
use super::{Ended, Step, ToolError, Turn};
use crate::error::{Error, ErrorKind, Result};
use crate::memory::{Append, Appended, Expected, Read};
use crate::message::Message;
use crate::record::{Records, Snapshot, places};

/// What is looked at: the rows of the table above.
pub(super) enum Look {
    No,
    /// What requests of its id have stored before.
    Request(Request),
    Slot,
    /// The first checkpoint is not there.
    First(Stored),
    /// It goes on behind what is stored of its id, and others have appended since.
    Behind(Stored),
    /// The turn is to be forgotten, and its first checkpoint may still come.
    Void,
    /// The whole was stored, perhaps by this owner.
    Whole(Appended),
    /// Others have ended the turn. The search is made for so many of its messages.
    Ended(Stored, usize),
}

/// The request that came before, as far as it is found: the appends of its parts, and where to
/// look next.
#[derive(Default)]
pub(super) struct Request {
    parts: Vec<Appended>,
    place: RequestPlace,
}

impl Request {
    /// The slot is there.
    pub(super) fn in_slot() -> Self {
        Self { parts: Vec::new(), place: RequestPlace::Slot }
    }

    /// Returns the position of its question, where that is stored.
    fn asked_at(&self) -> Option<u64> {
        self.parts.first().map(|it| it.positions.start)
    }
}

#[derive(Clone, Copy, Default, PartialEq)]
enum RequestPlace {
    /// The first append of the next part.
    #[default]
    First,
    /// The whole behind its checkpoint.
    BehindCheckpoint,
    /// The slot.
    Slot,
    /// The whole once more: the slot is gone.
    Again,
    /// The whole behind a checkpoint whose id the memory may have forgotten.
    OldWhole,
    /// The records of the first part, for its question.
    Question,
    /// The records of the newest part.
    Newest,
}

#[doc(hidden)]
impl Turn {
    /// Takes the outcome of a [`Step::Find`].
    pub fn found(&mut self, appended: &Appended) {
        use RequestPlace::{Again, BehindCheckpoint, First, Newest, OldWhole, Question, Slot};
        let Look::Request(request) = &mut self.look else { return };
        // It goes on where it was, and makes no branch once more.
        self.state.on = appended.branch.or(self.state.on);
        let is_checkpoint = appended.positions.is_empty();
        request.place = match (request.place, appended.repeated) {
            (First, true) if is_checkpoint => BehindCheckpoint,
            (First, false) => OldWhole,
            (OldWhole, false) if request.parts.is_empty() => return self.begin_anew(),
            (OldWhole, false) => Question,
            (BehindCheckpoint, false) => Slot,
            // It was forgotten.
            (Again, false) => {
                self.state.part += 1;
                First
            }
            (Slot | Question | Newest, _) => return,
            (_, true) => {
                self.state.part += 1;
                request.parts.push(appended.clone());
                First
            }
        };
    }

    /// Looks for requests of its id that came before; of an id that it was given.
    pub(super) fn look_for_requests(&mut self) -> Result<()> {
        let State { seen, written, .. } = &self.state;
        let is_begun = seen.is_some() || *written != Written::Not || self.is_over();
        if !self.is_request || is_begun || !matches!(self.look, Look::No) {
            return Ok(());
        }
        self.state.check_id()?;
        if self.limits.recognises_ids() {
            self.look = Look::Request(Request::default());
        }
        Ok(())
    }

    /// Says what is to be read, or what is left to be done of a turn that others have ended.
    pub(super) fn look(&mut self) -> Result<Step> {
        // A result may have come since.
        if matches!(self.look, Look::Ended(_, of) if of != self.state.messages.len()) {
            self.look = self.ended();
        }
        let slot = || {
            let read = Read::newest(0);
            if self.limits.has_slots() { read.slots([self.state.slot()]) } else { read }
        };
        let step = match &self.look {
            Look::No | Look::Slot => Step::Read(slot()),
            Look::Request(request) => match request.place {
                RequestPlace::First => self.find(false),
                RequestPlace::BehindCheckpoint | RequestPlace::Again | RequestPlace::OldWhole => {
                    self.find(true)
                }
                RequestPlace::Slot => Step::Read(slot().positions(request.asked_at())),
                RequestPlace::Question => request.parts.first().map_or(Step::List, read_of),
                RequestPlace::Newest => request.parts.last().map_or(Step::List, read_of),
            },
            Look::Whole(stored) => read_of(stored),
            Look::First(stored) | Look::Behind(stored) => {
                Step::Read(stored.next().unwrap_or_else(slot))
            }
            Look::Void => {
                // Takes the id of the checkpoint: one that is still on its way comes to nothing.
                let id = self.state.append_id(false);
                let append = Append::default().with_id(id);
                let append = append.remove_slot(self.state.slot(), Expected::Absent);
                Step::Append(self.on_what_was_seen(append))
            }
            Look::Ended(stored, _) => match stored.next() {
                Some(page) => Step::Read(page),
                None => return self.append_what_is_lacking(),
            },
        };
        Ok(step)
    }

    fn find(&self, is_behind_checkpoint: bool) -> Step {
        Step::Find(Append::default().with_id(self.state.append_id(is_behind_checkpoint)))
    }

    /// Takes what was read for a look.
    pub(super) fn looked(&mut self, snapshot: &Snapshot) -> Result<()> {
        let ended = match &mut self.look {
            Look::No | Look::Void => return Ok(()),
            Look::Slot => return self.looked_at_slot(snapshot),
            Look::Request(_) => return self.looked_at_request(snapshot),
            Look::Whole(stored) => {
                let stored = stored.clone();
                self.compare(snapshot, stored);
                return Ok(());
            }
            Look::First(stored) => {
                stored.add_page(snapshot);
                self.settle_first_checkpoint();
                return Ok(());
            }
            Look::Behind(stored) => {
                stored.add_page(snapshot);
                self.settle_behind();
                return Ok(());
            }
            Look::Ended(stored, _) => {
                stored.add_page(snapshot);
                stored
            }
        };
        // Whoever has ended the turn has stored the newest call that its slot showed.
        let written = self.state.held().and_then(|it| self.state.messages.get(..it.messages));
        let mut calls = written.unwrap_or_default().iter().rev().flat_map(Message::tool_calls);
        let is_gone = calls.next().is_some_and(|call| !ended.has(call));
        if ended.next().is_none() && is_gone && self.stored.is_none() {
            self.look = self.ended(); // the next step looks again
            return Err(forgotten_error());
        }
        Ok(())
    }

    fn looked_at_slot(&mut self, snapshot: &Snapshot) -> Result<()> {
        let checkpoint = snapshot.slot(&self.state.slot()).map(|slot| Unfinished::of(slot).ok());
        let is_forgetting = self.state.doing == Doing::Forgetting;
        let is_first = self.state.held().is_none();
        match checkpoint {
            Some(Some(it))
                if self.wrote_it(&it)
                    || !is_forgetting && !self.is_request && self.goes_on_from(&it) =>
            {
                self.take_up(&it);
            }
            Some(it) if is_first && it.as_ref().is_none_or(|it| it.state.adoptions == 0) => {
                self.look = Look::Request(Request::default());
                return self.looked_at_other(it.as_ref());
            }
            Some(_) => return Err(adopted_error()),
            None if !is_first => self.look = self.ended(),
            // Others have written it, and ended it.
            None if matches!(self.state.written, Written::Lost(_)) => {
                self.look = if self.limits.recognises_ids() {
                    Look::Request(Request::default())
                } else {
                    self.ended()
                };
            }
            None if is_forgetting => self.look = Look::Void,
            None => {
                self.look = Look::First(self.stored());
                if snapshot.end <= self.state.seen.map_or(0, |seen| seen.end) {
                    self.happen(Event::Unwritten);
                    self.look = Look::No;
                }
            }
        }
        Ok(())
    }

    /// The slot holds a turn of the same id, of another request.
    fn looked_at_other(&mut self, other: Option<&Unfinished>) -> Result<()> {
        let Some(other) = other else { return Err(busy_error(None)) };
        self.must_be_asked_by(other.messages().first())?;
        let waiting = other.waiting();
        if waiting.is_empty() || self.state.has_happened() || other.runs() {
            return Err(busy_error(other.since()));
        }
        self.waiting = waiting;
        self.state.messages = other.messages().to_vec();
        self.look = Look::No;
        self.happen(Event::Stored(Ended::Parked, Appended::new(0..0)));
        Ok(())
    }

    /// Refuses to go on under the id of another question.
    fn must_be_asked_by(&self, first: Option<&Message>) -> Result<()> {
        let other = first.filter(|it| it.is_user()).zip(self.state.messages.first());
        if other.is_some_and(|(first, own)| own.is_user() && first.text() != own.text()) {
            return Err(Error::invalid("turn", "another question was asked under this id"));
        }
        Ok(())
    }

    fn looked_at_request(&mut self, snapshot: &Snapshot) -> Result<()> {
        let Look::Request(request) = &mut self.look else { return Ok(()) };
        let stored = match request.place {
            RequestPlace::Slot => {
                let Some(slot) = snapshot.slot(&self.state.slot()) else {
                    request.place = RequestPlace::Again;
                    return Ok(());
                };
                // Of a turn that goes on behind others of its id the slot has no question.
                let asked_at = request.asked_at();
                let asked = asked_at.and_then(|at| snapshot.picked().find(at));
                self.must_be_asked_by(asked.map(|it| it.message()))?;
                return self.looked_at_other(Unfinished::of(slot).ok().as_ref());
            }
            RequestPlace::Question => request.parts.first(),
            _ => request.parts.last(),
        };
        let (first, Some(stored)) = (request.parts.first().cloned(), stored.cloned()) else {
            return Ok(());
        };
        let (is_first, is_newest) =
            (request.place == RequestPlace::Question, request.parts.len() == 1);
        let is_there = |it: &u64| stored.positions.contains(it);
        let records = snapshot.records.iter().filter(|it| is_there(&it.seq()));
        let messages: Vec<_> = records.map(|it| it.message().clone()).collect();
        if is_first {
            self.must_be_asked_by(messages.first())?;
            if let Look::Request(request) = &mut self.look {
                request.place = RequestPlace::Newest;
            }
        }
        if is_first && !is_newest {
            return Ok(());
        }
        let is_whole = messages.len() == places(stored.positions.end - stored.positions.start);
        let is_answered = messages.last().and_then(Message::as_ai);
        let is_answered = is_answered.is_some_and(|answer| !answer.has_tool_calls());
        if is_whole && is_answered {
            self.stored = Some(stored);
            self.answered_elsewhere = Some(messages);
            self.look = self.ended();
        } else if self.state.has_happened() || self.is_over() || !self.is_request {
            self.stored = Some(stored); // also where this is a copy of a turn that was ended
            self.look = self.ended();
        } else if is_whole {
            self.state.asked_at = first.map(|first| first.positions.start);
            self.go_on_behind(snapshot, stored.positions.end);
        } else {
            self.begin_anew(); // it is no more there
        }
        Ok(())
    }

    /// Nothing is there of its id: it goes on, and what it has written is not there either. Where
    /// it has asked already, the memory may have forgotten the id, and what is stored since tells.
    fn begin_anew(&mut self) {
        self.look = Look::No;
        match self.state.written {
            Written::Held(_) => {}
            _ if self.state.seen.is_some() => self.look = Look::First(self.stored()),
            _ => self.happen(Event::Unwritten),
        }
    }

    /// Goes on behind what is stored of its id, and ends at this position: the question is there.
    fn go_on_behind(&mut self, snapshot: &Snapshot, end: u64) {
        self.state.messages.clear();
        self.state.doing = Doing::Asking;
        self.state.rounds = 0;
        self.state.written = Written::Not;
        self.state.before_temporaries = None;
        self.state.seen = Some(Seen { end, ..Seen::of(snapshot) });
        self.prompts.begin_anew();
        self.look_at_others();
        let has_more = snapshot.end > end;
        self.look = if has_more { Look::Behind(Stored::since(end, self.on())) } else { Look::No };
    }

    /// Goes on behind a late result of the calls that are stored of its id, where one has come: all
    /// others are told of it too.
    fn settle_behind(&mut self) {
        let Look::Behind(stored) = &self.look else { return };
        if stored.next().is_some() {
            return;
        }
        let State { id, part, .. } = &self.state;
        let is_own = |tag: &str| {
            let of = tag.rsplit_once(':').map(|(of, _)| of);
            (1..*part).any(|part| of == Some(&append_id(id, part, false)))
        };
        if let Some(seen) = stored.with_late(is_own) {
            self.state.seen = Some(seen);
        }
        self.look_at_others();
        self.look = Look::No;
    }

    /// Returns true if this owner wrote the checkpoint.
    fn wrote_it(&self, checkpoint: &Unfinished) -> bool {
        checkpoint.state.owner == self.state.owner
    }

    /// Returns false if another owner of the same turn has gone another way with it.
    fn goes_on_from(&self, checkpoint: &Unfinished) -> bool {
        let Unfinished { state: written, .. } = checkpoint;
        let is_copy = (written.adoptions, written.part, written.seen.map(|it| it.end))
            == (self.state.adoptions, self.state.part, self.state.seen.map(|it| it.end));
        is_copy && self.state.messages.starts_with(&written.messages)
    }

    /// Goes on with the checkpoint that the slot holds.
    fn take_up(&mut self, checkpoint: &Unfinished) {
        let Unfinished { state: written, version } = checkpoint;
        if !self.wrote_it(checkpoint) {
            if matches!(self.state.doing, Doing::Calling(_)) {
                self.happen(Event::HandedOut);
            }
            self.happen(Event::HandedOver);
            self.doubt_what_was_handed_out(written);
        }
        let unapproved = |of: &State| {
            let waiting = of.open().into_iter().map(|it| it.0);
            waiting.filter(|place| of.state(*place) == CallState::Unapproved).collect::<Vec<_>>()
        };
        let messages = written.messages.len();
        let is_outdated = unapproved(written) != unapproved(&self.state)
            || (messages, &written.steers) != (self.state.messages.len(), &self.state.steers);
        let held = Held { version: *version, messages, is_outdated };
        self.happen(Event::Saved(held));
        self.look = Look::No;
    }

    /// Notes that the owner who wrote this may have run what it was handed, though here it waits
    /// for approval or was closed as not run.
    fn doubt_what_was_handed_out(&mut self, written: &State) {
        let mut handed_out = written.open();
        handed_out.retain(|(place, _)| written.state(*place).is_handed_out());
        for (place, _) in &handed_out {
            if self.state.state(*place) != CallState::Answered {
                self.happen(Event::Is(*place, CallState::MayHaveRun));
            }
        }
        let closed = self.state.messages.iter_mut().skip(written.messages.len());
        for message in closed {
            let Some(result) = message.as_tool().filter(|it| was_not_run(it)) else { continue };
            let of = handed_out.iter().position(|(_, call)| call.id == result.call_id());
            if let Some((place, call)) = of.map(|of| handed_out.remove(of)) {
                *message = Message::Tool(outcome_unknown(call, &written.call_tag(place), ""));
            }
        }
    }

    /// The first checkpoint is not there: it was never written, or whoever adopted the turn has
    /// ended it. Where its newest call is stored that may be so, and its calls may have run.
    fn settle_first_checkpoint(&mut self) {
        let Look::First(stored) = &self.look else { return };
        if stored.next().is_some() {
            return;
        }
        let newest = self.state.messages.iter().rev().flat_map(Message::tool_calls).next();
        if stored.has_gaps() || newest.is_some_and(|call| stored.has(call)) {
            for (place, _) in self.state.open_calls() {
                self.happen(Event::Is(place, CallState::MayHaveRun));
            }
        }
        self.happen(Event::Unwritten);
        self.look = Look::No;
    }

    /// Compares the turn with what is stored under its id.
    fn compare(&mut self, snapshot: &Snapshot, stored: Appended) {
        let at = &stored.positions;
        let records = snapshot.records.iter().filter(|it| at.contains(&it.seq()));
        let messages: Vec<_> = records.map(|it| it.message()).collect();
        // What is evicted can't be compared, and has no calls that could lack a result.
        let is_same = snapshot.start > at.start || messages.into_iter().eq(&self.state.messages);
        // Only if an earlier append may have been made; else another owner was faster.
        if is_same && (self.commits > 1 || self.was_over) {
            return self.end_stored(stored);
        }
        self.commits = self.commits.saturating_sub(1);
        if self.has_slot() {
            // The append is another turn's, made when this id was no longer known; or others have
            // ended this turn: then its slot is gone, and the next append shows it.
            self.commit_id = Some(random_id());
            self.look = Look::No;
        } else {
            self.state.part += 1;
            let place = RequestPlace::First;
            self.look = Look::Request(Request { parts: vec![stored], place });
        }
    }

    /// Others have ended the turn: what this owner found out since may be lacking.
    pub(super) fn ended(&self) -> Look {
        Look::Ended(self.stored(), self.state.messages.len())
    }

    /// The results that this owner has and the slot has not.
    fn late_calls(&self) -> impl Iterator<Item = LateCall> {
        let results = self.state.unwritten_results().into_iter();
        results.map(|(tag, call, result)| {
            LateCall::with(call, tag, self.state.is_repeatable(call), result)
        })
    }

    /// Those of them that go into one append.
    fn lacking(&self, stored: &Stored) -> Vec<LateCall> {
        let mut lacking: Vec<_> =
            self.late_calls().filter(|late| stored.lacks(late) == Lacks::Result).collect();
        if let Some(at) = lacking.iter().position(LateCall::is_repeatable) {
            lacking = vec![lacking.swap_remove(at)];
        }
        lacking
    }

    /// Appends what is lacking of a turn that others have ended.
    fn append_what_is_lacking(&mut self) -> Result<Step> {
        let Look::Ended(stored, _) = &self.look else { return Err(adopted_error()) };
        let lacking = self.lacking(stored);
        let Some(first) = lacking.first() else {
            self.end_adopted();
            return Ok(Step::Done(self.outcome(Ended::Adopted)));
        };
        // Of this owner, and of what it knows now: another one may know something else.
        let own = format!("late:{}:{}", self.state.owner, self.state.messages.len());
        let messages = lacking.iter().filter_map(LateCall::message);
        let mut append = stored.append(first, messages, own);
        if !self.limits.recognises_ids() {
            append.since = None;
        }
        Ok(Step::Append(append))
    }

    /// Takes it that what was lacking is appended.
    pub(super) fn appended_late(&mut self) {
        let Look::Ended(stored, of) = &self.look else { return };
        let (is_same, appended) = (*of == self.state.messages.len(), self.lacking(stored));
        if let Look::Ended(stored, _) = &mut self.look {
            stored.note(appended.iter().filter_map(LateCall::message));
        }
        let is_over = match &self.look {
            Look::Ended(stored, _) => is_same && self.lacking(stored).is_empty(),
            _ => true,
        };
        if is_over {
            self.end_adopted();
        }
    }

    /// Returns what tools gave that the slot of the turn does not have, as far as its owner knows.
    pub(crate) fn unwritten(&self) -> Vec<Unwritten> {
        let results = self.state.unwritten_results().into_iter().zip(self.late_calls());
        let unwritten = results.map(|((tag, call, result), late)| {
            let outcome = if result.is_error() {
                Err(ToolError::new(result.content().text().into_owned()))
            } else {
                Ok(result.content().clone())
            };
            let call = self.handed_out(call, tag, CallState::MayHaveRun, Records::default());
            Unwritten { call, outcome, late }
        });
        unwritten.collect()
    }
}

/// The read of what is stored there.
fn read_of(stored: &Appended) -> Step {
    let positions = &stored.positions;
    Step::Read(Read::newest(places(positions.end - positions.start)).before(positions.end))
}

pub(super) fn forgotten_error() -> Error {
    let text = "the conversation was deleted, cleared, evicted or begun anew since the turn began";
    Error::new(ErrorKind::Forgotten, "turn", text)
}

/// The error of a turn that somebody else has adopted and not yet ended.
fn adopted_error() -> Error {
    let text = "somebody else has adopted the turn, and has not ended it yet";
    Error::new(ErrorKind::Adopted, "turn", text)
}

/// The error of a request that came before, and is being answered since this time.
fn busy_error(since: Option<SystemTime>) -> Error {
    let text = "a request of this id is being answered";
    Error::new(ErrorKind::Busy { since }, "turn", text)
}
