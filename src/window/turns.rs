//! Turns: a user message, or several in a row, and everything that follows up to the next one.

use super::{Matches, NotReady, WindowStart, more};
use crate::error::Result;
use crate::message::Message;
use crate::record::{Records, Snapshot, places};

/// The questions that begin turns, from the newest back.
struct Questions<I> {
    /// The records before this place are not read yet.
    place: usize,
    messages: I,
    /// The last question: the places of its messages, in order.
    question: Vec<usize>,
}

impl<'a, I: Iterator<Item = &'a Message>> Questions<I> {
    /// Moves to the next question: user messages with no answer between them. Returns false if the
    /// records end before the question does.
    fn next(&mut self) -> bool {
        self.question.clear();
        for message in self.messages.by_ref() {
            self.place -= 1;
            if message.begins_turn() {
                self.question.push(self.place);
            } else if message.as_ai().is_some() && !self.question.is_empty() {
                self.question.reverse();
                return true;
            }
        }
        self.question.reverse();
        false
    }
}

/// Returns the places of the newest question among the records from the place `from` up to
/// `before`, and whether it is known to be whole: an answer is before it.
pub(crate) fn last_question(records: &Records, from: usize, before: usize) -> (Vec<usize>, bool) {
    let messages = records.messages().rev().skip(records.len() - before).take(before - from);
    let mut questions = Questions { place: before, messages, question: Vec::new() };
    let is_whole = questions.next();
    (questions.question, is_whole)
}

/// Returns the place where the last `n` turns begin.
pub(super) fn start(snapshot: &Snapshot, n: usize, bound: usize) -> Result<WindowStart, NotReady> {
    let Snapshot { records, .. } = snapshot;
    let messages = records.messages().rev();
    let mut questions = Questions { place: records.len(), messages, question: Vec::new() };
    for i in 1..=n {
        if questions.next() {
            continue;
        }
        if !snapshot.is_complete() {
            return Err(NotReady::ReadMore(more(records.len())));
        }
        if i == 1 && questions.question.is_empty() {
            let unit = nth_newest_unit(records, n);
            return Ok(unit.map_or(WindowStart::all(), WindowStart::at));
        }
        if i < n || questions.question.is_empty() {
            return Ok(WindowStart::all()); // there are no more turns
        }
    }
    let start = questions.question.first().copied().unwrap_or(0);
    let before =
        records.get(start).map_or(0, |record| record.position().saturating_sub(snapshot.start));
    if before > bound as u64 || records.messages().take(start).any(Message::begins_turn) {
        Ok(WindowStart::at(start))
    } else if snapshot.is_complete() {
        Ok(WindowStart::all()) // a greeting before the first turn of all belongs to it
    } else {
        Err(NotReady::ReadMore(places(snapshot.end.saturating_sub(snapshot.start))))
    }
}

/// Returns the place of the `n`th newest tool group or message without a group; `None` if there are
/// fewer.
fn nth_newest_unit(records: &Records, n: usize) -> Option<usize> {
    let matches = Matches::among(records, 0);
    let is_unit = |(_, message): &(usize, &Message)| !message.is_tool() && !message.is_private();
    let places = (0..records.len()).rev().zip(records.messages().rev());
    let newest_of = |(place, _): (usize, &Message)| {
        let group = matches.group_at(place).and_then(|group| matches.groups().get(group));
        group.map_or(place, |group| group.newest)
    };
    let mut units: Vec<usize> = places.filter(is_unit).map(newest_of).collect();
    units.sort_unstable_by(|a, b| b.cmp(a));
    let newest = units.get(n - 1).copied()?;
    // The window starts at the first member of that unit; late members bring along the rest.
    let group = matches.groups().iter().find(|group| group.newest == newest);
    Some(group.map_or(newest, |group| group.head))
}
