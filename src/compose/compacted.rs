//! A provider's own compaction: an answer that stands for everything before it, for that provider.
//!
//! It opens the history of a prompt for the provider that gave it. What is sent of before it, pins
//! and the question of a running turn, stands behind it: the provider may read nothing else.

use super::Composer;
use crate::message::Message;
use crate::provider::{Provider, holds_compaction};
use crate::record::Records;
use crate::window::{NotReady, WindowStart};

impl Composer {
    /// Returns whether this is an answer of the provider that stands for everything before it.
    pub(super) fn is_compaction(&self, message: &Message) -> bool {
        let row = self.provider.map(Provider::row);
        row.is_some_and(|row| holds_compaction(message, &row))
    }

    /// Returns the start of the window at the newest such answer in it, if there is one.
    ///
    /// A window that starts before what was read holds all of it; one that counts turns, all from
    /// the first of them on. So the answer is the same however much was read.
    pub(super) fn compacted(
        &self,
        records: &Records,
        window: &Result<(WindowStart, bool), NotReady>,
    ) -> Option<WindowStart> {
        if !self.provider.is_some_and(|provider| provider.row().compacts) {
            return None;
        }
        let from = match window {
            Ok((start, _)) => start.start,
            Err(NotReady::ReadMore(_)) if self.effective_window().is_turns() => {
                records.messages().position(Message::begins_turn)?
            }
            Err(NotReady::ReadMore(_)) => 0,
            Err(NotReady::Failed(_)) => return None,
        };
        let places = (from..records.len()).rev();
        let mut newest = places.zip(records.messages().rev());
        let (place, _) = newest.find(|(_, message)| self.is_compaction(message))?;
        Some(WindowStart { window_from: place, start: place, ..WindowStart::default() })
    }
}
