//! A turn as a state machine without I/O, which says what it wants next.

use std::borrow::Cow;
use std::time::SystemTime;

use super::look::{Look, Request, forgotten_error};
use super::state::{CallState, Doing, Event, Held, Written};
use super::unfinished::waiting_in;
use super::{Call, Done, Ended, OnConflict, OnNoCheckpoint, Step, Turn};
use crate::compose::{Composer, ComposerCache};
use crate::error::{Error, ErrorKind, Remains, Result};
use crate::memory::{Append, Appended, Expected, Limits, On};
use crate::message::{Message, ToolCall, ToolMessage};
use crate::record::{Records, SlotVersion, Snapshot};

// `next` drives it. Hidden, since whoever did it from outside could not say that an append failed.
#[doc(hidden)]
impl Turn {
    /// Says what is to be done next. To ask again changes nothing: an answer that got lost is
    /// simply fetched once more.
    ///
    /// # Errors
    ///
    /// Those of [`Composer::compose`]; [`ErrorKind::Unsupported`] with [`OnNoCheckpoint::Fail`];
    /// [`ErrorKind::Forgotten`] where the conversation was begun again; [`ErrorKind::Adopted`] while
    /// somebody else runs the turn; and [`ErrorKind::Unacknowledged`] where the turn may be stored
    /// and its memory can't tell.
    pub fn step(&mut self, composer: &Composer) -> Result<Step> {
        self.step_cached(composer, &mut ComposerCache::default())
    }

    pub(super) fn step_cached(
        &mut self,
        composer: &Composer,
        cache: &mut ComposerCache,
    ) -> Result<Step> {
        let step = self.wanted(composer, cache)?;
        Ok(if let Step::Read(read) = step { Step::Read(read.on(self.on())) } else { step })
    }

    /// Returns the branch on which it was begun, where that is known.
    pub(crate) fn on(&self) -> Option<On> {
        self.state.on()
    }

    fn wanted(&mut self, composer: &Composer, cache: &mut ComposerCache) -> Result<Step> {
        if let Doing::Done { .. } = &self.state.doing {
            return Ok(Step::Done(self.outcome(Ended::Interrupted)));
        }
        if let Some(tools) = composer.own_tools().filter(|_| self.tools.is_empty()) {
            self.take_tools(tools);
        }
        if matches!(self.state.written, Written::InDoubt(_) | Written::Lost(_))
            && matches!(self.look, Look::No)
        {
            self.look = Look::Slot;
        }
        if self.is_in_doubt() {
            return self.look();
        }
        match self.state.doing {
            // Neither the id nor the slot would tell another try from the first.
            _ if self.commits > 0 && !self.limits.recognises_ids() && !self.has_slot() => {
                Err(unacknowledged_error())
            }
            Doing::Ending(_) | Doing::Forgetting | Doing::Done { .. } => Ok(self.commit()),
            Doing::Calling(_) => self.call(),
            Doing::Asking | Doing::Paused => {
                // If the turn has outgrown its slot, nothing is saved: the slot still says that the
                // calls were begun.
                if self.slot_lacks_a_result()
                    && let Some(save) = self.save()?
                {
                    return Ok(save);
                }
                let of = (&self.tools, &self.limits);
                self.prompts.next(&mut self.state, of, composer, cache)
            }
        }
    }

    /// Sets what the memory takes at most.
    pub fn set_limits(&mut self, limits: Limits) {
        self.limits = limits;
    }

    /// Notes the time, which is told of a turn that was written to its slot.
    pub fn set_time(&mut self, now: SystemTime) {
        self.state.note_time(now);
    }

    /// The slots of the conversation, with their versions.
    pub fn listed(&mut self, slots: &[(String, SlotVersion)]) {
        let is_there = self.prompts.listed(slots, &self.state.slot());
        if is_there && self.is_request && self.state.written == Written::Not {
            // The memory has forgotten its id, and not the turn.
            self.look = Look::Request(Request::in_slot());
        }
    }

    /// Takes what was read.
    ///
    /// # Errors
    ///
    /// [`ErrorKind::Forgotten`] where it is not the conversation that the turn has seen;
    /// [`ErrorKind::Adopted`] if somebody else runs the turn; [`ErrorKind::Busy`] where a
    /// request of its [id](Self::with_id) runs; and [`ErrorKind::Invalid`] where another question
    /// has that id.
    pub fn read(&mut self, snapshot: Snapshot) -> Result<()> {
        if self.state.seen.is_some_and(|seen| !seen.goes_on_in(&snapshot)) {
            return Err(forgotten_error());
        }
        if self.is_in_doubt() {
            return self.looked(&snapshot);
        }
        self.prompts.read(snapshot, &mut self.state);
        Ok(())
    }

    /// Takes the outcome of a [`Step::Save`].
    pub fn saved(&mut self, appended: &Appended) {
        if appended.repeated {
            // By another owner of the same turn, or by another turn of its id: a look tells.
            return self.slot_conflict();
        }
        let held = self.state.held().copied();
        if let Some(version) = appended.version.or_else(|| held.map(|held| held.version)) {
            self.wrote(version);
        }
    }

