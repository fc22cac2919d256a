//! The parts of a snapshot that are read only on request.

use serde::{Deserialize, Serialize};

use super::{Incarnation, Records, Slot, Snapshot, Unreadable};
use crate::message::Message;

/// Slots and single records. Most reads ask for neither, and carry an empty pointer.
#[derive(Clone, Default)]
pub(crate) struct Extra {
    slots: Vec<Slot>,
    picked: Records,
    unreadable: Vec<Unreadable>,
    is_forked: bool,
    undone: Option<Replaced>,
    /// The end of the stored records, if records of a turn come after them.
    stored: Option<u64>,
}

/// The branches that have other messages at the point of a branch to be made.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub(crate) struct Replaced {
    /// The number of messages that all of them share.
    pub(crate) at: u64,
    /// Each branch, with the number of messages that it has after these.
    pub(crate) branches: Vec<(Option<Incarnation>, u64)>,
}

static NONE: Records = Records::none();

impl Snapshot {
    /// Returns the slot of this name, if it exists and was [asked for](crate::memory::Read::slots).
    ///
    /// ```
    /// use memory_prompt::record::{Slot, SlotVersion, Snapshot};
    ///
    /// let slot = Slot::new("summary", SlotVersion::random(), "They cancelled.");
    /// let snapshot = Snapshot::default().with_slots([slot]);
    /// assert_eq!(snapshot.slot("summary").and_then(|slot| slot.text()), Some("They cancelled."));
    /// assert_eq!(snapshot.slot("pins"), None);
    /// ```
    pub fn slot(&self, name: &str) -> Option<&Slot> {
        self.slots().iter().find(|slot| slot.name() == name)
    }

    /// Returns the slots that exist and were asked for.
    pub fn slots(&self) -> &[Slot] {
        self.extra.as_ref().map_or(&[], |extra| &extra.slots)
    }

    /// Returns the records that were [asked for by position](crate::memory::Read::positions),
    /// oldest first, as far as the memory still holds them and can read them.
    ///
    /// They are complete: a record that is also among [`records`](Self::records) is in both.
    pub fn picked(&self) -> &Records {
        self.extra.as_ref().map_or(&NONE, |extra| &extra.picked)
    }

    /// Returns the rows among those asked for by position that the memory holds but can't read.
    pub fn picked_unreadable(&self) -> &[Unreadable] {
        self.extra.as_ref().map_or(&[], |extra| &extra.unreadable)
    }

    /// Returns the snapshot with these slots. For implementers of
    /// [`ChatMemory`](crate::ChatMemory): pass those that were asked for, and no others.
    #[must_use]
    pub fn with_slots(mut self, slots: impl IntoIterator<Item = Slot>) -> Self {
        self.extra().slots.extend(slots);
        self
    }

    /// Returns the snapshot with these records, which were asked for by position. For implementers
    /// of [`ChatMemory`](crate::ChatMemory).
    #[must_use]
    pub fn with_picked(mut self, records: Records, unreadable: Vec<Unreadable>) -> Self {
        let extra = self.extra();
        (extra.picked, extra.unreadable) = (records, unreadable);
        self
    }

    /// Returns the snapshot with the mark that its branch was made on another one, if it was.
    pub(crate) fn forked(mut self, is_forked: bool) -> Self {
        if is_forked {
            self.extra().is_forked = true;
        }
        self
    }

    /// Returns true unless it is of the first branch of its conversation, or of the only one.
    pub(crate) fn is_forked(&self) -> bool {
        self.extra.as_ref().is_some_and(|extra| extra.is_forked)
    }

    /// Returns the snapshot with what was undone behind its end, if something was.
    pub(crate) fn with_undone(mut self, undone: Option<Replaced>) -> Self {
        if undone.is_some() {
            self.extra().undone = undone;
        }
        self
    }

    /// Returns what was undone behind its end: the next question replaces it.
    pub(crate) fn undone(&self) -> Option<&Replaced> {
        self.extra.as_ref()?.undone.as_ref()
    }

    /// Returns whether one of its records has a reference.
    pub(crate) fn has_references(&self) -> bool {
        self.records.iter().chain(self.picked().iter()).any(|it| it.message().has_references())
    }

    /// Replaces the messages for which `change` returns one.
    pub(crate) fn change_messages(&mut self, change: impl Fn(&Message) -> Option<Message>) {
        self.records.change(&change);
        if let Some(extra) = &mut self.extra {
            extra.picked.change(&change);
        }
    }

    /// Leaves out the picked records before the position `first`.
    pub(crate) fn drop_picked_before(&mut self, first: u64) {
        if let Some(extra) = &mut self.extra {
            extra.picked = std::mem::take(&mut extra.picked).split(first).1;
            extra.unreadable.retain(|row| row.position >= first);
        }
    }

    /// Adds the messages of a turn, which are not stored: other records may have their positions by
    /// now.
    pub(crate) fn stage(&mut self, staged: Records) {
        let (stored, n) = (self.end, staged.len() as u64);
        if let Some(extra) = &mut self.extra {
            extra.stored = Some(stored);
        }
        self.records.extend(staged);
        self.end = stored + n;
    }

    /// Returns the position after the newest stored record: slots refer only to records before it.
    pub(crate) fn stored_end(&self) -> u64 {
        self.extra.as_ref().and_then(|extra| extra.stored).unwrap_or(self.end)
    }

    fn extra(&mut self) -> &mut Extra {
        self.extra.get_or_insert_default()
    }
}
