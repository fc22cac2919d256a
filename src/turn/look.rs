//! What the owner of a turn checks when it is in doubt, before it goes on.
//!
//! The owner is in doubt if the answer to an append got lost, if another owner wrote the slot, or
//! if the id of the turn was used before. It looks before it does anything else. A look that fails,
//! or whose future is dropped, begins again.
//!
//! | the owner knows that | it looks at | and finds |
//! |---|---|---|
//! | requests of its id may have come before | the appends of that id, and the slot | nothing, an answer, a turn without one, calls that wait, or a turn that runs |
//! | a checkpoint was to be written, or was overtaken | the slot | a checkpoint that it can go on from, one of another owner, or none |
//! | the first checkpoint is not there | what was stored since the turn began | that its calls may have run, or that there never was a checkpoint |
//! | the whole turn was stored, perhaps by itself | those records | that it is done, or what another owner has stored |
//! | another owner has ended the turn | what was stored since it began | the results that are missing there: they are appended |

use std::ops::Range;
use std::time::SystemTime;

use super::decision::{find, find_part};
use super::late::{Lacks, Stored};
use super::over::AnyMemory;
use super::state::{
    CallState, Doing, Held, Seen, State, Written, append_id, outcome_unknown, random_id,
    was_not_run,
};
use super::unfinished::Unfinished;
use super::{Ended, Turn};
use crate::error::{Error, ErrorKind, Result};
use crate::memory::{Append, Appended, Expected, On, Read};
use crate::message::Message;
use crate::record::{Snapshot, places};

/// What the owner looks at before anything else. A checkpoint in doubt is not here, as [`Written`]
/// in the state of the turn has it; the last three rows of the table follow from what was found.
#[derive(Clone, Copy, PartialEq)]
pub(super) enum Look {
    No,
    /// What requests of its id have stored, from its own part on.
    Request,
    /// The slot, if a turn of its id was listed.
    Listed,
}

impl Turn {
    /// Looks if the owner is in doubt; returns false if it is not.
    pub(super) async fn look(&mut self, memory: &impl AnyMemory) -> Result<bool> {
        match self.look {
            Look::Request => self.look_for_request(memory).await?,
            Look::Listed => {
                if !self.is_in_slot(memory, None).await? {
                    self.look = Look::Request;
                }
            }
            Look::No if matches!(self.state.written, Written::InDoubt(_) | Written::Lost(_)) => {
                self.look_at_slot(memory).await?;
            }
            Look::No => return Ok(false),
        }
        Ok(true)
    }

    /// Reads, and checks that this is still the conversation that the turn has seen.
    pub(super) async fn read(&self, memory: &impl AnyMemory, read: Read) -> Result<Snapshot> {
        let snapshot = memory.look_up(&read.on(self.state.on())).await?;
        if self.state.seen.is_some_and(|seen| !seen.goes_on_in(&snapshot)) {
            return Err(forgotten_error());
        }
        Ok(snapshot)
    }

    /// Reads what was stored since the turn began.
    pub(super) async fn read_stored(
        &self,
        memory: &impl AnyMemory,
        references: bool,
    ) -> Result<Stored> {
        let stored = self.stored().read_from(memory, references).await?;
        if stored.seen.is_none() { Err(forgotten_error()) } else { Ok(stored) }
    }

    async fn read_slot(
        &self,
        memory: &impl AnyMemory,
        asked: Option<&Appended>,
    ) -> Result<Snapshot> {
        let slot = Some(self.state.slot()).filter(|_| self.limits.has_slots());
        let read = Read::newest(0).slots(slot).positions(asked.map(|it| it.positions.start));
        self.read_on(memory, read, asked.and_then(|it| it.branch)).await
    }

