//! A counter that counts pictures by the rule of the prompt's provider.

use std::sync::Arc;

use crate::error::Result;
use crate::message::{Message, Part};
use crate::provider::Row;
use crate::token::{Overhead, TokenCounter, count_by_parts, media_tokens};
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
        let has_picture = message.content_parts().any(|(_, part)| matches!(part, Part::Image(_)));
        // One that counts messages in another way knows best what they hold.
        if has_picture && count_by_parts(&*self.counter, message)? == own {
            return count_by_parts(self, message);
        }
        Ok(own)
    }

    fn count_media(&self, part: &Part) -> Result<usize> {
        let own = self.counter.count_media(part)?;
        let priced = match part {
            Part::Image(image) if own == media_tokens(part) => image
                .picture()
                .and_then(|picture| self.row.picture_tokens(picture, image.detail.as_ref())),
            _ => None,
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
