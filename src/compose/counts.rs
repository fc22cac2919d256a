//! Remembers token counts, so that nothing is counted again.

use std::collections::hash_map::RandomState;
use std::collections::{BTreeMap, VecDeque};
use std::hash::BuildHasher;
use std::sync::Arc;

use super::form::Form;
use crate::error::Result;
use crate::message::Message;
use crate::provider::{Provider, as_sent};
use crate::record::Record;
use crate::token::TokenCounter;
use crate::tool::Tool;

/// The token counts of one conversation, kept from one prompt to the next.
#[derive(Default)]
pub(super) struct Counts {
    /// The counts of the records from position `first` on, in the form in which they are sent.
    records: VecDeque<Option<Counted>>,
    first: u64,
    /// The hashes and counts of pinned records far before them, by position, and whether they were
    /// used since [`forget_unasked`](Self::forget_unasked).
    pinned: BTreeMap<u64, (u64, Option<usize>, bool)>,
    /// The count of the summary, by a hash of it.
    summary: Option<(u64, usize)>,
    /// The counts of messages that are shared, and whether they were used since.
    shared: Vec<(Arc<Message>, usize, bool)>,
    repairs: BTreeMap<String, usize>,
    tools: Option<(Arc<[Tool]>, Option<Provider>, usize)>,
    /// The oldest position used since [`forget_unasked`](Self::forget_unasked).
    asked: Option<u64>,
    /// The key of the hashes, so that messages with equal hashes can't be crafted.
    key: RandomState,
}

#[derive(Clone, Copy)]
struct Counted {
    /// Identifies the message that was counted: a row may be edited in place, and a conversation
    /// may be deleted and begun again within a millisecond.
    hash: u64,
    form: Form,
    /// `None` if it is not sent.
    tokens: Option<usize>,
}

impl Counts {
    /// Returns the count of a record as it is sent; calls `count` the first time.
    pub(super) fn record(
        &mut self,
        record: Record<'_>,
        form: Form,
        count: impl FnOnce() -> Result<Option<usize>>,
    ) -> Result<Option<usize>> {
        let position = record.position();
        let hash = self.key.hash_one(record.message());
        self.asked = Some(self.asked.map_or(position, |asked| asked.min(position)));
        let known = self.slot(position).and_then(|slot| *slot);
        if let Some(known) = known.filter(|known| known.hash == hash && known.form == form) {
            return Ok(known.tokens);
        }
        let tokens = count()?;
        if let Some(slot) = self.slot(position) {
            *slot = Some(Counted { hash, form, tokens });
        }
        Ok(tokens)
    }

    /// Returns the count of a single record far before the others.
    pub(super) fn pinned(
        &mut self,
        record: Record<'_>,
        count: impl FnOnce() -> Result<Option<usize>>,
    ) -> Result<Option<usize>> {
        let hash = self.key.hash_one(record.message());
        if let Some((known, tokens, asked)) = self.pinned.get_mut(&record.position())
            && *known == hash
        {
            *asked = true;
            return Ok(*tokens);
        }
        let tokens = count()?;
        self.pinned.insert(record.position(), (hash, tokens, true));
        Ok(tokens)
    }

    /// Returns the count of the summary, whose message is made for each prompt.
    pub(super) fn summary(
        &mut self,
        message: &Message,
        counter: &dyn TokenCounter,
    ) -> Result<usize> {
        let hash = self.key.hash_one(message);
        if let Some((_, tokens)) = self.summary.filter(|(known, _)| *known == hash) {
            return Ok(tokens);
        }
        let tokens = counter.count(message)?;
        self.summary = Some((hash, tokens));
        Ok(tokens)
    }

    pub(super) fn shared(
        &mut self,
        message: &Arc<Message>,
        counter: &dyn TokenCounter,
    ) -> Result<usize> {
        let known = self.shared.iter_mut().find(|(held, ..)| Arc::ptr_eq(held, message));
        if let Some((_, tokens, asked)) = known {
            *asked = true;
            return Ok(*tokens);
        }
        let tokens = counter.count(message)?;
        self.shared.push((Arc::clone(message), tokens, true));
        Ok(tokens)
    }

    /// Returns the count of these tools' definitions in the form that this provider is sent.
    pub(super) fn tools(
        &mut self,
        tools: &Arc<[Tool]>,
        provider: Option<Provider>,
        counter: &dyn TokenCounter,
    ) -> Result<usize> {
        if let Some((known, whose, tokens)) = &self.tools
            && Arc::ptr_eq(known, tools)
            && *whose == provider
        {
            return Ok(*tokens);
        }
        let tokens = counter.count_tools(&as_sent(tools, provider))?;
        self.tools = Some((Arc::clone(tools), provider, tokens));
        Ok(tokens)
    }

    /// Returns the count of the repair for a call of the tool `name`.
    pub(super) fn repair(
        &mut self,
        name: &str,
        message: &Message,
        counter: &dyn TokenCounter,
    ) -> Result<usize> {
        if let Some(tokens) = self.repairs.get(name) {
            return Ok(*tokens);
        }
        let tokens = counter.count(message)?;
        self.repairs.insert(name.to_owned(), tokens);
        Ok(tokens)
    }

    /// Drops counts that were not used since the last call: they will not be used again.
    pub(super) fn forget_unasked(&mut self) {
        let asked = self.asked.take().unwrap_or(0);
        while self.first < asked && self.records.pop_front().is_some() {
            self.first += 1;
        }
        self.shared.retain_mut(|(_, _, asked)| std::mem::take(asked));
        self.pinned.retain(|_, (_, _, asked)| std::mem::take(asked));
        if self.repairs.len() > TOOLS {
            self.repairs.clear();
        }
    }

    fn slot(&mut self, position: u64) -> Option<&mut Option<Counted>> {
        if self.records.is_empty() {
            self.first = position;
        }
        let (before, after) =
            (self.first.saturating_sub(position), position.saturating_sub(self.first));
        if before > FAR || after > self.records.len() as u64 + FAR {
            return None; // too far away to be stored: counted each time
        }
        for _ in 0..before {
            self.records.push_front(None);
        }
        self.first = self.first.min(position);
        let index = usize::try_from(after).ok()?;
        self.records.resize(self.records.len().max(index + 1), None);
        self.records.get_mut(index)
    }
}

/// The most tools that are kept by name: the names come from the model, which may invent them.
const TOOLS: usize = 1000;

/// The largest gap between positions in `records`.
const FAR: u64 = 1 << 20;
