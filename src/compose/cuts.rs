//! Remembers truncated copies, so that nothing is cut again.

use std::sync::Arc;

use crate::composed::Truncated;
use crate::message::Message;
use crate::record::{Mark, Record};

/// The truncated copies of one prompt, for the next one: a sliding window sends most messages
/// again.
#[derive(Default)]
pub(super) struct Cuts {
    /// By position.
    known: Vec<CutCopy>,
    /// The index of the copy that is likely asked for next: prompts ask in the order of the one
    /// before.
    next: usize,
    /// The copies that this prompt has made for the first time.
    added: Vec<CutCopy>,
}

/// A record, and the copy that stands for it.
pub(super) struct CutCopy {
    /// The very record: its position would not do, since a conversation that was deleted begins
    /// again at 0, with other messages.
    record: Mark,
    pub(super) copy: Arc<Message>,
    pub(super) report: Truncated,
    /// True where the prompt that is being composed has asked for it.
    asked: bool,
}

impl Cuts {
    /// Begins another prompt.
    pub(super) fn begin(&mut self) {
        self.next = 0;
        self.added.clear();
        self.known.iter_mut().for_each(|known| known.asked = false);
    }

    /// Returns the copy of this record, if the last prompt had one.
    pub(super) fn of(&mut self, record: &Record<'_>) -> Option<&CutCopy> {
        let seq = record.seq();
        let here = |known: &CutCopy| known.report.seq == seq;
        if !self.known.get(self.next).is_some_and(here) {
            self.next = self.known.partition_point(|known| known.report.seq < seq);
        }
        let known = self.known.get_mut(self.next).filter(|known| record.is(&known.record))?;
        known.asked = true;
        self.next += 1;
        Some(known)
    }

    pub(super) fn keep(&mut self, record: &Record<'_>, copy: &Arc<Message>, report: Truncated) {
        let (record, copy) = (record.mark(), Arc::clone(copy));
        self.added.push(CutCopy { record, copy, report, asked: true });
    }

    /// Forgets what this prompt did not ask for.
    pub(super) fn end(&mut self) {
        self.known.retain(|known| known.asked);
        self.known.append(&mut self.added);
        self.known.sort_by_key(|known| known.report.seq);
    }
}
