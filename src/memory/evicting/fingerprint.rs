//! The fingerprint of a message, which tells it from the one that another conversation has at the
//! same position.

use crate::message::{Message, ToolMessage};
use crate::record::Records;

/// Records by position and [`fingerprint`], and where they end.
#[derive(Clone, Debug, Default)]
pub(super) struct HandedOver {
    pub(super) end: u64,
    fingerprints: Vec<(u64, u64)>,
}

impl HandedOver {
    pub(super) fn new(records: &Records, end: u64) -> Self {
        Self {
            end,
            fingerprints: records.iter().map(|it| (it.seq(), fingerprint(it.message()))).collect(),
        }
    }

    /// Returns whether each of these records is among those that were handed over.
    pub(super) fn covers(&self, records: &Records) -> bool {
        records.iter().all(|it| {
            self.fingerprints.binary_search(&(it.seq(), fingerprint(it.message()))).is_ok()
        })
    }
}

/// Returns a number that tells messages apart by their role, and by the length and the ends of
/// their texts: in little time, whatever their size. Never 0.
pub(super) fn fingerprint(message: &Message) -> u64 {
    let mix =
        |hash: u64, word: u64| (hash.rotate_left(29) ^ word).wrapping_mul(0x9e37_79b9_7f4a_7c15);
    let calls = message.tool_calls().flat_map(|call| [&*call.id, &*call.arguments]);
    let call = message.as_tool().map(ToolMessage::call_id);
    message
        .texts()
        .chain(calls)
        .chain(call)
        .map(str::as_bytes)
        .fold(message.role() as u64, |hash, text| {
            let short = || text.iter().fold(0, |word, byte| word << 8 | u64::from(*byte));
            let first = text.first_chunk().map_or_else(short, |it| u64::from_le_bytes(*it));
            let last = text.last_chunk().map_or(0, |it| u64::from_le_bytes(*it));
            [text.len() as u64, first, last].into_iter().fold(hash, mix)
        })
        .max(1)
}
