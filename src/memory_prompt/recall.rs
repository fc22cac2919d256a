//! Recall for a prompt: the search, and the prompt with what was found.

use std::collections::HashSet;
use std::sync::Arc;

use super::MemoryPrompt;
use crate::compose::{Composition, Temporaries};
use crate::error::Result;
#[cfg(feature = "async")]
use crate::memory::AsyncChatMemory;
use crate::memory::{ChatMemory, MemoryId};
use crate::message::{Message, Role};
use crate::prompt::{Prompt, Reason};
use crate::recall::{Asked, Found, GROUP, Recall, Search};
use crate::record::Snapshot;
use crate::window::Matches;

impl<M: ?Sized> MemoryPrompt<M> {
    /// Also sends older messages that fit the question, as excerpts in one temporary message; off
    /// by default. See [`recall`](crate::recall) for how, and for an example.
    ///
    /// Recall does not change the window, unless it [keeps](Recall::keep_free) a part of the budget
    /// free; nor does it change what the next build finds in the provider's cache, if temporaries
    /// are at the end. In a turn with calls they stay after its question: the next turn finds what
    /// is up to there, as with any [temporary](crate::Prompt::cacheable).
    #[must_use]
    pub fn recall(mut self, recall: Recall) -> Self {
        self.set_recall(recall);
        self
    }

    /// Does the same from the next build on.
    pub fn set_recall(&mut self, recall: Recall) -> &mut Self {
        self.recall = Some(recall);
        self
    }

    /// Recalls nothing from the next build on.
    pub fn no_recall(&mut self) -> &mut Self {
        self.recall = None;
        self
    }

    /// Returns the tokens that the window leaves to recall: at most half of the budget.
    pub(crate) fn kept_free(&self) -> usize {
        let Some(recall) = &self.recall else { return 0 };
        self.composer.budget().map_or(0, |(_, budget)| recall.kept_free().min(budget / 2))
    }

    /// Returns the input of a search: the question, and what is sent already.
    fn asked(
        &self,
        id: &MemoryId,
        prompt: &Prompt,
        snapshot: &Snapshot,
        staged: &[Message],
    ) -> Asked {
        let report = prompt.report();
        let sent = prompt.with_origins().filter_map(|(origin, _)| origin.position());
        // A message that was left out for lack of room can be quoted; one that a rule has dropped
        // can't.
        let is_dropped =
            |why| !matches!(why, Reason::OverBudget | Reason::RestOfTurn | Reason::Opening);
        let dropped = report.left_out.iter().filter(|it| is_dropped(it.why)).map(|it| it.position);
        let seen = sent.chain(prompt.joined_positions()).chain(report.question.iter().copied());
        let mut excluded: HashSet<u64> = seen.chain(dropped).collect();
        if self.recall.as_ref().is_some_and(|recall| recall.tool_results) {
            for position in cleared_groups(prompt, snapshot) {
                excluded.remove(&position);
            }
        }
        let records = snapshot.records.iter().rev().map(|it| (Some(it.position()), it.message()));
        let newest = staged.iter().rev().map(|it| (None, it)).chain(records);
        let newest = newest.skip_while(|(_, message)| !message.is_user());
        let in_a_row = newest.take_while(|(_, message)| message.as_ai().is_none());
        let asked = in_a_row.filter(|(_, message)| message.is_user());
        // A picture without words belongs to the question before it.
        let has_words = |message: &Message| message.texts().any(|text| !text.trim().is_empty());
        let asking = asked.reduce(|newer, it| if has_words(newer.1) { newer } else { it });
        let question_at = asking.and_then(|(position, _)| position);
        let mut question = asking.map(|(_, message)| message.text().into_owned());
        if question.is_none() && staged.is_empty() {
            let asked = self.temporaries.iter().rev().find(|it| it.is_user());
            question = asked.map(|message| message.text().into_owned());
        }
        let budget = self.composer.budget();
        let total = report.tokens.map_or(0, |tokens| tokens.total);
        // A provider's rules may join the excerpts to a neighbour, which counts slightly
        // differently.
        let margin = if report.provider.is_some() { 16 } else { 0 };
        Asked {
            goes_on: true,
            question_at,
            left: budget.map(|(_, tokens)| tokens.saturating_sub(total).saturating_sub(margin)),
            counter: budget.map(|(counter, _)| Arc::clone(counter)),
            ..Asked::new(id, question.unwrap_or_default(), snapshot, excluded)
        }
    }

