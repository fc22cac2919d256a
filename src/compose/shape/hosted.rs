//! Calls of tools that the provider runs itself, and results of such calls, if one is sent without
//! the other.
//!
//! When a provider pauses, it leaves such a call open, and continues with it if the answer is sent
//! back as the last message. If anything else follows, it refuses the call in every later prompt.
//! It also refuses results whose call is not sent, which happens if the window opens between the
//! two.

use super::{Shaping, blank, is_temporary};
use crate::error::Result;
use crate::message::{AiMessage, Message};
use crate::prompt::{Adaptation, Item, Pieces, Reason};
use crate::provider::{
    Format, Row, hosted_blocks, hosted_call, hosted_caller, hosted_result, without_hosted,
};
use crate::record::Records;

/// A hosted call: the place of its answer, and its id.
type Call<'a> = (usize, &'a str);

/// Hosted calls without results, and results without calls, in one draft.
#[derive(Default)]
pub(super) struct Hosted<'a> {
    /// Open calls that something else follows.
    gone: Vec<Call<'a>>,
    /// The number of `gone` that have a user message after them: no later result can answer those.
    closed: usize,
    /// Open calls that the provider may still continue.
    waiting: Vec<Call<'a>>,
    /// The ids of all calls that are sent.
    called: Vec<&'a str>,
    /// The ids of calls that are not sent, although a result or a nested call of theirs is.
    missing: Vec<&'a str>,
    /// True while the last message is an answer.
    ends_in_answer: bool,
}

impl<'a> Hosted<'a> {
    /// Checks everything that is sent, or only what later prompts send again (`lasting`).
    pub(super) fn of(rules: &Row, pieces: &'a Pieces, records: &'a Records, lasting: bool) -> Self {
        let mut hosted = Self::default();
        if rules.format != Format::Anthropic {
            return hosted;
        }
        for (i, item) in pieces.items(records).enumerate() {
            if !lasting || !item.origin().is_passing() {
                hosted.pass(i, item.borrowed(), rules);
            }
        }
        hosted
    }

    fn pass(&mut self, i: usize, message: &'a Message, rules: &Row) {
        match message {
            Message::System(_) | Message::Custom(_) => return,
            Message::Ai(ai) => return self.answer(i, ai, rules),
            Message::User(_) => self.close(),
            // The model's program waits for this result, and the call that runs it goes on.
            Message::Tool(_) => {}
        }
        self.ends_in_answer = false;
    }

    /// Gives up the open calls.
    fn close(&mut self) {
        self.gone.append(&mut self.waiting);
        for (_, id) in self.gone.iter().skip(self.closed) {
            self.called.retain(|called| called != id);
        }
        self.closed = self.gone.len();
    }

    fn answer(&mut self, i: usize, ai: &'a AiMessage, rules: &Row) {
        let waiting = self.waiting.len();
        for id in hosted_blocks(ai, rules).filter_map(hosted_result) {
            self.waiting.retain(|call| call.1 != id);
            let mut open = self.gone.split_off(self.closed);
            open.retain(|call| call.1 != id);
            self.gone.append(&mut open);
        }
        // Another answer, which does not continue the one before it.
        if self.ends_in_answer && self.waiting.len() == waiting {
            self.gone.append(&mut self.waiting);
        }
        for block in hosted_blocks(ai, rules) {
            if let Some(id) = hosted_call(block) {
                self.waiting.push((i, id));
                self.called.push(id);
            }
            if let Some(id) = hosted_result(block) {
                self.waiting.retain(|call| call.1 != id);
                self.need(id);
            }
        }
        let callers = ai.tool_calls().filter_map(|call| hosted_caller(call, ai, rules));
        callers.for_each(|id| self.need(id));
        self.ends_in_answer = true;
    }

    /// Notes an id if its call is not sent.
    fn need(&mut self, id: &'a str) {
        if !self.called.contains(&id) && !self.missing.contains(&id) {
            self.missing.push(id);
        }
    }

    /// Returns the place of the first answer that the provider continues, if the last answer is
    /// open.
    pub(super) fn waiting(&self) -> Option<usize> {
        self.waiting.first().filter(|_| self.ends_in_answer).map(|call| call.0)
    }
}

impl<'a> Shaping<'a> {
    /// Returns the answer without the calls that are gone and without results of calls that are not
    /// sent; `None` if nothing is left.
    pub(super) fn without_gone(
        &mut self,
        item: Item<'a>,
        hosted: &Hosted<'_>,
    ) -> Result<Option<Item<'a>>> {
        let gone: Vec<_> = hosted.gone.iter().map(|call| call.1).collect();
        let item = self.without(item, &gone, Adaptation::Unanswered, Reason::Unanswered)?;
        let Some(item) = item else { return Ok(None) };
        self.without(item, &hosted.missing, Adaptation::Uncalled, Reason::Uncalled)
    }

    fn without(
        &mut self,
        item: Item<'a>,
        ids: &[&str],
        how: Adaptation,
        why: Reason,
    ) -> Result<Option<Item<'a>>> {
        let ai = item.message().as_ai().filter(|_| !ids.is_empty());
        let Some(left) = ai.and_then(|ai| without_hosted(ai, ids)) else { return Ok(Some(item)) };
        if blank::is_empty(&left) && !is_temporary(&item) {
            self.refuse(&item, how)?;
            self.leave_out(&item, why);
            return Ok(None);
        }
        self.adapt(&item, how)?;
        Ok(Some(self.shortened(&item, left.into())))
    }
}
