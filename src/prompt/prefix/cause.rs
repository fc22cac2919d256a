//! Finds the cause of a break: the first difference between two lists of sent messages.

use std::iter;

use super::Break;
use crate::message::Message;
use crate::prompt::{Moved, Origin, Prompt, Reason};

/// Two prompts that differ from message `at` on.
pub(super) struct Difference<'a> {
    now: Side<'a>,
    then: Side<'a>,
    at: usize,
}

/// One of the two prompts, with what it sends at the first difference.
struct Side<'a> {
    prompt: &'a Prompt,
    /// The origin of that message, or of the next one if the composer added it.
    origin: Option<Origin>,
    /// The positions of its records: several if it was joined. For a summary or a notice, that of
    /// the first record after it.
    records: Vec<u64>,
    /// The first of these that the other prompt does not send in this place and form.
    record: Option<u64>,
    behind: Option<u64>,
}

impl<'a> Difference<'a> {
    pub(super) fn new(now: &'a Prompt, then: &'a Prompt, at: usize) -> Self {
        let (mut now, mut then) = (Side::new(now, at), Side::new(then, at));
        let pairs = now.records.iter().zip(&then.records);
        let is_alike = |(a, b): &(&u64, &u64)| {
            a == b && now.pins(**a) == then.pins(**a) && changed(&now, &then, **a).is_none()
        };
        let alike = pairs.take_while(is_alike).count();
        (now.record, then.record) =
            (now.records.get(alike).copied(), then.records.get(alike).copied());
        Self { now, then, at }
    }

    pub(super) fn cause(&self) -> Break {
        self.late_result()
            .or_else(|| self.put_before())
            .or_else(|| self.pin())
            .or_else(|| self.changed())
            .or_else(|| self.left_out())
            .or_else(|| self.question())
            .or_else(|| self.window())
            .or_else(|| self.put_by_caller())
            .or_else(|| self.provider())
            .unwrap_or(Break::Other)
    }

    /// Returns the newest result that has moved, if the first difference is such a result, the call
    /// that it brought along, or the question that came with the call.
    fn late_result(&self) -> Option<Break> {
        let (now, then) = (self.now.prompt.report(), self.then.prompt.report());
        let has_moved = |moved: &&Moved| !then.moved.contains(moved);
        let comes = |position: u64| !self.then.prompt.sends(position);
        // If two messages were joined before, what came between them.
        let between = self.here(&self.now, &self.then);
        let asked = between.filter(|position| now.question.contains(position) && comes(*position));
        let is_here = |moved: &&Moved| {
            let (position, call) = (Some(moved.position), Some(moved.call));
            self.now.record.is_some() && (self.now.record == position || self.now.record == call)
                || self.then.record.is_some() && self.then.record == position
                || between == call && comes(moved.call)
                // If calls are sent one by one, answered ones come first.
                || self.now.record.is_none() && self.now.records.contains(&moved.call)
                || asked.is_some_and(|asked| asked < moved.call && comes(moved.call))
        };
        let moved = || now.moved.iter().filter(has_moved);
        let here = moved().find(is_here)?;
        let came = |moved: &&Moved| self.sends_here(moved.position) && comes(moved.position);
        let newest = moved().filter(came).map(|moved| moved.position).max();
        Some(Break::LateResult(newest.unwrap_or(here.position)))
    }

    /// Returns whether this record is sent now at or after the break, or joined to another.
    fn sends_here(&self, position: u64) -> bool {
        let mut behind = self.now.prompt.with_origins().skip(self.at);
        behind.any(|(origin, _)| origin.position() == Some(position))
            || self.now.prompt.joined_positions().any(|it| it == position)
    }

    /// Returns the record that only one of the two sends here, or in another form; if the other
    /// joins two messages, the record between them.
    fn here(&self, one: &Side<'_>, other: &Side<'_>) -> Option<u64> {
        let is_between = self.is_joined() && other.record.is_some();
        one.record.or_else(|| one.behind.filter(|_| is_between))
    }

