//! The terms on which a view sends messages: which private fields, and where the names go.

use std::borrow::Cow;

use serde_json::Value;

use super::borrowed::{BorrowedValue, Object};
use super::common::{Sequence, kind};
use super::losses::{ARGUMENTS, Losses, REASONING, Weight};
use super::media::{loses_detail, without_refused};
use crate::message::{AiMessage, AiPart, Content, Message, Part, Reasoning, ToolCall};
use crate::prompt::Prompt;
use crate::provider::{Provider, Row, is_emptied, may_be_private, outgoing};

#[derive(Clone, Copy, Debug)]
pub(super) struct Terms {
    pub(super) row: Row,
    /// True if every private field is written, whichever provider gave it.
    pub(super) verbatim: bool,
    /// True if the speaker's name is written in the text.
    pub(super) names_in_text: bool,
}

impl Terms {
    /// Returns the terms of the provider that the format is named after, for messages without a
    /// named provider.
    pub(super) fn of(format: Provider) -> Self {
        // A server with this format that does not sign gets back its own reasoning.
        let mut row = format.row();
        row.signed_reasoning = false;
        row.signed_calls = false;
        Self { row, verbatim: false, names_in_text: false }
    }

    /// Returns the terms of the provider that a prompt is for, if it has this format.
    pub(super) fn for_prompt(prompt: &Prompt, format: Provider) -> Self {
        let named = prompt.report().provider.map(Provider::row);
        match named.filter(|row| row.format == format.format()) {
            Some(row) => Self { row, ..Self::of(format) },
            None => Self::of(format),
        }
    }

    /// Returns the messages as they are sent, without those that become empty, and notes these
    /// losses. `refused` names reasoning that a strict view refuses to lose.
    pub(super) fn sent<'m>(
        &self,
        messages: &Sequence<'m>,
        refused: fn(&Reasoning) -> Option<&'static str>,
        losses: &mut Losses,
    ) -> Vec<Sent<'m>> {
        let sent = |(index, message): (usize, &'m Message)| {
            if matches!(message, Message::Custom(_)) {
                losses.note(index, None, "a custom message", Weight::Refused);
                return None;
            }
            let names = self.row.names || self.names_in_text;
            if !names && user_name(message).is_some() {
                losses.note(index, None, "the name of the user", Weight::Noted);
            }
            let as_it_is = !self.names_in_text && (self.verbatim || !may_be_private(message));
            self.note_details(index, message, losses);
            if as_it_is {
                return Some(Sent::whole(index, message));
            }
            self.changed(index, message, refused, losses)
        };
        messages.iter().enumerate().filter_map(sent).collect()
    }

    fn changed<'m>(
        &self,
        index: usize,
        message: &'m Message,
        refused: fn(&Reasoning) -> Option<&'static str>,
        losses: &mut Losses,
    ) -> Option<Sent<'m>> {
        let mut sent = Sent::whole(index, message);
        if !self.verbatim {
            if let Some((left, places)) = outgoing(message, &self.row) {
                let lost = |(i, part)| note_lost(index, i, part, refused, losses);
                let parts = message.as_ai().map_or(&[][..], AiMessage::parts).iter().enumerate();
                let is_left = |i| places.as_ref().is_none_or(|left| left.contains(&i));
                parts.filter(|(i, _)| !is_left(*i)).for_each(lost);
                if is_emptied(message, &left) {
                    return None;
                }
                (sent.message, sent.places) = (Cow::Owned(left), places);
            }
            let note = |i, part: &Part| losses.note(index, Some(i), kind(part), Weight::Refused);
            if let Some(copy) = without_refused(&sent.message, &self.row, note) {
                sent.message = Cow::Owned(copy);
            }
        }
        if self.names_in_text
            && let Some((copy, is_in_front)) = named(&sent.message)
        {
            sent.message = Cow::Owned(copy);
            sent.ahead = usize::from(is_in_front);
        }
        Some(sent)
    }

    /// Notes each picture whose detail level can't be sent to the provider.
    fn note_details(&self, index: usize, message: &Message, losses: &mut Losses) {
        let parts = message.content().map_or(&[][..], Content::parts).iter().enumerate();
        for (i, _) in parts.filter(|(_, part)| loses_detail(part, message.is_tool(), &self.row)) {
            losses.note(index, Some(i), "the detail of an image", Weight::Noted);
        }
    }
}

