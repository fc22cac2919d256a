//! A turn as a state machine without I/O, which says what it wants next.

use std::borrow::Cow;
use std::sync::Arc;
use std::time::UNIX_EPOCH;

use super::document::{Document, PREFIX, Seen};
use super::owner::excess;
use super::recovery::Hold;
use super::unfinished::note_about;
use super::{Ask, Call, Done, Ended, OnConflict, OnNoCheckpoint, Turn};
use crate::compose::{Composer, ComposerCache, Composition, Temporaries};
use crate::composed::Prompt;
use crate::error::{Error, ErrorKind, Remains, Result};
use crate::memory::{Append, Appended, Expected, Read};
use crate::message::{Message, ToolCall, ToolMessage};
use crate::record::{Records, SlotVersion, Snapshot};

/// The next thing that a turn wants, for those who bring their own I/O: [`Turn::step`].
#[derive(Debug)]
pub enum Step {
    /// The slots of the conversation are to be listed, for [`Turn::listed`].
    List,
    /// The conversation is to be read, for [`Turn::read`].
    Read(Read),
    /// This is to be appended before anything else happens, for [`Turn::saved`].
    Save(Append),
    /// The model is to be asked, for [`Turn::answer`].
    Ask(Ask),
    /// These tools are to be run, for [`Turn::result`].
    Call(Vec<Call>),
    /// This is to be appended, for [`Turn::appended`]: the whole turn.
    Append(Append),
    /// All is said, and stored.
    Done(Done),
}

impl Turn {
    /// Says what is to be done next. To ask again changes nothing: an answer that got lost is
    /// simply fetched once more.
    ///
    /// # Errors
    ///
    /// Those of [`Composer::compose`]; [`ErrorKind::Unsupported`] with [`OnNoCheckpoint::Fail`];
    /// [`ErrorKind::Forgotten`] where the conversation was begun anew; [`ErrorKind::Adopted`] while
    /// somebody else runs the turn; and [`ErrorKind::Unacknowledged`] where the turn may be stored
    /// and its memory can't tell.
    pub fn step(&mut self, composer: &Composer) -> Result<Step> {
        let mut cache = std::mem::take(&mut self.cache);
        let step = self.step_cached(composer, &mut cache);
        self.cache = cache;
        step
    }

    pub(super) fn step_cached(
        &mut self,
        composer: &Composer,
        cache: &mut ComposerCache,
    ) -> Result<Step> {
        if let Some(done) = &self.done {
            return Ok(Step::Done(done.clone()));
        }
        if let Some(tools) = composer.own_tools().filter(|_| self.tools.is_empty()) {
            self.take_tools(tools);
        }
        if self.document.is_saving && !self.is_in_doubt() {
            self.hold = Hold::Unsure; // nobody has said what came of it
        }
        if self.is_in_doubt() {
            return Ok(self.look());
        }
        if self.may_not_be_tried_again {
            return Err(unacknowledged_error());
        }
        if self.document.ended.is_some() {
            self.tries = self.tries.saturating_add(1);
            return Ok(self.commit());
        }
        if self.waiting().next().is_some() {
            return self.call();
        }
        // Where it has grown larger than a slot, the slot goes on to say that the calls were begun.
        if self.slot_is_stale()
            && let Some(save) = self.save()?
        {
            return Ok(save);
        }
        self.ask(composer, cache)
    }

    /// The slots of the conversation, with their versions.
    pub fn listed(&mut self, slots: &[(String, SlotVersion)]) {
        let turns = slots.iter().map(|(name, _)| name);
        let others = turns.filter(|name| name.starts_with(PREFIX) && **name != self.document.slot);
        self.listed = Some(others.cloned().collect());
    }

    /// Takes what was read.
    ///
    /// # Errors
    ///
    /// [`ErrorKind::Forgotten`] where it is not the conversation that the turn has seen, and
    /// [`ErrorKind::Adopted`] where somebody else runs the turn.
    pub fn read(&mut self, mut snapshot: Snapshot) -> Result<()> {
        if self.is_in_doubt() {
            return self.looked(&snapshot);
        }
        let seen = self.document.seen;
        if let Some(seen) = seen {
            if !seen.goes_on_in(&snapshot) {
                return Err(forgotten_error());
            }
            // Others may have gone on behind it, and evicted what was before.
            snapshot.end = seen.end;
            snapshot.start = snapshot.start.min(seen.end);
        }
        if snapshot.rows() < self.wanted {
            // A memory that answers with less has no more, even where it does not list what it
            // lost.
            snapshot.start = snapshot.oldest_row();
        }
        if seen.is_none() {
            self.document.seen = Some(Seen::of(&snapshot));
            self.document.note = note_about(&snapshot);
        }
        self.base = Some(snapshot);
        Ok(())
    }

