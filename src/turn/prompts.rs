//! The prompts of a turn: what is read for them, and where they have the messages of the turn.

use std::sync::Arc;
use std::time::UNIX_EPOCH;

use super::late::Stored;
use super::look::Look;
use super::over::AnyMemory;
use super::room::{excess, room_for_answer, size};
use super::state::{Doing, PREFIX, Seen, State, Written};
use super::unfinished::{begun_by_others, note_of, shorten, stored_by_others};
use super::{Ask, Turn};
use crate::compose::{Composer, Composition, Temporaries};
use crate::error::{Error, ErrorKind, Result};
use crate::memory::{On, Read, must_not_refer};
use crate::memory_prompt::{MemoryPrompt, sends_as_much, unasked_reference};
use crate::message::{AiMessage, Message, ToolCall};
use crate::prompt::{MediaData, Prompt, Recalled};
use crate::recall::{Found, Outcome};
use crate::record::{Records, Replaced, Snapshot};

/// What the prompts of a turn are made of, in addition to its state.
#[derive(Default)]
pub(super) struct Prompts {
    pub(super) last: Option<Arc<Prompt>>,
    /// True once the note about other turns is made: what they have begun or done that this turn
    /// does not see.
    pub(super) knows_others: bool,
    /// The snapshot that the first prompt of the turn has read, and the number of records that were
    /// asked for.
    base: Option<Snapshot>,
    wanted: usize,
    /// The single records that were asked for in addition.
    single: Vec<u64>,
    /// The messages of the turn after it, as records, as far as they were staged.
    staged: Records,
    /// The sizes of the messages of the turn, as far as they were measured.
    sizes: Vec<usize>,
    /// The positions of the recalled records.
    recalled: Vec<Recalled>,
    /// The outcome of the search, if there was one.
    outcome: Option<Outcome>,
    /// The data of media that were read separately from the records that refer to them.
    media: MediaData,
    /// True once media are read with the records: some were evicted before they were read.
    reads_media: bool,
}

impl Prompts {
    pub(super) fn read_so_far(&self) -> impl Iterator<Item = &Message> {
        self.base.iter().flat_map(|base| base.records.iter()).map(|it| it.message())
    }

    pub(super) fn reset(&mut self) {
        *self = Self { last: self.last.take(), ..Self::default() };
    }

    /// Notes that messages of the turn have changed.
    pub(super) fn forget_messages(&mut self) {
        (self.staged, self.sizes) = (Records::default(), Vec::new());
    }

    /// Returns the sizes of these messages, which are all of the turn. Each is measured once.
    pub(super) fn sizes(&mut self, messages: &[Message]) -> &[usize] {
        let new = messages.get(self.sizes.len()..).unwrap_or_default();
        self.sizes.extend(new.iter().map(size));
        &self.sizes
    }

    /// Returns the messages of the turn as records, after what was read.
    pub(super) fn staged(&self, state: &State) -> Records {
        let Some(seen) = state.seen else { return Records::default() };
        let mut staged = self.staged.clone();
        let known = staged.len();
        let new = state.messages.get(known..).unwrap_or_default();
        let new = (seen.end + known as u64..)
            .zip(new)
            .map(|(position, it)| (position, UNIX_EPOCH, it.clone()));
        staged.extend(Records::from_rows(new));
        staged
    }

    /// Drops what was recalled; returns false if there was nothing.
    fn forget_recalled(&mut self, state: &mut State) -> bool {
        self.recalled.clear();
        state.recalled.take().is_some()
    }
}

impl Turn {
    /// Returns what the model is to be asked; `None` if the turn must look at its slot first.
    pub(super) async fn ask<M: ?Sized>(&mut self, prompt: &MemoryPrompt<M>) -> Result<Option<Ask>>
    where
        Arc<M>: AnyMemory,
    {
        let memory = prompt.memory();
        let ask = loop {
            if !self.prompts.knows_others {
                self.learn_of_others(memory).await?;
                if !self.prompts.knows_others {
                    return Ok(None);
                }
            }
            self.check_question()?;
            let ask = self.compose(prompt).await?;
            // Otherwise the read has shown undone messages, and the note must mention their calls.
            if self.prompts.knows_others {
                break ask;
            }
        };
        let messages = &self.state.messages;
        let is_asked =
            self.state.recalled.is_some() || messages.iter().any(|it| it.as_ai().is_some());
        let base = self.prompts.base.as_ref().filter(|_| !is_asked);
        let search = base.and_then(|it| prompt.search(memory.name(), &ask.prompt, it, messages));
        let Some(search) = search else { return Ok(Some(ask)) };
        let mut search = search.on(self.state.on());
        let found = memory.recall(&mut search).await?;
        Ok(Some(self.recall(prompt, ask, found, search.outcome())))
    }