#[derive(Debug)]
pub struct Sent<'m> {
    /// Its index among all messages.
    pub(super) index: usize,
    pub(super) message: Cow<'m, Message>,
    /// The indexes of its parts in the whole answer, if some were left out.
    places: Option<Vec<usize>>,
    /// How many parts were added in front.
    ahead: usize,
}

impl<'m> Sent<'m> {
    pub(super) fn whole(index: usize, message: &'m Message) -> Self {
        Self { index, message: Cow::Borrowed(message), places: None, ahead: 0 }
    }

    pub(super) fn lose(&self, i: usize, what: &'static str, weight: Weight, losses: &mut Losses) {
        let place = self.places.as_ref().and_then(|places| places.get(i).copied());
        let place = place.unwrap_or_else(|| i.saturating_sub(self.ahead));
        losses.note(self.index, Some(place), what, weight);
    }

    /// Notes that a part has no place, so that it is left out or replaced by a placeholder.
    pub(super) fn refuse(&self, i: usize, part: &Part, losses: &mut Losses) {
        self.lose(i, kind(part), Weight::Refused, losses);
    }

    /// Notes a loss that concerns the message as a whole.
    pub(super) fn refuse_all(&self, what: &'static str, losses: &mut Losses) {
        losses.note(self.index, None, what, Weight::Refused);
    }

    /// Notes that an answer becomes empty. If parts other than texts were left out, those are noted
    /// instead.
    pub(super) fn refuse_empty(&self, ai: &AiMessage, losses: &mut Losses) {
        let mut parts = ai.parts().iter().filter_map(AiPart::as_content);
        if parts.all(|part| part.as_text().is_some()) {
            self.refuse_all("an empty answer", losses);
        }
    }

    /// Returns a call's arguments as an object. Other arguments (models do write broken JSON)
    /// become a text in an object.
    pub(super) fn arguments<'s>(
        &self,
        i: usize,
        call: &'s ToolCall,
        losses: &mut Losses,
    ) -> BorrowedValue<'s> {
        match serde_json::from_str(&call.arguments) {
            Ok(Value::Object(object)) => BorrowedValue::Value(Value::Object(object)),
            _ if call.arguments.trim().is_empty() => Object::default().into(),
            _ => {
                self.lose(i, ARGUMENTS, Weight::Refused, losses);
                Object::of([("arguments", (&call.arguments).into())]).into()
            }
        }
    }
}

/// Notes the loss of a part of an answer that the provider does not take back.
fn note_lost(
    index: usize,
    i: usize,
    part: &AiPart,
    refused: fn(&Reasoning) -> Option<&'static str>,
    losses: &mut Losses,
) {
    let (what, weight) = match part {
        AiPart::Content(part) if part.as_text().is_none() => (kind(part), Weight::Refused),
        AiPart::Reasoning(reasoning) if says_something(reasoning) => match refused(reasoning) {
            Some(what) => (what, Weight::Reasoning),
            None => (REASONING, Weight::Noted),
        },
        _ => return,
    };
    losses.note(index, Some(i), what, weight);
}

/// Returns whether there is anything to lose.
pub(super) fn says_something(reasoning: &Reasoning) -> bool {
    let Reasoning { text, signature, extra } = reasoning;
    !text.is_empty() || signature.is_some() || !extra.is_empty()
}

fn user_name(message: &Message) -> Option<&str> {
    let Message::User(user) = message else { return None };
    user.name().filter(|name| !name.is_empty())
}

/// Returns the message with the user's name at its beginning, and `true` if that added a part.
fn named(message: &Message) -> Option<(Message, bool)> {
    let Message::User(user) = message else { return None };
    let name = user_name(message)?;
    let mut copy = user.clone();
    let mut is_in_front = false;
    copy.content = match user.content() {
        Content::Text(text) => Content::Text(format!("{name}: {text}")),
        Content::Parts(parts) => {
            let at = parts.iter().position(|part| part.as_text().is_some());
            let mut parts = parts.to_vec();
            if let Some(Part::Text(part)) = at.and_then(|at| parts.get_mut(at)) {
                part.text = format!("{name}: {}", part.text);
            } else {
                is_in_front = true;
                parts.insert(0, Part::text(format!("{name}:")));
            }
            Content::from(parts)
        }
    };
    Some((copy.into(), is_in_front))
}
