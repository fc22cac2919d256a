//! The terms on which a view sends messages: whose private fields, and names in the text.

use std::borrow::Cow;

use super::common::Sequence;
use super::media::without_refused;
use crate::composed::Prompt;
use crate::message::{AiMessage, AiPart, Content, Message, Part};
use crate::provider::{Provider, Row, may_be_private, outgoing};

/// The terms on which a view sends messages.
#[derive(Clone, Copy, Debug)]
pub(super) struct Terms {
    pub(super) row: Row,
    /// True where every private field is written, whoever gave it.
    pub(super) verbatim: bool,
    /// True where the name of who speaks stands in the text.
    pub(super) names_in_text: bool,
}

impl Terms {
    /// The terms of the provider after which the format is called: for messages of which nobody
    /// said for whom they are.
    pub(super) fn of(format: Provider) -> Self {
        // A server that speaks the format but does not sign gets back what it gave.
        let mut row = format.row();
        row.signed_reasoning = false;
        row.signed_calls = false;
        Self { row, verbatim: false, names_in_text: false }
    }

    /// The terms of the provider that a prompt is for, where that speaks the format.
    pub(super) fn for_prompt(prompt: &Prompt, format: Provider) -> Self {
        let named = prompt.report().provider.map(Provider::row);
        match named.filter(|row| row.format == format.format()) {
            Some(row) => Self { row, ..Self::of(format) },
            None => Self::of(format),
        }
    }

    /// Returns a copy of the message, where it is not sent as it is.
    #[inline]
    pub(super) fn copy(&self, message: &Message) -> Option<Box<Message>> {
        let as_it_is = !self.names_in_text && (self.verbatim || !may_be_private(message));
        // Nearly always, so that no more than this stands in the loop over the messages.
        if as_it_is { None } else { self.changed(message) }
    }

    #[cold]
    fn changed(&self, message: &Message) -> Option<Box<Message>> {
        let left = if self.verbatim { None } else { outgoing(message, &self.row) };
        let left = match without_refused(left.as_ref().unwrap_or(message), &self.row) {
            Some(copy) if !self.verbatim => Some(copy),
            _ => left,
        };
        let named = if self.names_in_text { named(left.as_ref().unwrap_or(message)) } else { None };
        named.or(left).map(Box::new)
    }

    /// Returns whether nothing of an answer is left in the copy of it that is sent.
    pub(super) fn is_emptied(message: &Message, copy: &Message) -> bool {
        let (Some(ai), Some(left)) = (message.as_ai(), copy.as_ai()) else { return false };
        !ai.parts().is_empty() && left.parts().is_empty() && left.texts().all(str::is_empty)
    }

    /// Returns what is sent of a part of an answer, as far as it is not a text; `None` where
    /// nothing is.
    pub(super) fn sent_part(&self, ai: &AiMessage, part: &AiPart) -> Option<AiPart> {
        let alone = Message::Ai(ai.with_other_parts(vec![part.clone()]));
        let Some(copy) = self.copy(&alone) else { return Some(part.clone()) };
        if Self::is_emptied(&alone, &copy) {
            return None;
        }
        let left = copy.as_ai().and_then(|left| left.parts().first().cloned());
        Some(left.unwrap_or_else(|| Part::text("").into()))
    }

    /// Returns all messages as they are sent, where one of them is written with a look at others.
    pub(super) fn sent<'m>(&self, messages: &Sequence<'m>) -> Vec<Cow<'m, Message>> {
        let copy = |message| self.copy(message).map(|copy| Cow::Owned(*copy));
        messages.iter().map(|message| copy(message).unwrap_or(Cow::Borrowed(message))).collect()
    }
}

/// Returns the message as one that begins with the name of its user.
fn named(message: &Message) -> Option<Message> {
    let Message::User(user) = message else { return None };
    let name = user.name().filter(|name| !name.is_empty())?;
    let mut copy = user.clone();
    copy.content = match user.content() {
        Content::Text(text) => Content::Text(format!("{name}: {text}")),
        Content::Parts(parts) => {
            let at = parts.iter().position(|part| part.as_text().is_some());
            let mut parts = parts.to_vec();
            match at.and_then(|at| parts.get_mut(at)) {
                Some(Part::Text(part)) => part.text = format!("{name}: {}", part.text),
                _ => parts.insert(0, Part::text(format!("{name}:"))),
            }
            Content::from(parts)
        }
    };
    Some(copy.into())
}