    /// Adds a note about what other turns have begun or done. Turns that still run come last: only
    /// this note mentions them.
    ///
    /// The note goes before the question, since small models answer what comes last. But if the
    /// model has signed its thoughts, nothing before these may change: then new lines go to the end
    /// of what was said so far.
    async fn learn_of_others(&mut self, memory: &impl AnyMemory) -> Result<()> {
        let own = self.state.slot();
        let mut slots = if self.limits.has_slots() { memory.list().await? } else { Vec::new() };
        slots.retain(|(name, _)| name.starts_with(PREFIX));
        let is_own_there = slots.iter().any(|(name, _)| *name == own);
        if is_own_there && self.state.is_request && self.state.written == Written::Not {
            self.look = Look::Listed; // the memory has forgotten its id, but not the turn
            return Ok(());
        }
        let others: Vec<_> = slots.into_iter().map(|it| it.0).filter(|it| *it != own).collect();
        let is_repeatable = |call: &ToolCall| self.state.is_repeatable(call);
        let mut lines = Vec::new();
        if let Some(Replaced { at, branches }) = &self.state.replaced {
            let own = self.state.on.map(|on| on.id);
            for (branch, n) in branches.iter().filter(|it| own != Some(it.0)) {
                let stored = Stored::since(*at, Some(On::branch(*branch)));
                let told = stored_by_others(&stored.newest_from(memory, *n).await?, is_repeatable);
                lines.retain(|line| !told.contains(line)); // several branches may share a call
                lines.extend(told);
            }
        }
        if !others.is_empty() || self.state.seen.is_some() {
            let page = self.read(memory, Read::newest(0).slots(others)).await?;
            // What was stored since is read after the slots: a turn that ends in between is
            // mentioned twice then, and not missed.
            if self.state.seen.is_some_and(|seen| page.end > seen.end) {
                let stored = self.read_stored(memory, true).await?;
                lines.extend(stored_by_others(&stored, |call| self.state.is_repeatable(call)));
            }
            lines.extend(begun_by_others(&page));
        }
        self.prompts.knows_others = true;
        let state = &mut self.state;
        let is_signed = state.messages.iter().any(has_signed_thoughts);
        if !is_signed {
            state.notes.clear();
        } else if state.doing == Doing::Paused {
            return Ok(()); // it is told once the answer is whole
        }
        let told: Vec<_> = state.notes.iter().map(|(_, note)| note.text().into_owned()).collect();
        let is_told = |line: &String| told.iter().any(|note| note.lines().any(|it| it == line));
        lines.retain(|line| !is_told(line));
        let place = if is_signed { state.messages.len() } else { 0 };
        state.notes.extend(note_of(&lines).map(|note| (place, note)));
        Ok(())
    }

    /// Refuses a question that could not be stored, before the model is asked.
    fn check_question(&mut self) -> Result<()> {
        let state = &mut self.state;
        if state.doing != Doing::Paused {
            state.messages.append(&mut state.steers);
        }
        // If it continues after stored messages of its id, the turn has no question of its own.
        let first = state.messages.first().filter(|_| state.asked_at.is_none());
        if first.is_some_and(|it| !matches!(it, Message::User(_) | Message::Custom(_))) {
            return Err(Error::invalid("turn", "only a user or custom message begins a turn"));
        }
        must_not_refer(&state.messages)?;
        state.check_id()?;
        // What comes after the question is measured when it comes.
        let room = room_for_answer(&self.limits);
        if state.seen.is_none()
            && let Some(text) = excess(&self.limits, &state.messages, room)
        {
            return Err(Error::invalid("turn", text));
        }
        Ok(())
    }

