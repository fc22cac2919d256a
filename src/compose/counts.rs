//! Remembers token counts, so that nothing is counted again.

use std::collections::HashMap;
use std::hash::BuildHasher;
use std::mem;
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
    /// The tokens of a message as it is sent, `None` if it is not; and whether they were used since
    /// [`forget_unasked`](Self::forget_unasked). By a hash of the message, since a row may be
    /// edited in place, and a conversation deleted and begun again within a millisecond. The map
    /// has a key for hashes, so messages with equal ones can't be crafted.
    known: HashMap<u64, (Option<usize>, bool)>,
    tools: Option<(Arc<[Tool]>, Option<Provider>, usize)>,
}

impl Counts {
    /// Returns the count of a record as it is sent; calls `count` the first time.
    pub(super) fn record(
        &mut self,
        record: Record<'_>,
        form: Form,
        count: impl FnOnce() -> Result<Option<usize>>,
    ) -> Result<Option<usize>> {
        // A processor may shorten equal messages differently.
        self.counted(Some((record.position(), form)), record.message(), count)
    }

    /// Returns the count of a whole unchanged message.
    pub(super) fn message(
        &mut self,
        message: &Message,
        counter: &dyn TokenCounter,
    ) -> Result<usize> {
        let tokens = self.counted(None, message, || counter.count(message).map(Some))?;
        Ok(tokens.unwrap_or(0))
    }

    fn counted(
        &mut self,
        record: Option<(u64, Form)>,
        message: &Message,
        count: impl FnOnce() -> Result<Option<usize>>,
    ) -> Result<Option<usize>> {
        let hash = self.known.hasher().hash_one((record, message));
        if let Some((tokens, asked)) = self.known.get_mut(&hash) {
            *asked = true;
            return Ok(*tokens);
        }
        let tokens = count()?;
        self.known.insert(hash, (tokens, true));
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

    /// Drops counts that were not used since the last call: they will not be used again.
    pub(super) fn forget_unasked(&mut self) {
        self.known.retain(|_, (_, asked)| mem::take(asked));
    }
}
