//! The extras of a conversation in this process: incarnation, slots, ids, and the time of its last
//! activity.

use std::collections::{BTreeMap, VecDeque};
use std::ops::Range;
use std::sync::Arc;

use crate::error::Result;
use crate::memory::{Append, Appended};
use crate::record::{Incarnation, Slot, SlotVersion, millis};

pub(super) const IDS: usize = 64;

/// What a conversation holds in addition to its messages.
pub(super) struct Extras {
    pub(super) incarnation: Incarnation,
    /// The time of the last append, in milliseconds since 1970.
    pub(super) active: u64,
    pub(super) slots: BTreeMap<Arc<str>, Slot>,
    /// The appends that are recognised by their ids, the newest last.
    known: VecDeque<(String, Appended)>,
}

impl Extras {
    pub(super) fn new(incarnation: Incarnation) -> Self {
        Self { incarnation, active: 0, slots: BTreeMap::new(), known: VecDeque::new() }
    }

    /// Returns the outcome of the append with this id, if there was one.
    pub(super) fn known(&self, id: &str) -> Option<Appended> {
        let (_, known) = self.known.iter().find(|(known, _)| known == id)?;
        Some(Appended { repeated: true, ..known.clone() })
    }

    /// Compares the conversation, which has these positions, with the expectations of an append.
    pub(super) fn check(&self, append: &Append, positions: &Range<u64>) -> Result<()> {
        append.check_conversation("", Some(self.incarnation), positions)?;
        append.slots.iter().try_for_each(|change| {
            change.holds(self.slots.get(change.name.as_str()).map(Slot::version))
        })
    }

    /// Applies the changes of an append, whose messages have these positions.
    pub(super) fn change(&mut self, append: &Append, positions: Range<u64>, now: u64) -> Appended {
        let mut appended = Appended::new(positions);
        appended.recognised = true;
        if append.is_empty() {
            return appended;
        }
        self.active = append.active.map_or_else(|| self.active.max(now), millis);
        appended.version = append.writes_slots().then(SlotVersion::random);
        for change in &append.slots {
            if let Some((content, version)) = change.content.as_ref().zip(appended.version) {
                let name: Arc<str> = change.name.as_str().into();
                let slot = Slot::new(Arc::clone(&name), version, content);
                self.slots.insert(name, slot);
            } else {
                self.slots.remove(change.name.as_str());
            }
        }
        if let Some(id) = append.id.clone() {
            if self.known.len() >= IDS {
                self.known.pop_front();
            }
            self.known.push_back((id, appended.clone()));
        }
        appended
    }

    /// Forgets the slots, and begins another incarnation; ids are still recognised.
    pub(super) fn clear(&mut self) {
        self.incarnation = Incarnation::random();
        self.slots.clear();
    }
}

impl Default for Extras {
    fn default() -> Self {
        Self::new(Incarnation::random())
    }
}
