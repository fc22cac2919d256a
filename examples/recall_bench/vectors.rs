//! Recall by words and by vectors: those of letters, or what a model found.

use memory_prompt::{Recall, Result};

use crate::generated::{Conversation, Question, has_all, prompt};
use crate::letters::Letters;

/// Returns whether all evidence is in the prompt: whole, and where a passage counts.
pub(crate) fn ask(
    conversation: &Conversation,
    letters: &Letters,
    question: &Question,
    budget: usize,
) -> Result<[bool; 2]> {
    let found = match &*question.found {
        [] => letters.closest(&question.text, 64),
        known => known.to_vec(),
    };
    let prompt = prompt(conversation, question, budget)?;
    let built = prompt.recall(Recall::words().tokens(budget).candidates(found)).preview()?;
    Ok([false, true].map(|part| has_all(&built, question, part)))
}
