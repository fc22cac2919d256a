//! Pins: records that are always sent, how a slot keeps them, and how a snapshot shows them.

use std::ops::Range;

use serde::{Deserialize, Serialize};

use crate::error::{Error, Result};
use crate::message::ToolCall;
use crate::record::{Records, Snapshot, slot};
use crate::window::{Fate, Matches};

/// The slot of the pins of a conversation, so that every process sees them.
pub(crate) const SLOT: &str = "prompt:pins";

/// The rest of a tool group is searched within this many records around a pinned one.
const AROUND: u64 = 256;

/// The pins of a conversation, in the order of their positions.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub(crate) struct Pins {
    list: Vec<Pin>,
}

#[derive(Serialize, Deserialize)]
struct Document {
    version: u32,
    pins: Vec<Pin>,
}

/// A pinned message, or tool group.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
struct Pin {
    /// The position of the message, or of the call of the group.
    at: u64,
    /// The results of the group, as they are sent.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    with: Vec<u64>,
    /// True if a call of the group had no result yet, or only a stand-in: late results belong to
    /// the group.
    #[serde(default, skip_serializing_if = "std::ops::Not::not")]
    open: bool,
}

/// A pinned message or tool group, as a snapshot shows it.
#[derive(Clone, Debug)]
pub(crate) struct PinnedGroup {
    /// The positions of its records, the call first, then the results as they are sent.
    pub(crate) members: Vec<u64>,
    pub(crate) unanswered: Vec<ToolCall>,
}

/// The pinned records of a snapshot.
#[derive(Clone, Debug, Default)]
pub(crate) struct Pinned {
    /// The records among which they are: the picked ones, and after them the newest.
    pub(crate) records: Records,
    pub(crate) groups: Vec<PinnedGroup>,
    /// The positions of all members, ascending.
    members: Vec<u64>,
    /// The pinned positions whose message the memory no longer has, can't read, or never sends.
    pub(crate) lost: Vec<u64>,
}

impl Pins {
    pub(crate) fn of(snapshot: &Snapshot) -> Result<Self> {
        let Some(slot) = snapshot.slot(SLOT) else { return Ok(Self::default()) };
        let mut list = slot.read("pins", |it: &Document| it.version)?.pins;
        // Others may have pinned records after those that a turn has seen, at the positions of its
        // own messages.
        let end = snapshot.stored_end();
        list.retain(|pin| pin.at < end);
        for pin in &mut list {
            let all = pin.with.len();
            pin.with.retain(|it| *it < end);
            pin.open |= pin.with.len() < all;
        }
        list.sort_by_key(|pin| pin.at);
        list.dedup_by_key(|pin| pin.at);
        Ok(Self { list })
    }

    /// Returns the content of the slot; `None` if nothing is pinned.
    pub(crate) fn content(self) -> Result<Option<Vec<u8>>> {
        if self.list.is_empty() {
            return Ok(None);
        }
        let document = Document { version: slot::VERSION, pins: self.list };
        slot::written("pins", &document).map(Some)
    }

    /// Returns whether the message at this position was pinned, or was part of its group at that
    /// time.
    pub(crate) fn names(&self, position: u64) -> bool {
        self.list.iter().any(|pin| pin.at == position || pin.with.contains(&position))
    }

    /// Returns the positions before this one that were pinned.
    pub(crate) fn before(&self, position: u64) -> Vec<u64> {
        self.list.iter().map(|pin| pin.at).filter(|at| *at < position).collect()
    }

    /// Returns the positions of this snapshot that hold pinned records and were not read with the
    /// newest ones, ascending.
    pub(crate) fn unread(&self, snapshot: &Snapshot) -> Vec<u64> {
        let unread = snapshot.start..snapshot.oldest_row();
        let mut positions: Vec<u64> = Vec::new();
        for pin in self.list.iter().filter(|pin| unread.contains(&pin.at)) {
            positions.push(pin.at);
            positions.extend(pin.with.iter().filter(|it| unread.contains(it)));
            if pin.open {
                let around = around(pin.at);
                positions.extend(around.start.max(unread.start)..around.end.min(unread.end));
            }
        }
        positions.sort_unstable();
        positions.dedup();
        positions
    }

    /// Returns the pinned records, as far as this snapshot shows them.
    pub(crate) fn shown_by(&self, snapshot: &Snapshot) -> Pinned {
        let mut pinned = Pinned::default();
        if self.list.is_empty() {
            return pinned;
        }
        pinned.records = snapshot.picked().clone().split(snapshot.oldest()).0;
        pinned.records.extend(snapshot.records.clone());
        for pin in &self.list {
            match pin.group(&pinned.records) {
                Some(group) if group.members.iter().any(|it| pinned.holds(*it)) => {}
                Some(group) => {
                    pinned.members.extend(&group.members);
                    pinned.members.sort_unstable();
                    pinned.groups.push(group);
                }
                // Records after the end are not seen yet.
                None if pin.at < snapshot.end => pinned.lost.push(pin.at),
                None => {}
            }
        }
        pinned
    }