    /// Reads what requests of its id have appended on this branch: a request other than its own may
    /// have begun at any position.
    async fn read_on(
        &self,
        memory: &impl AnyMemory,
        read: Read,
        branch: Option<On>,
    ) -> Result<Snapshot> {
        match branch {
            Some(other) if self.is_elsewhere(other) => memory.look_up(&read.on(branch)).await,
            _ => self.read(memory, read).await,
        }
    }

    fn is_elsewhere(&self, branch: On) -> bool {
        self.state.on().is_none_or(|own| own.id != branch.id)
    }

    async fn read_appended(
        &self,
        memory: &impl AnyMemory,
        appended: &Appended,
    ) -> Result<(Snapshot, Vec<Message>)> {
        let at = &appended.positions;
        let read = Read::newest(places(at.end - at.start)).before(at.end);
        let snapshot = self.read_on(memory, read, appended.branch).await?;
        let records = snapshot.records.iter().filter(|it| at.contains(&it.position()));
        let messages = records.map(|it| it.message().clone()).collect();
        Ok((snapshot, messages))
    }

    async fn look_at_slot(&mut self, memory: &impl AnyMemory) -> Result<()> {
        let snapshot = self.read_slot(memory, None).await?;
        let checkpoint = snapshot.slot(&self.state.slot()).map(|slot| Unfinished::of(slot).ok());
        let is_forgetting = self.state.doing == Doing::Forgetting;
        let is_first = self.state.held().is_none();
        let is_lost = matches!(self.state.written, Written::Lost(_));
        match checkpoint {
            Some(Some(it))
                if self.wrote_it(&it)
                    || !is_forgetting && !self.state.is_request && self.goes_on_from(&it) =>
            {
                self.take_up(&it);
            }
            Some(it) if is_first && it.as_ref().is_none_or(|it| it.state.adoptions == 0) => {
                self.look = Look::Request;
                return self.leave_to(it.as_ref());
            }
            Some(_) => {
                let text = "somebody else has adopted the turn, and has not ended it yet";
                return Err(Error::new(ErrorKind::Adopted, "turn", text));
            }
            // Another owner has written it, and ended the turn.
            None if is_first && is_lost && self.limits.recognises_ids() => {
                self.look = Look::Request;
            }
            None if !is_first || is_lost => self.end_behind_others(memory, None, None).await?,
            None if is_forgetting => self.void_first_checkpoint(memory).await?,
            None if snapshot.end <= self.state.seen.map_or(0, |seen| seen.end) => {
                self.state.written = Written::Not;
            }
            None => self.look_for_first_checkpoint(memory).await?,
        }
        Ok(())
    }

    /// Checks whether the slot holds a turn of the same id from another request; if so, leaves the
    /// turn to that one. Its question may be the first of what this append has stored.
    async fn is_in_slot(
        &mut self,
        memory: &impl AnyMemory,
        asked: Option<&Appended>,
    ) -> Result<bool> {
        let snapshot = self.read_slot(memory, asked).await?;
        let Some(slot) = snapshot.slot(&self.state.slot()) else { return Ok(false) };
        // If that turn continues after others of its id, its slot has no question.
        let asked = asked.and_then(|it| snapshot.picked().find(it.positions.start));
        self.must_be_same_question(asked.map(|it| it.message()))?;
        self.leave_to(Unfinished::of(slot).ok().as_ref())?;
        Ok(true)
    }

    /// Leaves the turn to another request with the same id.
    fn leave_to(&mut self, other: Option<&Unfinished>) -> Result<()> {
        let Some(other) = other else { return Err(busy_error(None)) };
        self.must_be_same_question(other.messages().first())?;
        let waiting = other.waiting();
        if waiting.is_empty() || self.state.may_have_acted() || other.runs() {
            return Err(busy_error(other.since()));
        }
        self.waiting = waiting;
        self.state.messages = other.messages().to_vec();
        self.end(Ended::Parked, 0..0);
        Ok(())
    }

