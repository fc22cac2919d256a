//! The check for messages that could not be written as JSON, or not be read again.
//!
//! JSON has one name for each field, and keeps unknown fields next to the known ones. So an unknown
//! field must not have the name of a known one. No JSON reader makes such a part, but damaged bytes
//! of a compact format can say anything, and one such part would make every prompt that holds it
//! unwritable.

use crate::message::ai::Body;
use crate::message::attributes::{Attributes, bounded};
use crate::message::details::unknown;
use crate::message::fields::{CALL, MEDIA, REASONING, TEXT, fields_of, is_known};
use crate::message::other::AI_PARTS;
use crate::message::{
    AiMessage, AiPart, Content, CustomMessage, Media, Message, Part, Reasoning, SystemMessage,
    ToolCall, ToolMessage, UserMessage,
};

/// A check of values that were read from a compact format: it refuses one that can't be written as
/// JSON, and says why. Its parts were checked before.
pub(in crate::message) trait Check {
    fn check(&self) -> Result<(), String>;
}

macro_rules! check {
    ($($type:ident: |$it:ident| $check:expr;)*) => {$(
        impl Check for $type {
            fn check(&self) -> Result<(), String> {
                let $it = self;
                $check
            }
        }
    )*};
}

check! {
    Message: |_it| Ok(());
    Content: |_it| Ok(());
    SystemMessage: |it| free(unknown(&it.details), Some("role"), fields_of("system"));
    UserMessage: |it| free(unknown(&it.details), Some("role"), fields_of("user"));
    AiMessage: |it| {
        free(unknown(&it.details), Some("role"), fields_of("assistant"))?;
        // Reasoning and calls among parts of other kinds have a `type` already.
        let Body::Parts(parts) = &it.body else { return Ok(()) };
        Order::of(parts).between.iter().try_for_each(untyped)
    };
    ToolMessage: |it| free(unknown(&it.answer.details), Some("role"), fields_of("tool"));
    CustomMessage: |it| {
        role(it)?;
        free(it.fields(), Some("role"), beside(it.role(), it.attributes()))
    };
    Part: |it| match it {
        Part::Text(text) => free(&text.extra, Some("type"), &TEXT),
        Part::Image(media) | Part::Audio(media) | Part::Video(media) | Part::File(media) => {
            free(&media.extra, Some("type"), &[])
        }
        Part::Other(_) => Ok(()),
    };
    AiPart: |it| match it {
        AiPart::Content(Part::Other(part)) => part.may_stand_among(&AI_PARTS),
        _ => Ok(()),
    };
    Media: |it| free(&it.extra, None, &MEDIA);
    Reasoning: |it| free(&it.extra, None, &REASONING);
    ToolCall: |it| free(&it.extra, None, &CALL);
}

/// Refuses a custom message of a role that is known.
pub(super) fn role(message: &CustomMessage) -> Result<(), String> {
    let role = message.role();
    if is_known(role) {
        return Err(format!("message: `{role}` is the role of a known message"));
    }
    Ok(())
}

/// Returns the names that are taken in a custom message, apart from the attributes.
pub(super) fn beside(role: &str, attributes: &Attributes) -> &'static [&'static str] {
    if role != "custom" && attributes.is_empty() {
        &[] // a role that nobody knows may use the name for something else
    } else {
        fields_of(role)
    }
}

/// Refuses extra fields of a name that has a meaning.
pub(super) fn free(extra: &Attributes, tag: Option<&str>, taken: &[&str]) -> Result<(), String> {
    if extra.is_empty() {
        return Ok(());
    }
    bounded(extra)?;
    match taken.iter().chain(&tag).find(|name| extra.contains_key(**name)) {
        Some(name) => Err(format!("the field `{name}` stands among the extra fields too")),
        None => Ok(()),
    }
}

/// The parts of an answer in three runs: reasoning before everything else, calls after everything
/// else, and the rest.
pub(super) struct Order<'a> {
    pub(super) reasoning: &'a [AiPart],
    pub(super) between: &'a [AiPart],
    pub(super) calls: &'a [AiPart],
}

impl<'a> Order<'a> {
    pub(super) fn of(parts: &'a [AiPart]) -> Self {
        let is_call = |part: &&AiPart| matches!(part, AiPart::ToolCall(_));
        let is_thought = |part: &&AiPart| matches!(part, AiPart::Reasoning(_));
        let calls = parts.iter().rev().take_while(is_call).count();
        let (before, calls) = parts.split_at(parts.len() - calls);
        let reasoning = before.iter().take_while(is_thought).count();
        let (reasoning, between) = before.split_at(reasoning);
        Self { reasoning, between, calls }
    }

    /// Returns whether each kind has a field of its own.
    pub(super) fn is_plain(&self) -> bool {
        self.between.iter().all(|part| matches!(part, AiPart::Content(_)))
    }

    /// Returns whether some part has a `type` of its own, so that it can only be where none is
    /// needed.
    pub(super) fn has_types(&self) -> bool {
        self.reasoning.iter().chain(self.calls).any(|part| untyped(part).is_err())
    }
}

/// Refuses reasoning and calls that have a `type` of their own.
fn untyped(part: &AiPart) -> Result<(), String> {
    match part {
        AiPart::Reasoning(Reasoning { extra, .. }) | AiPart::ToolCall(ToolCall { extra, .. }) => {
            free(extra, Some("type"), &[])
        }
        AiPart::Content(_) => Ok(()),
    }
}
