//! [`Loss`]: what a format has no place for.

use std::fmt;

/// Something of a message that is left out, or that a placeholder stands for, because the format
/// has no place for it.
///
/// The [report](crate::Report) tells of composing, and this of writing: see
/// [`Request::losses`](super::Request::losses).
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
#[non_exhaustive]
pub struct Loss {
    /// The place of the message in the prompt: a system message that is written elsewhere, or a
    /// custom one that is not written, counts.
    pub message: usize,
    /// The place of the part in it; `None` if it is something of the message as a whole.
    pub part: Option<usize>,
    /// The name of what is lost, as in an error: `video`, `reasoning`, `the name of the user`.
    pub what: &'static str,
}

impl fmt::Display for Loss {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "message {}", self.message)?;
        if let Some(part) = self.part {
            write!(f, ", part {part}")?;
        }
        write!(f, ": {}", self.what)
    }
}

/// The name of arguments that a format can't hold as the object that they are not.
pub(super) const ARGUMENTS: &str = "arguments that are no JSON object";

pub(super) const REASONING: &str = "reasoning";

/// The losses of writing messages, noted where they happen.
#[derive(Debug, Default)]
pub struct Losses(Vec<(Loss, Weight)>);

/// How much a loss weighs.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub(super) enum Weight {
    /// Whoever asks for the losses learns of it.
    Noted,
    /// Reasoning that a strict view refuses to lose, and a strict request does not: it is another
    /// provider's.
    Reasoning,
    /// Whoever is strict refuses it.
    Refused,
}

impl Losses {
    /// Notes a loss. One part is lost once, whatever the reasons: the gravest is kept.
    pub(super) fn note(
        &mut self,
        message: usize,
        part: Option<usize>,
        what: &'static str,
        weight: Weight,
    ) {
        let loss = Loss { message, part, what };
        let is_same = |it: &&mut (Loss, _)| it.0.message == message && it.0.part == part;
        match self.0.iter_mut().rev().find(is_same).filter(|_| part.is_some()) {
            Some(known) if known.1 < weight => *known = (loss, weight),
            Some(_) => {}
            None => self.0.push((loss, weight)),
        }
    }

    /// Returns the first loss that weighs at least this much.
    pub(super) fn first(mut self, least: Weight) -> Option<Loss> {
        self.sort();
        self.0.into_iter().find(|(_, weight)| *weight >= least).map(|(loss, _)| loss)
    }

    pub(super) fn into_list(mut self) -> Vec<Loss> {
        self.sort();
        self.0.into_iter().map(|(loss, _)| loss).collect()
    }

    /// Sorts them by message, those of parts first.
    fn sort(&mut self) {
        self.0.sort_by_key(|(loss, _)| (loss.message, loss.part.is_none(), loss.part));
    }
}
