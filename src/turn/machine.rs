//! Runs a turn over a memory: what it reads and writes until its owner has to act.

use std::borrow::Cow;
use std::ops::Range;
use std::sync::Arc;
use std::time::SystemTime;

use super::decision::find;
use super::look::Look;
use super::over::AnyMemory;
use super::room::{ENVELOPE, is_unbounded};
use super::state::{CallState, Doing, Held, Seen, Written, append_id};
use super::unfinished::waiting_in;
use super::{Call, Done, Ended, Next, OnConflict, OnNoCheckpoint, Turn};
use crate::error::{Error, ErrorKind, Remains, Result};
use crate::memory::{Append, Appended, Expected, Limits};
use crate::memory_prompt::MemoryPrompt;
use crate::message::Message;
use crate::record::SlotVersion;

impl Turn {
    /// Does the work on the memory, and returns what the owner has to do next.
    pub(super) async fn run<M: ?Sized>(&mut self, prompt: &MemoryPrompt<M>) -> Result<Next>
    where
        Arc<M>: AnyMemory,
    {
        let memory = prompt.memory();
        let conversation = memory.name();
        if self.conversation.get_or_insert_with(|| conversation.clone()) != conversation {
            let text = "the turn belongs to another conversation than this memory's";
            return Err(Error::invalid("turn", text));
        }
        self.limits = memory.bounds();
        let Limits { message, batch, .. } = self.limits;
        self.state.bounds = (!is_unbounded(&self.limits)).then_some((message, batch));
        self.state.note_time(SystemTime::now());
        if let Some(tools) = prompt.composer().own_tools().filter(|_| self.tools.is_empty()) {
            self.take_tools(tools);
        }
        if self.may_have_come_before() {
            self.state.check_id()?;
            if self.limits.recognises_ids() {
                self.look = Look::Request;
            }
        }
        loop {
            if matches!(self.state.doing, Doing::Done { .. }) {
                return Ok(Next::Done(self.outcome(Ended::Interrupted)));
            }
            if self.look(memory).await? {
                continue;
            }
            // Nothing would distinguish a second append from the first: there are no ids and no
            // slot.
            if self.state.commits > 0 && !self.limits.recognises_ids() && !self.has_slot() {
                let text = "the turn may be stored, and this memory recognises no ids: check \
                            whether it is before its messages are appended again";
                return Err(Error::new(ErrorKind::Unacknowledged, "turn", text));
            }
            let lacks_a_checkpoint = self.lacks_a_checkpoint();
            if lacks_a_checkpoint && self.save(memory).await? {
                continue;
            }
            match self.state.doing {
                // If the turn is larger than its slot, the slot still says that the calls were
                // begun.
                Doing::Asking | Doing::Paused => {
                    if let Some(ask) = self.ask(prompt).await? {
                        return Ok(Next::Ask(ask));
                    }
                }
                Doing::Calling(_) if lacks_a_checkpoint && self.must_not_go_on() => {
                    let text = "no checkpoint can be kept before a tool runs that is not \
                                repeatable: this memory has no slots, or the turn has outgrown one";
                    return Err(Error::new(ErrorKind::Unsupported, "turn", text));
                }
                Doing::Calling(_) => return Ok(Next::Call(self.hand_out())),
                _ => self.commit(memory).await?,
            }
        }
    }

    /// Returns true if requests of its id may have come before, and it has not looked for them yet.
    fn may_have_come_before(&self) -> bool {
        self.state.is_request
            && self.state.has_not_begun()
            && !self.is_over()
            && self.look == Look::No
    }

    /// Returns the append that adopts the turn, in the conversation that it has seen.
    pub(super) fn adoption(&mut self) -> Result<Append> {
        self.state.note_time(SystemTime::now());
        let held = self.state.held().map(|held| held.version);
        let expected = held.map_or(Expected::Absent, Expected::Is);
        let checkpoint = self.state.checkpoint()?;
        let adoption = Append::default().set_slot(self.state.slot(), checkpoint, expected);
        Ok(self.on_what_was_seen(adoption))
    }

    pub(super) fn saved(&mut self, appended: &Appended) {
        if appended.repeated {
            // Another owner of the same turn wrote it, or another turn of its id: the next look
            // shows which.
            return self.lose();
        }
        let held = self.state.held().map(|held| held.version);
        if let Some(version) = appended.version.or(held) {
            self.wrote(version);
        }
    }

    /// Notes that the slot holds the whole turn, in this version.
    pub(super) fn wrote(&mut self, version: SlotVersion) {
        let messages = self.state.messages.len();
        self.state.written = Written::Held(Held { version, messages, is_outdated: false });
    }

