//! Calls of tools that the provider runs itself, without the result that it gives them.
//!
//! A provider that rests leaves such a call open, and goes on with it where the answer is sent back
//! at the end. Where something else follows, it refuses the call, in every prompt to come.

use super::{Shaping, blank, is_temporary};
use crate::composed::{How, Item, Origin, Pieces, Why};
use crate::error::Result;
use crate::message::{AiMessage, Message};
use crate::provider::{
    Format, Row, hosted_blocks, hosted_call, hosted_result, without_hosted_calls,
};
use crate::record::Records;

/// A hosted call: the place of the answer that it stands in, and its id.
type Call<'a> = (usize, &'a str);

/// The hosted calls of a draft that have no result.
#[derive(Default)]
pub(super) struct Hosted<'a> {
    /// Those that something else follows.
    gone: Vec<Call<'a>>,
    /// Those that the provider may still go on with.
    waiting: Vec<Call<'a>>,
    last: Last,
}

/// The message that came last.
#[derive(Clone, Copy, Default, PartialEq, Eq)]
enum Last {
    #[default]
    Other,
    Answer,
}

impl<'a> Hosted<'a> {
    /// Looks through all that is sent, or through what lasts beyond this prompt.
    pub(super) fn of(rules: &Row, pieces: &'a Pieces, records: &'a Records, lasting: bool) -> Self {
        let mut hosted = Self::default();
        if rules.format != Format::Anthropic {
            return hosted;
        }
        let is_passing = |origin| matches!(origin, Origin::Temporary | Origin::Note);
        for (i, item) in pieces.items(records).enumerate() {
            if !lasting || !is_passing(item.origin()) {
                hosted.pass(i, item.borrowed(), rules);
            }
        }
        hosted
    }

    fn pass(&mut self, i: usize, message: &'a Message, rules: &Row) {
        match message {
            Message::System(_) | Message::Custom(_) => return,
            Message::Ai(ai) => return self.answer(i, ai, rules),
            Message::User(_) => self.gone.append(&mut self.waiting),
            // What a program of the model's waits for: the call that runs it goes on.
            Message::Tool(_) => {}
        }
        self.last = Last::Other;
    }

    fn answer(&mut self, i: usize, ai: &'a AiMessage, rules: &Row) {
        let waiting = self.waiting.len();
        for id in hosted_blocks(ai, rules).filter_map(hosted_result) {
            self.waiting.retain(|call| call.1 != id);
            self.gone.retain(|call| call.1 != id);
        }
        // Another answer, and none that goes on where the one before it stopped.
        if self.last == Last::Answer && self.waiting.len() == waiting {
            self.gone.append(&mut self.waiting);
        }
        for block in hosted_blocks(ai, rules) {
            self.waiting.extend(hosted_call(block).map(|id| (i, id)));
            if let Some(id) = hosted_result(block) {
                self.waiting.retain(|call| call.1 != id);
            }
        }
        self.last = Last::Answer;
    }

    /// Returns the ids of the calls that something else follows.
    fn ids(&self) -> Vec<&'a str> {
        self.gone.iter().map(|call| call.1).collect()
    }

    /// Returns the place of the first answer that the provider goes on with, where the last one
    /// waits for that.
    pub(super) fn open(&self) -> Option<usize> {
        self.waiting.first().filter(|_| self.last == Last::Answer).map(|call| call.0)
    }
}

impl<'a> Shaping<'a> {
    /// Returns the answer without the calls that are gone, or `None` where nothing is
    /// left of it.
    pub(super) fn without_gone(
        &mut self,
        item: Item<'a>,
        hosted: &Hosted<'_>,
    ) -> Result<Option<Item<'a>>> {
        let ai = item.message().as_ai().filter(|_| !hosted.gone.is_empty());
        let Some(left) = ai.and_then(|ai| without_hosted_calls(ai, &hosted.ids())) else {
            return Ok(Some(item));
        };
        if blank::is_empty(&left) && !is_temporary(&item) {
            self.refuse(&item, How::Unanswered)?;
            self.leave_out(&item, Why::Unanswered);
            return Ok(None);
        }
        self.adapt(&item, How::Unanswered)?;
        Ok(Some(self.shortened(&item, left.into())))
    }
}
