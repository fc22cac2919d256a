//! The prompts of a turn: what was read for them, and where the messages of the turn stand in them.

use std::sync::Arc;
use std::time::UNIX_EPOCH;

use super::late::Stored;
use super::room::{excess, room_for_answer};
use super::state::{Doing, PREFIX, Seen, State};
use super::unfinished::{begun_by_others, note_of, shortened, stored_by_others};
use super::{Ask, Step, Turn};
use crate::compose::{Composer, ComposerCache, Composition, Temporaries};
use crate::error::{Error, ErrorKind, Result};
use crate::memory::{Limits, MemoryId, Read};
use crate::memory_prompt::{MemoryPrompt, sends_as_much};
use crate::message::{Message, ToolCall};
use crate::prompt::{Prompt, Recalled};
use crate::recall::{Found, Outcome, Search};
use crate::record::{Records, SlotVersion, Snapshot};
use crate::tool::Tool;

/// What the prompts of a turn are made of, beside its state.
#[derive(Default)]
pub(super) struct Prompts {
    /// The prompt with which the model was asked last.
    pub(super) last: Option<Arc<Prompt>>,
    /// What the note about other turns is made of, while that is looked for.
    others: Option<Others>,
    /// The snapshot that the first prompt of the turn has read, and the number of records that were
    /// asked for.
    base: Option<Snapshot>,
    wanted: usize,
    /// The single records that were asked for besides.
    single: Vec<u64>,
    /// The messages that stand behind it, as records.
    staged: Records,
    /// The tokens that are kept free for recall, and the positions of what is recalled.
    pub(super) kept_free: usize,
    recalled: Vec<Recalled>,
    /// The outcome of the search for it, where there was one.
    outcome: Option<Outcome>,
}

/// What other turns of the conversation have begun or done that this one does not see.
#[derive(Default)]
struct Others {
    /// Their slots, once they were listed.
    slots: Option<Vec<String>>,
    /// What these slots say, a line a call.
    begun: Option<Vec<String>>,
    /// What was stored since the turn has read the conversation, where it has.
    since: Option<Stored>,
}

impl Others {
    /// Says what is to be read next; `None` once all is there. What was stored since is read behind
    /// the slots: a turn that ends meanwhile is told twice then, and not missed.
    fn next(&mut self, has_slots: bool) -> Option<Step> {
        let slots = self.slots.as_deref().unwrap_or_default();
        if self.begun.is_some() {
            return self.since.as_ref()?.next().map(Step::Read);
        }
        if self.slots.is_none() && has_slots {
            return Some(Step::List);
        }
        if slots.is_empty() && self.since.is_none() {
            self.begun = Some(Vec::new());
            return None;
        }
        Some(Step::Read(Read::newest(0).slots(slots.iter().cloned())))
    }

    /// Takes what was read, if that was for it.
    fn take_page(&mut self, page: &Snapshot, state: &State) -> bool {
        if self.begun.is_none() {
            self.begun = Some(begun_by_others(page, &state.slot()));
            let has_gone_on = state.seen.is_some_and(|seen| page.end > seen.end);
            self.since.take_if(|_| !has_gone_on);
            return true;
        }
        let since = self.since.as_mut().filter(|since| since.next().is_some());
        since.map(|since| since.add_page(page)).is_some()
    }

    /// Returns the note about them. What still runs is told last: nobody knows of it otherwise.
    fn note(self, state: &State) -> Option<Message> {
        let is_repeatable = |call: &ToolCall| state.is_repeatable(call);
        let mut lines = self.since.map_or(Vec::new(), |it| stored_by_others(&it, is_repeatable));
        lines.extend(self.begun.unwrap_or_default());
        note_of(&lines)
    }
}

impl Prompts {
    /// Has the note about other turns made, or made anew: they may have gone on since.
    pub(super) fn look_at_others(&mut self, since: Option<Stored>) {
        self.others = Some(Others { since, ..Others::default() });
    }

    /// Returns true while the note about other turns is not made.
    pub(super) fn looks_at_others(&self) -> bool {
        self.others.is_some()
    }

    /// Returns the messages of the conversation that were read.
    pub(super) fn read_so_far(&self) -> impl Iterator<Item = &Message> {
        self.base.iter().flat_map(|base| base.records.iter()).map(|it| it.message())
    }

