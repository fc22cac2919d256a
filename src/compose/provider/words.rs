//! Blank texts, which some providers refuse.

use crate::message::{
    AiMessage, AiPart, Body, Content, Message, Part, TextPart, ToolMessage, UserMessage,
};
use crate::provider::{Blank, Rules};

/// The text in the place of a blank user message. The wire formats say the same.
const EMPTY: &str = "(empty message)";
/// The text in the place of a blank tool result.
const NO_OUTPUT: &str = "(no output)";

/// A message as it is sent where blank text is refused.
pub(super) enum Worded {
    /// As it was.
    Fine,
    /// A placeholder: the message is blank and can't be left out.
    Silent(Message),
    /// Without its blank parts; it has others.
    WithoutBlanks(Message),
    /// Without the reasoning at its end.
    WithoutReasoning(Message),
    /// Left out, for it says nothing.
    Nothing,
}

pub(super) fn worded(message: &Message, rules: Rules) -> Worded {
    match (message, rules.blank) {
        (Message::User(user), Some(blank)) => {
            let (content, silent) = match said(&user.content, blank) {
                Said::All => return Worded::Fine,
                Said::Something(content) => (content, false),
                Said::Nothing => (Content::Text(EMPTY.to_owned()), true),
            };
            let copy = Message::User(UserMessage { content, rare: user.rare.clone() });
            if silent { Worded::Silent(copy) } else { Worded::WithoutBlanks(copy) }
        }
        (Message::Tool(tool), Some(blank)) => {
            let (content, silent) = match said(&tool.content, blank) {
                Said::All => return Worded::Fine,
                Said::Something(content) => (content, false),
                Said::Nothing => (Content::Text(NO_OUTPUT.to_owned()), true),
            };
            let copy = Message::Tool(ToolMessage { content, answer: tool.answer.clone() });
            if silent { Worded::Silent(copy) } else { Worded::WithoutBlanks(copy) }
        }
        (Message::Ai(ai), _) => answered(ai, rules),
        _ => Worded::Fine,
    }
}

/// Returns whether an answer is left out, for it says nothing.
pub(in crate::compose) fn says_nothing(message: &Message, rules: Rules) -> bool {
    matches!(worded(message, rules), Worded::Nothing)
}

/// The part of a content that is not blank.
enum Said {
    All,
    Something(Content),
    Nothing,
}

fn said(content: &Content, blank: Blank) -> Said {
    match content {
        Content::Text(text) if blank.is(text) => Said::Nothing,
        Content::Text(_) => Said::All,
        Content::Parts(parts) => {
            let kept = || parts.iter().filter(|part| !is_blank(part, blank));
            match kept().count() {
                0 => Said::Nothing,
                n if n == parts.len() => Said::All,
                _ => Said::Something(Content::Parts(kept().cloned().collect())),
            }
        }
    }
}

fn answered(ai: &AiMessage, rules: Rules) -> Worded {
    let parts = match &ai.body {
        Body::Text(text) if rules.blank.is_some_and(|blank| blank.is(text)) => {
            return Worded::Nothing;
        }
        Body::Text(_) => return Worded::Fine,
        Body::Parts(parts) => parts,
    };
    let is_kept = |part: &&AiPart| match (part, rules.blank) {
        (AiPart::Content(part), Some(blank)) => !is_blank(part, blank),
        _ => true,
    };
    let mut kept: Vec<&AiPart> = parts.iter().filter(is_kept).collect();
    let is_thought = |part: &&AiPart| matches!(part, AiPart::Reasoning(_));
    if rules.blank.is_some() && kept.iter().all(is_thought) {
        return Worded::Nothing;
    }
    let blanks = kept.len() < parts.len();
    let behind = kept.iter().rev().take_while(|part| is_thought(part)).count();
    let cut = !rules.ends_in_reasoning && behind > 0;
    if cut {
        kept.truncate(kept.len() - behind);
    }
    if kept.is_empty() {
        return Worded::Nothing;
    }
    if !blanks && !cut {
        return Worded::Fine;
    }
    let body = Body::normal(kept.into_iter().cloned().collect());
    let copy = Message::Ai(AiMessage { body, rare: ai.rare.clone() });
    if cut { Worded::WithoutReasoning(copy) } else { Worded::WithoutBlanks(copy) }
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