    /// Returns a pin that came or went; of two, the older, since pins are sent in their order.
    fn pin(&self) -> Option<Break> {
        let (a, b) = (self.here(&self.then, &self.now), self.here(&self.now, &self.then));
        let mut here = [a.min(b), a.max(b)].into_iter().flatten();
        here.find(|position| self.now.pins(*position) != self.then.pins(*position)).map(Break::Pin)
    }

    /// Returns a changed summary, notice or system message. Some providers get these joined with
    /// the question after them.
    fn put_before(&self) -> Option<Break> {
        let is = |origin| self.now.origin == Some(origin) || self.then.origin == Some(origin);
        let [now, then] = [&self.now, &self.then].map(|it| it.prompt.report());
        if (self.is_joined() || is(Origin::Summary)) && self.is_another_summary() {
            Some(Break::Summary)
        } else if (self.is_joined() || is(Origin::Notice)) && now.notice != then.notice {
            Some(Break::Notice)
        } else {
            is(Origin::System).then_some(Break::System)
        }
    }

    fn is_joined(&self) -> bool {
        [&self.now, &self.then].iter().any(|it| matches!(it.origin, Some(Origin::Joined(_))))
    }

    fn has_one_notice(&self) -> bool {
        let [now, then] = [&self.now, &self.then].map(|it| it.origin == Some(Origin::Notice));
        now != then
    }

    fn is_another_summary(&self) -> bool {
        let [now, then] = [&self.now, &self.then].map(|it| it.prompt);
        let texts = summary_of(now).zip(summary_of(then));
        now.report().summary != then.report().summary || texts.is_some_and(|(a, b)| a != b)
    }

    /// Returns the record that both send here, if it is cut or cleared differently.
    fn changed(&self) -> Option<Break> {
        let both = self.now.record.filter(|position| self.then.record == Some(*position))?;
        changed(&self.now, &self.then, both)
    }

    /// Returns a record that only one of the two leaves out: one from this place, a late result
    /// that took it along, or one between messages that are joined without it.
    fn left_out(&self) -> Option<Break> {
        let of = |one: &Side<'_>, other: &Side<'_>| {
            let here = self.here(one, other)?;
            let late = one.prompt.report().moved.iter().filter(|moved| moved.call == here);
            let mut all = iter::once(here).chain(late.map(|moved| moved.position));
            all.find(|position| other.leaves_out(*position))
        };
        of(&self.then, &self.now).or_else(|| of(&self.now, &self.then)).map(Break::LeftOut)
    }

    /// Returns a provider that only one of the two has.
    fn provider(&self) -> Option<Break> {
        let is_for_one = |side: &Side<'_>| side.prompt.report().provider.is_some();
        (is_for_one(&self.now) != is_for_one(&self.then)).then_some(Break::Provider)
    }

    /// Returns a question that was sent before the window and no longer is, or one that is now sent
    /// there although the window has not moved.
    fn question(&self) -> Option<Break> {
        let of = |one: &Side<'_>, other: &Side<'_>| {
            let is_question = |position: &u64| one.prompt.report().question.contains(position);
            self.here(one, other)
                .filter(|position| is_question(position) && !other.prompt.sends(*position))
        };
        let has_moved = window_start(self.now.prompt) != window_start(self.then.prompt);
        let comes = || of(&self.now, &self.then).filter(|_| !has_moved);
        // A notice was before a blank question, and is after the pins without it.
        let blank = || {
            let mut questions = self.then.prompt.report().question.iter().copied();
            let gone =
                questions.find(|position| !self.now.prompt.report().question.contains(position));
            gone.filter(|_| !has_moved && self.has_one_notice())
        };
        of(&self.then, &self.now).or_else(comes).or_else(blank).map(Break::Question)
    }

    /// Returns a window that moved past what was sent here, or back to it.
    fn window(&self) -> Option<Break> {
        let [now, then] = [self.now.prompt, self.then.prompt];
        let has_left = |position: u64| position < now.report().held.end && !now.sends(position);
        let has_come = |position: u64| position < then.report().held.end && !then.sends(position);
        let (from, to) = (window_start(then), window_start(now));
        let is_here = self.then.record.is_some_and(has_left)
            || self.now.record.is_some_and(has_come)
            // Equal messages may have taken the places of those before the window.
            || from != to
                && (self.is_joined()
                    // A notice is where the window begins.
                    || self.has_one_notice()
                    || self.stands_before(to)
                    || (self.then.record.is_some() && self.now.record.is_some()));
        let ends = |from: Option<u64>, to: Option<u64>| {
            let from = from.unwrap_or_else(|| then.report().held.end);
            (from, to.unwrap_or_else(|| now.report().held.end))
        };
        let here = ends(self.then.record.or(from), self.now.record.or(to));
        // The record here may be the one with which the other window begins.
        let mut tries = [here, ends(from, to)].into_iter().filter(|_| is_here);
        let (from, to) = tries.find(|(from, to)| from != to)?;
        Some(Break::Window { from, to })
    }

