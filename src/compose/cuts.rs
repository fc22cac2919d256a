//! What was cut is not cut again.

use std::collections::VecDeque;
use std::sync::Arc;

use crate::composed::Truncated;
use crate::message::Message;
use crate::record::{Record, Run};

/// The cut copies of one prompt, for the next one: a sliding window sends most messages again.
#[derive(Debug, Default)]
pub(super) struct Cuts {
    /// Those of the last prompt, and those of this one. Positions ascend in both.
    before: VecDeque<Known>,
    now: VecDeque<Known>,
}

/// A record, and the copy that stands for it.
#[derive(Debug)]
struct Known {
    /// Holds the record, so that nothing else can ever be taken for it: a memory whose conversation was
    /// deleted begins again at 0, with other messages.
    record: Run,
    copy: Arc<Message>,
    report: Truncated,
}

impl Cuts {
    /// Begins another prompt.
    pub(super) fn begin(&mut self) {
        std::mem::swap(&mut self.before, &mut self.now);
        self.now.clear();
    }

    /// The copy of this record, if the last prompt had one. Records are asked for in ascending order.
    pub(super) fn of(&mut self, record: Record<'_>) -> Option<(Arc<Message>, Truncated)> {
        while self.before.front().is_some_and(|known| known.report.seq < record.seq()) {
            self.before.pop_front();
        }
        let known = self.before.pop_front_if(|known| record.is(&known.record))?;
        let found = (Arc::clone(&known.copy), known.report);
        self.now.push_back(known);
        Some(found)
    }

    pub(super) fn keep(&mut self, record: Record<'_>, copy: &Arc<Message>, report: Truncated) {
        self.now.push_back(Known { record: record.to_run(), copy: Arc::clone(copy), report });
    }

    /// Forgets what this prompt did not ask for.
    pub(super) fn end(&mut self) {
        self.before.clear();
    }
}
