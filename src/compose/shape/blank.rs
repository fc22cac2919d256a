//! Blank texts, which some providers refuse.

use crate::composed::How;
use crate::message::{
    AiMessage, AiPart, Body, Content, Message, Part, TextPart, ToolMessage, UserMessage,
};
use crate::provider::{Blank, Rules};

/// The text in the place of a blank user message. The wire formats say the same.
const EMPTY: &str = "(empty message)";
/// The text in the place of a blank tool result.
const NO_OUTPUT: &str = "(no output)";

/// A message as it is sent where blank text is refused.
pub(super) enum Checked {
    /// As it was.
    Fine,
    /// With a placeholder for its text: the message is blank and can't be left out.
    Placeholder(Message),
    /// Without its blank parts, or without the reasoning at its end; it has others.
    Without(Message, How),
    /// Left out, for it says nothing.
    Nothing,
}

pub(super) fn checked(message: &Message, rules: Rules) -> Checked {
    match (message, rules.blank) {
        (Message::User(user), Some(blank)) => {
            checked_content(&user.content, blank, EMPTY, |content| {
                Message::User(UserMessage { content, details: user.details.clone() })
            })
        }
        (Message::Tool(tool), Some(blank)) => {
            checked_content(&tool.content, blank, NO_OUTPUT, |content| {
                Message::Tool(ToolMessage { content, answer: tool.answer.clone() })
            })
        }
        (Message::Ai(ai), _) => checked_answer(ai, rules),
        _ => Checked::Fine,
    }
}

/// Returns whether an answer is left out, for it says nothing.
pub(in crate::compose) fn says_nothing(message: &Message, rules: Rules) -> bool {
    matches!(checked(message, rules), Checked::Nothing)
}

fn checked_content(
    content: &Content,
    blank: Blank,
    placeholder: &str,
    message: impl FnOnce(Content) -> Message,
) -> Checked {
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
        return Checked::Placeholder(message(Content::Text(placeholder.to_owned())));
    }
    let kept = Content::Parts(kept.into_iter().cloned().collect());
    Checked::Without(message(kept), How::Blank)
}

fn checked_answer(ai: &AiMessage, rules: Rules) -> Checked {
    let parts = match &ai.body {
        Body::Text(text) if rules.blank.is_some_and(|blank| blank.is(text)) => {
            return Checked::Nothing;
        }
        Body::Text(_) => return Checked::Fine,
        Body::Parts(parts) => parts,
    };
    let is_kept = |part: &&AiPart| match (part, rules.blank) {
        (AiPart::Content(part), Some(blank)) => !is_blank(part, blank),
        _ => true,
    };
    let mut kept: Vec<&AiPart> = parts.iter().filter(is_kept).collect();
    let is_thought = |part: &&AiPart| matches!(part, AiPart::Reasoning(_));
    if rules.blank.is_some() && kept.iter().all(is_thought) {
        return Checked::Nothing;
    }
    let mut how = (kept.len() < parts.len()).then_some(How::Blank);
    let thoughts = kept.iter().rev().take_while(|part| is_thought(part)).count();
    if !rules.ends_in_reasoning && thoughts > 0 {
        kept.truncate(kept.len() - thoughts);
        how = Some(How::Reasoning);
    }
    match how {
        _ if kept.is_empty() => Checked::Nothing,
        None => Checked::Fine,
        Some(how) => {
            let body = Body::normal(kept.into_iter().cloned().collect());
            Checked::Without(Message::Ai(AiMessage { body, details: ai.details.clone() }), how)
        }
    }
}

fn is_blank(part: &Part, blank: Blank) -> bool {
    match part {
        // The other fields of an empty text may hold a signature, which the provider wants back.
        Part::Text(TextPart { text, extra }) => {
            blank.is(text) && (extra.is_empty() || blank == Blank::White)
        }
        _ => false,
    }
}

impl Blank {
    fn is(self, text: &str) -> bool {
        match self {
            Self::Empty => text.is_empty(),
            Self::White => text.trim().is_empty(),
        }
    }
}