    /// Reads as little as is needed, and composes.
    async fn compose<M: ?Sized>(&mut self, prompt: &MemoryPrompt<M>) -> Result<Ask>
    where
        Arc<M>: AnyMemory,
    {
        let (memory, composer) = (prompt.memory(), prompt.composer());
        let staged = self.state.messages.len();
        // The cache may name positions after the end that a turn has seen before.
        let is_first = self.state.seen.is_none();
        let mut base = if let Some(base) = self.prompts.base.clone() {
            base
        } else {
            let n = composer.first_read().saturating_sub(staged);
            let known = if is_first { prompt.cache().lock().positions.clone() } else { Vec::new() };
            self.fetch(memory, composer, n, known).await?
        };
        loop {
            let single = composer.positions(&base)?;
            let lacks_some = single.iter().any(|it| self.prompts.single.binary_search(it).is_err());
            if is_first && (lacks_some || single.len() < self.prompts.single.len()) {
                prompt.cache().lock().positions.clone_from(&single);
            }
            if lacks_some {
                base = self.fetch(memory, composer, self.prompts.wanted, single).await?;
                continue;
            }
            let mut sent = match self.composed(prompt, &base)? {
                Composition::Ready(sent) => sent,
                Composition::ReadMore(n) => {
                    let n = n.saturating_sub(staged);
                    base = self.fetch(memory, composer, n, single).await?;
                    continue;
                }
            };
            let mut lacking = self.prompts.media.fill(&mut sent, &base);
            if !lacking.is_empty() {
                let read = self.read(memory, Read::newest(0).positions(lacking)).await?;
                self.prompts.media.add(&read, &base);
                lacking = self.prompts.media.fill(&mut sent, &base);
            }
            let Some(lacks) = lacking.first() else { return Ok(self.ask_with(sent)) };
            if std::mem::replace(&mut self.prompts.reads_media, true) {
                return Err(unasked_reference(*lacks));
            }
            self.prompts.base = None; // if this read fails, the next prompt reads anew
            base = self.fetch(memory, composer, self.prompts.wanted, single).await?;
        }
    }

    fn composed<M: ?Sized>(
        &mut self,
        prompt: &MemoryPrompt<M>,
        base: &Snapshot,
    ) -> Result<Composition> {
        let composer = prompt.composer();
        self.prompts.staged = self.prompts.staged(&self.state);
        let Self { state, prompts, tools, .. } = self;
        loop {
            let mut snapshot = base.clone();
            snapshot.stage(prompts.staged.clone());
            let before = *state.before_temporaries.get_or_insert(state.messages.len());
            let temporaries = state.temporaries.iter().chain(&state.recalled);
            let temporaries: Vec<_> = temporaries.cloned().map(Arc::new).collect();
            let asked_at = state.asked_at.unwrap_or(base.end);
            let stored = base.records.iter().filter(|it| it.position() >= asked_at);
            let is_signed = stored.map(|it| it.message()).any(has_signed_thoughts);
            let position = |place: usize| match place {
                0 if !is_signed => asked_at,
                behind => base.end + behind as u64,
            };
            let notes: Vec<_> = state
                .notes
                .iter()
                .map(|(place, note)| (position(*place), Arc::new(note.clone())))
                .collect();
            let temporaries =
                Temporaries::of_turn(&temporaries, asked_at, base.end + before as u64)
                    .with_tools(tools)
                    .with_notes(&notes)
                    .with_free(prompt.kept_free(), recalled_tokens(state, composer)?);
            let mut cache = prompt.cache().lock(); // not held while the memory is asked
            let composition = composer.compose_with(&mut snapshot, temporaries, Some(&mut cache));
            // The turn has grown, and has precedence over what was recalled for it and over its
            // notes.
            let gives_way = lacks_room(&composition, prompts.last.as_deref())
                && (prompts.forget_recalled(state)
                    || state.notes.iter_mut().any(|(_, note)| shorten(note)));
            if !gives_way {
                return composition;
            }
        }
    }