    /// Returns an error if the id belongs to another question.
    fn must_be_same_question(&self, first: Option<&Message>) -> Result<()> {
        let other = first
            .filter(|it| it.begins_turn() && !self.state.is_anew)
            .zip(self.state.messages.first());
        let differs = |(it, own): (&Message, &Message)| {
            it.text() != own.text() || !it.media().eq(own.media())
        };
        if other.is_some_and(|both| both.1.is_user() && differs(both)) {
            return Err(Error::invalid("turn", "another question was asked under this id"));
        }
        Ok(())
    }

    /// Looks up what requests of its id have stored, part by part, and continues from there.
    async fn look_for_request(&mut self, memory: &impl AnyMemory) -> Result<()> {
        // The turn keeps its own part until it continues: a copy of it knows nothing of this
        // search.
        let (mut part, mut parts) = (self.state.part, Vec::new());
        loop {
            let mut whole = find_part(memory, (&self.state.id, part), self.state.on()).await?;
            if whole.positions.is_empty() {
                if !whole.repeated {
                    break;
                }
                // It had a checkpoint.
                if self.is_in_slot(memory, parts.first()).await? {
                    return Ok(());
                }
                // Or the turn was forgotten.
                let mut find = find((&self.state.id, part), true, self.state.on());
                whole = memory.put(&mut find).await?;
            }
            parts.extend(Some(whole).filter(|it| !it.positions.is_empty()));
            part += 1;
        }
        // The newest part may have replaced the first one, which was forgotten.
        parts.sort_by_key(|it| it.positions.start);
        let (Some(first), Some(newest)) = (parts.first(), parts.last()) else {
            self.state.part = part;
            return self.start_over(memory).await;
        };
        let (mut snapshot, mut messages) = self.read_appended(memory, first).await?;
        self.must_be_same_question(messages.first())?;
        if parts.len() > 1 {
            (snapshot, messages) = self.read_appended(memory, newest).await?;
        }
        let Range { start, end } = newest.positions;
        let is_whole = messages.len() == places(end - start);
        let answer = messages.last().and_then(Message::as_ai);
        if is_whole && answer.is_some_and(|answer| !answer.has_tool_calls()) {
            self.end_behind_others(memory, Some(newest.clone()), Some(messages)).await?;
        } else if self.state.may_have_acted() || self.is_over() || !self.state.is_request {
            // This also holds if it is a copy of a turn that has ended.
            self.end_behind_others(memory, Some(newest.clone()), None).await?;
        } else if is_whole {
            let seen = Seen { end, ..Seen::of(&snapshot) };
            let on = newest.branch.or(self.state.on);
            let seen = self.late_result_behind(memory, (part, on), seen, snapshot.end).await?;
            self.state.asked_at = Some(first.positions.start);
            if let Some(replaced) = &mut self.state.replaced {
                replaced.at = replaced.at.min(first.positions.start);
            }
            (self.state.part, self.state.on) = (part, on); // it makes no branch once more
            self.go_on_behind(seen);
        } else {
            self.state.part = part;
            self.start_over(memory).await?; // the memory no longer has it
        }
        Ok(())
    }

    /// Starts the turn from the beginning, since nothing of its id is stored, not even a
    /// checkpoint. If it has already asked, the memory may have forgotten the id; then the records
    /// stored since show it.
    async fn start_over(&mut self, memory: &impl AnyMemory) -> Result<()> {
        match self.state.written {
            Written::Held(_) => {}
            _ if self.state.seen.is_some() => self.look_for_first_checkpoint(memory).await?,
            _ => self.state.written = Written::Not,
        }
        self.look = Look::No;
        Ok(())
    }

    /// Continues after the stored messages of its id, which include the question and were seen so.
    fn go_on_behind(&mut self, seen: Seen) {
        self.state.messages.clear();
        self.state.doing = Doing::Asking;
        self.state.rounds = 0;
        self.state.written = Written::Not;
        self.state.before_temporaries = None;
        self.state.notes.clear();
        self.state.seen = Some(seen);
        self.prompts.reset();
        self.look = Look::No;
    }

