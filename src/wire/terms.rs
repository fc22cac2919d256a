//! The terms on which a view sends messages: whose private fields, and names in the text.

use super::common::Sequence;
use crate::composed::Prompt;
use crate::message::{Content, Message, Part};
use crate::provider::{Provider, Row, outgoing};

/// The terms on which a view sends messages.
#[derive(Clone, Copy, Debug)]
pub(super) struct Terms {
    pub(super) row: Row,
    /// Whether every private field is written, whoever sent it.
    pub(super) verbatim: bool,
    /// Whether the name of who speaks stands in the text.
    pub(super) names_in_text: bool,
}

impl Terms {
    /// The terms of the provider after which the format is called: for messages of which nobody said
    /// for whom they are.
    pub(super) fn of(format: Provider) -> Self {
        // A server that speaks the format but does not sign gets back what it sent.
        let mut row = format.row();
        row.signed_reasoning = false;
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

    /// Returns copies of the messages that are not sent as they are, each with its place; mostly none.
    pub(super) fn changed(&self, messages: &Sequence<'_>) -> Vec<(usize, Message)> {
        let mut changed = Vec::new();
        for (i, message) in messages.iter().enumerate() {
            let left = if self.verbatim { None } else { outgoing(message, &self.row) };
            let named =
                if self.names_in_text { named(left.as_ref().unwrap_or(message)) } else { None };
            changed.extend(named.or(left).map(|message| (i, message)));
        }
        changed
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