    /// Returns a search for records that fit this prompt, in a snapshot followed by these messages.
    pub(crate) fn search(
        &self,
        id: &MemoryId,
        prompt: &Prompt,
        snapshot: &Snapshot,
        staged: &[Message],
    ) -> Option<Search<'_>> {
        let recall = self.recall.as_ref()?;
        Some(Search::new(recall, self.asked(id, prompt, snapshot, staged)))
    }

    /// Composes the prompt once more, with what was found. If it does not fit after all, records of
    /// the window are not given up for it.
    pub(super) fn with_found(
        &self,
        prompt: Prompt,
        snapshot: &Snapshot,
        found: Option<Found>,
    ) -> Result<Prompt> {
        let Some(Found { message, recalled }) = found else { return Ok(prompt) };
        let used = self.composer.budget().map_or(Ok(0), |(counter, _)| counter.count(&message))?;
        let mut temporaries = self.temporaries.clone();
        temporaries.push(Arc::new(message));
        let temporaries = Temporaries::last(&temporaries).with_free(self.kept_free(), used);
        match self.compose_with(&mut snapshot.clone(), temporaries) {
            Ok(Composition::Ready(with)) if sends_as_much(&with, &prompt) => {
                Ok(with.with_recalled(recalled))
            }
            _ => Ok(prompt),
        }
    }
}

/// Returns whether the window gave nothing up for what was recalled.
pub(crate) fn sends_as_much(with: &Prompt, without: &Prompt) -> bool {
    let (a, b) = (with.report(), without.report());
    (a.sent, a.older, a.over_budget) == (b.sent, b.older, b.over_budget)
        && a.left_out == b.left_out
        && a.truncated == b.truncated
}

/// Returns the positions of the tool groups with a cleared result: they are quoted whole. A group
/// with late results can't be; its call is sent.
fn cleared_groups(prompt: &Prompt, snapshot: &Snapshot) -> HashSet<u64> {
    let cleared = prompt.report().cleared.iter().filter(|it| it.role == Role::Tool);
    let cleared: HashSet<u64> = cleared.map(|it| it.position).collect();
    let mut groups = HashSet::new();
    if cleared.is_empty() {
        return groups;
    }
    let records = &snapshot.records;
    let matches = Matches::among(records, 0);
    for (number, group) in matches.groups().iter().enumerate() {
        let results = matches.results_of(number);
        let members = || {
            let places = [group.head].into_iter().chain(results.iter().copied());
            places.filter_map(|place| records.get(place)).map(|record| record.position())
        };
        let is_whole = matches.unanswered(number).next().is_none();
        let stands_together = results.len() as u64 <= GROUP
            && results.iter().all(|place| place - group.head <= results.len());
        if is_whole && stands_together && members().any(|it| cleared.contains(&it)) {
            groups.extend(members());
        }
    }
    groups
}

macro_rules! over {
    (
        $over:ty, [$($async:tt)*], [$($now:tt)*], |$search:ident, $memory:ident| $run:expr
    ) => {
        impl MemoryPrompt<$over> {
            /// Adds what is recalled for a prompt. It is a function of its own so that the frame of
            /// a build without recall stays small.
            #[inline(never)]
            pub(super) $($async)* fn recalled(
                &self,
                prompt: Prompt,
                snapshot: &Snapshot,
            ) -> Result<Prompt> {
                let $memory = &*self.memory;
                let search = self.search($memory.id(), &prompt, snapshot, &[]);
                let Some(mut $search) = search else { return Ok(prompt) };
                let found = $run$($now)*?;
                let outcome = $search.outcome();
                let prompt = self.with_found(prompt, snapshot, found)?;
                Ok(prompt.with_recall_outcome(outcome.nothing, outcome.failed))
            }
        }
    };
}

over!(dyn ChatMemory, [], [], |search, memory| search.run(|read| memory.read_with(read)));
#[cfg(feature = "async")]
over!(dyn AsyncChatMemory, [async], [.await], |search, memory| search.run_async(memory));