    /// Pins the message at this position, with its whole tool group.
    ///
    /// The snapshot has picked the records [around] it. Returns the positions that this pins.
    pub(crate) fn add(&mut self, position: u64, snapshot: &Snapshot) -> Result<Vec<u64>> {
        let pin = Pin::at(position, snapshot.picked(), snapshot.end)?;
        self.list.retain(|it| it.at >= snapshot.start && it.at != pin.at);
        let place = self.list.partition_point(|it| it.at < pin.at);
        let mut members = vec![pin.at];
        members.extend(&pin.with);
        members.sort_unstable();
        self.list.insert(place, pin);
        Ok(members)
    }

    /// Unpins the message at this position, with its whole tool group; returns false if it was not
    /// pinned.
    pub(crate) fn remove(&mut self, position: u64, snapshot: &Snapshot) -> bool {
        let head = head_of(position, snapshot);
        let before = self.list.len();
        self.list.retain(|pin| pin.at != head && !pin.with.contains(&position));
        let is_removed = self.list.len() < before;
        self.list.retain(|pin| pin.at >= snapshot.start);
        is_removed
    }
}

/// Returns the positions among which the rest of this message's tool group is searched.
pub(crate) fn around(position: u64) -> Range<u64> {
    position.saturating_sub(AROUND)..position.saturating_add(AROUND + 1)
}

/// Returns the position of the first message of this message's tool group, or its own if it is in
/// no group. The snapshot has picked the records [around] it.
pub(crate) fn head_of(position: u64, snapshot: &Snapshot) -> u64 {
    Pin::at(position, snapshot.picked(), snapshot.end).map_or(position, |pin| pin.at)
}

impl Pin {
    /// Returns a pin of the message at this position, with its whole tool group.
    fn at(position: u64, records: &Records, end: u64) -> Result<Self> {
        let refuse = |text: String| Err(Error::invalid("pin", text));
        let Some((place, record)) = records.place(position) else {
            return refuse(format!("there is no message at position {position}"));
        };
        let message = record.message();
        if message.is_system() || message.is_private() {
            return refuse(format!("the message at position {position} is never sent"));
        }
        if !message.is_tool() && !message.has_tool_calls() {
            return Ok(Self { at: position, with: Vec::new(), open: false });
        }
        let matches = Matches::among(records, 0);
        let group = match matches.fate(place) {
            _ if message.has_tool_calls() => matches.group_at(place),
            Fate::Sent { group, .. } => Some(group),
            _ => None,
        };
        let head = group.and_then(|group| matches.groups().get(group));
        let head = head.and_then(|head| records.get(head.head));
        let (Some(group), Some(head)) = (group, head) else {
            let among = format!("among the {AROUND} messages before it");
            return refuse(format!("the result at position {position} answers no call {among}"));
        };
        let results = matches.results_of(group).into_iter().filter_map(|it| records.get(it));
        Ok(Self {
            at: head.position(),
            // Results are searched within AROUND positions after the call: none can join once the
            // end has passed them.
            open: end <= head.position().saturating_add(AROUND) && matches.waits(group),
            with: results.map(|record| record.position()).collect(),
        })
    }

    /// Returns the message or group, as these records show it; `None` if its first message is not
    /// among them, or is never sent.
    fn group(&self, records: &Records) -> Option<PinnedGroup> {
        let (_, head) = records.place(self.at)?;
        let message = head.message();
        if message.is_system() || message.is_private() || message.is_tool() {
            return None;
        }
        let mut group = PinnedGroup { members: vec![self.at], unanswered: Vec::new() };
        if message.has_tool_calls() {
            let own = self.stretch(records);
            let matches = Matches::among(&own, 0);
            let number = own.place(self.at).and_then(|(place, _)| matches.group_at(place))?;
            if self.open {
                let results = matches.results_of(number);
                let results = results.iter().filter_map(|it| own.get(*it));
                group.members.extend(results.map(|record| record.position()));
            } else {
                let shown = self.with.iter().filter(|it| records.find(**it).is_some());
                group.members.extend(shown);
            }
            group.unanswered = matches.unanswered(number).cloned().collect();
        }
        Some(group)
    }

    /// Returns the records among which those of the group are.
    fn stretch(&self, records: &Records) -> Records {
        if self.open {
            // An older call of the same id may still wait for the result.
            let around = around(self.at);
            return records.clone().split(around.start).1.split(around.end).0;
        }
        let mut own = Records::default();
        let mut rest: Vec<u64> = self.with.clone();
        rest.sort_unstable();
        for position in [self.at].into_iter().chain(rest) {
            own.extend(records.clone().split(position).1.split(position + 1).0);
        }
        own
    }
}

impl Pinned {
    /// Returns whether the record at this position is pinned.
    pub(crate) fn holds(&self, position: u64) -> bool {
        self.members.binary_search(&position).is_ok()
    }

    /// Returns the same pins without groups: each record by itself.
    pub(crate) fn ungrouped(mut self) -> Self {
        let single = |position: &u64| PinnedGroup { members: vec![*position], unanswered: vec![] };
        self.groups = self.members.iter().map(single).collect();
        self
    }

    pub(crate) fn members(&self) -> &[u64] {
        &self.members
    }
}

impl PinnedGroup {
    /// Returns the position of the message, or of the call of the group.
    pub(crate) fn head(&self) -> u64 {
        self.members.first().copied().unwrap_or(0)
    }
}