    /// Notes that another owner has the turn, or that an earlier save was made although the reply
    /// was lost: the slot shows which.
    pub(super) fn lose(&mut self) {
        self.state.written = Written::Lost(self.state.held().copied());
    }

    /// Returns the outcome of an append; `None` if another owner has written the slot.
    pub(super) fn unless_lost(&mut self, outcome: Result<Appended>) -> Result<Option<Appended>> {
        match outcome {
            Err(error) if error.kind() == ErrorKind::SlotConflict => {
                self.lose();
                Ok(None)
            }
            outcome => outcome.map(Some),
        }
    }

    /// Ends the turn: this append has stored all of it, or nothing if it is to be forgotten.
    pub(super) fn end_stored(&mut self, appended: Appended) {
        let ended = match self.state.doing {
            Doing::Ending(ended) => ended,
            _ => Ended::Interrupted,
        };
        if self.state.doing == Doing::Forgetting {
            self.state.messages.clear();
        }
        self.end(ended, appended.positions);
    }

    /// Ends the turn, whose messages are stored at these positions.
    pub(super) fn end(&mut self, ended: Ended, positions: Range<u64>) {
        self.state.doing = Doing::Done { ended, positions };
    }

    /// Returns true if the turn must be written to its slot before it goes on: before a call that
    /// is not repeatable or needs approval, and after the result of such a call.
    fn lacks_a_checkpoint(&self) -> bool {
        let state = &self.state;
        match &state.doing {
            Doing::Calling(calls) => {
                // A decision is written down too, or another person could decide otherwise.
                let waits = |it| matches!(it, &CallState::Unapproved | &CallState::Approved);
                let mut open = state.open().into_iter();
                let needs_one =
                    calls.iter().any(waits) || open.any(|(_, call)| !state.is_repeatable(call));
                needs_one && !state.is_written()
            }
            Doing::Asking | Doing::Paused => {
                let known = state.held().map(|held| held.messages);
                let new = known.and_then(|known| state.messages.get(known..)).unwrap_or_default();
                let mut results = new.iter().filter_map(Message::as_tool);
                results.any(|it| !state.repeatable.contains(it.tool_name()))
            }
            _ => false,
        }
    }

    fn must_not_go_on(&self) -> bool {
        match &self.state.doing {
            // The slot says that the call waits, so another person could approve it once more.
            Doing::Calling(calls) if self.state.calls_are_checkpointed() => {
                calls.contains(&CallState::Approved)
            }
            _ => self.state.on_no_checkpoint == OnNoCheckpoint::Fail,
        }
    }

    fn hand_out(&mut self) -> Vec<Call> {
        self.state.hand_out();
        let staged = self.prompts.staged(&self.state);
        let is_checkpointed = self.state.calls_are_checkpointed();
        let handed_out = self.state.open().into_iter().map(|(place, call)| {
            let (state, is_repeatable) =
                (self.state.call_state(place), self.state.is_repeatable(call));
            let may_have_run = matches!(state, CallState::Begun | CallState::MayHaveRun);
            let needs_approval = state == CallState::Unapproved;
            Call {
                made: call.clone(),
                read: match self.tool(call).map(|tool| tool.arguments(&call.arguments)) {
                    Some(Cow::Owned(read)) => Some(read),
                    _ => None,
                },
                tag: self.state.call_tag(place),
                needs_approval,
                // A turn can be dropped while a call waits only if its slot holds all of the turn.
                is_checkpointed: is_checkpointed && (!needs_approval || self.state.is_written()),
                may_have_run: may_have_run && !is_repeatable,
                is_repeatable,
                staged: staged.clone(),
                on: self.state.on(),
            }
        });
        handed_out.collect()
    }

    /// Returns true if its messages alone are larger than a slot.
    fn has_outgrown_slot(&mut self) -> bool {
        let slot = self.limits.slot;
        let sizes = if slot < usize::MAX { self.prompts.sizes(&self.state.messages) } else { &[] };
        sizes.iter().map(|it| it.saturating_sub(ENVELOPE)).sum::<usize>() > slot
    }

    /// Writes the turn to its slot; returns false if the memory can't hold it.
    async fn save(&mut self, memory: &impl AnyMemory) -> Result<bool> {
        if !self.limits.has_slots() || self.has_outgrown_slot() {
            return Ok(false);
        }
        let content = self.state.checkpoint()?;
        if content.len().saturating_add(self.state.growth()) > self.limits.slot {
            return Ok(false);
        }
        let held = self.state.held().copied();
        let expected = held.map_or(Expected::Absent, |held| Expected::Is(held.version));
        let mut save = Append::default().set_slot(self.state.slot(), content, expected);
        if held.is_none() {
            // The slot is gone once the turn has ended; then only this id shows that it had one.
            save = save.with_id(self.state.append_id(false));
        }
        let mut save = self.on_what_was_seen(save);
        self.state.written = Written::InDoubt(held);
        if let Some(appended) = self.unless_lost(memory.put(&mut save).await)? {
            self.saved(&appended);
        }
        Ok(true)
    }

