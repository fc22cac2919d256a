//! The rows of a partition of `conversation`, and their places.
//!
//! | `position` | row |
//! |--:|---|
//! | 2⁶³ − 1 | the head |
//! | 0 and more | messages, by position |
//! | −64 to −1 | the newest ids of appends, in a ring |
//! | below −64 | slots, by a hash of the name |

use std::ops::Range;

use scylla::value::CqlTimestamp;
use uuid::Uuid;

use super::BUCKET;
use crate::error::{Error, ErrorKind, Result};
use crate::record::{Incarnation, Slot};
use crate::store::common::{fnv, slot_version, unsigned};

/// The place of the head: before every message, since the newest come first.
pub(super) const HEAD: i64 = i64::MAX;

pub(super) const IDS: i64 = 64;

/// Returns the place of the `n`th id: it replaces the id that came 64 before it.
pub(super) fn id_place(n: i64) -> i64 {
    -1 - n.rem_euclid(IDS)
}

/// Returns the place of the slot with this name: a 64-bit hash, FNV-1a.
///
/// If two names have the same place, which is less likely than one in 2⁶², the first one keeps it.
pub(super) fn slot_place(name: &str) -> i64 {
    // One bit makes it negative.
    (fnv(name) | 1 << 63).cast_signed().min(-1 - IDS)
}

/// The head of a conversation, without its messages: one row, which every change replaces.
#[derive(Clone, Debug, PartialEq)]
pub(super) struct Head {
    /// The version, new with each change. A change is made only if this is still the one that it
    /// saw.
    pub(super) version: Uuid,
    /// The name of its buckets in `message`: a new one after a delete.
    pub(super) log: Uuid,
    pub(super) incarnation: Incarnation,
    pub(super) start: i64,
    pub(super) end: i64,
    /// The messages before this position are in buckets, the others in the head's partition.
    pub(super) sealed: i64,
    /// The buckets before this one are certainly removed.
    pub(super) swept: i64,
    pub(super) ids: i64,
    /// True if the conversation no longer exists, but its buckets may.
    pub(super) ended: bool,
    pub(super) active: CqlTimestamp,
}

impl Head {
    /// Returns the head of a new conversation, with this incarnation or a new one.
    pub(super) fn new(incarnation: Option<Incarnation>, start: i64) -> Self {
        Self {
            version: Uuid::nil(),
            log: Uuid::new_v4(),
            incarnation: incarnation.unwrap_or_else(Incarnation::random),
            start,
            end: start,
            sealed: start,
            swept: start / BUCKET,
            ids: 0,
            ended: false,
            active: CqlTimestamp(0),
        }
    }

    /// Returns whether it may have a bucket, or get one from a writer that is still moving
    /// messages.
    pub(super) fn has_buckets(&self) -> bool {
        self.sealed > self.swept * BUCKET || self.end >= (self.swept + 2) * BUCKET
    }
}

macro_rules! rows {
    ($($(#[$documentation:meta])* $name:ident { $($field:ident: $type:ty),+ })+) => {$(
        $(#[$documentation])*
        #[derive(scylla::DeserializeRow)]
        pub(super) struct $name {
            pub(super) position: i64,
            version: Option<Uuid>,
            log: Option<Uuid>,
            incarnation: Option<i64>,
            start: Option<i64>,
            end: Option<i64>,
            sealed: Option<i64>,
            swept: Option<i64>,
            ids: Option<i64>,
            ended: Option<bool>,
            active: Option<CqlTimestamp>,
            $(pub(super) $field: Option<$type>,)+
        }

        impl $name {
            /// Returns the head, if this is its row.
            pub(super) fn head(&self, operation: &'static str) -> Result<Head> {
                let head = || {
                    Some(Head {
                        version: self.version?,
                        log: self.log?,
                        incarnation: Incarnation::from_bits(self.incarnation?.cast_unsigned()),
                        start: self.start?,
                        end: self.end?,
                        sealed: self.sealed?,
                        swept: self.swept?,
                        ids: self.ids?,
                        ended: self.ended.unwrap_or(false),
                        active: self.active?,
                    })
                };
                head().ok_or_else(|| damaged(operation))
            }
        }
    )+};
}

rows! {
    /// A row as an append reads it: the head, an id, or a slot without its content.
    Look { name: String, stamp: i64, attempt: Uuid }

    /// The head with the system message, or a message.
    NewestRow { system: Vec<u8>, at: CqlTimestamp, payload: Vec<u8> }
}

impl Look {
    pub(super) fn positions(&self) -> Range<u64> {
        unsigned(self.start.unwrap_or(0))..unsigned(self.end.unwrap_or(0))
    }
}

fn damaged(operation: &'static str) -> Error {
    Error::new(ErrorKind::Storage, operation, "cassandra: the conversation's head is damaged")
}

/// A row that a read picks: the head (of which only the version is read), a message, or a slot.
#[derive(scylla::DeserializeRow)]
pub(super) struct Pick {
    pub(super) position: i64,
    pub(super) version: Option<Uuid>,
    at: Option<CqlTimestamp>,
    payload: Option<Vec<u8>>,
    name: Option<String>,
    stamp: Option<i64>,
}

#[derive(Clone, Debug, scylla::DeserializeRow)]
pub(super) struct Row {
    pub(super) position: i64,
    pub(super) at: CqlTimestamp,
    pub(super) payload: Vec<u8>,
}

impl Row {
    pub(super) fn new(position: i64, at: Option<CqlTimestamp>, payload: Option<Vec<u8>>) -> Self {
        Self { position, at: at.unwrap_or(CqlTimestamp(0)), payload: payload.unwrap_or_default() }
    }
}

impl Pick {
    pub(super) fn row(self) -> Row {
        Row::new(self.position, self.at, self.payload)
    }

    pub(super) fn slot(self) -> Option<Slot> {
        Some(Slot::new(self.name?, slot_version(self.stamp?), self.payload.unwrap_or_default()))
    }
}

/// A conversation as a walk over the ring lists it.
#[derive(scylla::DeserializeRow)]
pub(super) struct Listed {
    pub(super) id: String,
    pub(super) place: i64,
    pub(super) active: CqlTimestamp,
    ended: Option<bool>,
}

impl Listed {
    pub(super) fn has_ended(&self) -> bool {
        self.ended.unwrap_or(false)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn everything_has_a_place_of_its_own() {
        let ids: Vec<_> = (0..200).map(id_place).collect();
        assert!(ids.iter().all(|place| (-IDS..0).contains(place)));
        assert_eq!(ids[..64], ids[64..128]);
        let names = ["a", "b", "ab", "ba", "summary", "pins", "é", "turn 4711", "turn 4712"];
        let mut places: Vec<_> = names.iter().map(|name| slot_place(name)).collect();
        assert!(places.iter().all(|place| *place < -IDS));
        places.sort_unstable();
        places.dedup();
        assert_eq!(places.len(), names.len());
        // Stored in the tables, so it must never change.
        assert_eq!(slot_place("summary"), -6_646_608_006_195_182_317);
    }
}
