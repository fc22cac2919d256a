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
    /// The slots and ids; most conversations have none.
    more: Option<Box<More>>,
}

#[derive(Default)]
struct More {
    slots: BTreeMap<Arc<str>, Slot>,
    /// The appends that are recognised by their ids, the newest last.
    known: VecDeque<(String, Appended)>,
}

impl Extras {
    pub(super) fn new(incarnation: Incarnation) -> Self {
        Self { incarnation, active: 0, more: None }
    }

    /// Returns the outcome of the append with this id, if there was one.
    pub(super) fn known(&self, id: &str) -> Option<Appended> {
        let (_, known) = self.more.as_ref()?.known.iter().find(|(known, _)| known == id)?;
        Some(Appended { repeated: true, ..known.clone() })
    }

    /// Compares the conversation, which has these positions, with the expectations of an append.
    pub(super) fn check(&self, append: &Append, positions: &Range<u64>) -> Result<()> {
        append.check_standing("", Some(self.incarnation), positions)?;
        append.slots.iter().try_for_each(|change| {
            let slots = self.more.as_ref().map(|more| &more.slots);
            let found = slots.and_then(|slots| slots.get(change.name.as_str()));
            change.holds(found.map(Slot::version))
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
        if append.slots.is_empty() && append.id.is_none() {
            return appended;
        }
        let more = self.more.get_or_insert_default();
        let version = SlotVersion::random();
        for change in &append.slots {
            if let Some(content) = &change.content {
                let name: Arc<str> = change.name.as_str().into();
                let slot = Slot::shared(Arc::clone(&name), version, content.as_slice().into());
                more.slots.insert(name, slot);
                appended.version = Some(version);
            } else {
                more.slots.remove(change.name.as_str());
            }
        }
        if let Some(id) = append.id.clone() {
            if more.known.len() >= IDS {
                more.known.pop_front();
            }
            more.known.push_back((id, appended.clone()));
        }
        appended
    }

    pub(super) fn slots(&self) -> impl Iterator<Item = &Slot> {
        self.more.iter().flat_map(|more| more.slots.values())
    }

    /// Returns the slots of these names, each once.
    pub(super) fn named(&self, names: &[String]) -> Vec<Slot> {
        let Some(more) = &self.more else { return Vec::new() };
        let wanted = |(i, name): (usize, &String)| {
            let again = names[..i].contains(name);
            more.slots.get(name.as_str()).filter(|_| !again).cloned()
        };
        names.iter().enumerate().filter_map(wanted).collect()
    }

    /// Forgets the slots, and begins another incarnation; ids are still recognised.
    pub(super) fn clear(&mut self) {
        self.incarnation = Incarnation::random();
        if let Some(more) = &mut self.more {
            more.slots.clear();
        }
    }
}

impl Default for Extras {
    fn default() -> Self {
        Self::new(Incarnation::random())
    }
}
