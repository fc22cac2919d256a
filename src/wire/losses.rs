//! [`Loss`]: something that a format has no place for.

use std::cell::RefCell;
use std::fmt;

/// Something that is left out, or replaced by a placeholder, because the format has no place for
/// it.
///
/// The [report](crate::Report) is about composing, losses are about writing: see
/// [`Request::losses`](super::Request::losses).
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
#[non_exhaustive]
pub struct Loss {
    /// The index of the message in the prompt, counting also a system message that is written
    /// elsewhere and custom messages that are not written.
    pub message: usize,
    /// The index of the part in it; `None` if the loss concerns the message as a whole.
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

/// The name of the loss if arguments are not an object, but the format has only objects.
pub(super) const ARGUMENTS: &str = "arguments that are no JSON object";

pub(super) const REASONING: &str = "reasoning";

/// The losses of writing messages, noted when they happen: each message that is sent shares them.
#[derive(Debug, Default)]
pub(super) struct Losses(RefCell<Vec<(Loss, Weight)>>);

/// The severity of a loss.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub(super) enum Weight {
    /// Only listed by `losses`.
    Noted,
    /// Reasoning of another provider: an error for a strict view, but not for a strict request.
    Reasoning,
    /// An error for everything strict.
    Refused,
}

impl Losses {
    /// Notes a loss. For one part, only the most severe loss is kept.
    pub(super) fn note(&self, loss: Loss, weight: Weight) {
        let mut noted = self.0.borrow_mut();
        let is_same = |it: &&mut (Loss, _)| it.0.message == loss.message && it.0.part == loss.part;
        match noted.iter_mut().rev().find(is_same).filter(|_| loss.part.is_some()) {
            Some(known) if known.1 < weight => *known = (loss, weight),
            Some(_) => {}
            None => noted.push((loss, weight)),
        }
    }

    /// Returns the first loss of at least this weight.
    pub(super) fn first(self, least: Weight) -> Option<Loss> {
        self.sorted().find(|(_, weight)| *weight >= least).map(|(loss, _)| loss)
    }

    pub(super) fn into_list(self) -> Vec<Loss> {
        self.sorted().map(|(loss, _)| loss).collect()
    }

    /// Returns them by message; losses of parts come first.
    fn sorted(self) -> impl Iterator<Item = (Loss, Weight)> {
        let mut noted = self.0.into_inner();
        noted.sort_by_key(|(loss, _)| (loss.message, loss.part.is_none(), loss.part));
        noted.into_iter()
    }
}
