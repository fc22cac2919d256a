//! What was cut is not cut again.

use std::collections::VecDeque;
use std::sync::Arc;

use crate::composed::Truncated;
use crate::message::Message;
use crate::record::{Record, Run};

/// The cut copies of one prompt, for the next one: a sliding window sends most messages again.
#[derive(Debug, Default)]
pub(super) struct Cuts {
    /// By position.
    known: VecDeque<Known>,
    /// How many of them belong to the prompt that is being composed. What comes next stands behind them.
    used: usize,
}

/// A record, and the copy that stands for it.
#[derive(Debug)]
pub(super) struct Known {
    /// Holds the record, so that nothing else can ever be taken for it: a memory whose conversation was
    /// deleted begins again at 0, with other messages.
    record: Run,
    pub(super) copy: Arc<Message>,
    pub(super) report: Truncated,
}

impl Cuts {
    /// Begins another prompt.
    pub(super) fn begin(&mut self) {
        self.used = 0;
    }

    /// The copy of this record, if the last prompt had one. Records are asked for in ascending order.
    pub(super) fn of(&mut self, record: &Record<'_>) -> Option<&Known> {
        while self.known.get(self.used).is_some_and(|known| known.report.seq < record.seq()) {
            self.known.remove(self.used);
        }
        let known = self.known.get(self.used).filter(|known| record.is(&known.record))?;
        self.used += 1;
        Some(known)
    }

    pub(super) fn keep(&mut self, record: &Record<'_>, copy: &Arc<Message>, report: Truncated) {
        let known = Known { record: record.to_run(), copy: Arc::clone(copy), report };
        self.known.insert(self.used, known);
        self.used += 1;
    }

    /// Forgets what this prompt did not ask for.
    pub(super) fn end(&mut self) {
        self.known.truncate(self.used);
    }
}
