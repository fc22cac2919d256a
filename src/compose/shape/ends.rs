//! The first and the last message of a prompt.

use std::mem;
use std::sync::Arc;

use super::{Hosted, Last, Shaping, blank, is_temporary, join, split};
use crate::compose::who;
use crate::error::Result;
use crate::message::{Message, Role};
use crate::prompt::{Adaptation, Adapted, Item, Origin, Pieces};
use crate::provider::{Ends, Format, Row};
use crate::record::Records;

/// The user message before a conversation that does not begin with one.
pub(in crate::compose) const OPENING: &str = "(start of the conversation)";
/// The user message after an answer that the provider would refuse as the last message.
const CLOSING: &str = "(continue)";

/// Returns the place of the last answer if it ends in white space and the provider refuses that:
/// the last of all that is sent, or of the part that is sent again in later prompts (`lasting`).
pub(super) fn trimmed(
    rules: &Row,
    pieces: &Pieces,
    records: &Records,
    lasting: bool,
) -> Option<usize> {
    if rules.ends != Ends::Trimmed {
        return None;
    }
    let sent = pieces.items(records).enumerate().filter(|(_, item)| match item.borrowed() {
        Message::System(_) | Message::Custom(_) => false,
        message => {
            (!lasting || !item.origin().is_passing()) && !blank::says_nothing(message, rules)
        }
    });
    let (i, last) = sent.last()?;
    blank::trimmed(last.borrowed()).map(|_| i)
}

impl<'a> Shaping<'a> {
    /// Puts a placeholder user message in front, or the system message as one.
    pub(super) fn put_opening(&mut self) {
        let message = match self.head.take() {
            Some(system) => self.as_user(&system),
            None => Message::user(OPENING),
        };
        self.draft.pieces.push(Arc::new(message), Origin::Added);
    }

    /// Returns the first user message with the text of the system message in front, if the provider
    /// has no place for system messages.
    pub(super) fn with_head(&mut self, item: Item<'a>) -> Item<'a> {
        let Some(system) = self.head.take() else { return item };
        let head = Arc::new(self.as_user(&system));
        let pair = [Item::Own(head, Origin::Added), item];
        let joined = join::joined(&pair, &self.rules);
        if let Some(joined) = &joined {
            self.gaps.join(&self.draft.report.truncated, &pair, joined);
        }
        let [_, item] = pair;
        let Some(joined) = joined else { return item };
        let origin = item.origin();
        let origin = if is_temporary(&item) { origin } else { Origin::Joined(origin.position()) };
        Item::Own(Arc::new(joined), origin)
    }

    fn as_user(&mut self, system: &Item<'_>) -> Message {
        self.draft.report.system_joined = true;
        Message::user(system.message().text().into_owned())
    }

    pub(super) fn trim(&mut self, item: Item<'a>) -> Result<Item<'a>> {
        let Some(copy) = blank::trimmed(item.message()) else { return Ok(item) };
        self.adapt(&item, Adaptation::Trimmed)?;
        Ok(self.shortened(&item, copy))
    }

    /// Adds a user message after an answer that the provider would refuse as the last message.
    pub(super) fn put_closing(&mut self, hosted: &Hosted<'_>) -> Result<()> {
        let Some(answer) = self.answer.take() else { return Ok(()) };
        if self.last != Last::Answer
            || self.rules.ends != Ends::WithoutAnswer
            || hosted.waiting().is_some() // the provider continues calls of its own tools
            || self.goes_on(answer.message())
        {
            return Ok(());
        }
        if is_temporary(&answer) {
            let text = format!("{} is an answer at the end", self.describe(&answer));
            return Err(self.error(text));
        }
        self.adapt(&answer, Adaptation::Closed)?;
        self.draft.pieces.push(Arc::new(Message::user(CLOSING)), Origin::Added);
        Ok(())
    }

    /// Returns whether a field of the answer, known to the provider, says that the model is to
    /// continue it.
    fn goes_on(&self, message: &Message) -> bool {
        let Some(ai) = message.as_ai() else { return false };
        let prefix = || ai.attributes().get("wire:openai")?.get("prefix")?.as_bool();
        let is_known = self.rules.format == Format::OpenAi && self.rules.private.takes("prefix");
        is_known && prefix() == Some(true)
    }

    /// Gives each call an answer of its own.
    pub(super) fn split(self, records: &Records) -> Result<()> {
        let pieces = mem::take(&mut self.draft.pieces);
        let mut split = Vec::new();
        (self.draft.pieces, self.draft.cacheable) =
            split::one_by_one(&pieces, records, self.draft.cacheable, |it| split.push(it));
        if let (true, Some(first)) = (self.strict, split.first()) {
            let text = format!("{} (assistant) has several calls", who(*first));
            return Err(self.error(text));
        }
        let split = split.into_iter();
        let adapted = |position| Adapted { position, role: Role::Ai, how: Adaptation::Split };
        self.draft.report.adapted.extend(split.map(adapted));
        Ok(())
    }
}
