//! A search for calls, and for their results, among what was stored since a turn began.

use super::Call;
use super::document::Seen;
use crate::memory::{Append, Read};
use crate::message::{Message, ToolCall, ToolMessage};
use crate::record::Snapshot;

/// Looks for calls in what a memory holds from a position on: in pages, from the end.
///
/// It goes back to where the turn began and no farther, so that it costs what was appended since.
#[derive(Debug)]
pub(crate) struct CallSearch {
    wanted: Vec<WantedCall>,
    /// The position where the turn began.
    floor: u64,
    /// The position where the next page ends; `None` for the newest one.
    before: Option<u64>,
    /// The conversation as its newest page showed it.
    seen: Option<Seen>,
    is_over: bool,
    /// True where the memory still has all that was stored since.
    is_whole: bool,
}

/// A call that is looked for, and perhaps a result of it.
#[derive(Clone, Debug)]
pub(crate) struct WantedCall {
    call: ToolCall,
    /// The tag that a late result of it bears, where one may.
    tag: String,
    /// The result as it stands in the turn, and as it is appended late.
    result: Option<[Message; 2]>,
    /// True where any true result is as good as this one.
    is_repeatable: bool,
    is_found: bool,
    /// The number of such results that were found in the memory.
    found: usize,
    /// The number of such results in the turn.
    of: usize,
}

impl WantedCall {
    pub(super) fn call(call: &ToolCall) -> Self {
        let (call, tag) = (call.clone(), String::new());
        let (is_repeatable, is_found) = (false, false);
        Self { call, tag, result: None, is_repeatable, is_found, found: 0, of: 1 }
    }

    pub(super) fn result(
        call: &ToolCall,
        tag: String,
        result: &ToolMessage,
        is_repeatable: bool,
    ) -> Self {
        let late = result.clone().with_call_tag(&tag);
        let result = Some([result.clone(), late].map(Message::Tool));
        Self { tag, result, is_repeatable, ..Self::call(call) }
    }

    /// The call of a result that is still to come.
    pub(crate) fn late(call: &Call) -> Self {
        let (tag, is_repeatable) = (call.tag.clone(), call.is_repeatable);
        Self { tag, is_repeatable, ..Self::call(&call.made) }
    }

    /// Returns the same, which counts the results of these messages that are like this one.
    pub(super) fn among(mut self, messages: &[Message]) -> Self {
        self.of = messages.iter().filter(|message| self.is_like(message, None)).count();
        self
    }

    /// Returns true where its result is wanted: it is stored, and neither is its result, nor has
    /// anybody run it again.
    fn is_open(&self) -> bool {
        self.is_found && self.found < self.of
    }

    /// Returns true where this is the result, or as good. Unless it bears the tag of the call, it
    /// stands behind these ones, as far as anybody knows.
    fn is_like(&self, message: &Message, behind: Option<&Message>) -> bool {
        let Some(result) = message.as_tool() else { return false };
        let is_of_call = match result.call_tag() {
            Some(tag) => tag == self.tag,
            // Another turn may call by the same id.
            None => behind.is_none_or(|it| it.tool_calls().any(|call| *call == self.call)),
        };
        let is_own = || self.result.as_ref().is_some_and(|it| it.contains(message));
        self.call.is_answered_by(result)
            && !result.is_stand_in()
            && is_of_call
            && (self.is_repeatable || is_own())
    }

    /// Returns the result where its call is stored, and it is not: of these messages, in which the
    /// same may stand more than once.
    fn lacking(&self, messages: &[Message]) -> Option<&Message> {
        let own = messages.iter().filter(|message| self.is_like(message, None)).count();
        let [_, late] = self.result.as_ref()?;
        (self.is_found && self.found < own).then_some(late)
    }

    /// Looks at a message, and the newest calls that are known before it.
    fn look_at(&mut self, message: &Message, behind: Option<&Message>) {
        self.is_found |= message.tool_calls().any(|call| *call == self.call);
        self.found += usize::from(self.is_like(message, behind));
    }
}

impl CallSearch {
    pub(crate) fn new(wanted: Vec<WantedCall>, floor: u64) -> Self {
        Self { wanted, floor, before: None, seen: None, is_over: false, is_whole: true }
    }

    /// Returns the next page to be read; `None` once all is seen.
    pub(crate) fn next(&self) -> Option<Read> {
        let page = Read { before: self.before, ..Read::newest(PAGE) };
        (!self.is_over && !self.wanted.is_empty()).then_some(page)
    }

    /// Takes what was read.
    pub(crate) fn take(&mut self, page: &Snapshot) {
        self.seen.get_or_insert_with(|| Seen::of(page));
        let floor = self.floor;
        let records = page.records.iter().filter(|it| it.seq() >= floor);
        self.look_at(records.map(|it| it.message()));
        let oldest = page.oldest_row();
        // A memory that answers with less has no more.
        self.is_over = oldest <= self.floor || page.rows() < PAGE;
        self.is_whole = oldest <= self.floor || page.start <= self.floor;
        self.before = Some(oldest);
    }

    /// Takes messages that are stored, in their order.
    pub(crate) fn look_at<'a>(&mut self, messages: impl Iterator<Item = &'a Message>) {
        let mut calls = None;
        for message in messages {
            calls = Some(message).filter(|it| it.has_tool_calls()).or(calls);
            self.wanted.iter_mut().for_each(|wanted| wanted.look_at(message, calls));
        }
    }

    /// Returns true where the first call that is wanted is stored.
    pub(super) fn has_found(&self) -> bool {
        self.wanted.first().is_some_and(|it| it.is_found)
    }

    /// Returns, for each call, whether it is stored, and whether a late result of it is wanted.
    pub(crate) fn found(&self) -> impl Iterator<Item = (bool, bool)> {
        self.wanted.iter().map(|it| (it.is_found, it.is_open()))
    }

    /// Returns true where the memory has lost some of what was to be searched.
    pub(super) fn has_gaps(&self) -> bool {
        !self.is_whole
    }

    /// Returns the append, only if what was searched is still there.
    pub(super) fn on_what_was_seen(&self, append: Append) -> Append {
        self.seen.iter().fold(append, |append, seen| append.since(&seen.snapshot()))
    }

    /// Returns the results whose calls are stored and that are not, of a turn of these messages: as
    /// many as go into one append. Another owner may find at the same time that a result of a
    /// repeatable call is lacking, so that one goes by itself, under an id that is made of the tag
    /// which comes with it.
    pub(super) fn lacking(&self, messages: &[Message]) -> (Vec<Message>, Option<&str>) {
        let all = || self.wanted.iter().filter_map(|it| Some((it, it.lacking(messages)?)));
        match all().find(|(wanted, _)| wanted.is_repeatable) {
            Some((wanted, message)) => (vec![message.clone()], Some(&wanted.tag)),
            None => (all().map(|(_, message)| message.clone()).collect(), None),
        }
    }
}

/// The number of records in a page.
const PAGE: usize = 256;
