//! Pins and the summary: they are sent next to the window, and need reads of their own.

use std::sync::Arc;

use super::Composer;
use crate::error::Result;
use crate::message::Message;
use crate::pins::{self, Pinned, Pins};
use crate::record::{Snapshot, places};
use crate::summary::{self, Summaries, Summary};
use crate::window::{NotReady, WindowStart};

/// The pins and the summary of a snapshot, which are sent whether or not the window holds them.
#[derive(Default)]
pub(super) struct Extras {
    pub(super) pinned: Pinned,
    pub(super) summary: Option<SentSummary>,
}

pub(super) struct SentSummary {
    /// The position before which nothing else is sent.
    pub(super) covers: u64,
    pub(super) message: Arc<Message>,
    /// The number of characters that were cut off its text.
    pub(super) cut: usize,
    /// The position to which the window reaches back: `covers`, or later if that is too far.
    from: u64,
}

impl Composer {
    /// Sends the pinned messages of the conversation too, even if the window does not hold them:
    /// see [`MemoryPrompt::with_pins`](crate::MemoryPrompt::with_pins).
    ///
    /// If you use your own I/O, read the [slots](Self::slots) that the composer names, and then the
    /// [positions](Self::positions).
    #[must_use]
    pub fn with_pins(mut self) -> Self {
        self.pins = true;
        self
    }

    /// Sends no pins, only what the window holds.
    #[must_use]
    pub fn no_pins(mut self) -> Self {
        self.pins = false;
        self
    }

    /// Sends the summary of the conversation, and nothing that it covers: see
    /// [`MemoryPrompt::with_summary`](crate::MemoryPrompt::with_summary).
    #[must_use]
    pub fn with_summary(mut self) -> Self {
        self.summary = true;
        self
    }

    /// Sends no summary, only what the window holds.
    #[must_use]
    pub fn no_summary(mut self) -> Self {
        self.summary = false;
        self
    }

    /// Sets the most records that a window sends in order to reach back to the end of the summary.
    /// The default is four times as many as the window reads at first. A window that is larger by
    /// itself is not cut.
    #[must_use]
    pub fn summary_reach(mut self, records: usize) -> Self {
        self.reach = Some(records);
        self
    }

    pub(crate) fn reads_slots(&self) -> bool {
        self.pins || self.summary
    }

    pub(crate) fn sends_summary(&self) -> bool {
        self.summary
    }

    pub(super) fn reach(&self) -> usize {
        let by_window = || self.effective_window().first_read().saturating_mul(4);
        self.reach.unwrap_or_else(by_window)
    }

    pub(crate) fn sends_pins(&self) -> bool {
        self.pins
    }

