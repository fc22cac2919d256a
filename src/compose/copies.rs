//! Keeps truncated and cleared copies, so that nothing is cut or cleared twice.

use std::sync::Arc;

use super::form::{ClearedPart, Form};
use crate::message::Message;
use crate::prompt::{Cleared, Truncated};
use crate::record::{Record, RecordIdentity};

/// The changed copies of one prompt, kept for the next one: a sliding window sends most messages
/// again.
#[derive(Default)]
pub(super) struct Copies {
    known: Vec<KnownCopy>,
    /// The index of the copy that is probably wanted next: prompts ask in the order of the one
    /// before.
    next: usize,
    added: Vec<KnownCopy>,
}

pub(super) struct KnownCopy {
    position: u64,
    /// The very record, not its position: a deleted conversation begins again at 0, with other
    /// messages.
    record: RecordIdentity,
    pub(super) copy: Arc<Message>,
    pub(super) change: Change,
    cleared: Option<ClearedPart>,
    /// True if the current prompt used it.
    asked: bool,
}

/// How a copy differs from its record.
#[derive(Clone, Copy)]
pub(super) enum Change {
    Cut(Truncated),
    Cleared(Cleared),
}

impl Copies {
    pub(super) fn begin(&mut self) {
        self.next = 0;
        self.added.clear();
        self.known.iter_mut().for_each(|known| known.asked = false);
    }

    pub(super) fn of(&mut self, record: &Record<'_>, form: Form) -> Option<&KnownCopy> {
        let position = record.position();
        let here = |known: &KnownCopy| known.position == position;
        if !self.known.get(self.next).is_some_and(here) {
            self.next = self.known.partition_point(|known| known.position < position);
        }
        // Once the boundary has passed it, it is cleared otherwise.
        let is_it = |it: &&mut KnownCopy| record.is(&it.record) && it.cleared == form.cleared;
        let known = self.known.get_mut(self.next).filter(is_it)?;
        known.asked = true;
        self.next += 1;
        Some(known)
    }

    pub(super) fn keep(
        &mut self,
        record: &Record<'_>,
        form: Form,
        copy: &Arc<Message>,
        change: Change,
    ) {
        let (position, record) = (record.position(), record.identity());
        let (copy, cleared) = (Arc::clone(copy), form.cleared);
        self.added.push(KnownCopy { position, record, copy, change, cleared, asked: true });
    }

    /// Drops the copies that this prompt did not use.
    pub(super) fn end(&mut self) {
        self.known.retain(|known| known.asked);
        self.known.append(&mut self.added);
        self.known.sort_by_key(|known| known.position);
    }
}