    /// Takes the outcome of a [`Step::Save`].
    pub fn saved(&mut self, appended: &Appended) {
        if appended.repeated {
            // By another owner of the same turn, or by another turn of its id: a look tells.
            return self.slot_conflict();
        }
        self.document.kept = appended.version.or(self.document.kept);
        self.document.kept_messages = self.document.messages.len();
        (self.document.is_saving, self.document.is_stale) = (false, false);
        self.hold = Hold::Own;
    }

    /// Takes the outcome of a [`Step::Append`].
    pub fn appended(&mut self, appended: &Appended) {
        if self.was_unwritten(appended) {
            return;
        }
        let is_of_others = self.is_in_doubt();
        if appended.repeated && !is_of_others && !self.document.forgets {
            return self.was_stored(appended);
        }
        if self.appended_what_is_lacking() {
            return; // the next step goes on with that
        }
        let own = self.document.ended.unwrap_or(Ended::Interrupted);
        let mut done = match is_of_others {
            true => self.outcome(Ended::Adopted),
            false if self.document.forgets => self.forgotten(),
            false => self.outcome(own),
        };
        (done.positions, done.recognised) = (appended.positions.clone(), appended.recognised);
        self.done = Some(done);
    }

    /// Tells the turn that its [`Step::Save`] or [`Step::Append`] failed with
    /// [`ErrorKind::SlotConflict`]: somebody else has the turn, or an earlier save was made though
    /// its answer got lost. The next step reads which it is.
    pub fn slot_conflict(&mut self) {
        self.hold = Hold::Lost;
    }

    /// Notes that an append failed, and how.
    pub(super) fn failed(&mut self, kind: ErrorKind) {
        if kind == ErrorKind::Forgotten && self.is_ended_by_others() {
            self.look_anew();
        }
        let may_be_done = kind == ErrorKind::Unacknowledged && self.is_over();
        self.may_be_stored |= may_be_done;
        // Neither the id nor the slot would tell the second try from the first.
        self.may_not_be_tried_again |=
            may_be_done && !self.limits.recognises_ids() && self.document.kept.is_none();
    }

    /// Hands out the calls that wait; before one that is not repeatable the turn is written down.
    fn call(&mut self) -> Result<Step> {
        let harmless = |(i, call)| self.document.is_repeatable(call) && !self.is_unapproved(i);
        let harmless = self.waiting().all(harmless);
        let is_written =
            !self.document.is_stale && self.document.kept_messages >= self.document.messages.len();
        if !harmless && !is_written {
            if let Some(save) = self.save()? {
                return Ok(save);
            }
            if self.document.on_no_checkpoint == OnNoCheckpoint::Fail
                && !self.document.calls_are_kept()
            {
                return Err(self.unkept_error());
            }
        }
        self.document.note_handed_out();
        let may_have_run = &self.document.may_have_run;
        let is_kept = self.document.calls_are_kept();
        let staged =
            self.document.seen.map_or_else(Records::default, |seen| self.staged_from(seen.end));
        let handed_out = self.waiting().map(|(i, call)| Call {
            made: call.clone(),
            read: self.handed(call),
            tag: self.document.call_tag(i),
            needs_approval: self.is_unapproved(i),
            is_kept,
            may_have_run: may_have_run.contains(&i) && !self.document.is_repeatable(call),
            is_repeatable: self.document.is_repeatable(call),
            staged: staged.clone(),
        });
        Ok(Step::Call(handed_out.collect()))
    }

    /// Returns what a call hands to its tool, where that is not what the model wrote.
    pub(super) fn handed(&self, call: &ToolCall) -> Option<String> {
        match self.tool(call)?.arguments(&call.arguments) {
            Cow::Borrowed(_) => None,
            Cow::Owned(read) => Some(read),
        }
    }