    /// Returns the conversation as it is now, if a late result has come for a stored call of an
    /// earlier part: then the prompts of this part have that result. Else as it was seen.
    async fn late_result_behind(
        &self,
        memory: &impl AnyMemory,
        (part, on): (u32, Option<On>),
        seen: Seen,
        end: u64,
    ) -> Result<Seen> {
        if end <= seen.end {
            return Ok(seen);
        }
        let on = on.unwrap_or_else(|| seen.on());
        let stored = Stored::behind(Some(seen), Some(on)).read_from(memory, true).await?;
        let is_own = |tag: &str| {
            let of = tag.rsplit_once(':').map(|(of, _)| of);
            (1..part).any(|part| of == Some(&append_id(&self.state.id, part, false)))
        };
        let mut tags = stored.messages.iter().filter_map(|it| it.as_tool()?.call_tag());
        Ok(stored.seen.filter(|_| tags.any(is_own)).unwrap_or(seen))
    }

    /// Returns true if no other owner has written the slot since.
    fn wrote_it(&self, checkpoint: &Unfinished) -> bool {
        checkpoint.state.owner == self.state.owner
            || self.state.calls_are_checkpointed()
                && self.state.held().is_some_and(|held| held.version == checkpoint.version)
    }

    /// Returns false if another owner of the same turn has gone a different way.
    fn goes_on_from(&self, checkpoint: &Unfinished) -> bool {
        let Unfinished { state: written, .. } = checkpoint;
        let is_copy = (written.adoptions, written.part, written.seen.map(|it| it.end))
            == (self.state.adoptions, self.state.part, self.state.seen.map(|it| it.end));
        is_copy && self.state.messages.starts_with(&written.messages)
    }

    fn take_up(&mut self, checkpoint: &Unfinished) {
        let Unfinished { state: written, version } = checkpoint;
        if !self.wrote_it(checkpoint) {
            self.state.hand_out();
            self.state.hand_over();
            self.state.life.clone_from(&written.life);
            self.doubt_what_was_handed_out(written);
            self.prompts.forget_messages();
        }
        let messages = written.messages.len();
        let unapproved = CallState::is_unapproved;
        let is_outdated = written.open_in(unapproved) != self.state.open_in(unapproved)
            || (messages, &written.steers) != (self.state.messages.len(), &self.state.steers);
        let held = Held { version: *version, messages, is_outdated };
        self.state.written = Written::Held(held);
    }

