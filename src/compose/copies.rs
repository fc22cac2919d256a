//! Keeps truncated and cleared copies, so that nothing is cut or cleared twice.

use std::collections::BTreeMap;
use std::mem;
use std::sync::Arc;

use super::form::{ClearedPart, Form};
use crate::message::Message;
use crate::prompt::{Cleared, Truncated};
use crate::record::{Record, RecordIdentity};

/// The changed copies of one prompt, kept for the next one: a sliding window sends most messages
/// again.
#[derive(Default)]
pub(super) struct Copies {
    /// By the positions of their records.
    known: BTreeMap<u64, KnownCopy>,
}

pub(super) struct KnownCopy {
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
    pub(super) fn of(&mut self, record: &Record<'_>, form: Form) -> Option<&KnownCopy> {
        // Once the boundary has passed it, it is cleared otherwise.
        let is_it = |it: &&mut KnownCopy| record.is(&it.record) && it.cleared == form.cleared;
        let known = self.known.get_mut(&record.position()).filter(is_it)?;
        known.asked = true;
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
        self.known.insert(position, KnownCopy { record, copy, change, cleared, asked: true });
    }

    /// Drops the copies that this prompt did not use.
    pub(super) fn end(&mut self) {
        self.known.retain(|_, known| mem::take(&mut known.asked));
    }
}
