//! [`Loss`]: something that a format has no place for.

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

/// The losses of writing messages, noted when they happen.
#[derive(Debug, Default)]
pub struct Losses(Vec<(Loss, Weight)>);

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

    /// Returns the first loss of at least this weight.
    pub(super) fn first(mut self, least: Weight) -> Option<Loss> {
        self.sort();
        self.0.into_iter().find(|(_, weight)| *weight >= least).map(|(loss, _)| loss)
    }

    pub(super) fn into_list(mut self) -> Vec<Loss> {
        self.sort();
        self.0.into_iter().map(|(loss, _)| loss).collect()
    }

    /// Sorts by message; losses of parts come first.
    fn sort(&mut self) {
        self.0.sort_by_key(|(loss, _)| (loss.message, loss.part.is_none(), loss.part));
    }
}