    /// The error before a call that the slot does not know of.
    fn unkept_error(&self) -> Error {
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
    fn slot_is_stale(&self) -> bool {
        let new = self.document.messages.get(self.document.kept_messages..).unwrap_or_default();
        let counts = |result: &ToolMessage| !self.document.repeatable.contains(result.tool_name());
        self.document.kept.is_some() && new.iter().filter_map(Message::as_tool).any(counts)
    }

    /// The step that writes the turn to its slot; `None` where the memory can't keep it.
    fn save(&mut self) -> Result<Option<Step>> {
        let save = self.checkpoint_append()?;
        self.document.is_saving = save.is_some();
        Ok(save.map(Step::Save))
    }

    fn checkpoint_append(&self) -> Result<Option<Append>> {
        if !self.limits.has_slots() {
            return Ok(None);
        }
        let mut document = self.document.clone();
        document.note_handed_out(); // whoever reads it can't know better
        (document.is_saving, document.is_stale) = (false, false);
        let content = serde_json::to_vec(&document).map_err(|error| {
            Error::new(ErrorKind::Codec, "turn", "it can't be written").with_source(error)
        })?;
        if content.len().saturating_add(document.growth()) > self.limits.slot {
            return Ok(None);
        }
        let expected = self.document.kept.map_or(Expected::Absent, Expected::Is);
        let mut save = Append::default().set_slot(self.document.slot.as_str(), content, expected);
        if expected == Expected::Absent {
            // Once the turn has ended its slot is gone again, and this alone tells that it had one.
            save = save.with_id(self.append_id());
        }
        Ok(Some(self.on_what_was_seen(save)))
    }

    /// The append of the whole turn.
    fn commit(&mut self) -> Step {
        if self.document.forgets {
            return match self.document.kept {
                None => Step::Done(self.forgotten()),
                Some(kept) => {
                    let append = Append::default().with_id(self.append_id() + ":forgotten");
                    Step::Append(self.without_slot(append, kept))
                }
            };
        }
        let mut append = Append::new(self.document.messages.iter().cloned());
        append.id = Some(match self.document.kept {
            None => self.append_id(),
            Some(_) => self.append_id_behind_checkpoint(),
        });
        if self.document.on_conflict == OnConflict::Fail {
            append.expected = self.document.seen.map(|seen| seen.end);
        }
        if let Some(version) = self.document.kept {
            append = self.without_slot(append, version);
        }
        Step::Append(self.on_what_was_seen(append))
    }

    /// The id of the first append of the turn, a checkpoint or the whole: a memory takes one of it.
    pub(super) fn append_id(&self) -> String {
        format!("{PREFIX}{}", self.document.id)
    }

    /// The id of the append of the whole, where the checkpoint has the other.
    pub(super) fn append_id_behind_checkpoint(&self) -> String {
        self.append_id() + ":done"
    }

    fn without_slot(&self, append: Append, kept: SlotVersion) -> Append {
        append.remove_slot(self.document.slot.as_str(), Expected::Is(kept))
    }

    /// The outcome of a turn that was to be forgotten, and is.
    pub(super) fn forgotten(&mut self) -> Done {
        self.document.messages.clear();
        self.outcome(Ended::Interrupted)
    }

    /// The outcome of a turn that has appended nothing.
    pub(crate) fn outcome(&self, ended: Ended) -> Done {
        let (usage, stop) = (self.document.usage, self.stop);
        let messages = self.document.messages.clone();
        Done { positions: 0..0, messages, ended, recognised: false, usage, stop }
    }

    /// Returns what is left of a turn that was ended for a failure and could not be stored, for
    /// this reason.
    pub(crate) fn remains(&self, why: Option<ErrorKind>) -> Remains {
        let Document { is_saving, kept, forgets, .. } = &self.document;
        let may_be_kept = *is_saving || kept.is_some();
        let is_nothing = !may_be_kept && !self.may_be_stored && !self.has_happened();
        match why {
            Some(ErrorKind::Forgotten) if is_nothing => Remains::Nothing,
            Some(ErrorKind::Forgotten) => Remains::Unknown,
            // A turn that was to be forgotten is not stored where its slot is gone.
            _ if kept.is_some() && !forgets => Remains::Unfinished,
            Some(ErrorKind::Unacknowledged) => Remains::Unknown,
            _ if is_nothing => Remains::Nothing,
            _ => Remains::Unknown,
        }
    }

    /// The append, only if the conversation goes on that the turn has seen.
    pub(super) fn on_what_was_seen(&self, append: Append) -> Append {
        // A memory that recognises ids knows this too.
        let Some(mut seen) = self.document.seen.filter(|_| self.limits.recognises_ids()) else {
            return append;
        };
        if self.document.kept.is_some() {
            // The slot tells whether it was cleared; what the turn has seen may be evicted.
            seen.start = seen.end;
        }
        append.since(&seen.snapshot())
    }

    /// Reads what is needed, and composes.
    fn ask(&mut self, composer: &Composer, cache: &mut ComposerCache) -> Result<Step> {
        if self.listed.is_none() && self.document.seen.is_none() && self.limits.has_slots() {
            return Ok(Step::List);
        }
        if !self.document.is_paused {
            self.document.messages.append(&mut self.document.steers);
        }
        if self.document.messages.first().is_some_and(Message::is_system) {
            return Err(Error::invalid("turn", "a system message is no question"));
        }
        self.check_id()?;
        if let Some(text) = excess(&self.limits, &self.document.messages, self.room_for_answer()) {
            return Err(Error::new(ErrorKind::Invalid, "turn", text));
        }
        let staged = self.document.messages.len();
        let Some(base) = &self.base else {
            return Ok(self.fetch(composer, composer.first_read().saturating_sub(staged)));
        };
        let single = composer.positions(base)?;
        if single.iter().any(|position| !self.single.contains(position)) {
            self.single = single;
            let wanted = self.wanted;
            return Ok(self.fetch(composer, wanted));
        }
        let end = base.end;
        let mut snapshot = base.clone();
        self.staged = self.staged_from(end);
        snapshot.stage(self.staged.clone());
        if self.document.before_temporaries == 0 {
            self.document.before_temporaries = staged;
        }
        let behind = end + self.document.before_temporaries as u64;
        let temporaries = self.sent_temporaries();
        let temporaries = Temporaries::before(&temporaries, behind).with_tools(&self.tools);
        let temporaries = temporaries.with_free(self.kept_free, self.recalled_tokens(composer)?);
        match composer.compose_with(&mut snapshot, temporaries, Some(cache)) {
            Ok(Composition::Ready(prompt)) => Ok(Step::Ask(self.asked(prompt))),
            Ok(Composition::ReadMore(n)) => Ok(self.fetch(composer, n.saturating_sub(staged))),
            // The turn has grown, and goes before what was recalled for it.
            Err(error)
                if matches!(error.kind(), ErrorKind::Budget { .. }) && self.forget_recalled() =>
            {
                self.ask(composer, cache)
            }
            Err(error) => Err(error),
        }
    }

    /// Returns the messages of the turn as records that stand from this position on.
    fn staged_from(&self, end: u64) -> Records {
        let mut staged = self.staged.clone();
        let known = staged.len();
        let new = self.document.messages.get(known..).unwrap_or_default();
        let new = (end + known as u64..).zip(new).map(|(seq, it)| (seq, UNIX_EPOCH, it.clone()));
        staged.extend(Records::from_rows(new));
        staged
    }

    fn asked(&self, prompt: Prompt) -> Ask {
        let mut prompt = prompt.with_recalled(self.recalled.clone());
        if let Some(told) = self.told.clone() {
            prompt = prompt.with_recall_outcome(told.nothing, told.failed);
        }
        Ask { prompt, tools: Arc::clone(&self.tools), round: self.document.rounds }
    }

    /// The read of the newest `n` records that the turn may see.
    fn fetch(&mut self, composer: &Composer, n: usize) -> Step {
        self.wanted = n;
        let mut read = Read::newest(n).positions(self.single.iter().copied());
        match self.document.seen {
            Some(seen) => read.before = Some(seen.end),
            None => read.slots = self.listed.clone().unwrap_or_default(),
        }
        if self.limits.has_slots() {
            read = read.slots(composer.slots());
            if self.document.seen.is_some() {
                read = read.slots(composer.earlier_slots());
            }
        }
        Step::Read(read)
    }
}

fn unacknowledged_error() -> Error {
    let text = "the turn may be stored, and this memory recognises no ids: look whether it is, \
                before its messages are appended again";
    Error::new(ErrorKind::Unacknowledged, "turn", text)
}

pub(super) fn forgotten_error() -> Error {
    let text = "the conversation was deleted, cleared, evicted or begun anew since the turn began";
    Error::new(ErrorKind::Forgotten, "turn", text)
}