    /// Takes the names of all slots; returns true if that of the turn is among them.
    pub(super) fn listed(&mut self, slots: &[(String, SlotVersion)], own: &str) -> bool {
        let turns = slots.iter().map(|(name, _)| name).filter(|name| name.starts_with(PREFIX));
        let (own, others): (Vec<_>, Vec<_>) = turns.cloned().partition(|name| name == own);
        if let Some(looked_at) = &mut self.others {
            looked_at.slots = Some(others);
        }
        !own.is_empty()
    }

    /// Takes what was read for a prompt.
    pub(super) fn read(&mut self, mut snapshot: Snapshot, state: &mut State) {
        if self.others.as_mut().is_some_and(|others| others.take_page(&snapshot, state)) {
            return;
        }
        if let Some(seen) = state.seen {
            // Others may have gone on behind it, and evicted what was before.
            snapshot.end = seen.end;
            snapshot.start = snapshot.start.min(seen.end);
        }
        if snapshot.rows() < self.wanted {
            // A memory that answers with less has no more, even where it does not list what it
            // lost.
            snapshot.start = snapshot.oldest_row();
        }
        state.seen.get_or_insert_with(|| Seen::of(&snapshot));
        self.base = Some(snapshot);
    }

    /// Forgets what was read.
    pub(super) fn begin_anew(&mut self) {
        let (last, kept_free) = (self.last.take(), self.kept_free);
        *self = Self { last, kept_free, ..Self::default() };
    }

    /// Stages the messages of the turn again.
    pub(super) fn restage(&mut self) {
        self.staged = Records::default();
    }

    /// Reads as little as is needed, and composes.
    pub(super) fn next(
        &mut self,
        state: &mut State,
        (tools, limits): (&Arc<[Tool]>, &Limits),
        composer: &Composer,
        cache: &mut ComposerCache,
    ) -> Result<Step> {
        if let Some(step) = self.others.as_mut().and_then(|others| others.next(limits.has_slots()))
        {
            return Ok(step);
        }
        if let Some(others) = self.others.take() {
            state.note = others.note(state);
        }
        if state.doing != Doing::Paused {
            state.messages.append(&mut state.steers);
        }
        if state.messages.first().is_some_and(Message::is_system) {
            return Err(Error::invalid("turn", "a system message is no question"));
        }
        state.check_id()?;
        // What comes behind the question is measured when it comes.
        if state.seen.is_none()
            && let Some(text) = excess(limits, &state.messages, room_for_answer(limits))
        {
            return Err(Error::new(ErrorKind::Invalid, "turn", text));
        }
        let staged = state.messages.len();
        let Some(base) = self.base.clone() else {
            let n = composer.first_read().saturating_sub(staged);
            return Ok(self.fetch(state, limits, composer, n));
        };
        let single = composer.positions(&base)?;
        if single.iter().any(|position| !self.single.contains(position)) {
            self.single = single;
            return Ok(self.fetch(state, limits, composer, self.wanted));
        }
        let end = base.end;
        self.staged = self.staged(state);
        loop {
            let mut snapshot = base.clone();
            snapshot.stage(self.staged.clone());
            let before = *state.before_temporaries.get_or_insert(staged);
            let temporaries = state.temporaries.iter().chain(&state.recalled);
            let temporaries: Vec<_> = temporaries.cloned().map(Arc::new).collect();
            let note = state.note.clone().map(Arc::new);
            let asked_at = state.asked_at.unwrap_or(end);
            let temporaries = Temporaries::of_turn(&temporaries, asked_at, end + before as u64)
                .with_tools(tools)
                .with_note(note.as_ref().map(|note| (note, end)))
                .with_free(self.kept_free, recalled_tokens(state, composer)?);
            return match composer.compose_with(&mut snapshot, temporaries, Some(cache)) {
                Ok(Composition::Ready(prompt)) => Ok(Step::Ask(self.asked(state, tools, prompt))),
                Ok(Composition::ReadMore(n)) => {
                    Ok(self.fetch(state, limits, composer, n.saturating_sub(staged)))
                }
                // The turn has grown, and goes before what was recalled for it and the note.
                Err(error)
                    if matches!(error.kind(), ErrorKind::Budget { .. })
                        && (self.forget_recalled(state) || shorten_note(state)) =>
                {
                    continue;
                }
                Err(error) => Err(error),
            };
        }
    }