    fn ask_with(&mut self, prompt: Prompt) -> Ask {
        let Self { state, prompts, tools, .. } = self;
        let mut prompt = prompt.with_recalled(prompts.recalled.clone());
        if let Some(outcome) = prompts.outcome.clone() {
            prompt = prompt.with_recall_outcome(outcome.nothing, outcome.failed);
        }
        let prompt = Arc::new(prompt);
        prompts.last = Some(Arc::clone(&prompt));
        Ask { prompt, tools: Arc::clone(tools), round: state.rounds }
    }

    /// Reads the newest `n` records that the turn may see, and these single ones.
    async fn fetch(
        &mut self,
        memory: &impl AnyMemory,
        composer: &Composer,
        n: usize,
        single: Vec<u64>,
    ) -> Result<Snapshot> {
        let seen = self.state.seen;
        let mut read = Read::newest(n).positions(single.iter().copied());
        read.references = !self.prompts.reads_media;
        read.before = seen.map(|seen| seen.end);
        if self.limits.has_slots() {
            read = read.slots(composer.slots());
            // The newest summary may cover more than what is read here.
            if seen.is_some() || self.state.on.is_some() {
                read = read.slots(composer.earlier_slots());
            }
        }
        let mut snapshot = self.read(memory, read).await?;
        if let Some(seen) = seen {
            // Others may have continued after it, and evicted what was before.
            snapshot.end = seen.end;
            snapshot.start = snapshot.start.min(seen.end);
        }
        if snapshot.rows() < n {
            // A memory that answers with fewer records has no more, even if it does not list what
            // it lost.
            snapshot.start = snapshot.oldest_row();
        }
        if seen.is_none()
            && self.state.on.is_none()
            && let Some(undone) = snapshot.undone()
        {
            self.state.replaced = Some(undone.clone());
            self.prompts.knows_others = false;
        }
        self.state.seen = seen.or_else(|| Some(Seen::of(&snapshot)));
        let prompts = &mut self.prompts;
        (prompts.base, prompts.wanted, prompts.single) = (Some(snapshot.clone()), n, single);
        Ok(snapshot)
    }

    /// Takes what was found, and composes the prompt again. If it still does not fit, no records of
    /// the window are dropped for it.
    fn recall<M: ?Sized>(
        &mut self,
        prompt: &MemoryPrompt<M>,
        ask: Ask,
        found: Option<Found>,
        outcome: Outcome,
    ) -> Ask {
        self.prompts.outcome = Some(outcome);
        self.prompts.last = None; // so that its prompt is here alone
        if let Some(Found { message, recalled }) = found
            && let Some(base) = self.prompts.base.clone()
        {
            (self.state.recalled, self.prompts.recalled) = (Some(message), recalled);
            if let Ok(Composition::Ready(mut with)) = self.composed(prompt, &base)
                && self.prompts.media.fill(&mut with, &base).is_empty()
                && sends_as_much(&with, ask.prompt())
            {
                return self.ask_with(with);
            }
            self.prompts.forget_recalled(&mut self.state);
        }
        self.ask_with(Arc::unwrap_or_clone(ask.prompt))
    }
}

fn has_signed_thoughts(message: &Message) -> bool {
    let mut thoughts = message.as_ai().into_iter().flat_map(AiMessage::reasoning);
    thoughts.any(|thought| thought.signature.is_some())
}

/// Returns whether a prompt does not fit, or its texts are cut shorter than those of the turn's
/// previous prompt.
fn lacks_room(composition: &Result<Composition>, before: Option<&Prompt>) -> bool {
    let cut_to = |prompt: &Prompt| {
        prompt.report().tokens.as_ref().and_then(|it| it.cut_to).unwrap_or(usize::MAX)
    };
    match composition {
        Ok(Composition::Ready(now)) => before.is_some_and(|before| cut_to(now) < cut_to(before)),
        Ok(Composition::ReadMore(_)) => false,
        Err(error) => matches!(error.kind(), ErrorKind::Budget { .. }),
    }
}

/// Returns the tokens of what was recalled, if the prompt has a budget.
fn recalled_tokens(state: &State, composer: &Composer) -> Result<usize> {
    let budget = composer.budget().zip(state.recalled.as_ref());
    budget.map_or(Ok(0), |((counter, _), message): (_, &Message)| counter.count(message))
}
