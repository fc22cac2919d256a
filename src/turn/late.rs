//! Late results: results of tools that are not stored directly after their calls.

use super::Turn;
use super::call::{Call, ToolError, result_of};
use super::over::AnyMemory;
use super::state::{Seen, calls_among, is_from_tool};
use crate::error::Error;
use crate::memory::{Append, On, Read, check_name};
use crate::message::{Content, Message, ToolCall, ToolMessage};
use crate::record::{Snapshot, places};

impl Turn {
    /// Returns the calls with a result from a tool that the slot of the turn does not hold, as far
    /// as its owner knows.
    pub(crate) fn unwritten(&self) -> Vec<LateCall> {
        let state = &self.state;
        let known = state.held().map_or(0, |held| held.messages);
        let mut calls = calls_among(&state.messages);
        calls.sort_by_key(|it| it.result.map(|(at, _)| at)); // as they came
        let unwritten = calls.into_iter().filter_map(|made| {
            let (_, result) = made.result.filter(|(at, it)| *at >= known && is_from_tool(it))?;
            Some(LateCall {
                made: made.call.clone(),
                tag: state.call_tag_at(made.at, made.place),
                is_repeatable: state.is_repeatable(made.call),
                result: Some(result.clone()),
            })
        });
        unwritten.collect()
    }
}

/// A call whose result is to be stored exactly once.
#[derive(Clone, Debug)]
pub(crate) struct LateCall {
    pub(crate) made: ToolCall,
    pub(crate) tag: String,
    /// True if another owner may have run it again: then any true result will do.
    pub(super) is_repeatable: bool,
    /// The result, unless it is still pending.
    pub(crate) result: Option<ToolMessage>,
}

impl LateCall {
    pub(crate) fn of(call: &Call) -> Self {
        let (made, tag) = (call.made.clone(), call.tag.clone());
        Self { made, tag, is_repeatable: call.is_repeatable, result: None }
    }

    /// Returns its result as the message that is appended late.
    pub(crate) fn message(&self) -> Option<Message> {
        let result = self.result.as_ref()?;
        let late = ToolMessage::new(&self.made.id, &self.made.name, result.content().clone());
        Some(Message::Tool(late.with_error(result.is_error()).with_call_tag(&self.tag)))
    }

    /// Returns this outcome as the message that is appended late.
    pub(crate) fn came(&self, outcome: Result<Content, ToolError>) -> Message {
        Message::Tool(result_of(&self.made, outcome).with_call_tag(&self.tag))
    }

    /// Returns true if this message is the result, or an equivalent one. Without the tag of the
    /// call it counts only after the message with these calls: another turn may use the same id.
    fn is_answered_by(&self, result: &ToolMessage, behind: Option<&Message>) -> bool {
        let is_of_call = match result.call_tag() {
            Some(tag) => tag == self.tag,
            None => behind.is_none_or(|it| it.tool_calls().any(|call| *call == self.made)),
        };
        let said = |it: &ToolMessage| (it.content().clone(), it.is_error());
        let is_own = || self.result.as_ref().is_some_and(|own| said(own) == said(result));
        self.made.is_answered_by(result)
            && is_from_tool(result)
            && is_of_call
            && (self.is_repeatable || is_own())
    }
}

/// What a memory holds of a turn, from the position where it began. It is read in pages from the
/// end, so the cost depends only on what was appended since.
#[derive(Clone, Debug, Default)]
pub(crate) struct Stored {
    floor: u64,
    /// The conversation as the turn saw it. In another conversation nothing of the turn is stored.
    began: Option<Seen>,
    /// The position where the next page ends; `None` for the newest page.
    before: Option<u64>,
    /// The branch on which it is.
    on: Option<On>,
    /// The conversation as its newest page showed it; `None` before the first page, and once it is
    /// another conversation.
    pub(super) seen: Option<Seen>,
    is_over: bool,
    /// True if the memory has lost something of what was stored since.
    pub(super) has_gaps: bool,
    /// Its calls and results, in their order.
    pub(super) messages: Vec<Message>,
}