    /// Returns the messages of the turn as records, behind what was read.
    pub(super) fn staged(&self, state: &State) -> Records {
        let Some(seen) = state.seen else { return Records::default() };
        let mut staged = self.staged.clone();
        let known = staged.len();
        let new = state.messages.get(known..).unwrap_or_default();
        let new =
            (seen.end + known as u64..).zip(new).map(|(seq, it)| (seq, UNIX_EPOCH, it.clone()));
        staged.extend(Records::from_rows(new));
        staged
    }

    fn asked(&mut self, state: &State, tools: &Arc<[Tool]>, prompt: Prompt) -> Ask {
        let mut prompt = prompt.with_recalled(self.recalled.clone());
        if let Some(outcome) = self.outcome.clone() {
            prompt = prompt.with_recall_outcome(outcome.nothing, outcome.failed);
        }
        let prompt = Arc::new(prompt);
        self.last = Some(Arc::clone(&prompt));
        Ask { prompt, tools: Arc::clone(tools), round: state.rounds }
    }

    /// The read of the newest `n` records that the turn may see.
    fn fetch(&mut self, state: &State, limits: &Limits, composer: &Composer, n: usize) -> Step {
        self.wanted = n;
        let mut read = Read::newest(n).positions(self.single.iter().copied());
        read.before = state.seen.map(|seen| seen.end);
        if limits.has_slots() {
            read = read.slots(composer.slots());
            if state.seen.is_some() {
                read = read.slots(composer.earlier_slots());
            }
        }
        Step::Read(read)
    }

    /// Goes on without what was recalled; returns whether there was something.
    fn forget_recalled(&mut self, state: &mut State) -> bool {
        self.recalled.clear();
        state.recalled.take().is_some()
    }
}

/// Goes on with a note of one line; returns whether it was longer.
fn shorten_note(state: &mut State) -> bool {
    let short = state.note.as_ref().and_then(shortened);
    short.map(|short| state.note = Some(short)).is_some()
}

/// The tokens of what was recalled, where the prompt has a budget.
fn recalled_tokens(state: &State, composer: &Composer) -> Result<usize> {
    let budget = composer.budget().zip(state.recalled.as_ref());
    budget.map_or(Ok(0), |((counter, _), message): (_, &Message)| counter.count(message))
}

/// Returns a search for what fits the question of a turn, before its model is asked for the first
/// time.
pub(super) fn search<'a, M: ?Sized>(
    turn: &Turn,
    prompt: &'a MemoryPrompt<M>,
    id: &MemoryId,
    ask: &Ask,
) -> Option<Search<'a>> {
    let messages = &turn.state.messages;
    let is_asked =
        turn.state.recalled.is_some() || messages.iter().any(|message| message.as_ai().is_some());
    let base = turn.prompts.base.as_ref().filter(|_| !is_asked)?;
    let search = prompt.search(id, ask.prompt(), base, messages)?;
    Some(search.on(turn.on()))
}

/// Takes what was found, and composes the prompt once more. Should it not fit after all, what the
/// window holds is not given up for it.
pub(super) fn recall<M: ?Sized>(
    turn: &mut Turn,
    prompt: &MemoryPrompt<M>,
    mut ask: Ask,
    found: Option<Found>,
    outcome: Outcome,
) -> Ask {
    turn.prompts.outcome = Some(outcome.clone());
    if let Some(Found { message, recalled }) = found {
        (turn.state.recalled, turn.prompts.recalled) = (Some(message), recalled);
        match turn.step_cached(prompt.composer(), &mut prompt.cache().lock()) {
            Ok(Step::Ask(with)) if sends_as_much(with.prompt(), ask.prompt()) => return with,
            _ => drop(turn.prompts.forget_recalled(&mut turn.state)),
        }
    }
    let without = Arc::unwrap_or_clone(ask.prompt);
    ask.prompt = Arc::new(without.with_recall_outcome(outcome.nothing, outcome.failed));
    turn.prompts.last = Some(Arc::clone(&ask.prompt));
    ask
}
