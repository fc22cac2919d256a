//! The cause of a break: what the two prompts' reports say otherwise of the message that broke.

use super::Break;
use crate::composed::{Adaptation, Origin, Prompt, Reason};
use crate::message::Message;

/// Two prompts that differ from their `at`th message on.
pub(super) struct Difference<'a> {
    now: Side<'a>,
    then: Side<'a>,
    at: usize,
}

/// One of the two prompts, with what it sends where they differ.
struct Side<'a> {
    prompt: &'a Prompt,
    /// The origin of that message; of the one behind it where the provider demands one before it.
    origin: Option<Origin>,
    /// The positions of the records in it: several where it was joined.
    records: Vec<u64>,
}

impl<'a> Difference<'a> {
    pub(super) fn new(now: &'a Prompt, then: &'a Prompt, at: usize) -> Self {
        Self { now: Side::new(now, at), then: Side::new(then, at), at }
    }

    /// Returns the cause. What the reports say of the very message goes before a window that moved.
    pub(super) fn cause(&self) -> Break {
        self.late_result()
            .or_else(|| self.temporary())
            .or_else(|| self.put_before())
            .or_else(|| self.pin())
            .or_else(|| self.question())
            .or_else(|| self.left_out())
            .or_else(|| self.clearing())
            .or_else(|| self.window())
            .or_else(|| self.is_another_notice().then_some(Break::Notice))
            .or_else(|| self.truncation(|_| true).map(Break::Truncation))
            .unwrap_or(Break::Other)
    }

    /// Returns the newest result that was not sent before, and stands at or behind the break.
    fn late_result(&self) -> Option<Break> {
        let (now, then) = (self.now.prompt, self.then.prompt);
        let moved = now.report().moved.iter().map(|moved| moved.seq);
        let late = moved.filter(|seq| sends(now, self.at, *seq) && !sends(then, 0, *seq));
        late.max().map(Break::LateResult)
    }

    fn temporary(&self) -> Option<Break> {
        if self.now.origin != Some(Origin::Temporary) {
            return None;
        }
        // Where the window moved, a temporary behind its start only stands nearer to it.
        let mut before = self.now.prompt.with_origins().take(self.at);
        let moved = self.moved_window();
        let moved = moved.filter(|(_, to)| before.any(|(it, _)| it.seq() == Some(*to)));
        Some(moved.map_or(Break::Temporary, |(from, to)| Break::Window { from, to }))
    }

    /// Returns the summary, notice or system message that is another one. Some providers have them
    /// as one message with the question behind them.
    fn put_before(&self) -> Option<Break> {
        let is_joined =
            [&self.now, &self.then].iter().any(|it| matches!(it.origin, Some(Origin::Joined(_))));
        let is = |origin| self.now.origin == Some(origin) || self.then.origin == Some(origin);
        if (is_joined || is(Origin::Summary)) && self.is_another_summary() {
            Some(Break::Summary)
        } else if (is_joined || is(Origin::Notice)) && self.is_another_notice() {
            Some(Break::Notice)
        } else {
            is(Origin::System).then_some(Break::System)
        }
    }

    fn is_another_summary(&self) -> bool {
        let [now, then] = [&self.now, &self.then].map(|it| it.prompt);
        let texts = summary_of(now).zip(summary_of(then));
        now.report().summary != then.report().summary || texts.is_some_and(|(a, b)| a != b)
    }

    fn is_another_notice(&self) -> bool {
        self.now.prompt.report().notice != self.then.prompt.report().notice
    }

    /// Returns a pin that came or went, or one that is cut otherwise.
    fn pin(&self) -> Option<Break> {
        let came = self.now.records.iter().find(|it| self.now.pins(**it) && !self.then.pins(**it));
        let went = self.then.records.iter().find(|it| self.then.pins(**it) && !self.now.pins(**it));
        let is_pinned = |seq: u64| self.now.pins(seq) && self.then.pins(seq);
        let cut = || self.truncation(is_pinned).map(Break::Truncation);
        came.or(went).map(|seq| Break::Pin(*seq)).or_else(cut)
    }

    fn question(&self) -> Option<Break> {
        let from = self.then.origin.and_then(Origin::seq)?;
        let was_question = self.then.prompt.report().question.contains(&from);
        (was_question && !sends(self.now.prompt, 0, from)).then_some(Break::Question(from))
    }

    fn left_out(&self) -> Option<Break> {
        let gone = self.then.records.iter().find(|seq| self.now.leaves_out(**seq));
        let come = || self.now.records.iter().find(|seq| self.then.leaves_out(**seq));
        gone.or_else(come).map(|seq| Break::LeftOut(*seq))
    }