impl Stored {
    pub(super) fn since(floor: u64, on: Option<On>) -> Self {
        Self { floor, on, ..Self::default() }
    }

    /// Searches after what the turn has seen.
    pub(super) fn behind(began: Option<Seen>, on: Option<On>) -> Self {
        Self { began, ..Self::since(began.map_or(0, |began| began.end), on) }
    }

    /// Reads everything that is left. If media are read as references, results with media can't be
    /// compared.
    pub(super) async fn read_from(
        mut self,
        memory: &impl AnyMemory,
        references: bool,
    ) -> Result<Self, Error> {
        while let Some(mut page) = self.next() {
            page.references = references;
            self.add_page(&memory.look_up(&page).await?);
        }
        Ok(self)
    }

    /// Reads this many messages, or the newest page, and a few that may have been added since;
    /// without the bytes of media.
    pub(super) async fn newest_from(
        mut self,
        memory: &impl AnyMemory,
        n: u64,
    ) -> Result<Self, Error> {
        let page = Read { n: places(n.saturating_add(16)).min(PAGE), ..self.page() };
        self.add_page(&memory.look_up(&page.references()).await?);
        self.has_gaps |= !self.is_over && !self.messages.is_empty();
        Ok(self)
    }

    /// Returns the next page to read; `None` at the end.
    pub(crate) fn next(&self) -> Option<Read> {
        (!self.is_over).then(|| self.page())
    }

    pub(crate) fn page(&self) -> Read {
        Read { before: self.before, ..Read::newest(PAGE) }.on(self.on)
    }

    pub(crate) fn add_page(&mut self, page: &Snapshot) {
        if self.began.is_some_and(|began| !began.goes_on_in(page)) {
            self.messages.clear();
            (self.seen, self.is_over, self.has_gaps) = (None, true, true);
            return;
        }
        self.seen.get_or_insert_with(|| Seen::of(page));
        let records = page.records.iter().filter(|it| it.position() >= self.floor);
        let messages = records.map(|it| it.message());
        let messages = messages.filter(|it| it.has_tool_calls() || it.as_tool().is_some());
        self.messages.splice(0..0, messages.cloned());
        let oldest = page.oldest_row();
        // A memory that answers with fewer records has no more.
        self.is_over = oldest <= self.floor || page.rows() < PAGE;
        self.has_gaps = oldest > self.floor && page.start > self.floor;
        self.before = Some(oldest);
    }

    pub(super) fn has(&self, call: &ToolCall) -> bool {
        self.messages.iter().flat_map(Message::tool_calls).any(|it| it == call)
    }

    /// Returns what is missing in the memory: the call, its result, or nothing.
    pub(crate) fn lacks(&self, late: &LateCall) -> Lacks {
        let (mut calls, mut is_answered) = (None, false);
        for message in &self.messages {
            match message.as_tool() {
                None => calls = Some(message),
                Some(result) => is_answered |= late.is_answered_by(result, calls),
            }
        }
        match (self.has(&late.made), is_answered) {
            (false, _) => Lacks::Call,
            (true, false) => Lacks::Result,
            (true, true) => Lacks::Nothing,
        }
    }

    /// Returns the append of a late result, which is made only if what was read is still there.
    /// Another owner may append the result of a repeatable call at the same time, so its id is made
    /// of the tag of the call. Any other result uses `own_id`.
    pub(crate) fn append(&self, late: &LateCall, result: Message, own_id: String) -> Append {
        let shared = format!("late:{}", late.tag);
        let is_shared =
            late.is_repeatable && check_name("append", "the id of an append", &shared).is_ok();
        let append = Append::new([result]).with_id(if is_shared { shared } else { own_id });
        Append { since: self.seen.map(Seen::since), ..append }
    }
}

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Lacks {
    Call,
    Result,
    Nothing,
}

const PAGE: usize = 256;
