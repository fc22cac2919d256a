//! Remembers truncated and cleared copies, so that nothing is cut or cleared again.

use std::sync::Arc;

use super::form::ClearedPart;
use crate::message::Message;
use crate::prompt::{Cleared, Truncated};
use crate::record::{Record, RecordIdentity};

/// The changed copies of one prompt, for the next one: a sliding window sends most messages
/// again.
#[derive(Default)]
pub(super) struct Copies {
    /// By position.
    known: Vec<KnownCopy>,
    /// The index of the copy that is likely asked for next: prompts ask in the order of the one
    /// before.
    next: usize,
    /// The copies that this prompt has made for the first time.
    added: Vec<KnownCopy>,
}

/// A record, and the copy that stands for it.
pub(super) struct KnownCopy {
    /// The very record: its position would not do, since a conversation that was deleted begins
    /// again at 0, with other messages.
    record: RecordIdentity,
    pub(super) copy: Arc<Message>,
    pub(super) change: Change,
    /// The part of it that is cleared.
    cleared: Option<ClearedPart>,
    /// True if the prompt that is being composed has asked for it.
    asked: bool,
}

/// The change that made a copy of a record.
#[derive(Clone, Copy)]
pub(super) enum Change {
    Cut(Truncated),
    Cleared(Cleared),
}

impl Change {
    const fn position(self) -> u64 {
        match self {
            Self::Cut(cut) => cut.position,
            Self::Cleared(cleared) => cleared.position,
        }
    }
}

impl Copies {
    /// Begins another prompt.
    pub(super) fn begin(&mut self) {
        self.next = 0;
        self.added.clear();
        self.known.iter_mut().for_each(|known| known.asked = false);
    }

    /// Returns the copy of this record, if the last prompt had one.
    pub(super) fn of(
        &mut self,
        record: &Record<'_>,
        cleared: Option<ClearedPart>,
    ) -> Option<&KnownCopy> {
        let position = record.position();
        let here = |known: &KnownCopy| known.change.position() == position;
        if !self.known.get(self.next).is_some_and(here) {
            self.next = self.known.partition_point(|known| known.change.position() < position);
        }
        let known = self.known.get_mut(self.next).filter(|known| record.is(&known.record))?;
        if known.cleared != cleared {
            return None; // the boundary has passed it
        }
        known.asked = true;
        self.next += 1;
        Some(known)
    }

    pub(super) fn keep(
        &mut self,
        record: &Record<'_>,
        cleared: Option<ClearedPart>,
        copy: &Arc<Message>,
        change: Change,
    ) {
        let (record, copy) = (record.identity(), Arc::clone(copy));
        self.added.push(KnownCopy { record, copy, change, cleared, asked: true });
    }

    /// Forgets what this prompt did not ask for.
    pub(super) fn end(&mut self) {
        self.known.retain(|known| known.asked);
        self.known.append(&mut self.added);
        self.known.sort_by_key(|known| known.change.position());
    }
}
