//! The input and the output of a search.

use std::collections::HashSet;
use std::ops::Range;
use std::sync::Arc;

use crate::memory::MemoryId;
use crate::message::Message;
use crate::prompt::{NothingRecalled, Recalled};
use crate::record::{Incarnation, Records, Snapshot};
use crate::token::TokenCounter;

pub(crate) struct Asked {
    pub(crate) id: MemoryId,
    pub(crate) held: Range<u64>,
    pub(crate) incarnation: Option<Incarnation>,
    /// The newest records that were read. They show whether an index is of this conversation or of
    /// an earlier one.
    pub(crate) newest: Records,
    /// The question, if no query was given.
    pub(crate) question: String,
    /// True if a short question continues what was said right before it.
    pub(crate) goes_on: bool,
    /// The position of the question, if it is a record.
    pub(crate) question_at: Option<u64>,
    /// The positions that are sent, or must not be.
    pub(crate) excluded: HashSet<u64>,
    /// The tokens that are left in the prompt; `None` if it has no budget.
    pub(crate) left: Option<usize>,
    pub(crate) counter: Option<Arc<dyn TokenCounter>>,
}

impl Asked {
    /// Returns a search of a snapshot for this question alone, without a budget.
    pub(crate) fn new(
        id: &MemoryId,
        question: String,
        snapshot: &Snapshot,
        excluded: HashSet<u64>,
    ) -> Self {
        Self {
            id: id.clone(),
            held: snapshot.start..snapshot.end,
            incarnation: snapshot.incarnation,
            newest: snapshot.records.clone(),
            question,
            goes_on: false,
            question_at: None,
            excluded,
            left: None,
            counter: None,
        }
    }

    pub(super) fn may_send(&self, position: u64) -> bool {
        self.held.contains(&position) && !self.excluded.contains(&position)
    }
}

/// The temporary message with the excerpts, and the list of what it contains.
pub(crate) struct Found {
    pub(crate) message: Message,
    pub(crate) recalled: Vec<Recalled>,
}

#[derive(Clone, Debug, Default)]
pub(crate) struct Outcome {
    pub(crate) nothing: Option<NothingRecalled>,
    pub(crate) failed: Option<String>,
}

#[derive(Clone, Copy, Debug)]
pub(super) struct Hit {
    pub(super) position: u64,
    /// The score that decides which hits are left out.
    pub(super) rank: f32,
    pub(super) score: f32,
}

pub(super) struct Line {
    pub(super) day: Option<u64>,
    pub(super) text: String,
    pub(super) recalled: Recalled,
}

/// Lines that are quoted all together or not at all.
pub(super) type Unit = Vec<Line>;
