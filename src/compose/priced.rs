//! A counter that counts pictures by the rule of the prompt's provider, and a file that is sent as
//! a text as one.

use std::sync::Arc;

use crate::error::Result;
use crate::message::{Message, Part};
use crate::provider::{Row, text_of_file};
use crate::token::{Overhead, TokenCounter, count_by_parts, media_tokens};
use crate::tool::Tool;

/// Counts pictures as the provider does, if their dimensions are known, and a file as the text that
/// is sent of it, both if the counter has no way of its own.
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
        let is_priced = |part: &Part| matches!(part, Part::Image(_) | Part::File(_));
        let is_priced = message.content_parts().any(|(_, part)| is_priced(part));
        // One that counts messages in another way knows best what they hold.
        if is_priced && count_by_parts(&*self.counter, message)? == own {
            return count_by_parts(self, message);
        }
        Ok(own)
    }

    fn count_media(&self, part: &Part) -> Result<usize> {
        let own = self.counter.count_media(part)?;
        if own != media_tokens(part) {
            return Ok(own);
        }
        let priced = match part {
            Part::Image(image) => image
                .picture()
                .and_then(|picture| self.row.picture_tokens(picture, image.detail.as_ref())),
            part => text_of_file(part, &self.row).map(|it| self.count_text(&it)).transpose()?,
        };
        Ok(priced.unwrap_or(own))
    }

    fn count_tools(&self, tools: &[Tool]) -> Result<usize> {
        self.counter.count_tools(tools)
    }

    fn overhead(&self) -> Overhead {
        self.counter.overhead()
    }
}
