//! What a search is asked, and what it finds.

use std::collections::HashSet;
use std::ops::Range;
use std::sync::Arc;

use crate::memory::MemoryId;
use crate::message::Message;
use crate::prompt::{NothingRecalled, Recalled};
use crate::record::{Incarnation, Records};
use crate::token::TokenCounter;

/// The facts of a prompt that recall needs.
pub(crate) struct Asked {
    pub(crate) id: MemoryId,
    /// The positions that the memory holds.
    pub(crate) held: Range<u64>,
    pub(crate) incarnation: Option<Incarnation>,
    /// The newest records, as far as they were read.
    pub(crate) newest: Records,
    /// The question where no query was given.
    pub(crate) question: String,
    /// True if a short question goes on with what was said right before.
    pub(crate) goes_on: bool,
    /// The position of the question, where it is a record.
    pub(crate) asks: Option<u64>,
    /// The positions that are sent, or must not be.
    pub(crate) not_these: HashSet<u64>,
    /// The tokens that the prompt has left; none if it has no budget.
    pub(crate) left: Option<usize>,
    pub(crate) counter: Option<Arc<dyn TokenCounter>>,
}

impl Asked {
    /// Returns whether the memory holds this position, and the prompt does not send it.
    pub(super) fn may_send(&self, position: u64) -> bool {
        self.held.contains(&position) && !self.not_these.contains(&position)
    }
}

/// A temporary message of excerpts, and what is in it.
pub(crate) struct Found {
    pub(crate) message: Message,
    pub(crate) recalled: Vec<Recalled>,
}

/// How a search ended.
#[derive(Clone, Debug, Default)]
pub(crate) struct Outcome {
    /// The reason why it found nothing.
    pub(crate) nothing: Option<NothingRecalled>,
    /// The error of the application's own search.
    pub(crate) failed: Option<String>,
}

/// A message that may be recalled.
#[derive(Clone, Copy, Debug)]
pub(super) struct Hit {
    pub(super) position: u64,
    /// The score that decides which hits give way.
    pub(super) rank: f32,
    pub(super) score: f32,
}

/// The line of a message.
pub(super) struct Line {
    pub(super) day: Option<u64>,
    pub(super) text: String,
    pub(super) recalled: Recalled,
}

/// Lines of which either all are quoted or none.
pub(super) type Unit = Vec<Line>;
