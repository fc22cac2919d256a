//! A search for calls, and for their results, among what was stored since a turn began.

use super::Call;
use crate::memory::Read;
use crate::message::{Message, ToolCall};
use crate::record::Snapshot;

/// Looks for calls in what a memory holds from a position on: in pages, from the end.
///
/// It goes back to where the turn began and no farther, so that it costs what was appended since.
#[derive(Debug)]
pub(crate) struct Search {
    wanted: Vec<Wanted>,
    /// The position where the turn began.
    floor: u64,
    /// The position where the next page ends; `None` for the newest one.
    before: Option<u64>,
    is_over: bool,
    /// True where the memory still has all that was stored since.
    is_whole: bool,
}

/// A call that is looked for, and perhaps a result of it.
#[derive(Debug)]
pub(crate) struct Wanted {
    call: ToolCall,
    result: Option<Message>,
    /// True where any true result is as good as this one.
    is_repeatable: bool,
    is_found: bool,
    /// The number of such results that were found.
    results: usize,
}

impl Wanted {
    pub(super) fn call(call: &ToolCall) -> Self {
        let call = call.clone();
        Self { call, result: None, is_repeatable: false, is_found: false, results: 0 }
    }

    pub(super) fn result(call: &ToolCall, result: &Message, is_repeatable: bool) -> Self {
        Self { result: Some(result.clone()), is_repeatable, ..Self::call(call) }
    }

    /// The call of a result that is still to come.
    pub(crate) fn late(call: &Call) -> Self {
        Self { is_repeatable: call.is_repeatable, ..Self::call(&call.made) }
    }

    /// Returns true where its result is wanted: it is stored, and nobody has run it again.
    fn is_open(&self) -> bool {
        self.is_found && !(self.is_repeatable && self.results > 0)
    }

    /// Returns true where this is the result, or as good.
    fn is_like(&self, message: &Message) -> bool {
        let is_true = |it| self.call.is_answered_by(it) && !it.is_stand_in();
        message.as_tool().is_some_and(is_true)
            && (self.is_repeatable || self.result.as_ref() == Some(message))
    }

    /// Returns the result where its call is stored, and it is not: of these messages, in which the
    /// same may stand more than once.
    fn lacking(&self, messages: &[Message]) -> Option<&Message> {
        let own = messages.iter().filter(|message| self.is_like(message)).count();
        self.result.as_ref().filter(|_| self.is_found && self.results < own)
    }

    fn look_at(&mut self, message: &Message) {
        self.is_found |= message.tool_calls().any(|call| *call == self.call);
        self.results += usize::from(self.is_like(message));
    }
}

impl Search {
    pub(crate) fn new(wanted: Vec<Wanted>, floor: u64) -> Self {
        Self { wanted, floor, before: None, is_over: false, is_whole: true }
    }

    /// Returns the next page to be read; `None` once all is seen.
    pub(crate) fn next(&self) -> Option<Read> {
        let page = Read { before: self.before, ..Read::newest(PAGE) };
        (!self.is_over && !self.wanted.is_empty()).then_some(page)
    }

    /// Takes what was read.
    pub(crate) fn take(&mut self, page: &Snapshot) {
        for record in page.records.iter().filter(|it| it.seq() >= self.floor) {
            self.wanted.iter_mut().for_each(|wanted| wanted.look_at(record.message()));
        }
        let oldest = page.oldest_row();
        // A memory that answers with less has no more.
        self.is_over = oldest <= self.floor || page.rows() < PAGE;
        self.is_whole = oldest <= self.floor || page.start <= self.floor;
        self.before = Some(oldest);
    }

    /// Returns true where the first call that is wanted is stored.
    pub(super) fn has_found(&self) -> bool {
        self.wanted.first().is_some_and(|it| it.is_found)
    }

    /// Returns, for each call, whether a late result of it is wanted.
    pub(crate) fn are_open(&self) -> impl Iterator<Item = bool> {
        self.wanted.iter().map(Wanted::is_open)
    }

    /// Returns true where the memory has lost some of what was to be searched.
    pub(super) fn is_in_doubt(&self) -> bool {
        !self.is_whole
    }

    /// Returns the results whose calls are stored and that are not, of a turn of these messages.
    pub(super) fn lacking(&self, messages: &[Message]) -> Vec<Message> {
        self.wanted.iter().filter_map(|it| it.lacking(messages)).cloned().collect()
    }
}

/// So many records are read at a time.
const PAGE: usize = 256;
