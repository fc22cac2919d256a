//! Recall for a turn: what fits its question is looked for once, and stays in all of its prompts.

use super::machine::Step;
use super::{Ask, Turn};
use crate::compose::Composer;
use crate::error::Result;
use crate::memory::MemoryId;
use crate::message::Message;
use crate::prompt::{MemoryPrompt, sends_as_much};
use crate::recall::{Found, Search, Told};

impl Turn {
    /// Returns a search for what fits the question, before the model is asked for the first time.
    pub(super) fn search<'a, M: ?Sized>(
        &self,
        prompt: &'a MemoryPrompt<M>,
        id: &MemoryId,
        ask: &Ask,
    ) -> Option<Search<'a>> {
        let messages = &self.document.messages;
        let is_asked = self.document.recalled.is_some()
            || messages.iter().any(|message| message.as_ai().is_some());
        let base = self.base.as_ref().filter(|_| !is_asked)?;
        prompt.search(id, ask.prompt(), base, messages)
    }

    /// Takes what was found, and composes the prompt once more. Should it not fit after all, what
    /// the window holds is not given up for it.
    pub(super) fn recall<M: ?Sized>(
        &mut self,
        prompt: &MemoryPrompt<M>,
        ask: Ask,
        found: Option<Found>,
        told: Told,
    ) -> Ask {
        self.told = Some(told.clone());
        let ask = ask.with_recall_outcome(told);
        let Some(Found { message, recalled }) = found else { return ask };
        (self.document.recalled, self.recalled) = (Some(message), recalled);
        match self.step_cached(prompt.composer(), &mut prompt.cache().lock()) {
            Ok(Step::Ask(with)) if sends_as_much(with.prompt(), ask.prompt()) => with,
            _ => {
                self.forget_recalled();
                ask
            }
        }
    }

    /// Goes on without what was recalled; returns whether there was something.
    pub(super) fn forget_recalled(&mut self) -> bool {
        self.recalled.clear();
        self.document.recalled.take().is_some()
    }

    /// The tokens of what was recalled, where the prompt has a budget.
    pub(super) fn recalled_tokens(&self, composer: &Composer) -> Result<usize> {
        let budget = composer.budget().zip(self.document.recalled.as_ref());
        budget.map_or(Ok(0), |((counter, _), message): (_, &Message)| counter.count(message))
    }
}
