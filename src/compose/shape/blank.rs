//! Blank texts, which some providers refuse.

use crate::message::{
    AiMessage, AiPart, Body, Content, EMPTY_MESSAGE, Message, NO_OUTPUT, Part, TextPart,
};
use crate::prompt::{Adaptation, Item, Origin};
use crate::provider::{Blank, Row, has_fields, outgoing, without_foreign_parts};

/// The result of the check for blank text.
pub(super) enum Checked {
    /// Unchanged.
    Fine,
    /// With a placeholder as its text: the message is blank and can't be left out.
    Placeholder(Message),
    /// Without its blank parts, or without the reasoning at its end; other parts are left.
    Without(Message, Adaptation),
    /// Left out, since it says nothing.
    Nothing,
}

pub(super) fn checked(message: &Message, rules: &Row) -> Checked {
    let blank = rules.blank;
    match message {
        Message::User(user) if blank != Blank::Never => {
            checked_content(message, &user.content, blank, EMPTY_MESSAGE)
        }
        Message::Tool(tool) if blank != Blank::Never => {
            checked_content(message, &tool.content, blank, NO_OUTPUT)
        }
        Message::Ai(ai) => checked_answer(ai, rules),
        Message::System(late) if blank.is(late.text()) => {
            let sent = outgoing(message, rules);
            let sent = sent.as_ref().map_or(message, |(sent, _)| sent);
            if has_fields(sent, rules) { Checked::Fine } else { Checked::Nothing }
        }
        _ => Checked::Fine,
    }
}

/// Returns whether an answer says nothing, and is left out.
pub(in crate::compose) fn says_nothing(message: &Message, rules: &Row) -> bool {
    let is_nothing = |message: &Message| matches!(checked(message, rules), Checked::Nothing);
    let owned = message.as_ai().and_then(|ai| without_foreign_parts(ai, rules));
    owned.map_or_else(|| is_nothing(message), |it| is_empty(&it) || is_nothing(&it.into()))
}

/// Returns whether an answer has neither content nor calls.
pub(super) fn is_empty(ai: &AiMessage) -> bool {
    ai.as_text() == Some("")
}

/// Returns whether this is the placeholder for a blank message of the user.
pub(super) fn is_placeholder(item: &Item<'_>) -> bool {
    let message = item.message();
    matches!(item.origin(), Origin::Adapted(_))
        && message.is_user()
        && message.texts().eq([EMPTY_MESSAGE])
}

/// Returns the answer without white space at its end; `None` if there is none, or if the answer has
/// calls.
pub(super) fn trimmed(message: &Message) -> Option<Message> {
    let ai = message.as_ai().filter(|ai| !ai.has_tool_calls())?;
    let body = match &ai.body {
        // A text of white space alone counts as blank from here on.
        Body::Text(text) if text.ends_with(char::is_whitespace) => {
            Body::Text(text.trim_end().to_owned())
        }
        Body::Text(_) => return None,
        Body::Parts(parts) => {
            // Blank texts at the end are left out.
            let says = |part: &AiPart| match part {
                AiPart::Content(part) => part.as_text().is_none_or(|it| !it.trim().is_empty()),
                _ => false,
            };
            let at = parts.iter().rposition(says)?;
            let AiPart::Content(Part::Text(last)) = parts.get(at)? else { return None };
            let end = last.text.trim_end();
            if end.len() == last.text.len() {
                return None;
            }
            let cut = TextPart { text: end.to_owned(), extra: last.extra.clone() };
            let mut parts = parts.to_vec();
            *parts.get_mut(at)? = AiPart::Content(Part::Text(cut));
            Body::normal(parts)
        }
    };
    Some(AiMessage { body, details: ai.details.clone() }.into())
}

fn checked_content(message: &Message, content: &Content, blank: Blank, instead: &str) -> Checked {
    let kept: Vec<&Part> = match content {
        Content::Text(text) if blank.is(text) => Vec::new(),
        Content::Text(_) => return Checked::Fine,
        Content::Parts(parts) => {
            let kept: Vec<_> = parts.iter().filter(|part| !is_blank(part, blank)).collect();
            if !kept.is_empty() && kept.len() == parts.len() {
                return Checked::Fine;
            }
            kept
        }
    };
    if kept.is_empty() {
        return Checked::Placeholder(message.with_content(Content::Text(instead.to_owned())));
    }
    let kept = Content::Parts(kept.into_iter().cloned().collect());
    Checked::Without(message.with_content(kept), Adaptation::Blank)
}

fn checked_answer(ai: &AiMessage, rules: &Row) -> Checked {
    let parts = match &ai.body {
        Body::Text(text) if rules.blank.is(text) => return Checked::Nothing,
        Body::Text(_) => return Checked::Fine,
        Body::Parts(parts) => parts,
    };
    let is_kept = |part: &&AiPart| match part {
        AiPart::Content(part) => !is_blank(part, rules.blank),
        _ => true,
    };
    let mut kept: Vec<&AiPart> = parts.iter().filter(is_kept).collect();
    let is_thought = |part: &&AiPart| matches!(part, AiPart::Reasoning(_));
    if rules.blank != Blank::Never && kept.iter().all(is_thought) {
        return Checked::Nothing;
    }
    let mut how = (kept.len() < parts.len()).then_some(Adaptation::Blank);
    let thoughts = kept.iter().rev().take_while(|part| is_thought(part)).count();
    if !rules.ends_in_reasoning && thoughts > 0 {
        kept.truncate(kept.len() - thoughts);
        how = Some(Adaptation::Reasoning);
    }
    match how {
        _ if kept.is_empty() => Checked::Nothing,
        None => Checked::Fine,
        Some(how) => {
            let left = ai.with_other_parts(kept.into_iter().cloned().collect());
            Checked::Without(left.into(), how)
        }
    }
}

fn is_blank(part: &Part, blank: Blank) -> bool {
    match part {
        // An empty text may have a signature in its other fields, which the provider wants back.
        Part::Text(TextPart { text, extra }) => {
            blank.is(text) && (extra.is_empty() || blank == Blank::White)
        }
        _ => false,
    }
}
