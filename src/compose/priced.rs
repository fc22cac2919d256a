//! A counter that counts what the prompt's provider is sent of a message, and pictures by the
//! provider's rule.

use std::borrow::Cow;
use std::sync::Arc;

use crate::error::Result;
use crate::message::{AiPart, Media, Message, Part};
use crate::provider::{Format, Row, goes_back, is_emptied, is_picture, outgoing, without_refused};
use crate::token::{Overhead, PICTURE, TokenCounter, count_by_parts, media_tokens};
use crate::tool::Tool;

/// Counts messages as they are sent, and pictures as the provider does, if their dimensions are
/// known and the counter has no way of its own.
pub(super) struct Priced {
    pub(super) counter: Arc<dyn TokenCounter>,
    pub(super) row: Row,
}

impl Priced {
    /// Returns the message as it is sent: without what the provider does not take back, and with a
    /// text instead of media that it does not take. `None` if nothing of it is sent.
    fn sent<'m>(&self, message: &'m Message) -> Option<Cow<'m, Message>> {
        let row = &self.row;
        let mut sent = Cow::Borrowed(message);
        if let Some((left, _)) = outgoing(message, row) {
            if is_emptied(message, &left) {
                return None;
            }
            sent = Cow::Owned(left);
        }
        let is_lost = |part: &AiPart| matches!(part, AiPart::Reasoning(it) if !goes_back(it, row));
        let left = match &*sent {
            Message::Ai(ai) if row.format == Format::OpenAi => ai.without(is_lost).map(Message::Ai),
            // Gemini's results have no place for a detail, and a low one is cheaper.
            Message::Tool(_) if row.format == Format::Gemini => {
                let taken = without_refused(&sent, row, |_, _| {});
                without_details(taken.as_ref().unwrap_or(&sent)).or(taken)
            }
            other => without_refused(other, row, |_, _| {}),
        };
        Some(left.map_or(sent, Cow::Owned))
    }
}

/// Returns the message with its pictures in no particular detail; `None` if it asks for none.
fn without_details(message: &Message) -> Option<Message> {
    let content = message.content()?.with_parts(|part| match part {
        Part::Image(image) if image.detail.is_some() => {
            Some(Part::Image(Media { detail: None, ..image.clone() }))
        }
        _ => None,
    })?;
    Some(message.with_content(content))
}

impl TokenCounter for Priced {
    fn count_text(&self, text: &str) -> Result<usize> {
        self.counter.count_text(text)
    }

    fn fits(&self, text: &str, limit: usize) -> Result<Option<usize>> {
        self.counter.fits(text, limit)
    }

    fn count(&self, message: &Message) -> Result<usize> {
        let Some(message) = self.sent(message) else { return Ok(0) };
        let own = self.counter.count(&message)?;
        let is_priced = message.content_parts().any(|(_, part)| is_picture(part, &self.row));
        // One that counts messages in another way knows best what they hold.
        if is_priced && count_by_parts(&*self.counter, &message)? == own {
            return count_by_parts(self, &message);
        }
        Ok(own)
    }

    fn count_media(&self, part: &Part) -> Result<usize> {
        let own = self.counter.count_media(part)?;
        let image = part.as_media().filter(|_| is_picture(part, &self.row));
        let (Some(image), true) = (image, own == media_tokens(part)) else { return Ok(own) };
        let priced = |picture| self.row.picture_tokens(picture, image.detail.as_ref());
        // A detail that the provider is not told makes no picture cheaper.
        let unpriced = if self.row.detail { own } else { PICTURE };
        Ok(image.picture().and_then(priced).unwrap_or(unpriced))
    }

    fn count_tools(&self, tools: &[Tool]) -> Result<usize> {
        self.counter.count_tools(tools)
    }

    fn overhead(&self) -> Overhead {
        self.counter.overhead()
    }
}
