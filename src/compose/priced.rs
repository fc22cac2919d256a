//! A counter that counts pictures by the rule of the prompt's provider.

use std::sync::Arc;

use crate::error::Result;
use crate::message::{AiPart, Content, Message, Part};
use crate::provider::Row;
use crate::token::{Overhead, TokenCounter, media_tokens};
use crate::tool::Tool;

/// Counts pictures as the provider does, if their dimensions are known and the counter has no way
/// of its own.
pub(super) struct Priced {
    pub(super) counter: Arc<dyn TokenCounter>,
    pub(super) row: Row,
}

impl TokenCounter for Priced {
    fn count_text(&self, text: &str) -> Result<usize> {
        self.counter.count_text(text)
    }

    fn fits(&self, text: &str, limit: usize) -> Result<Option<usize>> {
        self.counter.fits(text, limit)
    }

    fn count(&self, message: &Message) -> Result<usize> {
        let own = self.counter.count(message)?;
        let has_picture = parts(message).any(|part| matches!(part, Part::Image(_)));
        let by_default = |row| ByDefault { counter: &*self.counter, row }.count(message);
        // A counter with its own way to count messages knows best what is in them.
        if has_picture && by_default(None)? == own { by_default(Some(&self.row)) } else { Ok(own) }
    }

    fn count_media(&self, part: &Part) -> Result<usize> {
        ByDefault { counter: &*self.counter, row: Some(&self.row) }.count_media(part)
    }

    fn count_tools(&self, tools: &[Tool]) -> Result<usize> {
        self.counter.count_tools(tools)
    }

    fn overhead(&self) -> Overhead {
        self.counter.overhead()
    }
}

/// The same counter, but it counts a message as the sum of its parts.
struct ByDefault<'a> {
    counter: &'a dyn TokenCounter,
    row: Option<&'a Row>,
}

impl TokenCounter for ByDefault<'_> {
    fn count_text(&self, text: &str) -> Result<usize> {
        self.counter.count_text(text)
    }

    fn count_media(&self, part: &Part) -> Result<usize> {
        let own = self.counter.count_media(part)?;
        let (Some(row), Part::Image(image)) = (self.row, part) else { return Ok(own) };
        let tokens = || row.picture_tokens(image.picture()?, image.detail.as_ref());
        Ok(if own == media_tokens(part) { tokens().unwrap_or(own) } else { own })
    }

    fn overhead(&self) -> Overhead {
        self.counter.overhead()
    }
}

fn parts(message: &Message) -> impl Iterator<Item = &Part> {
    let said = message.as_ai().map_or(&[][..], |ai| ai.parts()).iter();
    let said = said.filter_map(|part| match part {
        AiPart::Content(part) => Some(part),
        _ => None,
    });
    said.chain(message.content().map_or(&[][..], Content::parts))
}
