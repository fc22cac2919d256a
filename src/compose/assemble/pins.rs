//! Sends pinned messages that are older than the window before it, in order of position, and the
//! summary at the place of what it covers.

use std::sync::Arc;

use super::Assembler;
use super::groups::{LastGroup, Waiting};
use crate::compose::shape::ends::OPENING;
use crate::error::Result;
use crate::message::{Message, Role};
use crate::pins::PinnedGroup;
use crate::prompt::{Adaptation, Adapted, Origin};
use crate::provider::{Opens, Provider};
use crate::record::Record;

impl<'a> Assembler<'a> {
    /// Notes the pinned groups that are sent before the window.
    pub(super) fn pass_pins(&mut self) {
        let pinned = &self.case.extras.pinned;
        self.draft.report.lost_pins.clone_from(&pinned.lost);
        let groups = pinned.groups.iter();
        let mut passed: Vec<_> = groups.filter(|group| !self.is_in_window(group)).collect();
        self.passed = passed.iter().flat_map(|group| group.members.iter().copied()).collect();
        self.passed.sort_unstable();
        passed.reverse();
        self.pins = passed;
    }

    /// Returns whether the choice itself sends this pinned group.
    fn is_in_window(&self, group: &PinnedGroup) -> bool {
        let place = self.case.snapshot.records.place(group.head());
        let Some((place, _)) = place else { return false };
        if let Some(group) = self.choice.matches.group_at(place) {
            return self.choice.sends(group);
        }
        place >= self.choice.start || self.choice.front.binary_search(&place).is_ok()
    }

    /// Returns whether this record was already sent before the window.
    pub(super) fn is_passed(&self, record: Record<'_>) -> bool {
        !self.passed.is_empty() && self.passed.binary_search(&record.position()).is_ok()
    }

    /// Sends the summary and the pinned groups that belong before this position.
    pub(super) fn extras_before(&mut self, position: u64) -> Result<()> {
        if let Some(summary) = self.summary.take_if(|it| it.covers <= position) {
            self.extras_before(summary.covers)?;
            self.close_calls()?;
            self.draft.report.summary = Some(summary.covers);
            self.draft.report.summary_cut = summary.cut;
            self.draft.pieces.push(Arc::clone(&summary.message), Origin::Summary);
        }
        while let Some(group) = self.pins.pop_if(|group| group.head() < position) {
            self.pin(group)?;
        }
        Ok(())
    }

    /// Returns the position before which a summary or a compaction replaces everything; 0 if there
    /// is none.
    pub(super) fn covered(&self) -> u64 {
        let summed = self.case.extras.summary.as_ref().map_or(0, |summary| summary.covers);
        self.draft.report.compaction.map_or(summed, |position| position.max(summed))
    }

    /// Returns how many records before this position are sent, or were chosen and then dropped.
    pub(super) fn sent_before(&self, position: u64) -> u64 {
        if position == 0 {
            return 0;
        }
        let items = self.draft.pieces.items(&self.case.snapshot.records);
        let sent = items.filter_map(|item| item.origin().position()).filter(|at| *at < position);
        let left_out = self.draft.report.left_out.iter().map(|it| it.position);
        let dropped = left_out.filter(|at| *at < position);
        let others =
            sent.chain(dropped).filter(|position| self.passed.binary_search(position).is_err());
        (others.count() + self.passed.partition_point(|at| *at < position)) as u64
    }

    /// Sends a pinned message or group: all of it, or nothing if the processor dropped a part.
    fn pin(&mut self, group: &'a PinnedGroup) -> Result<()> {
        self.close_calls()?;
        let placed = group.members.iter().filter_map(|it| self.case.placed(*it));
        let Some(members) = self.members(placed.collect())? else { return Ok(()) };
        self.open_before(group)?;
        let results_at = self.draft.pieces.len() + 1;
        for member in members {
            self.draft.report.pinned_before.push(member.record.position());
            // Temporaries are not put before it: nothing after it could then come from a cache.
            self.has_pinned_user |= member.record.message().is_user();
            self.put(&member);
        }
        if self.checks_groups() && !group.unanswered.is_empty() {
            let mut waiting = Waiting::default();
            for call in &group.unanswered {
                waiting.open(&call.id, &call.name, (Some(group.head()), call));
            }
            self.last_group = Some(LastGroup { results_at, waiting });
        }
        Ok(())
    }

    /// If the window wants a user message first and a pinned answer would open the prompt, puts a
    /// user message in front. A provider's own rules do this elsewhere.
    fn open_before(&mut self, group: &PinnedGroup) -> Result<()> {
        let window = self.case.composer.effective_window();
        let is_asked = window.wants_user_first() && !window.is_exact() && self.checks_groups();
        let is_first = self.draft.pieces.len() == self.history_at;
        let head = group.head();
        let record = self.case.extras.pinned.records.find(head);
        let is_user = record.is_some_and(|record| record.message().is_user());
        let row = self.case.composer.provider.map(Provider::row);
        let by_itself = row.is_some_and(|row| row.opens == Opens::WithUser);
        if !is_asked || !is_first || is_user || by_itself || self.draft.report.compaction.is_some()
        {
            return Ok(());
        }
        let what = || format!("the pinned message {head} comes first, where the user's belongs");
        self.may_repair(what)?;
        let opened = Adapted { position: None, role: Role::User, how: Adaptation::Opened };
        self.draft.report.adapted.push(opened);
        self.draft.pieces.push(Arc::new(Message::user(OPENING)), Origin::Added);
        Ok(())
    }
}