    /// Takes the outcome of a [`Step::Append`].
    pub fn appended(&mut self, appended: &Appended) {
        match &self.look {
            Look::Void if appended.repeated => return self.slot_conflict(),
            Look::Ended(..) => {
                self.stored = Some(appended.clone());
                return self.appended_late();
            }
            Look::Void => {}
            _ if appended.repeated && self.state.doing != Doing::Forgetting => {
                self.look = if appended.positions.is_empty() && !self.has_slot() {
                    Look::Request(Request::default()) // a checkpoint of another request
                } else {
                    Look::Whole(appended.clone())
                };
                return;
            }
            _ => {}
        }
        self.end_stored(appended.clone());
    }

    /// Tells the turn that its [`Step::Save`] or [`Step::Append`] failed with
    /// [`ErrorKind::SlotConflict`]: somebody else has the turn, or an earlier save was made though
    /// its answer got lost. The next step reads which it is.
    pub fn slot_conflict(&mut self) {
        self.happen(Event::Conflict);
        self.look = Look::Slot;
    }

    /// Its slot has what it wrote last, in this version.
    pub(super) fn wrote(&mut self, version: SlotVersion) {
        let messages = self.state.messages.len();
        self.happen(Event::Saved(Held { version, messages, is_outdated: false }));
        self.look = Look::No;
    }

    /// Takes an event that can't be refused.
    pub(super) fn happen(&mut self, event: Event) {
        let taken = self.state.apply(event);
        debug_assert!(taken.is_ok(), "{taken:?}");
    }

    /// The whole is stored by this append, or nothing of it is.
    pub(super) fn end_stored(&mut self, appended: Appended) {
        let ended = match self.state.doing {
            Doing::Ending(ended) => ended,
            _ => Ended::Interrupted,
        };
        if self.state.doing == Doing::Forgetting {
            self.state.messages.clear();
        }
        self.look = Look::No;
        self.happen(Event::Stored(ended, appended));
    }

    /// The turn is over, and stored by others: with this append, where there is one.
    pub(super) fn end_adopted(&mut self) {
        if let Some(messages) = self.answered_elsewhere.take() {
            self.state.messages = messages;
        }
        let stored = self.stored.take().unwrap_or_else(|| Appended::new(0..0));
        self.look = Look::No;
        self.happen(Event::Stored(Ended::Adopted, stored));
    }

    /// Notes that an append failed, and how.
    pub(super) fn failed(&mut self, kind: ErrorKind) {
        match kind {
            ErrorKind::Unacknowledged => {}
            ErrorKind::Forgotten if matches!(self.look, Look::Ended(..)) => {
                self.look = self.ended();
            }
            // That of the whole, if this was it, was not made.
            _ if matches!(self.look, Look::No) => self.commits = self.commits.saturating_sub(1),
            _ => {}
        }
    }

    /// Returns true if the owner has to look before it goes on.
    fn is_in_doubt(&self) -> bool {
        !matches!(self.look, Look::No)
    }

    /// Hands out the calls that wait; before one that is not repeatable, or needs approval, the
    /// turn is written down.
    fn call(&mut self) -> Result<Step> {
        let is_harmless = |(place, call): (usize, &ToolCall)| {
            // What is decided is written down too, or somebody else could decide otherwise.
            let waits =
                matches!(self.state.state(place), CallState::Unapproved | CallState::Approved);
            self.state.is_repeatable(call) && !waits
        };
        let is_harmless = self.state.open().into_iter().all(is_harmless);
        if !is_harmless && !self.state.is_written() {
            if let Some(save) = self.save()? {
                return Ok(save);
            }
            let is_approved = |(place, _)| self.state.state(place) == CallState::Approved;
            let must_not = if self.state.calls_are_checkpointed() {
                // Its slot says that it waits, and would let somebody approve of it once more.
                self.state.open().into_iter().any(is_approved)
            } else {
                self.state.on_no_checkpoint == OnNoCheckpoint::Fail
            };
            if must_not {
                return Err(self.no_checkpoint_error());
            }
        }
        self.state.apply(Event::HandedOut)?;
        let staged = self.prompts.staged(&self.state);
        let handed_out = self.state.open().into_iter().map(|(place, call)| {
            let (tag, state) = (self.state.call_tag(place), self.state.state(place));
            self.handed_out(call, tag, state, staged.clone())
        });
        Ok(Step::Call(handed_out.collect()))
    }

    pub(super) fn handed_out(
        &self,
        call: &ToolCall,
        tag: String,
        state: CallState,
        staged: Records,
    ) -> Call {
        let is_repeatable = self.state.is_repeatable(call);
        let may_have_run = matches!(state, CallState::Begun | CallState::MayHaveRun);
        Call {
            made: call.clone(),
            read: match self.tool(call).map(|tool| tool.arguments(&call.arguments)) {
                Some(Cow::Owned(read)) => Some(read),
                _ => None,
            },
            tag,
            needs_approval: state == CallState::Unapproved,
            // A turn can be dropped in front of a call that waits only if its slot has all of it.
            is_checkpointed: self.state.calls_are_checkpointed()
                && (state != CallState::Unapproved || self.state.is_written()),
            may_have_run: may_have_run && !is_repeatable,
            is_repeatable,
            staged,
        }
    }