    /// Returns the names of the slots that a read for this composer must name: none unless it sends
    /// pins or summaries.
    ///
    /// ```
    /// use memory_prompt::compose::Composition;
    /// use memory_prompt::memory::Read;
    /// use memory_prompt::{ChatMemory, Composer, DefaultChatMemory};
    ///
    /// let (memory, composer) = (DefaultChatMemory::new(), Composer::new().with_pins());
    /// let mut read = Read::newest(composer.first_read()).slots(composer.slots());
    /// let prompt = loop {
    ///     let snapshot = memory.read_with(&read)?;
    ///     let positions = composer.positions(&snapshot)?;
    ///     if positions.iter().any(|it| !read.positions.contains(it)) {
    ///         read.positions = positions; // pinned records that the newest do not hold
    ///         continue;
    ///     }
    ///     match composer.compose(snapshot, &[])? {
    ///         Composition::Ready(prompt) => break prompt,
    ///         Composition::ReadMore(more) => read.n = more,
    ///     }
    /// };
    /// # assert!(prompt.is_empty());
    /// # Ok::<(), memory_prompt::Error>(())
    /// ```
    pub fn slots(&self) -> impl Iterator<Item = &'static str> + use<> {
        let summary = self.summary.then_some(summary::SLOT);
        self.pins.then_some(pins::SLOT).into_iter().chain(summary)
    }

    /// Returns the names of further slots that a read must name if it shows the conversation as of
    /// an earlier end.
    pub(crate) fn earlier_slots(&self) -> Option<&'static str> {
        self.summary.then_some(summary::EARLIER_SLOT)
    }

    /// Returns the positions of the single records that a read must name in addition to the newest
    /// ones: those of pins, by the slots that were read. Positions that the memory does not return
    /// no longer exist.
    ///
    /// # Errors
    ///
    /// [`ErrorKind::Codec`](crate::ErrorKind::Codec) if another program has written the slot.
    pub fn positions(&self, snapshot: &Snapshot) -> Result<Vec<u64>> {
        if self.pins { Ok(Pins::of(snapshot)?.unread(snapshot)) } else { Ok(Vec::new()) }
    }

    pub(super) fn extras(&self, snapshot: &Snapshot) -> Result<Extras> {
        let mut extras = Extras::default();
        if self.pins {
            let pinned = Pins::of(snapshot)?.shown_by(snapshot);
            extras.pinned = if self.checks_groups() { pinned } else { pinned.ungrouped() };
        }
        if self.summary {
            extras.summary = Summaries::of(snapshot)?.map(|it| {
                let Summary { covers, cut, .. } = it.current;
                let message = Arc::new(it.current.message());
                SentSummary { covers, message, cut, from: self.reaches_back(covers, snapshot.end) }
            });
        }
        Ok(extras)
    }

    /// Returns the summary alone, with the window reaching back to it from this end.
    pub(super) fn summary_as_of(&self, extras: &Extras, end: u64) -> Extras {
        let summary = extras.summary.as_ref().map(|it| {
            let (covers, message) = (it.covers.min(end), Arc::clone(&it.message));
            SentSummary { covers, message, cut: it.cut, from: self.reaches_back(covers, end) }
        });
        Extras { summary, ..Extras::default() }
    }

    /// Returns the position to which a window reaches back: the end of the summary or, if that is
    /// too far, as far as the reach allows, in steps.
    fn reaches_back(&self, covers: u64, end: u64) -> u64 {
        let reach = self.reach() as u64;
        if end - covers <= reach {
            return covers;
        }
        let step = (reach / 4).max(1);
        (end - reach).div_ceil(step).saturating_mul(step).clamp(covers, end)
    }

    /// Returns whether a history that begins at this position begins there because of the reach, if
    /// no budget decides.
    pub(super) fn begins_by_reach(&self, extras: &Extras, first: u64) -> bool {
        !self.effective_window().stands_alone()
            && extras.summary.as_ref().is_some_and(|summary| first >= summary.from)
    }

    /// Returns where a window with a summary before it starts, and whether it starts later than the
    /// summary ends.
    pub(super) fn start_behind(
        &self,
        snapshot: &Snapshot,
        summary: &SentSummary,
    ) -> Result<(WindowStart, bool), NotReady> {
        let window = self.effective_window();
        let (mut start, from);
        if window.stands_alone() {
            start = window.start(snapshot, self.search_bound())?;
            from = summary.covers.max(snapshot.position(start.start));
        } else {
            // Never less than without a summary: at least the window over what is not covered.
            let uncovered = uncovered(snapshot, summary.covers);
            start = window.start(&uncovered, self.search_bound()).map_err(|why| match why {
                // What it covers is not sent, so it is not read.
                NotReady::ReadMore(n) => {
                    NotReady::ReadMore(n.min(places(snapshot.end - summary.covers)))
                }
                NotReady::Failed(error) => NotReady::Failed(error),
            })?;
            from = summary.from.min(uncovered.position(start.start)).max(summary.covers);
            start.ended &= from < summary.from;
            start.takes_all |= from == summary.covers;
        }
        if !window.stands_alone() && snapshot.oldest_row() > from && !snapshot.is_complete() {
            return Err(NotReady::ReadMore(places(snapshot.end - from)));
        }
        let place = snapshot.records.iter().take_while(|record| record.position() < from).count();
        (start.window_from, start.start) = (place, place);
        Ok((start, from > summary.covers))
    }
}

/// Returns the snapshot as if the conversation began at this position.
fn uncovered(snapshot: &Snapshot, covers: u64) -> Snapshot {
    let is_all = snapshot.is_complete() || snapshot.oldest_row() <= covers;
    let unreadable = snapshot.unreadable.iter().filter(|row| row.position >= covers);
    let mut behind = Snapshot {
        unreadable: unreadable.cloned().collect(),
        ..Snapshot::new(covers..snapshot.end, snapshot.records.clone().split(covers).1)
    };
    if is_all {
        behind.start = behind.oldest_row();
    }
    behind
}
