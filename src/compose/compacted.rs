//! A provider's own compaction: an answer that replaces everything before it, for that provider.
//!
//! It opens the history of a prompt for the provider that gave it. Older messages that are still
//! sent (pins and the question of a running turn) go after it, since the provider may ignore
//! everything before it.

use super::Composer;
use crate::message::Message;
use crate::provider::{Provider, holds_compaction};
use crate::record::Records;
use crate::window::{NotReady, WindowStart};

impl Composer {
    pub(super) fn is_compaction(&self, message: &Message) -> bool {
        let row = self.provider.map(Provider::row);
        row.is_some_and(|row| holds_compaction(message, &row))
    }

    /// Returns the start of the window at the newest compaction in it, if there is one.
    ///
    /// If a window starts before what was read, it holds all of that; if it counts turns,
    /// everything from the first turn on. So the result does not depend on how much was read.
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