    /// Notes that the owner who wrote this checkpoint may have run the calls that it was handed,
    /// even if this copy waits for approval or has closed them as not run. A repeatable call keeps
    /// waiting if it needs an approval now that it did not need then.
    fn doubt_what_was_handed_out(&mut self, written: &State) {
        let mut handed_out = written.open_in(CallState::is_handed_out);
        for (place, call) in &handed_out {
            let waits = match self.state.call_state(*place) {
                CallState::Answered => true,
                CallState::Unapproved => {
                    self.state.is_repeatable(call) && !written.needs_approval.contains(&call.name)
                }
                _ => false,
            };
            if !waits {
                self.state.set_call(*place, CallState::MayHaveRun);
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

    /// Handles a missing first checkpoint. Either it was never written, or another owner adopted
    /// the turn and ended it. If the newest call of the turn is stored, its calls may have run.
    async fn look_for_first_checkpoint(&mut self, memory: &impl AnyMemory) -> Result<()> {
        let stored = self.read_stored(memory, false).await?;
        let newest = self.state.messages.iter().rev().flat_map(Message::tool_calls).next();
        if stored.has_gaps || newest.is_some_and(|call| stored.has(call)) {
            for (place, _) in self.state.open_calls() {
                self.state.set_call(place, CallState::MayHaveRun);
            }
        }
        self.state.written = Written::Not;
        Ok(())
    }

    /// Uses up the id of the first checkpoint of a turn that is to be forgotten, so that a pending
    /// write has no effect.
    async fn void_first_checkpoint(&mut self, memory: &impl AnyMemory) -> Result<()> {
        let append = Append::default().with_id(self.state.append_id(false));
        let append = append.remove_slot(self.state.slot(), Expected::Absent);
        let mut append = self.on_what_was_seen(append);
        match self.unless_lost(memory.put(&mut append).await)? {
            Some(appended) if appended.repeated => self.lose(),
            Some(appended) => self.end_stored(appended),
            None => {}
        }
        Ok(())
    }

    /// Compares the append that the memory holds under the id of the whole turn; so none was made
    /// now. It is the turn's own only if an earlier one may have been made; otherwise another owner
    /// was faster.
    pub(super) async fn compare(
        &mut self,
        memory: &impl AnyMemory,
        stored: Appended,
    ) -> Result<()> {
        if self.state.commits > 1 || self.was_over {
            let (snapshot, messages) = self.read_appended(memory, &stored).await?;
            // Evicted records can't be compared, and have no calls that could lack a result.
            let is_evicted = snapshot.start > stored.positions.start;
            let is_here = !stored.branch.is_some_and(|branch| self.is_elsewhere(branch));
            if is_here && (is_evicted || messages == self.state.messages) {
                self.end_stored(stored);
                return Ok(());
            }
        }
        self.state.commits = self.state.commits.saturating_sub(1);
        if self.has_slot() {
            // Either another turn made this append after the memory had forgotten the id; or
            // another owner has ended this turn: then its slot is gone, which the next append
            // shows.
            self.commit_id = Some(random_id());
        } else {
            self.look = Look::Request;
        }
        Ok(())
    }

    /// Ends the turn after another owner has ended it. Results that only this owner knows may be
    /// missing, and are appended.
    async fn end_behind_others(
        &mut self,
        memory: &impl AnyMemory,
        mut append: Option<Appended>,
        answer: Option<Vec<Message>>,
    ) -> Result<()> {
        let is_asked = append.is_none() || !self.unwritten().is_empty();
        let stored = if is_asked { self.read_stored(memory, false).await? } else { self.stored() };
        // The owner who has ended the turn has stored the newest call that its slot showed.
        let known = self.state.held().map_or(0, |held| held.messages);
        let written = self.state.messages.iter().take(known).rev();
        let newest = written.flat_map(Message::tool_calls).next();
        if append.is_none() && newest.is_some_and(|call| !stored.has(call)) {
            return Err(forgotten_error());
        }
        let mut first = None;
        for (n, late) in self.unwritten().into_iter().enumerate() {
            let result = late.message().filter(|_| stored.lacks(&late) == Lacks::Result);
            let Some(result) = result else { continue };
            // The id names this owner and what it knows now: another owner may know something else.
            let own = format!("late:{}:{}:{n}", self.state.owner, self.state.messages.len());
            let mut late = stored.append(&late, result, own);
            if !self.limits.recognises_ids() {
                late.since = None;
            }
            let mut put = memory.put(&mut late).await?;
            put.positions.start = *first.get_or_insert(put.positions.start);
            append = Some(put);
        }
        if let Some(answer) = answer {
            self.state.messages = answer;
        }
        self.end(Ended::Adopted, append.map_or(0..0, |it| it.positions));
        Ok(())
    }
}

fn forgotten_error() -> Error {
    let text = "the conversation was deleted, cleared, evicted or begun again since the turn began";
    Error::new(ErrorKind::Forgotten, "turn", text)
}

/// Returns the error for an earlier request that has been running since this time.
fn busy_error(since: Option<SystemTime>) -> Error {
    let text = "a request of this id is being answered";
    Error::new(ErrorKind::Busy { since }, "turn", text)
}