    /// The error before a call that the slot does not know of.
    fn no_checkpoint_error(&self) -> Error {
        let text = if self.limits.has_slots() {
            "the turn has outgrown a slot of this memory, so it has no checkpoint before a tool runs \
             that is not repeatable"
        } else {
            "this memory keeps no checkpoint of the turn before a tool runs that is not repeatable"
        };
        Error::new(ErrorKind::Unsupported, "turn", text)
    }

    /// Returns whether a tool that is not repeatable has had a result since the turn was written
    /// down.
    fn slot_lacks_a_result(&self) -> bool {
        let Some(held) = self.state.held() else { return false };
        let new = self.state.messages.get(held.messages..).unwrap_or_default();
        let counts = |result: &ToolMessage| !self.state.repeatable.contains(result.tool_name());
        new.iter().filter_map(Message::as_tool).any(counts)
    }

    /// The step that writes the turn to its slot; `None` if the memory can't keep it.
    fn save(&mut self) -> Result<Option<Step>> {
        if !self.limits.has_slots() {
            return Ok(None);
        }
        let content = self.state.checkpoint()?;
        if content.len().saturating_add(self.state.growth()) > self.limits.slot {
            return Ok(None);
        }
        let held = self.state.held();
        let expected = held.map_or(Expected::Absent, |held| Expected::Is(held.version));
        let mut save = Append::default().set_slot(self.state.slot(), content, expected);
        if held.is_none() {
            // Once the turn has ended its slot is gone again, and this alone tells that it had one.
            save = save.with_id(self.state.append_id(false));
        }
        let save = self.on_what_was_seen(save);
        self.state.apply(Event::Saving)?;
        Ok(Some(Step::Save(save)))
    }

    /// The append of the whole turn.
    fn commit(&mut self) -> Step {
        let held = self.state.held().map(|held| held.version);
        if self.state.doing == Doing::Forgetting {
            let Some(held) = held else {
                self.end_stored(Appended::new(0..0));
                return Step::Done(self.outcome(Ended::Interrupted));
            };
            let append = Append::default().with_id(format!("forgotten:{}", self.state.owner));
            return Step::Append(append.remove_slot(self.state.slot(), Expected::Is(held)));
        }
        self.commits += 1;
        let mut append = Append::new(self.state.messages.iter().cloned());
        let id = || self.state.append_id(held.is_some());
        append.id = Some(self.commit_id.clone().unwrap_or_else(id));
        if self.state.on_conflict == OnConflict::Fail {
            append.expected = self.state.seen.map(|seen| seen.end);
        }
        if let Some(held) = held {
            append = append.remove_slot(self.state.slot(), Expected::Is(held));
        }
        Step::Append(self.on_what_was_seen(append))
    }

    /// The outcome of the turn; of one that is not over, what there is of it, ended so.
    pub(crate) fn outcome(&self, ended: Ended) -> Done {
        let (ended, positions) = match &self.state.doing {
            Doing::Done { ended, positions } => (*ended, positions.clone()),
            _ => (ended, 0..0),
        };
        let (usage, stop) = (self.state.usage, self.stop);
        let messages = self.state.messages.clone();
        let waiting = match ended {
            Ended::Parked if self.waiting.is_empty() => waiting_in(&self.state),
            _ => self.waiting.clone(),
        };
        let metadata = self.metadata.clone();
        let prompt = self.prompts.last.clone();
        Done { positions, messages, ended, usage, stop, metadata, waiting, prompt }
    }

    /// Returns what is left of a turn that was ended for a failure and could not be stored, for
    /// this reason.
    pub(crate) fn remains(&self, why: Option<ErrorKind>) -> Remains {
        let may_be_written = self.state.written != Written::Not;
        let is_forgetting = self.state.doing == Doing::Forgetting;
        let is_nothing = !may_be_written && self.commits == 0 && !self.state.has_happened();
        match why {
            Some(ErrorKind::Forgotten) if is_nothing => Remains::Nothing,
            Some(ErrorKind::Forgotten) => Remains::Unknown,
            // A turn that was to be forgotten is not stored where its slot is gone.
            _ if self.has_slot() && !is_forgetting => Remains::Unfinished,
            Some(ErrorKind::Unacknowledged) => Remains::Unknown,
            _ if is_nothing => Remains::Nothing,
            _ => Remains::Unknown,
        }
    }

    /// The append, only if the conversation goes on that the turn has seen.
    pub(super) fn on_what_was_seen(&self, mut append: Append) -> Append {
        append.branch = self.on();
        // A memory that recognises ids knows this too.
        let seen = self.state.seen.filter(|_| self.limits.recognises_ids());
        seen.into_iter().fold(append, |append, seen| append.since(&seen.snapshot()))
    }
}

fn unacknowledged_error() -> Error {
    let text = "the turn may be stored, and this memory recognises no ids: look whether it is, \
                before its messages are appended again";
    Error::new(ErrorKind::Unacknowledged, "turn", text)
}
