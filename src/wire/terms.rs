//! The terms on which a view sends messages: which private fields, and where the names go.

use std::borrow::Cow;

use serde_json::Value;

use super::borrowed::{BorrowedValue, Object};
use super::common::{Sequence, kind};
use super::losses::{ARGUMENTS, Loss, Losses, REASONING, Weight};
use super::media::loses_detail;
use crate::message::{AiMessage, AiPart, Content, Message, Part, Reasoning, ToolCall, UserMessage};
use crate::prompt::Prompt;
use crate::provider::{
    Provider, Row, is_emptied, may_be_private, outgoing, outgoing_past, without_refused,
};

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
        let named = named.filter(|row| row.format == format.format());
        let own = Self::of(format);
        Self { row: named.unwrap_or(own.row), ..own }
    }

    /// Returns the messages as they are sent, without those that become empty, and notes these
    /// losses. `refused` names reasoning that a strict view refuses to lose.
    pub(super) fn sent<'m>(
        &self,
        messages: &Sequence<'m>,
        refused: fn(&Reasoning) -> Option<&'static str>,
        losses: &'m Losses,
    ) -> Vec<Sent<'m>> {
        let running = messages.turn(usize::MAX);
        let sent = |(index, message): (usize, &'m Message)| {
            let sent = Sent::whole(index, message, losses);
            if matches!(message, Message::Custom(_)) {
                sent.refuse_all("a custom message");
                return None;
            }
            let names = self.row.names || self.names_in_text;
            if !names && message.as_user().is_some_and(|user| user.speaker().is_some()) {
                sent.note(None, "the name of the user", Weight::Noted);
            }
            self.note_details(&sent);
            let as_it_is = !self.names_in_text && (self.verbatim || !may_be_private(message));
            if as_it_is { Some(sent) } else { self.changed(sent, index < running, refused) }
        };
        let all = messages.iter().enumerate();
        // A filter does not say that nearly all are sent.
        let mut list = Vec::with_capacity(all.len());
        list.extend(all.filter_map(sent));
        list
    }

    fn changed<'m>(
        &self,
        mut sent: Sent<'m>,
        is_past: bool,
        refused: fn(&Reasoning) -> Option<&'static str>,
    ) -> Option<Sent<'m>> {
        if !self.verbatim {
            let outgoing = if is_past { outgoing_past } else { outgoing };
            if let Some((left, places)) = outgoing(&sent.message, &self.row) {
                let parts = sent.message.as_ai().map_or(&[][..], AiMessage::parts);
                let is_left = |i| places.as_ref().is_none_or(|left| left.contains(&i));
                let lost = parts.iter().enumerate().filter(|(i, _)| !is_left(*i));
                lost.for_each(|(i, part)| sent.note_lost(i, part, refused));
                if is_emptied(&sent.message, &left) {
                    return None;
                }
                (sent.message, sent.places) = (Cow::Owned(left), places);
            }
            let note = |i, part: &Part| sent.refuse(i, part);
            if let Some(copy) = without_refused(&sent.message, &self.row, note) {
                sent.message = Cow::Owned(copy);
            }
        }
        if self.names_in_text
            && let Some((copy, is_in_front)) =
                sent.message.as_user().and_then(UserMessage::with_name_in_text)
        {
            sent.message = Cow::Owned(copy.into());
            sent.ahead = usize::from(is_in_front);
        }
        Some(sent)
    }

    /// Notes each picture whose detail level can't be sent to the provider.
    fn note_details(&self, sent: &Sent<'_>) {
        let message = &*sent.message;
        let parts = message.content().map_or(&[][..], Content::parts).iter().enumerate();
        for (i, _) in parts.filter(|(_, part)| loses_detail(part, message.is_tool(), &self.row)) {
            sent.note(Some(i), "the detail of an image", Weight::Noted);
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
    /// Where its losses are noted, shared by all messages that are sent.
    losses: &'m Losses,
}

impl<'m> Sent<'m> {
    pub(super) fn whole(index: usize, message: &'m Message, losses: &'m Losses) -> Self {
        Self { index, message: Cow::Borrowed(message), places: None, ahead: 0, losses }
    }

    pub(super) fn note(&self, part: Option<usize>, what: &'static str, weight: Weight) {
        self.losses.note(Loss { message: self.index, part, what }, weight);
    }

    pub(super) fn lose(&self, i: usize, what: &'static str, weight: Weight) {
        let place = self.places.as_ref().and_then(|places| places.get(i).copied());
        self.note(place.or_else(|| Some(i.saturating_sub(self.ahead))), what, weight);
    }

    /// Notes that a part has no place, so that it is left out or replaced by a placeholder.
    pub(super) fn refuse(&self, i: usize, part: &Part) {
        self.lose(i, kind(part), Weight::Refused);
    }

    /// Notes a loss that concerns the message as a whole.
    pub(super) fn refuse_all(&self, what: &'static str) {
        self.note(None, what, Weight::Refused);
    }

    /// Notes that an answer becomes empty. If parts other than texts were left out, those are noted
    /// instead.
    pub(super) fn refuse_empty(&self, ai: &AiMessage) {
        let mut parts = ai.parts().iter().filter_map(AiPart::as_content);
        if parts.all(|part| part.as_text().is_some()) {
            self.refuse_all("an empty answer");
        }
    }

    /// Notes the loss of a part of an answer that the provider does not take back.
    fn note_lost(&self, i: usize, part: &AiPart, refused: fn(&Reasoning) -> Option<&'static str>) {
        let (what, weight) = match part {
            AiPart::Content(part) if part.as_text().is_none() => (kind(part), Weight::Refused),
            AiPart::Reasoning(reasoning) if says_something(reasoning) => match refused(reasoning) {
                Some(what) => (what, Weight::Reasoning),
                None => (REASONING, Weight::Noted),
            },
            _ => return,
        };
        self.note(Some(i), what, weight);
    }

    /// Returns a call's arguments as an object. Other arguments (models do write broken JSON)
    /// become a text in an object.
    pub(super) fn arguments<'s>(&self, i: usize, call: &'s ToolCall) -> BorrowedValue<'s> {
        match serde_json::from_str(&call.arguments) {
            Ok(Value::Object(object)) => BorrowedValue::Value(Value::Object(object)),
            _ if call.arguments.trim().is_empty() => Object::default().into(),
            _ => {
                self.lose(i, ARGUMENTS, Weight::Refused);
                Object::of([("arguments", (&call.arguments).into())]).into()
            }
        }
    }
}

/// Returns whether there is anything to lose.
pub(super) fn says_something(reasoning: &Reasoning) -> bool {
    let Reasoning { text, signature, extra } = reasoning;
    !text.is_empty() || signature.is_some() || !extra.is_empty()
}