    fn clearing(&self) -> Option<Break> {
        let of = |side: &Side<'_>, seq| {
            side.prompt.report().cleared.iter().find(|it| it.seq == seq).copied()
        };
        let mut both = self.both();
        both.find(|seq| of(&self.now, *seq) != of(&self.then, *seq)).map(Break::Clearing)
    }

    fn truncation(&self, is_wanted: impl Fn(u64) -> bool) -> Option<u64> {
        let of = |side: &Side<'_>, seq| {
            let mut cuts = side.prompt.report().truncated.iter();
            cuts.find(|it| it.seq == seq).map(|it| (it.from, it.to))
        };
        let mut both = self.both().filter(|seq| is_wanted(*seq));
        both.find(|seq| of(&self.now, *seq) != of(&self.then, *seq))
    }

    fn window(&self) -> Option<Break> {
        let [then, now] = [&self.then, &self.now].map(|it| it.origin.and_then(Origin::seq));
        let here = then.zip(now).filter(|(from, to)| from != to);
        let (from, to) = match self.moved_window() {
            Some(moved) => here.unwrap_or(moved),
            // Nothing that was sent has left it; but it has passed a question, which is put before
            // it.
            None => here.filter(|(_, to)| self.puts_question_before(*to))?,
        };
        Some(Break::Window { from, to })
    }

    fn puts_question_before(&self, seq: u64) -> bool {
        self.now.prompt.report().question.contains(&seq) && !sends(self.then.prompt, 0, seq)
    }

    /// Returns the position with which the window of the earlier prompt began, and that of this
    /// one, where they are two.
    fn moved_window(&self) -> Option<(u64, u64)> {
        let (from, to) = (window_start(self.then.prompt)?, window_start(self.now.prompt)?);
        (from != to).then_some((from, to))
    }

    /// Returns the records that both messages are made of.
    fn both(&self) -> impl Iterator<Item = u64> {
        self.then.records.iter().copied().filter(|seq| self.now.records.contains(seq))
    }
}

impl<'a> Side<'a> {
    fn new(prompt: &'a Prompt, at: usize) -> Self {
        let mut rest = prompt.with_origins().map(|(it, _)| it).skip(at);
        let origin = rest.find(|it| *it != Origin::Added);
        let first = origin.and_then(Origin::seq);
        let mut records = Vec::from_iter(first);
        if let (Some(Origin::Joined(_)), Some(first)) = (origin, first) {
            let next = rest.find_map(Origin::seq).unwrap_or(u64::MAX);
            records.extend(joined(prompt).filter(|seq| (first + 1..next).contains(seq)));
        }
        Self { prompt, origin, records }
    }

    fn pins(&self, seq: u64) -> bool {
        self.prompt.report().pinned_before.contains(&seq)
    }

    /// Returns whether this record is left out alone, and not with all before it.
    fn leaves_out(&self, seq: u64) -> bool {
        let report = self.prompt.report();
        let mut alone = report
            .left_out
            .iter()
            .filter(|it| !matches!(it.why, Reason::Opening | Reason::RestOfTurn));
        alone.any(|it| it.seq == seq) || report.unreadable.contains(&seq)
    }
}

/// Returns whether the prompt sends this record, itself or changed, at or behind a place.
fn sends(prompt: &Prompt, from: usize, seq: u64) -> bool {
    prompt.with_origins().skip(from).any(|(origin, _)| origin.seq() == Some(seq))
}

fn summary_of(prompt: &Prompt) -> Option<&Message> {
    let mut sent = prompt.with_origins();
    sent.find_map(|(origin, message)| (origin == Origin::Summary).then_some(message))
}

/// Returns the positions of the records that were joined to the message before them.
fn joined(prompt: &Prompt) -> impl Iterator<Item = u64> {
    let joined = prompt.report().adapted.iter().filter(|it| it.how == Adaptation::Joined);
    joined.filter_map(|it| it.seq)
}

/// Returns the first position of the history that is sent neither as a pin nor as a question.
fn window_start(prompt: &Prompt) -> Option<u64> {
    let report = prompt.report();
    let is_beside = |seq: &u64| report.pinned_before.contains(seq) || report.question.contains(seq);
    let mut sent = prompt.with_origins().filter_map(|(origin, _)| origin.seq());
    let first = sent.find(|seq| !is_beside(seq));
    // It may stand in one message with what is put before it.
    first.into_iter().chain(joined(prompt).filter(|seq| !is_beside(seq))).min()
}