    /// Appends the whole turn; or, if the turn is to be forgotten, removes its slot.
    async fn commit(&mut self, memory: &impl AnyMemory) -> Result<()> {
        let held = self.state.held().map(|held| held.version);
        let is_forgetting = self.state.doing == Doing::Forgetting;
        let mut append = if is_forgetting {
            if held.is_none() {
                self.end_stored(Appended::new(0..0));
                return Ok(());
            }
            Append::default().with_id(format!("forgotten:{}", self.state.owner))
        } else {
            if self.commit_id.is_none() && self.is_first_part_forgotten(memory).await? {
                self.commit_id = Some(append_id(&self.state.id, 1, true));
            }
            let id = || self.state.append_id(held.is_some());
            let mut append = Append::new(self.state.messages.iter().cloned());
            append.id = Some(self.commit_id.clone().unwrap_or_else(id));
            if self.state.on_conflict == OnConflict::Fail {
                append.expected = self.state.seen.map(|seen| seen.end);
            }
            self.state.commits += 1;
            append
        };
        append = self.on_what_was_seen(append);
        if let Some(held) = held {
            append = append.remove_slot(self.state.slot(), Expected::Is(held));
        }
        let outcome = memory.put(&mut append).await;
        if let Err(error) = &outcome
            && error.kind() != ErrorKind::Unacknowledged
        {
            self.state.commits = self.state.commits.saturating_sub(1); // this one was not made
        }
        let Some(appended) = self.unless_lost(outcome)? else { return Ok(()) };
        if !appended.repeated || is_forgetting {
            self.end_stored(appended);
        } else if appended.positions.is_empty() && !self.has_slot() {
            self.look = Look::Request; // a checkpoint of another request
        } else {
            self.compare(memory, appended).await?;
        }
        Ok(())
    }

    /// Returns true if the memory has forgotten the first part of the id while this one waited in
    /// its slot. A retry begins its search there, so this part has to replace it.
    async fn is_first_part_forgotten(&self, memory: &impl AnyMemory) -> Result<bool> {
        let mut is_known =
            self.state.part == 1 || !self.has_slot() || !self.limits.recognises_ids();
        for behind_checkpoint in [false, true] {
            let mut first = find((&self.state.id, 1), behind_checkpoint, self.state.on());
            is_known = is_known || memory.put(&mut first).await?.repeated;
        }
        Ok(!is_known)
    }

    /// Returns the outcome of a turn that waits for people.
    pub(crate) fn park(&mut self) -> Done {
        let done = self.outcome(Ended::Parked);
        self.state.doubt_decisions();
        done
    }

    /// Returns the outcome of the turn. If it has not ended, `ended` says how it stopped.
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

    /// Returns what is left of a turn that failed and could not be stored, for this reason.
    pub(crate) fn remains(&self, why: Option<ErrorKind>) -> Remains {
        let may_be_written = self.state.written != Written::Not;
        let is_forgetting = self.state.doing == Doing::Forgetting;
        let is_nothing = !may_be_written && self.state.commits == 0 && !self.state.may_have_acted();
        match why {
            Some(ErrorKind::Busy { .. }) => Remains::Unfinished, // another request of its id
            Some(ErrorKind::Forgotten) if is_nothing => Remains::Nothing,
            Some(ErrorKind::Forgotten) => Remains::Unknown,
            _ if is_nothing && self.goes_on_behind_others() => Remains::Stored,
            // A turn that was to be forgotten is not stored if its slot is gone.
            _ if self.has_slot() && !is_forgetting => Remains::Unfinished,
            Some(ErrorKind::Unacknowledged) => Remains::Unknown,
            _ if is_nothing => Remains::Nothing,
            _ => Remains::Unknown,
        }
    }

    /// Returns true if earlier requests of its id have stored the question, and more.
    pub(crate) fn goes_on_behind_others(&self) -> bool {
        self.state.asked_at.is_some()
    }

    /// Adds the condition that the conversation is still the one that the turn has seen.
    pub(super) fn on_what_was_seen(&self, mut append: Append) -> Append {
        append.branch = self.state.on();
        // A memory that recognises ids can also check this condition.
        let seen = self.state.seen.filter(|_| self.limits.recognises_ids());
        append.since = seen.map(Seen::since);
        append
    }
}