    /// Returns whether this prompt sends this record at or before the break.
    fn stands_before(&self, position: Option<u64>) -> bool {
        let mut before = self.now.prompt.with_origins().take(self.at + 1);
        before.any(|(origin, _)| origin.position().is_some() && origin.position() == position)
    }

    /// Returns the system message, or a temporary one, that is joined with others.
    fn put_by_caller(&self) -> Option<Break> {
        let [now, then] = [&self.now, &self.then];
        let is = |origin| now.origin == Some(origin) || then.origin == Some(origin);
        let has_temporaries = |it: &Side<'_>| it.prompt.report().temporaries > 0;
        if is(Origin::Temporary)
            || self.is_joined() && (has_temporaries(now) || has_temporaries(then))
        {
            Some(Break::Temporary)
        } else {
            let is_head = |it: &Side<'_>| it.prompt.report().system_joined;
            (is_head(now) || is_head(then)).then_some(Break::System)
        }
    }
}

/// Returns how the form of a record differs from before.
fn changed(now: &Side<'_>, then: &Side<'_>, position: u64) -> Option<Break> {
    let cleared = |side: &Side<'_>| {
        let mut cleared = side.prompt.report().cleared.iter();
        cleared.find(|it| it.position == position).map(|it| (it.from, it.to))
    };
    let cut = |side: &Side<'_>| {
        let mut cuts = side.prompt.report().truncated.iter();
        cuts.find(|it| it.position == position).map(|it| (it.from, it.to))
    };
    if cleared(now) == cleared(then) {
        (cut(now) != cut(then)).then_some(Break::Truncation(position))
    } else {
        Some(Break::Clearing(position))
    }
}

impl<'a> Side<'a> {
    fn new(prompt: &'a Prompt, at: usize) -> Self {
        let mut rest = prompt.with_origins().map(|(it, _)| it).skip(at);
        let origin = rest.find(|it| *it != Origin::Added);
        // The place of a summary or a notice may depend on what follows it.
        let is_put =
            matches!(origin, Some(Origin::Summary | Origin::Notice | Origin::Joined(None)));
        let own = origin.and_then(Origin::position);
        let first = if is_put { rest.find_map(Origin::position) } else { own };
        let (mut records, mut behind) = (Vec::from_iter(first), None);
        if let (Some(Origin::Joined(_)), Some(first)) = (origin, first) {
            behind = rest.find_map(Origin::position);
            let joined = first + 1..behind.unwrap_or(u64::MAX);
            records.extend(prompt.joined_positions().filter(|position| joined.contains(position)));
        }
        behind = behind.or_else(|| rest.find_map(Origin::position));
        Self { prompt, origin, records, record: None, behind }
    }

    fn pins(&self, position: u64) -> bool {
        self.prompt.report().pinned_before.contains(&position)
    }

    /// Returns whether this record is left out alone, not with everything before it.
    fn leaves_out(&self, position: u64) -> bool {
        let report = self.prompt.report();
        let mut left_out = report.left_out.iter().filter(|it| it.position == position);
        left_out.any(|it| !matches!(it.why, Reason::Opening | Reason::RestOfTurn))
            || report.unreadable.contains(&position)
    }
}

fn summary_of(prompt: &Prompt) -> Option<&Message> {
    let mut sent = prompt.with_origins();
    sent.find_map(|(origin, message)| (origin == Origin::Summary).then_some(message))
}

fn window_start(prompt: &Prompt) -> Option<u64> {
    let window = prompt.report().window;
    prompt.sent_positions().filter(|position| *position >= window).min()
}
